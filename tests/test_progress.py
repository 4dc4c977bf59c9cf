"""The progress line: a rate and a time left that are true, on a terminal alone, with rich and without."""

import os
import sys

import pytest
from conftest import run, run_python

from fastinit.cli import progress
from fastinit.lessons import check_claims, compare_starts, load_digits, train_digits
from fastinit.propagation import compare_initializers, propagate, residual_stack


@pytest.fixture
def shown(capsys, monkeypatch):
    """A function of (seconds, bytes done) steps and a total that returns the last line that is shown of them."""
    now = [100.0]

    def last_line(steps, total, unit=None):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
        with progress.Progress("init", quiet=False, unit=unit) as told:
            for seconds, done in steps:
                now[0] = 100.0 + seconds
                told(done, total, "a.weight")
            line = capsys.readouterr().err.rpartition("\x1b[K")[2]
        assert capsys.readouterr().err == "\r\x1b[K", "the line is not wiped at the end"
        return line

    return last_line


def test_the_line_says_how_fast_and_how_long(shown, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    line = shown([(1, 10**9), (3, 5 * 10**9)], 125 * 10**9)
    assert line == "init   4 %  5.0 GB of 125.0 GB  2.00 GB/s  1:00 left  a.weight"


def test_what_a_resumed_write_has_kept_is_no_speed(shown, monkeypatch):
    """90 of 100 GB kept at once would promise the rest in a second."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    line = shown([(1, 90 * 10**9), (2, 91 * 10**9)], 100 * 10**9)
    assert "1.00 GB/s  0:09 left" in line


def test_no_rate_is_invented_from_the_first_moment(shown):
    assert "GB/s" not in shown([(1, 10**9), (1.1, 2 * 10**9)], 10**10)


def test_rich_draws_a_bar_where_it_is_installed(shown):
    pytest.importorskip("rich")
    line = shown([(1, 10**9), (3, 5 * 10**9)], 10**10)
    assert "━" in line
    assert "\n" not in line
    assert "50 %" in line


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3600, "1:00:00"), (90061, "25:01:01")]
)
def test_times_are_read_at_a_glance(seconds, text):
    assert progress._clock(seconds) == text


def test_what_is_no_bytes_has_no_rate_but_a_time_left(shown, monkeypatch):
    """1.0 kB of 2.0 kB epochs."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    line = shown([(1, 500), (3, 1000)], 2000, unit="epochs")
    assert line == "init  50 %  1,000 of 2,000 epochs  0:04 left  a.weight"


def told(function, *arguments, **options):
    """What a function tells its progress callable."""
    calls = []
    function(*arguments, progress=lambda *call: calls.append(call), **options)
    return calls


FEW = {"inputs": 4, "seeds": 2}


@pytest.mark.parametrize(
    ("calls", "total", "last"),
    [
        (lambda: told(compare_starts, load_digits(8), seeds=2, epochs=3), 57, "pretrained"),
        (lambda: told(train_digits, epochs=4), 4, ""),
        (lambda: told(check_claims, load_digits(8)), 12, ""),
        (lambda: told(propagate, "tanh", "xavier_normal", 2, 8, **FEW), 2, "xavier_normal + tanh"),
        (lambda: told(compare_initializers, "relu", 2, 8, **FEW), 12, "lecun_normal + selu"),
        (
            lambda: told(residual_stack, 2, width=8, **FEW),
            12,
            "x + f(LayerNorm(x)), lecun_normal + relu, residual(kaiming_normal, 2)",
        ),
    ],
    ids=["train", "digits", "claims", "propagate", "compare", "residual"],
)
def test_a_lesson_tells_of_every_step_and_reaches_its_end(calls, total, last):
    """A total that counts other steps than are told ends at 90 %, or goes past the end."""
    found = calls()
    assert [(done, whole) for done, whole, _ in found] == [(i, total) for i in range(1, total + 1)]
    assert found[-1][2] == last


COMMANDS = (
    ("train", "epochs", ("--seeds", 1, "--epochs", 1)),
    ("digits", "epochs", ()),
    ("claims", "statements", ()),
    ("propagate", "networks", ("--layers", 2, "--width", 8, "--inputs", 4)),
)


@pytest.mark.parametrize(("name", "unit", "few"), COMMANDS, ids=[name for name, _, _ in COMMANDS])
def test_no_lesson_is_silent_on_a_terminal(name, unit, few, capsys, monkeypatch):
    """Minutes without a word on a loaded machine: is it still alive?"""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    _, _, err = run(capsys, name, *few)
    assert f"{unit}  " in err
    assert err.endswith("\r\x1b[K")
    if name != "claims":  # which takes seconds
        assert run(capsys, name, "--quiet", *few)[2] == ""


@pytest.mark.parametrize(("name", "unit", "few"), COMMANDS, ids=[name for name, _, _ in COMMANDS])
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="no list of threads")
def test_a_lesson_multiplies_on_one_thread(name, unit, few):
    """Set after numpy was loaded, the number of threads is that of the CPUs, and the work three to seven times."""
    code = (
        "import os, sys; [os.environ.pop(name, None) for name in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS')]; "
        "from fastinit.cli.main import main; main(sys.argv[1:]); "
        "print(len(os.listdir('/proc/self/task')), file=sys.stderr)"
    )
    done = run_python("-c", code, name, *map(str, few))
    assert done.stderr.split()[-1] == "1", done.stderr
