"""The files that a command writes: none of them is a file that it reads, and what an interrupt left of them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable

_OPTIONS = ("out", "figure", "html")


def outputs(options: argparse.Namespace) -> dict[str, str]:
    """Return the files that the command is to write: {option: path}."""
    found = {f"--{name}": getattr(options, name, None) for name in _OPTIONS}
    return {option: path for option, path in found.items() if path is not None}


def inputs(options: argparse.Namespace) -> list[str]:
    """Return the files that the command reads: those of the arguments it names in its default `reads`."""
    found = (getattr(options, name) for name in getattr(options, "reads", ()))
    return [path for path in found if path is not None]


def refuse_overwriting(options: argparse.Namespace, others: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Raise a ValueError where an output is an input, or two outputs are one file, through links too.

    Parameters
    ----------
    options : argparse.Namespace
        The command's.
    others : iterable of path, optional
        Files that the command reads and no argument names.
    """
    files = outputs(options)
    if not files:
        return
    from .._files.replacing import same_file  # noqa: PLC0415

    taken = [(os.fspath(path), "is read by this command") for path in (*inputs(options), *others)]
    for option, path in files.items():
        for other, why in taken:
            if same_file(path, other):
                raise ValueError(f"{option} {path} would overwrite {other}, which {why}; name another file")
        taken.append((path, f"{option} writes"))


class Untouched:
    """Says after an interrupt whether the files that a command writes are as they were before it.

    Every file is written under a temporary name and then renamed, so a new file has another inode. Asking the
    file system is true at every moment; a flag set after the rename would come too late for some interrupts.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._before = {path: _identity(path) for path in outputs(options).values()}

    def __str__(self) -> str:
        written = [path for path, before in self._before.items() if _identity(path) != before]
        return f"{', '.join(written)} had been written" if written else "nothing was changed"


def _identity(path: str) -> object:
    """Return what changes when a file, or a file of a folder, is replaced; half-written ones lie beside those."""
    try:
        if os.path.isdir(path):
            held = ((entry.name, entry.inode()) for entry in os.scandir(path))
            return frozenset(each for each in held if not each[0].endswith((".partial", ".tmp"))) or None
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
