"""Constructions: what a tensor is filled with that no weight of it can be made without the others.

Frozen data, like a distribution. `build` makes the whole tensor in float64 from its stream's normals; the door in
`fill.py` hands out the part asked for and rounds it, once, to the stored dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import _core
from ..errors import DistributionError
from .axes import SPATIAL, Axes, axes_of, parse_layout
from .checks import as_nonnegative, as_number, as_u64

Array = np.ndarray[Any, Any]
Normals = Callable[..., Array]
"""``normals(std=1.0, index=None)``: (a part of) the tensor filled with its stream's normal weights, in float64."""

LARGEST_NORMAL = 8.2924
"""No normal draw lies further from its mean, in standard deviations."""


class Construction:
    """What needs the whole tensor: its parameters, and how to build it."""

    __slots__ = ()
    kind: ClassVar[str]
    draws_per_weight: ClassVar[int]

    @property
    def largest(self) -> float:
        """A bound on the magnitude of its weights."""
        raise NotImplementedError

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse a shape that it cannot have."""
        raise NotImplementedError

    def build(self, shape: tuple[int, ...], state: int, normals: Normals) -> Array:
        """Return the whole tensor, in float64 and not empty, from the stream at `state`."""
        raise NotImplementedError

    def slack(self, shape: tuple[int, ...], normals: Normals) -> Array | float:  # noqa: ARG002
        """Return how far weights of another machine may lie from those of `build`: 0 where bits are promised."""
        return 0.0


@dataclass(frozen=True, slots=True)
class _OnAxes(Construction):
    """One that looks at inputs and outputs: the fields and checks that those share."""

    gain: float = 1.0
    layout: str = "io"
    groups: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "gain", as_nonnegative(self.gain, "gain"))
        object.__setattr__(self, "groups", as_u64(self.groups, "groups"))
        parse_layout(self.layout)

    @property
    def largest(self) -> float:
        """A bound on the magnitude of its weights."""
        return self.gain

    def axes(self, shape: tuple[int, ...]) -> Axes:
        """Return the meaning of the axes of a tensor of `shape`."""
        return axes_of(shape, self.layout, self.groups)

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse a shape that the layout or the groups do not fit."""
        _ = self.axes(shape).letters


@dataclass(frozen=True, slots=True)
class Diagonal(_OnAxes):
    """`gain` where an output meets the input of its own number, at the middle (n // 2) of the receptive field."""

    kind: ClassVar[str] = "diagonal"
    draws_per_weight: ClassVar[int] = 0

    def build(self, shape: tuple[int, ...], state: int, normals: Normals) -> Array:  # noqa: ARG002
        """Return the whole tensor."""
        whole = np.zeros(shape)
        blocks = self.axes(shape).blocks(whole)
        channels = np.arange(min(blocks.shape[2:4]))
        blocks[:, :, channels, channels, *(length // 2 for length in blocks.shape[4:])] = self.gain
        return whole


@dataclass(frozen=True, slots=True)
class Orthogonal(_OnAxes):
    """`gain` times a random orthonormal matrix, outputs against everything else; one a stack and group."""

    kind: ClassVar[str] = "orthogonal"
    draws_per_weight: ClassVar[int] = 1

    def build(self, shape: tuple[int, ...], state: int, normals: Normals) -> Array:  # noqa: ARG002
        """Return the whole tensor."""
        return _orthonormal(normals(), self.axes(shape), self.gain)

    def slack(self, shape: tuple[int, ...], normals: Normals) -> Array | float:
        """Return how far weights made with another LAPACK may lie from those of `build`."""
        return _slack(normals(), self.axes(shape), self.gain)


@dataclass(frozen=True, slots=True)
class DeltaOrthogonal(_OnAxes):
    """`gain` times a random orthonormal matrix at the middle ((n - 1) // 2) of the receptive field, else zero."""

    kind: ClassVar[str] = "delta_orthogonal"
    draws_per_weight: ClassVar[int] = 1

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse fewer outputs than inputs: the matrix could not keep the length of every input."""
        axes = self.axes(shape)
        lengths = dict(zip(axes.letters.lower(), shape, strict=True))
        lengths["i" if "I" in axes.letters else "o"] //= self.groups
        if lengths["i"] > lengths["o"]:
            raise DistributionError(
                f"delta_orthogonal needs inputs <= outputs, but shape {shape} with layout {self.layout!r} has "
                f"{lengths['i']} and {lengths['o']}"
            )

    def build(self, shape: tuple[int, ...], state: int, normals: Normals) -> Array:  # noqa: ARG002
        """Return the whole tensor."""
        whole = np.zeros(shape)
        middle, axes = self._middle(shape)
        whole[middle] = _orthonormal(normals(index=middle), axes, self.gain)
        return whole

    def slack(self, shape: tuple[int, ...], normals: Normals) -> Array | float:
        """Return how far weights made with another LAPACK may lie from those of `build`: 0 beside the tap."""
        whole = np.zeros(shape)
        middle, axes = self._middle(shape)
        whole[middle] = _slack(normals(index=middle), axes, self.gain)
        return whole

    def _middle(self, shape: tuple[int, ...]) -> tuple[tuple[int | slice, ...], Axes]:
        """Return the index of the tap in the middle of the receptive field, and the axes of what lies there."""
        letters = self.axes(shape).letters
        middle = tuple(
            (length - 1) // 2 if letter in SPATIAL else slice(None)
            for letter, length in zip(letters, shape, strict=True)
        )
        kept = [place for place, letter in enumerate(letters) if letter not in SPATIAL]
        layout = "".join(letters[place] for place in kept)
        return middle, axes_of(tuple(shape[place] for place in kept), layout, self.groups)


def _orthonormal(normals: Array, axes: Axes, gain: float) -> Array:
    """Return `gain` times Q of a QR decomposition of every matrix of `normals`, with R's diagonal positive.

    Without the sign, LAPACK's Q would not be uniformly (Haar) distributed: Mezzadri (2007), "How to generate
    random matrices from the classical compact groups", section 5.
    """
    matrices, transposed = _tall(normals, axes)
    q, r = np.linalg.qr(matrices)
    signed = np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -gain, gain)
    if transposed:
        q = np.multiply(q.swapaxes(1, 2), signed[:, :, np.newaxis], order="C")
    else:
        q *= signed[:, np.newaxis, :]
    return axes.whole(q.reshape(axes.blocks(normals, "ego").shape), "ego")


def _slack(normals: Array, axes: Axes, gain: float) -> float:
    """Return the contract's bound: a small diagonal entry of R amplifies the rounding of LAPACK's reflections."""
    r = np.linalg.qr(_tall(normals, axes)[0], mode="r")
    smallest = float(np.abs(np.diagonal(r, axis1=1, axis2=2)).min())
    return gain * 1e-12 / min(1.0, smallest) if smallest else math.inf


def _tall(normals: Array, axes: Axes) -> tuple[Array, bool]:
    """Return the matrices to decompose, none wider than tall, and whether that took transposing them.

    A matrix is flattened as it is stored: the outputs are its rows where they come first (torch), else its columns
    (JAX).
    """
    blocks = axes.blocks(normals, "ego")
    stack, groups, outputs = blocks.shape[:3]
    matrices = blocks.reshape(stack * groups, outputs, -1)
    rows, columns = matrices.shape[1:]
    outputs_first = axes.letters.lower().index("o") < axes.letters.lower().index("i")
    transposed = rows < columns or (rows == columns and not outputs_first)
    return (matrices.swapaxes(1, 2) if transposed else matrices), transposed


@dataclass(frozen=True, slots=True)
class Sparse(Construction):
    """Normal weights, of which the ``ceil(fraction * rows)`` with the smallest keys are zero in every column.

    A key is ``mix64(draw)``: another hash of the weight's own draw, so that what survives is unbiased.
    """

    fraction: float
    std: float

    kind: ClassVar[str] = "sparse"
    draws_per_weight: ClassVar[int] = 1

    def __post_init__(self) -> None:
        fraction = as_number(self.fraction, "fraction")
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction must lie in [0, 1], got {fraction}")
        object.__setattr__(self, "fraction", abs(fraction))
        object.__setattr__(self, "std", as_nonnegative(self.std, "std"))

    @property
    def largest(self) -> float:
        """A bound on the magnitude of its weights."""
        return LARGEST_NORMAL * self.std

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse what has no columns."""
        if len(shape) != 2:
            raise ValueError(f"sparse zeroes the columns of a matrix; shape {shape} has {len(shape)} axes, not 2")

    def build(self, shape: tuple[int, ...], state: int, normals: Normals) -> Array:
        """Return the whole tensor."""
        weights = normals(std=self.std)
        zeros = _core.share(self.fraction, float(shape[0]))
        if zeros:
            keys = np.empty(shape, np.uint64)
            _core.keys(keys, state)
            weights[keys <= np.partition(keys, zeros - 1, axis=0)[zeros - 1]] = 0.0
        return weights


CONSTRUCTIONS: tuple[type[Construction], ...] = (Diagonal, Orthogonal, DeltaOrthogonal, Sparse)
