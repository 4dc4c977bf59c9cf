"""The three populations as a drawing and as a page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..views import page as pages
from ..views.figure import MUTED, PALETTE, ink, message, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .populations import Population, Populations


@styled
def figure(found: Populations) -> Figure:
    """Draw the histograms, one below the other, beside the table of expected variances."""
    drawing = new_figure(10.0, 6.0)
    names = " and ".join(p.kind for p in found.members if _keeps(p))
    message(drawing, f"Of {len(found.members)} starts {names} keeps the variance of a signal through depth")
    grid = drawing.add_gridspec(3, 2, width_ratios=(2, 1))
    panels = [drawing.add_subplot(grid[row, 0]) for row in range(3)]
    for axes, population in zip(panels, found.members, strict=True):
        _binned(axes, population, found.edges, PALETTE[0] if _keeps(population) else MUTED)
        axes.tick_params(labelbottom=axes is panels[-1])
    panels[-1].set_xlabel("weight")
    _depth_table(drawing.add_subplot(grid[:, 1]), found.members)
    return drawing


def _keeps(population: Population) -> bool:
    """Whether a signal's variance is expected to stay as it is."""
    first, *_, last = population.expected_variances
    return math.isclose(first, last)


def _binned(axes: Axes, population: Population, edges: tuple[float, ...], colour: str) -> None:
    width = edges[1] - edges[0]
    bars = axes.bar(edges[:-1], population.percentages, width, align="edge", color=colour, edgecolor="none")
    labels = [f"{n}\n{p:.1f} %" for n, p in zip(population.counts, population.percentages, strict=True)]
    axes.bar_label(bars, labels, padding=2, fontsize=8)
    axes.set_xticks(edges)
    axes.set_xlim(edges[0], edges[-1])
    axes.margins(y=0.35)
    axes.set_yticks([])
    axes.set_title(
        f"{population.kind}: limit {population.limit:.4g}, measured mean {population.mean:.4g}, "
        f"variance {population.variance:.4g}",
        loc="left",
    )


def _depth_table(axes: Axes, members: tuple[Population, ...]) -> None:
    layers = range(len(members[0].expected_variances))
    axes.set_axis_off()
    axes.set_title("expected, not measured:\nsignal variance after linear layers")
    table = axes.table(
        [[f"{p.expected_variances[layer]:g}" for p in members] for layer in layers],
        rowLabels=[f"layer {layer}" for layer in layers],
        colLabels=[p.kind for p in members],
        cellLoc="center",
        edges="horizontal",
        loc="upper center",
    )
    table.scale(1, 1.8)
    for cell in table.get_celld().values():
        cell.set(facecolor="none", edgecolor=ink(), linewidth=0.4)


def page(found: Populations) -> str:
    """Return the page: the drawing, then the three tables."""
    return pages.page(
        f"Three populations of weights, seed {found.seed}",
        (
            "Oversized and Xavier weights have the same draws and differ in scale only; zero weights take none.",
            pages.Figure(
                found.figure(),
                "Left, measured: the stored weights of three matrices on the same nine bins, as counts and "
                "shares; each panel has a vertical scale of its own. Right, only expected: the variance of a "
                "signal of variance 1 through independent linear layers of such weights. No signal was sent "
                "through the matrices on the left.",
            ),
            *found.tables(),
        ),
    )
