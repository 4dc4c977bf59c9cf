"""The lesson: networks 512 wide that a text on initialization talks about, and its claims beside measurements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex

from ..initializers import Constant, Initializer, Normal, kaiming, xavier
from ..views.table import Table
from .experiments import measure
from .result import Comparison, Propagation
from .stack import Stack

if TYPE_CHECKING:
    from ..replay import Progress

WIDTH = 512
"""Units of every layer of the lesson's networks."""

LAYERS = 50
"""The layers of its deep networks."""


class Networks(NamedTuple):
    """The lesson's networks by the roles they play in its claims, each as it was measured."""

    unit: Propagation
    narrow: Propagation
    wide: Propagation
    sigmoid: Propagation
    tanh: Propagation
    halved: Propagation
    kept: Propagation
    equal: Propagation
    grown: Propagation
    shrunk: Propagation


_STACKS: dict[str, tuple[str, Initializer, int]] = {
    "unit": ("relu", Normal(), LAYERS),
    "narrow": ("relu", Normal(std=0.01), LAYERS),
    "wide": ("relu", Normal(std=0.1), LAYERS),
    "sigmoid": ("sigmoid", xavier("normal"), LAYERS),
    "tanh": ("tanh", xavier("normal"), LAYERS),
    "halved": ("relu", xavier("normal"), LAYERS),
    "kept": ("relu", kaiming("normal"), LAYERS),
    "equal": ("relu", Constant(1 / WIDTH), LAYERS),
    "grown": ("linear", Normal(), 10),
    "shrunk": ("linear", Normal(std=0.001**0.5), 10),
}

_CLAIMS: tuple[tuple[str, Callable[[Networks], str], str], ...] = (
    (
        "N(0, 1) + relu explodes by layer 5",
        lambda run: f"{run.unit.activations.verdict}; {_grown(run.unit, 5, 3)} at layer 5",
        "each layer multiplies the second moment by 512 / 2, rms by 16",
    ),
    (
        "N(0, 0.01) + relu vanishes by layer 10",
        lambda run: (
            f"std 0.01: {run.narrow.activations.verdict}, {_grown(run.narrow, 10, 3)} at layer 10; "
            f"variance 0.01: {run.wide.activations.verdict}, x {run.wide.activations.ratio(10):.3g}"
        ),
        "true of the standard deviation, false of the variance: 512 * 0.01 / 2 is 2.56, above 1",
    ),
    (
        "Xavier + sigmoid is at about 1.0 at layer 50",
        lambda run: (
            f"{_at_the_end(run.sigmoid)}, mean |a| {run.sigmoid.mean_magnitude.median[50]:.3f}; "
            f"{_gradients(run.sigmoid)}"
        ),
        "sigmoids stay near 1/2 whatever the input, and their slope near 1/4: the signal is lost",
    ),
    (
        "Xavier keeps tanh stable through dozens of layers",
        lambda run: (
            f"{_grown(run.tanh, 10)} at layer 10, x {run.tanh.activations.ratio(50):.2g} at layer 50; "
            f"{_gradients(run.tanh)}"
        ),
        "tanh is below its argument: rms falls as 1 / sqrt(2 * layer), slowly, but out of the band",
    ),
    (
        "with Xavier before relu the signal falls to 0.5**50 = 8.8e-16",
        lambda run: f"{_grown(run.halved, 50)}, its square {run.halved.activations.ratio(50) ** 2:.2g}",
        "the variance is halved, so the magnitude falls by 0.71 a layer",
    ),
    (
        "Kaiming + relu is at about 1.0 at layer 50",
        lambda run: (
            f"{_at_the_end(run.kept)} ({run.kept.activations.low[50]:.3f} to {run.kept.activations.high[50]:.3f} "
            f"over the seeds), mean |a| {run.kept.mean_magnitude.median[50]:.3f}"
        ),
        "theory expects an rms of 1; the mean of half a normal is 1 / sqrt(pi) = 0.564 of its rms",
    ),
    (
        "equal weights make one unit of a layer",
        lambda run: f"{run.equal.distinct_units} distinct of 512; with Kaiming {run.kept.distinct_units}",
        "units that start equal get equal gradients and stay equal",
    ),
    (
        "linear, Var(w) = 1: 512**10 = 1.2e27",
        lambda run: f"variance x {run.grown.activations.ratio(10) ** 2:.3g}",
        "512**10 is 1.24e27",
    ),
    (
        "linear, Var(w) = 0.001: 0.512**10 = 0.00013",
        lambda run: f"variance x {run.shrunk.activations.ratio(10) ** 2:.3g}",
        "0.512**10 is 0.00124: the claim is ten times too low",
    ),
)
"""A claim, its measurement in words, and the reason for the difference."""


def _grown(run: Propagation, layer: int, digits: int = 2) -> str:
    return f"rms x {run.activations.ratio(layer):.{digits}g}"


def _at_the_end(run: Propagation) -> str:
    return f"rms {run.activations.median[LAYERS]:.3f}"


def _gradients(run: Propagation) -> str:
    return f"gradients at the input x {run.gradients.ratio(0):.2g}"


def lesson(
    inputs: int = 256,
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
    *,
    progress: Progress | None = None,
) -> Comparison:
    """Measure the networks that a lesson on initialization talks about, and set its claims beside them.

    Parameters
    ----------
    inputs, seeds, seed, progress
        As in `propagate`.

    Returns
    -------
    Comparison
        Ten networks, each 512 wide, and a table of nine claims.
    """
    stacks = [_stack(*start, inputs=inputs) for start in _STACKS.values()]
    runs = Networks(**dict(zip(_STACKS, measure(stacks, seeds, seed, progress), strict=True)))
    claims = Table(
        "What is often said of them, and what was measured (medians over the seeds)",
        ("claim", "measured", "why"),
        tuple((claim, measured(runs), why) for claim, measured, why in _CLAIMS),
    )
    return Comparison("Weight initialization and variance, 512 wide", tuple(runs), claims)


def lesson_run(
    activation: str,
    initializer: Initializer | str,
    layers: int = LAYERS,
    inputs: int = 256,
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
) -> Propagation:
    """Measure one network of the lesson's width: what a statement about a single one needs.

    Parameters
    ----------
    activation, initializer, layers, inputs, seeds, seed
        As in `propagate`.

    Returns
    -------
    Propagation
        The magnitudes, those that theory expects, and the verdicts.

    Examples
    --------
    >>> from fastinit.propagation import lesson_run
    >>> run = lesson_run("linear", "xavier_normal", layers=2, inputs=4, seeds=1)
    >>> run.stack.width, run.activations.verdict
    (512, 'holds')
    """
    return measure((_stack(activation, initializer, layers, inputs=inputs),), seeds, seed)[0]


def _stack(activation: str, initializer: Initializer | str, layers: int, *, inputs: int) -> Stack:
    return Stack(activation, initializer, layers, WIDTH, inputs)  # type: ignore[arg-type]
