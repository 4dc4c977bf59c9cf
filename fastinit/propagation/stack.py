"""Signals through depth: how large activations and gradients are after every layer, measured.

A batch is float32 numbers times a power of two (`_Batch`), so that a product costs what float32 costs and no depth
leaves the range of float64. Read `propagate` first, then `Stack.measure`; theory stands in `mean_field.py`.
`six_schemes`, `residual_stack` and `lesson` say what is worth comparing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._engine.checks import as_choice, as_u64
from .._engine.cpus import default_threads
from .._engine.gains import ACTIVATION_NAMES
from .._engine.generator import stream_for
from ..functions import as_initializer, initialize, normal
from ..initializers import ZEROS, Constant, Initializer, Normal, Residual, kaiming, lecun, xavier
from ..views.table import Cell, Table, counted, notebook
from .mean_field import ACTIVATIONS, Activation, expected

LOWEST, HIGHEST = 0.5, 2.0
"""The band in which rms over the rms at the start is called stable."""

MARKS = (1, 10, 25, 50, 100)
"""The layers that a table of several schemes shows."""

RUN_BYTES = 1024
"""About what waiting for one network takes, and its result."""

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Numbers times ``2**exponent``, one row an input: magnitudes that no floating-point number holds."""

    values: Array
    exponent: int = 0

    def __matmul__(self, matrix: Array) -> _Batch:
        return _Batch(self.values @ matrix, self.exponent)

    def __mul__(self, factors: Array) -> _Batch:
        return _Batch(self.values * factors, self.exponent)

    def __add__(self, other: _Batch) -> _Batch:
        large, small = (self, other) if self.exponent >= other.exponent else (other, self)
        share = np.ldexp(np.float32(1.0), small.exponent - large.exponent)
        return _Batch(large.values + small.values * share, large.exponent)

    @property
    def mean_magnitude(self) -> float:
        """The mean absolute value; inf or 0 past float64's range."""
        return float(np.ldexp(np.float64(np.abs(self.values).mean()), self.exponent))

    @property
    def rms(self) -> float:
        """The root of the mean square; inf or 0 past float64's range."""
        return float(np.ldexp(np.sqrt(np.float64(np.square(self.values).mean())), self.exponent))

    def normalized(self) -> _Batch:
        """Return the same numbers in float32, the largest of them between 1 and 2."""
        largest = max(float(self.values.max()), -float(self.values.min()))
        shift = math.frexp(largest)[1] - 1
        return _Batch((self.values / 2.0**shift).astype(np.float32, copy=False), self.exponent + shift)

    def through(self, activation: Activation) -> tuple[_Batch, Array]:
        """Return the activation of every number, and its slope there.

        A homogeneous one takes the values as they are, which is exact; any other the numbers meant, in float64
        where float32 might not hold them.
        """
        if activation.homogeneous:
            return _Batch(activation.value(self.values), self.exponent), activation.slope(self.values)
        dtype = np.float32 if abs(self.exponent) < 64 else np.float64
        meant = self.values * np.ldexp(dtype(1.0), self.exponent)
        return _Batch(activation.value(meant)).normalized(), activation.slope(meant)


@dataclass(frozen=True, slots=True)
class Stack:
    """A deep network at its start, and the batch that is sent through it.

    Attributes
    ----------
    activation : str
        A nonlinearity that `fastinit.gain` knows.
    initializer : Initializer
        Of every weight matrix; there are no biases. A str is read by `fastinit.initializers.parse`.
    layers, width : int
        The number of weight matrices, and of their rows and columns.
    inputs : int
        Inputs in the batch, from N(0, 1).
    residual : bool
        Layers ``x + f(x) @ W`` in place of ``f(x @ W)``: a residual stream without normalization.
    """

    activation: str
    initializer: Initializer
    layers: int = 50
    width: int = 512
    inputs: int = 256
    residual: bool = False

    def __post_init__(self) -> None:
        as_choice(self.activation, ACTIVATION_NAMES, "activation")
        if isinstance(self.initializer, str):
            object.__setattr__(self, "initializer", as_initializer(self.initializer))
        if not isinstance(self.initializer, Initializer):
            raise TypeError(f"initializer must be an initializer or the name of one, got {self.initializer!r}")
        for size in ("layers", "width", "inputs"):
            object.__setattr__(self, size, _count(getattr(self, size), size))

    @property
    def name(self) -> str:
        """The initializer and the activation."""
        stream = "x + f(x), " if self.residual else ""
        return f"{stream}{_label(self.initializer)} + {self.activation}"

    def measure(self, seed: int) -> tuple[list[tuple[float, float]], list[float], int]:
        """Send signals through the network of one seed, down and up.

        Returns
        -------
        forward : list of (float, float)
            Mean magnitude and rms of the activations, at layers 0 to `layers`.
        backward : list of float
            Rms of the gradients with respect to them.
        distinct_units : int
            Units of the last layer of which no two give equal outputs.
        """
        activation, size = ACTIVATIONS[self.activation], (self.width, self.width)
        weights = np.empty((self.layers, *size), np.float32)
        slopes = np.empty((self.layers, self.inputs, self.width), np.float32)
        with np.errstate(all="ignore"):  # what leaves float64's range is reported, as inf or 0
            signal = self._sample(seed, "propagation.inputs")
            forward = [(signal.mean_magnitude, signal.rms)]
            for layer, matrix in enumerate(weights):
                initialize(
                    None, stream_for(seed, f"propagation.{layer}.weight"), self.initializer, out=matrix, threads=1
                )
                if self.residual:
                    branch, slopes[layer] = signal.through(activation)
                    signal = signal + branch @ matrix
                else:
                    signal, slopes[layer] = (signal @ matrix).through(activation)
                signal = signal.normalized()
                forward.append((signal.mean_magnitude, signal.rms))
            gradient = self._sample(seed, "propagation.gradients")
            backward = [gradient.rms]
            for matrix, slope in zip(weights[::-1], slopes[::-1], strict=True):
                arrived = gradient + gradient @ matrix.T * slope if self.residual else gradient * slope @ matrix.T
                gradient = arrived.normalized()
                backward.append(gradient.rms)
        return forward, backward[::-1], len({unit.tobytes() for unit in signal.values.T})

    def _sample(self, seed: int, name: str) -> _Batch:
        return _Batch(normal((self.inputs, self.width), stream_for(seed, name), dtype="float32")).normalized()


@dataclass(frozen=True, slots=True)
class Signal:
    """One magnitude at every layer; entry 0 is the network's input.

    Attributes
    ----------
    median, low, high : tuple of float
        Over the seeds. Past float64's range a magnitude is inf or 0; nan is a gradient through such a layer.
    expected : tuple of float or None
        What theory expects; None where it says nothing.
    start : int
        The layer at which the signal enters: 0 for activations, the last for gradients.
    """

    median: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    expected: tuple[float, ...] | None
    start: int

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
            if not LOWEST <= self.ratio(layer) <= HIGHEST:
                return layer
        return None

    @property
    def verdict(self) -> str:
        """Holds, or explodes or vanishes at the layer where it leaves the band."""
        layer = self.leaves
        if layer is None:
            return "holds"
        return f"{'vanishes' if self.ratio(layer) < LOWEST else 'explodes'} at layer {layer}"


@dataclass(frozen=True, slots=True)
class Propagation:
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
        Units of the last layer of which no two give equal outputs on all inputs: the fewest over the seeds.
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
        """What was measured, in words."""
        stack = self.stack
        return f"width {stack.width}, {stack.inputs} inputs from N(0, 1), {self.seeds} seeds from {self.seed}"

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON; a magnitude that is not finite is the text ``inf`` or ``nan``."""
        stack: dict[str, Any] = {field: getattr(self.stack, field) for field in Stack.__match_args__}
        return stack | {
            "initializer": self.stack.initializer.to_json(),
            "seeds": self.seeds,
            "seed": self.seed,
            **{
                name: {key: _json(value) for key, value in asdict(getattr(self, name)).items()}
                for name in ("mean_magnitude", "activations", "gradients")
            },
            "distinct_units": self.distinct_units,
            "verdict": self.activations.verdict,
            "gradient_verdict": self.gradients.verdict,
        }

    def tables(self) -> tuple[Table, ...]:
        """Return one table, a row a layer."""
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

    def _repr_html_(self) -> str:
        return notebook(self.tables())


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several networks side by side.

    Attributes
    ----------
    title : str
        What is compared.
    runs : tuple of Propagation
        One a scheme.
    claims : Table or None
        What a lesson's text says, beside what was measured.
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
        forward = Table(
            "rms of the activations over the input's: median over the seeds, and the last layer's range",
            ("scheme", *(f"layer {mark}" for mark in marks), "last", "lowest", "highest", "expected", "mean |a|",
             "distinct units", "verdict"),
            tuple(
                (
                    run.stack.name,
                    *_row(run.activations, marks),
                    run.mean_magnitude.median[-1],
                    run.distinct_units,
                    run.activations.verdict,
                )
                for run in self.runs
            ),
        )  # fmt: skip
        above = [mark for mark in reversed(marks) if mark < deepest]
        backward = Table(
            "rms of the gradients over that at the last layer: median over the seeds, and the input's range",
            ("scheme", *(f"layer {mark}" for mark in above), "input", "lowest", "highest", "expected", "verdict"),
            tuple((run.stack.name, *_row(run.gradients, above), run.gradients.verdict) for run in self.runs),
        )
        return (forward, backward) if self.claims is None else (forward, backward, self.claims)

    def lines(self) -> list[str]:
        """Return the title, the sample, and the tables with their captions."""
        lines = [self.title, self.runs[0].sample]
        for table in self.tables():
            lines += ["", table.caption, *table.lines()]
        return lines

    def _repr_html_(self) -> str:
        return notebook(self.tables())


def propagate(
    activation: str,
    init: Initializer | str,
    layers: int = 50,
    width: int = 512,
    *,
    inputs: int = 256,
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
    residual: bool = False,
) -> Propagation:
    """Measure how large activations and gradients are at every layer of a starting network.

    Parameters
    ----------
    activation, init, layers, width, inputs, residual
        The network and its batch, as in `Stack`.
    seeds : int
        Networks measured, each with weights and inputs of its own.
    seed : int
        Of the first network; the others follow it.

    Returns
    -------
    Propagation
        The magnitudes, what theory expects of them, and the verdicts.

    Raises
    ------
    ValueError, TypeError
        For an unknown activation or initializer, for a size of 0, and for sizes past this machine's memory.

    Notes
    -----
    *Reproducibility.* Weights come from the streams ``propagation.<layer>.weight`` of each seed, inputs from
    ``propagation.inputs``, and the gradients at the last layer, N(0, 1), from ``propagation.gradients``. Products
    are BLAS's in float32, so that magnitudes agree to about five digits across machines.

    *Expected.* `fastinit.propagation.mean_field.expected`: means over the weights of an infinitely wide network.
    The median of a deep and narrow one lies below them, for the fluctuations of its layers multiply.

    Examples
    --------
    >>> from fastinit.propagation.stack import propagate
    >>> run = propagate("relu", "kaiming_normal", layers=4, width=64, inputs=64, seeds=3)
    >>> run.activations.verdict
    'holds'
    >>> [round(rms, 6) for rms in run.activations.expected]
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    stack = Stack(activation, init, layers, width, inputs, residual)  # type: ignore[arg-type]
    return measure((stack,), seeds, seed)[0]


def measure(
    stacks: Sequence[Stack], seeds: SupportsIndex = 5, seed: SupportsIndex = 17
) -> tuple[Propagation, ...]:
    """Measure several networks as `propagate` measures one, on all CPUs.

    A BLAS that starts threads of its own for every product gets in the way: set ``OMP_NUM_THREADS=1`` before numpy
    is loaded, as the command does.
    """
    count, first = _count(seeds, "seeds"), as_u64(seed, "seed")
    as_u64(first + count - 1, "the last seed")
    _refuse_too_large(stacks, count)
    # The products of one network wait for each other; whole networks do not.
    with ThreadPoolExecutor(default_threads()) as pool:
        found = list(pool.map(Stack.measure, *zip(*product(stacks, range(first, first + count)), strict=True)))
    return tuple(_propagation(stack, first, found[k * count : (k + 1) * count]) for k, stack in enumerate(stacks))


def _refuse_too_large(stacks: Sequence[Stack], seeds: int) -> None:
    """Refuse what no memory here holds, before a product is computed."""
    runs = len(stacks) * seeds
    largest = max(stack.layers * stack.width * (stack.width + stack.inputs) for stack in stacks)
    needed = 4 * largest * min(runs, default_threads()) + runs * RUN_BYTES
    if needed > _memory():
        raise ValueError(
            f"{runs:,} networks of such sizes need {needed / 2**30:,.1f} GiB of memory, and there are "
            f"{_memory() / 2**30:,.1f}; take fewer layers, units, inputs or seeds"
        )


def _memory() -> float:
    """Return the bytes of memory of this machine; inf where it does not say."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _propagation(
    stack: Stack, seed: int, found: list[tuple[list[tuple[float, float]], list[float], int]]
) -> Propagation:
    """Reduce what each seed gave to median and range, beside what is expected."""
    both, backward, distinct = zip(*found, strict=True)
    forward = np.array(both)
    forward[np.isnan(forward)] = np.inf  # of numbers past the range
    means, rms, gradients = expected(
        stack.activation, stack.initializer, stack.layers, stack.width, stack.residual
    )
    return Propagation(
        stack,
        len(found),
        seed,
        _signal(forward[..., 0], means, 0),
        _signal(forward[..., 1], rms, 0),
        _signal(np.array(backward), gradients, stack.layers),
        min(distinct),
    )


def _signal(sizes: Array, of_theory: tuple[float, ...] | None, start: int) -> Signal:
    median, low, high = np.median(sizes, axis=0), sizes.min(axis=0), sizes.max(axis=0)
    return Signal(tuple(median.tolist()), tuple(low.tolist()), tuple(high.tolist()), of_theory, start)


def _count(value: SupportsIndex, what: str) -> int:
    count = as_u64(value, what)
    if count == 0:
        raise ValueError(f"{what} must be at least 1, got 0")
    return count


# ---- what is worth comparing -------------------------------------------------------------------------


def six_schemes(
    activation: str = "relu",
    layers: int = 50,
    width: int = 512,
    inputs: int = 256,
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
) -> Comparison:
    """Compare zero, N(0, 1), N(0, 0.01), Xavier and Kaiming before an activation, and LeCun before selu.

    Parameters
    ----------
    activation : str
        Of the first five.
    layers, width, inputs, seeds, seed
        As in `propagate`.
    """
    starts = (ZEROS, Normal(), Normal(std=0.01), xavier("normal"), kaiming("normal"))
    stacks = [Stack(activation, start, layers, width, inputs) for start in starts]
    stacks.append(Stack("selu", lecun("normal"), layers, width, inputs))
    return Comparison("Six starts of one network", measure(stacks, seeds, seed))


def residual_stack(
    blocks: SupportsIndex,
    activation: str = "relu",
    init: Initializer | str = "kaiming_normal",
    width: int = 512,
    inputs: int = 256,
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
) -> Comparison:
    """Compare a residual stack of ``2 * blocks`` additions with and without the factor ``1 / sqrt(2 * blocks)``.

    Parameters
    ----------
    blocks : int
        The layers N of a transformer, each of which adds to the residual stream twice.
    activation, init
        As in `propagate`.
    width, inputs, seeds, seed
        As in `propagate`.
    """
    n = _count(blocks, "blocks")
    plain = Stack(activation, init, 2 * n, width, inputs, residual=True)  # type: ignore[arg-type]
    scaled = replace(plain, initializer=Residual(plain.initializer, n))
    title = f"A residual stack of {2 * n} additions, without and with the factor 1 / sqrt({2 * n})"
    return Comparison(title, measure((plain, scaled), seeds, seed))


def lesson(inputs: int = 256, seeds: SupportsIndex = 5, seed: SupportsIndex = 17) -> Comparison:
    """Measure what a lesson on initialization claims of networks 512 wide, and set the claims beside it.

    Parameters
    ----------
    inputs, seeds, seed
        As in `propagate`.
    """

    def stack(activation: str, initializer: Initializer, layers: int = 50) -> Stack:
        return Stack(activation, initializer, layers, inputs=inputs)

    runs = measure(
        (
            stack("relu", Normal()),
            stack("relu", Normal(std=0.01)),
            stack("relu", Normal(std=0.1)),
            stack("sigmoid", xavier("normal")),
            stack("tanh", xavier("normal")),
            stack("relu", xavier("normal")),
            stack("relu", kaiming("normal")),
            stack("relu", Constant(1 / 512)),
            stack("linear", Normal(), 10),
            stack("linear", Normal(std=0.001**0.5), 10),
        ),
        seeds,
        seed,
    )
    unit, narrow, wide, sigmoid, tanh, halved, kept, equal, grown, shrunk = runs
    claims = Table(
        "What is often said of them, and what was measured (medians over the seeds)",
        ("claim", "measured", "why"),
        (
            (
                "N(0, 1) + relu explodes by layer 5",
                f"{unit.activations.verdict}; rms x {unit.activations.ratio(5):.3g} at layer 5",
                "each layer multiplies the second moment by 512 / 2, rms by 16",
            ),
            (
                "N(0, 0.01) + relu vanishes by layer 10",
                f"std 0.01: {narrow.activations.verdict}, rms x {narrow.activations.ratio(10):.3g} at layer 10; "
                f"variance 0.01: {wide.activations.verdict}, x {wide.activations.ratio(10):.3g}",
                "true of the standard deviation, false of the variance: 512 * 0.01 / 2 is 2.56, above 1",
            ),
            (
                "Xavier + sigmoid is at about 1.0 at layer 50",
                f"rms {sigmoid.activations.median[50]:.3f}, mean |a| {sigmoid.mean_magnitude.median[50]:.3f}; "
                f"gradients at the input x {sigmoid.gradients.ratio(0):.2g}",
                "sigmoids stay near 1/2 whatever the input, and their slope near 1/4: the signal is lost",
            ),
            (
                "Xavier keeps tanh stable through dozens of layers",
                f"rms x {tanh.activations.ratio(10):.2g} at layer 10, x {tanh.activations.ratio(50):.2g} at layer "
                f"50; gradients at the input x {tanh.gradients.ratio(0):.2g}",
                "tanh is below its argument: rms falls as 1 / sqrt(2 * layer), slowly, but out of the band",
            ),
            (
                "with Xavier before relu the signal falls to 0.5**50 = 8.8e-16",
                f"rms x {halved.activations.ratio(50):.2g}, its square {halved.activations.ratio(50) ** 2:.2g}",
                "the variance is halved, so the magnitude falls by 0.71 a layer",
            ),
            (
                "Kaiming + relu is at about 1.0 at layer 50",
                f"rms {kept.activations.median[50]:.3f} ({kept.activations.low[50]:.3f} to "
                f"{kept.activations.high[50]:.3f} over the seeds), mean |a| {kept.mean_magnitude.median[50]:.3f}",
                "theory expects an rms of 1; the mean of half a normal is 1 / sqrt(pi) = 0.564 of its rms",
            ),
            (
                "equal weights make one unit of a layer",
                f"{equal.distinct_units} distinct of 512; with Kaiming {kept.distinct_units}",
                "units that start equal get equal gradients and stay equal",
            ),
            (
                "linear, Var(w) = 1: 512**10 = 1.2e27",
                f"variance x {grown.activations.ratio(10) ** 2:.3g}",
                "512**10 is 1.24e27",
            ),
            (
                "linear, Var(w) = 0.001: 0.512**10 = 0.00013",
                f"variance x {shrunk.activations.ratio(10) ** 2:.3g}",
                "0.512**10 is 0.00124: the claim is ten times too low",
            ),
        ),
    )
    return Comparison("Weight initialization and variance, 512 wide", runs, claims)


def _label(initializer: Initializer) -> str:
    if isinstance(initializer, Normal) and initializer.mean == 0:
        return f"N(0, std {initializer.std:.4g})"
    if isinstance(initializer, Constant):
        return f"constant {initializer.value:.4g}"
    return initializer.name


def _row(signal: Signal, marks: list[int]) -> tuple[Cell, ...]:
    """Return a signal over its start: at the marks it reaches, then median, range and expectation at its end."""
    start, end = signal.median[signal.start], signal.end
    last = (signal.median[end], signal.low[end], signal.high[end])
    return (
        *(signal.ratio(mark) if mark < len(signal.median) else None for mark in marks),
        *(value / start for value in last),
        None if signal.expected is None else signal.expected[end] / signal.expected[signal.start],
    )


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
