"""Fills that need the whole tensor, and the truncated normal on two threads, beside numpy's QR and jax."""

import numpy as np
import pytest

import fastinit


@pytest.mark.parametrize("shape", [(256, 256), (1024, 1024), (2048, 512), (512, 2048)], ids=str)
@pytest.mark.parametrize("contestant", ["fastinit", "numpy.linalg.qr"])
def bench_orthogonal(race, shape, contestant):
    """The whole initializer, its normals included, against the QR decomposition alone, of a tall matrix always."""
    matrix = np.random.Generator(np.random.SFC64(17)).standard_normal(sorted(shape, reverse=True))
    race(
        f"orthogonal {shape}",
        contestant,
        lambda: {
            "fastinit": lambda: fastinit.orthogonal(shape, 17),
            "numpy.linalg.qr": lambda: np.linalg.qr(matrix),
        },
        least={"numpy.linalg.qr": 0.83},
        weights=matrix.size,
        bound="LAPACK's QR",
    )


def two_threads(shape):
    """Calls on two threads, whose number jax chooses itself."""
    out = np.ones(shape, np.float32)
    calls = {"fastinit": lambda: fastinit.truncated_normal(None, 17, out=out, threads=2)}
    try:
        import jax  # noqa: PLC0415
    except ImportError:
        return calls
    key = jax.random.key(17)
    draw = jax.jit(lambda key: jax.random.truncated_normal(key, -2.0, 2.0, shape, "float32"))
    return {**calls, "jax, jit": lambda: draw(key).block_until_ready()}


@pytest.mark.parametrize("contestant", ["fastinit", "jax, jit"])
def bench_truncated_by_threads(race, large, contestant):
    """Two cores each; jax's threads spin for a while after their work, and so everybody waits before a round."""
    shape = (4096, large // 8 // 4 // 4096)
    race(
        "truncated normal float32, two threads",
        contestant,
        lambda: two_threads(shape),
        least={"jax, jit": 6},
        weights=shape[0] * shape[1],
        pause=0.5,
        bound="from draw to weight",
    )
