"""Which draws a part of a tensor takes: `index=`, as numpy cuts it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import EllipsisType
from typing import Any, SupportsIndex

import numpy as np

from .checks import U64_LIMIT, as_index

Array = np.ndarray[Any, Any]

IndexEntry = SupportsIndex | slice | EllipsisType

Index = IndexEntry | tuple[IndexEntry, ...]

Slice = tuple[int | slice, ...]
"""An index whose entries were checked, one an axis."""


@dataclass(frozen=True, slots=True)
class Part:
    """Which draws a part of a tensor takes: element (i0, i1, ...) takes draw ``first + sum(i * draws)``."""

    shape: tuple[int, ...]
    first: int
    draws: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], first: int, draws: Iterable[int]) -> Part:
        """Return the part of these numbers, taken round the cycle of 2**64 draws."""
        return cls(shape, first % U64_LIMIT, tuple(step % U64_LIMIT for step in draws))

    def numbers(self) -> Array:
        """Return ``first + sum(i * draws)`` of each element, its number in the whole, modulo 2**64."""
        found = np.uint64(self.first)
        for length, draws in zip(self.shape, self.draws, strict=True):
            found = np.add.outer(found, np.arange(length, dtype=np.uint64) * np.uint64(draws))
        return np.asarray(found)

    def cut(self, index: Index) -> Part:
        """Return the part ``part[index]`` of it, as numpy would cut it; see `locate`."""
        shape, first, draws = [], self.first, []
        for axis, (entry, length, step) in enumerate(
            zip(_entries(self.shape, index), self.shape, self.draws, strict=True)
        ):
            if isinstance(entry, slice):
                span = range(*entry.indices(length))
                shape.append(_span_length(span))
                first += span.start * step
                draws.append(span.step * step)
            else:
                if entry is None or isinstance(entry, list | np.ndarray | range):
                    raise TypeError(
                        f"index= takes ints, slices and Ellipsis, as numpy's basic slicing; got {entry!r}"
                    )
                position = as_index(entry, "an index= entry")
                if not -length <= position < length:
                    raise IndexError(f"index {position} is out of bounds for axis {axis} of length {length}")
                first += position % length * step
        return Part.of(tuple(shape), first, draws)


@dataclass(frozen=True, slots=True)
class Span:
    """Which numbers of an axis an entry of an index takes: ``start + i * step`` for i below `count`."""

    start: int
    step: int
    count: int
    keeps_axis: bool

    @property
    def index(self) -> int | slice:
        """The entry of an index that takes them."""
        if not self.keeps_axis:
            return self.start
        end = self.start + self.count * self.step
        return slice(self.start, end if end >= 0 else None, self.step)


def locate(shape: tuple[int, ...], index: Index | None) -> Part:
    """Return the part ``whole[index]`` of a tensor of `shape` (None: the whole), as numpy would cut it.

    Raises
    ------
    TypeError
        For lists, masks, None (newaxis) and bools, which basic slicing does not take.
    IndexError
        For too many entries, or an integer out of bounds.
    """
    whole = whole_part(shape)
    return whole if index is None else whole.cut(index)


def _entries(shape: tuple[int, ...], index: Index) -> list[IndexEntry]:
    """Return an entry for each axis: slices of the whole axis where the index has an Ellipsis or ends."""
    entries = list(index) if isinstance(index, tuple) else [index]
    gaps = [position for position, entry in enumerate(entries) if entry is Ellipsis]
    if len(gaps) > 1:
        raise IndexError("index= may hold one Ellipsis only")
    missing = len(shape) - (len(entries) - len(gaps))
    if missing < 0:
        raise IndexError(f"index= has {len(entries)} entries, but shape {shape} has {len(shape)} axes")
    gap = gaps[0] if gaps else len(entries)
    entries[gap : gap + len(gaps)] = [slice(None)] * missing
    return entries


def row_major(shape: tuple[int, ...], most: int) -> Iterator[tuple[int, Slice, tuple[int, ...]]]:
    """Cut a tensor into runs of at most `most` elements, in row-major order.

    Yields
    ------
    begin : int
        Number of the run's first element.
    index : tuple
        What `locate` takes of the whole.
    shape : tuple of int
        The run's.
    """
    if not shape:
        yield 0, (), ()
    if not shape or 0 in shape:
        return
    axis = next((axis for axis in range(len(shape)) if math.prod(shape[axis + 1 :]) <= most), 0)
    inner, begin = shape[axis + 1 :], 0
    rows = max(1, most // math.prod(inner))
    for before in itertools.product(*map(range, shape[:axis])):
        for first in range(0, shape[axis], rows):
            count = min(rows, shape[axis] - first)
            yield begin, (*before, slice(first, first + count)), (count, *inner)
            begin += count * math.prod(inner)


def covering(shape: tuple[int, ...], begin: int, end: int) -> Iterator[tuple[Index, tuple[int, ...]]]:
    """Cut elements `begin` to `end` of a tensor, numbered in row-major order, into boxes, in that order.

    Yields
    ------
    index : tuple
        What `locate` takes of the whole.
    shape : tuple of int
        The box's.
    """
    if not shape:
        yield (), ()
        return
    while begin < end:
        axis = next(axis for axis in range(len(shape)) if _starts_a_box(math.prod(shape[axis + 1 :]), begin, end))
        inner = shape[axis + 1 :]
        *before, first = np.unravel_index(begin // math.prod(inner), shape[: axis + 1])
        count = min(shape[axis] - int(first), (end - begin) // math.prod(inner))
        yield (*map(int, before), slice(int(first), int(first) + count)), (count, *inner)
        begin += count * math.prod(inner)


def _starts_a_box(size: int, begin: int, end: int) -> bool:
    return begin % size == 0 and begin + size <= end


def spans(shape: tuple[int, ...], index: Index | None) -> list[Span]:
    """Return which numbers of each axis an index takes that `locate` accepts."""
    entries = _entries(shape, ... if index is None else index)
    return [_span(entry, length) for entry, length in zip(entries, shape, strict=True)]


def _span(entry: IndexEntry, length: int) -> Span:
    if isinstance(entry, slice):
        span = range(*entry.indices(length))
        return Span(span.start, span.step, _span_length(span), keeps_axis=True)
    return Span(as_index(entry, "an index= entry") % length, 1, 1, keeps_axis=False)


@lru_cache(maxsize=1024)
def whole_part(shape: tuple[int, ...]) -> Part:
    """Return the part that is all of a tensor of `shape`."""
    draws: list[int] = []
    step = 1
    for length in reversed(shape):
        draws.append(step % U64_LIMIT)
        step *= length
    return Part(shape, 0, tuple(reversed(draws)))


def _span_length(span: range) -> int:
    """Return ``len(span)``, which itself refuses lengths past 2**63 - 1."""
    return max(0, (span.stop - span.start + span.step - (1 if span.step > 0 else -1)) // span.step)
