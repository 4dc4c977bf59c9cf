"""The header of a ``.safetensors`` file, read and written; the one place that knows its ``__metadata__``.

A file is untrusted: sizes are bounded before anything is read, and every statement of a header is checked against
the others. The format: https://huggingface.co/docs/safetensors (8 bytes of length, a JSON header, the data).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from .._engine.checks import U64_LIMIT
from ..errors import CheckpointError
from .json_text import JsonText, quoted
from .opening import read_bytes
from .specs import TensorSpec, read_spec

HEADER_LIMIT = 100_000_000
"""The largest header the format allows, in bytes."""

METADATA = "__metadata__"
"""The header's key for free text, which therefore names no tensor."""

RESERVED = "is the key of a safetensors header's metadata; call the tensor something else"
"""What is wrong with a tensor of that name."""

DATA_ALIGNMENT = 64
"""The data starts at a multiple of it: a line of the cache, and of a vector."""

PLAN_PREFIX = "fastinit."
"""Of the keys in the metadata that hold the plan."""

METADATA_KEYS = 1 << 16
"""The most keys of the header's free text; the files in the wild have a hundred at most."""

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
    prefix = read_bytes(file, _LENGTH_BYTES, path)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < _LENGTH_BYTES:
        raise CheckpointError(f"{path} is too short ({size} bytes) for a safetensors header")
    if length > HEADER_LIMIT:
        raise CheckpointError(f"{path}: the header claims {length} bytes; the format allows {HEADER_LIMIT}")
    if length > size - _LENGTH_BYTES:
        raise CheckpointError(
            f"{path}: the header claims {length} bytes; the file has {size - _LENGTH_BYTES} after its length"
        )
    start = _LENGTH_BYTES + length
    text = JsonText(lambda count: read_bytes(file, min(count, start - file.tell()), path), path)
    return _walked(text, path, start)


def _walked(text: JsonText, path: str, start: int) -> Header:
    """Read a header entry by entry; its data starts at byte `start`."""
    specs: dict[str, TensorSpec] = {}
    offsets: dict[str, int] = {}
    metadata: dict[str, str] | None = None
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}  # most tensors have the shape of others
    for name in text.members(specs):
        if name == METADATA:
            if metadata is not None:
                raise CheckpointError(f"{path}: key {name!r} occurs twice")
            metadata = _metadata(text, path)
            continue
        entry = text.value()
        spec = read_spec(name, entry, path)
        specs[name] = TensorSpec(spec.dtype, shapes.setdefault(spec.shape, spec.shape))
        begin, end = _span(entry, name, path)
        if end - begin != spec.nbytes:
            raise CheckpointError(
                f"{path}: tensor {name!r} spans {end - begin} bytes, but its shape and dtype need {spec.nbytes}"
            )
        offsets[name] = start + begin
    text.end()
    return Header(specs, offsets, metadata or {}, _end(specs, offsets, start, path))


def _end(specs: Mapping[str, TensorSpec], offsets: Mapping[str, int], start: int, path: str) -> int:
    """Return where the last tensor ends; each begins where another ends, so that no byte is unaccounted for."""
    expected = start
    for name in sorted(specs, key=lambda name: (offsets[name], specs[name].nbytes)):
        begin, end = offsets[name], offsets[name] + specs[name].nbytes
        if begin != expected:
            problem = "overlaps the tensor before it" if begin < expected else "leaves a hole before it"
            raise CheckpointError(f"{path}: tensor {name!r} at bytes {begin - start} to {end - start} {problem}")
        expected = end
    return expected


def _metadata(text: JsonText, path: str) -> dict[str, str]:
    """Read the header's free text."""
    found: dict[str, str] = {}
    for key in text.members(found, f"{path}: {METADATA}"):
        value = text.value()
        if not isinstance(value, str):
            raise CheckpointError(f"{path}: {METADATA} must map strings to strings")
        if not (_is_unicode(key) and _is_unicode(value)):
            raise CheckpointError(f"{path}: {METADATA} has a lone surrogate, which UTF-8 cannot carry")
        if len(found) == METADATA_KEYS:
            raise CheckpointError(f"{path}: {METADATA} has more than {METADATA_KEYS:,} keys")
        found[key] = value
    return found


def _is_unicode(text: str) -> bool:
    return text.isascii() or _SURROGATE.search(text) is None


_SURROGATE = re.compile("[\ud800-\udfff]")


def _span(entry: Any, name: str, path: str) -> tuple[int, int]:
    offsets = entry.get("data_offsets")
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(type(n) is int and 0 <= n < U64_LIMIT for n in offsets)
        or offsets[0] > offsets[1]
    ):
        raise CheckpointError(
            f"{path}: tensor {name!r} must have two ascending data_offsets, got {quoted(offsets)}"
        )
    return offsets[0], offsets[1]
