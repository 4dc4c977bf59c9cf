"""The header of a ``.safetensors`` file, read and written; the one place that knows its ``__metadata__``.

A file is untrusted: sizes are bounded before anything is read, and every statement of a header is checked against
the others. The format: https://huggingface.co/docs/safetensors (8 bytes of length, a JSON header, the data).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from .._engine.checks import U64_LIMIT
from ..errors import CheckpointError
from .json_text import parse_object
from .specs import TensorSpec, specs_of

HEADER_LIMIT = 100_000_000
"""The largest header the format allows, in bytes."""

METADATA = "__metadata__"
"""The header's key for free text, which therefore names no tensor."""

DATA_ALIGNMENT = 64
"""The data starts at a multiple of it: a line of the cache, and of a vector."""

_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Header:
    """A checked ``.safetensors`` header.

    Attributes
    ----------
    specs : dict of str to TensorSpec
        In the header's order.
    offsets : dict of str to int
        First byte of each tensor, counted from the start of the file.
    metadata : dict of str to str
        The header's free text.
    end : int
        The length the file must have.
    """

    specs: dict[str, TensorSpec]
    offsets: dict[str, int]
    metadata: dict[str, str]
    end: int


def encode_header(specs: Mapping[str, TensorSpec], offsets: Mapping[str, int], metadata: dict[str, str]) -> bytes:
    """Return the length and the header of a file whose tensors start at `offsets`, counted from the data's start.

    Raises
    ------
    CheckpointError
        If the header would be larger than the format allows.
    """
    # Loaders for torch look for "format"; without it they refuse the file.
    entries: dict[str, Any] = {METADATA: {"format": "pt", **metadata}}
    for name, spec in specs.items():
        begin = offsets[name]
        entries[name] = {
            "dtype": spec.dtype.tag,
            "shape": list(spec.shape),
            "data_offsets": [begin, begin + spec.nbytes],
        }
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(len(text) + _LENGTH_BYTES) % DATA_ALIGNMENT)
    if len(text) > HEADER_LIMIT:
        raise CheckpointError(f"its header would take {len(text)} bytes; the format allows {HEADER_LIMIT}")
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def read_header(file: BinaryIO, path: str) -> Header:
    """Read and check the header of an open ``.safetensors`` file that must hold all its data.

    Raises
    ------
    CheckpointError
        If any statement of the header contradicts another, the format, or the file's length.
    """
    header = read_cut_header(file, path)
    size = os.fstat(file.fileno()).st_size
    if size != header.end:
        raise CheckpointError(f"{path}: the header describes a file of {header.end} bytes; it has {size}")
    return header


def read_cut_header(file: BinaryIO, path: str) -> Header:
    """Read and check the header of an open file whose data may be missing, in whole or in part."""
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
    specs = specs_of(data, path)
    start = _LENGTH_BYTES + length
    spans = sorted((_span(data[name], name, path), name) for name in specs)
    expected = 0
    for (begin, end), name in spans:
        if begin != expected:
            problem = "overlaps the tensor before it" if begin < expected else "leaves a hole before it"
            raise CheckpointError(f"{path}: tensor {name!r} at bytes {begin} to {end} {problem}")
        if end - begin != specs[name].nbytes:
            raise CheckpointError(
                f"{path}: tensor {name!r} spans {end - begin} bytes, "
                f"but its shape and dtype need {specs[name].nbytes}"
            )
        expected = end
    offsets = {name: start + begin for (begin, _), name in spans}
    return Header(specs, offsets, metadata, start + expected)


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
