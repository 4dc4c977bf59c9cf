"""Stored tensors beside those that their plan makes again: the first element of each that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from ._engine.cpus import default_threads
from ._engine.fill import fill
from ._engine.given import DIGEST_BYTES
from ._engine.narrow import narrowed
from ._engine.parts import Array
from ._engine.stretches import fill_stretch
from ._engine.threads import in_order
from ._files.reading import read_at
from .plan import Plan
from .planned import PlannedTensor

CHUNK_BYTES = 1 << 20
"""Bytes read, made and compared at a time: the three stay in one core's cache."""

BATCH_BYTES = 16 << 20
"""Bytes that a thread compares before it takes others."""

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


class _Stretch(NamedTuple):
    """Elements `begin` to `end` of a tensor."""

    tensor: PlannedTensor
    begin: int
    end: int


class _Found(NamedTuple):
    """What a comparison found: the first difference, and whether any weight differs at all."""

    mismatch: Mismatch | None
    differs: bool = False


def mismatches(
    plan: Plan, stored: Stored, progress: Progress | None, approximate: list[str]
) -> Iterator[Mismatch]:
    """Yield the first difference of each tensor; append the names of those that are right within a bound only.

    As many threads compare as there are CPUs, each with two buffers of `CHUNK_BYTES`.
    """
    done, total, wrong = 0, plan.nbytes, ""
    batches = list(_batches(plan))
    compared = in_order(
        lambda batch: _compared(batch, stored), batches, count=min(default_threads(), len(batches))
    )
    for batch, results in zip(batches, compared, strict=True):
        for (tensor, begin, end), found in zip(batch, results, strict=True):
            if found.mismatch is not None and tensor.name != wrong:
                wrong = tensor.name
                yield found.mismatch
            elif found.differs and found.mismatch is None:
                approximate.append(tensor.name)
            done += tensor.dtype.nbytes(end - begin)
            if progress is not None:
                progress(done, total, tensor.name)


def _batches(plan: Plan) -> Iterator[list[_Stretch]]:
    """Yield what a thread takes at a time: one stretch of a large tensor, or several small tensors."""
    batch, size = list[_Stretch](), 0
    for tensor in plan.values():
        divisible = tensor.distribution.by_part
        step = BATCH_BYTES // tensor.dtype.itemsize if divisible else max(1, tensor.size)
        for begin in range(0, max(1, tensor.size), step):
            batch.append(_Stretch(tensor, begin, min(begin + step, tensor.size)))
            size += tensor.dtype.nbytes(batch[-1].end - begin)
            if size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def _compared(batch: list[_Stretch], stored: Stored) -> list[_Found]:
    return [_compare(stretch, stored) for stretch in batch]


def _compare(stretch: _Stretch, stored: Stored) -> _Found:
    tensor = stretch.tensor
    if tensor.is_given:
        return _Found(_other_digest(tensor, stored))
    if tensor.distribution.by_part:
        return _Found(_first_difference(stretch, stored))
    return _whole_difference(tensor, stored)  # a part of it costs as much as the whole


def _other_digest(tensor: PlannedTensor, stored: Stored) -> Mismatch | None:
    """Compare given data, of which the plan knows the digest alone."""
    running, at = blake2b(digest_size=DIGEST_BYTES), 0
    while at < tensor.nbytes:
        chunk = np.empty(min(CHUNK_BYTES, tensor.nbytes - at), np.uint8)
        running.update(stored.read(tensor, at, chunk).data)
        at += chunk.size
    found = running.hexdigest()
    return None if found == tensor.digest else Mismatch(tensor.name, None, found, tensor.digest)


def _first_difference(stretch: _Stretch, stored: Stored) -> Mismatch | None:
    tensor, last = stretch.tensor, stretch.end
    step = CHUNK_BYTES // tensor.dtype.itemsize
    length = min(step, last - stretch.begin)
    made, bits = np.empty(length, tensor.dtype.bits), _bits(tensor, length)
    for begin in range(stretch.begin, last, step):
        chunk, there = (buffer[: min(step, last - begin)] for buffer in (made, bits))
        fill_stretch(tensor.state, tensor.shape, tensor.distribution, tensor.dtype, begin, chunk)
        stored.read(tensor, begin, there)
        expected = chunk.view(f"u{tensor.dtype.itemsize}")
        found = _mismatch(tensor, begin, there, expected, expected != there)
        if found is not None:
            return found
    return None


def _whole_difference(tensor: PlannedTensor, stored: Stored) -> _Found:
    """Compare a tensor that is made whole, allowing each weight what another machine's LAPACK may change."""
    whole = fill(tensor.state, tensor.shape, tensor.distribution)
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
    return _Found(_mismatch(tensor, 0, there, expected, wrong), differs)


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
