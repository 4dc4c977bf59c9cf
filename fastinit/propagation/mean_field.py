"""Mean-field theory: how large signals become in an infinitely wide network, by a recursion of second moments.

`ACTIVATIONS` holds each activation with its slope, as the tape computes both. `expected` carries two moments
from layer to layer; every moment is one integral over a standard normal (`_magnitude`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt

from .._engine.gains import ACTIVATION_NAMES
from .._engine.initializer import Distribution
from ..autodiff.operations import OPERATIONS
from ..initializers import Initializer

_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. (2017), eq. 14

_Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of one number and its derivative, both on arrays.

    Attributes
    ----------
    value, slope : callable
        The function and its derivative, each from an array to an array.
    homogeneous : bool
        Whether f(c x) = c f(x) for every c > 0.
    """

    value: Callable[[_Array], _Array]
    slope: Callable[[_Array], _Array]
    homogeneous: bool = False


def _of_the_tape(name: str, *options: float, homogeneous: bool = False) -> Activation:
    operation = OPERATIONS[name]
    one = np.float32(1.0)  # the result's own gradient: the rule then gives the derivative
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
    **dict.fromkeys(ACTIVATION_NAMES, _LINEAR),  # "conv2d" and its like name the absence of an activation
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
"""Every activation that `fastinit.gain` knows, by its name."""


Magnitudes = tuple[float, ...]
"""A magnitude at every layer, the input's first."""


def expected(
    activation: str, initializer: Initializer, layers: int, width: int, residual: bool = False
) -> tuple[Magnitudes | None, Magnitudes | None, Magnitudes | None]:
    """Return the expected mean magnitude, rms and rms of the gradients at layers 0 to `layers`.

    Parameters
    ----------
    activation : str
        An activation that `fastinit.gain` knows.
    initializer : Initializer
        Of every [width, width] matrix.
    layers, width : int
        The number of weight matrices, and of their rows and columns.
    residual : bool
        Layers ``x + f(x) @ W`` in place of ``f(x @ W)``.

    Returns
    -------
    tuple
        Three tuples of ``layers + 1`` magnitudes, for inputs and last gradients from N(0, 1). None three times
        where the weights have a mean other than 0 or are not random: the theory does not cover them.

    Notes
    -----
    With q the second moment of the activations, p that of the gradients, c = width * Var(w) and z from
    N(0, c q): ``q' = E[f(z)**2]`` and ``p = c p' E[f'(z)**2]``; in a residual stack, with x from N(0, q),
    ``q' = q + c E[f(x)**2]`` and ``p = p' (1 + c E[f'(x)**2])``. Poole et al. (2016), "Exponential expressivity in
    deep neural networks through transient chaos", eq. 3; Schoenholz et al. (2017), "Deep information
    propagation", eq. 9. The recursion carries square roots, so it overflows no earlier than the magnitude itself.

    Examples
    --------
    >>> from fastinit.initializers import xavier
    >>> mean, rms, gradients = expected("relu", xavier("normal"), layers=2, width=64)
    >>> [round(float(x), 6) for x in rms], [round(float(x), 6) for x in gradients]
    ([1.0, 0.707107, 0.5], [0.5, 0.707107, 1.0])
    """
    shape = width, width
    variance = _variance(initializer.for_shape(shape), shape)
    if variance is None:
        return None, None, None
    function, gain = ACTIVATIONS[activation], math.sqrt(width * variance)
    layer = _residual_layer if residual else _plain_layer
    means, rms, factors = [_HALF_NORMAL_MEAN], [1.0], []
    for _ in range(layers):
        mean, size, factor = layer(function, gain, rms[-1])
        means.append(mean)
        rms.append(size)
        factors.append(factor)
    gradients = list(accumulate(reversed(factors), mul, initial=1.0))
    return tuple(means), tuple(rms), tuple(reversed(gradients))


_HALF_NORMAL_MEAN = math.sqrt(2 / math.pi)  # E|z|


def _plain_layer(function: Activation, gain: float, rms: float) -> tuple[float, float, float]:
    """Return the mean magnitude and the rms after ``f(x @ W)``, and the factor of the gradients' rms."""
    std = gain * rms
    return (
        _magnitude(function.value, std, 1),
        _magnitude(function.value, std, 2),
        gain * _magnitude(function.slope, std, 2),
    )


def _residual_layer(function: Activation, gain: float, rms: float) -> tuple[float, float, float]:
    """Return the same of ``x + f(x) @ W``; its sum of normals is normal, so its mean follows from its rms."""
    grown = math.hypot(rms, gain * _magnitude(function.value, rms, 2))
    return _HALF_NORMAL_MEAN * grown, grown, math.hypot(1.0, gain * _magnitude(function.slope, rms, 2))


def _variance(distribution: Distribution, shape: tuple[int, int]) -> float | None:
    """Return the variance of a weight; None where its mean is not 0 or it is not random."""
    moments = distribution.moments(shape)
    if moments is None or abs(moments.mean) > _ZERO * moments.std:
        return None
    return distribution.variance(shape)


_ZERO = 1e-12  # standard deviations: a smaller mean is the rounding of an integral over a symmetric interval


def _quadrature() -> tuple[_Array, _Array]:
    """Return points on (0, 12) and their weights in E|f(z)|, for z a standard normal and f even.

    The intervals halve towards 0, each with a Gauss-Legendre rule: activations have their kinks at 0, and their
    steepest slopes near it.
    """
    points, weights = np.polynomial.legendre.leggauss(16)
    edges = np.append(12.0 * 0.5 ** np.arange(40), 0.0)
    half = (edges[:-1] - edges[1:])[:, None] / 2
    z = (edges[1:, None] + half * (1 + points)).ravel()
    return z, (half * weights).ravel() * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


_POINTS, _WEIGHTS = _quadrature()
_POINTS, _WEIGHTS = np.concatenate([-_POINTS, _POINTS]), np.concatenate([_WEIGHTS, _WEIGHTS])


def _magnitude(function: Callable[[_Array], _Array], std: float, power: int) -> float:
    """Return the `power`-th root of ``E|f(std * z)|**power``, for z a standard normal."""
    with np.errstate(all="ignore"):
        sizes = np.abs(function(std * _POINTS))
    largest = float(sizes.max())
    if not math.isfinite(largest):
        return math.inf
    if largest == 0:
        return 0.0
    moment = float(_WEIGHTS @ (sizes / largest) ** power)
    return largest * (math.sqrt(moment) if power == 2 else moment)
