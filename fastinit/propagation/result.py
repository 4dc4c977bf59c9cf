"""Results: `Signal` is one magnitude layer by layer, `Propagation` one network, `Comparison` several."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..views.result import Result
from ..views.table import Cell, Table, counted
from .stack import Stack

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = (1, 10, 25, 50, 100)
"""The layers that a table of several networks shows."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One magnitude at every layer; entry 0 is the network's input.

    Attributes
    ----------
    median, low, high : tuple of float
        Over the seeds. Past float64's range a magnitude is inf or 0; a gradient through such a layer is nan.
    expected : tuple of float or None
        The same from theory; None where it says nothing.
    start : int
        The layer at which the signal enters: 0 for activations, the last for gradients.
    LOWEST, HIGHEST : float
        The band, over the magnitude at the start, in which a signal is called stable.
    """

    median: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    expected: tuple[float, ...] | None
    start: int

    LOWEST: ClassVar[float] = 0.5
    HIGHEST: ClassVar[float] = 2.0

    @property
    def end(self) -> int:
        """The layer at which the signal leaves."""
        return len(self.median) - 1 - self.start

    def ratio(self, layer: int) -> float:
        """Return the median at a layer over that at `start`."""
        return self.median[layer] / self.median[self.start]

    @property
    def leaves(self) -> int | None:
        """The first layer, from `start` on, whose median leaves 0.5 to 2 times that at `start`; None: none."""
        layers = range(len(self.median))
        for layer in reversed(layers) if self.start else layers:
            if not self.LOWEST <= self.ratio(layer) <= self.HIGHEST:
                return layer
        return None

    @property
    def verdict(self) -> str:
        """Holds, or explodes or vanishes at the layer where it leaves the band."""
        layer = self.leaves
        if layer is None:
            return "holds"
        return f"{'vanishes' if self.ratio(layer) < self.LOWEST else 'explodes'} at layer {layer}"

    def row(self, marks: list[int]) -> tuple[Cell, ...]:
        """Return the signal over its start: at the marks it reaches, then its end with range and expectation."""
        start, end = self.median[self.start], self.end
        last = (self.median[end], self.low[end], self.high[end])
        return (
            *(self.ratio(mark) if mark < len(self.median) else None for mark in marks),
            *(value / start for value in last),
            None if self.expected is None else self.expected[end] / self.expected[self.start],
        )

    def facts(self) -> dict[str, Any]:
        """Return the signal as plain JSON; a magnitude that is not finite is the text ``inf`` or ``nan``."""
        return {name: _json(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Propagation(Result):
    """How large the signals of a network are, layer by layer.

    Attributes
    ----------
    stack : Stack
        The network.
    seeds, seed : int
        How many networks were measured, and the seed of the first; the others follow it.
    mean_magnitude, activations, gradients : Signal
        Mean absolute activation, rms of the activations, rms of the gradients with respect to them.
    distinct_units : int
        Different units of the last layer, as in `Measurement`: the fewest over the seeds.
    """

    stack: Stack
    seeds: int
    seed: int
    mean_magnitude: Signal
    activations: Signal
    gradients: Signal
    distinct_units: int

    @property
    def sample(self) -> str:
        """The sizes and the sample of the measurement, in words."""
        stack = self.stack
        return f"width {stack.width}, {stack.inputs} inputs from N(0, 1), {self.seeds} seeds from {self.seed}"

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON; a magnitude that is not finite is the text ``inf`` or ``nan``."""
        return self.stack.facts() | {
            "seeds": self.seeds,
            "seed": self.seed,
            "mean_magnitude": self.mean_magnitude.facts(),
            "activations": self.activations.facts(),
            "gradients": self.gradients.facts(),
            "distinct_units": self.distinct_units,
            "verdict": self.activations.verdict,
            "gradient_verdict": self.gradients.verdict,
        }

    def tables(self) -> tuple[Table, ...]:
        """Return one table, a row for each layer."""
        columns = ("layer", "mean |a|", "expected", "rms", "lowest", "highest", "expected",
                   "gradient rms", "lowest", "highest", "expected")  # fmt: skip
        layers = range(self.stack.layers + 1)
        nothing = (None,) * len(layers)
        cells: list[Iterable[Cell]] = [layers, self.mean_magnitude.median, self.mean_magnitude.expected or nothing]
        for signal in (self.activations, self.gradients):
            cells += [signal.median, signal.low, signal.high, signal.expected or nothing]
        caption = f"{self.stack.name}: activations from layer 0, the input, down; gradients from the last layer up"
        return (Table(caption, columns, tuple(zip(*cells, strict=True))),)

    def lines(self) -> list[str]:
        """Return the sample, the rows of every layer, and the verdicts."""
        return [
            f"{self.stack.name}: {self.sample}",
            *self.tables()[0].lines(),
            f"the signal {self.activations.verdict}; the gradient {self.gradients.verdict}",
        ]

    def figure(self) -> Figure:
        """Return the drawing of the magnitudes against depth; needs matplotlib."""
        from .views import drawing  # noqa: PLC0415

        return drawing((self,))

    def page(self) -> str:
        """Return one self-contained HTML page; needs matplotlib."""
        from .views import page  # noqa: PLC0415

        return page(self.stack.name, self.sample, self)


@dataclass(frozen=True, slots=True)
class Comparison(Result):
    """Several networks side by side.

    Attributes
    ----------
    title : str
        The comparison in words.
    runs : tuple of Propagation
        One for each network.
    claims : Table or None
        Statements about the networks, each beside its measurement.
    """

    title: str
    runs: tuple[Propagation, ...]
    claims: Table | None = None

    def __repr__(self) -> str:
        return f"<Comparison of {counted(len(self.runs), 'network')}: {self.title}>"

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON."""
        claims = None if self.claims is None else [list(row) for row in self.claims.rows]
        return {"title": self.title, "claims": claims, "runs": [run.facts() for run in self.runs]}

    def tables(self) -> tuple[Table, ...]:
        """Return the activations, the gradients, and the claims where there are any."""
        deepest = max(run.stack.layers for run in self.runs)
        marks = [layer for layer in MARKS if layer <= deepest]
        above = [mark for mark in reversed(marks) if mark < deepest]
        both = (self._activations(marks), self._gradients(above))
        return both if self.claims is None else (*both, self.claims)

    def _activations(self, marks: list[int]) -> Table:
        return Table(
            "rms of the activations over the input's: median over the seeds, and the last layer's range",
            ("scheme", *(f"layer {mark}" for mark in marks), "last", "lowest", "highest", "expected", "mean |a|",
             "distinct units", "verdict"),
            tuple(
                (
                    run.stack.name,
                    *run.activations.row(marks),
                    run.mean_magnitude.median[-1],
                    run.distinct_units,
                    run.activations.verdict,
                )
                for run in self.runs
            ),
        )  # fmt: skip

    def _gradients(self, marks: list[int]) -> Table:
        return Table(
            "rms of the gradients over that at the last layer: median over the seeds, and the input's range",
            ("scheme", *(f"layer {mark}" for mark in marks), "input", "lowest", "highest", "expected", "verdict"),
            tuple((run.stack.name, *run.gradients.row(marks), run.gradients.verdict) for run in self.runs),
        )

    def lines(self) -> list[str]:
        """Return the title, the sample, and the tables with their captions."""
        lines = [self.title, self.runs[0].sample]
        for table in self.tables():
            lines += ["", table.caption, *table.lines()]
        return lines

    def figure(self) -> Figure:
        """Return the drawing of the magnitudes against depth, activations beside gradients; needs matplotlib."""
        from .views import drawing  # noqa: PLC0415

        return drawing(self.runs)

    def page(self) -> str:
        """Return one self-contained HTML page; needs matplotlib."""
        from .views import page  # noqa: PLC0415

        return page(self.title, self.runs[0].sample, self)


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
