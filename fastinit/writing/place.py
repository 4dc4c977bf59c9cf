"""`Place`: where files go, and what is there already; looked at before the first byte is written."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._files.replacing import old_file
from ..errors import CheckpointError
from ..views.table import amount
from .layout import STEM, File, Layout

_RIVALS = re.compile(rf"{STEM}(-[0-9]+-of-[0-9]+)?\.safetensors(\.index\.json)?")


@dataclass(frozen=True, slots=True)
class Place:
    """Where files go.

    Attributes
    ----------
    target : Path
        What the user named: a file, or a folder of files.
    folder : Path
        The folder that gets them.
    olds : dict of str to os.stat_result
        The names that are taken, and by what.
    stale : tuple of str
        Other files of a model there, which a reader would take instead of the new ones, or with them.
    is_made : bool
        Whether the folder is made where there is none: the user has named it, and not a file in it.
    """

    target: Path
    folder: Path
    olds: dict[str, os.stat_result]
    stale: tuple[str, ...]
    is_made: bool

    @classmethod
    def of(cls, target: Path, layout: Layout, may_be_folder: bool = False) -> Place:
        """Return what there is; refuse what no file replaces: a link, a device, or a folder where that is wrong.

        Raises
        ------
        CheckpointError, OSError
            If something of that kind is in the way.
        """
        folder = Path(os.path.realpath(target if layout.is_folder else target.parent))
        if layout.is_folder and os.path.lexists(folder) and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        olds = {}
        for name in layout.names:
            path = folder / name
            if path.is_symlink():
                where = os.readlink(path)
                raise CheckpointError(
                    f"cannot write {path}: it is a symbolic link to {where}; name that file itself"
                )
            old = path.stat() if may_be_folder and path.is_dir() else old_file(path)
            if old is not None:
                olds[name] = old
        return cls(target, folder, olds, tuple(_rivals(folder, layout)), layout.is_folder)

    def refuse_taken(self) -> None:
        """Refuse to replace anything."""
        taken = [*self.olds, *self.stale]
        if taken:
            raise CheckpointError(
                f"cannot write {self.target}: {self.folder / taken[0]} exists; --force (force=True) replaces it"
            )

    def holds(self, layout: Layout) -> bool:
        """Say whether the files are there already, by their sizes, headers and texts."""
        if not set(layout.names) <= self.olds.keys():
            return False
        texts = (self.folder.joinpath(name).read_bytes() == text for name, text in layout.texts.items())
        return all(self._holds(file) for file in layout.files) and all(texts)

    def _holds(self, file: File) -> bool:
        header = file.pieces[0]
        if self.olds[file.name].st_size != file.size or not isinstance(header.source, np.ndarray):
            return False
        with (self.folder / file.name).open("rb") as found:
            return found.read(header.end) == header.source.tobytes()

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Make the folder where there is none, and take it away again where the context fails and it is empty."""
        is_new = self.is_made and not self.folder.is_dir()
        try:
            if is_new:
                self.folder.mkdir(exist_ok=True)
            yield
        except BaseException:
            if is_new:
                with contextlib.suppress(OSError):
                    self.folder.rmdir()
            raise


def _rivals(folder: Path, layout: Layout) -> list[str]:
    """Return what else a folder's readers would take for the model; they look for safetensors by name."""
    if not any(_RIVALS.fullmatch(name) for name in layout.names) or not layout.is_folder:
        return []
    found = os.listdir(folder) if folder.is_dir() else []
    return sorted(name for name in found if _RIVALS.fullmatch(name) and name not in layout.names)


def check_room(folder: Path, needed: int) -> None:
    """Raise an OSError where the disk has less room than is needed; one that does not tell is believed."""
    system = os.statvfs(folder if folder.is_dir() else folder.parent)
    free = system.f_bavail * system.f_frsize
    if needed > free and system.f_blocks:
        raise OSError(errno.ENOSPC, f"the disk has {amount(free)} free, the checkpoint needs {amount(needed)}")
