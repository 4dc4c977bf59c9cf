"""How every file of this package is written: under a temporary name beside the old one, then renamed.

A file appears under its name whole or not at all, on a full disk, after Ctrl-C and after a power cut too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ..errors import CheckpointError


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a whole new file, or replace a whole old one.

    Raises
    ------
    OSError
        If the file cannot be written; its sentence says why, and what was at `path` is as before.
    CheckpointError
        If there is a device, pipe or socket at `path`.
    """
    try:
        with replacing(Path(path)) as descriptor:
            done = 0
            while done < len(content):  # a write may take less than it was given
                done += os.write(descriptor, memoryview(content)[done:])
            os.fsync(descriptor)
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(f"cannot write {os.fspath(path)}: {reason}; nothing was changed") from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[int]:
    """Yield a descriptor of a new file beside `path` that takes its name if, and only if, all goes well.

    Raises
    ------
    OSError
        Before the rename, never after it: what was at `path` is as before.
    CheckpointError
        If there is a device, pipe or socket at `path`.
    """
    path = Path(os.path.realpath(path))  # through a symbolic link, to the file it names
    old = old_file(path)
    # Not made from the name, which may already be the longest the file system takes.
    temporary = path.with_name(f".fastinit-{secrets.token_hex(8)}.tmp")
    mode = 0o666 if old is None else 0o600  # nobody else opens a private file before it has the old one's mode
    try:  # around the opening too: Ctrl-C may come when the file is there and the next line is not yet reached
        with open(temporary, "x+b", buffering=0, opener=partial(os.open, mode=mode)) as file:
            if old is not None:
                give(file.fileno(), old)
            yield file.fileno()
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


def old_file(path: Path) -> os.stat_result | None:
    """Return what is known of the file to be replaced; refuse what is no file before the work, not after it."""
    if path.is_symlink():  # it leads back to itself: there is no file to replace
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not path.exists():
        return None
    if not path.is_file():  # to replace /dev/null by a file would break the whole machine
        raise CheckpointError(f"cannot write {path}: it is a device, pipe or socket; name a file")
    return path.stat()


def give(descriptor: int, old: os.stat_result) -> None:
    """Give the new file the old one's mode, and its owner and group where the process may.

    Where it may not, nobody gains by that: the set-user and set-group bits go, and another group gets only what
    everybody had. Access control lists and extended attributes are not kept.
    """
    if hasattr(os, "fchown"):
        for owner, group in ((-1, old.st_gid), (old.st_uid, -1)):  # an owner may choose a group; root, anyone
            with contextlib.suppress(OSError):
                os.fchown(descriptor, owner, group)
    mode, new = stat.S_IMODE(old.st_mode), os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        mode &= ~(stat.S_ISUID | stat.S_ISGID)
    if new.st_gid != old.st_gid:
        mode &= ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    os.fchmod(descriptor, mode)  # last: a change of owner clears bits


def sync_folder(folder: Path) -> None:
    """Make the rename survive a power cut. Some file systems cannot sync a folder; the file itself is safe."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def same_file(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Say whether two names lead to one file: by a symbolic or a hard link, or by another way through folders.

    Two names of a file that does not exist yet are compared as they resolve.
    """
    with contextlib.suppress(OSError, ValueError):
        if os.path.exists(path) or os.path.exists(other):
            return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)
