"""The documents: links that lead somewhere, files and commands that exist."""

import re

import pytest
from conftest import ROOT

from fastinit.cli.main import COMMANDS

OTHERS = ("README.md", "bench/README.md", "csrc/README.md")
PAGES = [*(ROOT / name for name in OTHERS), *sorted((ROOT / "docs").glob("*.md"))]
IDS = [str(path.relative_to(ROOT)) for path in PAGES]


def anchors(page):
    """The anchors that a reader's site makes of the titles."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_link_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        if not path.startswith("https://"):
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_command_named_exists(page):
    """Of the command line (`fastinit verify FILE`), not of Python (`fastinit.xavier_uniform`)."""
    named = set(re.findall(r"(?:`|\$ )fastinit ([a-z]+)", page.read_text()))
    assert named <= COMMANDS.keys()


def test_the_files_of_the_architecture_exist():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `([a-z_/]+)/` \| (.*) \|$", page, re.MULTILINE)
    missing = [
        f"{folder}/{name}"
        for folder, text in rows
        for name in re.findall(r"`([\w/]+(?:\.\w+|/))`", text)
        if not (ROOT / folder / name).exists()
    ]
    assert len(rows) > 10
    assert missing == []


def test_every_room_is_on_the_maps():
    rooms = {path.parent for path in (ROOT / "fastinit").rglob("__init__.py")}
    for page in ("README.md", "docs/architecture.md"):
        text = (ROOT / page).read_text()
        assert [room for room in rooms if f"| `{room.relative_to(ROOT)}/` |" not in text] == []


def test_the_contract_has_every_rule_once():
    text = (ROOT / "docs" / "contract.md").read_text()
    assert [int(rule) for rule in re.findall(r"^\*\*C(\d+)\. ", text, re.MULTILINE)] == list(range(1, 23))
