"""Print what a command found, as text or as JSON, and write the views asked for."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..views.result import Result

GOOD = 0
"""Exit status: done, and every check holds."""

FAILED = 1
"""Exit status: done, and a check failed."""

REFUSED = 2
"""Exit status: wrong usage, or a refused request."""


def deliver(options: argparse.Namespace, result: Result) -> int:
    """Write the views asked for, print the result as text or JSON, and return the status it deserves."""
    options.status = GOOD if result.passed else FAILED
    if options.figure:
        from ..views import figure  # noqa: PLC0415

        figure.save(result.figure(), options.figure)
    if options.html:
        from ..views import page  # noqa: PLC0415

        page.save(result.page(), options.html)
    if options.json:  # neither form is made for nothing: a checkpoint has thousands of tensors
        print(json.dumps(result.facts()))
    else:
        print("\n".join(result.lines()))
    return int(options.status)


def print_either(options: argparse.Namespace, facts: dict[str, Any], lines: list[str]) -> None:
    """Print `facts` as one JSON object where --json asks for it, else `lines`."""
    print(json.dumps(facts) if options.json else "\n".join(lines))
