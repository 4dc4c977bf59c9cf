"""A deep network at its start, and one measurement of it: signals sent down, gradients sent up.

A batch is float32 numbers times a power of two (`_Batch`): a product then costs what float32 costs, and no depth
leaves the range of float64. Read `Stack.measure` first. `mean_field.py` holds the theory; `experiments.py` runs
several networks on several seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._engine.checks import as_choice, as_u64
from .._engine.gains import ACTIVATION_NAMES
from .._engine.generator import stream_for
from ..functions import as_initializer, initialize, normal
from ..initializers import Initializer
from .mean_field import ACTIVATIONS, Activation

_Array = npt.NDArray[Any]


class Measurement(NamedTuple):
    """The signals of one network.

    Attributes
    ----------
    forward : list of (float, float)
        Mean magnitude and rms of the activations, at layers 0 to the last.
    backward : list of float
        Rms of the gradients with respect to them.
    distinct_units : int
        Different units of the last layer. Units with equal outputs on all inputs count as one, and so do units
        with equal incoming weights (in a residual stack: which also add to equal numbers). Weights are compared
        because BLAS may sum equal columns in different orders: the outputs of equal units then differ in their
        last bits.
    """

    forward: list[tuple[float, float]]
    backward: list[float]
    distinct_units: int


@dataclass(frozen=True, slots=True)
class Stack:
    """A deep network at its start, and the batch that is sent through it.

    Attributes
    ----------
    activation : str
        An activation that `fastinit.gain` knows.
    initializer : Initializer
        Of every weight matrix; there are no biases. A str is read by `fastinit.functions.as_initializer`.
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
        object.__setattr__(self, "initializer", as_initializer(self.initializer))
        for size in ("layers", "width", "inputs"):
            object.__setattr__(self, size, as_count(getattr(self, size), size))

    @property
    def name(self) -> str:
        """The initializer and the activation."""
        stream = "x + f(x), " if self.residual else ""
        return f"{stream}{_label(self.initializer)} + {self.activation}"

    @property
    def nbytes(self) -> int:
        """Bytes that a measurement keeps: every weight and every slope, in float32."""
        return 4 * self.layers * self.width * (self.width + self.inputs)

    def facts(self) -> dict[str, Any]:
        """Return the network as plain JSON."""
        fields = {field: getattr(self, field) for field in Stack.__match_args__}
        return fields | {"initializer": self.initializer.to_json()}

    def measure(self, seed: int) -> Measurement:
        """Send signals through the network of one seed, down and up.

        Notes
        -----
        *Reproducibility.* Weights come from the streams ``propagation.<layer>.weight`` of the seed, inputs from
        ``propagation.inputs``, and the gradients at the last layer, N(0, 1), from ``propagation.gradients``.
        """
        network = _Network(self, seed)
        with np.errstate(all="ignore"):  # magnitudes past float64's range are reported, as inf or 0
            forward, distinct_units = network.forward()
            return Measurement(forward, network.backward(), distinct_units)


def as_count(value: SupportsIndex, what: str) -> int:
    """Return `value` as an int of at least 1, or raise an error that names `what`."""
    count = as_u64(value, what)
    if count == 0:
        raise ValueError(f"{what} must be at least 1, got 0")
    return count


def _label(initializer: Initializer) -> str:
    """Name an initializer in a table: its parameters where its own name does not tell them."""
    parameters = {"mean": 0, **initializer.to_json()}
    label = _LABELS.get(initializer.name) if parameters["mean"] == 0 else None
    return label.format_map(parameters) if label else initializer.name


_LABELS = {"normal": "N(0, std {std:.4g})", "constant": "constant {value:.4g}"}


class _Network:
    """The network of one seed, with all that the way up needs: its weights and its activations' slopes."""

    def __init__(self, stack: Stack, seed: int) -> None:
        self.stack, self.seed = stack, seed
        self.weights = np.empty((stack.layers, stack.width, stack.width), np.float32)
        self.slopes = np.empty((stack.layers, stack.inputs, stack.width), np.float32)

    def forward(self) -> tuple[list[tuple[float, float]], int]:
        """Return mean magnitude and rms at every layer, and the number of distinct units at the end."""
        signal = entering = self._sample("propagation.inputs")
        sizes = [(signal.mean_magnitude, signal.rms)]
        for layer in range(self.stack.layers):
            entering, signal = signal, self._layer(signal, layer)
            sizes.append((signal.mean_magnitude, signal.rms))
        units = self.weights[-1]
        if self.stack.residual:
            units = np.concatenate([units, entering.values])
        return sizes, _distinct(units, signal.values)

    def _layer(self, signal: _Batch, layer: int) -> _Batch:
        """Draw a layer's weights, and return the signal after it."""
        activation = ACTIVATIONS[self.stack.activation]
        matrix: _Array = self.weights[layer]
        stream = stream_for(self.seed, f"propagation.{layer}.weight")
        initialize(None, stream, self.stack.initializer, out=matrix, threads=1)
        if self.stack.residual:
            branch, self.slopes[layer] = signal.through(activation)
            return (signal + branch @ matrix).normalized()
        signal, self.slopes[layer] = (signal @ matrix).through(activation)
        return signal.normalized()

    def backward(self) -> list[float]:
        """Return the rms of the gradients at every layer, the input's first."""
        gradient = self._sample("propagation.gradients")
        sizes = [gradient.rms]
        for matrix, slope in zip(self.weights[::-1], self.slopes[::-1], strict=True):
            if self.stack.residual:
                gradient = (gradient + gradient @ matrix.T * slope).normalized()
            else:
                gradient = (gradient * slope @ matrix.T).normalized()
            sizes.append(gradient.rms)
        return sizes[::-1]

    def _sample(self, name: str) -> _Batch:
        shape = self.stack.inputs, self.stack.width
        return _Batch(normal(shape, stream_for(self.seed, name), dtype="float32")).normalized()


def _distinct(units: _Array, outputs: _Array) -> int:
    """Count the columns of `outputs` that differ, among columns of `units` that differ."""
    firsts = {unit.tobytes(): number for number, unit in enumerate(units.T)}.values()
    return len({outputs[:, number].tobytes() for number in firsts})


@dataclass(frozen=True, slots=True)
class _Batch:
    """Numbers times ``2**exponent``, a row for each input: magnitudes that no floating-point number holds."""

    values: _Array
    exponent: int = 0

    def __matmul__(self, matrix: _Array) -> _Batch:
        return _Batch(self.values @ matrix, self.exponent)

    def __mul__(self, factors: _Array) -> _Batch:
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
        """Return the same numbers in float32, the largest magnitude between 1 and 2."""
        largest = max(float(self.values.max()), -float(self.values.min()))
        shift = math.frexp(largest)[1] - 1
        return _Batch((self.values / 2.0**shift).astype(np.float32, copy=False), self.exponent + shift)

    def through(self, activation: Activation) -> tuple[_Batch, _Array]:
        """Return the activation of every number, and its slope there.

        Homogeneous activations ignore the exponent, which is exact. The others get ``values * 2**exponent``, in
        float64 where float32 might not hold it.
        """
        if activation.homogeneous:
            return _Batch(activation.value(self.values), self.exponent), activation.slope(self.values)
        dtype = np.float32 if abs(self.exponent) < 64 else np.float64
        meant = self.values * np.ldexp(dtype(1.0), self.exponent)
        return _Batch(activation.value(meant)).normalized(), activation.slope(meant)
