"""Calls that type checkers must take, and what they must make of the results."""

import array
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import fastinit
from fastinit.initializers import Normal, kaiming

rng = fastinit.SplitMix64(17)
single = np.empty((2, 3), np.float32, order="F")

assert_type(fastinit.normal((2, 3), 17), NDArray[np.float64])
assert_type(fastinit.xavier_uniform((2, 3), rng, gain=2, layout="oi", groups=1), NDArray[np.float64])
assert_type(fastinit.kaiming_normal((2, 3), rng, "gelu", mode="fan_out"), NDArray[np.float64])
assert_type(fastinit.normal((2, 3), 17, dtype=np.float32), NDArray[np.float32])
assert_type(fastinit.normal((2, 3), 17, dtype=np.dtype(np.float16)), NDArray[np.float16])
assert_type(fastinit.zeros(3, dtype=np.float32), NDArray[np.float32])
assert_type(fastinit.identity((3, 3), index=(slice(1), ...)), NDArray[np.float64])
assert_type(rng.random(), float)
assert_type(rng.random(3), NDArray[np.float64])
assert_type(rng.random((3, 2), np.float32), NDArray[np.float32])
assert_type(rng.normal(), float)
assert_type(rng.normal(0.0, 1.0, 3), NDArray[np.float64])
assert_type(rng.normal(size=3), NDArray[np.float64])
assert_type(rng.uniform(size=(2, 2)), NDArray[np.float64])
assert_type(rng.standard_normal(), float)
assert_type(fastinit.fans((2, 3), "oi"), tuple[int, int])
assert_type(fastinit.autodiff.relu(fastinit.TensorValue.constant(fastinit.Tensor([1.0]))), fastinit.TensorValue)

arrays: list[np.ndarray[Any, Any]] = [
    fastinit.normal((2, 3), 17, dtype="float32"),
    fastinit.normal((2, 3), 17, dtype="bf16"),
    fastinit.normal((2, 3), 17, dtype="torch.bfloat16"),
    fastinit.normal((2, 3), 17, dtype=float),
    fastinit.normal([2, 3], 17, out=single),
    fastinit.normal(None, 17, out=single),
    fastinit.normal((2, 3), 17, out=single[:1], index=slice(1)),
    fastinit.normal(3, 17, out=array.array("d", [0.0] * 3)),
    fastinit.normal(np.int64(3), np.uint64(17)),
    fastinit.initialize((2, 3), 17, "he_normal", fan_in=3),
    fastinit.initialize((2, 3), 17, kaiming("normal", "gelu")),
    fastinit.he_normal((2, 3), 17, dtype="F32"),
    Normal(std=0.02)((2, 3), 17, dtype="float8_e5m2"),
    rng.random(out=single),
]
