"""The drawing and the page of a diagnosed checkpoint."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from .._escaping import escaped
from ..views import figure as figures
from ..views import page as html
from ..views.table import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .measured import Measured
    from .result import Diagnosis, TensorDiagnosis

MOST = 12
"""Tensors in one drawing."""

_COLUMNS = 3
_WRONG, _GOOD = figures.PALETTE[1], figures.MUTED
_NAME_LENGTH = 30  # characters of a name above its histogram: the last ones tell tensors apart


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
        figure = figures.new_figure(2.8 * max(columns, 2), 1.2 + 2.2 * rows)
        figures.message(figure, _message(result))
        cells = figure.subplots(rows, columns, squeeze=False).ravel()
        for cell, (tensor, measured) in zip(cells, shown, strict=False):
            _draw(cell, tensor, measured, _WRONG if tensor.name in wrong else _GOOD)
        for cell in cells[len(shown) :]:
            cell.set_axis_off()
        figure.supxlabel("weight", fontsize="medium")
        figure.supylabel("density (tinted: measured; line, dashed sd: expected)", fontsize="medium")
    return figure


def _message(result: Diagnosis) -> str:
    """Return what the drawing says: how many tensors are wrong, and how."""
    kinds: dict[str, set[str]] = {}
    for finding in result.findings:
        kinds.setdefault(finding.kind, set()).update(finding.tensors)
    if not kinds:
        return f"{counted(len(result.tensors), 'tensor')}, nothing wrong found"
    found = ", ".join(f"{kind} ({len(names)})" for kind, names in kinds.items())
    return f"Wrong in {len(set().union(*kinds.values()))} of {counted(len(result.tensors), 'tensor')}: {found}"


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
    name = escaped(tensor.name)
    name = name if len(name) <= _NAME_LENGTH else f"…{name[1 - _NAME_LENGTH :]}"
    weight = "bold" if color == _WRONG else "normal"
    cell.set_title(f"{name}\n{tensor.verdict or 'not judged'}", weight=weight, parse_math=False, wrap=True)
    cell.set_yticks([])
    cell.locator_params(axis="x", nbins=4)


def _draw_expected(cell: Axes, tensor: TensorDiagnosis, low: float, high: float) -> None:
    """Draw the expected density, or else lines one standard deviation either side of 0."""
    if tensor.expected is None:
        return
    grid, distribution = np.linspace(low, high, 200), tensor.expected.distribution
    heights = None if distribution is None else distribution.density(grid)
    if heights is not None:
        cell.plot(grid, heights, color=figures.ink(), linewidth=1)
        return
    for side in (-1, 1):
        cell.axvline(side * tensor.expected.std, color=figures.ink(), linewidth=1, linestyle="--")


def page(result: Diagnosis) -> str:
    """Return the page of a diagnosis: its conclusions, its drawing where anything was measured, its tables."""
    parts: list[html.Part] = [*result.conclusions(), *result.tables()]
    if any(tensor.measured for tensor in result.tensors):
        caption = (
            "Measured: the density of each tensor's weights (all, or an evenly spread sample "
            "of 8,192), first of the tensors found wrong, in colour, then of the largest. Expected: the curve is "
            "the density the plan draws from; dashed lines are one standard deviation of a rule either side of 0."
        )
        parts.insert(len(result.conclusions()), html.Figure(result.figure(), caption))
    return html.page(f"Diagnosis of {os.path.basename(result.path)}", parts)
