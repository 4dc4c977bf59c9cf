"""The dispatch mode that watches a model being built: draws and fills are written down, and not made.

Every operation of torch passes through `Recorder`. One that a content describes is noted and skipped; any other
runs for real, after the tensors that it reads have been given real values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch._ops import HigherOrderOperator
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.weak import WeakIdKeyDictionary

from .._engine.boxes import Box, whole_box
from .._engine.fill import fill
from .._engine.initializer import Distribution
from .._engine.streams import stream_state
from ..errors import InitializationError
from . import frames
from .calls import Call, is_view, tensors_in, version_of, written_by
from .contents import Computed, Content, Draw, Drawn, Fixed, Tensor, Unwritten, mixed
from .histories import History, Write, draws_in
from .inside import answered, promised
from .regions import Region, box_in, region_of
from .targets import holds_others, is_plain_class, stored_dtype, writing

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

    supports_higher_order_operators = True

    def __init__(self, seed: int, *, is_eager: bool = False) -> None:
        super().__init__()
        self.seed = seed
        self.is_eager = is_eager
        self.weights: Callable[[], Iterable[Tensor]] = tuple
        self.pinned: set[Draw] = set()
        self._kept: dict[int, Kept] = {}
        self._others: Any = WeakIdKeyDictionary()
        self._target: Tensor = None
        self._draws = 0
        self._random_state = torch.Generator().manual_seed(stream_state(seed, "torch") >> 1).get_state()
        self._noted_frame: Any = None

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Note an operation, or run it."""
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return self._run_higher(Call(func, args, kwargs))
        others = [kind for kind in types if not is_plain_class(kind)]
        if any(kind.__module__.startswith("torch._subclasses") for kind in others):
            return func(*args, **kwargs)  # torch traces: these tensors have no values
        if others:
            return NotImplemented  # their class asks for operations on the tensors that they hold: those come here
        if func._schema.is_mutable and args and isinstance(args[0], torch.Tensor):
            self._target = args[0]
        try:
            return self._noted_or_run(func, args, kwargs)
        finally:
            self.count_version(self._target)
            self._target = None  # or it would be kept alive

    def _noted_or_run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        initializer = frames.caller()
        if initializer is not None:
            result = self._answer(func, args, initializer)
            if result is not NotImplemented:
                return result
        call = Call(func, args, kwargs)
        noted = _RULES.get(func._schema.name)
        if noted is not None and kwargs.get("generator") is None:
            result = noted(self, call)
            if result is not NotImplemented:
                return result
        return self.run(call)

    def _answer(self, func: Any, args: tuple[Any, ...], frame: Any) -> Any:
        """Answer an operation inside a function of torch.nn.init whose promise was noted."""
        if self._noted_frame is frame:
            return answered(func, args)
        name = func._schema.name.removeprefix("aten::")
        distribution = promised(frame.f_code, frame.f_locals, name)
        if distribution is None or self.noted_draw(frame.f_locals["tensor"], distribution) is NotImplemented:
            return NotImplemented
        self._noted_frame = frame
        return args[0]

    # ---- histories ----

    def history(self, tensor: Tensor) -> History | None:
        """Return the history of a tensor's storage; None where memory holds all there is to know."""
        kept = self._kept.get(address_of(tensor))
        return None if kept is None else kept.history

    def note(self, tensor: Tensor, content: Content, *, is_stored: bool = False, where: str = "") -> Tensor:
        """Write down that a tensor holds a content from now on; return the tensor.

        `where` is the line that decided it, of a copy; else the one that runs.
        """
        if not is_noted(tensor):
            self._others[tensor] = content
            self.pin(draws_in([content]))
            return tensor
        history = self._kept_history(tensor, is_older=_is_memory_of(tensor, self._target))
        history.append(Write(region_of(tensor), content, where or frames.where(), is_stored))
        self.count_version(tensor)
        if history.is_shared and not is_stored:
            self._make_real(tensor, "numpy")
        elif history.is_crowded and not tensor.is_meta:
            self._gather(history, tensor)
        return tensor

    def _kept_history(self, tensor: Tensor, *, is_older: bool) -> History:
        """Return the history of a tensor's storage, a new one where it had none.

        Torch may not resize memory that numpy owns or has seen, nor what it loaded from a file: that is a weight.
        """
        address = address_of(tensor)
        if address not in self._kept:
            storage = tensor.untyped_storage()
            is_shared = not storage.resizable() and address not in map(address_of, self.weights())
            history = History(storage.nbytes(), is_older=is_older, is_shared=is_shared)
            history.append(_all_of(tensor, storage.nbytes(), Computed()))
            self._kept[address] = Kept(StorageWeakRef(storage), history)
        return self._kept[address].history

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

    def forget_frames(self) -> None:
        """Let go of the frame that was answered last: those above it hold what their functions made."""
        self._noted_frame = None

    def alive(self) -> list[History]:
        """Return the histories of the storages that something still holds."""
        self.forget_frames()
        return [kept.history for kept in self._kept.values() if not kept.reference.expired()]

    def draw(self) -> Draw:
        """Return the next draw."""
        self._draws += 1
        return Draw(self._draws)

    # ---- memory that leaves torch ----

    def lifted(self, tensor: Tensor, *, is_shared: bool = True) -> None:
        """Note whose memory a tensor has that was made of other data."""
        if not tensor.untyped_storage().resizable():
            self._kept_history(tensor, is_older=True).is_shared = is_shared

    def read(self, tensor: Tensor, reader: str) -> Computed:
        """Give a tensor its values, as no history can follow where they go; return what they are."""
        with _disable_current_modes():  # or the fills would be noted again, and not made
            self.settle(tensor)
        held = mixed(self.held(tensor))
        _read_by(reader, held.draws)
        self.pin(held.draws)
        return held

    def share(self, tensor: Tensor, reader: str) -> None:
        """Give a tensor its values for good: code may read and write them now where torch does not see it."""
        self.read(tensor, reader)
        if is_noted(tensor) and not holds_others(tensor) and not tensor.is_meta:
            self._kept_history(tensor, is_older=True).is_shared = True
            self._make_real(tensor, reader)

    def loop(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a function that gives the elements of tensors to Python, and writes the answers into the first."""
        before = self.pinned | frozenset()
        held = mixed([self.read(tensor, func.__name__) for tensor in args if isinstance(tensor, torch.Tensor)])
        result = func(*args, **kwargs)
        draws = held.draws | (self.pinned - before)
        is_random = bool(draws) or held.is_random
        operations = (*held.operations, func.__name__) if is_random else ()
        if is_noted(args[0]):
            self._kept_history(args[0], is_older=True)
        return self.note(result, Computed(operations, draws, is_random), is_stored=True)

    def _make_real(self, tensor: Tensor, reader: str) -> None:
        """Let memory alone say what the storage of a tensor holds: what was only noted is written now."""
        history = self.history(tensor)
        if history is None:
            return
        with _disable_current_modes():
            self.settle(tensor)
        held = mixed(history.all_contents())
        if held.draws or held.is_random:
            held = replace(held, operations=tuple(dict.fromkeys((*held.operations, reader))))
        history.writes[:] = [replace(_all_of(tensor, history.nbytes, held), where=frames.where())]

    def pin(self, draws: Iterable[Draw]) -> None:
        """Keep the numbers of draws as they were made: something depends on them."""
        for draw in draws:
            draw.is_pinned = True
            self.pinned.add(draw)

    # ---- other threads ----

    def count_version(self, tensor: Tensor, *, more: int = 1) -> None:
        """Count what this thread wrote into a tensor, a write too that torch counts when it is done."""
        history = None if tensor is None else self.history(tensor)
        if history is not None and not tensor.is_inference():
            history.version = max(history.version, tensor._version + more)

    def is_pending(self, tensor: Tensor) -> bool:
        """Say whether memory lacks some of what was noted of a tensor."""
        history = self.history(tensor)
        return history is not None and history.is_pending

    def is_drawn(self, tensor: Tensor) -> bool:
        """Say whether some of a tensor depends on draws."""
        held = mixed(self.held(tensor))
        return bool(held.draws) or held.is_random

    def strays(self, named: Iterable[Tensor]) -> int:
        """Count the storages that were there before, and hold draws that none of these tensors holds."""
        alive = [history for history in self.alive() if history.is_older and not history.is_shared]
        drawn = [draws for history in alive if (draws := draws_in(history.all_contents()))]
        known = draws_in([content for tensor in named for content in self.held(tensor)]) if drawn else frozenset()
        return sum(not draws & known for draws in drawn)

    def is_written_elsewhere(self, tensor: Tensor) -> bool:
        """Say whether another thread wrote into a tensor; False where that cannot be known."""
        history = self.history(tensor)
        if history is None or history.is_older or tensor.is_inference() or holds_others(tensor):
            return False
        return bool(tensor._version > history.version)

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
        for inner in inner_tensors(tensor):
            self.settle(inner)
        history = self.history(tensor)
        if history is not None and history.is_pending:
            self._settle(history, tensor.untyped_storage())

    def settle_all(self, filled: Iterable[Tensor] = ()) -> None:
        """Give every storage that something still holds its values, but for those of tensors to be filled next."""
        covered = {address_of(tensor) for tensor in filled if self.covers(tensor)}
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
        if call.name == "lift_fresh":
            self.lifted(call.args[0])
        if is_view(call.func) and all(is_noted(taken) for taken in call.args if isinstance(taken, torch.Tensor)):
            return call.run()
        read = self._settled(call)
        if call.name in _TO_PYTHON:  # no history can follow a number
            self.pin(read.draws)
        is_random = torch.Tag.nondeterministic_seeded in call.func.tags and call.kwargs.get("generator") is None
        result = self._at_random(call) if is_random else call.run()
        content = Computed((*read.operations, call.name), read.draws, is_random or read.is_random)
        for tensor in (*written_by(call), *tensors_in(result)):
            if content.draws or content.is_random or self.history(tensor) is not None:
                self.note(tensor, content, is_stored=True)
        return result

    def _settled(self, call: Call) -> Computed:
        """Give all that an operation takes its values; return what they are."""
        taken = tensors_in(call[1:])
        for tensor in taken:
            self.settle(tensor)
        read = mixed([content for tensor in taken for content in self.held(tensor)])
        _read_by(call.name, read.draws)
        return read

    def _run_higher(self, call: Call) -> Any:
        """Run a `cond` or a `scan`: its branches are not watched, so what they take holds its values before."""
        read, taken = self._settled(call), tensors_in(call[1:])
        versions, state = [version_of(tensor) for tensor in taken], self._random_state
        result = self._at_random(call)
        is_random = read.is_random or bool(read.draws) or not torch.equal(state, self._random_state)
        content = Computed((*read.operations, call.name) if is_random else (), read.draws, is_random)
        written = [
            tensor for tensor, version in zip(taken, versions, strict=True) if version_of(tensor) != version
        ]
        for tensor in (*written, *tensors_in(result)):
            self.note(tensor, content, is_stored=True)
        return result

    def held(self, tensor: Tensor) -> list[Content]:
        """Return all that some elements of a tensor hold."""
        if self._others and tensor in self._others:
            return [self._others[tensor]]
        inner = inner_tensors(tensor)
        if inner:
            return [content for part in inner for content in self.held(part)]
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


def _read_by(reader: str, draws: Iterable[Draw]) -> None:
    for draw in draws:
        draw.reader = draw.reader or reader


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
    target: Tensor,
    distribution: Distribution,
    state: int,
    place: tuple[tuple[int, ...], Box] | None = None,
    threads: int | None = None,
) -> None:
    """Fill a tensor's memory from the stream at `state`; `place` is its whole's shape and its box there."""
    shape, box = (tuple(target.shape), None) if place is None else place
    index = None if box is None or box == whole_box(shape) else tuple(slice(*r) for r in box)
    mode = torch.inference_mode() if target.is_inference() else torch.no_grad()
    with mode, writing(target) as (array, dtype):
        fill(state, shape, distribution, dtype, array, index, threads)


def _tensor_at(storage: Any, region: Region) -> Tensor:
    """Return the tensor of a region of a storage."""
    found = torch.empty(0, dtype=region.dtype, device=storage.device)
    return found.set_(storage, region.offset, region.sizes, region.strides)


def address_of(tensor: Tensor) -> int:
    """Return what names a tensor's storage; 0 where it has none."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError, ValueError):  # a sparse tensor has no storage, nor has a lazy one
        return 0


_TO_PYTHON = ("_local_scalar_dense", "equal", "is_nonzero")
"""Operations that give a number to Python."""


def inner_tensors(tensor: Tensor) -> list[Tensor]:
    """Return the tensors that one of another class (a DTensor, say) keeps its values in."""
    if not holds_others(tensor):
        return []
    if hasattr(tensor, "__tensor_flatten__"):
        return tensors_in([getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]])
    return tensors_in(list(vars(tensor).values()))


def _is_memory_of(tensor: Tensor, other: Tensor) -> bool:
    return other is not None and address_of(tensor) == address_of(other)


def is_noted(tensor: Tensor) -> bool:
    """Say whether a tensor is plain memory, of which a history can tell."""
    is_dense = tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested
    return is_dense and not (tensor.is_conj() or tensor.is_neg())  # views that read memory with its signs changed
