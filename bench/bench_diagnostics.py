"""Diagnosing a checkpoint against reading it, and propagation against the products that it cannot do without.

The file is read from the page cache, through one buffer of the size that a diagnosis reads with: the hardest
denominator.
"""

import os
import subprocess
import sys

import pytest

from fastinit import Plan, write_checkpoint
from fastinit.diagnosis import diagnose

CHUNK = 1 << 19


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("contestant", ["diagnose", "reading"])
def bench_diagnose(race, large, tmp_path, dtype, threads, contestant):
    """A checkpoint of 2.5 GB: 40 matrices."""

    def make():
        columns = 5 * large // 40 // 4096 // {"float32": 4, "bfloat16": 2}[dtype]
        specs = {f"layer.{i}.weight": {"dtype": "F32", "shape": [4096, columns]} for i in range(40)}
        path = tmp_path / "w.safetensors"
        write_checkpoint(Plan.from_specs(specs, 17, dtype=dtype), path)
        buffer = memoryview(bytearray(CHUNK))

        def read():
            with open(path, "rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

        return {"diagnose": lambda: diagnose(path, threads=threads), "reading": read}

    race(
        f"diagnose {dtype}, {threads} thread{'s' * (threads > 1)}",
        contestant,
        make,
        least={"reading": 0.5},
        bound="the moments' arithmetic",
    )


PRODUCTS = """
import sys, threading
import numpy as np
x, w = np.ones((256, 512), np.float32), np.ones((512, 512), np.float32)
def half():
    for _ in range(6 * 5 * 50 * 2 // 2):
        x @ w
threads = [threading.Thread(target=half) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
"""The products of the command's default, forwards and backwards, on two threads that share them."""


@pytest.mark.parametrize("contestant", ["fastinit propagate", "its products alone"])
def bench_propagate(race, contestant):
    """The command's default, a process: 50 layers, 512 wide, 6 schemes, 5 seeds."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
    commands = {
        "fastinit propagate": ["-m", "fastinit", "propagate"],
        "its products alone": ["-c", PRODUCTS],
    }

    def process(arguments):
        env = {**environment, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *arguments]
        return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)

    race(
        "propagate, whole process",
        contestant,
        lambda: {name: process(arguments) for name, arguments in commands.items()},
        most_rounds=5,
        bound="BLAS and the activations",
    )
