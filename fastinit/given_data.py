"""The data of a plan's given tensors: checked against their digests, read from a file, copied into memory."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from ._engine.given import problem_with
from ._engine.parts import Array, Index, locate
from ._engine.targets import choose_dtype, target_of
from ._files.opening import open_file
from ._files.reading import read_at
from ._files.safetensors import Header, read_header
from .errors import PlanError
from .planned import PlannedTensor

Data = str | os.PathLike[str] | Mapping[str, Array]
"""A ``.safetensors`` file, or arrays by the names of tensors."""


def checked_given(tensors: Mapping[str, PlannedTensor], given: Mapping[str, Array]) -> dict[str, Array]:
    """Return read-only views of the data of given tensors, or a PlanError that names the one that is wrong."""
    return {name: _checked(name, tensors.get(name), array) for name, array in given.items()}


def _checked(name: str, tensor: PlannedTensor | None, array: Array) -> Array:
    if tensor is None or not tensor.is_given:
        why = "is not in the plan" if tensor is None else f"is {tensor.initializer!r} in the plan, not given data"
        raise PlanError(f"data was given for tensor {name!r}, which {why}")
    view = np.asarray(array).view()
    problem = problem_with(view, tensor.digest, tensor.dtype, tensor.shape)
    if problem:
        raise PlanError(f"the data given for tensor {name!r} {problem}")
    view.flags.writeable = False
    return view


def read_given(source: Data, names: Collection[str]) -> dict[str, Array]:
    """Return those of the named tensors that a file or a mapping holds; PlanError where it holds none of some."""
    found = _of_mapping(source, names) if isinstance(source, Mapping) else _of_file(Path(source), names)
    if names and not found:
        what = "the arrays given" if isinstance(source, Mapping) else f"{source}"
        raise PlanError(f"{what} has none of the plan's given tensors: {', '.join(map(repr, names))}")
    return found


def _of_mapping(arrays: Mapping[str, Array], names: Collection[str]) -> dict[str, Array]:
    return {name: arrays[name] for name in names if name in arrays}


def _of_file(path: Path, names: Collection[str]) -> dict[str, Array]:
    with open_file(path) as file:
        header = read_header(file, str(path))
        return {name: _read(file.fileno(), header, name, str(path)) for name in names if name in header.specs}


def _read(descriptor: int, header: Header, name: str, path: str) -> Array:
    spec = header.specs[name]
    raw = np.empty(spec.nbytes, np.uint8)
    if raw.size:
        read_at(descriptor, header.offsets[name], raw.data, path, name)
    return raw if spec.dtype.packed > 1 else raw.view(spec.dtype.stored).reshape(spec.shape)


def copied(data: Array | None, tensor: PlannedTensor, out: object, index: Index | None) -> Array:
    """Return a copy of (a part of) a given tensor, in `out` where that is given."""
    if data is None:
        raise PlanError(
            f"tensor {tensor.name!r} is given data, which no seed makes: its bytes travel in the checkpoint of "
            "its plan; plan.with_given('FILE.safetensors') reads them from there, and "
            "Plan(..., given={name: array}) takes them from memory"
        )
    part = data if index is None else _part_of(data, tensor, index)
    if out is None:
        return _as_named(np.array(part, order="C"), tensor)
    target = target_of(out)
    _check_target(target, tensor, part)
    _copy(part, target)
    return out  # type: ignore[return-value]


def _part_of(data: Array, tensor: PlannedTensor, index: Index) -> Array:
    if tensor.dtype.packed > 1:
        raise PlanError(
            f"tensor {tensor.name!r} is {tensor.dtype.name}, whose elements share bytes: it has no parts; "
            "leave out index="
        )
    locate(tensor.shape, index)  # numpy would take lists and masks, too
    return np.asarray(data[index])


def _as_named(array: Array, tensor: PlannedTensor) -> Array:
    """Return bits under the name of their dtype; what is packed stays bytes."""
    if tensor.dtype.packed > 1 or array.dtype.name == tensor.dtype.name:
        return array
    return array.view(tensor.dtype.numpy)


def _check_target(target: Array, tensor: PlannedTensor, part: Array) -> None:
    if tensor.dtype.packed == 1:
        choose_dtype(tensor.dtype, target)
    if target.shape != part.shape or target.itemsize != part.itemsize:
        raise ValueError(
            f"out has shape {target.shape} of {target.dtype.name}, but the part of tensor {tensor.name!r} has "
            f"shape {part.shape} of {part.dtype.name}"
        )


def _copy(part: Array, target: Array) -> None:
    """Copy bit for bit: where the two dtypes have one name, numpy does; else both are looked at as their bits."""
    if part.dtype.name == target.dtype.name:
        target[...] = part
        return
    bits = np.dtype(f"u{part.itemsize}")
    swapped = bits if target.dtype.isnative else bits.newbyteorder("S")
    target.view(swapped)[...] = part.view(bits)
