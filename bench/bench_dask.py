"""Dask on threads against the plain fill and against da.random; a checkpoint by dask against one without.

Arrays are persisted: all of them is made, chunk by chunk, in fresh memory, as the plain fill makes its one array.
`compute` copies the chunks into one array besides, with dask's own code. A ratio is the other's time over that of
fastinit.dask.
"""

import os
import tempfile

import pytest
from peers import needs

import fastinit

pytestmark = needs("dask", "distributed")
ROUNDS = 5
WITHIN = 1 / 1.2
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Where a checkpoint is written: on a disk that others use, nothing else would be measured."""


def shape_of(large):
    return (1 << 14, large >> 16)


@pytest.mark.parametrize("chunks", ["auto", "16 MiB"])
@pytest.mark.parametrize(("name", "dtype"), [("normal", "float32"), ("xavier_uniform", "float64")])
@pytest.mark.parametrize("contestant", ["fastinit.dask", "plain fill"])
def bench_plain(race, large, name, dtype, chunks, contestant):
    """Every weight made, on the same number of threads."""
    from fastinit import dask  # noqa: PLC0415

    shape = shape_of(large)
    array = getattr(dask, name)(shape, 17, dtype=dtype, chunks=chunks)
    plain = getattr(fastinit, name)
    race(
        f"dask {name} {dtype}, chunks {chunks}",
        contestant,
        lambda: {
            "fastinit.dask": lambda: array.persist(scheduler="threads"),
            "plain fill": lambda: plain(shape, 17, dtype=dtype),
        },
        least={"plain fill": WITHIN},
        most_rounds=ROUNDS,
        weights=shape[0] * shape[1],
        bound="the kernel's zeroing of pages",
    )


@pytest.mark.parametrize("contestant", ["fastinit.dask", "plain fill"])
def bench_one_array(race, large, contestant):
    """One numpy array, by one chunk on all threads: there is nothing to copy."""
    from fastinit import dask  # noqa: PLC0415

    shape = shape_of(large)
    array = dask.normal(shape, 17, dtype="float32", chunks=-1, threads=None)
    race(
        "dask normal float32, one chunk",
        contestant,
        lambda: {
            "fastinit.dask": array.compute,
            "plain fill": lambda: fastinit.normal(shape, 17, dtype="float32"),
        },
        least={"plain fill": WITHIN},
        most_rounds=ROUNDS,
        weights=shape[0] * shape[1],
        bound="the kernel's zeroing of pages",
    )


@pytest.mark.parametrize("how", ["persist", "compute"])
@pytest.mark.parametrize("contestant", ["fastinit.dask", "da.random"])
def bench_da_random(race, large, how, contestant):
    """The same chunks of dask's own normals, which are others at other chunks."""
    import dask.array as da  # noqa: PLC0415

    from fastinit import dask  # noqa: PLC0415

    shape = shape_of(large)
    ours = dask.normal(shape, 17, dtype="float32")
    theirs = da.random.default_rng(17).standard_normal(shape, dtype="float32", chunks=ours.chunks)
    race(
        f"dask normal float32, {how}",
        contestant,
        lambda: {"fastinit.dask": getattr(ours, how), "da.random": getattr(theirs, how)},
        least={"da.random": 2},
        most_rounds=ROUNDS,
        weights=shape[0] * shape[1],
        bound="the kernel's zeroing of pages",
    )


@pytest.mark.parametrize("contestant", ["fastinit.dask", "write_checkpoint"])
def bench_checkpoint(race, contestant):
    """A checkpoint of 2.5 GB in memory, by a cluster of threads and by plain threads."""
    import distributed  # noqa: PLC0415

    from fastinit import dask  # noqa: PLC0415

    plan = fastinit.Plan.from_specs("llama-3.2-1b", seed=17)
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        distributed.Client(processes=False, n_workers=1, dashboard_address=":0") as client,
    ):
        path = os.path.join(folder, "model.safetensors")
        race(
            "dask checkpoint, llama-3.2-1b",
            contestant,
            lambda: {
                "fastinit.dask": lambda: dask.write_checkpoint(plan, path, client, force=True),
                "write_checkpoint": lambda: fastinit.write_checkpoint(plan, path, force=True),
            },
            least={"write_checkpoint": WITHIN},
            most_rounds=ROUNDS,
            bound="the kernel's pages",
        )
