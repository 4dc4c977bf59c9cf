"""One way to open a file that a user named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from ..errors import CheckpointError

_LEAST = 1 << 16  # bytes: files of /proc say that they are empty


def open_file(path: Path, refusal: type[Exception] = CheckpointError) -> BinaryIO:
    """Open a file to read its bytes, or raise `refusal`: one sentence about that file."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # to open a pipe would wait for a writer
            raise refusal(f"cannot read {path}: it is a device, pipe or socket; name a file")
        return path.open("rb")
    except OSError as error:
        raise refusal(f"cannot read {path}: {error.strerror or error}") from error


def read_bytes(file: BinaryIO, count: int, path: Path | str) -> bytes:
    """Return the next `count` bytes of an open file, or raise CheckpointError where they cannot be read."""
    try:
        return file.read(count)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def read_bounded(path: Path, limit: int, what: str) -> bytes:
    """Return the bytes of a file that is at most `limit` bytes long; CheckpointError for any other."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:  # said before any of it is in memory
            raise CheckpointError(f"{path} is larger than {limit} bytes, too large for {what}")
        return read_bytes(file, max(size, _LEAST), path)  # to ask for `limit` bytes would take room for them
