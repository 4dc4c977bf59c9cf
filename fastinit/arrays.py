"""The array-level functions: check the request, choose the distribution, fill, commit the generator.

A refused or interrupted call leaves the generator as it was, so correcting it reuses the intended draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, SupportsIndex, TypeVar

import numpy.typing as npt

from .arguments import Shape, as_number, as_spread, as_u64, size_of
from .distributions import Constant, Uniform
from .fill import Array, Index, fill, whole_shape
from .initializers import XAVIER_UNIFORM

if TYPE_CHECKING:
    from .splitmix64 import SplitMix64

T = TypeVar("T")


def uniform(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: npt.DTypeLike | None = None,
    out: object = None,
    index: Index | None = None,
    threads: int | None = None,
) -> Array:
    """Draw weights uniformly on [low, high): ``low + (high - low) * u``.

    Parameters
    ----------
    shape : int or tuple of int, or None
        The whole tensor's logical shape; None takes `out`'s.
    rng : SplitMix64 or int
        The generator, which moves on by one draw a weight, or a seed in [0, 2**64 - 1].
    low, high : float
        Finite, ``low < high``, with a finite difference.
    dtype, out, index, threads
        As in `xavier_uniform`.

    Returns
    -------
    numpy.ndarray
        `out` itself where given, else a new C-ordered array.

    Raises
    ------
    TypeError, ValueError
        As `xavier_uniform`.
    DistributionError
        If the bounds are no interval, leave the dtype's finite range, or hold none of its values.

    Notes
    -----
    *Interval.* ``low <= w < high`` holds in every dtype, also where `high` is rounded to it first. With
    ``high = low + 1 ulp`` every weight is `low`.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.uniform(3, 17, -1.0, 1.0).round(6).tolist()
    [0.004042, -0.217133, -0.34334]
    """
    whole = whole_shape(shape, out, index)
    content = Uniform(as_number(low, "low"), as_number(high, "high"))
    return draw_from(
        rng,
        size_of(whole),
        lambda state: fill(whole, content, state, dtype=dtype, out=out, index=index, threads=threads),
    )


def random(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    *,
    dtype: npt.DTypeLike | None = None,
    out: object = None,
    index: Index | None = None,
    threads: int | None = None,
) -> Array:
    """Draw numbers uniformly on [0, 1): the top 53 bits of a draw, times 2**-53.

    Parameters
    ----------
    shape : int or tuple of int, or None
        The whole tensor's logical shape; None takes `out`'s.
    rng : SplitMix64 or int
        The generator, which moves on by one draw a number, or a seed in [0, 2**64 - 1].
    dtype, out, index, threads
        As in `xavier_uniform`.

    Returns
    -------
    numpy.ndarray
        `out` itself where given, else a new C-ordered array. In narrow dtypes too, every number is below 1.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.random(2, 1234567).round(6).tolist()
    [0.35008, 0.173644]
    """
    return uniform(shape, rng, 0.0, 1.0, dtype=dtype, out=out, index=index, threads=threads)


def constant(
    shape: Shape | None,
    value: float,
    *,
    dtype: npt.DTypeLike | None = None,
    out: object = None,
    index: Index | None = None,
    threads: int | None = None,
) -> Array:
    """Fill with one value, rounded to the dtype; takes no draws and no generator.

    Parameters
    ----------
    shape : int or tuple of int, or None
        The whole tensor's logical shape; None takes `out`'s.
    value : float
        Finite, and not beyond the dtype's finite range.
    dtype, out, index, threads
        As in `xavier_uniform`.

    Returns
    -------
    numpy.ndarray
        `out` itself where given, else a new C-ordered array.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.constant((2, 2), 0.1, dtype="float32").dtype
    dtype('float32')
    """
    whole = whole_shape(shape, out, index)
    content = Constant(as_number(value, "value"))
    return fill(whole, content, 0, dtype=dtype, out=out, index=index, threads=threads)


def xavier_uniform(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    *,
    gain: float = 1.0,
    dtype: npt.DTypeLike | None = None,
    out: object = None,
    index: Index | None = None,
    layout: str = "io",
    threads: int | None = None,
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
    threads : int, optional
        Threads for a large fill, 1 to 1024; the bits do not depend on it. None: FASTINIT_NUM_THREADS, else the
        CPUs this process may use.

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
    whole = whole_shape(shape, out, index)
    content = XAVIER_UNIFORM.content(whole, layout, as_spread(gain, "gain"))
    return draw_from(
        rng,
        size_of(whole),
        lambda state: fill(whole, content, state, dtype=dtype, out=out, index=index, threads=threads),
    )


def draw_from(rng: SplitMix64 | SupportsIndex, draws: int, draw: Callable[[int], T]) -> T:
    """Call `draw` with the raw state of `rng`, and commit its draws once it has returned."""
    if type(rng) is int or hasattr(rng, "__index__"):
        return draw(as_u64(rng, "rng (an int seed)"))
    if not hasattr(rng, "transact"):  # told by duck typing: the class's module loads numpy.random
        hint = "; pass its bit_generator" if hasattr(getattr(rng, "bit_generator", None), "transact") else ""
        raise TypeError(f"rng must be a fastinit.SplitMix64 or an int seed, got {type(rng).__name__}{hint}")
    return rng.transact(draws, draw)
