"""Writing a checkpoint: killed, interrupted or on a full disk, it leaves the old file, or the whole new one."""

import errno
import os
import re
import signal
import sys
import textwrap

import ml_dtypes  # noqa: F401  gives numpy, and through it the safetensors library, the narrow dtypes
import pytest
from conftest import run_python

import fastinit
from fastinit import CheckpointError, Plan, verify_checkpoint, write_checkpoint
from fastinit.writing.storage import is_in_memory

SMALL = {"a.weight": {"dtype": "F32", "shape": [3, 4]}, "b.weight": {"dtype": "F32", "shape": [4, 3]}}
OLD = b"what was here before"


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, interrupted):
    path = tmp_path / "model.safetensors"
    path.write_bytes(OLD)
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(Plan.from_specs(SMALL, 17), path, interrupted, force=True)
    assert path.read_bytes() == OLD
    assert os.listdir(tmp_path) == [path.name]


def test_memory_running_out_inside_a_fill_leaves_nothing(tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise fastinit.AllocationFailed(12)

    monkeypatch.setattr("fastinit._engine.stretches.fill", fail)
    with pytest.raises(fastinit.AllocationFailed):
        write_checkpoint(Plan.from_specs(SMALL, 17), tmp_path / "w")
    assert os.listdir(tmp_path) == []


CHILD = """
    import os, resource, signal, sys, fastinit
    plan = fastinit.Plan.from_specs({"a.weight": {"dtype": "F32", "shape": [400, 400]}}, 17)
    """


def child(code, *arguments):
    return run_python("-c", textwrap.dedent(CHILD) + textwrap.dedent(code), *map(str, arguments))


@pytest.mark.parametrize("existing", [False, True])
def test_a_killed_write_leaves_nothing_under_the_final_name(tmp_path, existing):
    path = tmp_path / "model.safetensors"
    if existing:
        path.write_bytes(OLD)
    ended = child(
        "fastinit.write_checkpoint("
        "plan, sys.argv[1], lambda *now: os.kill(os.getpid(), signal.SIGKILL), force=True)",
        path,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert path.exists() == existing
    if existing:
        assert path.read_bytes() == OLD


@pytest.mark.parametrize("existing", [False, True])
def test_a_full_disk_is_a_clear_error_that_changes_nothing(tmp_path, existing):
    """The room is claimed first: a full disk met in the middle of 800 GB has cost an hour."""
    path = tmp_path / "w.safetensors"
    if existing:
        path.write_bytes(OLD)
    ended = child(
        """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            fastinit.write_checkpoint(plan, sys.argv[1], force=True)
        except fastinit.CheckpointError as error:
            print(error)
        """,
        path,
    )
    assert ended.returncode == 0, ended.stderr
    assert re.search(
        r"w\.safetensors: there is no room for its 640,\d\d\d bytes .*nothing was changed", ended.stdout
    )
    assert os.listdir(tmp_path) == [path.name] * existing
    if existing:
        assert path.read_bytes() == OLD


def test_the_room_is_claimed_before_the_first_fill(tmp_path):
    """A sparse file has its size but no blocks: the disk would run full in the middle."""
    if is_in_memory(tmp_path):
        pytest.skip("files in memory are counted, and not claimed")
    claimed = []

    def progress(done, total, name):
        temporary = tmp_path / "w.partial" / "w"
        claimed.append(temporary.stat().st_blocks * 512)

    layout = {f"{name}.weight": {"dtype": "F32", "shape": [500, 500]} for name in "abcd"}
    written = write_checkpoint(Plan.from_specs(layout, 17), tmp_path / "w", progress)
    assert claimed[0] >= written.size


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no posix_fallocate to refuse")
def test_a_disk_that_refuses_the_room_is_never_filled(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(CheckpointError, match=r"no room for its [\d,]+ bytes \(No space left"):
        write_checkpoint(Plan.from_specs(SMALL, 17), tmp_path / "w", lambda *now: pytest.fail("filled first"))
    assert os.listdir(tmp_path) == []


def test_a_model_larger_than_any_disk_is_a_clear_error(tmp_path):
    huge = Plan.from_specs({"a.weight": {"dtype": "F32", "shape": [2**31, 2**30]}}, 17)
    with pytest.raises(CheckpointError, match="no room"):
        write_checkpoint(huge, tmp_path / "w")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("missing/w", "No such file"),
        ("folder", "Is a directory"),
        ("file/w", "Not a directory"),
        ("x" * 300, "too long"),
    ],
)
def test_a_place_that_takes_no_file_is_named(tmp_path, place, said):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(OLD)
    with pytest.raises(CheckpointError, match=said) as caught:
        write_checkpoint(Plan.from_specs(SMALL, 17), tmp_path / place)
    assert place in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert os.listdir(tmp_path / "folder") == []
    assert (tmp_path / "file").read_bytes() == OLD


def test_a_folder_that_may_not_be_written_is_named(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(CheckpointError, match="Permission denied"):
        write_checkpoint(Plan.from_specs(SMALL, 17), tmp_path / "w")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("place", "said"), [("missing", "No such file"), ("", "is a folder with no .safetensors file")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, place, said):
    with pytest.raises(CheckpointError, match=said):
        verify_checkpoint(tmp_path / place)


def test_a_longest_name_the_file_system_takes_is_taken(tmp_path):
    """The temporary name must not be the one that is too long."""
    path = tmp_path / ("m" * 243 + ".safetensors")
    write_checkpoint(Plan.from_specs(SMALL, 17), path)
    assert verify_checkpoint(path)


def test_a_folder_in_the_way_is_noticed_before_the_work(tmp_path):
    """Filling 800 GB to learn at the rename that the path was a folder wastes an hour."""
    steps = []
    with pytest.raises(CheckpointError, match="Is a directory"):
        write_checkpoint(Plan.from_specs(SMALL, 17), tmp_path, lambda *now: steps.append(now))
    assert steps == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_or_device_in_the_way_is_never_replaced(tmp_path):
    """`--out /dev/null`, as root, that turns the machine's null device into a checkpoint."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    alias = tmp_path / "alias"
    alias.symlink_to(pipe)
    for place, why in ((pipe, "device, pipe or socket"), (alias, "symbolic link")):
        with pytest.raises(CheckpointError, match=why):
            write_checkpoint(Plan.from_specs(SMALL, 17), place)
        with pytest.raises(CheckpointError, match="device, pipe or socket"):
            verify_checkpoint(place)
    assert pipe.is_fifo()
    assert alias.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["alias", "pipe"]


def test_a_header_that_no_reader_would_take_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("fastinit._files.safetensors.HEADER_LIMIT", 100)
    with pytest.raises(CheckpointError, match="header"):
        write_checkpoint(Plan.from_specs(SMALL, 17), tmp_path / "w")
    assert os.listdir(tmp_path) == []


def test_a_second_write_replaces_the_first(tmp_path):
    path = tmp_path / "w"
    write_checkpoint(Plan.from_specs(SMALL, 17), path)
    first = path.read_bytes()
    write_checkpoint(Plan.from_specs(SMALL, 18), path, force=True)
    assert path.read_bytes() != first
    write_checkpoint(Plan.from_specs(SMALL, 17), path, force=True)
    assert path.read_bytes() == first, "the same plan gave another file"


def test_two_writers_to_one_path_leave_one_whole_file_and_a_sentence(tmp_path):
    """Both would write the same regions, perhaps of two plans; the second is told who was first."""
    path, failures = tmp_path / "w", []

    def write_again(*now):
        if not failures:
            with pytest.raises(CheckpointError) as caught:
                write_checkpoint(Plan.from_specs(SMALL, 18), path, force=True)
            failures.append(str(caught.value))

    write_checkpoint(Plan.from_specs(SMALL, 17), path, write_again)
    assert f"is being written by process {os.getpid()} on " in failures[0]
    assert verify_checkpoint(path, seed=17)
    assert os.listdir(tmp_path) == ["w"]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_the_file_has_the_permissions_of_any_new_file(tmp_path):
    """A checkpoint only its writer can read is of no use to a cluster."""
    path, plain = tmp_path / "w", tmp_path / "plain"
    plain.touch()
    write_checkpoint(Plan.from_specs(SMALL, 17), path)
    assert path.stat().st_mode == plain.stat().st_mode


def test_replacing_a_file_keeps_its_mode(tmp_path):
    """A private checkpoint that becomes readable to all."""
    path = tmp_path / "w"
    path.write_bytes(OLD)
    path.chmod(0o600)
    write_checkpoint(Plan.from_specs(SMALL, 17), path, force=True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert verify_checkpoint(path)


@pytest.mark.parametrize("force", [False, True])
def test_a_link_in_the_way_is_refused(tmp_path, force):
    """A link of a cache leads to a blob that is named after its content: that would be written over."""
    blob, link = tmp_path / "blob", tmp_path / "w.safetensors"
    blob.write_bytes(OLD)
    link.symlink_to(blob)
    with pytest.raises(CheckpointError, match=r"w.safetensors: it is a symbolic link to .*blob; name that file"):
        write_checkpoint(Plan.from_specs(SMALL, 17), link, force=force)
    assert blob.read_bytes() == OLD
    assert sorted(os.listdir(tmp_path)) == ["blob", "w.safetensors"]
