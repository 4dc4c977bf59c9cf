"""The drawing and the page of a diagnosed checkpoint."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from .._escaping import escaped
from ..views import figure as figures
from ..views import page as html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .measured import Measured
    from .result import Diagnosis, TensorDiagnosis

MOST = 12
"""Tensors in one drawing."""

_COLUMNS = 3
_GOOD, _WRONG = figures.PALETTE[0], figures.PALETTE[7]  # blue, red
_NAME_LENGTH = 44  # characters of a name above its histogram: the last ones tell tensors apart


def drawing(result: Diagnosis) -> Figure:
    """Draw the histograms of the tensors found wrong, then of the largest, at most `MOST`."""
    wrong = {name for finding in result.findings for name in finding.tensors}
    shown = [(t, t.measured) for t in result.tensors if t.measured is not None and t.measured.sampled]
    shown.sort(key=lambda pair: (pair[0].name not in wrong, -pair[0].spec.size))
    shown = shown[:MOST]
    with figures.style():
        if not shown:
            return _nothing()
        columns = min(_COLUMNS, len(shown))
        rows = -(-len(shown) // columns)
        figure = figures.new_figure(3.4 * columns, 0.4 + 2.3 * rows)
        cells = figure.subplots(rows, columns, squeeze=False).ravel()
        for cell, (tensor, measured) in zip(cells, shown, strict=False):
            _draw(cell, tensor, measured, _WRONG if tensor.name in wrong else _GOOD)
        for cell in cells[len(shown) :]:
            cell.set_axis_off()
    return figure


def _nothing() -> Figure:
    figure = figures.new_figure(3.4, 1.0)
    figure.text(0.5, 0.5, "no tensor of weights to draw", ha="center", va="center")
    return figure


def _draw(cell: Axes, tensor: TensorDiagnosis, measured: Measured, color: str) -> None:
    """Draw the density of a tensor's weights beside the expected one."""
    low, high = measured.limits
    edges = np.linspace(low, high, len(measured.histogram) + 1)
    heights = np.array(measured.histogram) / measured.sampled / np.diff(edges)
    cell.stairs(heights, edges, fill=True, color=color, alpha=0.6)
    _draw_expected(cell, tensor, low, high)
    cell.set_title(
        f"{escaped(tensor.name)[-_NAME_LENGTH:]}\n{tensor.verdict or 'not judged'}", fontsize=7, parse_math=False
    )
    cell.set_yticks([])
    cell.locator_params(axis="x", nbins=4)


def _draw_expected(cell: Axes, tensor: TensorDiagnosis, low: float, high: float) -> None:
    """Draw the expected density, or else lines one standard deviation either side of 0."""
    if tensor.expected is None:
        return
    grid, distribution = np.linspace(low, high, 200), tensor.expected.distribution
    heights = None if distribution is None else distribution.density(grid)
    if heights is not None:
        cell.plot(grid, heights, color="black", linewidth=1)
        return
    for side in (-1, 1):
        cell.axvline(side * tensor.expected.std, color="black", linewidth=1, linestyle="--")


def page(result: Diagnosis) -> str:
    """Return the page of a diagnosis: its conclusions, its drawing where anything was measured, its tables."""
    parts: list[html.Part] = [*result.conclusions(), *result.tables()]
    if any(tensor.measured for tensor in result.tensors):
        caption = (
            "Measured: the density of each tensor's weights (all, or an evenly spread sample of 8,192), first "
            "of the tensors found wrong, in red, then of the largest. Expected: the curve is the density "
            "the plan draws from; dashed lines are one standard deviation of a rule either side of 0."
        )
        parts.insert(len(result.conclusions()), html.Figure(result.figure(), caption))
    return html.page(f"Diagnosis of {os.path.basename(result.path)}", parts)
