"""A model in shards is one model: its index and its files must agree, and every door must read all of them."""

import json
import shutil

import ml_dtypes
import numpy as np
import pytest
from conftest import run
from safetensors import safe_open
from safetensors.numpy import save_file

import fastinit
from fastinit._files.sources import read_specs
from fastinit.diagnosis import diagnose
from fastinit.errors import CheckpointError, PlanError

FIRST = {"a.weight": {"dtype": "F32", "shape": [20, 30]}, "a.bias": {"dtype": "F32", "shape": [20]}}
SECOND = {"b.weight": {"dtype": "BF16", "shape": [10, 20]}}
HOMES = {"b.weight": "2.safetensors", "a.weight": "1.safetensors", "a.bias": "1.safetensors"}


@pytest.fixture
def index(tmp_path):
    """The index of two shards that fastinit wrote, in a folder of their own."""
    folder = tmp_path / "model"
    folder.mkdir()
    for number, specs in enumerate((FIRST, SECOND), 1):
        fastinit.write_checkpoint(fastinit.Plan.from_specs(specs, 17), folder / f"{number}.safetensors")
    return write(folder / "model.safetensors.index.json", HOMES)


def write(path, homes):
    path.write_text(json.dumps({"metadata": {"total_size": 2880}, "weight_map": homes}))
    return path


def test_the_specs_of_all_shards_are_those_of_one_model(index, tmp_path, capsys):
    """The first shard alone would make a model that loads with half its weights missing."""
    plan = fastinit.Plan.from_specs(index, 17)
    assert list(plan) == list(HOMES), "in the index's order"
    assert plan == fastinit.Plan.from_specs({name: (FIRST | SECOND)[name] for name in HOMES}, 17)
    assert fastinit.Plan.from_specs(index.parent, 17) == plan, "a folder is the index in it"
    status, out, err = run(capsys, "show", index, "--json")
    assert (status, err) == (0, "")
    assert fastinit.Plan.from_json(out) == plan
    whole = tmp_path / "whole.safetensors"
    assert run(capsys, "init", index, "--out", whole, "--quiet")[0] == 0
    assert fastinit.verify_checkpoint(whole).plan == plan


@pytest.mark.parametrize("out", ["model.safetensors.index.json", "2.safetensors"])
def test_no_output_replaces_the_index_or_a_shard(index, out, capsys):
    before = {path: path.read_bytes() for path in index.parent.iterdir()}
    for model in (index, index.parent):
        status, _, err = run(capsys, "init", model, "--out", index.parent / out, "--quiet")
        assert status == 2
        assert "would overwrite" in err
    assert {path: path.read_bytes() for path in index.parent.iterdir()} == before


def test_every_shard_is_verified(index, capsys):
    found = fastinit.verify_checkpoint(index)
    assert found
    assert found.follows
    assert found.plan == fastinit.Plan.from_specs(index, 17)
    assert fastinit.verify_checkpoint(index.parent, plan=found.plan)
    assert not fastinit.verify_checkpoint(index, seed=18)
    seen = []
    fastinit.verify_checkpoint(index, lambda done, total, name: seen.append((done, total, name)))
    assert seen[-1] == (found.plan.nbytes, found.plan.nbytes, "b.weight")
    shard = index.parent / "2.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x7f")
    status, _, err = run(capsys, "verify", index, "--quiet")
    assert status == 1
    assert "tensor 'b.weight' differs first at index 199" in err


def test_every_shard_is_judged_by_the_plan_in_it(index):
    found = diagnose(index)
    assert found
    assert found.drawn == (2, 2)
    assert [tensor.verdict for tensor in found.tensors] == ["good"] * 3
    shifted = fastinit.Plan.from_specs(SECOND, 17).array("b.weight").astype(np.float32) * 2
    save_file({"b.weight": shifted.astype(ml_dtypes.bfloat16)}, index.parent / "2.safetensors", metadata_of(index))
    assert {finding.kind for finding in diagnose(index).findings} == {"spread", "bounds"}


def metadata_of(index):
    with safe_open(index.parent / "2.safetensors", "numpy") as file:
        return file.metadata()


def test_shards_of_two_models_are_refused(index):
    """Each would verify by itself, and the model they make was never planned."""
    fastinit.write_checkpoint(fastinit.Plan.from_specs(SECOND, 18), index.parent / "2.safetensors", force=True)
    with pytest.raises(CheckpointError, match=r"1\.safetensors has seed 17 and 2\.safetensors has 18"):
        fastinit.verify_checkpoint(index)
    for number, specs in enumerate((FIRST, SECOND), 1):
        plan = fastinit.Plan.from_specs(specs, 17, order="sequential")
        fastinit.write_checkpoint(plan, index.parent / f"{number}.safetensors", force=True)
    with pytest.raises(CheckpointError, match=r"index\.json.*(share|overlap)"):
        fastinit.verify_checkpoint(index)


def test_a_tensor_that_the_index_omits_is_named(index, capsys):
    """A loader that follows the index leaves it as it was made, without a word."""
    write(index, {name: home for name, home in HOMES.items() if name != "a.bias"})
    said = "'a.bias' lies in 1.safetensors, and the index omits it"
    with pytest.raises(CheckpointError, match=f"index.json: tensor {said}"):
        fastinit.Plan.from_specs(index, 17)
    found = fastinit.verify_checkpoint(index)
    assert not found
    assert said in found.departures[0]
    status, out, _ = run(capsys, "diagnose", index)
    assert status == 1
    assert f"not in the index: {said}" in out
    assert [tensor.name for tensor in diagnose(index).tensors] == ["b.weight", "a.weight", "a.bias"], "and judged"


def test_a_tensor_in_two_shards_is_named(index):
    shutil.copy(index.parent / "2.safetensors", index.parent / "3.safetensors")
    write(index, HOMES | {"a.bias": "1.safetensors", "b.weight": "3.safetensors"})
    assert diagnose(index), "a file that the index does not name is not read"
    save_file({"b.weight": np.zeros((2, 2)), "a.bias": np.zeros(3)}, index.parent / "3.safetensors")
    (finding,) = diagnose(index).findings[:1]
    assert (finding.kind, finding.tensors) == ("not in the index", ("a.bias",))
    assert "puts it in 1.safetensors: two files hold it" in str(finding)


@pytest.mark.parametrize(
    "read", [diagnose, fastinit.verify_checkpoint, lambda path: fastinit.Plan.from_specs(path, 17)]
)
def test_a_tensor_that_no_shard_holds_is_named_with_where_it_lies(index, read):
    for homes, said in (
        ({**HOMES, "c.weight": "1.safetensors"}, "'c.weight' is not in 1.safetensors.*no shard"),
        ({**HOMES, "b.weight": "1.safetensors", "x": "2.safetensors"}, "'b.weight'.*it lies in 2.safetensors"),
    ):
        write(index, homes)
        with pytest.raises(CheckpointError, match=said):
            read(index)


@pytest.mark.parametrize(
    "home", ["../1.safetensors", "/etc/passwd", "a/../1.safetensors", "C:\\1", "..", "", "\0"]
)
@pytest.mark.parametrize(
    "read", [diagnose, fastinit.verify_checkpoint, lambda path: fastinit.Plan.from_specs(path, 17)]
)
def test_no_index_leads_out_of_its_folder(index, home, read):
    write(index, {"a.weight": home})
    with pytest.raises(CheckpointError, match="expected a file name beside the index"):
        read(index)


def test_a_folder_of_several_models_is_refused_by_their_names(index, tmp_path, capsys):
    shutil.copy(index, index.with_name("other.safetensors.index.json"))
    with pytest.raises(CheckpointError, match=r"2 models, 'model\..*'other\..*name one"):
        fastinit.Plan.from_specs(index.parent, 17)
    (tmp_path / "empty").mkdir()
    for command, said in (
        ("show", "no file"),
        ("verify", "no .safetensors file"),
        ("diagnose", "no .safetensors file"),
    ):
        status, _, err = run(capsys, command, tmp_path / "empty")
        assert status == 2
        assert said in err


# ---- what is no model --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 12},
        {"_class_name": "UNet2DConditionModel", "sample_size": 64},
        {"hidden_size": 768, "task_specific_params": {"a": {}}, "model_type": "bert"},
    ],
)
def test_a_configuration_is_called_one(config, tmp_path):
    """It was refused for a tensor called 'architectures', which nobody has."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with pytest.raises(PlanError, match=r"config\.json is the configuration of a model, which names no tensors"):
        fastinit.Plan.from_specs(path, 17)


def test_a_tensor_may_be_called_as_a_key_of_a_configuration(tmp_path):
    path = tmp_path / "specs.json"
    path.write_text(json.dumps({"model_type": {"dtype": "F32", "shape": [2, 3]}}))
    assert list(read_specs(path)) == ["model_type"]


def test_empty_placeholders_of_a_partitioned_save_are_named(tmp_path, capsys):
    """They were planned as norm gains, written as nothing, and verified: a model without a weight."""
    path = tmp_path / "w.safetensors"
    names = [f"{layer}.q_proj.weight" for layer in range(5)]
    save_file({name: np.zeros(0, np.float32) for name in names} | {"buffer": np.zeros(0, np.float32)}, path)
    for request in (("show", path), ("init", path, "--out", tmp_path / "made")):
        status, _, err = run(capsys, *request)
        assert status == 2
        assert "q_proj.weight" in err
        assert "an empty placeholder: ZeRO-3" in err
    (finding,) = diagnose(path).findings
    assert (finding.kind, finding.tensors) == ("placeholder", tuple(names))
    assert str(finding).startswith(
        "'0.q_proj.weight', '1.q_proj.weight', '2.q_proj.weight' and 2 more: shape [0] is what a partitioned save"
    )
