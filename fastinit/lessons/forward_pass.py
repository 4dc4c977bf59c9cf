"""The first forward pass of one image through the 784-10-10 network, step by step, from several starts."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, SupportsIndex

import numpy as np

from .._engine.checks import as_u64
from ..views.result import Result
from ..views.table import Table, captioned
from .digits import CLASSES, Digits, load_digits
from .network import forward, initial
from .training import HIDDEN, STARTS

DIGIT = 7
"""The image is the first of this digit."""

_SCALES = ("Xavier normal", "N(0, 1)", "N(0, variance 1e-5)")


@dataclass(frozen=True, slots=True)
class Pass:
    """One image through the network of one start.

    Attributes
    ----------
    start : str
        A key of `STARTS`.
    before : tuple of float
        The pre-activations of the hidden units.
    after : tuple of float
        What ReLU leaves of them.
    logits, probabilities : tuple of float
        Of the ten classes; the probabilities are the softmax of the logits.
    loss : float
        Minus the logarithm of the label's probability, in nats.
    mean_loss : float
        Mean loss over all training images.
    factor : float
        Measured over all training images and hidden units: the second moment of the pre-activations over that of
        the pixels.
    expected_factor : float
        784 times the variance of a weight.
    """

    start: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    loss: float
    mean_loss: float
    factor: float
    expected_factor: float

    @property
    def cut(self) -> int:
        """How many hidden units ReLU sets to 0."""
        return sum(value == 0 for value in self.after)


@dataclass(frozen=True, slots=True)
class FirstPass(Result):
    """One image on its first way through the network, from several starts with the same draws.

    Attributes
    ----------
    seed : int
        Of all weights.
    image, label : int
        The training image's number, and its digit.
    energy : float
        The sum of its squared pixels: times the variance of a weight, the variance expected of a pre-activation.
    passes : tuple of Pass
        The first of which is shown step by step.
    """

    seed: int
    image: int
    label: int
    energy: float
    passes: tuple[Pass, ...]

    def tables(self) -> tuple[Table, ...]:
        """Return the steps of the first start, and all starts side by side."""
        shown = self.passes[0]
        steps = zip(range(HIDDEN), shown.before, shown.after, shown.logits, shown.probabilities, strict=True)
        return (
            Table(
                f"Measured: the first forward pass of image {self.image}, a {self.label}, from {shown.start}, "
                f"seed {self.seed}. A hidden unit's pre-activation, what ReLU leaves of it; a class's logit, its "
                "softmax.",
                ("unit or class", "pre-activation", "after ReLU", "logit", "probability"),
                tuple(steps),
            ),
            Table(
                "Measured: the same pass from starts with the same draws, and over all training images what the "
                "first matrix multiplies the second moment by, beside 784 times the variance of a weight; even "
                f"guesses lose ln 10 = {math.log(CLASSES):.3f}",
                ("start", "largest pre-activation", "units cut by ReLU", "largest probability",
                 "loss of the image", "mean loss", "second moment times", "expected"),
                tuple(
                    (each.start, max(map(abs, each.before)), each.cut, max(each.probabilities), each.loss,
                     each.mean_loss, each.factor, each.expected_factor)
                    for each in self.passes
                ),
            ),
        )  # fmt: skip

    def lines(self) -> list[str]:
        """Return both tables with their captions."""
        return captioned(self.tables())

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        return asdict(self)


def first_pass(digits: Digits | None = None, seed: SupportsIndex = 17) -> FirstPass:
    """Send the first image of a seven through the network, as it is before any training.

    Parameters
    ----------
    digits : Digits, optional
        The data; by default those of `load_digits`.
    seed : int, default 17
        Of all weights; 0 to 2**64 - 1.

    Returns
    -------
    FirstPass
        Pre-activations, what ReLU cuts, logits, softmax and loss, from Xavier's start and from others of its
        draws.

    Raises
    ------
    TypeError, ValueError
        For a seed of a wrong type or range, and for data without a seven.

    Examples
    --------
    >>> from fastinit.lessons import first_pass
    >>> found = first_pass()
    >>> found.label, [round(each.expected_factor, 4) for each in found.passes]
    (7, [1.9748, 784.0, 0.0078])
    """
    seed = as_u64(seed, "seed")
    digits = load_digits() if digits is None else digits
    sevens = np.flatnonzero(digits.labels == DIGIT)
    if not sevens.size:
        raise ValueError(f"no training image is a {DIGIT}; take images with all ten digits")
    image = int(sevens[0])
    energy = float(np.square(digits.images[image]).sum())
    return FirstPass(seed, image, DIGIT, energy, tuple(_pass(digits, image, seed, start) for start in _SCALES))


def _pass(digits: Digits, image: int, seed: int, start: str) -> Pass:
    parameters = initial((digits.pixels, HIDDEN, CLASSES), STARTS[start], seed)
    weight = parameters[0].tensor.value.values
    hidden, logits = forward(parameters, digits.images)
    before = digits.images @ weight
    shape = weight.shape
    return Pass(
        start,
        tuple(before[image].tolist()),
        tuple(hidden.value.values[image].tolist()),
        tuple(logits.value.values[image].tolist()),
        tuple(logits.softmax().value.values[image].tolist()),
        logits[image : image + 1].cross_entropy(digits.labels[image : image + 1]).item(),
        logits.cross_entropy(digits.labels).item(),
        float(np.square(before).mean() / np.square(digits.images).mean()),
        digits.pixels * STARTS[start].for_shape(shape).variance(shape),
    )
