"""The small network of the lessons: its parameters at the start, its training, and its measurements.

The network has one hidden layer and ten outputs. At the start its biases are zero, and its weights come from the
seed's streams ``layer.0.weight`` and ``layer.1.weight``: starts that differ in scale only share their draws.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import BinaryIO, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._engine.generator import stream_for
from .._engine.narrow import widened
from .._files.opening import open_file
from .._files.safetensors import Header, read_header
from ..autodiff import Tensor, TensorValue
from ..errors import TensorError
from ..functions import initialize
from ..initializers import ZEROS, Initializer
from ..parameters import NamedParameter, NamedParameters
from .digits import Digits, Floats

BATCH = 64
"""Images in one training step."""

_SAME = 1e-6  # relative tolerance of the rank: rounding sets equal units apart by 1e-11 at most


class Optimizer(Protocol):
    """An optimizer, as far as training uses it."""

    def step(self) -> None:
        """Move every parameter."""

    def zero_gradient(self) -> None:
        """Forget every gradient."""


# ---- parameters ----------------------------------------------------------------------------------------


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

    Parameters
    ----------
    path : path
        The file.
    sizes : sequence of int
        Inputs, hidden units, classes.

    Raises
    ------
    CheckpointError
        If the file is not a ``.safetensors`` file.
    ValueError
        If it cannot be opened; if it lacks a parameter, or has it in another shape, as integers, or not finite.
    """
    path = Path(path)
    with open_file(path, ValueError) as file:
        header = read_header(file, str(path))
        return NamedParameters(
            _read_parameter(file, header, path, name, shape) for name, shape in shapes(sizes).items()
        )


def _read_parameter(
    file: BinaryIO, header: Header, path: Path, name: str, shape: tuple[int, ...]
) -> NamedParameter:
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
        return NamedParameter.from_tensor(name, Tensor(values.reshape(shape)))
    except TensorError as error:
        raise ValueError(f"{path}: tensor {name!r}: {error}") from error


# ---- training ------------------------------------------------------------------------------------------


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


def run(training: Iterator[None], epochs: int) -> None:
    """Train for so many epochs, and measure nothing in between."""
    for _ in islice(training, epochs):
        pass


# ---- measuring -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """A network between two epochs, measured.

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
        rank=int(np.linalg.matrix_rank(np.vstack([weight, bias]), rtol=_SAME)),
        cosine=largest_cosine(weight),
    )


def measured(
    parameters: NamedParameters, digits: Digits, training: Iterator[None], epochs: int
) -> tuple[State, ...]:
    """Go on training for so many epochs; return the states before the first and after each."""
    states = [measure(parameters, digits)]
    for _ in islice(training, epochs):
        states.append(measure(parameters, digits))
    return tuple(states)


def largest_cosine(weight: Floats) -> float | None:
    """Return the largest magnitude of a cosine between two columns that are not zero; None without two."""
    lengths = np.linalg.norm(weight, axis=0)
    units = weight[:, lengths > 0] / lengths[lengths > 0]
    if units.shape[1] < 2:
        return None
    return float(np.abs(np.triu(units.T @ units, 1)).max())
