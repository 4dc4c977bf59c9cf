"""Integrals over one or two standard normals: what theory is made of.

Activations have kinks at 0, and a saturated one is a step there: points lie densest around it. Smooth functions
get eight digits or more, a kink elsewhere leaves five of a magnitude and three of a slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .activations import Activation

_Array = npt.NDArray[Any]
_Function = Callable[[_Array], _Array]

_FARTHEST = 12.0  # the density beyond is below 1e-31
_STEP = 1 / 64
_NEAR = 1e-13  # arguments so near that the function is a line between them, to six digits


def magnitude(function: _Function, std: float, power: int) -> float:
    """Return the `power`-th root of ``E[|f(std * z)|**power]``, z a standard normal; inf past float64's range."""
    points, weights = _normal()
    with np.errstate(all="ignore"):
        sizes = np.abs(function(std * points))
    largest = float(sizes.max())
    if not math.isfinite(largest):
        return math.inf
    if largest == 0:
        return 0.0
    moment = float(weights @ (sizes / largest) ** power)
    return largest * (math.sqrt(moment) if power == 2 else moment)


def mean(function: _Function, std: float) -> float:
    """Return ``E[f(std * z)]``, for z a standard normal; nan past float64's range."""
    points, weights = _normal()
    with np.errstate(all="ignore"):
        return float(weights @ function(std * points))


def difference(activation: Activation, std: float, apart: float) -> float:
    """Return the root of ``E[(f(std * x) - f(std * y))**2] / 2``, for standard normals x and y.

    Parameters
    ----------
    activation : Activation
        The function f.
    std : float
        Of both arguments.
    apart : float
        1 minus the correlation of x and y; 0 to 2.
    """
    if apart * max(1.0, std * std) < _NEAR:
        return std * math.sqrt(apart) * magnitude(activation.slope, std, 2)
    # In polar coordinates a kink at 0 is a ray, where points lie densest; subtracting before squaring keeps the
    # digits of a small difference.
    angles, radii, weights = _plane(math.asin(math.sqrt(min(apart, 2.0) / 2)), activation.homogeneous)
    with np.errstate(all="ignore"):
        first, second = (activation.value(std * np.multiply.outer(radii, np.cos(angle))) for angle in angles)
        gaps = np.abs(first - second)
    largest = float(gaps.max())
    if not math.isfinite(largest) or largest == 0:
        return largest
    return largest * math.sqrt(float(np.sum(weights * (gaps / largest) ** 2)) / 2)


@cache
def _legendre(order: int) -> tuple[_Array, _Array]:
    """Return the points and weights of the Gauss-Legendre rule on (-1, 1)."""
    points, weights = np.polynomial.legendre.leggauss(order)
    return points, weights


@cache
def _halvings(count: int, order: int) -> tuple[_Array, _Array]:
    """Return points on (0, 1) and their weights: Gauss-Legendre on intervals that halve towards 0."""
    nodes, weights = _legendre(order)
    edges = np.append(0.5 ** np.arange(count), 0.0)
    half = (edges[:-1] - edges[1:])[:, None] / 2
    return (edges[1:, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


def _dyadic(length: float, count: int, order: int) -> tuple[_Array, _Array]:
    """Return the points and weights of `_halvings` on (0, length)."""
    points, weights = _halvings(count, order)
    return length * points, length * weights


@cache
def _normal() -> tuple[_Array, _Array]:
    """Return points on (-12, 12) and their weights under a standard normal's density; whole numbers are edges."""
    near, near_weights = _dyadic(_STEP, 32, 8)
    nodes, weights = _legendre(4)
    edges = _STEP * np.arange(1, round(_FARTHEST / _STEP))[:, None]
    points = np.concatenate([near, (edges + _STEP / 2 * (1 + nodes)).ravel()])
    masses = np.concatenate([near_weights, np.tile(_STEP / 2 * weights, len(edges))])
    masses *= np.exp(-points * points / 2) / math.sqrt(2 * math.pi)
    return np.concatenate([-points, points]), np.concatenate([masses, masses])


def _plane(half: float, homogeneous: bool) -> tuple[tuple[_Array, _Array], _Array, _Array]:
    """Return both angles of every direction, every radius, and the weight of every (radius, direction).

    Directions halve the angle between the arguments' axes, which are 2 * `half` apart; where one argument is 0
    intervals halve. A direction stands for its mirror image too. For a homogeneous function one radius stands for
    all.
    """
    radii, along = (np.array([math.sqrt(2.0)]), np.array([1.0])) if homogeneous else _radii()
    zeros = math.pi / 2 - half, math.pi / 2 + half
    pieces = []
    for start, end in ((0.0, zeros[0]), (zeros[1], zeros[0]), (zeros[1], math.pi)):
        middle = (start + end) / 2
        for edge in (start, end):
            if edge in zeros and middle != edge:
                offsets, widths = _dyadic(abs(middle - edge), 24, 5)
                pieces.append((edge + math.copysign(1.0, middle - edge) * offsets, widths))
            elif middle != edge:
                nodes, widths = _legendre(24)
                reach = abs(middle - edge)
                pieces.append((min(middle, edge) + reach * (1 + nodes) / 2, widths * reach / 2))
    angle, around = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return (angle - half, angle + half), radii, np.multiply.outer(along, around) / math.pi


@cache
def _radii() -> tuple[_Array, _Array]:
    """Return distances of two standard normals from their origin, and the weights of their density."""
    radii, along = _dyadic(9.0, 9, 7)
    return radii, along * radii * np.exp(-radii * radii / 2)
