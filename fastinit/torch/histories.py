"""What was written into each storage, in order: regions, their contents, and where the code said so.

A region is strided memory of a storage, as a view of it is. `History.contents` says what the elements of one
tensor hold at the end: boxes of its own axes, the later write over the earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .._engine.boxes import Box, Painted, painted_over, whole_box
from .contents import Computed, Content, Draw, Drawn, Tensor


class Region(NamedTuple):
    """Strided memory inside a storage; offset and strides count elements of the dtype."""

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: object
    itemsize: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)

    def covers(self, nbytes: int) -> bool:
        """Say whether it is all of a storage of so many bytes, in any order of its axes."""
        return self.size * self.itemsize == nbytes and self.is_plain

    def lies_in(self, other: Region) -> bool:
        """Say whether it lies between the first and the last element of another."""
        return _first(other) <= _first(self) and _end(self) <= _end(other)

    @property
    def is_plain(self) -> bool:
        """Whether its elements are distinct and lie side by side."""
        expected = 1
        for stride, size in sorted(zip(self.strides, self.sizes, strict=True)):
            if size != 1:
                if stride != expected:
                    return False
                expected *= size
        return True

    @property
    def is_distinct(self) -> bool:
        """Whether no two of its elements are one, as those of an expanded tensor are."""
        extent = 1
        for stride, size in sorted(zip(self.strides, self.sizes, strict=True)):
            if size > 1:
                if stride < extent:
                    return False
                extent = stride * size
        return True


def region_of(tensor: Tensor) -> Region:
    """Return the region of a tensor in its storage."""
    return Region(
        tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.itemsize
    )


def box_in(region: Region, whole: Region) -> Box | None:
    """Return which box of the axes of `whole` another region of the storage is; None where it is none."""
    if region.itemsize != whole.itemsize:
        return None
    if region.size == whole.size and region.offset == whole.offset and region.is_plain and whole.is_plain:
        return whole_box(whole.sizes)
    axes = sorted(
        (axis for axis, size in enumerate(whole.sizes) if size > 1), key=lambda axis: -whole.strides[axis]
    )
    starts, steps, counts = [0] * len(whole.sizes), [1] * len(whole.sizes), [1] * len(whole.sizes)
    rest = region.offset - whole.offset
    for axis in axes:
        starts[axis], rest = divmod(rest, whole.strides[axis]) if whole.strides[axis] else (0, rest)
    for size, stride in zip(region.sizes, region.strides, strict=True):
        if size == 1:
            continue
        axis = next((a for a in axes if 0 < whole.strides[a] <= stride and stride % whole.strides[a] == 0), -1)
        if axis < 0 or counts[axis] != 1:
            return None
        steps[axis], counts[axis] = stride // whole.strides[axis], size
    box = tuple(
        (start, start + (count - 1) * step + 1, step)
        for start, step, count in zip(starts, steps, counts, strict=True)
    )
    fits = all(start >= 0 and stop <= size for (start, stop, _), size in zip(box, whole.sizes, strict=True))
    return box if rest == 0 and fits else None


@dataclass(slots=True, eq=False)
class Write:
    """One write: a region, what it holds now, and the line of code that decided it."""

    region: Region
    content: Content
    where: str
    is_stored: bool
    """Whether memory holds it already."""


MOST_WRITES = 64
"""Writes that a history without draws holds: more of them come from a loop that writes a table."""
MOST_PARTS = 512
"""The same where parts are drawn, as the experts of a layer are one by one."""


@dataclass(slots=True)
class History:
    """The writes into one storage that are still seen."""

    nbytes: int
    writes: list[Write] = field(default_factory=list)
    is_older: bool = True
    """Whether the storage was there before the first write that was noted."""
    is_shared: bool = False
    """Whether others than torch may read and write the memory at any time."""
    version: int = 0
    """The highest version that a tensor of this storage has by the writes of the recorder's own thread."""

    @property
    def is_pending(self) -> bool:
        """Whether memory lacks some of what was written."""
        return any(not write.is_stored for write in self.writes)

    @property
    def is_table(self) -> bool:
        """Whether there are too many writes: boxes of them would cost more than to write the memory."""
        if len(self.writes) <= MOST_WRITES:
            return False
        return len(self.writes) > MOST_PARTS or not any(isinstance(write.content, Drawn) for write in self.writes)

    def append(self, write: Write) -> None:
        """Add a write, which hides those under it."""
        if write.region.covers(self.nbytes):
            self.writes.clear()
        self.writes.append(write)

    def contents(self, whole: Region) -> list[Painted[Write]] | None:
        """Return what the elements of a tensor hold, box by box; None where a write is no box of its axes."""
        layers: list[Painted[Write]] = []
        if not whole.is_distinct:
            return None
        for write in self.writes:
            if not _meet(write.region, whole):
                continue
            box = box_in(write.region, whole) or _around(write.region, whole)
            if box is None:
                return None
            layers.append((box, write))
        return painted_over(layers)

    def all_contents(self) -> list[Content]:
        """Return the contents of all writes."""
        return [write.content for write in self.writes]


def _meet(region: Region, whole: Region) -> bool:
    """Say whether two regions may share memory."""
    return _first(region) < _end(whole) and _first(whole) < _end(region)


def _first(region: Region) -> int:
    return region.offset * region.itemsize


def _end(region: Region) -> int:
    if not region.size:
        return _first(region)
    last = sum((size - 1) * stride for size, stride in zip(region.sizes, region.strides, strict=True))
    return _first(region) + (last + 1) * region.itemsize


def _around(region: Region, whole: Region) -> Box | None:
    """Return the whole tensor's box where the region lies around it, all of it."""
    is_around = region.is_plain and whole.lies_in(region) and region.itemsize == whole.itemsize
    return whole_box(whole.sizes) if is_around else None


def draws_in(contents: Sequence[Content]) -> frozenset[Draw]:
    """Return the draws that any of the contents depend on."""
    found: set[Draw] = set()
    for content in contents:
        if isinstance(content, Drawn) and content.draw is not None:
            found.add(content.draw)
        elif isinstance(content, Computed):
            found |= content.draws
    return frozenset(found)
