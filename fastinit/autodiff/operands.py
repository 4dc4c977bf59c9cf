"""Checks of the arguments of an operation: constants, axes, indices, positions and masks.

Arrays are copied: the graph must not follow the caller's array when it changes before the backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._engine.checks import as_index
from ..errors import TensorAutodiffError
from .operations import Array, Axes
from .tensor import Tensor

AxisLike = SupportsIndex | Iterable[SupportsIndex] | None
"""An axis, several, or None for all."""


def array_of(name: str, value: object) -> Array:
    """Return the array of an operand that is not a node: of a `Tensor`, or of a number.

    Raises
    ------
    TensorAutodiffError
        For anything else, and for a number that is not finite in float64; `name` is the operation's.
    """
    if isinstance(value, Tensor):
        return value.values
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        raise TensorAutodiffError(
            f"{name}: an operand is a TensorValue, a Tensor or a number, got {type(value).__name__}; "
            "wrap arrays: Tensor(values)"
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise TensorAutodiffError(f"{name}: operands are finite float64 numbers, got {number}")
    return np.asarray(number)


def axes_of(axis: AxisLike, name: str) -> Axes:
    """Return `axis` as an int, a tuple of them, or None."""
    if axis is None:
        return None
    if isinstance(axis, Iterable):
        return tuple(as_index(one, f"{name}: axis") for one in axis)
    return as_index(axis, f"{name}: axis")


def integers(given: tuple[Any, ...], what: str) -> tuple[int, ...]:
    """Return the integers of ``f(2, 3)`` or ``f((2, 3))`` as a tuple."""
    if len(given) == 1 and isinstance(given[0], Iterable):
        given = tuple(given[0])
    return tuple(as_index(one, what) for one in given)


def basic_index(index: Any) -> tuple[Any, ...]:
    """Return an index of ints, slices, Ellipsis and None as a tuple.

    Arrays and lists are refused: numpy would take them for positions or a mask, the work of `gather` and `where`.
    """
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(
        part if part is None or part is Ellipsis or isinstance(part, slice) else as_index(part, "slice: an index")
        for part in parts
    )


def positions(given: npt.ArrayLike, what: str) -> npt.NDArray[np.integer]:
    """Return a copy of an array of integers, in its own dtype; an empty one may have any dtype."""
    found = np.array(given)
    if found.dtype.kind in "iu":  # not cast: a large unsigned position would become a negative one
        return found
    if found.size:
        raise TypeError(f"{what} must be integers, got an array of dtype {found.dtype}")
    return found.astype(np.intp)


def mask_of(given: npt.ArrayLike, what: str) -> npt.NDArray[np.bool_]:
    """Return a copy of an array of bool."""
    found = np.array(given)
    if found.dtype != np.bool_:
        raise TypeError(f"{what} must be an array of bool, got dtype {found.dtype}")
    return found


def optional_mask(given: npt.ArrayLike | None, what: str) -> npt.NDArray[np.bool_] | None:
    """Return a copy of an array of bool, or None."""
    return None if given is None else mask_of(given, what)
