"""Show how far a long command has come."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .._escaping import escaped
from .._process import Stoppable, silence

INTERVAL = 0.05
"""Seconds between two updates: a terminal is slow, and more would not be seen."""

_NAME = 60  # characters of a name that are shown
_SETTLED = 0.5  # seconds after which a rate means something


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add --quiet."""
    parser.add_argument("--quiet", action="store_true", help="no progress line")


class Progress:
    """One line on a terminal's standard error, rewritten as the work is done; silent elsewhere.

    It has a bar where rich is installed. A signal wipes it before it ends the command.

    Parameters
    ----------
    verb : str
        The work, as the line begins.
    quiet : bool
        Show nothing.
    unit : str, optional
        What is counted; bytes by default, which alone have a rate.
    """

    def __init__(self, verb: str, quiet: bool, unit: str | None = None) -> None:
        self._verb, self._unit = verb, unit
        self._shown = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._began = self._last = 0.0
        self._first = 0
        self._stoppable = Stoppable() if self._shown else contextlib.nullcontext()
        self._bar = _bar() if self._shown else None

    def __enter__(self) -> Callable[[int, int, str], None]:
        self._stoppable.__enter__()
        self._began = time.monotonic()
        return self._update

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._last:
            self._print("")
        self._stoppable.__exit__(kind, error, trace)

    def _update(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        if self._shown and now - self._last > INTERVAL:
            if not self._last:
                self._first = done  # what was done before, or in no time: it says nothing of the speed
                self._began = now
            self._last = now
            share = done / total if total else 1.0
            bar = f"{self._bar(share)}  " if self._bar else ""
            amounts = f"{self._amounts(done, total)}{self._speed(done, total)}"
            self._print(f"{self._verb} {bar}{100 * share:3.0f} %  {amounts}  {escaped(name[:_NAME])[:_NAME]}")

    def _amounts(self, done: int, total: int) -> str:
        """Return how much is done, and of how much."""
        from ..views.table import amount  # noqa: PLC0415

        if self._unit:
            return f"{done:,} of {total:,} {self._unit}"
        return f"{amount(done)} of {amount(total)}"

    def _speed(self, done: int, total: int) -> str:
        """Return the rate of bytes and the time left, once they mean something."""
        seconds = self._last - self._began
        if seconds < _SETTLED or done == self._first:
            return ""
        rate = (done - self._first) / seconds
        speed = "" if self._unit else f"  {rate / 1e9:.2f} GB/s"
        return f"{speed}  {_clock((total - done) / rate)} left"

    def _print(self, line: str) -> None:
        try:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        except OSError:  # the terminal is gone, and the work goes on, as under `nohup`
            self._shown = False
            silence(sys.stderr)


def _bar() -> Callable[[float], str] | None:
    """Return what draws a bar of a share, where rich is installed."""
    try:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress_bar import ProgressBar  # noqa: PLC0415
    except ImportError:
        return None
    console: Any = Console(file=sys.stderr, force_terminal=True)

    def drawn(share: float) -> str:
        with console.capture() as captured:
            console.print(ProgressBar(total=1.0, completed=share, width=20), end="")
        return str(captured.get())

    return drawn


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
