"""Named trainable parameters, and declaration-ordered collections of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, overload

import numpy as np

from ._engine.axes import check_fans
from ._engine.checks import as_source, as_u64
from ._engine.fill import fill
from ._engine.gains import xavier_scale
from ._engine.names import refuse_duplicates, validate_name
from .autodiff import Tensor, TensorValue
from .errors import InitializationError, TensorAutodiffError, TensorError
from .initializers import XAVIER_UNIFORM
from .views.table import Cell, Table

if TYPE_CHECKING:
    from ._engine.generator import SplitMix64

_distribution_of = lru_cache(maxsize=1024)(XAVIER_UNIFORM.for_shape)
"""Shape to distribution, remembered: a model has few shapes, and to resolve one costs more than a small draw."""


class NamedParameter:
    """One immutable external name paired with one trainable leaf.

    Make one with `from_tensor` or `xavier_uniform`. ``copy.copy`` shares the leaf; ``copy.deepcopy`` and pickle
    make a new one.

    Examples
    --------
    >>> import copy, fastinit
    >>> rng = fastinit.SplitMix64(17)
    >>> query = fastinit.NamedParameter.xavier_uniform("decoder.query.weight", 2, 2, rng)
    >>> query.tensor.is_same_node(copy.copy(query).tensor)
    True
    >>> again = fastinit.NamedParameter.xavier_uniform("decoder.query.weight", 2, 2, 17)
    >>> query.tensor.value == again.tensor.value, query.tensor.is_same_node(again.tensor)
    (True, False)
    """

    __slots__ = ("_name", "_tensor")
    _name: str
    _tensor: TensorValue

    def __init__(self) -> None:
        raise TypeError(
            "make a parameter with NamedParameter.from_tensor(name, tensor) or "
            "NamedParameter.xavier_uniform(name, fan_in, fan_out, rng)"
        )

    @classmethod
    def _of(cls, name: str, leaf: TensorValue) -> Self:
        parameter = cls.__new__(cls)
        parameter._name = name
        parameter._tensor = leaf
        return parameter

    @classmethod
    def from_tensor(cls, name: str, tensor: Tensor) -> Self:
        """Wrap `tensor` as a named trainable leaf.

        Parameters
        ----------
        name : str
            Dot-separated segments of ``[a-z0-9_]``.
        tensor : Tensor
            The value, or anything that `Tensor` takes.

        Raises
        ------
        InitializationError
            If the name is refused (see `validate_name`), then if the values are: the `TensorError` or
            `TensorAutodiffError` is its ``__cause__``.
        """
        validate_name(name)
        return cls._wrap(name, Tensor, tensor)

    @classmethod
    def _wrap(cls, name: str, tensor_of: Callable[[Any], Tensor], values: object) -> Self:
        try:
            return cls._of(name, TensorValue.parameter(tensor_of(values)))
        except (TensorError, TensorAutodiffError) as error:
            raise InitializationError(f"parameter {name!r}: {error}") from error

    @classmethod
    def xavier_uniform(cls, name: str, fan_in: int, fan_out: int, rng: SplitMix64 | SupportsIndex) -> Self:
        """Sample one trainable [fan_in, fan_out] float64 matrix; a refusal leaves `rng` as it was.

        Parameters
        ----------
        name : str
            Dot-separated segments of ``[a-z0-9_]``.
        fan_in, fan_out : int
            Rows (inputs) and columns (outputs); 1 to 2**64 - 1.
        rng : SplitMix64 or int
            The generator, which moves on by ``fan_in * fan_out`` draws, or a seed.

        Raises
        ------
        TypeError, ValueError
            For integers of a wrong type or range, before everything else.
        EmptyName, EmptyNameSegment, InvalidNameCharacter, ZeroFanIn, ZeroFanOut, FanSumOverflow, \
ShapeProductOverflow, AllocationFailed
            Checked in this order; the first that fails is raised.
        """
        shape = rows, columns = as_u64(fan_in, "fan_in"), as_u64(fan_out, "fan_out")
        source = as_source(rng)
        if isinstance(source, int):
            return cls._sample(source, name, shape)
        return source.transact(rows * columns, cls._sample, name, shape)

    @classmethod
    def _sample(cls, state: int, name: str, shape: tuple[int, int]) -> Self:
        validate_name(name)
        if 0 in shape:  # an initializer gives an empty tensor without a word
            check_fans(*shape)
        return cls._wrap(name, Tensor.adopt, fill(state, shape, _distribution_of(shape)))

    @property
    def name(self) -> str:
        """The stable external identity used by layers and checkpoints."""
        return self._name

    @property
    def tensor(self) -> TensorValue:
        """The trainable leaf itself."""
        return self._tensor

    def __copy__(self) -> Self:
        return self._of(self._name, self._tensor)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._of(self._name, copy.deepcopy(self._tensor, memo))

    def __reduce__(self) -> tuple[Any, tuple[str, TensorValue]]:
        return type(self)._of, (self._name, self._tensor)

    def __repr__(self) -> str:
        return f"NamedParameter({self._name!r}, shape={self._tensor.shape})"

    def table(self) -> Table:
        """Return a table of one row: name, shape, and the measurements of the values."""
        return Table(_CAPTION, _COLUMNS, (_row(self),))

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class NamedParameters:
    """A collection of parameters in declaration order, no two of one name.

    Parameters
    ----------
    parameters : iterable of NamedParameter
        Kept in the given order.

    Raises
    ------
    DuplicateName
        For the earliest repeated name, with both indices.

    Examples
    --------
    >>> import fastinit
    >>> bias = fastinit.NamedParameter.from_tensor("query.bias", fastinit.Tensor([0.0, 0.0]))
    >>> parameters = fastinit.NamedParameters([bias])
    >>> len(parameters), parameters.names, parameters.get("absent")
    (1, ('query.bias',), None)
    """

    __slots__ = ("_by_name", "_parameters")

    def __init__(self, parameters: Iterable[NamedParameter] = ()) -> None:
        self._parameters = tuple(parameters)
        for parameter in self._parameters:
            if not isinstance(parameter, NamedParameter):
                raise TypeError(f"NamedParameters holds NamedParameter objects, got {type(parameter).__name__}")
        refuse_duplicates(self.names)
        self._by_name = {parameter.name: parameter for parameter in self._parameters}

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in declaration order."""
        return tuple(parameter.name for parameter in self._parameters)

    def get(self, name: str) -> NamedParameter | None:
        """Return the parameter called `name`, or None."""
        return self._by_name.get(name)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[NamedParameter]:
        return iter(self._parameters)

    @overload
    def __getitem__(self, index: SupportsIndex) -> NamedParameter: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[NamedParameter, ...]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> NamedParameter | tuple[NamedParameter, ...]:
        return self._parameters[index]

    def __contains__(self, item: object) -> bool:
        return item in self._by_name if isinstance(item, str) else item in self._parameters

    def __repr__(self) -> str:
        return f"NamedParameters({list(self._parameters)!r})"

    def table(self) -> Table:
        """Return the parameters in declaration order, a row each."""
        rows = ((index, *_row(parameter)) for index, parameter in enumerate(self))
        return Table(_CAPTION, ("index", *_COLUMNS), tuple(rows))

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


_CAPTION = (
    "mean, sd, min and max as measured; Xavier sd: what a [fan_in, fan_out] matrix of that shape is drawn with"
)
_COLUMNS = ("name", "shape", "elements", "mean", "sd", "min", "max", "Xavier sd", "gradient")


def _row(parameter: NamedParameter) -> tuple[Cell, ...]:
    values = parameter.tensor.value.values
    measured: tuple[Cell, ...] = (None,) * 4
    if values.size:
        with np.errstate(over="ignore", invalid="ignore"):  # sums near the largest float64 are inf
            measured = tuple(float(measure()) for measure in (values.mean, values.std, values.min, values.max))
    matrix = values.ndim == 2 and values.size
    return (
        parameter.name,
        "x".join(map(str, values.shape)) or "scalar",
        values.size,
        *measured,
        xavier_scale(*values.shape).standard_deviation if matrix else None,
        parameter.tensor.has_gradient,
    )
