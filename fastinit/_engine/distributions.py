"""Distributions: what the elements of one tensor are, as frozen data. One class each, and it knows itself.

With ``k`` the top 53 bits of the element's draw, ``u = k * 2**-53`` and arithmetic in float64, each class states
its weight, interval and roundings; the arithmetic is in ``csrc/``. Read `Distribution`
(in `initializer.py`) first, then `Uniform`. A distribution of the whole tensor stands in `constructions.py`.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import _core
from ..errors import DistributionError
from . import probability, truncation
from .axes import Axes
from .checks import Shape, as_finite, as_nonnegative, as_number, as_u64
from .dtypes import DType
from .initializer import Distribution
from .narrow import rounded
from .parts import Array, Index, Part
from .probability import LARGEST_NORMAL, Moments

__all__ = ["CenteredUniform", "Constant", "Normal", "Positions", "TruncatedNormal", "Uniform"]


@dataclass(frozen=True, slots=True)
class Constant(Distribution):  # noqa: PLW1641  # dataclass makes the hash
    """The same value everywhere; takes no draws."""

    value: float

    kind: ClassVar[str] = "constant"
    base: ClassVar[int] = _core.BASES["constant"]
    draws_per_weight: ClassVar[int] = 0
    scales: ClassVar[tuple[str, ...]] = ("value",)

    def __post_init__(self) -> None:
        self._set(value=as_finite(self.value, "value"))

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers that the kernel is given."""
        return (self.value,)

    def __eq__(self, other: object) -> bool:
        """Compare by the bits: 0.0 and -0.0 are two weights."""
        return type(other) is Constant and struct.pack("<d", other.value) == struct.pack("<d", self.value)

    @property
    def name(self) -> str:
        """Zeros and ones have names of their own."""
        famous = {"0.0": "zeros", "1.0": "ones"}
        return famous.get(repr(self.value), self.kind)

    def prepare(self, dtype: DType) -> _core.Spec | None:
        """Return the kernel's spec; an integer dtype takes the value itself, where it holds it."""
        if dtype.is_float:
            return Distribution.prepare(self, dtype)
        if not _holds(dtype, self.value):
            raise self.unfit(dtype)
        return None

    def values(self, shape: Shape, state: int, part: Part, index: Index | None, threads: int | None) -> Array:  # noqa: ARG002
        """Return the value, for a target of integers."""
        return np.asarray(self.value)

    def affine(self, factor: float, offset: float) -> Distribution | None:
        """Return the constant that every weight becomes."""
        return Constant(factor * self.value + offset)

    def _moments(self, shape: Shape) -> Moments:  # noqa: ARG002
        return Moments(self.value, 0.0)

    @property
    def support(self) -> tuple[float, float]:
        """The value alone."""
        return self.value, self.value


def between(low: float, high: float) -> Distribution | None:
    """Return the uniform distribution between two bounds in any order, centered where they are opposite."""
    low, high = min(low, high), max(low, high)
    if low == -high and high > 0:
        return CenteredUniform(high)
    return Uniform(low, high) if low < high and math.isfinite(high - low) else None


def _alike(bound: float, other: float) -> bool:
    """Say whether two bounds, in standard deviations, cut off the same to a millionth, or nothing at all."""
    return math.isclose(bound, other, rel_tol=1e-6, abs_tol=1e-6) or (
        min(abs(bound), abs(other)) > LARGEST_NORMAL and (bound > 0) == (other > 0)
    )


def _holds(dtype: DType, value: float) -> bool:
    if dtype.is_foreign:
        return False
    held = np.iinfo(dtype.bits)
    return bool(held.min <= value <= held.max and value == int(value))


@dataclass(frozen=True, slots=True)
class Uniform(Distribution):
    """Uniform on [low, high): ``low + (high - low) * u``, one rounding for the difference and two a weight.

    Attributes
    ----------
    low, high : float
        Finite, ``low < high``.
    """

    low: float = 0.0
    high: float = 1.0

    kind: ClassVar[str] = "uniform"
    base: ClassVar[int] = _core.BASES["uniform"]
    draws_per_weight: ClassVar[int] = 1
    scales: ClassVar[tuple[str, ...]] = ("low", "high")
    needs: ClassVar[str] = "low < high and a finite high - low"

    def __post_init__(self) -> None:
        if type(self.low) is type(self.high) is float and -math.inf < self.low < self.high < math.inf:
            return
        low, high = as_number(self.low, "low"), as_number(self.high, "high")
        for bound, what in ((low, "low"), (high, "high")):
            if not -math.inf < bound < math.inf:
                raise DistributionError(f"{what} must be finite, got {bound}")
        if not (low < high or _is_interval(low, high)):
            raise DistributionError(f"uniform needs low < high, got low={low} and high={high}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers that the kernel is given."""
        return (self.low, self.high)

    def rescaled(self, factor: float, p: float = 1.0, q: float = 1.0) -> Distribution:
        """Return it with every weight times ``factor / sqrt(p / q)``.

        Bounds that meet leave one value, which still takes its draws: a normal of std 0.
        """
        low, high = (self._times(bound, factor, p, q) for bound in (self.low, self.high))
        return Normal(low, 0.0) if _meet(low, high) else Uniform(low, high)

    def affine(self, factor: float, offset: float) -> Distribution | None:
        """Return the uniform distribution between the changed bounds."""
        return between(factor * self.low + offset, factor * self.high + offset)

    def _moments(self, shape: Shape) -> Moments:  # noqa: ARG002
        return Moments((self.low + self.high) / 2, (self.high - self.low) / math.sqrt(12), -1.2)

    def variance(self, shape: Shape = ()) -> float:  # noqa: ARG002
        """Return the variance of a weight, without the rounding of its square root."""
        return (self.high - self.low) ** 2 / 12

    @property
    def support(self) -> tuple[float, float]:
        """The bounds."""
        return self.low, self.high

    def cdf(self, x: Array) -> Array:
        """Return the probability of a weight below each `x`."""
        return np.asarray(np.clip((x - self.low) / (self.high - self.low), 0, 1))

    def density(self, x: Array) -> Array:
        """Return the probability density at each `x`."""
        return np.where((x >= self.low) & (x <= self.high), 1 / (self.high - self.low), 0.0)

    def reachable(self, values: Array, dtype: DType) -> Array:
        """Return the dtype's values in [low, high): below `high` rounded to the dtype as well."""
        return _half_open(values, self.low, self.high, dtype)


def _is_interval(low: float, high: float) -> bool:
    """Ask the core whether low < high: a host that flushes subnormals to zero takes two of them for equal."""
    spec = _core.Spec(_core.BASES["uniform"], _core.DTYPES["float64"], (low, high))
    return spec.status != _core.NOT_AN_INTERVAL


def _meet(low: float, high: float) -> bool:
    """Say by the bits whether two bounds are equal: a host that flushes subnormals takes two of them for equal."""
    ours, theirs = struct.unpack("<2Q", struct.pack("<2d", low, high))
    return bool(ours == theirs or (ours | theirs) & ((1 << 63) - 1) == 0)  # both zero, whatever their signs


def _half_open(values: Array, low: float, high: float, dtype: DType) -> Array:
    return np.asarray(values[(values >= low) & (values < min(high, rounded(high, dtype)))])


@dataclass(frozen=True, slots=True)
class CenteredUniform(Distribution):
    """Uniform on [-limit, limit): ``limit * (2u - 1)``; ``2u - 1`` is exact, so there is one rounding.

    Attributes
    ----------
    limit : float
        Finite, >= 0; 0 gives zeros.
    """

    limit: float

    kind: ClassVar[str] = "centered_uniform"
    base: ClassVar[int] = _core.BASES["centered_uniform"]
    draws_per_weight: ClassVar[int] = 1
    scales: ClassVar[tuple[str, ...]] = ("limit",)
    needs: ClassVar[str] = "a limit of 0 or more"

    def __init__(self, limit: float) -> None:
        """Check the limit; by hand, because a small Xavier fill makes one and has no time for a second call."""
        if type(limit) is not float or not 0 < limit < math.inf:
            limit = as_nonnegative(limit, "limit")
        object.__setattr__(self, "limit", limit)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers that the kernel is given."""
        return (self.limit,)

    def affine(self, factor: float, offset: float) -> Distribution | None:
        """Return the uniform distribution between the changed bounds, centered where it still is."""
        return between(offset - factor * self.limit, offset + factor * self.limit)

    def _moments(self, shape: Shape) -> Moments:  # noqa: ARG002
        return Moments(0.0, self.limit / math.sqrt(3), -1.2)

    def variance(self, shape: Shape = ()) -> float:  # noqa: ARG002
        """Return the variance of a weight, without the rounding of its square root."""
        return self.limit**2 / 3

    @property
    def support(self) -> tuple[float, float]:
        """The bounds."""
        return -self.limit, self.limit

    def cdf(self, x: Array) -> Array | None:
        """Return the probability of a weight below each `x`; None where every weight is 0."""
        return np.asarray(np.clip((x + self.limit) / (2 * self.limit), 0, 1)) if self.limit else None

    def density(self, x: Array) -> Array | None:
        """Return the probability density at each `x`; None where every weight is 0."""
        return np.where(np.abs(x) <= self.limit, 0.5 / self.limit, 0.0) if self.limit else None

    def reachable(self, values: Array, dtype: DType) -> Array:
        """Return the dtype's values in [-limit, limit): below `limit` rounded to the dtype as well."""
        return _half_open(values, -self.limit, self.limit, dtype)


@dataclass(frozen=True, slots=True)
class Normal(Distribution):
    """Normal: ``mean + std * z``, two roundings; z is the normal quantile of the draw (``csrc/quantile.h``).

    Attributes
    ----------
    mean, std : float
        Finite; ``std >= 0``, where 0 gives the mean and takes the same draws.

    Notes
    -----
    *Interval.* |z| <= 8.2924; never 0, and symmetric: the draw whose ``k`` is ``2**53 - 1 - k`` has ``-z``.

    *Reproducibility.* z is within 3 ulp of ``sqrt(2) * erfinv((2k + 1 - 2**53) * 2**-53)``, non-decreasing in
    ``k``, and the same bits everywhere.
    """

    mean: float = 0.0
    std: float = 1.0

    kind: ClassVar[str] = "normal"
    base: ClassVar[int] = _core.BASES["normal"]
    draws_per_weight: ClassVar[int] = 1
    scales: ClassVar[tuple[str, ...]] = ("mean", "std")

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", as_finite(self.mean, "mean"))
        object.__setattr__(self, "std", as_nonnegative(self.std, "std"))

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers that the kernel is given."""
        return (self.mean, self.std)

    def affine(self, factor: float, offset: float) -> Distribution | None:
        """Return the normal distribution of the changed mean and spread."""
        return Normal(factor * self.mean + offset, abs(factor) * self.std)

    def _moments(self, shape: Shape) -> Moments:  # noqa: ARG002
        return Moments(self.mean, self.std, 0.0)

    @property
    def support(self) -> tuple[float, float]:
        """The interval of every weight that can be drawn."""
        return self.mean - LARGEST_NORMAL * self.std, self.mean + LARGEST_NORMAL * self.std

    def cdf(self, x: Array) -> Array | None:
        """Return the probability of a weight below each `x`; None where every weight is the mean."""
        return np.asarray(1 - probability.mass_above((x - self.mean) / self.std)) if self.std else None

    def density(self, x: Array) -> Array | None:
        """Return the probability density at each `x`; None where every weight is the mean."""
        if not self.std:
            return None
        z = (x - self.mean) / self.std
        return np.asarray(np.exp(-z * z / 2) / (self.std * math.sqrt(2 * math.pi)))


@dataclass(frozen=True, slots=True)
class TruncatedNormal(Distribution):
    """``mean + std * z`` with z the quantile of a standard normal truncated to [lower, upper]; two roundings.

    Attributes
    ----------
    mean, std : float
        Of the normal before it is truncated. Finite; ``std >= 0``.
    lower, upper : float
        Bounds in standard deviations from the mean, ``lower < upper``; either may be infinite, or None for that.

    Notes
    -----
    *Interval.* No weight lies outside ``[mean + std * lower, mean + std * upper]``, in the dtype it is stored in.
    Far tails work: [5.25, 1e6] gives values near 5.43.

    *Reproducibility.* One draw a weight, no rejection, and the same bits everywhere (``csrc/truncated.h``). z is
    within ``4 * max(ulp(z), 2**-52)`` of the exact quantile. Two infinite bounds give the bits of `Normal`.
    """

    mean: float = 0.0
    std: float = 1.0
    lower: float = -2.0
    upper: float = 2.0

    kind: ClassVar[str] = "truncated_normal"
    base: ClassVar[int] = _core.BASES["truncated_normal"]
    draws_per_weight: ClassVar[int] = 1
    scales: ClassVar[tuple[str, ...]] = ("mean", "std")
    needs: ClassVar[str] = "lower < upper"

    def __post_init__(self) -> None:
        lower = -math.inf if self.lower is None else as_number(self.lower, "lower")
        upper = math.inf if self.upper is None else as_number(self.upper, "upper")
        if not lower < upper:
            raise DistributionError(
                "truncated_normal needs lower < upper, in standard deviations; "
                f"got lower={lower} and upper={upper}"
            )
        self._set(mean=as_finite(self.mean, "mean"), std=as_nonnegative(self.std, "std"), lower=lower, upper=upper)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers that the kernel is given: the parameters, and the constants that depend on the bounds."""
        return (self.mean, self.std, self.lower, self.upper, *truncation.constants(self.lower, self.upper))

    def affine(self, factor: float, offset: float) -> Distribution | None:
        """Return it with mean, spread and, for a negative factor, sides changed."""
        lower, upper = (self.lower, self.upper) if factor >= 0 else (-self.upper, -self.lower)
        return TruncatedNormal(factor * self.mean + offset, abs(factor) * self.std, lower, upper)

    def clamped(self, low: float, high: float) -> Distribution | None:
        """Return it with these bounds where they are its own but for their rounding; nothing may be cut off."""
        if not self.std:
            return Distribution.clamped(self, low, high)
        lower, upper = (low - self.mean) / self.std, (high - self.mean) / self.std
        is_same = all(map(_alike, (self.lower, self.upper), (lower, upper)))
        return dataclasses.replace(self, lower=lower, upper=upper) if is_same else None

    def _moments(self, shape: Shape) -> Moments:  # noqa: ARG002
        _, z, mass = probability.truncated_mass(self.lower, self.upper)
        standard = probability.moments_of(z, mass / mass.sum())
        return standard._replace(mean=self.mean + self.std * standard.mean, std=self.std * standard.std)

    @property
    def support(self) -> tuple[float, float]:
        """The bounds in weights; a std of 0 leaves the mean."""
        low, high = (self.mean + (self.std and self.std * bound) for bound in (self.lower, self.upper))
        return low, high

    def cdf(self, x: Array) -> Array | None:
        """Return the probability of a weight below each `x`; None where every weight is the mean."""
        if not self.std:
            return None
        z = np.clip((x - self.mean) / self.std, self.lower, self.upper)
        if self.upper <= 0:  # the mirror image keeps the tail's digits
            near, end, above = -self.upper, -self.lower, -z
        else:
            near, end, above = self.lower, self.upper, z
        ends = probability.mass_above(np.array([near, end]), near)
        share = (probability.mass_above(above, near) - ends[1]) / (ends[0] - ends[1])
        return np.asarray(share if self.upper <= 0 else 1 - share)

    def density(self, x: Array) -> Array | None:
        """Return the probability density at each `x`; None where every weight is the mean."""
        if not self.std:
            return None
        z = (x - self.mean) / self.std
        nearest, _, mass = probability.truncated_mass(self.lower, self.upper)
        inside = (z >= self.lower) & (z <= self.upper)
        return np.where(inside, np.exp((nearest * nearest - z * z) / 2) / (mass.sum() * self.std), 0.0)

    def reachable(self, values: Array, dtype: DType) -> Array:  # noqa: ARG002
        """Return the dtype's values between the bounds, both included."""
        low, high = self.mean + self.std * self.lower, self.mean + self.std * self.upper
        return np.asarray(values[(values >= low) & (values <= high)])


@dataclass(frozen=True, slots=True)
class Positions(Distribution):
    """0, 1, ..., length - 1 along the last axis, as position-index buffers hold; no draws, and integers only.

    Attributes
    ----------
    length : int or None
        The length of the last axis; None takes the tensor's.
    """

    length: int | None = None

    kind: ClassVar[str] = "positions"
    draws_per_weight: ClassVar[int] = 0
    holds_weights: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.length is None:
            return
        self._set(length=as_u64(self.length, "length"))
        if self.length == 0:
            raise ValueError("positions need a length of 1 to 2**64 - 1, got 0")

    def at(self, axes: Axes) -> Distribution:
        """Return the positions of the last axis; an empty tensor gets a constant."""
        axes.check()
        if not axes.shape:
            raise ValueError("positions count along the last axis, and a 0-d tensor has none")
        last = axes.shape[-1]
        if self.length not in (None, last):
            raise ValueError(
                f"{self} counts {self.length} positions, but the last axis of shape {axes.shape} has {last}"
            )
        return Positions(last) if last else Constant(0.0)

    def prepare(self, dtype: DType) -> None:
        """Refuse a dtype that does not hold the last position."""
        if dtype.is_float or self.length is None or not _holds(dtype, self.length - 1):
            raise self.unfit(dtype)

    def values(self, shape: Shape, state: int, part: Part, index: Index | None, threads: int | None) -> Array:  # noqa: ARG002
        """Return the positions of the part's elements."""
        assert self.length is not None, "prepare refused it"
        return np.asarray(part.numbers() % np.uint64(self.length))

    def rescaled(self, factor: float, p: float = 1.0, q: float = 1.0) -> Distribution:  # noqa: ARG002
        """Refuse: they are indices, not weights."""
        raise DistributionError("positions cannot be rescaled: they are indices, not weights")

    def _moments(self, shape: Shape) -> None:  # noqa: ARG002
        return None

    @property
    def support(self) -> tuple[float, float]:
        """The first position and the last."""
        return 0.0, float((self.length or 1) - 1)
