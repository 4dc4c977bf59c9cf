"""Specs: the dtype and the shape of each tensor of a model, from a JSON description."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._engine.checks import MAX_AXES, U64_LIMIT, size_of
from .._engine.dtypes import BY_TAG, DType, named_dtype
from .._engine.names import check_tensor_name
from ..errors import CheckpointError, EmptyName, EmptyNameInFile, InvalidNameInFile, InvalidTensorName
from .json_text import quoted


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The dtype and logical shape of a tensor."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return size_of(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its data."""
        return self.dtype.nbytes(self.size)


def is_placeholder(name: str, spec: TensorSpec) -> bool:
    """Say whether a tensor is an empty placeholder: a weight of shape [0]; a buffer may well be empty."""
    return spec.shape == (0,) and spec.dtype.is_float and name.endswith("weight")


def placeholders_sentence(names: Sequence[str]) -> str:
    """Say what the tensors `names` are, each of which `is_placeholder`."""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return (
        f"{', '.join(map(quoted, names[:3]))}{more}: shape [0] is what a partitioned save (DeepSpeed "
        "ZeRO-3) leaves of a matrix whose weights other files hold; gather them first, by zero_to_fp32.py or "
        "stage3_gather_16bit_weights_on_model_save"
    )


def specs_of(
    entries: Mapping[str, Any], where: str, known: Collection[str] | None = None
) -> dict[str, TensorSpec]:
    """Return the specs that ``{name: {"dtype": "F32", "shape": [2, 3]}}`` describes.

    An entry may also be a `TensorSpec`, or any object with a `shape` and a `dtype`: an array, a tensor.

    Parameters
    ----------
    entries : mapping
        From name to entry.
    where : str
        What they were read from, for errors.
    known : collection of str, optional
        The keys that an entry may have; None allows any, as the safetensors format does.

    Raises
    ------
    CheckpointError
        For an entry that is not a spec.
    """
    specs = {}
    for name, entry in entries.items():
        check_tensor_name(name)
        specs[name] = entry if isinstance(entry, TensorSpec) else _spec(name, _stated(entry), where, known)
    return specs


def read_spec(name: str, entry: Any, file: str, known: Collection[str] | None = None) -> TensorSpec:
    """Return the spec that an entry of a file describes, as `specs_of` does; every error names the file.

    Raises
    ------
    CheckpointError
        For an entry that is not a spec.
    EmptyNameInFile, InvalidNameInFile
        For a name that no tensor can have.
    """
    check_name_in_file(name, file)
    return _spec(name, entry, file, known)


def check_name_in_file(name: str, file: str) -> None:
    """Check a tensor's name that stands in a file, as `check_tensor_name` does; the error names the file."""
    try:
        check_tensor_name(name)
    except EmptyName:
        raise EmptyNameInFile(file) from None
    except InvalidTensorName as error:
        raise InvalidNameInFile(file, name, error.reason) from None


def too_long_though_empty(dtype: DType, shape: tuple[int, ...]) -> str:
    """Say why no array has the shape of an empty tensor, "" where one can: numpy multiplies the other axes."""
    if 0 not in shape or _size_without_zeros(shape) * dtype.itemsize < _ARRAY_LIMIT:
        return ""
    return f"is empty, but its other axes multiply to 2**63 bytes or more, which no array can have: {list(shape)}"


_ARRAY_LIMIT = 1 << 63  # bytes; numpy counts them in a signed word


def _size_without_zeros(shape: tuple[int, ...]) -> int:
    return size_of(tuple(n for n in shape if n))


def _stated(entry: Any) -> Any:
    """Return what an array states of itself, as an entry does; anything else as it is."""
    if isinstance(entry, Mapping) or not (hasattr(entry, "shape") and hasattr(entry, "dtype")):
        return entry
    return {"dtype": entry.dtype, "shape": tuple(entry.shape)}


def _spec(name: str, entry: Any, where: str, known: Collection[str] | None) -> TensorSpec:
    if not isinstance(entry, Mapping) or "dtype" not in entry or "shape" not in entry:
        raise CheckpointError(f"{where}: tensor {name!r} must state its dtype and shape")
    unknown = [] if known is None else [key for key in entry if key not in known]
    if unknown:
        raise CheckpointError(
            f"{where}: tensor {name!r} has the key {quoted(unknown[0])}, which nothing here reads; an entry "
            "states dtype and shape, and a policy decides the rest"
        )
    tag = entry["dtype"]
    # A file of the format must spell a dtype as the format does: other readers know no other name.
    dtype = named_dtype(tag) if known is not None else BY_TAG.get(tag) if isinstance(tag, str) else None
    if dtype is None:
        raise CheckpointError(
            f"{where}: tensor {name!r} has dtype {quoted(tag)}; safetensors has {', '.join(BY_TAG)}"
        )
    return TensorSpec(dtype, _shape(f"{where}: tensor {name!r}", dtype, entry["shape"]))


def _shape(tensor: str, dtype: DType, shape: Any) -> tuple[int, ...]:
    """Return the checked shape of an entry."""
    if not isinstance(shape, list | tuple) or not all(type(n) is int and 0 <= n < U64_LIMIT for n in shape):
        raise CheckpointError(f"{tensor} must have a shape of non-negative integers")
    if len(shape) > MAX_AXES:  # before their product: of a million huge entries it would take hours
        raise CheckpointError(f"{tensor} has {len(shape)} axes; at most {MAX_AXES} are supported")
    # An axis of zero empties the tensor, but other readers multiply the rest first.
    if dtype.nbytes(_size_without_zeros(tuple(shape))) >= U64_LIMIT:
        raise CheckpointError(f"{tensor} has axes that multiply to more than 2**64 - 1 bytes")
    problem = too_long_though_empty(dtype, tuple(shape))
    if problem:
        raise CheckpointError(f"{tensor} {problem}")
    if size_of(tuple(shape)) % dtype.packed:
        raise CheckpointError(
            f"{tensor} has {size_of(tuple(shape))} elements; {dtype.tag} needs a multiple of {dtype.packed}, "
            "which fill whole bytes"
        )
    return tuple(shape)
