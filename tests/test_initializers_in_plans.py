"""Initializers and whole-tensor fills in plans and checkpoints: the same bits as their functions give."""

import json
import math

import numpy as np
import pytest
import reference

import fastinit
from fastinit import Plan, PlannedTensor
from fastinit._engine import distributions
from fastinit._engine.dtypes import BY_NAME
from fastinit._engine.fill import fill
from fastinit.initializers import (
    ONES,
    ZEROS,
    Constant,
    DeltaOrthogonal,
    Dirac,
    Identity,
    Orthogonal,
    Residual,
    Scaled,
    Sparse,
    Uniform,
    kaiming,
    xavier,
)

PLANNABLE = [
    (Constant(0.5), (3,), "io"),
    (ZEROS, (), "io"),
    (ONES, (3,), "io"),
    (Uniform(-0.25, 0.75), (3, 4), "io"),
    (xavier("uniform"), (3, 4), "io"),
    (Identity(0.5), (3, 4), "io"),
    (Dirac(2), (4, 2, 3, 3), "oihw"),
    (Residual(kaiming(), 12), (3, 4), "io"),
    (Scaled(Identity(), 0.5), (3, 4), "io"),
]


def planned(entries, dtype="float32"):
    """A plan of these (initializer, shape, layout), one after the other on one stream."""
    tensors, state = [], 17
    for number, (initializer, shape, layout) in enumerate(entries):
        content = initializer.for_shape(shape, layout)
        name = f"tensor.{number}"
        tensors.append(PlannedTensor(name, shape, BY_NAME[dtype], initializer.name, content, state))
        state = reference.advanced(state, tensors[-1].draws)
    return Plan(17, "own", "sequential", tensors)


def test_a_plan_carries_every_content_and_draws_it_as_the_functions_do():
    plan = planned(PLANNABLE)
    again = Plan.from_json(plan.to_json())
    assert again == plan
    rng = fastinit.SplitMix64(17)
    for name, (initializer, shape, layout) in zip(plan, PLANNABLE, strict=True):
        assert again[name].distribution == plan[name].distribution
        expected = fastinit.initialize(shape, rng, initializer, layout=layout, dtype="float32")
        assert np.array_equal(again.array(name), expected), name
        assert again[name].initializer == initializer.name
    assert rng.state == reference.advanced(17, plan.draws)


def test_constructions_in_a_plan_are_checked_when_it_is_made():
    """A layout that does not fit its tensor, found when a checkpoint is half written."""
    content = Dirac(2).for_shape((4, 2, 3, 3), "oihw")
    for shape in [(4, 2), (3, 2, 3, 3)]:
        tensor = PlannedTensor("conv.weight", shape, BY_NAME["float32"], "dirac", content, 17)
        with pytest.raises(fastinit.PlanError, match=r"conv\.weight"):
            Plan(17, "own", "named", [tensor])
    tensor = PlannedTensor("conv.weight", (4, 2, 3, 3), BY_NAME["int64"], "dirac", content, 17)
    with pytest.raises(fastinit.PlanError, match="int64"):
        Plan(17, "own", "named", [tensor])


@pytest.mark.parametrize(
    "change",
    [
        {"gain": "1"},
        {"gain": -1.0},
        {"gain": None},
        {"layout": "oo"},
        {"layout": 3},
        {"groups": 1.5},
        {"groups": 0},
        {"extra": 1},
        {"kind": "diagonals"},
    ],
    ids=repr,
)
def test_a_plans_json_with_a_broken_construction_is_refused(change):
    data = json.loads(planned([(Dirac(2), (4, 2, 3, 3), "oihw")]).to_json())
    data["tensors"]["tensor.0"]["content"].update(change)
    with pytest.raises(fastinit.PlanError):
        Plan.from_json(json.dumps(data))


def test_a_checkpoint_holds_constructions_and_is_verified(tmp_path):
    """Verification cuts tensors into chunks, flat: a construction must not lose its shape."""
    plan = planned(PLANNABLE)
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(plan, path)
    assert fastinit.verify_checkpoint(path)
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    assert not fastinit.verify_checkpoint(path)


def smallest_diagonal(shape, state):
    """min abs(R[j, j]) of the stream's normals, as the contract's bound has it."""
    matrix = fill(state, shape, distributions.Normal(0.0, 1.0))
    return np.abs(np.diag(np.linalg.qr(matrix, mode="r"))).min()


@pytest.mark.parametrize(("factor", "good"), [(0.5, True), (-0.9, True), (1.5, False), (-3.0, False)])
@pytest.mark.parametrize("column", [0, 3])
def test_verification_allows_orthogonal_weights_the_last_bits_of_another_lapack(tmp_path, factor, good, column):
    """The one scheme that is not bit-exact: without the bound no checkpoint could be verified elsewhere."""
    plan = planned([(Orthogonal(2.0), (6, 4), "io")], "float64")
    (tensor,) = plan.values()
    bound = 2.0 * 1e-12 / min(1.0, smallest_diagonal((6, 4), tensor.state))
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(plan, path)
    stored = np.memmap(path, "<f8", "r+", path.stat().st_size - tensor.nbytes, (6, 4))
    stored[5, column] += factor * bound
    stored.flush()
    found = fastinit.verify_checkpoint(path)
    assert bool(found) == good
    assert [mismatch.index for mismatch in found.mismatches] == ([] if good else [20 + column])


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("beyond", [False, True])
def test_the_last_weight_that_verification_allows_is_the_bound_itself(tmp_path, side, beyond):
    """A comparison that is off by one step of float64."""
    plan = planned([(Orthogonal(2.0), (6, 4), "io")], "float64")
    (tensor,) = plan.values()
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(plan, path)
    stored = np.memmap(path, "<f8", "r+", path.stat().st_size - tensor.nbytes, (6, 4))
    last = stored[2, 1] + side * (2.0 * 1e-12 / min(1.0, smallest_diagonal((6, 4), tensor.state)))
    stored[2, 1] = np.nextafter(last, side * math.inf) if beyond else last
    stored.flush()
    assert bool(fastinit.verify_checkpoint(path)) is not beyond


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
def test_verification_of_narrow_orthogonal_weights_is_of_bits(tmp_path, dtype):
    """A step of a narrow dtype is far more than the bound, but for a weight that lies at a midpoint."""
    plan = planned([(Orthogonal(), (8, 8), "io")], dtype)
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(plan, path)
    assert fastinit.verify_checkpoint(path)
    data = bytearray(path.read_bytes())
    data[-plan["tensor.0"].dtype.itemsize] ^= 1
    path.write_bytes(data)
    assert not fastinit.verify_checkpoint(path)


@pytest.mark.parametrize("content", [DeltaOrthogonal(), Sparse(0.5)])
def test_verification_of_exact_zeros_allows_nothing(tmp_path, content):
    """A delta kernel is zero beside its tap, and a sparse matrix is bit-exact: the bound is not theirs."""
    shape, layout = ((4, 4, 3), "oiw") if isinstance(content, DeltaOrthogonal) else ((4, 4), "io")
    plan = planned([(content, shape, layout)], "float64")
    (tensor,) = plan.values()
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(plan, path)
    stored = np.memmap(path, "<f8", "r+", path.stat().st_size - tensor.nbytes, (tensor.size,))
    stored[int(np.flatnonzero(stored == 0)[0])] = 1e-15
    stored.flush()
    assert not fastinit.verify_checkpoint(path)
