"""One strict reader of JSON text: keys are unique, numbers are numbers, and sizes are bounded."""

from __future__ import annotations

import json
from typing import Any

from ..errors import CheckpointError

DIGITS = 1000
"""The longest integer that is read: Python refuses 4,300 digits by a sentence about its own settings."""


def parse_object(text: bytes | str, where: str) -> dict[str, Any]:
    """Return the JSON object `text` is, or raise CheckpointError; keys are unique and numbers are numbers."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise CheckpointError(f"{where}: key {key!r} occurs twice")
            found[key] = value
        return found

    def integer(digits: str) -> int | float:
        if len(digits) > DIGITS:
            raise CheckpointError(
                f"{where}: a number in its JSON has {len(digits)} digits; at most {DIGITS} are read"
            )
        return int(digits) if digits != "-0" else -0.0  # a float to other readers, who refuse it as a size

    def no_constant(constant: str) -> Any:
        raise CheckpointError(f"{where}: {constant} is not JSON")

    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        data = json.loads(decoded, object_pairs_hook=unique, parse_int=integer, parse_constant=no_constant)
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{where} is not valid JSON: it is not UTF-8 from byte {error.start} on") from None
    except RecursionError:
        raise CheckpointError(f"{where} is not valid JSON: it is nested too deeply to be read") from None
    except ValueError as error:
        raise CheckpointError(f"{where} is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise CheckpointError(f"{where}: expected a JSON object, got {type(data).__name__}")
    return data
