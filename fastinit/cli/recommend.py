"""``fastinit recommend``: an initializer for an activation."""

from __future__ import annotations

import argparse

from .printing import GOOD, print_either


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the activation and the depth of the residual stream."""
    parser.add_argument("activation", metavar="ACTIVATION", help="for example relu, tanh, gelu")
    parser.add_argument(
        "--residual-layers", type=int, metavar="N", help="for weights that write to a residual stream of N layers"
    )


def run(options: argparse.Namespace) -> int:
    """Print the initializer and the reason."""
    from ..lessons.recommend import recommend  # noqa: PLC0415

    advice = recommend(options.activation, options.residual_layers)
    facts = {
        "initializer": advice.initializer.to_json(),
        "scheme": advice.initializer.name,
        "reason": advice.reason,
    }
    print_either(options, facts, [f"{options.activation}: {advice.initializer.name}", advice.reason])
    return GOOD
