"""`Given`: a tensor whose data a model's code computed; and the bytes of such data: digests, checks, copies.

A plan holds the digest. The bytes travel in a checkpoint, or are handed to the plan as an array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np

from ..errors import DistributionError
from .checks import Shape, size_of
from .dtypes import FLOAT64, DType
from .initializer import Distribution
from .parts import Array, Index, Part
from .probability import Moments

__all__ = ["Given", "digest_of"]

DIGEST_BYTES = 32
"""Of BLAKE2b-256."""

CHUNK_BYTES = 1 << 20
"""About the bytes that are put in file order at once."""

_HEX = frozenset("0123456789abcdef")
_SHOWN = 12  # characters of a digest that a table shows


@dataclass(frozen=True, slots=True)
class Given(Distribution):
    """Data that no stream makes: a table or a mask that a model's code computed. It takes no draws.

    It can have any dtype, those that nothing draws included.

    Attributes
    ----------
    digest : str
        BLAKE2b-256 of the tensor's bytes as files hold them (little-endian, row-major), in 64 hex characters:
        `digest_of` returns it.

    Examples
    --------
    >>> import numpy as np
    >>> from fastinit.initializers import Given, digest_of
    >>> Given(digest_of(np.tri(3, dtype=bool))).describe()
    'blake2b=7f103028b101'
    """

    digest: str

    kind: ClassVar[str] = "given"
    draws_per_weight: ClassVar[int] = 0
    by_element: ClassVar[bool] = False
    by_part: ClassVar[bool] = False
    holds_weights: ClassVar[bool] = False
    is_given: ClassVar[bool] = True
    is_part: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not _is_digest(self.digest):
            raise DistributionError(
                f"given data has a digest of {2 * DIGEST_BYTES} lowercase hex characters (BLAKE2b-256), "
                f"got {self.digest!r}; digest_of(array) returns it"
            )

    def prepare(self, dtype: DType) -> None:
        """Accept every dtype: nothing is drawn into it."""

    def values(self, shape: Shape, state: int, part: Part, index: Index | None, threads: int | None) -> Array:  # noqa: ARG002
        """Refuse: a digest makes no data."""
        raise DistributionError(
            f"a tensor of shape {shape} is given data ({self.describe()}), which no seed makes: its bytes stand "
            "in the checkpoint of its plan; Plan.with_given reads them from there"
        )

    def rescaled(self, factor: float, p: float = 1.0, q: float = 1.0) -> Distribution:  # noqa: ARG002
        """Refuse: the data is what its digest says."""
        raise DistributionError("given data cannot be rescaled: rescale the array, and take its digest")

    def moments(self, shape: Shape = (), dtype: DType = FLOAT64, *, is_cast: bool = False) -> Moments | None:  # noqa: ARG002
        """Return None: of the data, nothing but its digest is known."""
        return None

    @property
    def support(self) -> tuple[float, float]:
        """Every number: of the data, nothing but its digest is known."""
        return -np.inf, np.inf

    def describe(self) -> str:
        """Return the first characters of the digest."""
        return f"blake2b={self.digest[:_SHOWN]}"


def _is_digest(text: object) -> bool:
    return isinstance(text, str) and len(text) == 2 * DIGEST_BYTES and _HEX.issuperset(text)


def digest_of(array: Array) -> str:
    """Return the digest of an array's data as files hold it: BLAKE2b-256 of its little-endian, row-major bytes.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.arange(6.0).reshape(2, 3)
    >>> digest_of(table) == digest_of(table.astype(">f8")) != digest_of(table.T)
    True
    """
    running = blake2b(digest_size=DIGEST_BYTES)
    for chunk in file_bytes(array):
        running.update(chunk)
    return running.hexdigest()


def file_bytes(array: Array) -> Iterator[Any]:
    """Yield an array's bytes in file order, in buffers of about `CHUNK_BYTES`; contiguous data is not copied."""
    stored = array.dtype.newbyteorder("<")
    if array.flags.c_contiguous and array.dtype == stored:
        yield from _cut(array.reshape(-1).view(np.uint8))
    elif array.ndim and array.nbytes > CHUNK_BYTES:
        rows = max(1, CHUNK_BYTES * len(array) // array.nbytes)
        for begin in range(0, len(array), rows):
            yield from file_bytes(array[begin] if rows == 1 else array[begin : begin + rows])
    else:
        yield from _cut(np.asarray(array, stored, order="C").reshape(-1).view(np.uint8))


def _cut(raw: Array) -> Iterator[Any]:
    for begin in range(0, raw.size, CHUNK_BYTES):
        yield raw[begin : begin + CHUNK_BYTES].data


def problem_with(array: Array, digest: str, dtype: DType, shape: Shape) -> str:
    """Say why an array is not the data of a given tensor; "" where it is."""
    if not _has_dtype(array, dtype):
        return f"is {array.dtype.name}; the plan has {dtype.name}"
    wanted = (dtype.nbytes(size_of(shape)),) if dtype.packed > 1 else shape
    if array.shape != wanted:
        return f"has shape {array.shape}; the plan has {wanted}"
    found = digest_of(array)
    return "" if found == digest else f"has the digest {found}; the plan has {digest}"


def _has_dtype(array: Array, dtype: DType) -> bool:
    """Say whether an array is of a dtype, or holds its bits in unsigned integers where numpy itself lacks it."""
    if dtype.packed > 1:
        return bool(array.dtype == np.uint8)
    is_bits = dtype.bits.kind == "u" and array.dtype.kind == "u" and array.itemsize == dtype.itemsize
    return array.dtype.name == dtype.name or is_bits
