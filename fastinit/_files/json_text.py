"""One strict reader of JSON text: keys are unique, numbers are numbers, and memory is bounded.

A file is untrusted: as Python objects, the 3 bytes of ``[],`` are 64, so a header is never decoded as a whole.
`JsonText` walks it through a window, and its caller keeps what it needs of one value before the next is decoded.
"""

from __future__ import annotations

import codecs
import json
import re
import reprlib
from collections.abc import Callable, Container, Iterator
from typing import Any

from ..errors import CheckpointError

DIGITS = 1000
"""The longest integer that is read: Python refuses 4,300 digits by a sentence about its own settings."""

VALUE_LIMIT = 1 << 18
"""Characters of the longest value: a list of so many is 6 MB of Python objects. A string may be longer."""

_WINDOW = 1 << 16  # characters read at once, at least
_FIRST = 1 << 9  # most values are shorter, and a longer one is decoded again
_GROWTH = 8  # from the first length to the limit in a whole number of steps
_WHOLE = re.compile(  # what a string may be cut behind: not an escape, nor a pair of them, that has only begun
    r"""(?:[^"\\]++|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"""
    r"""|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[0-9a-fA-F]{4}|(?=[^\\])|(?=\\[^u])))*+"""
)
_SPACE = re.compile(r"[ \t\n\r]*+")

_SENTENCE = 9000  # characters: room for the longest name of a tensor
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80


def quoted(value: object) -> str:
    """Return the repr of what a file says, cut short: an error repeats no hostile file."""
    return _short.repr(value)


def cut_short(sentence: str) -> str:
    """Return the sentence of an error that may repeat what a file says, cut in its middle if very long."""
    return sentence if len(sentence) <= _SENTENCE else f"{sentence[: _SENTENCE - 300]} ... {sentence[-300:]}"


def parse_object(text: bytes | str, where: str) -> dict[str, Any]:
    """Return the JSON object `text` is, or raise CheckpointError; keys are unique and numbers are numbers."""
    walk, found = JsonText(text, where), dict[str, Any]()
    for key in walk.members(found):
        found[key] = walk.value()
    walk.end()
    return found


class JsonText:
    """A JSON text that is walked once, from its start to its end.

    Parameters
    ----------
    text : bytes, str or callable
        The text, or a function of a number of bytes that returns the next ones, and none at the end.
    where : str
        What it is read from, for errors.

    Examples
    --------
    >>> walk, found = JsonText('{"a": [1, 2], "b": {"c": 3}}', "an example"), {}
    >>> for key in walk.members(found):
    ...     found[key] = walk.value()
    >>> walk.end()
    >>> found
    {'a': [1, 2], 'b': {'c': 3}}
    """

    def __init__(self, text: bytes | str | Callable[[int], bytes], where: str) -> None:
        self._where = where
        self._text = text if isinstance(text, str) else ""
        self._at = 0
        self._read = text if callable(text) else _once(b"" if isinstance(text, str) else text)
        self._is_whole = False
        self._count = 0  # bytes read
        self._key = ""
        self._bytes = codecs.getincrementaldecoder("utf-8")()
        self._json = json.JSONDecoder(
            object_pairs_hook=self._unique, parse_int=_integer, parse_constant=self._refuse_constant
        )

    def members(self, known: Container[str], where: str | None = None) -> Iterator[str]:
        """Yield the keys of the object that comes next; take the `value` or the `members` of each before the next.

        Parameters
        ----------
        known : container of str
            The keys that the caller has kept so far: one of them occurs twice.
        where : str, optional
            What the object is, for errors (default: the text).
        """
        if self._peek() != "{":
            found = type(self.value()).__name__
            raise CheckpointError(f"{where or self._where}: expected a JSON object, got {found}")
        self._at += 1
        if self._peek() == "}":
            self._at += 1
            return
        while True:
            yield self._next_key(known)
            if self._peek() == "}":
                self._at += 1
                return
            self._take(",")

    def value(self) -> Any:
        """Return the value that comes next."""
        if self._peek() == '"':
            return self._string()
        length = _FIRST
        while length <= VALUE_LIMIT:
            while len(self._text) - self._at < length and self._more():
                pass
            piece = self._text[self._at : self._at + length]
            is_last = self._is_whole and self._at + len(piece) == len(self._text)
            try:
                value, end = self._json.raw_decode(piece)
            except RecursionError:
                raise self._refusal("it is nested too deeply to be read") from None
            except ValueError as error:
                if is_last:
                    raise self._refusal(str(error)) from None
            else:
                if end < len(piece) or is_last:  # a number at the end of the piece may have more digits
                    self._at += end
                    return value
            length *= _GROWTH
        of_key = f" of {quoted(self._key)}" if self._key else ""
        raise self._refusal(f"the value{of_key} is malformed, or longer than {VALUE_LIMIT:,} characters")

    def end(self) -> None:
        """Refuse text after the value that was read."""
        if self._peek():
            raise self._refusal("Extra data")

    def _string(self) -> str:
        """Return the string that comes next, however long it is: decoded by pieces, of which few are wide."""
        pieces: list[str] = []
        while True:
            try:
                last, self._at = self._json.raw_decode(self._text, self._at)
                return "".join([*pieces, last])
            except ValueError as error:
                problem = str(error)
            cut = _end_of_whole(self._text, self._at + 1)
            if cut - self._at > _WINDOW:
                pieces.append(self._decoded(self._text[self._at : cut] + '"'))
                self._text, self._at = '"' + self._text[cut:], 0
            elif not self._more():
                raise self._refusal(problem)

    def _decoded(self, string: str) -> str:
        try:
            return str(self._json.raw_decode(string)[0])
        except ValueError as error:
            raise self._refusal(str(error)) from None

    def _next_key(self, known: Container[str]) -> str:
        if self._peek() != '"':
            raise self._refusal("Expecting property name enclosed in double quotes")
        key = self._string()
        if key in known:
            raise CheckpointError(f"{self._where}: key {quoted(key)} occurs twice")
        self._take(":")
        self._key = key
        return key

    def _take(self, character: str) -> None:
        if self._peek() != character:
            raise self._refusal(f"Expecting {character!r} delimiter")
        self._at += 1

    def _peek(self) -> str:
        """Return the next character that is no space, "" at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Move the window on, by no less than it holds already; return False at the end of the text."""
        if self._is_whole:
            return False
        rest, pending = self._text[self._at :], len(self._bytes.getstate()[0])
        found = self._read(max(_WINDOW, len(rest)))
        try:
            self._text, self._at = rest + self._bytes.decode(found, final=not found), 0
        except UnicodeDecodeError as error:
            begin = self._count - pending + error.start
            raise self._refusal(f"it is not UTF-8 from byte {begin} on") from None
        self._count += len(found)
        self._is_whole = not found
        return True

    def _refusal(self, problem: str) -> CheckpointError:
        return CheckpointError(f"{self._where} is not valid JSON: {problem}")

    def _unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise CheckpointError(f"{self._where}: key {quoted(key)} occurs twice")
            found[key] = value
        return found

    def _refuse_constant(self, constant: str) -> Any:
        raise CheckpointError(f"{self._where}: {constant} is not JSON")


def _end_of_whole(text: str, begin: int) -> int:
    """Return where a string that goes on at `begin` may be cut."""
    found = _WHOLE.match(text, begin)
    return found.end() if found else begin


def _integer(digits: str) -> int | float:
    if len(digits) > DIGITS:
        raise ValueError(f"a number in its JSON has {len(digits)} digits; at most {DIGITS} are read")
    return int(digits) if digits != "-0" else -0.0  # a float to other readers, who refuse it as a size


def _once(text: bytes) -> Callable[[int], bytes]:
    """Return a function that reads `text` piece by piece."""
    at = 0

    def read(count: int) -> bytes:
        nonlocal at
        at += count
        return text[at - count : at]

    return read
