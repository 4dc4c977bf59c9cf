"""The peers that fill the same buffer: numpy, torch, MKL, randomgen and numba, where installed.

`PEERS` says which distributions and dtypes each has; `fills` makes the calls of one race.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import fastinit
from fastinit import _core
from fastinit._engine.dtypes import FLOATS
from fastinit._engine.parts import Array
from fastinit.cli.timing import MEMSET, MIX, STORES, Contestant, as_matrix, in_turn, limits

DTYPES = tuple(dtype.name for dtype in FLOATS)
WIDE = ("float64", "float32")
OWN = "fastinit"
LEVELS = [name for name, runs in _core.levels().items() if runs]
MKL_GENERATORS = {"MCG59": 0x500000, "SFMT19937": 0xD00000, "ARS5": 0xF00000, "MT2203": 0xA00000}
MKL_BLOCK = 1 << 27
"""Elements of one call of MKL, whose interface counts in 32 bits."""


@contextlib.contextmanager
def level(name: str) -> Iterator[None]:
    """Use the kernels called `name`."""
    before = fastinit.simd_level()
    assert _core.select_level(name) == _core.OK, f"this machine has no level {name}"
    try:
        yield
    finally:
        _core.select_level(before)


def own_fill(base: str, dtype: str, buffer: Array, threads: int = 1) -> Contestant:
    """Return fastinit's fill of `buffer`: Xavier's uniform, a normal, or one truncated at two deviations."""
    if base == "uniform":
        matrix = as_matrix(buffer)
        return lambda: fastinit.xavier_uniform(None, 17, out=matrix, dtype=dtype, threads=threads)
    draw = {"normal": fastinit.normal, "truncated normal": fastinit.truncated_normal}[base]
    return lambda: draw(None, 17, out=buffer, dtype=dtype, threads=threads)


def fills(base: str, dtype: str, buffer: Array, kernels: str, names: list[str]) -> dict[str, Contestant | None]:
    """Return fastinit's fill at a level, what no fill beats there, and peers of `names`; all on one thread."""

    def at_level(run: Contestant) -> Contestant:
        def call() -> None:
            with level(kernels):
                run()

        return call

    own = {OWN: own_fill(base, dtype, buffer), **limits(dtype, buffer, 1)}
    return {
        **{name: at_level(run) for name, run in own.items()},
        **{name: peer.fill(base, dtype, buffer) for name, peer in PEERS.items() if name in names},
    }


def needs(*libraries: str) -> pytest.MarkDecorator:
    """Skip a case where one of the libraries is not installed."""
    absent = [name for name in libraries if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)}")


def contestants(base: str, dtype: str) -> list[str]:
    """Return the names of `fills`, whether installed or not."""
    return [OWN, STORES, MIX, MEMSET, *(name for name, peer in PEERS.items() if peer.has(base, dtype))]


def fastest(candidates: dict[str, Contestant]) -> Contestant | None:
    """Return the fastest of the calls in two rounds."""
    if len(candidates) < 2:
        return next(iter(candidates.values()), None)
    trial = in_turn(candidates, 2)
    return candidates[min(trial, key=lambda name: trial[name].median)]


@dataclass(frozen=True)
class Peer:
    """What a library can do, and the function of (base, dtype, buffer) that returns its call, None without it."""

    bases: tuple[str, ...]
    dtypes: tuple[str, ...]
    fill: Callable[[str, str, Array], Contestant | None]

    def has(self, base: str, dtype: str) -> bool:
        """Whether it can fill this dtype from this distribution."""
        return base in self.bases and dtype in self.dtypes


def _numpy(base: str, dtype: str, buffer: Array) -> Contestant | None:
    """Numpy with the faster of two bit generators."""

    def fill(bits: type) -> Contestant:
        generator = np.random.Generator(bits(17))
        draw = generator.random if base == "uniform" else generator.standard_normal
        return lambda: draw(out=buffer, dtype=dtype)

    return fastest({bits.__name__: fill(bits) for bits in (np.random.PCG64, np.random.SFC64)})


def as_tensor(dtype: str, buffer: Array):
    """Return the buffer as a tensor of torch."""
    import torch  # noqa: PLC0415

    bits = buffer.view(f"i{buffer.itemsize}" if buffer.itemsize > 1 else "u1")
    return torch.from_numpy(bits).view(getattr(torch, dtype))


def _torch(base: str, dtype: str, buffer: Array) -> Contestant | None:
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return None
    torch.set_num_threads(1)
    weights = as_tensor(dtype, as_matrix(buffer))
    if weights.element_size() == 1:  # it draws no float8

        def cast() -> None:
            wide = torch.empty(weights.shape)
            weights.copy_(wide.uniform_(-0.05, 0.05) if base == "uniform" else wide.normal_())

        return cast
    draw = {
        "uniform": torch.nn.init.xavier_uniform_,
        "normal": torch.Tensor.normal_,
        "truncated normal": torch.nn.init.trunc_normal_,
    }[base]
    return lambda: draw(weights)


def _mkl(base: str, dtype: str, buffer: Array) -> Contestant | None:
    """MKL, sequential, with the fastest of its generators here; normals by its inverse CDF."""
    found = sorted((Path(sys.prefix) / "lib").glob("libmkl_rt.so*"))
    if not found:
        return None
    try:
        library = ctypes.CDLL(str(found[-1]))
        library.MKL_Set_Threading_Layer(1)
    except OSError:
        return None
    candidates = {}
    for name, generator in MKL_GENERATORS.items():
        stream = ctypes.c_void_p()
        if library.vslNewStream(ctypes.byref(stream), ctypes.c_int(generator), ctypes.c_uint(17)) == 0:
            candidates[name] = _mkl_fill(library, stream, base, dtype, buffer)
    return fastest(candidates)


def _mkl_fill(library: ctypes.CDLL, stream: ctypes.c_void_p, base: str, dtype: str, buffer: Array) -> Contestant:
    letter, number = ("d", ctypes.c_double) if dtype == "float64" else ("s", ctypes.c_float)
    function = getattr(library, f"v{letter}Rng{'Uniform' if base == 'uniform' else 'Gaussian'}")
    method, first, second = (0, -0.05, 0.05) if base == "uniform" else (2, 0.0, 1.0)

    def run() -> None:
        for begin in range(0, buffer.size, MKL_BLOCK):
            count = min(MKL_BLOCK, buffer.size - begin)
            address = ctypes.c_void_p(buffer.ctypes.data + begin * buffer.itemsize)
            assert function(method, stream, ctypes.c_int(count), address, number(first), number(second)) == 0

    return run


def _randomgen(base: str, dtype: str, buffer: Array) -> Contestant | None:
    try:
        import randomgen  # noqa: PLC0415
    except ImportError:
        return None
    generator = np.random.Generator(randomgen.SFMT(17))
    return lambda: generator.random(out=buffer, dtype=dtype)


def _numba(base: str, dtype: str, buffer: Array) -> Contestant | None:
    try:
        import numba  # noqa: PLC0415
    except ImportError:
        return None

    @numba.njit
    def fill(out):
        for i in range(out.size):
            out[i] = np.random.random()

    return lambda: fill(buffer)


PEERS = {
    "numpy": Peer(("uniform", "normal"), WIDE, _numpy),
    "torch": Peer(("uniform", "normal", "truncated normal"), DTYPES, _torch),
    "MKL": Peer(("uniform", "normal"), WIDE, _mkl),
    "randomgen": Peer(("uniform",), WIDE, _randomgen),
    "numba": Peer(("uniform",), WIDE, _numba),
}
