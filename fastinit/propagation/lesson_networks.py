"""The lesson: networks 512 wide that a text on initialization talks about, and its claims beside measurements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from ..initializers import Constant, Initializer, Normal, Residual, kaiming, lecun, xavier
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


RESIDUAL_LAYERS = 12
"""The layers of its residual streams, each of which adds twice."""


class Networks(NamedTuple):
    """The lesson's networks by the roles they play in its claims, each as it was measured."""

    unit: Propagation
    narrow: Propagation
    wide: Propagation
    sigmoid: Propagation
    tanh: Propagation
    halved: Propagation
    kept: Propagation
    gelu: Propagation
    equal: Propagation
    grown: Propagation
    shrunk: Propagation
    bare: Propagation
    normed: Propagation
    scaled: Propagation


_KAIMING = kaiming("normal")
_BARE: dict[str, Any] = {"layers": 2 * RESIDUAL_LAYERS, "residual": True}
_NORMED: dict[str, Any] = {**_BARE, "norm": "layer"}
_STACKS: dict[str, tuple[str, Initializer, dict[str, Any]]] = {
    "unit": ("relu", Normal(), {}),
    "narrow": ("relu", Normal(std=0.01), {}),
    "wide": ("relu", Normal(std=0.1), {}),
    "sigmoid": ("sigmoid", xavier("normal"), {}),
    "tanh": ("tanh", xavier("normal"), {}),
    "halved": ("relu", xavier("normal"), {}),
    "kept": ("relu", _KAIMING, {}),
    "gelu": ("gelu", _KAIMING, {}),
    "equal": ("relu", Constant(1 / WIDTH), {}),
    "grown": ("linear", Normal(), {"layers": 10}),
    "shrunk": ("linear", Normal(std=0.001**0.5), {"layers": 10}),
    "bare": ("relu", _KAIMING, _BARE),
    "normed": ("relu", lecun("normal"), {**_NORMED, "writes": _KAIMING}),
    "scaled": ("relu", lecun("normal"), {**_NORMED, "writes": Residual(_KAIMING, RESIDUAL_LAYERS)}),
}

_CLAIMS: tuple[tuple[str, Callable[[Networks], str], str], ...] = (
    (
        "N(0, 1) + relu explodes by layer 5",
        lambda run: f"magnitude {run.unit.activations.verdict}; {_grown(run.unit, 5, 3)} at layer 5",
        "each layer multiplies the second moment by 512 / 2, rms by 16",
    ),
    (
        "N(0, 0.01) + relu vanishes by layer 10",
        lambda run: (
            f"std 0.01: magnitude {run.narrow.activations.verdict}, {_grown(run.narrow, 10, 3)} at layer 10; "
            f"variance 0.01: {run.wide.activations.verdict}, x {run.wide.activations.ratio(10):.3g}"
        ),
        "true of the standard deviation, false of the variance: 512 * 0.01 / 2 is 2.56, above 1",
    ),
    (
        "Xavier + sigmoid is at about 1.0 at layer 50",
        lambda run: (
            f"{_at_the_end(run.sigmoid)}, mean |a| {run.sigmoid.mean_magnitude.median[50]:.3f}; inputs "
            f"{run.sigmoid.inputs_verdict}, their spread {run.sigmoid.spread.median[10]:.2g} at layer 10; "
            f"{_gradients(run.sigmoid)}"
        ),
        "sigmoids stay near 1/2 whatever the input: the magnitude is an offset, and every input gives the same "
        "output",
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
        "Kaiming keeps gelu's signal as it keeps relu's",
        lambda run: f"magnitude {run.gelu.activations.verdict}; {_grown(run.gelu, 50)} at layer 50",
        "gelu passes half of the second moment of large inputs, less of small ones: what shrinks shrinks faster",
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
    (
        "residual additions make the variance grow in proportion to the number N of layers",
        lambda run: (
            f"12 layers, 24 additions: behind LayerNorm variance x {_variance(run.normed):.3g} beside 1 + 2N = "
            f"25; bare x {_variance(run.bare):.3g} beside 2**24 = 1.68e+07"
        ),
        "true where every branch reads a normalized input, and so adds the same; a bare stream doubles each time",
    ),
    (
        "the factor 1 / sqrt(2N) keeps a residual stream's magnitude",
        lambda run: f"behind LayerNorm variance x {_variance(run.scaled):.3g} beside 2",
        "2N additions of 1 / 2N each add 1 in all, whatever N",
    ),
)
"""A claim, its measurement in words, and the reason for the difference."""


def _grown(run: Propagation, layer: int, digits: int = 2) -> str:
    return f"rms x {run.activations.ratio(layer):.{digits}g}"


def _at_the_end(run: Propagation) -> str:
    return f"rms {run.activations.median[LAYERS]:.3f}"


def _gradients(run: Propagation) -> str:
    return f"gradients at the input x {run.gradients.ratio(0):.2g}"


def _variance(run: Propagation) -> float:
    return run.activations.ratio(run.stack.layers) ** 2


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
        Fourteen networks, each 512 wide, and a table of twelve claims.
    """
    stacks = [_stack(name, start, inputs=inputs, **options) for name, start, options in _STACKS.values()]
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
    return measure((_stack(activation, initializer, layers=layers, inputs=inputs),), seeds, seed)[0]


def _stack(activation: str, initializer: Initializer | str, layers: int = LAYERS, **options: Any) -> Stack:
    return Stack(activation, initializer, layers, WIDTH, **options)  # type: ignore[arg-type]
