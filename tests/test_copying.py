"""`init --compare`: the copy that a write is timed beside has the same bytes, and is gone whatever happens."""

import errno
import json
import os
import time

import pytest
from conftest import run

from fastinit.cli.copying import copy_seconds, files_of

SPECS = {f"{name}.weight": {"dtype": "F32", "shape": [300, 400]} for name in "abc"}


@pytest.fixture
def specs(tmp_path):
    path = tmp_path / "specs.json"
    path.write_text(json.dumps(SPECS))
    return path


@pytest.fixture
def copied(monkeypatch):
    """What each copy held when it was synced."""
    contents, fsync = [], os.fsync

    def seen(descriptor):
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if name.endswith(".tmp") and os.path.isfile(name):
            with open(name, "rb") as copy:
                contents.append(copy.read())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    return contents


@pytest.mark.parametrize(
    "options", [(), ("--max-shard-size", "500KB"), ("--format", "npy")], ids=["one file", "shards", "npy"]
)
def test_the_copy_has_all_the_bytes_of_the_write_and_is_gone(options, tmp_path, specs, capsys, copied):
    """A copy of a part, or of nothing, would make every write look slow."""
    out = tmp_path / "w"
    status, text, err = run(capsys, "init", specs, "--out", out, "--compare", "--json", *options)
    facts = json.loads(text)
    assert (status, err) == (0, "")
    files = files_of(str(out), facts["files"])
    assert len(files) == len(facts["files"])
    with_weights = b"".join(path.read_bytes() for path in files)
    assert copied[-1] == with_weights
    assert len(with_weights) >= facts["bytes"]
    assert facts["ratio_to_copy"] == facts["seconds"] / facts["copy_seconds"]
    assert not [name for name in os.listdir(files[0].parent) if name.endswith(".tmp")]


def test_the_removal_is_timed_where_the_write_replaced_a_file(tmp_path, monkeypatch):
    """Half a second to free an old file of gigabytes would be the write's alone."""
    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", lambda path: (time.sleep(0.5), unlink(path)))
    (tmp_path / "w").write_bytes(bytes(1000))
    assert copy_seconds([tmp_path / "w"], lambda *now: None, replaced=True) > 0.5
    assert copy_seconds([tmp_path / "w"], lambda *now: None) < 0.5


def test_progress_is_told_of_all_that_is_copied(tmp_path):
    (tmp_path / "w").write_bytes(bytes(3 << 20))
    told = []
    assert copy_seconds([tmp_path / "w"], lambda *now: told.append(now)) > 0
    assert told[-1] == (3 << 20, 3 << 20, "w")


def test_the_copy_is_gone_after_ctrl_c(tmp_path, interrupted):
    (tmp_path / "w").write_bytes(bytes(3 << 20))
    with pytest.raises(KeyboardInterrupt):
        copy_seconds([tmp_path / "w"], interrupted)
    assert os.listdir(tmp_path) == ["w"]


def test_no_room_for_a_copy_is_a_sentence_and_no_failure(tmp_path, specs, capsys, monkeypatch):
    """The model is written: a command that ended with an error would be repeated for nothing."""

    def full(folder, needed):
        raise OSError(errno.ENOSPC, f"the disk has 1.0 MB free, the copy needs {needed}")

    monkeypatch.setattr("fastinit.cli.copying.check_room", full)
    status, out, err = run(capsys, "init", specs, "--out", tmp_path / "w", "--compare")
    assert (status, err) == (0, "")
    assert "not compared with a synced copy: the disk has 1.0 MB free" in out
    assert sorted(os.listdir(tmp_path)) == ["specs.json", "w"]


def test_a_disk_that_is_full_in_the_middle_of_the_copy_is_a_sentence(tmp_path, specs, capsys, monkeypatch):
    """Another process has taken the room meanwhile."""
    fsync = os.fsync

    def full(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".tmp") and os.fstat(descriptor).st_size > 1000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    status, out, _ = run(capsys, "init", specs, "--out", tmp_path / "w", "--compare")
    assert status == 0
    assert "not compared with a synced copy: No space left on device" in out
    assert sorted(os.listdir(tmp_path)) == ["specs.json", "w"]


def test_a_part_of_a_write_is_not_set_beside_a_copy_of_the_whole(tmp_path, specs, capsys):
    """A resumed write that had nothing left to do would be a thousand times as fast as the copy."""
    command = ("init", specs, "--out", tmp_path / "w", "--compare")
    for more in (("--shard", "1/2"), ("--resume",), ("--resume",)):
        status, out, _ = run(capsys, *command, *more)
        assert status == 0
        assert "not compared with a synced copy: only a part of the files was written here" in out
