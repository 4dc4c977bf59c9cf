"""The comparison of starts and the digits run as drawings and as pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..views import page as pages
from ..views.figure import new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .training import DigitsRun, Start, StartComparison


@styled
def comparison_figure(result: StartComparison) -> Figure:
    """Draw loss and accuracy by epoch, lowest to highest seed shaded; dead and similar units before and after."""
    drawing = new_figure(10.0, 7.5)
    (losses, accuracies), (dead, cosines) = drawing.subplots(2, 2)
    for place, start in enumerate(result.starts):
        _band(losses, start, "loss", f"C{place}")
        _band(accuracies, start, "accuracy", f"C{place}")
    losses.set(title="training loss", xlabel="epoch", ylabel="cross-entropy (nats)", yscale="log")
    accuracies.set(title="held-out accuracy", xlabel="epoch", ylabel="share of images", ylim=(0, 1))
    _before_and_after(dead, result, "dead", "share of dead hidden units")
    _before_and_after(cosines, result, "cosine", "largest cosine of two units' weights")
    handles, names = losses.get_legend_handles_labels()
    drawing.legend(handles, names, loc="outside lower center", ncols=5)
    drawing.suptitle(result.title)
    return drawing


def _band(axes: Axes, start: Start, quantity: str, colour: str) -> None:
    """Draw the mean over the seeds, and the range from the lowest to the highest."""
    curve = start.curve(quantity)
    epochs = range(curve.shape[1])
    axes.plot(epochs, curve.mean(axis=0), color=colour, linewidth=1.2, label=start.name)
    axes.fill_between(epochs, curve.min(axis=0), curve.max(axis=0), color=colour, alpha=0.15, linewidth=0)


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


def comparison_page(result: StartComparison) -> str:
    """Return the page: the drawing, the two tables, and how to read them."""
    return pages.page(
        "Training from different starts",
        (
            f"This is {result.title}. Only the weights at the start differ: with one seed, all starts see the "
            "images in the same order, and starts that differ in scale alone have the same draws.",
            pages.Figure(
                result.figure(),
                "Measured: means over the seeds, the shaded bands from the lowest seed to the highest. A dead "
                "unit is 0 for every training image. No cosine is drawn where the weights are zero.",
            ),
            *result.tables(),
            result.notes,
        ),
    )


@styled
def digits_figure(result: DigitsRun) -> Figure:
    """Draw loss and accuracy by epoch."""
    drawing = new_figure(8.0, 3.2)
    losses, accuracies = drawing.subplots(1, 2)
    losses.plot([state.loss for state in result.states])
    losses.set(title="training loss", xlabel="epoch", ylabel="cross-entropy (nats)", yscale="log")
    accuracies.plot([state.accuracy for state in result.states])
    accuracies.axhline(result.goal, color="0.5", linewidth=0.8, linestyle="--")
    accuracies.set(title="held-out accuracy; dashed: 95 %", xlabel="epoch", ylabel="share of images", ylim=(0, 1))
    drawing.suptitle(result.tables()[0].caption)
    return drawing


def digits_page(result: DigitsRun) -> str:
    """Return the page: the accuracy reached, the drawing, and the table."""
    caption = "Measured on one seed; the dashed line is the goal of 95 %."
    return pages.page("Digits", (*result.lines()[-1:], pages.Figure(result.figure(), caption), *result.tables()))
