"""Gains computed for an activation: where the second moment of a signal rests, and whether it returns there."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._engine.gains import CONVENTIONAL, gain
from ..views.result import Result
from ..views.table import Table
from .activations import Activation, Function, as_activation
from .quadrature import magnitude, mean


@dataclass(frozen=True, slots=True)
class ComputedGain(Result):
    """The gain that keeps the second moment of what enters an activation, and what becomes of a departure.

    Attributes
    ----------
    activation : str
        The activation's name.
    scale : float
        ``1 / E[f(z)**2]``, z a standard normal: weights of variance ``scale / fan_in`` keep the second moment of
        what enters the activation at 1 (He et al., 2015, eq. 10).
    returns : float
        What becomes of a small departure from that in one layer, as a factor: below 1 the fixed point attracts,
        above 1 it repels, and at 1 every second moment is kept.
    gradients : float
        ``scale * E[f'(z)**2]``: the factor of the gradients' second moment there.
    convention : float or None
        What `fastinit.gain` gives in its place by convention; None where it gives the computed gain, or knows
        none.
    """

    activation: str
    scale: float
    returns: float
    gradients: float
    convention: float | None

    @property
    def gain(self) -> float:
        """The square root of the scale: multiply a standard deviation of 1 / sqrt(fan_in) by it."""
        return math.sqrt(self.scale)

    @property
    def fixed_point(self) -> str:
        """Whether it attracts or repels; "keeps" where every second moment is a fixed point."""
        if abs(self.returns - 1.0) < _EVEN:
            return "keeps"
        return "attracts" if self.returns < 1.0 else "repels"

    def lines(self) -> list[str]:
        """Return the gain beside the convention, and the nature of the fixed point."""
        convention = f"; by convention {self.convention:.6g}" if self.convention is not None else ""
        return [
            f"{self.activation}: computed gain {self.gain:.6g}, variance {self.scale:.6g} / fan_in{convention}",
            f"{_MEANS[self.fixed_point].format(returns=self.returns)}; gradients there change "
            f"{math.sqrt(self.gradients):.4g} times a layer",
        ]

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        return {**asdict(self), "gain": self.gain, "fixed_point": self.fixed_point}

    def tables(self) -> tuple[Table, ...]:
        """Return the numbers as a table of one row."""
        names = (
            "activation",
            "computed gain",
            "variance * fan_in",
            "by convention",
            "fixed point",
            "gradients a layer",
        )
        row = (
            self.activation,
            self.gain,
            self.scale,
            self.convention,
            self.fixed_point,
            math.sqrt(self.gradients),
        )
        return (Table("The gain that keeps the second moment", names, (row,)),)


_EVEN = 1e-3
_MEANS = {
    "keeps": "every second moment is kept, none attracts",
    "attracts": "its fixed point attracts: a departure becomes {returns:.3g} times as large in a layer",
    "repels": "its fixed point repels: a departure becomes {returns:.3g} times as large in a layer",
}


def computed_gain(activation: str | Function) -> ComputedGain:
    """Compute the gain that keeps ``E[f(z)**2]`` at 1, for any activation.

    Parameters
    ----------
    activation : str or callable
        A name that `fastinit.gain` knows, or a function of one float64 array, element by element.

    Returns
    -------
    ComputedGain
        The gain, whether its fixed point attracts, and the convention beside it.

    Raises
    ------
    TypeError, ValueError
        For an unknown name, and for a function that is 0 or not finite on normal numbers.

    Notes
    -----
    By quadrature in float64, to eight digits for smooth functions and five where a slope jumps elsewhere than at a
    whole number. The numbers come from numpy, so their last digits are not promised: round one before you store it
    in a plan. `fastinit.gain` has fixed constants.

    Examples
    --------
    >>> import fastinit
    >>> print(*fastinit.computed_gain("gelu").lines(), sep="; ")  # doctest: +ELLIPSIS
    gelu: computed gain 1.53353, variance 2.35172 / fan_in; by convention 1.41421; its fixed point repels: ...
    >>> fastinit.computed_gain(lambda z: z * z).gain  # doctest: +ELLIPSIS
    0.5773502691896...
    """
    function = as_activation(activation)
    size = magnitude(function.value, 1.0, 2)
    if not 0 < size < math.inf:
        raise ValueError(f"{function.name}: E[f(z)**2] is {size:g}, and no gain makes it 1")
    scale = 1.0 / (size * size)
    known = isinstance(activation, str)
    return ComputedGain(
        function.name,
        scale,
        scale * mean(lambda z: z * function.value(z) * function.slope(z), 1.0),
        scale * magnitude(function.slope, 1.0, 2) ** 2,
        gain(function.name) if known and function.name in CONVENTIONAL else None,
    )


def steady_scale(activation: str | Function, layers: int, lowest: float, highest: float) -> float | None:
    """Return the scale at which theory keeps signal and gradient within `lowest` to `highest`, or None.

    Parameters
    ----------
    activation : str or callable
        As in `computed_gain`.
    layers : int
        Plain layers that the signal passes.
    lowest, highest : float
        Of both magnitudes, over those at their start.

    Notes
    -----
    Looked for within a factor of 2 of the computed scale: beyond, the activation works where its gain says
    nothing. A scale must serve 5 % to either side too, because the second moment of a network some hundred units
    wide fluctuates by as much in a layer.
    """
    function, center = as_activation(activation), computed_gain(activation).scale
    scales = center * _STEP ** np.arange(-28, 29)
    worst = [max(map(_distance, _through(function, float(scale), layers))) for scale in scales]
    near = [max(worst[k - 1 : k + 2]) for k in range(1, len(worst) - 1)]
    best = min(range(len(near)), key=near.__getitem__)
    limit = min(_distance(lowest), _distance(highest))
    return float(scales[best + 1]) if near[best] <= limit else None


_STEP = 1.025


def _distance(ratio: float) -> float:
    """Return how far a ratio is from 1, either way."""
    return abs(math.log(ratio)) if 0 < ratio < math.inf else math.inf


def _through(function: Activation, scale: float, layers: int) -> tuple[float, float]:
    """Return what theory multiplies the rms of a signal and of its gradient by, through plain layers."""
    down, up, root = 1.0, 1.0, math.sqrt(scale)
    for _ in range(layers):
        up *= root * magnitude(function.slope, root * down, 2)
        down = magnitude(function.value, root * down, 2)
    return down, up
