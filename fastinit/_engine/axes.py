"""The meaning of a tensor's axes, and the fans that follow from it; exact integers only. Read `Axes` first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, SupportsIndex

from ..errors import FanSumOverflow, ShapeProductOverflow, ZeroFanIn, ZeroFanOut
from .checks import U64_LIMIT, ShapeLike, as_shape, as_u64, draws_of, size_of

if TYPE_CHECKING:
    import numpy as np

SPATIAL = "dhwlt"
"""Letters of the receptive field."""

STACKED = "e"
"""The letter of a stack of matrices."""


def check_fans(fan_in: int, fan_out: int) -> None:
    """Refuse a zero fan and a fan sum past 2**64 - 1, in that order."""
    if fan_in == 0:
        raise ZeroFanIn()
    if fan_out == 0:
        raise ZeroFanOut()
    if fan_in + fan_out >= U64_LIMIT:
        raise FanSumOverflow(fan_in, fan_out)


def check_size(shape: tuple[int, ...], fan_in: int, fan_out: int) -> int:
    """Return the number of elements of `shape`, refusing more than 2**64 - 1."""
    size = size_of(shape)
    if size >= U64_LIMIT:
        raise ShapeProductOverflow(fan_in, fan_out)
    return size


def parse_layout(layout: str) -> str:
    """Check that `layout` names axes: ``i``, ``o``, ``e``, and each of the spatial ones (``d h w l t``) once."""
    if not isinstance(layout, str):
        raise TypeError(f"layout must be a str such as 'io', 'oi' or 'oihw', got {layout!r}")
    plain = layout.replace("I", "i") if "O" not in layout else layout.replace("O", "o")
    alone = [letter for letter in plain if letter in SPATIAL or letter.upper() in layout]
    runs = [letter for letter, _ in groupby(plain)]  # neighbours of one letter are one axis of a matrix
    is_once = len(set(alone)) == len(alone) and len(set(runs)) == len(runs)
    if not ({"i", "o"} <= set(plain) <= set("io" + SPATIAL + STACKED) and is_once):
        raise ValueError(
            f"layout {layout!r} must name each axis once: 'i' (inputs), 'o' (outputs), one each of "
            f"{', '.join(SPATIAL)} for the receptive field, 'e' for stacked matrices; "
            "for example 'io', 'oi' (torch), 'hwio', 'oihw', 'ioo' (outputs on two neighbouring axes)"
        )
    return layout


def _is_transposed(layout: str) -> bool:
    """Say whether a layout is that of torch's transposed convolutions, and names no holder of the groups.

    Inputs, outputs, receptive field: everywhere else the outputs hold all groups, and there the inputs do.
    """
    kinds = [kind for kind, _ in groupby("s" if letter in SPATIAL else letter for letter in layout)]
    return [kind for kind in kinds if kind != STACKED] == ["i", "o", "s"]


@dataclass(frozen=True)
class Axes:
    """A weight tensor's shape and what its axes mean; nothing is checked before it is needed.

    Attributes
    ----------
    shape : tuple of int
        Logical shape.
    layout : str
        One letter an axis: ``i`` the layer's inputs, ``o`` its outputs, ``d h w l t`` the receptive field,
        ``e`` a stack of independent matrices; ``"ioo"`` has its outputs on two axes, heads and their width. The
        letters say what an axis is to the *layer*, so a transposed convolution needs no flag: torch's Conv2d
        weight is ``"oihw"``, its ConvTranspose2d weight ``"iohw"``.

        The grammar is this package's own choice. JAX's initializers count axes instead (``in_axis=0,
        out_axis=(1, 2)``), and an einsum's letters do not say by themselves which of them are summed.
    groups : int
        Groups of a grouped convolution. Its tensor holds all groups along one axis, and one group's share along
        the other: all outputs by default (``"oihw"`` and ``"hwio"`` of torch, JAX and Keras); an upper-case
        ``I`` says that it is the inputs (``"Iohw"``: torch's grouped ConvTranspose2d; ``"hwIo"``: Keras's
        DepthwiseConv2D). ``"iohw"`` with groups is refused: it is written ``"Iohw"``, or ``"iOhw"``.
    fan_in, fan_out : int or None
        What to take instead of the counted connections.
    """

    shape: tuple[int, ...]
    layout: str = "io"
    groups: int = 1
    fan_in: int | None = None
    fan_out: int | None = None

    @cached_property
    def letters(self) -> str:
        """The layout, checked against the shape, in lower case but for the axis that holds all groups.

        Raises
        ------
        ValueError
            If the tensor has fewer than two axes, not as many as the layout names, or groups that do not divide
            the axis that holds them.
        """
        layout, shape = parse_layout(self.layout), self.shape
        if len(shape) < 2:
            raise ValueError(
                f"a {len(shape)}-d tensor (shape {shape}) has no inputs and outputs; layout {layout!r} names "
                f"{len(layout)} axes"
            )
        if len(shape) != len(layout):
            raise ValueError(
                f"layout {layout!r} names {len(layout)} axes, but shape {shape} has {len(shape)}; "
                "name every axis, for example layout='oihw' for a torch convolution"
            )
        if self.groups != 1 and _is_transposed(layout):
            said = layout.replace("i", "I"), layout.replace("o", "O")
            raise ValueError(
                f"layout {layout!r} with groups={self.groups} does not say which axis holds all groups: write "
                f"{said[0]!r} where the inputs do (torch's grouped transposed convolutions), else {said[1]!r}"
            )
        letters = layout if "I" in layout else layout.replace("o", "O")
        holder = "I" if "I" in letters else "O"
        length = shape[letters.index(holder)]
        if self.groups != 1 and letters.count(holder) > 1:
            raise ValueError(f"groups={self.groups} need one axis that holds them all, not layout {layout!r}")
        if self.groups == 0 or length % self.groups:
            raise ValueError(
                f"groups={self.groups} must divide the {length} {'inputs' if holder == 'I' else 'outputs'} "
                f"of shape {shape}, layout {layout!r}"
            )
        return letters

    def check(self) -> None:
        """Refuse a layout or groups that do not fit the shape; the defaults fit any, and say nothing of it."""
        if self.layout != "io" or self.groups != 1:
            _ = self.letters

    @cached_property
    def fans(self) -> tuple[int, int]:
        """The connections into and out of a unit: exact, and zero where an axis is."""
        self.check()
        if self.fan_in is not None and self.fan_out is not None:
            return self.fan_in, self.fan_out
        if len(self.shape) < 2:
            raise ValueError(
                f"a {len(self.shape)}-d tensor (shape {self.shape}) has no fan_in and fan_out to scale by; "
                "fan-scaled schemes need at least two axes, or both fan_in= and fan_out="
            )
        fan_in = fan_out = 1
        for letter, length in zip(self.letters, self.shape, strict=True):
            share = length // self.groups if letter in "IO" else length
            if letter in "iI" + SPATIAL:
                fan_in *= share
            if letter in "oO" + SPATIAL:
                fan_out *= share
        return (
            fan_in if self.fan_in is None else self.fan_in,
            fan_out if self.fan_out is None else self.fan_out,
        )

    @cached_property
    def lengths(self) -> dict[str, int]:
        """Elements along the axes of each letter, in lower case."""
        lengths: dict[str, int] = {}
        for letter, length in zip(self.letters.lower(), self.shape, strict=True):
            lengths[letter] = lengths.get(letter, 1) * length
        return lengths

    @cached_property
    def checked_fans(self) -> tuple[int, int] | None:
        """The fans, neither of them zero and their sum no overflow; None of an empty tensor."""
        fan_in, fan_out = self.fans
        if 0 in self.shape:
            return None
        check_fans(fan_in, fan_out)
        check_size(self.shape, fan_in, fan_out)
        return fan_in, fan_out

    @cached_property
    def draws(self) -> int:
        """The draws a sampled tensor takes; ValueError if they are more than 2**64 - 1."""
        return draws_of(self.shape)

    def blocks(self, array: np.ndarray[Any, Any], first: str = "egoi") -> np.ndarray[Any, Any]:
        """Return a view of a C-ordered `array` of this shape: stack, group and the axes of `first` come first.

        There is always a stack axis ``e`` and a group axis ``g``; ``i`` and ``o`` count within a group.
        """
        lengths, order = _split(self.letters, self.shape, self.groups, first)
        return array.reshape(lengths).transpose(order)

    def whole(self, blocks: np.ndarray[Any, Any], first: str = "egoi") -> np.ndarray[Any, Any]:
        """Return what `blocks` was made from; a view where the memory order allows it."""
        _, order = _split(self.letters, self.shape, self.groups, first)
        places = sorted(range(len(order)), key=order.__getitem__)
        return blocks.transpose(places).reshape(self.shape)


@lru_cache(maxsize=1024)
def _split(letters: str, shape: tuple[int, ...], groups: int, first: str) -> tuple[tuple[int, ...], ...]:
    """Return the lengths once stack and group axes are split off, and the order that puts `first` first."""
    split, lengths, before = "", list[int](), ""
    for letter, length in zip(letters, shape, strict=True):
        if letter == before:  # neighbours are one axis of a matrix
            lengths[-1] *= length
            continue
        split += "g" + letter.lower() if letter in "IO" else letter
        lengths += [groups, length // groups] if letter in "IO" else [length]
        before = letter
    if STACKED not in split:
        split, lengths = STACKED + split, [1, *lengths]
    rank = {letter: place for place, letter in enumerate(first)}
    order = sorted(range(len(split)), key=lambda axis: rank.get(split[axis], len(first)))
    return tuple(lengths), tuple(order)


_PLAIN, _ONE = "io", 1
_axes = lru_cache(maxsize=1024)(Axes)  # keyed by integers and text, never by floats


def axes_of(
    shape: tuple[int, ...],
    layout: str = "io",
    groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None,
    fan_out: SupportsIndex | None = None,
) -> Axes:
    """Return the `Axes` of a request, after checking the types of its numbers."""
    if layout is _PLAIN and groups is _ONE and fan_in is fan_out is None:  # the common case: a short key
        return _axes(shape)
    if type(groups) is not int or not 0 <= groups < U64_LIMIT:
        groups = as_u64(groups, "groups")
    if fan_in is not None:
        fan_in = as_u64(fan_in, "fan_in")
    if fan_out is not None:
        fan_out = as_u64(fan_out, "fan_out")
    if not isinstance(layout, str):
        parse_layout(layout)
    return _axes(shape, layout, groups, fan_in, fan_out)


def fans(shape: ShapeLike, layout: str = "io", groups: SupportsIndex = 1) -> tuple[int, int]:
    """Count the connections into and out of a unit of a weight tensor.

    Parameters
    ----------
    shape : int or tuple of int
        The tensor's logical shape.
    layout : str, default "io"
        One letter an axis: ``i`` the layer's inputs, ``o`` its outputs, ``d h w l t`` the receptive field (it
        multiplies both fans), ``e`` a stack of independent matrices (it counts for neither). ``i``, ``o`` and
        ``e`` may stand on neighbours: an EinsumDense kernel to heads and their width is ``"ioo"``, where JAX says
        ``in_axis=0, out_axis=(1, 2)``. A transposed convolution is named as any other tensor: torch's
        ConvTranspose2d weight is ``"iohw"``. This grammar is fastinit's own.
    groups : int, default 1
        Groups of a grouped convolution; only the connections a unit really has are counted. The outputs' axis
        holds all groups, or the inputs' where its letter is an upper-case ``I``: a grouped ConvTranspose2d weight
        is ``"Iohw"``, and ``"iohw"`` is refused.

    Returns
    -------
    fan_in, fan_out : int
        Exact, zero where an axis is.

    Raises
    ------
    ValueError
        If the tensor has fewer than two axes, or not as many as `layout` names, or if `groups` does not divide
        the axis that holds them.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.fans((784, 10))
    (784, 10)
    >>> fastinit.fans((32, 16, 3, 3), "oihw")
    (144, 288)
    >>> fastinit.fans((64, 16, 3), "oiw", groups=4)  # 16 of 64 inputs reach an output
    (48, 48)
    >>> fastinit.fans((3, 3, 64, 1), "hwIo", groups=64)  # depthwise, as Keras stores it
    (9, 9)
    >>> fastinit.fans((64, 8, 3, 3), "Iohw", groups=4)  # torch's ConvTranspose2d(64, 32, 3, groups=4)
    (144, 72)
    >>> fastinit.fans((512, 8, 64), "ioo")  # EinsumDense to 8 heads of 64
    (512, 512)
    """
    return axes_of(as_shape(shape), layout, groups).fans
