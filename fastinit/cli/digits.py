"""``fastinit digits``: a network that reads digits."""

from __future__ import annotations

import argparse

from .options import add_seed, add_views
from .printing import deliver


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the seed."""
    add_seed(parser)
    add_views(parser)


def run(options: argparse.Namespace) -> int:
    """Train, and print the run; status 1 where it misses its goal."""
    from ..lessons.training import train_digits  # noqa: PLC0415

    return deliver(options, train_digits(options.seed))
