"""``fastinit digits``: a network that reads digits."""

from __future__ import annotations

import argparse

from .options import add_seed, add_views, one_thread_a_product
from .printing import deliver
from .progress import Progress, add_quiet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the seed."""
    add_seed(parser)
    add_views(parser)
    add_quiet(parser)


def run(options: argparse.Namespace) -> int:
    """Train, and print the run; status 1 where it misses its goal."""
    one_thread_a_product()
    from ..lessons.training import train_digits  # noqa: PLC0415

    with Progress("digits", options.quiet, "epochs") as progress:
        result = train_digits(options.seed, progress=progress)
    return deliver(options, result)
