"""Specs: the dtype and the shape of each tensor of a model, from a JSON description."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from .._engine.checks import MAX_AXES, U64_LIMIT, size_of
from .._engine.dtypes import BY_TAG, DType
from .._engine.names import check_tensor_name
from ..errors import CheckpointError


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
        return self.size * self.dtype.itemsize


def specs_of(
    entries: Mapping[str, Any], where: str, known: Collection[str] | None = None
) -> dict[str, TensorSpec]:
    """Return the specs that ``{name: {"dtype": "F32", "shape": [2, 3]}}`` describes, or `TensorSpec` objects.

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
        specs[name] = entry if isinstance(entry, TensorSpec) else _spec(name, entry, where, known)
    return specs


def _spec(name: str, entry: Any, where: str, known: Collection[str] | None) -> TensorSpec:
    if not isinstance(entry, Mapping) or "dtype" not in entry or "shape" not in entry:
        raise CheckpointError(f"{where}: tensor {name!r} must state its dtype and shape")
    unknown = [] if known is None else [key for key in entry if key not in known]
    if unknown:
        raise CheckpointError(
            f"{where}: tensor {name!r} has the key {unknown[0]!r}, which nothing here reads; an entry states "
            "dtype and shape, and a policy decides the rest"
        )
    tag, shape = entry["dtype"], entry["shape"]
    dtype = BY_TAG.get(tag) if isinstance(tag, str) else None
    if dtype is None:
        raise CheckpointError(f"{where}: tensor {name!r} has dtype {tag!r}; supported are {', '.join(BY_TAG)}")
    if not isinstance(shape, list | tuple) or not all(type(n) is int and 0 <= n < U64_LIMIT for n in shape):
        raise CheckpointError(f"{where}: tensor {name!r} must have a shape of non-negative integers")
    if len(shape) > MAX_AXES:  # before their product: of a million huge entries it would take hours
        raise CheckpointError(f"{where}: tensor {name!r} has {len(shape)} axes; at most {MAX_AXES} are supported")
    spec = TensorSpec(dtype, tuple(shape))
    # An axis of zero empties the tensor, but other readers multiply the rest first.
    if size_of(tuple(n for n in shape if n)) * dtype.itemsize >= U64_LIMIT:
        raise CheckpointError(f"{where}: tensor {name!r} has axes that multiply to more than 2**64 - 1 bytes")
    return spec
