"""Parts of a tensor in any memory: exactly the elements that the whole has there."""

import functools
import math
import tracemalloc

import numpy as np
import pytest
import reference
from bits import DTYPES, NUMPY, assert_bits, bits_of, patterns, weight
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from memory import Guarded, targets

from fastinit import DistributionError
from fastinit._engine.distributions import CenteredUniform, Constant, Positions, Uniform
from fastinit._engine.dtypes import BY_NAME
from fastinit._engine.fill import fill

# ---- parts and memory --------------------------------------------------------------------------------

SHARED_STATE = 2**64 - 3
SHARED_CONTENT = CenteredUniform(1.0)
shapes = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5)


@functools.cache
def whole_of(size, dtype):
    """The first `size` reference weights, as bits, from a state whose draws wrap past 2**64."""
    draws = (reference.draw(SHARED_STATE, i) for i in range(size))
    return patterns([weight(SHARED_CONTENT, draw, dtype) for draw in draws], dtype)


def whole_bits(shape, dtype):
    return whole_of(5**5, dtype)[: math.prod(shape)].reshape(shape)


@st.composite
def parts(draw):
    """A shape and an index numpy takes: ints, slices of any step, Ellipsis; or None for the whole."""
    shape = draw(shapes)
    indices = hnp.basic_indices(shape, allow_ellipsis=True, allow_newaxis=False) if shape else st.just(())
    return shape, draw(st.none() | indices)


def test_the_references_cut_is_numpys():
    """The judge of huge tensors' parts, judged where numpy can."""
    whole = np.arange(3 * 4 * 5).reshape(3, 4, 5)
    for index in [
        (),
        1,
        -1,
        ...,
        (..., 2),
        (1, ...),
        (slice(None, None, -2), 1),
        (0, slice(5, 1, -1), -2),
        (2, 3, 4),
    ]:
        part, positions = reference.cut(whole.shape, index)
        assert np.array_equal(whole[index], np.array(positions).reshape(part)), index


@settings(max_examples=250)
@given(st.data())
@pytest.mark.parametrize("swapped", [False, True], ids=["native", "swapped"])
def test_a_part_is_that_part_of_the_whole_in_any_memory(swapped, data):
    """pytorch#80041, numpy#18704: memory order decided which draw an element got; or a byte beside it was hit."""
    dtype = data.draw(st.sampled_from(DTYPES[:3] if swapped else DTYPES))
    shape, index = data.draw(parts())
    expected = np.asarray(whole_bits(shape, dtype)[... if index is None else index])
    target = data.draw(targets(expected.shape, NUMPY[dtype].newbyteorder() if swapped else NUMPY[dtype]))
    result = fill(SHARED_STATE, shape, SHARED_CONTENT, out=target.array, index=index)
    assert result is target.array
    assert_bits(target.array, expected, f"whole {shape}, index {index}, {target}")
    target.assert_guards()


@settings(max_examples=150)
@given(parts(), st.sampled_from(DTYPES))
def test_a_new_array_of_a_part_is_that_part_of_the_whole(part, dtype):
    shape, index = part
    expected = np.asarray(whole_bits(shape, dtype)[... if index is None else index])
    found = fill(SHARED_STATE, shape, SHARED_CONTENT, dtype=dtype, index=index)
    assert_bits(found, expected, f"whole {shape}, index {index}, {dtype}")
    assert found.flags.c_contiguous
    assert found.dtype == NUMPY[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", range(9))
def test_misaligned_and_strided_runs_longer_than_a_tile(offset, dtype):
    """Vector stores off alignment, and the seams between tiles of a strided run; 1,500 elements each."""
    for spread in (1, 2, 3):
        for backwards in (False, True):
            target = Guarded((1500,), NUMPY[dtype], spread=(spread,), backwards=(backwards,), offset=offset)
            fill(SHARED_STATE, (1500,), SHARED_CONTENT, out=target.array)
            assert_bits(target.array, whole_bits((1500,), dtype), f"{target}")
            target.assert_guards()


def test_chunks_of_a_large_transposed_fill_meet():
    """A fill cut into chunks in the middle of a row of strided memory."""
    shape = (1030, 2051)
    plain, fortran = fill(17, shape, SHARED_CONTENT), np.empty(shape, order="F")
    fill(17, shape, SHARED_CONTENT, out=fortran)
    assert_bits(fortran, bits_of(plain), "F-order")
    cube = np.empty((130, 90, 100)).transpose(1, 2, 0)[::-1, :, ::2]
    fill(17, cube.shape, SHARED_CONTENT, out=cube)
    assert_bits(cube, bits_of(fill(17, cube.shape, SHARED_CONTENT)), "transposed, backwards and strided")


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.empty((2000, 1000), order="F"),
        lambda: np.empty((1000, 2000)).T,
        lambda: np.empty((2000, 2000))[:, ::2],
        lambda: np.empty((2000, 1000))[::-1, ::-1],
        lambda: np.empty((2000, 1000), ">f8"),
        lambda: np.empty((2000, 1000)),
    ],
    ids=["F", "transposed", "strided", "backwards", "swapped", "C"],
)
def test_no_layout_costs_a_temporary(make):
    """A copy of 16 MB behind the scenes for memory that is not in C order."""
    target = make()
    tracemalloc.start()
    try:
        fill(17, target.shape, SHARED_CONTENT, out=target)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000, f"the fill of {target.nbytes:,} bytes allocated {peak:,}"


# ---- positions ---------------------------------------------------------------------------------------

INTEGERS = [name for name, dtype in BY_NAME.items() if not dtype.is_float]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_positions_count_along_the_last_axis_whatever_the_state(dtype):
    """An integer buffer drawn at random, or counted through all axes."""
    for state in (0, 2**64 - 1):
        found = fill(state, (2, 3, 100), Positions(100), dtype=BY_NAME[dtype])
        assert found.dtype == np.dtype(dtype)
        assert np.array_equal(found, np.broadcast_to(np.arange(100), (2, 3, 100)))


@settings(max_examples=150)
@given(st.data())
def test_a_part_of_the_positions_is_that_part_of_the_whole(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5))
    index = data.draw(hnp.basic_indices(shape, allow_ellipsis=True))
    whole = np.broadcast_to(np.arange(shape[-1]), shape)
    target = data.draw(
        targets(np.asarray(whole[index]).shape, np.dtype(data.draw(st.sampled_from(["<i8", ">i4"]))))
    )
    dtype = BY_NAME[target.dtype.name]
    fill(17, shape, Positions(shape[-1]), dtype=dtype, out=target.array, index=index)
    assert np.array_equal(target.array, whole[index]), f"whole {shape}, index {index}, {target}"
    target.assert_guards()


@pytest.mark.parametrize(
    ("length", "dtype"), [(129, "int8"), (257, "uint8"), (2**15 + 1, "int16"), (2**16 + 1, "uint16")]
)
def test_positions_that_wrap_in_the_dtype_are_refused(length, dtype):
    with pytest.raises(DistributionError, match=dtype):
        fill(0, (length,), Positions(length), dtype=BY_NAME[dtype])
    assert fill(0, (length - 1,), Positions(length - 1), dtype=BY_NAME[dtype])[-1] == length - 2


@pytest.mark.parametrize(
    ("content", "fits"), [(Constant(1.0), True), (Constant(0.5), False), (Constant(300.0), False)]
)
def test_constants_in_integers_are_exact_or_refused(content, fits):
    """0.5 stored as 0, 300 wrapped to 44."""
    if fits:
        assert fill(0, (3,), content, dtype=BY_NAME["uint8"]).tolist() == [1, 1, 1]
    else:
        with pytest.raises(DistributionError, match="uint8"):
            fill(0, (3,), content, dtype=BY_NAME["uint8"])


def test_integers_are_never_silently_random():
    for content in (CenteredUniform(1.0), Uniform(0.0, 10.0)):
        with pytest.raises(DistributionError, match="int64"):
            fill(0, (3,), content, dtype=BY_NAME["int64"])


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", "float8_e5m2"])
def test_positions_in_floats_are_refused(dtype):
    """257 in bfloat16 would silently become 256, and an unsigned out takes bit patterns, not numbers."""
    carrier = np.zeros(3, f"u{NUMPY[dtype].itemsize}" if dtype != "float64" else dtype)
    with pytest.raises(DistributionError, match=dtype):
        fill(0, (3,), Positions(3), dtype=dtype, out=carrier)
    assert not carrier.any()
