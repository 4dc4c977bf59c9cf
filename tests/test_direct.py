"""Writes past the page cache: their bytes are those of other writes, whatever the file system and a kill do."""

import errno
import fcntl
import json
import mmap
import os
import random
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from conftest import ROOT, run
from given_plans import DATA, given_plan
from test_regions import LARGE, awkward_plan

import fastinit
from fastinit import CheckpointError, Plan, verify_checkpoint, write_checkpoint
from fastinit.writing import storage, write_region, writing
from fastinit.writing.storage import PAGE, Sink

O_DIRECT = getattr(os, "O_DIRECT", 0)
SMALL = {"a.weight": {"dtype": "F32", "shape": [300, 400]}}
PLANS = {
    "model": lambda: Plan.from_specs(LARGE, 17),
    "awkward": awkward_plan,
    "given": lambda: given_plan().with_given(DATA),
}


@pytest.fixture
def folder(tmp_path):
    """A folder whose file system takes direct writes."""
    try:
        descriptor = os.open(tmp_path / "probe", os.O_WRONLY | os.O_CREAT | O_DIRECT)
        os.pwrite(descriptor, mmap.mmap(-1, PAGE), 0)
        os.close(descriptor)
    except OSError:
        pytest.skip("this file system takes no direct writes")
    finally:
        (tmp_path / "probe").unlink()
    return tmp_path


@pytest.fixture
def watched(monkeypatch):
    """Every write: (whether it was direct, offset, bytes, address); no other system checks the last three."""
    calls, pwrite = [], os.pwrite

    def watch(descriptor, content, offset):
        is_direct = bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & O_DIRECT)
        calls.append((is_direct, offset, len(content), np.frombuffer(content, np.uint8).ctypes.data))
        return pwrite(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", watch)
    return calls


def refuse_direct_writes(monkeypatch, number=errno.EINVAL, after=0):
    """Fail direct writes from the number `after` on, as a file system that takes the flag and no write does."""
    pwrite, calls = os.pwrite, []

    def refuse(descriptor, content, offset):
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & O_DIRECT:
            calls.append(offset)
            if len(calls) > after:
                raise OSError(number, os.strerror(number))
        return pwrite(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", refuse)


# ---- bytes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_the_bytes_are_those_of_writes_through_the_cache(name, small, folder, monkeypatch):
    """A page that two regions share, a header, a tensor made whole, an end that is no multiple of anything."""
    if small:
        monkeypatch.setattr("fastinit.writing.layout._SMALLEST", 1 << 20)
    plan = PLANS[name]()
    for direct in ("off", "on"):
        write_checkpoint(plan, folder / direct, direct=direct, threads=5)
    assert (folder / "on").read_bytes() == (folder / "off").read_bytes()
    assert verify_checkpoint(folder / "on")


def test_shards_are_the_same_too(folder):
    for direct in ("off", "on"):
        write_checkpoint(Plan.from_specs(LARGE, 17), folder / direct, direct=direct, max_shard_size="3MB")
    names = sorted(os.listdir(folder / "on"))
    assert len(names) > 3
    assert names == sorted(os.listdir(folder / "off"))
    assert all((folder / "on" / name).read_bytes() == (folder / "off" / name).read_bytes() for name in names)


def test_direct_writes_are_of_whole_pages_and_carry_nearly_everything(folder, watched):
    """One byte out of place is EINVAL on a disk of 4 KiB sectors, and nothing on one of 512 bytes."""
    written = write_checkpoint(Plan.from_specs(LARGE, 17), folder / "w", direct="on")
    direct = [call for call in watched if call[0]]
    assert all(n % PAGE == 0 for _, *numbers in direct for n in numbers), direct
    assert sum(length for _, _, length, _ in direct) > 0.98 * written.size
    assert max(length for _, _, length, _ in direct) == storage.DIRECT_BYTES


@pytest.mark.parametrize("seed", range(20))
def test_a_stretch_of_any_place_and_length_is_written_and_nothing_beside_it(seed, folder, watched):
    """The first and the last page of a stretch belong to others as well."""
    moments = random.Random(seed)
    begin = moments.choice([0, 1, PAGE - 1, PAGE, moments.randrange(20 * PAGE)])
    length = moments.choice([1, PAGE, 2 * PAGE, 9 << 20, moments.randrange(1, 6 << 20)])
    path, new, old = folder / "w", moments.randbytes(length), moments.randbytes(begin + length + 3 * PAGE)
    path.write_bytes(old)
    with Sink(str(path), begin, begin + length, direct=True) as sink:
        for at in range(0, length, storage.CHUNK_BYTES):
            chunk = np.frombuffer(new[at : at + storage.CHUNK_BYTES], np.uint8)
            sink.room(chunk.size)[:] = chunk
            sink.put(chunk.size)
        sink.finish(sync=False)
    assert path.read_bytes() == old[:begin] + new + old[begin + length :]
    whole = max(0, (begin + length) // PAGE - -(-begin // PAGE)) * PAGE
    assert sum(nbytes for is_direct, _, nbytes, _ in watched if is_direct) == whole, "pages went through the cache"


@pytest.mark.parametrize("direct", ["off", "on"])
def test_a_short_write_is_continued(direct, folder, monkeypatch):
    """The system may take a part of what it is given; the rest of a direct write is then no whole page."""
    pwrite, moments = os.pwrite, random.Random(5)

    def write_less(descriptor, content, offset):
        unit = 512 if fcntl.fcntl(descriptor, fcntl.F_GETFL) & O_DIRECT else 1
        return pwrite(descriptor, content[: unit * moments.randrange(1, (1 << 20) // unit)], offset)

    monkeypatch.setattr(os, "pwrite", write_less)
    write_checkpoint(Plan.from_specs(LARGE, 17), folder / "short", direct=direct)
    monkeypatch.undo()
    write_checkpoint(Plan.from_specs(LARGE, 17), folder / "w", direct="off")
    assert (folder / "short").read_bytes() == (folder / "w").read_bytes()


def test_a_system_that_cannot_be_told_to_begin_writing_back_gets_the_same_bytes(tmp_path, monkeypatch):
    """macOS has no sync_file_range, and neither has every C library."""
    write_checkpoint(Plan.from_specs(LARGE, 17), tmp_path / "w")
    monkeypatch.setattr(storage, "_sync_file_range", lambda: None)
    write_checkpoint(Plan.from_specs(LARGE, 17), tmp_path / "later")
    assert (tmp_path / "later").read_bytes() == (tmp_path / "w").read_bytes()


def test_a_region_is_direct_for_an_engine_that_says_so(folder, watched):
    with writing(Plan.from_specs(LARGE, 17), folder / "w", direct="on") as work:
        assert work.direct
        work.begin()
        for region in work.regions:
            work.record(region, write_region(region, sync=True, direct=work.direct))
        work.finish()
    assert any(is_direct for is_direct, *_ in watched)
    assert verify_checkpoint(folder / "w")


# ---- which way ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_that_refuses_is_written_through_the_cache_or_said(number, tmp_path, monkeypatch, watched):
    """Some refuse the flag, and a stranger's sentence about an invalid argument names no way out."""
    opened = os.open

    def refuse(path, flags, *mode, **options):
        if flags & O_DIRECT:
            raise OSError(number, os.strerror(number))
        return opened(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(storage, "_MOST_CACHED", 0)
    monkeypatch.setattr(storage, "_is_on_block_device", lambda folder: True)
    with pytest.raises(
        CheckpointError, match=r"no direct writes \(O_DIRECT\).*--direct auto.*nothing was changed"
    ):
        write_checkpoint(Plan.from_specs(SMALL, 17), tmp_path / "on", direct="on")
    assert os.listdir(tmp_path) == []
    write_checkpoint(Plan.from_specs(SMALL, 17), tmp_path / "w")
    assert verify_checkpoint(tmp_path / "w")
    assert not any(is_direct for is_direct, *_ in watched)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_file_system_that_takes_the_flag_and_no_write_gets_all_bytes(after, folder, monkeypatch):
    """Devices of large sectors, and stacked file systems, say so at the first write only, or at a later one."""
    write_checkpoint(Plan.from_specs(LARGE, 17), folder / "w", direct="off")
    refuse_direct_writes(monkeypatch, after=after)
    if not after:
        with pytest.raises(CheckpointError, match=r"no direct writes \(O_DIRECT\)"):
            write_checkpoint(Plan.from_specs(LARGE, 17), folder / "on", direct="on")
    monkeypatch.setattr(storage, "_MOST_CACHED", 0)
    monkeypatch.setattr(storage, "_is_on_block_device", lambda folder: True)
    write_checkpoint(Plan.from_specs(LARGE, 17), folder / "direct")
    assert (folder / "direct").read_bytes() == (folder / "w").read_bytes()


def test_auto_leaves_what_can_be_cached_in_the_cache(folder, monkeypatch):
    """Whoever loads a small model next reads memory; a large one would push everything else out of it."""
    monkeypatch.setattr(storage, "_is_on_block_device", lambda folder: True)
    nbytes = Plan.from_specs(LARGE, 17).nbytes
    for most, expected in ((nbytes * 2, False), (nbytes, True)):  # the header comes on top
        monkeypatch.setattr(storage, "_MOST_CACHED", most)
        with writing(Plan.from_specs(LARGE, 17), folder / "w") as work:
            assert work.direct is expected
        with writing(Plan.from_specs(LARGE, 17), folder / "w", shard="1/4") as work:
            assert not work.direct, "a share is what its own writer writes"
        for path in (folder / "w.partial").iterdir():
            path.unlink()
        (folder / "w.partial").rmdir()


def test_auto_is_for_block_devices(monkeypatch, tmp_path):
    """Recent kernels take the flag on tmpfs, whose files are memory; what a network stores its server decides."""
    monkeypatch.setattr(storage, "_MOST_CACHED", 0)
    monkeypatch.setattr(storage, "_takes_direct", lambda folder: True)
    for major, expected in ((0, False), (254, True)):
        monkeypatch.setattr(os, "major", lambda device, major=major: major)
        assert storage.is_direct("auto", tmp_path, 1) is expected


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="no tmpfs to look at")
def test_memory_is_told_from_a_disk():
    assert storage.is_in_memory("/dev/shm")
    assert not storage.is_in_memory("/proc")


def test_no_probe_is_left(folder):
    with writing(Plan.from_specs(LARGE, 17), folder / "w", direct="on", resume=True) as work:
        assert not [name for name in os.listdir(work.head.parent) if name.endswith(".tmp")]


def test_a_wrong_choice_is_refused_before_anything_is_made(tmp_path, capsys):
    with pytest.raises(ValueError, match=r"unknown choice of direct writes 'On'; did you mean 'on'\?"):
        write_checkpoint(Plan.from_specs(SMALL, 17), tmp_path / "w", direct="On")
    with pytest.raises(ValueError, match="--direct"):
        write_checkpoint(Plan.from_specs(SMALL, 17), tmp_path / "w", direct="on", format="pt")
    specs = tmp_path / "specs.json"
    specs.write_text(json.dumps(SMALL))
    status, _, err = run(capsys, "init", specs, "--out", tmp_path / "w", "--direct", "yes")
    assert status == 2
    assert "expected one of auto, on, off" in err
    assert os.listdir(tmp_path) == ["specs.json"]


def test_the_command_line_hands_the_choice_on(folder, capsys, watched):
    specs = folder / "specs.json"
    specs.write_text(json.dumps(SMALL))
    assert run(capsys, "init", specs, "--out", folder / "w", "--direct", "on")[0] == 0
    assert any(is_direct for is_direct, *_ in watched)


# ---- what goes wrong ---------------------------------------------------------------------------------


def test_a_disk_that_is_full_in_the_middle_is_a_clear_error(folder, monkeypatch):
    refuse_direct_writes(monkeypatch, errno.ENOSPC, after=2)  # the probe, and one write
    with pytest.raises(
        CheckpointError, match=r"no room for its [\d,]+ bytes \(No space left.*nothing was changed"
    ):
        write_checkpoint(Plan.from_specs(LARGE, 17), folder / "w", direct="on")
    assert os.listdir(folder) == []


WRITER = """
    import os, signal, sys
    import fastinit, fastinit.writing.layout as layout
    layout._SMALLEST = 1 << 20
    sys.path.insert(0, "tests")
    from test_regions import LARGE
    calls = []
    def killed(done, total, name):
        calls.append(done)
        if len(calls) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
    fastinit.write_checkpoint(fastinit.Plan.from_specs(LARGE, 17), sys.argv[1], killed, resume=True, direct="on")
"""


def test_killed_and_resumed_the_bytes_are_those_of_one_writer(folder, monkeypatch):
    """What a direct write had in flight when its process died must not be kept unseen."""
    monkeypatch.setattr("fastinit.writing.layout._SMALLEST", 1 << 20)
    write_checkpoint(Plan.from_specs(LARGE, 17), folder / "w", direct="off")
    for moment in (1, 4, 6):
        child = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(folder / "killed"), str(moment)],
            cwd=ROOT,
            check=False,
            capture_output=True,
        )
        assert child.returncode == -signal.SIGKILL, child.stderr
    written = write_checkpoint(Plan.from_specs(LARGE, 17), folder / "killed", resume=True, direct="on")
    assert written.kept > 0
    assert (folder / "killed").read_bytes() == (folder / "w").read_bytes()


def test_a_power_cut_of_a_new_folder_is_nothing_to_go_on_with(tmp_path):
    """Its head is not waited for, so it may be empty; nothing else is done by then that is worth a refusal."""
    (tmp_path / "w.partial").mkdir()
    (tmp_path / "w.partial" / "head.json").touch()
    write_checkpoint(Plan.from_specs(SMALL, 17), tmp_path / "w")
    assert os.listdir(tmp_path) == ["w"]


def test_memory_does_not_grow_with_what_is_written_past_the_cache(folder):
    code = """
        import resource, sys, fastinit
        def write(rows, name):
            specs = {"w.weight": {"dtype": "F32", "shape": [rows, 4096]}}
            fastinit.write_checkpoint(
                fastinit.Plan.from_specs(specs, 17), f"{sys.argv[1]}/{name}", direct="on", threads=2)
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
        before = write(1024, "small")
        print(write(12000, "large") - before)  # 197 MB
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert float(ended.stdout) < 20


# ---- sums --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 7, 64, 1001])
@pytest.mark.parametrize("shift", [0, 1, 4])
def test_sums_of_words_are_those_of_plain_integers(count, shift):
    """A journal's checksums are read by whoever resumes, with whatever version: they may not change."""
    moments = random.Random(count)
    words, weights = ([moments.getrandbits(64) for _ in range(count)] for _ in range(2))
    held = np.frombuffer(bytes(shift) + np.array(words, "<u8").tobytes(), np.uint8)[shift:]
    found = fastinit._core.multilinear(held, np.array([*weights, 1], np.uint64))
    whole = sum(x * w for x, w in zip(words, weights, strict=True)) % 2**64
    upper = sum((x >> 32) * w for x, w in zip(words, weights, strict=True)) % 2**64
    assert found == (whole, upper)


def test_a_word_without_a_weight_is_refused():
    with pytest.raises(ValueError, match="fewer weights"):
        fastinit._core.multilinear(bytes(16), bytes(8))
