"""Time a fill beside what it cannot beat on this CPU, in one run: the stores alone, and the draws alone.

Machines are shared and noisy. So the contestants run in turn (A B C A B C ...), and a figure is a median with its
spread. Peers (numpy, torch and others) stand in ``bench/peers.py``, outside the package.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .. import _core
from .._engine.dtypes import BY_NAME
from .._engine.parts import Array
from ..functions import constant, xavier_uniform

Contestant = Callable[[], object]
"""One call to time."""

FASTINIT = "fastinit xavier_uniform"
"""The fill itself."""

STORES = "store limit: a constant"
"""The fill without its arithmetic."""

MIX = "mix alone: SplitMix64, not stored"
"""The fill without its conversions and its stores."""

MEMSET = "libc memset"
"""Stores as everybody knows them."""

_BYTE = 1
"""What memset writes. Some CPUs write zeros, and only zeros, twice as fast as anything else."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one contestant: the median of its runs, the fastest and the slowest."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half the range over the median."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0


def in_turn(contestants: dict[str, Contestant], rounds: int = 7, pause: float = 0.0) -> dict[str, Timing]:
    """Time every contestant once in each round, after one round to warm up.

    Parameters
    ----------
    contestants : dict of str to callable
        Name and call.
    rounds : int, default 7
        Timed runs of each.
    pause : float, default 0.0
        Seconds to wait before each run: the thread pools of OpenMP and jax spin for a while after their work, and
        would slow the next contestant.

    Returns
    -------
    dict of str to Timing
        By contestant, in the order given.
    """
    return {
        name: Timing(statistics.median(runs), min(runs), max(runs))
        for name, runs in rounds_in_turn(contestants, rounds, pause).items()
    }


def rounds_in_turn(
    contestants: dict[str, Contestant],
    rounds: int,
    pause: float = 0.0,
    seconds_of: Callable[[Contestant], float] | None = None,
) -> dict[str, list[float]]:
    """Return the seconds of every round of `in_turn`, by contestant; `seconds_of` times a call another way."""
    seconds_of = seconds_of or seconds_of_one
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            time.sleep(pause)
            elapsed = seconds_of(run)
            if number:
                seconds[name].append(elapsed)
    return seconds


def seconds_of_one(run: Contestant) -> float:
    """Return the seconds of one call."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def resident(dtype: str, nbytes: int) -> Array:
    """Return a buffer of at most `nbytes` bytes in one axis, backed by memory, for weights of `dtype`."""
    chosen = BY_NAME[dtype]
    return np.ones(nbytes, np.uint8)[: nbytes // chosen.itemsize * chosen.itemsize].view(chosen.bits)


def as_matrix(buffer: Array) -> Array:
    """Return the same contiguous memory with two axes, because a Xavier fill needs fans."""
    rows = next(n for n in (1024, 64, 4, 2, 1) if buffer.size % n == 0 and buffer.size >= n)
    return buffer.reshape(rows, -1)


def fill_and_limits(dtype: str, buffer: Array, threads: int) -> dict[str, Contestant]:
    """Return the fill of `buffer` with weights of `dtype`, and the limits of any fill of it."""
    matrix, stored = as_matrix(buffer), BY_NAME[dtype]
    return {
        FASTINIT: lambda: xavier_uniform(None, 17, out=matrix, dtype=stored, threads=threads),
        **limits(dtype, buffer, threads),
    }


def limits(dtype: str, buffer: Array, threads: int) -> dict[str, Contestant]:
    """Return what a fill of `buffer` cannot beat: the stores alone, a thread's share of the draws; and memset."""
    share = -(-buffer.size // threads)
    return {
        STORES: lambda: constant(None, 0.5, out=buffer, dtype=BY_NAME[dtype], threads=threads),
        MIX: lambda: _core.sum_draws(17, share),
        MEMSET: memset(buffer),
    }


def memset(buffer: Array) -> Contestant:
    """Return a call that sets every byte of a contiguous `buffer` to 1."""
    address, nbytes = buffer.ctypes.data, buffer.nbytes
    return lambda: ctypes.memset(address, _BYTE, nbytes)


def table(dtype: str, elements: int, timings: dict[str, Timing]) -> list[str]:
    """Return text lines: ns an element, GB/s, the time as a multiple of fastinit's, and what limits it here."""
    nbytes = elements * BY_NAME[dtype].itemsize
    own = timings[FASTINIT].median
    lines = [f"{dtype}, {nbytes:,} bytes{'':<12}  ns/element    GB/s  times fastinit's   spread"]
    for name, timing in timings.items():
        lines.append(
            f"  {name:<36}{timing.median / elements * 1e9:>10.3f}{nbytes / timing.median / 1e9:>8.2f}"
            f"{timing.median / own:>18.2f}{timing.spread:>8.0%}"
        )
    limit = max((STORES, MIX), key=lambda name: timings[name].median)
    return [
        *lines,
        f"  no fill beats the {limit.partition(':')[0]}; this one is at {timings[limit].median / own:.0%}",
    ]
