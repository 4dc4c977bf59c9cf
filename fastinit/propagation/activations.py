"""Activations with their slopes: those of the tape, further ones by their definitions, and callables of a user's.

Every function takes an array and returns one of the same dtype, so that a network may run in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._engine.gains import ACTIVATION_NAMES, as_activation_name
from ..autodiff.operations import OPERATIONS

_Array = npt.NDArray[Any]
Function = Callable[[_Array], _Array]
"""A function of one number, applied to every element of an array."""


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of one number and its derivative, both on arrays.

    Attributes
    ----------
    name : str
        How it is called.
    value, slope : callable
        The function and its derivative, each from an array to an array.
    homogeneous : bool
        Whether f(c x) = c f(x) for every c > 0.
    """

    name: str
    value: Function
    slope: Function
    homogeneous: bool = False


def as_activation(activation: str | Function) -> Activation:
    """Return an activation by its name, or of a function of one array.

    Parameters
    ----------
    activation : str or callable
        A name that `fastinit.gain` knows. A callable maps a float array to one of the same shape, element by
        element; its slope is a central difference.

    Raises
    ------
    TypeError, ValueError
        For an unknown name, and for a callable that does not map two numbers to two numbers.
    """
    if isinstance(activation, str) or not callable(activation):
        return ACTIVATIONS[as_activation_name(activation)]
    name = getattr(activation, "__name__", type(activation).__name__)
    given = activation
    probe = np.array([-1.0, 1.0])
    found = np.asarray(given(probe))
    if found.shape != probe.shape or found.dtype.kind != "f":
        raise TypeError(
            f"an activation maps an array of floats to floats of its shape; {name} made {found.dtype} "
            f"{found.shape} of float64 {probe.shape}; numpy.vectorize(f, otypes=[float]) makes such a function "
            "of one of numbers"
        )

    def value(z: _Array) -> _Array:
        return np.asarray(given(z)).astype(z.dtype, copy=False)

    return Activation(name, value, lambda z: _difference(given, z))


def _difference(function: Function, z: _Array) -> _Array:
    """Return the slope by a central difference in float64; its error is some 1e-10, and half a step at a kink."""
    wide = np.asarray(z, np.float64)
    step = 6e-6 * np.maximum(1.0, np.abs(wide))  # about the cube root of float64's resolution
    ahead, behind = wide + step, wide - step
    change = np.asarray(function(ahead), np.float64) - np.asarray(function(behind), np.float64)
    slope: _Array = (change / (ahead - behind)).astype(z.dtype)
    return slope


# ---- by name -----------------------------------------------------------------------------------------


def _of_the_tape(name: str, operation: str, *options: float, homogeneous: bool = False) -> Activation:
    rule = OPERATIONS[operation]
    one = np.float32(1.0)  # the result's own gradient: the rule then gives the derivative
    return Activation(
        name,
        lambda z: rule.forward(z, *options),
        lambda z: rule.rules[0](one, None, z, *options),
        homogeneous,
    )


def _elu(name: str, scale: float, alpha: float) -> Activation:
    return Activation(
        name,
        lambda z: scale * np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0.0))),
        lambda z: scale * np.where(z > 0, 1.0, alpha * np.exp(np.minimum(z, 0.0))),
    )


def _times_sigmoid(name: str, slope: float) -> Activation:
    """Return ``x * sigmoid(slope * x)``."""
    sigmoid = OPERATIONS["sigmoid"].forward

    def derivative(z: _Array) -> _Array:
        share: _Array = sigmoid(slope * z)
        slopes: _Array = share + slope * z * share * (1 - share)
        return slopes

    return Activation(name, lambda z: z * sigmoid(slope * z), derivative)


def _mish() -> Activation:
    softplus, sigmoid = OPERATIONS["softplus"].forward, OPERATIONS["sigmoid"].forward

    def derivative(z: _Array) -> _Array:
        share: _Array = np.tanh(softplus(z))
        slopes: _Array = share + z * sigmoid(z) * (1 - share * share)
        return slopes

    return Activation("mish", lambda z: z * np.tanh(softplus(z)), derivative)


def _between(z: _Array, low: float, high: float) -> _Array:
    return ((z > low) & (z < high)).astype(z.dtype)


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. (2017), eq. 14
_GIVEN = (
    _of_the_tape("sigmoid", "sigmoid"),
    _of_the_tape("tanh", "tanh"),
    _of_the_tape("relu", "relu", homogeneous=True),
    _of_the_tape("leaky_relu", "leaky_relu", 0.01, homogeneous=True),
    _of_the_tape("prelu", "leaky_relu", 0.25, homogeneous=True),
    _of_the_tape("gelu", "gelu"),
    _of_the_tape("gelu_tanh", "gelu_tanh"),
    _times_sigmoid("quick_gelu", 1.702),
    _of_the_tape("silu", "silu"),
    _of_the_tape("swish", "silu"),
    _of_the_tape("softplus", "softplus"),
    _mish(),
    _elu("elu", 1.0, 1.0),
    _elu("celu", 1.0, 1.0),
    _elu("selu", _SELU_SCALE, _SELU_ALPHA),
    Activation("relu6", lambda z: np.clip(z, 0.0, 6.0), lambda z: _between(z, 0.0, 6.0)),
    Activation("hardtanh", lambda z: np.clip(z, -1.0, 1.0), lambda z: _between(z, -1.0, 1.0)),
    Activation(
        "hardswish",
        lambda z: z * np.clip(z + 3.0, 0.0, 6.0) / 6.0,
        lambda z: np.where(np.abs(z) < 3.0, z / 3.0 + 0.5, (z > 0).astype(z.dtype)).astype(z.dtype, copy=False),
    ),
    Activation("softsign", lambda z: z / (1.0 + np.abs(z)), lambda z: 1.0 / np.square(1.0 + np.abs(z))),
)

ACTIVATIONS = {
    **{name: Activation(name, lambda z: z, np.ones_like, homogeneous=True) for name in ACTIVATION_NAMES},
    **{activation.name: activation for activation in _GIVEN},
}
"""Every activation that `fastinit.gain` knows, by its name; "conv2d" and its like name the absence of one."""
