"""What each tensor of a recorded model is at the end: a distribution, or data that its code computed.

`resolve` decides it for all tensors at once, because equal draws make equal tensors, and because draws that
something was computed from must stay as they were made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .._engine.boxes import Painted, joined, whole_box
from .._engine.distributions import Constant
from .._engine.divided import Parts
from .._engine.initializer import Distribution
from ..errors import FastinitError, PlanError
from .calls import version_of
from .contents import Computed, Content, Draw, Drawn, Fixed, Tensor, Unwritten, mixed
from .histories import History, Write, draws_in
from .modules import Named
from .recorder import Recorder, is_noted
from .regions import Region, region_of
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
    version : int
        Torch's count of the writes into what was computed, when the block ended.
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
    version: int = 0

    @property
    def is_computed(self) -> bool:
        """Whether it depends on draws, but through operations that no plan expresses."""
        return self.distribution is None and self.is_random

    def data(self) -> Tensor:
        """Return the tensor, whose memory is the data; a PlanError says that it was changed since."""
        if self.version != version_of(self.tensor):
            raise PlanError(
                f"tensor {self.name!r} is data that the model's code computed, and it was changed after its block "
                "had ended; ask the recording for its plan before that"
            )
        return self.tensor


def resolve(recorder: Recorder, named: Iterable[tuple[Named, str]]) -> list[Resolved]:
    """Decide what every tensor is; `named` has each with the name of its stream."""
    alive = recorder.alive()
    held = [content for history in alive for content in history.all_contents()]
    recorder.pin(draws_in([*filter(_is_computed, held)]))
    pictures = [Picture(entry, stream, _boxes(recorder, entry.tensor)) for entry, stream in named]
    owners = _owners(recorder, pictures, _strangers(recorder, pictures, alive))
    seen: dict[tuple[Any, ...], Picture] = {}
    found = [_resolved(recorder, picture, owners, seen) for picture in pictures]
    _name_draws(recorder, owners, found)
    return found


def _is_computed(content: Content) -> bool:
    return isinstance(content, Computed)


@dataclass(slots=True, eq=False)
class Picture:
    """A named tensor and what its boxes hold."""

    entry: Named
    stream: str
    boxes: Boxes

    @property
    def region(self) -> Region:
        """Where it lies in its storage."""
        return region_of(self.entry.tensor)

    def drawn(self) -> dict[Draw, list[Drawn]]:
        """Return what it holds of each draw."""
        found: dict[Draw, list[Drawn]] = {}
        for _, write in self.boxes:
            if isinstance(write.content, Drawn) and write.content.draw is not None:
                found.setdefault(write.content.draw, []).append(write.content)
        return found

    def is_copy(self, other: Picture) -> bool:
        """Say whether each element holds what the same element of the other does."""
        return self.region[1:] == other.region[1:] and self._kinds() == other._kinds()

    def _kinds(self) -> list[Any]:
        """Return what the boxes hold, comparable."""
        return sorted(((box, _kind(write, self.region)) for box, write in self.boxes), key=lambda kind: kind[0])

    def is_all_of(self, draw: Draw) -> bool:
        """Say whether its elements are those of a draw, place by place."""
        return all(content.home == self.region for content in self.drawn()[draw])

    def decides(self, draw: Draw, content: Drawn, dtype: object) -> bool:
        """Say whether what another storage holds of a draw follows from this tensor: its equal, place by place.

        Not where the tensor was drawn over in part: its stream then has other numbers there.
        """
        (mine, *others), *overdrawn = self.drawn().values()
        is_at_home = self.is_all_of(draw) and content.home.sizes == self.region.sizes
        is_one = not others and not overdrawn
        return is_at_home and is_one and mine.is_like(content) and dtype == self.region.dtype


def _kind(write: Write, region: Region) -> Any:
    content = write.content
    if isinstance(content, Fixed):
        return repr(content.value.item())
    if isinstance(content, Drawn) and content.draw is not None:
        return content.home.offset - region.offset, content.home[1:], content.made
    return id(write)


def _boxes(recorder: Recorder, tensor: Tensor) -> Boxes:
    """Return what a tensor holds, box by box; memory's data where nothing else is known."""
    history = recorder.history(tensor) if is_noted(tensor) else None
    if history is None:  # there is no one stretch of memory whose region it could be
        return _memory(Region(0, tuple(tensor.shape), (), tensor.dtype, 0), recorder.held(tensor))
    region = region_of(tensor)
    boxes = history.contents(region) if tensor.numel() else []
    if boxes:
        return joined_writes(boxes)
    if tensor.numel():
        recorder.settle(tensor)
        recorder.pin(draws_in(history.all_contents()))
    return _memory(region, history.all_contents())


def _memory(region: Region, contents: list[Content]) -> Boxes:
    """Return that memory holds a tensor, with the names of what made it."""
    held = mixed(contents)
    content = replace(held, operations=held.operations or _steps(contents))
    return [(whole_box(region.sizes), Write(region, content, "", True))]


def joined_writes(boxes: Boxes) -> Boxes:
    """Join the boxes of one write, and those of equal constants."""
    by_kind: dict[Any, Write] = {}
    keyed = []
    for box, write in boxes:
        kind = write.content if isinstance(write.content, Fixed) else id(write)
        by_kind.setdefault(kind, write)
        keyed.append((box, kind))
    return [(box, by_kind[kind]) for box, kind in joined(keyed)]


def _strangers(recorder: Recorder, pictures: list[Picture], alive: list[History]) -> list[tuple[History, Write]]:
    """Return what storages hold that no named tensor shows all of."""
    shown = {
        id(recorder.history(picture.entry.tensor)) for picture in pictures if recorder.covers(picture.entry.tensor)
    }
    return [(history, write) for history in alive if id(history) not in shown for write in history.writes]


Owners = dict[Draw, Picture | None]
"""Which tensor's name each draw has; None of one that must stay as memory has it."""


def _owners(recorder: Recorder, pictures: list[Picture], strangers: list[tuple[History, Write]]) -> Owners:
    """Give each draw to the one tensor that holds its numbers, each once; copies of that tensor follow it."""
    owners: Owners = {}
    for picture in pictures:
        for draw, held in picture.drawn().items():
            is_once = len({content.home for content in held}) == 1
            owner = owners.setdefault(draw, picture if is_once and not draw.is_pinned else None)
            if owner is not None and owner is not picture and not picture.is_copy(owner):
                owners[draw] = None
    for history, write in strangers:
        _disown(recorder, owners, history, write)
    return owners


def _disown(recorder: Recorder, owners: Owners, history: History, write: Write) -> None:
    """Take a draw from its owner where a tensor that has no name holds its numbers in another way."""
    content = write.content
    if not isinstance(content, Drawn) or content.draw is None:
        return
    owner = owners.get(content.draw)
    if owner is None:
        return
    if recorder.history(owner.entry.tensor) is history:
        follows = content.home == owner.drawn()[content.draw][0].home
    else:
        is_made = write.is_stored and not recorder.is_eager
        follows = not is_made and owner.decides(content.draw, content, write.region.dtype)
    if not follows:
        owners[content.draw] = None


def _name_draws(recorder: Recorder, owners: Owners, found: list[Resolved]) -> None:
    """Tell the draws whose name they have, of tensors that are filled by it; all others stay as they were made.

    Not where the tensor is a part of a draw: its stream has no numbers for the rest of that.
    """
    filled = {id(resolved.tensor) for resolved in found if resolved.distribution is not None}
    for draw, owner in owners.items():
        if owner is not None and id(owner.entry.tensor) in filled and owner.is_all_of(draw):
            draw.stream = "" if recorder.is_eager and draw.is_changed else owner.stream


def _resolved(
    recorder: Recorder, picture: Picture, owners: Owners, seen: dict[tuple[Any, ...], Picture]
) -> Resolved:
    entry, boxes = picture.entry, picture.boxes
    made = Resolved(entry.name, picture.stream, entry.tensor, entry.is_saved, where=_places(boxes))
    made.distribution = _distribution(entry.tensor, boxes, owners)
    if made.distribution is None:
        recorder.settle(entry.tensor)
        content = mixed([write.content for _, write in boxes])
        readers = dict.fromkeys(draw.reader for draw in sorted(content.draws) if draw.reader)
        made.operations = content.operations or tuple(readers) or _steps(write.content for _, write in boxes)
        made.is_random = content.is_random or bool(content.draws)
        made.distribution = None if made.is_random else _constant(entry.tensor)
        made.version = version_of(entry.tensor)
    original = seen.setdefault(_memory_of(entry.tensor), picture)
    if original is picture and made.distribution is not None:
        original = _original(picture, owners)
    if original is not picture:
        made.copy_of, made.stream = original.entry.name, original.stream
    return made


def _steps(contents: Iterable[Content]) -> tuple[str, ...]:
    """Return what was done to the draws of a tensor, or what was drawn, that no part of a plan can be."""
    drawn = [content for content in contents if isinstance(content, Drawn)]
    steps = dict.fromkeys(step.name for content in drawn for step in content.steps)
    return tuple(steps or dict.fromkeys(content.distribution.name for content in drawn))


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
        if part is None or not (
            part.by_element or _is_whole(write.content, region_of(tensor).at(box), len(boxes))
        ):
            return None
        parts.append((box, part))
    try:
        found = parts[0][1] if len(parts) == 1 else Parts(tuple(parts))
        found.check(shape)
        found.prepare(dtype)
    except (FastinitError, ValueError):
        return None
    return found


def _is_whole(content: Content, region: Region, count: int) -> bool:
    """Say whether a box holds all of a construction, axis by axis: a matrix that lost a row is not orthogonal."""
    if not isinstance(content, Drawn) or content.home != region:
        return False
    return count == 1 or content.distribution.is_part


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
