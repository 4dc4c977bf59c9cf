"""Two grammars for names.

`validate_name` is the strict one of `NamedParameter`: dot-separated segments of ``[a-z0-9_]``.
`check_tensor_name` is what plans, checkpoints and streams take: any text that other tools can carry.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from ..errors import DuplicateName, EmptyName, EmptyNameSegment, InvalidNameCharacter, InvalidTensorName

NAME_LIMIT = 1 << 13
"""The most characters of a tensor's name; the longest names in the wild have about a hundred."""

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # Unicode's categories Cc and Cs, whole
_NUMBER = re.compile("[0-9]+")
_GROUPS = 8  # patterns that `grouped` names one by one
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
    """Check a tensor or stream name: non-empty and not too long, without control characters or lone surrogates."""
    if not isinstance(name, str):
        raise TypeError(f"a tensor name must be a str, got {name!r} ({type(name).__name__})")
    if not name:
        raise EmptyName()
    if len(name) > NAME_LIMIT:
        raise InvalidTensorName(name, f"has {len(name):,} characters; at most {NAME_LIMIT:,} are supported")
    found = _UNPRINTABLE.search(name)
    if found:
        character = ord(found[0])
        is_surrogate = 0xD800 <= character <= 0xDFFF
        kind = "a lone surrogate, which UTF-8 cannot carry," if is_surrogate else "a control character"
        raise InvalidTensorName(name, f"has {kind} at index {found.start()} (U+{character:04X})")


def grouped(names: Collection[str]) -> str:
    """Name many tensors at once: ``'h.*.attn.bias' (12 tensors), 'mask'``; a star stands for a number."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_NUMBER.sub("*", name), []).append(name)
    shown = [_group(pattern, alike) for pattern, alike in groups.items()]
    return ", ".join([*shown[:_GROUPS], *([f"{len(shown) - _GROUPS:,} more"] if len(shown) > _GROUPS else [])])


def _group(pattern: str, names: Sequence[str]) -> str:
    return repr(names[0]) if len(names) == 1 else f"{pattern!r} ({len(names):,} tensors)"


def refuse_duplicates(names: Iterable[str]) -> None:
    """Raise `DuplicateName` for the earliest repetition."""
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            raise DuplicateName(name, first[name], index)
        first[name] = index
