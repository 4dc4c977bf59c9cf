"""Print what a command found, as text or as JSON, and write the views asked for."""

from __future__ import annotations

import argparse
import json
from typing import Any

GOOD = 0
"""Exit status: done, and every check holds."""

FAILED = 1
"""Exit status: done, and a check failed."""

REFUSED = 2
"""Exit status: wrong usage, or a refused request."""


def deliver(options: argparse.Namespace, result: Any, lines: list[str] | None = None, *, good: bool = True) -> int:
    """Print a result as text (its own lines, or `lines`) or JSON, write the views asked for, return the status."""
    options.status = GOOD if good else FAILED
    if options.figure:
        from ..views import figure as figures  # noqa: PLC0415

        figures.save(result, options.figure)
    if options.html:
        from ..views import pages_old as pages  # noqa: PLC0415

        pages.save(result, options.html)
    print_either(options, result.facts(), lines or result.lines())
    return int(options.status)


def print_either(options: argparse.Namespace, facts: dict[str, Any], lines: list[str]) -> None:
    """Print `facts` as one JSON object where --json asks for it, else `lines`."""
    print(json.dumps(facts) if options.json else "\n".join(lines))
