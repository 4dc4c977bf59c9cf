"""The progress line: a rate and a time left that are true, on a terminal alone, with rich and without."""

import sys

import pytest

from fastinit.cli import progress


@pytest.fixture
def shown(capsys, monkeypatch):
    """A function of (seconds, bytes done) steps and a total that returns the last line that is shown of them."""
    now = [100.0]

    def last_line(steps, total):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
        with progress.Progress("init", quiet=False) as told:
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
