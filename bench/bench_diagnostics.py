"""Diagnosing a checkpoint against reading it, and propagation as a whole process.

The file is read from the page cache, through one buffer of the size that a diagnosis reads with: the hardest
denominator. The ratio is the time of reading over that of diagnosing.
"""

import os
import subprocess
import sys

import pytest

from fastinit import Plan, write_checkpoint
from fastinit._engine.speed import in_turn
from fastinit.diagnosis import diagnose

CHUNK = 1 << 19
SIZE = 2_500_000_000


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def bench_diagnose(benchmark, record, tmp_path, dtype, threads):
    """A checkpoint of 2.5 GB: 40 matrices."""
    itemsize = {"float32": 4, "bfloat16": 2}[dtype]
    columns = SIZE // 40 // 4096 // itemsize
    specs = {f"layer.{i}.weight": {"dtype": "F32", "shape": [4096, columns]} for i in range(40)}
    path = tmp_path / "w.safetensors"
    write_checkpoint(Plan.from_specs(specs, 17, dtype=dtype), path)
    buffer = memoryview(bytearray(CHUNK))

    def read():
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    def judge():
        assert diagnose(path, threads=threads)

    timings = benchmark.pedantic(lambda: in_turn({"read": read, "diagnose": judge}, 7), rounds=1)
    record(
        f"diagnose {dtype}, {threads} threads, vs reading",
        ratio=timings["read"].median / timings["diagnose"].median,
        spread=timings["read"].spread + timings["diagnose"].spread,
        least=0.5,
        seconds={name: timing.median for name, timing in timings.items()},
    )


def bench_propagate(benchmark, record):
    """The command's default: 50 layers, 512 wide, 6 schemes, 5 seeds; the ratio is 5 s over its time."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}

    def run():
        subprocess.run(
            [sys.executable, "-m", "fastinit", "propagate"], check=True, stdout=subprocess.DEVNULL, env=environment
        )

    timing = benchmark.pedantic(lambda: in_turn({"propagate": run}, 5)["propagate"], rounds=1)
    record(
        "propagate, whole process, vs 5 s",
        ratio=5.0 / timing.median,
        spread=timing.spread,
        least=1,
        seconds={"propagate": timing.median},
    )
