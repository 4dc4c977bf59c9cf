"""Pages of results: `page(result)` gives one self-contained HTML text, `save(result, path)` a file.

Each kind of result registers its page here: which paragraphs, figures and tables, in which order.
"""

from __future__ import annotations

import os
from functools import singledispatch
from pathlib import Path
from typing import Any

from ..diagnosis.judge import Diagnosis
from ..propagation.stack import Comparison, Propagation
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


def _signals(title: str, sample: str, result: Comparison | Propagation) -> str:
    return html.page(
        title,
        (
            "How large a batch's activations are after every layer and the gradients that arrive there when those "
            f"at the last layer are drawn from N(0, 1), in networks at their start: {sample}.",
            html.Figure(
                draw(result),
                "Solid: measured, the median over the seeds; the tint spans all of them. Dashed: what theory "
                "expects of an infinitely wide network. Grey: the band from 0.5 to 2 in which a signal is called "
                "stable. The axis is cut at 1e-9 and 1e9; a magnitude of 0 has no place on it.",
            ),
            *result.tables(),
        ),
    )


@page.register(Comparison)
def _(result: Comparison) -> str:
    return _signals(result.title, result.runs[0].sample, result)


@page.register(Propagation)
def _(result: Propagation) -> str:
    return _signals(result.stack.name, result.sample, result)


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
