"""`PlannedTensor`: what one tensor of a plan will be; its checks and its entry in a plan's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._engine.checks import MAX_AXES, as_shape, as_u64, size_of
from ._engine.dtypes import BY_TAG, DType, named_dtype
from ._engine.initializer import Distribution
from ._engine.names import check_tensor_name
from ._engine.targets import as_dtype
from ._files.json_text import quoted
from ._files.safetensors import METADATA, RESERVED
from ._files.specs import too_long_though_empty
from .errors import InitializationError, InvalidTensorName, PlanError


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """What one tensor will be.

    Attributes
    ----------
    name : str
        Its name, which also names its stream.
    shape : tuple of int
        Logical shape.
    dtype : DType
        Storage format; its name is taken too.
    initializer : str
        The initializer's name.
    distribution : Distribution
        What it is filled with.
    state : int
        Raw state of its stream: draw i is ``mix64(state + (i + 1) * gamma)``.
    copy_of : str
        Another tensor of the plan, "" for none. The model's code starts this one as its copy, so it has that one's
        state, distribution and shape, draws nothing of its own, and may be of another dtype.

    Examples
    --------
    >>> from fastinit import PlannedTensor
    >>> from fastinit.initializers import Normal
    >>> PlannedTensor("w", (3, 3), "float32", "normal", Normal(), state=17).nbytes
    36
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    initializer: str
    distribution: Distribution
    state: int
    copy_of: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", as_shape(self.shape))
        object.__setattr__(self, "dtype", _stored_dtype(self.dtype))
        object.__setattr__(self, "state", as_u64(self.state, "state"))
        if not hasattr(type(self.distribution), "draws_per_weight"):  # an initializer, say, that needs a shape
            raise TypeError(
                f"distribution must say what tensor {self.name!r} is filled with, got {self.distribution!r}; "
                "an initializer gives one: initializer.for_shape(shape)"
            )

    @property
    def size(self) -> int:
        """Number of elements."""
        return size_of(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its data."""
        return self.dtype.nbytes(self.size)

    @property
    def draws(self) -> int:
        """Draws it consumes: a copy consumes none of its own."""
        return 0 if self.copy_of else self.size * self.distribution.draws_per_weight

    @property
    def is_given(self) -> bool:
        """Whether it is data that no stream makes."""
        return self.distribution.is_given

    @property
    def digest(self) -> str:
        """The digest of given data, "" of all else."""
        return getattr(self.distribution, "digest", "")

    def describe(self) -> str:
        """Return the parameters of its distribution for people, and of what it is a copy."""
        copied = [f"copy of {self.copy_of}"] if self.copy_of else []
        return ", ".join(filter(None, [self.distribution.describe(), *copied]))

    def to_json(self) -> dict[str, Any]:
        """Return its entry in a plan's JSON, which `read_planned` reads."""
        copied = {"copy_of": self.copy_of} if self.copy_of else {}
        return {
            "dtype": self.dtype.name,
            "shape": list(self.shape),
            "scheme": self.initializer,
            "content": self.distribution.to_json(),
            "state": self.state,
            **copied,
        }


def _stored_dtype(dtype: object) -> DType:
    """Return the dtype of a stored tensor: given data may have one that nothing draws."""
    return named_dtype(dtype) or as_dtype(dtype)[0]


def check_planned(tensor: PlannedTensor) -> None:
    """Refuse a tensor that could not be filled, by its name."""
    check_tensor_name(tensor.name)
    if tensor.name == METADATA:
        raise InvalidTensorName(tensor.name, RESERVED)
    problem = too_long_though_empty(tensor.dtype, tensor.shape)
    if problem:
        raise PlanError(f"tensor {tensor.name!r} {problem}")
    try:
        tensor.distribution.prepare(tensor.dtype)
        tensor.distribution.check(tensor.shape)
    except (InitializationError, ValueError) as error:
        raise PlanError(f"tensor {tensor.name!r}: {error}") from error


def check_copies(tensors: Mapping[str, PlannedTensor]) -> None:
    """Refuse a copy that is not what its original is, by name."""
    for tensor in tensors.values():
        if tensor.copy_of:
            _check_copy(tensor, tensors.get(tensor.copy_of))


def _check_copy(copy: PlannedTensor, original: PlannedTensor | None) -> None:
    what = f"tensor {copy.name!r} is a copy of {copy.copy_of!r}"
    if original is None:
        raise PlanError(f"{what}, which is not in the plan")
    if original.copy_of:
        raise PlanError(f"{what}, which is itself a copy; name the first one, {original.copy_of!r}")
    for fact in ("state", "distribution", "shape", *["dtype"] * copy.is_given):
        theirs, ours = getattr(original, fact), getattr(copy, fact)
        if theirs != ours:
            raise PlanError(f"{what}, but its {fact} is {ours}, and that of the original {theirs}")


def read_planned(name: str, entry: object) -> PlannedTensor:
    """Return the tensor that an entry of a plan's JSON describes."""
    where = f"tensor {name!r}"
    shape, dtype = part_of(entry, "shape", where), part_of(entry, "dtype", where)
    if not isinstance(shape, list) or len(shape) > MAX_AXES:
        raise PlanError(f"{where} needs a shape of at most {MAX_AXES} integers")
    stored = named_dtype(dtype) if isinstance(dtype, str) else None
    if stored is None:
        names = ", ".join(known.name for known in BY_TAG.values())
        raise PlanError(f"{where} has dtype {quoted(dtype)}; expected one of {names}")
    try:
        distribution = Distribution.from_json(part_of(entry, "content", where))
        initializer, state = text_of(entry, "scheme", where), part_of(entry, "state", where)
        copy_of = text_of(entry, "copy_of", where) if "copy_of" in entry else ""  # type: ignore[operator]
        return PlannedTensor(name, tuple(shape), stored, initializer, distribution, state, copy_of)
    except (TypeError, ValueError) as error:
        raise PlanError(f"{where}: {error}") from error


def part_of(data: object, key: str, where: str = "it") -> Any:
    """Return the value of a key that a JSON object must have."""
    if not isinstance(data, Mapping) or key not in data:
        raise PlanError(f"{where} has no {key!r}")
    return data[key]


def text_of(data: object, key: str, where: str = "it") -> str:
    """Return the text of a key that a JSON object must have."""
    text = part_of(data, key, where)
    if not isinstance(text, str):
        raise PlanError(f"{where} has {key} {quoted(text)}; expected a string")
    return text
