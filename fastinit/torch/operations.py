"""How the recorder notes torch's operations: one rule each, NotImplemented where it must run after all.

Here are new tensors, fills, draws and arithmetic with numbers; `copies.py` has what copies.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .._engine.distributions import Normal, between
from ..initializers import Identity
from .calls import Call
from .contents import CHANGES, Computed, Content, Drawn, Fixed, Tensor, Unwritten
from .recorder import Recorder, is_noted, rule

OPTIONS = ("dtype", "layout", "device", "pin_memory", "memory_format")
"""Arguments that say how a new tensor is laid out."""


# ---- new tensors -------------------------------------------------------------------------------------


@rule("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided")
def _empty(recorder: Recorder, call: Call) -> Any:
    made = call.run()
    return recorder.note(made, Unwritten()) if is_noted(made) else made


@rule("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones")
def _zeros_or_ones(recorder: Recorder, call: Call) -> Any:
    return NotImplemented if "out" in call.kwargs else _fill(recorder, _new(call), int("ones" in call.name))


@rule("full", "full_like", "new_full")
def _full(recorder: Recorder, call: Call) -> Any:
    value = _number(recorder, call.args[-1])
    if value is None or "out" in call.kwargs:
        return NotImplemented
    options = {"dtype": torch.full((), value).dtype} if call.name == "full" else {}
    return _fill(recorder, _new(call, **options), value)


def _new(call: Call, **options: Any) -> Tensor:
    """Return a new tensor, unwritten, as the call would lay it out; `options` where it does not say so itself."""
    options.update({key: call.kwargs[key] for key in OPTIONS if call.kwargs.get(key) is not None})
    if call.name.endswith("_like"):
        return torch.empty_like(call.args[0], **options)
    if call.name.startswith("new_"):
        return call.args[0].new_empty(call.args[1], **options)
    return torch.empty(call.args[0], **options)


# ---- one value ---------------------------------------------------------------------------------------


def _fill(recorder: Recorder, tensor: Tensor, value: Any) -> Any:
    if not is_noted(tensor):
        return NotImplemented
    fixed = torch.empty((), dtype=tensor.dtype).fill_(value)  # torch's own rounding
    return recorder.note(tensor, Fixed(fixed)) if tensor.numel() else tensor


@rule("zero_")
def _zero(recorder: Recorder, call: Call) -> Any:
    return _fill(recorder, call.args[0], 0)


@rule("fill_")
def _fill_value(recorder: Recorder, call: Call) -> Any:
    value = _number(recorder, call.args[1])
    return NotImplemented if value is None else _fill(recorder, call.args[0], value)


def _number(recorder: Recorder, given: Any) -> Any:
    """Return a Python number, or the value of a tensor without axes that depends on no draws; None for others."""
    if isinstance(given, bool | int | float):
        return given
    if not isinstance(given, torch.Tensor) or given.numel() != 1 or given.device.type != "cpu":
        return None
    content = recorder.content(given)
    if isinstance(content, Fixed):
        return content.value.item()
    return given.item() if content is None and recorder.history(given) is None else None


number_of = _number


@rule("eye")
def _eye(recorder: Recorder, call: Call) -> Any:
    out = call.kwargs.get("out")
    if out is None or out.dim() != 2 or not out.numel():
        return NotImplemented
    return recorder.note(out, Drawn(Identity().for_shape(tuple(out.shape)), None))


# ---- draws -------------------------------------------------------------------------------------------


@rule("uniform_")
def _uniform(recorder: Recorder, call: Call) -> Any:
    low, high = call.numbers(("from", 0.0), ("to", 1.0))
    distribution = between(low, high) if low < high else None
    return NotImplemented if distribution is None else recorder.noted_draw(call.args[0], distribution)


@rule("normal_")
def _normal(recorder: Recorder, call: Call) -> Any:
    return _noted_normal(recorder, call.args[0], *call.numbers(("mean", 0.0), ("std", 1.0)))


def _noted_normal(recorder: Recorder, tensor: Tensor, mean: float, std: float) -> Any:
    is_one = math.isfinite(mean) and 0 <= std < math.inf
    return recorder.noted_draw(tensor, Normal(mean, std)) if is_one else NotImplemented


@rule("rand", "randn", "rand_like", "randn_like")
def _random(recorder: Recorder, call: Call) -> Any:
    if len(call.args) > 1 or "out" in call.kwargs:
        return NotImplemented
    distribution = Normal() if "randn" in call.name else between(0.0, 1.0)
    return NotImplemented if distribution is None else recorder.noted_draw(_new(call), distribution)


@rule("normal")
def _normal_of_shape(recorder: Recorder, call: Call) -> Any:
    is_plain = len(call.args) == 3 and all(isinstance(number, int | float) for number in call.args[:2])
    if not is_plain or "out" in call.kwargs:
        return NotImplemented
    return _noted_normal(recorder, _new(call._replace(args=call.args[2:])), *call.args[:2])


# ---- arithmetic with numbers -------------------------------------------------------------------------


@rule(*(name + ending for name in CHANGES for ending in ("", "_")))
def _changed(recorder: Recorder, call: Call) -> Any:
    """Apply an elementwise operation with numbers to what a tensor holds."""
    content = recorder.content(call.args[0]) if isinstance(call.args[0], torch.Tensor) else None
    numbers = _numbers(recorder, call)
    if isinstance(content, Computed | Unwritten | None) or numbers is None:
        return NotImplemented
    changed: Content | None
    if isinstance(content, Fixed):
        changed = Fixed(_computed(call, content.value, numbers))
        dtype = changed.value.dtype
    else:
        changed, dtype = content.changed(call.name.removesuffix("_"), numbers), call.args[0].dtype
    if changed is None:
        return NotImplemented
    is_inplace = call.name.endswith("_")
    return recorder.note(call.args[0] if is_inplace else torch.empty_like(call.args[0], dtype=dtype), changed)


def _computed(call: Call, value: Tensor, numbers: tuple[Any, ...]) -> Tensor:
    """Return what torch itself makes of one value: its rounding, and its dtype."""
    given = zip(call.func._schema.arguments[1:], numbers, strict=True)
    named = {argument.name: number for argument, number in given if argument.kwarg_only}
    return call.func(value.clone(), *numbers[: len(numbers) - len(named)], **named)


def _numbers(recorder: Recorder, call: Call) -> tuple[Any, ...] | None:
    """Return an operation's other arguments in their order; None where one of them is no number."""
    found = []
    for position, argument in enumerate(call.func._schema.arguments[1:], 1):
        given = call.given(position, argument)
        number = _number(recorder, given)
        if number is None and not (given is None and "clamp" in call.name):
            return None
        found.append(number)
    return tuple(found)
