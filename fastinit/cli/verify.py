"""``fastinit verify``: every byte of a checkpoint against the plan in its own header."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from .options import add_demanded_plan, demanded_plan
from .printing import FAILED, GOOD, complain, print_either
from .progress import Progress, add_quiet

if TYPE_CHECKING:
    from ..checkpoint import Verification


RECORDED = "recorded"
"""The policy of a plan that `fastinit.torch` recorded."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, and what its plan should be."""
    parser.add_argument(
        "file", metavar="FILE", help="a file that fastinit wrote, the index of several, or their folder"
    )
    add_demanded_plan(
        parser,
        plan="demand that the plan in the file is this one, written by `fastinit show --json`",
        policy="demand that this policy and the file's seed make its plan",
        seed="demand that this seed and the file's policy make its plan",
    )
    add_quiet(parser)


def run(options: argparse.Namespace) -> int:
    """Verify the file; print its mismatches to standard error."""
    from ..checkpoint import verify_checkpoint  # noqa: PLC0415

    plan = demanded_plan(options)
    began = time.perf_counter()
    with Progress("verify", options.quiet) as progress:
        found = verify_checkpoint(options.file, progress, seed=options.seed, policy=options.policy, plan=plan)
    seconds = time.perf_counter() - began
    options.status = GOOD if found else FAILED
    if found or options.json:
        print_either(options, _facts(options.file, found, seconds), [_summary(options.file, found, seconds)])
    for fault in (*found.mismatches, *found.departures):
        complain(f"{options.file}: {fault}")
    return int(options.status)


def _facts(file: str, found: Verification, seconds: float) -> dict[str, Any]:
    plan = found.plan
    return {
        "file": file,
        "good": bool(found),
        "seed": plan.seed,
        "policy": plan.policy,
        "order": plan.order,
        "follows": found.follows,
        "is_seeded": found.is_seeded,
        "departures": list(found.departures),
        "tensors": len(plan),
        "bytes": plan.nbytes,
        "seconds": seconds,
        "mismatches": [
            {"name": m.name, "index": m.index, "stored": m.stored, "expected": m.expected}
            for m in found.mismatches
        ],
        "approximate": list(found.approximate),
    }


def _summary(file: str, found: Verification, seconds: float) -> str:
    from ..views.table import counted  # noqa: PLC0415

    plan, near = found.plan, found.approximate
    what = f"all {plan.nbytes:,} bytes of {counted(len(plan), 'tensor')}"
    bound = f" ({counted(len(near), 'orthogonal tensor')} within another LAPACK's bound)" if near else ""
    return f"verified {file}: {what} follow from the plan in the file{bound}, {_origin(found)} ({seconds:.3f} s)"


def _origin(found: Verification) -> str:
    from ..policies import POLICIES  # noqa: PLC0415

    plan = found.plan
    if found.follows:
        return f"and that plan from seed {plan.seed}, policy {plan.policy}, order {plan.order}"
    asks = "--plan PLAN.json says whether it is the one you mean"
    if found.is_seeded and plan.policy not in POLICIES:
        maker = "a model's code" if plan.policy == RECORDED else f"policy {plan.policy!r}"
        return f"which says that {maker} made it; its streams are those of seed {plan.seed}; {asks}"
    return f"but that plan does not follow from its seed {plan.seed} and policy {plan.policy!r}; {asks}"
