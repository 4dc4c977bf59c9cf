"""``fastinit report``: the learner report."""

from __future__ import annotations

import argparse

from .options import add_seed, add_views
from .printing import deliver


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the seed."""
    add_seed(parser, "seed of the example")
    add_views(parser)


def run(options: argparse.Namespace) -> int:
    """Print the report; status 1 where one of its checks fails."""
    from ..lessons.report import learner_report  # noqa: PLC0415

    return deliver(options, learner_report(options.seed))
