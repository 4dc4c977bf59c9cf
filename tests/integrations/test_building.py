"""A model's code by name, on the command line: what goes wrong in it is one sentence that names the code.

The dangers: a traceback as if fastinit had failed, a sentence that names nothing, and print() amid the JSON.
"""

import json
import sys

import pytest
from conftest import ROOT, peer, run, run_python

torch = peer("torch")

import fastinit.torch as ft  # noqa: E402
from fastinit.errors import PlanError  # noqa: E402

CODE = """
import torch
from torch import nn

def build(): return nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
def wrong(): raise ValueError("inside the model")
def broken(): raise RuntimeError("of its own")
def lacking(): return {}["key"]
def exits(): raise SystemExit(3)
def needs(x): return nn.Linear(2, 2)
def silent(): raise AssertionError
def prints(): print("hello"); return nn.Linear(2, 2)
def lazy(): return nn.LazyLinear(3)
def warmed(): model = nn.LazyLinear(3); model(torch.zeros(2, 4)); return model
def empty(): return nn.Identity()
def none(): return None
built = nn.Linear(2, 2)
def cached(): return built
number = 3
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    (tmp_path / "ofauser.py").write_text(CODE)
    (tmp_path / "importing.py").write_text("import no_such_module_at_all\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ofauser", raising=False)
    return tmp_path


FAULTS = [
    ("ofauser:wrong", "ValueError: inside the model, at .*ofauser.py:6 in wrong"),
    ("ofauser:broken", "RuntimeError: of its own, at .*ofauser.py:7 in broken"),
    ("ofauser:lacking", "KeyError: 'key', at .*ofauser.py:8 in lacking"),
    ("ofauser:exits", "SystemExit: 3, at"),
    ("ofauser:needs", "missing 1 required positional argument: 'x'$"),
    ("ofauser:silent", "AssertionError, at .*ofauser.py"),
    ("ofauser:lazy", "'weight' of LazyLinear is lazy.*forward pass"),
    ("ofauser:none", "returned NoneType; a torch.nn.Module is needed"),
    ("ofauser:built", "is a Linear that was built when its module was imported"),
    ("ofauser:cached", "returned a Linear that was built before the call"),
    ("ofauser:number", "cannot be called: it is of type int"),
    ("ofauser:nothing", "names no callable"),
    ("no_such_module_at_all:x", "names no callable"),
    ("importing:x", "importing:x failed while its code ran: ModuleNotFoundError.*importing.py:1"),
]


@pytest.mark.parametrize(("source", "sentence"), FAULTS, ids=[source for source, _ in FAULTS])
def test_a_fault_of_the_code_is_one_sentence_that_names_it(code, capsys, source, sentence):
    with pytest.raises(PlanError, match=sentence):
        ft.recorded_plan(source, 17)
    out = code / "out.safetensors"
    status, printed, err = run(capsys, "init", source, "--out", out)
    assert (status, printed) == (2, "")
    assert err.count("\n") == 1
    assert source.partition(":")[2] in err or "LazyLinear" in err
    assert not out.exists()


CONFIGS = [
    ({"model_type": "llama", "architectures": "LlamaForCausalLM"}, "must be a list of names of classes"),
    ({"model_type": ["x"]}, r"model_type must be a name, got \['x'\]"),
    ({"model_type": "llama", "hidden_size": "x"}, "failed while its code ran: .*hidden_size"),
    ({"model_type": "no such"}, "failed while its code ran: .*no such"),
]


@pytest.mark.parametrize(("config", "sentence"), CONFIGS)
def test_a_fault_of_a_configuration_is_one_sentence_that_names_it(tmp_path, config, sentence):
    peer("transformers")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with pytest.raises(PlanError, match=sentence) as caught:
        ft.recorded_plan(path, 17)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 700 + len(str(path))


def test_a_configuration_of_timm_needs_no_name_of_its_own(tmp_path, capsys):
    peer("timm")
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"architecture": "test_vit", "num_classes": 5}))
    assert run(capsys, "show", path)[0] == 0


def test_what_a_model_prints_is_not_in_the_json(code):
    command = ("-m", "fastinit", "show", "ofauser:prints", "--json")
    done = run_python(*command, cwd=code, env={"PYTHONPATH": str(ROOT)})
    assert json.loads(done.stdout)["policy"] == "recorded"
    assert "hello" in done.stderr


def test_a_lazy_model_that_has_run_is_recorded_and_one_without_tensors_is_empty(code):
    assert list(ft.recorded_plan("ofauser:warmed", 17)) == ["weight", "bias"]
    assert list(ft.recorded_plan("ofauser:empty", 17)) == []


def test_init_module_refuses_what_it_cannot_start():
    with pytest.raises(TypeError, match=r"torch.nn.Module, got str"):
        ft.init_module("gpt2-124m", "gpt2", 17)
    with pytest.raises(PlanError, match="lazy"):
        ft.init_module(torch.nn.LazyLinear(3), "xavier", 17)


def test_a_recorded_file_is_said_to_come_from_code_and_no_alarm_is_given(code, capsys):
    """ "But that plan does not follow from its seed" of a file in which nothing is wrong."""
    assert run(capsys, "init", "ofauser:build", "--out", "w.safetensors", "--seed", 5)[0] == 0
    status, out, err = run(capsys, "verify", "w.safetensors")
    assert (status, err) == (0, "")
    assert "which says that a model's code made it; its streams are those of seed 5" in out
    assert "does not follow" not in out
