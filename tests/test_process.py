"""The command line as a process: imports, signals, closed streams and the exit status."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import signals
from conftest import ROOT, run_python

from fastinit import _core
from fastinit._process import Stoppable, Stopped, _Process

FASTINIT = f"'{sys.executable}' -m fastinit"
HOSTILE = Path(__file__).parent / "hostile"


def shell(command, folder=ROOT):
    """Run a line of shell, in which $FASTINIT is the command."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = command.replace("$FASTINIT", FASTINIT)
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, cwd=folder, env=environment, timeout=60, check=False
    )


# ---- the import --------------------------------------------------------------------------------------

STANDARD = (
    "token",
    "ast",
    "dis",
    "opcode",
    "inspect",
    "types",
    "enum",
    "collections",
    "functools",
    "re",
    "keyword",
)


@pytest.mark.parametrize("name", STANDARD)
def test_a_file_with_the_name_of_a_standard_module_is_an_exception(name, tmp_path):
    """A user's token.py beside the script killed the process: no sentence, no traceback, a core."""
    (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "script.py").write_text("import fastinit\n")
    # -S: an editable install's finder would have imported some of them already
    ended = run_python("-S", "script.py", cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("ImportError: ")
    assert name in ended.stderr


REFUSING = """
    import builtins, collections.abc, inspect, sys, types
    real, seen = builtins.__import__, 0
    def refuse(*arguments):
        global seen
        if arguments[0] in ("inspect", "types", "collections.abc") and sys._getframe(1).f_lineno:
            seen += 1
            if seen == {call}:
                raise KeyboardInterrupt
        return real(*arguments)
    builtins.__import__ = refuse
    try:
        import fastinit
    except KeyboardInterrupt:
        print("interrupted")
    else:
        print("imported")
"""


@pytest.mark.parametrize("call", range(1, 12))
def test_an_import_that_fails_inside_the_cython_module_is_an_exception(call):
    """The generated code did not look at what an import gave it; Ctrl-C in there was a crash."""
    code = textwrap.dedent(REFUSING).format(call=call)
    ended = run_python("-W", "ignore", "-c", code)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout in ("interrupted\n", "imported\n")


def test_the_import_that_is_made_to_fail_is_one_of_the_cython_module():
    """The test above would pass if no import of the generated code were among those it refuses."""
    code = textwrap.dedent(REFUSING).format(call=0) + "print(seen)\n"
    assert int(run_python("-c", code).stdout.split()[-1]) > 3


# ---- signals -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signals")
    signals.prepare(folder)
    return folder


@pytest.mark.parametrize("number", signals.SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("command", signals.COMMANDS)
def test_a_signal_at_any_moment_ends_the_process_with_its_status(command, number, prepared):
    """A core, a traceback, a temporary file of the model's size, or status 0 for half of the work."""
    for delay, end in signals.ends(prepared, command, number, count=4, seed=os.getpid()):
        assert end.kind(number) in signals.ACCEPTED, f"{number.name} after {delay:.4f} s: {end}"


@pytest.mark.parametrize("number", signals.SIGNALS, ids=lambda number: number.name)
def test_a_signal_in_the_middle_of_the_write_removes_the_temporary_file(number, prepared):
    """A random moment seldom meets the write."""
    code = """
        import os, signal, sys, fastinit.writing.writer
        fastinit.writing.writer._write_regions = lambda *_: os.kill(os.getpid(), int(sys.argv.pop()))
        from fastinit.cli.main import main
        sys.exit(main())
    """
    arguments = (*signals.COMMANDS["init"][:-1], "stopped.safetensors", str(int(number)))
    code = textwrap.dedent(code).replace("from fastinit.cli", "number = sys.argv.pop()\nfrom fastinit.cli")
    code = code.replace("int(sys.argv.pop())", "int(number)")
    ended = run_python("-c", code, *arguments, cwd=prepared, env={"PYTHONPATH": str(ROOT)})
    assert (ended.returncode, ended.stdout) == (128 + number, "")
    assert ended.stderr == "fastinit: interrupted; nothing was changed\n"
    assert not [name for name in os.listdir(prepared) if "tmp" in name or "partial" in name or "stopped" in name]


def test_an_ignored_signal_stays_ignored(prepared):
    """`nohup fastinit init`, which a hang-up must not end."""
    ended = shell(
        f"trap '' HUP; '{sys.executable}' -c '{KILLED}' init specs.json --out nohup.safetensors", prepared
    )
    assert (ended.returncode, ended.stderr) == (0, "")


KILLED = (
    "import os, signal, sys, fastinit.writing.writer as written; from fastinit.cli.main import main; "
    "fill = written._write_regions; "
    "written._write_regions = lambda *given: (os.kill(os.getpid(), signal.SIGHUP), fill(*given)); sys.exit(main())"
)


def test_a_signal_that_somebody_swallowed_is_not_lost(monkeypatch):
    """A destructor prints the exception and goes on: the process would end with status 0."""
    monkeypatch.setattr(_Process, "own", True)
    monkeypatch.setattr(_Process, "stopped", 0)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(Stopped) as caught, Stoppable(), contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert caught.value.status == 143
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_program_keeps_its_signals():
    """`import fastinit`, or a call of main, that takes Ctrl-C away from the program around it."""
    code = """
        import signal, sys
        from fastinit.cli.main import main
        main(["scale", "2", "2"])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    """
    ended = run_python("-c", textwrap.dedent(code))
    assert (ended.returncode, ended.stderr) == (0, "")


# ---- the three streams -------------------------------------------------------------------------------

STATUSES = [
    ("show specs.json", 0),
    ("init specs.json --out made.safetensors --force", 0),
    ("verify good.safetensors", 0),
    ("verify damaged.safetensors", 1),
    ("diagnose good.safetensors", 0),
    ("diagnose constant.safetensors", 1),
    ("--version", 0),
    ("scale 0 2", 2),
    ("show absent", 2),
    ("show --absent", 2),
    ("", 2),
]
"""Arguments, and the status they deserve whoever listens."""

STREAMS = ("2>&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a checkpoint, a damaged one, and one whose weights are constant."""
    made = tmp_path_factory.mktemp("streams")
    (made / "specs.json").write_text('{"a.weight": {"dtype": "F32", "shape": [64, 64]}}')
    assert shell("$FASTINIT init specs.json --out good.safetensors", made).returncode == 0
    content = (made / "good.safetensors").read_bytes()
    (made / "damaged.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (made / "constant.safetensors").write_bytes(content[: -64 * 64 * 4] + bytes(64 * 64 * 4))
    return made


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("streams", STREAMS)
@pytest.mark.parametrize(("arguments", "status"), STATUSES)
def test_the_status_is_true_though_streams_are_closed(arguments, status, streams, folder):
    """`fastinit init ... 2>&-` that fails because it cannot ask whether its standard error is a terminal."""
    ended = shell(f"$FASTINIT {arguments} {streams}", folder)
    assert ended.returncode == status
    assert ended.stderr == "" or "2>" not in streams
    assert status != 2 or ended.stdout == "" or not arguments, "a complaint went to standard output"


@pytest.mark.parametrize(("arguments", "status"), STATUSES)
def test_the_status_is_true_though_nobody_reads(arguments, status, folder):
    """`fastinit ... 2>&1 | true`: the complaint fails, and with it the refusal became a traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "fastinit", *arguments.split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, stdout=writing, stderr=writing, cwd=folder, env=environment, timeout=60, check=False
    )
    os.close(writing)
    assert ended.returncode == status


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", ["show specs.json", "scale 2 2", "verify good.safetensors --json"])
def test_output_that_is_lost_on_a_full_disk_is_status_2_and_one_sentence(arguments, folder):
    ended = shell(f"$FASTINIT {arguments} >/dev/full", folder)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "No space left on device" in ended.stderr


def test_no_file_gets_the_number_of_a_closed_stream():
    """What C prints to standard error would land in the checkpoint that is just being written."""
    code = "import os, fastinit._process as own; own.begin(); os._exit(os.open(os.devnull, os.O_RDONLY))"
    assert shell(f"'{sys.executable}' -c '{code}' <&- >&- 2>&-").returncode > 2


# ---- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "said"), [("x", "x is not a level"), ("\udcff", "is not a level")])
@pytest.mark.parametrize("arguments", [["info"], ["--help"], []])
def test_a_level_that_does_not_exist_is_status_2_and_one_sentence(level, said, arguments):
    """A traceback of eight lines, and the status of a failed check; bytes that are no UTF-8 gave another."""
    ended = run_python("-m", "fastinit", *arguments, env={"FASTINIT_LEVEL": level})
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert said in ended.stderr
    assert all(name in ended.stderr for name in _core.levels())


@pytest.mark.parametrize("path", ["loop", "loop/model.safetensors", "first"])
def test_a_circle_of_links_is_refused(path, tmp_path):
    """pathlib raises RuntimeError for it, which looked like a fault of fastinit."""
    (tmp_path / "specs.json").write_text('{"a.weight": {"dtype": "F32", "shape": [4, 4]}}')
    for link, target in (("loop", "loop"), ("first", "second"), ("second", "first")):
        (tmp_path / link).symlink_to(target)
    for arguments in (f"init specs.json --out {path}", f"trace --html {path}", f"show {path}", f"verify {path}"):
        ended = shell(f"$FASTINIT {arguments}", tmp_path)
        assert ended.returncode == 2, arguments
        assert "Traceback" not in ended.stderr
    assert len(list(tmp_path.iterdir())) == 4


def test_a_name_that_xml_cannot_hold_is_drawn(tmp_path):
    """U+FFFE is a character of UTF-8 and none of XML: the page's drawing could not be read back."""
    specs = HOSTILE / "noncharacter.json"
    assert shell(f"$FASTINIT init {specs} --out made.safetensors", tmp_path).returncode == 0
    ended = shell("$FASTINIT diagnose made.safetensors --html page.html --figure drawing.svg", tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    for name in ("page.html", "drawing.svg"):
        assert "\ufffe" not in (tmp_path / name).read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("--threads 0", "--threads"),
        ("--threads 1025", "--threads"),
        ("--mib -1", "--mib"),
        ("--rounds 0", "--rounds"),
    ]
    + [(f"{option} {10**20}", option) for option in ("--threads", "--mib", "--rounds")],
)
def test_impossible_sizes_of_bench_are_refused_by_name(arguments, option):
    """Half a gigabyte that is taken and written first, or 10**20 rounds that are begun."""
    ended = shell(f"$FASTINIT bench {arguments}")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"fastinit: {option} must be between 1 and ")
