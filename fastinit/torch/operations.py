"""How the recorder notes torch's operations: one rule each, NotImplemented where it must run after all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .._engine.distributions import Normal, between
from ..initializers import Identity
from .contents import CHANGES, Computed, Content, Drawn, Fixed, Tensor, Unwritten, mixed
from .histories import Write, region_of
from .recorder import RULES, Recorder

Rule = Callable[[Recorder, Any, tuple[Any, ...], dict[str, Any]], Any]

_LIKE = ("dtype", "layout", "device", "pin_memory", "memory_format")


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update({f"aten::{name}": rule for name in names})
        return rule

    return register


# ---- new tensors -------------------------------------------------------------------------------------


@_rule("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided")
def _empty(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    made = func(*args, **kwargs)
    return recorder.note(made, Unwritten()) if _is_noted(made) else made


@_rule("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full")
def _full(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if any(isinstance(given, torch.Tensor) for given in (*args[1:], *kwargs.values())):
        return NotImplemented  # a value that is a tensor, or out=
    kind = func._schema.name.removeprefix("aten::")
    with_value = "full" in kind
    value = (args[1] if kind == "full" else args[-1]) if with_value else float("ones" in kind)
    made = _new(recorder, kind, args, kwargs, value if kind in ("full",) else None)
    return NotImplemented if made is None else _fill(recorder, made, value)


def _new(recorder: Recorder, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> Tensor | None:
    options = {key: kwargs[key] for key in _LIKE if kwargs.get(key) is not None}
    if kind.endswith("_like"):
        return torch.empty_like(args[0], **options)
    if kind.startswith("new_"):
        return args[0].new_empty(args[1], **options)
    if value is not None and "dtype" not in options:
        options["dtype"] = torch.full((), value).dtype
    return torch.empty(args[0], **options)


def _is_noted(tensor: Tensor) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and not tensor.is_quantized


# ---- one value ---------------------------------------------------------------------------------------


def _fill(recorder: Recorder, tensor: Tensor, value: Any) -> Tensor:
    if not tensor.numel():
        return tensor
    fixed = torch.empty((), dtype=tensor.dtype).fill_(value)
    return recorder.note(tensor, Fixed(fixed))


@_rule("zero_")
def _zero(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _fill(recorder, args[0], 0) if _is_noted(args[0]) else NotImplemented


@_rule("fill_")
def _fill_value(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    value = _number(recorder, args[1])
    return NotImplemented if value is None or not _is_noted(args[0]) else _fill(recorder, args[0], value)


def _number(recorder: Recorder, given: Any) -> Any:
    """Return a Python number, or the value of a tensor without axes that depends on no draws; None for others."""
    if isinstance(given, bool | int | float):
        return given
    if not isinstance(given, torch.Tensor) or given.dim() or given.is_meta or given.device.type != "cpu":
        return None
    content = recorder.content(given)
    if isinstance(content, Fixed):
        return content.value.item()
    return given.item() if content is None and recorder.history(given) is None else None


@_rule("eye")
def _eye(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = kwargs.get("out")
    if out is None or out.dim() != 2 or not out.numel():
        return NotImplemented
    return recorder.note(out, Drawn(Identity().for_shape(tuple(out.shape)), None))


# ---- draws -------------------------------------------------------------------------------------------


@_rule("uniform_")
def _uniform(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    low, high = _given(args, kwargs, ("from", "to"), (0.0, 1.0))
    distribution = between(low, high) if low < high else None
    return NotImplemented if distribution is None else recorder.noted_draw(args[0], distribution)


@_rule("normal_")
def _normal(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mean, std = _given(args, kwargs, ("mean", "std"), (0.0, 1.0))
    if not (math.isfinite(mean) and 0 <= std < math.inf):
        return NotImplemented
    return recorder.noted_draw(args[0], Normal(mean, std))


def _given(
    args: tuple[Any, ...], kwargs: dict[str, Any], names: tuple[str, str], defaults: tuple[float, float]
) -> list[float]:
    return [
        float(args[1 + place] if len(args) > 1 + place else kwargs.get(name, defaults[place]))
        for place, name in enumerate(names)
    ]


@_rule("rand", "randn", "rand_like", "randn_like")
def _random(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    kind = func._schema.name.removeprefix("aten::")
    if len(args) > 1 or kwargs.get("out") is not None:
        return NotImplemented
    made = _new(recorder, kind, args, kwargs, None)
    distribution = Normal() if "randn" in kind else between(0.0, 1.0)
    return NotImplemented if distribution is None else recorder.noted_draw(made, distribution)


@_rule("normal")
def _normal_of(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) != 3 or not all(isinstance(number, int | float) for number in args[:2]) or "out" in kwargs:
        return NotImplemented
    made = _new(recorder, "normal", args[2:], kwargs, None)
    return _normal(recorder, func, (made, *args[:2]), {})


# ---- arithmetic with numbers -------------------------------------------------------------------------


def _changed(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply an elementwise operation with numbers to what a tensor holds."""
    content = recorder.content(args[0]) if isinstance(args[0], torch.Tensor) else None
    numbers = _numbers(recorder, func, args, kwargs)
    if isinstance(content, Computed | Unwritten | None) or numbers is None:
        return NotImplemented
    name = func._schema.name.removeprefix("aten::")
    if isinstance(content, Fixed):
        value = func(content.value.clone(), *numbers)  # torch itself: its rounding, its dtype
        changed: Content | None = Fixed(value)
        dtype = value.dtype
    else:
        changed, dtype = content.changed(name.removesuffix("_"), numbers), args[0].dtype
    if changed is None:
        return NotImplemented
    return recorder.note(args[0] if name.endswith("_") else torch.empty_like(args[0], dtype=dtype), changed)


def _numbers(
    recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...] | None:
    """Return an operation's other arguments in their order; None where one of them is no number."""
    arguments, found = func._schema.arguments, []
    for position, argument in enumerate(arguments[1:], 1):
        given = args[position] if position < len(args) else kwargs.get(argument.name, argument.default_value)
        number = _number(recorder, given)
        if number is None and not (given is None and "clamp" in func._schema.name):
            return None
        found.append(number)
    return tuple(found)


RULES.update({f"aten::{name}{ending}": _changed for name in CHANGES for ending in ("", "_")})


# ---- copies ------------------------------------------------------------------------------------------


@_rule("copy_")
def _copy(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    target, source = args[0], args[1]
    if not (_is_noted(target) and _is_noted(source)) or not target.numel():
        return NotImplemented
    if _is_all_bytes(recorder, target, source):
        return _copy_bytes(recorder, target, source)
    if source.numel() == 1:
        value = _number(recorder, source.reshape(()))
        return NotImplemented if value is None else _fill(recorder, target, value)
    if source.shape != target.shape:
        return NotImplemented
    return _copy_contents(recorder, func, target, source)


def _copy_contents(recorder: Recorder, func: Any, target: Tensor, source: Tensor) -> Any:
    history = recorder.history(source)
    found = None if history is None else history.contents(region_of(source))
    if found is None or not all(_is_copied(write, source, target) for _, write in found):
        return _copy_memory(recorder, func, target, source)
    is_moved = source.stride() != target.stride() and not (source.is_contiguous() and target.is_contiguous())
    for box, write in found:
        place = target[tuple(slice(*part) for part in box)]
        recorder.note(place, _copied(write.content, target, is_moved), where=write.where)
    if recorder.is_eager:
        _copy_stored(recorder, func, target, source)
    return target


def _copy_stored(recorder: Recorder, func: Any, target: Tensor, source: Tensor) -> None:
    """Copy weights that were made at once: the copy must be equal, and not a draw of its own."""
    recorder.settle(source)
    func(target, source)
    history = recorder.history(target)
    for write in [] if history is None else history.writes:
        write.is_stored = True


def _copied(content: Content, target: Tensor, is_moved: bool) -> Content:
    if isinstance(content, Fixed):
        return Fixed(content.value.to(target.dtype))
    if isinstance(content, Drawn):
        return Drawn(content.distribution, content.draw, content.is_moved or is_moved)
    return content


def _is_copied(write: Write, source: Tensor, target: Tensor) -> bool:
    """Say whether a content means the same in the target: a whole construction only of the same shape."""
    content = write.content
    if isinstance(content, Computed | Unwritten) or (target.dtype != source.dtype and target.dtype == torch.bool):
        return False
    is_float = target.is_floating_point()
    return isinstance(content, Fixed) or (
        is_float and (content.distribution.by_element or write.region.size == source.numel())
    )


def _copy_memory(recorder: Recorder, func: Any, target: Tensor, source: Tensor) -> Any:
    """Copy for real; what the target held is not made first where all of its storage is overwritten."""
    recorder.settle(source)
    history, held = recorder.history(target), recorder.held(source)
    if history is not None and not region_of(target).covers(history.nbytes):
        recorder.settle(target)
    func(target, source)
    content = mixed(held)
    if history is not None or content.draws or content.is_random:
        recorder.note(target, content, is_stored=True)
    return target


def _is_all_bytes(recorder: Recorder, target: Tensor, source: Tensor) -> bool:
    """Say whether bytes of a whole storage are copied, as a deep copy of it does."""
    return (
        source.dtype == torch.uint8
        and recorder.history(source) is not None
        and source.numel() == target.numel() == source.untyped_storage().nbytes()
    )


def _copy_bytes(recorder: Recorder, target: Tensor, source: Tensor) -> Tensor:
    for write in recorder.history(source).writes:  # type: ignore[union-attr]  # it has one
        region = write.region
        place = torch.empty(0, dtype=region.dtype, device=target.device)
        place.set_(target.untyped_storage(), region.offset, region.sizes, region.strides)
        recorder.note(place, write.content, where=write.where)
    return target


@_rule("clone", "_to_copy", "contiguous")
def _clone(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source = args[0]
    history = recorder.history(source)
    if history is None or not history.is_pending or not source.numel():
        return NotImplemented
    options = {key: kwargs[key] for key in _LIKE if kwargs.get(key) is not None}
    made = torch.empty_like(source, **options)
    done = _copy(recorder, torch.ops.aten.copy_.default, (made, source), {})
    return NotImplemented if done is NotImplemented else made


@_rule("cat", "stack")
def _joined(recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    pieces = list(args[0])
    if not any(_is_pending(recorder, piece) for piece in pieces) or len({piece.dtype for piece in pieces}) > 1:
        return NotImplemented
    axis = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    shape = func([torch.empty_like(piece, device="meta") for piece in pieces], axis).shape
    made, start = torch.empty(shape, dtype=pieces[0].dtype, device=pieces[0].device), 0
    recorder.note(made, Unwritten())
    is_stack = func._schema.name == "aten::stack"
    for piece in pieces:
        length = 1 if is_stack else piece.shape[axis]
        place = made.narrow(axis, start, length)
        _copy_piece(recorder, place, piece.unsqueeze(axis) if is_stack else piece)
        start += length
    return made


def _copy_piece(recorder: Recorder, place: Tensor, piece: Tensor) -> None:
    copy = torch.ops.aten.copy_.default
    if _copy(recorder, copy, (place, piece), {}) is NotImplemented:
        recorder.run(copy, (place, piece), {})


def _is_pending(recorder: Recorder, tensor: Tensor) -> bool:
    history = recorder.history(tensor)
    return history is not None and history.is_pending
