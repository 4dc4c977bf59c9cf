"""Drawings of results: `draw(result)` gives a matplotlib figure, `save(result, path)` a file.

Each kind of result registers its drawing here. ``matplotlib.figure`` is used directly, never pyplot: nothing
global changes, and no window opens.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import singledispatch, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ..lessons.populations import EDGES, LAYERS, Population, Populations
from ..lessons.report import LearnerReport
from ..lessons.training import TARGET, DigitsRun, StartComparison
from .result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Dispatch = TypeVar("_Dispatch", bound=Callable[..., Any])

FORMATS = (".svg", ".png")
PALETTE = (
    "#2f7fc1", "#d55e00", "#0b9467", "#b8569b", "#a87b00", "#7d6bd0", "#808080", "#c4484d", "#00909c", "#95683c",
)  # fmt: skip
"""Line colours: each with a contrast of 3 or more to a page's light and to its dark paper."""
STYLE: dict[str, Any] = {
    "font.size": 9.0,
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "axes.prop_cycle": f"cycler('color', {list(PALETTE)})",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.5,
    "legend.frameon": False,
    "svg.hashsalt": "fastinit",  # the same drawing gives the same bytes
    "svg.fonttype": "none",  # text stays text: readable by a screen reader, found by a search
}


def style() -> AbstractContextManager[None]:
    """Return the context in which drawings are made and written: STYLE, whatever the user's matplotlibrc says."""
    _matplotlib()
    return _styled()


@contextmanager
def _styled() -> Iterator[None]:
    from matplotlib.style import context  # noqa: PLC0415

    with context(["default", STYLE]), warnings.catch_warnings():
        # a name in a script that the font lacks stays text in an SVG, where the reader's fonts show it
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def _in_style(dispatch: _Dispatch) -> _Dispatch:
    @wraps(dispatch)  # `register` with it
    def styled(result: object) -> Any:
        with style():
            return dispatch(result)

    return cast(_Dispatch, styled)


@_in_style
@singledispatch
def draw(result: object) -> Figure:
    """Return the drawing of a result, made in `style`."""
    if isinstance(result, Result):
        return result.figure()
    raise TypeError(f"there is no drawing of {type(result).__name__}")


def save(result: object, path: str | os.PathLike[str]) -> None:
    """Write a drawing, or that of a result, to a new or replaced file: .svg or .png."""
    suffix = format_of(path)
    drawing: Any = result if hasattr(result, "savefig") else draw(result)
    with style():
        drawing.savefig(path, metadata={"Date": None} if suffix == ".svg" else None)


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a figure's file, in lower case; ValueError for any but .svg and .png."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"a figure's file ends in {' or '.join(FORMATS)}, got {str(path)!r}")
    return suffix


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches."""
    _matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure(figsize=(width, height), layout="constrained")


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install 'fastinit-weights[figures]'") from error
    return mpl


# ---- one projection, three populations ---------------------------------------------------------------


@draw.register(LearnerReport)
def _(report: LearnerReport) -> Figure:
    figure = new_figure(7.0, 2.8)
    sampled, zero = figure.subplots(1, 2, sharey=True)
    _two_by_two(sampled, report.weights, "sampled weights")
    _two_by_two(zero, report.symmetry.gradient, "gradient at zero weights")
    return figure


def _two_by_two(axes: Axes, values: tuple[float, ...], title: str) -> None:
    """Draw a [2, 2] matrix as bars: a group an input, a bar a hidden unit."""
    for unit in range(2):
        bars = axes.bar(
            [row + (unit - 0.5) * 0.36 for row in range(2)], values[unit::2], 0.32, label=f"unit {unit}"
        )
        axes.bar_label(bars, fmt="{:.3f}", padding=2)
    axes.set_xticks(range(2), ["input 0", "input 1"])
    axes.margins(y=0.2)
    axes.axhline(0, color=_matplotlib().rcParams["axes.edgecolor"], linewidth=0.8)
    axes.set_title(title)
    axes.legend()


@draw.register(Populations)
def _(found: Populations) -> Figure:
    figure = new_figure(11.0, 6.4)
    grid = figure.add_gridspec(3, 2, width_ratios=(2, 1))
    panels = [figure.add_subplot(grid[row, 0]) for row in range(3)]
    for number, (axes, population) in enumerate(zip(panels, found.members, strict=True)):
        _binned(axes, population, f"C{number}")
        axes.tick_params(labelbottom=axes is panels[-1])
    panels[-1].set_xlabel("weight")
    _depth_table(figure.add_subplot(grid[:, 1]), found.members)
    return figure


def _binned(axes: Axes, population: Population, colour: str) -> None:
    width = EDGES[1] - EDGES[0]
    bars = axes.bar(EDGES[:-1], population.percentages, width, align="edge", color=colour, edgecolor="none")
    labels = [f"{n}\n{p:.1f} %" for n, p in zip(population.counts, population.percentages, strict=True)]
    axes.bar_label(bars, labels, padding=2, fontsize="small")
    axes.set_xticks(EDGES)
    axes.set_xlim(EDGES[0], EDGES[-1])
    axes.margins(y=0.35)
    axes.set_yticks([])
    axes.set_title(
        f"{population.kind}: limit {population.limit:.4g}, measured mean {population.mean:.4g}, "
        f"variance {population.variance:.4g}",
        loc="left",
    )


def _depth_table(axes: Axes, members: tuple[Population, ...]) -> None:
    axes.set_axis_off()
    axes.set_title("expected, not measured:\nsignal variance after linear layers")
    table = axes.table(
        [[f"{p.expected_variances[layer]:g}" for p in members] for layer in range(LAYERS + 1)],
        rowLabels=[f"layer {layer}" for layer in range(LAYERS + 1)],
        colLabels=[p.kind for p in members],
        cellLoc="center",
        edges="horizontal",
        loc="upper center",
    )
    table.scale(1, 1.8)
    for cell in table.get_celld().values():
        cell.set(facecolor="none", edgecolor=_matplotlib().rcParams["axes.edgecolor"], linewidth=0.4)


# ---- training from different starts ------------------------------------------------------------------


@draw.register(StartComparison)
def _(result: StartComparison) -> Figure:
    """Loss and accuracy by epoch, lowest to highest seed shaded; dead units and similar units before and after."""
    figure = new_figure(10.0, 7.5)
    (losses, accuracies), (dead, cosines) = figure.subplots(2, 2)
    epochs = range(result.epochs + 1)
    for place, start in enumerate(result.starts):
        for axes, quantity in ((losses, "loss"), (accuracies, "accuracy")):
            curve = start.curve(quantity)
            axes.plot(epochs, curve.mean(axis=0), color=f"C{place}", linewidth=1.2, label=start.name)
            axes.fill_between(
                epochs, curve.min(axis=0), curve.max(axis=0), color=f"C{place}", alpha=0.15, linewidth=0
            )
    losses.set(title="training loss", xlabel="epoch", ylabel="cross-entropy (nats)", yscale="log")
    accuracies.set(title="held-out accuracy", xlabel="epoch", ylabel="share of images", ylim=(0, 1))
    _before_and_after(dead, result, "dead", "share of dead hidden units")
    _before_and_after(cosines, result, "cosine", "largest cosine of two units' weights")
    handles, names = losses.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5)
    figure.suptitle(result.title)
    return figure


def _before_and_after(axes: Axes, result: StartComparison, quantity: str, title: str) -> None:
    """Draw a pair of bars a start: the mean over the seeds before training and after."""
    places = np.arange(len(result.starts))
    for shift, epoch, alpha in ((-0.2, 0, 0.4), (0.2, -1, 1.0)):
        means = [start.curve(quantity)[:, epoch].mean() for start in result.starts]
        colors = [f"C{place}" for place in places]
        axes.barh(places + shift, means, height=0.36, color=colors, alpha=alpha)
    axes.set(title=title, xlabel="pale: before training; full: after", xlim=(0, 1), ylim=(len(places) - 0.5, -0.5))
    axes.set_yticks(places, [start.name for start in result.starts])
    axes.grid(visible=False, axis="y")


@draw.register(DigitsRun)
def _(result: DigitsRun) -> Figure:
    """Loss and accuracy by epoch."""
    figure = new_figure(8.0, 3.2)
    losses, accuracies = figure.subplots(1, 2)
    losses.plot([state.loss for state in result.states])
    losses.set(title="training loss", xlabel="epoch", ylabel="cross-entropy (nats)", yscale="log")
    accuracies.plot([state.accuracy for state in result.states])
    accuracies.axhline(TARGET, color="0.5", linewidth=0.8, linestyle="--")
    accuracies.set(title="held-out accuracy; dashed: 95 %", xlabel="epoch", ylabel="share of images", ylim=(0, 1))
    figure.suptitle(result.tables()[0].caption)
    return figure
