"""``fastinit info``: the machine and the build."""

from __future__ import annotations

import argparse

from .printing import GOOD, print_either


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(options: argparse.Namespace) -> int:
    """Print CPU, kernels, compiler and versions."""
    from .. import __version__  # noqa: PLC0415
    from .machine import machine  # noqa: PLC0415

    facts = {"fastinit": __version__, **machine()}
    levels = ", ".join(name if here else f"{name} (not here)" for name, here in facts["levels"].items())
    print_either(options, facts, [f"{key}: {value}" for key, value in {**facts, "levels": levels}.items()])
    return GOOD
