"""Checkpoints beside `cp` of the same bytes to the same folder, both on disk before they count.

`cp` reads a file that is in memory already, writes another, synchronizes it and renames it over the last one: what
`write_checkpoint` does with bytes that it makes. `--basetemp` chooses the disk.
"""

import os
import shutil
import subprocess
import tempfile

import pytest

from fastinit import Plan, write_checkpoint

MEMORY = "/dev/shm"
MAIN_JOB = "all-minilm-l6-v2"
"""What `make run` writes: 90 MB."""


def plan_of(nbytes):
    """Return a plan of 40 bfloat16 matrices, as large together."""
    columns = max(1, nbytes // 40 // 4096 // 2)
    specs = {f"layer.{i}.weight": {"dtype": "BF16", "shape": [4096, columns]} for i in range(40)}
    return Plan.from_specs(specs, 17)


def synchronize(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_and_copy(plan, folder):
    """Return the two calls; the source of the copy is in the page cache."""
    free, needed = (
        shutil.disk_usage(folder).free,
        5 * plan.nbytes,
    )  # three files, and one more while each is replaced
    if free < needed:
        pytest.skip(f"{folder} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} are needed")
    source, copy, path = (os.path.join(folder, name) for name in ("source", "copy", "own.safetensors"))
    write_checkpoint(plan, path)
    shutil.copyfile(path, source)
    synchronize(source)

    def run():
        part = f"{copy}.part"
        subprocess.run(["cp", source, part], check=True)
        synchronize(part)
        os.replace(part, copy)
        synchronize(folder)

    return {"fastinit": lambda: write_checkpoint(plan, path, force=True), "cp and sync": run}


@pytest.mark.parametrize("contestant", ["fastinit", "cp and sync"])
def bench_main_job(race, tmp_path, contestant):
    """The main job's file, synchronized."""
    race(
        "main job of 90 MB, synced",
        contestant,
        lambda: write_and_copy(Plan.from_specs(MAIN_JOB, seed=17), tmp_path),
        least={"cp and sync": 1.2},
        bound="the disk",
    )


@pytest.mark.parametrize("contestant", ["fastinit", "cp and sync"])
def bench_checkpoint(race, large, tmp_path, contestant):
    """A checkpoint of 2.5 GB on a disk."""
    race(
        "checkpoint of 2.5 GB, on disk",
        contestant,
        lambda: write_and_copy(plan_of(5 * large), tmp_path),
        least={"cp and sync": 1.3},
        most_rounds=5,
        bound="the disk",
    )


@pytest.mark.parametrize("contestant", ["fastinit", "cp and sync"])
def bench_in_memory(race, large, contestant):
    """The same on a file system in memory."""
    if not os.path.isdir(MEMORY):
        pytest.skip(f"this system has no {MEMORY}")
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        race(
            "checkpoint of 2.5 GB, tmpfs",
            contestant,
            lambda: write_and_copy(plan_of(5 * large), folder),
            least={"cp and sync": 0.9},
            most_rounds=5,
            bound="the kernel's pages",
        )
