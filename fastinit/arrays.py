"""The array-level functions: check the request, choose the distribution, fill, commit the generator.

A refused or interrupted call leaves the generator as it was, so correcting it reuses the intended draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, SupportsFloat, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from .fill import Array, Index, fill, target_of
from .initializers import XAVIER_UNIFORM
from .integers import Shape, as_shape, as_u64, size_of

if TYPE_CHECKING:
    from .splitmix64 import SplitMix64

T = TypeVar("T")


def xavier_uniform(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    *,
    gain: float = 1.0,
    dtype: npt.DTypeLike | None = None,
    out: object = None,
    index: Index | None = None,
    layout: str = "io",
) -> Array:
    """Draw Xavier (Glorot) uniform weights, on [-limit, limit) with ``limit = sqrt(6 / (fan_in + fan_out))``.

    Parameters
    ----------
    shape : int or tuple of int, or None
        The whole tensor's logical shape; None takes `out`'s.
    rng : SplitMix64 or int
        The generator, which moves on by one draw a weight, or a seed in [0, 2**64 - 1].
    gain : float, default 1.0
        Multiplies the finished limit; finite and >= 0.
    dtype : dtype, optional
        float64 (default), float32, float16, bfloat16, float8_e4m3fn or float8_e5m2. None takes `out`'s.
    out : array or writable buffer, optional
        Memory to fill, in any memory order, of the part's shape. A uint8 or uint16 array with an explicit
        narrow `dtype` receives the bit patterns.
    index : int, slice, Ellipsis or a tuple of them, optional
        Fill only ``whole[index]``, as numpy's basic indexing cuts it. The *whole* tensor's draws are consumed,
        so processes that fill different parts stay in step.
    layout : str, default "io"
        The meaning of each axis: ``i`` inputs, ``o`` outputs, ``d h w l t`` receptive field, ``e`` a stack of
        matrices. ``"io"`` has inputs as rows; torch's Linear is ``"oi"``, its Conv2d ``"oihw"``.

    Returns
    -------
    numpy.ndarray
        `out` itself where given, else a new C-ordered array.

    Raises
    ------
    TypeError
        For a wrong type, a bool or None as a size or seed, and for a dtype that contradicts `out`.
    ValueError
        For a negative or too large integer, a bad gain, a shape without fans, an unfit `out`.
    FanSumOverflow, ShapeProductOverflow, AllocationFailed, DistributionError
        If the sizes overflow, memory is short, or the interval does not fit the dtype.

    Notes
    -----
    *Reproducibility.* Element i in row-major order takes draw i of the generator; its bits do not depend on the
    machine, the memory order of `out` or the part asked for. Narrower dtypes are the float64 weight rounded
    once, to nearest even.

    *Interval.* ``-limit <= w < limit`` holds after rounding too.

    References
    ----------
    Glorot and Bengio (2010), "Understanding the difficulty of training deep feedforward neural networks",
    eq. 16.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.xavier_uniform((2, 2), 17).round(12).tolist()
    [[0.004950883736, -0.265932089217], [-0.420504358848, -0.676313443233]]
    >>> whole = fastinit.xavier_uniform((4, 6), 17)
    >>> part = fastinit.xavier_uniform((4, 6), 17, index=(slice(None), slice(3, 6)))
    >>> bool((part == whole[:, 3:6]).all())
    True
    """
    whole = _whole_shape(shape, out, index)
    checked_gain = as_gain(gain)

    def draw(state: int) -> Array:
        content = XAVIER_UNIFORM.content(whole, layout, checked_gain)
        return fill(whole, content, state, dtype=dtype, out=out, index=index)

    return draw_from(rng, size_of(whole), draw)


def draw_from(rng: SplitMix64 | SupportsIndex, draws: int, draw: Callable[[int], T]) -> T:
    """Call `draw` with the raw state of `rng`, and commit its draws once it has returned."""
    if hasattr(rng, "__index__"):
        return draw(as_u64(rng, "rng (an int seed)"))
    from .splitmix64 import SplitMix64  # noqa: PLC0415  numpy.random costs more than most fills

    if not isinstance(rng, SplitMix64):
        hint = "; pass its bit generator" if isinstance(getattr(rng, "bit_generator", None), SplitMix64) else ""
        raise TypeError(f"rng must be a fastinit.SplitMix64 or an int seed, got {type(rng).__name__}{hint}")
    with rng.lock:  # until the commit: two threads must not be given the same draws
        result = draw(rng.state)
        rng.advance(draws)
        return result


def as_gain(gain: SupportsFloat) -> float:
    """Return `gain` as a float, refusing what no spread can be multiplied by."""
    if isinstance(gain, (bool, np.bool_, str, bytes)) or not isinstance(gain, SupportsFloat):
        raise TypeError(f"gain must be a number, got {gain!r} ({type(gain).__name__})")
    number = float(gain)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"gain must be finite and >= 0, got {number}")
    return number


def _whole_shape(shape: Shape | None, out: object, index: Index | None) -> tuple[int, ...]:
    if shape is not None:
        return as_shape(shape)
    if out is None:
        raise TypeError("shape must be given, or out= to take it from")
    if index is not None:
        raise TypeError("shape must be given with index=: it is the whole tensor's, and out has the part's")
    found: tuple[int, ...] = target_of(out).shape
    return found
