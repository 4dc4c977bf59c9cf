"""Work in proportion to the tensors: a real header has 91,000 of them, and a square of that never ends.

Calls are counted, not seconds: four times the tensors may cost four times the calls.
"""

import itertools
import json
import sys
from collections import Counter

import numpy as np
import pytest
from safetensors.numpy import save_file

import fastinit
from fastinit.cli import main as cli
from fastinit.cli import printing
from fastinit.diagnosis import diagnose, stored
from fastinit.views.result import Result
from fastinit.views.table import Table

FEW, MANY = 60, 240


def calls(work):
    """How many functions, of Python and of C, and steps of generators `work` takes."""
    count = 0

    def counted(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.fixture
def files(tmp_path):
    """{count: file}, written by fastinit, so that every command can read it."""
    found = {}
    for count in (FEW, MANY):
        specs = tmp_path / f"{count}.json"
        specs.write_text(
            json.dumps(
                {f"layers.{i}.experts.{i % 8}.weight": {"dtype": "F32", "shape": [1, 1]} for i in range(count)}
            )
        )
        found[count] = tmp_path / f"{count}.safetensors"
        fastinit.write_checkpoint(fastinit.Plan.from_specs(specs, 17), found[count])
    return found


COMMANDS = [
    ("show",),
    ("show", "--json"),
    ("init", "--quiet", "--force", "--out", "made.safetensors"),
    ("init", "--force", "--out", "made.safetensors"),
    ("verify", "--quiet"),
    ("verify", "--json"),
    ("diagnose", "--quiet"),
    ("diagnose", "--json"),
    ("diagnose", "--html", "page.html"),
    ("diagnose", "--policy", "xavier"),
    ("diagnose", "--expect", "layers.1*=0.5", "--expect", "*=0.5"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_costs_calls_in_proportion_to_the_tensors(command, files, tmp_path, monkeypatch, capsys):
    """A sum over the plan for every progress call, or columns judged for every row: 4,000 tensors took 19 s."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stored, "default_threads", lambda: 1)  # the profiler sees one thread

    def run(count):
        assert cli.main([command[0], str(files[count]), *command[1:]]) in (0, 1)

    run(FEW)  # what is made once: caches, imports
    few, many = calls(lambda: run(FEW)), calls(lambda: run(MANY))
    assert many < 4.4 * few, f"{many:,} calls for {MANY} tensors, {few:,} for {FEW}"


def test_a_plan_travels_in_proportion_to_its_tensors(files):
    """A plan in a file's metadata is read by every `verify`."""
    plans = {count: fastinit.Plan.from_specs(files[count], 17) for count in files}

    def travel(plan):
        assert fastinit.Plan.from_json(plan.to_json()) == plan
        assert plan.nbytes == 4 * len(plan)
        plan._repr_html_()

    travel(plans[FEW])
    few, many = (calls(lambda plan=plans[count]: travel(plan)) for count in (FEW, MANY))
    assert many < 4.4 * few


def test_totals_of_a_plan_are_summed_once(files):
    """Progress of a user's own asks for them at every tensor."""
    plans = [fastinit.Plan.from_specs(files[count], 17) for count in (FEW, MANY)]
    few, many = (calls(lambda plan=plan: (plan.nbytes, plan.draws, str(plan))) for plan in plans)
    assert many == few


def test_tensors_whose_summaries_agree_are_read_once_each(tmp_path, monkeypatch):
    """Shuffled weights sum up alike; each was compared with all the others before it: a square of readings."""
    reads = []
    original = stored.StoredTensor.read
    monkeypatch.setattr(
        stored.StoredTensor, "read", lambda self, *where: reads.append(self.name) or original(self, *where)
    )
    shuffled = list(itertools.islice(itertools.permutations([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), MANY))
    path = tmp_path / "w.safetensors"
    save_file({f"{i:03}.weight": np.array([row]) for i, row in enumerate([*shuffled, shuffled[7]])}, path)
    found = [finding.tensors for finding in diagnose(path).findings if finding.kind == "equal"]
    assert found == [("007.weight", f"{MANY}.weight")]
    assert max(Counter(reads).values()) < 10


def test_text_is_not_made_for_json_nor_json_for_text(capsys):
    """A table of 100,000 rows that nobody sees."""

    class Asked(Result):
        def __init__(self):
            self.made = []

        def lines(self):
            self.made.append("lines")
            return ["text"]

        def facts(self):
            self.made.append("facts")
            return {}

    for is_json, made in ((True, ["facts"]), (False, ["lines"])):
        asked = Asked()
        options = type("Options", (), {"json": is_json, "figure": None, "html": None})()
        assert printing.deliver(options, asked) == 0
        assert asked.made == made


def test_one_long_cell_does_not_widen_every_row():
    """A name of 8,000 characters times 100,000 rows is 800 MB of spaces."""
    rows = (("n" * 8000, "b", 1.0), *(("a", "b", 2.0) for _ in range(100)))
    lines = Table("c", ("name", "kind", "x"), rows).lines()
    assert lines[1] == "n" * 8000 + "  b     1"
    assert all(line == "a" + " " * 199 + "  b     2" for line in lines[2:])
    assert lines[2].endswith("b     2")
