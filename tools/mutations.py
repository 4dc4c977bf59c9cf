"""Mutations for fuzz.py: of bytes, of text, and of JSON whose structure stays whole.

Each is a pure function of a `random.Random`, so that a seed and a number say which case it was.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

RAW = {
    "@deep@": "[" * 5000 + "]" * 5000,
    "@digits@": "9" * 5000,
    "@huge@": "1e999",
    "@nan@": "NaN",
    "@minus@": "-0",
    "@surrogate@": '"\\ud800"',
    "@twice@": '{"a": 1, "a": 2}',
}
"""Text that Python's own JSON writer cannot be made to write, by the word that stands for it."""

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, [], {}, "", [[]], {"": {}}, [None], "F32", "BOOL", "F4", "I64", "F64"),
    *(-1, 0, 1, 3, 255, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 0.5, -1.5, 1e308, 5e-324),
    *(
        "\x00",
        "\x1b[31m",
        "\u202e",
        "\ufffe",
        "a\nb",
        "\u00e9",
        "..",
        "/",
        "\U0001f600",
        "normal",
        "float32",
        "17",
    ),
    *([0], [1, 2], [2**63, 2**63], [0, 2**64 - 1], [1] * 65, ["1"], [1.0], [True]),
    *RAW,
)


def mutated_bytes(data: bytes, random: Random) -> bytes:
    """Return `data` after one to four small injuries."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(data) + 1)
        end = at + random.choice((1, 1, 2, 4, 8, 30))
        data = random.choice(_injured(data, at, end, random))
    return data


def _injured(data: bytes, at: int, end: int, random: Random) -> tuple[bytes, ...]:
    """Return `data` flipped, cut, inserted into, repeated, truncated and overwritten between two places."""
    flipped = bytes(byte ^ 1 << random.randrange(8) for byte in data[at:end])
    filling = random.choice((b"\x00", b"\xff", b"9", b" ", b"\x80")) * (end - at)
    return (
        data[:at] + flipped + data[end:],
        data[:at] + data[end:],
        data[:at] + random.randbytes(end - at) + data[at:],
        data[:end] + data[at:],
        data[:at],
        data[:at] + filling + data[end:],
    )


def mutated_text(text: str, random: Random) -> str:
    """Return `text` with a word, number, sign or line changed, lost, doubled or moved."""
    parts = re.split(r"(\W)", text) if random.random() < 0.7 else text.splitlines(keepends=True)
    at, other = random.randrange(len(parts)), random.randrange(len(parts))
    change = random.randrange(5)
    if change == 0:
        parts[at] = str(random.choice(HOSTILE))
    elif change == 1:
        parts[at], parts[other] = parts[other], parts[at]
    elif change == 2:
        parts.insert(at, parts[other])
    elif change == 3:
        del parts[at]
    else:
        parts[at] = parts[other]
    return "".join(parts)


def mutated_json(value: Any, random: Random) -> str:
    """Return JSON text of `value` with one or two of its nodes replaced, lost, doubled or renamed."""
    value = json.loads(json.dumps(value))
    for _ in range(random.choice((1, 1, 1, 2))):
        value = _mutated_node(value, random)
    text = json.dumps(value, ensure_ascii=random.random() < 0.5)
    for word, raw in RAW.items():
        text = text.replace(f'"{word}"', raw)
    if random.random() < 0.05:
        text = text[:-1] + ", " + text[1:]  # every key twice
    return text


def _mutated_node(value: Any, random: Random) -> Any:
    places = _places(value)
    if not places or random.random() < 0.02:
        return _hostile(random)
    parent, key = random.choice(places)
    random.choice(_CHANGES)(parent, key, random)
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every node inside `value`, as its parent and its key."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(value, key), *_places(value[key])]]


def _hostile(random: Random) -> Any:
    """Return a value of its own: the next change may be inside it."""
    return copy.deepcopy(random.choice(HOSTILE))


def _replace(parent: Any, key: Any, random: Random) -> None:
    parent[key] = _hostile(random)


def _nudge(parent: Any, key: Any, random: Random) -> None:
    if type(parent[key]) in (int, float):
        parent[key] += random.choice((-1, 1, 7, -(2**31), 2**32))
    elif isinstance(parent[key], str) and parent[key].isdigit():
        parent[key] = str(int(parent[key]) + random.choice((-1, 1, 2**64)))
    else:
        _replace(parent, key, random)


def _lose(parent: Any, key: Any, _: Random) -> None:
    del parent[key]


def _copy(parent: Any, key: Any, random: Random) -> None:
    """Put another node's value here."""
    other = random.choice(list(parent)) if isinstance(parent, dict) else random.randrange(len(parent))
    parent[key] = json.loads(json.dumps(parent[other]))


def _rename(parent: Any, key: Any, random: Random) -> None:
    if not isinstance(parent, dict):
        parent.append(_hostile(random))
        return
    kept = parent.pop(key)
    name = _hostile(random)
    parent[name if isinstance(name, str) else key + "x" * random.choice((1, 1, 1, 70_000))] = kept


_Change = Callable[[Any, Any, Random], None]
_CHANGES: tuple[_Change, ...] = (_replace, _replace, _nudge, _nudge, _lose, _copy, _rename)
