"""Check the normal quantile at length (`make accuracy`): 10**6 draws, 10**8 adjacent pairs, 10**8 fused triples.

The tests run the same checks on fewer numbers. mpmath at 40 digits is the judge of errors.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from multiprocessing import Pool
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import test_quantile  # noqa: E402

DRAWS, CHUNK, PAIRS = 10**6, 5000, 10**8
FLAGS = ["-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", f"-I{ROOT / 'csrc'}"]


def chunk_error(seed: int) -> tuple[float, int]:
    """Return the largest error in ulp of `CHUNK` draws, and where: half of them uniform, half evenly by binade."""
    rng = random.Random(seed)
    ks = [rng.getrandbits(53) >> (rng.randrange(53) if i % 2 else 0) for i in range(CHUNK)]
    return test_quantile.worst_error(ks)  # type: ignore[no-any-return]


def native(name: str, *words: str) -> None:
    """Compile and run one of tests/native."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / name)
        sources = [str(ROOT / "tests" / "native" / f"{name}.c"), *map(str, sorted((ROOT / "csrc").glob("*.c")))]
        subprocess.run(["gcc", *FLAGS, *sources, "-lm", "-o", program], check=True)
        subprocess.run([program, *words], check=True)
    print(f"{name} {' '.join(words)}: good", flush=True)


def main() -> int:
    """Run everything; 0 if it is within the promises."""
    native("order", str(PAIRS))
    native("fma", str(PAIRS))
    ks = [k for join in test_quantile.joins() for k in test_quantile.neighbourhood(join, 1000)]
    at_joins = test_quantile.worst_error(ks)
    print(f"joins, 1000 neighbours each way: {at_joins[0]:.4f} ulp at k = {at_joins[1]}", flush=True)
    with Pool() as pool:
        worst = max(pool.imap_unordered(chunk_error, range(DRAWS // CHUNK)))
    print(f"{DRAWS} draws: {worst[0]:.4f} ulp at k = {worst[1]}")
    return int(max(worst[0], at_joins[0]) >= 3)


if __name__ == "__main__":
    sys.exit(main())
