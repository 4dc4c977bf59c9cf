"""``fastinit claims``: common statements beside measurements."""

from __future__ import annotations

import argparse

from .options import add_digits, add_page, add_seed, digits_of, one_thread_a_product
from .printing import deliver
from .progress import Progress, add_quiet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the seed and the data."""
    add_seed(parser)
    add_digits(parser)
    add_page(parser)
    add_quiet(parser)


def run(options: argparse.Namespace) -> int:
    """Measure, and print each statement beside its figures."""
    one_thread_a_product()
    from ..lessons.claims import check_claims  # noqa: PLC0415

    digits = digits_of(options)
    with Progress("claims", options.quiet, "statements") as progress:
        result = check_claims(digits, options.seed, progress=progress)
    return deliver(options, result)
