"""How a region's bytes reach the disk: through the page cache, or past it with O_DIRECT.

Through the cache, whoever loads the file next reads memory. Past it, nothing is copied, and what the machine's
memory holds stays there: that is for files too large to be cached. A file is the same either way.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import secrets
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import TracebackType

from .._engine.checks import as_choice
from .._engine.parts import Array
from .._engine.targets import aligned_bytes

CHUNK_BYTES = 1 << 20
"""Bytes made at a time, and written at a time through the cache: they stay in one core's own."""

DIRECT_BYTES = 4 * CHUNK_BYTES
"""Bytes that a direct write hands over: each waits for the disk, so they are few and long."""

DIRECT = ("auto", "on", "off")
"""What a user may ask for."""

PAGE = max(4096, mmap.PAGESIZE)
"""Direct writes begin and end at multiples of it, in the file and in memory: a multiple of every common block."""

_O_DIRECT = getattr(os, "O_DIRECT", 0)
_MOST_CACHED = 1 << 30
_REFUSED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP)
_WRITE_BEHIND = 2  # SYNC_FILE_RANGE_WRITE of <fcntl.h>


def as_direct(choice: object) -> str:
    """Check `direct=`."""
    return as_choice(choice, DIRECT, "choice of direct writes")


def is_direct(choice: str, folder: Path, nbytes: int) -> bool:
    """Decide whether a write of `nbytes` into the files of a folder goes past the page cache.

    With "auto" it does if the bytes are more than 1 GiB, or than an eighth of the machine's memory, and the folder
    lies on a block device: files of tmpfs are memory, and what a network stores its server decides.

    Raises
    ------
    OSError
        If the choice is "on" and the file system refuses.
    """
    if choice == "off" or (choice == "auto" and not (nbytes > _most_cached() and _is_on_block_device(folder))):
        return False
    takes = _takes_direct(folder)
    if choice == "on" and not takes:
        raise OSError(
            errno.EOPNOTSUPP,
            "its file system takes no direct writes (O_DIRECT), which --direct on (direct='on') asks for; "
            "--direct auto decides by itself",
        )
    return takes


def _most_cached() -> int:
    return min(_MOST_CACHED, os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE // 8)


def _is_on_block_device(folder: Path) -> bool:
    return os.major(os.stat(folder).st_dev) != 0  # Linux gives file systems without one a device number of major 0


def is_in_memory(folder: Path) -> bool:
    """Say whether a folder lies on tmpfs, as Linux's table of mounts has it."""
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:  # 36 35 0:26 / /dev/shm rw - tmpfs tmpfs rw
            mount, _, system = line.partition(" - ")
            if mount.split()[2] == number:
                return system.startswith("tmpfs ")
    return False


def _takes_direct(folder: Path) -> bool:
    """Write a page past the cache: some file systems take the flag, and refuse the write."""
    if not _O_DIRECT:
        return False
    probe = folder / f".fastinit-{secrets.token_hex(8)}.tmp"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _O_DIRECT, 0o600)
        try:
            os.pwrite(descriptor, aligned_bytes(PAGE, PAGE).data, 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(probe)
    return True


class Sink:
    """Lends memory for the bytes of a stretch of a file, one chunk after the other, and writes them.

    Direct writes need whole pages, in the file and in memory. So the stretch lies as far behind the first byte of
    a page in memory as in the file, and what follows its last whole page waits for the next chunk. A page of which
    the stretch has a part is written through the cache: the rest of it is another writer's.

    Parameters
    ----------
    path : str
        The file, which exists.
    begin, end : int
        The stretch.
    direct : bool
        Whether to write past the page cache; where the file system refuses, bytes go through it.
    """

    def __init__(self, path: str, begin: int, end: int, direct: bool) -> None:
        page, self._length = (PAGE, DIRECT_BYTES) if direct else (1, CHUNK_BYTES)
        self._low = self._high = begin % page  # what is held is memory[low:high]
        self._base = begin - self._low  # where the memory's first byte belongs
        self._memory = aligned_bytes(min(self._length, end - begin) + PAGE, PAGE)
        self._descriptor = os.open(path, os.O_WRONLY)
        self._direct = -1
        if direct:
            with contextlib.suppress(OSError):  # the other one writes as well
                self._direct = os.open(path, os.O_WRONLY | _O_DIRECT)

    def __enter__(self) -> Sink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in (self._direct, self._descriptor):
            if descriptor >= 0:
                os.close(descriptor)

    @property
    def _is_direct(self) -> bool:
        return self._direct >= 0

    def room(self, nbytes: int) -> Array:
        """Return memory for the next bytes, at most `CHUNK_BYTES`, until `put` is called."""
        return self._memory[self._high : self._high + nbytes]

    def put(self, nbytes: int) -> None:
        """Take the bytes that were put into the memory."""
        self._high += nbytes
        if self._high >= self._length:
            last = self._high - self._high % PAGE if self._is_direct else self._high
            self._write(last)
            rest = self._high - last
            self._memory[:rest] = self._memory[last : self._high]
            self._base, self._low, self._high = self._base + last, 0, rest

    def finish(self, sync: bool) -> None:
        """Write what is left, and wait until it is on the disk if `sync` says so."""
        self._write(self._high)
        if sync:
            os.fsync(self._descriptor)

    def _write(self, high: int) -> None:
        """Write memory[low:high]."""
        first, last = -(-self._low // PAGE) * PAGE, high // PAGE * PAGE
        if self._is_direct and first < last and self._written_directly(first, last):
            self._write_cached(self._low, first)
            self._write_cached(last, high)
        else:
            self._write_cached(self._low, high)
        self._low = high

    def _written_directly(self, low: int, high: int) -> bool:
        """Write whole pages past the cache, or say that the file system refuses."""
        try:
            self._write_at(self._direct, low, high)
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            os.close(self._direct)
            self._direct = -1
        return self._is_direct

    def _write_cached(self, low: int, high: int) -> None:
        """Write through the cache, and let the disk begin: it would idle until the cache is full of what waits."""
        if low < high:
            self._write_at(self._descriptor, low, high)
            _begin_writing_back(self._descriptor, self._base + low, high - low)

    def _write_at(self, descriptor: int, low: int, high: int) -> None:
        """Put memory[low:high] in its place: the one line that writes weights to a disk."""
        while low < high:
            low += os.pwrite(descriptor, self._memory[low:high].data, self._base + low)


def _begin_writing_back(descriptor: int, offset: int, nbytes: int) -> None:
    """Tell the system to begin writing bytes of its cache to the disk; where it cannot, it does so later."""
    advise = _sync_file_range()
    if advise is not None:
        advise(descriptor, offset, nbytes, _WRITE_BEHIND)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's call of that name, which Python's `os` lacks; None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        call = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError):  # a C library without it
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call
