"""Given data, parts and copies in files: written, verified, diagnosed, and started from a plan's text."""

import json
import math
import os
import struct

import pytest
import safetensors.numpy
from conftest import bits, run, safetensors_bytes
from given_plans import DATA, MASK, TABLE, drawn, given_plan, planned

from fastinit import (
    CheckpointError,
    Plan,
    PlannedTensor,
    verify_checkpoint,
    write_checkpoint,
)
from fastinit.diagnosis import diagnose
from fastinit.initializers import Constant, Normal, digest_of, painted
from fastinit.provenance import departures


@pytest.fixture
def plan():
    return given_plan()


@pytest.fixture
def full(plan):
    return plan.with_given(DATA)


@pytest.fixture
def file(full, tmp_path):
    path = tmp_path / "model.safetensors"
    write_checkpoint(full, path)
    return path


# ---- in a checkpoint ---------------------------------------------------------------------------------


def test_a_file_needs_more_than_itself_to_be_verified(file, full):
    found = verify_checkpoint(file)
    assert found
    assert found.plan == full
    assert not found.follows
    assert departures(found.plan, full) == ()
    assert verify_checkpoint(file, plan=full)


def test_the_library_reads_other_bytes(file, full):
    found = dict(safetensors.deserialize(file.read_bytes()))
    for name, tensor in full.items():
        assert bytes(found[name]["data"]) == bits(full.array(name)), name
        assert tuple(found[name]["shape"]) == tensor.shape


def test_packed_data_pushes_others_off_their_alignment(file, full):
    """Three bytes hold four elements of six bits: what follows them would begin at an odd byte."""
    content = file.read_bytes()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:start])
    for name, tensor in full.items():
        size = 1 if tensor.dtype.packed > 1 else tensor.dtype.itemsize
        assert (start + header[name]["data_offsets"][0]) % size == 0, name


def test_a_checkpoint_without_its_data_is_written(plan, tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"before")
    with pytest.raises(CheckpointError, match=r"no data of 'h.\*.mask' \(2 tensors\), 'table'"):
        write_checkpoint(plan, path)
    assert path.read_bytes() == b"before"


def test_a_wrong_byte_anywhere_goes_unnoticed(file, tmp_path):
    """Of given data, of a part of zeros, of a part of draws, of a copy."""
    content = file.read_bytes()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:start])
    del header["__metadata__"]
    path = tmp_path / "wrong.safetensors"
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        for at in {begin, (begin + end) // 2, end - 1} if end > begin else ():
            wrong = bytearray(content)
            wrong[start + at] ^= 0x40
            path.write_bytes(wrong)
            (found,) = verify_checkpoint(path).mismatches
            assert found.name == name
            if name in DATA:
                assert found.index is None
                assert found.expected == digest_of(DATA[name])
                assert "of another digest" in str(found)
            else:
                assert found.index == (at - begin) // ((end - begin) // 24)


def test_a_part_of_several_chunks_is_compared_in_part(tmp_path):
    """A chunk is a run of the file, a part is a box: an offset of one in the other would accuse a right file."""
    shape = (3, 700, 999)
    layers = [(tuple((0, n, 1) for n in shape), Normal()), (((1, 2, 1), (0, 700, 3), (5, 999, 7)), Constant(1.0))]
    tensors = [drawn("w", painted(shape, layers), shape), drawn("x", painted(shape, layers), shape, "float16")]
    path = tmp_path / "w.safetensors"
    write_checkpoint(Plan(17, "mine", "named", tensors), path)
    assert verify_checkpoint(path)
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    (found,) = verify_checkpoint(path).mismatches
    assert (found.name, found.index) == ("x", math.prod(shape) - 1)


# ---- the command line --------------------------------------------------------------------------------


@pytest.fixture
def text(plan, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    return path


@pytest.mark.parametrize("as_option", [False, True])
def test_a_file_from_a_plans_text_is_another_file(capsys, tmp_path, text, file, as_option):
    out = tmp_path / "again.safetensors"
    named = ["--plan", text] if as_option else [text]
    assert run(capsys, "init", *named, "--given", file, "--out", out)[0] == 0
    assert out.read_bytes() == file.read_bytes()
    assert run(capsys, "verify", out, "--plan", text)[0] == 0


def test_a_plan_of_a_policy_is_another_plan_as_text(capsys, tmp_path):
    text, first, again = (tmp_path / name for name in ("plan.json", "first.safetensors", "again.safetensors"))
    assert run(capsys, "init", "all-minilm-l6-v2", "--seed", 5, "--dtype", "f8_e5m2", "--out", first)[0] == 0
    text.write_text(run(capsys, "show", "all-minilm-l6-v2", "--seed", 5, "--dtype", "f8_e5m2", "--json")[1])
    assert run(capsys, "init", text, "--out", again)[0] == 0
    assert again.read_bytes() == first.read_bytes()
    assert run(capsys, "show", text, "--json")[1] == text.read_text()


def test_missing_data_is_noticed_after_the_file_is_lost(capsys, tmp_path, text):
    out = tmp_path / "w.safetensors"
    out.write_bytes(b"before")
    status, _, err = run(capsys, "init", text, "--out", out)
    assert (status, out.read_bytes()) == (2, b"before")
    assert "no data of 'h.*.mask' (2 tensors), 'table'" in err
    assert "--given FILE" in err
    part = tmp_path / "part.safetensors"
    safetensors.numpy.save_file({"table": TABLE}, part)
    status, _, err = run(capsys, "init", text, "--given", part, "--out", out)
    assert (status, out.read_bytes()) == (2, b"before")
    assert f"'none', which {part} does not hold" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seed", 0], "already says its seed; leave out --seed"),
        (["--policy", "xavier"], "leave out --policy"),
        (["--order", "named"], "leave out --order"),
        (["--dtype", "f32"], "leave out --dtype"),
        (["--plan", "other.json"], "one of the two"),
    ],
)
def test_an_option_is_ignored_because_the_plan_says_otherwise(capsys, text, arguments, said):
    for command in (["show"], ["init", "--out", "w.safetensors"]):
        status, out, err = run(capsys, *command, text, *arguments)
        assert (status, out) == (2, "")
        assert said in err


def test_a_plan_is_overwritten_by_its_file(capsys, tmp_path, text, file):
    before = text.read_bytes()
    for named in ([text], ["--plan", text]):
        status, _, err = run(capsys, "init", *named, "--given", file, "--out", text)
        assert (status, text.read_bytes()) == (2, before)
        assert "would overwrite" in err
    assert run(capsys, "init", "--out", tmp_path / "w.safetensors")[0] == 2
    status, _, err = run(capsys, "init", "all-minilm-l6-v2", "--given", file, "--out", tmp_path / "w.safetensors")
    assert status == 2
    assert "gives none by digest" in err


@pytest.mark.parametrize("first", ["version", "seed", "policy", "order", "tensors"])
def test_a_plan_is_known_by_the_order_of_its_keys(capsys, tmp_path, plan, first):
    data = json.loads(plan.to_json())
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({first: data.pop(first), **data}, indent=1))
    assert run(capsys, "show", path, "--json")[1].strip() == plan.to_json()


@pytest.mark.parametrize("name", ["version", "seed", "policy", "order", "tensors"])
def test_specs_are_taken_for_a_plan(capsys, tmp_path, name):
    path = tmp_path / "specs.json"
    path.write_text(json.dumps({name: {"dtype": "F32", "shape": [3, 4]}}))
    status, out, _ = run(capsys, "show", path, "--rule", f"{name}=zeros")
    assert status == 0
    assert f"\n{name} " in out


# ---- diagnosis ---------------------------------------------------------------------------------------


def test_a_healthy_file_is_accused(file, plan):
    """Two equal masks, a table with equal rows, a row of zeros, a copy: one seed used twice, a spike, all zero."""
    for judged_by in (None, plan):
        found = diagnose(file, plan=judged_by)
        assert found.findings == ()
        assert {tensor.verdict for tensor in found.tensors} == {"good"}
        assert "12 judged" in found.lines()[-1]
        assert "not read" not in "".join(found.lines()), "a digest was compared without reading"
        assert found.drawn == (1, 1)


def test_a_large_copy_or_a_gate_of_ones_is_accused(tmp_path):
    shape = (256, 64)
    gates = painted(
        shape, [(((0, 256, 1), (0, 64, 1)), Normal(0.0, 0.1)), (((64, 128, 1), (0, 64, 1)), Constant(1.0))]
    )
    first = drawn("w", gates, shape)
    copies = [PlannedTensor(name, shape, "float32", "parts", gates, first.state, "w") for name in ("x", "y")]
    path = tmp_path / "w.safetensors"
    write_checkpoint(Plan(17, "mine", "named", [first, *copies]), path)
    assert diagnose(path).findings == ()
    stored = safetensors.numpy.load_file(path)
    stored["w"][64:128] = 0
    safetensors.numpy.save_file(stored, path)
    plan = Plan(17, "mine", "named", [first, *copies])
    assert {"mean", "spread"} <= {finding.kind for finding in diagnose(path, plan=plan).findings}


def test_changed_data_is_called_good(file, plan):
    content = bytearray(file.read_bytes())
    content[content.index(TABLE.tobytes()) + 5] ^= 1
    content[content.index(MASK.tobytes()) + 5] ^= 1
    file.write_bytes(content)
    found = diagnose(file)
    assert [(finding.kind, finding.tensors) for finding in found.findings] == [
        ("digest", ("h.0.mask",)),
        ("digest", ("table",)),
    ]


def test_a_cast_table_is_judged_by_the_digest_of_another_dtype(tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(
        safetensors_bytes({"table": {"dtype": "F16", "shape": [200, 3], "data_offsets": [0, 1200]}}, bytes(1200))
    )
    found = diagnose(path, plan=Plan(17, "mine", "named", [planned("table", TABLE)]))
    assert found.findings == ()
    assert found.tensors[0].verdict == ""
