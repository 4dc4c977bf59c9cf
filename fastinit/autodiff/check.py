"""`check_gradients`: reverse mode against finite differences, which know nothing of the rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._engine.checks import as_finite, as_u64
from ..errors import TensorAutodiffError
from .graph import GraphRetention
from .operations import Array
from .tape import TensorValue
from .tensor import Tensor

Function = Callable[..., TensorValue]
"""A function to check: it takes one `TensorValue` for each input, and returns one."""

_Directional = Callable[[float], float]

_LEVELS = 6  # of extrapolation; rounding outweighs the gain of more
_SAFETY = 10.0  # factor on the known error of an estimate


def check_gradients(
    function: Function,
    *inputs: Tensor,
    directions: int = 4,
    step: float = 0.01,
    tolerance: float = 1e-6,
    seed: int = 0,
) -> float:
    """Check a function's reverse-mode gradients against numeric ones, and return the largest relative difference.

    Parameters
    ----------
    function : callable
        Takes one `TensorValue` per input, returns one; of any shape.
    *inputs : Tensor
        Where to check; at least one. No kink (of relu, abs, max...) may lie within a step of them.
    directions : int, default 4
        Random directions tried for each input; at least 1.
    step : float, default 0.01
        The largest change made to an element, over the largest magnitude of its input (1 where that is 0).
    tolerance : float, default 1e-6
        Largest relative difference that passes; between 0 and 1. A rule that is off by a factor of 1 + 1e-5 fails.
    seed : int, default 0
        Of the directions.

    Raises
    ------
    TensorAutodiffError
        If they differ: for which input and direction, and by how much. If the differences cannot judge: their own
        error, from rounding, a kink or a step too long, is more than `tolerance` of the derivative. Differences of
        exactly 0 agree with a gradient of exactly 0, and with no other.
    TypeError, ValueError
        For options out of range, and for a function that returns no `TensorValue`.

    Notes
    -----
    For a random weight ``u`` of the result and direction ``v`` of an input, compares the product of ``v`` and the
    reverse-mode gradient with the derivative of ``u * function(x + t*v)``: symmetric differences, extrapolated to
    step 0 (Ridders, "Accurate computation of F'(x) and F'(x)F''(x)", Adv. Eng. Software 4, 1982).

    Examples
    --------
    >>> from fastinit import Tensor
    >>> from fastinit.autodiff import check_gradients
    >>> check_gradients(lambda x, w: (x @ w).tanh(), Tensor([[0.5, -1.0]]), Tensor([[0.1], [0.7]])) < 1e-9
    True
    """
    directions, step, tolerance = _checked_options(inputs, directions, step, tolerance)
    draw = np.random.default_rng(as_u64(seed, "seed")).uniform
    leaves = [TensorValue.parameter(tensor) for tensor in inputs]
    result = function(*leaves)
    if not isinstance(result, TensorValue):
        raise TypeError(f"the function must return a TensorValue, got {type(result).__name__}")
    largest = 0.0
    for direction in range(directions):
        weight = draw(-1.0, 1.0, result.shape)
        rounding = float(np.sum(np.abs(weight) * np.spacing(np.abs(result.value.values))))
        for position, gradient in enumerate(_gradients(result, leaves, weight)):
            along = draw(-1.0, 1.0, gradient.shape)
            reach = step * (float(np.max(np.abs(inputs[position].values), initial=0.0)) or 1.0)
            numeric, error = _derivative(_differences(function, inputs, position, along, weight), reach)
            reverse, noise = float(np.sum(gradient * along)), _SAFETY * (error + rounding / reach)
            found = _Comparison(position, direction, reverse, numeric, error, noise)
            largest = max(largest, found.judged(tolerance))
    return largest


def _checked_options(
    inputs: tuple[Tensor, ...], directions: int, step: float, tolerance: float
) -> tuple[int, float, float]:
    directions = as_u64(directions, "directions")
    step, tolerance = as_finite(step, "step"), as_finite(tolerance, "tolerance")
    if not inputs or directions == 0:
        raise ValueError(f"nothing would be checked: {len(inputs)} inputs, {directions} directions")
    if step <= 0 or not 0 < tolerance < 1:
        raise ValueError(f"step must be > 0 and tolerance between 0 and 1, got {step} and {tolerance}")
    return directions, step, tolerance


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One derivative, by reverse mode and by differences; `noise` is how far off the latter may be."""

    position: int
    direction: int
    reverse: float
    numeric: float
    error: float
    noise: float

    def judged(self, tolerance: float) -> float:
        """Return the relative difference; TensorAutodiffError if it is too large, or cannot be judged."""
        difference = abs(self.reverse - self.numeric)
        scale = max(abs(self.reverse), abs(self.numeric))
        if difference > tolerance * scale + self.noise:
            raise TensorAutodiffError(
                f"the gradient of input {self.position} is wrong: {self}, a relative difference of "
                f"{difference / scale:.1e}"
            )
        if (scale or self.error) and self.noise > tolerance * scale:
            raise TensorAutodiffError(
                f"cannot judge the gradient of input {self.position} to {tolerance:g}: {self}, the latter known "
                f"to {self.noise:.1e} only; take another step, or leave out what is large and does not depend on "
                "it"
            )
        return difference / scale if scale else 0.0

    def __str__(self) -> str:
        return (
            f"along direction {self.direction} reverse mode gives {self.reverse!r} and finite differences "
            f"{self.numeric!r}"
        )


def _gradients(result: TensorValue, leaves: list[TensorValue], weight: Array) -> list[Array]:
    """Return the gradients of ``sum(weight * result)`` for every leaf; zeros where none arrives."""
    for leaf in leaves:
        leaf.zero_gradient()
    result.backward_with_seed(Tensor(weight), GraphRetention.RETAIN)
    found = (leaf.gradient_snapshot() for leaf in leaves)
    return [gradient.values for gradient in found if gradient is not None]  # of a trainable leaf it never is


def _differences(
    function: Function, inputs: tuple[Tensor, ...], position: int, along: Array, weight: Array
) -> _Directional:
    """Return t -> the symmetric difference quotient of ``sum(weight * function)`` along one input's direction."""

    def value(t: float) -> Array:
        moved = [TensorValue.constant(tensor) for tensor in inputs]
        moved[position] = TensorValue.constant(Tensor(inputs[position].values + t * along))
        return function(*moved).value.values

    return lambda t: float(np.sum(weight * (value(t) - value(-t)))) / (2.0 * t)


def _derivative(quotient: _Directional, step: float) -> tuple[float, float]:
    """Extrapolate `quotient` from `step` to 0; return the estimate that changed least, and by how much it did."""
    best, error = 0.0, math.inf
    previous: list[float] = []
    for level in range(_LEVELS):
        row = [quotient(step / 2**level)]
        for column, coarser in enumerate(previous):
            row.append(row[column] + (row[column] - coarser) / (4.0 ** (column + 1) - 1.0))
            change = max(abs(row[-1] - row[column]), abs(row[-1] - coarser))
            if change < error:
                best, error = row[-1], change
        previous = row
    return best, error
