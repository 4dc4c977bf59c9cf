"""Two grammars for names.

`validate_name` is the strict one of `NamedParameter`: dot-separated segments of ``[a-z0-9_]``.
`check_tensor_name` is what plans, checkpoints and streams take: any text that other tools can carry.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from ..errors import DuplicateName, EmptyName, EmptyNameSegment, InvalidNameCharacter, InvalidTensorName

_DOT = ord(".")
_ALLOWED = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_")


def validate_name(name: str) -> None:
    """Check a parameter name: non-empty dot-separated segments of ``[a-z0-9_]``.

    Parameters
    ----------
    name : str
        The name to check.

    Raises
    ------
    TypeError
        If `name` is not a str.
    EmptyName
        If it is empty.
    EmptyNameSegment, InvalidNameCharacter
        The first fault from the left; positions count UTF-8 bytes.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.validate_name("decoder.block.0.attention.query.weight")
    >>> fastinit.validate_name("Decoder.weight")
    Traceback (most recent call last):
    fastinit.errors.InvalidNameCharacter: parameter name byte 0 must be a lowercase ASCII letter, a digit, \
an underscore or a dot; got 0x44 ('D')
    """
    if not isinstance(name, str):
        raise TypeError(f"a parameter name must be a str, got {name!r} ({type(name).__name__})")
    if not name:
        raise EmptyName()
    encoded = name.encode("utf-8", "surrogatepass")
    segment_is_empty = True
    for index, byte in enumerate(encoded):
        if byte == _DOT:
            if segment_is_empty:
                raise EmptyNameSegment(index)
            segment_is_empty = True
        elif byte in _ALLOWED:
            segment_is_empty = False
        else:
            raise InvalidNameCharacter(index, byte)
    if segment_is_empty:
        raise EmptyNameSegment(len(encoded))


def check_tensor_name(name: str) -> None:
    """Check a tensor or stream name: non-empty text without control characters or lone surrogates."""
    if not isinstance(name, str):
        raise TypeError(f"a tensor name must be a str, got {name!r} ({type(name).__name__})")
    if not name:
        raise EmptyName()
    for index, character in enumerate(name):
        category = unicodedata.category(character)
        if category in ("Cc", "Cs"):
            kind = "a control character" if category == "Cc" else "a lone surrogate, which UTF-8 cannot carry,"
            raise InvalidTensorName(name, f"has {kind} at index {index} (U+{ord(character):04X})")


def refuse_duplicates(names: Iterable[str]) -> None:
    """Raise `DuplicateName` for the earliest repetition."""
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            raise DuplicateName(name, first[name], index)
        first[name] = index
