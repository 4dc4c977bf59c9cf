"""Bytes of an open file, read where they lie.

Files are read, not mapped: where another process cuts a mapped file short, the next look at it is SIGBUS, which
ends this process without a word.
"""

from __future__ import annotations

import os

from ..errors import CheckpointError


def read_at(descriptor: int, offset: int, buffer: memoryview, path: str, name: str) -> None:
    """Fill `buffer` with the bytes of a tensor of an open file from `offset` on.

    Parameters
    ----------
    descriptor : int
        Of the open file.
    offset : int
        Of the first byte.
    buffer : memoryview
        Of bytes.
    path, name : str
        Of the file and of the tensor, for errors.

    Raises
    ------
    CheckpointError
        If the file has become shorter, or cannot be read.
    """
    done = 0
    while done < len(buffer):
        try:
            got = os.preadv(descriptor, [buffer[done:]], offset + done)
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
        if got == 0:
            raise CheckpointError(f"{path} has become shorter while tensor {name!r} was read from it")
        done += got
