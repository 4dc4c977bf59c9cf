"""Regions: whoever writes them, in whatever order and process, the files are the same to the byte."""

import json
import os
import pickle
import random

import numpy as np
import pytest
from conftest import MIXED
from hypothesis import given, settings
from hypothesis import strategies as st

import fastinit
from fastinit import Plan, PlannedTensor, verify_checkpoint, write_checkpoint
from fastinit._engine.dtypes import BY_TAG
from fastinit._engine.parts import covering
from fastinit.initializers import Constant, Normal, Orthogonal, Parts, Positions
from fastinit.writing import write_region, writing
from fastinit.writing.layout import laid_out
from fastinit.writing.options import as_share, as_size
from fastinit.writing.regions import CHUNK_BYTES, Checksum

LARGE = {
    "embed.weight": {"dtype": "F32", "shape": [3001, 517]},
    "head.weight": {"dtype": "BF16", "shape": [1111, 1500]},
    "norm.weight": {"dtype": "F32", "shape": [7]},
    "position_ids": {"dtype": "I64", "shape": [3, 200_003]},
    "scale.bias": {"dtype": "F32", "shape": []},
}


def planned(name, shape, distribution, dtype="float32", state=17, copy_of=""):
    return PlannedTensor(name, shape, dtype, distribution.name, distribution, state, copy_of)


def awkward_plan():
    """Tensors that no stretch of numbers makes: parts, positions, an orthogonal matrix larger than a region."""
    rows = Parts((
        (((0, 1, 1), (0, 1303, 1)), Constant(0.0)),
        (((1, 900, 1), (0, 1303, 1)), Normal(0.0, 0.02)),
    ))  # fmt: skip
    return Plan(17, "mine", "named", [
        planned("rows", (900, 1303), rows, state=1),
        planned("orthogonal", (380, 370), Orthogonal(), "float64", state=1 << 40),
        planned("half", (380, 370), Orthogonal(), "float16", state=1 << 40, copy_of="orthogonal"),
        planned("places", (5, 200_001), Positions(200_001), "int32", state=0),
    ])  # fmt: skip


@pytest.mark.parametrize("make", [lambda: Plan.from_specs(LARGE, 17), awkward_plan], ids=["model", "awkward"])
def test_regions_written_by_anybody_in_any_order_give_what_the_arrays_are(make, tmp_path, monkeypatch):
    """A region is cut anywhere in a tensor: a wrong first draw shifts all that follow, and looks as random."""
    monkeypatch.setattr("fastinit.writing.layout._SMALLEST", CHUNK_BYTES)
    plan, path = make(), tmp_path / "w.safetensors"
    with writing(plan, path) as work:
        work.begin()
        assert len(work.regions) > 3
        for region in random.Random(1).sample(work.regions, len(work.regions)):
            sent = pickle.loads(pickle.dumps(region))  # as an engine on another machine gets it
            work.record(region, write_region(sent, sync=True))
        assert work.finish() == ()
    content, layout = path.read_bytes(), laid_out(plan, "safetensors", path.name, None)
    for piece in layout.files[0].pieces[1:]:
        assert content[piece.begin : piece.end] == plan.array(piece.source.name).tobytes(), piece.source.name


def test_a_dtype_that_has_travelled_is_the_same_one():
    """Dtypes are equal to themselves only: an unpickled copy was of no format that anything knows."""
    for dtype in BY_TAG.values():
        assert pickle.loads(pickle.dumps(dtype)) is dtype


@settings(max_examples=300)
@given(st.lists(st.integers(1, 5), max_size=4), st.data())
def test_a_stretch_of_a_tensor_is_cut_into_boxes_in_order(shape, data):
    whole = np.arange(int(np.prod(shape))).reshape(shape)
    begin = data.draw(st.integers(0, whole.size))
    end = data.draw(st.integers(begin, whole.size)) if shape else 1
    boxes = list(covering(tuple(shape), begin, end)) if shape or begin == 0 else [((), ())]
    found = [whole[index] for index, _ in boxes]
    assert [part.shape for part in found] == [lengths for _, lengths in boxes]
    assert np.concatenate([[], *(part.ravel() for part in found)]).tolist() == list(
        range(begin if shape else 0, end)
    )
    assert len(boxes) <= max(1, 2 * len(shape)), "one box a row would make a call for each"


def test_a_region_that_nobody_has_written_keeps_the_files_from_their_names(tmp_path):
    """An engine loses a task: zeros would stand where weights are, under a name that says complete."""
    with writing(Plan.from_specs(LARGE, 17), tmp_path / "w") as work:
        work.begin()
        for region in work.regions[1:]:
            work.record(region, write_region(region))
        with pytest.raises(fastinit.CheckpointError, match="1 regions have not been recorded"):
            work.finish()
        assert os.listdir(tmp_path) == ["w.partial"], "an engine that goes on may mend it"
    assert os.listdir(tmp_path) == []


def test_an_engine_cannot_ask_for_regions_of_what_has_none(tmp_path):
    with pytest.raises(ValueError, match="format"), writing(model(a=3), tmp_path / "w", format="pt"):
        pass


# ---- checksums ---------------------------------------------------------------------------------------


def checksum(content):
    running = Checksum()
    for begin in range(0, len(content), CHUNK_BYTES):
        running.update(np.frombuffer(content[begin : begin + CHUNK_BYTES], np.uint8))
    return running.text()


@pytest.mark.parametrize("size", [1, 7, 8, 4096, CHUNK_BYTES + 5])
def test_no_change_of_a_region_goes_unseen(size):
    """A sum of words misses two flips of their top bits, and a sum without weights misses two words exchanged."""
    sound = random.Random(size).randbytes(size)
    seen, moments = {checksum(sound)}, random.Random(2)
    changes = [[7], [size * 8 - 1]] + [[moments.randrange(size * 8) for _ in range(2)] for _ in range(20)]
    if size > 16:
        changes.append([63, 127])  # the top bits of two words
        assert checksum(sound[8:16] + sound[:8] + sound[16:]) not in seen
    for flips in changes:
        content = bytearray(sound)
        for flip in set(flips):
            content[flip // 8] ^= 1 << flip % 8
        assert checksum(bytes(content)) not in seen, f"flips of bits {flips} went unseen"
    assert checksum(sound + b"\0") not in seen


# ---- shards ------------------------------------------------------------------------------------------


def model(**sizes):
    """A plan of uint8 tensors of so many bytes each."""
    return Plan(17, "mine", "named", [planned(n, (size,), Constant(1.0), "uint8") for n, size in sizes.items()])


def test_shards_are_filled_in_the_order_of_the_plan():
    """The worked example of huggingface_hub: what loaders expect is no better packing."""
    plan = model(a=6, b=6, c=2, d=6, e=2, f=2)
    layout = laid_out(plan, "safetensors", "w", 10)
    index = json.loads(layout.texts["model.safetensors.index.json"])
    assert index["metadata"] == {"total_size": 24}
    names = [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 2, 3, 3, 3)]
    assert list(index["weight_map"].items()) == list(zip("abcdef", names, strict=True))
    assert layout.names == (*dict.fromkeys(names), "model.safetensors.index.json"), "the index must come last"


def test_a_tensor_too_large_for_a_shard_gets_its_own_and_one_shard_needs_no_index():
    homes = json.loads(
        laid_out(model(a=3, b=30, c=3), "safetensors", "w", 10).texts["model.safetensors.index.json"]
    )
    assert len({homes["weight_map"][name] for name in "ac"}) == 1
    assert homes["weight_map"]["b"] not in {homes["weight_map"][name] for name in "ac"}
    assert laid_out(model(a=3, c=3), "safetensors", "w", 10).names == ("model.safetensors",)
    assert laid_out(model(), "safetensors", "w", 10).names == ("model.safetensors",)


def test_a_copy_lies_beside_its_original(tmp_path):
    """A shard whose plan names an original that lies elsewhere can be verified by nobody."""
    tensors = [planned(name, (100,), Normal(), state=i << 40) for i, name in enumerate("abc")]
    plan = Plan(17, "mine", "named", [*tensors, planned("d", (100,), Normal(), state=0, copy_of="a")])
    write_checkpoint(plan, tmp_path / "w", max_shard_size=800)
    homes = json.loads((tmp_path / "w/model.safetensors.index.json").read_text())["weight_map"]
    assert homes["a"] == homes["d"] != homes["b"]
    found = verify_checkpoint(tmp_path / "w")
    assert found
    assert list(found.plan) == list(plan)


@pytest.mark.parametrize("order", ["named", "sequential"])
def test_shards_hold_the_bits_of_the_one_file(tmp_path, order):
    """In the sequential order, the place in the whole model decides the draws, not the place in a shard."""
    plan = Plan.from_specs({**LARGE, **MIXED}, 17, order=order)
    written = write_checkpoint(plan, tmp_path / "shards", max_shard_size="4MB")
    assert len(written.files) == 3 + 1
    found = verify_checkpoint(tmp_path / "shards", plan=plan)
    assert found
    assert found.follows
    index = json.loads((tmp_path / "shards/model.safetensors.index.json").read_text())
    assert list(index["weight_map"]) == list(plan)
    assert index["metadata"]["total_size"] == plan.nbytes
    again = write_checkpoint(Plan.from_specs(tmp_path / "shards", 17, order=order), tmp_path / "whole")
    assert write_checkpoint(plan, tmp_path / "w").size == again.size
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "w").read_bytes()


@pytest.mark.parametrize(
    ("text", "size"), [("5GB", 5 * 10**9), ("500 MiB", 500 << 20), ("1.5kb", 1500), ("12", 12), (7, 7)]
)
def test_sizes_are_read_as_hugging_face_reads_them(text, size):
    assert as_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-5GB", "5 Gb/s", "0", "1e3", "5PB", "9" * 400 + "TB", 0, -1])
def test_a_size_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="size"):
        as_size(text)


@pytest.mark.parametrize("share", ["0/2", "3/2", "1", "1/2/3", "a/b", (0, 2), (1, 2, 3), "1/0", "1/99999999"])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match="a share is K/N"):
        as_share(share)


def test_a_share_of_a_model_of_405_billion_weights_is_written_alone(tmp_path):
    """One of many machines needs room for its share, and no list of the weights."""
    plan = Plan.from_specs("llama-3.1-405b", 17)
    written = write_checkpoint(plan, tmp_path / "w", max_shard_size="5GB", shard=(4000, 8000))
    assert 64 << 20 <= written.size <= 128 << 20
    assert len(written.unfinished) == 7999
    assert os.listdir(tmp_path / "w") == ["model.partial"]
    (file,) = (path for path in (tmp_path / "w/model.partial").iterdir() if path.suffix == ".safetensors")
    assert file.stat().st_blocks * 512 < 2 * written.size
    (piece,) = (
        piece
        for held in laid_out(plan, "safetensors", "w", 5 * 10**9).files
        if held.name == file.name
        for piece in held.pieces[1:2]
    )
    assert piece.source.name in plan


# ---- other formats -----------------------------------------------------------------------------------


def test_npy_files_load_as_the_plan_says(tmp_path):
    plan = Plan.from_specs(LARGE, 17, dtype="float16")
    write_checkpoint(plan, tmp_path / "w", format="npy")
    assert sorted(os.listdir(tmp_path / "w")) == sorted(f"{name}.npy" for name in LARGE)
    for name in plan:
        found = np.load(tmp_path / f"w/{name}.npy")
        np.testing.assert_array_equal(found, plan.array(name))
        assert found.dtype == plan.array(name).dtype


@pytest.mark.parametrize("name", ["../up", "a/b", "a\\b", "x" * 252])
def test_a_name_that_leads_out_of_the_folder_names_no_file(tmp_path, name):
    """A tensor called `../up` from somebody's header would be written beside the folder."""
    with pytest.raises(fastinit.PlanError, match="cannot name a file"):
        write_checkpoint(model(**{name: 3}), tmp_path / "w", format="npy")
    assert os.listdir(tmp_path) == []


def test_names_that_differ_in_case_alone_are_not_one_file(tmp_path):
    with pytest.raises(fastinit.PlanError, match="'A' and 'a' would be one file"):
        write_checkpoint(model(A=3, a=4), tmp_path / "w", format="npy")


def test_a_dtype_that_numpy_lacks_is_no_npy(tmp_path):
    """numpy writes bfloat16 as two bytes of anything, and nobody can read it back."""
    with pytest.raises(fastinit.PlanError, match=r"'head.weight' is bfloat16.*--dtype f32"):
        write_checkpoint(Plan.from_specs(LARGE, 17), tmp_path / "w", format="npy")


@pytest.mark.parametrize(
    "options",
    [
        {"format": "onnx"},
        {"format": "npy", "max_shard_size": 10},
        {"format": "pt", "shard": "1/2"},
        {"format": "zarr", "resume": True},
    ],
    ids=str,
)
def test_a_format_is_known_and_what_it_cannot_do_is_refused(tmp_path, options):
    with pytest.raises(ValueError, match="format"):
        write_checkpoint(model(a=3), tmp_path / "w", **options)
    assert os.listdir(tmp_path) == []
