"""A cluster of dask; and torchvision beside a torch for CPUs.

Its operators do not load there, and no test calls one of them.
PyPI's torchvision for Linux is built for CUDA. timm and transformers import it, and its Python code asks for the
names of its operators; so they get names.
"""

import ctypes
import importlib.util
from pathlib import Path

import pytest
from conftest import peer

NAMES = ("nms", "qnms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")


def loads(library):
    try:
        ctypes.CDLL(str(library))
    except OSError:
        return False
    return True


found = importlib.util.find_spec("torchvision") if importlib.util.find_spec("torch") else None
if found is not None and found.origin is not None:
    import torch  # before its libraries are looked for

    if not all(map(loads, Path(found.origin).parent.glob("_C*.so"))):
        operators = torch.library.Library("torchvision", "FRAGMENT")  # they go when this object does
        for name in NAMES:
            for each in (name, f"_{name}_backward"):
                operators.define(f"{each}() -> Tensor")


@pytest.fixture(scope="module")
def cluster():
    """A client of a cluster of two processes, which are started again when they die."""
    dask, distributed = peer("dask"), peer("distributed")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as processes,
        distributed.Client(processes) as found,
    ):
        yield found


@pytest.fixture
def client(cluster):
    """The client, once both processes are there."""
    cluster.wait_for_workers(2, timeout=60)
    return cluster
