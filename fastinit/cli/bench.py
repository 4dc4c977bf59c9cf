"""``fastinit bench``: fills beside memory itself, on this machine."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from .options import add_dtype
from .printing import GOOD

if TYPE_CHECKING:
    from .timing import Timing

_MOST_MIB, _MOST_ROUNDS = 1 << 43, 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the size, the threads and the rounds."""
    parser.add_argument("--mib", type=int, default=512, help="size of the buffer in MiB (default 512)")
    parser.add_argument("--threads", type=int, default=1, help="threads (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each contestant (default 5)")
    add_dtype(parser, "one dtype (default: all)")


def run(options: argparse.Namespace) -> int:
    """Time every dtype and print each table as soon as it is measured."""
    from .._engine.dtypes import FLOATS  # noqa: PLC0415
    from .machine import machine  # noqa: PLC0415

    _check(options)
    names = (options.dtype,) if options.dtype else tuple(row.name for row in FLOATS)
    seconds = {name: _timed(options, name) for name in names}
    if options.json:
        print(json.dumps({"machine": machine(), "threads": options.threads, "seconds": seconds}))
    return GOOD


def _check(options: argparse.Namespace) -> None:
    """Refuse impossible sizes now, not after the buffer has been taken and written."""
    from .._engine.cpus import MOST_THREADS  # noqa: PLC0415

    limits = {"mib": _MOST_MIB, "rounds": _MOST_ROUNDS, "threads": MOST_THREADS}
    for name, most in limits.items():
        given = getattr(options, name)
        if not 1 <= given <= most:
            raise ValueError(f"--{name} must be between 1 and {most:,}, got {given}")


def _timed(options: argparse.Namespace, dtype: str) -> dict[str, Any]:
    from dataclasses import asdict  # noqa: PLC0415

    from .timing import fill_and_limits, in_turn, resident, table  # noqa: PLC0415

    buffer = resident(dtype, options.mib << 20)
    timings: dict[str, Timing] = in_turn(fill_and_limits(dtype, buffer, options.threads), options.rounds)
    if not options.json:
        print("\n".join(table(dtype, buffer.size, timings)), flush=True)
    return {name: asdict(timing) for name, timing in timings.items()}
