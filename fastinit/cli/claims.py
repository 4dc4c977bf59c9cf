"""``fastinit claims``: common statements beside measurements."""

from __future__ import annotations

import argparse

from .options import add_digits, add_page, add_seed, digits_of
from .printing import deliver


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the seed and the data."""
    add_seed(parser)
    add_digits(parser)
    add_page(parser)


def run(options: argparse.Namespace) -> int:
    """Measure, and print each statement beside its figures."""
    from ..lessons.claims import check_claims  # noqa: PLC0415

    return deliver(options, check_claims(digits_of(options), options.seed))
