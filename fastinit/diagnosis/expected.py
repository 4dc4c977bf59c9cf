"""Expectations: the moments and bounds of the weights that a tensor was to be filled with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._engine.dtypes import DType
from .._engine.initializer import Distribution
from .._escaping import escaped
from ..plan import PlannedTensor
from .measured import finite_or_none

EQUAL_CHANCE = 1e-6
"""Equal weights that are less likely than this are a fault."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The moments and bounds that a tensor should have, and who says so.

    Attributes
    ----------
    source : str
        The plan's initializer, or the rule.
    std : float
        Standard deviation; 0 where all weights are to be equal.
    mean, kurtosis : float or None
        Mean and excess kurtosis (a normal's is 0); None where the source says nothing about them.
    low, high : float
        The interval in which every weight lies.
    tolerance : float
        Relative error of `std` itself: a rule's is rounded to the digits it was written with.
    is_drawn : bool
        Whether every weight is a draw of its own, so that equal weights in a row mean something.
    distribution : Distribution or None
        The plan's; None of a rule.
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
    distribution: Distribution | None = None
    is_stored: bool = False
    likeliest: float = 0.0
    kurtosis_error: float = math.sqrt(24)

    def rounding(self, dtype: DType) -> float:
        """Return how much rounding to `dtype` moves a standard deviation, or a mean, at most."""
        if self.is_stored:
            return 0.0
        largest = abs(self.mean or 0.0) + self.std
        error = max(relative_step(dtype) * largest, least_step(dtype) / 2)
        return error * (error / self.std) if error < self.std else error

    def may_be_equal(self, count: int) -> bool:
        """Say whether so many weights may well be equal by chance: a coarse dtype has few values near 1."""
        return self.likeliest**count > EQUAL_CHANCE

    def facts(self) -> dict[str, Any]:
        """Return the moments and bounds as plain JSON; an infinite bound is None."""
        return {
            "source": self.source,
            "mean": self.mean,
            "std": self.std,
            "kurtosis": self.kurtosis,
            "low": finite_or_none(self.low),
            "high": finite_or_none(self.high),
        }


def of_planned(tensor: PlannedTensor, stored_as: DType | None = None) -> Expected | None:
    """Return what a plan expects of its tensor; None where it holds indices or, made as a whole, is empty.

    Parameters
    ----------
    tensor : PlannedTensor
        The plan's.
    stored_as : DType, optional
        The dtype it was cast to since, where that is not the plan's.

    Examples
    --------
    >>> import fastinit
    >>> plan = fastinit.Plan.from_specs({"w": {"dtype": "F32", "shape": [2, 4]}}, seed=17)
    >>> expected = of_planned(plan["w"])
    >>> expected.std, expected.kurtosis, expected.high  # sqrt(2 / 6), a uniform's, sqrt(6 / 6)
    (0.5773502691896258, -1.2, 1.0)
    """
    distribution, dtype = tensor.distribution, stored_as or tensor.dtype
    moments = distribution.moments(tensor.shape, dtype, is_cast=dtype is not tensor.dtype)
    if moments is None:
        return None
    low, high = distribution.support
    return Expected(
        source=f"the plan's {escaped(tensor.initializer)}",
        low=low,
        high=high,
        is_drawn=tensor.draws > 0,  # a copy is equal to its original, and draws nothing
        distribution=distribution,
        **moments._asdict(),
    )


def relative_step(dtype: DType) -> float:
    """Return half a step between values of a floating dtype, relative to them."""
    assert dtype.significand is not None
    return 2.0 ** (-dtype.significand - 1)


def least_step(dtype: DType) -> float:
    """Return the least step between values of a floating dtype: its smallest subnormal."""
    assert dtype.least_exponent is not None
    return 2.0**dtype.least_exponent
