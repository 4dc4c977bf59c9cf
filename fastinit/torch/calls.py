"""An operation of torch and its arguments: what it reads, what it writes, whether it only looks at memory."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from .contents import Tensor


class Call(NamedTuple):
    """An operation of torch and its arguments."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        """Torch's name of it."""
        return str(self.func.name()).removeprefix("aten::").partition(".")[0]

    def run(self) -> Any:
        """Let torch do it."""
        return self.func(*self.args, **self.kwargs)

    def given(self, position: int, argument: Any) -> Any:
        """Return an argument by its place or name, or its default."""
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(argument.name, argument.default_value)

    def numbers(self, *defaults: tuple[str, float]) -> list[float]:
        """Return the arguments after the first as floats, with their names and defaults."""
        return [
            float(self.args[place] if len(self.args) > place else self.kwargs.get(name, default))
            for place, (name, default) in enumerate(defaults, 1)
        ]


@cache
def is_view(func: Any) -> bool:
    """Say whether an operation only looks at memory in another way, or changes a tensor's shape and strides."""
    schema = func._schema
    if torch.Tag.inplace_view in func.tags:
        return schema.name not in ("aten::resize_", "aten::resize_as_")
    views = [returned.alias_info is not None and not returned.alias_info.is_write for returned in schema.returns]
    return bool(views) and all(views)


def written_by(call: Call) -> list[Tensor]:
    """Return the tensors that an operation writes into."""
    if not call.func._schema.is_mutable:
        return []
    return tensors_in(
        [
            call.given(position, argument)
            for position, argument in enumerate(call.func._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
    )


def tensors_in(given: Any) -> list[Tensor]:
    """Return the tensors in arguments or results of any nesting."""
    return [leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]


def version_of(tensor: Tensor) -> int:
    """Return how often a tensor was written; 0 of an inference tensor, where torch does not count."""
    return 0 if tensor.is_inference() else int(tensor._version)
