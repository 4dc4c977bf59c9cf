"""The comparison of starts and the digits run as drawings and as pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..views import figure as figures
from ..views import page as pages

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .training import DigitsRun, Start, StartComparison

REFERENCE = "He normal"
"""The start that the others are compared with, seed by seed."""

_PLACES = {"better": 1, "level": 0, "worse": None}
"""Standing -> the place among the emphasized; what is worse is grey."""


@figures.styled
def comparison_figure(result: StartComparison) -> Figure:
    """Draw accuracy over the reference's by seed, dead and similar units before and after, and losses."""
    drawing = figures.new_figure(9.0, 7.4)
    figures.message(drawing, _message(result))
    grid = drawing.add_gridspec(2, 3, height_ratios=(1.2, 1), width_ratios=(1.6, 1, 1))
    differences = drawing.add_subplot(grid[0, 0])
    dead, cosines = (drawing.add_subplot(grid[0, column], sharey=differences) for column in (1, 2))
    losses = drawing.add_subplot(grid[1, :])
    _differences(differences, result)
    _before_and_after(dead, result, "dead", "dead hidden units", "share of units")
    _before_and_after(cosines, result, "cosine", "most similar units", "largest cosine")
    lines = {}
    for start in result.starts:
        curve = start.curve("loss").mean(axis=0)
        style = figures.emphasis(_PLACES[_standing(result, start)])
        (lines[start.name],) = losses.plot(curve, markevery=max(1, result.epochs // 6), **style)
    losses.set(title="training loss, mean over the seeds", xlabel="epoch", ylabel="cross-entropy (nats)")
    losses.set(yscale="log", xlim=(0, result.epochs))
    figures.label_ends(losses, lines)
    return drawing


def _message(result: StartComparison) -> str:
    """Return what the drawing says: which starts the reference beats whatever the seed, and which it does not."""
    names: dict[str, list[str]] = {standing: [] for standing in _PLACES}
    for start in result.starts:
        if start.name != REFERENCE:
            names[_standing(result, start)].append(start.name)
    said = {
        "better": f"Always better than {REFERENCE}",
        "level": f"Level with {REFERENCE}",
        "worse": "Always worse",
    }
    found = (f"{said[standing]}: {', '.join(starts)}." for standing, starts in names.items() if starts)
    return f"Accuracy seed by seed. {' '.join(found)}"


def _standing(result: StartComparison, start: Start) -> str:
    """Return how a start compares with the reference: better or worse at every seed, or else level."""
    gained = _gained(result, start)
    return "better" if gained.min() > 0 else "worse" if gained.max() < 0 else "level"


def _gained(result: StartComparison, start: Start) -> npt.NDArray[np.float64]:
    """Return how far a start's last accuracy is above the reference's, by seed, in points of percent."""
    (reference,) = (start for start in result.starts if start.name == REFERENCE)
    return 100 * (start.curve("accuracy")[:, -1] - reference.curve("accuracy")[:, -1])


def _differences(axes: Axes, result: StartComparison) -> None:
    """Draw a row a start, a point a seed: its difference alone, because seeds differ more than starts."""
    for place, start in enumerate(result.starts):
        style = {"marker": "o", "markersize": 4, **figures.emphasis(_PLACES[_standing(result, start)])}
        axes.plot(_gained(result, start), [place] * result.seeds, **style | {"linestyle": "none", "alpha": 0.7})
    axes.axvline(0, color=figures.ink(), linewidth=0.8)
    axes.set_xscale("symlog", linthresh=10)
    axes.set_xlim(-100, 100)
    axes.set_xticks([-100, -10, 0, 10], ["-100", "-10", "0", "+10"])
    axes.set(title="accuracy, a point a seed", xlabel=f"points of percent over {REFERENCE}, same seed")
    axes.set(ylim=(len(result.starts) - 0.5, -0.5))
    axes.set_yticks(range(len(result.starts)), [start.name for start in result.starts])


def _before_and_after(axes: Axes, result: StartComparison, quantity: str, title: str, xlabel: str) -> None:
    """Draw an open point before training and a full one after, means over the seeds, a row a start."""
    for place, start in enumerate(result.starts):
        before, after = start.curve(quantity)[:, [0, -1]].mean(axis=0)
        colour = figures.emphasis(_PLACES[_standing(result, start)])["color"]
        axes.plot([before, after], [place, place], color=colour, linewidth=0.9)
        axes.plot(before, place, "o", color=colour, markerfacecolor="none", clip_on=False)
        axes.plot(after, place, "o", color=colour, clip_on=False)
    axes.set(title=f"{title}:\nopen before, full after", xlabel=xlabel, xlim=(0, 1))
    axes.tick_params(labelleft=False)


def comparison_page(result: StartComparison) -> str:
    """Return the page: the drawing, the two tables, and how to read them."""
    return pages.page(
        "Training from different starts",
        (
            f"This is {result.title}. Only the weights at the start differ: with one seed, all starts see the "
            "images in the same order, and starts that differ in scale alone have the same draws.",
            pages.Figure(
                result.figure(),
                f"Measured: a point a seed; the hidden units and the losses are means over the "
                f"seeds. Grey: worse than {REFERENCE} with every seed. The axis of differences is linear from -10 "
                "to 10 and logarithmic beyond. A dead unit is 0 for every training image. No cosine is drawn "
                "where the weights are zero.",
            ),
            *result.tables(),
            result.notes,
        ),
    )


@figures.styled
def digits_figure(result: DigitsRun) -> Figure:
    """Draw loss and accuracy by epoch."""
    drawing = figures.new_figure(8.0, 3.2)
    reached = "reached" if result.passed else "missed"
    figures.message(
        drawing,
        f"{100 * result.goal:.0f} % {reached}: {100 * result.states[-1].accuracy:.1f} % of the held-out digits "
        f"after {len(result.states) - 1} epochs, seed {result.seed}",
    )
    losses, accuracies = drawing.subplots(1, 2)
    losses.plot([state.loss for state in result.states])
    losses.set(title="training loss", xlabel="epoch", ylabel="cross-entropy (nats)", yscale="log")
    accuracies.plot([state.accuracy for state in result.states])
    accuracies.axhline(result.goal, color=figures.MUTED, linewidth=0.8, linestyle="--")
    accuracies.set(
        title="held-out accuracy; dashed: the goal", xlabel="epoch", ylabel="share of images", ylim=(0, 1)
    )
    return drawing


def digits_page(result: DigitsRun) -> str:
    """Return the page: the accuracy reached, the drawing, and the table."""
    caption = "Measured on one seed; the dashed line is the goal of 95 %."
    return pages.page("Digits", (*result.lines()[-1:], pages.Figure(result.figure(), caption), *result.tables()))
