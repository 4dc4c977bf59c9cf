"""`Writing`: a write that is under way, of all of a plan's files or of a share of them; begun, or resumed.

Files appear under their names when all of them are complete; until then they lie in ``NAME.partial`` beside them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import SupportsIndex

from .._engine.cpus import default_threads
from .._engine.names import grouped
from .._engine.threads import in_order
from .._files.replacing import give
from ..errors import CheckpointError
from ..plan import Plan
from ..replay import Progress
from .layout import STEM, File, Layout, laid_out
from .options import as_share, as_size
from .partial import Partial, Share
from .place import Place, check_room
from .regions import Region, checksum_of
from .storage import as_direct, is_direct, is_in_memory

_VERSION = 1  # of how a layout is cut into regions, which journals number
_UNCHANGED = "nothing was changed"
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


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
    direct : bool
        Whether `write_region` is to write past the page cache.
    """

    def __init__(
        self, layout: Layout, partial: Partial, place: Place, direct: str = "auto", is_complete: bool = False
    ) -> None:
        self.layout = layout
        self._is_complete = is_complete
        self._partial = partial
        self._place = place
        self._shares = dict[int, Share]()
        self.regions: list[Region] = list(self._own())
        self.size: int = sum(region.nbytes for region in self.regions)
        self.kept: int = 0
        self.direct: bool = not is_complete and is_direct(direct, partial.path, self.size)
        self._unwritten = {region.number for region in self.regions}
        self._names = {os.path.basename(region.path) for region in self.regions}

    @property
    def head(self) -> Path:
        """A file beside those of the regions: who reads the same in it sees the same folder."""
        return self._partial.head

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

    def begin(self, threads: int | None = None, progress: Progress | None = None) -> None:
        """Look what is done already, make the files, and claim the room that is missing.

        Parameters
        ----------
        threads : int, optional
            How many read what an earlier write has done.
        progress : callable, optional
            Told of what is kept, as `write_checkpoint` tells it.

        Raises
        ------
        OSError
            If the disk does not have it.
        """
        if self._is_complete or self._partial.is_publishing:
            self.regions.clear()
            self.kept = self.size
        else:
            self._keep(threads, progress)
            self._reserve()
        self._unwritten = {region.number for region in self.regions}

    def _keep(self, threads: int | None, progress: Progress | None) -> None:
        """Leave out what the journals say is done, where the files have the checksums that stand there."""
        told = {n: c for share in self._partial.shares for n, c in self._partial.recorded(share).items()}
        listed = [region for region in self.regions if str(region.number) in told and os.path.exists(region.path)]
        found = in_order(checksum_of, listed, count=threads_for(listed, threads))
        right = dict[int, str]()
        for region, checksum in zip(listed, found, strict=True):
            if told[str(region.number)] == checksum:
                right[region.number] = checksum
                self.kept += region.nbytes
                if progress is not None:
                    progress(self.kept, self.size, region.label)
        by_share: dict[Share, dict[int, str]] = {share: {} for share in self._partial.shares}
        for number, checksum in right.items():
            by_share[self._shares[number]][number] = checksum
        for share, kept in by_share.items():
            self._partial.begin_journal(share, kept)
        self.regions = [region for region in self.regions if region.number not in right]

    def _reserve(self) -> None:
        folder, files = self._partial.path, self._files()
        needed = sum(min(nbytes, max(0, file.size - _allocated(folder / file.name))) for file, _, nbytes in files)
        check_room(folder, needed)
        claim = hasattr(os, "posix_fallocate") and not is_in_memory(folder)
        for file, (begin, end), _ in files:
            stretch = (begin, end - begin) if claim else None
            _make(folder / file.name, file, stretch, self._place.olds.get(file.name))

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
        self._unwritten.discard(region.number)

    def finish(self) -> tuple[str, ...]:
        """Put all on the disk, and give the files their names if no share is missing; return those that are.

        Raises
        ------
        CheckpointError
            If a region was not recorded, or another process has changed the size of a file.
        """
        if self._is_complete:
            return ()
        if self._unwritten:
            raise CheckpointError(
                f"cannot write {self._place.target}: {len(self._unwritten):,} regions have not been recorded"
            )
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
def told(target: Path, size: int, left: str = _UNCHANGED) -> Iterator[None]:
    """Raise errors of the system, met inside, as one sentence about the target that says what is left."""
    try:
        yield
    except (OSError, OverflowError) as error:
        raise CheckpointError(f"cannot write {target}: {_reason(error, size)}; {left}") from error


def threads_for(regions: Sequence[Region], threads: int | None = None) -> int:
    """Return how many threads there is work for; `threads` are wished for, None: as many as there are CPUs."""
    return min(default_threads() if threads is None else threads, max(1, len(regions)))


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
    direct: str = "auto",
) -> Iterator[Writing]:
    """Begin or resume a write, for an engine of your own that writes its regions; `write_checkpoint` is one.

    Parameters
    ----------
    plan, path, max_shard_size, shard, resume, force, format, direct
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
    target, share, direct = Path(path), as_share(shard), as_direct(direct)
    layout = _layout(plan, target, format, None if max_shard_size is None else as_size(max_shard_size))
    with told(target, layout.nbytes):
        place = Place.of(target, layout)
        partial = _partial(plan, layout, place, share)
        partial.sweep()
        is_complete = resume and not partial.exists and place.holds(layout)
        if not (force or is_complete or (resume and partial.is_publishing)):
            place.refuse_taken()
        if not (partial.exists or is_complete):  # said before anything is made, or millions of regions are listed
            check_room(place.folder, layout.nbytes // share.count)
    if is_complete:
        yield Writing(layout, partial, place, is_complete=True)
        return
    keep = resume or shard is not None
    left = f"{partial.path} has what is done, and --resume (resume=True) goes on" if keep else _UNCHANGED
    with told(target, layout.nbytes, left), place.made(), _kept(partial, keep):
        partial.begin(resume, force)
        with partial.locked(resume, force):
            yield Writing(layout, partial, place, direct)


def refuse_missing(plan: Plan, target: Path) -> None:
    """Refuse a plan that gives data by its digest alone."""
    if plan.missing:
        raise CheckpointError(
            f"cannot write {target}: the plan has digests but no data of {grouped(plan.missing)}; "
            "plan.with_given('FILE.safetensors') reads it"
        )


def _layout(plan: Plan, target: Path, format: str, most: int | None) -> Layout:
    refuse_missing(plan, target)
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
    """Remove what is half-written when the context ends, unless somebody is to go on with it."""
    try:
        yield
    finally:
        if not keep:
            partial.abandon()


def _reason(error: OSError | OverflowError, size: int) -> str:
    number = getattr(error, "errno", None) or errno.EFBIG
    reason = getattr(error, "strerror", None) or os.strerror(number)
    return f"there is no room for its {size:,} bytes ({reason})" if number in _NO_ROOM else reason


def _allocated(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def _make(path: Path, file: File, stretch: tuple[int, int] | None, old: os.stat_result | None) -> None:
    """Make a file of its final size, and claim the blocks of a stretch: a full disk is met now, not in an hour.

    Where files are memory, nothing is claimed: `check_room` has just counted it, and to take it on this thread
    alone lasts as long as to write it.
    """
    mode = 0o666 if old is None else 0o600  # nobody else opens a private file before it has the old one's mode
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, mode)
    try:
        if old is not None:
            give(descriptor, old)
        if os.fstat(descriptor).st_size < file.size:
            os.ftruncate(descriptor, file.size)
        if stretch is not None:
            os.posix_fallocate(descriptor, *stretch)
    finally:
        os.close(descriptor)
