"""Check the normal and truncated normal weights at length: `make accuracy`. The tests run a part of each check.

mpmath, at 40 digits and more, judges the errors of 10**6 normal draws, of 1000 neighbours each way of every join,
and of 10**5 truncated draws. Order is checked on 10**8 adjacent pairs, the fused multiply-add on 10**8 triples.
The short ways of csrc/brief.h are compared with the exact one on 10**9 weights of each dtype and level, and their
float32 intervals for the upper bits of every draw.
The distribution is checked on 10**9 draws of one stream: moments to order 4, Kolmogorov and Smirnov's distance,
chi-square over 2**16 cells of equal mass, counts past 4, 5 and 6 standard deviations.
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path
from statistics import NormalDist

import numpy as np

import fastinit
from fastinit import _core

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import test_quantile  # noqa: E402
import test_truncated  # noqa: E402

DRAWS, CHUNK, PAIRS = 10**6, 5000, 10**8
TRUNCATED_DRAWS = 10**5
MANY, CELLS, BLOCK = 10**9, 2**16, 10**7
SIGMAS = 5.0
"""Bound of each statistic in standard errors: a false alarm in 1,700,000, two-sided and normal."""
KOLMOGOROV = 2.745
"""The same false alarm for sqrt(n) D: ``sqrt(-log(5.7e-7 / 2) / 2)``; at the cells' edges it is rarer still."""
FLAGS = ["-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", f"-I{ROOT / 'csrc'}"]


def chunk_error(seed: int) -> tuple[float, int]:
    """Return the largest error in ulp of `CHUNK` draws, and where: half of them uniform, half evenly by binade."""
    rng = random.Random(seed)
    ks = [rng.getrandbits(53) >> (rng.randrange(53) if i % 2 else 0) for i in range(CHUNK)]
    return test_quantile.worst_error(ks)  # type: ignore[no-any-return]


def truncated_error(bounds: tuple[float, float]) -> tuple[float, tuple[float, float]]:
    """Return the largest error between `bounds`, in units of max(ulp, 2**-52), and the bounds."""
    ks = test_truncated.some_ks(2, TRUNCATED_DRAWS // len(BOUNDS) // 3)
    found = zip(ks, map(float, test_truncated.zs(ks, *bounds)), strict=True)
    worst = max(abs(test_truncated.excess(z, k, *bounds)) / max(math.ulp(abs(z)), 2.0**-52) for k, z in found)
    return worst, bounds


BOUNDS = [bounds for bounds in test_truncated.NEAR + test_truncated.FAR if bounds[0] < 1e100]


def native(name: str, *words: str, level: str = "") -> bool:
    """Compile and run one of tests/native, or one that includes a level's file; say whether it found all good."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / name)
        core = [str(path) for path in sorted((ROOT / "csrc").rglob("*.c")) if path.stem != level]
        sources = [f'-DLEVEL_FILE="levels/{level}.c"', str(ROOT / "tests" / "native" / f"{name}.c"), *core]
        subprocess.run(["gcc", *FLAGS, *sources, "-lm", "-o", program], check=True)
        return subprocess.run([program, *words], check=False).returncode == 0


def distribution() -> Iterator[tuple[str, float, float]]:
    """Yield (statistic, value, bound on its magnitude) of `MANY` draws of the stream of seed 17."""
    edges = np.array([NormalDist().inv_cdf(cell / CELLS) for cell in range(1, CELLS)])
    below, powers = np.zeros(CELLS - 1, np.int64), np.zeros(4)
    tails = dict.fromkeys((4, 5, 6), 0)
    z = np.empty(BLOCK)
    for start in range(0, MANY, BLOCK):
        fastinit.normal((MANY,), 17, 0.0, 1.0, out=z, index=slice(start, start + BLOCK))
        z.sort()
        below += np.searchsorted(z, edges)
        square = z * z
        powers += z.sum(), square.sum(), (square * z).sum(), (square * square).sum()
        for sigma in tails:
            tails[sigma] += BLOCK - int(np.searchsorted(z, sigma, "right")) + int(np.searchsorted(z, -sigma))
    for order, (mean, variance) in enumerate(((0, 1), (1, 2), (0, 15), (3, 96)), 1):
        error = (powers[order - 1] / MANY - mean) / math.sqrt(variance / MANY)
        yield f"moment {order}, in standard errors", error, SIGMAS
    distance = np.abs(below / MANY - np.arange(1, CELLS) / CELLS).max()
    yield "Kolmogorov's sqrt(n) D", math.sqrt(MANY) * distance, KOLMOGOROV
    counts, expected = np.diff(below, prepend=0, append=MANY), MANY / CELLS
    chi_square = float(((counts - expected) ** 2).sum() / expected)
    yield "chi-square, in standard deviations", (chi_square - (CELLS - 1)) / math.sqrt(2 * (CELLS - 1)), SIGMAS
    for sigma, count in tails.items():
        mass = MANY * math.erfc(sigma / math.sqrt(2))
        yield f"{count} past {sigma} sigma, {mass:.1f} expected, in sqrt", (count - mass) / math.sqrt(mass), SIGMAS


def main() -> int:
    """Run everything; 0 if it is within the promises."""
    failed = 0

    def judge(what: str, value: float, bound: float) -> None:
        nonlocal failed
        good = abs(value) <= bound
        failed += not good
        print(f"{what}: {value:.4f} (at most {bound}) {'good' if good else 'FAILED'}", flush=True)

    for name in ("order", "fma"):
        judge(f"{name}, {PAIRS:.0e} cases, faults found", not native(name, str(PAIRS)), 0)
    judge("short ways, 1e+09 weights of each dtype and level, faults found", not native("brief", "1000"), 0)
    for level in ("avx2", "avx512"):
        if _core.levels().get(level):
            judge(f"intervals of {level}, all 2**31, faults found", not native("intervals", level=level), 0)
    ks = [k for join in test_quantile.joins() for k in test_quantile.neighbourhood(join, 1000)]
    error, k = test_quantile.worst_error(ks)
    judge(f"joins, 1000 neighbours each way, worst ulp (k = {k})", error, 3)
    with Pool() as pool:
        error, k = max(pool.imap_unordered(chunk_error, range(DRAWS // CHUNK)))
        judge(f"{DRAWS:.0e} normal draws, worst ulp (k = {k})", error, 3)
        error, bounds = max(pool.imap_unordered(truncated_error, BOUNDS))
        judge(f"{TRUNCATED_DRAWS:.0e} truncated draws, worst in max(ulp, 2**-52) (bounds {bounds})", error, 4)
    for statistic in distribution():
        judge(*statistic)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
