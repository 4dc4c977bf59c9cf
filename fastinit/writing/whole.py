"""Formats that another library writes: a zarr group, and what torch saves. One writer makes the whole of them."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from .._engine.parts import row_major
from .._files.replacing import replacing, sync_folder
from .._lazy import need
from ..errors import CheckpointError, PlanError
from ..plan import Plan
from ..planned import PlannedTensor
from ..replay import Progress
from .layout import File, Layout, check_file_name, check_numpy
from .place import Place, check_room

WHOLE = ("zarr", "pt")
"""The formats of this file."""

_CHUNK_BYTES = 64 << 20
_GROUP = "zarr.json"  # what makes a folder a group of zarr v3


def write_whole(plan: Plan, target: Path, format: str, force: bool, progress: Progress | None) -> None:
    """Write a plan in one of the formats `WHOLE`.

    Raises
    ------
    CheckpointError, OSError
        If the target exists and `force` is not given, or cannot be written.
    ImportError
        If the library is not installed.
    PlanError
        If the format cannot hold a tensor.
    """
    library = need(f"--format {format}", "zarr" if format == "zarr" else "torch")
    write = {"zarr": _write_zarr, "pt": _write_pt}[format]
    place = Place.of(target, Layout((File(target.name, 0, ()),)), format == "zarr")
    if not force:
        place.refuse_taken()
    check_room(place.folder, plan.nbytes)
    write(library, plan, place, progress)


class _Count:
    """Tells a progress callable of one tensor after the other."""

    def __init__(self, plan: Plan, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, plan.nbytes, progress

    def __call__(self, nbytes: int, name: str) -> None:
        self._done += nbytes
        if self._progress is not None:
            self._progress(self._done, self._total, name)


# ---- zarr --------------------------------------------------------------------------------------------


def _write_zarr(zarr: Any, plan: Plan, place: Place, progress: Progress | None) -> None:
    for tensor in plan.values():
        check_numpy(tensor)
        check_file_name(tensor)
        if tensor.name == _GROUP or tensor.name.startswith("__"):
            raise PlanError(f"tensor {tensor.name!r} has a name that zarr keeps for itself")
    final = place.folder / place.target.name
    made, count = place.folder / f".fastinit-{secrets.token_hex(8)}.tmp", _Count(plan, progress)
    try:
        group = zarr.open_group(made, mode="w-", zarr_format=3)
        for tensor in plan.values():
            _write_array(group, plan, tensor)
            count(tensor.nbytes, tensor.name)
        _exchange(made, final)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    sync_folder(place.folder)


def _write_array(group: Any, plan: Plan, tensor: PlannedTensor) -> None:
    """Write an array, chunk by chunk: an axis is cut, and those after it are whole."""
    runs = list(row_major(tensor.shape, max(1, _CHUNK_BYTES // tensor.dtype.itemsize)))
    whole = tuple(max(1, length) for length in tensor.shape)
    run = runs[0][2] if runs else whole
    chunks = (*(1,) * (len(whole) - len(run)), *run)
    # Random bits do not get smaller: a compressor would only take time.
    array = group.create_array(
        tensor.name, shape=tensor.shape, dtype=tensor.dtype.name, chunks=chunks, compressors=None
    )
    for _, index, _ in runs:
        array[index] = plan.array(tensor.name, index=index)


def _exchange(made: Path, final: Path) -> None:
    """Give a folder its name; an old one of the same kind goes."""
    if final.exists() and not (final / _GROUP).is_file():
        raise CheckpointError(f"cannot write {final}: there is a folder that is no zarr group; name another")
    old = made.with_suffix(".old.tmp")
    with contextlib.suppress(FileNotFoundError):
        final.rename(old)
    made.rename(final)
    shutil.rmtree(old, ignore_errors=True)


# ---- torch -------------------------------------------------------------------------------------------


def _write_pt(torch: Any, plan: Plan, place: Place, progress: Progress | None) -> None:
    count = _Count(plan, progress)
    held = {}
    for tensor in plan.values():
        held[tensor.name] = _torch_tensor(torch, plan, tensor)
        count(tensor.nbytes, tensor.name)
    with replacing(place.folder / place.target.name) as descriptor, open(descriptor, "r+b", closefd=False) as file:
        torch.save(held, file)
        file.flush()
        os.fsync(descriptor)


def _torch_tensor(torch: Any, plan: Plan, tensor: PlannedTensor) -> Any:
    dtype = getattr(torch, tensor.dtype.name, None)
    if dtype is None or tensor.dtype.packed > 1:
        raise PlanError(f"tensor {tensor.name!r} is {tensor.dtype.name}, which torch does not have")
    memory = np.empty(tensor.shape, tensor.dtype.bits)
    plan.array(tensor.name, out=memory)
    return torch.from_numpy(memory.reshape(-1).view(np.uint8)).view(dtype).reshape(tensor.shape)
