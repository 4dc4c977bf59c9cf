"""Files that other libraries load: shards by transformers and accelerate, zarr groups, what torch saves."""

import json
import random

import numpy as np
import pytest
from conftest import peer
from safetensors import safe_open

from fastinit import Plan, PlannedTensor, verify_checkpoint, write_checkpoint
from fastinit.initializers import Constant, Normal
from fastinit.policies.rules import Choice
from fastinit.writing.layout import laid_out

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
}
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
MODELS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", SMALL, "100KB"),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**SMALL, "num_local_experts": 4}, "100KB"),
    "all-minilm-l6-v2": ("BertModel", "BertConfig", MINILM, "30MB"),
    "gpt2-124m": ("GPT2LMHeadModel", "GPT2Config", {}, "200MB"),
}
SPECS = {
    "a.weight": {"dtype": "F32", "shape": [300, 50]},
    "b.weight": {"dtype": "F16", "shape": [7, 5, 3]},
    "c.bias": {"dtype": "F32", "shape": []},
    "d.position_ids": {"dtype": "I64", "shape": [1, 9]},
    "e.weight": {"dtype": "F32", "shape": [0, 4]},
}


def normal_plan(source, seed=17):
    """Normal weights for every tensor of a model, whatever it is: values that no library starts with."""
    return Plan.from_specs(
        source,
        seed,
        policy=lambda specs: {
            name: Choice(Normal(0.0, 0.02) if spec.dtype.is_float else Constant(1.0))
            for name, spec in specs.items()
        },
    )


def stored(folder):
    """Every tensor of the files of a folder: {name: bytes}."""
    found = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "np") as file:
            found |= {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118
    return found


@pytest.fixture
def made(tmp_path, request):
    """A model of transformers whose weights fastinit has written in shards: class, configuration, folder, plan."""
    peer("torch")
    transformers = peer("transformers")
    kind, config, options, size = MODELS[request.param]
    configured = getattr(transformers, config)(**options)
    getattr(transformers, kind)(configured).save_pretrained(tmp_path / "original")
    plan = normal_plan(tmp_path / "original")
    written = write_checkpoint(plan, tmp_path / "made", max_shard_size=size)
    assert len(written.files) > 2
    configured.save_pretrained(tmp_path / "made")
    return getattr(transformers, kind), configured, tmp_path / "made", plan


@pytest.mark.parametrize("made", MODELS, indirect=True)
def test_transformers_loads_the_weights_that_the_plan_says(made, tmp_path):
    """A shard that is not found, or a name that is not known, starts as the library likes, with a warning."""
    kind, _, folder, plan = made
    model, told = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(told.values()), told
    model.save_pretrained(tmp_path / "back")
    assert stored(tmp_path / "back") == {name: plan.array(name).tobytes() for name in plan}
    assert verify_checkpoint(folder, plan=plan)


@pytest.mark.parametrize("made", ["llama"], indirect=True)
def test_accelerate_loads_shards_by_their_index(made):
    torch, accelerate = peer("torch"), peer("accelerate")
    kind, configured, folder, plan = made
    with accelerate.init_empty_weights():
        model = kind(configured)
    accelerate.load_checkpoint_in_model(model, str(folder), device_map={"": "cpu"})
    state = model.state_dict()
    for name in plan:
        assert torch.equal(state[name], torch.from_numpy(plan.array(name))), name


def test_shards_are_those_of_huggingface_hub():
    """The index would be right either way; but what people compare by names and sizes would differ."""
    serialization = peer("huggingface_hub.serialization")
    sizes = random.Random(17)
    for most in (1, 10, 25, 60, 1000):
        tensors = {f"t{i}": sizes.randrange(0, 40) for i in range(sizes.randrange(1, 60))}
        plan = Plan(17, "mine", "named", [
            PlannedTensor(name, (size,), "uint8", "constant", Constant(1.0), 0) for name, size in tensors.items()
        ])  # fmt: skip
        theirs = serialization.split_state_dict_into_shards_factory(
            tensors, get_storage_size=lambda size: size, filename_pattern="model{suffix}.safetensors",
            max_shard_size=most,
        )  # fmt: skip
        ours = laid_out(plan, "safetensors", "w", most)
        assert list(theirs.filename_to_tensors) == [file.name for file in ours.files]
        if ours.texts:
            index = json.loads(ours.texts["model.safetensors.index.json"])
            assert index == {"metadata": theirs.metadata, "weight_map": theirs.tensor_to_filename}


def test_sizes_are_read_as_huggingface_hub_reads_them():
    parse = peer("huggingface_hub.serialization._base").parse_size_to_int
    from fastinit.writing.options import as_size  # noqa: PLC0415

    for text in ("5GB", "1.5GB", "300MB", "7KB", "2TB"):
        assert as_size(text) == parse(text)


# ---- other formats -----------------------------------------------------------------------------------


def test_torch_loads_what_is_written_for_it(tmp_path):
    torch = peer("torch")
    plan = Plan.from_specs({**SPECS, "f.weight": {"dtype": "BF16", "shape": [3, 4]}}, 17)
    steps = []
    write_checkpoint(plan, tmp_path / "w.pt", lambda *now: steps.append(now), format="pt")
    assert steps[-1][0] == steps[-1][1] == plan.nbytes
    found = torch.load(tmp_path / "w.pt", weights_only=True)
    assert list(found) == list(plan)
    for name, tensor in found.items():
        assert tensor.shape == plan[name].shape
        assert str(tensor.dtype) == f"torch.{plan[name].dtype.name}"
        assert tensor.view(-1).view(torch.uint8).numpy().tobytes() == plan.array(name).tobytes()


def test_zarr_reads_what_is_written_for_it(tmp_path, monkeypatch):
    zarr = peer("zarr")
    monkeypatch.setattr("fastinit.writing.whole._CHUNK_BYTES", 10_000)  # several chunks, the last one cut
    plan = Plan.from_specs(SPECS, 17)
    write_checkpoint(plan, tmp_path / "w", format="zarr")
    group = zarr.open_group(tmp_path / "w", mode="r")
    assert group.metadata.zarr_format == 3
    assert sorted(group) == sorted(plan)
    assert group["a.weight"].nchunks == 6
    for name in plan:
        np.testing.assert_array_equal(group[name][...], plan.array(name))
        assert group[name].dtype == plan.array(name).dtype


@pytest.mark.parametrize(("format", "library"), [("zarr", "zarr"), ("pt", "torch")])
def test_nothing_is_overwritten_by_them_without_force(tmp_path, format, library):
    from fastinit import CheckpointError  # noqa: PLC0415

    peer(library)
    plan = Plan.from_specs(SPECS, 17)
    write_checkpoint(plan, tmp_path / "w", format=format)
    with pytest.raises(CheckpointError, match="exists; --force"):
        write_checkpoint(plan, tmp_path / "w", format=format)
    write_checkpoint(plan, tmp_path / "w", format=format, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["w"]
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis").touch()
    with pytest.raises(CheckpointError, match=r"no zarr group|Is a directory"):
        write_checkpoint(plan, tmp_path / "precious", format=format, force=True)
    assert (tmp_path / "precious/thesis").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "w"]
