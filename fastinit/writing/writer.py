"""`write_checkpoint`: a plan's files, whole or a share of them, begun or resumed; `writing`, for other engines.

Files appear under their names when all of them are complete; until then they lie in ``NAME.partial`` beside them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import SupportsIndex

from .._engine.cpus import default_threads
from .._engine.names import grouped
from .._engine.threads import as_threads, in_order
from .._files.replacing import give
from ..errors import CheckpointError
from ..plan import Plan
from ..replay import Progress
from .layout import STEM, File, Layout, laid_out
from .options import as_share, as_size
from .partial import Partial, Share
from .place import Place
from .regions import Region, checksum_of, write_region

FORMATS = ("safetensors", "npy", "zarr", "pt")
"""What a checkpoint can be written as."""

_VERSION = 1  # of how a layout is cut into regions, which journals number
_UNCHANGED = "nothing was changed"
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


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


class Writing:
    """A write that is under way; `writing` makes it. Call `begin`, write the `regions`, call `finish`.

    Attributes
    ----------
    regions : list of Region
        What is left to write, once `begin` has looked. Anyone may do that, by `write_region`, in any order, on any
        machine that sees the files; `record` wants to know of each.
    kept : int
        Bytes that an earlier write had made and that are right.
    size : int
        Bytes of this writer's share.
    layout : Layout
        The files.
    """

    def __init__(self, layout: Layout, partial: Partial, place: Place) -> None:
        self.layout = layout
        self._partial = partial
        self._place = place
        self._shares = dict[int, Share]()
        self.regions = list(self._own())
        self.size = sum(region.nbytes for region in self.regions)
        self.kept = 0
        self._names = {os.path.basename(region.path) for region in self.regions}

    def _own(self) -> Iterator[Region]:
        """Yield the regions of this writer's shares: a share's bytes follow one another."""
        shares, done, total = self._partial.shares, 0, self.layout.nbytes
        by_number = {share.number: share for share in shares}
        for region in self.layout.regions(str(self._partial.path)):
            share = by_number.get(done * shares[0].count // total + 1)
            if share is not None:
                self._shares[region.number] = share
                yield region
            done += region.nbytes

    def begin(self, threads: int | None = None) -> None:
        """Look what is done already, make the files, and claim the room that is missing.

        Raises
        ------
        OSError
            If the disk does not have it.
        """
        if self._partial.is_publishing:  # all of it is done
            self.regions.clear()
            self.kept = self.size
        else:
            self._keep(threads)
            self._reserve()

    def _keep(self, threads: int | None) -> None:
        """Leave out what the journals say is done, where the files have the checksums that stand there."""
        told = {n: c for share in self._partial.shares for n, c in self._partial.recorded(share).items()}
        listed = [region for region in self.regions if str(region.number) in told and os.path.exists(region.path)]
        found = in_order(checksum_of, listed, count=_threads(threads, listed))
        right = {r.number: c for r, c in zip(listed, found, strict=True) if told[str(r.number)] == c}
        for share in self._partial.shares:
            mine = {number: text for number, text in right.items() if self._shares[number] == share}
            self._partial.begin_journal(share, mine)
        self.regions = [region for region in self.regions if region.number not in right]
        self.kept = self.size - sum(region.nbytes for region in self.regions)

    def _reserve(self) -> None:
        folder, files = self._partial.path, self._files()
        needed = sum(min(nbytes, max(0, file.size - _allocated(folder / file.name))) for file, _, nbytes in files)
        system = os.statvfs(folder)
        free = system.f_bavail * system.f_frsize
        if needed > free and system.f_blocks:
            raise OSError(
                errno.ENOSPC, f"the disk has {_readable(free)} free, the checkpoint needs {_readable(needed)}"
            )
        for file, (begin, end), _ in files:
            _make(folder / file.name, file, begin, end, self._place.olds.get(file.name))

    def _files(self) -> list[tuple[File, tuple[int, int], int]]:
        """Return the files of the work that is left, with the stretch that holds it, and its bytes."""
        by_path = dict[str, list[Region]]()
        for region in self.regions:
            by_path.setdefault(os.path.basename(region.path), []).append(region)
        return [
            (file, (held[0].begin, held[-1].end), sum(region.nbytes for region in held))
            for file in self.layout.files
            if (held := by_path.get(file.name))
        ]

    def record(self, region: Region, checksum: str) -> None:
        """Write down that a region is done, with the checksum that `write_region` returned."""
        self._partial.record(self._shares[region.number], region.number, checksum)

    def finish(self) -> tuple[str, ...]:
        """Put all on the disk, and give the files their names if no share is missing; return those that are.

        Raises
        ------
        CheckpointError
            If another process has changed the size of a file.
        """
        if not self._partial.is_publishing:
            for file in self.layout.files:
                if file.name in self._names:
                    self._sync(self._partial.path / file.name, file.size)
            for share in self._partial.shares:
                self._partial.finish(share)
        missing = self._partial.unfinished
        if not missing:
            self._partial.publish(self.layout, self._place.olds, self._place.stale)
        return tuple(map(str, missing))

    def _sync(self, path: Path, size: int) -> None:
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.fsync(descriptor)
            if os.fstat(descriptor).st_size != size:
                raise CheckpointError(
                    f"cannot write {self._place.target}: another process changed the size of its temporary file"
                )
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def writing(
    plan: Plan,
    path: str | os.PathLike[str],
    *,
    max_shard_size: SupportsIndex | str | None = None,
    shard: str | tuple[SupportsIndex, SupportsIndex] | None = None,
    resume: bool = False,
    force: bool = False,
    format: str = "safetensors",
) -> Iterator[Writing]:
    """Begin or resume a write, for an engine of your own that writes its regions; `write_checkpoint` is one.

    Parameters
    ----------
    plan, path, max_shard_size, shard, resume, force, format
        As for `write_checkpoint`.

    Yields
    ------
    Writing
        Its `regions` are to be written by `write_region`, each is to be told to `record`, then `finish` is to be
        called. Where the context ends before, what is done is kept if `resume` or `shard` is given.

    Examples
    --------
    >>> import fastinit, tempfile
    >>> from fastinit.writing import write_region, writing
    >>> plan = fastinit.Plan.from_specs({"w": {"dtype": "F32", "shape": [64, 64]}}, seed=17)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with writing(plan, f"{folder}/w.safetensors") as work:
    ...         work.begin()
    ...         for region in work.regions:
    ...             work.record(region, write_region(region))
    ...         missing = work.finish()
    ...     found = fastinit.verify_checkpoint(f"{folder}/w.safetensors")
    >>> missing, bool(found)
    ((), True)
    """
    target, share = Path(path), as_share(shard)
    layout = _layout(plan, target, format, None if max_shard_size is None else as_size(max_shard_size))
    with _told(target, layout.nbytes):
        place = Place.of(target, layout)
        partial = _partial(plan, layout, place, share)
    if not force and not (resume and partial.is_publishing):
        place.refuse_taken()
    keep = resume or partial.is_shared
    left = f"{partial.path} has what is done, and --resume (resume=True) goes on" if keep else _UNCHANGED
    with _told(target, layout.nbytes, left), place.made(), _kept(partial, keep):
        partial.begin(resume, force)
        with partial.locked(resume, force):
            yield Writing(layout, partial, place)


@contextlib.contextmanager
def _told(target: Path, size: int, left: str = _UNCHANGED) -> Iterator[None]:
    """Raise the system's errors as one sentence about the target, which says what is left."""
    try:
        yield
    except (OSError, OverflowError) as error:
        raise CheckpointError(f"cannot write {target}: {_reason(error, size)}; {left}") from error


def _layout(plan: Plan, target: Path, format: str, most: int | None) -> Layout:
    if plan.missing:
        raise CheckpointError(
            f"cannot write {target}: the plan has digests but no data of {grouped(plan.missing)}; "
            "plan.with_given('FILE.safetensors') reads it"
        )
    try:
        return laid_out(plan, format, target.name, most)
    except CheckpointError as error:
        raise CheckpointError(f"cannot write {target}: {error}") from None


def _partial(plan: Plan, layout: Layout, place: Place, share: Share) -> Partial:
    files = [[file.name, file.size] for file in layout.files]
    digest = blake2b(json.dumps([_VERSION, plan.to_json(), files]).encode(), digest_size=16).hexdigest()
    name = STEM if layout.is_folder else layout.files[0].name
    return Partial(place.target, place.folder, name, digest, share)


@contextlib.contextmanager
def _kept(partial: Partial, keep: bool) -> Iterator[None]:
    """Remove the half-written files where the context fails, unless somebody is to go on with them."""
    try:
        yield
    except BaseException:
        if not keep:
            partial.abandon()
        raise


def _reason(error: OSError | OverflowError, size: int) -> str:
    number = getattr(error, "errno", None) or errno.EFBIG
    reason = getattr(error, "strerror", None) or os.strerror(number)
    return f"there is no room for its {size:,} bytes ({reason})" if number in _NO_ROOM else reason


def _allocated(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def _make(path: Path, file: File, begin: int, end: int, old: os.stat_result | None) -> None:
    """Make a file of its final size, and claim the blocks of a stretch: a full disk is met now, not in an hour."""
    mode = 0o666 if old is None else 0o600  # nobody else opens a private file before it has the old one's mode
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, mode)
    try:
        if old is not None:
            give(descriptor, old)
        if os.fstat(descriptor).st_size < file.size:
            os.ftruncate(descriptor, file.size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, begin, end - begin)
    finally:
        os.close(descriptor)


def _readable(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 10**8 else f"{size / 1e6:.1f} MB"


def _threads(threads: int | None, regions: list[Region]) -> int:
    return min(default_threads() if threads is None else threads, max(1, len(regions)))


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
) -> Written:
    """Write a whole model's weights, or a share of them.

    Parameters
    ----------
    plan : Plan
        What to write.
    path : str or path
        The file; with `max_shard_size`, and for ``"npy"`` and ``"zarr"``, the folder of files.
    progress : callable, optional
        Called with (bytes done, bytes in all, name of a tensor) after every region of a file.
    max_shard_size : int or str, optional
        Cut the model into shards of at most so many bytes (``"5GB"``, ``"500MiB"``) with an index, as Hugging
        Face's libraries do: ``model-00001-of-00005.safetensors``. A larger tensor gets a shard for itself.
    shard : str or pair of int, optional
        Write share K of N only, ``"2/8"`` or ``(2, 8)``, into the same files as the other N - 1 writers, which may
        run on other machines, at the same time or not. Who completes the last share gives the files their names.
    resume : bool, default False
        Continue what a write that was killed or stopped has left, and begin where there is none. Regions that are
        done are kept if their checksums are right. A write that is stopped then leaves what it has done.
    force : bool, default False
        Replace files that exist, each in one step, and discard a half-written checkpoint.
    format : {"safetensors", "npy", "zarr", "pt"}
        ``"npy"`` is a folder of one file a tensor; ``"zarr"`` a group of zarr v3, and ``"pt"`` what torch saves:
        they need these libraries, and are not written in shares or resumed.
    threads : int, optional
        How many threads write; None: as many as this process has CPUs.

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
        If a size, share, format or number of threads is none.

    Notes
    -----
    The plan is data, so with `force` `path` may be the very file whose header it was made from. After an interrupt
    there is the old file or the whole new one, which keeps the old one's mode and, where the process may, owner
    and group. Until then the new files lie in ``NAME.partial``.

    Memory is constant, a few MiB a thread, but for what can only be made at once, such as an orthogonal matrix,
    and for ``"pt"``.
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    count = as_threads(threads)
    began = time.perf_counter()
    with writing(
        plan, path, max_shard_size=max_shard_size, shard=shard, resume=resume, force=force, format=format
    ) as work:
        work.begin(count)
        fill_began = time.perf_counter()
        _write_regions(work, progress, count)
        fill_seconds = time.perf_counter() - fill_began
        missing = work.finish()
    return Written(work.size, time.perf_counter() - began, fill_seconds, work.kept, work.layout.names, missing)


def _write_regions(work: Writing, progress: Progress | None, threads: int | None) -> None:
    done, regions = work.kept, work.regions
    checksums = in_order(write_region, regions, count=_threads(threads, regions))
    for region, checksum in zip(regions, checksums, strict=True):
        work.record(region, checksum)
        done += region.nbytes
        if progress is not None:
            progress(done, work.size, region.label)
