"""What a block cannot cover, found when it ends and said: other threads' weights, other libraries' draws.

The dangers are a weight of another thread that a fill overwrites, and a start that its seed alone does not decide.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import InitializationError
from ..views.table import counted
from .contents import Computed, Drawn, mixed
from .modules import Named
from .recorder import Recorder

ELSEWHERE = "another thread"
"""What stands in `Recording.computed` for torch's name of an operation."""


class OtherGenerators:
    """Sees whether Python's or numpy's global generator was drawn from."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = _numpy_state()

    def warn(self) -> None:
        """Name those that are not where they were."""
        moved = [("Python's", "random.seed")] * (random.getstate() != self._python)
        moved += [("numpy's", "numpy.random.seed")] * (_numpy_state() != self._numpy)
        for owner, seeding in moved:
            _warn(
                f"the block drew from {owner} global generator, which its seed does not reach: weights made of "
                f"these numbers are the same again only after {seeding}(...) before the block"
            )


def _numpy_state() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state(legacy=True)  # the global one, which models draw from
    return kind, np.asarray(keys).tobytes(), *rest


def keep_other_threads(recorder: Recorder, entries: Iterable[Named], strangers: frozenset[int]) -> None:
    """Let memory say what other threads put into tensors; refuse where it lacks what this thread noted before."""
    made = []
    for entry in entries:
        tensor = entry.tensor
        if recorder.is_written_elsewhere(tensor):
            if recorder.is_pending(tensor):
                raise InitializationError(
                    f"another thread wrote into {entry.name!r}, which had no values yet: a block watches its "
                    "own thread alone; write there after the block, or fill at once: "
                    'fast_init(seed, by="call")'
                )
            held = mixed(recorder.held(tensor))
            recorder.note(tensor, Computed((*held.operations, ELSEWHERE), held.draws, True), is_stored=True)
        elif id(tensor) in strangers and recorder.history(tensor) is None:
            recorder.note(tensor, Computed((ELSEWHERE,), is_random=True), is_stored=True)
            made.append(entry.name)
    if made:
        _warn(
            f"{counted(len(made), 'tensor')} ({made[0]!r} the first) were made in another thread, which the block "
            "does not watch: torch.manual_seed decides their weights; build the model in one thread, or with a "
            "fast_init in each"
        )


def refuse_drawn_shards(recorder: Recorder, entries: Iterable[Named]) -> None:
    """Refuse shards that were drawn as tensors of their own: they would be equal on all ranks."""
    for entry in entries:
        mesh = getattr(entry.tensor, "device_mesh", None)
        if mesh is None or mesh.size() == 1 or not any(map(_is_shard, entry.tensor.placements)):
            continue
        if any(isinstance(content, Drawn) and content.draw is not None for content in recorder.held(entry.tensor)):
            raise InitializationError(
                f"{entry.name!r} is sharded, and was drawn inside the block, which cannot know the whole; record "
                "the model before it is sharded, and fill this one with init_module(model, recording, seed)"
            )


def _is_shard(placement: Any) -> bool:
    return not placement.is_replicate()


def warn_of_strays(recorder: Recorder, entries: Iterable[Named]) -> None:
    """Say which draws have no name: a block knows what was built in it, and the model that it is given."""
    strays = recorder.strays([entry.tensor for entry in entries])
    if strays:
        _warn(
            f"{counted(strays, 'tensor')} drawn here were made before the block, so their streams have the "
            "numbers of their calls and not their names; name their model: fast_init(seed, model=model)"
        )


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=7)  # the block's line, behind two context managers
