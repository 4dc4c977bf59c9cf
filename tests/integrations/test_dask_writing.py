"""Checkpoints written by the workers of dask: the bytes of one process, whoever dies, and a sentence on failure.

The judge of the bytes is `fastinit.write_checkpoint`, one process, and of them `verify_checkpoint`.
"""

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import given_plans
import numpy as np
import pytest
from conftest import MIXED, ROOT, peer, run

import fastinit
from fastinit import Plan
from fastinit.errors import CheckpointError
from fastinit.writing import writing

dask = peer("dask")
distributed = peer("distributed")

import fastinit.dask  # noqa: E402  # after the peers: it refuses to load without them
from fastinit.dask.writing import Origin, _write  # noqa: E402

SPECS = {f"layer.{n}.weight": {"dtype": "F32", "shape": [1024, 1024]} for n in range(12)} | MIXED
PLAN = Plan.from_specs(SPECS, seed=17)
LAYOUTS = {"one file": {}, "shards": {"max_shard_size": "20 MB"}, "npy": {"format": "npy"}}


def contents(path):
    """{name: bytes} of a file, or of all files of a folder."""
    return {file.name: file.read_bytes() for file in (path.iterdir() if path.is_dir() else [path])}


def plan_for(options):
    """numpy's own format has no narrow dtypes of others."""
    if options.get("format") != "npy":
        return PLAN
    return Plan.from_specs(
        {name: spec for name, spec in SPECS.items() if spec["dtype"] in ("F32", "I64")}, seed=17
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What one process writes: {layout: contents}."""
    made = {}
    for name, options in LAYOUTS.items():
        path = tmp_path_factory.mktemp("plain") / "model.safetensors"
        fastinit.write_checkpoint(plan_for(options), path, **options)
        made[name] = contents(path)
    return made


@pytest.mark.parametrize("where", ["threads", "processes"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cluster_of_this_machine_writes_the_same_bytes(layout, where, plain, tmp_path):
    path, options = tmp_path / "model.safetensors", LAYOUTS[layout]
    written = fastinit.dask.write_checkpoint(plan_for(options), path, where, **options)
    assert contents(path) == plain[layout]
    assert os.listdir(tmp_path) == [path.name]
    assert set(written.files) == plain[layout].keys()
    assert not written.unfinished


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_dead_workers_regions_are_written_by_another(client, layout, plain, tmp_path):
    path, options = tmp_path / "model.safetensors", LAYOUTS[layout]
    pids, told = client.run(os.getpid), []

    def kill_one(done, total, name):
        if not told:
            os.kill(next(iter(pids.values())), signal.SIGKILL)
        told.append((done, total))

    written = fastinit.dask.write_checkpoint(plan_for(options), path, client, kill_one, **options)
    assert client.run(os.getpid) != pids
    assert contents(path) == plain[layout]
    assert told == sorted(told)
    assert told[-1] == (written.size, written.size)
    if layout != "npy":
        assert fastinit.verify_checkpoint(path, seed=17)


@pytest.mark.parametrize("way", ["in use", "address", "file"])
def test_the_client_in_use_an_address_and_a_scheduler_file_are_the_cluster(
    client, way, plain, tmp_path, monkeypatch
):
    seen = []
    monkeypatch.setattr(fastinit.dask.writing, "_check_workers", seen.append)
    if way == "file":
        (tmp_path / "scheduler.json").write_text(json.dumps({"address": client.scheduler.address}))
    named = {"in use": None, "address": client.scheduler.address, "file": str(tmp_path / "scheduler.json")}[way]
    fastinit.dask.write_checkpoint(PLAN, tmp_path / "m.safetensors", named)
    assert contents(tmp_path / "m.safetensors").popitem()[1] == plain["one file"]["model.safetensors"]
    assert seen[0].keys() == client.scheduler_info()["workers"].keys()
    assert client.status == "running", "it is the caller's"


def test_given_data_does_not_pass_the_scheduler(client, tmp_path, monkeypatch):
    """It is written where it lies; tasks are descriptions."""
    sent = []

    def spied(function, regions, **options):
        sent.extend(regions)
        return distributed.Client.map(client, function, regions, **options)

    monkeypatch.setattr(client, "map", spied)
    mask = np.tri(5000, dtype=bool)
    plan = Plan(17, "mine", "named", [given_plans.planned("mask", mask), *PLAN.values()], {"mask": mask})
    fastinit.dask.write_checkpoint(plan, tmp_path / "m.safetensors", client)
    assert fastinit.verify_checkpoint(tmp_path / "m.safetensors")
    assert len(sent) > 5, "those of the other tensors"
    assert max(len(pickle.dumps(region)) for region in sent) < 100_000


def test_a_plan_of_every_kind_of_data_is_written(client, tmp_path):
    """Masks, packed floats, copies, parts."""
    plan = given_plans.given_plan().with_given(given_plans.DATA)
    fastinit.dask.write_checkpoint(plan, tmp_path / "dask.safetensors", client)
    fastinit.write_checkpoint(plan, tmp_path / "plain.safetensors")
    assert (tmp_path / "dask.safetensors").read_bytes() == (tmp_path / "plain.safetensors").read_bytes()


# ---- failures ----------------------------------------------------------------------------------------


def test_a_worker_that_does_not_see_the_folder_says_so(client, tmp_path):
    """A worker with a disk of its own would write the weights there, and the checkpoint would hold zeros."""

    def hide():
        Path.seen, Path.read_bytes = Path.read_bytes, lambda path: b"what lies on a disk of its own"

    def show():
        Path.read_bytes = Path.seen

    workers = [min(client.scheduler_info()["workers"])]
    (blind,) = client.run(hide, workers=workers)
    try:
        with pytest.raises(CheckpointError) as refused:
            fastinit.dask.write_checkpoint(PLAN, tmp_path / "m.safetensors", client)
    finally:
        client.run(show, workers=workers)
    assert "does not see" in str(refused.value)
    assert f"(workers {blind!r})" in str(refused.value)
    assert str(refused.value).endswith("nothing was changed")
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_comes_later_is_looked_at_too(tmp_path):
    """A cluster that grows meanwhile: those that were asked first were others."""
    region = _regions(tmp_path)[0]
    origin = Origin.of(Path(region.path).with_name("head.json"))
    assert _write(region, origin)
    with pytest.raises(FileNotFoundError, match="does not see"):
        _write(region, replace(origin, content=b"another folder, on a disk of its own"))
    origin.head.unlink()
    with pytest.raises(FileNotFoundError, match="does not see"):
        _write(region, origin)


@pytest.mark.parametrize("machine", ["here", "there"])
def test_a_worker_of_another_machine_waits_for_its_disk(machine, tmp_path, monkeypatch):
    """What the client syncs at the end are the pages of its own machine."""
    region, synced = _regions(tmp_path)[0], []
    origin = Origin.of(Path(region.path).with_name("head.json"))
    monkeypatch.setattr(os, "fsync", synced.append)
    _write(region, origin if machine == "here" else replace(origin, machine="another boot"))
    assert len(synced) == (machine == "there")


def _regions(folder):
    with writing(PLAN, folder / "model", max_shard_size="1GB", resume=True) as work:
        work.begin()
        return list(work.regions)


def test_a_worker_of_another_version_says_so(tmp_path):
    origin = Origin.of(Path(_regions(tmp_path)[0].path).with_name("head.json"))
    assert origin.blindness() == ""
    assert "install one version" in replace(origin, version="0.0").blindness()


def test_an_error_of_a_worker_is_a_sentence_and_nothing_is_changed(client, tmp_path):
    """A full disk, met by a worker."""

    def limit(nbytes):
        import resource  # noqa: PLC0415

        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes or hard, hard))

    client.run(limit, 1000)
    try:
        with pytest.raises(CheckpointError, match=r"there is no room for its .* bytes.*nothing was changed$"):
            fastinit.dask.write_checkpoint(PLAN, tmp_path / "m.safetensors", client)
    finally:
        client.run(limit, 0)
    assert list(tmp_path.iterdir()) == []


def test_what_is_done_before_a_failure_is_kept_for_resume(client, plain, tmp_path):
    path = tmp_path / "model.safetensors"

    def stop(done, total, name):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fastinit.dask.write_checkpoint(PLAN, path, client, stop, resume=True)
    written = fastinit.dask.write_checkpoint(PLAN, path, client, resume=True)
    assert written.kept > written.size / 2
    assert contents(path) == plain["one file"]


def test_an_interrupt_leaves_nothing(client, interrupted, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fastinit.dask.write_checkpoint(PLAN, tmp_path / "m.safetensors", client, interrupted)
    assert list(tmp_path.iterdir()) == []


def test_a_region_that_kills_every_worker_is_named_with_the_last_of_them(tmp_path):
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):

        def be_deadly():
            fastinit.dask.writing.write_region = lambda region, **how: os._exit(1)

        client.run(be_deadly)
        with pytest.raises(
            CheckpointError, match=r"1 workers? died.* at tcp://.*its log says why.*nothing was changed"
        ):
            fastinit.dask.write_checkpoint(PLAN, tmp_path / "m.safetensors", client)
    assert list(tmp_path.iterdir()) == []


def test_without_a_scheduler_the_address_is_named(tmp_path):
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(
            ConnectionError, match=r"no scheduler of dask answers at tcp://127\.0\.0\.1:9 .*dask scheduler"
        ),
    ):
        fastinit.dask.write_checkpoint(PLAN, tmp_path / "m.safetensors", "tcp://127.0.0.1:9")
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_that_dies_is_a_sentence_and_what_is_done_is_kept(plain, tmp_path):
    path, dead = tmp_path / "model.safetensors", []

    def be_slow():
        write = fastinit.dask.writing.write_region
        fastinit.dask.writing.write_region = lambda region, **how: time.sleep(0.3) or write(region, **how)

    def kill(done, total, name):
        if not dead:
            scheduler.kill()
        dead.append(done)

    with scheduler_and_worker(tmp_path / "scheduler.json") as (scheduler, found):
        found.run(be_slow)
        with pytest.raises(CheckpointError, match=r"scheduler of dask.*has what is done, and --resume"):
            fastinit.dask.write_checkpoint(PLAN, path, found, kill, resume=True)
    written = fastinit.dask.write_checkpoint(PLAN, path, "threads", resume=True)
    assert 0 < written.kept < written.size
    assert contents(path) == plain["one file"]


def test_a_scheduler_that_is_dead_is_a_sentence_and_nothing_is_changed(tmp_path):
    with scheduler_and_worker(tmp_path / "scheduler.json") as (scheduler, found):
        scheduler.kill()
        scheduler.wait()
        with pytest.raises(CheckpointError, match=r"scheduler of dask broke \(.*\); nothing was changed"):
            fastinit.dask.write_checkpoint(PLAN, tmp_path / "m.safetensors", found)
    assert [path.name for path in tmp_path.iterdir()] == ["scheduler.json"]


@contextlib.contextmanager
def scheduler_and_worker(file):
    """A scheduler and a worker as `dask scheduler` and `dask worker` start them, and a client."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": ROOT}
    common = ["--scheduler-file", file, "--no-dashboard"]
    port = ["--port", "0"]
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}), contextlib.ExitStack() as stack:
        found = []
        for command in (["scheduler", *common, *port], ["worker", *common, "--nthreads", "1", "--no-nanny"]):
            found.append(subprocess.Popen([sys.executable, "-m", "dask", *command], **quiet))
            stack.callback(found[-1].wait)
            stack.callback(found[-1].kill)
        client = stack.enter_context(distributed.Client(scheduler_file=str(file), set_as_default=False))
        client.wait_for_workers(1, timeout=60)
        yield found[0], client


@pytest.mark.parametrize("client", [8786, b"threads", object()])
def test_what_is_no_client_is_refused(client, tmp_path):
    with pytest.raises(TypeError, match=r"distributed\.Client, an address"):
        fastinit.dask.write_checkpoint(PLAN, tmp_path / "m.safetensors", client)


def test_a_file_that_exists_is_not_replaced(client, tmp_path):
    (tmp_path / "m.safetensors").write_bytes(b"mine")
    with pytest.raises(CheckpointError, match=r"exists; --force \(force=True\) replaces it"):
        fastinit.dask.write_checkpoint(PLAN, tmp_path / "m.safetensors", client)
    assert (tmp_path / "m.safetensors").read_bytes() == b"mine"
    fastinit.dask.write_checkpoint(PLAN, tmp_path / "m.safetensors", client, force=True)
    assert fastinit.verify_checkpoint(tmp_path / "m.safetensors")


# ---- the command line --------------------------------------------------------------------------------


def test_init_by_a_cluster_is_init(client, capsys, tmp_path):
    common = ["all-minilm-l6-v2", "--seed", 17, "--max-shard-size", "40MB", "--quiet"]
    run(capsys, "init", *common, "--out", tmp_path / "plain")
    status, out, err = run(capsys, "init", *common, "--out", tmp_path / "dask", "--dask", client.scheduler.address)
    assert (status, err) == (0, "")
    assert out.startswith(f"wrote {tmp_path / 'dask'}: 104 tensors in ")
    assert contents(tmp_path / "dask") == contents(tmp_path / "plain")
    assert run(capsys, "verify", tmp_path / "dask", "--seed", 17)[0] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shard", "1/2"], "--dask divides the work itself; leave out --shard"),
        (["--format", "zarr"], "--format zarr is written by one writer at once; leave out --dask"),
        (["--format", "zar"], "unknown format 'zar'; did you mean 'zarr'?"),
    ],
)
def test_init_by_a_cluster_refuses_in_a_sentence(options, said, capsys, tmp_path):
    where = ["--out", tmp_path / "m", "--dask", "threads"]
    status, _, err = run(capsys, "init", "resnet-50", "--seed", 17, *where, *options)
    assert status == 2
    assert err.startswith(f"fastinit: {said}")
    assert list(tmp_path.iterdir()) == []
