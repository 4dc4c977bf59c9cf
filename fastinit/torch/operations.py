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
from .contents import CHANGES, Drawn, Fixed, Step, Tensor, Unwritten
from .recorder import Recorder, can_hold, is_noted, rule
from .regions import region_of

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
    value = number_of(recorder, call.args[-1])
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
    value = number_of(recorder, call.args[1])
    return NotImplemented if value is None else _fill(recorder, call.args[0], value)


def number_of(recorder: Recorder, given: Any) -> Any:
    """Return a Python number, or the value of a tensor without axes that depends on no draws; None for others."""
    if isinstance(given, bool | int | float):
        return given
    value = value_of(recorder, given) if isinstance(given, torch.Tensor) and not given.dim() else None
    return None if value is None else value.item()


def value_of(recorder: Recorder, tensor: Tensor) -> Tensor | None:
    """Return the value of a tensor of one element, without axes; None where it is drawn, or not known."""
    if tensor.numel() != 1 or tensor.device.type != "cpu" or not is_noted(tensor):
        return None
    content = recorder.content(tensor)
    if isinstance(content, Fixed):
        return content.value
    is_known = content is None and recorder.history(tensor) is None
    return tensor.detach().reshape(()).clone() if is_known else None


@rule("eye")
def _eye(recorder: Recorder, call: Call) -> Any:
    out = call.kwargs.get("out")
    if out is None or out.dim() != 2 or not out.numel():
        return NotImplemented
    return recorder.noted_draw(out, Identity().for_shape(tuple(out.shape)))


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
    tensor = call.args[0]
    if not isinstance(tensor, torch.Tensor) or "out" in call.kwargs:
        return NotImplemented
    content = recorder.content(tensor)
    if isinstance(content, Fixed):
        return _changed_value(recorder, call, content.value)
    return _changed_draws(recorder, call, content) if isinstance(content, Drawn) else NotImplemented


def _changed_value(recorder: Recorder, call: Call, value: Tensor) -> Any:
    """Let torch itself compute with the value, in as many axes as the tensor has: its rounding, and its dtype."""
    tensor, others = call.args[0], [*call.args[1:], *call.kwargs.values()]
    if not all(_is_value(recorder, other) for other in others) or call.name.startswith("erfinv"):
        return NotImplemented  # of many elements, torch computes erfinv by other means
    for other in others:
        if isinstance(other, torch.Tensor):
            recorder.settle(other)
    result = call.func(value.reshape((1,) * tensor.dim()).clone(), *call.args[1:], **call.kwargs)
    if result.dim() != tensor.dim():
        return NotImplemented
    return recorder.note(_target(call, result.dtype), Fixed(result.reshape(())))


def _is_value(recorder: Recorder, given: Any) -> bool:
    """Say whether an argument is one number that depends on no draws, or is left out."""
    is_known = isinstance(given, torch.Tensor) and value_of(recorder, given) is not None
    return is_known or given is None or isinstance(given, bool | int | float)


def _changed_draws(recorder: Recorder, call: Call, content: Drawn) -> Any:
    tensor, numbers = call.args[0], _numbers(recorder, call)
    changed = None if numbers is None else content.changed(Step(call.func, numbers))
    if changed is None:
        return NotImplemented
    made = _target(call, tensor.dtype)
    moved = changed.carried(region_of(tensor), region_of(made))
    if moved is None or not can_hold(made, moved.distribution):
        return NotImplemented
    return recorder.note(made, moved)


def _target(call: Call, dtype: Any) -> Tensor:
    """Return where the result goes: the tensor itself, or a new one."""
    return call.args[0] if call.name.endswith("_") else torch.empty_like(call.args[0], dtype=dtype)


def _numbers(recorder: Recorder, call: Call) -> tuple[Any, ...] | None:
    """Return an operation's other arguments in their order; None where one of them is more than a number."""
    found = []
    for position, argument in enumerate(call.func._schema.arguments[1:], 1):
        given = call.given(position, argument)
        number = number_of(recorder, given) if _keeps_dtype(call, given) else None
        if number is None and not (given is None and "clamp" in call.name):
            return None
        found.append(number)
    return tuple(found)


def _keeps_dtype(call: Call, given: Any) -> bool:
    """Say whether torch computes in the first tensor's dtype, and takes `given` as it takes a number."""
    if not isinstance(given, torch.Tensor):
        return True
    return "clamp" not in call.name and torch.result_type(call.args[0], given) == call.args[0].dtype
