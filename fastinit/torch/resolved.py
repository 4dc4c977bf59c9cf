"""What each tensor of a recorded model is at the end: a distribution, or data that its code computed.

`resolve` decides it for all tensors at once, because equal draws make equal tensors, and because draws that
something was computed from must stay as they were made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from .._engine.boxes import Box, Painted, joined, lengths, whole_box
from .._engine.checks import size_of
from .._engine.distributions import Constant
from .._engine.divided import Parts
from .._engine.initializer import Distribution
from ..errors import FastinitError
from .contents import Computed, Content, Draw, Drawn, Fixed, Tensor, Unwritten, mixed
from .histories import Region, Write, draws_in, region_of
from .modules import Named
from .recorder import Recorder, is_noted
from .targets import holds_others, stored_dtype

Boxes = list[Painted[Write]]


@dataclass(slots=True)
class Resolved:
    """One tensor of a recorded model.

    Attributes
    ----------
    name, stream : str
        The tensor's name in its model, and the name of its stream.
    tensor : torch.Tensor
        The tensor itself.
    is_saved : bool
        Whether a checkpoint of the model holds it.
    distribution : Distribution or None
        What it is filled with; None where memory holds what the code computed.
    copy_of : str
        The tensor whose copy it is by its code, "" if of none.
    operations : tuple of str
        Of what was computed: torch's names.
    is_random : bool
        Whether that depends on draws.
    where : tuple of str
        The lines of code that decided it.
    """

    name: str
    stream: str
    tensor: Tensor
    is_saved: bool
    distribution: Distribution | None = None
    copy_of: str = ""
    operations: tuple[str, ...] = ()
    is_random: bool = False
    where: tuple[str, ...] = field(default_factory=tuple)


def resolve(recorder: Recorder, named: Iterable[tuple[Named, str]]) -> list[Resolved]:
    """Decide what every tensor is; `named` has each with the name of its stream."""
    pictures = [_picture(recorder, entry, stream) for entry, stream in named]
    owners = _owners(pictures, _pinned(recorder))
    recorder.streams.update({draw: owner.stream for draw, owner in owners.items() if owner is not None})
    seen: dict[tuple[Any, ...], Picture] = {}
    return [_resolved(recorder, picture, owners, seen) for picture in pictures]


@dataclass(slots=True)
class Picture:
    """A named tensor and what its boxes hold."""

    entry: Named
    stream: str
    boxes: Boxes

    def is_copy(self, other: Picture) -> bool:
        """Say whether each element holds what the same element of the other does."""
        mine, others = self.entry.tensor, other.entry.tensor
        is_alike = mine.shape == others.shape and mine.stride() == others.stride()
        return is_alike and _kinds(self.boxes) == _kinds(other.boxes)


def _kinds(boxes: Boxes) -> list[Any]:
    """Return what the boxes hold, comparable."""
    return sorted((box, _kind(write)) for box, write in boxes)


def _kind(write: Write) -> str:
    content = write.content
    if isinstance(content, Fixed):
        return repr(content.value.item())
    if isinstance(content, Drawn) and content.draw is not None:
        return f"{content.draw.number} {content.distribution}"
    return f"{id(write)}"


def _picture(recorder: Recorder, entry: Named, stream: str) -> Picture:
    return Picture(entry, stream, _boxes(recorder, entry.tensor))


def _boxes(recorder: Recorder, tensor: Tensor) -> Boxes:
    """Return what a tensor holds, box by box; memory's data where nothing else is known."""
    history = recorder.history(tensor) if is_noted(tensor) else None
    if history is None:
        region = Region(0, tuple(tensor.shape), (), tensor.dtype, 0)
        return [(whole_box(region.sizes), Write(region, mixed(recorder.held(tensor)), "", True))]
    region = region_of(tensor)
    memory = [(whole_box(region.sizes), Write(region, mixed(history.all_contents()), "", True))]
    if not tensor.numel():
        return memory
    boxes = history.contents(region)
    if boxes is None or not boxes:
        recorder.settle(tensor)
        return memory
    return joined_writes(boxes)


def joined_writes(boxes: Boxes) -> Boxes:
    """Join the boxes of one write, and those of equal constants."""
    by_kind: dict[Any, Write] = {}
    keyed = []
    for box, write in boxes:
        kind = write.content if isinstance(write.content, Fixed) else id(write)
        by_kind.setdefault(kind, write)
        keyed.append((box, kind))
    return [(box, by_kind[kind]) for box, kind in joined(keyed)]


def _pinned(recorder: Recorder) -> frozenset[Draw]:
    """Return the draws that something still alive was computed from."""
    alive = [content for history in recorder.alive() for content in history.all_contents()]
    return draws_in([content for content in alive if isinstance(content, Computed)]) | frozenset(recorder.pinned)


Owners = dict[Draw, Picture | None]
"""Which tensor's name each draw has; None of one that must stay as memory has it."""


def _owners(pictures: list[Picture], pinned: frozenset[Draw]) -> Owners:
    owners: Owners = dict.fromkeys(pinned)
    for picture in pictures:
        for draw in draws_in([write.content for _, write in picture.boxes if isinstance(write.content, Drawn)]):
            owner = owners.setdefault(draw, picture)
            if owner is not None and owner is not picture and not picture.is_copy(owner):
                owners[draw] = None
    return owners


def _resolved(
    recorder: Recorder, picture: Picture, owners: Owners, seen: dict[tuple[Any, ...], Picture]
) -> Resolved:
    entry, boxes = picture.entry, picture.boxes
    made = Resolved(entry.name, picture.stream, entry.tensor, entry.is_saved, where=_places(boxes))
    made.distribution = _distribution(entry.tensor, boxes, owners)
    if made.distribution is None:
        recorder.settle(entry.tensor)
        content = mixed([write.content for _, write in boxes])
        readers = tuple(recorder.readers[draw] for draw in sorted(content.draws) if draw in recorder.readers)
        made.operations = content.operations or tuple(dict.fromkeys(readers)) or _constructions(boxes)
        made.is_random = content.is_random or bool(content.draws)
        made.distribution = None if made.is_random else _constant(entry.tensor)
    original = seen.setdefault(_memory_of(entry.tensor), picture)
    if original is picture and made.distribution is not None:
        original = _original(picture, owners)
    if original is not picture:
        made.copy_of, made.stream = original.entry.name, original.stream
    return made


def _constructions(boxes: Boxes) -> tuple[str, ...]:
    """Return what was drawn into parts of a tensor that no part of a plan can be."""
    drawn = [write.content.distribution.name for _, write in boxes if isinstance(write.content, Drawn)]
    return tuple(dict.fromkeys(drawn))


def _constant(tensor: Tensor) -> Distribution | None:
    """Return the constant that memory holds everywhere, if it does."""
    if stored_dtype(tensor) is None or not tensor.numel() or tensor.is_meta:
        return None
    if holds_others(tensor) or not is_noted(tensor):
        return None
    held = tensor.detach()
    first = held[(0,) * held.dim()]
    is_one = torch.equal(held, first.expand_as(held)) and (bool(first) or not torch.signbit(held).any())
    return Constant(first.item()) if is_one and torch.isfinite(first) else None


def _memory_of(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.untyped_storage()._cdata, *region_of(tensor)[:3]) if is_noted(tensor) else (id(tensor),)


def _original(picture: Picture, owners: Owners) -> Picture:
    """Return the tensor that one is a copy of: itself, as a rule."""
    for draw in draws_in([write.content for _, write in picture.boxes]):
        return owners[draw] or picture
    return picture


def _distribution(tensor: Tensor, boxes: Boxes, owners: Owners) -> Distribution | None:
    """Return what a tensor is filled with; None where only memory has it."""
    shape, dtype = tuple(tensor.shape), stored_dtype(tensor)
    if dtype is None or not tensor.numel():
        return None
    parts = []
    for box, write in boxes:
        part = _part(write.content, owners)
        is_whole = len(boxes) == 1 or (part is not None and part.is_part and _is_all_of(box, write))
        if part is None or not (part.by_element or is_whole):
            return None
        parts.append((box, part))
    try:
        found = parts[0][1] if len(parts) == 1 else Parts(tuple(parts))
        found.check(shape)
        found.prepare(dtype)
    except (FastinitError, ValueError):
        return None
    return found


def _is_all_of(box: Box, write: Write) -> bool:
    """Say whether a box is all that a write wrote: a matrix that lost a row to a later one is not orthogonal."""
    return size_of(lengths(box)) == write.region.size


def _part(content: Content, owners: Owners) -> Distribution | None:
    if isinstance(content, Unwritten):
        return Constant(0.0)
    if isinstance(content, Fixed):
        value = float(content.value)
        return Constant(value) if abs(value) < float("inf") else None
    if isinstance(content, Computed) or (content.draw is not None and owners[content.draw] is None):
        return None
    return content.distribution


def _places(boxes: Boxes) -> tuple[str, ...]:
    return tuple(dict.fromkeys(write.where for _, write in boxes if write.where))
