"""The graph behind a value: its nodes in order, and the backward pass over them.

Nothing here recurses, so a graph may be as deep as memory allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..errors import TensorAutodiffError
from .operations import Array, Operation, unbroadcast
from .tensor import first_not_finite, is_finite

if TYPE_CHECKING:
    from .node import Node

Record: TypeAlias = tuple[Operation, tuple["Node | None", ...], tuple[Array, ...], tuple[Any, ...]]
"""How a value was computed: the operation; its inputs, None where no gradient goes; their arrays; the options."""


class GraphRetention(Enum):
    """The fate of a graph after a backward pass."""

    RELEASE = "release"
    """Forget it: its memory is returned, and a second pass over it is refused."""
    RETAIN = "retain"
    """Keep it: a second pass adds the same gradients again."""


def toposort(end: Node) -> list[Node]:
    """Return the tracked nodes that `end` depends on, `end` first, each after everything computed from it.

    Raises
    ------
    TensorAutodiffError
        If a part of the graph was released, or a leaf was given a new value after an operation read it.
    """
    uses = _uses(end)
    order = []
    stack = [end]
    while stack:
        node = stack.pop()
        order.append(node)
        for parent in _parents(node):
            uses[parent] -= 1
            if not uses[parent]:
                stack.append(parent)
    return order


def _uses(end: Node) -> dict[Node, int]:
    """Count how often each node below `end` is an input of another."""
    uses: dict[Node, int] = {}
    stack = [end]
    while stack:
        node = stack.pop()
        uses[node] = uses.get(node, 0) + 1
        if uses[node] == 1:
            stack.extend(_parents(node))
    return uses


def _parents(node: Node) -> list[Node]:
    """Return the tracked inputs of `node`, one of them twice if it was used twice."""
    record = node._record
    if record is None:
        return []
    if isinstance(record, Operation):
        raise TensorAutodiffError(
            f"the graph behind this {record.name!r} was released by an earlier backward pass; compute it again, "
            "or pass GraphRetention.RETAIN to that pass"
        )
    operation, parents, arrays, _ = record
    found = []
    for parent, array in zip(parents, arrays, strict=True):
        if parent is not None:
            if parent._values is not array:
                raise TensorAutodiffError(
                    f"mutated inputs: a leaf of shape {parent._values.shape} was given a new value after "
                    f"{operation.name!r} read it; compute the graph again from the new value"
                )
            found.append(parent)
    return found


def walk_back(end: Node, seed: Array, retention: GraphRetention) -> None:
    """Add the gradients of ``sum(end * seed)`` to the trainable leaves below `end`.

    Every leaf's new gradient is computed before the first is stored, so that a refused pass changes nothing.

    Raises
    ------
    TypeError
        If `retention` is not a `GraphRetention`.
    TensorAutodiffError
        If no trainable leaf is reached, the graph cannot be walked (see `toposort`), or a gradient is not finite.
    """
    if not isinstance(retention, GraphRetention):
        raise TypeError(f"retention must be a GraphRetention, got {retention!r}")
    if not end._tracked:
        raise TensorAutodiffError("this value depends on no trainable leaf; make one with TensorValue.parameter")
    order = toposort(end)
    with np.errstate(all="ignore"):
        accumulated = _accumulated(order, seed)
    for leaf, gradient in accumulated.items():
        leaf._gradient = gradient
    if retention is GraphRetention.RELEASE:
        _release(order)


def _accumulated(order: list[Node], seed: Array) -> dict[Node, Array]:
    """Return the leaves' gradients added to those they had before; all finite."""
    accumulated = {}
    for leaf, found in _sweep(order, seed).items():
        gradient = np.asarray(found if leaf._gradient is None else leaf._gradient + found)
        if not is_finite(gradient):
            _sweep(order, seed, refuse_not_finite=True)
            raise TensorAutodiffError(
                f"the accumulated gradient of a leaf of shape {leaf._values.shape} is not finite"
            )
        accumulated[leaf] = gradient
    return accumulated


def _sweep(order: list[Node], seed: Array, refuse_not_finite: bool = False) -> dict[Node, Array]:
    """Apply the rules from the end back, and return the gradients of the leaves.

    No gradient is ever written to: rules may return the array they were given, and two nodes then share it. With
    `refuse_not_finite` the first rule whose gradient is not finite is an error. Only a pass that failed is swept
    so: to look at every gradient costs as much as to compute it.
    """
    pending = {order[0]: seed}
    leaves = {}
    for node in order:
        gradient = pending.pop(node)
        record = node._record
        if record is None:
            leaves[node] = gradient
            continue
        operation, parents, arrays, options = record  # type: ignore[misc]
        for position, parent in enumerate(parents):
            if parent is None:
                continue
            part = operation.rules[position](gradient, node._values, *arrays, *options)
            if part.shape != arrays[position].shape:
                part = unbroadcast(part, arrays[position].shape)
            if refuse_not_finite:
                _check_finite(part, operation, arrays, position)
            seen = pending.get(parent)
            pending[parent] = part if seen is None else seen + part
    return leaves


def _check_finite(part: Array, operation: Operation, arrays: Sequence[Array], position: int) -> None:
    if not is_finite(part):
        raise TensorAutodiffError(
            f"{operation.name}{of_shapes(arrays)}: the gradient of input {position} is not finite; "
            f"{first_not_finite(part)}"
        )


def _release(order: list[Node]) -> None:
    """Cut every node from its inputs while `order` still holds them all, so that no freeing runs down a chain."""
    for node in order:
        if node._record is not None:
            node._record = node._record[0]  # type: ignore[index]


def of_shapes(arrays: Sequence[Array]) -> str:
    """Return `` of shapes (2,), ()``, for an error message."""
    return f" of shape{'s' if len(arrays) > 1 else ''} {', '.join(str(array.shape) for array in arrays)}"
