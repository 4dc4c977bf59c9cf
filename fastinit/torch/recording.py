"""`Recording`: what the code of a model does to each of its tensors, as a table and as a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, SupportsIndex

import numpy as np
import torch

from .._engine.checks import as_u64
from .._engine.cpus import default_threads
from .._engine.dtypes import DType, named_dtype
from .._engine.given import Given, digest_of
from .._engine.streams import stream_state
from .._engine.threads import in_order
from ..errors import PlanError
from ..plan import Plan, PlannedTensor
from ..views.table import Table, counted, notebook
from .modules import Module, named_tensors, refuse_lazy
from .pages import advise_huge_pages
from .recorder import Recorder, address_of, is_noted, write_drawn
from .resolved import Resolved, resolve
from .targets import holds_others

POLICY = "recorded"
"""What a plan calls the rules that it came from."""


class Recording:
    """What was recorded of the models that were built inside a `record` block.

    Attributes
    ----------
    models : list of torch.nn.Module
        The models, in the order in which their building began; those without draws of their own come last (a loss
        with class weights, a part of another model).
    """

    def __init__(self) -> None:
        self.models: list[Module] = []
        self._started = 0
        self._tensors: list[list[Resolved]] = []
        self._seed = 0
        self._is_read = False

    def finish(self, recorder: Recorder, models: list[Module]) -> None:
        """Decide what every tensor is, once the models are built."""
        self.models, self._started = drawn_first(recorder, models)
        self._seed, self._is_read = recorder.seed, bool(recorder.pinned)
        entries = [list(named_tensors(model)) for model in self.models]
        named = [(entry, _qualified(number, entry.name)) for number, held in enumerate(entries) for entry in held]
        resolved = iter(resolve(recorder, named))
        self._tensors = [[next(resolved) for _ in held] for held in entries]

    @property
    def computed(self) -> dict[str, tuple[str, ...]]:
        """The tensors that depend on draws, but through operations that no plan expresses: name -> torch's names.

        They were computed for real; the plan gives them as data.
        """
        return {
            _qualified(number, tensor.name): tensor.operations
            for number, tensors in enumerate(self._tensors)
            for tensor in tensors
            if tensor.is_computed
        }

    def plan(self, seed: SupportsIndex, model: Module | None = None) -> Plan:
        """Return the plan of a recorded model.

        Parameters
        ----------
        seed : int
            0 to 2**64 - 1.
        model : torch.nn.Module, optional
            Which of `models`; needed where several are drawn.

        Returns
        -------
        Plan
            Every tensor that a checkpoint of the model holds: a drawn one with the stream of its name, a table or
            a mask as given data. Where several models were built, the names of the second one's streams begin with
            ``1/``, and so on, so that no two models hold the same numbers.

        Raises
        ------
        PlanError
            If there is no such model, if one of its tensors lies on the meta device and no code said what it is,
            if one is lazy and has no shape yet, or if tensors were computed from draws of another seed.
        """
        checked = as_u64(seed, "seed")
        given: dict[str, Any] = {}
        number = self._number(model)
        refuse_lazy(self.models[number])
        chosen = [tensor for tensor in self._tensors[number] if tensor.is_saved]
        self._check_seed(checked, chosen)
        names = {tensor.name for tensor in chosen}
        planned = [_planned(tensor, checked, names, given) for tensor in chosen]
        return Plan(checked, POLICY, "named", planned, given)

    def tables(self, model: Module | None = None) -> dict[str, Any]:
        """Return the data of the buffers that no checkpoint holds: name -> tensor."""
        chosen = self._tensors[self._number(model)]
        return {
            tensor.name: tensor.data() for tensor in chosen if not tensor.is_saved and tensor.distribution is None
        }

    def _check_seed(self, seed: int, chosen: list[Resolved]) -> None:
        """Refuse to give data that was computed from draws of one seed to a plan of another."""
        computed = [tensor.name for tensor in chosen if tensor.is_computed]
        if computed and seed != self._seed:
            raise PlanError(
                f"{counted(len(computed), 'tensor')} ({computed[0]!r} the first) were computed from draws of seed "
                f"{self._seed}, as no plan expresses them; for a plan of seed {seed} use record(seed={seed})"
            )
        if self._is_read and seed != self._seed:
            raise PlanError(
                f"the code read weights of seed {self._seed} as numbers, which may have decided others; for a "
                f"plan of seed {seed} use record(seed={seed})"
            )

    def _number(self, model: Module | None) -> int:
        if model is None and 1 in (len(self.models), self._started):
            return 0
        for number, known in enumerate(self.models):
            if known is model:
                return number
        kinds = ", ".join(type(known).__name__ for known in self.models) or "none"
        advice = (
            "say which with model=" if self.models else "build it in the block, or name it: record(model=model)"
        )
        raise PlanError(f"a plan is of one recorded model; recorded: {kinds}; {advice}")

    def fill(self, recorder: Recorder) -> None:
        """Fill what was only noted: every tensor that a distribution describes, from the stream of its name."""
        chosen = [tensor.tensor for tensor in self._all() if tensor.distribution is not None]
        recorder.settle_all(chosen)
        advise_huge_pages(chosen)
        drawn = [tensor for tensor in self._all() if tensor.distribution is not None and not tensor.tensor.is_meta]
        apart, whole = _apart(drawn)

        def fill(tensor: Resolved, threads: int | None = None) -> None:
            assert tensor.distribution is not None
            write_drawn(
                tensor.tensor, tensor.distribution, stream_state(recorder.seed, tensor.stream), threads=threads
            )

        for tensor in whole:
            fill(tensor)
        for _ in in_order(partial(fill, threads=1), apart, count=default_threads()):
            pass

    def _all(self) -> Iterator[Resolved]:
        return (tensor for tensors in self._tensors for tensor in tensors)

    def table(self) -> Table:
        """Return what every tensor is, and where in whose code that was decided, a row each."""
        rows = [
            _row(_qualified(number, tensor.name), tensor)
            for number, tensors in enumerate(self._tensors)
            for tensor in tensors
        ]
        return Table(str(self), ("name", "shape", "dtype", "is", "parameters", "decided at"), tuple(rows))

    def _repr_html_(self) -> str:
        return notebook([self.table()])

    def __str__(self) -> str:
        tensors = sum(map(len, self._tensors))
        return (
            f"{counted(len(self.models), 'model')}, {counted(tensors, 'tensor')}, "
            f"{len(self.computed)} computed from draws"
        )

    def __repr__(self) -> str:
        return f"<Recording: {self}>"


_LARGE = 1 << 24
"""Weights of a tensor that is worth all threads; smaller ones are filled side by side, a thread each."""


def _apart(drawn: list[Resolved]) -> tuple[list[Resolved], list[Resolved]]:
    """Return the tensors to be filled side by side, large ones first so that none is last alone, and the others.

    Threads that fault in one tensor together wait for each other at its pages, and all for the last of them. What
    shares memory is filled in its order, and what a mode of this thread watches (the block around this one) on it.
    """
    if torch._C._len_torch_dispatch_stack():
        return [], drawn
    held = Counter(address_of(tensor.tensor) for tensor in drawn)
    alone = [
        tensor
        for tensor in drawn
        if held[address_of(tensor.tensor)] == 1
        and tensor.tensor.device.type == "cpu"
        and tensor.tensor.numel() < _LARGE
    ]
    chosen = set(map(id, alone))
    return sorted(alone, key=lambda each: -each.tensor.numel()), [t for t in drawn if id(t) not in chosen]


def drawn_first(recorder: Recorder, models: list[Module]) -> tuple[list[Module], int]:
    """Return the models, and how many come first: those with draws of which no other model has all.

    Only these are numbered, so that what stands beside a model cannot change its streams.
    """
    if len(models) < 2:
        return models, len(models)
    drawn = [
        {address_of(entry.tensor) for entry in named_tensors(model) if recorder.is_drawn(entry.tensor)}
        for model in models
    ]
    holders: dict[int, list[int]] = {}
    for number, addresses in enumerate(drawn):
        for address in addresses:
            holders.setdefault(address, []).append(number)

    def is_covered(number: int) -> bool:
        others = holders[next(iter(drawn[number]))] if drawn[number] else []
        return not drawn[number] or any(
            drawn[number] < drawn[other] or (drawn[number] == drawn[other] and other < number) for other in others
        )

    first = [model for number, model in enumerate(models) if not is_covered(number)]
    return first + [model for number, model in enumerate(models) if is_covered(number)], len(first)


def _qualified(number: int, name: str) -> str:
    return f"{number}/{name}" if number else name


def _row(name: str, tensor: Resolved) -> tuple[str, ...]:
    kind, parameters = "given", " ".join(tensor.operations)
    if tensor.distribution is not None:
        kind, parameters = tensor.distribution.name, tensor.distribution.describe()
    elif tensor.is_computed:
        kind = "computed"
    if tensor.copy_of:
        kind = f"copy of {tensor.copy_of}"
    shape = "x".join(map(str, tensor.tensor.shape)) or "scalar"
    dtype = str(tensor.tensor.dtype).removeprefix("torch.")
    return name, shape, dtype, kind, parameters, "; ".join(tensor.where)


def _planned(tensor: Resolved, seed: int, names: set[str], given: dict[str, Any]) -> PlannedTensor:
    """Return what a plan says of a tensor; put data that its code computed into `given`."""
    dtype, shape = planned_dtype(tensor.tensor), tuple(tensor.tensor.shape)
    distribution, initializer = tensor.distribution, "given"
    if distribution is None:
        _check_data(tensor)
        given[tensor.name] = as_array(tensor.data())
        distribution = Given(digest_of(given[tensor.name]))
    else:
        initializer = distribution.name
    copy_of = tensor.copy_of if tensor.copy_of in names and distribution.draws_per_weight else ""
    state = stream_state(seed, tensor.stream)
    return PlannedTensor(tensor.name, shape, dtype, initializer, distribution, state, copy_of)


def _check_data(tensor: Resolved) -> None:
    """Refuse to give data that no file of weights can hold."""
    held = tensor.tensor
    if held.is_meta:
        raise PlanError(
            f"tensor {tensor.name!r} lies on the meta device, where the data that its code computes is lost; "
            "record the model on the CPU: tensors that are drawn take no memory there"
        )
    if holds_others(held):
        raise PlanError(
            f"tensor {tensor.name!r} is a {type(held).__name__}, which keeps its values in other tensors; record "
            "the model before it is sharded or converted, and start that one with init_module"
        )
    if not is_noted(held):
        raise PlanError(
            f"tensor {tensor.name!r} has the layout {held.layout}, which no file of weights holds; record the "
            "model before it is converted"
        )


def planned_dtype(tensor: Any) -> DType:
    """Return the dtype that a plan and a file call a torch dtype."""
    found = named_dtype(tensor.dtype)
    if found is None:
        raise PlanError(f"safetensors has no dtype for {tensor.dtype}; convert the tensor, or do not save it")
    return found


def as_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a copy of a tensor's data; as unsigned integers where numpy lacks its dtype."""
    held = tensor.detach().cpu().contiguous().clone()
    try:
        array: np.ndarray[Any, Any] = held.numpy()
    except TypeError:
        bits = {1: torch.uint8, 2: torch.uint16}[held.itemsize]
        array = held.view(bits).numpy()
    return array
