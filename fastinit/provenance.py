"""Where a plan comes from: whether its seed, policy and order make it again, and whether it is the one demanded.

A file can hold any plan and call its seed 17. So bytes that follow from the plan in a file say nothing about that
seed until the plan itself is shown to follow from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import SupportsIndex

from . import _core
from ._engine.streams import stream_state
from ._files.json_text import cut_short
from ._files.specs import TensorSpec
from .errors import FastinitError, PlanError
from .plan import Plan, PlannedTensor
from .policies import as_policy

_LABELS = ("seed", "policy", "order")


def specs_of_plan(plan: Plan) -> dict[str, TensorSpec]:
    """Return the dtype and shape of every tensor of a plan."""
    return {name: TensorSpec(tensor.dtype, tensor.shape) for name, tensor in plan.items()}


def follows(plan: Plan) -> bool:
    """Say whether seed, policy and order are all it takes to make this plan again from its specs."""
    if plan.is_from_specs:
        return True
    try:
        return Plan.from_specs(specs_of_plan(plan), plan.seed, plan.policy, order=plan.order) == plan
    except FastinitError:
        return False


def is_seeded(plan: Plan) -> bool:
    """Say whether each tensor that draws has the stream that the plan's seed and order give it.

    No more can be said of a plan that a model's code made, or a user's rules: its policy is no name of one here.
    """
    if plan.order == "sequential":
        shared = itertools.accumulate((t.draws for t in plan.values()), _core.advance, initial=plan.seed)
        return all(t.state == state for t, state in zip(plan.values(), shared, strict=False) if t.draws)
    return any(
        all(t.state == stream_state(plan.seed, prefix + t.name) for t in plan.values() if t.draws)
        for prefix in _PREFIXES
    )


_PREFIXES = ("", *(f"{number}/" for number in range(1, 16)))
"""Of the streams of models that were recorded together."""


def departures(
    plan: Plan, wanted: Plan | None = None, seed: SupportsIndex | None = None, policy: str | None = None
) -> tuple[str, ...]:
    """Return in sentences how a plan departs from what is demanded of it; empty where it does not.

    Parameters
    ----------
    plan : Plan
        The one to judge.
    wanted : Plan, optional
        The one that it should be.
    seed, policy : int and str, optional
        What should make it; the one that is not given, and the order, are the plan's own.

    Raises
    ------
    TypeError, ValueError
        If `wanted` is no Plan, if it is given beside a seed or policy, or if the seed is none.
    PlanError
        If there is no such policy.
    """
    _check(wanted, seed, policy)
    if wanted is not None:
        return tuple(_departures(plan, wanted, "the plan demanded"))
    if seed is None and policy is None:
        return ()
    if policy is not None:
        as_policy(policy)  # a misspelt policy is a wrong question, not a wrong file
    seed, policy = plan.seed if seed is None else seed, plan.policy if policy is None else policy
    source = f"seed {seed}, policy {policy!r}, order {plan.order!r}"
    try:
        wanted = Plan.from_specs(specs_of_plan(plan), seed, policy, order=plan.order)
    except PlanError as error:
        return (f"{source} make no plan of its tensors: {cut_short(str(error))}",)
    return tuple(_departures(plan, wanted, source))


def _check(wanted: object, seed: object, policy: object) -> None:
    if not isinstance(wanted, Plan | None):
        raise TypeError(
            f"plan must be a fastinit.Plan, got {type(wanted).__name__}; "
            "fastinit.Plan.from_json(text) makes one of what `fastinit show --json` printed"
        )
    if wanted is not None and not (seed is None and policy is None):
        raise ValueError("a plan already says seed and policy; leave out the seed and the policy")


def _departures(plan: Plan, wanted: Plan, source: str) -> Iterator[str]:
    labels = [label for label in _LABELS if getattr(plan, label) != getattr(wanted, label)]
    for label in labels:
        yield f"its {label} is {getattr(plan, label)!r}; {getattr(wanted, label)!r} was demanded"
    missing = [name for name in wanted if name not in plan]
    unknown = [name for name in plan if name not in wanted]
    other = [name for name in plan if name in wanted and plan[name] != wanted[name]]
    if missing:
        yield f"it lacks {_counted(missing)} of {source}"
    if unknown:
        yield f"it has {_counted(unknown)} that {source} does not have"
    if other and not labels:  # under another seed every tensor is another
        first = other[0]
        yield (
            f"{source} does not make {_counted(other)} so: "
            f"{first!r} is {_described(plan[first])}, and should be {_described(wanted[first])}"
        )


def _counted(names: list[str]) -> str:
    more = len(names) - 1
    return f"tensor {names[0]!r}" + (f" and {more:,} more" if more else "")


def _described(tensor: PlannedTensor) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    return f"{tensor.initializer!r} {tensor.describe()} ({shape}, {tensor.dtype.name}, state {tensor.state:#x})"
