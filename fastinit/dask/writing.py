"""`write_checkpoint`: a plan's files, written by the workers of a dask cluster, a task for each region.

A task is a description: the worker makes the region's bytes, puts them in their place in the file and answers with
their checksum. So no weight travels, and a task that a dead worker has left is done again by another one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import dask  # noqa: F401  # without it the example below is skipped

from .. import __version__
from .._engine.checks import as_choice
from .._engine.names import grouped
from ..plan import Plan
from ..planned import PlannedTensor
from ..replay import Progress
from ..writing import Region, Writing, Written, write_region, writing
from ..writing.whole import WHOLE
from ..writing.writer import FORMATS

if TYPE_CHECKING:
    from .clients import Client, ClientLike

RETRIES = 3
"""How often a region is tried again after an error."""

_HELD_BYTES = 1 << 16
"""The most ready-made bytes, of a header or given data, that travel in a task."""


def write_checkpoint(
    plan: Plan,
    path: str | os.PathLike[str],
    client: ClientLike = None,
    progress: Progress | None = None,
    *,
    max_shard_size: SupportsIndex | str | None = None,
    resume: bool = False,
    force: bool = False,
    format: str = "safetensors",
    direct: str = "auto",
    retries: int = RETRIES,
) -> Written:
    """Write a whole model's weights by the workers of a dask cluster.

    Parameters
    ----------
    plan : Plan
        What to write.
    path : str or path
        The file, or the folder of files, as for `fastinit.write_checkpoint`; on a file system that all workers
        and this process share, under the same path.
    client : distributed.Client or str, optional
        The cluster: a client, the address of a scheduler, or the path of a scheduler file (``.json``);
        ``"threads"`` and ``"processes"`` are clusters on this machine, which end with the call. None: the client
        in use, or ``"threads"`` where there is none.
    progress : callable, optional
        Called with (bytes done, bytes in all, name of a tensor) after every region of a file.
    max_shard_size, resume, force
        As for `fastinit.write_checkpoint`.
    format : {"safetensors", "npy"}
        One file or shards, or a folder of one file a tensor.
    direct : {"auto", "on", "off"}
        As for `fastinit.write_checkpoint`; this process decides for all workers, and a worker whose file system
        refuses writes through its page cache.
    retries : int, default 3
        How often a region is tried again after an error. A region that a worker leaves by its death is begun
        again in any case, up to ``distributed.scheduler.allowed-failures`` times.

    Returns
    -------
    Written
        Size and times.

    Raises
    ------
    CheckpointError
        If a worker does not see the folder, the cluster fails, or `fastinit.write_checkpoint` would refuse.

    Examples
    --------
    >>> import fastinit, tempfile
    >>> import fastinit.dask
    >>> plan = fastinit.Plan.from_specs({"w": {"dtype": "F32", "shape": [64, 64]}}, seed=17)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = fastinit.dask.write_checkpoint(plan, f"{folder}/w.safetensors", "threads")
    ...     found = fastinit.verify_checkpoint(f"{folder}/w.safetensors", seed=17)
    >>> bool(found), written.files
    (True, ('w.safetensors',))
    """
    from .clients import connected  # noqa: PLC0415  # distributed, which arrays do without

    if as_choice(format, FORMATS, "format") in WHOLE:
        raise ValueError(f"--format {format} is written by one writer at once; leave out --dask, and client=")
    began = time.perf_counter()
    options: dict[str, Any] = {"max_shard_size": max_shard_size, "resume": resume, "force": force}
    with connected(client) as cluster, writing(plan, path, format=format, direct=direct, **options) as work:
        work.begin()
        fill_began = time.perf_counter()
        _write_regions(cluster, work, progress, retries)
        fill_seconds = time.perf_counter() - fill_began
        missing = work.finish()
    return Written(work.size, time.perf_counter() - began, fill_seconds, work.kept, work.layout.names, missing)


def _write_regions(cluster: Client, work: Writing, progress: Progress | None, retries: int) -> None:
    from .clients import as_completed  # noqa: PLC0415

    done = work.kept

    def tell(region: Region, checksum: str) -> None:
        nonlocal done
        work.record(region, checksum)
        done += region.nbytes
        if progress is not None:
            progress(done, work.size, region.label)

    ours = [region for region in work.regions if _held(region) > _HELD_BYTES]
    theirs = [region for region in work.regions if _held(region) <= _HELD_BYTES]
    with _failures_told(), _tasks(cluster, work, theirs, retries) as tasks:
        for region in ours:
            tell(region, write_region(region, direct=work.direct))
        for future, answer in as_completed(tasks, loop=cluster.loop, with_results=True):
            if not isinstance(answer, str):  # a cancellation, which dask hands on like a result
                raise OSError(errno.EIO, f"the scheduler of dask is gone, or has cancelled the tasks ({answer})")
            tell(tasks[future], answer)


def _held(region: Region) -> int:
    """Return how many bytes of a region are ready, and would travel with it."""
    return sum(piece.end - piece.begin for piece in region.pieces if not isinstance(piece.source, PlannedTensor))


@contextlib.contextmanager
def _tasks(cluster: Client, work: Writing, regions: list[Region], retries: int) -> Iterator[dict[Any, Region]]:
    """Give the cluster a task for each region, and take them back at the end: {its future: region}."""
    if not regions:
        yield {}
        return
    origin = Origin.of(work.head)
    _check_workers(cluster.run(origin.blindness, on_error="return"))
    futures = cluster.map(
        _write, regions, origin=origin, direct=work.direct, key="fastinit-region", pure=False, retries=retries
    )
    try:
        yield dict(zip(futures, regions, strict=True))
    finally:
        cluster.cancel(futures)


def _write(region: Region, origin: Origin, direct: bool = False) -> str:
    """Write a region on a worker and return its checksum."""
    blind = origin.blindness()
    if blind:
        raise OSError(errno.ENOENT, blind)
    return write_region(region, sync=origin.is_elsewhere, direct=direct)


@dataclass(frozen=True, slots=True)
class Origin:
    """The client, and the folder of half-written files as it sees it, beside what a worker sees.

    Attributes
    ----------
    head : Path
        The file that no other such folder has the same.
    content : bytes
        What stands in it.
    machine : str
        The client's.
    version : str
        Of the client's fastinit.
    """

    head: Path
    content: bytes
    machine: str
    version: str

    @classmethod
    def of(cls, head: Path) -> Origin:
        """Return what this process sees."""
        return cls(head, head.read_bytes(), _machine(), __version__)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the client runs on another machine: its sync, at the end, then leaves out what lies here."""
        return _machine() != self.machine

    def blindness(self) -> str:
        """Say why this process cannot write there; "" where it sees the very folder that the client made."""
        where = f"a worker on {socket.gethostname()}"
        if self.version != __version__:
            return f"{where} has fastinit {__version__}, and this process {self.version}; install one version"
        with contextlib.suppress(OSError):
            os.listdir(self.head.parent.parent)  # a network file system looks again
            if self.head.read_bytes() == self.content:
                return ""
        return (
            f"{where} does not see {self.head.parent}; all workers need the file system of this process, under "
            "the same path"
        )


def _machine() -> str:
    """Return what tells this kernel from others: processes of one kernel see and sync the same pages."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read()
    return f"{socket.gethostname()} {uuid.getnode()}"


def _check_workers(answers: dict[str, str | Exception]) -> None:
    """Refuse workers that cannot write, before any does."""
    wrong = {address: answer for address, answer in answers.items() if answer != ""}
    if wrong:
        first = next(iter(wrong.values()))
        if not isinstance(first, str):
            first = f"a worker could not say what it sees ({first}); it needs fastinit-weights[dask] {__version__}"
        raise OSError(errno.ENOENT, f"{first} (workers {grouped(list(wrong))})")


@contextlib.contextmanager
def _failures_told() -> Iterator[None]:
    """Raise what is peculiar to dask as an error of the system, which `writing` puts into a sentence."""
    from .clients import KilledWorker  # noqa: PLC0415

    try:
        yield
    except KilledWorker as error:
        raise OSError(
            errno.EIO,
            f"{error.allowed_failures + 1} workers died, one after the other, at the same region, the last one at "
            f"{error.last_worker.address}; its log says why, which may be too little memory",
        ) from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise OSError(errno.EIO, f"the connection to the scheduler of dask broke ({error})") from error
