"""Which initializer goes before an activation, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsIndex

from .._engine.checks import as_u64
from .._engine.gains import squared_gain
from ..initializers import Initializer, Residual, kaiming, lecun, xavier
from ..views.result import Result
from ..views.table import Table

_LECUN = "selu keeps mean 0 and variance 1 by itself with LeCun, variance 1 / fan_in (Klambauer et al., 2017)"
_SECOND_MOMENT = (
    "a signal through {activation} keeps its second moment with variance {scale:.4g} / fan_in, by He et al.'s "
    "(2015) equation 10"
)
_XAVIER = (
    "{activation} %s: Xavier, variance 2 / (fan_in + fan_out), lies between what keeps signals and what keeps "
    "gradients at one scale through a linear layer (Glorot and Bengio, 2010)"
)
_KAIMING = "{activation} %s half of its inputs: Kaiming, variance {scale:.4g} / fan_in, makes up for it"
_LIKE_RELU = (
    "{activation} passes about half of its inputs, and less of them than relu: Kaiming, variance {scale:.4g} / "
    "fan_in, as for relu"
)


def _kaiming(activation: str) -> Initializer:
    return kaiming("normal", activation)


def _xavier(_: str) -> Initializer:
    return xavier("uniform")


_ADVICE: dict[str, tuple[Callable[[str], Initializer], str]] = {
    "selu": (lambda _: lecun("normal"), _LECUN),
    "elu": (_kaiming, _SECOND_MOMENT),
    "softplus": (_kaiming, _SECOND_MOMENT),
    "sigmoid": (_xavier, _XAVIER % "has slope 1/4 at 0"),
    "tanh": (_xavier, _XAVIER % "has slope 1 at 0"),
    "relu": (_kaiming, _KAIMING % "zeroes"),
    "leaky_relu": (_kaiming, _KAIMING % "shrinks"),
    "gelu": (_kaiming, _LIKE_RELU),
    "silu": (_kaiming, _LIKE_RELU),
    "swish": (_kaiming, _LIKE_RELU),
}
"""activation -> a function that makes its initializer, and the reason; `_LINEAR` serves the others."""
_LINEAR = (_xavier, _XAVIER % "is linear")

_THROUGH_50 = {
    "sigmoid": (0.51, 4.2e-32),
    "tanh": (0.1, 0.12),
    "gelu": (1.5e-6, 4.3e-6),
    "silu": (9.7e-8, 1.4e-7),
    "swish": (9.7e-8, 1.4e-7),
    "selu": (1.0, 6.0),
    "elu": (0.78, 2.1),
    "softplus": (0.93, 3.4e-13),
}
"""activation -> rms of signal and gradient after 50 layers, over the start's, where one of them leaves 0.5 to 2.
`fastinit.propagation.propagate` measures these of the recommendation, with its defaults."""


@dataclass(frozen=True, slots=True)
class Recommendation(Result):
    """An initializer for the weights in front of an activation, and why.

    Attributes
    ----------
    activation : str
        The activation in front of which the weights stand.
    initializer : Initializer
        For the weights.
    reason : str
        Why, in words.
    """

    activation: str
    initializer: Initializer
    reason: str

    def lines(self) -> list[str]:
        """Return the activation with the initializer's name, then the reason."""
        return [f"{self.activation}: {self.initializer.name}", self.reason]

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        return {
            "initializer": self.initializer.to_json(),
            "scheme": self.initializer.name,
            "reason": self.reason,
        }

    def tables(self) -> tuple[Table, ...]:
        """Return the advice as a table of one row."""
        row = (self.activation, self.initializer.name, self.reason)
        return (Table("Recommended before an activation", ("activation", "initializer", "reason"), (row,)),)


def recommend(activation: str, residual_layers: SupportsIndex | None = None) -> Recommendation:
    """Recommend an initializer for the weights in front of an activation.

    Parameters
    ----------
    activation : str
        An activation that `gain` knows.
    residual_layers : int, optional
        The number of layers N of a residual network, for the projections that write to its residual stream.

    Returns
    -------
    Recommendation
        The initializer and the reason, in words.

    Raises
    ------
    TypeError, ValueError
        For an unknown activation, naming the nearest, and for a number of layers of a wrong type or range.

    Examples
    --------
    >>> import fastinit
    >>> advice = fastinit.recommend("gelu", residual_layers=12)
    >>> advice.initializer.name
    'residual(kaiming_normal)'
    >>> print(advice.reason)
    gelu passes about half of its inputs, and less of them than relu: Kaiming, variance 2 / fan_in, as for relu; \
measured, 50 layers of 512 units multiply the signal by 1.5e-06 and the gradient by 4.3e-06; each of 12 layers \
adds to the residual stream twice: dividing by sqrt(2 * 12) bounds the growth of its second moment by about e, \
whatever the depth
    """
    scale = squared_gain(activation)
    make, why = _ADVICE.get(activation, _LINEAR)
    reason = why.format(activation=activation, scale=scale) + _through_50(activation)
    advice = Recommendation(activation, make(activation), reason)
    return advice if residual_layers is None else _residual(advice, as_u64(residual_layers, "residual_layers"))


def _through_50(activation: str) -> str:
    """Return the measured effect of 50 such layers, if signal or gradient leave the band from 0.5 to 2."""
    if activation not in _THROUGH_50:
        return ""
    signal, gradient = _THROUGH_50[activation]
    return (
        f"; measured, 50 layers of 512 units multiply the signal by {signal:.2g} and the gradient by "
        f"{gradient:.2g}"
    )


def _residual(advice: Recommendation, layers: int) -> Recommendation:
    """Return the advice for the projections that write to the residual stream of so many layers."""
    return Recommendation(
        advice.activation,
        Residual(advice.initializer, layers),
        f"{advice.reason}; each of {layers} layers adds to the residual stream twice: dividing by "
        f"sqrt(2 * {layers}) bounds the growth of its second moment by about e, whatever the depth",
    )
