"""A deep network at its start, and one measurement of it: signals sent down, gradients sent up.

A batch is float32 numbers times a power of two (`_Batch`): a product then costs what float32 costs, and no depth
leaves the range of float64. Read `Stack.measure` first. `mean_field.py` holds the theory; `experiments.py` runs
several networks on several seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._engine.checks import as_u64
from .._engine.generator import stream_for
from ..functions import as_initializer, as_text, initialize, normal
from ..initializers import Initializer
from .activations import Activation, Function, as_activation
from .mean_field import NORMS, widths_of

_Array = npt.NDArray[Any]


class Measurement(NamedTuple):
    """The signals of one network, at layers 0 to the last.

    Attributes
    ----------
    mean_magnitude, rms : list of float
        Of the activations.
    spread : list of float
        Over the inputs: root mean square of the units' standard deviations (divided by n - 1). float32 resolves it
        to some 1e-8 of the rms.
    correlation : list of float
        Of two inputs: the mean cosine between the activations of two. nan where there are no two that are not all
        0.
    gradients : list of float
        Rms of the gradients with respect to the activations.
    distinct_units : int
        Different units of the last layer. Units with equal outputs on all inputs count as one, and so do units
        with equal incoming weights (in a residual stack: which also add to equal numbers). Weights are compared
        because BLAS may sum equal columns in different orders: the outputs of equal units then differ in their
        last bits.
    """

    mean_magnitude: list[float]
    rms: list[float]
    spread: list[float]
    correlation: list[float]
    gradients: list[float]
    distinct_units: int


@dataclass(frozen=True, slots=True)
class Stack:
    """A deep network at its start, and the batch that is sent through it.

    Attributes
    ----------
    activation : str or callable
        An activation that `fastinit.gain` knows, or a function of one array.
    initializer : Initializer
        Of every weight matrix; there are no biases. A str is read by `fastinit.functions.as_initializer`.
    layers : int
        The number of layers: of weight matrices, or of additions to a residual stream.
    width : int or tuple of int
        Units of every layer, or of layers 0, 1, ... in turn; a residual stream has one width.
    inputs : int
        Inputs in the batch, from N(0, 1); at least 2.
    residual : bool
        Layers ``x + f(x) @ W`` in place of ``f(x @ W)``: a residual stream. With `norm` they are
        ``x + f(norm(x) @ V) @ W``, as in a transformer that normalizes what its branches read.
    norm : {None, "rms", "layer"}
        What a layer's input passes first: RMSNorm or LayerNorm without gains, offsets and epsilon.
    writes : Initializer, optional
        Of the matrices W that write to a normalized residual stream, where they differ from `initializer`.
    """

    activation: str | Function
    initializer: Initializer
    layers: int = 50
    width: int | tuple[int, ...] = 512
    inputs: int = 256
    residual: bool = False
    norm: str | None = None
    writes: Initializer | None = None

    def __post_init__(self) -> None:
        as_activation(self.activation)
        object.__setattr__(self, "initializer", as_initializer(self.initializer))
        object.__setattr__(self, "layers", as_count(self.layers, "layers"))
        object.__setattr__(self, "width", _as_width(self.width))
        object.__setattr__(self, "inputs", as_count(self.inputs, "inputs"))
        if self.inputs == 1:
            raise ValueError("inputs must be at least 2: how far a network holds two inputs apart is measured")
        if self.norm not in NORMS:
            raise ValueError(f'norm is None, "rms" or "layer", got {self.norm!r}')
        if self.residual and not isinstance(self.width, int):
            raise ValueError(f"a residual stream has one width, got {self.width}")
        if self.writes is not None:
            if not (self.residual and self.norm):
                raise ValueError("writes belongs to a residual stream with a norm; other layers have one matrix")
            object.__setattr__(self, "writes", as_initializer(self.writes))

    @property
    def name(self) -> str:
        """The initializer, the activation and what is around them."""
        if not self.residual:
            norm = f"{_NORM_NAMES[self.norm]}, " if self.norm else ""
            return f"{norm}{_label(self.initializer)} + {self.activation_name}"
        if not self.norm:
            return f"x + f(x), {_label(self.initializer)} + {self.activation_name}"
        writes = f", {_label(self.writes)}" if self.writes else ""
        return f"x + f({_NORM_NAMES[self.norm]}(x)), {_label(self.initializer)} + {self.activation_name}{writes}"

    @property
    def activation_name(self) -> str:
        """How the activation is called."""
        return as_activation(self.activation).name

    @property
    def widths(self) -> list[int]:
        """Units of layers 0 to the last."""
        return widths_of(self.width, self.layers)

    @property
    def nbytes(self) -> int:
        """Bytes that a measurement keeps in float32: every weight, every slope, and what a norm made."""
        cycle = [self.width] if isinstance(self.width, int) else list(self.width)
        pairs = zip(cycle, cycle[1:] + cycle[:1], strict=True)
        matrices = 2 if self.residual and self.norm else 1
        a_cycle = sum(n * m * matrices + self.inputs * (m + (n if self.norm else 0)) for n, m in pairs)
        return 4 * a_cycle * -(-self.layers // len(cycle))

    def facts(self) -> dict[str, Any]:
        """Return the network as plain JSON."""
        fields = {field: getattr(self, field) for field in Stack.__match_args__}
        return fields | {
            "activation": self.activation_name,
            "initializer": self.initializer.to_json(),
            "writes": self.writes.to_json() if self.writes else None,
        }

    def measure(self, seed: int) -> Measurement:
        """Send signals through the network of one seed, down and up.

        Notes
        -----
        *Reproducibility.* Weights come from the streams ``propagation.<layer>.weight`` of the seed (those that
        write to a normalized residual stream from ``propagation.<layer>.write``), inputs from
        ``propagation.inputs``, and the gradients at the last layer, N(0, 1), from ``propagation.gradients``.
        """
        network = _Network(self, seed)
        with np.errstate(all="ignore"):  # magnitudes past float64's range are reported, as inf or 0
            signals, distinct_units = network.forward()
            mean_magnitude, rms, spread, correlations = map(list, zip(*signals, strict=True))
            gradients = network.backward()
        return Measurement(mean_magnitude, rms, spread, correlations, gradients, distinct_units)


def as_count(value: SupportsIndex, what: str) -> int:
    """Return `value` as an int of at least 1, or raise an error that names `what`."""
    count = as_u64(value, what)
    if count == 0:
        raise ValueError(f"{what} must be at least 1, got 0")
    return count


def _as_width(width: object) -> int | tuple[int, ...]:
    if not isinstance(width, Sequence):
        return as_count(width, "width")  # type: ignore[arg-type]
    if not width:
        raise ValueError("width needs at least one number of units")
    return tuple(as_count(each, "width") for each in width)


def _label(initializer: Initializer) -> str:
    """Name an initializer in a table: N(0, std) and constants as they are said, others as they are typed."""
    parameters = {"mean": 0, **initializer.to_json()}
    label = _LABELS.get(initializer.name) if parameters["mean"] == 0 else None
    return label.format_map(parameters) if label else as_text(initializer)


_LABELS = {"normal": "N(0, std {std:.4g})", "constant": "constant {value:.4g}"}
_NORM_NAMES = {"rms": "RMSNorm", "layer": "LayerNorm"}


class _Network:
    """The network of one seed, with all that the way up needs: weights, slopes, and what norms made."""

    def __init__(self, stack: Stack, seed: int) -> None:
        self.stack, self.seed = stack, seed
        self.activation = as_activation(stack.activation)
        self.weights: list[_Array] = []
        self.writes: list[_Array] = []
        self.slopes: list[_Array] = []
        self.norms: list[_Normalized] = []

    def forward(self) -> tuple[list[tuple[float, float, float, float]], int]:
        """Return the signal's sizes at every layer, and the number of distinct units at the end."""
        signal = entering = self._sample("propagation.inputs", 0)
        sizes = [signal.sizes()]
        for layer in range(self.stack.layers):
            entering, signal = signal, self._layer(signal, layer)
            sizes.append(signal.sizes())
        units = (self.writes or self.weights)[-1]
        if self.stack.residual:
            units = np.concatenate([units, entering.values])
        return sizes, _distinct(units, signal.values)

    def _layer(self, signal: _Batch, layer: int) -> _Batch:
        """Draw a layer's weights, and return the signal after it."""
        stack = self.stack
        matrix = self._drawn(f"propagation.{layer}.weight", layer, stack.initializer)
        self.weights.append(matrix)
        read = signal
        if stack.norm:
            self.norms.append(_Normalized.of(signal, stack.norm))
            read = _Batch(self.norms[-1].values)
        if not stack.residual:
            return self._activated(read @ matrix).normalized()
        if not stack.norm:
            return (signal + self._activated(read) @ matrix).normalized()
        self.writes.append(self._drawn(f"propagation.{layer}.write", layer, stack.writes or stack.initializer))
        return (signal + self._activated(read @ matrix) @ self.writes[-1]).normalized()

    def _activated(self, before: _Batch) -> _Batch:
        after, slope = before.through(self.activation)
        self.slopes.append(slope)
        return after

    def backward(self) -> list[float]:
        """Return the rms of the gradients at every layer, the input's first."""
        gradient = self._sample("propagation.gradients", self.stack.layers)
        sizes = [gradient.rms]
        for layer in reversed(range(self.stack.layers)):
            gradient = self._up(gradient, layer).normalized()
            sizes.append(gradient.rms)
        return sizes[::-1]

    def _up(self, gradient: _Batch, layer: int) -> _Batch:
        """Return the gradient with respect to what enters a layer."""
        matrix, slope = self.weights[layer].T, self.slopes[layer]
        if not self.stack.residual:
            below = gradient * slope @ matrix
            return self.norms[layer].up(below) if self.stack.norm else below
        if not self.stack.norm:
            return gradient + gradient @ matrix * slope
        branch = (gradient @ self.writes[layer].T * slope @ matrix).normalized()
        return gradient + self.norms[layer].up(branch)

    def _drawn(self, name: str, layer: int, initializer: Initializer) -> _Array:
        inputs, outputs = self.stack.widths[layer : layer + 2]
        matrix: _Array = np.empty((inputs, outputs), np.float32)
        initialize(None, stream_for(self.seed, name), initializer, out=matrix, threads=1)
        return matrix

    def _sample(self, name: str, layer: int) -> _Batch:
        shape = self.stack.inputs, self.stack.widths[layer]
        return _Batch(normal(shape, stream_for(self.seed, name), dtype="float32")).normalized()


def _distinct(units: _Array, outputs: _Array) -> int:
    """Count the columns of `outputs` that differ, among columns of `units` that differ."""
    firsts = {unit.tobytes(): number for number, unit in enumerate(units.T)}.values()
    return len({outputs[:, number].tobytes() for number in firsts})


def _mean_cosine(rows: _Array) -> float:
    """Return the mean cosine of two rows that are not 0; nan where there are no two.

    Rows of length 1 have a mean cosine of 1 minus their summed variances, which keeps the digits of a small angle.
    """
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True, dtype=np.float64))
    rows, lengths = rows[lengths[:, 0] > 0], lengths[lengths[:, 0] > 0]
    if len(rows) < 2:
        return math.nan
    return 1.0 - float((rows / lengths).var(axis=0, ddof=1).sum())


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
    def rms(self) -> float:
        """The root of the mean square; inf or 0 past float64's range."""
        return self._meant(math.sqrt(np.square(self.values).mean(dtype=np.float64)))

    def sizes(self) -> tuple[float, float, float, float]:
        """Return mean magnitude, rms, spread over the rows and their correlation."""
        rms = math.sqrt(np.square(self.values).mean(dtype=np.float64))
        spread = math.sqrt(self.values.var(axis=0, ddof=1, dtype=np.float64).mean())
        mean_magnitude = float(np.abs(self.values).mean(dtype=np.float64))
        return self._meant(mean_magnitude), self._meant(rms), self._meant(spread), _mean_cosine(self.values)

    def _meant(self, size: float) -> float:
        return float(np.ldexp(np.float64(size), self.exponent))

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


@dataclass(frozen=True, slots=True)
class _Normalized:
    """The rows of a batch after RMSNorm or LayerNorm, and what the way up needs of them."""

    values: _Array
    sizes: _Batch
    """What every row was divided by, [inputs, 1]; inf where it was 0."""
    centered: bool

    @classmethod
    def of(cls, batch: _Batch, norm: str) -> _Normalized:
        """Normalize every row of `batch`."""
        centered = norm == "layer"
        values = batch.values - batch.values.mean(axis=1, keepdims=True) if centered else batch.values
        sizes = np.sqrt(np.square(values).mean(axis=1, keepdims=True))
        sizes[sizes == 0] = np.inf
        return cls(values / sizes, _Batch(sizes, batch.exponent), centered)

    def up(self, gradient: _Batch) -> _Batch:
        """Return the gradient with respect to the rows before, of one with respect to the rows after."""
        below = gradient.values - self.values * (gradient.values * self.values).mean(axis=1, keepdims=True)
        if self.centered:
            below -= gradient.values.mean(axis=1, keepdims=True)
        return _Batch(below / self.sizes.values, gradient.exponent - self.sizes.exponent)
