"""Every file that fastinit writes: whole or not at all, never over an input, and told truly after an interrupt."""

import errno
import os
import signal
import stat
import sys
import textwrap
from contextlib import contextmanager

import pytest
from conftest import run, run_python, safetensors_bytes

from fastinit import CheckpointError, Plan, verify_checkpoint, write_checkpoint
from fastinit._files import replacing as files
from fastinit._files.replacing import same_file, write_file
from fastinit.cli import main as cli
from fastinit.views import figure as figures

SPECS = {"a.weight": {"dtype": "F32", "shape": [3, 4]}, "b.weight": {"dtype": "F32", "shape": [4, 3]}}
OLD = b"what was here before"


@pytest.fixture
def made(tmp_path):
    path = tmp_path / "made.safetensors"
    write_checkpoint(Plan.from_specs(SPECS, 17), path)
    return path


# ---- whole or not at all -----------------------------------------------------------------------------

FULL_DISK = """
    import resource, signal, sys
    from fastinit.cli.main import main
    from fastinit.views import figure, page
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    def limited(save):
        def limited_save(*arguments):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
            save(*arguments)
        return limited_save
    figure.save, page.save = limited(figure.save), limited(page.save)
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("option", "name"), [("--figure", "w.svg"), ("--figure", "w.png"), ("--html", "w.html")])
@pytest.mark.parametrize("existing", [True, False])
def test_a_full_disk_leaves_the_old_figure_or_page(tmp_path, option, name, existing):
    """A full disk left the first kilobyte of the new SVG over the old file."""
    path = tmp_path / name
    if existing:
        path.write_bytes(OLD)
    ended = run_python("-c", textwrap.dedent(FULL_DISK), "report", option, str(path))
    assert ended.returncode == 2, ended.stderr
    assert f"cannot write {path}: File too large; nothing was changed" in ended.stderr
    assert os.listdir(tmp_path) == [name] * existing
    assert not existing or path.read_bytes() == OLD


def test_an_interrupted_figure_leaves_the_old_one(tmp_path, monkeypatch, interrupted):
    path = tmp_path / "w.svg"
    path.write_bytes(OLD)
    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        figures.save(figures.new_figure(1, 1), path)
    assert path.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["w.svg"]


def test_a_short_write_is_continued(tmp_path, monkeypatch):
    """`os.write` may take a part: a page would end in the middle, under its final name."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, bytes(content)[:7]))
    write_file(tmp_path / "w", bytes(range(100)))
    assert (tmp_path / "w").read_bytes() == bytes(range(100))


def test_a_page_keeps_the_old_ones_mode_and_follows_a_link(tmp_path):
    """A report that was private becomes readable to all."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(OLD)
    real.chmod(0o600)
    link.symlink_to(real)
    write_file(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


@pytest.mark.parametrize("option", ["--html", "--figure"])
def test_a_pipe_or_device_is_refused_before_the_work(tmp_path, capsys, option):
    """`--html /dev/null`, as root, would replace the machine's null device."""
    pipe = tmp_path / "pipe.svg"
    os.mkfifo(pipe)
    with pytest.raises(CheckpointError, match="device, pipe or socket"):
        write_file(pipe, b"new")
    status, out, err = run(capsys, "report", option, pipe)
    assert (status, out) == (2, "")
    assert "device, pipe or socket" in err
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_that_leads_to_itself_is_refused_and_stays(tmp_path, capsys):
    """A symlink loop ended in a traceback, or was replaced by the file."""
    loop = tmp_path / "loop.safetensors"
    loop.symlink_to(loop)
    with pytest.raises(CheckpointError, match=r"loop.safetensors: it is a symbolic link to .*loop.safetensors"):
        write_checkpoint(Plan.from_specs(SPECS, 17), loop)
    assert run(capsys, "init", "resnet-50", "--out", loop)[0] == 2
    assert loop.is_symlink()
    assert os.listdir(tmp_path) == [loop.name]


# ---- owner and group ---------------------------------------------------------------------------------

needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give a file to others"
)


@needs_root
def test_replacing_keeps_owner_group_and_mode(tmp_path):
    """A job run by root that leaves a user's checkpoint to root: its owner can no longer write it."""
    path = tmp_path / "w"
    path.write_bytes(OLD)
    os.chown(path, 1234, 4321)
    path.chmod(0o2640)
    write_checkpoint(Plan.from_specs(SPECS, 17), path, force=True)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o2640)


@pytest.mark.parametrize(
    ("old", "new"), [(0o640, 0o600), (0o664, 0o644), (0o660, 0o600), (0o644, 0o644), (0o6755, 0o755)], ids=oct
)
def test_where_the_group_cannot_be_kept_another_group_gains_nothing(tmp_path, monkeypatch, old, new):
    """0640 of a secret group, replaced by a process outside it, was readable to the process's own group."""
    path = tmp_path / "w"
    path.write_bytes(OLD)
    path.chmod(old)
    status = path.stat()

    def refuse(*arguments):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", refuse)
    fields = list(status)
    fields[5] += 1  # its group is one that this process cannot give
    monkeypatch.setattr(files, "old_file", lambda _: os.stat_result(fields))
    write_file(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == new


def test_nobody_else_can_open_a_private_file_while_it_is_written(tmp_path, monkeypatch):
    """Between the opening and the change of mode, another user could open what is about to become private."""
    path = tmp_path / "w"
    path.write_bytes(OLD)
    path.chmod(0o600)
    modes, created = [], os.open

    def watched(name, *arguments, **options):
        descriptor = created(name, *arguments, **options)
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    write_file(path, b"new")
    assert modes[0] == 0o600


# ---- no output is an input ---------------------------------------------------------------------------


@contextmanager
def unchanged(*paths):
    before = [(path.read_bytes(), path.lstat().st_ino) for path in paths]
    yield
    assert [(path.read_bytes(), path.lstat().st_ino) for path in paths] == before


def links(path):
    """Other names of a file: itself, a symbolic link, a hard link, and a way through a linked folder."""
    folder = path.parent
    soft, hard, way = folder / "soft.svg", folder / "hard.svg", folder / "way"
    soft.symlink_to(path)
    os.link(path, hard)
    way.symlink_to(folder)
    return path, soft, hard, way / path.name


def test_a_page_never_overwrites_the_checkpoint_it_is_about(capsys, made):
    """`diagnose m.safetensors --html m.safetensors` replaced the checkpoint by its report."""
    for place in links(made):
        with unchanged(made):
            status, out, err = run(capsys, "diagnose", made, "--html", place)
        assert (status, out) == (2, ""), place
        assert f"--html {place} would overwrite {made}, which is read by this command; name another file" in err


def test_a_figure_never_overwrites_an_input_through_a_link(capsys, made, tmp_path):
    _, soft, hard, _ = links(made)
    for place in (soft, hard):
        with unchanged(made):
            assert run(capsys, "diagnose", made, "--figure", place)[0] == 2


def test_neither_plan_nor_index_nor_shard_is_overwritten(capsys, made, tmp_path):
    """An index names files that no argument names: a shard was lost as easily as the file itself."""
    plan, index = tmp_path / "plan.json", tmp_path / "w.safetensors.index.json"
    plan.write_text(Plan.from_specs(SPECS, 17).to_json())
    index.write_text(f'{{"weight_map": {{"a.weight": "{made.name}", "b.weight": "{made.name}"}}}}')
    with unchanged(plan, index, made):
        for command in (
            ("diagnose", made, "--plan", plan, "--html", plan),
            ("diagnose", index, "--html", index),
            ("diagnose", index, "--html", made),
        ):
            status, out, err = run(capsys, *command)
            assert (status, out) == (2, ""), command
            assert "would overwrite" in err


@pytest.mark.parametrize("option", ["--images", "--labels", "--test-images", "--test-labels"])
@pytest.mark.parametrize("command", ["train", "claims"])
def test_no_page_overwrites_the_images_it_is_made_from(capsys, tmp_path, command, option):
    path = tmp_path / "w.idx"
    path.write_bytes(OLD)
    with unchanged(path):
        status, _, err = run(capsys, command, option, path, "--html", path)
    assert status == 2
    assert "would overwrite" in err


def test_no_page_overwrites_the_pretrained_weights(capsys, made):
    with unchanged(made):
        status, _, err = run(capsys, "train", "--pretrained", made, "--html", made)
    assert status == 2
    assert "would overwrite" in err


def test_two_outputs_are_two_files(capsys, tmp_path):
    """The second would replace the first, and only one of the two would be there."""
    for place in (tmp_path / "w.svg", tmp_path / "." / "w.svg"):
        status, _, err = run(capsys, "report", "--figure", tmp_path / "w.svg", "--html", place)
        assert status == 2
        assert "which --figure writes" in err
    assert os.listdir(tmp_path) == []


def test_a_checkpoint_may_be_initialized_again_in_its_own_place(capsys, tmp_path):
    """Its header is read to the end before the file is replaced, and an interrupt leaves it as it was."""
    path, other = tmp_path / "w.safetensors", tmp_path / "other"
    header = {
        name: {**entry, "data_offsets": [i * 48, i * 48 + 48]} for i, (name, entry) in enumerate(SPECS.items())
    }
    path.write_bytes(safetensors_bytes(header, bytes(96)))
    os.link(path, other)
    trained = other.read_bytes()
    assert run(capsys, "init", path, "--seed", 18, "--out", path, "--force")[0] == 0
    assert verify_checkpoint(path, seed=18)
    assert other.read_bytes() == trained, "the old file was written into, not replaced"


def test_an_interrupt_leaves_a_checkpoint_that_was_its_own_model(capsys, made, monkeypatch, interrupted):
    monkeypatch.setattr("fastinit._engine.stretches.fill", interrupted)
    with unchanged(made):
        status, _, err = run(capsys, "init", made, "--seed", 18, "--out", made, "--force")
    assert (status, err) == (130, "fastinit: interrupted; nothing was changed\n")


def test_specs_are_not_overwritten_by_the_checkpoint_they_describe(capsys, tmp_path):
    """A file of JSON that becomes a checkpoint is lost: unlike a header, it is not in the new file."""
    specs = tmp_path / "specs.json"
    specs.write_text('{"w": {"dtype": "F32", "shape": [2, 2]}}')
    for place in links(specs):
        with unchanged(specs):
            status, _, err = run(capsys, "init", specs, "--out", place)
        assert status == 2
        assert "would overwrite" in err


def test_same_file_sees_through_every_link(tmp_path):
    path, other = tmp_path / "a", tmp_path / "b"
    assert same_file(path, tmp_path / "." / "a")
    assert not same_file(path, other)
    path.write_bytes(OLD)
    other.write_bytes(OLD)
    assert not same_file(path, other)
    assert not same_file(path, tmp_path / "absent")
    assert all(same_file(path, place) for place in links(path))


# ---- interrupts --------------------------------------------------------------------------------------


class AtLine:
    """Raises KeyboardInterrupt at the n-th line that runs in the files that write, as Ctrl-C might."""

    FILES = tuple(os.path.join("fastinit", *name) for name in (
        ("writing", "writer.py"), ("writing", "under_way.py"), ("writing", "partial.py"), ("writing", "place.py"),
        ("_files", "replacing.py"), ("cli", "init.py"), ("cli", "printing.py")))  # fmt: skip

    def __init__(self, number):
        self.left = number

    def __call__(self, frame, event, argument):
        code = frame.f_code  # arguments are read before there is anything to interrupt
        if not code.co_filename.endswith(self.FILES) or code.co_name in ("<module>", "add_arguments"):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a descriptor closed by its death
def test_nothing_was_changed_is_true_at_every_line_of_a_write(capsys, tmp_path):
    """It was printed after the rename too (3 of 1,034 interrupts): the user would run the job again."""
    old, path = tmp_path / "old", tmp_path / "w.safetensors"
    write_checkpoint(Plan.from_specs(SPECS, 17), old)
    arguments = ["init", str(old), "--seed", "18", "--out", str(path), "--quiet", "--force"]
    said, number, tracing = set(), 0, sys.gettrace()
    while True:
        number += 1
        path.write_bytes(OLD)
        at_line = AtLine(number)
        sys.settrace(at_line)
        try:
            status = cli.main(arguments)
        finally:
            sys.settrace(tracing)
        _, err = capsys.readouterr()
        if at_line.left > 0:
            break
        assert status == 130
        changed = path.read_bytes() != OLD
        assert (
            err == f"fastinit: interrupted; {f'{path} had been written' if changed else 'nothing was changed'}\n"
        )
        assert not changed or verify_checkpoint(path, seed=18)
        assert sorted(os.listdir(tmp_path)) == ["old", path.name], f"a temporary file was left at line {number}"
        said.add(changed)
    assert said == {True, False}
    assert number > 50, "the lines that write were not seen"


def test_an_interrupt_inside_the_opening_leaves_no_temporary_file(tmp_path, monkeypatch):
    """Ctrl-C is answered when `os.open` returns: the file is there, and no variable holds it yet."""
    create = os.open

    def interrupted_when_done(*arguments, **options):
        create(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", interrupted_when_done)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "w", b"new")
    assert os.listdir(tmp_path) == []


def test_an_interrupt_after_the_page_names_the_page(capsys, made, tmp_path, monkeypatch, interrupted):
    """The page is there, the lines are not printed yet: "nothing was changed" would be wrong."""
    monkeypatch.setattr("fastinit.diagnosis.result.Diagnosis.lines", interrupted)
    page = tmp_path / "w.html"
    status, _, err = run(capsys, "diagnose", made, "--html", page)
    assert (status, err) == (130, f"fastinit: interrupted; {page} had been written\n")
    assert page.exists()


# ---- a file that shrinks -----------------------------------------------------------------------------

SHRINKING = """
    import os, sys, fastinit
    def cut(done, total, name):
        os.truncate(sys.argv[1], 4096)
    try:
        fastinit.verify_checkpoint(sys.argv[1], cut)
    except fastinit.CheckpointError as error:
        print(error)
"""


def test_a_file_that_shrinks_while_it_is_verified_is_an_error_and_no_signal(tmp_path):
    """The file was mapped: SIGBUS ended the process, and with it a server that only wanted to verify."""
    path = tmp_path / "w.safetensors"
    specs = {f"{name}.weight": {"dtype": "F32", "shape": [2048, 2048]} for name in "abc"}
    write_checkpoint(Plan.from_specs(specs, 17), path)
    ended = run_python("-c", textwrap.dedent(SHRINKING), str(path), env={"FASTINIT_NUM_THREADS": "1"})
    assert ended.returncode == 0, f"ended by signal {-ended.returncode}: {signal.strsignal(-ended.returncode)}"
    assert f"{path} has become shorter while tensor 'b.weight' was read from it" in ended.stdout


def test_a_temporary_file_whose_size_another_process_changed_is_not_renamed(tmp_path):
    """Cut short and made long again, it has holes where weights were, and would appear as a whole checkpoint."""

    def lengthen(*now):
        temporary = tmp_path / "w.partial" / "w"
        os.truncate(temporary, temporary.stat().st_size + 1)

    with pytest.raises(CheckpointError, match="another process changed the size of its temporary file"):
        write_checkpoint(Plan.from_specs(SPECS, 17), tmp_path / "w", lengthen)
    assert os.listdir(tmp_path) == []
