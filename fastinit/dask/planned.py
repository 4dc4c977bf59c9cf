"""`arrays`: a plan's tensors as dask arrays."""

from __future__ import annotations

import dask.array as da

from .._engine.threads import as_threads
from ..plan import Plan, PlannedTensor
from .lazy import Chunks, LazyArray, chunked, sizes_of


def arrays(plan: Plan, chunks: Chunks = "auto", *, threads: int | None = 1) -> dict[str, da.Array]:
    """Return every tensor of a plan as a dask array, in the order of the plan; nothing is filled yet.

    Parameters
    ----------
    plan : Plan
        A whole model's starting weights.
    chunks : chunks, default "auto"
        As dask takes them, for every tensor: a size such as ``"64 MiB"``, or -1. A tensor that is made as a whole
        (orthogonal, sparse) is one chunk.
    threads : int or None, default 1
        Threads that fill one chunk.

    Returns
    -------
    dict of str to dask.array.Array
        ``plan.array(name)``, byte for byte. Given data, which no seed makes, is in the graph itself.

    Raises
    ------
    PlanError
        If the plan lacks the data of a given tensor.

    Examples
    --------
    >>> import fastinit
    >>> import fastinit.dask
    >>> plan = fastinit.Plan.from_specs("gpt2-124m", seed=17, policy="gpt2")
    >>> weights = fastinit.dask.arrays(plan)
    >>> weights["transformer.wte.weight"].shape
    (50257, 768)
    >>> name = "transformer.wpe.weight"
    >>> bool((weights[name][::100].compute() == plan.array(name)[::100]).all())
    True
    """
    checked = as_threads(threads)
    return {name: _array(plan, tensor, chunks, checked) for name, tensor in plan.items()}


def _array(plan: Plan, tensor: PlannedTensor, chunks: Chunks, threads: int | None) -> da.Array:
    if tensor.is_given:
        data = plan.array(tensor.name)
        return da.from_array(data, sizes_of(chunks, data.shape, data.dtype))
    facts = tensor.state, tensor.shape, tensor.distribution, tensor.dtype, tensor.initializer
    lazy = LazyArray(*facts, threads)
    return chunked(lazy, chunks if tensor.distribution.by_part else "auto")
