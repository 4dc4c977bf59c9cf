"""Print what a command found, as text or as JSON, and write the views asked for.

Every text goes through `say` or `complain`: a name in a file is anyone's, and a terminal obeys what it reads.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from .._escaping import escaped
from .._process import REFUSAL, Stoppable, tell

if TYPE_CHECKING:
    from ..views.result import Result

GOOD = 0
"""Exit status: done, and every check holds."""

FAILED = 1
"""Exit status: done, and a check failed."""

REFUSED = REFUSAL
"""Exit status: wrong usage, or a refused request."""


class Parser(argparse.ArgumentParser):
    """A parser of arguments whose complaints, which quote what was typed or globbed, are escaped."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message to standard error, and exit with `REFUSED`."""
        super().error(escaped(message))


def deliver(options: argparse.Namespace, result: Result, lines: Callable[[], Iterable[str]] | None = None) -> int:
    """Write the views asked for, print the result as JSON or as `lines`, and return the status it deserves."""
    options.status = GOOD if result.passed else FAILED
    if options.figure:
        from ..views import figure  # noqa: PLC0415

        drawing = result.figure()
        with Stoppable():
            figure.save(drawing, options.figure)
    if options.html:
        from ..views import page  # noqa: PLC0415

        written = result.page()
        with Stoppable():
            page.save(written, options.html)
    if options.json:  # neither form is made for nothing: a checkpoint has thousands of tensors
        print(json.dumps(result.facts()))
    else:
        say((lines or result.lines)())
    return int(options.status)


def print_either(options: argparse.Namespace, facts: dict[str, Any], lines: list[str]) -> None:
    """Print `facts` as one JSON object where --json asks for it, else `lines`."""
    if options.json:
        print(json.dumps(facts))
    else:
        say(lines)


def say(lines: Iterable[str]) -> None:
    """Print lines of text to standard output."""
    print("\n".join(map(escaped, lines)))


def complain(sentence: str, *more: str) -> None:
    """Print one sentence to standard error, and lines that belong to it, if anybody can read them."""
    tell("\n".join((f"fastinit: {escaped(sentence)}", *(f"  {escaped(line)}" for line in more))))
