"""The command ``fastinit propagate``: its sizes, its views, and its refusals."""

import json

import pytest
from conftest import run

from fastinit.propagation import compare_initializers, propagate

FEW = ("--width", 16, "--inputs", 8, "--seeds", 2)


def test_the_command_measures_one_initializer(capsys, tmp_path):
    page, drawing = tmp_path / "p.html", tmp_path / "p.svg"
    status, out, err = run(
        capsys, "propagate", "--init", "kaiming_normal", "--layers", 5, *FEW, "--figure", drawing, "--html", page
    )
    assert (status, err) == (0, "")
    assert out.splitlines() == propagate("relu", "kaiming_normal", 5, 16, inputs=8, seeds=2).lines()
    assert len(out.splitlines()) == 2 * (5 + 2) + 4
    assert page.read_text().startswith("<!doctype html>")
    assert drawing.read_text().startswith("<?xml")
    init = '{"kind": "normal", "mean": 0, "std": 0.5}'
    facts = json.loads(
        run(capsys, "propagate", "--init", init, "--activation", "gelu", "--layers", 2, *FEW, "--json")[1]
    )
    assert facts["initializer"] == {"kind": "normal", "mean": 0.0, "std": 0.5}
    assert (facts["activation"], facts["layers"], facts["width"], facts["seeds"]) == ("gelu", 2, 16, 2)
    assert len(facts["activations"]["median"]) == 3


def test_the_command_compares_six_initializers_or_a_residual_stack(capsys):
    facts = json.loads(run(capsys, "propagate", "--layers", 3, "--activation", "tanh", *FEW, "--json")[1])
    assert [run["initializer"]["kind"] for run in facts["runs"]] == [
        "constant",
        *["normal"] * 2,
        *["variance_scaling"] * 3,
    ]
    facts = json.loads(run(capsys, "propagate", "--residual", 3, *FEW, "--json")[1])
    assert [
        (run["layers"], run["residual"], run["norm"], (run["writes"] or run["initializer"])["kind"])
        for run in facts["runs"]
    ] == [(6, True, norm, kind) for norm in (None, "rms", "layer") for kind in ("variance_scaling", "residual")]


def test_the_command_compares_variances_for_unequal_fans(capsys):
    few = ("--layers", 4, "--inputs", 8, "--seeds", 2)
    facts = json.loads(run(capsys, "propagate", "--widths", "16,8", *few, "--json")[1])
    assert [(run["width"], run["activation"]) for run in facts["runs"]] == [([16, 8], "linear")] * 4
    assert [run["initializer"]["mode"] for run in facts["runs"]] == ["fan_in", "fan_out", "fan_avg", "fan_geo_avg"]
    assert [row[0] for row in facts["claims"]][2] == "1 / fan_avg"


def test_the_command_measures_a_normalized_network(capsys):
    out = run(capsys, "propagate", "--init", "kaiming_normal", "--norm", "layer", "--layers", 3, *FEW)[1]
    assert out.splitlines() == propagate("relu", "kaiming_normal", 3, 16, inputs=8, seeds=2, norm="layer").lines()
    assert out.startswith("LayerNorm, kaiming_normal + relu: width 16")


def test_the_lessons_networks_are_fixed(capsys, monkeypatch):
    found = compare_initializers(layers=2, width=8, inputs=4, seeds=1)
    monkeypatch.setattr("fastinit.propagation.lesson", lambda **sample: found)
    status, out, err = run(capsys, "propagate", "--lesson")
    assert (status, err) == (0, "")
    assert out.splitlines() == found.lines()
    status, out, err = run(capsys, "propagate", "--lesson", "--width", 64, "--init", "normal")
    assert (status, out) == (2, "")
    assert "leave out --initializer, --width" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--activation", "rleu"), "did you mean 'relu'"),
        (("--init", "he_norml"), "did you mean 'he_normal'"),
        (("--layers", 0), "layers must be at least 1"),
        (("--norm", "rms"), "name its --initializer too"),
        (("--norm", "rms", "--residual", 2), "name its --initializer too"),
        (("--norm", "rms", "--residual", 2, "--init", "normal"), "both norms: leave out --norm"),
        (("--widths", "8,4", "--init", "normal"), "four initializers: leave out --initializer"),
        (("--widths", "8,4", "--residual", 2), "leave out --residual-layers"),
        (("--lesson", "--widths", "8,4"), "leave out --widths"),
        (("--widths", "8,0"), "width must be at least 1"),
        (("--residual", 0), "residual_layers must be at least 1"),
        (("--init", "kaiming_normal", "--width", 100_000_000, "--layers", 2), "GiB of memory, and there are"),
        (("--init", "kaiming_normal", "--layers", 99_999_999_999), "take fewer layers, units, inputs or seeds"),
        (("--residual", 99_999_999_999), "take fewer"),
        (("--inputs", 99_999_999_999), "take fewer"),
        (("--seeds", 99_999_999_999), "take fewer"),
        (("--lesson", "--seeds", 99_999_999_999), "take fewer"),
        (("--layers", 2**63), "take fewer"),
    ],
)
def test_a_refused_command_is_status_2(capsys, arguments, said):
    status, out, err = run(capsys, "propagate", *arguments)
    assert (status, out) == (2, "")
    assert said in err
