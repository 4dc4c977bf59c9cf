"""Which code asked for an operation: the frames of Python above it."""

from __future__ import annotations

import sys
from typing import Any

from .inside import INSIDE

_QUIET = ("torch", "fastinit", "copy")
_SHIMS = ("transformers.initialization", "timm.layers.weight_init", "timm.models.layers.weight_init")
_BETWEEN = ("torch._compile", "torch._dynamo.eval_frame", f"{__package__}.escapes", f"{__package__}.recorder")
"""Modules whose frames may stand between torch.nn.init and an operation that it calls."""


def caller() -> Any:
    """Return the frame of the function of torch.nn.init that the running operation stands in; None outside one."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame if frame is not None and frame.f_code in INSIDE else None


def where() -> str:
    """Return the line of the model's code, or of the layer of torch, that the running operation stands in."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        is_layer = module.startswith("torch.nn.modules") and module != "torch.nn.modules.module"
        if is_layer or (module.partition(".")[0] not in _QUIET and module not in _SHIMS):
            return f"{module}:{frame.f_lineno} {frame.f_code.co_qualname}"
        frame = frame.f_back
    return ""
