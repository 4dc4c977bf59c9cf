"""Streams as raw states: where a name starts, how many draws fit, and the proof that none overlap."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import SupportsIndex

import numpy as np

from ..errors import StreamOverlap
from .checks import as_u64, shown
from .names import check_tensor_name
from .parts import Array

GAMMA = 0x9E3779B97F4A7C15
"""What a draw adds to the state."""

GAMMA_INVERSE = 0xF1DE83E19937733D
"""GAMMA is odd, so it has an inverse modulo 2**64."""

MIXERS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The two multipliers of `mix64`."""

_STREAM_TAG = b"fastinit/stream/v1\0"


def stream_state(seed: SupportsIndex, name: str) -> int:
    """Return the raw state at which the stream called `name` starts; see `stream_for`."""
    key = as_u64(seed, "seed").to_bytes(8, "little")
    check_tensor_name(name)
    digest = blake2b(_STREAM_TAG + key + name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def mix64(words: Array) -> Array:
    """Return the output function of SplitMix64 of an array of uint64: a draw is that of its state."""
    first, second = map(np.uint64, MIXERS)
    mixed = (words ^ words >> np.uint64(30)) * first
    mixed = (mixed ^ mixed >> np.uint64(27)) * second
    return np.asarray(mixed ^ mixed >> np.uint64(31))


def prove_disjoint(streams: Iterable[tuple[str, int, int]], *, bits: int = 64) -> None:
    """Prove that no two streams share a draw.

    Parameters
    ----------
    streams : iterable of (name, state, length)
        Raw states, and lengths in draws; empty streams overlap nothing.
    bits : int, default 64
        Word size of the generator; smaller ones make cycles short enough to check by brute force.

    Raises
    ------
    StreamOverlap
        Naming two streams that share a draw.
    ValueError
        If a stream is longer than the cycle of ``2**bits`` draws.

    Notes
    -----
    gamma is odd, so ``position = state * gamma**-1 mod 2**bits`` puts every stream on one ring as an arc of
    `length` draws. Sorted by position, arcs are pairwise disjoint if and only if each ends before the next
    one starts, the last before the first one's next turn: an exact proof in one sort.
    """
    cycle = 1 << bits
    nonempty = ((name, state, length) for name, state, length in streams if length > 0)
    arcs = sorted((state * GAMMA_INVERSE % cycle, length, name) for name, state, length in nonempty)
    following = [*arcs[1:], *((position + cycle, length, name) for position, length, name in arcs[:1])]
    for (position, length, name), (next_position, _, next_name) in zip(arcs, following, strict=True):
        if length > cycle:
            raise ValueError(f"stream {name!r} takes {shown(length)} draws; the cycle has 2**{bits}")
        if length > next_position - position:
            raise StreamOverlap(name, next_name)
