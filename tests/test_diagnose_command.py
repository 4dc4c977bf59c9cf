"""The command ``fastinit diagnose``, the drawing and the page."""

import json
import os

import numpy as np
import pytest
from conftest import run
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from safetensors.numpy import save_file

import fastinit
from fastinit.diagnosis import diagnose
from fastinit.views import figure as figures


def normal(*shape, std=0.02, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * std).astype(np.float32)


def test_the_command_tells_good_bad_and_refused_apart(capsys, tmp_path):
    path, plan = tmp_path / "w.safetensors", tmp_path / "plan.json"
    specs = {"h.0.c_proj.weight": {"dtype": "F32", "shape": [64, 64]}}
    fastinit.write_checkpoint(fastinit.Plan.from_specs(specs, 17), path)
    plan.write_text(fastinit.Plan.from_specs(specs, 17).to_json())
    for request in (
        (),
        ("--plan", plan),
        ("--seed", 17),
        ("--policy", "xavier"),
        ("--seed", 17, "--policy", "xavier"),
    ):
        status, out, err = run(capsys, "diagnose", path, *request)
        assert (status, err) == (0, ""), request
        assert "1 tensor, 1 judged, nothing wrong found" in out
        assert "1 of 1 tensor begins with the very weights" in out
    status, out, err = run(capsys, "diagnose", path, "--expect", "*c_proj.weight=0.0041")
    assert (status, err) == (1, "")
    assert "spread: 'h.0.c_proj.weight' has standard deviation 0.12" in out
    status, out, _ = run(capsys, "diagnose", path, "--json", "--expect", "*c_proj.weight=0.0041")
    facts = json.loads(out)
    assert (status, facts["good"], facts["tensors"][0]["verdict"]) == (1, False, "spread")
    assert sum(facts["tensors"][0]["measured"]["histogram"]) == 4096
    for refused in (
        ("--expect", "nothing=1"),
        ("--expect", "0.02"),
        ("--expect", "*=wide"),
        ("--plan", plan, "--seed", 3),
        ("--plan", path.with_name("none")),
        ("--policy", "unknown"),
    ):
        status, out, err = run(capsys, "diagnose", path, *refused)
        assert (status, out) == (2, ""), refused
        assert err.startswith("fastinit: ")


def test_a_file_that_holds_no_plan_is_named_with_what_it_holds(capsys, tmp_path):
    path, specs, pipe = tmp_path / "w.safetensors", tmp_path / "specs.json", tmp_path / "pipe"
    specs.write_text(json.dumps({"a.weight": {"dtype": "F32", "shape": [64, 64]}}))
    fastinit.write_checkpoint(fastinit.Plan.from_specs(specs, 17), path)
    other = tmp_path / "other.json"
    other.write_bytes(b"\xff[]")
    if hasattr(os, "mkfifo"):
        os.mkfifo(pipe)
    else:
        pipe.mkdir()
    for file, word in (
        (path, "checkpoint"),
        (specs, "fastinit show"),
        (other, "not a plan"),
        (tmp_path / "none.json", "cannot read"),
        (tmp_path, "cannot read"),
        (pipe, "cannot read"),
    ):
        status, out, err = run(capsys, "diagnose", path, "--plan", file)
        assert (status, out) == (2, "")
        assert str(file) in err, "which file"
        assert word in err
        assert "Errno" not in err
    status, out, err = run(capsys, "diagnose", path, "--expect", "*=0.1", "--expect", "*=0.2")
    assert (status, out) == (2, "")
    assert "'*' is given twice" in err


def test_the_views_show_every_tensor_and_every_finding(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"good.w": normal(50, 60, seed=1), "a.w": normal(64, 64), "b.w": normal(64, 64)}, path)
    found = diagnose(path, rules={"good*": 0.02})
    page = found.page()
    for word in ("good.w", "a.w", "equal to the bit", "<svg", "<figcaption"):
        assert word in page
    assert "a.w" in found._repr_html_()
    figures.save(found.figure(), tmp_path / "w.svg")
    drawn = (tmp_path / "w.svg").read_text()
    for word in ("good.w", "Wrong in 2 of 3 tensors: ", "equal (2)", ">weight<", ">density ("):
        assert word in drawn, "names, a message and labels of the axes"
    cells = {axes.get_title(loc="left").split("\n")[0]: axes for axes in found.figure().axes}
    assert {name: axes.patches[0].get_facecolor()[:3] for name, axes in cells.items()} == {
        "a.w": to_rgb(figures.PALETTE[1]), "b.w": to_rgb(figures.PALETTE[1]), "good.w": to_rgb(figures.MUTED),
    }  # fmt: skip
    assert min(text.get_fontsize() for text in found.figure().findobj(Text)) >= 9
    assert len(found.tables()) == 2
    assert "nan" not in "\n".join(found.lines())


def test_a_file_of_integers_is_listed_and_nothing_is_said_of_weights(tmp_path):
    """An empty figure under a full caption, or "0 of 0 tensors", would say that something was measured."""
    path = tmp_path / "w.safetensors"
    save_file({"position_ids": np.arange(5)}, path)
    found = diagnose(path, seed=17, policy="xavier")
    assert found.conclusions() == [f"{path}: 1 tensor, 0 judged, nothing wrong found"]
    assert repr(found) == f"<Diagnosis of {path}: 1 tensor, 0 findings>"
    assert "<svg" not in found.page()
    figures.save(found.figure(), tmp_path / "w.svg")
    assert "no tensor of weights" in (tmp_path / "w.svg").read_text()
    save_file({"a": np.zeros((2, 3), np.float32)}, path)
    assert diagnose(path).conclusions() == [f"{path}: 1 tensor, 1 judged, 1 finding"]


@pytest.mark.filterwarnings("error")
def test_names_in_any_script_are_drawn_without_a_warning(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"重み.weight": normal(20, 30)}, path)
    found = diagnose(path)
    for suffix in ("svg", "png"):
        figures.save(found.figure(), tmp_path / f"w.{suffix}")
    assert "重み.weight" in (tmp_path / "w.svg").read_text(encoding="utf-8")
    assert "重み.weight" in found.page()
