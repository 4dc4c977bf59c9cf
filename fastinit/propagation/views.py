"""The drawing and the page of signals through depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..views import figure as figures
from ..views import page as html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from ..views.result import Result
    from .result import Propagation
    from .signal import Layers, Signal

DECADES = 1e-9, 1e9
"""The range of the magnitudes' axes; a signal beyond it is lost anyway."""
SHARES = 1e-9, 2.0
"""The range of the axis of the spread over the magnitude."""


_PANELS = (
    ("How large the signal is (lines: measured; circles: theory)", "rms over the input's"),
    ("How far inputs can be told apart", "spread over rms"),
    ("How large the gradient is, from the last layer back to the input", "rms over the last layer's"),
)
_MARKED = 6  # theory's circles along a line, about


def drawing(runs: Sequence[Propagation]) -> Figure:
    """Draw several networks against depth: magnitude, how far inputs are told apart, gradients.

    The networks that hold are emphasized, the others grey; in the panel in which one fails its label says how.
    """
    held = [run for run in runs if run.holds or len(runs) == 1]
    with figures.style():
        figure = figures.new_figure(8.5, 0.8 + 3 * max(2.2, 0.5 + 0.17 * len(runs)))
        figures.message(figure, _message(runs))
        panels: Sequence[Axes] = figure.subplots(3, 1)
        deepest = max(run.stack.layers for run in runs)
        for axes, (title, ylabel) in zip(panels, _PANELS, strict=True):
            axes.set(yscale="log", ylim=DECADES, xlim=(0, deepest), title=title, xlabel="layer", ylabel=ylabel)
        panels[1].set_ylim(SHARES)
        panels[2].set_xlim(deepest, 0)  # as gradients go
        for axes in (panels[0], panels[2]):
            _zone(axes, runs[0].activations.LOWEST, runs[0].activations.HIGHEST, "bottom", "grey band: holds")
        _zone(panels[1], SHARES[0], runs[0].NEAREST, "top", "here every input gives the same output")
        labels: list[dict[str, Line2D]] = [{}, {}, {}]
        for run in runs:
            style = figures.emphasis(held.index(run) if run in held else None)
            drawn = (
                (_over_start(run.activations), _change(run.activations)),
                (_shares(run), _alike(run)),
                (_over_start(run.gradients), _change(run.gradients)),
            )
            for axes, names, (lines, failure) in zip(panels, labels, drawn, strict=True):
                names[f"{run.stack.name}{failure}"] = _draw(axes, lines, style)
        for axes, names in zip(panels, labels, strict=True):
            figures.label_ends(axes, names)
    return figure


def _message(runs: Sequence[Propagation]) -> str:
    """Return what the drawing says: the verdict on a network, or which of several hold."""
    if len(runs) == 1:
        return f"{runs[0].stack.name}: {runs[0].verdict}"
    names = "; ".join(run.stack.name for run in runs if run.holds)
    return f"Of {len(runs)} networks {f'these hold: {names}' if names else 'none holds'}"


def _zone(axes: Axes, low: float, high: float, side: str, text: str) -> None:
    """Tint a range of magnitudes; its name has its `side` at the upper edge."""
    axes.axhspan(low, high, color=figures.MUTED, alpha=0.25, linewidth=0)
    offset = (-4, 3 if side == "bottom" else -4)
    where = axes.get_yaxis_transform()
    axes.annotate(text, (1, high), offset, where, "offset points", ha="right", va=side, fontsize=8)


def _change(signal: Signal) -> str:
    """Return how a signal fails; nothing where it holds."""
    if signal.holds:
        return ""
    end = signal.ratio(signal.end)
    if not 0 < end < math.inf:
        return ", exactly 0 at the end" if end == 0 else f", {end} at the end"
    return f", x {signal.a_layer:.3g} a layer"


_Lines = tuple["Layers", "Layers", "Layers", "Layers | None"]


def _over_start(signal: Signal) -> _Lines:
    """Return median, lowest, highest and expected, each over its start."""
    start = signal.median[signal.start]
    low, high = (tuple(size / start for size in sizes) for sizes in (signal.low, signal.high))
    layers = range(len(signal.median))
    expected = None if signal.expected is None else tuple(signal.expected_ratio(layer) or 0.0 for layer in layers)
    return tuple(map(signal.ratio, layers)), low, high, expected


def _shares(run: Propagation) -> _Lines:
    """Return how far inputs are told apart, as the verdict asks: by direction or by length, whichever is more.

    The first is ``sqrt(1 - correlation)``, the second their spread over the magnitude.
    """

    def share(correlation: Layers, spread: Layers) -> Layers:
        return tuple(
            max(math.sqrt(max(0.0, 1.0 - alike)) if math.isfinite(alike) else 0.0, _ratio(apart, rms))
            for alike, apart, rms in zip(correlation, spread, run.activations.median, strict=True)
        )

    alike, apart, rms = run.correlation, run.spread, run.activations
    expected = None
    if apart.expected is not None and rms.expected is not None:
        expected = tuple(map(_ratio, apart.expected, rms.expected))
    return share(alike.median, apart.median), share(alike.high, apart.low), share(alike.low, apart.high), expected


def _alike(run: Propagation) -> str:
    """Return how inputs or units become one; nothing where they do not."""
    inputs = "" if run.lost is None else f", one output from layer {run.lost}"
    return f"{inputs}, all units are one" if run.one_unit else inputs


def _ratio(part: float, whole: float) -> float:
    return part / whole if 0 < whole < math.inf else 0.0


def _draw(axes: Axes, lines: _Lines, style: dict[str, Any]) -> Line2D:
    """Draw a measured line, the range of the seeds, and circles where theory expects it."""
    median, low, high, expected = lines
    layers = range(len(median))
    every = max(1, len(median) // _MARKED)
    (line,) = axes.plot(layers, median, markevery=(every // 2, every), **style)
    axes.fill_between(layers, low, high, color=style["color"], alpha=0.25, linewidth=0)
    if expected is not None:
        # circles, not dashes: a dashed line that lies on a solid one is not seen
        axes.plot(
            layers, expected, "o", markevery=every, markersize=5, markerfacecolor="none", markeredgewidth=0.8,
            color=style["color"], zorder=4.0, clip_on=True,
        )  # fmt: skip
    return line


def page(title: str, runs: Sequence[Propagation], result: Result) -> str:
    """Return the page of a result: its drawing, then its tables."""
    return html.page(
        title,
        (
            "How large a batch's activations are after every layer, how far they still tell its inputs apart, "
            "and how large the gradients are that arrive there when those at the last layer are drawn from N(0, "
            f"1), in networks at their start: {runs[0].sample}.",
            html.Figure(
                result.figure(),
                "Lines: measured, the median over the seeds; the tint spans all of them. "
                "Circles: what theory expects of an infinitely wide network, whose inputs keep equal lengths. "
                "Colours, markers and bold names: every panel's verdict is good; grey: one is not. A magnitude is "
                "said to hold from 0.5 to 2; below 2**-8 of the magnitude a spread is too small to tell inputs "
                "apart (float32 resolves some 1e-8). The axes are cut at 1e-9 and 1e9; a magnitude of 0 has no "
                "place on them.",
            ),
            *result.tables(),
        ),
    )
