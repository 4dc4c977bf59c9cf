"""Regions: stretches of files that anyone may write, in any order, in any process.

A region says where its bytes go and what makes them, and can be pickled. So one process, its threads, the shares
of a Slurm array and the tasks of a cluster all call `write_region`, and give the same bytes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import numpy as np

from .. import _core
from .._engine.fill import fill
from .._engine.parts import Array
from .._engine.stretches import fill_stretch
from .._files.reading import read_at
from ..errors import CheckpointError
from ..planned import PlannedTensor
from .storage import CHUNK_BYTES, Sink

_CHECKSUM_BYTES = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that follow one another in a file: a tensor, or data as it is.

    Attributes
    ----------
    begin, end : int
        Where it lies in its file.
    source : PlannedTensor or array of uint8
        What makes it.
    """

    begin: int
    end: int
    source: PlannedTensor | Array

    @property
    def is_divisible(self) -> bool:
        """Whether some of it can be made without the rest."""
        return not isinstance(self.source, PlannedTensor) or self.source.distribution.by_part

    def clipped(self, begin: int, end: int) -> Piece:
        """Return what of it lies in a stretch of the file; a tensor stays whole, for it is only a description."""
        if isinstance(self.source, PlannedTensor):
            return self
        low, high = max(begin, self.begin), min(end, self.end)
        return Piece(low, high, self.source[low - self.begin : high - self.begin])


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of one file.

    Attributes
    ----------
    number : int
        Among all regions of a write.
    path : str
        The file, which exists.
    begin, end : int
        Its bytes.
    pieces : tuple of Piece
        What makes them, in their order, without holes.
    """

    number: int
    path: str
    begin: int
    end: int
    pieces: tuple[Piece, ...]

    @property
    def nbytes(self) -> int:
        """Its length."""
        return self.end - self.begin

    @property
    def label(self) -> str:
        """The name of the last tensor in it; "" where there is none but a header or given data."""
        names = [piece.source.name for piece in self.pieces if isinstance(piece.source, PlannedTensor)]
        return names[-1] if names else ""


def write_region(region: Region, sync: bool = False, direct: bool = False) -> str:
    """Make a region's bytes and put them into its file.

    Parameters
    ----------
    region : Region
        What to write.
    sync : bool, default False
        Wait until the bytes are on the disk; a writer that syncs the file later needs no waiting here.
    direct : bool, default False
        Write past the page cache where the file system takes that; `Writing.direct` says whether it pays.

    Returns
    -------
    str
        The checksum of the bytes, which `checksum_of` finds in the file again.

    Raises
    ------
    OSError
        If the file is not there or takes no more.
    """
    running, pieces = Checksum(), deque(region.pieces)
    with Sink(region.path, region.begin, region.end, direct) as sink:
        for begin, end in _chunks(region):
            chunk = sink.room(end - begin)
            _make_chunk(chunk, begin, pieces)
            running.update(chunk)
            sink.put(chunk.size)
        sink.finish(sync)
    return running.text()


def checksum_of(region: Region) -> str:
    """Return the checksum of what the file holds in a region's place; "" where the file ends before."""
    running, buffer = Checksum(), np.empty(min(CHUNK_BYTES, region.nbytes), np.uint8)
    descriptor = os.open(region.path, os.O_RDONLY)
    try:
        for begin, end in _chunks(region):
            chunk = buffer[: end - begin]
            read_at(descriptor, begin, chunk.data, region.path, "a region")
            running.update(chunk)
    except CheckpointError:
        return ""
    finally:
        os.close(descriptor)
    return running.text()


class Checksum:
    """A checksum of chunks, as fast as memory: it finds torn and rotten bytes, and is no defence against people.

    Of a chunk's 64-bit words x it takes ``sum(x[i] * w[i])`` and ``sum((x[i] >> 32) * w[i])`` modulo 2**64, with
    random w: a change goes unseen in about one of 2**32 cases (multilinear hashing: Lemire and Kaser 2014,
    "Strongly universal string hashing is fast"). BLAKE2b joins the sums; of all bytes, it would take longer than
    to make them.
    """

    def __init__(self) -> None:
        self._running = blake2b(digest_size=_CHECKSUM_BYTES)

    def update(self, chunk: Array) -> None:
        """Take the next chunk, of at most `CHUNK_BYTES` bytes."""
        whole = chunk.size // 8
        words = chunk[: 8 * whole].view("<u8").astype(np.uint64, copy=False)
        for total in _core.multilinear(words, _weights()):
            self._running.update(total.to_bytes(8, "little"))
        self._running.update(chunk[8 * whole :].tobytes())

    def text(self) -> str:
        """Return the checksum in hex."""
        return self._running.hexdigest()


@cache
def _weights() -> Array:
    weights = np.empty(CHUNK_BYTES // 8, np.uint64)
    _core.keys(weights, 0)
    return weights


def _chunks(region: Region) -> Iterator[tuple[int, int]]:
    """Yield where each chunk of a region begins and ends."""
    for begin in range(region.begin, region.end, CHUNK_BYTES):
        yield begin, min(begin + CHUNK_BYTES, region.end)


def _make_chunk(chunk: Array, begin: int, pieces: deque[Piece]) -> None:
    """Make the bytes of a file from `begin` on; take the pieces away that end with them."""
    at, end = begin, begin + chunk.size
    while at < end:
        piece = pieces[0] = _made_whole(pieces[0])
        high = min(end, piece.end)
        _make(chunk[at - begin : high - begin], piece.source, at - piece.begin)
        at = high
        if at == piece.end:
            pieces.popleft()


def _made_whole(piece: Piece) -> Piece:
    """Return the piece, as its bytes where it can only be made at once."""
    if piece.is_divisible:
        return piece
    tensor = piece.source
    assert isinstance(tensor, PlannedTensor)
    whole = np.empty(tensor.shape, tensor.dtype.stored)
    fill(tensor.state, tensor.shape, tensor.distribution, dtype=tensor.dtype, out=whole)
    return Piece(piece.begin, piece.end, whole.reshape(-1).view(np.uint8))


def _make(place: Array, source: PlannedTensor | Array, at: int) -> None:
    """Put bytes of a source, from byte `at` of it on, into `place`."""
    if isinstance(source, PlannedTensor):
        out, begin = place.view(source.dtype.stored), at // source.dtype.itemsize
        fill_stretch(source.state, source.shape, source.distribution, source.dtype, begin, out)
    else:
        place[:] = source[at : at + place.size]
