"""What a fill is measured against: the speed of memory, and whatever peers are installed, in the same run.

Machines are shared and noisy, so contestants are timed in turn (A B C A B C ...), and a figure is a median with
its spread. The limit of a fill is a constant written by the same stores: the fill without its arithmetic.
"""

from __future__ import annotations

import ctypes
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import _core
from ..functions import constant, xavier_uniform
from .cpus import default_threads
from .dtypes import BY_NAME, FLOATS
from .parts import Array

Contestant = Callable[[], object]

LIMIT = "constant fill, same stores"
MEMSET = "libc memset"
FASTINIT = "fastinit xavier_uniform"


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
    """Time every contestant `rounds` times, one after the other in each round, after one round to warm up.

    Before each run `pause` seconds pass: thread pools of OpenMP and jax spin for a while after their work, and
    would slow the contestant that comes next.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            time.sleep(pause)
            began = time.perf_counter()
            run()
            elapsed = time.perf_counter() - began
            if number:
                seconds[name].append(elapsed)
    return {name: Timing(statistics.median(runs), min(runs), max(runs)) for name, runs in seconds.items()}


def memset_seconds(nbytes: int, rounds: int = 5) -> float:
    """Return the median time libc's memset takes over `nbytes` of resident memory.

    Parameters
    ----------
    nbytes : int
        Bytes; of more than 1 GiB only 1 GiB is written, and the time scaled.
    rounds : int, default 5
        Runs to take the median of.
    """
    measured = min(nbytes, 1 << 30)
    if measured == 0:
        return 0.0
    buffer = np.ones(measured, np.uint8)
    return in_turn({MEMSET: _memset(buffer)}, rounds)[MEMSET].median * (nbytes / measured)


def compare(dtype: str, nbytes: int, threads: int = 1, rounds: int = 7) -> dict[str, Timing]:
    """Time fastinit, the limit and every installed peer over one resident buffer of `nbytes` bytes.

    Parameters
    ----------
    dtype : str
        The weights' dtype, by name.
    nbytes : int
        Size of the buffer in bytes.
    threads : int, default 1
        For fastinit and for the peers that can be told.
    rounds : int, default 7
        Timed runs of each.

    Returns
    -------
    dict of str to Timing
        By contestant.
    """
    chosen = BY_NAME[dtype]
    buffer = np.ones(nbytes, np.uint8)[: nbytes // chosen.itemsize * chosen.itemsize].view(chosen.bits)
    matrix = _as_matrix(buffer)
    contestants: dict[str, Contestant] = {
        FASTINIT: lambda: xavier_uniform(None, 17, out=matrix, dtype=dtype, threads=threads),
        LIMIT: lambda: constant(None, 0.5, out=matrix, dtype=dtype, threads=threads),
        MEMSET: _memset(buffer),
    }
    for peers in (_numpy_peers, _torch_peers, _mkl_peers, _randomgen_peers, _jax_peers, _numba_peers):
        contestants.update(peers(dtype, buffer, threads))
    return in_turn(contestants, rounds)


def table(dtype: str, elements: int, timings: dict[str, Timing]) -> list[str]:
    """Return the comparison as text lines: ns an element, GB/s, and how many times as long as fastinit."""
    nbytes = elements * BY_NAME[dtype].itemsize
    own = timings[FASTINIT].median
    lines = [f"{dtype}, {nbytes:,} bytes{'':<12}  ns/element    GB/s  times fastinit's   spread"]
    for name, timing in timings.items():
        lines.append(
            f"  {name:<36}{timing.median / elements * 1e9:>10.3f}{nbytes / timing.median / 1e9:>8.2f}"
            f"{timing.median / own:>18.2f}{timing.spread:>8.0%}"
        )
    return lines


def machine() -> dict[str, Any]:
    """Return what a figure depends on: CPU, kernels, compiler, flags, versions, commit."""
    compiler, flags = _core.build()
    return {
        "cpu": _cpu_name(),
        "cpus": default_threads(),
        "level": _core.simd_level(),
        "levels": _core.levels(),
        "compiler": compiler,
        "flags": flags,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.platform(),
        "commit": _commit(),
    }


def dtype_names() -> tuple[str, ...]:
    """Return the names of the dtypes weights can be drawn in."""
    return tuple(dtype.name for dtype in FLOATS)


def _as_matrix(buffer: Array) -> Array:
    """Two axes, of which fans can be taken; the same contiguous memory."""
    rows = next(n for n in (1024, 64, 4, 2, 1) if buffer.size % n == 0 and buffer.size >= n)
    return buffer.reshape(rows, -1)


def _memset(buffer: Array) -> Contestant:
    address, nbytes = buffer.ctypes.data, buffer.nbytes
    return lambda: ctypes.memset(address, 0, nbytes)


def _numpy_peers(dtype: str, buffer: Array, threads: int) -> Iterator[tuple[str, Contestant]]:  # noqa: ARG001
    if dtype not in ("float64", "float32"):
        return
    for bits in (np.random.PCG64, np.random.SFC64):
        generator = np.random.Generator(bits(17))
        yield f"numpy {bits.__name__} random(out=)", lambda g=generator: g.random(out=buffer, dtype=dtype)  # type: ignore[misc]


def _torch_peers(dtype: str, buffer: Array, threads: int) -> Iterator[tuple[str, Contestant]]:
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return
    torch.set_num_threads(threads)
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[buffer.itemsize]
    weights = torch.from_numpy(_as_matrix(buffer).view(f"i{buffer.itemsize}" if buffer.itemsize > 1 else "u1"))
    weights = weights.view(bits).view(getattr(torch, dtype))
    if buffer.itemsize > 1:
        yield "torch xavier_uniform_", lambda: torch.nn.init.xavier_uniform_(weights)
        return

    def cast() -> None:
        weights.copy_(torch.empty(weights.shape).uniform_(-0.05, 0.05))

    yield "torch uniform_ and cast", cast


def _mkl_peers(dtype: str, buffer: Array, threads: int) -> Iterator[tuple[str, Contestant]]:
    if dtype not in ("float64", "float32") or threads != 1:
        return
    library = mkl()
    if library is None:
        return
    fill = library.vdRngUniform if dtype == "float64" else library.vsRngUniform
    number = ctypes.c_double if dtype == "float64" else ctypes.c_float
    candidates: dict[str, Contestant] = {}
    block = min(buffer.size, 1 << 27)  # the interface counts in 32 bits
    for name, code in (("MCG59", 0x500000), ("SFMT19937", 0xD00000), ("ARS5", 0xF00000), ("MT2203", 0xA00000)):
        stream = ctypes.c_void_p()
        if library.vslNewStream(ctypes.byref(stream), ctypes.c_int(code), ctypes.c_uint(17)):
            continue

        def run(stream: ctypes.c_void_p = stream) -> None:
            for begin in range(0, buffer.size, block):
                count = min(block, buffer.size - begin)
                address = ctypes.c_void_p(buffer.ctypes.data + begin * buffer.itemsize)
                fill(0, stream, ctypes.c_int(count), address, number(-0.05), number(0.05))

        candidates[name] = run
    if candidates:
        trial = in_turn(candidates, 2)
        best = min(trial, key=lambda name: trial[name].median)
        yield f"MKL v{'d' if dtype == 'float64' else 's'}RngUniform ({best})", candidates[best]


def mkl() -> Any:
    """Return Intel MKL's library, as the package mkl installs it, sequential; None where it is not."""
    folder = Path(sys.prefix) / "lib"
    found = sorted(folder.glob("libmkl_rt.so*"))
    if not found:
        return None
    try:
        library = ctypes.CDLL(str(found[-1]))
        library.MKL_Set_Threading_Layer(1)
    except OSError:
        return None
    return library


def _randomgen_peers(dtype: str, buffer: Array, threads: int) -> Iterator[tuple[str, Contestant]]:  # noqa: ARG001
    if dtype not in ("float64", "float32"):
        return
    try:
        import randomgen  # noqa: PLC0415
    except ImportError:
        return
    generator = np.random.Generator(randomgen.SFMT(17))
    yield "randomgen SFMT random(out=)", lambda: generator.random(out=buffer, dtype=dtype)  # type: ignore[call-overload]


def _jax_peers(dtype: str, buffer: Array, threads: int) -> Iterator[tuple[str, Contestant]]:
    if dtype not in ("float32", "bfloat16", "float16") or threads == 1:  # its CPU threads cannot be told
        return
    try:
        import jax  # noqa: PLC0415
    except ImportError:
        return
    key = jax.random.key(17)
    draw = jax.jit(lambda key: jax.random.uniform(key, (buffer.size,), dtype))
    yield "jax random.uniform (jit)", lambda: draw(key).block_until_ready()


def _numba_peers(dtype: str, buffer: Array, threads: int) -> Iterator[tuple[str, Contestant]]:
    if dtype not in ("float64", "float32"):
        return
    try:
        import numba  # noqa: PLC0415
    except ImportError:
        return
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))

    @numba.njit(parallel=True)  # type: ignore[untyped-decorator]
    def fill(out: Array) -> None:
        for i in numba.prange(out.size):
            out[i] = np.random.random()

    yield "numba prange np.random.random", lambda: fill(buffer)


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _commit() -> str | None:
    """Return the commit of the checkout this package is imported from; None outside one."""
    folder = Path(__file__).parent
    if not (folder.parent / ".git").exists():
        return None
    try:
        command = ["git", "-C", os.fspath(folder), "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
