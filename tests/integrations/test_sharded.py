"""Sharded tensors: every rank fills its own shard, without a word to the others, and the whole is the same bytes.

The danger is that each rank draws the same numbers, or those of another place. Real processes with gloo: 2 and 4.
"""

import os
import socket

import pytest
from conftest import peer

torch = peer("torch")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

import fastinit.torch as ft  # noqa: E402
from fastinit.errors import PlanError  # noqa: E402
from fastinit.torch.loading import shards  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about how it communicates


def network():
    return nn.Sequential(nn.Linear(7, 5), nn.Embedding(9, 4, padding_idx=1))


def whole(build):
    with ft.fast_init(17):
        return build()


def recording_of(build):
    with ft.record() as recording:
        build()
    return recording


def on_meta(build):
    with torch.device("meta"):
        return build()


def check(model, build):
    """Gather every tensor of a sharded model, and compare it with the whole one."""
    ft.init_module(model, recording_of(build), seed=17)
    for (name, expected), (_, found) in zip(
        whole(build).named_parameters(), model.named_parameters(), strict=True
    ):
        assert torch.equal(expected, found.full_tensor()), name


def distributed(build, mesh, placements):
    model = on_meta(build)
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            fits = all(not place.is_shard() or place.dim < parameter.dim() for place in placements)
            chosen = placements if fits else [Replicate() for _ in placements]
            empty = torch.empty(parameter.shape)
            module._parameters[name] = nn.Parameter(distribute_tensor(empty, mesh, chosen))
    return model


def check_rank(rank, ranks, port):
    """All that one rank does; an assertion that fails ends the test."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    line = init_device_mesh("cpu", (ranks,))
    for placement in (Shard(0), Shard(1), Replicate()):  # 5 rows: uneven, and for 4 ranks one shard is empty
        check(distributed(network, line, [placement]), network)
    model = on_meta(network)
    for module in model:
        fully_shard(module, mesh=line)
    check(fully_shard(model, mesh=line), network)
    if ranks == 4:
        square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
        for placements in (
            [Shard(0), Shard(1)],
            [Shard(1), Shard(0)],
            [Shard(0), Shard(0)],
            [Replicate(), Shard(1)],
        ):
            check(distributed(network, square, placements), network)

        def layers():
            return nn.Sequential(nn.Linear(6, 8, bias=False), nn.Linear(8, 6, bias=False))

        model = on_meta(layers)
        parallelize_module(model, square["tensor"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
        check(fully_shard(model, mesh=square["data"]), layers)  # strided shards
    dist.destroy_process_group()


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_rank_fills_its_own_shard(ranks):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(check_rank, (ranks, port), nprocs=ranks)


def test_sums_that_are_not_finished_are_refused():
    class Unfinished:
        placements = (type("Partial", (), {"is_partial": lambda self: True})(),)

        def detach(self):
            return self

        def to_local(self):
            return torch.zeros(2)

    with pytest.raises(PlanError, match="sums that are not finished"):
        list(shards(Unfinished()))
