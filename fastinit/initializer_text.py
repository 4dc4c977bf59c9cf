"""Initializers as text: ``normal(0, 0.02)``, ``residual(normal(std=0.02), 12)``. Parsed, never evaluated."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ._engine.checks import as_choice
from ._engine.gains import ACTIVATION_NAMES, squared_gain
from .initializers import DepthScaled, Initializer, MuP, Residual, Scaled

Maker = Callable[..., Initializer]

_CHANGING: dict[str, Maker] = {"residual": Residual, "depth_scaled": DepthScaled, "scaled": Scaled, "mup": MuP}
"""What takes another initializer, by the name that JSON gives it."""

_LONGEST = 1000  # characters


class Call(NamedTuple):
    """A name and its arguments: numbers, text, tuples of them, or calls."""

    name: str
    given: tuple[object, ...] = ()
    named: Mapping[str, object] = {}


def parse_call(text: str) -> Call:
    """Return the call that `text` is; ValueError for anything else.

    Examples
    --------
    >>> from fastinit.initializer_text import parse_call
    >>> parse_call("kaiming_normal('leaky_relu', a=0.2)")
    Call(name='kaiming_normal', given=('leaky_relu',), named={'a': 0.2})
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError(f"it has {len(text):,} characters, more than {_LONGEST:,}")
        found = _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(_unlike(text)) from error
    if not isinstance(found, Call):
        raise ValueError(_unlike(text))
    return found


def _unlike(text: str) -> str:
    return (
        f"an initializer is a name, a call such as 'normal(0, 0.02)', or a JSON object, got {text[:80]!r}"
        f"{'...' if len(text) > 80 else ''}"
    )


def _value(node: ast.expr) -> object:
    if isinstance(node, ast.Name):
        return Call(node.id)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return Call(node.func.id, tuple(map(_value, node.args)), _named(node.keywords))
    return ast.literal_eval(node)


def _named(words: list[ast.keyword]) -> dict[str, object]:
    """Return keyword arguments; a name twice, and ``**``, have no meaning."""
    found: dict[str, object] = {}
    for word in words:
        if word.arg is None or word.arg in found:
            raise ValueError(f"{word.arg or '**'} is given twice or has no name")
        found[word.arg] = _value(word.value)
    return found


def made(call: Call, makers: Mapping[str, Maker]) -> Initializer:
    """Return the initializer of a call; `makers` has one for each name."""
    known = {**makers, **_CHANGING}
    make = known[as_choice(call.name, known, "initializer")]
    given = [_made(value, makers) for value in call.given]
    named = {name: _made(value, makers) for name, value in call.named.items()}
    try:
        inspect.signature(make).bind(*given, **named)
    except TypeError as error:
        raise ValueError(f"initializer {call.name!r}: {error}") from None
    return make(*given, **named)


def _made(value: object, makers: Mapping[str, Maker]) -> object:
    return made(value, makers) if isinstance(value, Call) else value


def written(initializer: Initializer, makers: Mapping[str, Maker]) -> str:
    """Return the shortest text that is read as this very initializer: a name, a call, or its JSON."""
    for text in (initializer.name, *_by_activation(initializer), _as_call(initializer, makers)):
        try:
            if made(parse_call(text), makers) == initializer:
                return text
        except (ValueError, TypeError):  # a kind without a name of its own, or an infinite bound
            continue
    return json.dumps(initializer.to_json())


def _by_activation(initializer: Initializer) -> Iterator[str]:
    """Return Kaiming's scheme with the gains of activations, as far as their scales are the initializer's."""
    data = initializer.to_json()
    for activation in reversed(ACTIVATION_NAMES):  # elu before celu, which is the same function
        if data.get("scale") == squared_gain(activation):
            yield f"kaiming_{data['distribution']}({activation!r})"


def _as_call(initializer: Initializer, makers: Mapping[str, Maker]) -> str:
    fields = dataclasses.fields(initializer)  # type: ignore[arg-type]  # every initializer is a dataclass
    values = [getattr(initializer, field.name) for field in fields]
    texts = (written(value, makers) if isinstance(value, Initializer) else repr(value) for value in values)
    return f"{initializer.kind}({', '.join(texts)})"
