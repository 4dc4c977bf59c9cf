"""Boxes of a tensor: one stepped range an axis; how they meet, what is left of one without another, how they join.

Everything is integer arithmetic on the ranges, so a tensor of 2**40 elements costs no more than one of four.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from ..errors import DistributionError
from .checks import Shape, as_u64, shown, size_of

Range = tuple[int, int, int]
"""The numbers start, start + step, ... below stop; in its normal form stop is the last one + 1."""

Box = tuple[Range, ...]
"""A range an axis: the elements whose index lies in every one of them."""

BOXES = 1024
"""The most boxes that a tensor is cut into: to find two that overlap takes all pairs of them at worst."""

_PIECES = 16 * BOXES  # before neighbours are joined

Kind = TypeVar("Kind")
Painted = tuple[Box, Kind]


def as_box(box: Iterable[Sequence[int]]) -> Box:
    """Return a box in its normal form; a DistributionError says what is no range."""
    return tuple(_as_range(triple) for triple in box)


def _as_range(triple: Sequence[int]) -> Range:
    if not isinstance(triple, list | tuple) or len(triple) != 3:
        raise DistributionError(f"a part's index has (start, stop, step) an axis, got {triple!r}")
    start, stop, step = (as_u64(number, "a part's start, stop and step") for number in triple)
    if start >= stop or not step:
        raise DistributionError(f"a part needs start < stop and a step of 1 or more, got {(start, stop, step)}")
    return as_range(start, stop, step)


def as_range(start: int, stop: int, step: int) -> Range:
    """Return the normal form of a range that is not empty."""
    last = stop - 1 - (stop - 1 - start) % step
    return start, last + 1, step if last > start else 1


def count(r: Range) -> int:
    """Return how many numbers a range has."""
    start, stop, step = r
    return (stop - 1 - start) // step + 1


def lengths(box: Box) -> Shape:
    """Return the shape of a box."""
    return tuple(map(count, box))


def whole_box(shape: Shape) -> Box:
    """Return the box that is all of a tensor, which is not empty."""
    return tuple((0, length, 1) for length in shape)


def written(box: Box) -> str:
    """Write a box as numpy's index: ``[0:1, ::2]`` without what is whole is for the eye alone."""
    return f"[{', '.join(map(_written, box))}]"


def _written(r: Range) -> str:
    start, stop, step = r
    return f"{start}:{stop}" + (f":{step}" if step > 1 else "")


# ---- two boxes ---------------------------------------------------------------------------------------


def common(r: Range, q: Range) -> Range | None:
    """Return the numbers that two ranges share; None where there are none."""
    begin, end = max(r[0], q[0]), min(r[1], q[1])
    if begin >= end:
        return None
    if r[2] == q[2] == 1:
        return begin, end, 1
    return _common_stepped(r, q, begin, end)


def _common_stepped(r: Range, q: Range, begin: int, end: int) -> Range | None:
    """Solve ``r.start + i * r.step = q.start + j * q.step`` from `begin` on: the Chinese remainder theorem."""
    divisor = math.gcd(r[2], q[2])
    distance = q[0] - r[0]
    if distance % divisor:
        return None
    period = q[2] // divisor
    step = r[2] * period
    first = r[0] + distance // divisor * pow(r[2] // divisor, -1, period) % period * r[2]
    first += max(0, -(-(begin - first) // step)) * step
    return as_range(first, end, step) if first < end else None


def meeting(a: Box, b: Box) -> Box | None:
    """Return the box of the elements that lie in both; None where there are none."""
    found = []
    for r, q in zip(a, b, strict=True):
        shared = common(r, q)
        if shared is None:
            return None
        found.append(shared)
    return tuple(found)


def without(box: Box, other: Box) -> list[Box]:
    """Return what is left of a box without the elements of another, in disjoint boxes."""
    shared = meeting(box, other)
    if shared is None:
        return [box]
    return [
        (*shared[:axis], rest, *box[axis + 1 :])
        for axis in range(len(box))
        for rest in _left(box[axis], shared[axis])
    ]


def _left(r: Range, inner: Range) -> Iterator[Range]:
    """Yield what is left of a range without a range of its own numbers: before, between and after."""
    start, stop, step = r
    if inner[0] > start:
        yield as_range(start, inner[0], step)
    yield from _between(step, inner)
    if inner[1] < stop:
        yield as_range(inner[1] - 1 + step, stop, step)


def _between(step: int, inner: Range) -> Iterator[Range]:
    """Yield the gaps of an inner range, one by one or by their residues, whichever are fewer."""
    begin, end, stride = inner
    if count(inner) - 1 <= stride // step - 1:
        for first in range(begin, end - 1, stride):
            if stride > step:
                yield as_range(first + step, first + stride, step)
    else:
        for offset in range(step, stride, step):
            yield as_range(begin + offset, end, stride)


# ---- many boxes --------------------------------------------------------------------------------------


def check_cover(shape: Shape, boxes: Sequence[Box]) -> None:
    """Refuse boxes that do not cover a tensor of `shape` exactly once."""
    for box in boxes:
        check_inside(shape, box)
    _refuse_overlap(boxes)
    covered, size = sum(size_of(lengths(box)) for box in boxes), size_of(shape)
    if covered < size:
        raise DistributionError(
            f"the parts cover {shown(covered)} of the {shown(size)} elements of shape {shape}; "
            "every element needs one"
        )


def check_inside(shape: Shape, box: Box) -> None:
    """Refuse a box that reaches out of a tensor of `shape`."""
    if len(box) != len(shape):
        raise DistributionError(f"the part {written(box)} has {len(box)} axes, but shape {shape} has {len(shape)}")
    for axis, (r, length) in enumerate(zip(box, shape, strict=True)):
        if r[1] > length:
            raise DistributionError(f"the part {written(box)} ends past axis {axis} of shape {shape}")


def _refuse_overlap(boxes: Sequence[Box]) -> None:
    """Sweep along the axis on which the fewest boxes lie side by side, so that a long list stays fast."""
    if not boxes or not boxes[0]:
        if len(boxes) > 1:
            raise DistributionError("a tensor without axes has one element, and one part")
        return
    active: list[Box] = []
    axis = max(range(len(boxes[0])), key=lambda axis: len({box[axis] for box in boxes}))
    for box in sorted(boxes, key=lambda box: box[axis]):
        active = [other for other in active if other[axis][1] > box[axis][0]]
        for other in active:
            if meeting(box, other) is not None:
                raise DistributionError(f"the parts {written(other)} and {written(box)} overlap")
        active.append(box)


def painted_over(layers: Sequence[Painted[Kind]]) -> list[Painted[Kind]]:
    """Return disjoint boxes with what the last layer over them says.

    It goes from the last layer to the first: what that finds still bare, no later layer covers.
    """
    bare, found = _around(layers), list[Painted[Kind]]()
    for box, kind in reversed(layers):
        found += [(shared, kind) for part in bare if (shared := meeting(part, box)) is not None]
        bare = [rest for part in bare for rest in without(part, box)]
        if len(bare) + len(found) > _PIECES:
            raise DistributionError(f"the layers cut the tensor into more than {_PIECES:,} boxes; give it as data")
    return found or list(layers[-1:])  # the boxes of an empty tensor meet nowhere


def _around(layers: Sequence[Painted[Kind]]) -> list[Box]:
    """Return a box that holds those of all layers."""
    axes = zip(*(box for box, _ in layers), strict=True)
    return [tuple((0, max(stop for _, stop, _ in ranges), 1) for ranges in axes)]


def joined(parts: Iterable[Painted[Kind]]) -> list[Painted[Kind]]:
    """Return the parts with neighbours of one kind joined, axis by axis, until no two along one axis are left."""
    found = list(parts)
    before = len(found) + 1
    while len(found) < before:
        before = len(found)
        for axis in range(len(found[0][0])):
            found = _joined_along(axis, found)
    return found


def _joined_along(axis: int, parts: list[Painted[Kind]]) -> list[Painted[Kind]]:
    lines: dict[tuple[Box, Box, Kind], list[Range]] = {}
    for box, kind in parts:
        lines.setdefault((box[:axis], box[axis + 1 :], kind), []).append(box[axis])
    return [
        ((*before, r, *after), kind)
        for (before, after, kind), ranges in lines.items()
        for r in _joined_ranges(sorted(ranges))
    ]


def _joined_ranges(ranges: list[Range]) -> list[Range]:
    """Join the disjoint ranges of a sorted list with the ones before them, where the union is a range."""
    found = ranges[:1]
    for r in ranges[1:]:
        union = _union(found[-1], r)
        found[-1:] = [found[-1], r] if union is None else [union]
    return found


def _union(r: Range, q: Range) -> Range | None:
    """Return the union of two disjoint ranges, r.start < q.start, where it is a range; None where it is not."""
    (a, a_end, s), (b, b_end, t) = r, q
    if a == a_end - 1:  # one number goes with any step
        s = t
    if b == b_end - 1:
        t = s
    if s == t and b == a_end - 1 + s:
        return a, b_end, s
    if s == t and 2 * (b - a) == s and 0 <= count(r) - count(q) <= 1:
        return a, max(a_end, b_end), b - a
    return None
