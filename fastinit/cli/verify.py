"""``fastinit verify``: every byte of a checkpoint against its own header."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from .printing import FAILED, GOOD, print_either
from .progress import Progress, add_quiet

if TYPE_CHECKING:
    from ..checkpoint import Verification


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file."""
    parser.add_argument("file", metavar="FILE", help="a file that fastinit wrote")
    add_quiet(parser)


def run(options: argparse.Namespace) -> int:
    """Verify the file; print its mismatches to standard error."""
    from ..checkpoint import verify_checkpoint  # noqa: PLC0415

    began = time.perf_counter()
    with Progress("verify", options.quiet) as progress:
        found = verify_checkpoint(options.file, progress)
    seconds = time.perf_counter() - began
    options.status = GOOD if found else FAILED
    if found or options.json:
        print_either(options, _facts(options.file, found, seconds), [_summary(options.file, found, seconds)])
    for mismatch in found.mismatches:
        print(f"fastinit: {options.file}: {mismatch}", file=sys.stderr)
    return int(options.status)


def _facts(file: str, found: Verification, seconds: float) -> dict[str, Any]:
    plan = found.plan
    return {
        "file": file,
        "good": bool(found),
        "seed": plan.seed,
        "policy": plan.policy,
        "order": plan.order,
        "tensors": len(plan),
        "bytes": plan.nbytes,
        "seconds": seconds,
        "mismatches": [
            {"name": m.name, "index": m.index, "stored": m.stored, "expected": m.expected}
            for m in found.mismatches
        ],
    }


def _summary(file: str, found: Verification, seconds: float) -> str:
    from ..views.table import counted  # noqa: PLC0415

    plan = found.plan
    return (
        f"verified {file}: all {plan.nbytes:,} bytes of {counted(len(plan), 'tensor')} follow from "
        f"seed {plan.seed}, policy {plan.policy}, order {plan.order} ({seconds:.3f} s)"
    )
