"""Tensors where they lie in ``.safetensors`` files: read in chunks into small buffers, summed up, digested.

Files are read, not mapped: the pages of a mapped file count as the process's memory, and a checkpoint may be
larger than that.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._engine.cpus import default_threads
from .._engine.narrow import widened
from .._engine.threads import in_order
from .._files.index import Stray, in_folder, is_index, missing, strays, weight_map
from .._files.opening import open_file
from .._files.reading import read_at
from .._files.safetensors import Header, read_header
from .._files.specs import TensorSpec
from ..checkpoint import Progress
from ..errors import CheckpointError

_Array = np.ndarray[Any, Any]

CHUNK_BYTES = 1 << 19
"""Bytes read and measured at once: they stay in one core's cache, and hold whole blocks of a `_core.Summary`."""

SPAN_BYTES = 1 << 25
"""Bytes that a thread takes at a time."""

SAMPLE = 8192
"""The most weights in a sample of a tensor; those of a large tensor lie in evenly spread stretches."""

_STRETCHES = 16


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of an open file.

    Attributes
    ----------
    name : str
        Its name.
    spec : TensorSpec
        Its dtype and shape.
    path : str
        The file, for errors.
    descriptor : int
        Of the open file.
    offset : int
        Its first byte in the file.
    """

    name: str
    spec: TensorSpec
    path: str
    descriptor: int
    offset: int

    def read(self, begin: int, buffer: bytearray | memoryview) -> memoryview:
        """Fill `buffer` with the tensor's bytes from `begin` on."""
        view = memoryview(buffer)
        read_at(self.descriptor, self.offset + begin, view, self.path, self.name)
        return view

    def values(self, begin: int, count: int) -> _Array:
        """Return `count` weights from number `begin` on, in float64."""
        dtype = self.spec.dtype
        return widened(self.read(begin * dtype.itemsize, bytearray(count * dtype.itemsize)), dtype)

    def summary(self, begin: int, end: int) -> _core.Summary:
        """Return the summary of bytes [begin, end)."""
        dtype = self.spec.dtype
        assert dtype.code is not None
        first = float(self.values(0, 1)[0])
        summary = _core.Summary(first if np.isfinite(first) else 0.0)
        buffer = memoryview(bytearray(min(CHUNK_BYTES, end - begin)))
        for at in range(begin, end, CHUNK_BYTES):
            chunk = self.read(at, buffer[: min(CHUNK_BYTES, end - at)])
            summary.add(chunk, dtype.code, dtype.itemsize)
        return summary

    def sample(self) -> _Array:
        """Return all weights of a small tensor, or evenly spread stretches of a large one, in float64."""
        size = self.spec.size
        if size <= SAMPLE:
            return self.values(0, size)
        length = SAMPLE // _STRETCHES
        begins = [(size - length) * i // (_STRETCHES - 1) for i in range(_STRETCHES)]
        return np.concatenate([self.values(begin, length) for begin in begins])

    def digest(self, size: int = 64) -> bytes:
        """Return a digest of the tensor's bytes: two tensors have one digest where they are equal to the bit."""
        found, nbytes = blake2b(digest_size=size), self.spec.nbytes
        buffer = memoryview(bytearray(min(CHUNK_BYTES, nbytes)))
        for at in range(0, nbytes, CHUNK_BYTES):
            found.update(self.read(at, buffer[: min(CHUNK_BYTES, nbytes - at)]))
        return found.digest()


class Opened(NamedTuple):
    """An open checkpoint.

    Attributes
    ----------
    tensors : list of StoredTensor
        In the header's order; or in the index's, then those that it omits.
    headers : dict of Path to Header
        Of the one file, or of every shard.
    strays : list of Stray
        Where an index and its shards disagree.
    """

    tensors: list[StoredTensor]
    headers: dict[Path, Header]
    strays: list[Stray]


@contextlib.contextmanager
def open_checkpoint(path: str | os.PathLike[str]) -> Iterator[Opened]:
    """Open a ``.safetensors`` file, the ``.safetensors.index.json`` of a sharded one, or the folder of either.

    Raises
    ------
    CheckpointError
        If a file is not a ``.safetensors`` file, or lacks a tensor that the index puts there.
    """
    path = in_folder(Path(path))
    with contextlib.ExitStack() as stack:
        if is_index(path):
            yield _open_shards(path, stack)
            return
        descriptor, header = _open(path, stack)
        yield Opened([_stored(name, path, descriptor, header) for name in header.specs], {path: header}, [])


def _open_shards(path: Path, stack: contextlib.ExitStack) -> Opened:
    homes = weight_map(path)
    files = {name: _open(path.parent / name, stack) for name in sorted(set(homes.values()))}
    held = {shard: header.specs for shard, (_, header) in files.items()}
    for name, home in homes.items():
        if name not in held[home]:
            raise CheckpointError(f"{path}: {missing(name, home, held)}")
    found = list(strays(homes, held))
    places = homes | {stray.name: stray.shard for stray in found if not stray.home}
    tensors = [_stored(name, path.parent / home, *files[home]) for name, home in places.items()]
    return Opened(tensors, {path.parent / shard: header for shard, (_, header) in files.items()}, found)


def _open(path: Path, stack: contextlib.ExitStack) -> tuple[int, Header]:
    file = stack.enter_context(open_file(path))
    return file.fileno(), read_header(file, str(path))


def _stored(name: str, path: Path, descriptor: int, header: Header) -> StoredTensor:
    return StoredTensor(name, header.specs[name], str(path), descriptor, header.offsets[name])


def summaries(
    tensors: Sequence[StoredTensor], threads: int | None = None, progress: Progress | None = None
) -> list[_core.Summary]:
    """Measure every tensor once; the numbers do not depend on the threads.

    Parameters
    ----------
    tensors : sequence of StoredTensor
        Of floating dtypes, none of them empty.
    threads : int, optional
        How many (default: as for fills).
    progress : callable, optional
        Called with (bytes done, bytes in all, tensor name).

    Returns
    -------
    list of Summary
        One for each tensor.
    """
    spans = [_Span(tensor, begin) for tensor in tensors for begin in range(0, tensor.spec.nbytes, SPAN_BYTES)]
    total, done = sum(tensor.spec.nbytes for tensor in tensors), 0
    found: list[_core.Summary] = []
    for span, summary in zip(spans, _in_order(spans, threads), strict=True):
        if span.begin:
            found[-1].merge(summary)
        else:
            found.append(summary)
        done += span.end - span.begin
        if progress is not None:
            progress(done, total, span.tensor.name)
    return found


class _Span(NamedTuple):
    """The bytes of a tensor that a thread takes at a time."""

    tensor: StoredTensor
    begin: int

    @property
    def end(self) -> int:
        return min(self.begin + SPAN_BYTES, self.tensor.spec.nbytes)

    def summary(self) -> _core.Summary:
        return self.tensor.summary(self.begin, self.end)


def _in_order(spans: Sequence[_Span], threads: int | None) -> Iterator[_core.Summary]:
    """Yield the summaries in the order of the spans, whichever thread ends first."""
    count = min(default_threads() if threads is None else threads, len(spans))
    yield from in_order(_Span.summary, spans, count=count)
