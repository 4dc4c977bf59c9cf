"""Fans, layouts and the Xavier scale: how wide a starting distribution should be.

Integers are added and multiplied exactly here; the floating-point arithmetic runs in C, inside the kernels'
environment, so that a host's rounding mode cannot move a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import _core
from .arguments import U64_LIMIT, as_u64, size_of
from .errors import FanSumOverflow, ShapeProductOverflow, ZeroFanIn, ZeroFanOut

SPATIAL = "dhwlt"
STACKED = "e"


@dataclass(frozen=True, slots=True)
class XavierScale:
    """The formula-derived scale for one [fan_in, fan_out] matrix.

    Attributes
    ----------
    fan_in, fan_out : int
        Connections into and out of one unit.
    target_variance : float
        ``2 / (fan_in + fan_out)``, in squared weight units. A target: the measured variance of one finite
        tensor differs from it.
    standard_deviation : float
        Its square root, in weight units.
    uniform_limit : float
        ``sqrt(6 / (fan_in + fan_out))``: the bound of the uniform distribution with that variance.
    """

    fan_in: int
    fan_out: int
    target_variance: float
    standard_deviation: float
    uniform_limit: float


def xavier_scale(fan_in: int, fan_out: int) -> XavierScale:
    """Compute the Xavier (Glorot) variance, standard deviation and uniform limit.

    Parameters
    ----------
    fan_in, fan_out : int
        Weighted inputs summed into each output, and outputs receiving each input; 1 to 2**64 - 1.

    Returns
    -------
    XavierScale
        The scale as frozen data.

    Raises
    ------
    TypeError, ValueError
        If a fan is not an integer, is a bool, is negative or larger than 2**64 - 1.
    ZeroFanIn, ZeroFanOut, FanSumOverflow
        Checked in this order.

    Notes
    -----
    Glorot and Bengio (2010), "Understanding the difficulty of training deep feedforward neural networks",
    eq. 12 and 16. The fan sum is exact and converted to float64 once.

    Examples
    --------
    >>> import fastinit
    >>> scale = fastinit.xavier_scale(4, 2)
    >>> f"{scale.target_variance:.12f} {scale.standard_deviation:.12f} {scale.uniform_limit:.12f}"
    '0.333333333333 0.577350269190 1.000000000000'
    """
    fan_in = as_u64(fan_in, "fan_in")
    fan_out = as_u64(fan_out, "fan_out")
    check_fans(fan_in, fan_out)
    variance, std, limit = _core.scale(1.0, float(fan_in + fan_out), _core.FAN_SUM, 1.0)
    return XavierScale(fan_in, fan_out, variance, std, limit)


def check_fans(fan_in: int, fan_out: int) -> None:
    """Refuse a zero fan and a fan sum past 2**64 - 1, in that order."""
    if fan_in == 0:
        raise ZeroFanIn()
    if fan_out == 0:
        raise ZeroFanOut()
    if fan_in + fan_out >= U64_LIMIT:
        raise FanSumOverflow(fan_in, fan_out)


def check_size(shape: tuple[int, ...], fan_in: int, fan_out: int) -> int:
    """Return the number of elements of `shape`, refusing more than 2**64 - 1."""
    size = size_of(shape)
    if size >= U64_LIMIT:
        raise ShapeProductOverflow(fan_in, fan_out)
    return size


def parse_layout(layout: str) -> str:
    """Check that `layout` names axes: one ``i``, one ``o``, the rest spatial (``d h w l t``) or ``e``."""
    if not isinstance(layout, str):
        raise TypeError(f"layout must be a str such as 'io', 'oi' or 'oihw', got {layout!r}")
    counts = {letter: layout.count(letter) for letter in layout}
    if (
        counts.get("i") != 1
        or counts.get("o") != 1
        or max(counts.values()) > 1
        or set(layout) - set("io" + SPATIAL + STACKED)
    ):
        raise ValueError(
            f"layout {layout!r} must name each axis once: 'i' (inputs), 'o' (outputs), any of "
            f"{', '.join(SPATIAL)} for the receptive field, 'e' for stacked matrices; "
            "for example 'io', 'oi' (torch), 'hwio', 'oihw'"
        )
    return layout


def fans(shape: tuple[int, ...], layout: str = "io") -> tuple[int, int]:
    """Count the connections into and out of a unit of a weight tensor.

    Parameters
    ----------
    shape : tuple of int
        The tensor's logical shape.
    layout : str, default "io"
        One letter an axis: ``i`` inputs, ``o`` outputs, ``d h w l t`` the receptive field (it multiplies
        both fans), ``e`` a stack of independent matrices (it counts for neither).

    Returns
    -------
    fan_in, fan_out : int
        Exact, zero where an axis is.

    Raises
    ------
    ValueError
        If the tensor has fewer than two axes, or not as many as `layout` names.
    """
    parse_layout(layout)
    if len(shape) < 2:
        raise ValueError(
            f"a {len(shape)}-d tensor (shape {shape}) has no fan_in and fan_out to scale by; "
            "fan-scaled schemes need at least two axes"
        )
    if len(shape) != len(layout):
        raise ValueError(
            f"layout {layout!r} names {len(layout)} axes, but shape {shape} has {len(shape)}; "
            "name every axis, for example layout='oihw' for a torch convolution"
        )
    axes = dict(zip(layout, shape, strict=True))
    field = size_of(tuple(length for letter, length in axes.items() if letter in SPATIAL))
    return axes["i"] * field, axes["o"] * field
