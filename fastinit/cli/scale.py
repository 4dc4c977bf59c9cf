"""``fastinit scale``: the Xavier scale of two fans."""

from __future__ import annotations

import argparse

from .printing import GOOD, print_either


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two fans."""
    parser.add_argument("fan_in", type=int, metavar="FAN_IN", help="weighted inputs summed into each output")
    parser.add_argument("fan_out", type=int, metavar="FAN_OUT", help="outputs that receive each input")


def run(options: argparse.Namespace) -> int:
    """Print the variance, the standard deviation and the limit."""
    from .._engine.gains import xavier_scale  # noqa: PLC0415

    scale = xavier_scale(options.fan_in, options.fan_out)
    fans = {"fan_in": scale.fan_in, "fan_out": scale.fan_out}
    figures = {
        "target_variance": scale.target_variance,
        "standard_deviation": scale.standard_deviation,
        "uniform_limit": scale.uniform_limit,
    }
    shown = {**fans, **{key: f"{value:.12f}" for key, value in figures.items()}}
    lines = [f"{key.replace('_', ' ')}: {value}" for key, value in shown.items()]
    print_either(options, {**fans, **figures}, lines)
    return GOOD
