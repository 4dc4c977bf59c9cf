"""What a user asks of a write: sizes and shares, as text or as numbers."""

from __future__ import annotations

import re

from .._engine.checks import as_index
from .partial import MOST_SHARES, Share

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([A-Za-z]*)")
_SHARE = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


def as_size(size: object) -> int:
    """Return the bytes that a number, or text such as ``"5GB"`` or ``"500 MiB"``, means; ValueError for others."""
    if not isinstance(size, str):
        number = as_index(size, "max_shard_size")
        if number < 1:
            raise ValueError(f"max_shard_size must be positive, got {number}")
        return number
    found = _SIZE.fullmatch(size.strip())
    bytes_ = int(float(found[1]) * _UNITS.get(found[2].upper(), 0)) if found else 0
    if bytes_ < 1:
        raise ValueError(
            f"a size is a number of bytes, or one with a unit such as '5GB' or '500MiB', got {size!r}"
        )
    return bytes_


def as_share(share: object) -> Share:
    """Return the share that ``"2/8"`` or ``(2, 8)`` means, or the only one for None; ValueError for others."""
    if share is None:
        return Share()
    if isinstance(share, str):
        found = _SHARE.fullmatch(share.strip())
        numbers = tuple(map(int, found.groups())) if found else ()
    else:
        numbers = tuple(as_index(number, "a number of shard=") for number in share)  # type: ignore[attr-defined]
    if len(numbers) != 2 or not 1 <= numbers[0] <= numbers[1] <= MOST_SHARES:
        raise ValueError(f"a share is K/N, number K of N from 1 on, such as '2/8', got {share!r}")
    return Share(*numbers)
