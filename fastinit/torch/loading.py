"""`init_module`: fill the tensors of a model that exists, in place, shard by shard where they are sharded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, SupportsIndex

import torch

from .._engine.checks import as_u64
from .._engine.fill import fill
from .._engine.parts import Index
from ..errors import DistributionError, PlanError
from ..plan import Plan, PlannedTensor
from .modules import Module, Named, named_tensors, refuse_lazy, replace_tensors
from .recording import Recording, planned_dtype
from .targets import refuse_unwritable, writing

Shards = Iterator[tuple[Any, Index | None]]


def init_module(
    model: Module,
    plan: Plan | Recording | str | Any,
    seed: SupportsIndex | None = None,
    *,
    device: Any = "cpu",
) -> Module:
    """Start the parameters of a model that exists, in place.

    Parameters
    ----------
    model : torch.nn.Module
        Tensors on the meta device get memory first; shared ones stay shared. Of a sharded tensor (DTensor: FSDP2,
        tensor parallelism) the own shard is filled, without communication: every rank calls this alike.
    plan : Plan, Recording, or policy
        What each tensor is; a policy (its name, rules or a callable) plans the model's own tensors.
    seed : int, optional
        0 to 2**64 - 1; needed with a recording or a policy, where a plan has its own.
    device : device, default "cpu"
        Where tensors that are on the meta device get memory.

    Returns
    -------
    torch.nn.Module
        The model itself.

    Raises
    ------
    PlanError
        If the plan lacks a parameter of the model, or a buffer that has no values; if it has a tensor that the
        model lacks, or one of another shape; if it has no data of a given tensor; if a tensor of the model is
        lazy. Nothing was written then.
    DistributionError
        If weights of the plan do not fit a tensor's own dtype.
    TypeError, RuntimeError
        If `model` is none, if no seed is given with a policy or a recording, or if a tensor cannot be written:
        `writing` says which.

    Notes
    -----
    Nothing is written, and no tensor gets memory, where one of these errors is raised. A tensor keeps its dtype:
    bfloat16 weights are the planned ones rounded. Buffers that the plan does not name keep their values.

    Examples
    --------
    >>> import torch
    >>> import fastinit.torch
    >>> with fastinit.torch.record() as recording:
    ...     recorded = torch.nn.Linear(3, 2)
    >>> with torch.device("meta"):
    ...     model = torch.nn.Linear(3, 2)
    >>> fastinit.torch.init_module(model, recording, seed=17).weight.shape
    torch.Size([2, 3])
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"model must be a torch.nn.Module, got {type(model).__name__}; `fastinit init` writes files"
        )
    refuse_lazy(model)
    chosen = _plan_of(model, plan, seed)
    tables = plan.tables() if isinstance(plan, Recording) else {}
    held = {entry.name: entry for entry in named_tensors(model)}
    _check(chosen, tables, held, _names(model))
    for name, entry in held.items():
        if name in chosen:
            _check_writable(entry.tensor, chosen[name])
    for name in chosen.missing:
        chosen.array(name)  # says what to read it from
    replace_tensors(model, lambda tensor: _with_memory(tensor, device))
    for entry in named_tensors(model):
        if entry.name in chosen:
            _start(entry.tensor, chosen[entry.name], chosen)
        elif entry.name in tables:
            _copy(entry.tensor, tables[entry.name])
    return model


def _plan_of(model: Module, plan: Any, seed: SupportsIndex | None) -> Plan:
    if isinstance(plan, Plan):
        if seed is not None and as_u64(seed, "seed") != plan.seed:
            raise PlanError(f"the plan has seed {plan.seed}, and seed={seed} was given; leave it out")
        return plan
    if seed is None:
        raise TypeError("seed must be given with a policy or a recording; a Plan has its own")
    if isinstance(plan, Recording):
        return plan.plan(seed)
    return Plan.from_specs(_specs(model), seed, plan)


def _specs(model: Module) -> dict[str, Any]:
    """Return what a policy plans: the parameters, and the buffers that have no values yet."""
    return {
        entry.name: {"dtype": planned_dtype(entry.tensor).tag, "shape": list(entry.tensor.shape)}
        for entry in named_tensors(model)
        if isinstance(entry.tensor, torch.nn.Parameter) or entry.tensor.is_meta
    }


def _names(model: Module) -> set[str]:
    """Return every name of every tensor: a shared one has several."""
    return {name for name, _ in model.named_parameters(remove_duplicate=False)} | {
        name for name, _ in model.named_buffers(remove_duplicate=False)
    }


def _check(plan: Plan, tables: dict[str, Any], held: dict[str, Named], names: set[str]) -> None:
    """Refuse a plan that is not one of the model's tensors, before anything is written."""
    missing = [
        name
        for name, entry in held.items()
        if name not in plan and name not in tables and _needs_values(entry.tensor)
    ]
    if missing:
        raise PlanError(
            f"the plan lacks {_listed(missing)} of the model; a policy or a recording of the model plans all of it"
        )
    unknown = [name for name in plan if name not in names]
    if unknown:
        raise PlanError(f"the model has no {_listed(unknown)}, which the plan has")
    for name, entry in held.items():
        shape = tuple(entry.tensor.shape)
        if name in plan and shape != plan[name].shape:
            raise PlanError(f"tensor {name!r} has shape {shape} in the model and {plan[name].shape} in the plan")


def _check_writable(tensor: Any, planned: PlannedTensor) -> None:
    """Raise now what writing the tensor would raise, when others might be written already."""
    for local in (local for local, _ in shards(tensor) if local.numel() and not planned.is_given):
        try:
            planned.distribution.prepare(refuse_unwritable(local))
        except (DistributionError, TypeError, RuntimeError) as error:
            raise type(error)(f"tensor {planned.name!r}: {error}") from error


def _needs_values(tensor: Any) -> bool:
    return isinstance(tensor, torch.nn.Parameter) or bool(tensor.is_meta)


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return (
        f"{len(names)} tensors ({shown}{', ...' if len(names) > 5 else ''})" if len(names) > 1 else repr(names[0])
    )


def _with_memory(tensor: Any, device: Any) -> Any:
    """Return a tensor of the meta device with memory, as it was otherwise; another is returned itself."""
    if not tensor.is_meta:
        return tensor
    made = torch.empty_like(tensor, device=device)
    if isinstance(tensor, torch.nn.Parameter):
        made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    for name, value in tensor.__dict__.items():
        made.__dict__.setdefault(name, value)
    return made


def _start(tensor: Any, planned: PlannedTensor, plan: Plan) -> None:
    if planned.is_given:
        _copy(tensor, _as_tensor(plan.array(planned.name)))
        return
    for local, index in shards(tensor):
        if local.numel():
            with torch.no_grad(), writing(local) as (array, dtype):
                fill(planned.state, planned.shape, planned.distribution, dtype, array, index)


def _copy(tensor: Any, data: Any) -> None:
    for local, index in shards(tensor):
        part = data if index is None else data[index]
        with torch.no_grad():
            local.copy_(part.view(local.dtype) if _holds_bits(part, local) else part)


def _as_tensor(array: Any) -> Any:
    """Return a copy of an array as a tensor; as unsigned integers where torch does not know numpy's dtype."""
    plain = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}")
    return torch.from_numpy(plain.copy())


def _holds_bits(data: Any, target: Any) -> bool:
    """Say whether data stands in unsigned integers because numpy lacks the target's dtype."""
    is_bits = data.dtype in (torch.uint8, torch.uint16) and data.dtype != target.dtype
    return is_bits and data.itemsize == target.itemsize and bool(target.is_floating_point())


def shards(tensor: Any) -> Shards:
    """Yield the pieces of a tensor that this process holds, and which part of the whole each is."""
    if not hasattr(tensor, "placements"):
        yield tensor.detach(), None
        return
    local = tensor.detach().to_local()
    if any(placement.is_partial() for placement in tensor.placements):
        raise PlanError(
            f"a DTensor of placements {tensor.placements} holds sums that are not finished; redistribute it first"
        )
    chunks = tensor.__create_chunk_list__()
    if len(chunks) == 1 and tuple(chunks[0].sizes) == tuple(local.shape):
        yield local, _index(chunks[0])
        return
    raise PlanError(
        f"a DTensor of placements {tensor.placements} has a local tensor of shape {tuple(local.shape)}, which is "
        "not one part of the whole; redistribute it to Shard or Replicate"
    )


def _index(chunk: Any) -> tuple[slice, ...]:
    return tuple(slice(start, start + size) for start, size in zip(chunk.offsets, chunk.sizes, strict=True))
