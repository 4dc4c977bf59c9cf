"""Whole trees of weights: a plan by the paths of a tree's leaves, and each leaf made where it lies."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, SupportsIndex

import jax
from jax.sharding import PartitionSpec, Sharding

from .._engine.names import refuse_duplicates
from ..errors import PlanError
from ..plan import Plan, PlannedTensor
from ..policies.deciding import PolicyLike
from .arrays import Contents, Place, check_stored, made


def init_tree(tree: Any, seed: SupportsIndex, policy: PolicyLike = "xavier", *, shardings: Any = None) -> Any:
    """Return the tree with weights in place of its arrays, each shard made where it lies.

    Parameters
    ----------
    tree : pytree
        What `jax.eval_shape`, `flax.nnx.eval_shape` or `equinox.filter_eval_shape` return, a `flax.nnx.State`, or
        a tree of arrays, whose values do not matter. A leaf's name is its path with dots (`named_leaves`).
    seed : int
        0 to 2**64 - 1.
    policy : str, path, rules or callable, default "xavier"
        What each leaf gets, by its name: as in `fastinit.Plan.from_specs`.
    shardings : pytree of Sharding, PartitionSpec or None, optional
        As `jax.jit` takes `out_shardings`: one for all, or a tree (also one of prefixes). By default a leaf lies
        where its own `sharding` says.

    Returns
    -------
    pytree
        The same tree of jax.Array. What is no weight stays as it is: functions, numbers, and the random keys of
        Flax, which ``nnx.reseed(model, default=0)`` renews.

    Raises
    ------
    PlanError
        For leaves that the policy refuses, all at once; for one that it leaves out and that has no values yet.
    TypeError
        For a dtype that JAX would replace by another, such as float64 without 64 bits.

    Notes
    -----
    *Reproducibility.* A leaf has the weights of (seed, name, index): on one device or eight, for every sharding,
    in and out of `jax.jit`, and as ``plan.array(name)`` of a plan of `named_leaves` makes them.

    Under a trace nothing is drawn before the compiled code runs, and under `jax.eval_shape` nothing at all.

    Examples
    --------
    >>> import jax
    >>> import fastinit.jax
    >>> params = {"Dense_0": {"kernel": jax.ShapeDtypeStruct((2, 3), "float32")}}
    >>> params = fastinit.jax.init_tree(params, seed=17)
    >>> params["Dense_0"]["kernel"].shape
    (2, 3)
    """
    if _is_module(tree):
        flax = sys.modules["flax.nnx"]
        graph, state = flax.split(tree)
        return flax.merge(graph, init_tree(state, seed, policy, shardings=shardings))
    leaves, shape = jax.tree_util.tree_flatten(tree)
    places = _places(tree, shardings, len(leaves))
    named = {found.name: found for found in _weights(tree)}
    plan = Plan.from_specs({name: found.leaf for name, found in named.items()}, seed, policy)
    _check(plan, named.values())
    for planned in plan.values():
        at = named[planned.name].at
        leaves[at] = _made(planned, _place(leaves[at]) if shardings is None else places[at])
    return jax.tree_util.tree_unflatten(shape, leaves)


def named_leaves(tree: Any) -> dict[str, Any]:
    """Return the leaves of a tree that have a shape and a dtype, by the names that `init_tree` gives them.

    `fastinit.Plan.from_specs` takes it: a tree becomes a table, a checkpoint, or a plan for other machines.

    Examples
    --------
    >>> import jax
    >>> import fastinit, fastinit.jax
    >>> params = {"layers": [{"kernel": jax.ShapeDtypeStruct((2, 3), "float32")}]}
    >>> plan = fastinit.Plan.from_specs(fastinit.jax.named_leaves(params), seed=17)
    >>> plan.array("layers.0.kernel").shape
    (2, 3)
    """
    return {found.name: found.leaf for found in _weights(tree)}


class _Found(NamedTuple):
    """A leaf that is to be a weight: its name, and its number among all leaves."""

    name: str
    at: int
    leaf: Any


def _weights(tree: Any) -> list[_Found]:
    found = [each for each in _walked(tree) if hasattr(each.leaf, "shape") and hasattr(each.leaf, "dtype")]
    refuse_duplicates(each.name for each in found)
    for each in found:
        if jax.dtypes.issubdtype(each.leaf.dtype, jax.dtypes.extended):
            raise PlanError(
                f"leaf {each.name!r} is a random key of JAX, which is no weight; take it out of the tree, as "
                "nnx.split(model, nnx.Param, ...) does"
            )
    return found


def _walked(tree: Any) -> Iterator[_Found]:
    """Yield all leaves but random states of Flax; what a box of Flax holds has the name of the box."""
    boxes, states = (
        _flax("flax.nnx", "Variable") + _flax("flax.core.meta", "AxisMetadata"),
        _flax("flax.nnx", "RngState"),
    )
    outer = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda node: isinstance(node, boxes))[0]
    at = 0
    for path, node in outer:
        inner = jax.tree_util.tree_flatten_with_path(node)[0]
        for below, leaf in inner:
            if not isinstance(node, states):
                yield _Found(_dotted(path if len(inner) == 1 else path + below), at, leaf)
            at += 1


def _flax(module: str, name: str) -> tuple[type, ...]:
    """Return a class of Flax; nothing where Flax was not imported, for then no tree holds one."""
    return (getattr(sys.modules[module], name),) if module in sys.modules else ()


def _is_module(tree: Any) -> bool:
    """Say whether a tree is a module of Flax, whose shared parameters a tree would tear apart."""
    return isinstance(tree, _flax("flax.nnx", "Module"))


def _dotted(path: tuple[Any, ...]) -> str:
    return str(jax.tree_util.keystr(path, simple=True, separator="."))


def _places(tree: Any, shardings: Any, count: int) -> list[Place]:
    """Return where each leaf lies; a place of a tree of prefixes is that of all leaves below."""

    def is_place(node: Any) -> bool:
        return node is None or isinstance(node, Sharding | PartitionSpec)

    if is_place(shardings):
        return [shardings] * count
    spread = jax.tree.broadcast(shardings, tree, is_leaf=is_place)
    return list(jax.tree_util.tree_leaves(spread, is_leaf=is_place))


def _place(leaf: Any) -> Place:
    """Return where a leaf says that it lies."""
    return None if isinstance(leaf, jax.core.Tracer) else getattr(leaf, "sharding", None)


def _check(plan: Plan, found: Iterable[_Found]) -> None:
    """Refuse what cannot be made, before anything is."""
    for name, leaf in ((each.name, each.leaf) for each in found if each.name not in plan):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise PlanError(
                f"the policy leaves out {name!r}, which has no values yet; give it a rule, or take it away"
            )
    for planned in plan.values():
        try:
            check_stored(planned.dtype)
        except TypeError as error:
            raise TypeError(f"leaf {planned.name!r}: {error}") from None


def _made(planned: PlannedTensor, place: Place) -> jax.Array:
    return made(Contents(planned.state, planned.shape, planned.distribution, planned.dtype), place)
