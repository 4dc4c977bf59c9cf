"""Diagnosing and verifying a checkpoint against reading it, from memory and from the disk; propagation against the
products that it cannot do without.

The page cache is the hardest denominator: it is read faster than weights can be drawn or their moments taken. A
file that came from elsewhere is read from the disk.
"""

import os
import subprocess
import sys

import pytest

from fastinit import Plan, verify_checkpoint, write_checkpoint
from fastinit.cli.timing import seconds_of_one
from fastinit.diagnosis import diagnose

CHUNK = 1 << 19


def checkpoint(path, dtype, large):
    """A checkpoint of 2.5 GB: 40 matrices."""
    columns = 5 * large // 40 // 4096 // {"float32": 4, "bfloat16": 2}[dtype]
    specs = {f"layer.{i}.weight": {"dtype": "F32", "shape": [4096, columns]} for i in range(40)}
    write_checkpoint(Plan.from_specs(specs, 17, dtype=dtype), path)


def reading(path):
    """Read a file through one buffer of the size that a diagnosis reads with."""
    buffer = memoryview(bytearray(CHUNK))
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("contestant", ["diagnose", "reading"])
def bench_diagnose(race, large, tmp_path, dtype, threads, contestant):
    """From the page cache."""
    path = tmp_path / "w.safetensors"

    def make():
        checkpoint(path, dtype, large)
        return {"diagnose": lambda: diagnose(path, threads=threads), "reading": lambda: reading(path)}

    race(
        f"diagnose {dtype}, {threads} thread{'s' * (threads > 1)}",
        contestant,
        make,
        least={"reading": 0.5},
        bound="the moments' arithmetic",
    )


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no way to empty the page cache of a file")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("check", [diagnose, verify_checkpoint], ids=["diagnose", "verify"])
@pytest.mark.parametrize("contestant", ["fastinit", "reading"])
def bench_from_disk(race, large, tmp_path, dtype, check, contestant):
    """With a page cache that has nothing of the file, by the default number of threads."""
    path = tmp_path / "w.safetensors"

    def make():
        checkpoint(path, dtype, large)
        return {"fastinit": lambda: check(path), "reading": lambda: reading(path)}

    def from_disk(run):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return seconds_of_one(run)

    race(
        f"{check.__name__.split('_')[0]} {dtype}, from the disk",
        contestant,
        make,
        least={"reading": 0.9},
        most_rounds=5,
        seconds_of=from_disk,
        bound="the disk",
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
