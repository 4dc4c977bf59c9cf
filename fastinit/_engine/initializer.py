"""The two base classes: `Initializer`, and `Distribution`, an initializer that needs no shape.

The distributions themselves stand in `distributions.py` and `constructions.py`, the initializers that need a shape
in `fastinit/initializers.py`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex

from .. import _core
from ..errors import DistributionError
from . import probability
from .axes import Axes, axes_of
from .boxes import Box
from .checks import Shape, ShapeLike, as_choice, as_nonnegative, as_shape, as_source
from .dtypes import FLOAT64, DType
from .fill import fill
from .parts import Array, Index, Part, Slice
from .probability import Moments
from .targets import whole_shape

if TYPE_CHECKING:
    from .annotations import FloatDType, Out
    from .generator import SplitMix64

__all__ = ["Distribution", "Initializer"]

_KINDS: dict[str, type[Initializer]] = {}
"""kind -> class, of every initializer and distribution."""


class Initializer:
    """What a tensor of any shape starts as. A subclass is a frozen dataclass that says `at` which distribution."""

    __slots__ = ()
    kind: ClassVar[str]
    holds_weights: ClassVar[bool] = True
    """Whether the elements are weights, which can be scaled, and not indices."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Register a class by its kind, so that `from_json` finds it."""
        super().__init_subclass__(**options)
        if "kind" not in cls.__dict__:
            return
        holder = _KINDS.get(cls.kind, cls)  # a dataclass with slots is made twice, under one name
        if (holder.__module__, holder.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(
                f"the kind {cls.kind!r} is that of {holder.__qualname__}; give {cls.__qualname__} another"
            )
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
        shape: ShapeLike,
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
        shape: ShapeLike | None,
        rng: SplitMix64 | SupportsIndex,
        *,
        gain: float = 1.0,
        dtype: FloatDType | None = None,
        out: Out | None = None,
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
        factor = gain if type(gain) is float and gain == 1.0 else as_nonnegative(gain, "gain")
        axes = axes_of(whole, layout, groups, fan_in, fan_out)
        distribution = self.at(axes)
        if factor != 1.0:
            distribution = distribution.rescaled(factor)
        draws = axes.draws if distribution.draws_per_weight else 0
        if isinstance(source, int):
            return fill(source, whole, distribution, dtype, out, index, threads)
        return source.transact(draws, fill, whole, distribution, dtype, out, index, threads)

    def recipe(self) -> _core.Recipe | None:
        """Return what the kernel is given for a tensor of any shape, as numbers; None where it takes more."""
        return None

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
        known = kinds[as_choice(kind, kinds, "kind of initializer")]
        made: Self = _made(known, known.decoded(parameters))
        return made

    @classmethod
    def decoded(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that a JSON object's parameters describe."""
        return parameters

    def _set(self, **values: Any) -> None:
        """Put checked values in place of those given; for ``__post_init__``."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


class Distribution(Initializer):
    """What the elements of one tensor are; it needs no shape to say so, and is therefore an initializer too.

    A subclass is a frozen dataclass.
    """

    __slots__ = ()
    kind: ClassVar[str]
    base: ClassVar[int | None] = None
    """The kernel that draws it, by `_core`'s number; None where no kernel draws it element by element."""
    draws_per_weight: ClassVar[int]
    """1, or 0 where it takes no draws."""
    scales: ClassVar[tuple[str, ...]] = ()
    """Parameters that are multiplied when the weights are."""
    needs: ClassVar[str] = ""
    """What makes its parameters an interval, for an error."""
    by_element: ClassVar[bool] = True
    """Whether an element can be made without the others, and wherever it lies."""
    by_part: ClassVar[bool] = True
    """Whether a part of the tensor can be made without the rest."""
    is_divided: ClassVar[bool] = False
    """Whether `regions` says what is drawn where."""
    is_given: ClassVar[bool] = False
    """Whether its elements are data that no stream makes."""
    is_part: ClassVar[bool] = True
    """Whether it can be one part of a larger tensor."""

    def at(self, axes: Axes) -> Distribution:
        """Return itself: the axes change nothing."""
        axes.check()
        return self

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers that the kernel is given."""
        raise NotImplementedError

    def recipe(self) -> _core.Recipe | None:
        """Return its own numbers: no shape changes them."""
        if self.base is None or type(self).__module__ != f"{__package__}.distributions":
            return None  # a class of a user's may draw in a way of its own
        return _core.Recipe(self.base, self.parameters)

    def prepare(self, dtype: DType) -> _core.Spec | None:
        """Return what the kernel needs to draw into `dtype`; None where no kernel serves, and `values` does.

        Raises
        ------
        DistributionError
            If its interval or spread is not one, holds no value of the dtype, or leaves its finite range.
        """
        if self.base is None or not dtype.is_float:
            raise self.unfit(dtype)
        return checked_spec(self, _core.Spec(self.base, dtype.code, self.parameters), dtype)

    def unfit(self, dtype: DType) -> DistributionError:
        """Return the error that says the dtype cannot hold it."""
        return DistributionError(f"{self} cannot be stored as {dtype.name}")

    def values(self, shape: Shape, state: int, part: Part, index: Index | None, threads: int | None) -> Array:
        """Return the values of a part, where `prepare` said that no kernel serves."""
        raise NotImplementedError

    def regions(self, shape: Shape, index: Index | None) -> Iterator[tuple[Distribution, Slice, Part]]:
        """Yield what the regions of ``whole[index]`` are filled with, where `is_divided`."""
        raise NotImplementedError

    def check(self, shape: Shape) -> None:
        """Refuse a shape that it cannot have."""

    def rescaled(self, factor: float, p: float = 1.0, q: float = 1.0) -> Distribution:
        """Return it with every weight times ``factor / sqrt(p / q)``; the arithmetic is C's."""
        changed = {name: self._times(getattr(self, name), factor, p, q) for name in self.scales}
        return dataclasses.replace(self, **changed)  # type: ignore[type-var]  # every distribution is a dataclass

    def affine(self, factor: float, offset: float) -> Distribution | None:
        """Return what ``factor * weight + offset`` is; None where no distribution here says so."""
        return self.rescaled(factor) if factor >= 0 and not offset else None

    def clamped(self, low: float, high: float) -> Distribution | None:
        """Return what a weight clamped to [low, high] is; None where no distribution here says so."""
        least, largest = self.support
        return self if low <= least and largest <= high else None

    def _times(self, x: float, factor: float, p: float, q: float) -> float:
        if factor < 0:
            raise ValueError(f"a factor must be >= 0, got {factor}: the weights keep their signs")
        product = _core.rescale(x, factor, p, q)
        if not -math.inf < product < math.inf:
            raise DistributionError(f"{self} times {factor:.6g} leaves the finite range of float64")
        return product

    def variance(self, shape: Shape = ()) -> float:
        """Return the variance of a weight, over all tensors of `shape`."""
        moments = self.moments(shape)
        if moments is None:
            raise DistributionError(f"{self} has no variance for shape {shape}")
        return moments.std**2

    def moments(self, shape: Shape = (), dtype: DType = FLOAT64, *, is_cast: bool = False) -> Moments | None:
        """Return the moments of a weight; None where it is an index, or where the tensor is empty.

        Parameters
        ----------
        shape : tuple of int
            The tensor's shape, which matters where the whole tensor is made at once.
        dtype : DType, default float64
            In a dtype of one or two bytes the moments are those after rounding, exactly: a large part of the
            weights lies near the bounds, where the values are furthest apart, so rounding and clamping shift mean
            and standard deviation.
        is_cast : bool
            Whether another program rounded the weights, without this package's clamp.
        """
        moments = self._moments(shape)
        if moments is None or dtype.itemsize > 2 or not moments.std or not self.by_element:
            return moments
        return probability.stored_moments(self, dtype, is_cast=is_cast)

    def _moments(self, shape: Shape) -> Moments | None:
        raise NotImplementedError

    @property
    def support(self) -> tuple[float, float]:
        """The interval in which every weight lies, in float64."""
        raise NotImplementedError

    def cdf(self, x: Array) -> Array | None:  # noqa: ARG002
        """Return the probability of a weight below each `x`; None where a single weight has no distribution."""
        return None

    def density(self, x: Array) -> Array | None:  # noqa: ARG002
        """Return the probability density at each `x`; None where there is none."""
        return None

    def reachable(self, values: Array, dtype: DType) -> Array:  # noqa: ARG002
        """Return those of the dtype's `values` that a fill can give: the interval holds after rounding too."""
        return values

    def part_in(self, shape: Shape, box: Box, inner: Slice, state: int, threads: int | None = None) -> Array:
        """Return what `inner` cuts from a box of a larger tensor, in float64, where it is not `by_element`."""
        raise NotImplementedError

    def slack_in(self, shape: Shape, box: Box, state: int) -> Array | float:  # noqa: ARG002
        """Return `slack` of a box of a larger tensor."""
        return 0.0

    def slack(self, shape: Shape, state: int) -> Array | float:  # noqa: ARG002
        """Return how far weights of another machine may lie from this one's: 0 where bits are promised."""
        return 0.0

    def describe(self) -> str:
        """Return the parameters for people: ``limit=0.0884``."""
        shown = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}  # type: ignore[call-overload]
        return " ".join(
            f"{name}={value}" if isinstance(value, str) else f"{name}={value:.6g}" for name, value in shown.items()
        )


def checked_spec(distribution: Distribution, spec: _core.Spec, dtype: DType) -> _core.Spec:
    """Return `spec` if it can be drawn, or raise a DistributionError that says why not."""
    if spec.status == _core.OK:
        return spec
    if spec.status == _core.NOT_AN_INTERVAL:
        raise DistributionError(f"{distribution} is not an interval: it needs {distribution.needs}")
    if spec.status == _core.EMPTY_INTERVAL:
        raise DistributionError(f"no {dtype.name} value lies inside {distribution}; {_wider(dtype)}")
    if spec.status == _core.BEYOND_RANGE:
        raise DistributionError(f"{distribution} leaves the finite range of {dtype.name}; {_wider(dtype)}")
    raise DistributionError(f"{distribution} needs a finite mean and a finite std of 0 or more")


def _wider(dtype: DType) -> str:
    return "no dtype is wider: change the parameters" if dtype == FLOAT64 else "use a wider dtype"


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
