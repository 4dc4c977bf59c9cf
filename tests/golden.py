"""Every stored bit and printed byte that a rearrangement of the code must leave as it is, as SHA-256.

`python tests/golden.py` writes golden.json beside this file: do that only where a change of the contract asks for
it, and say so in the changelog. Public names alone are used, so that the file outlives any layout of the modules.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fastinit
from fastinit import initializers

HERE = Path(__file__).parent
FILE = HERE / "golden.json"

STORED = {
    "float64": "f8",
    "float32": "f4",
    "float16": "f2",
    "bfloat16": "u2",
    "float8_e4m3fn": "u1",
    "float8_e5m2": "u1",
}
SHAPE = (37, 53)
KERNEL = (8, 6, 3, 5)
DENSE: dict[str, Any] = {"layout": "oi"}
CONVOLUTION: dict[str, Any] = {"layout": "oihw"}
GROUPED = CONVOLUTION | {"groups": 2}

FUNCTIONS: dict[str, tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = {
    "random": ("random", SHAPE, (17,), {}),
    "uniform": ("uniform", SHAPE, (17, -0.7, 0.3), {}),
    "constant": ("constant", SHAPE, (0.1,), {}),
    "zeros": ("zeros", SHAPE, (), {}),
    "ones": ("ones", SHAPE, (), {}),
    "normal": ("normal", SHAPE, (17, 0.3, 0.02), {}),
    "normal, subnormal bfloat16": ("normal", SHAPE, (17, 0.0, 1e-39), {}),
    "truncated_normal": ("truncated_normal", SHAPE, (17, 0.0, 0.02), {}),
    "truncated_normal, one side": ("truncated_normal", SHAPE, (17, 0.1, 1.0, 0.5, np.inf), {}),
    "truncated_normal, far": ("truncated_normal", SHAPE, (17, 0.0, 1.0, 5.25, 1e6), {}),
    "variance_scaling": ("variance_scaling", SHAPE, (17, 2.5, "fan_geo_avg", "truncated_normal"), {"fan_in": 99}),
    "identity": ("identity", (7, 5), (), {"gain": 1.5}),
    "identity, stack": ("identity", (3, 7, 5), (), {"layout": "eio"}),
    "dirac": ("dirac", KERNEL, (2,), CONVOLUTION),
    "orthogonal": ("orthogonal", (29, 13), (17,), {"gain": 1.5}),
    "orthogonal, grouped": ("orthogonal", KERNEL, (17,), GROUPED),
    "delta_orthogonal": ("delta_orthogonal", (8, 6, 3, 3), (17,), CONVOLUTION),
    "sparse": ("sparse", SHAPE, (17, 0.3, 0.01), {}),
    **{
        f"{family}_{distribution}": (f"{family}_{distribution}", SHAPE, (17,), {"gain": 1.3})
        for family in ("xavier", "glorot", "kaiming", "he", "lecun")
        for distribution in ("uniform", "normal", "truncated_normal")
    },
    "kaiming_uniform, convolution": ("kaiming_uniform", KERNEL, (17, "leaky_relu", 0.2, "fan_out"), GROUPED),
    "xavier_normal, fans": ("xavier_normal", SHAPE, (17,), DENSE | {"fan_in": 5, "fan_out": 9}),
}

CHANGED: dict[str, tuple[Any, tuple[int, ...], dict[str, Any]]] = {
    "scaled": (initializers.Scaled(initializers.Uniform(-1.0, 3.0), 0.3), SHAPE, {}),
    "residual": (initializers.Residual(initializers.Normal(0.1, 0.02), 12), SHAPE, {"gain": 0.7}),
    "residual of truncated": (initializers.Residual(initializers.lecun("truncated_normal"), 3), SHAPE, DENSE),
    "depth_scaled": (initializers.DepthScaled(initializers.kaiming("uniform"), 5), KERNEL, GROUPED),
    "mup": (initializers.MuP((16, 16)), SHAPE, DENSE),
    "mup of one base": (initializers.MuP((37, 16), initializers.Normal(0.0, 0.02)), SHAPE, DENSE),
    "residual of orthogonal": (initializers.Residual(initializers.Orthogonal(1.5), 2), (29, 13), {}),
    "residual of sparse": (initializers.Residual(initializers.Sparse(0.3, 0.02), 2), SHAPE, {}),
}


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def bits(array: np.ndarray[Any, Any], name: str) -> bytes:
    """The stored bytes, little-endian; LAPACK has a say in the last digits of an orthogonal float64."""
    if "orthogonal" in name and array.dtype == np.float64:
        array = np.round(array, 9) + 0.0
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).tobytes()


def forms(
    fill: Callable[..., object], shape: tuple[int, ...], dtype: str, name: str
) -> Iterator[tuple[str, bytes]]:
    """The whole tensor, a part with steps in both directions, and one with gaps in the other memory order."""
    whole = np.zeros(shape, STORED[dtype])
    fill(shape, out=whole, dtype=dtype)
    yield "whole", bits(whole, name)
    index = (..., slice(None, 0, -2), slice(1, None, 3))
    part = np.zeros(np.empty(shape)[index].shape, STORED[dtype])
    fill(shape, out=part, dtype=dtype, index=index)
    yield "part", bits(part, name)
    strided = np.zeros(tuple(2 * n for n in reversed(shape)), STORED[dtype])[
        tuple([slice(None, None, 2)] * len(shape))
    ]
    fill(shape, out=strided.T, dtype=dtype)
    yield "strided", bits(strided.T, name)


def functions() -> Iterator[tuple[str, str]]:
    for name, (function, shape, arguments, options) in FUNCTIONS.items():
        call = getattr(fastinit, function)
        yield from hashes(name, lambda shape, **where: call(shape, *arguments, **options, **where), shape)  # noqa: B023
    for name, (initializer, shape, options) in CHANGED.items():
        yield from hashes(
            name,
            lambda shape, **where: fastinit.initialize(shape, 17, initializer, **options, **where),  # noqa: B023
            shape,
        )


def hashes(name: str, fill: Callable[..., object], shape: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    for dtype in STORED:
        try:
            for form, data in forms(fill, shape, dtype, name):
                yield f"{name} | {dtype} | {form}", sha(data)
        except fastinit.DistributionError as error:
            yield f"{name} | {dtype}", type(error).__name__


LAYOUT = {
    "a.position_ids": {"dtype": "I64", "shape": [1, 5]},
    "b.float8.weight": {"dtype": "F8_E4M3", "shape": [3, 5]},
    "c.LayerNorm.bias": {"dtype": "F64", "shape": []},
    "d.half.weight": {"dtype": "F16", "shape": [3, 3]},
    "e.empty.weight": {"dtype": "F32", "shape": [0, 4]},
    "f.double.weight": {"dtype": "F64", "shape": [4, 3]},
    "g.float8b.weight": {"dtype": "F8_E5M2", "shape": [7, 1]},
    "h.brain.weight": {"dtype": "BF16", "shape": [5, 3]},
    "i.norm.weight": {"dtype": "F32", "shape": [3]},
    "j.num_batches_tracked": {"dtype": "I32", "shape": []},
    "k.conv.weight": {"dtype": "F32", "shape": [5, 7, 3, 3]},
}
BUNDLED = (
    "all-minilm-l6-v2",
    "gpt2-124m",
    "llama-3-8b",
    "llama-3.1-405b",
    "llama-3.2-1b",
    "resnet-50",
    "vit-b16",
    "whisper-small",
)
SKIPPED = {"whisper-small": ["--skip", "model.encoder.embed_positions.weight"]}
"""A table of sines, which no seed makes."""
COMMANDS = (
    ["init", "LAYOUT", "--out", "OUT"],
    ["init", "LAYOUT", "--out", "OUT", "--seed", "99", "--order", "sequential", "--dtype", "f64"],
    ["init", "LAYOUT", "--out", "OUT", "--dtype", "bf16"],
    ["init", "all-minilm-l6-v2", "--out", "OUT"],
    *(["show", name, "--json", *SKIPPED.get(name, [])] for name in BUNDLED),
    ["show", "LAYOUT", "--json", "--seed", "5", "--dtype", "f8_e4m3", "--order", "sequential"],
    *(
        [command, *json, "--seed", seed]
        for command in ("report", "trace")
        for json in ([], ["--json"])
        for seed in ("17", "99")
    ),
)


def commands(folder: Path) -> Iterator[tuple[str, str]]:
    """What each command prints, or the file that it writes."""
    layout, out = folder / "layout.json", folder / "out.safetensors"
    layout.write_text(json.dumps(LAYOUT))
    for words in COMMANDS:
        arguments = [{"LAYOUT": os.fspath(layout), "OUT": os.fspath(out)}.get(word, word) for word in words]
        out.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, "-m", "fastinit", *arguments], check=True, capture_output=True)
        yield f"fastinit {' '.join(words)}", sha(out.read_bytes() if "OUT" in words else done.stdout)


def everything(folder: Path) -> dict[str, str]:
    return {**dict(functions()), **dict(commands(folder))}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        FILE.write_text(json.dumps(everything(Path(place)), indent=0) + "\n")
