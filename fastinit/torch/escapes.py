"""The function mode that sees a tensor's memory leave torch: numpy, a pickle, a list. The dispatcher does not."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .recorder import Recorder

_ESCAPES = frozenset(getattr(torch.Tensor, name) for name in ("numpy", "__array__", "__dlpack__", "tolist"))
"""Functions that hand a tensor's memory or data on to others than torch."""


class Escapes(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
    """Gives a tensor its values before its memory is seen, and notes that it may be written there."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Look at a function of torch, and let it run."""
        if func in _ESCAPES or (func.__name__ == "__get__" and _is_pickled()):
            self._recorder.escape(args[0])
        return func(*args, **(kwargs or {}))


def _is_pickled() -> bool:
    """Say whether a tensor's property is asked for by its pickling, as in torch.save: its bytes are read next."""
    return sys._getframe(2).f_code.co_name == "_reduce_ex_internal"
