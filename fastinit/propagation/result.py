"""Results: `Propagation` is one network, `Comparison` several; `signal.py` has what is measured of a layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..views.result import Result
from ..views.table import Cell, Table, captioned, counted
from .signal import Profile, Signal
from .stack import Stack

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = (1, 10, 25, 50, 100)
"""The layers that a table of several networks shows."""


@dataclass(frozen=True, slots=True)
class Propagation(Result):
    """How large and how different the signals of a network are, layer by layer.

    Attributes
    ----------
    stack : Stack
        The network.
    seeds, seed : int
        How many networks were measured, and the seed of the first; the others follow it.
    mean_magnitude : Profile
        Mean absolute activation.
    activations : Signal
        Rms of the activations.
    spread : Signal
        Over the inputs, as in `Measurement`.
    correlation : Profile
        Of two inputs.
    gradients : Signal
        Rms of the gradients with respect to the activations.
    distinct_units : int
        Different units of the last layer, as in `Measurement`: the fewest over the seeds.
    NEAREST : float
        The spread over the inputs, as a share of the magnitude, below which inputs count as one: half of the step
        of bfloat16's numbers. A network trained in it then stores equal activations for most inputs.
    """

    stack: Stack
    seeds: int
    seed: int
    mean_magnitude: Profile
    activations: Signal
    spread: Signal
    correlation: Profile
    gradients: Signal
    distinct_units: int

    NEAREST: ClassVar[float] = 2.0**-8

    @property
    def holds(self) -> bool:
        """Whether magnitude and gradient stay in their band, and inputs and units can be told apart."""
        return self.activations.holds and self.lost is None and self.gradients.holds and not self.one_unit

    @property
    def lost(self) -> int | None:
        """The first layer at which inputs can no longer be told apart, by direction or by length; None: none."""
        sizes = zip(self.correlation.median, self.spread.median, self.activations.median, strict=True)
        for layer, (correlation, spread, rms) in enumerate(sizes):
            if not (1.0 - correlation >= self.NEAREST**2 or spread >= self.NEAREST * rms > 0):
                return layer
        return None

    @property
    def inputs_verdict(self) -> str:
        """Whether inputs can be told apart, and to which layer."""
        lost = self.lost
        return "can be told apart" if lost is None else f"can no longer be told apart from layer {lost}"

    @property
    def one_unit(self) -> bool:
        """Whether all units of the last layer are equal."""
        return self.distinct_units == 1 < self.stack.widths[-1]

    @property
    def verdict(self) -> str:
        """What became of magnitude, inputs, gradient and units."""
        units = "; all units are one" if self.one_unit else ""
        return (
            f"magnitude {self.activations.verdict}; inputs {self.inputs_verdict}; gradient "
            f"{self.gradients.verdict}{units}"
        )

    @property
    def sample(self) -> str:
        """The sizes and the sample of the measurement, in words."""
        stack = self.stack
        several = None if isinstance(stack.width, int) else ", ".join(map(str, stack.width))
        width = f"width {stack.width}" if several is None else f"widths {several} in turn"
        inputs, seeds = counted(stack.inputs, "input"), counted(self.seeds, "seed")
        return f"{width}, {inputs} from N(0, 1), {seeds} from {self.seed}"

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON; a magnitude that is not finite is the text ``inf`` or ``nan``."""
        return self.stack.facts() | {
            "seeds": self.seeds,
            "seed": self.seed,
            "mean_magnitude": self.mean_magnitude.facts(),
            "activations": self.activations.facts(),
            "spread": self.spread.facts(),
            "correlation": self.correlation.facts(),
            "gradients": self.gradients.facts(),
            "distinct_units": self.distinct_units,
            "holds": self.holds,
            "verdict": self.verdict,
        }

    def tables(self) -> tuple[Table, ...]:
        """Return two tables with a row for each layer: magnitudes, and how far inputs are told apart."""
        return (
            self._table(
                "activations from layer 0, the input, down; gradients from the last layer up",
                {"mean |a|": self.mean_magnitude, "rms": self.activations, "gradient rms": self.gradients},
            ),
            self._table(
                "spread of the activations over the inputs, and correlation of two inputs",
                {"spread": self.spread, "correlation": self.correlation},
            ),
        )

    def _table(self, about: str, profiles: dict[str, Profile]) -> Table:
        heads = (head for name in profiles for head in (name, "lowest", "highest", "expected"))
        layers = range(self.stack.layers + 1)
        cells = (
            column
            for profile in profiles.values()
            for column in (profile.median, profile.low, profile.high, profile.expected or (None,) * len(layers))
        )
        return Table(f"{self.stack.name}: {about}", ("layer", *heads), tuple(zip(layers, *cells, strict=True)))

    def lines(self) -> list[str]:
        """Return the sample, the rows of every layer, and the verdicts."""
        magnitudes, apart = self.tables()
        return [
            f"{self.stack.name}: {self.sample}",
            *magnitudes.lines(),
            "",
            apart.caption,
            *apart.lines(),
            self.verdict,
        ]

    def figure(self) -> Figure:
        """Return the drawing of the magnitudes against depth; needs matplotlib."""
        from .views import drawing  # noqa: PLC0415

        return drawing((self,))

    def page(self) -> str:
        """Return one self-contained HTML page; needs matplotlib."""
        from .views import page  # noqa: PLC0415

        return page(self.stack.name, (self,), self)


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
        """Return the verdicts, each magnitude at some layers, and the claims where there are any."""
        deepest = max(run.stack.layers for run in self.runs)
        marks = [layer for layer in MARKS if layer < deepest]
        down, up = [*marks, deepest], [0, *marks]
        tables = (
            self._verdicts(),
            self._sizes(down),
            self._at("spread over the inputs, over the input's", down, lambda run: run.spread),
            self._at("correlation of two inputs", down, lambda run: run.correlation),
            self._at("rms of the gradients over that at the last layer", up, lambda run: run.gradients),
        )
        return tables if self.claims is None else (*tables, self.claims)

    def _verdicts(self) -> Table:
        return Table(
            "Verdicts: magnitude and gradient hold within 0.5 to 2 times their start; inputs are one where their "
            "spread is below 2**-8 of the magnitude",
            ("scheme", "verdict", "magnitude", "inputs", "gradient", "distinct units"),
            tuple(
                (
                    run.stack.name,
                    "holds" if run.holds else "does not hold",
                    run.activations.verdict,
                    run.inputs_verdict,
                    run.gradients.verdict,
                    run.distinct_units,
                )
                for run in self.runs
            ),
        )

    def _sizes(self, layers: list[int]) -> Table:
        columns = [name for layer in layers for name in (f"rms {layer}", f"|a| {layer}")]
        return Table(
            "rms and mean |a| of the activations at some layers, median over the seeds; the last layer's rms "
            "beside its range and what is expected",
            ("scheme", *columns, "lowest", "highest", "expected"),
            tuple(
                (
                    run.stack.name,
                    *(
                        cell
                        for layer in layers
                        for cell in (_cell(run.activations.median, layer), _cell(run.mean_magnitude.median, layer))
                    ),
                    *_seeds(run.activations, run.stack.layers, 1.0),
                )
                for run in self.runs
            ),
        )

    def _at(self, about: str, layers: list[int], profile: Callable[[Propagation], Profile]) -> Table:
        """Return a table of a profile at some layers, with the range and the theory of the last one it passes."""
        rows = []
        for run in self.runs:
            found = profile(run)
            start = found.median[found.start] if isinstance(found, Signal) else 1.0
            end = found.end if isinstance(found, Signal) else run.stack.layers
            cells = (_cell(found.median, layer) for layer in layers)
            ratios = (None if cell is None else cell / start for cell in cells)
            rows.append((run.stack.name, *ratios, *_seeds(found, end, start)))
        names = (f"layer {layer}" for layer in layers)
        caption = (
            f"{about[0].upper()}{about[1:]}: median over the seeds; where it leaves the network, range and theory"
        )
        return Table(caption, ("scheme", *names, "lowest", "highest", "expected"), tuple(rows))

    def lines(self) -> list[str]:
        """Return the title, the sample, and the tables with their captions."""
        return [self.title, self.runs[0].sample, "", *captioned(self.tables())]

    def figure(self) -> Figure:
        """Return the drawing of magnitudes, correlation and gradients against depth; needs matplotlib."""
        from .views import drawing  # noqa: PLC0415

        return drawing(self.runs)

    def page(self) -> str:
        """Return one self-contained HTML page; needs matplotlib."""
        from .views import page  # noqa: PLC0415

        return page(self.title, self.runs, self)


def _cell(values: tuple[float, ...], layer: int) -> float | None:
    return values[layer] if layer < len(values) else None


def _seeds(profile: Profile, layer: int, start: float) -> tuple[Cell, ...]:
    """Return the range over the seeds at a layer, over the start's median, and what is expected of that ratio."""
    expected = None if profile.expected is None else profile.expected[layer]
    if isinstance(profile, Signal):
        expected = profile.expected_ratio(layer)
    return profile.low[layer] / start, profile.high[layer] / start, expected
