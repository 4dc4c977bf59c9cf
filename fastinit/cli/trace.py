"""``fastinit trace``: three populations of weights."""

from __future__ import annotations

import argparse

from .options import add_seed, add_views
from .printing import deliver


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the seed."""
    add_seed(parser, "seed of the populations")
    add_views(parser)


def run(options: argparse.Namespace) -> int:
    """Print the trace; status 1 where one of its checks fails."""
    from ..lessons.populations import measure_populations  # noqa: PLC0415

    return deliver(options, measure_populations(options.seed))
