"""Peers that fill the same buffer as fastinit: numpy, torch, MKL, randomgen, jax and numba, where installed.

Each function of `PEERS` takes a dtype, a buffer and a number of threads. It yields (contestant's name, call), or
nothing where the peer is missing or lacks the dtype.
"""

import ctypes
import sys
from pathlib import Path

import numpy as np

from fastinit.cli.timing import as_matrix, fill_and_limits, in_turn, resident

WIDE = ("float64", "float32")
MKL_GENERATORS = (("MCG59", 0x500000), ("SFMT19937", 0xD00000), ("ARS5", 0xF00000), ("MT2203", 0xA00000))
MKL_BLOCK = 1 << 27
"""Elements of one call of MKL, whose interface counts in 32 bits."""


def compare(dtype, nbytes, threads=1, rounds=7):
    """Time fastinit, its limits and every installed peer over one resident buffer: {contestant: Timing}."""
    buffer = resident(dtype, nbytes)
    contestants = fill_and_limits(dtype, buffer, threads)
    for peers in PEERS:
        contestants.update(peers(dtype, buffer, threads))
    return in_turn(contestants, rounds)


def mkl():
    """Return Intel MKL's library from the package mkl, set to run sequentially; None where it is missing."""
    found = sorted((Path(sys.prefix) / "lib").glob("libmkl_rt.so*"))
    if not found:
        return None
    try:
        library = ctypes.CDLL(str(found[-1]))
        library.MKL_Set_Threading_Layer(1)
    except OSError:
        return None
    return library


def mkl_stream(library, generator):
    """Return a new stream of one of MKL's generators; None where this MKL lacks the generator."""
    stream = ctypes.c_void_p()
    refused = library.vslNewStream(ctypes.byref(stream), ctypes.c_int(generator), ctypes.c_uint(17))
    return None if refused else stream


def _numpy(dtype, buffer, threads):
    if dtype not in WIDE:
        return
    for bits in (np.random.PCG64, np.random.SFC64):
        generator = np.random.Generator(bits(17))
        yield f"numpy {bits.__name__} random(out=)", lambda g=generator: g.random(out=buffer, dtype=dtype)


def _torch(dtype, buffer, threads):
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return
    torch.set_num_threads(threads)
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[buffer.itemsize]
    weights = torch.from_numpy(as_matrix(buffer).view(f"i{buffer.itemsize}" if buffer.itemsize > 1 else "u1"))
    weights = weights.view(bits).view(getattr(torch, dtype))
    if buffer.itemsize > 1:
        yield "torch xavier_uniform_", lambda: torch.nn.init.xavier_uniform_(weights)
        return

    def cast():
        weights.copy_(torch.empty(weights.shape).uniform_(-0.05, 0.05))

    yield "torch uniform_ and cast", cast


def _mkl(dtype, buffer, threads):
    """MKL with the fastest of its generators here."""
    library = mkl()
    if library is None or dtype not in WIDE or threads != 1:
        return
    candidates = {}
    for name, generator in MKL_GENERATORS:
        stream = mkl_stream(library, generator)
        if stream is not None:
            candidates[name] = _mkl_fill(library, stream, dtype, buffer)
    if candidates:
        trial = in_turn(candidates, 2)
        best = min(trial, key=lambda name: trial[name].median)
        yield f"MKL v{'d' if dtype == 'float64' else 's'}RngUniform ({best})", candidates[best]


def _mkl_fill(library, stream, dtype, buffer):
    double = dtype == "float64"
    fill = library.vdRngUniform if double else library.vsRngUniform
    number = ctypes.c_double if double else ctypes.c_float

    def run():
        for begin in range(0, buffer.size, MKL_BLOCK):
            count = min(MKL_BLOCK, buffer.size - begin)
            address = ctypes.c_void_p(buffer.ctypes.data + begin * buffer.itemsize)
            fill(0, stream, ctypes.c_int(count), address, number(-0.05), number(0.05))

    return run


def _randomgen(dtype, buffer, threads):
    if dtype not in WIDE:
        return
    try:
        import randomgen  # noqa: PLC0415
    except ImportError:
        return
    generator = np.random.Generator(randomgen.SFMT(17))
    yield "randomgen SFMT random(out=)", lambda: generator.random(out=buffer, dtype=dtype)


def _jax(dtype, buffer, threads):
    if dtype not in ("float32", "bfloat16", "float16") or threads == 1:  # jax's number of threads cannot be set
        return
    try:
        import jax  # noqa: PLC0415
    except ImportError:
        return
    key = jax.random.key(17)
    draw = jax.jit(lambda key: jax.random.uniform(key, (buffer.size,), dtype))
    yield "jax random.uniform (jit)", lambda: draw(key).block_until_ready()


def _numba(dtype, buffer, threads):
    if dtype not in WIDE:
        return
    try:
        import numba  # noqa: PLC0415
    except ImportError:
        return
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))

    @numba.njit(parallel=True)
    def fill(out):
        for i in numba.prange(out.size):
            out[i] = np.random.random()

    yield "numba prange np.random.random", lambda: fill(buffer)


PEERS = (_numpy, _torch, _mkl, _randomgen, _jax, _numba)
