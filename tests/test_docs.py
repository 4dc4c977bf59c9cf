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


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_test_named_exists(page):
    """A promise that names the test that holds it, and the test is gone."""
    for name in re.findall(r"`(tests/[^`\s]+)`", page.read_text()):
        assert list(ROOT.glob(name)), name


def listed():
    """The files of the architecture's tree; ``name.h .c`` stands for both."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    tree = page.split("## The tree", 1)[1].split("```")[1]
    folders, found, path = {}, set(), ROOT
    for line in filter(None, tree.splitlines()):
        depth = (len(line) - len(line.lstrip())) // 2
        parent = folders[depth - 1] if depth else ROOT
        for word in re.split(r"  +", line.strip())[0].split():
            if word.endswith("/"):
                folders[depth] = parent / word
                continue
            path = path.with_suffix(word) if word.startswith(".") else parent / word
            parent = path.parent
            found.add(path)
    return found


def test_the_architecture_lists_every_source_file_and_no_other():
    """A tree that shows yesterday's house."""
    sources = {
        path
        for folder, patterns in (
            ("fastinit", ("*.py", "*.pyi", "*.pyx", "*.css", "*.js")),
            ("csrc", ("*.c", "*.h")),
        )
        for pattern in patterns
        for path in (ROOT / folder).rglob(pattern)
    }
    assumed = {path for path in sources if path.stem == "__init__" and path.parent.name != "fastinit"}
    assumed |= {path for path in sources if path.stem.endswith("_views")}
    assert {path for path in listed() if "*" not in path.name} == sources - assumed


def test_every_room_is_on_the_map():
    rooms = {path.parent for path in (ROOT / "fastinit").rglob("__init__.py")}
    text = (ROOT / "README.md").read_text()
    assert [room for room in rooms if f"| `{room.relative_to(ROOT)}/` |" not in text] == []


def test_the_contract_has_every_rule_once():
    text = (ROOT / "docs" / "contract.md").read_text()
    assert [int(rule) for rule in re.findall(r"^\*\*C(\d+)\. ", text, re.MULTILINE)] == list(range(1, 24))
