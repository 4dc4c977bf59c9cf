"""The dispatch mode that watches a model being built: draws and fills are written down, and not made.

Every operation of torch passes through `Recorder`. One that a content describes is noted and skipped; any other
runs for real, after the tensors that it reads have been given real values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from .._engine.boxes import Box, whole_box
from .._engine.fill import fill
from .._engine.initializer import Distribution
from .._engine.streams import stream_state
from ..errors import InitializationError
from .contents import Computed, Content, Draw, Drawn, Fixed, Tensor, Unwritten, mixed
from .histories import History, Write
from .inside import INSIDE, answered, promised
from .regions import Region, box_in, region_of
from .targets import stored_dtype, writing

_QUIET = ("torch", "fastinit", "copy")
_SHIMS = ("transformers.initialization", "timm.layers.weight_init", "timm.models.layers.weight_init")


class Call(NamedTuple):
    """An operation of torch and its arguments."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        """Torch's name of it."""
        return str(self.func._schema.name).removeprefix("aten::")

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


Rule = Callable[["Recorder", Call], Any]

_RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register how operations of these names are noted; a rule returns NotImplemented where they must run."""

    def register(noted: Rule) -> Rule:
        _RULES.update({f"aten::{name}": noted for name in names})
        return noted

    return register


class Kept(NamedTuple):
    """A storage's history, and a weak reference that keeps its address from being given to another."""

    reference: StorageWeakRef
    history: History


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch has no types here
    """Notes what a model's code writes into its tensors.

    Parameters
    ----------
    seed : int
        Of the values of those tensors that are made for real.
    is_eager : bool
        Whether every draw is made at once, in the order of the calls.
    """

    def __init__(self, seed: int, *, is_eager: bool = False) -> None:
        super().__init__()
        self.seed = seed
        self.is_eager = is_eager
        self._kept: dict[int, Kept] = {}
        self._draws = 0
        self._random_state: Tensor = None
        self._noted_frame: Any = None

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Note an operation, or run it."""
        kwargs = kwargs or {}
        if not all(issubclass(kind, torch.nn.Parameter) or kind is torch.Tensor for kind in types):
            return func(*args, **kwargs)
        caller = _caller()
        if caller is not None:
            result = self._answer(func, args, caller)
            if result is not NotImplemented:
                return result
        call = Call(func, args, kwargs)
        noted = _RULES.get(func._schema.name)
        if noted is not None and kwargs.get("generator") is None:
            result = noted(self, call)
            if result is not NotImplemented:
                return result
        return self.run(call)

    def _answer(self, func: Any, args: tuple[Any, ...], caller: Any) -> Any:
        """Answer an operation inside a function of torch.nn.init whose promise was noted."""
        if self._noted_frame is caller:
            return answered(func, args)
        name = func._schema.name.removeprefix("aten::")
        distribution = promised(caller.f_code, caller.f_locals, name)
        if distribution is None or self.noted_draw(caller.f_locals["tensor"], distribution) is NotImplemented:
            return NotImplemented
        self._noted_frame = caller
        return args[0]

    # ---- histories ----

    def history(self, tensor: Tensor) -> History | None:
        """Return the history of a tensor's storage; None where memory holds all there is to know."""
        kept = self._kept.get(_address(tensor))
        return None if kept is None else kept.history

    def note(self, tensor: Tensor, content: Content, *, is_stored: bool = False, where: str = "") -> Tensor:
        """Write down that a tensor holds a content from now on; return the tensor.

        `where` is the line that decided it, of a copy; else the one that runs.
        """
        address = _address(tensor)
        if address not in self._kept:
            storage = tensor.untyped_storage()
            self._kept[address] = Kept(StorageWeakRef(storage), History(storage.nbytes()))
            self._kept[address].history.append(_all_of(tensor, storage.nbytes(), Computed()))
        history = self._kept[address].history
        history.append(Write(region_of(tensor), content, where or _where(), is_stored))
        if history.is_crowded and not tensor.is_meta:
            self._gather(history, tensor)
        return tensor

    def _gather(self, history: History, tensor: Tensor) -> None:
        """Make all that was noted of a storage, and know it as data from now on."""
        self._settle(history, tensor.untyped_storage())
        held = mixed(history.all_contents())
        operations = held.operations or ("many writes",) * bool(held.draws)
        history.append(_all_of(tensor, history.nbytes, replace(held, operations=operations)))

    def content(self, tensor: Tensor) -> Content | None:
        """Return the one content that all of a tensor holds; None where there is none or more than one."""
        history = self.history(tensor)
        if history is None or not tensor.numel() or not is_noted(tensor):
            return None
        found = history.contents(region_of(tensor))
        return found[0][1].content if found is not None and len(found) == 1 else None

    def alive(self) -> list[History]:
        """Return the histories of the storages that something still holds; the recorder itself holds none."""
        self._noted_frame = None
        return [kept.history for kept in self._kept.values() if not kept.reference.expired()]

    def draw(self) -> Draw:
        """Return the next draw."""
        self._draws += 1
        return Draw(self._draws)

    def escape(self, tensor: Tensor) -> None:
        """Give a tensor its values, as code may now read and write them where no operation of torch shows it."""
        history = self.history(tensor)
        if history is None:
            return
        with _disable_current_modes():  # or the fills would be noted again, and not made
            self.settle(tensor)
        held = mixed(self.held(tensor))
        pin(held.draws)
        operations = (*held.operations, "numpy") if held.draws or held.is_random else ()
        self.note(tensor, replace(held, operations=operations), is_stored=True)

    # ---- what is skipped, and what is not ----

    def noted_draw(self, tensor: Tensor, distribution: Distribution) -> Any:
        """Note that a tensor is drawn, where its dtype can hold the distribution."""
        if not tensor.numel():
            return tensor
        home = region_of(tensor)
        if not (is_noted(tensor) and home.is_distinct and can_hold(tensor, distribution)):
            return NotImplemented
        draw = self.draw() if distribution.draws_per_weight else None
        self.note(tensor, Drawn(distribution, draw, home, distribution, tensor.dtype))
        if self.is_eager:
            self.settle(tensor)
        return tensor

    def settle(self, tensor: Tensor) -> None:
        """Give a tensor's storage the values that were only noted so far."""
        history = self.history(tensor)
        if history is not None and history.is_pending:
            self._settle(history, tensor.untyped_storage())

    def settle_all(self, filled: Iterable[Tensor] = ()) -> None:
        """Give every storage that something still holds its values, but for those of tensors to be filled next."""
        covered = {_address(tensor) for tensor in filled if self.covers(tensor)}
        for address, kept in list(self._kept.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(kept.reference.cdata)
            if address in covered:
                for write in kept.history.writes:
                    write.is_stored = True
            elif storage is not None and kept.history.is_pending:
                self._settle(kept.history, storage)

    def covers(self, tensor: Tensor) -> bool:
        """Say whether a tensor is all of its storage."""
        history = self.history(tensor)
        return history is not None and region_of(tensor).covers(history.nbytes)

    def _settle(self, history: History, storage: Any) -> None:
        for write in history.writes:
            if not write.is_stored:  # what is stored lies under it: a write for real settles the storage first
                self._store(storage, write)

    def _store(self, storage: Any, write: Write) -> None:
        write.is_stored = True
        if isinstance(write.content, Unwritten | Computed) or storage.device.type == "meta":
            return
        if isinstance(write.content, Fixed):
            _tensor_at(storage, write.region).fill_(write.content.value)
        else:
            self._make(storage, write.region, write.content)

    def _make(self, storage: Any, region: Region, content: Drawn) -> None:
        """Make draws at their places: at once where one tensor has them, else step by step as the code did."""
        draw, home = content.draw, content.home
        box = box_in(region, home)
        assert box is not None, "whoever noted it has asked"
        target, place = _tensor_at(storage, home.at(box)), (home.sizes, box)
        state = self._state(draw)
        if draw is not None and draw.stream:
            write_drawn(target, content.distribution, state, place)
        elif not content.steps:
            write_drawn(target, content.source, state, place)
        else:
            values = torch.empty(target.shape, dtype=content.dtype)
            write_drawn(values, content.source, state, place)
            with torch.no_grad():
                for step in content.steps:
                    values = step(values)
                target.copy_(values)
            if draw is not None:
                draw.is_changed = True

    def _state(self, draw: Draw | None) -> int:
        """Return where the stream of a draw starts: at its tensor's name, once that is known."""
        number, stream = (0, "") if draw is None else (draw.number, draw.stream)
        return stream_state(self.seed, stream if stream and not self.is_eager else f"call/{number}")

    def run(self, call: Call) -> Any:
        """Run an operation for real, and note what became of tensors that depend on draws."""
        if _is_view(call.func):
            return call.run()
        taken = [leaf for leaf in tree_leaves(call[1:]) if isinstance(leaf, torch.Tensor)]
        for tensor in taken:
            self.settle(tensor)
        read = mixed([content for tensor in taken for content in self.held(tensor)])
        for draw in read.draws:
            draw.reader = draw.reader or call.name
        if call.name in _TO_PYTHON:  # no history can follow a number
            pin(read.draws)
        is_random = torch.Tag.nondeterministic_seeded in call.func.tags and call.kwargs.get("generator") is None
        result = self._at_random(call) if is_random else call.run()
        content = Computed((*read.operations, call.name), read.draws, is_random or read.is_random)
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        for tensor in (*_written(call), *made):
            if content.draws or content.is_random or self.history(tensor) is not None:
                self.note(tensor, content, is_stored=True)
        return result

    def held(self, tensor: Tensor) -> list[Content]:
        """Return all that some elements of a tensor hold."""
        history = self.history(tensor)
        if history is None:
            return []
        if not tensor.numel():
            return []
        found = history.contents(region_of(tensor)) if is_noted(tensor) else None
        return history.all_contents() if found is None else [write.content for _, write in found]

    def _at_random(self, call: Call) -> Any:
        """Run an operation that draws on a generator of our own: the caller's stays as it was."""
        generator = torch.random.default_generator
        before = generator.get_state()
        if self._random_state is None:
            generator.manual_seed(stream_state(self.seed, "torch") >> 1)
        else:
            generator.set_state(self._random_state)
        try:
            return call.run()
        finally:
            self._random_state = generator.get_state()
            generator.set_state(before)


def _all_of(tensor: Tensor, nbytes: int, content: Computed) -> Write:
    """Return what memory holds in all of a tensor's storage."""
    region = Region(0, (nbytes // tensor.itemsize,), (1,), tensor.dtype, tensor.itemsize)
    return Write(region, content, "", True)


def pin(draws: Iterable[Draw]) -> None:
    """Keep the numbers of draws as they were made: something depends on them."""
    for draw in draws:
        draw.is_pinned = True


def can_hold(tensor: Tensor, distribution: Distribution) -> bool:
    """Say whether a tensor's dtype has the weights of a distribution; torch gives infinities where it has not."""
    kind = stored_dtype(tensor)
    if kind is None:
        return False
    try:
        distribution.prepare(kind)
    except InitializationError:
        return False
    return True


def write_drawn(
    target: Tensor, distribution: Distribution, state: int, place: tuple[tuple[int, ...], Box] | None = None
) -> None:
    """Fill a tensor's memory from the stream at `state`; `place` is its whole's shape and its box there."""
    shape, box = (tuple(target.shape), None) if place is None else place
    index = None if box is None or box == whole_box(shape) else tuple(slice(*r) for r in box)
    with torch.no_grad(), writing(target) as (array, dtype):
        fill(state, shape, distribution, dtype, array, index)


def _tensor_at(storage: Any, region: Region) -> Tensor:
    """Return the tensor of a region of a storage."""
    found = torch.empty(0, dtype=region.dtype, device=storage.device)
    return found.set_(storage, region.offset, region.sizes, region.strides)


def _address(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # a sparse tensor, say, has no storage of its own
        return 0


@cache
def _is_view(func: Any) -> bool:
    """Say whether an operation only looks at memory in another way, or changes a tensor's shape and strides."""
    schema = func._schema
    if torch.Tag.inplace_view in func.tags:
        return schema.name not in ("aten::resize_", "aten::resize_as_")
    views = [returned.alias_info is not None and not returned.alias_info.is_write for returned in schema.returns]
    return bool(views) and all(views)


_TO_PYTHON = ("_local_scalar_dense", "equal", "is_nonzero")
"""Operations that give a number to Python."""


def _written(call: Call) -> list[Tensor]:
    """Return the tensors that an operation writes into."""
    if not call.func._schema.is_mutable:
        return []
    given = [
        call.given(position, argument)
        for position, argument in enumerate(call.func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return [leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]


def is_noted(tensor: Tensor) -> bool:
    """Say whether a tensor is plain memory, of which a history can tell."""
    is_dense = tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested
    return is_dense and not (tensor.is_conj() or tensor.is_neg())  # views that read memory with its signs changed


_BETWEEN = ("torch._compile", "torch._dynamo.eval_frame", f"{__package__}.escapes")
"""Modules whose frames may stand between torch.nn.init and an operation that it calls."""


def _caller() -> Any:
    """Return the frame of the function of torch.nn.init that the running operation stands in; None outside one."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame if frame is not None and frame.f_code in INSIDE else None


def _where() -> str:
    """Return the line of the model's code, or of the layer of torch, that the running operation stands in."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        is_layer = module.startswith("torch.nn.modules") and module != "torch.nn.modules.module"
        if is_layer or (module.partition(".")[0] not in _QUIET and module not in _SHIMS):
            return f"{module}:{frame.f_lineno} {frame.f_code.co_qualname}"
        frame = frame.f_back
    return ""
