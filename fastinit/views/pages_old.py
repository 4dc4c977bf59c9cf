"""Pages of results: `page(result)` gives one self-contained HTML text, `save(result, path)` a file.

Each kind of result registers its page here: which paragraphs, figures and tables, in which order.
"""

from __future__ import annotations

import os
from functools import singledispatch
from pathlib import Path
from typing import Any

from ..diagnosis.judge import Diagnosis
from . import page as html
from .figure import draw


@singledispatch
def page(result: Any) -> str:
    """Return the page of a result."""
    text: str = result.page()
    return text


def save(result: object, path: str | os.PathLike[str]) -> None:
    """Write the page of `result` to a new or replaced file."""
    Path(path).write_text(page(result), encoding="utf-8")


@page.register(Diagnosis)
def _(result: Diagnosis) -> str:
    parts: list[html.Part] = [*result.conclusions(), *result.tables()]
    if any(tensor.measured for tensor in result.tensors):
        caption = (
            "Measured: the density of each tensor's weights (all, or an evenly spread sample of 8,192), first "
            "of the tensors found wrong, in red, then of the largest. Expected: the curve is the density "
            "the plan draws from; dashed lines are one standard deviation of a rule either side of 0."
        )
        parts.insert(len(result.conclusions()), html.Figure(draw(result), caption))
    return html.page(f"Diagnosis of {os.path.basename(result.path)}", parts)
