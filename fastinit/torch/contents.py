"""What a region of a recorded tensor holds: one value, draws, what memory holds, or nothing yet.

A content is frozen. An operation on a tensor makes another content of it, or None where no content says what the
operation does: the recorder then runs it for real.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import torch

from .._engine.distributions import TruncatedNormal
from .._engine.initializer import Distribution
from ..errors import DistributionError

Tensor = Any
"""A torch.Tensor; a type checker may not have torch."""


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """One call that draws: contents with the same draw hold the same random numbers."""

    number: int

    def __lt__(self, other: Draw) -> bool:
        return self.number < other.number


@dataclass(frozen=True, slots=True)
class Drawn:
    """Weights of a distribution; `draw` is None where it takes no draws (an identity, say)."""

    distribution: Distribution
    draw: Draw | None

    def changed(self, operation: str, numbers: tuple[float, ...]) -> Drawn | None:
        """Return the content after an elementwise operation with Python numbers."""
        try:
            distribution = _CHANGES[operation](self.distribution, *numbers)
        except (KeyError, TypeError, ArithmeticError, DistributionError, ValueError):
            return None
        return None if distribution is None else Drawn(distribution, self.draw)


@dataclass(frozen=True, slots=True)
class Fixed:
    """One value everywhere, a tensor without axes: torch itself computes with it, so its bits are torch's."""

    value: Tensor

    def __eq__(self, other: object) -> bool:
        return type(other) is Fixed and _bits(self.value) == _bits(other.value)

    def __hash__(self) -> int:
        return hash(_bits(self.value))


@dataclass(frozen=True, slots=True)
class Computed:
    """What memory holds, and the operations that computed it from `draws` (or from draws of their own)."""

    operations: tuple[str, ...] = ()
    draws: frozenset[Draw] = frozenset()
    is_random: bool = False


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Memory that no code has written."""


Content = Drawn | Fixed | Computed | Unwritten


def _bits(value: Tensor) -> tuple[str, bytes]:
    return str(value.dtype), bytes(value.reshape(1).view(torch.uint8).tolist())


def _quantile_of(uniform: Distribution) -> Distribution | None:
    """Return what ``erfinv`` makes of a uniform weight: a truncated normal of standard deviation 1 / sqrt(2)."""
    if uniform.kind not in ("uniform", "centered_uniform"):
        return None
    low, high = uniform.support
    return TruncatedNormal(0.0, math.sqrt(0.5), _normal_quantile(low), _normal_quantile(high))


def _normal_quantile(bound: float) -> float:
    probability = (bound + 1) / 2
    if 0 < probability < 1:
        return NormalDist().inv_cdf(probability)
    return math.copysign(math.inf, bound)


def _plus(distribution: Distribution, offset: float, alpha: float = 1.0) -> Distribution | None:
    return distribution.affine(1.0, alpha * offset)


_CHANGES: dict[str, Callable[..., Distribution | None]] = {
    "mul": lambda distribution, factor: distribution.affine(factor, 0.0),
    "div": lambda distribution, divisor: distribution.affine(1 / divisor, 0.0),
    "add": _plus,
    "sub": lambda distribution, offset, alpha=1.0: _plus(distribution, -offset, alpha),
    "rsub": lambda distribution, minuend, alpha=1.0: distribution.affine(-alpha, minuend),
    "neg": lambda distribution: distribution.affine(-1.0, 0.0),
    "clamp": lambda distribution, low=-math.inf, high=math.inf: distribution.clamped(low, high),
    "clamp_min": lambda distribution, low: distribution.clamped(low, math.inf),
    "clamp_max": lambda distribution, high: distribution.clamped(-math.inf, high),
    "erfinv": _quantile_of,
}
"""Elementwise operations whose result has a name, by torch's name without the underscore."""

CHANGES = frozenset(_CHANGES)


def mixed(contents: list[Content]) -> Computed:
    """Return what all of some regions hold, as one content that memory holds."""
    computed = [content for content in contents if isinstance(content, Computed)]
    draws = {content.draw for content in contents if isinstance(content, Drawn) and content.draw is not None}
    return Computed(
        tuple(dict.fromkeys(name for content in computed for name in content.operations)),
        frozenset(draws).union(*(content.draws for content in computed)),
        any(content.is_random for content in computed),
    )
