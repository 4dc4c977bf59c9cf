"""Which models were built inside a block, and what their tensors are called."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as registration
from torch.nn.parameter import is_lazy

from ..errors import PlanError

Module = Any
"""A torch.nn.Module."""


class Watch:
    """Sees the modules that this thread builds, by torch's own hooks on registration."""

    def __init__(self, model: Module | None = None) -> None:
        self._thread = threading.get_ident()
        self._seen: dict[int, weakref.ref[Module]] = {} if model is None else {id(model): weakref.ref(model)}
        self._elsewhere: dict[int, weakref.ref[Module]] = {}
        self._handles: list[Any] = []
        self._inner: set[int] = set()
        self._latest: Module = None  # held, so that a model that nobody keeps is there when its block ends

    def start(self) -> None:
        """Begin to watch."""
        self._handles = [
            registration.register_module_parameter_registration_hook(self._on_registration),
            registration.register_module_buffer_registration_hook(self._on_registration),
            registration.register_module_module_registration_hook(self._on_registration),
        ]

    def stop(self) -> None:
        """Watch no longer."""
        for handle in self._handles:
            handle.remove()

    def _on_registration(self, module: Module, name: str, registered: Any) -> None:  # noqa: ARG002
        if threading.get_ident() != self._thread:
            self._elsewhere.setdefault(id(module), weakref.ref(module))
        else:
            if isinstance(registered, torch.nn.Module):
                self._inner.add(id(registered))
            if id(module) not in self._inner:
                self._latest = module
            for seen in (module, registered):
                if isinstance(seen, torch.nn.Module):
                    self._seen.setdefault(id(seen), weakref.ref(seen))

    def roots(self) -> list[Module]:
        """Return the models: the modules that are still there and lie in no other of them, oldest first."""
        if len(self._outermost()) > 1:  # what nobody holds must not count for as long as it happens to lie there
            self._latest = None
            gc.collect()
        return self._outermost()

    def _outermost(self) -> list[Module]:
        alive = _alive(self._seen)
        inner = {id(child) for module in alive for child in module.modules() if child is not module}
        return [module for module in alive if id(module) not in inner]

    def tensors(self) -> Iterator[Any]:
        """Yield the parameters and buffers of all modules that were seen."""
        for module in _alive(self._seen):
            yield from (tensor for inner in module.modules() for tensor in _own_tensors(inner))

    def made_elsewhere(self) -> frozenset[int]:
        """Return the ids of the tensors of modules that other threads made meanwhile."""
        return frozenset(id(tensor) for module in _alive(self._elsewhere) for tensor in _own_tensors(module))


def _alive(seen: dict[int, weakref.ref[Module]]) -> list[Module]:
    return [module for module in (reference() for reference in seen.values()) if module is not None]


def _own_tensors(module: Module) -> list[Any]:
    held = (*module._parameters.values(), *module._buffers.values())
    return [tensor for tensor in held if tensor is not None and not is_lazy(tensor)]


class Named(NamedTuple):
    """A parameter or buffer of a model, by its first name."""

    name: str
    tensor: Any
    is_saved: bool
    """Whether a checkpoint of the model holds it."""


def refuse_lazy(model: Module) -> None:
    """Refuse a model with a parameter or buffer that has no shape before the first forward pass."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise PlanError(
                f"{name!r} of {type(model).__name__} is lazy: it has no shape before a forward pass; run one "
                "first, with an input of the true shape"
            )


def named_tensors(model: Module) -> Iterator[Named]:
    """Yield each parameter and buffer of a model once; a lazy one has no shape yet and is left out."""
    unsaved = {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules(remove_duplicate=False)
        for name in module._non_persistent_buffers_set
    }
    for name, tensor in model.named_parameters():
        if not is_lazy(tensor):
            yield Named(name, tensor, True)
    for name, tensor in model.named_buffers():
        if not is_lazy(tensor):
            yield Named(name, tensor, name not in unsaved)


def replace_tensors(model: Module, replacement: Callable[[Any], Any]) -> None:
    """Put another parameter or buffer in the place of each, the same one wherever it is shared."""
    made: dict[int, Any] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    made.setdefault(id(tensor), (replacement(tensor), tensor))
                    tensors[name] = made[id(tensor)][0]
