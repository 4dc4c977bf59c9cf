"""Fills against the limit and the peers: ratios of medians, contestants in turn, one process.

A ratio is the peer's time over fastinit's, except against the limit: there it is the limit's time over
fastinit's too, so 1.0 is as fast as memory can be written. Nothing here fails on a slow day.
"""

import ctypes

import numpy as np
import pytest

import fastinit
from fastinit import _core
from fastinit.bench import FASTINIT, LIMIT, MEMSET, compare, in_turn

NBYTES = 512 << 20
LEVELS = [name for name, runs in _core.levels().items() if runs]

# dtype, part of the peer's name, least ratio
AGAINST = [
    ("float64", LIMIT, 0.90),
    ("float64", MEMSET, 1.3),
    ("float64", "numpy", 5),
    ("float64", "MKL", 1.8),
    ("float64", "torch", 12),
    ("float32", "torch", 6),
    ("float32", "numpy", 4),
    ("bfloat16", "torch", 7),
    ("float16", "torch", 6.5),
    ("float8_e4m3fn", "torch", 5),
    ("float8_e5m2", "torch", 5),
]


@pytest.mark.parametrize("dtype", dict.fromkeys(dtype for dtype, _, _ in AGAINST))
def bench_resident(benchmark, record, dtype):
    """A resident 512 MiB buffer, one thread."""
    timings = benchmark.pedantic(lambda: compare(dtype, NBYTES), rounds=1)
    own = timings[FASTINIT]
    record(f"{dtype}: seconds", seconds={who: timing.median for who, timing in timings.items()})
    for _, peer, least in (line for line in AGAINST if line[0] == dtype):
        rivals = {who: timing for who, timing in timings.items() if peer in who}
        if not rivals:
            continue
        who = min(rivals, key=lambda name: rivals[name].median)
        record(
            f"{dtype} vs {who}",
            ratio=rivals[who].median / own.median,
            spread=own.spread + rivals[who].spread,
            least=least,
        )


def _ratio(benchmark, record, case, least, own, rival):
    timings = benchmark.pedantic(lambda: in_turn({"own": own, "rival": rival}), rounds=1)
    record(
        case,
        ratio=timings["rival"].median / timings["own"].median,
        spread=timings["own"].spread + timings["rival"].spread,
        least=least,
    )


def bench_two_threads(benchmark, record):
    """Two threads against one, float32, resident."""
    out = np.ones((8192, NBYTES // 4 // 8192), np.float32)
    _ratio(
        benchmark,
        record,
        "float32, two threads vs one",
        1.7,
        lambda: fastinit.xavier_uniform(None, 17, out=out, threads=2),
        lambda: fastinit.xavier_uniform(None, 17, out=out, threads=1),
    )


def bench_fresh(benchmark, record):
    """A new array, default call, against numpy's own empty and fill."""
    shape = (8192, NBYTES // 8 // 8192)
    _ratio(
        benchmark,
        record,
        "float64, fresh array, default call, vs np.empty + fill(1)",
        1.0,
        lambda: fastinit.xavier_uniform(shape, 17),
        lambda: np.empty(shape).fill(1),
    )


def bench_transposed(benchmark, record):
    """A C-order matrix filled as its transpose, against the plain fill."""
    out = np.ones((8192, NBYTES // 8 // 8192))
    _ratio(
        benchmark,
        record,
        "float64, filled as the transpose, vs plain",
        0.5,
        lambda: fastinit.xavier_uniform(None, 17, out=out.T, threads=1),
        lambda: fastinit.xavier_uniform(None, 17, out=out, threads=1),
    )


def bench_avx2(benchmark, record):
    """The AVX2 level against numpy."""
    if "avx2" not in LEVELS:
        pytest.skip("this machine has no AVX2")
    out = np.ones((8192, NBYTES // 8 // 8192))
    generator = np.random.Generator(np.random.SFC64(17))
    before = fastinit.simd_level()
    _core.select_level("avx2")
    try:
        _ratio(
            benchmark,
            record,
            "float64, AVX2 level, vs numpy SFC64 random(out=)",
            2,
            lambda: fastinit.xavier_uniform(None, 17, out=out, threads=1),
            lambda: generator.random(out=out),
        )
    finally:
        _core.select_level(before)


def bench_small(benchmark, record):
    """A 4x4 array into `out`, the whole call, against torch's on a 4x4 tensor."""
    torch = pytest.importorskip("torch")
    out, tensor = np.empty((4, 4)), torch.empty(4, 4)
    rng = fastinit.SplitMix64(17)

    def own():
        for _ in range(2000):
            fastinit.xavier_uniform(None, rng, out=out)

    def rival():
        for _ in range(2000):
            torch.nn.init.xavier_uniform_(tensor)

    _ratio(benchmark, record, "4x4 into out, whole call, vs torch xavier_uniform_", 1.0, own, rival)


@pytest.mark.parametrize("level", LEVELS)
def bench_levels(benchmark, record, level):
    """Every level and dtype, 64 MiB resident, one thread: ns an element."""
    before = fastinit.simd_level()
    figures = {}
    _core.select_level(level)
    try:
        for name, bits in (
            ("float64", "f8"),
            ("float32", "f4"),
            ("float16", "f2"),
            ("bfloat16", "u2"),
            ("float8_e4m3fn", "u1"),
            ("float8_e5m2", "u1"),
        ):
            out = np.ones((1024, (64 << 20) // np.dtype(bits).itemsize // 1024), bits)

            def fill(out=out, name=name):
                fastinit.xavier_uniform(None, 17, out=out, dtype=name, threads=1)

            figures[name] = in_turn({"own": fill}, 3)["own"].median / out.size * 1e9
        benchmark.pedantic(fill, rounds=1)
    finally:
        _core.select_level(before)
    record(f"level {level}: ns an element", **figures)


SHAPES = {
    "square": lambda: np.ones((4096, 4096)),
    "odd counts": lambda: np.ones((4099, 4093)),
    "one column": lambda: np.ones((1 << 24, 1)),
    "one row": lambda: np.ones((1, 1 << 24)),
    "huge first axis, F order": lambda: np.ones((1 << 23, 2), order="F"),
    "huge last axis, F order": lambda: np.ones((2, 1 << 23), order="F"),
    "one element off alignment": lambda: np.ones((1 << 24) + 1)[1:].reshape(4096, -1),
    "every other column": lambda: np.ones((4096, 8192))[:, ::2],
    "three columns of four": lambda: np.ones((1 << 22, 4))[:, :3],
    "rows backwards": lambda: np.ones((4096, 4096))[::-1],
    "transposed": lambda: np.ones((4096, 4096)).T,
    "five axes, permuted": lambda: np.ones((16, 32, 32, 32, 32)).transpose(4, 2, 0, 3, 1),
}


def bench_shapes(benchmark, record):
    """No shape or layout falls off a cliff: ns an element, float64, one thread, about 128 MiB each."""
    figures = {}
    for name, make in SHAPES.items():
        out = make()
        timings = in_turn({"own": lambda out=out: fastinit.uniform(None, 17, out=out, threads=1)}, 3)
        figures[name] = timings["own"].median / out.size * 1e9
    record("shapes: ns an element", **figures)
    benchmark.pedantic(lambda: fastinit.uniform((512, 512), 17), rounds=1)


def bench_sizes(benchmark, record):
    """Cost against size, 16 B to 8 GiB where memory allows, resident and fresh, one thread and two."""
    sizes = [1 << power for power in range(4, 34, 1)]
    whole = np.ones(sizes[-1] // 8)
    for nbytes in sizes:
        out = whole[: nbytes // 8].reshape(2 if nbytes >= 16 else 1, -1)
        repeats = max(1, min(2000, (1 << 22) // nbytes))

        def resident(out=out, repeats=repeats, threads=1):
            for _ in range(repeats):
                fastinit.xavier_uniform(None, 17, out=out, threads=threads)

        def memset(out=out, repeats=repeats):
            for _ in range(repeats):
                ctypes.memset(out.ctypes.data, 0, out.nbytes)

        contestants = {
            "resident, 1 thread": resident,
            "resident, 2 threads": lambda run=resident: run(threads=2),
            "memset": memset,
        }
        if nbytes <= 1 << 30:

            def fresh(shape=out.shape, repeats=repeats):
                for _ in range(repeats):
                    fastinit.xavier_uniform(shape, 17)

            contestants["fresh, default"] = fresh
        timings = in_turn(contestants, 3 if nbytes >= 1 << 28 else 5)
        record(
            f"size {nbytes}",
            nbytes=nbytes,
            seconds={who: timing.median / repeats for who, timing in timings.items()},
        )
    benchmark.pedantic(lambda: fastinit.xavier_uniform((512, 512), 17), rounds=1)
