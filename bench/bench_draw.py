"""Normal and truncated normal fills against the peers: ratios of medians, contestants in turn, one process.

A ratio is the peer's time over fastinit's. Nothing here fails on a slow day.
"""

import ctypes

import numpy as np
import pytest

import fastinit
from fastinit import _core
from fastinit.bench import in_turn, mkl

NBYTES = 512 << 20


def _ratios(benchmark, record, own, rivals, rounds=5, pause=0.0):
    """Record one ratio a rival: {name: (run, least)}."""
    runs = {"own": own, **{name: run for name, (run, _) in rivals.items()}}
    timings = benchmark.pedantic(lambda: in_turn(runs, rounds, pause), rounds=1)
    for name, (_, least) in rivals.items():
        record(
            name,
            ratio=timings[name].median / timings["own"].median,
            spread=timings[name].spread + timings["own"].spread,
            least=least,
            seconds={who: timings[who].median for who in ("own", name)},
        )


def bench_normal_float64(benchmark, record):
    """Resident 512 MiB, one thread, against numpy's ziggurat, torch, and MKL's inverse CDF."""
    out = np.ones(NBYTES // 8)
    generator = np.random.Generator(np.random.SFC64(17))
    rivals = {"normal float64 vs numpy standard_normal(out=)": (lambda: generator.standard_normal(out=out), 6)}
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    tensor = torch.from_numpy(out)
    rivals["normal float64 vs torch normal_"] = (tensor.normal_, 9.5)
    library = mkl()
    if library is not None:
        stream = ctypes.c_void_p()
        library.vslNewStream(ctypes.byref(stream), ctypes.c_int(0xD00000), ctypes.c_uint(17))

        def icdf():
            address = ctypes.c_void_p(out.ctypes.data)
            zero, one = ctypes.c_double(0.0), ctypes.c_double(1.0)
            assert library.vdRngGaussian(2, stream, ctypes.c_int(out.size), address, zero, one) == 0

        rivals["normal float64 vs MKL ICDF"] = (icdf, 0.8)
    _ratios(benchmark, record, lambda: fastinit.normal(None, 17, out=out, threads=1), rivals)


@pytest.mark.parametrize(("dtype", "bits", "least"), [("float32", "f4", 2), ("bfloat16", "u2", 3)])
def bench_normal_narrow(benchmark, record, dtype, bits, least):
    """Resident 512 MiB, one thread, against torch."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    out = np.ones(NBYTES // np.dtype(bits).itemsize, bits)
    tensor = torch.from_numpy(out.view(f"i{out.itemsize}")).view(getattr(torch, dtype))
    _ratios(
        benchmark,
        record,
        lambda: fastinit.normal(None, 17, out=out, dtype=dtype, threads=1),
        {f"normal {dtype} vs torch normal_": (tensor.normal_, least)},
    )


def bench_truncated_float32(benchmark, record):
    """Two cores each, 64 MiB, against torch's trunc_normal_ and jax."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(2)
    out = np.ones((4096, 4096), np.float32)
    tensor = torch.from_numpy(out.copy())
    rivals = {
        "truncated normal float32 vs torch trunc_normal_": (lambda: torch.nn.init.trunc_normal_(tensor), 40),
    }
    try:
        import jax  # noqa: PLC0415

        key = jax.random.key(17)
        draw = jax.jit(lambda key: jax.random.truncated_normal(key, -2.0, 2.0, out.shape, "float32"))
        rivals["truncated normal float32 vs jax"] = (lambda: draw(key).block_until_ready(), 6)
    except ImportError:
        pass
    _ratios(benchmark, record, lambda: fastinit.truncated_normal(None, 17, out=out, threads=2), rivals, 7, 0.5)


def bench_normal_avx2(benchmark, record):
    """The AVX2 level against numpy."""
    if not _core.levels().get("avx2"):
        pytest.skip("this machine has no AVX2")
    out = np.ones(NBYTES // 8)
    generator = np.random.Generator(np.random.SFC64(17))
    before = fastinit.simd_level()
    _core.select_level("avx2")
    try:
        _ratios(
            benchmark,
            record,
            lambda: fastinit.normal(None, 17, out=out, threads=1),
            {"normal float64, AVX2 level, vs numpy": (lambda: generator.standard_normal(out=out), 2.3)},
        )
    finally:
        _core.select_level(before)


def bench_normal_two_threads(benchmark, record):
    """Two threads against one."""
    out = np.ones(NBYTES // 8)
    _ratios(
        benchmark,
        record,
        lambda: fastinit.normal(None, 17, out=out, threads=2),
        {"normal float64, two threads vs one": (lambda: fastinit.normal(None, 17, out=out, threads=1), 1.8)},
    )


@pytest.mark.parametrize("shape", [(256, 256), (1024, 1024), (2048, 512), (512, 2048)], ids=str)
def bench_orthogonal(benchmark, record, shape):
    """The whole initializer, its normals included, against the QR decomposition alone, of a tall matrix always."""
    matrix = np.random.Generator(np.random.SFC64(17)).standard_normal(sorted(shape, reverse=True))
    _ratios(
        benchmark,
        record,
        lambda: fastinit.orthogonal(shape, 17),
        {f"orthogonal {shape} vs numpy.linalg.qr": (lambda: np.linalg.qr(matrix), 0.83)},
        rounds=15,
    )
