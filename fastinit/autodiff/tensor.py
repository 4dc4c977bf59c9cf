"""`Tensor`: an immutable, finite, row-major float64 array."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .._engine.checks import ShapeLike, as_shape, size_of
from ..errors import TensorError


class Tensor:
    """An immutable float64 array of finite values.

    Parameters
    ----------
    values : array_like or Tensor
        Numbers of any shape; copied, converted to float64, row-major. Another tensor's values are shared instead:
        no tensor can change.

    Raises
    ------
    TensorError
        If they are ragged, not numbers, or not all finite.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.Tensor([[1, 2], [3, 4]]).shape
    (2, 2)
    """

    __slots__ = ("_values",)
    _values: npt.NDArray[np.float64]

    def __init__(self, values: npt.ArrayLike | Tensor) -> None:
        if isinstance(values, Tensor):
            self._values = values._values
        else:
            self._values = _checked(_converted(values).copy(order="C"))

    @classmethod
    def from_vec(cls, shape: ShapeLike, values: Iterable[float]) -> Self:
        """Return the tensor of `shape` whose row-major elements are `values`.

        Parameters
        ----------
        shape : int or tuple of int
            The lengths of the axes.
        values : iterable of float
            As many numbers as `shape` has elements, in one flat sequence.

        Raises
        ------
        TensorError
            If their number is another, or as for `Tensor`.

        Examples
        --------
        >>> import fastinit
        >>> fastinit.Tensor.from_vec((2, 2), range(4))
        Tensor([[0., 1.],
                [2., 3.]])
        """
        checked_shape = as_shape(shape)
        flat = _converted(values if isinstance(values, np.ndarray) else list(values))
        if flat.ndim != 1:
            raise TensorError(f"values must be a flat sequence, got shape {flat.shape}")
        if flat.size != size_of(checked_shape):
            raise TensorError(f"shape {checked_shape} holds {size_of(checked_shape)} values, got {flat.size}")
        return cls(flat.reshape(checked_shape))

    @classmethod
    def adopt(cls, values: npt.NDArray[np.float64]) -> Self:
        """Return a tensor that owns `values` without a copy.

        The caller keeps no other reference, and hands in a row-major float64 array; TensorError if an element is
        not finite.
        """
        tensor = cls.__new__(cls)
        tensor._values = _checked(values)
        return tensor

    @classmethod
    def of_finite(cls, values: npt.NDArray[np.float64]) -> Self:
        """Return a tensor of `values`, unchecked: finite float64 numbers that nobody will write to."""
        tensor = cls.__new__(cls)
        tensor._values = values if values.flags.c_contiguous else values.copy(order="C")
        tensor._values.flags.writeable = False
        return tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self._values.shape

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """The values, as a read-only float64 array of this shape."""
        return self._values.view()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor):
            return NotImplemented
        return self.shape == other.shape and bool((self._values == other._values).all())

    def __hash__(self) -> int:
        return hash((self.shape, (self._values + 0.0).tobytes()))  # + 0.0: -0.0 equals 0.0

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[npt.NDArray[np.float64]]]:
        return type(self), (self._values,)

    def __repr__(self) -> str:
        return f"Tensor({np.array2string(self._values, separator=', ', prefix='Tensor(')})"


def _converted(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub" and not np.can_cast(array.dtype, np.float64):  # bfloat16 can
            raise TensorError(f"values must be real numbers, got an array of dtype {array.dtype}")
        with np.errstate(over="ignore"):  # of a long double: inf, which is refused
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        if isinstance(error, TensorError):
            raise
        raise TensorError(f"values must form a rectangular array of real numbers: {error}") from error


def _checked(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    with np.errstate(all="ignore"):
        finite = is_finite(values)
    if not finite:
        raise TensorError(f"values must be finite; {first_not_finite(values)}", *_not_finite(values))
    values.flags.writeable = False
    return values


def is_finite(values: npt.NDArray[np.float64]) -> bool:
    """Say whether no element is nan or infinite.

    For few elements a finite sum of squares says so in half the time; finite values whose squares overflow are
    looked at again. Not for many: BLAS would wake its threads for the sum. Call it inside ``np.errstate``.
    """
    if values.size <= 8192:
        flat = values.ravel(order="K")
        if math.isfinite(np.dot(flat, flat)):
            return True
    return bool(np.isfinite(values).all())


def first_not_finite(values: npt.NDArray[np.float64]) -> str:
    """Name the first element that is nan or infinite, for an error message."""
    first, value = _not_finite(values)
    return f"element {first} (row-major) is {value}"


def _not_finite(values: npt.NDArray[np.float64]) -> tuple[int, float]:
    flat = values.ravel()
    first = int(np.flatnonzero(~np.isfinite(flat))[0])
    return first, float(flat[first])
