"""Numbers from users, before any of them reaches C.

Integers go through `operator.index`, so 1.9 is never seed 1; bools are refused because ``True`` is never meant
as a size or a seed; negative and too large values are ``ValueError``, never ``OverflowError``.
"""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Collection, Iterable, Mapping, Set
from typing import TYPE_CHECKING, SupportsFloat, SupportsIndex

import numpy as np

if TYPE_CHECKING:
    from .generator import SplitMix64

U64_LIMIT = 1 << 64
MAX_AXES = 64
"""The most axes a numpy array has."""

_NO_NUMBERS = frozenset("bcmMSU")  # numpy's kinds: bools, complex numbers, times and text
Shape = tuple[int, ...]
"""A checked shape."""

ShapeLike = SupportsIndex | Iterable[SupportsIndex]
"""A shape as users give it."""


def as_index(value: object, what: str) -> int:
    """Return `value` as an int of either sign, or raise a TypeError that names `what`."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} must be an integer, got {value!r} ({type(value).__name__})")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an integer, got {value!r} ({type(value).__name__})") from None


def as_u64(value: object, what: str) -> int:
    """Return `value` as an int in [0, 2**64 - 1].

    Raises
    ------
    TypeError
        If it is not an integer, or is a bool.
    ValueError
        If it is negative or larger than 2**64 - 1.
    """
    number = value if type(value) is int else as_index(value, what)
    if not 0 <= number < U64_LIMIT:
        raise ValueError(f"{what} must be between 0 and 2**64 - 1, got {shown(number)}")
    return number


def as_source(rng: SplitMix64 | SupportsIndex) -> SplitMix64 | int:
    """Return the generator, or the seed as an int; a request's first check."""
    if type(rng) is int and 0 <= rng < U64_LIMIT:  # the common case, without a call
        return rng
    if hasattr(rng, "transact"):  # not isinstance: the class's module loads numpy.random
        return rng  # type: ignore[return-value]
    if hasattr(rng, "__index__"):
        return as_u64(rng, "rng (an int seed)")
    hint = "; pass its bit_generator" if hasattr(getattr(rng, "bit_generator", None), "transact") else ""
    raise TypeError(f"rng must be a fastinit.SplitMix64 or an int seed, got {type(rng).__name__}{hint}")


def as_shape(shape: ShapeLike) -> tuple[int, ...]:
    """Return `shape` (an integer or an iterable of them) as a tuple of ints in [0, 2**64 - 1]."""
    if type(shape) is tuple and all(map(_is_plain, shape)):  # the common case, at a fifth of the time
        return shape
    if isinstance(shape, str | bytes | Set | Mapping):  # text, or lengths in no order
        raise TypeError(f"shape must be an integer or a tuple of them, got {shape!r}")
    if isinstance(shape, Iterable):
        return tuple(as_u64(length, "a shape entry") for length in shape)
    return (as_u64(shape, "shape"),)


def _is_plain(length: object) -> bool:
    return type(length) is int and 0 <= length < U64_LIMIT


def size_of(shape: tuple[int, ...]) -> int:
    """Count the elements of `shape`, exactly."""
    return math.prod(shape)


def draws_of(shape: tuple[int, ...]) -> int:
    """Count the draws a sampled tensor of `shape` takes, refusing more than 2**64 - 1."""
    draws = math.prod(shape)
    if draws >= U64_LIMIT:
        raise ValueError(
            f"shape {shape} has {shown(draws)} elements; a stream has at most 2**64 - 1 draws for one"
        )
    return draws


def as_number(value: SupportsFloat, what: str) -> float:
    """Return `value` as a float, refusing bools, text and all else that is not a real number."""
    if type(value) is float:
        return value
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    refused = isinstance(value, (bool, str, bytes)) or kind in _NO_NUMBERS or not isinstance(value, SupportsFloat)
    try:
        if not refused:
            return float(value)
    except OverflowError:
        size = shown(value) if isinstance(value, int) else type(value).__name__
        raise ValueError(f"{what} is too large for a float64: {size}") from None
    except TypeError:  # an array of several, say
        pass
    raise TypeError(f"{what} must be a number, got {value!r} ({type(value).__name__})")


def as_nonnegative(value: SupportsFloat, what: str) -> float:
    """Return `value` as a float, finite and >= 0: a std, a limit or a gain; -0.0 counts as 0."""
    number = value if type(value) is float else as_number(value, what)
    if not 0 <= number < math.inf:
        raise ValueError(f"{what} must be finite and >= 0, got {number}")
    return abs(number)


def as_finite(value: SupportsFloat, what: str) -> float:
    """Return `value` as a finite float."""
    number = value if type(value) is float else as_number(value, what)
    if not -math.inf < number < math.inf:
        raise ValueError(f"{what} must be finite, got {number}")
    return number


def as_choice(value: object, choices: Collection[str], what: str, likeness: float = 0.5) -> str:
    """Return `value` if it is one of the names in `choices`; else a ValueError that suggests the nearest.

    `likeness`, from 0 to 1: how near a name must be to be suggested.
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, got {value!r} ({type(value).__name__})")
    if value not in choices:
        near = difflib.get_close_matches(value.lower(), choices, 1, likeness)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown {what} {value!r}; {hint}expected one of {', '.join(choices)}")
    return value


def shown(number: int) -> str:
    """Write an integer for an error message; huge ones by their size (Python refuses to print them)."""
    return str(number) if number.bit_length() < 256 else f"an integer of {number.bit_length()} bits"
