"""The lesson page: every command must print the text that stands under it."""

import doctest
import re
import shlex

import pytest
from conftest import ROOT

from fastinit.cli import main as cli

PAGE = (ROOT / "docs" / "lessons.md").read_text()
SHOWN = re.findall(r"^\$ fastinit (.*)\n((?:(?!\$ |```).*\n)*)", PAGE, re.MULTILINE)
"""(arguments, expected output) of every command in the page."""


@pytest.mark.parametrize(("arguments", "printed"), SHOWN, ids=[arguments for arguments, _ in SHOWN])
def test_every_command_prints_what_the_page_shows(monkeypatch, tmp_path, capsys, arguments, printed):
    monkeypatch.chdir(tmp_path)
    assert cli.main(shlex.split(arguments)) == 0
    out = capsys.readouterr().out
    assert doctest.OutputChecker().check_output(printed, out, doctest.ELLIPSIS), out


def test_every_command_of_the_page_is_run():
    assert len(SHOWN) == PAGE.count("$ fastinit") > 0


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`fastinit ([a-z]+)", PAGE))))
def test_every_command_the_page_names_exists(capsys, command):
    assert cli.main([command, "--help"]) == 0
    assert f"fastinit {command}" in capsys.readouterr().out


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", PAGE))))
def test_every_link_leads_somewhere(link):
    path, _, anchor = link.partition("#")
    titles = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert (ROOT / "docs" / path).exists()
    assert not anchor or anchor in anchors
