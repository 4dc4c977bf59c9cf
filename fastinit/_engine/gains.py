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
    "softplus": 1.0854865029883434,
}
"""activation -> squared gain; `gain` has the sources."""

_RECTIFIERS = {"leaky_relu": (0.01, 1.0), "elu": (1.0, 0.2898908349858477)}
"""activation -> its default parameter, and the moment of its negative side (see fi_rectifier_scale)."""

ACTIVATION_NAMES = (*_NO_PARAMETER, *_RECTIFIERS)
"""Every activation that has a gain."""


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
    if as_choice(activation, ACTIVATION_NAMES, "activation") in _RECTIFIERS:
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
        linear, conv1d to conv3d, conv_transpose1d to conv_transpose3d, sigmoid, tanh, relu, leaky_relu, gelu,
        silu (or swish), selu, elu, softplus.
    a : float, optional
        The negative slope of leaky_relu (0.01), the alpha of elu (1).

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
    ``2 * (e**2 * Phi(-2) - 2 * e**0.5 * Phi(-1)) + 1``; *softplus* 1.0855, by quadrature.
    *linear*, convolutions and *sigmoid* 1 (Glorot and Bengio, 2010, near the origin); *tanh* 5/3 (LeCun et al.,
    1998, "Efficient BackProp"; torch) and *selu* 3/4 (torch): the last is what was found stable in practice;
    for the fixed point of Klambauer et al. (2017) take linear. *gelu* and *silu* take relu's by convention;
    the equation above would give 2.3517 and 2.8108.

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
conv_transpose1d, conv_transpose2d, conv_transpose3d, sigmoid, tanh, relu, gelu, silu, swish, selu, softplus, \
leaky_relu, elu
    """
    _, std, _, _ = _core.scale(squared_gain(activation, a), 1.0, _core.FAN, 1.0)
    return std
