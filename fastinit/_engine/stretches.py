"""A stretch of a tensor: elements numbered in row-major order, which need not be a box of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _core
from .checks import Shape, size_of
from .dtypes import DType
from .fill import fill
from .parts import Array, covering

if TYPE_CHECKING:
    from .initializer import Distribution


def fill_stretch(
    state: int, shape: Shape, distribution: Distribution, dtype: DType, begin: int, out: Array
) -> None:
    """Fill `out`, of one axis, with a tensor's elements from number `begin` on, on this thread.

    Parameters
    ----------
    state, shape, distribution, dtype
        The whole tensor's, as `fill` takes them; the distribution makes its elements one by one.
    begin : int
        The number of the first element.
    out : array
        Gets them.
    """
    if distribution.base is not None:  # an element needs its draw, and not its place
        state = _core.advance(state, begin * distribution.draws_per_weight)
        fill(state, out.shape, distribution, dtype=dtype, out=out, threads=1)
        return
    done = 0
    for index, lengths in covering(shape, begin, begin + out.size):
        box = out[done : done + size_of(lengths)].reshape(lengths)
        fill(state, shape, distribution, dtype=dtype, out=box, index=index, threads=1)
        done += box.size
