"""Targets in every kind of memory, each inside guard bytes that a fill must leave alone."""

import numpy as np
from hypothesis import strategies as st

GUARD = 0xA5
MARGIN = 64


class Guarded:
    """An array of any strides inside a block whose other bytes are guards.

    Parameters
    ----------
    shape, dtype
        Of the array.
    order : permutation of the axes
        Outermost in memory first.
    spread : one positive int an axis
        1 packs the axis; n leaves room for n - 1 elements between neighbours.
    backwards : one bool an axis
        Whether its stride is negative.
    offset : int
        Bytes by which the block starts off alignment.
    """

    def __init__(self, shape, dtype, order=None, spread=None, backwards=None, offset=0):
        self.dtype = np.dtype(dtype)
        axes = range(len(shape))
        strides = [0] * len(shape)
        extent, start = self.dtype.itemsize, MARGIN + offset
        for axis in reversed(order or axes):
            strides[axis] = extent * (spread[axis] if spread else 1)
            extent = strides[axis] * max(shape[axis], 1)
        for axis in axes:
            if backwards and backwards[axis]:
                start += strides[axis] * max(shape[axis] - 1, 0)
                strides[axis] = -strides[axis]
        self.block = np.full(2 * MARGIN + offset + extent, GUARD, np.uint8)
        self.layout = {"shape": tuple(shape), "offset": start, "strides": tuple(strides)}
        self.array = np.ndarray(dtype=self.dtype, buffer=self.block, **self.layout)

    def __repr__(self):
        return f"<{self.dtype.str} in {self.layout}>"

    def assert_guards(self):
        """Every byte that is not an element's is what it was."""
        guards = np.ones(self.block.size, bool)
        itemsize = self.dtype.itemsize
        shape, strides = (*self.layout["shape"], itemsize), (*self.layout["strides"], 1)
        np.ndarray(shape, bool, guards, self.layout["offset"], strides)[...] = False
        touched = np.flatnonzero((self.block != GUARD) & guards)
        assert not touched.size, f"{self}: wrote outside the array, at byte {touched[0]} of the block"


@st.composite
def targets(draw, shape, dtype):
    """A Guarded of any memory order, spacing, direction and alignment."""
    axes = len(shape)
    return Guarded(
        shape,
        dtype,
        order=draw(st.permutations(range(axes))),
        spread=draw(st.lists(st.integers(1, 3), min_size=axes, max_size=axes)),
        backwards=draw(st.lists(st.booleans(), min_size=axes, max_size=axes)),
        offset=draw(st.integers(0, 8)),
    )
