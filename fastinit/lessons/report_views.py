"""The learner report as a drawing and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..views import page as pages
from ..views.figure import PALETTE, ink, message, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .report import LearnerReport


@styled
def figure(report: LearnerReport) -> Figure:
    """Draw the sampled weights beside the gradient at zero weights."""
    drawing = new_figure(7.0, 3.3)
    message(
        drawing, "Sampled weights differ from unit to unit; from zero weights both units get the same gradient"
    )
    sampled, zero = drawing.subplots(1, 2, sharey=True)
    _two_by_two(sampled, report.weights, "sampled weights")
    _two_by_two(zero, report.symmetry.gradient, "gradient at zero weights")
    return drawing


def _two_by_two(axes: Axes, values: tuple[float, ...], title: str) -> None:
    """Draw a [2, 2] matrix as bars: a group an input, a bar a hidden unit."""
    places = [row + (unit - 0.5) * 0.4 for row in range(2) for unit in range(2)]
    for unit in range(2):
        bars = axes.bar(places[unit::2], values[unit::2], 0.34, color=PALETTE[unit])
        axes.bar_label(bars, fmt="{:.3f}", padding=2)
    axes.set_xticks(places, [f"input {row}\nunit {unit}" for row in range(2) for unit in range(2)], fontsize=8)
    axes.grid(visible=False, axis="x")
    axes.margins(y=0.2)
    axes.axhline(0, color=ink(), linewidth=0.8)
    axes.set_title(title)


def page(report: LearnerReport) -> str:
    """Return the page: the drawing, then every line of the report."""
    return pages.page(
        f"One sampled projection, seed {report.seed}",
        (
            "A sampled matrix gives its hidden units different weights; zero weights give every unit the same "
            "gradient, and equal updates keep the units equal.",
            pages.Figure(
                report.figure(),
                "Both measured. Left: the drawn weights of the 2 x 2 projection. Right: the gradient on the tape "
                "for zero weights with inputs 1 and -1, SiLU and equal output weights. Different columns are a "
                "starting point, not a sign that anything was learned.",
            ),
            *report.tables(),
        ),
    )
