"""Where the memory is, and whose: the cache, its reader, fresh pages, two threads, odd shapes.

A ratio is the contestant's time over that of the first of its work.
"""

import numpy as np
import pytest
from peers import own_fill

import fastinit
from fastinit import _core
from fastinit._engine.fill import STORES_VARIABLE
from fastinit.cli.timing import MEMSET, MIX, memset, seconds_of_one

MIB = 1 << 20
CACHED = 64 << 10
SWITCH = _core.stream_bytes(_core.last_level_cache())


def repeated(run, calls):
    """Call several times: what the last contestant left in the caches is then soon forgotten."""

    def many():
        for _ in range(calls):
            run()

    return many


def settled(run):
    """Seconds of the second of two runs: the first finds in the caches what the last contestant left there."""
    run()
    return seconds_of_one(run)


@pytest.mark.parametrize("contestant", ["fastinit", "constant", MIX])
def bench_cached(race, contestant):
    """64 KiB, again and again, by the kernels alone: no store leaves the second cache."""
    out, calls = np.ones(CACHED // 8), 1000
    bases = {"fastinit": ("centered_uniform", (0.05,)), "constant": ("constant", (0.5,))}

    def kernel(base, parameters):
        spec = _core.Spec(_core.BASES[base], _core.DTYPES["float64"], parameters)
        job = _core.Job(spec, out, False, 17, 0, (1,), _core.STORES_ORDINARY)
        return lambda: job.run(0, job.size)

    runs = {name: kernel(*what) for name, what in bases.items()} | {MIX: lambda: _core.sum_draws(17, out.size)}
    race(
        "uniform float64, in cache",
        contestant,
        lambda: {name: repeated(run, calls) for name, run in runs.items()},
        earlier=1.12,
        calls=calls,
        weights=out.size,
    )


@pytest.mark.parametrize("mib", [4, 8, 12, 16, 24, 32, 64])
@pytest.mark.parametrize("reads", [False, True], ids=["fill", "fill then read"])
@pytest.mark.parametrize("contestant", ["auto", "ordinary", "streaming"])
def bench_switch(race, monkeypatch, mib, reads, contestant):
    """Each kind of stores, and the one that is chosen: the fill alone, and read by the same thread then."""
    out, calls = np.ones(mib * MIB // 8), 8
    fill = own_fill("uniform", "float64", out)

    def stored(stores):
        def run():
            monkeypatch.setenv(STORES_VARIABLE, stores)
            fill()
            if reads:
                out.max()

        return repeated(run, calls)

    race(
        f"{'fill then read' if reads else 'fill'} float64, {mib} MiB",
        contestant,
        lambda: {stores: stored(stores) for stores in ("auto", "ordinary", "streaming")},
        earlier=1.25 if reads and mib <= 8 else None,
        calls=calls,
        seconds_of=settled,
        weights=out.size,
        bound="the last cache" if mib << 20 < SWITCH else "memory",
        switch_bytes=SWITCH,
    )


@pytest.mark.parametrize(("base", "dtype", "least"), [("uniform", "float32", 1.7), ("normal", "float64", 1.8)])
@pytest.mark.parametrize("contestant", ["2 threads", "1 thread"])
def bench_threads(race, large, base, dtype, least, contestant):
    """Two threads and one, resident."""
    out = np.ones(large // np.dtype(dtype).itemsize, dtype)
    race(
        f"{base} {dtype}, two threads",
        contestant,
        lambda: {f"{n} thread{'s' * (n > 1)}": own_fill(base, dtype, out, n) for n in (2, 1)},
        least={"1 thread": least},
        weights=out.size,
        bound="from draw to weight",
    )


@pytest.mark.parametrize("contestant", ["fastinit", "np.empty and fill"])
def bench_fresh(race, large, contestant):
    """A new array by the default call; the kernel's zeroing of its pages bounds both."""
    shape = (8192, large // 8 // 8192)
    race(
        "uniform float64, fresh",
        contestant,
        lambda: {
            "fastinit": lambda: fastinit.xavier_uniform(shape, 17),
            "np.empty and fill": lambda: np.empty(shape).fill(1),
        },
        least={"np.empty and fill": 1.0},
        bound="the kernel's zeroing of pages",
        weights=large // 8,
    )


SHAPES = {
    "plain": lambda n: np.ones((n, n)),
    "odd counts": lambda n: np.ones((n + 3, n - 3)),
    "one column": lambda n: np.ones((n * n, 1)),
    "one row": lambda n: np.ones((1, n * n)),
    "huge first axis, F order": lambda n: np.ones((n * n // 2, 2), order="F"),
    "huge last axis, F order": lambda n: np.ones((2, n * n // 2), order="F"),
    "one element off alignment": lambda n: np.ones(n * n + 1)[1:].reshape(n, -1),
    "every other column": lambda n: np.ones((n, 2 * n))[:, ::2],
    "three columns of four": lambda n: np.ones((n * n // 4, 4))[:, :3],
    "rows backwards": lambda n: np.ones((n, n))[::-1],
    "transposed": lambda n: np.ones((n, n)).T,
    "five axes, permuted": lambda n: np.ones((16, *4 * [n // 128])).transpose(4, 2, 0, 3, 1),
}


@pytest.mark.parametrize("contestant", SHAPES)
def bench_shapes(race, large, contestant):
    """No shape or layout falls off a cliff; about a quarter of the large buffer each, one thread."""
    side = max(128, int((large / 32) ** 0.5) // 128 * 128)
    targets = {name: make(side) for name, make in SHAPES.items()}
    race(
        "uniform float64, shapes",
        contestant,
        lambda: {
            name: lambda out=out: fastinit.uniform(None, 17, out=out, threads=1) for name, out in targets.items()
        },
        weights=targets[contestant].size,
        bound="memory",
    )


@pytest.mark.parametrize("power", range(4, 34))
@pytest.mark.parametrize("contestant", ["resident, 1 thread", "resident, 2 threads", "fresh, default", MEMSET])
def bench_sizes(race, large, power, contestant):
    """Cost against size: 16 bytes to 16 times the large buffer (8 GiB)."""
    nbytes = 1 << power
    if nbytes > 16 * large:
        pytest.skip("larger than --mib allows")
    calls = max(1, min(2000, (1 << 22) // nbytes))

    def make():
        out = np.ones(nbytes // 8).reshape(2, -1)

        runs = {
            "resident, 1 thread": lambda: fastinit.xavier_uniform(None, 17, out=out, threads=1),
            "resident, 2 threads": lambda: fastinit.xavier_uniform(None, 17, out=out, threads=2),
        }
        if nbytes <= 2 * large:
            runs["fresh, default"] = lambda: fastinit.xavier_uniform(out.shape, 17)
        return {name: repeated(run, calls) for name, run in {**runs, MEMSET: memset(out)}.items()}

    race(f"size {nbytes}", contestant, make, calls=calls, most_rounds=3 if power >= 28 else 5, weights=nbytes // 8)
