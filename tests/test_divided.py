"""Parts: each element takes the draw of its place in the whole (C23), whatever the boxes, strides and dtypes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fastinit._engine.fill import fill
from fastinit.initializers import (
    CenteredUniform,
    Constant,
    Normal,
    Uniform,
    painted,
)

CONTENTS = (Normal(0.0, 0.02), Constant(0.0), Constant(1.0), Uniform(0.5, 1.5), CenteredUniform(0.1))
DTYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn")
STATE = 0xFFFF_FFFF_FFFF_FF00  # the draws go round the cycle's end


def whole(shape):
    return tuple((0, length, 1) for length in shape)


def slices(box):
    return tuple(slice(*r) for r in box)


@st.composite
def ranges(draw, length):
    start = draw(st.integers(0, length - 1))
    return start, draw(st.integers(start + 1, length)), draw(st.integers(1, length))


@st.composite
def paintings(draw):
    shape = tuple(draw(st.lists(st.integers(1, 9), max_size=3)))
    box = st.tuples(*map(ranges, shape))
    layers = draw(st.lists(st.tuples(box, st.sampled_from(CONTENTS)), max_size=6))
    return shape, [(whole(shape), draw(st.sampled_from(CONTENTS))), *layers]


@st.composite
def indices(draw, shape):
    bound = st.none() | st.integers(-12, 12)
    steps = st.sampled_from([None, 1, 2, 3, -1, -2, -5])
    entry = [st.builds(slice, bound, bound, steps) | st.integers(-length, length - 1) for length in shape]
    return (*draw(st.tuples(*entry)), ...)


def numpys(shape, layers, dtype="float64"):
    """The painting by numpy: every layer's whole tensor, copied through numpy's own slices."""
    canvas = fill(STATE, shape, Normal(9.0, 1.0), dtype=dtype)
    for box, content in layers:
        canvas[slices(box)] = fill(STATE, shape, content, dtype=dtype)[slices(box)]
    return canvas


@settings(max_examples=300, deadline=None)
@given(paintings(), st.data(), st.sampled_from(DTYPES))
def test_a_part_takes_other_draws_than_those_of_its_places(painting, data, dtype):
    shape, layers = painting
    content = painted(shape, layers)
    content.check(shape)
    expected = numpys(shape, layers, dtype)
    assert fill(STATE, shape, content, dtype=dtype).tobytes() == expected.tobytes()
    index = data.draw(indices(shape))
    assert fill(STATE, shape, content, dtype=dtype, index=index).tobytes() == expected[index].tobytes()
