"""`Initializer`: what a tensor of any shape starts as; it resolves a shape to a distribution, and can be called."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex

import numpy.typing as npt

from .axes import Axes, axes_of
from .checks import Shape, as_choice, as_nonnegative, as_shape, as_source, draws_of
from .fill import fill
from .parts import Array, Index
from .streams import draw_from
from .targets import whole_shape

if TYPE_CHECKING:
    from .distributions import Distribution
    from .generator import SplitMix64


_KINDS: dict[str, type[Initializer]] = {}
"""kind -> class, of every initializer and distribution."""


class Initializer:
    """What a tensor of any shape starts as. A subclass is a frozen dataclass that says `at` which distribution."""

    __slots__ = ()
    kind: ClassVar[str]
    reads_fans: ClassVar[bool] = False
    """Whether the number of connections has a say."""
    holds_weights: ClassVar[bool] = True
    """Whether the elements are weights, which can be scaled, and not indices."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Register a class by its kind, so that `from_json` finds it."""
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            _KINDS[cls.kind] = cls

    @property
    def name(self) -> str:
        """The name shown in plans and errors."""
        return self.kind

    def at(self, axes: Axes) -> Distribution:
        """Return the distribution of a tensor of these axes."""
        raise NotImplementedError

    def for_shape(
        self,
        shape: Shape,
        layout: str = "io",
        groups: SupportsIndex = 1,
        fan_in: SupportsIndex | None = None,
        fan_out: SupportsIndex | None = None,
    ) -> Distribution:
        """Return the distribution of a tensor of `shape`.

        Parameters
        ----------
        shape : int or tuple of int
            The tensor's logical shape.
        layout, groups
            The meaning of its axes, as in `fastinit.fans`.
        fan_in, fan_out : int, optional
            Taken instead of the counted connections.

        Raises
        ------
        TypeError, ValueError
            For integers of a wrong type or range, and a shape that this initializer cannot be used for.
        """
        return self.at(axes_of(as_shape(shape), layout, groups, fan_in, fan_out))

    def __call__(
        self,
        shape: Shape | None,
        rng: SplitMix64 | SupportsIndex,
        *,
        gain: float = 1.0,
        dtype: npt.DTypeLike | None = None,
        out: object = None,
        index: Index | None = None,
        layout: str = "io",
        groups: SupportsIndex = 1,
        fan_in: SupportsIndex | None = None,
        fan_out: SupportsIndex | None = None,
        threads: int | None = None,
    ) -> Array:
        """Fill a tensor, or a part of one; `fastinit.initialize` explains the arguments."""
        source = as_source(rng)
        whole = whole_shape(shape, out, index)
        distribution = self.at(axes_of(whole, layout, groups, fan_in, fan_out))
        if type(gain) is not float or gain != 1.0:
            distribution = distribution.rescaled(as_nonnegative(gain, "gain"))
        draws = draws_of(whole) if distribution.draws_per_weight else 0
        if type(source) is int:
            return fill(whole, distribution, source, dtype=dtype, out=out, index=index, threads=threads)
        draw = partial(fill, whole, distribution, dtype=dtype, out=out, index=index, threads=threads)
        return draw_from(source, draws, draw)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, ``{"kind": ..., parameter: value, ...}``, that `from_json` reads.

        An infinite bound is null, and a parameter that is None is left out.
        """
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every initializer is a dataclass
        values = {field.name: getattr(self, field.name) for field in fields}
        return {"kind": self.kind, **{k: _plain(v) for k, v in values.items() if v is not None}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what `to_json` described; ValueError for anything else.

        `fastinit.functions.as_initializer` reads text, and refuses a key that occurs twice.

        Examples
        --------
        >>> from fastinit import initializers
        >>> residual = initializers.Residual(initializers.kaiming("normal", "gelu"), residual_layers=12)
        >>> initializers.Initializer.from_json(residual.to_json()) == residual
        True
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"an initializer is a JSON object, got {data!r}")
        try:
            parameters = {k: Initializer.from_json(v) if isinstance(v, Mapping) else v for k, v in data.items()}
        except RecursionError:
            raise ValueError("an initializer is nested too deeply") from None
        kinds = {kind: known for kind, known in _KINDS.items() if issubclass(known, cls)}
        kind = parameters.pop("kind", None)
        if not isinstance(kind, str):
            raise ValueError(f"an initializer needs a kind, one of {', '.join(kinds)}; got {kind!r}")
        made: Self = _made(kinds[as_choice(kind, kinds, "kind of initializer")], parameters)
        return made

    def _set(self, **values: Any) -> None:
        """Put checked values in place of those given; for ``__post_init__``."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _plain(value: Any) -> Any:
    if isinstance(value, Initializer):
        return value.to_json()
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and math.isinf(value) else value


def _made(cls: type[Any], parameters: dict[str, Any]) -> Any:
    """Return an initializer of exactly its fields; those whose default is None may be left out."""
    fields = dataclasses.fields(cls)
    needed = {field.name for field in fields if field.default is not None}
    if not needed <= parameters.keys() <= {field.name for field in fields}:
        raise ValueError(f"{cls.kind!r} takes {[field.name for field in fields]}, got {list(parameters)}")
    try:
        return cls(**parameters)
    except TypeError as error:
        raise ValueError(f"{cls.kind!r}: {error}") from error
