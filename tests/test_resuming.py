"""Several writers, kills, resumption: no wrong byte is kept, no writer meets another's bytes, nothing is lost."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import ROOT, run, run_python

from fastinit import CheckpointError, Plan, verify_checkpoint, write_checkpoint
from fastinit.writing import partial
from fastinit.writing.layout import laid_out
from fastinit.writing.partial import Held, Lock
from fastinit.writing.place import check_room

SPECS = {f"layer.{i}.weight": {"dtype": "F32", "shape": [1024, 512]} for i in range(8)}
SHARDED = {"max_shard_size": "5MB"}  # 4 files
WRITER = """
    import json, sys, time
    import fastinit, fastinit.writing.layout as layout
    layout._SMALLEST = 1 << 20
    specs = {f"layer.{i}.weight": {"dtype": "F32", "shape": [1024, 512]} for i in range(8)}
    path, pause, options = sys.argv[1], float(sys.argv[2]), json.loads(sys.argv[3])
    def told(done, total, name):
        print(done, flush=True)
        time.sleep(pause)
    written = fastinit.write_checkpoint(fastinit.Plan.from_specs(specs, 17), path, told, **options)
    print("kept", written.kept, len(written.unfinished), flush=True)
"""


@pytest.fixture(autouse=True)
def small_regions(monkeypatch):
    """A region a tensor or less: as many of them as a large model has."""
    monkeypatch.setattr("fastinit.writing.layout._SMALLEST", 1 << 20)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The files as one undisturbed writer leaves them: {name: bytes}."""
    folder = tmp_path_factory.mktemp("whole") / "w"
    write_checkpoint(Plan.from_specs(SPECS, 17), folder, **SHARDED)
    return content(folder)


def plan(seed=17):
    return Plan.from_specs(SPECS, seed)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def start(path, pause=0.0, **options):
    arguments = [sys.executable, "-c", textwrap.dedent(WRITER), str(path), str(pause), json.dumps(options)]
    return subprocess.Popen(arguments, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def stop(share=1):
    """A progress callable that fails when `share` regions are done, as a full disk or a bug would."""
    calls = []

    def fail(*now):
        calls.append(now)
        if len(calls) == share:
            raise RuntimeError("stopped here")

    return fail


def half_written(path, **options):
    """Leave what a writer leaves that is stopped after three of its regions."""
    with pytest.raises(RuntimeError, match="stopped here"):
        write_checkpoint(plan(), path, stop(3), resume=True, **SHARDED, **options)
    return path / "model.partial"


# ---- kills -------------------------------------------------------------------------------------------


def test_killed_twenty_times_and_resumed_the_bytes_are_those_of_one_writer(tmp_path, whole):
    """A region that is kept though it was torn, or that nobody writes any more, is wrong for good."""
    folder, moments, kills, kept = tmp_path / "w", random.Random(17), 0, []
    while kills < 20:
        child = start(folder, 0.02, resume=True, **SHARDED)
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(moments.uniform(0, 0.05))
        child.kill()
        out, err = child.communicate()
        if child.returncode == 0:  # it was faster: the next one begins anew
            kept.append(int((first + out).split("kept ")[1].split()[0]))
            assert content(folder) == whole
            for path in folder.iterdir():
                path.unlink()
            continue
        assert child.returncode == -signal.SIGKILL, err
        kills += 1
    child = start(folder, resume=True, **SHARDED)
    out, err = child.communicate()
    assert child.returncode == 0, err
    kept.append(int(out.split("kept ")[1].split()[0]))
    assert content(folder) == whole
    assert max(kept) > 0, "nothing was ever kept"


@pytest.mark.parametrize("moment", range(1, 6))
def test_killed_while_the_files_appear_they_appear_when_it_is_resumed(tmp_path, whole, monkeypatch, moment):
    """Half of the files under their names, and half not: who resumes must not write the first half again."""
    appear, calls = partial.Partial._appear, []

    def killed(self, *given):
        calls.append(given)
        if len(calls) == moment:
            raise KeyboardInterrupt
        appear(self, *given)

    monkeypatch.setattr(partial.Partial, "_appear", killed)
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(plan(), tmp_path / "w", **SHARDED)
    assert "model.safetensors.index.json" not in os.listdir(tmp_path / "w"), "an index that leads nowhere"
    write_checkpoint(plan(), tmp_path / "w", resume=True, **SHARDED)
    assert content(tmp_path / "w") == whole


def test_a_signal_removes_what_nobody_will_resume_and_keeps_the_rest(tmp_path):
    """The scheduler's SIGTERM before its SIGKILL is how long jobs end: an hour's work was thrown away."""
    specs = tmp_path / "specs.json"
    specs.write_text(json.dumps(SPECS))
    code = """
        import os, signal, sys
        import fastinit.writing.under_way as under_way
        record = under_way.Writing.record
        def once(self, *given):
            record(self, *given)
            os.kill(os.getpid(), signal.SIGTERM)
        under_way.Writing.record = once
        from fastinit.cli.main import main
        sys.exit(main())
    """
    command = ("-c", textwrap.dedent(code), "init", str(specs), "--out", str(tmp_path / "w"), "--quiet")
    for options, left in (([], []), (["--resume"], ["w.partial"]), (["--shard", "1/1"], ["w.partial"])):
        ended = run_python(*command, *options)
        assert (ended.returncode, ended.stdout) == (143, ""), ended.stderr
        assert ended.stderr == "fastinit: interrupted; nothing was changed\n"
        assert sorted(os.listdir(tmp_path)) == ["specs.json", *left], options
        break_off(tmp_path / "w.partial")


def break_off(folder):
    if folder.exists():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


# ---- journals ----------------------------------------------------------------------------------------


def journal_of(folder):
    (path,) = folder.glob("*.journal")
    return path


def test_what_is_done_is_kept_and_not_written_again(tmp_path, whole):
    half_written(tmp_path / "w")
    steps = []
    written = write_checkpoint(plan(), tmp_path / "w", lambda *now: steps.append(now), resume=True, **SHARDED)
    assert 0 < written.kept < written.size
    assert written.kept in [done for done, _, _ in steps]
    assert [done for done, _, _ in steps] == sorted({done for done, _, _ in steps})
    assert steps[-1][0] == steps[-1][1] == written.size
    assert content(tmp_path / "w") == whole


def test_a_flipped_byte_in_a_region_that_was_done_is_found(tmp_path, whole):
    """A disk that lost power has written some pages and not others, whatever the journal says."""
    folder = half_written(tmp_path / "w")
    file = folder / "model-00001-of-00004.safetensors"
    data = bytearray(file.read_bytes())
    data[2000] ^= 1
    file.write_bytes(data)
    assert write_checkpoint(plan(), tmp_path / "w", resume=True, **SHARDED).kept > 0
    assert content(tmp_path / "w") == whole


@pytest.mark.parametrize("lie", ["{n} {c}\n", "0 {c}\n{n} 00", "{n} {c} {c}\n", "-1 {c}\n999999 {c}\n", "\0\xff\n",
                                 "done done\n"], ids=repr)  # fmt: skip
def test_a_line_of_a_journal_that_lies_is_not_believed(tmp_path, whole, lie):
    """A line may be of another region, cut short, or noise: the bytes are asked, not the line."""
    path = journal_of(half_written(tmp_path / "w"))
    _, checksum = path.read_text().split()[:2]
    with path.open("a", encoding="latin-1") as file:
        file.write(lie.format(n=12, c=checksum))
    write_checkpoint(plan(), tmp_path / "w", resume=True, **SHARDED)
    assert content(tmp_path / "w") == whole


def test_a_file_that_was_removed_or_cut_is_written_again(tmp_path, whole):
    folder = half_written(tmp_path / "w")
    (folder / "model-00001-of-00004.safetensors").unlink()
    write_checkpoint(plan(), tmp_path / "w", resume=True, **SHARDED)
    assert content(tmp_path / "w") == whole


# ---- several writers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, SHARDED], ids=["one file", "shards"])
def test_two_writers_at_once_make_the_bytes_of_one(tmp_path, whole, options):
    """Both write into one file: a lock, a truncation or a rename at the wrong moment loses the other's half."""
    path = tmp_path / "w"
    writers = [start(path, shard=f"{number}/2", **options) for number in (1, 2)]
    ends = [writer.communicate() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], ends
    if options:
        assert content(path) == whole
    else:
        write_checkpoint(plan(), tmp_path / "one")
        assert path.read_bytes() == (tmp_path / "one").read_bytes()
        assert sorted(os.listdir(tmp_path)) == ["one", "w"]


def test_shares_come_one_after_the_other_and_the_last_gives_the_names(tmp_path, whole):
    for number in (3, 1):
        written = write_checkpoint(plan(), tmp_path / "w", shard=(number, 3), **SHARDED)
        assert os.listdir(tmp_path / "w") == ["model.partial"]
    assert written.unfinished == ("2/3",)
    assert write_checkpoint(plan(), tmp_path / "w", shard="2/3", **SHARDED).unfinished == ()
    assert content(tmp_path / "w") == whole


def test_two_writers_that_end_together_both_know_that_all_is_complete(tmp_path, whole, monkeypatch):
    """The other one gives the names first: without its journals, every share seemed to be missing."""
    write_checkpoint(plan(), tmp_path / "w", shard="1/2", **SHARDED)
    finish = partial.Partial.finish

    def and_the_other_is_faster(self, share):
        finish(self, share)
        self.publish(laid_out(plan(), "safetensors", "w", 5_000_000), (), ())

    monkeypatch.setattr(partial.Partial, "finish", and_the_other_is_faster)
    assert write_checkpoint(plan(), tmp_path / "w", shard="2/2", **SHARDED).unfinished == ()
    assert content(tmp_path / "w") == whole


def test_all_shares_can_be_finished_by_one_writer(tmp_path, whole):
    """A node is gone for good: its share must not need a job of the same size."""
    write_checkpoint(plan(), tmp_path / "w", shard="1/3", **SHARDED)
    written = write_checkpoint(plan(), tmp_path / "w", resume=True, **SHARDED)
    assert (written.unfinished, written.kept > 0) == ((), True)
    assert content(tmp_path / "w") == whole


def test_the_same_share_twice_is_refused_while_it_is_written_and_after(tmp_path):
    refusals = []

    def again(*now):
        if not refusals:
            with pytest.raises(CheckpointError) as caught:
                write_checkpoint(plan(), tmp_path / "w", shard="1/2", resume=True, **SHARDED)
            refusals.append(str(caught.value))

    write_checkpoint(plan(), tmp_path / "w", again, shard="1/2", **SHARDED)
    me = f"process {os.getpid()} on {socket.gethostname()} since"
    assert f"share 1/2 of it is being written by {me}" in refusals[0]
    before = content(tmp_path / "w/model.partial")
    with pytest.raises(CheckpointError, match="share 1/2 has been begun; --resume"):
        write_checkpoint(plan(), tmp_path / "w", shard="1/2", **SHARDED)
    with pytest.raises(CheckpointError, match="is written in 2 shares, and 1/3 is of another cut"):
        write_checkpoint(plan(), tmp_path / "w", shard="1/3", resume=True, **SHARDED)
    assert content(tmp_path / "w/model.partial") == before


@pytest.mark.parametrize("other", [{"seed": 18}, {"max_shard_size": "9MB"}], ids=["plan", "layout"])
def test_another_plans_half_written_folder_is_refused(tmp_path, other):
    """Its regions are right by their checksums, and make a model that nobody planned."""
    folder = half_written(tmp_path / "w")
    before = content(folder)
    options = {**SHARDED, **{k: v for k, v in other.items() if k != "seed"}}
    with pytest.raises(
        CheckpointError, match="holds a half-written checkpoint of another plan or layout; --force"
    ):
        write_checkpoint(plan(other.get("seed", 17)), tmp_path / "w", resume=True, **options)
    assert content(folder) == before
    write_checkpoint(plan(other.get("seed", 17)), tmp_path / "w", force=True, **options)
    assert verify_checkpoint(tmp_path / "w", seed=other.get("seed", 17))


def test_a_half_written_checkpoint_is_neither_lost_nor_continued_unasked(tmp_path):
    folder = half_written(tmp_path / "w")
    before = content(folder)
    with pytest.raises(CheckpointError, match="holds a half-written checkpoint, which --resume"):
        write_checkpoint(plan(), tmp_path / "w", **SHARDED)
    assert content(folder) == before


# ---- locks -------------------------------------------------------------------------------------------


def test_the_lock_of_a_dead_process_is_taken_over_and_that_of_a_living_one_is_not(tmp_path):
    path = tmp_path / "w.lock"
    code = "import sys, time; from fastinit.writing.partial import Lock; from pathlib import Path; " \
           "lock = Lock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"  # fmt: skip
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(Held, match=f"process {child.pid} on {socket.gethostname()} since 20"):
            Lock(path)
    finally:
        child.kill()
        child.communicate()
    assert path.exists(), "a killed process removes nothing"
    Lock(path).release()
    assert not path.exists()


def test_a_lock_of_another_host_is_believed(tmp_path):
    """This host cannot know whether that process lives: two writers would both think that they are alone."""
    path = tmp_path / "w.lock"
    path.write_text("process 1 on another-host since 2026-01-01 00:00:00 UTC")
    with pytest.raises(Held, match=rf"another-host.*if that process is gone, remove {path}"):
        Lock(path)
    assert "another-host" in path.read_text()


def test_a_lock_that_its_holder_removed_meanwhile_is_made_again(tmp_path, monkeypatch):
    """A lock on a file that is no longer there keeps nobody out."""
    path, opened = tmp_path / "w.lock", Lock._opened

    def too_late(self):
        descriptor = opened(self)
        if not calls:
            path.unlink()
        calls.append(descriptor)
        return descriptor

    calls = []
    monkeypatch.setattr(Lock, "_opened", too_late)
    lock = Lock(path)
    assert len(calls) == 2
    assert path.exists()
    lock.release()


# ---- what is in the way ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "model.safetensors.index.json",
        "model-00001-of-00004.safetensors",
        "model-00002-of-00009.safetensors",
    ],
)
def test_a_folder_with_a_model_in_it_is_not_overwritten(tmp_path, name):
    """Loaders take `model.safetensors` before any index: the new shards would never be read."""
    (tmp_path / name).write_bytes(b"precious")
    (tmp_path / "config.json").write_bytes(b"{}")
    with pytest.raises(CheckpointError, match=rf"{name} exists; --force"):
        write_checkpoint(plan(), tmp_path, **SHARDED)
    assert content(tmp_path) == {name: b"precious", "config.json": b"{}"}
    write_checkpoint(plan(), tmp_path, force=True, **SHARDED)
    assert verify_checkpoint(tmp_path)
    left = {f"model-{n:05}-of-00004.safetensors" for n in range(1, 5)} | {
        "model.safetensors.index.json",
        "config.json",
    }
    assert set(os.listdir(tmp_path)) == left


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path):
    def appear(*now):
        (tmp_path / "w").write_bytes(b"precious")

    with pytest.raises(CheckpointError, match="has appeared meanwhile"):
        write_checkpoint(plan(), tmp_path / "w", appear)
    assert content(tmp_path) == {"w": b"precious"}


@pytest.mark.parametrize(("missing", "fits"), [(0, True), (1, False)])
def test_a_disk_may_be_filled_to_its_last_byte_and_no_further(missing, fits, tmp_path, monkeypatch):
    real = os.statvfs(tmp_path)
    exact = os.statvfs_result([real[0], 1, *real[2:4], 12345, *real[5:]])
    monkeypatch.setattr(os, "statvfs", lambda _: exact)
    with contextlib.nullcontext() if fits else pytest.raises(OSError, match="the disk has"):
        check_room(tmp_path, 12345 + missing)


def test_a_disk_that_is_too_small_is_told_with_both_figures(tmp_path, monkeypatch):
    """Before the first byte: not after an hour, and not by a list of a billion regions."""
    real = os.statvfs(tmp_path)
    small = os.statvfs_result([*real[:3], 1000, 1000, *real[5:]])
    monkeypatch.setattr(os, "statvfs", lambda _: small)
    monkeypatch.setattr("fastinit.writing.layout.Layout.regions", lambda *_: pytest.fail("listed first"))
    free = 1000 * real.f_frsize / 1e6
    with pytest.raises(CheckpointError, match=rf"the disk has {free:.1f} MB free, the checkpoint needs 16.8 MB"):
        write_checkpoint(plan(), tmp_path / "w", **SHARDED)
    assert os.listdir(tmp_path) == []


def test_no_folder_is_left_where_nothing_was_written(tmp_path):
    with pytest.raises(RuntimeError):
        write_checkpoint(plan(), tmp_path / "w", stop(), **SHARDED)
    assert os.listdir(tmp_path) == []


def test_memory_does_not_grow_with_the_model(tmp_path):
    """A model that is larger than the machine's memory is the usual one."""
    code = """
        import resource, sys, fastinit
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
        def write(rows, name):
            specs = {"w.weight": {"dtype": "BF16", "shape": [rows, 4096]}}
            plan = fastinit.Plan.from_specs(specs, 17)
            fastinit.write_checkpoint(plan, f"{sys.argv[1]}/{name}", shard=(1, rows >> 9))
        write(1024, "small")
        before = peak()
        write(65536, "large")  # 512 MB in one tensor, of which 4 MB are written
        fastinit.write_checkpoint(fastinit.Plan.from_specs(
            {"w.weight": {"dtype": "F32", "shape": [16384, 4096]}}, 17), f"{sys.argv[1]}/whole")  # 268 MB
        print(peak() - before)
    """
    ended = run_python("-c", textwrap.dedent(code), str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert float(ended.stdout) < 60


# ---- the command line --------------------------------------------------------------------------------


def test_the_command_line_writes_shares_and_resumes(tmp_path, capsys, whole):
    specs, out = tmp_path / "specs.json", tmp_path / "w"
    specs.write_text(json.dumps(SPECS))
    command = ("init", specs, "--out", out, "--max-shard-size", "5MB", "--quiet")
    status, text, _ = run(capsys, *command, "--shard", "1/2")
    assert status == 0
    assert f"wrote share 1/2 of {out}: 8 tensors in 5 files" in text
    assert "missing: shares 2/2" in text
    status, text, _ = run(capsys, *command, "--resume", "--json")
    facts = json.loads(text)
    assert (status, facts["unfinished"], facts["kept"] > 0) == (0, [], True)
    assert content(out) == whole
    status, _, err = run(capsys, *command)
    assert (status, "exists; --force" in err) == (2, True)
    assert run(capsys, *command, "--force")[0] == 0
    assert content(out) == whole
    assert run(capsys, "verify", out, "--seed", 17)[0] == 0
    assert run(capsys, "diagnose", out)[0] == 0


def test_shards_may_be_initialized_again_in_their_own_folder(tmp_path, capsys):
    folder = tmp_path / "w"
    write_checkpoint(plan(), folder, **SHARDED)
    again = ("init", folder, "--seed", 18, "--out", folder, "--max-shard-size", "5MB", "--quiet")
    assert run(capsys, *again)[0] == 2
    assert verify_checkpoint(folder, seed=17)
    assert run(capsys, *again, "--force")[0] == 0
    assert verify_checkpoint(folder, seed=18)


def test_resuming_what_is_complete_changes_nothing(tmp_path):
    """A job that is started again after its last rename: an error would start it a third time."""
    write_checkpoint(plan(), tmp_path / "w", **SHARDED)
    before = [(path.name, path.stat().st_mtime_ns) for path in (tmp_path / "w").iterdir()]
    written = write_checkpoint(plan(), tmp_path / "w", resume=True, **SHARDED)
    assert (written.kept, written.unfinished) == (written.size, ())
    assert [(path.name, path.stat().st_mtime_ns) for path in (tmp_path / "w").iterdir()] == before
    with pytest.raises(CheckpointError, match="exists; --force"):
        write_checkpoint(plan(18), tmp_path / "w", resume=True, **SHARDED)


def test_what_a_kill_left_of_a_folder_that_was_being_removed_is_no_obstacle(tmp_path, whole):
    folder = half_written(tmp_path / "w")
    (folder / "head.json").unlink()
    write_checkpoint(plan(), tmp_path / "w", **SHARDED)
    assert content(tmp_path / "w") == whole
