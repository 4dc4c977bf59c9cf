"""Which initializer goes before an activation, in which network, and why: measured before it is said.

`recommend` tries the start that is said to suit an activation, then other scales, then a norm, then residual
layers behind a norm, and names the first network that its own measurement does not refute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, SupportsIndex

from .._engine.checks import as_u64
from .._engine.gains import squared_gain
from ..functions import as_text
from ..initializers import Initializer, Residual, VarianceScaling, kaiming, lecun, xavier
from ..propagation.activations import Function, as_activation
from ..propagation.experiments import measure
from ..propagation.fixed_point import ComputedGain, computed_gain, steady_scale
from ..propagation.result import Propagation
from ..propagation.signal import Signal
from ..propagation.stack import Stack
from ..views.result import Result
from ..views.table import Table

LAYERS = 50
"""Layers that a start must hold through; of a residual network, additions."""

_INPUTS, _SEEDS = 32, 5

# ---- what is said to suit an activation ----------------------------------------------------------------

_LECUN = "selu keeps mean 0 and variance 1 by itself with LeCun, variance 1 / fan_in (Klambauer et al., 2017)"
_SECOND_MOMENT = (
    "a signal through {activation} keeps its second moment with variance {scale:.4g} / fan_in, by He et al.'s "
    "(2015) equation 10"
)
_XAVIER = (
    "{activation} %s: Xavier, variance 2 / (fan_in + fan_out), lies between what keeps signals and what keeps "
    "gradients at one scale through a linear layer (Glorot and Bengio, 2010)"
)
_KAIMING = "{activation} %s half of its inputs: Kaiming, variance {scale:.4g} / fan_in, makes up for it"
_LIKE_RELU = (
    "{activation} passes about half of its inputs, and less of them than relu: Kaiming, variance {scale:.4g} / "
    "fan_in, as for relu"
)


def _kaiming(activation: str) -> Initializer:
    return kaiming("normal", activation)


def _xavier(_: str) -> Initializer:
    return xavier("uniform")


_SAID: dict[str, tuple[Callable[[str], Initializer], str]] = {
    "selu": (lambda _: lecun("normal"), _LECUN),
    "sigmoid": (_xavier, _XAVIER % "has slope 1/4 at 0"),
    "tanh": (_xavier, _XAVIER % "has slope 1 at 0"),
    "relu": (_kaiming, _KAIMING % "zeroes"),
    "leaky_relu": (_kaiming, _KAIMING % "shrinks"),
    "prelu": (_kaiming, _KAIMING % "shrinks"),
    **dict.fromkeys(("gelu", "gelu_tanh", "quick_gelu", "silu", "swish"), (_kaiming, _LIKE_RELU)),
    **dict.fromkeys(
        ("elu", "celu", "softplus", "mish", "hardswish", "relu6", "hardtanh", "softsign"),
        (_kaiming, _SECOND_MOMENT),
    ),
}
"""activation -> a function that makes its initializer, and the reason; `_LINEAR` serves the others."""
_LINEAR = (_xavier, _XAVIER % "is linear")


def _said(activation: str | Function, gain: ComputedGain) -> tuple[Initializer, str]:
    """Return the start that is said to suit an activation, and why; of a callable, what the equation gives."""
    if isinstance(activation, str):
        make, why = _SAID.get(activation, _LINEAR)
        return make(activation), why.format(activation=activation, scale=squared_gain(activation))
    return _scaled(gain.scale), _SECOND_MOMENT.format(activation=gain.activation, scale=gain.scale)


def _scaled(scale: float, digits: int = 6) -> Initializer:
    return VarianceScaling(float(f"{scale:.{digits}g}"), "fan_in", "normal")


# ---- what is measured ------------------------------------------------------------------------------------


def _plain(activation: str | Function, start: Initializer, gain: ComputedGain) -> Iterator[Stack]:
    """Return the starts of plain layers worth trying, the said one first."""
    yield Stack(activation, start, LAYERS, inputs=_INPUTS)
    computed = _scaled(gain.scale)
    if not _same_scale(computed, start):
        yield Stack(activation, computed, LAYERS, inputs=_INPUTS)
    steady = steady_scale(activation, LAYERS, Signal.LOWEST, Signal.HIGHEST)
    if steady is not None:
        yield Stack(activation, _scaled(steady, 2), LAYERS, inputs=_INPUTS)


def _same_scale(one: Initializer, other: Initializer) -> bool:
    """Say whether two initializers give a square matrix one variance, to six digits."""
    shape = 512, 512
    return abs(one.for_shape(shape).variance(shape) / other.for_shape(shape).variance(shape) - 1) < 1e-5


def _normalized(activation: str | Function, start: Initializer) -> Iterator[Stack]:
    for norm in ("rms", "layer"):
        yield Stack(activation, start, LAYERS, inputs=_INPUTS, norm=norm)
    yield from _residual(activation, start)


def _residual(activation: str | Function, start: Initializer) -> Iterator[Stack]:
    """Return residual streams whose layers read LayerNorm: with the start before the activation too, then LeCun's.

    LeCun's gives what the norm made a second moment of 1 before the activation, where its gain is computed.
    """
    for reads in (start, lecun("normal")):
        writes = Residual(start, LAYERS // 2)
        yield Stack(activation, reads, LAYERS, inputs=_INPUTS, residual=True, norm="layer", writes=writes)


def _tried(stacks: Iterator[Stack]) -> list[Propagation]:
    """Measure networks in turn, to the first that holds."""
    runs: list[Propagation] = []
    for stack in stacks:
        runs += measure((stack,), _SEEDS)
        if runs[-1].holds:
            break
    return runs


@dataclass(frozen=True, slots=True)
class Recommendation(Result):
    """An initializer for the weights in front of an activation, the network in which it holds, and why.

    Attributes
    ----------
    activation : str
        The activation in front of which the weights stand.
    initializer : Initializer or None
        For the weights; None where nothing that was tried holds.
    network : str
        The network in which it was measured to hold.
    reason : str
        Why, in words.
    gain : ComputedGain
        The activation's, beside the convention.
    trials : tuple of Propagation
        What was measured, in turn; the last one holds where there is an initializer.
    """

    activation: str
    initializer: Initializer | None
    network: str
    reason: str
    gain: ComputedGain
    trials: tuple[Propagation, ...]

    @property
    def scheme(self) -> str:
        """The initializer as it is typed, after ``--initializer`` too; "none" without one."""
        return "none" if self.initializer is None else as_text(self.initializer)

    def lines(self) -> list[str]:
        """Return the initializer with its network, the reason, the gain, and what was measured."""
        (table,) = self._measured()
        return [
            f"{self.activation}: {self.scheme}, {self.network}",
            self.reason,
            *self.gain.lines(),
            "",
            table.caption,
            *table.lines(),
        ]

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        return {
            "activation": self.activation,
            "initializer": None if self.initializer is None else self.initializer.to_json(),
            "scheme": self.scheme,
            "network": self.network,
            "reason": self.reason,
            "gain": self.gain.facts(),
            "trials": [run.facts() for run in self.trials],
        }

    def tables(self) -> tuple[Table, ...]:
        """Return the advice as a table of one row, the gain, and what was measured."""
        row = (self.activation, self.scheme, self.network, self.reason)
        names = ("activation", "initializer", "network", "reason")
        return (Table("Recommended before an activation", names, (row,)), *self.gain.tables(), *self._measured())

    def _measured(self) -> tuple[Table]:
        caption = f"Measured: {LAYERS} layers of 512 units, {_INPUTS} inputs, medians of {_SEEDS} seeds"
        names = ("network", "verdict", f"rms {LAYERS}", "expected", "correlation", "gradient", "expected")
        return (Table(caption, names, tuple(map(_row, self.trials))),)


def _row(run: Propagation) -> tuple[str | float | None, ...]:
    verdict = "holds" if run.holds else run.verdict
    rms, gradients = run.activations, run.gradients
    return (
        run.stack.name,
        verdict,
        rms.ratio(LAYERS),
        rms.expected_ratio(LAYERS),
        run.correlation.median[LAYERS],
        gradients.ratio(0),
        gradients.expected_ratio(0),
    )


def recommend(activation: str | Function, residual_layers: SupportsIndex | None = None) -> Recommendation:
    """Recommend an initializer for the weights in front of an activation, and measure it first.

    Parameters
    ----------
    activation : str or callable
        An activation that `gain` knows, or a function of one float array, element by element.
    residual_layers : int, optional
        The number of layers N of a residual network, for the projections that write to its residual stream.

    Returns
    -------
    Recommendation
        The initializer, the network in which it holds, the reason in words, and the measurements: magnitude and
        gradient within 0.5 to 2 times their start, and inputs told apart, through 50 layers of 512 units.

    Raises
    ------
    TypeError, ValueError
        For an unknown activation, and for a number of layers of a wrong type or range.

    Examples
    --------
    >>> import fastinit
    >>> advice = fastinit.recommend("relu")
    >>> advice.scheme, advice.network
    ('kaiming_normal', 'in plain layers')
    >>> advice = fastinit.recommend("gelu", residual_layers=12)
    >>> advice.scheme
    'residual(kaiming_normal, 12)'
    >>> advice.network
    'on what residual layers add, each of which reads LayerNorm'
    """
    as_activation(activation)  # refused before anything is measured
    if residual_layers is None:
        return _recommend(activation)
    return _recommend_residual(activation, as_u64(residual_layers, "residual_layers"))


@lru_cache(maxsize=128)  # of a few seconds each; by a callable's identity
def _recommend(activation: str | Function) -> Recommendation:
    gain = computed_gain(activation)
    start, why = _said(activation, gain)
    plain = _tried(_plain(activation, start, gain))
    normalized = [] if plain[-1].holds else _tried(_normalized(activation, start))
    trials = plain + normalized
    last = trials[-1]
    return Recommendation(
        gain.activation,
        last.stack.initializer if last.holds else None,
        _network(last),
        _reason(why, gain, plain, normalized),
        gain,
        tuple(trials),
    )


def _reason(why: str, gain: ComputedGain, plain: list[Propagation], normalized: list[Propagation]) -> str:
    """Return why a start is said to suit, and what the measurements say of it."""
    if plain[0].holds:
        return why
    measured = f"{why}; measured, {_departures(plain[0])}"
    if plain[-1].holds:
        return f"{measured}: {as_text(plain[-1].stack.initializer)} keeps both within 0.5 to 2"
    computed = f"the computed scale, {gain.scale:.4g} / fan_in, has a fixed point that {gain.fixed_point}"
    if len(plain) > 1:
        computed += f", and with it {_departures(plain[1])}"
    turns = (
        f"{_NETWORKS[run.stack.residual, run.stack.norm]}, {'all holds' if run.holds else _departures(run)}"
        for run in normalized
    )
    in_turn = "; ".join(turns)
    return f"{measured}; no scale holds through {LAYERS} plain layers: {computed}. Measured in turn: {in_turn}"


_NETWORKS: dict[tuple[bool, str | None], str] = {
    (False, "rms"): "with RMSNorm before each layer",
    (False, "layer"): "with LayerNorm before each layer",
    (True, "layer"): "in residual layers that read LayerNorm",
}


def _departures(run: Propagation) -> str:
    """Return the parts of a verdict that are not good."""
    parts = (
        ("the magnitude", run.activations.holds, run.activations.verdict),
        ("inputs", run.lost is None, run.inputs_verdict),
        ("the gradient", run.gradients.holds, run.gradients.verdict),
    )
    return ", ".join(f"{what} {verdict}" for what, holds, verdict in parts if not holds)


def _network(run: Propagation) -> str:
    """Return the network of a measurement in words."""
    stack = run.stack
    if not run.holds:
        return "because nothing that was tried holds"
    if stack.writes is not None:
        return f"in residual layers that read LayerNorm, with {as_text(stack.writes)} on what they add"
    return f"in plain layers {_NETWORKS[False, stack.norm]}" if stack.norm else "in plain layers"


@lru_cache(maxsize=128)
def _recommend_residual(activation: str | Function, layers: int) -> Recommendation:
    """Return the advice for the projections that write to the residual stream of so many layers."""
    gain = computed_gain(activation)
    start, why = _said(activation, gain)
    scaled = Residual(start, layers)
    trials = _tried(_residual(activation, start))
    run = trials[-1]
    return Recommendation(
        gain.activation,
        scaled if run.holds else None,
        "on what residual layers add, each of which reads LayerNorm" if run.holds else _network(run),
        f"{why}; each of {layers} layers adds to the residual stream twice: dividing by sqrt(2 * {layers}) keeps "
        "the sum of what they add independent of their number, where each reads a normalized input; without a "
        "norm it bounds the growth of the stream's second moment by about e",
        gain,
        tuple(trials),
    )
