"""Stored tensors beside those that their plan makes again: the first element of each that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from ._engine.checks import size_of
from ._engine.fill import fill
from ._engine.given import DIGEST_BYTES
from ._engine.narrow import narrowed
from ._engine.parts import Array, row_major, whole_part
from ._files.reading import read_at
from .plan import Plan
from .planned import PlannedTensor

CHUNK_BYTES = 1 << 20
"""Bytes read, made and compared at a time: the three stay in one core's cache."""

Progress = Callable[[int, int, str], None]
"""Called with (bytes done, bytes in all, tensor name)."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A tensor that is not what its plan says.

    Attributes
    ----------
    name : str
        The tensor's.
    index : int or None
        Its first wrong element, in row-major order; None of given data, which is judged by its digest.
    stored, expected : str
        The element's bits, or the digest, in hex.
    """

    name: str
    index: int | None
    stored: str
    expected: str

    def __str__(self) -> str:
        if self.index is None:
            return (
                f"tensor {self.name!r} is given data of another digest: stored {self.stored}, "
                f"expected {self.expected}"
            )
        return (
            f"tensor {self.name!r} differs first at index {self.index}: "
            f"stored 0x{self.stored}, expected 0x{self.expected}"
        )


class Stored(NamedTuple):
    """The tensors of an open file: its descriptor, its path for errors, and where each tensor begins."""

    descriptor: int
    path: str
    offsets: dict[str, int]

    def read(self, tensor: PlannedTensor, begin: int, bits: Array) -> Array:
        """Fill `bits`, unsigned integers, with elements of a tensor from number `begin` on."""
        at = self.offsets[tensor.name] + begin * bits.itemsize
        if bits.size:
            read_at(self.descriptor, at, bits.data.cast("B"), self.path, tensor.name)
        return bits


def mismatches(
    plan: Plan, stored: Stored, progress: Progress | None, approximate: list[str]
) -> Iterator[Mismatch]:
    """Yield the first difference of each tensor; append the names of those that are right within a bound only."""
    done, total = 0, plan.nbytes
    for name, tensor in plan.items():
        if tensor.is_given:
            found = _other_digest(tensor, stored)
        elif tensor.distribution.by_element:
            found = _first_difference(tensor, stored)
        else:  # a part of it costs as much as the whole
            found, differs = _whole_difference(tensor, stored)
            if differs and found is None:
                approximate.append(name)
        if found is not None:
            yield found
        done += tensor.nbytes
        if progress is not None:
            progress(done, total, name)


def _other_digest(tensor: PlannedTensor, stored: Stored) -> Mismatch | None:
    """Compare given data, of which the plan knows the digest alone."""
    running, at = blake2b(digest_size=DIGEST_BYTES), 0
    while at < tensor.nbytes:
        chunk = np.empty(min(CHUNK_BYTES, tensor.nbytes - at), np.uint8)
        running.update(stored.read(tensor, at, chunk).data)
        at += chunk.size
    found = running.hexdigest()
    return None if found == tensor.digest else Mismatch(tensor.name, None, found, tensor.digest)


def _first_difference(tensor: PlannedTensor, stored: Stored) -> Mismatch | None:
    step = CHUNK_BYTES // tensor.dtype.itemsize
    length = min(step, tensor.size)
    made, bits = np.empty(length, tensor.dtype.bits), _bits(tensor, length)
    for begin, index, shape in row_major(tensor.shape, step):
        chunk, there = (buffer[: size_of(shape)] for buffer in (made, bits))
        whole, content, out = tensor.shape, tensor.distribution, chunk.reshape(shape)
        fill(tensor.state, whole, content, dtype=tensor.dtype, out=out, index=index)
        stored.read(tensor, begin, there)
        expected = chunk.view(f"u{tensor.dtype.itemsize}")
        found = _mismatch(tensor, begin, there, expected, expected != there)
        if found is not None:
            return found
    return None


def _whole_difference(tensor: PlannedTensor, stored: Stored) -> tuple[Mismatch | None, bool]:
    """Compare a tensor that is made whole, allowing each weight what another machine's LAPACK may change.

    Returns
    -------
    mismatch : Mismatch or None
        The first weight that no LAPACK would make.
    differs : bool
        Whether any weight differs.
    """
    whole = tensor.distribution.values(tensor.shape, tensor.state, whole_part(tensor.shape), None, None)
    expected = narrowed(whole, tensor.dtype).reshape(-1)
    there = stored.read(tensor, 0, _bits(tensor, tensor.size))
    wrong = expected != there
    differs = bool(wrong.any())
    if differs:
        slack = tensor.distribution.slack(tensor.shape, tensor.state)
        least, greatest = (
            _ordered(narrowed(bound, tensor.dtype).reshape(-1)) for bound in (whole - slack, whole + slack)
        )
        values = _ordered(there)
        wrong &= (values < least) | (values > greatest)
    return _mismatch(tensor, 0, there, expected, wrong), differs


def _bits(tensor: PlannedTensor, size: int) -> Array:
    """Return memory for the stored bits of `size` elements, little-endian as in the file."""
    return np.empty(size, f"<u{tensor.dtype.itemsize}")


def _ordered(bits: Array) -> Array:
    """Return integers in the order of the values that `bits`, unsigned patterns of one float format, stand for."""
    sign = 1 << (8 * bits.itemsize - 1)
    magnitude = (bits & bits.dtype.type(sign - 1)).astype(np.int64)
    ordered: Array = np.where(bits >= sign, -magnitude, magnitude)
    return ordered


def _mismatch(tensor: PlannedTensor, begin: int, stored: Array, expected: Array, wrong: Array) -> Mismatch | None:
    if not wrong.any():
        return None
    first = int(wrong.argmax())
    digits = 2 * tensor.dtype.itemsize
    return Mismatch(
        tensor.name, begin + first, f"{int(stored[first]):0{digits}x}", f"{int(expected[first]):0{digits}x}"
    )
