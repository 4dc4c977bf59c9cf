"""The learner report: every line is computed, so that a broken sampler cannot print a good lesson."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from fastinit import NamedParameter, NamedParameters, SplitMix64, Tensor, TensorValue
from fastinit.autodiff import tape
from fastinit.cli import main as cli
from fastinit.lessons import report as module
from fastinit.lessons.report import learner_report

# The lesson's own output for seed 17.
LINES = [
    "seed: 17",
    "projection: shape=2x2 fan_in=2 fan_out=2",
    "target variance: 0.500000000000",
    "uniform limit: 1.224744871392",
    "weights: 0.004950883736,-0.265932089217,-0.420504358848,-0.676313443233",
    "same seed reproduces: true",
    "different seed differs: true",
    "zero symmetry: output=0.000000000000 columns-equal=true "
    "gradient=0.500000000000,0.500000000000,-0.500000000000,-0.500000000000",
    "parameters: decoder.block.0.attention.query.weight[2x2] | token_embedding.weight[4x2]",
    "identity: clone-same-node=true recreated-same-node=false",
    "validation: invalid-name | duplicate-name | zero-fan-in; rng-unchanged=true",
    "chapter 18 handoff: initialize a trainable token table",
]


def test_the_report_of_seed_17_is_the_lessons():
    report = learner_report()
    assert report.lines() == LINES
    assert report.passed


def test_another_seed_changes_the_seed_and_the_weights_only():
    lines = learner_report(18, 17).lines()
    changed = [line.split(":")[0] for line, ours in zip(LINES, lines, strict=True) if line != ours]
    assert changed == ["seed", "weights"]


@pytest.mark.parametrize("seed", [0, 18, 2**64 - 1])
def test_every_seed_is_compared_with_another(seed):
    report = learner_report(seed)
    assert report.passed
    assert report.alternate_seed == (seed + 1) % 2**64


def test_a_seed_compared_with_itself_does_not_hold():
    assert not learner_report(17, 17).passed
    assert "different seed differs: false" in learner_report(17, 17).lines()


def patched_sample(change):
    """NamedParameter.xavier_uniform, with `change(values, calls so far)` applied to its weights."""
    original, calls = NamedParameter.xavier_uniform.__func__, []

    def sample(cls, name, fan_in, fan_out, rng):
        made = original(cls, name, fan_in, fan_out, rng)
        calls.append(name)
        return NamedParameter.from_tensor(name, change(np.array(made.tensor.value.values), len(calls)))

    return classmethod(sample)


def nothing_refused(name):
    def check(*arguments):
        return None

    return ("fastinit.parameters." + name, check)


def refusing_moves(cls, name, fan_in, fan_out, rng, original=NamedParameter.xavier_uniform.__func__):
    try:
        return original(cls, name, fan_in, fan_out, rng)
    except ValueError:
        rng.next_u64()
        raise


# How the product is broken; which lines must change, by their labels.
BROKEN = [
    ("zeros", NamedParameter, "xavier_uniform", patched_sample(lambda values, calls: np.zeros_like(values)),
     {"weights", "different seed differs"}),
    ("constant", NamedParameter, "xavier_uniform", patched_sample(lambda values, calls: values * 0 + 0.5),
     {"weights", "different seed differs"}),
    ("no replay", NamedParameter, "xavier_uniform", patched_sample(lambda values, calls: values + calls),
     {"weights", "same seed reproduces"}),
    ("one bit off in the replay", NamedParameter, "xavier_uniform",
     patched_sample(lambda values, calls: np.nextafter(values, 9) if calls == 2 else values),
     {"same seed reproduces"}),
    ("transposed", NamedParameter, "xavier_uniform", patched_sample(lambda values, calls: values.T + 0 * calls
     if calls == 1 else values), {"weights", "same seed reproduces"}),
    ("table of another shape", NamedParameter, "xavier_uniform",
     patched_sample(lambda values, calls: values.T if values.shape == (4, 2) else values),
     {"parameters", "chapter 18 handoff"}),
    ("copies are new nodes", NamedParameter, "__copy__",
     lambda self: NamedParameter.from_tensor(self.name, self.tensor.value), {"identity"}),
    ("equal nodes are one", tape.TensorValue, "is_same_node", lambda self, other: self.value == other.value,
     {"identity"}),
    ("no parameter is trainable", "fastinit.parameters.TensorValue",
     SimpleNamespace(parameter=TensorValue.constant), {"chapter 18 handoff"}),
    ("another slope at zero", TensorValue, "silu", lambda self: self * 0.6, {"zero symmetry"}),
    ("an output at zero", TensorValue, "silu", lambda self: self * 0.5 + 1.0, {"zero symmetry"}),
    ("units that are told apart", TensorValue, "silu",
     lambda self: self * TensorValue.constant(Tensor([0.5, 0.25])), {"zero symmetry"}),
    ("refusals move the generator", NamedParameter, "xavier_uniform", classmethod(refusing_moves), {"validation"}),
    ("duplicates pass", *nothing_refused("refuse_duplicates"), {"validation"}),
    ("names pass", *nothing_refused("validate_name"), {"validation"}),
    ("zero fans pass", *nothing_refused("check_fans"), {"validation"}),
    ("nothing is found by name", NamedParameters, "get", lambda self, name: None, {"chapter 18 handoff"}),
]  # fmt: skip


@pytest.mark.parametrize("broken", [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_product_changes_its_lines_and_the_exit_status(monkeypatch, capsys, broken):
    *target, changed = broken
    monkeypatch.setattr(*target)
    status = cli.main(["report"])
    lines = capsys.readouterr().out.splitlines()
    found = {line.split(":")[0] for line, ours in zip(LINES, lines, strict=True) if line != ours}
    assert found == changed
    assert status == 1


def test_the_scale_lines_come_from_the_scale(monkeypatch):
    scale = module.xavier_scale
    monkeypatch.setattr(module, "xavier_scale", lambda fan_in, fan_out: scale(fan_in + 2, fan_out))
    assert learner_report().lines()[1:4] == [
        "projection: shape=4x2 fan_in=4 fan_out=2",
        "target variance: 0.333333333333",
        "uniform limit: 1.000000000000",
    ]


def test_the_validation_line_lists_only_what_was_refused(monkeypatch):
    monkeypatch.setattr(*nothing_refused("refuse_duplicates"))
    assert "validation: invalid-name | zero-fan-in; rng-unchanged=true" in learner_report().lines()


def test_the_report_as_json(capsys):
    assert cli.main(["report", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["holds"] is True
    assert facts["seed"] == 17
    assert f"weights: {','.join(f'{weight:.12f}' for weight in facts['weights'])}" == LINES[4]
    assert facts["invalid_name"].startswith("InvalidNameCharacter: ")


def test_the_figure_sets_the_weights_beside_the_gradient_of_zeros():
    report = learner_report()
    for axes, values in zip(report.figure().axes, (report.weights, report.symmetry.gradient), strict=True):
        heights = [bar.get_height() for bar in axes.patches]
        assert heights == [values[0], values[2], values[1], values[3]]  # unit by unit
        assert [text.get_text() for text in axes.texts] == [f"{height:.3f}" for height in heights]


def test_the_page_holds_the_figure_and_every_line():
    page = learner_report().page()
    assert page.count("<svg") == page.count("<table>") == 1
    assert all(f">{line.split(': ', 1)[1]}</td>" in page for line in LINES)


def test_the_command_writes_its_views(capsys, tmp_path):
    figure, page = tmp_path / "report.png", tmp_path / "report.html"
    assert cli.main(["report", "--figure", str(figure), "--html", str(page)]) == 0
    assert capsys.readouterr().out.splitlines() == LINES
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert page.read_text().startswith("<!doctype html>")


def test_the_report_leaves_no_trace_in_the_next():
    assert learner_report() == learner_report()
    assert Tensor([1.0]) == Tensor([1.0])
    assert SplitMix64(17).state == 17
