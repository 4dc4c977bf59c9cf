"""Given data and copies: what a model's code computed travels with its digest, and a wrong byte is found."""

import dataclasses
import json
from hashlib import blake2b

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from conftest import bits
from given_plans import DATA, EMBEDDING, MASK, TABLE, WEIGHT, drawn, given_plan, planned
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fastinit import (
    DistributionError,
    Plan,
    PlanError,
    PlannedTensor,
    StreamOverlap,
    write_checkpoint,
)
from fastinit.initializers import Constant, Given, Normal, Positions, digest_of
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


# ---- digests -----------------------------------------------------------------------------------------


@given(
    arrays.arrays(
        st.sampled_from(["<f4", ">f4", "<f8", ">i2", "?", "<c8", ">c8", "u1"]),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7),
    ),
    st.data(),
)
def test_one_data_has_two_digests(array, data):
    """The bytes of a file decide: another memory order, byte order or stride is the same data."""
    expected = blake2b(array.astype(array.dtype.newbyteorder("<")).tobytes("C"), digest_size=32).hexdigest()
    twin = np.array(array, order=data.draw(st.sampled_from("CF")))
    if array.ndim:
        twin = np.repeat(twin, 2, axis=0)[::2]
    assert digest_of(twin) == digest_of(array) == expected


@pytest.mark.parametrize(
    "make", [np.asfortranarray, np.ascontiguousarray, lambda a: a.astype(">f8"), lambda a: a.T.copy().T]
)
def test_a_digest_of_many_chunks_is_that_of_the_last(make):
    array = np.arange(3.0 * 500 * 999).reshape(3, 500, 999)
    assert digest_of(make(array)) == blake2b(array.tobytes(), digest_size=32).hexdigest()


@pytest.mark.parametrize("digest", ["", "0" * 63, "G" * 64, "A" * 64, None, b"0" * 64, 7])
def test_a_digest_that_no_data_has_is_planned(digest):
    with pytest.raises(DistributionError, match="64 lowercase hex"):
        Given(digest)


# ---- in a plan ---------------------------------------------------------------------------------------


def test_data_that_is_missing_is_made_up(plan):
    """No seed makes it: an answer would be noise."""
    assert plan.missing == tuple(DATA)
    with pytest.raises(PlanError, match=r"'table' is given data.*with_given\('FILE.safetensors'\)"):
        plan.array("table")
    with pytest.raises(DistributionError, match="no seed makes"):
        Given(digest_of(TABLE))(TABLE.shape, 17)


def test_data_comes_back_changed(full):
    assert full.missing == ()
    for name, array in DATA.items():
        found = full.array(name)
        assert bits(found) == bits(array), name
        assert found.flags.writeable, "a weight is trained"
    assert full.array("brain").dtype == ml_dtypes.bfloat16
    found = full.array("table")
    found[...] = 0
    assert np.array_equal(full.array("table"), TABLE), "a caller's write reached the plan"


def test_data_is_copied_into_the_plan(plan):
    """A table of gigabytes twice; or one that a caller can still change through the plan."""
    found = plan.with_given(DATA).given["table"]
    assert np.shares_memory(found, TABLE)
    assert not found.flags.writeable
    assert TABLE.flags.writeable, "the caller's own array became read-only"


@pytest.mark.parametrize("index", [3, (slice(None, None, -2), 1), (..., 0), (slice(5, 2),), (7, 2), ...])
def test_a_part_of_given_data_is_another_than_numpys(full, index):
    assert np.array_equal(full.array("table", index=index), TABLE[index])
    out = np.full(TABLE[index].shape, 7, ">f4")
    assert full.array("table", out=out, index=index) is out
    assert np.array_equal(out, TABLE[index])


def test_bits_are_given_where_numbers_are_meant(full):
    out = np.zeros(TABLE.shape, np.uint16)
    assert np.array_equal(full.array("brain", out=out), DATA["brain"].view(np.uint16))
    swapped = np.zeros(TABLE.shape, ">u2")
    assert np.array_equal(full.array("brain", out=swapped), DATA["brain"].view(np.uint16))
    as_bits = Plan(17, "mine", "named", [planned("brain", DATA["brain"])], {"brain": out})
    assert as_bits.array("brain").dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"index": [1, 2]}, TypeError),
        ({"index": 200}, IndexError),
        ({"out": np.zeros((200, 3))}, TypeError),
        ({"out": np.zeros((3, 200), np.float32)}, ValueError),
        ({"out": [0.0]}, TypeError),
    ],
)
def test_a_request_for_given_data_goes_unchecked(full, request_, error):
    with pytest.raises(error):
        full.array("table", **request_)


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("table", TABLE + 1, "has the digest .*; the plan has"),
        ("table", TABLE.astype(np.float64), "is float64; the plan has float32"),
        ("table", TABLE.T, "has shape"),
        ("table", TABLE.view(np.uint32), "is uint32"),
        ("h.0.mask", MASK.view(np.uint8), "is uint8; the plan has bool"),
        ("four", DATA["four"].reshape(3, 4), "has shape"),
        ("embed", TABLE, "is 'parts' in the plan, not given data"),
        ("tabel", TABLE, "is not in the plan"),
    ],
)
def test_data_of_another_tensor_is_taken(plan, name, array, said):
    with pytest.raises(PlanError, match=f"tensor '{name}'.*{said}"):
        Plan(17, "mine", "named", list(plan.values()), {name: array})


def test_one_wrong_bit_of_a_file_is_taken_for_the_data(plan, file):
    content = bytearray(file.read_bytes())
    content[content.index(TABLE.tobytes()) + 1000] ^= 1
    file.write_bytes(content)
    with pytest.raises(PlanError, match="'table' has the digest"):
        plan.with_given(file)


def test_data_is_read_from_a_file_of_another_program(plan, tmp_path):
    """A sharded model: each file holds some of it, and tensors of which the plan gives nothing."""
    path = tmp_path / "shard.safetensors"
    safetensors.numpy.save_file({"table": TABLE, "h.0.mask": MASK, "other": TABLE}, path)
    part = plan.with_given(path)
    assert set(part.given) == {"table", "h.0.mask"}
    assert np.array_equal(part.array("table"), TABLE)
    rest = part.with_given({name: array for name, array in DATA.items() if name in part.missing})
    assert rest.missing == ()
    safetensors.numpy.save_file({"other": TABLE}, path)
    with pytest.raises(PlanError, match="none of the plan's given tensors"):
        plan.with_given(path)


def test_a_dtype_that_nothing_draws_is_drawn():
    for dtype in ("bool", "complex64", "float8_e8m0fnu", "float4_e2m1fn"):
        for content in (Constant(0.0), Normal(), Positions(4)):
            with pytest.raises(PlanError, match=f"'w'.*{dtype}"):
                Plan(17, "mine", "named", [drawn("w", content, (4, 4), dtype)])


# ---- copies ------------------------------------------------------------------------------------------


def test_a_copy_is_taken_for_an_overlap(plan):
    """The proof that no two streams overlap is for tensors that should differ."""
    assert plan.draws == 24
    assert (plan["head"].draws, plan["head"].copy_of) == (0, "embed")
    wide = plan.array("embed")
    assert bits(plan.array("head")) == bits(wide.astype(ml_dtypes.bfloat16))
    with pytest.raises(StreamOverlap):
        Plan(
            17,
            "mine",
            "named",
            [WEIGHT, PlannedTensor("head", (6, 4), "bfloat16", "parts", EMBEDDING, WEIGHT.state)],
        )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": 5}, "its state is 5"),
        ({"shape": (4, 4)}, "covers? 1?[0-9]* of|past axis|its shape"),
        ({"distribution": Normal()}, "its distribution is"),
        ({"copy_of": "nobody"}, "'nobody', which is not in the plan"),
        ({"copy_of": "again"}, "name the first one, 'embed'"),
        ({"copy_of": "head"}, "itself a copy"),
    ],
)
def test_a_copy_of_something_else_is_planned(change, said):
    facts = {
        "name": "head",
        "shape": (6, 4),
        "dtype": "float32",
        "initializer": "parts",
        "distribution": EMBEDDING,
    }
    copy = PlannedTensor(**{**facts, "state": WEIGHT.state, "copy_of": "embed", **change})
    again = PlannedTensor(**{**facts, "name": "again", "state": WEIGHT.state, "copy_of": "embed"})
    with pytest.raises(PlanError, match=said):
        Plan(17, "mine", "named", [WEIGHT, again, copy])


def test_a_copy_of_given_data_needs_its_own_data():
    first = planned("table", TABLE)
    copy = PlannedTensor("twin", TABLE.shape, "float32", "given", first.distribution, 0, copy_of="table")
    plan = Plan(17, "mine", "named", [copy, first], {"table": TABLE})
    assert plan.missing == ()
    assert np.array_equal(plan.array("twin"), TABLE)
    cast = PlannedTensor("twin", TABLE.shape, "float16", "given", first.distribution, 0, copy_of="table")
    with pytest.raises(PlanError, match="its dtype is"):
        Plan(17, "mine", "named", [cast, first])


def test_a_copy_is_shown_as_any_tensor(plan):
    """A table or a departure that shows the same words for a tensor and its copy explains nothing."""
    (row,) = [row for row in plan.table().rows if row[0] == "head"]
    assert row[-2:] == ("normal std=0.02, zeros in [0:1, 0:4], copy of embed", 0)
    alone = [
        dataclasses.replace(plan["head"], copy_of=""),
        *(t for n, t in plan.items() if n not in ("head", "embed")),
    ]
    (said,) = [s for s in departures(Plan(17, "mine", "named", alone), plan) if "does not make" in s]
    assert "copy of embed" in said


# ---- as text -----------------------------------------------------------------------------------------


def test_json_loses_a_copy_or_a_digest(plan, full):
    found = Plan.from_json(full.to_json())
    assert found == full == plan
    assert found["head"].copy_of == "embed"
    assert found["table"].distribution == Given(digest_of(TABLE))
    assert found.missing == tuple(DATA), "the text holds no data"
    assert TABLE.tobytes().hex()[:32] not in full.to_json()


def test_json_without_copies_has_other_keys():
    """Every plan written so far has these keys, and files compare them as text."""
    (entry,) = json.loads(Plan(17, "x", "named", [drawn("w", Normal())]).to_json())["tensors"].values()
    assert list(entry) == ["dtype", "shape", "scheme", "content", "state"]


@pytest.mark.parametrize("copy_of", [3, None, ["embed"], "nobody"])
def test_json_of_no_copy_escapes_as_another_error(plan, copy_of):
    data = json.loads(plan.to_json())
    data["tensors"]["head"]["copy_of"] = copy_of
    with pytest.raises(PlanError, match="not a plan"):
        Plan.from_json(json.dumps(data))
