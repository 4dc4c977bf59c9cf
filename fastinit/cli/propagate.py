"""``fastinit propagate``: activations and gradients through depth."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .options import add_seed, add_views, one_thread_a_product
from .printing import deliver
from .progress import Progress, add_quiet

if TYPE_CHECKING:
    from ..views.result import Result

NETWORK = ("activation", "initializer", "norm", "layers", "residual_layers", "width", "widths")
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
    parser.add_argument("--activation", metavar="NAME", help="the activation (default relu; linear with --widths)")
    parser.add_argument(
        "--initializer",
        metavar="INITIALIZER",
        help="a name such as kaiming_normal, a call such as 'normal(0, 0.02)', or JSON "
        "(default: six initializers side by side)",
    )
    parser.add_argument(
        "--norm", choices=("rms", "layer"), help="with --initializer: what a layer's input passes first"
    )
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--layers", type=int, metavar="L", help="weight matrices (default 50)")
    depth.add_argument(
        "--residual-layers",
        type=int,
        metavar="N",
        help="2N additions to a residual stream, bare and behind a norm, with and without the factor 1/sqrt(2N)",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--width", type=int, metavar="W", help="units of every layer (default 512)")
    size.add_argument(
        "--widths",
        type=_widths,
        metavar="W,W",
        help="units of the layers in turn, such as 1024,256: four variances for unequal fans side by side",
    )


def _widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers of units such as 1024,256, got {text!r}") from None


def run(options: argparse.Namespace) -> int:
    """Measure the networks asked for, and print signals beside theory."""
    one_thread_a_product()
    sample: dict[str, Any] = {name: getattr(options, name) for name in ("inputs", "seeds", "seed")}
    network = {name: getattr(options, name) for name in NETWORK if getattr(options, name) is not None}
    if options.lesson:
        _refuse(network, network, "the networks of --lesson are fixed")
    if options.widths:
        _refuse(network, ("initializer", "norm", "residual_layers"), "--widths compares four initializers")
    elif options.norm and not options.initializer:
        raise ValueError("--norm belongs to one network: name its --initializer too")
    with Progress("propagate", options.quiet, "networks") as progress:
        result = _measure(options.lesson, network, {**sample, "progress": progress})
    return deliver(options, result)


def _refuse(network: dict[str, Any], names: Any, why: str) -> None:
    given = [f"--{name.replace('_', '-')}" for name in names if name in network]
    if given:
        raise ValueError(f"{why}: leave out {', '.join(given)}")


def _measure(lesson: bool, network: dict[str, Any], sample: dict[str, Any]) -> Result:
    from .. import propagation  # noqa: PLC0415

    if lesson:
        return propagation.lesson(**sample)
    if "widths" in network:
        return propagation.unequal_fans(**network, **sample)
    if "residual_layers" in network:
        _refuse(network, ("norm",), "a residual stream is measured with both norms")
        return propagation.residual_stack(**network, **sample)
    if "initializer" in network:
        return propagation.propagate(**{"activation": "relu", **network}, **sample)
    return propagation.compare_initializers(**network, **sample)
