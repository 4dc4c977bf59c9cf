"""`repeats`: the equal parts of a tensor along an axis, found in one reading of its bytes.

A tensor that is cut into n equal parts along an axis repeats itself after 1/n of that axis. Two such periods have
their greatest common divisor as a period too, so the shortest one follows from the powers of primes alone: few
candidates, all of which one reading tests side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from .stored import CHUNK_BYTES, StoredTensor

_GLANCE = 64  # bytes: enough to tell that drawn weights do not repeat

_Array = np.ndarray[Any, Any]


def repeats(tensor: StoredTensor) -> tuple[int, int] | None:
    """Return (axis, parts) where a cut into `parts` along an axis gives equal parts; None where none does.

    The axis is the first that has such parts, and their number is the largest.
    """
    alive = [candidate for candidate in _candidates(tensor) if _begins_alike(tensor, candidate)]
    if alive:
        alive = _tested(tensor, alive)
    if not alive:
        return None
    axis = min(candidate.axis for candidate in alive)
    return axis, math.lcm(*(candidate.parts for candidate in alive if candidate.axis == axis))


@dataclass(slots=True)
class _Candidate:
    """A cut along an axis into `parts`, a power of a prime: every `block` of bytes repeats its first `period`."""

    axis: int
    parts: int
    block: int
    running: Any = field(default_factory=blake2b)
    first: bytes = b""

    @property
    def period(self) -> int:
        return self.block // self.parts


def _candidates(tensor: StoredTensor) -> Iterator[_Candidate]:
    shape, itemsize = tensor.spec.shape, tensor.spec.dtype.itemsize
    if len(shape) < 2:
        return
    for axis, length in enumerate(shape):
        block = itemsize * math.prod(shape[axis:])
        yield from (_Candidate(axis, parts, block) for parts in _prime_powers(length))


def _prime_powers(number: int) -> Iterator[int]:
    """Yield the powers of primes, 1 not counted, that divide a number."""
    prime = 2
    while number > 1:
        if prime * prime > number:
            prime = number
        power = 1
        while number % prime == 0:
            number //= prime
            power *= prime
            yield power
        prime += 1


def _begins_alike(tensor: StoredTensor, c: _Candidate) -> bool:
    """Compare the first bytes of the first two parts: in drawn weights they differ, and no more need be read."""
    glance = min(_GLANCE, c.period)
    return tensor.read(0, bytearray(glance)) == tensor.read(c.period, bytearray(glance))


def _tested(tensor: StoredTensor, alive: list[_Candidate]) -> list[_Candidate]:
    """Read the tensor once, as long as a candidate is left, and return those that hold to its end."""
    row = max((c.block for c in alive if c.block <= CHUNK_BYTES), default=1)
    step = min(CHUNK_BYTES // row * row, tensor.spec.nbytes)  # blocks nest, so every short one divides it
    window = np.zeros(2 * step, np.uint8)  # the chunk before, and this one
    for begin in range(0, tensor.spec.nbytes, step):
        size = min(step, tensor.spec.nbytes - begin)
        window[:step] = window[step:]
        tensor.read(begin, window[step : step + size].data)
        alive = [c for c in alive if _holds(c, window[: step + size], begin, size)]
        if not alive:
            break
    return alive


def _holds(c: _Candidate, window: _Array, begin: int, size: int) -> bool:
    """Say whether a candidate holds in the last `size` bytes of the window: the tensor's from `begin` on."""
    step = len(window) - size
    if c.block <= step:
        rows = window[step:].reshape(-1, c.block)
        return np.array_equal(rows[:, c.period :], rows[:, : -c.period])
    if c.period > step:
        return _parts_are_equal(c, window[step:], begin)
    back = step - begin  # from a place in the tensor to its place in the window
    start = begin - begin % c.block
    for block in (start, start + c.block):  # no more than two meet in a chunk
        low, high = max(begin, block + c.period), min(begin + size, block + c.block)
        if low < high and not np.array_equal(
            window[low + back : high + back], window[low + back - c.period : high + back - c.period]
        ):
            return False
    return True


def _parts_are_equal(c: _Candidate, chunk: _Array, begin: int) -> bool:
    """Compare parts longer than a chunk by their digests: of the part before, nothing else is kept."""
    end = begin + len(chunk)
    at = begin
    while at < end:
        stop = min(end, at - at % c.period + c.period)
        c.running.update(chunk[at - begin : stop - begin].data)
        at = stop
        if at % c.period == 0:
            digest = c.running.digest()
            if at % c.block == c.period:
                c.first = digest
            elif digest != c.first:
                return False
            c.running = blake2b()
    return True
