"""Layouts: what tensors a model has, from a JSON description or the header of a ``.safetensors`` file.

A layout is a dict from name to `TensorLayout`, in the file's order. Files are untrusted: sizes are bounded
before anything is read, and every statement of a header is checked against the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO

from .arguments import MAX_AXES, U64_LIMIT, size_of
from .dtypes import BY_TAG, DType
from .errors import CheckpointError, PlanError
from .names import check_tensor_name

HEADER_LIMIT = 100_000_000
"""The largest header the safetensors format allows, in bytes."""

METADATA = "__metadata__"
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """A tensor's dtype and logical shape."""

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


@dataclass(frozen=True, slots=True)
class Header:
    """A checked ``.safetensors`` header.

    Attributes
    ----------
    layout : dict of str to TensorLayout
        In the header's order.
    offsets : dict of str to int
        First byte of each tensor, counted from the start of the file.
    metadata : dict of str to str
        The header's free text.
    end : int
        The length the file must have.
    """

    layout: dict[str, TensorLayout]
    offsets: dict[str, int]
    metadata: dict[str, str]
    end: int


def bundled_layouts() -> tuple[str, ...]:
    """Return the names of the model layouts that come with fastinit."""
    files = resources.files("fastinit.layouts").iterdir()
    return tuple(sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json")))


def open_file(path: Path) -> BinaryIO:
    """Open a checkpoint, or what belongs to one, to read its bytes; CheckpointError where that cannot be."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # to open a pipe would wait for a writer
            raise CheckpointError(f"cannot read {path}: it is a device, pipe or socket; name a file")
        return path.open("rb")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def read_layout(source: str | os.PathLike[str]) -> dict[str, TensorLayout]:
    """Read a layout.

    Parameters
    ----------
    source : str or path
        A ``.safetensors`` file (whole, or cut off after its header), a JSON file of
        ``{name: {"dtype": ..., "shape": [...]}}``, or the name of a bundled layout.

    Raises
    ------
    PlanError
        If there is no such file or bundled layout.
    CheckpointError
        If the file is not a layout.
    """
    path = Path(source)
    if not path.is_file():
        if str(source) in bundled_layouts():
            text = (resources.files("fastinit.layouts") / f"{source}.json").read_bytes()
            return _layout(parse_object(text, f"layout {source}"), f"layout {source}")
        raise PlanError(
            f"no layout file {str(source)!r}, and no bundled layout of that name; "
            f"bundled are {', '.join(bundled_layouts())}"
        )
    with path.open("rb") as file:
        if path.suffix == ".json":
            if os.fstat(file.fileno()).st_size > HEADER_LIMIT:
                raise CheckpointError(f"{path} is larger than {HEADER_LIMIT} bytes, too large for a layout")
            return _layout(parse_object(file.read(HEADER_LIMIT), str(path)), str(path))
        return _header(file, str(path)).layout


def as_layout(layout: Mapping[str, Any]) -> dict[str, TensorLayout]:
    """Return a layout given as ``{name: {"dtype": "F32", "shape": [2, 3]}}`` or of `TensorLayout` objects."""
    return _layout(dict(layout), "layout")


def read_header(file: BinaryIO, path: str) -> Header:
    """Read and check the header of an open ``.safetensors`` file that must hold all its data.

    Raises
    ------
    CheckpointError
        If any statement of the header contradicts another, the format, or the file's length.
    """
    header = _header(file, path)
    size = os.fstat(file.fileno()).st_size
    if size != header.end:
        raise CheckpointError(f"{path}: the header describes a file of {header.end} bytes; it has {size}")
    return header


def _header(file: BinaryIO, path: str) -> Header:
    size = os.fstat(file.fileno()).st_size
    prefix = file.read(_LENGTH_BYTES)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < _LENGTH_BYTES:
        raise CheckpointError(f"{path} is too short ({size} bytes) for a safetensors header")
    if length > HEADER_LIMIT:
        raise CheckpointError(f"{path}: the header claims {length} bytes; the format allows {HEADER_LIMIT}")
    if length > size - _LENGTH_BYTES:
        raise CheckpointError(
            f"{path}: the header claims {length} bytes; the file has {size - _LENGTH_BYTES} after its length"
        )
    data = parse_object(file.read(length), path)
    metadata = data.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError(f"{path}: {METADATA} must map strings to strings")
    if not all(_is_unicode(text) for pair in metadata.items() for text in pair):
        raise CheckpointError(f"{path}: {METADATA} has a lone surrogate, which UTF-8 cannot carry")
    layout = _layout(data, path)
    start = _LENGTH_BYTES + length
    spans = sorted((_span(data[name], name, path), name) for name in layout)
    expected = 0
    for (begin, end), name in spans:
        if begin != expected:
            problem = "overlaps the tensor before it" if begin < expected else "leaves a hole before it"
            raise CheckpointError(f"{path}: tensor {name!r} at bytes {begin} to {end} {problem}")
        if end - begin != layout[name].nbytes:
            raise CheckpointError(
                f"{path}: tensor {name!r} spans {end - begin} bytes, "
                f"but its shape and dtype need {layout[name].nbytes}"
            )
        expected = end
    offsets = {name: start + begin for (begin, _), name in spans}
    return Header(layout, offsets, metadata, start + expected)


def parse_object(text: bytes | str, where: str) -> dict[str, Any]:
    """Return the JSON object `text` is, or raise CheckpointError; keys are unique and numbers are numbers."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise CheckpointError(f"{where}: key {key!r} occurs twice")
            found[key] = value
        return found

    def integer(digits: str) -> int | float:
        return int(digits) if digits != "-0" else -0.0  # a float to other readers, who refuse it as a size

    def no_constant(constant: str) -> Any:
        raise CheckpointError(f"{where}: {constant} is not JSON")

    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        data = json.loads(decoded, object_pairs_hook=unique, parse_int=integer, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where} is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise CheckpointError(f"{where}: expected a JSON object of tensors, got {type(data).__name__}")
    return data


def _layout(data: dict[str, Any], where: str) -> dict[str, TensorLayout]:
    layout = {}
    for name, entry in data.items():
        if name == METADATA:
            continue
        check_tensor_name(name)
        layout[name] = entry if isinstance(entry, TensorLayout) else _tensor(name, entry, where)
    return layout


def _tensor(name: str, entry: Any, where: str) -> TensorLayout:
    if not isinstance(entry, Mapping) or "dtype" not in entry or "shape" not in entry:
        raise CheckpointError(f"{where}: tensor {name!r} must state its dtype and shape")
    tag, shape = entry["dtype"], entry["shape"]
    dtype = BY_TAG.get(tag) if isinstance(tag, str) else None
    if dtype is None:
        raise CheckpointError(f"{where}: tensor {name!r} has dtype {tag!r}; supported are {', '.join(BY_TAG)}")
    if not isinstance(shape, list | tuple) or not all(type(n) is int and 0 <= n < U64_LIMIT for n in shape):
        raise CheckpointError(f"{where}: tensor {name!r} must have a shape of non-negative integers")
    if len(shape) > MAX_AXES:  # before their product: of a million huge entries it would take hours
        raise CheckpointError(f"{where}: tensor {name!r} has {len(shape)} axes; at most {MAX_AXES} are supported")
    tensor = TensorLayout(dtype, tuple(shape))
    # An axis of zero empties the tensor, but other readers multiply the rest first.
    if size_of(tuple(n for n in shape if n)) * dtype.itemsize >= U64_LIMIT:
        raise CheckpointError(f"{where}: tensor {name!r} has axes that multiply to more than 2**64 - 1 bytes")
    return tensor


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _span(entry: Any, name: str, path: str) -> tuple[int, int]:
    offsets = entry.get("data_offsets")
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(type(n) is int and 0 <= n < U64_LIMIT for n in offsets)
        or offsets[0] > offsets[1]
    ):
        raise CheckpointError(f"{path}: tensor {name!r} must have two ascending data_offsets, got {offsets!r}")
    return offsets[0], offsets[1]
