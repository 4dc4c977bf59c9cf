"""The dtypes a weight can be stored in, under the names numpy, ml_dtypes and safetensors give them.

bfloat16 and the float8 formats are unsigned integers to numpy; the package ml_dtypes gives them a dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One storage format.

    Attributes
    ----------
    name : str
        numpy's or ml_dtypes' name.
    tag : str
        safetensors' name.
    itemsize : int
        Bytes.
    code : int or None
        `_core`'s number; None for integers, which take constants and positions but no draws.
    """

    name: str
    tag: str
    itemsize: int
    code: int | None = None

    @property
    def is_float(self) -> bool:
        """Whether weights can be drawn into it."""
        return self.code is not None

    @property
    def bits(self) -> np.dtype[Any]:
        """The numpy dtype that holds its bit patterns."""
        return np.dtype(self.name) if hasattr(np, self.name) else np.dtype(f"u{self.itemsize}")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype; the narrow ones need the package ml_dtypes."""
        if hasattr(np, self.name):
            return np.dtype(self.name)
        try:
            import ml_dtypes  # noqa: PLC0415
        except ImportError:
            raise ImportError(
                f"a {self.name} array needs the package ml_dtypes: pip install 'fastinit-weights[dtypes]'; "
                f"or pass out= as a uint{8 * self.itemsize} array to receive the bit patterns"
            ) from None
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.name))
        return found


FLOATS = (
    DType("float64", "F64", 8, _core.DTYPES["float64"]),
    DType("float32", "F32", 4, _core.DTYPES["float32"]),
    DType("float16", "F16", 2, _core.DTYPES["float16"]),
    DType("bfloat16", "BF16", 2, _core.DTYPES["bfloat16"]),
    DType("float8_e4m3fn", "F8_E4M3", 1, _core.DTYPES["float8_e4m3fn"]),
    DType("float8_e5m2", "F8_E5M2", 1, _core.DTYPES["float8_e5m2"]),
)
INTEGERS = (
    DType("int64", "I64", 8),
    DType("int32", "I32", 4),
    DType("int16", "I16", 2),
    DType("int8", "I8", 1),
    DType("uint64", "U64", 8),
    DType("uint32", "U32", 4),
    DType("uint16", "U16", 2),
    DType("uint8", "U8", 1),
)
FLOAT64 = FLOATS[0]
BY_NAME = {dtype.name: dtype for dtype in FLOATS + INTEGERS}
BY_TAG = {dtype.tag: dtype for dtype in FLOATS + INTEGERS}


def narrowed(values: Array, dtype: DType) -> Array:
    """Return the bit patterns of float64 `values`, rounded once to nearest even; ml_dtypes would round twice."""
    assert dtype.code is not None
    bits = np.empty(values.shape, f"u{dtype.itemsize}")
    _core.narrow(np.asarray(values, order="C"), bits, dtype.code, dtype.itemsize)
    return bits


def widened(stored: Any, dtype: DType) -> Array:
    """Return the float64 values, in one axis, of a buffer of `stored`, little-endian bit patterns; exact."""
    assert dtype.code is not None
    values = np.empty(memoryview(stored).nbytes // dtype.itemsize)
    _core.widen(stored, values, dtype.code, dtype.itemsize)
    return values


_SEEN: dict[np.dtype[Any], DType] = {}
"""The few numpy dtypes met so far: asking one for its name costs more than a small fill."""

_FLOAT_NAMES = ", ".join(dtype.name for dtype in FLOATS)


def as_dtype(dtype: DType | npt.DTypeLike) -> tuple[DType, np.dtype[Any] | None]:
    """Return the format `dtype` names, and the numpy dtype it came as (which knows its byte order).

    Raises
    ------
    TypeError
        If it is not one of the formats weights are stored in.
    """
    if isinstance(dtype, np.dtype):
        seen = _SEEN.get(dtype)
        if seen is not None:
            return seen, dtype
    if isinstance(dtype, DType):
        return dtype, None
    if isinstance(dtype, str) and dtype in BY_NAME and BY_NAME[dtype].is_float:
        return BY_NAME[dtype], None
    try:
        resolved = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"dtype must be one of {_FLOAT_NAMES}, got {dtype!r}") from None
    found = BY_NAME.get(resolved.name)
    if found is None or not found.is_float:
        raise TypeError(f"dtype must be one of {_FLOAT_NAMES}, got {resolved.name}")
    _SEEN[resolved] = found
    return found, resolved
