"""The drawing and the page of signals through depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..views import figure as figures
from ..views import page as html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..views.result import Result
    from .result import Propagation, Signal

DECADES = 1e-9, 1e9
"""The range of the magnitudes' axis; a signal beyond it is lost anyway."""

_PANELS = (("activations", "rms over the input's"), ("gradients", "rms over the last layer's"))


def drawing(runs: Sequence[Propagation]) -> Figure:
    """Draw the magnitudes of several networks against depth, activations beside gradients."""
    with figures.style():
        figure = figures.new_figure(9.0, 4.2)
        axes = figure.subplots(1, 2)
        for axis, (name, magnitude) in zip(axes, _PANELS, strict=True):
            _prepare(axis, name, magnitude, runs)
            for number, run in enumerate(runs):
                _draw(axis, getattr(run, name), run.stack.name, f"C{number}")
        axes[1].plot([], [], "--", color="0.5", linewidth=0.8, label="expected")
        figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _prepare(axis: Axes, title: str, magnitude: str, runs: Sequence[Propagation]) -> None:
    """Set the scales and the words of an axis, and draw the stable band."""
    deepest = max(run.stack.layers for run in runs)
    band = runs[0].activations
    axis.set(yscale="log", ylim=DECADES, xlim=(0, deepest), title=title, xlabel="layer", ylabel=magnitude)
    axis.axhspan(band.LOWEST, band.HIGHEST, color="0.5", alpha=0.25, linewidth=0, label="0.5 to 2")


def _draw(axis: Axes, signal: Signal, name: str, color: str) -> None:
    """Draw a signal over its start: the median, the range of the seeds, and what theory expects."""
    layers, start = range(len(signal.median)), signal.median[signal.start]
    dead = not signal.median[signal.end]
    label = f"{name}{' (exactly 0)' if dead else ''}"
    axis.plot(layers, [size / start for size in signal.median], color=color, label=label)
    low, high = ([size / start for size in sizes] for sizes in (signal.low, signal.high))
    axis.fill_between(layers, low, high, color=color, alpha=0.25, linewidth=0)
    if signal.expected is not None:
        expected = [size / signal.expected[signal.start] for size in signal.expected]
        axis.plot(layers, expected, "--", color=color, linewidth=0.8)


def page(title: str, sample: str, result: Result) -> str:
    """Return the page of a result: its drawing, then its tables."""
    return html.page(
        title,
        (
            "How large a batch's activations are after every layer and the gradients that arrive there when those "
            f"at the last layer are drawn from N(0, 1), in networks at their start: {sample}.",
            html.Figure(
                result.figure(),
                "Solid: measured, the median over the seeds; the tint spans all of them. Dashed: what theory "
                "expects of an infinitely wide network. Grey: the band from 0.5 to 2 in which a signal is called "
                "stable. The axis is cut at 1e-9 and 1e9; a magnitude of 0 has no place on it.",
            ),
            *result.tables(),
        ),
    )
