"""Every operation of the tape, on plain arrays: its forward function and its rules, in one table.

A rule takes the gradient of the result, the result, then the arguments of the forward function, and returns the
gradient of one input (a vector-Jacobian product). Where the input was broadcast, that gradient has the shape of
the result; the tape, which knows no arithmetic, sums it back with `unbroadcast`. Read `OPERATIONS` first, then the
functions in it.

Formulas are chosen for their tails: nothing is computed as one minus something near one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import normalize_axis_index

Array = npt.NDArray[np.float64]
"""The values of the tape."""
Axes = int | tuple[int, ...] | None
"""An axis, several, or None for all."""
Forward = Callable[..., Any]
"""``forward(*inputs, *options)`` returns the result."""
Rule = Callable[..., Any]
"""``rule(gradient, result, *inputs, *options)`` returns the gradient of one input."""

_SQRT_2_OVER_PI = 0.7978845608028654
_ONE_OVER_SQRT_2PI = 0.3989422804014327
_LOWEST = np.finfo(np.float64).min


class AnyNumber:
    """The rules of an operation that takes any number of inputs: one rule, which is told the input's position.

    Parameters
    ----------
    rule : callable
        ``rule(position, gradient, result, *inputs, *options)`` returns the gradient of the input at `position`.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def __getitem__(self, position: int) -> Rule:
        return partial(self.rule, position)


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table.

    Attributes
    ----------
    name : str
        As errors say it.
    forward : callable
        ``forward(*inputs, *options)``: the result. It refuses arguments with a ValueError or TypeError.
    rules : tuple of callable, or AnyNumber
        ``rules[k](gradient, result, *inputs, *options)``: the gradient of input k.
    """

    name: str
    forward: Forward
    rules: tuple[Rule, ...] | AnyNumber


def unbroadcast(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum `gradient` over the axes along which an input of `shape` was broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from fastinit.autodiff.operations import unbroadcast
    >>> unbroadcast(np.ones((4, 2, 3)), (2, 1))
    array([[12.],
           [12.]])
    """
    extra = gradient.ndim - len(shape)
    stretched = tuple(
        axis
        for axis, length in enumerate(gradient.shape)
        if axis < extra or (shape[axis - extra] == 1 and length != 1)
    )
    summed: Array = np.add.reduce(gradient, axis=stretched)
    return summed.reshape(shape)


# Sums and shapes


def _expand(reduced: Array, x: Array, axis: Axes, keepdims: bool) -> Array:
    """Give back to `reduced` the axes of `x` that a reduction dropped, with length 1."""
    if keepdims:
        return reduced
    return reduced.reshape((1,) * x.ndim) if axis is None else np.expand_dims(reduced, axis)


def _count(x: Array, axis: Axes) -> int:
    """Count the elements that one result of a reduction stands for."""
    if axis is None:
        return x.size
    count = 1
    for one in (axis,) if isinstance(axis, int) else axis:
        count *= x.shape[one]
    return count


def _sum(x: Array, axis: Axes, keepdims: bool) -> Array:
    # Not x.sum(), whose Python layers cost as much as the sum of a small array.
    return np.add.reduce(x, axis=axis, keepdims=keepdims)  # type: ignore[call-overload, no-any-return]


def _mean(x: Array, axis: Axes, keepdims: bool) -> Array:
    return _sum(x, axis, keepdims) / np.float64(_count(x, axis))  # numpy's 0.0: the mean of nothing is nan


def _sum_rule(g: Array, _y: Array, x: Array, axis: Axes, keepdims: bool) -> Array:
    return np.broadcast_to(_expand(g, x, axis, keepdims), x.shape)


def _mean_rule(g: Array, _y: Array, x: Array, axis: Axes, keepdims: bool) -> Array:
    return np.broadcast_to(_expand(g, x, axis, keepdims) / _count(x, axis), x.shape)


def _max_rule(g: Array, y: Array, x: Array, axis: Axes, keepdims: bool) -> Array:
    """Split evenly among ties: the mean of the subgradients, and blind to the order of the elements."""
    largest = x == _expand(y, x, axis, keepdims)
    ties = _sum(largest.astype(np.float64), axis, True)
    shared: Array = _expand(g, x, axis, keepdims) / ties * largest
    return shared


def _slice_rule(g: Array, _y: Array, x: Array, index: Any) -> Array:
    whole = np.zeros(x.shape)
    whole[index] = g
    return whole


def _within(positions: npt.NDArray[np.integer], limit: int, what: str) -> None:
    """Refuse positions outside [0, limit); a negative token id is a mistake, not the row from the end."""
    wrong = (positions < 0) | (positions >= limit)
    if wrong.any():
        raise ValueError(f"{what} must lie in [0, {limit}), got {positions[wrong][0]}")


def _gather(x: Array, rows: npt.NDArray[np.integer]) -> Array:
    if x.ndim == 0:
        raise ValueError("a value without axes has no rows")
    _within(rows, x.shape[0], "rows")
    found: Array = x[rows]
    return found


def _gather_rule(g: Array, _y: Array, x: Array, rows: npt.NDArray[np.integer]) -> Array:
    whole = np.zeros(x.shape)
    np.add.at(whole, rows, g)  # `whole[rows] += g` would keep only the last of equal rows
    return whole


def _concatenate(*inputs_and_axis: Any) -> Array:
    *inputs, axis = inputs_and_axis
    joined: Array = np.concatenate(inputs, axis=axis)
    return joined


def _concatenate_rule(position: int, g: Array, _y: Array, *inputs_and_axis: Any) -> Array:
    *inputs, axis = inputs_and_axis
    begin = sum(part.shape[axis] for part in inputs[:position])
    part: Array = np.moveaxis(g, axis, 0)[begin : begin + inputs[position].shape[axis]]
    return np.moveaxis(part, 0, axis)


# Products


def _as_column(b: Array) -> Array:
    return b[:, None] if b.ndim == 1 else b


def _as_product(g: Array, a: Array, b: Array) -> Array:
    """Give back to the gradient of a product the axes that one-axis inputs dropped."""
    if b.ndim == 1:
        g = g[..., None]
    return g[..., None, :] if a.ndim == 1 else g


def _matmul_left(g: Array, _y: Array, a: Array, b: Array) -> Array:
    left: Array = _as_product(g, a, b) @ _as_column(b).mT
    return left


def _matmul_right(g: Array, _y: Array, a: Array, b: Array) -> Array:
    g = _as_product(g, a, b)
    if a.ndim > 2 and b.ndim <= 2:  # one matrix for a whole batch: one product sums over the batch as well
        rows = math.prod(a.shape[:-1])  # not -1, which numpy cannot tell where a side is 0
        a, g = a.reshape(rows, a.shape[-1]), g.reshape(rows, g.shape[-1])
    right: Array = (a[:, None] if a.ndim == 1 else a.mT) @ g
    return right[..., 0] if b.ndim == 1 else right


def _base_rule(g: Array, _y: Array, x: Array, exponent: Array) -> Array:
    slope: Array = exponent * x ** (exponent - 1.0)
    return g * np.where(exponent == 0, 0.0, slope)  # x**0 is 1 also at 0, where the formula says 0 * inf


def _exponent_rule(g: Array, y: Array, x: Array, exponent: Array) -> Array:
    return g * np.where((x == 0) & (exponent > 0), 0.0, y * np.log(x))


# Smooth functions of one input


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def _sigmoid_rule(g: Array, _y: Array, x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return g * (e / ((1.0 + e) * (1.0 + e)))


def _tanh_rule(g: Array, _y: Array, x: Array) -> Array:
    e = np.exp(-2.0 * np.abs(x))
    return g * (4.0 * e / ((1.0 + e) * (1.0 + e)))


def _softplus(x: Array) -> Array:
    softened: Array = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return softened


def _silu(x: Array) -> Array:
    """Multiply by each half of the exponential in turn: x * e**x is a normal number where e**x is none."""
    half = np.exp(-0.5 * np.abs(x))
    e = half * half
    return np.where(x >= 0, x, x * half * half) / (1.0 + e)


def _silu_rule(g: Array, _y: Array, x: Array) -> Array:
    half = np.exp(-0.5 * np.abs(x))
    e = half * half
    above = 1.0 + x * e / (1.0 + e)
    below = half * (1.0 + x / (1.0 + e)) * half
    return g * (np.where(x >= 0, above, below) / (1.0 + e))


def _leaky_relu(x: Array, slope: float) -> Array:
    return np.where(x > 0, x, slope * x)


def _leaky_relu_rule(g: Array, _y: Array, x: Array, slope: float) -> Array:
    return g * np.where(x > 0, 1.0, slope)


# W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969); the form for the
# normal distribution is ANORM of his Algorithm 715, ACM TOMS 19 (1993). Lowest powers first.
_NEAR_TOP = (18154.981253343561249, 1067.6894854603709582, 161.02823106855587881, 2.2352520354606839287,
             0.065682337918207449113)  # fmt: skip
_NEAR_BOTTOM = (45507.789335026729956, 10260.932208618978205, 976.09855173777669322, 47.20258190468824187, 1.0)
_MIDDLE_TOP = (9842.7148383839780218, 11602.651437647350124, 6848.1904505362823326, 2494.5375852903726711,
               597.27027639480026226, 93.506656132177855979, 8.8831497943883759412, 0.39894151208813466764,
               1.0765576773720192317e-8)  # fmt: skip
_MIDDLE_BOTTOM = (19685.429676859990727, 38912.003286093271411, 34900.952721145977266, 18615.571640885098091,
                  6485.558298266760755, 1519.377599407554805, 235.38790178262499861, 22.266688044328115691,
                  1.0)  # fmt: skip
_FAR_TOP = (2.9112874951168792e-5, 0.001421619193227893466, 0.022235277870649807, 0.1274011611602473639,
            0.21589853405795699, 0.02307344176494017303)  # fmt: skip
_FAR_BOTTOM = (7.29751555083966205e-5, 0.00378239633202758244, 0.0659881378689285515, 0.468238212480865118,
               1.28426009614491121, 1.0)  # fmt: skip


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    total = np.full(x.shape, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total *= x
        total += coefficient
    return total


def _bell(x: Array) -> Array:
    """exp(-x*x/2), with the square split so that its rounding does not show in the tails."""
    size = np.minimum(np.abs(x), 40.0)  # beyond it the result is 0
    coarse = np.trunc(size * 16.0) / 16.0
    return np.exp(-0.5 * coarse * coarse) * np.exp(-0.5 * (size - coarse) * (size + coarse))


def _normal_cdf(x: Array) -> Array:
    """Return the standard normal's distribution function, to a few units in the last place, tails included.

    math.erfc takes one element a call, and the rounding of ``x / sqrt(2)`` costs it three digits in the tails.
    """
    size = np.abs(x)
    tail = np.empty(x.shape)
    middle, far = size <= 5.656854249492381, size > 5.656854249492381
    tail[middle] = _middle_ratio(size[middle])
    tail[far] = _far_ratio(size[far])
    tail *= _bell(x)
    whole = np.where(x > 0, 1.0 - tail, tail)
    near = size <= 0.67448975
    whole[near] = _near_cdf(x[near])
    return whole


def _near_cdf(x: Array) -> Array:
    square = x * x
    return 0.5 + x * _polynomial(_NEAR_TOP, square) / _polynomial(_NEAR_BOTTOM, square)


def _middle_ratio(size: Array) -> Array:
    return _polynomial(_MIDDLE_TOP, size) / _polynomial(_MIDDLE_BOTTOM, size)


def _far_ratio(size: Array) -> Array:
    inverse = 1.0 / size / size
    ratio = inverse * _polynomial(_FAR_TOP, inverse) / _polynomial(_FAR_BOTTOM, inverse)
    return (_ONE_OVER_SQRT_2PI - ratio) / size


def _gelu(x: Array) -> Array:
    return x * _normal_cdf(x)


def _gelu_rule(g: Array, _y: Array, x: Array) -> Array:
    return g * (_normal_cdf(x) + x * (_ONE_OVER_SQRT_2PI * _bell(x)))


def _twice_gelu_argument(x: Array) -> Array:
    return 2.0 * _SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)


def _gelu_tanh(x: Array) -> Array:
    """Rewrite x * (1 + tanh(u)) / 2 as x * sigmoid(2u), which keeps the lower tail."""
    return x * _sigmoid(_twice_gelu_argument(x))


def _gelu_tanh_rule(g: Array, _y: Array, x: Array) -> Array:
    near = np.clip(x, -50.0, 50.0)  # beyond it the correction is 0, and its factors overflow
    e = np.exp(-np.abs(_twice_gelu_argument(near)))
    slope = 2.0 * _SQRT_2_OVER_PI * (1.0 + 3.0 * 0.044715 * near * near)
    lower = np.where(near >= 0, 1.0, e)
    return g * ((lower + near * slope * e / (1.0 + e)) / (1.0 + e))


# Rows: softmax and its relatives, norms


def _shifted(x: Array, axis: int, mask: npt.NDArray[np.bool_] | None) -> Array:
    """Subtract from `x` the largest unmasked entry of its row; -inf where masked."""
    if mask is not None:
        try:
            mask = np.broadcast_to(mask, x.shape)
        except ValueError:
            raise ValueError(f"a mask of shape {mask.shape} does not broadcast to the value's shape") from None
        if x.size and mask.all(axis=axis).any():
            raise ValueError("a row is wholly masked; a probability needs at least one entry that is not")
        x = np.where(mask, -np.inf, x)
    shifted: Array = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return shifted


def _softmax(x: Array, axis: int, mask: npt.NDArray[np.bool_] | None) -> Array:
    e = np.exp(_shifted(x, axis, mask))
    return e / _sum(e, axis, True)


def _softmax_rule(g: Array, y: Array, _x: Array, axis: int, _mask: npt.NDArray[np.bool_] | None) -> Array:
    weighted = g * y
    return weighted - y * _sum(weighted, axis, True)


def _log_softmax(x: Array, axis: int, mask: npt.NDArray[np.bool_] | None) -> Array:
    shifted = _shifted(x, axis, mask)
    logarithms: Array = shifted - np.log(_sum(np.exp(shifted), axis, True))
    return logarithms if mask is None else np.where(mask, _LOWEST, logarithms)


def _log_softmax_rule(g: Array, y: Array, _x: Array, axis: int, mask: npt.NDArray[np.bool_] | None) -> Array:
    if mask is not None:
        g = np.where(mask, 0.0, g)
    return g - np.exp(y) * _sum(g, axis, True)


def _cross_entropy(x: Array, targets: npt.NDArray[np.integer], axis: int) -> Array:
    axis = normalize_axis_index(axis, x.ndim)
    expected = x.shape[:axis] + x.shape[axis + 1 :]
    if targets.shape != expected:
        raise ValueError(f"the targets of these logits have shape {expected}, got {targets.shape}")
    _within(targets, x.shape[axis], "targets")
    found = np.take_along_axis(_log_softmax(x, axis, None), np.expand_dims(targets, axis), axis)
    return -_mean(found, None, False)


def _cross_entropy_rule(g: Array, _y: Array, x: Array, targets: npt.NDArray[np.integer], axis: int) -> Array:
    slope = _softmax(x, axis, None)
    columns = np.expand_dims(targets, axis)
    np.put_along_axis(slope, columns, np.take_along_axis(slope, columns, axis) - 1.0, axis)
    slope *= g / targets.size
    return slope


def _root_mean_square(x: Array, axis: Axes, epsilon: float) -> Array:
    squares = _mean(x * x, axis, True)
    if np.isinf(squares).any():  # the quotient would be 0, finite and wrong
        raise ValueError("the squares of the values overflow")
    root: Array = np.sqrt(squares + epsilon)
    return root


def _rms_norm(x: Array, axis: Axes, epsilon: float) -> Array:
    return x / _root_mean_square(x, axis, epsilon)


def _rms_norm_rule(g: Array, y: Array, x: Array, axis: Axes, epsilon: float) -> Array:
    return (g - y * _mean(g * y, axis, True)) / _root_mean_square(x, axis, epsilon)


def _layer_norm(x: Array, axis: Axes, epsilon: float) -> Array:
    return _rms_norm(x - _mean(x, axis, True), axis, epsilon)


def _layer_norm_rule(g: Array, y: Array, x: Array, axis: Axes, epsilon: float) -> Array:
    centered = x - _mean(x, axis, True)
    return _rms_norm_rule(g - _mean(g, axis, True), y, centered, axis, epsilon)


def _norm(x: Array, axis: Axes, keepdims: bool) -> Array:
    """Divide by the largest element first, so that no square overflows or vanishes."""
    largest = np.max(np.abs(x), axis=axis, keepdims=True, initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)
    scaled = x / scale
    root = scale * np.sqrt(_sum(scaled * scaled, axis, True))
    return root if keepdims else np.squeeze(root, axis)


def _norm_rule(g: Array, y: Array, x: Array, axis: Axes, keepdims: bool) -> Array:
    length = _expand(y, x, axis, keepdims)
    return _expand(g, x, axis, keepdims) * (x / np.where(length > 0, length, 1.0))


def _transpose_rule(g: Array, _y: Array, _x: Array, axes: tuple[int, ...] | None) -> Array:
    return g.transpose(None if axes is None else tuple(np.argsort(np.array(axes) % g.ndim)))


_ROWS = (
    Operation("add", np.add, (lambda g, *_: g, lambda g, *_: g)),
    Operation("subtract", np.subtract, (lambda g, *_: g, lambda g, *_: -g)),
    Operation("multiply", np.multiply, (lambda g, _y, _a, b: g * b, lambda g, _y, a, _b: g * a)),
    Operation("divide", np.true_divide, (lambda g, _y, _a, b: g / b, lambda g, y, _a, b: -g * (y / b))),
    Operation("power", np.power, (_base_rule, _exponent_rule)),
    Operation("negative", np.negative, (lambda g, *_: -g,)),
    Operation("matmul", np.matmul, (_matmul_left, _matmul_right)),
    Operation("sum", _sum, (_sum_rule,)),
    Operation("mean", _mean, (_mean_rule,)),
    Operation("max", lambda x, axis, keepdims: np.max(x, axis=axis, keepdims=keepdims), (_max_rule,)),
    Operation("reshape", lambda x, shape: x.reshape(shape), (lambda g, _y, x, _shape: g.reshape(x.shape),)),
    Operation("transpose", lambda x, axes: x.transpose(axes), (_transpose_rule,)),
    Operation("slice", lambda x, index: x[index], (_slice_rule,)),
    Operation("gather", _gather, (_gather_rule,)),
    Operation("concatenate", _concatenate, AnyNumber(_concatenate_rule)),
    Operation("where", lambda a, b, condition: np.where(condition, a, b), (
        lambda g, _y, _a, _b, condition: np.where(condition, g, 0.0),
        lambda g, _y, _a, _b, condition: np.where(condition, 0.0, g),
    )),
    Operation("exp", np.exp, (lambda g, y, _x: g * y,)),
    Operation("log", np.log, (lambda g, _y, x: g / x,)),
    Operation("sqrt", np.sqrt, (lambda g, y, _x: g * (0.5 / y),)),
    Operation("abs", np.abs, (lambda g, _y, x: g * np.sign(x),)),
    Operation("tanh", np.tanh, (_tanh_rule,)),
    Operation("sigmoid", _sigmoid, (_sigmoid_rule,)),
    Operation("relu", lambda x: np.maximum(x, 0.0), (lambda g, _y, x: g * (x > 0),)),
    Operation("leaky_relu", _leaky_relu, (_leaky_relu_rule,)),
    Operation("gelu", _gelu, (_gelu_rule,)),
    Operation("gelu_tanh", _gelu_tanh, (_gelu_tanh_rule,)),
    Operation("silu", _silu, (_silu_rule,)),
    Operation("softplus", _softplus, (lambda g, _y, x: g * _sigmoid(x),)),
    Operation("softmax", _softmax, (_softmax_rule,)),
    Operation("log_softmax", _log_softmax, (_log_softmax_rule,)),
    Operation("cross_entropy", _cross_entropy, (_cross_entropy_rule,)),
    Operation("layer_norm", _layer_norm, (_layer_norm_rule,)),
    Operation("rms_norm", _rms_norm, (_rms_norm_rule,)),
    Operation("norm", _norm, (_norm_rule,)),
)  # fmt: skip


OPERATIONS = {row.name: row for row in _ROWS}
"""The name of an operation -> its row."""
