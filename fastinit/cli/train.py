"""``fastinit train``: one network from different starting weights."""

from __future__ import annotations

import argparse

from .options import add_digits, add_views, digits_of, one_thread_a_product
from .printing import deliver
from .progress import Progress, add_quiet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs, the optimizer and the data."""
    parser.add_argument("--seeds", type=int, default=5, help="runs of each start (default 5)")
    parser.add_argument("--epochs", type=int, default=30, help="passes over the data in a run (default 30)")
    parser.add_argument("--optimizer", choices=("sgd", "momentum", "adam"), default="sgd", help="(default sgd)")
    parser.add_argument(
        "--pretrained",
        metavar="FILE",
        help="a .safetensors file of layer.0.weight, layer.0.bias, layer.1.weight, layer.1.bias "
        "(default: an earlier run on half of the images)",
    )
    add_digits(parser)
    add_views(parser)
    add_quiet(parser)
    parser.set_defaults(reads=(*parser.get_default("reads"), "pretrained"))


def run(options: argparse.Namespace) -> int:
    """Train, and print the comparison."""
    one_thread_a_product()
    from ..lessons.training import compare_starts  # noqa: PLC0415

    digits = digits_of(options)
    with Progress("train", options.quiet, "epochs") as progress:
        result = compare_starts(
            digits,
            seeds=options.seeds,
            epochs=options.epochs,
            optimizer=options.optimizer,
            pretrained=options.pretrained,
            progress=progress,
        )
    return deliver(options, result)
