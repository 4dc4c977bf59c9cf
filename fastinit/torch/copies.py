"""How the recorder notes copies: a copy of draws holds the same draws, so equal tensors stay equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from .calls import Call
from .contents import Computed, Content, Fixed, Tensor, Unwritten, mixed
from .histories import Write, region_of
from .operations import OPTIONS, number_of
from .recorder import Recorder, is_noted, rule

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
    if source.numel() == 1:
        value = number_of(recorder, source)
        fixed = None if value is None else torch.empty((), dtype=target.dtype).fill_(value)
        return NotImplemented if fixed is None else recorder.note(target, Fixed(fixed))
    return _copy_contents(recorder, target, source) if source.shape == target.shape else NotImplemented


def _copy_contents(recorder: Recorder, target: Tensor, source: Tensor) -> Any:
    history = recorder.history(source)
    found = None if history is None else history.contents(region_of(source))
    is_moved = _is_moved(target, source)
    if found is None or not all(_is_copied(write, source, target, is_moved) for _, write in found):
        return _copy_memory(recorder, target, source)
    for box, write in found:
        place = target[tuple(slice(*part) for part in box)]
        recorder.note(place, _copied(write.content, target), where=write.where)
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


def _copied(content: Content, target: Tensor) -> Content:
    return Fixed(content.value.to(target.dtype)) if isinstance(content, Fixed) else content


def _is_copied(write: Write, source: Tensor, target: Tensor, is_moved: bool) -> bool:
    """Say whether a content means the same in the target.

    Draws do if all of them are copied and each keeps its place: what is transposed, or a part of a draw, must be
    copied, as drawing it again would make other weights.
    """
    content = write.content
    if isinstance(content, Computed | Unwritten):
        return False
    if isinstance(content, Fixed):
        return True
    is_whole = write.region.lies_in(region_of(source))
    return is_whole and not is_moved and bool(target.is_floating_point())


def _is_moved(target: Tensor, source: Tensor) -> bool:
    """Say whether elements change their places in memory, or are copied within one storage."""
    is_alike = source.stride() == target.stride() or (source.is_contiguous() and target.is_contiguous())
    return not is_alike or source.untyped_storage()._cdata == target.untyped_storage()._cdata


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
    pieces = list(call.args[0])
    if not any(_is_pending(recorder, piece) for piece in pieces) or len({piece.dtype for piece in pieces}) > 1:
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
