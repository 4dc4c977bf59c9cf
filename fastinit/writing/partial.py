"""`Partial`: the folder ``NAME.partial`` beside NAME, in which files lie until all of them are complete.

It holds the files, and three things about them that any writer may read:

- ``head.json``: the digest of the plan and its layout, and in how many shares it is written. It is there from the
  first moment on: the folder takes its name with it inside.
- ``share-K-of-N.lock``: who writes that share. The file says it, and a lock of the system, which ends with its
  process, says whether it is still true.
- ``share-K-of-N.journal``: the regions that are done, with their checksums, a line each. A line may lie after a
  power cut: whoever resumes reads the region and compares.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from .._files.replacing import sync_folder, write_file
from ..errors import CheckpointError
from .layout import Layout

MOST_SHARES = 1 << 20
"""More writers than any machine has."""

_HEAD = "head.json"
_PUBLISHING = "publishing"
_SUFFIX = ".partial"
_LONGEST_NAME = 255  # bytes, of most file systems
_DONE = "done"
_MOMENT = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of the regions a writer writes: number `number` of `count`, from 1 on."""

    number: int = 1
    count: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def file(self, kind: str) -> str:
        """Return the name of its lock or journal."""
        return f"share-{self.number}-of-{self.count}.{kind}"

    @property
    def all(self) -> list[Share]:
        """It and the others."""
        return [Share(number, self.count) for number in range(1, self.count + 1)]


class Partial:
    """A half-written checkpoint.

    Parameters
    ----------
    target : Path
        The file, or the folder of files, that is being made; for errors.
    folder : Path
        The folder that gets the files.
    name : str
        What the folder of the half-written files is called, without its suffix.
    digest : str
        Of all that decides the bytes: plan and layout.
    share : Share
        The writer's.

    Attributes
    ----------
    path : Path
        The folder of the half-written files.
    shares : list of Share
        Those that this writer writes: one, or all of them where it resumes what several began.
    """

    def __init__(self, target: Path, folder: Path, name: str, digest: str, share: Share) -> None:
        self.path: Path = folder / _short(name)
        self.shares: list[Share] = [share]
        self._target = target
        self._head = {"digest": digest, "shares": share.count}
        self._token = secrets.token_hex(8)

    @property
    def is_shared(self) -> bool:
        """Whether other writers may be at work in it."""
        return self._head["shares"] != 1

    # ---- the folder ----------------------------------------------------------------------------------

    @property
    def head(self) -> Path:
        """The file that says what is written here, and no other half-written checkpoint has the same."""
        return self.path / _HEAD

    @property
    def exists(self) -> bool:
        """Whether there is a half-written checkpoint; a power cut in its first seconds leaves an empty head."""
        try:
            return (self.path / _HEAD).stat().st_size > 0
        except OSError:
            return False

    def begin(self, resume: bool, force: bool) -> None:
        """Make the folder, or join the one that is there.

        Raises
        ------
        CheckpointError
            If the one that is there is of another plan or cut, or is not to be joined.
        """
        while not self._make():
            self.sweep()
            if not self.exists:
                continue
            why = self._why_not_joined(resume)
            if not why:
                return
            if not force:
                raise self._refused(f"{self.path} {why}; --force (force=True) discards it")
            self._discard()

    def _make(self) -> bool:
        """Make the folder, with its head in it from the first moment; say whether there was none."""
        made = self.path.with_name(f".fastinit-{self._token}.tmp")
        try:
            made.mkdir()
            (made / _HEAD).write_text(json.dumps({**self._head, "token": self._token}), "ascii")
            made.rename(self.path)
        except OSError:
            if not self.path.is_dir():
                raise
            return False
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return True

    def _found_head(self) -> dict[str, Any]:
        try:
            found = json.loads((self.path / _HEAD).read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _why_not_joined(self, resume: bool) -> str:
        """Say why the folder that is there is not this writer's to go on with; "" where it is."""
        found = self._found_head()
        if found.get("digest") != self._head["digest"]:
            return "holds a half-written checkpoint of another plan or layout"
        count = found.get("shares")
        if resume and not self.is_shared and type(count) is int and 0 < count <= MOST_SHARES:
            self._head["shares"] = count
            self.shares = Share(1, count).all
        if count != self._head["shares"]:
            return f"is written in {count} shares, and {self.shares[0]} is of another cut"
        if resume or self.is_shared:
            return ""
        self._refuse_the_living()
        return "holds a half-written checkpoint, which --resume (resume=True) continues"

    def _refuse_the_living(self) -> None:
        with contextlib.ExitStack() as stack:
            self._lock_all(stack)

    def _lock_all(self, stack: contextlib.ExitStack) -> None:
        for path in sorted(self.path.glob("*.lock")):
            stack.enter_context(self._locked(path.name))

    def _discard(self) -> None:
        with contextlib.ExitStack() as stack:
            self._lock_all(stack)
            self._remove()

    def _remove(self) -> None:
        """Remove the folder, its head first: what a kill leaves of it has none, and is nothing to go on with."""
        with contextlib.suppress(OSError):
            (self.path / _HEAD).unlink()
        shutil.rmtree(self.path, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what a kill has left of a folder that was being removed, or a power cut of a new one."""
        if self.path.is_dir() and not self.exists:
            shutil.rmtree(self.path, ignore_errors=True)

    def abandon(self) -> None:
        """Remove the folder if this writer made it, and has not begun to publish it."""
        if self._found_head().get("token") == self._token and not self.is_publishing:
            self._remove()
        self.sweep()

    # ---- locks ---------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self, resume: bool, force: bool) -> Iterator[None]:
        """Hold this writer's shares.

        Raises
        ------
        CheckpointError
            If another process writes one of them, or has begun it and is gone, and this writer is not to resume.
        """
        with contextlib.ExitStack() as stack:
            for share in self.shares:
                stack.enter_context(self._locked(share.file("lock"), share))
                journal = self.path / share.file("journal")
                if journal.exists() and not resume and not force:
                    raise self._refused(f"share {share} has been begun; --resume (resume=True) continues it")
            yield

    @contextlib.contextmanager
    def _locked(self, name: str, share: Share | None = None) -> Iterator[None]:
        try:
            lock = Lock(self.path / name)
        except Held as error:
            what = f"share {share} of it" if share and share.count > 1 else "it"
            raise self._refused(f"{what} is being written by {error}") from None
        try:
            yield
        finally:
            lock.release()

    def _refused(self, why: str) -> CheckpointError:
        return CheckpointError(f"cannot write {self._target}: {why}")

    # ---- journals ------------------------------------------------------------------------------------

    def recorded(self, share: Share) -> dict[str, str]:
        """Return what a share's journal says: {number of a region: checksum}; a line cut short says nothing."""
        try:
            text = (self.path / share.file("journal")).read_text("ascii", errors="replace")
        except OSError:
            return {}
        lines = text[: text.rfind("\n") + 1].splitlines()
        return dict(words for line in lines if len(words := line.split()) == 2)

    def begin_journal(self, share: Share, kept: Mapping[int, str]) -> None:
        """Begin a share's journal with the regions that are kept."""
        journal = self.path / share.file("journal")
        if not kept:
            journal.write_bytes(b"")  # nothing that a power cut could take
            return
        lines = "".join(f"{number} {checksum}\n" for number, checksum in kept.items())
        write_file(journal, lines.encode())

    def record(self, share: Share, key: int | str, checksum: str) -> None:
        """Append a line to a share's journal."""
        with open(self.path / share.file("journal"), "ab", buffering=0) as file:
            file.write(f"{key} {checksum}\n".encode())
            if key == _DONE and self.is_shared:  # a writer of all shares publishes the files at once
                os.fsync(file.fileno())

    def finish(self, share: Share) -> None:
        """Write down that a share's bytes are complete, and on the disk."""
        self.record(share, _DONE, _DONE)

    @property
    def unfinished(self) -> list[Share]:
        """The shares that are not complete; none where another writer has published the files meanwhile."""
        found = [share for share in self.shares[0].all if _DONE not in self.recorded(share)]
        return found if self.exists else []

    # ---- publishing ----------------------------------------------------------------------------------

    @property
    def is_publishing(self) -> bool:
        """Whether some of several files may be under their final names already."""
        return (self.path / _PUBLISHING).exists()

    def publish(self, layout: Layout, replaced: Collection[str], stale: Collection[str]) -> None:
        """Give all files their final names, the texts last; where another writer is about to do so, let it.

        Parameters
        ----------
        layout : Layout
            The files.
        replaced : collection of str
            Those whose names are taken, and that are to be replaced.
        stale : collection of str
            Files beside them that are to go: a reader would take them for the model.
        """
        try:
            lock = Lock(self.path / "publish.lock")
        except (Held, FileNotFoundError):
            return
        try:
            self._publish(layout, replaced, stale)
        finally:
            lock.release()

    def _publish(self, layout: Layout, replaced: Collection[str], stale: Collection[str]) -> None:
        folder = self.path.parent
        if not self.is_publishing and len(layout.names) > 1:
            for name, content in layout.texts.items():
                write_file(self.path / name, content)
            write_file(self.path / _PUBLISHING, b"")
        old_texts = [name for name in layout.texts if name in replaced and (self.path / name).exists()]
        for name in (*stale, *old_texts):  # an old index would lead into new shards meanwhile
            (folder / name).unlink(missing_ok=True)
        for name in layout.names:
            self._appear(name, name in replaced)
        sync_folder(folder)
        self._remove()

    def _appear(self, name: str, replace: bool) -> None:
        source, target = self.path / name, self.path.parent / name
        if self.is_publishing and not source.exists():
            return  # it has appeared before this writer resumed
        if replace:
            source.replace(target)
            return
        try:
            os.link(source, target)  # fails where the name is taken, which a rename would not
        except FileExistsError:
            if not target.samefile(source):
                raise self._refused(f"{target} has appeared meanwhile") from None
        except OSError:  # a file system without links
            if os.path.lexists(target):
                raise self._refused(f"{target} has appeared meanwhile") from None
            source.rename(target)


def _short(name: str) -> str:
    """Return the name of the folder of half-written files, which the file system must take too."""
    whole = name + _SUFFIX
    return (
        whole if len(os.fsencode(whole)) <= _LONGEST_NAME else blake2b(whole.encode()).hexdigest()[:32] + _SUFFIX
    )


class Held(Exception):
    """A lock is another writer's; the text says whose."""


class Lock:
    """A lock file that names its holder.

    The file is made where there is none, which only one of two hosts can do. The system's own lock on it ends with
    its process: so a file of this host that is not locked is of a process that is gone.

    Raises
    ------
    Held
        If another process, or another thread, holds it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        while True:
            self._descriptor = self._opened()
            try:
                self._take()
                if self._is_there():
                    break
            except BaseException:
                os.close(self._descriptor)
                raise
            os.close(self._descriptor)  # its holder has just removed it

    def _opened(self) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            time.sleep(_MOMENT)  # who has just made it writes down who that is
            return os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)

    def _take(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Held(self._holder() or "another process, which has just begun") from None
        holder = self._holder()
        if holder and f" on {socket.gethostname()} " not in holder:
            raise Held(f"{holder}; if that process is gone, remove {self._path}")
        me = f"process {os.getpid()} on {socket.gethostname()} since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        os.pwrite(self._descriptor, me.encode(), 0)
        os.ftruncate(self._descriptor, len(me))  # emptied before, ext4 would wait for the disk when it is closed

    def _holder(self) -> str:
        return os.pread(self._descriptor, 500, 0).decode("ascii", errors="replace")

    def _is_there(self) -> bool:
        try:
            found, held = os.stat(self._path), os.fstat(self._descriptor)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)

    def release(self) -> None:
        """Remove the file, and let it go."""
        with contextlib.suppress(OSError):
            if self._is_there():
                os.unlink(self._path)
        os.close(self._descriptor)
