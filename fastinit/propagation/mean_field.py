"""What theory expects of signals through depth: the second-moment recursion of an infinitely wide network.

The activations with their slopes stand here too, each as the tape computes it. Read `expected` last: it is made of
`_magnitude`, one integral over a standard normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._engine.constructions import Orthogonal
from .._engine.distributions import CenteredUniform, Constant, Normal, TruncatedNormal, Uniform
from .._engine.gains import ACTIVATION_NAMES
from .._engine.initializer import Distribution as Content
from ..autodiff.operations import OPERATIONS
from ..initializers import Initializer

_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. (2017), eq. 14

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of one number and its derivative, on arrays; `homogeneous` where f(c x) = c f(x) for c > 0."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    homogeneous: bool = False


def _of_the_tape(name: str, *options: float, homogeneous: bool = False) -> Activation:
    operation = OPERATIONS[name]
    one = np.float32(1.0)  # the derivative is the gradient of a result whose own gradient is 1
    return Activation(
        lambda z: operation.forward(z, *options),
        lambda z: operation.rules[0](one, None, z, *options),
        homogeneous,
    )


def _elu(scale: float, alpha: float) -> Activation:
    return Activation(
        lambda z: scale * np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0.0))),
        lambda z: scale * np.where(z > 0, 1.0, alpha * np.exp(np.minimum(z, 0.0))),
    )


_LINEAR = Activation(lambda z: z, np.ones_like, homogeneous=True)
ACTIVATIONS = {
    **dict.fromkeys(ACTIVATION_NAMES, _LINEAR),  # a convolution's gain is that of no activation
    "sigmoid": _of_the_tape("sigmoid"),
    "tanh": _of_the_tape("tanh"),
    "relu": _of_the_tape("relu", homogeneous=True),
    "leaky_relu": _of_the_tape("leaky_relu", 0.01, homogeneous=True),
    "gelu": _of_the_tape("gelu"),
    "silu": _of_the_tape("silu"),
    "swish": _of_the_tape("silu"),
    "softplus": _of_the_tape("softplus"),
    "elu": _elu(1.0, 1.0),
    "selu": _elu(_SELU_SCALE, _SELU_ALPHA),
}


Magnitudes = tuple[float, ...]


def expected(
    activation: str, initializer: Initializer, layers: int, width: int, residual: bool = False
) -> tuple[Magnitudes | None, Magnitudes | None, Magnitudes | None]:
    """Return what theory expects of mean magnitude, rms and the gradients' rms at layers 0 to `layers`.

    Parameters
    ----------
    activation : str
        A nonlinearity that `fastinit.gain` knows.
    initializer : Initializer
        Of every [width, width] matrix.
    layers, width : int
        The network.
    residual : bool
        Layers ``x + f(x) @ W`` in place of ``f(x @ W)``.

    Returns
    -------
    tuple
        Three tuples of ``layers + 1`` magnitudes, for inputs and last gradients from N(0, 1). None three times
        where weights have a mean other than 0, or are not random: the theory is about neither.

    Notes
    -----
    With q the second moment of the activations, p that of the gradients, c = width * Var(w) and z from
    N(0, c q): ``q' = E[f(z)**2]`` and ``p = c p' E[f'(z)**2]``; in a residual stack, with x from N(0, q),
    ``q' = q + c E[f(x)**2]`` and ``p = p' (1 + c E[f'(x)**2])``. Poole et al. (2016), "Exponential expressivity in
    deep neural networks through transient chaos", eq. 3; Schoenholz et al. (2017), "Deep information
    propagation", eq. 9. Roots are carried, so that nothing overflows before the magnitude itself does.

    Examples
    --------
    >>> from fastinit.initializers import xavier
    >>> mean, rms, gradients = expected("relu", xavier("normal"), layers=2, width=64)
    >>> [round(float(x), 6) for x in rms], [round(float(x), 6) for x in gradients]
    ([1.0, 0.707107, 0.5], [0.5, 0.707107, 1.0])
    """
    variance = _variance(initializer.for_shape((width, width)), width)
    if variance is None:
        return None, None, None
    function, spread = ACTIVATIONS[activation], math.sqrt(width * variance)
    means, rms, factors = [_HALF_NORMAL_MEAN], [1.0], []
    for _ in range(layers):
        std = rms[-1] if residual else spread * rms[-1]
        if residual:
            rms.append(math.hypot(rms[-1], spread * _magnitude(function.value, std, 2)))
            means.append(_HALF_NORMAL_MEAN * rms[-1])
            factors.append(math.hypot(1.0, spread * _magnitude(function.slope, std, 2)))
        else:
            rms.append(_magnitude(function.value, std, 2))
            means.append(_magnitude(function.value, std, 1))
            factors.append(spread * _magnitude(function.slope, std, 2))
    gradients = [1.0]
    for factor in reversed(factors):
        gradients.append(gradients[-1] * factor)
    return tuple(means), tuple(rms), tuple(reversed(gradients))


_HALF_NORMAL_MEAN = math.sqrt(2 / math.pi)  # E|z|


def _variance(content: Content, width: int) -> float | None:
    """Return the variance of a weight; None where its mean is not 0 or it is not random."""
    match content:
        case Constant(0.0):
            return 0.0
        case Normal(0.0, std):
            return std**2
        case CenteredUniform(limit):
            return limit**2 / 3
        case Uniform(low, high) if low == -high:
            return high**2 / 3
        case TruncatedNormal(0.0, std, lower, upper) if lower == -upper:
            cut = 0.0 if math.isinf(upper) else upper * math.exp(-(upper**2) / 2)
            return std**2 * (1 - _HALF_NORMAL_MEAN * cut / math.erf(upper / math.sqrt(2)))
        case Orthogonal(gain=gain):
            return gain**2 / width
    return None


def _quadrature() -> tuple[Array, Array]:
    """Return points on (0, 12) and their weights in E|f(z)|, z a standard normal, f even.

    Gauss-Legendre rules on intervals that halve towards 0: kinks are at 0, and steep slopes near it.
    """
    points, weights = np.polynomial.legendre.leggauss(16)
    edges = np.append(12.0 * 0.5 ** np.arange(40), 0.0)
    half = (edges[:-1] - edges[1:])[:, None] / 2
    z = (edges[1:, None] + half * (1 + points)).ravel()
    return z, (half * weights).ravel() * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


_POINTS, _WEIGHTS = _quadrature()
_POINTS, _WEIGHTS = np.concatenate([-_POINTS, _POINTS]), np.concatenate([_WEIGHTS, _WEIGHTS])


def _magnitude(function: Callable[[Array], Array], std: float, power: int) -> float:
    """Return the `power`-th root of ``E|f(std * z)|**power``, z a standard normal."""
    with np.errstate(all="ignore"):
        sizes = np.abs(function(std * _POINTS))
    largest = float(sizes.max())
    if not math.isfinite(largest):
        return math.inf
    if largest == 0:
        return 0.0
    moment = float(_WEIGHTS @ (sizes / largest) ** power)
    return largest * (math.sqrt(moment) if power == 2 else moment)
