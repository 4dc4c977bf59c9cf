"""What a region of a recorded tensor holds: one value, draws, what memory holds, or nothing yet.

A content is frozen. An operation on a tensor makes another content of it, or None where no content says what the
operation does: the recorder then runs it for real.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import torch

from .._engine.distributions import TruncatedNormal
from .._engine.initializer import Distribution
from ..errors import DistributionError
from .regions import Region, box_in

Tensor = Any
"""A torch.Tensor; a type checker may not have torch."""


@dataclass(slots=True, eq=False)
class Draw:
    """One call that draws: contents with the same draw hold the same random numbers.

    Attributes
    ----------
    number : int
        Of the call.
    is_pinned : bool
        Whether something was computed from its numbers: they must stay as they were made.
    is_changed : bool
        Whether memory holds its numbers after steps that torch itself made.
    reader : str
        The first operation that read them, "" if none did.
    stream : str
        The name of the one tensor that holds them, which then decides them; "" before that is known, or for ever.
    """

    number: int
    is_pinned: bool = False
    is_changed: bool = False
    reader: str = ""
    stream: str = ""

    def __lt__(self, other: Draw) -> bool:
        return self.number < other.number


class Step(NamedTuple):
    """An elementwise operation that the code applied to what it drew: torch's own, and its numbers; or a cast."""

    operation: Any
    numbers: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """Torch's name of it."""
        return "_to_copy" if isinstance(self.operation, torch.dtype) else _name_of(self.operation)

    def __call__(self, values: Tensor) -> Tensor:
        """Return what torch makes of the values."""
        if isinstance(self.operation, torch.dtype):
            return values.to(self.operation)
        given = zip(self.operation._schema.arguments[1:], self.numbers, strict=True)
        named = {argument.name: number for argument, number in given if argument.kwarg_only}
        return self.operation(values, *self.numbers[: len(self.numbers) - len(named)], **named)


def _name_of(operation: Any) -> str:
    return str(operation._schema.name).removeprefix("aten::")


@dataclass(frozen=True, slots=True)
class Drawn:
    """Weights of a distribution, each at its own place.

    Attributes
    ----------
    distribution : Distribution
        What they are now.
    draw : Draw or None
        Whose numbers they hold; None where the distribution takes no draws (an identity, say).
    home : Region
        Where all of the draw would lie, were it all in this storage: its element (i, j) lies at (i, j) of that.
    source : Distribution
        What was drawn, before the steps.
    dtype : torch.dtype
        In which it was drawn.
    steps : tuple of Step
        What the code did to it since; `source` and these give the code's own bits.
    """

    distribution: Distribution
    draw: Draw | None
    home: Region
    source: Distribution
    dtype: Any
    steps: tuple[Step, ...] = ()

    def changed(self, step: Step) -> Drawn | None:
        """Return the content after an elementwise operation with Python numbers; None where it has no name."""
        try:
            distribution = _CHANGES[step.name.removesuffix("_")](self.distribution, *step.numbers)
        except (KeyError, TypeError, ArithmeticError, DistributionError, ValueError):
            return None
        return None if distribution is None else self._after(step, distribution)

    def cast(self, source: Any, target: Any) -> Drawn | None:
        """Return the content in another dtype; None where that would show how coarse this one is."""
        if source == target:
            return self
        return self._after(Step(target), self.distribution) if _is_cast(source, target) else None

    def carried(self, source: Region, target: Region, part: Region | None = None) -> Drawn | None:
        """Return what (a part of) `target` holds once `source` was copied there; None if that is no box of it."""
        home = self.home.carried(source, target)
        if home is None or box_in(target if part is None else part, home) is None:
            return None
        return replace(self, home=home)

    def is_like(self, other: Drawn) -> bool:
        """Say whether equal places of the draw hold equal bits in both."""
        return self.made == other.made

    @property
    def made(self) -> tuple[Any, ...]:
        """How its values are made, but for their places: comparable."""
        return self.draw, self.source, self.dtype, self.steps

    def _after(self, step: Step, distribution: Distribution) -> Drawn:
        return replace(self, distribution=distribution, steps=(*self.steps, step))


def _is_cast(source: Any, target: Any) -> bool:
    """Say whether a draw in one dtype may be drawn in another, to be rounded once.

    Not from fewer bits to more: its values would not be as coarse as the code's are. From float32 to float64 it
    may: float32 weights are the float64 ones rounded, whichever the model was built in.
    """
    if not (source.is_floating_point and target.is_floating_point):
        return False
    narrow, wide = torch.finfo(target), torch.finfo(source)
    least, wide_least = (info.smallest_normal * info.eps for info in (narrow, wide))
    is_within = narrow.eps >= wide.eps and narrow.max <= wide.max and least >= wide_least
    return is_within or (source, target) == (torch.float32, torch.float64)


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
