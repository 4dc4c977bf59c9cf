"""The weights of one tensor as numbers: counts, moments, extremes and a histogram."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .stored import CHUNK_BYTES, StoredTensor

_Array = np.ndarray[Any, Any]

BINS = 32
"""Bins of a histogram."""

_SMALLEST_SUM = 1e-290  # a sum of fourth powers below it has lost digits


@dataclass(frozen=True, slots=True)
class Measured:
    """The weights of one tensor; moments and extremes are of its finite ones.

    Attributes
    ----------
    finite, nan, inf, zeros : int
        Counts; the first three add up to the tensor's size.
    mean, std : float
        Population mean and standard deviation, summed in float64.
    kurtosis : float
        Excess kurtosis: 0 for a normal, -1.2 for a uniform distribution; NaN of equal weights.
    low, high : float
        Extremes.
    at_low, at_high : int
        How many weights have exactly that value.
    histogram : tuple of int
        Of `sampled` weights in equal bins over `limits`; empty where those are too far apart to subtract, or
        too close to divide by.
    sampled : int
        All, or an evenly spread part of a large tensor.
    """

    finite: int
    nan: int
    inf: int
    zeros: int
    mean: float
    std: float
    kurtosis: float
    low: float
    high: float
    at_low: int
    at_high: int
    histogram: tuple[int, ...] = ()
    sampled: int = 0

    @property
    def limits(self) -> tuple[float, float]:
        """The range of the histogram: the extremes, or an interval around a single value."""
        return _limits(self.low, self.high)

    def facts(self) -> dict[str, Any]:
        """Return the numbers as plain JSON; one that is not finite is None."""
        facts = {name: finite_or_none(value) for name, value in asdict(self).items() if name != "histogram"}
        sampled = facts.pop("sampled")
        return facts | {"histogram": list(self.histogram), "sampled": sampled}


def finite_or_none(value: float | None) -> float | None:
    """Return `value`, or None where JSON has no number for it."""
    return value if value is not None and math.isfinite(value) else None


def measured(tensor: StoredTensor, facts: dict[str, Any], sample: _Array) -> Measured:
    """Return the numbers of a tensor.

    Parameters
    ----------
    tensor : StoredTensor
        Read again only where powers of its weights leave float64's range.
    facts : dict
        Its `_core.Summary.facts`.
    sample : array
        Its `StoredTensor.sample`, for the histogram.
    """
    mean, std, kurtosis = _moments(tensor, facts)
    low, high = (facts["low"] + 0.0, facts["high"] + 0.0) if facts["count"] else (math.nan, math.nan)
    counts = _histogram(sample[np.isfinite(sample)], *_limits(low, high))
    return Measured(
        finite=facts["count"],
        nan=facts["nan"],
        inf=facts["inf"],
        zeros=facts["zeros"],
        mean=mean + 0.0,  # -0.0 and 0.0 are one value
        std=std,
        kurtosis=kurtosis,
        low=low,
        high=high,
        at_low=facts["at_low"],
        at_high=facts["at_high"],
        histogram=counts,
        sampled=sum(counts),
    )


def _limits(low: float, high: float) -> tuple[float, float]:
    margin = 0.0 if low < high else max(0.5, abs(low) / 2)
    return low - margin, high + margin


def _moments(tensor: StoredTensor, facts: dict[str, Any]) -> tuple[float, float, float]:
    """Return mean, standard deviation and excess kurtosis of the finite weights."""
    count, low, high, m2, m4 = (facts[name] for name in ("count", "low", "high", "m2", "m4"))
    if not count:
        return math.nan, math.nan, math.nan
    if low == high:
        return low, 0.0, math.nan
    if _SMALLEST_SUM < m4 < math.inf:
        return facts["anchor"] + facts["mean"], math.sqrt(m2 / count), m4 / m2 / (m2 / count) - 3
    return _rescaled_moments(tensor, max(abs(low), abs(high)))


def _rescaled_moments(tensor: StoredTensor, largest: float) -> tuple[float, float, float]:
    """Read float64 weights whose powers over- or underflow again, times a power of two."""
    exponent = math.frexp(largest)[1]
    step = CHUNK_BYTES // tensor.spec.dtype.itemsize

    def total(power: int, about: float) -> float:
        parts = []
        for begin in range(0, tensor.spec.size, step):
            values = np.ldexp(tensor.values(begin, min(step, tensor.spec.size - begin)), -exponent)
            parts.append(float(((values[np.isfinite(values)] - about) ** power).sum()))
        return math.fsum(parts)

    count = total(0, 0.0)
    mean = total(1, 0.0) / count
    variance = total(2, mean) / count
    return (
        math.ldexp(mean, exponent),
        math.ldexp(math.sqrt(variance), exponent),
        total(4, mean) / count / variance**2 - 3,
    )


def _histogram(finite: _Array, low: float, high: float) -> tuple[int, ...]:
    """Count values in equal bins over their limits; nothing where the limits do not allow it.

    As `numpy.histogram`, but for values within rounding of an edge: its care for them costs 30 us a tensor.
    """
    if not finite.size or not _SMALLEST_SUM < high - low < 1 / _SMALLEST_SUM:
        return ()
    bins = ((finite - low) * (BINS / (high - low))).astype(np.intp)
    return tuple(np.bincount(np.minimum(bins, BINS - 1), minlength=BINS).tolist())
