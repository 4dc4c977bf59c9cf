"""``fastinit init``: a whole model into one file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .._process import Stoppable
from .options import add_plan, plan_of
from .outputs import refuse_overwriting
from .printing import GOOD, print_either
from .progress import Progress, add_quiet

if TYPE_CHECKING:
    from ..plan import Plan
    from ..writing import Written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, its plan's options, and the file.

    MODEL is not among the files that no output may be: a checkpoint may be initialized again in its own place.
    Its header is read to the end first, and the file is replaced in one step once the new one is complete. What
    would be lost are specs in JSON, and `run` refuses that.
    """
    add_plan(parser)
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="the .safetensors file to write; may be MODEL itself, which is then initialized again",
    )
    parser.add_argument(
        "--given",
        metavar="FILE",
        help="the .safetensors file that holds the data which a plan gives by digest: tables, masks",
    )
    parser.add_argument("--memset", action="store_true", help="compare with libc's memset of the same size")
    add_quiet(parser)


def run(options: argparse.Namespace) -> int:
    """Write the model and print the time that took."""
    from ..writing import write_checkpoint  # noqa: PLC0415

    refuse_overwriting(options, _texts(options))
    plan = _complete(plan_of(options), options.given)
    with Stoppable(), Progress("init", options.quiet) as progress:
        written = write_checkpoint(plan, options.out, progress)
    facts, line = _described(options.out, plan, written)
    lines = [line]
    if options.memset:
        more, line = _beside_memset(plan.nbytes, written.fill_seconds)
        facts |= more
        lines.append(line)
    print_either(options, facts, lines)
    return GOOD


def _texts(options: argparse.Namespace) -> list[str]:
    """Return the files that it reads and no checkpoint may replace: texts, and the shards of an index."""
    from pathlib import Path  # noqa: PLC0415

    from .._files.index import in_folder, shards  # noqa: PLC0415

    found = [] if options.plan is None else [options.plan]
    if options.model is None:
        return found
    path = in_folder(Path(options.model))
    is_text = path.suffix == ".json"
    return [*found, *[str(path)] * is_text, *map(str, shards(path))]


def _complete(plan: Plan, given: str | None) -> Plan:
    """Return the plan with all the data that it gives by digest, or refuse before anything is written."""
    from .._engine.names import grouped  # noqa: PLC0415
    from ..errors import PlanError  # noqa: PLC0415

    if given is not None:
        if not plan.missing:
            raise ValueError(f"--given {given} holds data, but the plan gives none by digest; leave it out")
        plan = plan.with_given(given)
    if plan.missing:
        beside = f", which {given} does not hold" if given else ""
        raise PlanError(
            f"the plan has digests but no data of {grouped(plan.missing)}{beside}; --given FILE names the "
            ".safetensors file that holds it, such as a checkpoint of the plan"
        )
    return plan


def _described(file: str, plan: Plan, written: Written) -> tuple[dict[str, Any], str]:
    from ..views.table import counted  # noqa: PLC0415

    rate = _rate(plan.nbytes, written.fill_seconds)
    facts = {
        "file": file,
        "tensors": len(plan),
        "bytes": written.size,
        "seconds": written.seconds,
        "fill_seconds": written.fill_seconds,
        "gb_per_second": rate,
    }
    line = (
        f"wrote {file}: {counted(len(plan), 'tensor')}, {written.size:,} bytes in "
        f"{written.seconds:.3f} s to disk; filled in {written.fill_seconds:.3f} s, {rate:.2f} GB/s"
    )
    return facts, line


def _beside_memset(nbytes: int, fill_seconds: float) -> tuple[dict[str, Any], str]:
    from .timing import memset_seconds  # noqa: PLC0415

    seconds = memset_seconds(nbytes)
    ratio = fill_seconds / seconds if seconds else 0.0
    line = (
        f"memset of the same size in memory: {seconds:.3f} s, {_rate(nbytes, seconds):.2f} GB/s; "
        f"the fill of the mapped file took {ratio:.2f} times as long"
    )
    return {"memset_seconds": seconds, "ratio_to_memset": ratio}, line


def _rate(nbytes: int, seconds: float) -> float:
    return nbytes / seconds / 1e9 if seconds else 0.0
