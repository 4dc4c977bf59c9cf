"""Whole arrays from float64 to a stored dtype and back, by the core's own conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .dtypes import DType
from .parts import Array


def narrowed(values: Array, dtype: DType) -> Array:
    """Return the bit patterns of float64 `values`, rounded once to nearest even; ml_dtypes would round twice."""
    bits = np.empty(values.shape, f"u{dtype.itemsize}")
    _core.narrow(np.asarray(values, order="C"), bits, dtype.code, dtype.itemsize)
    return bits


def widened(stored: Any, dtype: DType) -> Array:
    """Return the float64 values, in one axis, of a buffer of `stored`, little-endian bit patterns; exact."""
    values = np.empty(memoryview(stored).nbytes // dtype.itemsize)
    _core.widen(stored, values, dtype.code, dtype.itemsize)
    return values


def rounded(value: float, dtype: DType) -> float:
    """Return the value of a floating dtype that is nearest to `value`, ties to even."""
    bits = narrowed(np.array([value]), dtype)
    return float(widened(bits.astype(bits.dtype.newbyteorder("<")), dtype)[0])
