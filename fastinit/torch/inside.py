"""Functions of torch.nn.init that draw again, factorize or loop: noted by what they promise, not step by step.

A call from inside one of them is known by its code object, so a function that was imported by name long before is
known too. Its first draw (or fill) says what its tensor will hold; the rest of it is answered without any work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from .._engine.axes import SPATIAL
from .._engine.initializer import Distribution
from ..errors import FastinitError
from ..initializers import Dirac, Orthogonal, Sparse, TruncatedNormal

Locals = Mapping[str, Any]


def _truncated(given: Locals) -> Distribution:
    mean, std = given["mean"], given["std"]
    return TruncatedNormal(mean, std, (given["a"] - mean) / std, (given["b"] - mean) / std)


def _orthogonal(given: Locals) -> Distribution:
    shape = tuple(given["tensor"].shape)
    return Orthogonal(float(given["gain"])).for_shape(shape, _layout(shape))


def _sparse(given: Locals) -> Distribution:
    return Sparse(given["sparsity"], given["std"]).for_shape(tuple(given["tensor"].shape))


def _dirac(given: Locals) -> Distribution:
    shape = tuple(given["tensor"].shape)
    return Dirac().for_shape(shape, _layout(shape), given["groups"])


def _layout(shape: tuple[int, ...]) -> str:
    return "oi" + SPATIAL[: len(shape) - 2]


_PROMISES: dict[str, tuple[str, Callable[[Locals], Distribution]]] = {
    "_no_grad_trunc_normal_": ("normal_ uniform_", _truncated),
    "orthogonal_": ("normal_", _orthogonal),
    "sparse_": ("normal_", _sparse),
    "dirac_": ("zero_", _dirac),
}
"""A function's name in torch.nn.init; its first write; what it promises, from its local names."""

INSIDE = {
    getattr(torch.nn.init, name).__code__: promise
    for name, promise in _PROMISES.items()
    if hasattr(getattr(torch.nn.init, name, None), "__code__")
}


def promised(code: Any, given: Locals, operation: str) -> Distribution | None:
    """Return what a function promises, asked at its first write; None where it is another, or promises nothing."""
    first, promise = INSIDE[code]
    if operation not in first.split() or given.get("generator") is not None:
        return None
    try:
        return promise(given)
    except (FastinitError, TypeError, ValueError, ArithmeticError):
        return None


def answered(func: Any, args: tuple[Any, ...]) -> Any:
    """Answer an operation after the first one: nothing is left to do. NotImplemented: it may run."""
    name = func._schema.name.removeprefix("aten::")
    if torch.Tag.inplace_view in func.tags or not isinstance(args[0], torch.Tensor):
        return NotImplemented
    if name == "linalg_qr":
        return func(torch.empty_like(args[0], device="meta"))
    if name.endswith("_"):
        return args[0]
    if name == "_local_scalar_dense" and args[0].dtype == torch.bool:  # "is any weight out of bounds?"
        return False
    is_mask = torch.Tag.pointwise in func.tags and args[0].dtype != torch.bool and name in ("lt", "gt")
    if is_mask or args[0].dtype == torch.bool:
        return torch.zeros((), dtype=torch.bool)
    return NotImplemented
