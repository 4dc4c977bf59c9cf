"""The files that a plan becomes: their names, headers, and where each tensor lies; cut into regions.

All of it follows from the plan alone, so every writer, on whatever machine, has the same files before its eyes.
"""

from __future__ import annotations

import io
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from .._engine.checks import as_choice
from .._engine.parts import Array
from .._files.index import is_file_name
from .._files.safetensors import PLAN_PREFIX, encode_header
from ..errors import PlanError
from ..plan import VERSION, Plan
from ..planned import PlannedTensor
from ..provenance import follows, specs_of_plan
from .regions import Piece, Region
from .storage import CHUNK_BYTES

LAID_OUT = ("safetensors", "npy")
"""The formats that regions can be written of."""

STEM = "model"
"""Of the files in a folder, as Hugging Face's libraries look for them."""

_SMALLEST = 4 * CHUNK_BYTES
_LARGEST = 64 * CHUNK_BYTES
_REGIONS = 64  # at least so many where they are not smaller than the smallest: work for as many threads
_LONGEST_NAME = 255  # bytes, of most file systems


@dataclass(frozen=True, slots=True)
class File:
    """One file of a layout.

    Attributes
    ----------
    name : str
        Beside the others.
    size : int
        In bytes.
    pieces : tuple of Piece
        Everything in it, in the order of its bytes.
    """

    name: str
    size: int
    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, name: str, header: bytes, plan: Plan, tensors: Iterable[str]) -> File:
        """Return the file of a header and, after it, the data of tensors of a plan, in their order."""
        pieces = [Piece(0, len(header), np.frombuffer(header, np.uint8))]
        for tensor in (plan[name] for name in tensors):
            if tensor.nbytes:
                end = pieces[-1].end
                pieces.append(Piece(end, end + tensor.nbytes, _source(plan, tensor)))
        return cls(name, pieces[-1].end, tuple(pieces))


@dataclass(frozen=True, slots=True)
class Layout:
    """All files of a plan.

    Attributes
    ----------
    files : tuple of File
        Those with weights.
    texts : dict of str to bytes
        Small files that come last, such as an index: {name: content}.
    is_folder : bool
        Whether the files fill a folder that the user names, and not one file.
    """

    files: tuple[File, ...]
    texts: dict[str, bytes] = field(default_factory=dict)
    is_folder: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all files, in the order in which they may appear."""
        return (*(file.name for file in self.files), *self.texts)

    @property
    def nbytes(self) -> int:
        """Bytes of all files with weights."""
        return sum(file.size for file in self.files)

    def regions(self, folder: str) -> Iterator[Region]:
        """Yield the regions of all files, which lie in `folder`, in the order of their bytes."""
        length = min(max(_SMALLEST, self.nbytes // _REGIONS // CHUNK_BYTES * CHUNK_BYTES), _LARGEST)
        number = 0
        for file in self.files:
            for begin, end, pieces in _cut(file, length):
                yield Region(number, f"{folder}/{file.name}", begin, end, pieces)
                number += 1


def _cut(file: File, length: int) -> Iterator[tuple[int, int, tuple[Piece, ...]]]:
    """Cut a file at multiples of `length`, but not inside what can only be made at once."""
    begins = [piece.begin for piece in file.pieces]

    def is_free(at: int) -> bool:
        piece = file.pieces[bisect_right(begins, at) - 1]
        return piece.is_divisible or piece.begin == at

    edges = [0, *filter(is_free, range(length, file.size, length)), file.size]
    for begin, end in pairwise(edges):
        held = file.pieces[bisect_right(begins, begin) - 1 : bisect_left(begins, end)]
        yield begin, end, tuple(piece.clipped(begin, end) for piece in held)


def _source(plan: Plan, tensor: PlannedTensor) -> PlannedTensor | Array:
    """Return what makes a tensor; of given data, its bytes as a file holds them."""
    if not tensor.is_given:
        return tensor
    data = plan.given.get(tensor.name, plan.given.get(tensor.copy_of))
    assert data is not None, "a plan that lacks data is refused before"
    stored = np.asarray(data, data.dtype.newbyteorder("<"), order="C")
    return stored.reshape(-1).view(np.uint8)


def laid_out(plan: Plan, format: str, name: str, most: int | None) -> Layout:
    """Return the layout of a plan in a format: one file called `name`, or, with `most`, shards in a folder.

    Raises
    ------
    CheckpointError
        If a header would be larger than the format allows.
    PlanError
        If the format cannot hold a tensor.
    ValueError
        If the format has no shards.
    """
    if as_choice(format, LAID_OUT, "format to write by regions") == "npy":
        if most is not None:
            raise ValueError(
                "--format npy is one file a tensor already; leave out max_shard_size (--max-shard-size)"
            )
        return npy_files(plan)
    return one_file(plan, name) if most is None else sharded(plan, most)


# ---- safetensors -------------------------------------------------------------------------------------


def one_file(plan: Plan, name: str) -> Layout:
    """Return the layout of one ``.safetensors`` file.

    Raises
    ------
    CheckpointError
        If its header would be larger than the format allows.
    """
    return Layout((_safetensors(plan, name),))


def sharded(plan: Plan, most: int) -> Layout:
    """Return the layout that Hugging Face's libraries load: shards of at most `most` bytes of data, and an index.

    Shards are filled in the order of the plan, and a larger tensor gets one for itself, as `huggingface_hub` does.
    A copy lies beside its original, for a shard's plan must be whole.
    """
    shards = list(_shards(plan, most))
    if len(shards) == 1:
        return Layout((_safetensors(plan, f"{STEM}.safetensors"),), is_folder=True)
    count = len(shards)
    names = [f"{STEM}-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    homes = {tensor.name: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
    index = {"metadata": {"total_size": plan.nbytes}, "weight_map": {name: homes[name] for name in plan}}
    files = (_safetensors(_part(plan, shard), name) for name, shard in zip(names, shards, strict=True))
    text = json.dumps(index, indent=2, ensure_ascii=False).encode() + b"\n"
    return Layout(tuple(files), {f"{STEM}.safetensors.index.json": text}, is_folder=True)


def _shards(plan: Plan, most: int) -> Iterator[list[PlannedTensor]]:
    copies: dict[str, list[PlannedTensor]] = {}
    for tensor in plan.values():
        copies.setdefault(tensor.copy_of or tensor.name, []).append(tensor)
    shard, size = list[PlannedTensor](), 0
    for block in copies.values():
        nbytes = sum(tensor.nbytes for tensor in block)
        if nbytes > most:
            yield block
            continue
        if size + nbytes > most:
            yield shard
            shard, size = [], 0
        shard.extend(block)
        size += nbytes
    if shard or not copies:
        yield shard


def _part(plan: Plan, tensors: list[PlannedTensor]) -> Plan:
    """Return the plan of some tensors."""
    given = {tensor.name: plan.given[tensor.name] for tensor in tensors if tensor.name in plan.given}
    return Plan(plan.seed, plan.policy, plan.order, tensors, given)


def _safetensors(plan: Plan, name: str) -> File:
    offsets = _offsets(plan)
    metadata = {"version": VERSION, "seed": plan.seed, "policy": plan.policy, "order": plan.order}
    if not follows(plan):
        metadata["plan"] = plan.to_json()
    texts = {PLAN_PREFIX + key: str(value) for key, value in metadata.items()}
    return File.of(name, encode_header(specs_of_plan(plan), offsets, texts), plan, offsets)


def _offsets(plan: Plan) -> dict[str, int]:
    """Place the widest dtypes first, so that every tensor is aligned to its itemsize without holes."""
    offsets, end = {}, 0
    for tensor in sorted(plan.values(), key=_alignment, reverse=True):
        offsets[tensor.name] = end
        end += tensor.nbytes
    return offsets


def _alignment(tensor: PlannedTensor) -> int:
    return 1 if tensor.dtype.packed > 1 else tensor.dtype.itemsize


# ---- npy ---------------------------------------------------------------------------------------------


def npy_files(plan: Plan) -> Layout:
    """Return the layout of a folder of ``.npy`` files, one a tensor.

    Raises
    ------
    PlanError
        If a tensor's name is no file name, or numpy's format does not have its dtype.
    """
    seen: dict[str, str] = {}
    for tensor in plan.values():
        check_file_name(tensor, ".npy")
        check_numpy(tensor)
        other = seen.setdefault(tensor.name.casefold(), tensor.name)
        if other != tensor.name:
            raise PlanError(
                f"tensors {other!r} and {tensor.name!r} would be one file where upper and lower case are one; "
                "--format safetensors holds both"
            )
    return Layout(tuple(_npy(plan, tensor) for tensor in plan.values()), is_folder=True)


def check_file_name(tensor: PlannedTensor, suffix: str = "") -> None:
    """Refuse a tensor whose name is not one of a file: it could lie outside the folder."""
    name = tensor.name + suffix
    if not is_file_name(name) or len(name.encode()) > _LONGEST_NAME:
        raise PlanError(f"tensor {tensor.name!r} cannot name a file; --format safetensors takes every name")


def check_numpy(tensor: PlannedTensor) -> None:
    """Refuse a dtype that numpy itself, and so its files, does not have."""
    if not hasattr(np, tensor.dtype.name):
        raise PlanError(
            f"tensor {tensor.name!r} is {tensor.dtype.name}, which numpy does not have; "
            "--dtype f32 stores its weights so, or take --format safetensors"
        )


def _npy(plan: Plan, tensor: PlannedTensor) -> File:
    header = io.BytesIO()
    facts: dict[str, Any] = {
        "descr": np.lib.format.dtype_to_descr(tensor.dtype.stored),
        "fortran_order": False,
        "shape": tensor.shape,
    }
    np.lib.format.write_array_header_1_0(header, facts)
    return File.of(f"{tensor.name}.npy", header.getvalue(), plan, [tensor.name])
