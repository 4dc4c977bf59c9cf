"""Pages of results: `page(result)` gives one self-contained HTML text, `save(result, path)` a file.

Each kind of result registers its page here: which paragraphs, figures and tables, in which order.
"""

from __future__ import annotations

import os
from functools import singledispatch
from pathlib import Path

from ..lessons.claims import Claims
from ..lessons.populations import Populations
from ..lessons.report import LearnerReport
from ..lessons.training import NOTES, DigitsRun, StartComparison
from . import page as html
from .figure import draw
from .result import Result


@singledispatch
def page(result: object) -> str:
    """Return the page of a result."""
    if isinstance(result, Result):
        return result.page()
    raise TypeError(f"there is no page of {type(result).__name__}")


def save(result: object, path: str | os.PathLike[str]) -> None:
    """Write the page of `result` to a new or replaced file."""
    Path(path).write_text(page(result), encoding="utf-8")


@page.register(LearnerReport)
def _(report: LearnerReport) -> str:
    return html.page(
        f"One sampled projection, seed {report.seed}",
        (
            "A sampled matrix gives its hidden units different weights; zero weights give every unit the same "
            "gradient, and equal updates keep the units equal.",
            html.Figure(
                draw(report),
                "Both measured. Left: the drawn weights of the 2 x 2 projection. Right: the gradient on the tape "
                "for zero weights with inputs 1 and -1, SiLU and equal output weights. Different columns are a "
                "starting point, not a sign that anything was learned.",
            ),
            *report.tables(),
        ),
    )


@page.register(Populations)
def _(found: Populations) -> str:
    return html.page(
        f"Three populations of weights, seed {found.seed}",
        (
            "Oversized and Xavier weights have the same draws and differ in scale only; zero weights take none.",
            html.Figure(
                draw(found),
                "Left, measured: the stored weights of three matrices on the same ten bins, as counts and shares; "
                "each panel has a vertical scale of its own. Right, only expected: the variance of a signal of "
                "variance 1 through independent linear layers of such weights. No signal was sent through the "
                "matrices on the left.",
            ),
            *found.tables(),
        ),
    )


@page.register(StartComparison)
def _(result: StartComparison) -> str:
    return html.page(
        "Training from different starts",
        (
            f"This is {result.title}. Only the weights at the start differ: with one seed, all starts see the "
            "images in the same order, and starts that differ in scale alone have the same draws.",
            html.Figure(
                draw(result),
                "Measured: means over the seeds, the shaded bands from the lowest seed to the highest. A dead "
                "unit is 0 for every training image. No cosine is drawn where the weights are zero.",
            ),
            *result.tables(),
            NOTES,
        ),
    )


@page.register(DigitsRun)
def _(result: DigitsRun) -> str:
    caption = "Measured on one seed; the dashed line is the goal of 95 %."
    return html.page("Digits", (*result.lines()[-1:], html.Figure(draw(result), caption), *result.tables()))


@page.register(Claims)
def _(result: Claims) -> str:
    claims, *fans = result.tables()
    return html.page(
        "Said and measured",
        (
            "Statements about starting weights, each beside the measured figures that decide it.",
            claims,
            html.Heading("Fans and scales"),
            *fans,
        ),
    )
