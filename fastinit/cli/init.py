"""``fastinit init``: a whole model into one file, shards, or another library's format."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
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
    Its header is read to the end first, and with --force the file is replaced in one step once the new one is
    complete. What would be lost are specs in JSON, and `run` refuses that.
    """
    add_plan(parser)
    parser.add_argument(
        "--out",
        required=True,
        metavar="PATH",
        help="the .safetensors file to write, or the folder of shards; with --force it may be MODEL itself, which "
        "is then initialized again",
    )
    parser.add_argument(
        "--max-shard-size",
        metavar="SIZE",
        help="cut the model into files of at most so many bytes (5GB, 500MiB) with an index, as Hugging Face does",
    )
    parser.add_argument(
        "--shard",
        metavar="K/N",
        help="write share K of N only, from 1 on; N such commands, on any machines, write the files together",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue what a stopped write has left, or begin; keep it if stopped",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace what exists, once the new files are complete"
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        default="safetensors",
        help="safetensors (default); npy, a folder of a file a tensor; zarr, a group; pt, what torch loads",
    )
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="let the workers of this scheduler write (tcp://host:8786, or its file scheduler.json), on a file "
        "system that they share; 'threads' and 'processes' are clusters on this machine",
    )
    parser.add_argument(
        "--given",
        metavar="FILE",
        help="the .safetensors file that holds the data which a plan gives by digest: tables, masks",
    )
    parser.add_argument(
        "--direct",
        metavar="{auto,on,off}",
        default="auto",
        help="write past the page cache (O_DIRECT); auto (default): where more is written than should be cached",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="also time a synced copy of the same bytes to the same folder, which is removed at once",
    )
    add_quiet(parser)


def run(options: argparse.Namespace) -> int:
    """Write the model and print the time that took."""
    refuse_overwriting(options, _texts(options))
    write = _writer(options)
    plan = _complete(plan_of(options), options.given)
    replaced = os.path.exists(options.out)
    with Stoppable(), Progress("init", options.quiet) as progress:
        written = write(
            plan,
            options.out,
            progress=progress,
            max_shard_size=options.max_shard_size,
            resume=options.resume,
            force=options.force,
            format=options.format,
            direct=options.direct,
        )
    facts, line = _described(options, plan, written)
    lines = [line]
    if options.compare:
        more, line = _beside_copy(options, written, replaced)
        facts |= more
        lines.append(line)
    print_either(options, facts, lines)
    return GOOD


def _writer(options: argparse.Namespace) -> Callable[..., Written]:
    """Return what writes: this process, or the workers of a cluster."""
    if options.dask is None:
        from ..writing import write_checkpoint  # noqa: PLC0415

        return partial(write_checkpoint, shard=options.shard)
    if options.shard is not None:
        raise ValueError("--dask divides the work itself; leave out --shard")
    from ..dask import write_checkpoint as write_by_dask  # noqa: PLC0415

    return partial(write_by_dask, client=options.dask)


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


def _described(options: argparse.Namespace, plan: Plan, written: Written) -> tuple[dict[str, Any], str]:
    from ..views.table import counted  # noqa: PLC0415

    rate = _rate(written.size - written.kept, written.seconds)
    facts = {
        "file": options.out,
        "files": list(written.files),
        "tensors": len(plan),
        "bytes": written.size,
        "kept": written.kept,
        "unfinished": list(written.unfinished),
        "seconds": written.seconds,
        "fill_seconds": written.fill_seconds,
        "gb_per_second": rate,
    }
    share = f"share {options.shard} of " if options.shard else ""
    several = f" in {len(written.files):,} files" if len(written.files) > 1 else ""
    kept = f", {written.kept:,} of them kept," if written.kept else ""
    missing = f"; missing: {_missing(written.unfinished)}" if written.unfinished else ""
    line = (
        f"wrote {share}{options.out}: {counted(len(plan), 'tensor')}{several}, {written.size:,} bytes{kept} in "
        f"{written.seconds:.3f} s to disk, {rate:.2f} GB/s{missing}"
    )
    return facts, line


def _missing(shares: tuple[str, ...]) -> str:
    """Return the first of the shares that are missing, and how many more."""
    more = f" and {len(shares) - 5:,} more" if len(shares) > 5 else ""
    return f"shares {', '.join(shares[:5])}{more}, which other writers are to write"


def _beside_copy(options: argparse.Namespace, written: Written, replaced: bool) -> tuple[dict[str, Any], str]:
    """Time a copy of what was written, where this command wrote all of it."""
    from .copying import copy_seconds, files_of  # noqa: PLC0415

    if options.shard or written.kept:
        return {}, "not compared with a synced copy: only a part of the files was written here"
    try:
        with Stoppable(), Progress("copy", options.quiet) as progress:
            seconds = copy_seconds(files_of(options.out, written.files), progress, replaced)
    except OSError as error:
        return {}, f"not compared with a synced copy: {error.strerror or error}"
    ratio = written.seconds / seconds
    line = (
        f"a synced copy of the same bytes to the same folder: {seconds:.3f} s, "
        f"{_rate(written.size, seconds):.2f} GB/s; the write took {ratio:.2f} times as long"
    )
    return {"copy_seconds": seconds, "ratio_to_copy": ratio}, line


def _rate(nbytes: int, seconds: float) -> float:
    return nbytes / seconds / 1e9 if seconds else 0.0
