"""Pages of results: `page(result)` gives one self-contained HTML text, `save(result, path)` a file.

Each kind of result registers its page here: which paragraphs, figures and tables, in which order.
"""

from __future__ import annotations

import os
from functools import singledispatch
from pathlib import Path


@singledispatch
def page(result: object) -> str:
    """Return the page of a result."""
    raise TypeError(f"there is no page of {type(result).__name__}")


def save(result: object, path: str | os.PathLike[str]) -> None:
    """Write the page of `result` to a new or replaced file."""
    Path(path).write_text(page(result), encoding="utf-8")
