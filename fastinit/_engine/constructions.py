"""Fills of a whole tensor: an element depends on its place in it, or on other elements.

Frozen data, like any distribution. `Diagonal` makes any part by itself, and `Sparse` some columns at a time. For
the others `build` makes the whole tensor in float64 from its stream's normals; the part asked for is cut from it
and rounded, once, to the stored dtype. The fields `layout` and `groups` are those of the call where they are None.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np

from .. import _core
from ..errors import AllocationFailed, DistributionError
from .axes import SPATIAL, STACKED, Axes, axes_of, parse_layout
from .boxes import Box, lengths
from .checks import Shape, as_nonnegative, as_number, as_u64, draws_of, size_of
from .distributions import Normal
from .dtypes import FLOAT64, DType
from .fill import fill
from .initializer import Distribution, Initializer, checked_spec
from .parts import Array, Index, Part, Slice, Span, locate, row_major, spans
from .probability import LARGEST_NORMAL, Moments
from .streams import GAMMA, mix64
from .targets import allocate

__all__ = ["DeltaOrthogonal", "Diagonal", "Orthogonal", "Sparse"]

T = TypeVar("T")

RUN = 1 << 17
"""Elements made at a time where a part can be made by itself: their float64 values stay in a core's cache."""


class Normals(Protocol):
    """Gives (a part of) the tensor filled with its stream's normals, in float64."""

    def __call__(self, std: float = 1.0, index: Slice | None = None) -> Array:
        """Return them, times `std`."""


class WholeTensor(Distribution):
    """A distribution of a whole tensor: its parameters, and how to build it."""

    __slots__ = ()
    by_element: ClassVar[bool] = False
    by_part: ClassVar[bool] = False

    @property
    def largest(self) -> float:
        """A bound on the magnitude of its weights."""
        raise NotImplementedError

    @property
    def support(self) -> tuple[float, float]:
        """The interval in which every weight lies."""
        return 0.0 - self.largest, self.largest

    def prepare(self, dtype: DType) -> None:
        """Refuse a dtype that does not hold its largest weight; no kernel serves."""
        if not dtype.is_float:
            raise self.unfit(dtype)
        checked_spec(self, _core.Spec(_core.BASES["constant"], dtype.code, (self.largest,)), dtype)

    def values(self, shape: Shape, state: int, part: Part, index: Index | None, threads: int | None) -> Array:  # noqa: ARG002
        """Return the part that `index` cuts from the whole."""
        whole = self._built(shape, partial(_normals, shape, state, threads))
        return whole if index is None else np.asarray(whole[index])

    def part_in(self, shape: Shape, box: Box, inner: Slice, state: int, threads: int | None = None) -> Array:
        """Return what `inner` cuts from a box of a larger tensor, made of the normals that the box has there."""
        return np.asarray(self._built(lengths(box), partial(_normals_in, shape, box, state, threads))[inner])

    def _built(self, shape: Shape, normals: Normals) -> Array:
        self.check(shape)
        if 0 in shape:
            return np.empty(shape)
        try:
            if size_of(shape) * FLOAT64.itemsize > sys.maxsize:
                raise MemoryError
            return self.build(shape, normals)
        except MemoryError:
            raise AllocationFailed(size_of(shape), made_whole=self.kind) from None

    def slack(self, shape: Shape, state: int) -> Array | float:
        """Return how far weights made with another LAPACK may lie from those made here."""
        return self._slack(shape, partial(_normals, shape, state, None))

    def slack_in(self, shape: Shape, box: Box, state: int) -> Array | float:
        """Return the same of a box of a larger tensor."""
        return self._slack(lengths(box), partial(_normals_in, shape, box, state, None))

    def _slack(self, shape: Shape, normals: Normals) -> Array | float:  # noqa: ARG002
        return 0.0

    def build(self, shape: Shape, normals: Normals) -> Array:
        """Return the whole tensor, of a shape that was checked and is not empty."""
        raise NotImplementedError


def _normals(shape: Shape, state: int, threads: int | None, std: float = 1.0, index: Slice | None = None) -> Array:
    """Return (a part of) the tensor filled with its stream's normal weights, in float64."""
    return fill(state, shape, Normal(0.0, std), index=index, threads=threads)


def _normals_in(
    shape: Shape, box: Box, state: int, threads: int | None, std: float = 1.0, index: Slice | None = None
) -> Array:
    """Return (a part of) the normals of a box of a tensor; `index` has whole axes and integers."""
    cut = (slice(None),) * len(box) if index is None else index
    placed = tuple(r[0] + at * r[2] if isinstance(at, int) else slice(*r) for r, at in zip(box, cut, strict=True))
    return fill(state, shape, Normal(0.0, std), index=placed, threads=threads)


def agreed(initializer: Initializer, field: str, axes: Axes, default: T) -> T:
    """Return what an initializer and the call say of a field, in one of the two places or alike in both."""
    own, asked = getattr(initializer, field), getattr(axes, field)
    if own is None or own == asked:
        return asked  # type: ignore[no-any-return]
    if asked == default:
        return own  # type: ignore[no-any-return]
    raise ValueError(
        f"{field}={asked!r} contradicts the {field}={own!r} of {initializer}; say it in one of the two places"
    )


@dataclass(frozen=True, slots=True)
class _OnAxes(WholeTensor):
    """One that tells inputs from outputs: the fields and checks of those that do."""

    gain: float = 1.0
    layout: str | None = None
    groups: int | None = None

    scales: ClassVar[tuple[str, ...]] = ("gain",)

    def __post_init__(self) -> None:
        self._set(gain=as_nonnegative(self.gain, "gain"))
        if self.groups is not None:
            self._set(groups=as_u64(self.groups, "groups"))
        if self.layout is not None:
            parse_layout(self.layout)

    def at(self, axes: Axes) -> Self:
        """Return it with the layout and the groups of the call, which must not contradict its own."""
        resolved = dataclasses.replace(
            self, layout=agreed(self, "layout", axes, "io"), groups=agreed(self, "groups", axes, 1)
        )
        resolved.check(axes.shape)
        return resolved

    @property
    def largest(self) -> float:
        """A bound on the magnitude of its weights."""
        return self.gain

    def axes(self, shape: Shape) -> Axes:
        """Return the meaning of the axes of a tensor of `shape`."""
        return axes_of(shape, self.layout or "io", 1 if self.groups is None else self.groups)

    def check(self, shape: Shape) -> None:
        """Refuse a shape that the layout or the groups do not fit."""
        _ = self.axes(shape).letters

    def _moments(self, shape: Shape) -> Moments | None:
        self.check(shape)
        if not size_of(shape):
            return None
        return Moments(0.0, math.sqrt(self.gain**2 / self._longer(shape)))

    def _longer(self, shape: Shape) -> int:
        """Return the longer side of its matrices: an orthonormal one has a mean square of 1 over that."""
        return max(self.axes(shape).fans)


@dataclass(frozen=True, slots=True)
class Diagonal(_OnAxes):
    """`gain` where an output meets the input of its own number, at the middle (n // 2) of the receptive field."""

    kind: ClassVar[str] = "diagonal"
    draws_per_weight: ClassVar[int] = 0
    by_part: ClassVar[bool] = True
    is_divided: ClassVar[bool] = True

    def regions(self, shape: Shape, index: Index | None) -> Iterator[tuple[Distribution, Slice, Part]]:
        """Yield the part, or the tensor, in short runs."""
        self.check(shape)
        draws_of(shape)  # an element is told by its number
        part = locate(shape, index)
        for _, run, _ in row_major(part.shape, RUN):
            yield self, run, part.cut(run)

    def values(self, shape: Shape, state: int, part: Part, index: Index | None, threads: int | None) -> Array:  # noqa: ARG002
        """Return the values of a part."""
        axes = self.axes(shape)
        rest, is_middle = part.numbers(), np.ones((), np.bool_)
        channel: dict[str, Array] = dict.fromkeys("io", np.zeros((), np.uint64))
        width = dict.fromkeys("io", 1)
        for letter, length in zip(reversed(axes.letters.lower()), reversed(shape), strict=True):
            rest, at = np.divmod(rest, np.uint64(length))
            if letter in SPATIAL:
                is_middle = is_middle & (at == length // 2)
            elif letter != STACKED:
                channel[letter] = channel[letter] + at * np.uint64(width[letter])
                width[letter] *= length
        holder = "i" if "I" in axes.letters else "o"
        channel[holder] = channel[holder] % np.uint64(width[holder] // axes.groups)
        return np.where(is_middle & (channel["i"] == channel["o"]), self.gain, 0.0)

    def part_in(self, shape: Shape, box: Box, inner: Slice, state: int, threads: int | None = None) -> Array:  # noqa: ARG002
        """Return what `inner` cuts from a box of a larger tensor."""
        return fill(state, lengths(box), self, index=inner, threads=threads)

    @property
    def support(self) -> tuple[float, float]:
        """Zero and the gain."""
        return 0.0, self.gain

    def _moments(self, shape: Shape) -> Moments | None:
        if not size_of(shape):
            return None
        mean = self.gain / self._longer(shape)
        return Moments(mean, math.sqrt(max(0.0, self.gain**2 / self._longer(shape) - mean * mean)))


@dataclass(frozen=True, slots=True)
class Orthogonal(_OnAxes):
    """`gain` times a uniformly (Haar) distributed orthonormal matrix: outputs against everything else.

    The smaller side is orthonormal. Every group of a grouped convolution and every matrix of a stack is one.

    Attributes
    ----------
    gain : float
        Multiplies the finished matrix; finite and >= 0.

    References
    ----------
    Saxe, McClelland and Ganguli (2014), "Exact solutions to the nonlinear dynamics of learning in deep linear
    neural networks".
    """

    kind: ClassVar[str] = "orthogonal"
    draws_per_weight: ClassVar[int] = 1

    def build(self, shape: Shape, normals: Normals) -> Array:
        """Return the whole tensor."""
        return _orthonormal(normals(), self.axes(shape), self.gain)

    def _slack(self, shape: Shape, normals: Normals) -> Array | float:
        return _slack(normals(), self.axes(shape), self.gain)

    def _longer(self, shape: Shape) -> int:
        axes = self.axes(shape)
        fan_in, fan_out = axes.fans
        field = math.prod(n for letter, n in zip(axes.letters, shape, strict=True) if letter in SPATIAL)
        return max(fan_in, fan_out // field)


@dataclass(frozen=True, slots=True)
class DeltaOrthogonal(_OnAxes):
    """`gain` times an orthonormal matrix at the middle ((n - 1) // 2) of the receptive field, else zero.

    It needs no more inputs than outputs. The tap is that of JAX.

    Attributes
    ----------
    gain : float
        Multiplies the finished matrix; finite and >= 0.

    References
    ----------
    Xiao et al. (2018), "Dynamical isometry and a mean field theory of CNNs".
    """

    kind: ClassVar[str] = "delta_orthogonal"
    draws_per_weight: ClassVar[int] = 1

    def check(self, shape: Shape) -> None:
        """Refuse fewer outputs than inputs: the matrix could not keep the length of every input."""
        axes = self.axes(shape)
        lengths = dict(axes.lengths)
        lengths["i" if "I" in axes.letters else "o"] //= axes.groups
        if lengths["i"] > lengths["o"]:
            raise DistributionError(
                f"delta_orthogonal needs inputs <= outputs, but shape {shape} with layout {axes.layout!r} has "
                f"{lengths['i']} and {lengths['o']}"
            )

    def build(self, shape: Shape, normals: Normals) -> Array:
        """Return the whole tensor."""
        whole = np.zeros(shape)
        middle, axes = self._middle(shape)
        whole[middle] = _orthonormal(normals(index=middle), axes, self.gain)
        return whole

    def _slack(self, shape: Shape, normals: Normals) -> Array | float:
        """Return the bound, which is 0 beside the tap."""
        whole = np.zeros(shape)
        middle, axes = self._middle(shape)
        whole[middle] = _slack(normals(index=middle), axes, self.gain)
        return whole

    def _middle(self, shape: Shape) -> tuple[Slice, Axes]:
        """Return the index of the tap in the middle of the receptive field, and the axes of what lies there."""
        axes = self.axes(shape)
        middle = tuple(
            (length - 1) // 2 if letter in SPATIAL else slice(None)
            for letter, length in zip(axes.letters, shape, strict=True)
        )
        kept = [place for place, letter in enumerate(axes.letters) if letter not in SPATIAL]
        layout = "".join(axes.letters[place] for place in kept)
        return middle, axes_of(tuple(shape[place] for place in kept), layout, axes.groups)


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
class Sparse(WholeTensor):
    """Normal weights of which ``ceil(fraction * rows)`` are zero in every column of the stored matrix.

    In the layout ``"io"`` a column holds the weights that one unit receives, as in the source. The smallest keys
    of a column decide; a key is ``mix64(draw)``, another hash of the weight's own draw, so that the weights that
    stay are unbiased.

    Attributes
    ----------
    fraction : float
        In [0, 1].
    std : float
        Standard deviation of the others; finite and >= 0.

    References
    ----------
    Martens (2010), "Deep learning via Hessian-free optimization", section 5.
    """

    fraction: float
    std: float = 0.01

    kind: ClassVar[str] = "sparse"
    draws_per_weight: ClassVar[int] = 1
    is_divided: ClassVar[bool] = True
    is_part: ClassVar[bool] = False  # its keys are counted in a whole tensor
    scales: ClassVar[tuple[str, ...]] = ("std",)

    def __post_init__(self) -> None:
        fraction = as_number(self.fraction, "fraction")
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction must lie in [0, 1], got {fraction}")
        self._set(fraction=abs(fraction), std=as_nonnegative(self.std, "std"))

    def at(self, axes: Axes) -> Self:
        """Return itself, for a matrix."""
        axes.check()
        self.check(axes.shape)
        return self

    @property
    def largest(self) -> float:
        """A bound on the magnitude of its weights."""
        return LARGEST_NORMAL * self.std if self.fraction < 1 else 0.0

    def check(self, shape: Shape) -> None:
        """Refuse a tensor that has no columns."""
        if len(shape) != 2:
            raise ValueError(f"sparse zeroes the columns of a matrix; shape {shape} has {len(shape)} axes, not 2")

    def regions(self, shape: Shape, index: Index | None) -> Iterator[tuple[Distribution, Slice, Part]]:
        """Yield some columns of the part, or of the tensor, at a time."""
        self.check(shape)
        part = locate(shape, index)
        rows, columns = spans(shape, index)
        at_a_time = max(1, RUN // max(1, shape[0]))
        for begin in range(0, columns.count, at_a_time):
            count = min(at_a_time, columns.count - begin)
            some = Span(columns.start + begin * columns.step, columns.step, count, columns.keeps_axis)
            region = (slice(None),) * rows.keeps_axis + (slice(begin, begin + count),) * columns.keeps_axis
            yield _Columns(self, rows, some), region, part.cut(region)

    def values(self, shape: Shape, state: int, part: Part, index: Index | None, threads: int | None) -> Array:  # noqa: ARG002
        """Return the whole tensor, or a part of it, in float64."""
        return fill(state, shape, self, index=index, threads=threads)

    def moments(self, shape: Shape = (), dtype: DType = FLOAT64, *, is_cast: bool = False) -> Moments | None:
        """Return the moments of a weight: in every column the same number of normal weights is zero."""
        self.check(shape)
        kept = Normal(0.0, self.std).moments(shape, dtype, is_cast=is_cast)
        rows = shape[0]
        share = 1 - math.ceil(self.fraction * rows) / rows if rows else 0.0
        if kept is None or not share or not kept.std or kept.kurtosis is None:
            return Moments(0.0, 0.0)
        return kept._replace(
            std=kept.std * math.sqrt(share),
            kurtosis=(kept.kurtosis + 3) / share - 3,
            kurtosis_error=kept.kurtosis_error / share**1.5,
            likeliest=1 - share + share * kept.likeliest,
        )


@dataclass(frozen=True, slots=True)
class _Columns(Distribution):
    """Some columns of a sparse matrix, in the rows that are asked for."""

    matrix: Sparse
    rows: Span
    columns: Span

    def prepare(self, dtype: DType) -> None:
        self.matrix.prepare(dtype)

    def values(self, shape: Shape, state: int, part: Part, index: Index | None, threads: int | None) -> Array:  # noqa: ARG002
        asked = self.rows.index, self.columns.index
        weights = fill(state, shape, Normal(0.0, self.matrix.std), index=asked, threads=threads)
        zeros = _core.share(self.matrix.fraction, float(shape[0]))
        if not zeros:
            return weights
        keys = self._keys(shape, state)
        bounds = np.partition(keys, zeros - 1, axis=0)[zeros - 1]
        is_zero = keys[self.rows.index] <= bounds
        return np.where(is_zero.reshape(weights.shape), 0.0, weights)

    def _keys(self, shape: Shape, state: int) -> Array:
        """Return the keys of the whole columns; _core.keys makes those of neighbours in memory alone."""
        rows, columns = shape
        try:
            keys = allocate((rows, self.columns.count), np.dtype(np.uint64))
        except AllocationFailed as error:
            raise AllocationFailed(error.elements, made_whole="a column of sparse") from None
        if self.columns == Span(0, 1, columns, keeps_axis=True):
            _core.keys(keys, state)
            return keys
        first = state + (self.columns.start + 1) * GAMMA
        draws = Part.of(keys.shape, first, (columns * GAMMA, self.columns.step * GAMMA))
        return mix64(mix64(draws.numbers()))
