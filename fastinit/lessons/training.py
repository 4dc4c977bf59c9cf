"""One small network trained from different starts: how much the start decides, and how much training repairs.

`compare_starts` trains the network of `network.py` from every start of `STARTS` and over several seeds;
`train_digits` trains one network well.
"""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._engine.checks import as_choice, as_index, as_u64
from ..autodiff import SGD, Adam, Momentum
from ..initializers import ZEROS, Constant, Initializer, Normal, Orthogonal, Uniform, kaiming, xavier
from ..parameters import NamedParameter, NamedParameters
from ..views.result import Result
from ..views.table import Table
from .digits import CLASSES, Digits, load_digits
from .network import Optimizer, State, epochs_of, initial, measured, read_parameters, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..replay import Progress

HIDDEN = 10
"""Hidden units of the network that is compared."""
GOAL = 0.95
"""The held-out accuracy that `train_digits` must reach."""

STARTS: Mapping[str, Initializer] = {
    "zero": ZEROS,
    "constant 0.05": Constant(0.05),
    "uniform(-0.5, 0.5)": Uniform(-0.5, 0.5),
    "N(0, 1)": Normal(),
    "N(0, variance 1e-5)": Normal(std=1e-5**0.5),
    "Xavier normal": xavier("normal"),
    "He normal": kaiming("normal"),
    "orthogonal": Orthogonal(),
}
"""Name of a start -> the initializer of both weight matrices."""

OPTIMIZERS: Mapping[str, Callable[[NamedParameters], Optimizer]] = {
    "sgd": partial(SGD, learning_rate=0.03),
    "momentum": partial(Momentum, learning_rate=0.003),
    "adam": partial(Adam, learning_rate=0.003),
}
"""Name of an optimizer -> it, with the learning rate of the comparison."""

_PRETRAINED = "pretrained"
_EARLIER_SEED = 17  # of the pretrained weights: beyond the seeds 0 to 4 that are compared by default
_NOTES = (
    "loss: mean cross-entropy of the training images, in nats. accuracy: share of the held-out images read "
    "rightly after the last epoch, with the lowest and the highest seed. dead: share of hidden units that are 0 "
    "for every training image. units: rank of the hidden units' weights and biases, as many as there are "
    "different units in effect. cosine: the largest between the weights of two units, empty where they are zero. "
    "moved: the parameters of which training changed any bit."
)


@dataclass(frozen=True, slots=True)
class Start:
    """One start over all seeds.

    Attributes
    ----------
    name : str
        A key of `STARTS`, or "pretrained".
    states : tuple of tuple of State
        [seed][epoch]; epoch 0 is the start itself.
    moved : tuple of str
        The parameters of which training changed any bit.
    """

    name: str
    states: tuple[tuple[State, ...], ...]
    moved: tuple[str, ...]

    def curve(self, quantity: str) -> npt.NDArray[np.float64]:
        """Return one quantity of the states, [seeds, epochs + 1]; nan where there is none."""
        return np.array([[getattr(state, quantity) for state in run] for run in self.states], dtype=np.float64)

    def facts(self) -> dict[str, Any]:
        """Return everything measured, as plain data: a list a quantity, [seed][epoch]."""
        quantities = State.__match_args__
        curves: dict[str, Any] = {
            q: [[getattr(state, q) for state in run] for run in self.states] for q in quantities
        }
        return {"moved": list(self.moved), **curves}


@dataclass(frozen=True, slots=True)
class StartComparison(Result):
    """The same network from every start.

    Attributes
    ----------
    source, optimizer : str
        The data, and how the weights moved.
    sizes : tuple of int
        Inputs, hidden units, classes.
    seeds, epochs : int
        Runs of each start, with the seeds 0, 1, ...; passes over the data in a run.
    seconds : float
        All runs together, on this machine.
    starts : tuple of Start
        In the order of `STARTS`, the pretrained one last.
    """

    source: str
    optimizer: str
    sizes: tuple[int, ...]
    seeds: int
    epochs: int
    seconds: float
    starts: tuple[Start, ...]

    @property
    def title(self) -> str:
        """The network, the data, the optimizer, and the lengths of the runs."""
        return (
            f"a {'-'.join(map(str, self.sizes))} ReLU network on {self.source}: {self.optimizer}, "
            f"epochs {self.epochs}, seeds {self.seeds}"
        )

    @property
    def notes(self) -> str:
        """How to read the columns of the tables."""
        return _NOTES

    def tables(self) -> tuple[Table, ...]:
        """Return two tables, a row a start: loss and accuracy; the hidden units before and after."""
        learnt = Table(
            f"Measured, {self.title}: means over the seeds, lowest and highest seed",
            ("start", "loss before", "loss after", "accuracy", "lowest", "highest", "moved"),
            tuple(map(_learnt, self.starts)),
        )
        units = Table(
            "Measured, the same runs: hidden units before training and after, means over the seeds",
            ("start", "dead", "dead after", "units", "units after", "cosine", "cosine after"),
            tuple(map(_units, self.starts)),
        )
        return learnt, units

    def lines(self) -> list[str]:
        """Return the title, the tables and how to read them."""
        learnt, units = (table.lines() for table in self.tables())
        notes = textwrap.wrap(self.notes, 100)
        return [self.title, "", *learnt, "", *units, "", *notes, f"{self.seconds:.1f} s in all"]

    def facts(self) -> dict[str, Any]:
        """Return everything measured, as plain data."""
        return {
            "source": self.source,
            "optimizer": self.optimizer,
            "sizes": list(self.sizes),
            "seeds": self.seeds,
            "epochs": self.epochs,
            "seconds": self.seconds,
            "starts": {start.name: start.facts() for start in self.starts},
        }

    def figure(self) -> Figure:
        """Return the drawing: curves by epoch, hidden units before and after; needs matplotlib."""
        from .training_views import comparison_figure  # noqa: PLC0415

        return comparison_figure(self)

    def page(self) -> str:
        """Return the comparison as one self-contained HTML page; needs matplotlib."""
        from .training_views import comparison_page  # noqa: PLC0415

        return comparison_page(self)


def _learnt(start: Start) -> tuple[str | float, ...]:
    losses = start.curve("loss")[:, [0, -1]].mean(axis=0).tolist()
    accuracy = start.curve("accuracy")[:, -1]
    reached = [float(accuracy.mean()), float(accuracy.min()), float(accuracy.max())]
    moved = "all" if len(start.moved) == 4 else ", ".join(start.moved) or "nothing"
    return (start.name, *losses, *reached, moved)


def _units(start: Start) -> tuple[str | float | None, ...]:
    means = [start.curve(q)[:, epoch].mean() for q in ("dead", "rank", "cosine") for epoch in (0, -1)]
    return (start.name, *(None if np.isnan(mean) else float(mean) for mean in means))


_Begin = Callable[[int], NamedParameters]
_Make = Callable[[NamedParameters], Optimizer]


def compare_starts(
    digits: Digits | None = None,
    *,
    seeds: int = 5,
    epochs: int = 30,
    optimizer: str = "sgd",
    pretrained: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> StartComparison:
    """Train one network from every start of `STARTS`, and from pretrained weights.

    Parameters
    ----------
    digits : Digits, optional
        The data; by default those of `load_digits`, 784 pixels.
    seeds : int, default 5
        Runs of each start. A seed gives the weights and the order of the images.
    epochs : int, default 30
        Passes over the training images in a run.
    optimizer : {"sgd", "momentum", "adam"}, default "sgd"
        The plainest by default: the less it does by itself, the more of the result is the start's doing.
    pretrained : path, optional
        A ``.safetensors`` file of ``layer.0.weight`` [pixels, 10], ``layer.0.bias``, ``layer.1.weight`` [10, 10]
        and ``layer.1.bias``. By default He normal weights are trained for as many epochs on the first half of the
        training images.
    progress : callable, optional
        Called as ``progress(done, total, start)`` after every epoch; the numbers count epochs of all runs.

    Returns
    -------
    StartComparison
        Curves, dead units and similarity of units, for every start and seed.

    Raises
    ------
    ValueError
        For fewer than one seed or epoch, and an unknown optimizer.
    CheckpointError, ValueError
        If the pretrained weights cannot be read.
    """
    seeds, epochs = _at_least_one(seeds, "seeds"), _at_least_one(epochs, "epochs")
    make = OPTIMIZERS[as_choice(optimizer, OPTIMIZERS, "optimizer")]
    if digits is None:
        digits = load_digits()
    sizes = (digits.pixels, HIDDEN, CLASSES)
    began = time.perf_counter()
    ticks = _Ticks(progress, epochs * (seeds * (len(STARTS) + 1) + (pretrained is None)))
    borrowed = (
        _earlier(digits, sizes, epochs, make, ticks) if pretrained is None else read_parameters(pretrained, sizes)
    )
    begins: dict[str, _Begin] = {name: partial(initial, sizes, start) for name, start in STARTS.items()}
    begins[_PRETRAINED] = lambda _seed: _copy(borrowed)
    starts = tuple(_start(name, begin, digits, seeds, epochs, make, ticks) for name, begin in begins.items())
    seconds = time.perf_counter() - began
    return StartComparison(digits.source, optimizer, sizes, seeds, epochs, seconds, starts)


class _Ticks:
    """Tells a progress callable of one epoch after the other."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def each(self, training: Iterator[None], name: str) -> Iterator[None]:
        """Yield the epochs of a run, each of them told."""
        for epoch in training:
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._total, name)
            yield epoch


def _start(name: str, begin: _Begin, digits: Digits, seeds: int, epochs: int, make: _Make, ticks: _Ticks) -> Start:
    runs, moved = [], set()
    for seed in range(seeds):
        parameters = begin(seed)
        before = [parameter.tensor.value_snapshot() for parameter in parameters]
        training = epochs_of(parameters, digits.images, digits.labels, make(parameters), seed)
        runs.append(measured(parameters, digits, ticks.each(training, name), epochs))
        moved |= {p.name for p, old in zip(parameters, before, strict=True) if p.tensor.value != old}
    return Start(name, tuple(runs), tuple(name for name in parameters.names if name in moved))


def _earlier(digits: Digits, sizes: Sequence[int], epochs: int, make: _Make, ticks: _Ticks) -> NamedParameters:
    """Return the weights of an earlier run, over the first half of the training images."""
    parameters = initial(sizes, STARTS["He normal"], _EARLIER_SEED)
    half = len(digits.labels) // 2
    images, labels = digits.images[:half], digits.labels[:half]
    training = epochs_of(parameters, images, labels, make(parameters), _EARLIER_SEED)
    run(ticks.each(training, _PRETRAINED), epochs)
    return parameters


def _copy(parameters: NamedParameters) -> NamedParameters:
    return NamedParameters(NamedParameter.from_tensor(p.name, p.tensor.value) for p in parameters)


def _at_least_one(value: object, what: str) -> int:
    number = as_index(value, what)
    if number < 1:
        raise ValueError(f"{what} must be at least 1, got {number}")
    return number


@dataclass(frozen=True, slots=True)
class DigitsRun(Result):
    """One network trained on the digits.

    Attributes
    ----------
    source : str
        The data.
    sizes : tuple of int
        Inputs, hidden units, classes.
    seed : int
        Of the weights and of the order of the images.
    states : tuple of State
        Before the first epoch and after each.
    seconds : float
        Reading the data, training and measuring, on this machine.
    """

    source: str
    sizes: tuple[int, ...]
    seed: int
    states: tuple[State, ...]
    seconds: float

    @property
    def goal(self) -> float:
        """The accuracy to reach: `GOAL`."""
        return GOAL

    @property
    def passed(self) -> bool:
        """Whether the last accuracy is at least the goal of 95 %."""
        return self.states[-1].accuracy >= self.goal

    def tables(self) -> tuple[Table, ...]:
        """Return one table, a row every five epochs."""
        caption = f"Measured: a {'-'.join(map(str, self.sizes))} ReLU network on {self.source}, seed {self.seed}"
        rows = [(epoch, state.loss, state.accuracy, state.dead) for epoch, state in enumerate(self.states)]
        return (Table(caption, ("epoch", "training loss", "held-out accuracy", "dead units"), tuple(rows[::5])),)

    def lines(self) -> list[str]:
        """Return the table, then the accuracy reached and the time it took."""
        (table,) = self.tables()
        return [
            table.caption,
            *table.lines(),
            f"{100 * self.states[-1].accuracy:.1f} % of the held-out digits in {self.seconds:.2f} s "
            f"({'reached' if self.passed else 'missed'}: {100 * self.goal:.0f} %)",
        ]

    def facts(self) -> dict[str, Any]:
        """Return everything measured, as plain data."""
        return {
            "source": self.source,
            "sizes": list(self.sizes),
            "seed": self.seed,
            "loss": [state.loss for state in self.states],
            "accuracy": [state.accuracy for state in self.states],
            "seconds": self.seconds,
            "reached": self.passed,
        }

    def figure(self) -> Figure:
        """Return the drawing: loss and accuracy by epoch; needs matplotlib."""
        from .training_views import digits_figure  # noqa: PLC0415

        return digits_figure(self)

    def page(self) -> str:
        """Return the run as one self-contained HTML page; needs matplotlib."""
        from .training_views import digits_page  # noqa: PLC0415

        return digits_page(self)


def train_digits(seed: SupportsIndex = 17, epochs: int = 30, *, progress: Progress | None = None) -> DigitsRun:
    """Train a 64-32-10 network, Kaiming normal, with Adam (0.01), on the 8 by 8 digits.

    Parameters
    ----------
    seed : int, default 17
        Of the weights and of the order of the images; 0 to 2**64 - 1.
    epochs : int, default 30
        Passes over the training images; at least 1.
    progress : callable, optional
        Called as ``progress(done, total, "")`` after every epoch.

    Returns
    -------
    DigitsRun
        The states before the first epoch and after each.

    Examples
    --------
    >>> from fastinit.lessons.training import train_digits
    >>> train_digits().passed
    True
    """
    began = time.perf_counter()
    seed, epochs = as_u64(seed, "seed"), _at_least_one(epochs, "epochs")
    digits = load_digits(8)
    sizes = (digits.pixels, 32, CLASSES)
    parameters = initial(sizes, kaiming("normal"), seed)
    training = epochs_of(parameters, digits.images, digits.labels, Adam(parameters, 0.01), seed)
    states = measured(parameters, digits, _Ticks(progress, epochs).each(training, ""), epochs)
    return DigitsRun(digits.source, sizes, seed, states, time.perf_counter() - began)
