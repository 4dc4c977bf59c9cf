"""Show how far a long command has come."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from types import TracebackType

from .._escaping import escaped
from .._process import Stoppable, silence

INTERVAL = 0.05
"""Seconds between two updates: a terminal is slow, and more would not be seen."""


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add --quiet."""
    parser.add_argument("--quiet", action="store_true", help="no progress line")


class Progress:
    """One line on a terminal's standard error, rewritten as bytes are done; silent elsewhere.

    A signal wipes it before it ends the command.

    Parameters
    ----------
    verb : str
        The work, as the line begins.
    quiet : bool
        Show nothing.
    """

    def __init__(self, verb: str, quiet: bool) -> None:
        self._verb = verb
        self._shown = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._last = 0.0
        self._stoppable = Stoppable() if self._shown else contextlib.nullcontext()

    def __enter__(self) -> Callable[[int, int, str], None]:
        self._stoppable.__enter__()
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
            self._last = now
            share = 100 * done / total if total else 100
            line = f"{self._verb} {share:3.0f} %  {done:,} of {total:,} bytes  {escaped(name[:60])[:60]}"
            self._print(line)

    def _print(self, line: str) -> None:
        try:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        except OSError:  # the terminal is gone, and the work goes on, as under `nohup`
            self._shown = False
            silence(sys.stderr)
