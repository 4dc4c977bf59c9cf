"""The signatures of `functions`, for editors and type checkers; ``help(fastinit.normal)`` says more of each.

The first form of each function knows the dtype of what it returns: float64, or the numpy type that is given. The
second takes the names of dtypes, other libraries' dtypes and memory to fill, and returns an array of any dtype.
"""

from typing import SupportsIndex, overload

from numpy.typing import NDArray
from typing_extensions import Unpack

from ._engine.annotations import Fanned, FloatDType, Gained, Grouped, Kind, Out, Placed, Rng, Scalar
from ._engine.checks import ShapeLike
from ._engine.initializer import Initializer
from ._engine.parts import Array, Index

def as_initializer(initializer: Initializer | str) -> Initializer:
    """Return an initializer, or the one that a name, a call of it or JSON text stands for."""

def as_text(initializer: Initializer) -> str:
    """Return the text that `as_initializer` reads as this initializer."""

# fmt: off

@overload
def constant(
    shape: ShapeLike, value: float, *, dtype: Kind[Scalar] = None, **options: Unpack[Grouped],
) -> NDArray[Scalar]: ...
@overload
def constant(
    shape: ShapeLike | None, value: float, *, dtype: FloatDType | None = None, out: Out | None = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Fill with one value, rounded to the dtype; takes no draws and no generator.

    shape: the whole tensor's; None takes that of `out`. value: finite.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

@overload
def zeros(shape: ShapeLike, *, dtype: Kind[Scalar] = None, **options: Unpack[Grouped]) -> NDArray[Scalar]: ...
@overload
def zeros(
    shape: ShapeLike | None, *, dtype: FloatDType | None = None, out: Out | None = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Fill with 0; takes no draws and no generator.

    shape: the whole tensor's; None takes that of `out`.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

@overload
def ones(shape: ShapeLike, *, dtype: Kind[Scalar] = None, **options: Unpack[Grouped]) -> NDArray[Scalar]: ...
@overload
def ones(
    shape: ShapeLike | None, *, dtype: FloatDType | None = None, out: Out | None = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Fill with 1; takes no draws and no generator.

    shape: the whole tensor's; None takes that of `out`.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

@overload
def identity(shape: ShapeLike, *, dtype: Kind[Scalar] = None, **options: Unpack[Gained]) -> NDArray[Scalar]: ...
@overload
def identity(
    shape: ShapeLike | None, *, gain: float = 1.0, dtype: FloatDType | None = None, out: Out | None = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Fill a matrix, or every matrix of a stack, with the identity times `gain`; takes no draws.

    shape: the whole tensor's; None takes that of `out`. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

@overload
def dirac(
    shape: ShapeLike, groups: SupportsIndex | None = None, *, dtype: Kind[Scalar] = None,
    **options: Unpack[Placed],
) -> NDArray[Scalar]: ...
@overload
def dirac(
    shape: ShapeLike | None, groups: SupportsIndex | None = None, *, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", threads: int | None = None,
) -> Array:
    """Fill a convolution kernel so that it hands its inputs on unchanged; takes no draws.

    shape: the whole tensor's; None takes that of `out`.
    groups: the identity is repeated in each of so many groups of outputs.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    threads: for a large fill; the bits do not depend on it.
    """

@overload
def random(
    shape: ShapeLike, rng: Rng, *, dtype: Kind[Scalar] = None, **options: Unpack[Gained],
) -> NDArray[Scalar]: ...
@overload
def random(
    shape: ShapeLike | None, rng: Rng, *, gain: float = 1.0, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    threads: int | None = None,
) -> Array:
    """Draw numbers uniformly on [0, 1): the top 53 bits of a draw, times 2**-53.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

@overload
def uniform(
    shape: ShapeLike, rng: Rng, low: float = 0.0, high: float = 1.0, *, dtype: Kind[Scalar] = None,
    **options: Unpack[Gained],
) -> NDArray[Scalar]: ...
@overload
def uniform(
    shape: ShapeLike | None, rng: Rng, low: float = 0.0, high: float = 1.0, *,
    gain: float = 1.0, dtype: FloatDType | None = None, out: Out | None = None, index: Index | None = None,
    layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Draw weights uniformly on [low, high): ``low + (high - low) * u``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. low: the smallest weight.
    high: the bound that no weight reaches. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

@overload
def normal(
    shape: ShapeLike, rng: Rng, mean: float = 0.0, std: float = 1.0, *, dtype: Kind[Scalar] = None,
    **options: Unpack[Gained],
) -> NDArray[Scalar]: ...
@overload
def normal(
    shape: ShapeLike | None, rng: Rng, mean: float = 0.0, std: float = 1.0, *,
    gain: float = 1.0, dtype: FloatDType | None = None, out: Out | None = None, index: Index | None = None,
    layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Draw normal weights: ``mean + std * z``, one draw each.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. mean: of the normal, before truncation.
    std: of the normal, before truncation; >= 0. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

@overload
def truncated_normal(
    shape: ShapeLike, rng: Rng, mean: float = 0.0, std: float = 1.0, lower: float = -2.0, upper: float = 2.0, *,
    dtype: Kind[Scalar] = None, **options: Unpack[Gained],
) -> NDArray[Scalar]: ...
@overload
def truncated_normal(
    shape: ShapeLike | None, rng: Rng, mean: float = 0.0, std: float = 1.0,
    lower: float = -2.0, upper: float = 2.0, *, gain: float = 1.0, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    threads: int | None = None,
) -> Array:
    """Draw normal weights inside ``[mean + lower * std, mean + upper * std]``, one draw each and none rejected.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. mean: of the normal, before truncation.
    std: of the normal, before truncation; >= 0. lower: least weight, in standard deviations from the mean.
    upper: greatest weight, likewise. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

@overload
def variance_scaling(
    shape: ShapeLike, rng: Rng, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal",
    *, dtype: Kind[Scalar] = None, **options: Unpack[Fanned],
) -> NDArray[Scalar]: ...
@overload
def variance_scaling(
    shape: ShapeLike | None, rng: Rng, scale: float = 1.0, mode: str = "fan_in",
    distribution: str = "truncated_normal", *, gain: float = 1.0, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw zero-centered weights of variance ``scale / fan``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. scale: the squared gain.
    mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg".
    distribution: "truncated_normal", "normal" or "uniform". gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

@overload
def xavier_uniform(
    shape: ShapeLike, rng: Rng, *, dtype: Kind[Scalar] = None, **options: Unpack[Fanned],
) -> NDArray[Scalar]: ...
@overload
def xavier_uniform(
    shape: ShapeLike | None, rng: Rng, *, gain: float = 1.0, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Xavier (Glorot) uniform weights, on [-limit, limit) with ``limit = sqrt(6 / (fan_in + fan_out))``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

@overload
def xavier_normal(
    shape: ShapeLike, rng: Rng, *, dtype: Kind[Scalar] = None, **options: Unpack[Fanned],
) -> NDArray[Scalar]: ...
@overload
def xavier_normal(
    shape: ShapeLike | None, rng: Rng, *, gain: float = 1.0, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Xavier (Glorot) normal weights of standard deviation ``sqrt(2 / (fan_in + fan_out))``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

@overload
def xavier_truncated_normal(
    shape: ShapeLike, rng: Rng, *, dtype: Kind[Scalar] = None, **options: Unpack[Fanned],
) -> NDArray[Scalar]: ...
@overload
def xavier_truncated_normal(
    shape: ShapeLike | None, rng: Rng, *, gain: float = 1.0, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Xavier (Glorot) truncated normal weights, of variance ``2 / (fan_in + fan_out)`` after truncation.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

@overload
def kaiming_uniform(
    shape: ShapeLike, rng: Rng, activation: str = "relu", a: float | None = None, mode: str = "fan_in", *,
    dtype: Kind[Scalar] = None, **options: Unpack[Fanned],
) -> NDArray[Scalar]: ...
@overload
def kaiming_uniform(
    shape: ShapeLike | None, rng: Rng, activation: str = "relu", a: float | None = None,
    mode: str = "fan_in", *, gain: float = 1.0, dtype: FloatDType | None = None, out: Out | None = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Kaiming (He) uniform weights, on [-limit, limit) with ``limit = sqrt(3 * squared_gain / fan)``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed.
    activation: the function after the layer, as in `gain`.
    a: the activation's parameter: leaky_relu's slope, elu's alpha.
    mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg". gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

@overload
def kaiming_normal(
    shape: ShapeLike, rng: Rng, activation: str = "relu", a: float | None = None, mode: str = "fan_in", *,
    dtype: Kind[Scalar] = None, **options: Unpack[Fanned],
) -> NDArray[Scalar]: ...
@overload
def kaiming_normal(
    shape: ShapeLike | None, rng: Rng, activation: str = "relu", a: float | None = None,
    mode: str = "fan_in", *, gain: float = 1.0, dtype: FloatDType | None = None, out: Out | None = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Kaiming (He) normal weights of standard deviation ``sqrt(squared_gain / fan)``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed.
    activation: the function after the layer, as in `gain`.
    a: the activation's parameter: leaky_relu's slope, elu's alpha.
    mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg". gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

@overload
def kaiming_truncated_normal(
    shape: ShapeLike, rng: Rng, activation: str = "relu", a: float | None = None, mode: str = "fan_in", *,
    dtype: Kind[Scalar] = None, **options: Unpack[Fanned],
) -> NDArray[Scalar]: ...
@overload
def kaiming_truncated_normal(
    shape: ShapeLike | None, rng: Rng, activation: str = "relu", a: float | None = None,
    mode: str = "fan_in", *, gain: float = 1.0, dtype: FloatDType | None = None, out: Out | None = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Kaiming (He) truncated normal weights, of variance ``squared_gain / fan`` after truncation.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed.
    activation: the function after the layer, as in `gain`.
    a: the activation's parameter: leaky_relu's slope, elu's alpha.
    mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg". gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

@overload
def lecun_uniform(
    shape: ShapeLike, rng: Rng, *, dtype: Kind[Scalar] = None, **options: Unpack[Fanned],
) -> NDArray[Scalar]: ...
@overload
def lecun_uniform(
    shape: ShapeLike | None, rng: Rng, *, gain: float = 1.0, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw LeCun uniform weights, on [-limit, limit) with ``limit = sqrt(3 / fan_in)``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

@overload
def lecun_normal(
    shape: ShapeLike, rng: Rng, *, dtype: Kind[Scalar] = None, **options: Unpack[Fanned],
) -> NDArray[Scalar]: ...
@overload
def lecun_normal(
    shape: ShapeLike | None, rng: Rng, *, gain: float = 1.0, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw LeCun normal weights of standard deviation ``sqrt(1 / fan_in)``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

@overload
def lecun_truncated_normal(
    shape: ShapeLike, rng: Rng, *, dtype: Kind[Scalar] = None, **options: Unpack[Fanned],
) -> NDArray[Scalar]: ...
@overload
def lecun_truncated_normal(
    shape: ShapeLike | None, rng: Rng, *, gain: float = 1.0, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw LeCun truncated normal weights, of variance ``1 / fan_in`` after truncation.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

@overload
def orthogonal(
    shape: ShapeLike, rng: Rng, *, dtype: Kind[Scalar] = None, **options: Unpack[Gained],
) -> NDArray[Scalar]: ...
@overload
def orthogonal(
    shape: ShapeLike | None, rng: Rng, *, gain: float = 1.0, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    threads: int | None = None,
) -> Array:
    """Draw a random orthonormal matrix, uniformly (Haar) distributed, times `gain`.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

@overload
def delta_orthogonal(
    shape: ShapeLike, rng: Rng, *, dtype: Kind[Scalar] = None, **options: Unpack[Gained],
) -> NDArray[Scalar]: ...
@overload
def delta_orthogonal(
    shape: ShapeLike | None, rng: Rng, *, gain: float = 1.0, dtype: FloatDType | None = None,
    out: Out | None = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    threads: int | None = None,
) -> Array:
    """Draw a convolution kernel that is orthonormal at the middle of its receptive field and zero elsewhere.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

@overload
def sparse(
    shape: ShapeLike, rng: Rng, fraction: float, std: float = 0.01, *, dtype: Kind[Scalar] = None,
    **options: Unpack[Gained],
) -> NDArray[Scalar]: ...
@overload
def sparse(
    shape: ShapeLike | None, rng: Rng, fraction: float, std: float = 0.01, *,
    gain: float = 1.0, dtype: FloatDType | None = None, out: Out | None = None, index: Index | None = None,
    layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Draw a normal matrix of which a fraction of every column is zero.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed.
    fraction: share of every column that is zero. std: of the normal, before truncation; >= 0.
    gain: multiplies every weight. dtype: float64 (default) or a narrower one; None takes that of `out`.
    out: memory to fill, in any memory order. index: fill only ``whole[index]``.
    layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

@overload
def initialize(
    shape: ShapeLike, rng: Rng, initializer: Initializer | str, *, dtype: Kind[Scalar] = None,
    **options: Unpack[Fanned],
) -> NDArray[Scalar]: ...
@overload
def initialize(
    shape: ShapeLike | None, rng: Rng, initializer: Initializer | str, *,
    gain: float = 1.0, dtype: FloatDType | None = None, out: Out | None = None, index: Index | None = None,
    layout: str = "io", groups: SupportsIndex = 1, fan_in: SupportsIndex | None = None,
    fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Fill with any initializer.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed.
    initializer: any of `fastinit.initializers`, its name, or JSON text. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

glorot_uniform = xavier_uniform
glorot_normal = xavier_normal
glorot_truncated_normal = xavier_truncated_normal
he_uniform = kaiming_uniform
he_normal = kaiming_normal
he_truncated_normal = kaiming_truncated_normal
# fmt: on
