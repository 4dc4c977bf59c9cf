"""Untrusted text: what a stranger wrote into a file is shown, and never obeyed, at every door out of fastinit."""

import json
import sys
import unicodedata

import html5lib
import pytest
from conftest import ROOT, run, safetensors_bytes

import fastinit
from fastinit import CheckpointError, Plan, PlanError
from fastinit.diagnosis import diagnose
from fastinit.views import page as html
from fastinit.views.page import Heading
from fastinit.views.table import Table

HOSTILE = ROOT / "tests" / "hostile"
ESCAPES = HOSTILE / "escapes.safetensors"
"""Three names with bidirectional controls and U+FFFE; a policy and an initializer that clear the screen."""
INDEX = HOSTILE / "escapes.safetensors.index.json"
"""An index whose shard's name sets the terminal's title and clears the screen."""
TEXT = "a\x1b[2J\x07\r\x7f\x9b\u202e\u2066\u200f\u2028\ufffe\ud800b"
SHOWN = r"a\x1b[2J\x07\r\x7f\x9b\u202e\u2066\u200f\u2028\ufffe\ud800b"


def obeyed(text):
    """The characters that a terminal or a browser would act on instead of showing them."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Cn")} - {"\n"}


COMMANDS = [
    (("verify", ESCAPES), 0),
    (("verify", ESCAPES, "--seed", 17), 1),
    (("verify", ESCAPES, "--policy", "xavier"), 1),
    (("show", ESCAPES), 0),
    (("diagnose", ESCAPES), 0),
    (("diagnose", ESCAPES, "--seed", 17), 1),
    (("diagnose", INDEX), 2),
    (("show", TEXT), 2),
    (("scale", 2, TEXT), 2),
    ((TEXT,), 2),
]


@pytest.mark.parametrize(("arguments", "expected"), COMMANDS, ids=range(len(COMMANDS)))
def test_no_command_sends_a_strangers_control_characters_to_the_terminal(capsys, arguments, expected):
    r"""`verify` of a file from the internet that clears the screen and prints "verified" in its place."""
    status, out, err = run(capsys, *arguments)
    assert status == expected, err
    assert obeyed(out + err) == set()


@pytest.mark.parametrize("command", ["verify", "diagnose", "show"])
def test_json_output_stays_json_and_carries_the_names_unchanged(capsys, command):
    """A program that reads names out of the JSON and looks them up in the file must find them."""
    status, out, _ = run(capsys, command, ESCAPES, "--json")
    assert status == 0
    assert obeyed(out) == set()
    facts = json.loads(out)
    names = {
        "verify": lambda: [facts["policy"]],
        "diagnose": lambda: [tensor["name"] for tensor in facts["tensors"]],
        "show": lambda: list(facts["tensors"]),
    }[command]()
    assert "\u202e" in "".join(names)


def test_the_progress_line_shows_a_name_and_obeys_none(capsys, monkeypatch):
    """It is rewritten in place, so a name that moves the cursor writes over the whole screen."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    _, _, err = run(capsys, "verify", ESCAPES)
    assert r"layer.\u202eevil.weight" in err
    assert obeyed(err.replace("\r\x1b[K", "")) == set()


@pytest.mark.parametrize("kind", [CheckpointError, PlanError, fastinit.TensorError, fastinit.FastinitError])
def test_an_error_shows_what_it_quotes(kind):
    """A traceback, a log and `print(error)` reach a terminal too; the facts stay what they were."""
    error = kind(TEXT)
    assert str(error) == SHOWN
    assert error.args == (TEXT,)


def test_a_shards_name_is_escaped_in_the_error_of_a_program(tmp_path):
    """An index is anyone's text, and its shards' names become paths in sentences."""
    with pytest.raises(CheckpointError) as caught:
        diagnose(INDEX)
    assert r"shard\x1b]0;owned\x07" in str(caught.value)
    assert obeyed(str(caught.value)) == set()


def test_a_policy_in_metadata_is_escaped_where_a_plan_is_printed():
    """A policy is a rule's name where `Plan.from_specs` made the plan, and any text where a file did."""
    text = json.dumps(
        {"version": 1, "seed": 17, "policy": TEXT.replace("\ud800", ""), "order": "named", "tensors": {}}
    )
    plan = Plan.from_json(text)
    assert obeyed(str(plan) + repr(plan) + plan._repr_html_()) == set()
    assert Plan.from_json(plan.to_json()).policy == plan.policy, "escaping is for eyes; the data stays"


def test_tables_and_pages_show_it_and_do_not_obey_it():
    """U+202E in a page shows `exe.weights` as another name; a control character makes it no HTML at all."""
    table = Table(TEXT, (TEXT,), ((TEXT,),))
    assert obeyed("".join(table.lines()[1:])) == set()
    page = html.page(TEXT, [Heading(TEXT), Heading("b"), TEXT, table])
    assert obeyed(page) == set()
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    for place in ("head/title", ".//h1", ".//h2", ".//nav//a", ".//p", ".//caption", ".//th", ".//td"):
        assert tree.findtext(place) == SHOWN, place


def test_a_drawing_shows_it_and_the_page_around_it_is_whole(capsys, tmp_path):
    """A title with U+FFFE is no XML, so the page ended in a traceback; U+202E turned the title around."""
    page, figure = tmp_path / "w.html", tmp_path / "w.svg"
    status, _, err = run(capsys, "diagnose", ESCAPES, "--html", page, "--figure", figure)
    assert (status, err) == (0, "")
    for file in (page, figure):
        assert obeyed(file.read_text("utf-8")) == set()
        assert r"layer.\ufffe.weight" in file.read_text("utf-8")


def test_ordinary_text_of_any_script_is_left_alone(tmp_path, capsys):
    """Escaping all that is not ASCII would make a Chinese model unreadable."""
    path = tmp_path / "模型.safetensors"
    path.write_bytes(
        safetensors_bytes(
            {"编码器.é.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}, bytes(16)
        )
    )
    assert "编码器.é.weight" in run(capsys, "show", path)[1]
    assert "模型.safetensors" in run(capsys, "diagnose", path)[1]
