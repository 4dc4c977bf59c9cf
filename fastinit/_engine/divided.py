"""`Parts`: a tensor that is cut into boxes, each with a distribution of its own; `painted` makes it from layers.

A part's elements take the draws of their places in the whole tensor, so a row of zeros moves no other row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import DistributionError
from . import boxes
from .axes import Axes
from .boxes import Box
from .checks import Shape, size_of
from .dtypes import FLOAT64, DType
from .fill import fill
from .initializer import Distribution
from .narrow import rounded
from .parts import Array, Index, Part, Span, spans, whole_part
from .probability import Moments, mixture

__all__ = ["Parts", "painted"]

_DESCRIBED = 3  # distributions that a description tells one by one, beside the main one


@dataclass(frozen=True, slots=True)
class Parts(Distribution):
    """A distribution for each of the boxes that cover a tensor exactly once.

    Attributes
    ----------
    parts : tuple of (box, Distribution)
        A box has a ``(start, stop, step)`` for every axis of the tensor. They are kept sorted by their boxes.

    Notes
    -----
    *Reproducibility.* Each element takes the draw of its place in the whole tensor, whatever the parts are. A part
    that is orthogonal is made of the normals of its place.

    Examples
    --------
    >>> from fastinit.initializers import Constant, Normal, Parts
    >>> rows = Parts(((((0, 1, 1), (0, 3, 1)), Constant(0.0)), (((1, 4, 1), (0, 3, 1)), Normal(0.0, 0.02))))
    >>> rows.describe()
    'normal std=0.02, zeros in [0:1, 0:3]'
    >>> bool((rows((4, 3), 17)[1:] == Normal(0.0, 0.02)((4, 3), 17)[1:]).all())
    True
    """

    parts: tuple[tuple[Box, Distribution], ...]

    kind: ClassVar[str] = "parts"
    is_divided: ClassVar[bool] = True
    is_part: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.parts) <= boxes.BOXES:
            raise DistributionError(f"a tensor has 1 to {boxes.BOXES:,} parts, got {len(self.parts):,}")
        for _, content in self.parts:
            _check_content(content)
        checked = ((boxes.as_box(box), content) for box, content in self.parts)
        self._set(parts=tuple(sorted(checked, key=lambda part: part[0])))

    def at(self, axes: Axes) -> Distribution:
        """Return itself, for a shape that it covers: an element of no part would be left as memory was."""
        axes.check()
        self.check(axes.shape)
        return self

    @property
    def draws_per_weight(self) -> int:  # type: ignore[override]
        """1 where a part draws: the draws of the others are left out, so that all keep their places."""
        return max(content.draws_per_weight for _, content in self.parts)

    @property
    def holds_weights(self) -> bool:  # type: ignore[override]
        """Whether all its parts hold weights."""
        return all(content.holds_weights for _, content in self.parts)

    @property
    def by_element(self) -> bool:  # type: ignore[override]
        """Whether an element of any part can be made without the others of its part."""
        return all(content.by_element for _, content in self.parts)

    @property
    def by_part(self) -> bool:  # type: ignore[override]
        """Whether some of any part can be made without the rest."""
        return all(content.by_part for _, content in self.parts)

    def prepare(self, dtype: DType) -> None:
        """Refuse a dtype that does not hold what a part holds; `regions` says what is drawn where."""
        for _, content in self.parts:
            content.prepare(dtype)

    def check(self, shape: Shape) -> None:
        """Refuse a shape that the parts do not cover exactly once, or a part that its content does not fit."""
        boxes.check_cover(shape, [box for box, _ in self.parts])
        for box, content in self.parts:
            content.check(boxes.lengths(box))

    def regions(self, shape: Shape, index: Index | None) -> Iterator[tuple[Distribution, tuple[slice, ...], Part]]:
        """Yield each part that ``whole[index]`` meets: its distribution, where it lies in that, and its draws."""
        cut, draws = spans(shape, index), whole_part(shape).draws
        for box, content in self.parts:
            found = _met(cut, box, draws)
            if found is not None:
                region, part = found
                yield (
                    content if content.by_element else _Placed(content, shape, box, _inner(cut, box)),
                    region,
                    part,
                )

    def values(self, shape: Shape, state: int, part: Part, index: Index | None, threads: int | None) -> Array:  # noqa: ARG002
        """Return the whole tensor, or a part of it, in float64."""
        return fill(state, shape, self, index=index, threads=threads)

    def slack(self, shape: Shape, state: int) -> Array | float:
        """Return how far weights of another machine may lie from this one's: 0 where bits are promised."""
        found = np.zeros(shape)
        for box, content in self.parts:
            found[tuple(slice(*r) for r in box)] = content.slack_in(shape, box, state)
        return found

    def rescaled(self, factor: float, p: float = 1.0, q: float = 1.0) -> Distribution:
        """Return it with every part rescaled."""
        return Parts(tuple((box, content.rescaled(factor, p, q)) for box, content in self.parts))

    def moments(self, shape: Shape = (), dtype: DType = FLOAT64, *, is_cast: bool = False) -> Moments | None:  # noqa: ARG002
        """Return the moments of a weight of any part: a mixture by the sizes of the parts."""
        found = [c.moments(boxes.lengths(box), dtype, is_cast=is_cast) for box, c in self.parts]
        known = [_as_stored(moments, dtype) for moments in found if moments is not None]
        return mixture(known, self._shares()) if len(known) == len(found) else None

    def _shares(self) -> list[float]:
        sizes = [_size([box]) for box, _ in self.parts]
        return [size / sum(sizes) for size in sizes]

    @property
    def support(self) -> tuple[float, float]:
        """The least interval that holds those of all parts."""
        lows, highs = zip(*(content.support for _, content in self.parts), strict=True)
        return min(lows), max(highs)

    def reachable(self, values: Array, dtype: DType) -> Array:
        """Return the dtype's values that a part can give."""
        reached = [content.reachable(values, dtype) for _, content in self.parts]
        return np.unique(np.concatenate(reached))

    def describe(self) -> str:
        """Return the parts for people, the largest first: ``normal std=0.02, zeros in [0:1, 0:768]``."""
        held: dict[Distribution, list[Box]] = {}
        for box, content in self.parts:
            held.setdefault(content, []).append(box)
        main, *others = sorted(held, key=lambda content: -_size(held[content]))
        told = [f"{_short(content)} in {_places_of(held[content])}" for content in others[:_DESCRIBED]]
        more = [f"{len(others) - _DESCRIBED:,} more"] if len(others) > _DESCRIBED else []
        place = "" if main.by_element else f" in {_places_of(held[main])}"
        return ", ".join([_short(main) + place, *told, *more])

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object that `from_json` reads."""
        return {"kind": self.kind, "parts": [_part_to_json(box, content) for box, content in self.parts]}

    @classmethod
    def decoded(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that a JSON object describes."""
        parts = parameters.get("parts")
        if not isinstance(parts, list):
            raise ValueError(f"'parts' needs a list of parts, got {parts!r}")
        return parameters | {"parts": tuple(_part_from_json(part) for part in parts)}


def painted(shape: Shape, layers: Sequence[tuple[Box, Distribution]]) -> Distribution:
    """Return what a tensor is whose boxes were filled one after the other: the last layer over an element wins.

    Parameters
    ----------
    shape : tuple of int
        The tensor's.
    layers : sequence of (box, Distribution)
        In the order of the fills.

    Returns
    -------
    Distribution
        `Parts`, or the one distribution that covers everything.

    Raises
    ------
    DistributionError
        If no layer covers some element, one reaches out of the tensor, or what can only be made as a whole, as an
        orthogonal matrix, is covered in part.

    Examples
    --------
    >>> from fastinit.initializers import Constant, Normal, painted
    >>> painted((4, 3), [(((0, 4, 1), (0, 3, 1)), Normal()), (((0, 1, 1), (0, 3, 1)), Constant(0.0))]).describe()
    'normal std=1, zeros in [0:1, 0:3]'
    """
    if not layers:
        raise DistributionError("a tensor needs one layer at least")
    if not size_of(shape):
        return layers[-1][1]
    checked = [(boxes.as_box(box), content) for box, content in layers]
    for box, _ in checked:
        boxes.check_inside(shape, box)
    seen = boxes.painted_over([(box, _Kind.of(layer, content)) for layer, (box, content) in enumerate(checked)])
    boxes.check_cover(shape, [box for box, _ in seen])
    is_one = len({kind for _, kind in seen}) == 1
    seen = [(boxes.whole_box(shape), seen[0][1])] if is_one else boxes.joined(seen)
    _refuse_remains(seen, checked)
    parts = tuple((box, kind.content) for box, kind in seen)
    return parts[0][1] if len(parts) == 1 else Parts(parts)


class _Kind(NamedTuple):
    """What may be joined or cut: any of one distribution, but what is made as a whole in its own layer alone."""

    content: Distribution
    layer: int

    @classmethod
    def of(cls, layer: int, content: Distribution) -> _Kind:
        return cls(content, -1 if content.by_element else layer)


def _refuse_remains(seen: Sequence[tuple[Box, _Kind]], layers: Sequence[tuple[Box, Distribution]]) -> None:
    """Refuse what is left of a layer that can only be made as a whole."""
    for box, kind in seen:
        if kind.layer >= 0 and box != layers[kind.layer][0]:
            raise DistributionError(
                f"{kind.content.kind!r} in {boxes.written(layers[kind.layer][0])} is made as a whole, and a later "
                "layer covers some of it; give it as data"
            )


def _check_content(content: object) -> None:
    """Refuse what cannot be made for one part alone."""
    if not isinstance(content, Distribution):
        raise TypeError(f"a part's content must be a distribution, got {content!r}")
    if not content.is_part:
        raise DistributionError(
            f"a part cannot be {content.kind!r}, which is of a whole tensor only; 'normal' and 'constant' can"
        )


def _met(cut: Sequence[Span], box: Box, draws: tuple[int, ...]) -> tuple[tuple[slice, ...], Part] | None:
    """Return where a box lies in the cut of a tensor, and its draws there; None where they do not meet."""
    region, shape, first, steps = [], [], 0, []
    for span, r, draw in zip(cut, box, draws, strict=True):
        places = _places(span, r)
        if places is None:
            return None
        first += (span.start + places[0] * span.step) * draw
        if span.keeps_axis:
            region.append(slice(*places))
            shape.append(boxes.count(places))
            steps.append(places[2] * span.step * draw)
    return tuple(region), Part.of(tuple(shape), first, tuple(steps))


def _inner(cut: Sequence[Span], box: Box) -> tuple[slice | int, ...]:
    """Return which elements of a box lie in the cut of a tensor, in the order of the cut."""
    return tuple(_inner_places(span, r) for span, r in zip(cut, box, strict=True))


def _inner_places(span: Span, r: boxes.Range) -> slice | int:
    places = _places(span, r)
    assert places is not None, "they meet"
    first = (span.start + places[0] * span.step - r[0]) // r[2]
    if not span.keeps_axis:
        return first
    step = places[2] * span.step // r[2] or 1  # one element goes with any step
    return Span(first, step, boxes.count(places), keeps_axis=True).index


@dataclass(frozen=True, slots=True)
class _Placed(Distribution):
    """A part that is made as a whole, and what is cut from it."""

    content: Distribution
    shape: Shape
    box: Box
    inner: tuple[slice | int, ...]

    def prepare(self, dtype: DType) -> None:
        self.content.prepare(dtype)

    def values(self, shape: Shape, state: int, part: Part, index: Index | None, threads: int | None) -> Array:  # noqa: ARG002
        return self.content.part_in(self.shape, self.box, self.inner, state, threads)


def _places(span: Span, r: boxes.Range) -> boxes.Range | None:
    """Return which elements of a span of an axis lie in a range."""
    if not span.count:
        return None
    last = span.start + (span.count - 1) * span.step
    size = abs(span.step)
    shared = boxes.common(boxes.as_range(min(span.start, last), max(span.start, last) + 1, size), r)
    if shared is None:
        return None
    begin, end, step = shared
    first = begin - span.start if span.step > 0 else span.start - (end - 1)
    return boxes.as_range(first // size, (first + end - 1 - begin) // size + 1, max(1, step // size))


def _as_stored(moments: Moments, dtype: DType) -> Moments:
    """Round the value of a constant: beside drawn parts, nobody can allow for its rounding later."""
    return moments if moments.std else moments._replace(mean=rounded(moments.mean, dtype))


def _size(places: Sequence[Box]) -> int:
    return sum(size_of(boxes.lengths(box)) for box in places)


def _places_of(places: Sequence[Box]) -> str:
    return boxes.written(places[0]) if len(places) == 1 else f"{len(places):,} boxes"


def _short(content: Distribution) -> str:
    name, parameters = content.name, content.describe().removeprefix("mean=0 ")
    return name if name in ("zeros", "ones") or not parameters else f"{name} {parameters}"


def _part_to_json(box: Box, content: Distribution) -> dict[str, Any]:
    return {"index": [list(r) for r in box], "content": content.to_json()}


def _part_from_json(part: object) -> tuple[Box, Distribution]:
    if not isinstance(part, Mapping) or part.keys() != {"index", "content"} or not isinstance(part["index"], list):
        raise ValueError(f"a part has an index and a content, got {part!r}")
    content = part["content"]
    if not isinstance(content, Mapping) or content.get("kind") == Parts.kind:
        raise ValueError(f"a part's content is a distribution that makes one element at a time, got {content!r}")
    return tuple(part["index"]), Distribution.from_json(content)
