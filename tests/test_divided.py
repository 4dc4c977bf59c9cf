"""Parts: each element takes the draw of its place in the whole (C23), whatever the boxes, strides and dtypes."""

import json
import math
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paintings import HALF, ONES, QUARTER, STATE, ZEROS, canvas_of, cut, indices, paintings, ranges, whole

from fastinit import DistributionError, Plan, PlanError, PlannedTensor
from fastinit._engine import boxes
from fastinit._engine.dtypes import BY_NAME
from fastinit._engine.fill import fill
from fastinit._engine.narrow import widened
from fastinit.initializers import (
    Constant,
    Given,
    Initializer,
    Normal,
    Parts,
    Positions,
    Sparse,
    TruncatedNormal,
    Uniform,
    painted,
)

# ---- what is filled ----------------------------------------------------------------------------------


@settings(max_examples=300)
@given(paintings(), st.data(), st.sampled_from([np.float64, np.float32, np.float16]))
def test_a_part_takes_other_draws_than_those_of_its_places(painting, data, dtype):
    shape, layers = painting
    content, expected = painted(shape, layers), canvas_of(shape, layers, dtype)
    content.check(shape)
    assert fill(STATE, shape, content, dtype=dtype).tobytes() == expected.tobytes()
    index = data.draw(indices(shape))
    found = fill(STATE, shape, content, dtype=dtype, index=index)
    assert (found.shape, found.tobytes()) == (expected[index].shape, expected[index].tobytes())


@settings(max_examples=100)
@given(paintings(), st.data(), st.sampled_from(["<f4", ">f4", ">f8", "<f2"]))
def test_a_part_reaches_past_its_own_memory(painting, data, dtype):
    """A strided, turned or byte-swapped target, whose other elements must stay as they were."""
    shape, layers = painting
    content = painted(shape, layers)
    memory = np.full([2 * length + 1 for length in shape], 77, dtype)
    steps = [data.draw(st.sampled_from([slice(1, None, 2), slice(-2, None, -2)])) for _ in shape]
    out = memory[(*steps, ...)]
    fill(STATE, shape, content, out=out)
    expected = canvas_of(shape, layers, np.dtype(dtype).newbyteorder("=").type)
    assert np.array_equal(out, expected)
    out[...] = 77
    assert (memory == 77).all(), "an element beside the target was written"


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_narrow_part_is_rounded_otherwise_than_the_tensor(dtype):
    """Bit patterns in unsigned memory: a part written as numbers would be 0 or 1."""
    word = np.uint16 if dtype == "bfloat16" else np.uint8
    content = painted((6, 8), [(whole(6, 8), Normal(0.0, 0.02)), (((0, 6, 2), (1, 8, 3)), ONES)])
    expected = fill(STATE, (6, 8), Normal(0.0, 0.02), dtype=dtype, out=np.empty((6, 8), word))
    expected[::2, 1::3] = {"bfloat16": 0x3F80, "float8_e4m3fn": 0x38, "float8_e5m2": 0x3C}[dtype]
    assert np.array_equal(fill(STATE, (6, 8), content, dtype=dtype, out=np.empty((6, 8), word)), expected)


def test_integers_of_several_parts_are_held():
    content = painted((3, 4), [(whole(3, 4), Positions(4)), (((1, 2, 1), (0, 4, 1)), Constant(7.0))])
    planned = Plan(17, "mine", "named", [PlannedTensor("ids", (3, 4), "int16", "parts", content, 0)])
    made = planned.array("ids", out=np.empty((3, 4), np.int16))
    assert made.tolist() == [[0, 1, 2, 3], [7, 7, 7, 7], [0, 1, 2, 3]]


def test_the_bits_depend_on_the_threads_or_the_rest_of_the_tensor():
    shape = (1500, 2000)
    layers = [
        (whole(*shape), QUARTER),
        (((0, 1500, 1), (500, 1000, 1)), ONES),
        (((3, 1500, 7), (0, 2000, 2)), HALF),
    ]
    content, expected = painted(shape, layers), canvas_of(shape, layers)
    for threads in (1, 2, 3):
        assert np.array_equal(fill(STATE, shape, content, threads=threads), expected)


def test_a_fill_makes_a_float64_copy_of_the_whole():
    """A model's embedding of some gigabytes has a padding row: the memory for it twice is not there."""
    out = np.empty((4000, 1000), np.float16)
    content = painted(out.shape, [(whole(*out.shape), Normal()), (((0, 1, 1), (0, 1000, 1)), ZEROS)])
    tracemalloc.start()
    fill(STATE, out.shape, content, out=out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < out.nbytes / 10


def test_a_refused_dtype_leaves_parts_already_written():
    out = np.full((2, 2), 7, np.float16)
    content = painted((2, 2), [(whole(2, 2), ONES), (((1, 2, 1), (0, 2, 1)), Constant(1e6))])
    with pytest.raises(DistributionError, match="float16"):
        fill(STATE, (2, 2), content, out=out)
    assert (out == 7).all()


def test_a_call_with_another_shape_leaves_memory_unfilled():
    content = Parts(((whole(4, 4), Normal()),))
    for shape in ((5, 4), (4,), (4, 5)):
        with pytest.raises(DistributionError):
            content(shape, 17)


# ---- what covers a tensor once -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("boxed", "said"),
    [
        ([((0, 2, 1), (0, 4, 1))], "cover 8 of the 12 elements"),
        ([((0, 3, 1), (0, 4, 1)), ((2, 3, 1), (3, 4, 1))], r"\[0:3, 0:4\] and \[2:3, 3:4\] overlap"),
        ([((0, 3, 1), (0, 4, 2)), ((0, 3, 1), (0, 4, 3))], "overlap"),
        ([((0, 3, 1), (0, 4, 2)), ((0, 3, 1), (1, 4, 2)), ((0, 1, 1), (2, 3, 1))], "overlap"),
        ([((0, 3, 1),)], "has 1 axes, but shape .* has 2"),
        ([((0, 4, 1), (0, 4, 1))], "ends past axis 0"),
        ([((0, 3, 1), (0, 4, 2))], "cover 6 of the 12"),
    ],
)
def test_a_hole_or_an_overlap_is_planned(boxed, said):
    content = Parts(tuple((box, Normal()) for box in boxed))
    with pytest.raises(DistributionError, match=said):
        content.check((3, 4))
    with pytest.raises(PlanError, match="tensor 'w': "):
        Plan(17, "mine", "named", [PlannedTensor("w", (3, 4), "float32", "parts", content, 0)])


@settings(max_examples=300)
@given(st.data())
def test_a_cover_is_judged_otherwise_than_by_counting(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    found = data.draw(st.lists(st.tuples(*map(ranges, shape)), min_size=1, max_size=5))
    counts = np.zeros(shape, int)
    for box in found:
        counts[cut(box)] += 1
    try:
        boxes.check_cover(shape, [boxes.as_box(box) for box in found])
    except DistributionError:
        assert (counts != 1).any()
    else:
        assert (counts == 1).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Parts(()), "1 to 1,024 parts"),
        (lambda: Parts(((whole(2), Sparse(0.5)),)), "cannot be 'sparse'"),
        (lambda: Parts(((whole(2), Given("0" * 64)),)), "cannot be 'given'"),
        (lambda: Parts(((whole(2), Parts(((whole(2), ONES),))),)), "cannot be 'parts'"),
        (lambda: Parts((([(1, 1, 1)], ONES),)), "start < stop"),
        (lambda: Parts((([(0, 1, 0)], ONES),)), "step of 1 or more"),
        (lambda: Parts((([(0, 1)], ONES),)), r"\(start, stop, step\)"),
        (lambda: painted((2,), []), "one layer at least"),
        (lambda: painted((2,), [([(0, 1, 1)], ONES)]), "cover 1 of the 2"),
        (lambda: painted((2,), [(whole(3), ONES)]), "ends past axis 0"),
        (lambda: painted((2,), [(whole(2, 2), ONES)]), "has 2 axes"),
    ],
)
def test_parts_that_cannot_be_are_accepted(make, said):
    with pytest.raises(DistributionError, match=said):
        make()


@pytest.mark.parametrize("step", [1, 3])
def test_a_check_takes_time_with_the_tensors_size(step):
    """2**40 elements: an array of one byte each would be a terabyte."""
    shape = (1 << 20, 1 << 20)
    layers = [
        (whole(*shape), Normal()),
        (((0, 1 << 20, step), (5, 1 << 20, 7)), ONES),
        (((0, 1, 1), (0, 1 << 20, 1)), ZEROS),
    ]
    began = time.perf_counter()
    content = painted(shape, layers)
    Plan(17, "mine", "named", [PlannedTensor("w", shape, "float32", "parts", content, 0)])
    content.moments(shape)
    assert time.perf_counter() - began < 0.1
    assert fill(STATE, shape, content, index=(slice(0, 2), slice(4, 6))).tolist()[0] == [0.0, 0.0]


def test_many_parts_take_quadratic_time():
    shape = (1024, 64)
    content = Parts(tuple((((row, row + 1, 1), (0, 64, 1)), Constant(float(row))) for row in range(1024)))
    began = time.perf_counter()
    content.check(shape)
    assert time.perf_counter() - began < 1
    assert np.array_equal(fill(0, shape, content)[:, 0], np.arange(1024))


# ---- painting ----------------------------------------------------------------------------------------


def test_one_distribution_over_everything_stays_in_parts():
    """A row of zeros drawn again, stripes of one kind: plans that should be equal would differ."""
    again = [(whole(4, 6), Normal()), (((1, 2, 1), (0, 6, 1)), ZEROS), (((0, 4, 1), (0, 6, 1)), Normal())]
    assert painted((4, 6), again) == Normal()
    rows = [(((row, row + 1, 1), (0, 6, 1)), Normal()) for row in (2, 0, 3, 1)]
    assert painted((4, 6), rows) == Normal()
    stripes = [(whole(4, 6), Normal()), (((0, 4, 1), (0, 6, 3)), ZEROS), (((0, 4, 1), (0, 6, 3)), Normal())]
    assert painted((4, 6), stripes) == Normal()
    assert painted((), [((), ONES), ((), ZEROS)]) == ZEROS
    assert painted((0, 3), [(whole(0, 3), ONES)]) == ONES


def test_layers_of_an_empty_or_bare_tensor_are_lost():
    """Who paints may have no tensor yet, and judges itself what no layer covers."""
    assert boxes.painted_over([]) == []
    assert boxes.painted_over([(whole(0, 3), "first"), (whole(0, 3), "last")]) == [(whole(0, 3), "last")]
    apart = [(((2, 4, 1),), "low"), (((5, 8, 2),), "high")]
    assert sorted(boxes.painted_over(apart)) == apart


@pytest.mark.parametrize(
    ("layers", "count"),
    [
        ([(whole(9, 6), Normal()), (((0, 1, 1), (0, 6, 1)), ZEROS)], 2),
        ([(whole(9, 6), Normal()), *((((row, row + 1, 1), (0, 6, 1)), ZEROS) for row in range(4))], 2),
        ([(whole(9, 6), Normal()), (((0, 9, 2), (0, 6, 1)), ZEROS)], 2),
        ([(whole(9, 6), Normal()), (((0, 9, 1), (2, 3, 1)), ZEROS)], 3),
        ([(whole(9, 6), Normal()), (((0, 9, 2), (0, 6, 1)), ZEROS), (((1, 9, 2), (0, 6, 1)), ONES)], 2),
    ],
)
def test_a_painting_falls_into_needless_parts(layers, count):
    assert len(painted((9, 6), layers).parts) == count


def test_a_short_description_hides_what_differs():
    bias = painted((12,), [(((0, 12, 1),), ZEROS), (((3, 6, 1),), ONES)])
    assert bias.describe() == "zeros, ones in [3:6]"
    assert (bias.draws_per_weight, bias.support) == (0, (0.0, 1.0))
    table = painted((9, 4), [(whole(9, 4), Normal(0.0, 0.02)), (((0, 9, 8), (0, 4, 1)), ZEROS)])
    assert table.describe() == "normal std=0.02, zeros in [0:9:8, 0:4]"


# ---- what travels, and what is expected --------------------------------------------------------------


@given(paintings())
def test_json_carries_other_parts(painting):
    shape, layers = painting
    content = painted(shape, layers)
    assert Initializer.from_json(json.loads(json.dumps(content.to_json()))) == content
    if math.prod(shape):
        plan = Plan(17, "mine", "named", [PlannedTensor("w", shape, "float32", content.name, content, 3)])
        assert Plan.from_json(plan.to_json()) == plan


def test_the_json_of_parts_is_another_than_documented():
    content = painted((3, 768), [(whole(3, 768), Normal(0.0, 0.02)), (((0, 1, 1), (0, 768, 1)), ZEROS)])
    assert content.to_json() == {
        "kind": "parts",
        "parts": [
            {"index": [[0, 1, 1], [0, 768, 1]], "content": {"kind": "constant", "value": 0.0}},
            {"index": [[1, 3, 1], [0, 768, 1]], "content": {"kind": "normal", "mean": 0.0, "std": 0.02}},
        ],
    }


@pytest.mark.parametrize(
    "parts",
    [
        3,
        None,
        [],
        [3],
        [{}],
        [{"index": [[0, 1, 1]]}],
        [{"index": 3, "content": {"kind": "constant", "value": 0}}],
        [{"index": [3], "content": {"kind": "constant", "value": 0}}],
        [{"index": [[0, 1, 1.5]], "content": {"kind": "constant", "value": 0}}],
        [{"index": [[0, 1, True]], "content": {"kind": "constant", "value": 0}}],
        [{"index": [[0, -1, 1]], "content": {"kind": "constant", "value": 0}}],
        [{"index": [[0, 1, 1]], "content": {"kind": "parts", "parts": []}}],
        [{"index": [[0, 1, 1]], "content": "zeros"}],
        [{"index": [[0, 1, 1]], "content": {"kind": "constant", "value": 0}, "more": 1}],
    ],
    ids=repr,
)
def test_json_of_no_parts_escapes_as_another_error(parts):
    with pytest.raises((ValueError, DistributionError)):
        Initializer.from_json({"kind": "parts", "parts": parts})
    entry = {
        "dtype": "float32",
        "shape": [1],
        "scheme": "x",
        "content": {"kind": "parts", "parts": parts},
        "state": 0,
    }
    text = json.dumps({"version": 1, "seed": 17, "policy": "x", "order": "named", "tensors": {"w": entry}})
    with pytest.raises(PlanError, match="not a plan"):
        Plan.from_json(text)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize(
    "layers",
    [
        [(whole(400, 500), Normal(0.0, 0.5)), (((0, 100, 1), (0, 500, 1)), ZEROS)],
        [(whole(400, 500), Normal(0.0, 0.5)), (((0, 100, 1), (0, 500, 1)), ONES)],
        [(whole(400, 500), Uniform(0.0, 1.0)), (((0, 400, 2), (0, 500, 1)), TruncatedNormal(-3.0, 0.1))],
        [(whole(400, 500), ZEROS), (((0, 40, 1), (0, 500, 1)), Constant(0.1))],
    ],
)
def test_other_moments_are_expected_than_a_sample_has(layers, dtype):
    """Judged by wrong moments, a healthy tensor is accused."""
    content = painted((400, 500), layers)
    bits = np.empty((400, 500), BY_NAME[dtype].bits)
    sample = widened(fill(STATE, bits.shape, content, dtype=dtype, out=bits).tobytes(), BY_NAME[dtype])
    moments = content.moments((400, 500), BY_NAME[dtype])
    assert moments.mean == pytest.approx(sample.mean(), abs=5 * sample.std() / 447)
    assert moments.std == pytest.approx(sample.std(), rel=0.01)
    if moments.kurtosis is not None:
        fourth = ((sample - sample.mean()) ** 4).mean() / sample.var() ** 2 - 3
        assert abs(moments.kurtosis - fourth) < 5 * moments.kurtosis_error / 447
    low, high = content.support
    assert low - 0.01 <= sample.min() <= sample.max() <= high + 0.01
    values = np.unique(sample)
    assert np.isin(values, content.reachable(values, BY_NAME[dtype])).all()


def test_a_rescaled_part_keeps_its_scale():
    content = painted((4,), [(whole(4), Normal(0.0, 0.5)), (((0, 1, 1),), ONES)]).rescaled(3.0)
    assert content == painted((4,), [(whole(4), Normal(0.0, 1.5)), (((0, 1, 1),), Constant(3.0))])


@pytest.mark.parametrize(
    "hostile",
    [
        tuple(((0, 1 << 30, 1), (row, 1 << 30, 1024)) for row in range(1024)),
        tuple(((row, 1 << 30, 1024), (row % 3, 1 << 30, 3)) for row in range(1024)),
        tuple(((0, 1 << 30, step), (0, 1 << 30, step)) for step in range(1, 1025)),
    ],
    ids=["a right cover", "holes", "overlaps"],
)
def test_a_hostile_plan_takes_minutes_to_refuse(hostile):
    content = Parts(tuple((box, ONES) for box in hostile))
    began = time.perf_counter()
    try:
        content.check((1 << 30, 1 << 30))
    except DistributionError:
        assert hostile[1] != ((0, 1 << 30, 1), (1, 1 << 30, 1024)), "a right cover was refused"
    assert time.perf_counter() - began < 5


def test_layers_that_shatter_a_tensor_take_minutes_to_refuse():
    layers = [(whole(1 << 20, 1 << 20), ONES)]
    layers += [(((n, 1 << 20, n), (n, 1 << 20, n + 1)), Constant(float(n))) for n in range(2, 300)]
    began = time.perf_counter()
    with pytest.raises(DistributionError, match="give it as data"):
        painted((1 << 20, 1 << 20), layers)
    assert time.perf_counter() - began < 5
