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


WORDS = " ".join(PAGE.split())


@pytest.mark.parametrize(
    "said",
    [
        "Bengio et al., 2003",  # random word features
        "no rule by which a width would choose the scale",
        "zero-centered gradients of one variance, independent of the weights",  # the backward assumption
        "how a seed becomes weights, which names a parameter may have, in which order",  # no paper defines them
        "design of ours",
        "covers not every way a process can end",  # only errors that are raised
        "No other scale holds either",  # gelu
        "True of the models that are named with it",  # residual streams behind a norm
        "--widths 1024,256",
        "784 (measured",  # the variance of N(0, 1) weights, beside its loss
    ],
)
def test_the_page_states_what_the_source_texts_state(said):
    """A fact of the three texts that the lesson leaves out is missed by no other test."""
    assert said in WORDS
