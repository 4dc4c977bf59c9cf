"""The trace of the populations: written as one text, and read back.

`Populations.lines` alone says which lines and keys a trace has: `parse_trace` takes them from there, and accepts
nothing that it would write differently. Measurements are read, with 12 decimals. Limits, their ratio, expected
variances and what is there for display follow from the rest: they are computed again, and the trace must agree.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

from .._engine.checks import as_u64
from .populations import DECIMALS, EDGES, FACTORS, WIDTH, Populations, population


def render_trace(found: Populations) -> str:
    """Return the trace of `found`: 15 lines, each ended by a newline.

    Examples
    --------
    >>> from fastinit.lessons.populations import measure_populations
    >>> from fastinit.lessons.trace import render_trace
    >>> print(render_trace(measure_populations()).splitlines()[13])
    REPRODUCIBILITY seed=17 same-seed-equal=yes alternate-seed=18 alternate-seed-different=yes
    """
    return "".join(f"{line}\n" for line in found.lines())


def parse_trace(text: str) -> Populations:
    """Read a trace.

    Parameters
    ----------
    text : str
        A trace exactly as `render_trace` writes it, to the byte.

    Returns
    -------
    Populations
        Whose trace it is: ``render_trace(parse_trace(text)) == text``. Means and variances are rounded to its 12
        decimals.

    Raises
    ------
    ValueError
        Naming the line that is missing, malformed, or in disagreement with the others.

    Examples
    --------
    >>> from fastinit.lessons.populations import measure_populations
    >>> from fastinit.lessons.trace import parse_trace, render_trace
    >>> text = render_trace(measure_populations())
    >>> parse_trace(text).members[2].variance
    0.015801410985
    >>> parse_trace(text.replace(" limit=0.2", " width=0.2"))
    Traceback (most recent call last):
    ValueError: line 8: unknown key 'width'; DISTRIBUTION has kind, seed, limit, min, max, mean, variance, \
display-limit, display-min, display-max, display-mean, display-variance
    """
    *lines, rest = text.split("\n")
    if rest:
        raise ValueError(f"line {len(lines) + 1}: must end with a newline: {rest!r}")
    read: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for number, (line, model) in enumerate(zip_longest(lines, _BLANK.lines()), 1):
        with _at_line(number):
            kind, values = _split(line, model)
            read[kind].append({key: reader(values[key]) for key, reader in _READERS.get(kind, {}).items()})
            if kind == "HISTOGRAM":
                _check_total(**read[kind][-1])
    found = _assemble(read)
    for number, (line, ours) in enumerate(zip(lines, found.lines(), strict=True), 1):
        with _at_line(number):
            _check_words(line, ours)
    return found


def _check_total(counts: tuple[int, ...], underflow: int, overflow: int) -> None:
    """Refuse a histogram that does not hold every weight once."""
    total = sum(counts) + underflow + overflow
    if len(counts) != len(EDGES) - 1 or total != WIDTH**2:
        raise ValueError(
            f"expected {len(EDGES) - 1} counts that sum to {WIDTH**2} with underflow and overflow, got "
            f"{len(counts)} that sum to {total}"
        )


def _check_words(line: str, ours: str) -> None:
    """Refuse the first word of `line` that the populations it was read into would write differently."""
    for given, due in zip(line.split(" "), ours.split(" "), strict=True):
        if given != due:
            raise ValueError(
                f"the rest of the trace makes it {due}, got {given if given.isprintable() else repr(given)}"
            )


_NOTHING: dict[str, Any] = {**dict.fromkeys(("min", "max", "mean", "variance"), 0.0), "counts": ()}
_BLANK = Populations(
    0,
    0,
    tuple(population(kind, 0, **_NOTHING, underflow=0, overflow=0) for kind in FACTORS),
    False,
    0.0,
    False,
    False,
)
"""Its trace is the model of every line: the kinds, and their keys in order."""


@contextmanager
def _at_line(number: int) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None


def _split(line: str | None, model: str | None) -> tuple[str, dict[str, str]]:
    """Return the kind of `line` and its values by key, which must be those of `model`."""
    if model is None:
        raise ValueError(f"the trace ended above, got {line!r}")
    words = model.split(" ")
    keys = [word.partition("=")[0] for word in words if "=" in word]
    count = len(words) - len(keys)
    kind = " ".join(words[:count])
    if line is None or not f"{line} ".startswith(f"{kind} "):
        raise ValueError(f"expected {kind}, got {'nothing' if line is None else repr(line)}")
    return kind, _values(line.split(" ")[count:], kind, keys)


def _values(fields: list[str], kind: str, keys: list[str]) -> dict[str, str]:
    """Return the values of ``key=value`` fields, which must have exactly `keys`, in their order."""
    values: dict[str, str] = {}
    for field in fields:
        key, equals, value = field.partition("=")
        if not equals:
            raise ValueError(f"{field!r} is not key=value")
        if key not in keys:
            raise ValueError(f"unknown key {key!r}; {kind} has {', '.join(keys)}")
        if key in values:
            raise ValueError(f"key {key!r} occurs twice")
        values[key] = value
    missing = [key for key in keys if key not in values]
    if missing:
        raise ValueError(f"key {missing[0]!r} is missing; {kind} has {', '.join(keys)}")
    if list(values) != keys:
        raise ValueError(f"the keys of {kind} stand in the order {', '.join(keys)}")
    return values


def _assemble(read: dict[str, list[dict[str, Any]]]) -> Populations:
    """Return the populations of the values that `_READERS` took from each kind of line."""
    (fixture,), (pairing,), (replay,) = read["FIXTURE"], read["PAIRING"], read["REPRODUCIBILITY"]
    seed = fixture["seed"]
    parts = zip(FACTORS, read["DISTRIBUTION"], read["HISTOGRAM"], strict=True)
    members = tuple(population(kind, seed, **moments, **bins) for kind, moments, bins in parts)
    _, oversized, xavier = members
    return Populations(
        seed=seed,
        alternate_seed=replay["alternate-seed"],
        members=members,
        base_draws_equal=pairing["base-draws-equal"],
        limit_ratio=oversized.limit / xavier.limit,
        same_seed_equal=replay["same-seed-equal"],
        alternate_seed_different=replay["alternate-seed-different"],
    )


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or f"{value:{DECIMALS}}" != text:
        raise ValueError(f"expected a float64 with 12 decimals such as 0.250000000000, got {text!r}")
    return value


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"expected a whole number, got {text!r}")
    return int(text)


def _seed(text: str) -> int:
    return as_u64(_whole(text), "a seed")


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(_whole, text.split(",")))


def _truth(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"expected yes or no, got {text!r}")
    return text == "yes"


_READERS: dict[str, dict[str, Callable[[str], Any]]] = {
    "FIXTURE": {"seed": _seed},
    "DISTRIBUTION": dict.fromkeys(("min", "max", "mean", "variance"), _number),
    "HISTOGRAM": {"counts": _counts, "underflow": _whole, "overflow": _whole},
    "PAIRING": {"base-draws-equal": _truth},
    "REPRODUCIBILITY": {"same-seed-equal": _truth, "alternate-seed": _seed, "alternate-seed-different": _truth},
}
"""kind of line -> key -> reader, of the keys whose values do not follow from the rest of the trace."""
