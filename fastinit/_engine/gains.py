"""Gains of activations, and the Xavier scale of one matrix.

The floating-point arithmetic runs in C, inside the kernels' environment, so that a host's rounding mode cannot
move a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import _core
from .axes import check_fans
from .checks import as_choice, as_finite, as_u64

_NO_PARAMETER = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 2.7777777777777777,  # 25/9
    "relu": 2.0,
    "gelu": 2.0,
    "silu": 2.0,
    "swish": 2.0,
    "selu": 0.5625,  # 9/16
    "celu": 1.550518808067927,
    "gelu_tanh": 2.0,
    "hardswish": 3.015978274654053,
    "hardtanh": 1.9377646163142264,
    "mish": 2.210715729937989,
    "quick_gelu": 2.0,
    "relu6": 2.000000007698918,
    "softplus": 1.0854865029883434,
    "softsign": 5.46406222364552,
}
"""activation -> squared gain; `gain` has the sources."""

_RECTIFIERS = {"leaky_relu": (0.01, 1.0), "prelu": (0.25, 1.0), "elu": (1.0, 0.2898908349858477)}
"""activation -> its default parameter, and the moment of its negative side (see fi_rectifier_scale)."""

ACTIVATION_NAMES = (*_NO_PARAMETER, *_RECTIFIERS)
"""Every activation that has a gain."""

CONVENTIONAL = frozenset(("sigmoid", "tanh", "selu", "gelu", "gelu_tanh", "quick_gelu", "silu", "swish"))
"""Activations whose gain is a convention; that of the others is computed, ``1 / E[f(z)**2]`` squared."""

_GATES = {"glu": "sigmoid", "swiglu": "silu", "geglu": "gelu", "reglu": "relu"}
"""Layers that multiply two projections -> the activation of one of them."""

_OTHERS = frozenset(
    ("crelu", "hard_shrink", "hard_sigmoid", "hardshrink", "hardsigmoid", "log_sigmoid", "log_softmax",
     "logsigmoid", "maxout", "relu2", "rrelu", "soft_shrink", "softmax", "softmin", "softshrink", "squared_relu",
     "squareplus", "tanh_shrink", "tanhshrink", "threshold")
)  # fmt: skip
"""Functions of other libraries that are not here, and must not pass for misspelt names of those that are."""


def as_activation_name(name: object) -> str:
    """Return the name of an activation that has a gain; an error suggests a name, never another function."""
    if isinstance(name, str) and name in _GATES:
        raise ValueError(
            f"{name} is a layer, {_GATES[name]}(x @ W) * (x @ V), not a function of one number, so it has no "
            f"gain: take {_GATES[name]}'s for W, and linear's for V"
        )
    if isinstance(name, str) and name in _OTHERS:
        raise ValueError(
            f"{name} is not among the activations here; pass the function itself to fastinit.recommend or "
            f"fastinit.computed_gain. Known by name: {', '.join(ACTIVATION_NAMES)}"
        )
    return as_choice(name, ACTIVATION_NAMES, "activation", 0.7)


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
    variance, std, limit, _ = _core.scale(1.0, float(fan_in + fan_out), _core.FAN_SUM, 1.0)
    return XavierScale(fan_in, fan_out, variance, std, limit)


def squared_gain(activation: str, a: float | None = None) -> float:
    """Return the square of `gain`: the `scale` of a variance scaling."""
    if as_activation_name(activation) in _RECTIFIERS:
        default, moment = _RECTIFIERS[activation]
        return _core.rectifier_scale(default if a is None else as_finite(a, "a"), moment)
    if a is not None:
        raise ValueError(
            f"{activation} has no parameter, but a={a!r} is given; for a negative slope say "
            'activation="leaky_relu"'
        )
    return _NO_PARAMETER[activation]


def gain(activation: str, a: float | None = None) -> float:
    """Return the factor by which an activation wants the standard deviation of its weights multiplied.

    Parameters
    ----------
    activation : str
        linear, conv1d to conv3d, conv_transpose1d to conv_transpose3d, sigmoid, tanh, relu, leaky_relu, prelu,
        relu6, gelu, gelu_tanh, quick_gelu, silu (or swish), mish, hardswish, selu, elu, celu, softplus, hardtanh,
        softsign.
    a : float, optional
        The negative slope of leaky_relu (0.01) and prelu (0.25), the alpha of elu (1).

    Returns
    -------
    float
        The square root of a scale: multiply a standard deviation or a limit by it.

    Raises
    ------
    ValueError
        For an unknown name (the nearest one is suggested), and for a parameter that the activation does not have.

    Notes
    -----
    He et al. (2015), eq. 10: signals keep their second moment where the squared gain is ``1 / E[f(z)**2]``, z a
    standard normal. That gives *relu* 2 and *leaky_relu* ``2 / (1 + a**2)`` (eq. 15); *elu*
    ``2 / (1 + 0.28989 * alpha**2)``, 1.5505 for alpha 1, where 0.28989 is
    ``2 * (e**2 * Phi(-2) - 2 * e**0.5 * Phi(-1)) + 1``, and so *celu*, for alpha 1. By quadrature *softplus*
    1.0855, *mish* 2.2107, *hardswish* 3.0160, *relu6* 2.0000, *hardtanh* 1.9378, *softsign* 5.4641. *linear* and
    convolutions 1.

    By convention, not from that equation: *sigmoid* 1 (Glorot and Bengio, 2010, near the origin); *tanh* 5/3
    (LeCun et al., 1998, "Efficient BackProp"; torch) and *selu* 3/4 (torch): the last is what was found stable in
    practice; for the fixed point of Klambauer et al. (2017) take linear. *gelu*, *gelu_tanh*, *quick_gelu* and
    *silu* take relu's; the equation would give gelu and silu 2.3517 and 2.8108, the others 2.3519 and 2.3699.
    `computed_gain` solves it for any function.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.gain("relu"), fastinit.gain("tanh"), fastinit.gain("selu")
    (1.4142135623730951, 1.6666666666666667, 0.75)
    >>> round(fastinit.gain("leaky_relu", 0.2), 6), round(fastinit.gain("elu"), 6)
    (1.38675, 1.245198)
    >>> fastinit.gain("rleu")
    Traceback (most recent call last):
    ValueError: unknown activation 'rleu'; did you mean 'relu'? expected one of linear, conv1d, conv2d, conv3d, \
conv_transpose1d, conv_transpose2d, conv_transpose3d, sigmoid, tanh, relu, gelu, silu, swish, selu, celu, \
gelu_tanh, hardswish, hardtanh, mish, quick_gelu, relu6, softplus, softsign, leaky_relu, prelu, elu
    """
    _, std, _, _ = _core.scale(squared_gain(activation, a), 1.0, _core.FAN, 1.0)
    return std
