"""The dtypes a weight can be stored in: one row each, under the names numpy, ml_dtypes and safetensors give them.

numpy is not imported here, so that the command line can list the dtypes before anything heavy is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from .. import _core

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One storage format.

    Attributes
    ----------
    name : str
        numpy's or ml_dtypes' name.
    tag : str
        safetensors' name.
    word : str
        The command line's name.
    itemsize : int
        Bytes of an element; of `packed` elements where an element is narrower than a byte.
    significand : int or None
        Stored bits of the significand, the implicit one not counted; None for integers, which take constants and
        positions but no draws.
    least_exponent, greatest_exponent : int or None
        The smallest positive value is ``2**least_exponent``, a subnormal; the largest lies below
        ``2**(greatest_exponent + 1)``.
    packed : int
        Elements that share `itemsize` bytes.
    code : int
        The core's number of it, from the one list in csrc/fastinit.h; -1 for integers.
    """

    name: str
    tag: str
    word: str
    itemsize: int
    significand: int | None = None
    least_exponent: int | None = None
    greatest_exponent: int | None = None
    packed: int = 1

    code: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", _core.DTYPES.get(self.name, -1))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle its name alone: a dtype is equal to itself only, in another process too."""
        return _of_tag, (self.tag,)

    @property
    def is_float(self) -> bool:
        """Whether weights can be drawn into it."""
        return self.code >= 0

    @property
    def is_foreign(self) -> bool:
        """Whether files may hold it, but nothing here fills or measures it."""
        return self in FOREIGN

    def nbytes(self, size: int) -> int:
        """Return the bytes of `size` elements."""
        return size // self.packed * self.itemsize

    @property
    def bits(self) -> np.dtype[Any]:
        """The numpy dtype that holds its bit patterns."""
        return _bits(self)

    @property
    def stored(self) -> np.dtype[Any]:
        """The numpy dtype that holds its bit patterns in a file: little-endian, whatever the machine."""
        return _stored(self)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype; bfloat16 and the float8 formats need the package ml_dtypes."""
        return _numpy(self)


FLOATS = (
    DType("float64", "F64", "f64", 8, 52, -1074, 1023),
    DType("float32", "F32", "f32", 4, 23, -149, 127),
    DType("float16", "F16", "f16", 2, 10, -24, 15),
    DType("bfloat16", "BF16", "bf16", 2, 7, -133, 127),
    DType("float8_e4m3fn", "F8_E4M3", "f8_e4m3", 1, 3, -9, 8),
    DType("float8_e5m2", "F8_E5M2", "f8_e5m2", 1, 2, -16, 15),
)
INTEGERS = (
    DType("int64", "I64", "i64", 8),
    DType("int32", "I32", "i32", 4),
    DType("int16", "I16", "i16", 2),
    DType("int8", "I8", "i8", 1),
    DType("uint64", "U64", "u64", 8),
    DType("uint32", "U32", "u32", 4),
    DType("uint16", "U16", "u16", 2),
    DType("uint8", "U8", "u8", 1),
)
FOREIGN = (
    DType("bool", "BOOL", "bool", 1),
    DType("complex64", "C64", "c64", 8),
    DType("float8_e8m0fnu", "F8_E8M0", "f8_e8m0", 1),
    DType("float8_e4m3fnuz", "F8_E4M3FNUZ", "f8_e4m3fnuz", 1),
    DType("float8_e5m2fnuz", "F8_E5M2FNUZ", "f8_e5m2fnuz", 1),
    DType("float6_e2m3fn", "F6_E2M3", "f6_e2m3", 3, packed=4),
    DType("float6_e3m2fn", "F6_E3M2", "f6_e3m2", 3, packed=4),
    DType("float4_e2m1fn", "F4", "f4", 1, packed=2),
)
FLOAT64 = FLOATS[0]
BY_NAME = {dtype.name: dtype for dtype in FLOATS + INTEGERS}
BY_TAG = {dtype.tag: dtype for dtype in FLOATS + INTEGERS + FOREIGN}
BY_WORD = {dtype.word: dtype for dtype in FLOATS}
FLOAT_NAMES = ", ".join(dtype.name for dtype in FLOATS)


def _of_tag(tag: str) -> DType:
    return BY_TAG[tag]


@cache
def _bits(dtype: DType) -> np.dtype[Any]:
    import numpy as np  # noqa: PLC0415

    return np.dtype(dtype.name if hasattr(np, dtype.name) else f"u{dtype.itemsize}")


@cache
def _stored(dtype: DType) -> np.dtype[Any]:
    import numpy as np  # noqa: PLC0415

    return np.dtype(dtype.bits.newbyteorder("<").str)  # from text: numpy knows it as a native one where it is


@cache
def _numpy(dtype: DType) -> np.dtype[Any]:
    import numpy as np  # noqa: PLC0415

    if hasattr(np, dtype.name):
        return np.dtype(dtype.name)
    try:
        import ml_dtypes  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            f"a {dtype.name} array needs the package ml_dtypes: pip install 'fastinit-weights[dtypes]'; "
            f"or pass out= as a uint{8 * dtype.itemsize} array to receive the bit patterns"
        ) from None
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype.name))
    return found
