"""Probabilities of a weight, in float64: for what is expected of a tensor, never for a weight itself.

`Moments` are what a distribution says of its weights; `stored_moments` those of the values a narrow dtype stores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .dtypes import DType
from .narrow import widened
from .parts import Array

if TYPE_CHECKING:
    from .initializer import Distribution

LARGEST_NORMAL = 8.2924
"""Every normal draw lies nearer to its mean than this many standard deviations."""

_NEGLIGIBLE = 80.0  # exp(-80 / 2) of the largest density is below float64's resolution
_MILLS_FROM = 5.0  # standard deviations, from where the continued fraction of `mass_above` is exact in 40 terms
_ONE_MEAN = 1e-3  # standard deviations by which the means of parts may differ and count as one


class Moments(NamedTuple):
    """What the weights of a tensor have on average.

    Attributes
    ----------
    mean, std : float
        Mean and standard deviation.
    kurtosis : float or None
        Excess kurtosis (a normal's is 0); None where nothing is said about it.
    kurtosis_error : float
        Standard error of the kurtosis of n weights, times sqrt(n); a normal's is sqrt(24).
    likeliest : float
        Share of the most frequent stored value, where `is_stored`.
    is_stored : bool
        Whether these are moments of the stored values, rounded and clamped, and not of the float64 weights.
    """

    mean: float
    std: float
    kurtosis: float | None = None
    kurtosis_error: float = math.sqrt(24)
    likeliest: float = 0.0
    is_stored: bool = False


def mixture(parts: Sequence[Moments], shares: Sequence[float]) -> Moments:
    """Return the moments of a tensor of which each share of the weights has the moments of a part."""
    mean = math.fsum(share * part.mean for share, part in zip(shares, parts, strict=True))
    variance = math.fsum(s * (p.std**2 + (p.mean - mean) ** 2) for s, p in zip(shares, parts, strict=True))
    kurtosis, error = _mixed_kurtosis(parts, shares, mean, math.sqrt(variance))
    return Moments(
        mean,
        math.sqrt(variance),
        kurtosis,
        error,
        likeliest=_likeliest(parts, shares),
        is_stored=all(part.is_stored or not part.std for part in parts),
    )


def _mixed_kurtosis(
    parts: Sequence[Moments], shares: Sequence[float], mean: float, std: float
) -> tuple[float | None, float]:
    """Return the kurtosis and its error, where all means are one: elsewhere it takes third moments."""
    drawn = [(share, part) for share, part in zip(shares, parts, strict=True) if part.std]
    one_mean = all(abs(part.mean - mean) <= _ONE_MEAN * std for part in parts)
    if not drawn or not one_mean or any(part.kurtosis is None for _, part in drawn):
        return None, math.sqrt(24)
    fourth = math.fsum(share * part.std**4 * ((part.kurtosis or 0.0) + 3) for share, part in drawn)
    share = math.fsum(share for share, _ in drawn)
    return fourth / std**4 - 3, max(part.kurtosis_error for _, part in drawn) / share**1.5


def _likeliest(parts: Sequence[Moments], shares: Sequence[float]) -> float:
    """Return the share of the most frequent value: that of a constant, or of a part's most frequent one."""
    found: dict[float, float] = {}
    for share, part in zip(shares, parts, strict=True):
        value = part.mean if not part.std else math.inf
        found[value] = found.get(value, 0.0) + share * (part.likeliest if part.std else 1.0)
    return max(found.values())


def moments_of(values: Array, mass: Array) -> Moments:
    """Return the moments of `values`, taken with the probabilities `mass`.

    The error of the kurtosis is the root mean square of its influence function.
    """
    mean = float(mass @ values)
    std = math.sqrt(mass @ (values - mean) ** 2)
    if std == 0:
        return Moments(mean, 0.0, math.nan, 0.0)
    z = (values - mean) / std
    skewness, fourth = float(mass @ z**3), float(mass @ z**4)
    influence = z**4 - fourth - 2 * fourth * (z**2 - 1) - 4 * skewness * z
    return Moments(mean, std, fourth - 3, math.sqrt(mass @ influence**2))


def stored_moments(distribution: Distribution, dtype: DType, *, is_cast: bool) -> Moments:
    """Return the moments of float64 weights after rounding to a dtype of one or two bytes.

    A value has the mass of what lies nearer to it than to its neighbours; the first and the last inside the
    interval have what lies beyond them too. `is_cast`: another program rounded, without this package's clamp.
    """
    return _stored_moments(distribution, dtype, is_cast)


@lru_cache(maxsize=256)
def _stored_moments(distribution: Distribution, dtype: DType, is_cast: bool) -> Moments:
    values = _finite_values(dtype)
    if not is_cast:
        values = distribution.reachable(values, dtype)
    below = distribution.cdf((values[:-1] + values[1:]) / 2)
    assert below is not None, "only elementwise distributions are rounded value by value"
    mass = np.diff(np.r_[0.0, below, 1.0])
    held = mass > 0
    found = moments_of(values[held], mass[held])
    kurtosis = found.kurtosis if found.std else None
    return found._replace(kurtosis=kurtosis, likeliest=float(mass.max()), is_stored=True)


@cache
def _finite_values(dtype: DType) -> Array:
    values = widened(np.arange(1 << (8 * dtype.itemsize)).astype(f"<u{dtype.itemsize}"), dtype)
    return np.unique(values[np.isfinite(values)])


def mass_above(z: Array, near: float = 0.0) -> Array:
    """Return a standard normal's mass above each `z`; over a factor exp(-near**2 / 2), where `near` is far out."""
    if near < _MILLS_FROM:
        return np.array([math.erfc(x / math.sqrt(2)) / 2 for x in z.tolist()])
    ratio = z.copy()
    for term in range(40, 0, -1):
        ratio = z + term / ratio
    return np.asarray(np.exp((near * near - z * z) / 2) / ratio)


def truncated_mass(lower: float, upper: float) -> tuple[float, Array, Array]:
    """Return the interval's point nearest to 0, nodes in it, and the mass at each beside the density there."""
    nearest = min(max(0.0, lower), upper)
    reach = math.sqrt(nearest * nearest + _NEGLIGIBLE)
    begin, end = max(lower, -reach), min(upper, reach)
    nodes, weights = _legendre()
    z = begin + (end - begin) * (nodes + 1) / 2
    return nearest, z, np.asarray(weights * (end - begin) / 2 * np.exp((nearest * nearest - z * z) / 2))


@cache
def _legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return nodes, weights
