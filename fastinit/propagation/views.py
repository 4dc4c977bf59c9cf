"""The drawing and the page of signals through depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..views import figure as figures
from ..views import page as html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..views.result import Result
    from .result import Propagation
    from .signal import Layers, Signal

DECADES = 1e-9, 1e9
"""The range of the magnitudes' axes; a signal beyond it is lost anyway."""
SHARES = 1e-9, 2.0
"""The range of the axis of the spread over the magnitude."""


def drawing(runs: Sequence[Propagation]) -> Figure:
    """Draw several networks against depth: magnitude, how far inputs are told apart, gradients."""
    with figures.style():
        columns = _columns(runs)
        figure = figures.new_figure(12.5, 4.2 + 0.22 * math.ceil((len(runs) + 1) / columns))
        activations, apart, gradients = figure.subplots(1, 3)
        deepest = max(run.stack.layers for run in runs)
        _prepare(activations, "magnitude", "rms of the activations over the input's", deepest)
        _prepare(apart, "inputs told apart", "spread over the inputs / magnitude", deepest)
        _prepare(gradients, "gradients", "rms of the gradients over the last layer's", deepest)
        for axis in (activations, gradients):
            axis.axhspan(runs[0].activations.LOWEST, runs[0].activations.HIGHEST, color="0.5", alpha=0.25, lw=0)
        apart.set_ylim(SHARES)
        apart.axhspan(SHARES[0], runs[0].NEAREST, color="0.5", alpha=0.25, linewidth=0)
        for number, run in enumerate(runs):
            colour, name = f"C{number}", run.stack.name
            _draw(activations, _over_start(run.activations), f"{name}{_nothing(run)}", colour)
            _draw(apart, _shares(run), name, colour)
            _draw(gradients, _over_start(run.gradients), name, colour)
        activations.plot([], [], "--", color="0.5", linewidth=0.8, label="expected")
        figure.legend(*activations.get_legend_handles_labels(), loc="outside lower center", ncols=columns)
    return figure


def _columns(runs: Sequence[Propagation]) -> int:
    """Return how many names of networks stand beside each other below a drawing."""
    longest = max(len(run.stack.name) for run in runs)
    return max(1, min(3, len(runs), _LEGEND // (longest + 8)))


_LEGEND = 165  # characters


def _prepare(axis: Axes, title: str, magnitude: str, deepest: int) -> None:
    axis.set(yscale="log", ylim=DECADES, xlim=(0, deepest), title=title, xlabel="layer", ylabel=magnitude)


_Lines = tuple["Layers", "Layers", "Layers", "Layers | None"]


def _over_start(signal: Signal) -> _Lines:
    """Return median, lowest, highest and expected, each over its start."""
    start = signal.median[signal.start]
    low, high = (tuple(size / start for size in sizes) for sizes in (signal.low, signal.high))
    layers = range(len(signal.median))
    expected = None if signal.expected is None else tuple(signal.expected_ratio(layer) or 0.0 for layer in layers)
    return tuple(map(signal.ratio, layers)), low, high, expected


def _shares(run: Propagation) -> _Lines:
    """Return the spread over the magnitude, ``sqrt(1 - correlation)``: a high correlation is a low share."""

    def share(values: Layers) -> Layers:
        return tuple(math.sqrt(max(0.0, 1.0 - value)) if math.isfinite(value) else 0.0 for value in values)

    spread, rms = run.spread.expected, run.activations.expected
    expected = None if spread is None or rms is None else tuple(map(_ratio, spread, rms))
    return share(run.correlation.median), share(run.correlation.high), share(run.correlation.low), expected


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _nothing(run: Propagation) -> str:
    return "" if run.activations.median[-1] else " (exactly 0)"


def _draw(axis: Axes, lines: _Lines, label: str, colour: str) -> None:
    """Draw a measured line, the range of the seeds, and what theory expects."""
    median, low, high, expected = lines
    layers = range(len(median))
    axis.plot(layers, median, color=colour, label=label)
    axis.fill_between(layers, low, high, color=colour, alpha=0.25, linewidth=0)
    if expected is not None:
        axis.plot(layers, expected, "--", color=colour, linewidth=0.8)


def page(title: str, sample: str, result: Result) -> str:
    """Return the page of a result: its drawing, then its tables."""
    return html.page(
        title,
        (
            "How large a batch's activations are after every layer, how far they still tell its inputs apart, "
            "and how large the gradients are that arrive there when those at the last layer are drawn from N(0, "
            f"1), in networks at their start: {sample}.",
            html.Figure(
                result.figure(),
                "Solid: measured, the median over the seeds; the tint spans all of them. Dashed: what theory "
                "expects of an infinitely wide network. Grey, left and right: the band from 0.5 to 2 in which a "
                "magnitude is said to hold; in the middle: where a spread is below 2**-8 of the magnitude, and "
                "inputs can no longer be told apart (float32 resolves some 1e-8). The axes are cut at 1e-9 and "
                "1e9; a magnitude of 0 has no place on them.",
            ),
            *result.tables(),
        ),
    )
