"""``fastinit recommend``: an initializer for an activation."""

from __future__ import annotations

import argparse

from .options import one_thread_a_product
from .printing import deliver


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the activation and the depth of the residual stream."""
    parser.add_argument("activation", metavar="ACTIVATION", help="for example relu, tanh, gelu")
    parser.add_argument(
        "--residual-layers", type=int, metavar="N", help="for weights that write to a residual stream of N layers"
    )


def run(options: argparse.Namespace) -> int:
    """Measure, and print the initializer, the network in which it holds, and the reason."""
    one_thread_a_product()
    from ..lessons.advice import recommend  # noqa: PLC0415

    return deliver(options, recommend(options.activation, options.residual_layers))
