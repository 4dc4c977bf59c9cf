"""Fills of a resident buffer on one thread, beside what no fill beats on this CPU and beside the peers.

Every distribution, dtype and level. A ratio is the contestant's time over fastinit's; to the limits it says how
near the fill comes: 1.0 is as fast as this CPU can. `EARLIER` has ratios to the same case of an earlier file.
"""

from itertools import product

import pytest
from peers import DTYPES, LEVELS, PEERS, contestants, fills

from fastinit._engine.dtypes import BY_NAME
from fastinit.cli.timing import STORES, resident

LEVEL_NAMES = {"avx512": "AVX-512", "avx2": "AVX2", "neon": "NEON"}
NARROW = ("bfloat16", "float16")
TRUNCATED = ("float64", "float32", "bfloat16")
WORKS = [*product(("uniform", "normal"), DTYPES), *product(("truncated normal",), TRUNCATED)]
PORTABLE_BYTES = 16 << 20
"""A portable normal that needs an exact fma for every step takes 200 ns."""

# {(base, dtype, level): {contestant: least}}
LEAST = {
    ("uniform", "float64", "avx512"): {STORES: 0.9, "numpy": 5, "MKL": 1.8, "torch": 12},
    ("uniform", "float32", "avx512"): {"numpy": 4, "torch": 6},
    ("uniform", "bfloat16", "avx512"): {"torch": 7},
    ("uniform", "float16", "avx512"): {"torch": 6.5},
    ("uniform", "float8_e4m3fn", "avx512"): {"torch": 5},
    ("uniform", "float8_e5m2", "avx512"): {"torch": 5},
    ("normal", "float64", "avx512"): {"numpy": 6, "torch": 9.5, "MKL": 0.8},
    ("normal", "float32", "avx512"): {"torch": 2.6},
    ("normal", "bfloat16", "avx512"): {"torch": 6},
    ("normal", "float16", "avx512"): {"torch": 4.2},
    ("truncated normal", "float32", "avx512"): {"torch": 35},
    ("uniform", "float64", "avx2"): {"numpy": 2},
    ("normal", "float64", "avx2"): {"numpy": 2.3},
}

# {(base, dtype, level): least}: how many times as fast as exact float64 arithmetic for every weight
EARLIER = {
    **{("normal", dtype, "avx512"): 2.2 for dtype in NARROW},
    **{("normal", dtype, "avx2"): 1.7 for dtype in NARROW},
    **{("uniform", dtype, "avx2"): 1.35 for dtype in NARROW},
    ("uniform", "bfloat16", "avx512"): 1.5,
    ("uniform", "float16", "avx512"): 1.3,
    ("uniform", "float32", "avx512"): 1.15,
    ("normal", "float32", "avx512"): 1.2,
    ("truncated normal", "bfloat16", "avx512"): 2,
    ("normal", "float32", "portable"): 20,
    ("normal", "bfloat16", "portable"): 20,
    ("normal", "float64", "portable"): 3.5,
}


def names(base, dtype, level):
    """Return who fills: on the best level everybody, on the others fastinit and the peers of its aims."""
    everybody = contestants(base, dtype)
    if level == LEVELS[0]:
        return everybody
    return [name for name in everybody if name not in PEERS or name in LEAST.get((base, dtype, level), {})]


def cases():
    for (base, dtype), level in product(WORKS, LEVELS):
        for name in names(base, dtype, level):
            yield pytest.param(base, dtype, level, name, id=f"{base}-{dtype}-{level}-{name.partition(':')[0]}")


def size_of(base, level, large):
    """Bytes of the buffer: fewer where a weight takes long."""
    if level == "portable":
        return min(large, PORTABLE_BYTES)
    return large // 8 if base == "truncated normal" else large


@pytest.mark.parametrize(("base", "dtype", "level", "contestant"), list(cases()))
def bench_fill(race, large, base, dtype, level, contestant):
    """A resident buffer, one thread."""
    size = size_of(base, level, large)
    race(
        f"{base} {dtype}, {LEVEL_NAMES.get(level, level)}",
        contestant,
        lambda: fills(base, dtype, resident(dtype, size), level, names(base, dtype, level)),
        least=LEAST.get((base, dtype, level)),
        earlier=EARLIER.get((base, dtype, level)),
        weights=size // BY_NAME[dtype].itemsize,
        base=base,
        dtype=dtype,
        level=level,
    )
