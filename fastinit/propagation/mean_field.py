"""Mean-field theory: how large and how different signals are in an infinitely wide network, layer by layer.

`expected` carries three numbers: the second moment of the activations, its part that tells inputs apart, and the
second moment of the gradients. Their integrals stand in `quadrature.py`; `fixed_point.py` asks where the first one
rests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import mul
from typing import NamedTuple

from .._engine.initializer import Distribution
from ..initializers import Initializer
from .activations import Activation, Function, as_activation
from .quadrature import difference, magnitude, mean

Magnitudes = tuple[float, ...]
"""A magnitude at every layer, the input's first."""

NORMS = (None, "rms", "layer")
"""What a layer's input may pass first: nothing, RMSNorm or LayerNorm, both without gains and offsets."""


class Expected(NamedTuple):
    """What theory expects of every layer, from the input's on.

    Attributes
    ----------
    mean_magnitude, rms : tuple of float
        Of the activations.
    spread : tuple of float
        Over the inputs: the root mean square of the units' standard deviations.
    correlation : tuple of float
        Of two inputs: ``E[a * a'] / E[a * a]``, a unit's activations for both; nan where all are 0.
    gradients : tuple of float
        Rms of the gradients with respect to the activations.
    """

    mean_magnitude: Magnitudes
    rms: Magnitudes
    spread: Magnitudes
    correlation: Magnitudes
    gradients: Magnitudes


class _Layer(NamedTuple):
    """A layer's activations, and what it does to gradients on their way up."""

    mean_magnitude: float
    rms: float
    spread: float
    factor: float


def expected(
    activation: str | Function,
    initializer: Initializer,
    layers: int,
    width: int | Sequence[int],
    residual: bool = False,
    norm: str | None = None,
    writes: Initializer | None = None,
) -> Expected | None:
    """Return what theory expects at layers 0 to `layers`.

    Parameters
    ----------
    activation, initializer, layers, width, residual, norm, writes
        The network, as in `Stack`.

    Returns
    -------
    Expected or None
        For inputs and last gradients from N(0, 1). None where weights have a mean other than 0 or are not random:
        the theory does not cover them.

    Notes
    -----
    With q the second moment of the activations, d = q * (1 - C) for their correlation C over two inputs, p the
    second moment of the gradients, c = fan_in * Var(w), z from N(0, c q), and z' beside it with correlation C:
    ``q' = E[f(z)**2]``, ``d' = E[(f(z) - f(z'))**2] / 2`` and ``p = p' fan_out Var(w) E[f'(z)**2]``.

    In a residual stack what is added is independent of the stream, so its moments add to the stream's:
    ``q' = q + c E[f(x)**2]``, x from N(0, q). A normalization divides q and d by q, and gradients by its root
    (LayerNorm first subtracts the mean). Poole et al. (2016), "Exponential expressivity in deep neural networks
    through transient chaos", eq. 3 and 5; Schoenholz et al. (2017), "Deep information propagation", eq. 9. The
    recursion carries roots, so it overflows no earlier than the magnitude itself.

    Examples
    --------
    >>> from fastinit.initializers import xavier
    >>> found = expected("relu", xavier("normal"), layers=2, width=64)
    >>> [round(float(x), 6) for x in found.rms], [round(float(x), 6) for x in found.gradients]
    ([1.0, 0.707107, 0.5], [0.5, 0.707107, 1.0])
    >>> [round(float(x), 4) for x in found.correlation]
    [0.0, 0.3183, 0.4937]
    """
    shapes = list(pairwise(widths_of(width, layers)))
    reads = {shape: _gains(initializer, shape) for shape in set(shapes)}
    written = {shape: _gains(writes or initializer, shape) for shape in set(shapes)}
    found = [_Layer(_HALF_NORMAL_MEAN, 1.0, 1.0, 1.0)]
    function, offset = as_activation(activation), 0.0
    for shape in shapes:
        read, write = reads[shape], written[shape]
        if read is None or write is None:
            return None
        if residual:
            found.append(_residual(function, norm, read, write, found[-1]))
        else:
            layer, offset = _plain(function, norm, read, found[-1], offset)
            found.append(layer)
    up = accumulate((layer.factor for layer in found[:0:-1]), mul, initial=1.0)
    return Expected(
        tuple(layer.mean_magnitude for layer in found),
        tuple(layer.rms for layer in found),
        tuple(layer.spread for layer in found),
        tuple(_correlation(layer) for layer in found),
        tuple(up)[::-1],
    )


def _correlation(layer: _Layer) -> float:
    """Return the correlation of two inputs from spread and rms; nan where there is nothing."""
    share = layer.spread / layer.rms if layer.rms else math.nan
    return 1.0 - share * share


def widths_of(width: int | Sequence[int], layers: int) -> list[int]:
    """Return the units of layers 0 to `layers`: a number, or several in turn."""
    cycle = [width] if isinstance(width, int) else list(width)
    return [cycle[layer % len(cycle)] for layer in range(layers + 1)]


_HALF_NORMAL_MEAN = math.sqrt(2 / math.pi)  # E|z|
_Gains = tuple[float, float]  # roots of fan_in * Var(w) and fan_out * Var(w)


def _plain(
    function: Activation, norm: str | None, gains: _Gains, entering: _Layer, offset: float
) -> tuple[_Layer, float]:
    """Return a layer ``f(x @ W)`` and the mean of its activations, `offset` that of the entering ones."""
    down, up = gains
    size, spread = entering.rms, entering.spread
    shrink = 1.0
    if norm is not None:
        removed = offset if norm == "layer" else 0.0
        shrink = _root_of_difference(size, removed)
        size, spread = (1.0, spread / shrink) if shrink else (0.0, 0.0)
    std = down * size
    layer = _Layer(
        magnitude(function.value, std, 1),
        magnitude(function.value, std, 2),
        difference(function, std, _apart(spread, size)),
        _over(up * magnitude(function.slope, std, 2), shrink),
    )
    return layer, mean(function.value, std)


def _residual(function: Activation, norm: str | None, read: _Gains, write: _Gains, entering: _Layer) -> _Layer:
    """Return a layer that adds to the stream ``f(x) @ W``, or ``f(norm(x) @ V) @ W`` with a normalization.

    A sum of many products with zero-centered weights is normal with mean 0, so LayerNorm subtracts nothing, and
    the mean magnitude of the stream follows from its rms.
    """
    std = entering.rms if norm is None else read[0]
    shrink, reading = (1.0, 1.0) if norm is None else (entering.rms, read[1])
    added = write[0] * magnitude(function.value, std, 2)
    apart = write[0] * difference(function, std, _apart(entering.spread, entering.rms))
    slope = write[1] * reading * magnitude(function.slope, std, 2)
    grown = math.hypot(entering.rms, added)
    return _Layer(
        _HALF_NORMAL_MEAN * grown, grown, math.hypot(entering.spread, apart), math.hypot(1.0, _over(slope, shrink))
    )


def _apart(spread: float, size: float) -> float:
    """Return 1 minus the correlation; 0 where nothing is left, or where magnitudes are past float64's range."""
    share = spread / size if size else 0.0
    return share * share if math.isfinite(share) else 0.0


def _over(factor: float, shrink: float) -> float:
    return factor / shrink if shrink else 0.0


def _root_of_difference(size: float, offset: float) -> float:
    """Return ``sqrt(size**2 - offset**2)``."""
    return math.sqrt(max(size - offset, 0.0)) * math.sqrt(size + offset) if offset else size


def _gains(initializer: Initializer, shape: tuple[int, int]) -> _Gains | None:
    """Return the roots of fan_in and of fan_out times a weight's variance; None where theory says nothing."""
    variance = _variance(initializer.for_shape(shape), shape)
    return None if variance is None else (math.sqrt(shape[0] * variance), math.sqrt(shape[1] * variance))


def _variance(distribution: Distribution, shape: tuple[int, int]) -> float | None:
    """Return the variance of a weight; None where its mean is not 0 or it is not random."""
    moments = distribution.moments(shape)
    if moments is None or abs(moments.mean) > _ZERO * moments.std:
        return None
    return distribution.variance(shape)


_ZERO = 1e-12  # standard deviations: a smaller mean is the rounding of an integral over a symmetric interval
