"""Show how far a long command has come."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from .._escaping import escaped

INTERVAL = 0.05
"""Seconds between two updates: a terminal is slow, and more would not be seen."""


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add --quiet."""
    parser.add_argument("--quiet", action="store_true", help="no progress line")


class Progress:
    """One line on a terminal's standard error, rewritten as bytes are done; silent elsewhere.

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

    def __enter__(self) -> Callable[[int, int, str], None]:
        return self._update

    def __exit__(self, *error: object) -> None:
        if self._last:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _update(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        if self._shown and now - self._last > INTERVAL:
            self._last = now
            share = 100 * done / total if total else 100
            line = f"\r\x1b[K{self._verb} {share:3.0f} %  {done:,} of {total:,} bytes  {escaped(name[:60])[:60]}"
            print(line, end="", file=sys.stderr, flush=True)
