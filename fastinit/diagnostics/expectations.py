"""What the weights of a tensor should look like: the moments and bounds of what it was to be filled with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..constructions import LARGEST_NORMAL, DeltaOrthogonal, Diagonal, Orthogonal, Sparse
from ..distributions import CenteredUniform, Constant, Content, Normal, TruncatedNormal, Uniform
from ..plan import PlannedTensor
from ..scale import SPATIAL

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


def of_planned(tensor: PlannedTensor) -> Expected | None:
    """Return what the plan's tensor should look like; None where it is no tensor of weights.

    Examples
    --------
    >>> import fastinit
    >>> plan = fastinit.Plan.from_layout({"w": {"dtype": "F32", "shape": [2, 4]}}, seed=17)
    >>> expected = of_planned(plan["w"])
    >>> expected.std, expected.kurtosis, expected.high  # sqrt(2 / 6), a uniform's, sqrt(6 / 6)
    (0.5773502691896258, -1.2, 1.0)
    """
    content, source = tensor.content, f"the plan's {tensor.scheme}"

    def expected(mean: float, std: float, kurtosis: float | None, low: float, high: float) -> Expected:
        return Expected(source, std, mean, kurtosis, low, high, content=content)

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
            middle, spread, kurtosis = _truncated_moments(lower, upper)
            return expected(
                mean + std * middle,
                std * spread,
                kurtosis,
                mean + (std and std * lower),
                mean + (std and std * upper),
            )
        case Sparse(_, std):
            kept = 1 - math.ceil(content.fraction * tensor.shape[0]) / tensor.shape[0] if tensor.size else 0.0
            return expected(0.0, std * math.sqrt(kept), 3 / kept - 3 if kept else None, *_around(content.largest))
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


def _truncated_moments(lower: float, upper: float) -> tuple[float, float, float]:
    """Return mean, standard deviation and excess kurtosis of a standard normal truncated to [lower, upper]."""
    _, z, mass = _truncated_mass(lower, upper)
    mass /= mass.sum()
    mean = float(mass @ z)
    square = (z - mean) ** 2
    variance = float(mass @ square)
    return mean, math.sqrt(variance), float(mass @ square**2) / variance**2 - 3
