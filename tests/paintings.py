"""Tensors painted in layers: by hypothesis, and in numpy alone."""

import math

import numpy as np
from conftest import GAMMA, mixed
from hypothesis import strategies as st

from fastinit.initializers import CenteredUniform, Constant, Uniform

STATE = 0xFFFF_FFFF_FFFF_FF00
HALF, QUARTER, ZEROS, ONES = Uniform(0.5, 1.5), CenteredUniform(0.25), Constant(0.0), Constant(1.0)
CONTENTS = (HALF, QUARTER, ZEROS, ONES)


def whole(*shape):
    return tuple((0, length, 1) for length in shape)


def cut(box):
    return tuple(slice(*r) for r in box)


def by_numpy(shape, content, dtype):
    """A whole tensor of one content, in numpy alone (C2, C7, C8, C11)."""
    if content in (ZEROS, ONES):
        return np.full(shape, content.value, dtype)
    steps = np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * np.uint64(GAMMA)
    unit = (mixed(np.uint64(STATE) + steps) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    values, high = (0.5 + 1.0 * unit, 1.5) if content is HALF else (0.25 * (2.0 * unit - 1.0), 0.25)
    return np.minimum(values.astype(dtype), np.nextafter(dtype(high), dtype(0))).reshape(shape)


def canvas_of(shape, layers, dtype=np.float64):
    canvas = np.full(shape, np.nan, dtype)
    for box, content in layers:
        canvas[cut(box)] = by_numpy(shape, content, dtype)[cut(box)]
    return canvas


@st.composite
def ranges(draw, length):
    start = draw(st.integers(0, length - 1))
    return start, draw(st.integers(start + 1, length)), draw(st.integers(1, length))


@st.composite
def paintings(draw):
    shape = tuple(draw(st.lists(st.integers(1, 9), max_size=3)))
    box = st.tuples(*map(ranges, shape))
    layers = draw(st.lists(st.tuples(box, st.sampled_from(CONTENTS)), max_size=6))
    return shape, [(whole(*shape), draw(st.sampled_from(CONTENTS))), *layers]


@st.composite
def indices(draw, shape):
    bound = st.none() | st.integers(-12, 12)
    steps = st.sampled_from([None, 1, 2, 3, -1, -2, -5])
    entries = [st.builds(slice, bound, bound, steps) | st.integers(-length, length - 1) for length in shape]
    return (*draw(st.tuples(*entries)), ...)
