"""One small network trained from different starts: what the start decides, and what training makes up for.

`compare_starts` trains the same network from every start of `STARTS` and over several seeds; `train_digits` trains
one network well. The network has one hidden layer and ten outputs. At the start its biases are zero; its weights
come from the seed's streams ``layer.0.weight`` and ``layer.1.weight``, so starts that differ in scale only share
their draws.
"""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._engine.checks import as_choice, as_index, as_u64
from .._engine.generator import stream_for
from .._engine.narrow import widened
from .._files.opening import open_file
from .._files.safetensors import read_header
from ..autodiff import SGD, Adam, Momentum, Tensor, TensorValue
from ..errors import TensorError
from ..functions import initialize
from ..initializers import ZEROS, Constant, Initializer, Normal, Orthogonal, Uniform, kaiming, xavier
from ..parameters import NamedParameter, NamedParameters
from ..views.table import Table, notebook
from .digits import CLASSES, Digits, Floats, load_digits

HIDDEN = 10
BATCH = 64
TARGET = 0.95
SAME = 1e-6

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
PRETRAINED = "pretrained"
NOTES = (
    "loss: mean cross-entropy of the training images, in nats. accuracy: share of the held-out images read "
    "rightly after the last epoch, with the lowest and the highest seed. dead: share of hidden units that are 0 "
    "for every training image. units: rank of the hidden units' weights and biases, as many as there are "
    "different units in effect. cosine: the largest between the weights of two units, empty where they are zero. "
    "moved: the parameters of which training changed any bit."
)


class Optimizer(Protocol):
    """What training needs of an optimizer."""

    def step(self) -> None:
        """Move every parameter."""

    def zero_gradient(self) -> None:
        """Forget every gradient."""


OPTIMIZERS: Mapping[str, Callable[[NamedParameters], Optimizer]] = {
    "sgd": partial(SGD, learning_rate=0.03),
    "momentum": partial(Momentum, learning_rate=0.003),
    "adam": partial(Adam, learning_rate=0.003),
}


def shapes(sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the parameters of a network: name to shape, [inputs, outputs] and [outputs] for each layer."""
    found: dict[str, tuple[int, ...]] = {}
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        found |= {f"layer.{layer}.weight": (fan_in, fan_out), f"layer.{layer}.bias": (fan_out,)}
    return found


def initial(sizes: Sequence[int], initializer: Initializer, seed: SupportsIndex) -> NamedParameters:
    """Return the parameters at their start: each weight from the stream of its name, biases zero."""
    return NamedParameters(
        NamedParameter.from_tensor(
            name, Tensor(initialize(shape, stream_for(seed, name), initializer if len(shape) == 2 else ZEROS))
        )
        for name, shape in shapes(sizes).items()
    )


def read_parameters(path: str | os.PathLike[str], sizes: Sequence[int]) -> NamedParameters:
    """Read the parameters of a network from a ``.safetensors`` file; other tensors in it are left alone.

    Raises
    ------
    CheckpointError
        If it is no ``.safetensors`` file.
    ValueError
        If it lacks a parameter, or has it in another shape, as integers, or not finite.
    """
    path = Path(path)
    with open_file(path) as file:
        header = read_header(file, str(path))
        parameters = []
        for name, shape in shapes(sizes).items():
            tensor = header.specs.get(name)
            if tensor is None or tensor.shape != shape or not tensor.dtype.is_float:
                found = f"is {tensor.dtype.name} {list(tensor.shape)}" if tensor else "is not there"
                raise ValueError(
                    f"{path}: tensor {name!r} must be floating, shape {list(shape)}, and {found}; weights are "
                    "stored [inputs, outputs] (torch's Linear stores the transpose)"
                )
            file.seek(header.offsets[name])
            values = widened(file.read(tensor.nbytes), tensor.dtype)
            try:
                parameters.append(NamedParameter.from_tensor(name, Tensor(values.reshape(shape))))
            except TensorError as error:
                raise ValueError(f"{path}: tensor {name!r}: {error}") from error
    return NamedParameters(parameters)


def forward(
    parameters: NamedParameters, images: Floats, activation: str = "relu"
) -> tuple[TensorValue, TensorValue]:
    """Return the hidden layer's activations and the logits, [images, units] and [images, classes]."""
    weight, bias, out_weight, out_bias = (parameter.tensor for parameter in parameters)
    pixels = Tensor.of_finite(images.view())  # a view: a tensor's array becomes read-only
    before = TensorValue.constant(pixels) @ weight + bias
    hidden: TensorValue = getattr(before, activation)()
    return hidden, hidden @ out_weight + out_bias


def epochs_of(
    parameters: NamedParameters,
    images: Floats,
    labels: npt.NDArray[np.intp],
    optimizer: Optimizer,
    seed: SupportsIndex,
    activation: str = "relu",
) -> Iterator[None]:
    """Train in place, one epoch an iteration: batches of 64 in an order drawn from the seed's stream ``order``."""
    rng = stream_for(seed, "order")
    while True:
        order = np.argsort(rng.random(len(labels)))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            _, logits = forward(parameters, images[batch], activation)
            logits.cross_entropy(labels[batch]).backward()
            optimizer.step()
            optimizer.zero_gradient()
        yield


@dataclass(frozen=True, slots=True)
class State:
    """What is measured of a network between two epochs.

    Attributes
    ----------
    loss : float
        Mean cross-entropy over the training images, in nats.
    accuracy : float
        Share of the held-out images whose digit has the largest logit.
    dead : float
        Share of hidden units that are 0 for every training image: no gradient reaches them.
    rank : int
        Directions among the hidden units' incoming weights and biases (numerical rank, relative tolerance 1e-6):
        how many different units there are in effect.
    cosine : float or None
        The largest cosine, in magnitude, between two units' incoming weights; None where all but one are zero.
    """

    loss: float
    accuracy: float
    dead: float
    rank: int
    cosine: float | None


def measure(parameters: NamedParameters, digits: Digits) -> State:
    """Measure a network as it is."""
    hidden, logits = forward(parameters, digits.images)
    _, held_out = forward(parameters, digits.held_out_images)
    weight, bias = (parameter.tensor.value.values for parameter in parameters[:2])
    return State(
        loss=logits.cross_entropy(digits.labels).item(),
        accuracy=float(np.mean(held_out.value.values.argmax(axis=1) == digits.held_out_labels)),
        dead=float(np.mean((hidden.value.values == 0).all(axis=0))),
        rank=int(np.linalg.matrix_rank(np.vstack([weight, bias]), rtol=SAME)),
        cosine=largest_cosine(weight),
    )


def largest_cosine(weight: Floats) -> float | None:
    """Return the largest magnitude of a cosine between two columns that are not zero; None without two."""
    lengths = np.linalg.norm(weight, axis=0)
    units = weight[:, lengths > 0] / lengths[lengths > 0]
    if units.shape[1] < 2:
        return None
    return float(np.abs(np.triu(units.T @ units, 1)).max())


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


@dataclass(frozen=True, slots=True)
class StartComparison:
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
        """What was trained, with what, how long."""
        return (
            f"a {'-'.join(map(str, self.sizes))} ReLU network on {self.source}: {self.optimizer}, "
            f"epochs {self.epochs}, seeds {self.seeds}"
        )

    def tables(self) -> tuple[Table, ...]:
        """Return what was learnt from each start, and what became of the hidden units."""
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
        notes = textwrap.wrap(NOTES, 100)
        return [self.title, "", *learnt, "", *units, "", *notes, f"{self.seconds:.1f} s in all"]

    def facts(self) -> dict[str, Any]:
        """Return everything measured, as plain data: a list a quantity, [seed][epoch]."""
        quantities = State.__match_args__
        return {
            "source": self.source,
            "optimizer": self.optimizer,
            "sizes": list(self.sizes),
            "seeds": self.seeds,
            "epochs": self.epochs,
            "seconds": self.seconds,
            "starts": {
                start.name: {
                    "moved": list(start.moved),
                    **{q: [[getattr(state, q) for state in run] for run in start.states] for q in quantities},
                }
                for start in self.starts
            },
        }

    def _repr_html_(self) -> str:
        return notebook(self.tables())


def _learnt(start: Start) -> tuple[str | float, ...]:
    losses = start.curve("loss")[:, [0, -1]].mean(axis=0).tolist()
    accuracy = start.curve("accuracy")[:, -1]
    reached = [float(accuracy.mean()), float(accuracy.min()), float(accuracy.max())]
    moved = "all" if len(start.moved) == 4 else ", ".join(start.moved) or "nothing"
    return (start.name, *losses, *reached, moved)


def _units(start: Start) -> tuple[str | float | None, ...]:
    means = [start.curve(q)[:, epoch].mean() for q in ("dead", "rank", "cosine") for epoch in (0, -1)]
    return (start.name, *(None if np.isnan(mean) else float(mean) for mean in means))


def compare_starts(
    digits: Digits | None = None,
    *,
    seeds: int = 5,
    epochs: int = 30,
    optimizer: str = "sgd",
    pretrained: str | os.PathLike[str] | None = None,
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
        The plainest by default: what it makes of a start is the start's doing.
    pretrained : path, optional
        A ``.safetensors`` file of ``layer.0.weight`` [pixels, 10], ``layer.0.bias``, ``layer.1.weight`` [10, 10]
        and ``layer.1.bias``. By default He normal weights are trained for as many epochs on the first half of the
        training images.

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
    borrowed = (
        _pretrained(digits, sizes, epochs, make) if pretrained is None else read_parameters(pretrained, sizes)
    )
    makers: dict[str, Callable[[int], NamedParameters]] = {
        name: partial(initial, sizes, initializer) for name, initializer in STARTS.items()
    }
    makers[PRETRAINED] = lambda _seed: _copy(borrowed)
    starts = tuple(_start(name, begin, digits, seeds, epochs, make) for name, begin in makers.items())
    seconds = time.perf_counter() - began
    return StartComparison(digits.source, optimizer, sizes, seeds, epochs, seconds, starts)


def _start(
    name: str,
    begin: Callable[[int], NamedParameters],
    digits: Digits,
    seeds: int,
    epochs: int,
    make: Callable[[NamedParameters], Optimizer],
) -> Start:
    runs, moved = [], set()
    for seed in range(seeds):
        parameters = begin(seed)
        before = [parameter.tensor.value_snapshot() for parameter in parameters]
        states = [measure(parameters, digits)]
        training = epochs_of(parameters, digits.images, digits.labels, make(parameters), seed)
        for _ in islice(training, epochs):
            states.append(measure(parameters, digits))
        runs.append(tuple(states))
        moved |= {p.name for p, old in zip(parameters, before, strict=True) if p.tensor.value != old}
    return Start(name, tuple(runs), tuple(name for name in parameters.names if name in moved))


def _pretrained(
    digits: Digits, sizes: Sequence[int], epochs: int, make: Callable[[NamedParameters], Optimizer]
) -> NamedParameters:
    """Return the weights of an earlier run, over the first half of the training images."""
    seed = 17  # none of those compared
    parameters = initial(sizes, STARTS["He normal"], seed)
    half = len(digits.labels) // 2
    training = epochs_of(parameters, digits.images[:half], digits.labels[:half], make(parameters), seed)
    for _ in islice(training, epochs):
        pass
    return parameters


def _copy(parameters: NamedParameters) -> NamedParameters:
    return NamedParameters(NamedParameter.from_tensor(p.name, p.tensor.value) for p in parameters)


def _at_least_one(value: object, what: str) -> int:
    number = as_index(value, what)
    if number < 1:
        raise ValueError(f"{what} must be at least 1, got {number}")
    return number


@dataclass(frozen=True, slots=True)
class DigitsRun:
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
    def reached(self) -> bool:
        """Whether the last accuracy is at least 95 %."""
        return self.states[-1].accuracy >= TARGET

    def tables(self) -> tuple[Table, ...]:
        """Return one table, a row every five epochs."""
        caption = f"Measured: a {'-'.join(map(str, self.sizes))} ReLU network on {self.source}, seed {self.seed}"
        rows = [(epoch, state.loss, state.accuracy, state.dead) for epoch, state in enumerate(self.states)]
        return (Table(caption, ("epoch", "training loss", "held-out accuracy", "dead units"), tuple(rows[::5])),)

    def lines(self) -> list[str]:
        """Return the table, and what was reached in which time."""
        (table,) = self.tables()
        return [
            table.caption,
            *table.lines(),
            f"{100 * self.states[-1].accuracy:.1f} % of the held-out digits in {self.seconds:.2f} s "
            f"({'reached' if self.reached else 'missed'}: {100 * TARGET:.0f} %)",
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
            "reached": self.reached,
        }

    def _repr_html_(self) -> str:
        return notebook(self.tables())


def train_digits(seed: SupportsIndex = 17, epochs: int = 30) -> DigitsRun:
    """Train a 64-32-10 network, Kaiming normal, with Adam (0.01), on the 8 by 8 digits.

    Examples
    --------
    >>> from fastinit.lessons.training import train_digits
    >>> train_digits().reached
    True
    """
    began = time.perf_counter()
    seed, epochs = as_u64(seed, "seed"), _at_least_one(epochs, "epochs")
    digits = load_digits(8)
    sizes = (digits.pixels, 32, CLASSES)
    parameters = initial(sizes, kaiming("normal"), seed)
    training = epochs_of(parameters, digits.images, digits.labels, Adam(parameters, 0.01), seed)
    states = [measure(parameters, digits)]
    for _ in islice(training, epochs):
        states.append(measure(parameters, digits))
    return DigitsRun(digits.source, sizes, seed, tuple(states), time.perf_counter() - began)
