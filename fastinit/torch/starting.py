"""`record`, `fast_init` and `init_module`: how a torch model starts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import SupportsIndex

import torch

from .._engine.checks import as_choice, as_u64
from . import copies, operations  # noqa: F401  # they teach the recorder torch's operations
from .escapes import Escapes
from .modules import Module, Watch, named_tensors
from .recorder import Recorder
from .recording import Recording
from .uncovered import OtherGenerators, keep_other_threads, refuse_drawn_shards, warn_of_strays

ORDERS = ("name", "call")
"""By what a tensor's stream is chosen."""


@contextlib.contextmanager
def record(seed: SupportsIndex = 0, *, model: Module | None = None) -> Iterator[Recording]:
    """Record what a model's own code does to each tensor; draws and fills are written down, and not made.

    Parameters
    ----------
    seed : int, default 0
        Of what must be computed for real, because no plan expresses it (a spectral norm, say).
    model : torch.nn.Module, optional
        A model that was built before, and is initialized again in the block; one that is built there is found.

    Yields
    ------
    Recording
        Complete once the block has ended: `Recording.plan`, `Recording.table`, `Recording.computed`.

    Notes
    -----
    Build the model on the CPU: tensors that nobody reads take no memory. Tables, masks and all that code computes
    are computed for real. Only this thread is watched, and nothing of torch is replaced.

    A weight of the recorded model that is drawn holds no values; `fast_init` builds a model to use.

    Examples
    --------
    >>> import torch
    >>> import fastinit.torch
    >>> with fastinit.torch.record() as recording:
    ...     model = torch.nn.Embedding(8, 2, padding_idx=0)
    >>> recording.plan(17)["weight"].distribution.describe()
    'normal std=1, zeros in [0:1, 0:2]'
    """
    recording = Recording()
    with _recorded(Recorder(as_u64(seed, "seed")), recording, model):
        yield recording


@contextlib.contextmanager
def fast_init(seed: SupportsIndex, *, by: str = "name", model: Module | None = None) -> Iterator[Recording]:
    """Build a model whose weights start as its own code starts them, each drawn once, on all threads.

    Parameters
    ----------
    seed : int
        0 to 2**64 - 1.
    by : {"name", "call"}
        Whether a tensor has the stream of its name, so that no other tensor matters to it, or that of the number
        of the call that draws it, which fills at once.
    model : torch.nn.Module, optional
        A model that was built before, and is initialized again in the block (``model.apply(init_weights)``); one
        that is built there is found.

    Yields
    ------
    Recording
        What was done, complete once the block has ended; `Recording.computed` names what was computed for real.

    Notes
    -----
    The weights are those of ``recording.plan(seed)``, and of a checkpoint written from it. After the block every
    tensor has its values, unless it lies on the meta device. An exception inside the block goes on; models that
    were built by then have no values.

    What the block cannot cover it says: a warning where Python's or numpy's global generator was drawn from, where
    drawn tensors belong to no known model, or where another thread made them; an error where another thread wrote
    into a tensor that had no values yet.

    Examples
    --------
    >>> import torch
    >>> import fastinit.torch
    >>> with fastinit.torch.fast_init(seed=17):
    ...     model = torch.nn.Linear(3, 2)
    >>> with fastinit.torch.fast_init(seed=17):
    ...     deeper = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
    >>> model.weight.shape
    torch.Size([2, 3])
    """
    checked = as_u64(seed, "seed")
    recorder, recording = Recorder(checked, is_eager=as_choice(by, ORDERS, "by") == "call"), Recording()
    with _recorded(recorder, recording, model):
        yield recording
    if recorder.is_eager:
        recorder.settle_all()
    else:
        recording.fill(recorder)


@contextlib.contextmanager
def _recorded(recorder: Recorder, recording: Recording, model: Module | None) -> Iterator[None]:
    if not isinstance(model, torch.nn.Module | None):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    watch, others = Watch(model), OtherGenerators()
    recorder.weights = watch.tensors
    watch.start()
    try:
        with recorder, Escapes(recorder):
            yield
        recorder.forget_frames()
        models = watch.roots()
    finally:
        watch.stop()
    entries = [entry for found in models for entry in named_tensors(found)]
    keep_other_threads(recorder, entries, watch.made_elsewhere())
    refuse_drawn_shards(recorder, entries)
    recording.finish(recorder, models)
    others.warn()
    if not recorder.is_eager:
        warn_of_strays(recorder, entries)
