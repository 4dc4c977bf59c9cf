"""``fastinit propagate``: activations and gradients through depth."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .options import add_seed, add_views, one_thread_a_product
from .printing import deliver
from .progress import Progress, add_quiet

if TYPE_CHECKING:
    from ..views.result import Result

NETWORK = ("activation", "initializer", "layers", "residual_layers", "width")
"""The options that describe a network; the lesson's networks are fixed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the network and the sample."""
    parser.add_argument(
        "--lesson", action="store_true", help="the lesson's networks, beside what is often said of them"
    )
    _add_network(parser)
    parser.add_argument("--inputs", type=int, default=256, metavar="B", help="inputs in a batch (default 256)")
    parser.add_argument("--seeds", type=int, default=5, metavar="K", help="networks measured (default 5)")
    add_seed(parser, "seed of the first")
    add_views(parser)
    add_quiet(parser)


def _add_network(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--activation", metavar="NAME", help="the activation (default relu)")
    parser.add_argument(
        "--initializer",
        metavar="INITIALIZER",
        help='a name such as kaiming_normal, or JSON: {"kind": "normal", "mean": 0, "std": 0.02} '
        "(default: six initializers side by side)",
    )
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--layers", type=int, metavar="L", help="weight matrices (default 50)")
    depth.add_argument(
        "--residual-layers",
        type=int,
        metavar="N",
        help="2N additions x + f(x), with and without the factor 1/sqrt(2N)",
    )
    parser.add_argument("--width", type=int, metavar="W", help="units of every layer (default 512)")


def run(options: argparse.Namespace) -> int:
    """Measure the networks asked for, and print signals beside theory."""
    one_thread_a_product()
    sample: dict[str, Any] = {name: getattr(options, name) for name in ("inputs", "seeds", "seed")}
    network = {name: getattr(options, name) for name in NETWORK if getattr(options, name) is not None}
    if options.lesson and network:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in network)
        raise ValueError(f"the networks of --lesson are fixed: leave out {given}")
    with Progress("propagate", options.quiet, "networks") as progress:
        result = _measure(options.lesson, network, {**sample, "progress": progress})
    return deliver(options, result)


def _measure(lesson: bool, network: dict[str, Any], sample: dict[str, Any]) -> Result:
    from .. import propagation  # noqa: PLC0415

    if lesson:
        return propagation.lesson(**sample)
    if "residual_layers" in network:
        return propagation.residual_stack(**network, **sample)
    if "initializer" in network:
        return propagation.propagate(**{"activation": "relu", **network}, **sample)
    return propagation.compare_initializers(**network, **sample)
