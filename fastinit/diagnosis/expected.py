"""What the weights of a tensor should look like: the moments and bounds of what it was to be filled with."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._engine.axes import SPATIAL
from .._engine.constructions import DeltaOrthogonal, Diagonal, Orthogonal, Sparse
from .._engine.distributions import CenteredUniform, Constant, Normal, TruncatedNormal, Uniform
from .._engine.dtypes import DType
from .._engine.initializer import Distribution as Content
from .._engine.narrow import narrowed, widened
from .._engine.probability import LARGEST_NORMAL
from ..plan import PlannedTensor

Array = np.ndarray[Any, Any]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_NEGLIGIBLE = 80.0  # exp(-80 / 2) of the largest density is below float64's resolution


@dataclass(frozen=True, slots=True)
class Expected:
    """What a tensor should look like, and who says so.

    Attributes
    ----------
    source : str
        The plan's scheme or the rule.
    std : float
        Standard deviation; 0 where all weights are to be equal.
    mean, kurtosis : float or None
        Mean and excess kurtosis (a normal's is 0); None where nothing is said about them.
    low, high : float
        No weight lies outside.
    tolerance : float
        Relative error of `std` itself: a rule's is rounded to the digits it was written with.
    is_drawn : bool
        Whether every weight is a draw of its own, so that equal weights in a row mean something.
    content : Content or None
        What the plan fills the tensor with.
    is_stored : bool
        Whether the moments are of the values as stored, rounded and clamped, and not of the float64 weights.
    likeliest : float
        Share of the most frequent stored value, where `is_stored`.
    kurtosis_error : float
        Standard error of the kurtosis of n weights, times sqrt(n); a normal's is sqrt(24).
    """

    source: str
    std: float
    mean: float | None = None
    kurtosis: float | None = None
    low: float = -math.inf
    high: float = math.inf
    tolerance: float = 0.0
    is_drawn: bool = True
    content: Content | None = None
    is_stored: bool = False
    likeliest: float = 0.0
    kurtosis_error: float = math.sqrt(24)


def of_planned(tensor: PlannedTensor, stored_as: DType | None = None) -> Expected | None:
    """Return what the plan's tensor should look like; None where it is no tensor of weights.

    In a dtype of one or two bytes the moments are those after rounding, exactly: a large part of the weights
    lies near the bounds, where the values are furthest apart, so rounding and clamping shift mean and spread.

    Parameters
    ----------
    tensor : PlannedTensor
        The plan's.
    stored_as : DType, optional
        The dtype it was cast to since, where that is not the plan's.

    Examples
    --------
    >>> import fastinit
    >>> plan = fastinit.Plan.from_layout({"w": {"dtype": "F32", "shape": [2, 4]}}, seed=17)
    >>> expected = of_planned(plan["w"])
    >>> expected.std, expected.kurtosis, expected.high  # sqrt(2 / 6), a uniform's, sqrt(6 / 6)
    (0.5773502691896258, -1.2, 1.0)
    """
    content, source = tensor.distribution, f"the plan's {tensor.initializer}"
    dtype = stored_as or tensor.dtype

    def expected(mean: float, std: float, kurtosis: float | None, low: float, high: float) -> Expected:
        found = Expected(source, std, mean, kurtosis, low, high, content=content)
        return _as_stored(found, content, dtype, is_cast=dtype is not tensor.dtype)

    match content:
        case Constant(value):
            return Expected(source, 0.0, value, low=value, high=value, is_drawn=False, content=content)
        case CenteredUniform(limit):
            return expected(0.0, limit / math.sqrt(3), -1.2, -limit, limit)
        case Uniform(low, high):
            return expected((low + high) / 2, (high - low) / math.sqrt(12), -1.2, low, high)
        case Normal(mean, std):
            return expected(mean, std, 0.0, mean - LARGEST_NORMAL * std, mean + LARGEST_NORMAL * std)
        case TruncatedNormal(mean, std, lower, upper):
            middle, spread, kurtosis, error = _truncated_moments(lower, upper)
            found = expected(
                mean + std * middle,
                std * spread,
                kurtosis,
                mean + (std and std * lower),
                mean + (std and std * upper),
            )
            return found if found.is_stored else replace(found, kurtosis_error=error)
        case Sparse(fraction, std):
            normal = Expected(source, std, 0.0, 0.0, *_around(content.largest), content=content)
            kept = _as_stored(normal, Normal(0.0, std), dtype, is_cast=dtype is not tensor.dtype)
            return _of_sparse(tensor, fraction, kept)
        case Diagonal() | DeltaOrthogonal() | Orthogonal():
            return _of_matrix(tensor, content, source) if tensor.size else None
    return None


def density(content: Content | None, x: Array) -> Array | None:
    """Return the probability density at `x` of what each weight is drawn from; None where it has none."""
    match content:
        case CenteredUniform(limit) if limit > 0:
            return np.where(np.abs(x) <= limit, 0.5 / limit, 0.0)
        case Uniform(low, high) if high > low:
            return np.where((x >= low) & (x <= high), 1 / (high - low), 0.0)
        case Normal(mean, std) if std > 0:
            z = (x - mean) / std
            return np.asarray(np.exp(-z * z / 2) / (std * math.sqrt(2 * math.pi)))
        case TruncatedNormal(mean, std, lower, upper) if std > 0:
            z = (x - mean) / std
            nearest, _, mass = _truncated_mass(lower, upper)
            inside = (z >= lower) & (z <= upper)
            return np.where(inside, np.exp((nearest * nearest - z * z) / 2) / (mass.sum() * std), 0.0)
    return None


def _around(bound: float) -> tuple[float, float]:
    return -bound, bound


def _of_sparse(tensor: PlannedTensor, fraction: float, kept: Expected) -> Expected:
    """Thin the normal weights of `kept` out: in every column the same number is zero."""
    rows = tensor.shape[0]
    share = 1 - math.ceil(fraction * rows) / rows if rows else 0.0
    if not share or not kept.std or kept.kurtosis is None:
        return replace(kept, std=0.0, mean=0.0, low=0.0, high=0.0, kurtosis=None)
    return replace(
        kept,
        std=kept.std * math.sqrt(share),
        kurtosis=(kept.kurtosis + 3) / share - 3,
        kurtosis_error=kept.kurtosis_error / share**1.5,
        likeliest=1 - share + share * kept.likeliest,
    )


def _of_matrix(tensor: PlannedTensor, content: Diagonal | DeltaOrthogonal | Orthogonal, source: str) -> Expected:
    """Take the mean square from the shape: orthonormal rows or columns, or so many ones."""
    axes = content.axes(tensor.shape)
    fan_in, fan_out = axes.fans
    if isinstance(content, Orthogonal):  # outputs against everything else
        fan_out //= math.prod(n for letter, n in zip(axes.letters, tensor.shape, strict=True) if letter in SPATIAL)
    square = content.gain**2 / max(fan_in, fan_out)
    is_diagonal = isinstance(content, Diagonal)
    mean = content.gain / max(fan_in, fan_out) if is_diagonal else 0.0
    return Expected(
        source,
        math.sqrt(max(0.0, square - mean * mean)),
        mean,
        None,
        *((0.0, content.gain) if is_diagonal else _around(content.gain)),
        is_drawn=not is_diagonal,
        content=content,
    )


def _truncated_mass(lower: float, upper: float) -> tuple[float, Array, Array]:
    """Return the interval's point nearest to 0, nodes in it, and the mass at each beside the density there."""
    nearest = min(max(0.0, lower), upper)
    reach = math.sqrt(nearest * nearest + _NEGLIGIBLE)
    begin, end = max(lower, -reach), min(upper, reach)
    z = begin + (end - begin) * (_NODES + 1) / 2
    return nearest, z, np.asarray(_WEIGHTS * (end - begin) / 2 * np.exp((nearest * nearest - z * z) / 2))


def _truncated_moments(lower: float, upper: float) -> tuple[float, float, float, float]:
    """Return the `_moments` of a standard normal truncated to [lower, upper]."""
    _, z, mass = _truncated_mass(lower, upper)
    return _moments(z, mass / mass.sum())


def _moments(values: Array, mass: Array) -> tuple[float, float, float, float]:
    """Return mean, standard deviation, excess kurtosis, and the kurtosis' standard error times sqrt(n).

    The error is the root mean square of the kurtosis' influence function.
    """
    mean = float(mass @ values)
    std = math.sqrt(mass @ (values - mean) ** 2)
    if std == 0:
        return mean, 0.0, math.nan, 0.0
    z = (values - mean) / std
    skewness, fourth = float(mass @ z**3), float(mass @ z**4)
    influence = z**4 - fourth - 2 * fourth * (z**2 - 1) - 4 * skewness * z
    return mean, std, fourth - 3, math.sqrt(mass @ influence**2)


# ---- as stored ---------------------------------------------------------------------------------------

_MILLS_FROM = 5.0  # standard deviations, from where the continued fraction below is exact in 40 terms


def _as_stored(expected: Expected, content: Content, dtype: DType, *, is_cast: bool) -> Expected:
    """Return `expected` with the moments after rounding to a narrow dtype; float32 and float64 change nothing."""
    if dtype.itemsize > 2 or not expected.std:
        return expected
    mean, std, kurtosis, error, likeliest = _stored_moments(content, dtype, is_cast)
    return replace(
        expected,
        mean=mean,
        std=std,
        kurtosis=kurtosis if std else None,
        is_stored=True,
        likeliest=likeliest,
        kurtosis_error=error,
    )


@functools.lru_cache(maxsize=256)
def _stored_moments(content: Content, dtype: DType, is_cast: bool) -> tuple[float, float, float, float, float]:
    """Return the `_moments` of rounded weights, and the share of their most frequent value.

    A value has the mass of what lies nearer to it than to its neighbours; the first and the last inside the
    interval have what lies beyond them too.
    """
    values = _finite_values(dtype)
    if not is_cast:
        values = _inside(values, content, dtype)
    mass = np.diff(np.r_[0.0, _mass_below(content, (values[:-1] + values[1:]) / 2), 1.0])
    held = mass > 0
    return *_moments(values[held], mass[held]), float(mass.max())


@functools.cache
def _finite_values(dtype: DType) -> Array:
    values = widened(np.arange(1 << (8 * dtype.itemsize)).astype(f"<u{dtype.itemsize}"), dtype)
    return np.unique(values[np.isfinite(values)])


def rounded(value: float, dtype: DType) -> float:
    """Return the value of a floating dtype that is nearest, to nearest even."""
    bits = narrowed(np.array([value]), dtype)
    return float(widened(bits.astype(bits.dtype.newbyteorder("<")), dtype)[0])


def _inside(values: Array, content: Content, dtype: DType) -> Array:
    """Keep the values that a fill gives: those of a half-open interval, or of a closed one of rounded bounds."""
    match content:
        case CenteredUniform(high):
            return values[(values >= -high) & (values < min(high, rounded(high, dtype)))]
        case Uniform(low, high):
            return values[(values >= low) & (values < min(high, rounded(high, dtype)))]
        case TruncatedNormal(mean, std, lower, upper):
            return values[(values >= mean + std * lower) & (values <= mean + std * upper)]
    return values


def _mass_below(content: Content, x: Array) -> Array:
    """Return the probability of a float64 weight below each `x`."""
    match content:
        case CenteredUniform(limit):
            return np.clip((x + limit) / (2 * limit), 0, 1)
        case Uniform(low, high):
            return np.clip((x - low) / (high - low), 0, 1)
        case Normal(mean, std):
            return 1 - _mass_above((x - mean) / std)
        case TruncatedNormal(mean, std, lower, upper):
            z = np.clip((x - mean) / std, lower, upper)
            if upper <= 0:  # the mirror image keeps the tail's digits
                near, end, above = -upper, -lower, -z
            else:
                near, end, above = lower, upper, z
            ends = _mass_above(np.array([near, end]), near)
            share = (_mass_above(above, near) - ends[1]) / (ends[0] - ends[1])
            return np.asarray(share if upper <= 0 else 1 - share)
    raise TypeError(f"{content!r} has no distribution of a single weight")


def _mass_above(z: Array, near: float = 0.0) -> Array:
    """Return a standard normal's mass above each `z`; over a factor exp(-near**2 / 2), where `near` is far out."""
    if near < _MILLS_FROM:
        return np.array([math.erfc(x / math.sqrt(2)) / 2 for x in z.tolist()])
    ratio = z.copy()
    for term in range(40, 0, -1):
        ratio = z + term / ratio
    return np.asarray(np.exp((near * near - z * z) / 2) / ratio)
