"""The function mode that sees memory leave torch: numpy, an address, a pickle. The dispatcher does not."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .recorder import Recorder


def _functions(*names: str) -> frozenset[Any]:
    return frozenset(getattr(torch.Tensor, name) for name in names)


_SHARED = _functions("numpy", "__array__", "__dlpack__")
"""Functions after which others than torch may read and write a tensor's memory, as often as they like."""

_ADDRESSES = _functions("data_ptr", "untyped_storage", "storage")
"""Functions that give an address, or what has one: for the same use, or to be compared."""

_COMPARED = (
    "accelerate.utils.modeling",
    "peft.tuners.tuners_utils",
    "safetensors.torch.storage_ptr",
    "safetensors.torch.storage_size",
    "transformers.modeling_utils",
    "transformers.pytorch_utils",
)
"""Modules, and functions of modules, that only compare addresses, to find tied weights."""

_READ = _functions("tolist")
_LOOPS = _functions("apply_", "map_", "map2_")
_SET_DATA = torch.Tensor.data.__set__


class Escapes(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
    """Gives a tensor its values before its memory is seen, and notes that it may be written there."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Look at a function of torch, and let it run."""
        kwargs = kwargs or {}
        if func in _LOOPS:
            return self._recorder.loop(func, args, kwargs)
        if func in _READ or (func.__name__ == "__get__" and _is_pickled()):
            self._recorder.read(args[0], func.__name__)
        elif func in _SHARED or (func in _ADDRESSES and not _is_compared()):
            self._recorder.share(args[0], func.__name__)
        result = func(*args, **kwargs)
        if func == _SET_DATA:
            self._recorder.count_version(args[0], more=0)
        elif func is torch.asarray and isinstance(args[0], torch.UntypedStorage):  # a file's, and not numpy's
            self._recorder.lifted(result, is_shared=False)
        return result


def _is_pickled() -> bool:
    """Say whether a tensor's property is asked for by its pickling, as in torch.save: its bytes are read next."""
    return sys._getframe(2).f_code.co_name == "_reduce_ex_internal"


def _is_compared() -> bool:
    """Say whether torch itself asks for an address, or code that only compares it."""
    frame: Any = sys._getframe(2)
    while frame.f_globals.get("__name__") in ("torch.overrides", "torch._tensor"):
        frame = frame.f_back
    module = str(frame.f_globals.get("__name__"))
    is_torch = module.partition(".")[0] in ("torch", "fastinit") and module != "torch.multiprocessing.reductions"
    return is_torch or module in _COMPARED or f"{module}.{frame.f_code.co_name}" in _COMPARED
