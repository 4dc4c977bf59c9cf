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
from .._files.json_text import JsonText, quoted
from .._files.opening import open_file, read_bounded
from .._files.reading import read_at
from .._files.safetensors import HEADER_LIMIT, Header, read_header
from .._files.specs import TensorSpec, check_name_in_file
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
_INDEX = ".safetensors.index.json"


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


@contextlib.contextmanager
def open_checkpoint(path: str | os.PathLike[str]) -> Iterator[tuple[list[StoredTensor], Header | None]]:
    """Open a ``.safetensors`` file, or the ``.safetensors.index.json`` of a sharded one.

    Yields
    ------
    tensors : list of StoredTensor
        In the header's (the index's) order.
    header : Header or None
        Of the one file; None of a sharded checkpoint.

    Raises
    ------
    CheckpointError
        If a file is not a ``.safetensors`` file, or not what the index says.
    """
    path = Path(path)
    with contextlib.ExitStack() as stack:
        if not path.name.endswith(_INDEX):
            descriptor, header = _open(path, stack)
            yield [_stored(name, path, descriptor, header) for name in header.specs], header
            return
        homes = _weight_map(path)
        files = {name: _open(path.parent / name, stack) for name in sorted(set(homes.values()))}
        tensors = []
        for name, home in homes.items():
            descriptor, header = files[home]
            if name not in header.specs:
                raise CheckpointError(f"{path}: tensor {name!r} is not in {home}, where the index puts it")
            tensors.append(_stored(name, path.parent / home, descriptor, header))
        yield tensors, None


def shards(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Return the files that an index names; none where `path` is no index."""
    path = Path(path)
    if not path.name.endswith(_INDEX):
        return ()
    return tuple(path.parent / home for home in sorted(set(_weight_map(path).values())))


def _open(path: Path, stack: contextlib.ExitStack) -> tuple[int, Header]:
    file = stack.enter_context(open_file(path))
    return file.fileno(), read_header(file, str(path))


def _stored(name: str, path: Path, descriptor: int, header: Header) -> StoredTensor:
    return StoredTensor(name, header.specs[name], str(path), descriptor, header.offsets[name])


def _weight_map(path: Path) -> dict[str, str]:
    walk, homes, keys = (
        JsonText(read_bounded(path, HEADER_LIMIT, "an index"), str(path)),
        dict[str, str](),
        set[str](),
    )
    for key in walk.members(keys):
        keys.add(key)
        if key == "weight_map":
            homes = _homes(walk, path)
        else:
            walk.value()
    walk.end()
    if not homes:
        raise CheckpointError(f"{path} has no weight_map from tensor names to files")
    return homes


def _homes(walk: JsonText, path: Path) -> dict[str, str]:
    homes: dict[str, str] = {}
    files: dict[str, str] = {}  # one object for each name of a file, however many tensors lie in it
    for name in walk.members(homes, f"{path}: weight_map"):
        check_name_in_file(name, str(path))
        home = walk.value()
        if not isinstance(home, str) or not _is_file_name(home):
            raise CheckpointError(
                f"{path}: tensor {quoted(name)} lies in {quoted(home)}; expected a file name beside the index"
            )
        homes[name] = files.setdefault(home, home)
    return homes


def _is_file_name(home: str) -> bool:
    """Say whether such a file can lie beside the index: the name is no path and has no lone surrogate."""
    is_path = home in ("", ".", "..") or not {"/", "\\", "\0"}.isdisjoint(home)
    return not is_path and home == home.encode(errors="ignore").decode()


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
