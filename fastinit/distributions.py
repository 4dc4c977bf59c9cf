"""What a weight is drawn from: frozen data, one class per base.

With ``k`` the top 53 bits of the element's draw, ``u = k * 2**-53`` and arithmetic in float64, each class
states its weight, interval and roundings. The arithmetic itself is in ``csrc/``. A *distribution* gives
every element from its own draw; a *construction* needs the whole tensor.
"""

from __future__ import annotations

import dataclasses
import math
import struct
import sys
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from . import _core, truncation
from .arguments import U64_LIMIT
from .constructions import CONSTRUCTIONS, Construction


class Distribution(Protocol):
    """What the kernels can draw: a base of `_core` and its parameters."""

    kind: ClassVar[str]
    base: ClassVar[int]
    draws_per_weight: ClassVar[int]

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers `_core` is given."""


def same_bits(self: Any, other: object) -> bool:
    """Compare two objects of one class by the bits of their `value`: 0.0 and -0.0 are two weights."""
    if type(other) is not type(self):
        return False
    ours, theirs = (struct.pack("<d", constant.value) for constant in (self, other))  # type: ignore[attr-defined]
    return ours == theirs


@dataclass(frozen=True, slots=True)
class Constant:  # noqa: PLW1641  # dataclass makes the hash
    """The same value everywhere; takes no draws."""

    value: float

    __eq__ = same_bits

    kind: ClassVar[str] = "constant"
    base: ClassVar[int] = _core.BASES["constant"]
    draws_per_weight: ClassVar[int] = 0

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers `_core` is given."""
        return (self.value,)


@dataclass(frozen=True, slots=True)
class Uniform:
    """``low + (high - low) * u`` in [low, high); one rounding for the difference and two a weight."""

    low: float
    high: float

    kind: ClassVar[str] = "uniform"
    base: ClassVar[int] = _core.BASES["uniform"]
    draws_per_weight: ClassVar[int] = 1

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers `_core` is given."""
        return (self.low, self.high)


@dataclass(frozen=True, slots=True)
class CenteredUniform:
    """``limit * (2u - 1)`` in [-limit, limit); ``2u - 1`` is exact, so there is one rounding."""

    limit: float

    kind: ClassVar[str] = "centered_uniform"
    base: ClassVar[int] = _core.BASES["centered_uniform"]
    draws_per_weight: ClassVar[int] = 1

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers `_core` is given."""
        return (self.limit,)


@dataclass(frozen=True, slots=True)
class Normal:
    """``mean + std * z``, two roundings; z is the normal quantile of the draw (``csrc/quantile.h``).

    Notes
    -----
    *Interval.* |z| <= 8.2924; never 0, and symmetric: the draw whose ``k`` is ``2**53 - 1 - k`` has ``-z``.

    *Reproducibility.* z is within 3 ulp of ``sqrt(2) * erfinv((2k + 1 - 2**53) * 2**-53)``, non-decreasing in
    ``k``, and the same bits everywhere. A std of 0 gives the rounded mean and takes the same draws.
    """

    mean: float
    std: float

    kind: ClassVar[str] = "normal"
    base: ClassVar[int] = _core.BASES["normal"]
    draws_per_weight: ClassVar[int] = 1

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers `_core` is given."""
        return (self.mean, self.std)


@dataclass(frozen=True, slots=True)
class TruncatedNormal:
    """``mean + std * z`` with z the quantile of a standard normal truncated to [lower, upper]; two roundings.

    Notes
    -----
    *Interval.* The bounds are in standard deviations (of the normal before it is truncated) around the mean;
    either may be infinite. No weight lies outside ``[mean + std * lower, mean + std * upper]``, in the dtype it
    is stored in. Far tails work: [5.25, 1e6] gives values near 5.43.

    *Reproducibility.* One draw a weight, no rejection, and the same bits everywhere (``csrc/truncated.h``). z is
    within ``4 * max(ulp(z), 2**-52)`` of the exact quantile. Two infinite bounds give the bits of `Normal`.
    """

    mean: float
    std: float
    lower: float
    upper: float

    kind: ClassVar[str] = "truncated_normal"
    base: ClassVar[int] = _core.BASES["truncated_normal"]
    draws_per_weight: ClassVar[int] = 1

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers `_core` is given."""
        lower, upper = float(self.lower), float(self.upper)
        return (self.mean, self.std, lower, upper, *truncation.constants(lower, upper))


@dataclass(frozen=True, slots=True)
class Positions:
    """0, 1, ..., length - 1 along the last axis (its length), as position-index buffers hold; no draws."""

    length: int

    kind: ClassVar[str] = "positions"
    draws_per_weight: ClassVar[int] = 0


Content = Constant | Uniform | CenteredUniform | Normal | TruncatedNormal | Positions | Construction
"""Everything a tensor can be filled with."""

_CLASSES: tuple[type[Content], ...] = (
    Constant,
    Uniform,
    CenteredUniform,
    Normal,
    TruncatedNormal,
    Positions,
    *CONSTRUCTIONS,
)
_KINDS = {cls.kind: cls for cls in _CLASSES}
_INFINITE = {"lower": -math.inf, "upper": math.inf}


def describe(content: Content) -> str:
    """Return the parameters of `content` for people: ``limit=0.0884``."""
    return " ".join(
        f"{name}={value}" if isinstance(value, str) else f"{name}={value:.6g}"
        for name, value in _parameters(content).items()
    )


def to_json(content: Content) -> dict[str, Any]:
    """Return `content` as a JSON object, ``{"kind": ..., parameter: value, ...}``; an infinite bound is null."""
    return {
        "kind": content.kind,
        **{name: None if value in _INFINITE.values() else value for name, value in _parameters(content).items()},
    }


def _parameters(content: Content) -> dict[str, Any]:
    return dataclasses.asdict(content)  # type: ignore[arg-type]  # every Content is a dataclass


def from_json(data: dict[str, Any]) -> Content:
    """Return what `to_json` wrote; ValueError for anything else."""
    parameters = dict(data)
    kind = parameters.pop("kind", None)
    if kind not in _KINDS:
        raise ValueError(f"unknown kind {kind!r}; expected one of {', '.join(_KINDS)}")
    cls = _KINDS[kind]
    names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if issubclass(cls, Construction) and set(parameters) == names:
        return cls(**parameters)
    infinite = {}
    if cls is TruncatedNormal:
        infinite = {name: bound for name, bound in _INFINITE.items() if parameters.get(name, 0) is None}
    parameters |= dict.fromkeys(infinite, 0.0)
    if set(parameters) != names or not all(type(value) in (int, float) for value in parameters.values()):
        raise ValueError(f"{kind!r} takes the numbers {sorted(names)}, got {parameters}")
    if kind == Positions.kind:
        length = parameters["length"]
        if type(length) is not int or not 0 < length < U64_LIMIT:
            raise ValueError(f"{kind!r} takes a length of 1 to 2**64 - 1, got {length!r}")
        return Positions(length)
    if not all(abs(value) <= sys.float_info.max for value in parameters.values()):  # NaN and huge ints too
        raise ValueError(f"{kind!r} takes finite float64 numbers, got {parameters}")
    numbers: dict[str, Any] = {name: float(value) for name, value in parameters.items()} | infinite
    return cls(**numbers)
