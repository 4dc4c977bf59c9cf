"""`write_checkpoint`: a plan's files, whole or a share of them, in any of the formats.

Files appear under their names when all of them are complete; until then they lie in ``NAME.partial`` beside them.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import SupportsIndex

from .._engine.checks import as_choice
from .._engine.cpus import default_threads
from .._engine.threads import as_threads, in_order
from ..plan import Plan
from ..replay import Progress
from .layout import LAID_OUT
from .regions import write_region
from .storage import as_direct
from .under_way import Writing, refuse_missing, threads_for, told, writing
from .whole import WHOLE, write_whole

FORMATS = (*LAID_OUT, *WHOLE)
"""What a checkpoint can be written as."""


@dataclass(frozen=True, slots=True)
class Written:
    """A finished write.

    Attributes
    ----------
    size : int
        Bytes of the files, or of the share of them.
    seconds : float
        From the first look at the disk to the last rename.
    fill_seconds : float
        Making the bytes and handing them to the system.
    kept : int
        Bytes that an earlier write had made, which this one has read and found right.
    files : tuple of str
        The names of the files.
    unfinished : tuple of str
        Shares that other writers have not completed, such as ``"2/4"``. Where there are none, the files have their
        names.
    """

    size: int
    seconds: float
    fill_seconds: float
    kept: int = 0
    files: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()


def write_checkpoint(
    plan: Plan,
    path: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    max_shard_size: SupportsIndex | str | None = None,
    shard: str | tuple[SupportsIndex, SupportsIndex] | None = None,
    resume: bool = False,
    force: bool = False,
    format: str = "safetensors",
    threads: int | None = None,
    direct: str = "auto",
) -> Written:
    """Write a whole model's weights, or a share of them.

    Parameters
    ----------
    plan : Plan
        What to write.
    path : str or path
        The file; with `max_shard_size`, and for ``"npy"`` and ``"zarr"``, the folder of files.
    progress : callable, optional
        Called with (bytes done, bytes in all, name of a tensor) after every region that is written or kept.
    max_shard_size : int or str, optional
        Cut the model into shards of at most so many bytes (``"5GB"``, ``"500MiB"``) with an index, as Hugging
        Face's libraries do: ``model-00001-of-00005.safetensors``. A larger tensor gets a shard for itself.
    shard : str or pair of int, optional
        Write share K of N only, ``"2/8"`` or ``(2, 8)``, into the same files as the other N - 1 writers, which may
        run on other machines, at the same time or not. Who completes the last share gives the files their names.
    resume : bool, default False
        Continue what a write that was killed or stopped has left, and begin where there is none. Regions that are
        done are kept if their checksums are right. A write that is stopped then leaves what it has done. Files
        that are complete are left as they are.
    force : bool, default False
        Replace files that exist, each in one step, and discard a half-written checkpoint.
    format : {"safetensors", "npy", "zarr", "pt"}
        ``"npy"`` is a folder of one file a tensor; ``"zarr"`` a group of zarr v3, and ``"pt"`` what torch saves:
        they need these libraries, and are not written in shares or resumed.
    threads : int, optional
        How many threads write; None: as many as this process has CPUs, and twice as many where each waits for the
        disk.
    direct : {"auto", "on", "off"}
        Write past the page cache (O_DIRECT), which is faster, needs no memory, and leaves nothing of the files in
        it for whoever loads them next. ``"auto"``: where more than 1 GiB, or an eighth of the machine's memory, is
        written to a file system on a block device that takes such writes.

    Returns
    -------
    Written
        Size and times, and the shares that are missing.

    Raises
    ------
    CheckpointError
        If the files exist, or cannot be written (no room, no such folder, another writer), or data of given
        tensors is missing; what was there is as before.
    PlanError
        If the format cannot hold a tensor of the plan.
    TypeError, ValueError
        If a size, share, format, choice or number of threads is none.

    Notes
    -----
    The plan is data, so with `force` `path` may be the very file whose header it was made from. After an interrupt
    there is the old file or the whole new one, which keeps the old one's mode and, where the process may, owner
    and group. Until then the new files lie in ``NAME.partial``.

    Memory is constant, a few MiB a thread, but for what can only be made at once, such as an orthogonal matrix,
    and for ``"pt"``.
    """
    count = as_threads(threads)
    began = time.perf_counter()
    if as_choice(format, FORMATS, "format") in WHOLE:
        if not (max_shard_size is None and shard is None and not resume) or as_direct(direct) == "on":
            raise ValueError(
                f"--format {format} is written by one writer at once; leave out --shard, --resume, "
                "--max-shard-size and --direct"
            )
        return _write_whole(plan, Path(path), format, force, progress)
    with writing(
        plan,
        path,
        max_shard_size=max_shard_size,
        shard=shard,
        resume=resume,
        force=force,
        format=format,
        direct=direct,
    ) as work:
        work.begin(count, progress)
        fill_began = time.perf_counter()
        _write_regions(work, progress, count)
        fill_seconds = time.perf_counter() - fill_began
        missing = work.finish()
    return Written(work.size, time.perf_counter() - began, fill_seconds, work.kept, work.layout.names, missing)


def _write_regions(work: Writing, progress: Progress | None, threads: int | None) -> None:
    done, regions = work.kept, work.regions
    if threads is None and work.direct:
        threads = 2 * default_threads()  # half of them wait for the disk
    write = partial(write_region, direct=work.direct)
    checksums = in_order(write, regions, count=threads_for(regions, threads))
    for region, checksum in zip(regions, checksums, strict=True):
        work.record(region, checksum)
        done += region.nbytes
        if progress is not None:
            progress(done, work.size, region.label)


def _write_whole(plan: Plan, target: Path, format: str, force: bool, progress: Progress | None) -> Written:
    began = time.perf_counter()
    refuse_missing(plan, target)
    with told(target, plan.nbytes):
        write_whole(plan, target, format, force, progress)
    seconds = time.perf_counter() - began
    return Written(plan.nbytes, seconds, seconds, 0, (target.name,))
