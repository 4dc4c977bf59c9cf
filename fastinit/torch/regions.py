"""Regions: strided memory of a storage, as a view of it is, and which box of one region another is."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._engine.boxes import Box, lengths, whole_box


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

    @property
    def first(self) -> int:
        """Its first byte."""
        return self.offset * self.itemsize

    @property
    def end(self) -> int:
        """The byte after its last one."""
        if not self.size:
            return self.first
        last = sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
        return self.first + (last + 1) * self.itemsize

    def covers(self, nbytes: int) -> bool:
        """Say whether it is all of a storage of so many bytes, in any order of its axes."""
        return self.size * self.itemsize == nbytes and self.is_plain

    def lies_in(self, other: Region) -> bool:
        """Say whether it lies between the first and the last element of another."""
        return other.first <= self.first and self.end <= other.end

    def meets(self, other: Region) -> bool:
        """Say whether the two may share memory."""
        return self.first < other.end and other.first < self.end

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

    def at(self, box: Box) -> Region:
        """Return the region of a box of its axes."""
        offset = self.offset + sum(r[0] * stride for r, stride in zip(box, self.strides, strict=True))
        strides = tuple(r[2] * stride for r, stride in zip(box, self.strides, strict=True))
        return _region(offset, lengths(box), strides, self.dtype, self.itemsize)

    def carried(self, source: Region, target: Region) -> Region | None:
        """Return where it lies once `source` was copied to `target`, element by element.

        Where `target` has other strides than `source`, this must be a box of the axes of `source`: None otherwise.
        """
        if source.strides == target.strides:
            offset = self.offset + target.offset - source.offset
            return Region(offset, self.sizes, self.strides, target.dtype, target.itemsize)
        box = box_in(self, source)
        return target.at(box) if box is not None and source.at(box)[:3] == self[:3] else None


def region_of(tensor: Any) -> Region:
    """Return the region of a tensor in its storage."""
    sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
    return _region(tensor.storage_offset(), sizes, strides, tensor.dtype, tensor.itemsize)


def _region(offset: int, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: object, itemsize: int) -> Region:
    """Return a region with stride 1 where an axis has length 1 and any would do: equal regions compare equal."""
    normal = tuple(stride if size != 1 else 1 for size, stride in zip(sizes, strides, strict=True))
    return Region(offset, sizes, normal, dtype, itemsize)


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
