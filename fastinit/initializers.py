"""Initializers: frozen data that turns a shape and its fans into what a tensor is filled with.

The formula stands once, in `VarianceScaling`; the famous names are specialisations of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from . import _core, distributions
from .distributions import CenteredUniform, Content, Positions
from .scale import check_fans, check_size, fans


@dataclass(frozen=True, slots=True)
class VarianceScaling:
    """Zero-centered weights of variance ``scale / fan``.

    Attributes
    ----------
    scheme : str
        The name shown in plans and errors.
    scale : float
        The squared gain.

    Notes
    -----
    With ``fan = (fan_in + fan_out) / 2`` and scale 1 this is Glorot and Bengio (2010), eq. 16: uniform on
    [-limit, limit) with ``limit = sqrt(3 * scale / fan)``.
    """

    scheme: str
    scale: float

    def content(self, shape: tuple[int, ...], layout: str = "io", gain: float = 1.0) -> Content:
        """Return the distribution for a tensor of `shape`, whose axes `layout` names.

        An empty tensor has nothing to scale and gets a constant. `gain` multiplies the finished limit.
        """
        pair = _checked_fans(shape, layout)
        if pair is None:
            return distributions.Constant(0.0)
        _, _, limit = _core.scale(self.scale, float(sum(pair)), _core.FAN_SUM, gain)
        return CenteredUniform(limit)


@lru_cache(maxsize=1024)
def _checked_fans(shape: tuple[int, ...], layout: str) -> tuple[int, int] | None:
    """Return the fans, or None of an empty tensor; cached by integers, never by floats.

    A host that flushes subnormals to zero makes 1e-310 equal to 0.0, and hashes it alike.
    """
    fan_in, fan_out = fans(shape, layout)
    if 0 in shape:
        return None
    check_fans(fan_in, fan_out)
    check_size(shape, fan_in, fan_out)
    return fan_in, fan_out


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value everywhere."""

    scheme: str
    value: float

    def content(self, shape: tuple[int, ...], layout: str = "io") -> Content:  # noqa: ARG002
        """Return the constant, whatever the shape."""
        return distributions.Constant(self.value)


@dataclass(frozen=True, slots=True)
class PositionIds:
    """0, 1, ..., n - 1 along the last axis."""

    scheme: str = "positions"

    def content(self, shape: tuple[int, ...], layout: str = "io") -> Content:  # noqa: ARG002
        """Return the positions of the last axis."""
        return Positions(shape[-1])


Initializer = VarianceScaling | Constant | PositionIds

XAVIER_UNIFORM = VarianceScaling("xavier_uniform", 1.0)
ZEROS = Constant("zeros", 0.0)
ONES = Constant("ones", 1.0)
POSITIONS = PositionIds()
