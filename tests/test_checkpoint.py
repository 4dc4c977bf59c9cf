"""Checkpoints: what is on disk is what the plan says, whole or not at all, and verify finds any other byte."""

import json
import os
import sys

import ml_dtypes  # noqa: F401  gives numpy, and through it the safetensors library, the narrow dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from conftest import MIXED, ROOT, bits, safetensors_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from fastinit import CheckpointError, Plan, verify_checkpoint, write_checkpoint, xavier_uniform
from fastinit._engine.dtypes import FLOATS, INTEGERS

SMALL = {"a.weight": {"dtype": "F32", "shape": [3, 4]}, "b.weight": {"dtype": "F32", "shape": [4, 3]}}


def split(content):
    """The header object and the data of a file's bytes."""
    start = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:start]), content[start:]


def library_reads(path):
    """What the safetensors library finds in a file: name to (dtype tag, shape, bytes)."""
    found = safetensors.deserialize(path.read_bytes())
    return {name: (tensor["dtype"], tuple(tensor["shape"]), bytes(tensor["data"])) for name, tensor in found}


def planned(plan):
    """The same, from the plan."""
    return {name: (tensor.dtype.tag, tensor.shape, bits(plan.array(name))) for name, tensor in plan.items()}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch") / "flipped.safetensors"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    path = tmp_path_factory.mktemp("real") / "real.safetensors"
    write_checkpoint(Plan.from_specs(MIXED, 17), path)
    return path.read_bytes()


@pytest.mark.parametrize("order", ["named", "sequential"])
def test_what_is_written_verifies_and_loads_as_the_plan_says(tmp_path, order):
    """The safetensors library is the judge: a file only we can read is no checkpoint."""
    path = tmp_path / "model.safetensors"
    plan = Plan.from_specs(MIXED, 17, order=order)
    written = write_checkpoint(plan, path)
    assert written.size == path.stat().st_size
    assert 0 <= written.fill_seconds <= written.seconds
    assert library_reads(path) == planned(plan)
    found = verify_checkpoint(path)
    assert found
    assert found.mismatches == ()
    assert found.plan == plan
    assert os.listdir(tmp_path) == ["model.safetensors"], "a temporary file was left"


def test_the_metadata_says_how_to_make_the_file_again(real):
    """`format` is what loaders for torch ask for; the rest is all that verify has."""
    header, _ = split(real)
    assert header["__metadata__"] == {
        "format": "pt",
        "fastinit.version": "1",
        "fastinit.seed": "17",
        "fastinit.policy": "xavier",
        "fastinit.order": "named",
    }
    assert list(header)[1:] == list(MIXED)


def test_every_tensor_is_aligned_to_its_itemsize_without_holes(real):
    """A reader that maps the file and casts a pointer would trap, or copy everything."""
    header, data = split(real)
    start = len(real) - len(data)
    assert start % 64 == 0
    entries = [entry for name, entry in header.items() if name != "__metadata__"]
    for entry in entries:
        begin, end = entry["data_offsets"]
        if end > begin:
            itemsize = (end - begin) // int(np.prod(entry["shape"], dtype=int))
            assert (start + begin) % itemsize == 0
    spans = sorted(entry["data_offsets"] for entry in entries)
    assert [begin for begin, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(data)


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"a.weight": {"dtype": "F32", "shape": [0, 4]}},
        {"a.bias": {"dtype": "F8_E4M3", "shape": []}},
        {"模型.weight": {"dtype": "BF16", "shape": [3, 3]}, "a b.bias": {"dtype": "F16", "shape": [1]}},
    ],
    ids=["no tensors", "an empty tensor", "one scalar byte", "names of other scripts"],
)
def test_the_smallest_and_the_oddest_models_survive(tmp_path, layout):
    path = tmp_path / "odd.safetensors"
    plan = Plan.from_specs(layout, 17)
    write_checkpoint(plan, path)
    assert verify_checkpoint(path).plan == plan
    assert library_reads(path) == planned(plan)


def test_a_tensor_of_several_chunks_is_compared_whole(tmp_path):
    """The comparison works in chunks: an index counted from the chunk would be a lie."""
    path = tmp_path / "large.safetensors"
    write_checkpoint(Plan.from_specs({"w": {"dtype": "F32", "shape": [3000, 3000]}}, 17), path)
    assert verify_checkpoint(path)
    with path.open("r+b") as file:
        file.seek(-4 * 1000 - 2, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    assert [mismatch.index for mismatch in verify_checkpoint(path).mismatches] == [9_000_000 - 1001]


def test_a_header_alone_is_enough_to_plan(tmp_path, real):
    path = tmp_path / "header.safetensors"
    _, data = split(real)
    path.write_bytes(real[: len(real) - len(data)])
    assert Plan.from_specs(path, 17) == Plan.from_specs(MIXED, 17)
    with pytest.raises(CheckpointError, match="file of"):
        verify_checkpoint(path)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_anywhere_names_the_tensor_and_the_element(real, scratch, data):
    header, body = split(real)
    start = len(real) - len(body)
    name = data.draw(st.sampled_from([name for name in MIXED if 0 not in MIXED[name]["shape"]]))
    begin, end = header[name]["data_offsets"]
    itemsize = (end - begin) // int(np.prod(MIXED[name]["shape"], dtype=int))
    flips = data.draw(st.lists(st.integers(begin, end - 1), min_size=1, max_size=3, unique=True))
    content = bytearray(real)
    for position in flips:
        content[start + position] ^= 1 << data.draw(st.integers(0, 7))
    scratch.write_bytes(content)
    found = verify_checkpoint(scratch)
    assert not found
    (mismatch,) = found.mismatches
    index = (min(flips) - begin) // itemsize
    assert (mismatch.name, mismatch.index) == (name, index)
    at = start + begin + index * itemsize
    assert mismatch.stored == content[at : at + itemsize][::-1].hex()
    assert mismatch.expected == real[at : at + itemsize][::-1].hex()
    assert repr(name) in str(mismatch)
    assert f"index {index}:" in str(mismatch)


def test_every_tensor_that_differs_is_named(tmp_path, real):
    path = tmp_path / "wrong.safetensors"
    _, data = split(real)
    path.write_bytes(real[: len(real) - len(data)] + bytes(byte ^ 0xFF for byte in data))
    named = [mismatch.name for mismatch in verify_checkpoint(path).mismatches]
    assert named == [name for name in MIXED if 0 not in MIXED[name]["shape"]]


def rewritten(path, plan, **changes):
    """Write `plan`, then change keys of its metadata (None removes one), as another tool might."""
    write_checkpoint(plan, path)
    header, data = split(path.read_bytes())
    metadata = {**header["__metadata__"], **{f"fastinit.{key}": value for key, value in changes.items()}}
    header["__metadata__"] = {key: value for key, value in metadata.items() if value is not None}
    path.write_bytes(safetensors_bytes(header, data))
    return path


@pytest.mark.parametrize("change", [{"seed": "18"}, {"order": "sequential"}])
def test_another_seed_or_order_in_the_metadata_fails(tmp_path, change):
    path = rewritten(tmp_path / "w", Plan.from_specs(SMALL, 17), **change)
    assert [mismatch.name for mismatch in verify_checkpoint(path).mismatches] == ["a.weight", "b.weight"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": None}, "not written by fastinit.*lacks seed"),
        ({"version": None, "order": None}, "not written by fastinit.*lacks order, version"),
        ({"version": "2"}, "version '2'"),
        ({"version": "01"}, "version"),
        ({"seed": "-1"}, "seed '-1'"),
        ({"seed": "1.5"}, "seed"),
        ({"seed": ""}, "seed"),
        ({"seed": "٣"}, "seed"),
        ({"seed": str(2**64)}, "seed"),
        ({"seed": "9" * 5000}, "seed"),
        ({"policy": "secret"}, "policy 'secret'"),
        ({"order": "random"}, "order"),
    ],
    ids=str,
)
def test_metadata_that_says_no_plan_is_refused(tmp_path, change, said):
    path = rewritten(tmp_path / "w.safetensors", Plan.from_specs(SMALL, 17), **change)
    with pytest.raises(CheckpointError, match=said) as caught:
        verify_checkpoint(path)
    assert "w.safetensors" in str(caught.value)


def test_metadata_of_other_tools_is_tolerated(tmp_path):
    path = rewritten(tmp_path / "w", Plan.from_specs(SMALL, 17), licence="MIT")
    header, data = split(path.read_bytes())
    header["__metadata__"]["total_size"] = "96"
    path.write_bytes(safetensors_bytes(header, data))
    assert verify_checkpoint(path)


def test_a_file_of_another_tool_is_refused_for_what_it_is(tmp_path):
    path = tmp_path / "other.safetensors"
    safetensors.numpy.save_file({"a.weight": np.zeros((2, 2), np.float32)}, path, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match="not written by fastinit"):
        verify_checkpoint(path)


def test_a_file_the_library_wrote_from_our_tensors_verifies(tmp_path):
    """It sorts and places tensors its own way; the bytes of each are the same."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    layout = {name: entry for name, entry in MIXED.items() if not entry["dtype"].startswith("F8")}  # no numpy type
    plan = Plan.from_specs(layout, 17)
    write_checkpoint(plan, ours)
    loaded = safetensors.numpy.load_file(ours)
    for name, array in loaded.items():
        assert (array.dtype, array.shape) == (plan.array(name).dtype, plan[name].shape), name
    safetensors.numpy.save_file(loaded, theirs, metadata=split(ours.read_bytes())[0]["__metadata__"])
    assert list(library_reads(theirs)) != list(plan), "the library kept our order, so this tests nothing"
    assert verify_checkpoint(theirs)


def test_a_tensor_no_rule_knows_makes_a_file_unverifiable_by_name(tmp_path):
    path = tmp_path / "w"
    write_checkpoint(Plan.from_specs(SMALL, 17), path)
    header, data = split(path.read_bytes())
    header["inv_freq"] = {**header.pop("b.weight"), "shape": [12]}
    path.write_bytes(safetensors_bytes(header, data))
    with pytest.raises(CheckpointError, match="inv_freq"):
        verify_checkpoint(path)


def test_the_order_of_the_header_decides_a_sequential_file(tmp_path):
    path = tmp_path / "w"
    write_checkpoint(Plan.from_specs(SMALL, 17, order="sequential"), path)
    header, data = split(path.read_bytes())
    metadata = header.pop("__metadata__")
    assert verify_checkpoint(path)
    path.write_bytes(safetensors_bytes({**dict(reversed(header.items())), "__metadata__": metadata}, data))
    assert not verify_checkpoint(path)


def test_progress_is_told_of_every_byte(tmp_path):
    plan = Plan.from_specs(MIXED, 17)
    written, verified = [], []
    made = write_checkpoint(plan, tmp_path / "w", lambda *now: written.append(now))
    verify_checkpoint(tmp_path / "w", lambda *now: verified.append(now))
    assert written == [(made.size, made.size, "g.float8b.weight")], (
        "one region, by the tensor that lies last in it"
    )
    assert [name for _, _, name in verified] == list(plan)
    assert [total for _, total, _ in verified] == [plan.nbytes] * len(plan)
    assert [done for done, _, _ in verified] == list(np.cumsum([tensor.nbytes for tensor in plan.values()]))


def test_a_plan_of_ones_own_is_verified_from_its_file_alone(tmp_path):
    """A plan that no policy makes, whose file would otherwise be judged by the policy's weights."""
    plan = Plan.from_specs({"w": {"dtype": "F32", "shape": [4, 6]}}, 17)
    state = plan["w"].state
    own = Plan.from_json(plan.to_json().replace(f'"state": {state}', f'"state": {state ^ 1}'))
    path = tmp_path / "own.safetensors"
    write_checkpoint(own, path)
    found = verify_checkpoint(path)
    assert found
    assert found.plan == own != plan


def test_a_plan_in_the_metadata_must_be_of_the_tensors_in_the_header(tmp_path):
    """A file whose two descriptions disagree about what is in it."""
    plan = Plan.from_json(
        Plan.from_specs({"w": {"dtype": "F32", "shape": [4, 6]}}, 17).to_json().replace("17", "18")
    )
    path = tmp_path / "own.safetensors"
    write_checkpoint(plan, path)
    assert verify_checkpoint(path)
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b'"shape":[4,6]', b'"shape":[6,4]'))
    with pytest.raises(CheckpointError, match="metadata"):
        verify_checkpoint(path)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=lambda dtype: dtype.name)
def test_files_are_little_endian_on_every_machine(dtype):
    """A checkpoint of a big-endian machine whose weights are noise to everybody else."""
    assert dtype.stored == dtype.bits.newbyteorder("<")
    assert dtype.stored.str[0] in "<|"
    assert dtype.stored.isbuiltin == (sys.byteorder == "little" or dtype.itemsize == 1)


def test_the_librarys_writer_keeps_no_order_of_an_array_but_that_of_memory():
    """README warns of it, and names the way round; once the library mends it, the warning goes."""
    shard = xavier_uniform((2, 3), 17, out=np.empty((2, 3), order="F"))

    def read_back(array):
        return safetensors.numpy.load(safetensors.numpy.save({"w": array}))["w"]

    assert not np.array_equal(read_back(shard), shard), "it is mended: take the warning out of README.md"
    assert np.array_equal(read_back(np.ascontiguousarray(shard)), shard)
    assert "np.ascontiguousarray" in (ROOT / "README.md").read_text()
