"""Dask on threads against the plain fill and against da.random; a checkpoint by dask against one without.

Arrays are persisted: all of them is made, chunk by chunk, in fresh memory, as the plain fill makes its one array.
`compute` copies the chunks into one array besides, with dask's own code. A ratio is the other's time over that of
fastinit.dask.
"""

import os
import tempfile

import pytest

import fastinit
from fastinit.cli.timing import in_turn

SHAPE = (1 << 14, 1 << 13)
ROUNDS = 5
WITHIN = 1 / 1.2
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Where a checkpoint is written: on a disk that others use, nothing else would be measured."""


def note(benchmark, record, case, own, other, least):
    """Time `own` and `other` in turn, and record the ratio of `other` to `own`."""
    runs = {"fastinit.dask": own, case: other}
    timings = benchmark.pedantic(lambda: in_turn(runs, ROUNDS), rounds=1)
    record(
        case,
        ratio=timings[case].median / timings["fastinit.dask"].median,
        spread=sum(timing.spread for timing in timings.values()),
        least=least,
        seconds={who: timing.median for who, timing in timings.items()},
    )


@pytest.mark.parametrize("chunks", ["auto", "16 MiB"])
@pytest.mark.parametrize(("name", "dtype"), [("normal", "float32"), ("xavier_uniform", "float64")])
def bench_plain(benchmark, record, name, dtype, chunks):
    """Every weight made, on the same number of threads."""
    dask = pytest.importorskip("fastinit.dask")
    array = getattr(dask, name)(SHAPE, 17, dtype=dtype, chunks=chunks)
    plain = getattr(fastinit, name)
    case = f"plain fill vs dask, {name} {dtype}, chunks {chunks}"
    note(
        benchmark,
        record,
        case,
        lambda: array.persist(scheduler="threads"),
        lambda: plain(SHAPE, 17, dtype=dtype),
        WITHIN,
    )


def bench_one_array(benchmark, record):
    """One numpy array, by one chunk on all threads: there is nothing to copy."""
    dask = pytest.importorskip("fastinit.dask")
    array = dask.normal(SHAPE, 17, dtype="float32", chunks=-1, threads=None)
    case = "plain fill vs dask compute of one chunk, normal float32"
    note(benchmark, record, case, array.compute, lambda: fastinit.normal(SHAPE, 17, dtype="float32"), WITHIN)


@pytest.mark.parametrize("how", ["persist", "compute"])
def bench_da_random(benchmark, record, how):
    """The same chunks of dask's own normals, which are others at other chunks."""
    dask, da = pytest.importorskip("fastinit.dask"), pytest.importorskip("dask.array")
    ours = dask.normal(SHAPE, 17, dtype="float32")
    theirs = da.random.default_rng(17).standard_normal(SHAPE, dtype="float32", chunks=ours.chunks)
    note(
        benchmark,
        record,
        f"da.random vs fastinit.dask, normal float32, {how}",
        getattr(ours, how),
        getattr(theirs, how),
        2,
    )


def bench_checkpoint(benchmark, record):
    """A checkpoint of 2.5 GB in memory, by a cluster of threads and by plain threads."""
    dask, distributed = pytest.importorskip("fastinit.dask"), pytest.importorskip("distributed")
    plan = fastinit.Plan.from_specs("llama-3.2-1b", seed=17)
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        distributed.Client(processes=False, n_workers=1, dashboard_address=":0") as client,
    ):
        path = os.path.join(folder, "model.safetensors")
        note(
            benchmark,
            record,
            "write_checkpoint vs dask, llama-3.2-1b",
            lambda: dask.write_checkpoint(plan, path, client, force=True),
            lambda: fastinit.write_checkpoint(plan, path, force=True),
            WITHIN,
        )
