"""The array-level functions: check the request, choose the distribution, fill, commit the generator.

A refused or interrupted call leaves the generator as it was, so correcting it reuses the intended draws. Read
`xavier_uniform` first: the options of all the others are explained there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, SupportsIndex, TypedDict, TypeVar, Unpack

import numpy.typing as npt

from . import initializers
from ._engine.axes import axes_of
from ._engine.checks import Shape, as_finite, as_nonnegative, as_number, as_u64, draws_of, size_of
from ._engine.distributions import Constant, Uniform
from ._engine.fill import fill
from ._engine.parts import Array, Index
from ._engine.targets import whole_shape
from .initializers import XAVIER_UNIFORM, Initializer, kaiming, lecun, rescaled, xavier

if TYPE_CHECKING:
    from ._engine.generator import SplitMix64

T = TypeVar("T")
P = ParamSpec("P")


class Options(TypedDict, total=False):
    """Where to write and in which dtype, as explained at `xavier_uniform`."""

    dtype: npt.DTypeLike | None
    out: object
    index: Index | None
    threads: int | None


class AxisOptions(Options, total=False):
    """And what the axes mean."""

    layout: str
    groups: SupportsIndex


class FanOptions(AxisOptions, total=False):
    """And the fans, where they are not to be counted."""

    fan_in: SupportsIndex | None
    fan_out: SupportsIndex | None


def takes(options: type[Options]) -> Callable[[Callable[P, Array]], Callable[P, Array]]:
    """Refuse keywords of the decorated function, by its name, that are neither its own nor among `options`."""

    def decorate(function: Callable[P, Array]) -> Callable[P, Array]:
        code = function.__code__
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        known = {*own, *options.__optional_keys__}  # type: ignore[attr-defined]  # a TypedDict

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> Array:
            if not known.issuperset(kwargs):
                unknown = next(name for name in kwargs if name not in known)
                choices = ", ".join(sorted(known.difference(own[: code.co_argcount])))
                raise TypeError(f"{function.__name__}() has no option {unknown!r}; its options are {choices}")
            return function(*args, **kwargs)

        return checked

    return decorate


def uniform(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: npt.DTypeLike | None = None,
    out: object = None,
    index: Index | None = None,
    layout: str = "io",
    groups: SupportsIndex = 1,
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
    dtype, out, index, layout, groups, threads
        As in `xavier_uniform`; what the axes mean is checked against the shape, and changes no weight.

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
    source = as_source(rng)
    whole = whole_shape(shape, out, index)
    axes_of(whole, layout, groups).check()
    content = Uniform(as_number(low, "low"), as_number(high, "high"))
    return draw_from(
        source,
        draws_of(whole),
        lambda state: fill(whole, content, state, dtype=dtype, out=out, index=index, threads=threads),
    )


def random(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    *,
    dtype: npt.DTypeLike | None = None,
    out: object = None,
    index: Index | None = None,
    layout: str = "io",
    groups: SupportsIndex = 1,
    threads: int | None = None,
) -> Array:
    """Draw numbers uniformly on [0, 1): the top 53 bits of a draw, times 2**-53.

    Parameters
    ----------
    shape : int or tuple of int, or None
        The whole tensor's logical shape; None takes `out`'s.
    rng : SplitMix64 or int
        The generator, which moves on by one draw a number, or a seed in [0, 2**64 - 1].
    dtype, out, index, layout, groups, threads
        As in `xavier_uniform`; what the axes mean is checked against the shape, and changes no weight.

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
    return uniform(shape, rng, dtype=dtype, out=out, index=index, layout=layout, groups=groups, threads=threads)


def constant(
    shape: Shape | None,
    value: float,
    *,
    dtype: npt.DTypeLike | None = None,
    out: object = None,
    index: Index | None = None,
    layout: str = "io",
    groups: SupportsIndex = 1,
    threads: int | None = None,
) -> Array:
    """Fill with one value, rounded to the dtype; takes no draws and no generator.

    Parameters
    ----------
    shape : int or tuple of int, or None
        The whole tensor's logical shape; None takes `out`'s.
    value : float
        Finite, and not beyond the dtype's finite range.
    dtype, out, index, layout, groups, threads
        As in `xavier_uniform`; what the axes mean is checked against the shape, and changes no weight.

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
    axes_of(whole, layout, groups).check()
    content = Constant(as_finite(value, "value"))
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
    groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None,
    fan_out: SupportsIndex | None = None,
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
        matrices. ``"io"`` has inputs as rows; torch's Linear is ``"oi"``, its Conv2d ``"oihw"``, its
        ConvTranspose2d ``"iohw"``.
    groups : int, default 1
        Groups of a grouped convolution, as in `fans`.
    fan_in, fan_out : int, optional
        Connections into and out of a unit, where they are not to be counted from the shape.
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
    source = as_source(rng)
    whole = whole_shape(shape, out, index)
    axes = axes_of(whole, layout, groups, fan_in, fan_out)
    content = XAVIER_UNIFORM.scaled(axes, as_nonnegative(gain, "gain"))
    return draw_from(
        source,
        size_of(whole),
        lambda state: fill(whole, content, state, dtype=dtype, out=out, index=index, threads=threads),
    )


def as_source(rng: SplitMix64 | SupportsIndex) -> SplitMix64 | int:
    """Return the generator, or the seed as an int; a request's first check."""
    if type(rng) is not int and hasattr(rng, "transact"):  # not isinstance: the class's module loads numpy.random
        return rng  # type: ignore[return-value]
    if hasattr(rng, "__index__"):
        return as_u64(rng, "rng (an int seed)")
    hint = "; pass its bit_generator" if hasattr(getattr(rng, "bit_generator", None), "transact") else ""
    raise TypeError(f"rng must be a fastinit.SplitMix64 or an int seed, got {type(rng).__name__}{hint}")


def draw_from(source: SplitMix64 | int, draws: int, draw: Callable[[int], T]) -> T:
    """Call `draw` with the raw state of an `as_source`, and commit its draws once it has returned."""
    return draw(source) if type(source) is int else source.transact(draws, draw)  # type: ignore[union-attr]


def initialize(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    initializer: Initializer,
    *,
    gain: float = 1.0,
    dtype: npt.DTypeLike | None = None,
    out: object = None,
    index: Index | None = None,
    layout: str = "io",
    groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None,
    fan_out: SupportsIndex | None = None,
    threads: int | None = None,
) -> Array:
    """Fill with what any `Initializer` of `fastinit.initializers` makes of the shape.

    Parameters
    ----------
    shape : int or tuple of int, or None
        The whole tensor's logical shape; None takes `out`'s.
    rng : SplitMix64 or int
        The generator, which moves on by one draw a weight (constants, identity and dirac take none), or a seed.
    initializer : Initializer
        What to fill with.
    gain : float, default 1.0
        Multiplies every weight, so a mean and a constant as well as a spread; finite and >= 0.
    dtype, out, index, layout, groups, fan_in, fan_out, threads
        As in `xavier_uniform`.

    Returns
    -------
    numpy.ndarray
        `out` itself where given, else a new C-ordered array.

    Examples
    --------
    >>> import fastinit
    >>> from fastinit.initializers import Residual, xavier
    >>> fastinit.initialize((2, 2), 17, Residual(xavier(), layers=2)).round(12).tolist()
    [[0.002475441868, -0.132966044609], [-0.210252179424, -0.338156721616]]
    """
    if not isinstance(initializer, Initializer):
        raise TypeError(f"initializer must be one of fastinit.initializers, got {initializer!r}")
    source = as_source(rng)
    gain = as_nonnegative(gain, "gain")
    whole = whole_shape(shape, out, index)
    content = initializer.content(whole, layout, groups, fan_in, fan_out)
    if gain != 1.0:
        content = rescaled(content, gain)
    return draw_from(
        source,
        draws_of(whole) if content.draws_per_weight else 0,
        lambda state: fill(whole, content, state, dtype=dtype, out=out, index=index, threads=threads),
    )


@takes(AxisOptions)
def normal(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    mean: float = 0.0,
    std: float = 1.0,
    **options: Unpack[AxisOptions],
) -> Array:
    """Draw normal weights: ``mean + std * z``, one draw each.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`.
    mean, std : float
        Finite; ``std >= 0``, where 0 gives the mean.
    **options
        `dtype`, `out`, `index`, `layout`, `groups` and `threads`, as in `xavier_uniform`; what the axes mean is
        checked against the shape, and changes no weight.

    Notes
    -----
    *Interval.* z is the quantile of the weight's own draw, so ``|z| <= 8.2924``, and weights of one stream sort as
    its uniform weights do.

    Examples
    --------
    >>> import fastinit
    >>> weights = fastinit.normal((784, 10), 17, std=0.02)
    >>> bool(abs(weights.std() - 0.02) < 0.001)
    True
    """
    return initialize(shape, rng, initializers.Normal(mean, std), **options)


@takes(AxisOptions)
def truncated_normal(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    mean: float = 0.0,
    std: float = 1.0,
    lower: float = -2.0,
    upper: float = 2.0,
    **options: Unpack[AxisOptions],
) -> Array:
    """Draw normal weights inside ``[mean + lower * std, mean + upper * std]``, one draw each and none rejected.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`.
    mean, std : float
        Of the normal before it is truncated. Finite; ``std >= 0``.
    lower, upper : float
        Bounds in standard deviations from the mean, ``lower < upper``; either may be infinite.
    **options
        `dtype`, `out`, `index`, `layout`, `groups` and `threads`, as in `xavier_uniform`; what the axes mean is
        checked against the shape, and changes no weight.

    Notes
    -----
    *Interval.* Both bounds are inclusive, and hold after rounding to the dtype. torch's ``trunc_normal_`` takes
    its bounds in weight units instead: its ``a=-2, b=2`` with std 0.02 lie 100 standard deviations away.

    Examples
    --------
    >>> import fastinit
    >>> weights = fastinit.truncated_normal((64, 64), 17, std=0.02)
    >>> bool(abs(weights).max() <= 0.04)
    True
    """
    return initialize(shape, rng, initializers.TruncatedNormal(mean, std, lower, upper), **options)


@takes(FanOptions)
def xavier_normal(
    shape: Shape | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, **options: Unpack[FanOptions]
) -> Array:
    """Draw Xavier (Glorot) normal weights of standard deviation ``sqrt(2 / (fan_in + fan_out))``.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`.
    gain : float, default 1.0
        Multiplies the finished standard deviation or limit; finite and >= 0.
    **options
        `dtype`, `out`, `index`, `layout`, `groups`, `fan_in`, `fan_out` and `threads`, as in `xavier_uniform`.

    Examples
    --------
    >>> import fastinit
    >>> weights = fastinit.xavier_normal((784, 10), 17)
    >>> bool(abs(weights.std() - 0.0502) < 0.002)
    True
    """
    return initialize(shape, rng, xavier("normal"), gain=gain, **options)


@takes(FanOptions)
def xavier_truncated_normal(
    shape: Shape | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, **options: Unpack[FanOptions]
) -> Array:
    """Draw Xavier weights from a normal truncated at two standard deviations; the variance after it is Xavier's.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`.
    gain : float, default 1.0
        Multiplies the finished standard deviation or limit; finite and >= 0.
    **options
        `dtype`, `out`, `index`, `layout`, `groups`, `fan_in`, `fan_out` and `threads`, as in `xavier_uniform`.
    """
    return initialize(shape, rng, xavier("truncated_normal"), gain=gain, **options)


glorot_uniform = xavier_uniform
glorot_normal = xavier_normal
glorot_truncated_normal = xavier_truncated_normal


@takes(FanOptions)
def kaiming_uniform(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    nonlinearity: str = "relu",
    a: float | None = None,
    mode: str = "fan_in",
    *,
    gain: float = 1.0,
    **options: Unpack[FanOptions],
) -> Array:
    """Draw Kaiming (He) uniform weights, on [-limit, limit) with ``limit = sqrt(3 * squared_gain / fan)``.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`.
    nonlinearity : str, default "relu"
        What follows the layer, as in `fastinit.gain`.
    a : float, optional
        Its parameter: leaky_relu's negative slope (0.01), elu's alpha (1).
    mode : {"fan_in", "fan_out", "fan_avg", "fan_geo_avg"}
        Whether to keep the scale of signals or of gradients.
    gain : float, default 1.0
        Multiplies the finished standard deviation or limit; finite and >= 0.
    **options
        `dtype`, `out`, `index`, `layout`, `groups`, `fan_in`, `fan_out` and `threads`, as in `xavier_uniform`.

    References
    ----------
    He, Zhang, Ren and Sun (2015), "Delving deep into rectifiers: surpassing human-level performance on ImageNet
    classification", eq. 10, 14 and 15.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.kaiming_uniform((2, 2), 17).round(12).tolist()
    [[0.007001606926, -0.376084767241], [-0.59468296732, -0.956451643835]]
    """
    return initialize(shape, rng, kaiming("uniform", nonlinearity, a, mode), gain=gain, **options)


@takes(FanOptions)
def kaiming_normal(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    nonlinearity: str = "relu",
    a: float | None = None,
    mode: str = "fan_in",
    *,
    gain: float = 1.0,
    **options: Unpack[FanOptions],
) -> Array:
    """Draw Kaiming (He) normal weights of standard deviation ``sqrt(squared_gain / fan)``.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`.
    nonlinearity, a, mode, gain
        As in `kaiming_uniform`.
    **options
        `dtype`, `out`, `index`, `layout`, `groups`, `fan_in`, `fan_out` and `threads`, as in `xavier_uniform`.

    Examples
    --------
    >>> import fastinit
    >>> weights = fastinit.kaiming_normal((784, 10), 17)
    >>> bool(abs(weights.std() - 0.0505) < 0.002)
    True
    """
    return initialize(shape, rng, kaiming("normal", nonlinearity, a, mode), gain=gain, **options)


@takes(FanOptions)
def kaiming_truncated_normal(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    nonlinearity: str = "relu",
    a: float | None = None,
    mode: str = "fan_in",
    *,
    gain: float = 1.0,
    **options: Unpack[FanOptions],
) -> Array:
    """Draw Kaiming weights from a normal truncated at two standard deviations, of Kaiming's variance after it.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`.
    nonlinearity, a, mode, gain
        As in `kaiming_uniform`.
    **options
        `dtype`, `out`, `index`, `layout`, `groups`, `fan_in`, `fan_out` and `threads`, as in `xavier_uniform`.
    """
    return initialize(shape, rng, kaiming("truncated_normal", nonlinearity, a, mode), gain=gain, **options)


he_uniform = kaiming_uniform
he_normal = kaiming_normal
he_truncated_normal = kaiming_truncated_normal


@takes(FanOptions)
def lecun_uniform(
    shape: Shape | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, **options: Unpack[FanOptions]
) -> Array:
    """Draw LeCun uniform weights, on [-limit, limit) with ``limit = sqrt(3 / fan_in)``.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`.
    gain : float, default 1.0
        Multiplies the finished standard deviation or limit; finite and >= 0.
    **options
        `dtype`, `out`, `index`, `layout`, `groups`, `fan_in`, `fan_out` and `threads`, as in `xavier_uniform`.

    Examples
    --------
    >>> import fastinit
    >>> bool(abs(fastinit.lecun_uniform((300, 5), 17)).max() < 0.1)
    True
    """
    return initialize(shape, rng, lecun("uniform"), gain=gain, **options)


@takes(FanOptions)
def lecun_normal(
    shape: Shape | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, **options: Unpack[FanOptions]
) -> Array:
    """Draw LeCun normal weights of standard deviation ``sqrt(1 / fan_in)``.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`.
    gain : float, default 1.0
        Multiplies the finished standard deviation or limit; finite and >= 0.
    **options
        `dtype`, `out`, `index`, `layout`, `groups`, `fan_in`, `fan_out` and `threads`, as in `xavier_uniform`.
    """
    return initialize(shape, rng, lecun("normal"), gain=gain, **options)


@takes(FanOptions)
def lecun_truncated_normal(
    shape: Shape | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, **options: Unpack[FanOptions]
) -> Array:
    """Draw LeCun weights from a normal truncated at two standard deviations, of variance ``1 / fan_in`` after it.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`.
    gain : float, default 1.0
        Multiplies the finished standard deviation or limit; finite and >= 0.
    **options
        `dtype`, `out`, `index`, `layout`, `groups`, `fan_in`, `fan_out` and `threads`, as in `xavier_uniform`.
    """
    return initialize(shape, rng, lecun("truncated_normal"), gain=gain, **options)


@takes(FanOptions)
def variance_scaling(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    scale: float = 1.0,
    mode: str = "fan_in",
    distribution: str = "truncated_normal",
    **options: Unpack[FanOptions],
) -> Array:
    """Draw zero-centered weights of variance ``scale / fan``.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`.
    scale : float, default 1.0
        The squared gain; finite and >= 0.
    mode : {"fan_in", "fan_out", "fan_avg", "fan_geo_avg"}
        What `fan` is: one of the two, their arithmetic or their geometric mean.
    distribution : {"truncated_normal", "normal", "uniform"}
        Its shape; the truncated one has its variance after truncation.
    **options
        `dtype`, `out`, `index`, `layout`, `groups`, `fan_in`, `fan_out` and `threads`, as in `xavier_uniform`.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.variance_scaling((2, 2), 17, 1.0, "fan_avg", "uniform").round(6).tolist()
    [[0.004951, -0.265932], [-0.420504, -0.676313]]
    """
    return initialize(shape, rng, initializers.VarianceScaling(scale, mode, distribution), **options)


@takes(AxisOptions)
def zeros(shape: Shape | None, **options: Unpack[AxisOptions]) -> Array:
    """Fill with 0; takes no draws and no generator.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.zeros(3).tolist()
    [0.0, 0.0, 0.0]
    """
    return constant(shape, 0.0, **options)


@takes(AxisOptions)
def ones(shape: Shape | None, **options: Unpack[AxisOptions]) -> Array:
    """Fill with 1; takes no draws and no generator.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.ones(3).tolist()
    [1.0, 1.0, 1.0]
    """
    return constant(shape, 1.0, **options)


@takes(AxisOptions)
def identity(shape: Shape | None, *, gain: float = 1.0, **options: Unpack[AxisOptions]) -> Array:
    """Fill a matrix, or every matrix of a stack, with the identity times `gain`; takes no draws.

    Parameters
    ----------
    shape : int or tuple of int, or None
        The whole tensor's logical shape; None takes `out`'s.
    gain : float, default 1.0
        What stands on the diagonal; finite and >= 0.
    **options
        `dtype`, `out`, `index`, `layout`, `groups` and `threads`, as in `xavier_uniform`.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.identity((2, 3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    return initialize(shape, 0, initializers.Identity(gain), **options)


@takes(Options)
def dirac(
    shape: Shape | None, groups: SupportsIndex = 1, *, layout: str = "io", **options: Unpack[Options]
) -> Array:
    """Fill a convolution kernel so that it hands its inputs on unchanged; takes no draws.

    Parameters
    ----------
    shape : int or tuple of int, or None
        The whole tensor's logical shape; None takes `out`'s.
    groups : int, default 1
        The identity is repeated in each of so many groups of outputs, which it must divide.
    layout : str
        As in `xavier_uniform`; torch's Conv2d is ``"oihw"``.
    **options
        `dtype`, `out`, `index` and `threads`, as in `xavier_uniform`.

    Notes
    -----
    The tap is the middle of the receptive field, ``n // 2`` of an axis of length n.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.dirac((2, 2, 3), layout="oiw").tolist()
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    """
    return initialize(shape, 0, initializers.Dirac(groups), layout=layout, **options)


@takes(AxisOptions)
def orthogonal(
    shape: Shape | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, **options: Unpack[AxisOptions]
) -> Array:
    """Draw a random orthonormal matrix, uniformly (Haar) distributed, times `gain`.

    The outputs stand against everything else: the smaller side is orthonormal. Every matrix of a stack, and every
    group of a grouped convolution, is one.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`; a whole tensor's draws are consumed.
    gain : float, default 1.0
        Multiplies the finished matrix; finite and >= 0.
    **options
        `dtype`, `out`, `index`, `layout`, `groups` and `threads`, as in `xavier_uniform`.

    Notes
    -----
    *Reproducibility.* This is Q of a QR decomposition of the stream's normals, its columns times the signs of
    R's diagonal. LAPACK decides its last bits: it is the one scheme that is not bit-exact across machines, but
    equal to 1e-12 / min(1, smallest abs(R[j, j])). The part asked for is cut from the whole.

    References
    ----------
    Saxe, McClelland and Ganguli (2014), "Exact solutions to the nonlinear dynamics of learning in deep linear
    neural networks".

    Examples
    --------
    >>> import fastinit, numpy as np
    >>> weights = fastinit.orthogonal((3, 4, 5, 6), 17, layout="oihw").reshape(3, 120)
    >>> np.allclose(weights @ weights.T, np.eye(3))
    True
    """
    return initialize(shape, rng, initializers.Orthogonal(gain), **options)


@takes(AxisOptions)
def delta_orthogonal(
    shape: Shape | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, **options: Unpack[AxisOptions]
) -> Array:
    """Draw a convolution kernel that is orthonormal at the middle of its receptive field and zero elsewhere.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`; a whole tensor's draws are consumed.
    gain : float, default 1.0
        Multiplies the finished matrix; finite and >= 0.
    **options
        `dtype`, `out`, `index`, `layout`, `groups` and `threads`, as in `xavier_uniform`.

    Raises
    ------
    DistributionError
        If there are more inputs than outputs, among others as in `xavier_uniform`.

    Notes
    -----
    The tap is ``(n - 1) // 2`` of an axis of length n. *Reproducibility* as in `orthogonal`.

    References
    ----------
    Xiao et al. (2018), "Dynamical isometry and a mean field theory of CNNs: how to train 10,000-layer vanilla
    convolutional neural networks".

    Examples
    --------
    >>> import fastinit, numpy as np
    >>> weights = fastinit.delta_orthogonal((3, 3, 4, 8), 17, layout="hwio")
    >>> np.allclose(weights[1, 1] @ weights[1, 1].T, np.eye(4)), int(np.count_nonzero(weights))
    (True, 32)
    """
    return initialize(shape, rng, initializers.DeltaOrthogonal(gain), **options)


@takes(AxisOptions)
def sparse(
    shape: Shape | None,
    rng: SplitMix64 | SupportsIndex,
    fraction: float,
    std: float = 0.01,
    **options: Unpack[AxisOptions],
) -> Array:
    """Draw a normal matrix of which a fraction of every column is zero.

    Parameters
    ----------
    shape, rng
        As in `xavier_uniform`; two axes, and one draw for every element, zero or not.
    fraction : float
        In [0, 1]: ``ceil(fraction * rows)`` elements of each column are zero.
    std : float, default 0.01
        Standard deviation of the others; finite and >= 0.
    **options
        `dtype`, `out`, `index`, `layout`, `groups` and `threads`, as in `xavier_uniform`; what the axes mean is
        checked against the shape, and changes no weight.

    Notes
    -----
    A column is one of the stored matrix: with inputs as rows it holds what one unit receives. Which elements are
    zero is decided by another hash of their draws, so the others are unbiased.

    References
    ----------
    Martens (2010), "Deep learning via Hessian-free optimization", section 5.

    Examples
    --------
    >>> import fastinit
    >>> (fastinit.sparse((5, 7), 17, 0.25) == 0).sum(axis=0).tolist()
    [2, 2, 2, 2, 2, 2, 2]
    """
    return initialize(shape, rng, initializers.Sparse(fraction, std), **options)
