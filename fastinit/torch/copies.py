"""How the recorder notes copies: a copy of draws holds the same draws, so equal tensors stay equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from .._engine.boxes import Box
from .calls import Call
from .contents import Computed, Content, Fixed, Tensor, Unwritten, mixed
from .operations import OPTIONS, value_of
from .recorder import Recorder, can_hold, is_noted, rule
from .regions import region_of

COPY = torch.ops.aten.copy_.default


@rule("copy_")
def _copy(recorder: Recorder, call: Call) -> Any:
    return copy(recorder, call.args[0], call.args[1])


def copy(recorder: Recorder, target: Tensor, source: Tensor) -> Any:
    """Note a copy, or make it; NotImplemented where torch must do it with all its rules."""
    if not (is_noted(target) and is_noted(source)) or not target.numel():
        return NotImplemented
    if _is_all_bytes(recorder, target, source):
        return _copy_bytes(recorder, target, source)
    value = value_of(recorder, source) if source.dim() <= target.dim() else None
    if value is not None:
        return recorder.note(target, Fixed(value.to(target.dtype)))
    return _copy_contents(recorder, target, source) if source.shape == target.shape else NotImplemented


def _copy_contents(recorder: Recorder, target: Tensor, source: Tensor) -> Any:
    history = recorder.history(source)
    found = None if history is None else history.contents(region_of(source))
    copied = [(write, box, _copied(target, source, box, write.content)) for box, write in found or ()]
    if not copied or any(content is None for _, _, content in copied):
        return _copy_memory(recorder, target, source)
    if recorder.is_eager:  # what the target held stays beside what is copied now
        recorder.settle(target)
    for write, box, content in copied:
        if content is not None:
            recorder.note(target[tuple(slice(*r) for r in box)], content, where=write.where)
    if recorder.is_eager:
        _copy_stored(recorder, target, source)
    return target


def _copy_stored(recorder: Recorder, target: Tensor, source: Tensor) -> None:
    """Copy weights that were made at once: the copy must be equal, and not a draw of its own."""
    recorder.settle(source)
    COPY(target, source)
    history = recorder.history(target)
    for write in [] if history is None else history.writes:
        write.is_stored = True


def _copied(target: Tensor, source: Tensor, box: Box, content: Content) -> Content | None:
    """Return what a box of the source means in the target; None where only memory says it."""
    if isinstance(content, Computed | Unwritten):
        return None
    if isinstance(content, Fixed):
        return Fixed(content.value.to(target.dtype))
    cast, place = content.cast(source.dtype, target.dtype), region_of(target)
    moved = None if cast is None else cast.carried(region_of(source), place, place.at(box))
    return moved if moved is not None and can_hold(target, moved.distribution) else None


def _copy_memory(recorder: Recorder, target: Tensor, source: Tensor) -> Tensor:
    """Copy for real; what the target held is not made first where all of its storage is overwritten."""
    recorder.settle(source)
    history, held = recorder.history(target), mixed(recorder.held(source))
    if history is not None and not region_of(target).covers(history.nbytes):
        recorder.settle(target)
    COPY(target, source)
    depends = bool(held.draws) or held.is_random
    if history is not None or depends:
        operations = (*held.operations, "copy_") if depends else ()
        recorder.note(target, replace(held, operations=operations), is_stored=True)
    return target


def _is_all_bytes(recorder: Recorder, target: Tensor, source: Tensor) -> bool:
    """Say whether bytes of a whole storage are copied, as a deep copy of it does."""
    return (
        source.dtype == torch.uint8
        and recorder.history(source) is not None
        and source.numel() == target.numel() == source.untyped_storage().nbytes()
    )


def _copy_bytes(recorder: Recorder, target: Tensor, source: Tensor) -> Tensor:
    history = recorder.history(source)
    for write in [] if history is None else history.writes:
        region = write.region
        place = torch.empty(0, dtype=region.dtype, device=target.device)
        place.set_(target.untyped_storage(), region.offset, region.sizes, region.strides)
        recorder.note(place, write.content, is_stored=write.is_stored, where=write.where)
    if history is not None and any(write.is_stored for write in history.writes):
        COPY(target, source)
    return target


@rule("clone", "_to_copy", "contiguous")
def _clone(recorder: Recorder, call: Call) -> Any:
    source = call.args[0]
    if not _is_pending(recorder, source) or not source.numel():
        return NotImplemented
    options = {key: call.kwargs[key] for key in OPTIONS if call.kwargs.get(key) is not None}
    made = torch.empty_like(source, **options)
    return NotImplemented if copy(recorder, made, source) is NotImplemented else made


@rule("cat", "stack")
def _joined(recorder: Recorder, call: Call) -> Any:
    pieces = [
        piece for piece in call.args[0] if call.name == "stack" or piece.shape != (0,)
    ]  # as torch's cat does
    if (
        "out" in call.kwargs
        or not any(_is_pending(recorder, piece) for piece in pieces)
        or len({piece.dtype for piece in call.args[0]}) > 1
    ):
        return NotImplemented
    axis = call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", 0)
    shape = call.func([torch.empty_like(piece, device="meta") for piece in pieces], axis).shape
    made, start = torch.empty(shape, dtype=pieces[0].dtype, device=pieces[0].device), 0
    recorder.note(made, Unwritten())
    for piece in pieces:
        spread = piece.unsqueeze(axis) if call.name == "stack" else piece
        place = made.narrow(axis, start, spread.shape[axis])
        if copy(recorder, place, spread) is NotImplemented:
            recorder.run(Call(COPY, (place, spread), {}))
        start += spread.shape[axis]
    return made


def _is_pending(recorder: Recorder, tensor: Tensor) -> bool:
    history = recorder.history(tensor)
    return history is not None and history.is_pending
