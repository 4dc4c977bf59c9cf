"""Write a plan straight into one mapped ``.safetensors`` file, and verify such a file from itself alone.

A file appears under its name whole or not at all: it is reserved, filled and synced under a temporary name in
the same folder, then renamed.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ._engine.fill import fill
from ._engine.narrow import narrowed
from ._engine.parts import Array, whole_part
from ._files.opening import open_file
from ._files.safetensors import encode_header, read_header
from ._files.specs import TensorSpec
from .errors import CheckpointError, FastinitError
from .plan import VERSION, Plan, PlannedTensor

CHUNK_BYTES = 1 << 25
"""Bytes written or compared at a time."""

_PREFIX = "fastinit."

Progress = Callable[[int, int, str], None]
"""Called with (bytes done, bytes in all, tensor name)."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A tensor that is not what its plan says; `index` is the first wrong element in row-major order."""

    name: str
    index: int
    stored: str
    expected: str

    def __str__(self) -> str:
        return (
            f"tensor {self.name!r} differs first at index {self.index}: "
            f"stored 0x{self.stored}, expected 0x{self.expected}"
        )


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify_checkpoint` found; truthy where every byte is right.

    Attributes
    ----------
    plan : Plan
        The plan that the file's own metadata and header describe.
    mismatches : tuple of Mismatch
        One per tensor that differs.
    """

    plan: Plan
    mismatches: tuple[Mismatch, ...]

    def __bool__(self) -> bool:
        return not self.mismatches


@dataclass(frozen=True, slots=True)
class Written:
    """A finished write.

    Attributes
    ----------
    size : int
        The file's bytes.
    seconds : float
        From reserving the file's room to its rename.
    fill_seconds : float
        The fills alone.
    """

    size: int
    seconds: float
    fill_seconds: float


def write_checkpoint(plan: Plan, path: str | os.PathLike[str], progress: Progress | None = None) -> Written:
    """Initialize a whole model into one ``.safetensors`` file.

    Parameters
    ----------
    plan : Plan
        What to write.
    path : str or path
        The file; one that exists is replaced, in one step, once the new one is complete.
    progress : callable, optional
        Called with (bytes done, bytes in all, tensor name) after every tensor.

    Returns
    -------
    Written
        Size and times.

    Raises
    ------
    CheckpointError
        If the file cannot be written (no room, no such folder); what was at `path` is as before.
    """
    path = Path(path)
    offsets = _offsets(plan)
    try:
        header = _encoded_header(plan, offsets)
    except CheckpointError as error:
        raise CheckpointError(f"cannot write {path}: {error}") from None
    size = len(header) + plan.nbytes
    fill_seconds = 0.0
    began = time.perf_counter()
    try:
        with _replacing(path) as descriptor:
            _reserve(descriptor, size)
            os.pwrite(descriptor, header, 0)
            if plan.nbytes:
                with _mapping(descriptor, mmap.ACCESS_WRITE) as mapped:
                    fill_began = time.perf_counter()
                    _fill_all(plan, mapped, len(header), offsets, progress)
                    fill_seconds = time.perf_counter() - fill_began
                    mapped.flush()
            os.fsync(descriptor)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None) or errno.EFBIG
        reason = os.strerror(number)
        if number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            reason = f"there is no room for its {size:,} bytes ({reason})"
        raise CheckpointError(f"cannot write {path}: {reason}; nothing was changed") from error
    return Written(size, time.perf_counter() - began, fill_seconds)


@contextlib.contextmanager
def _mapping(descriptor: int, access: int) -> Iterator[mmap.mmap]:
    mapped = mmap.mmap(descriptor, 0, access=access)
    try:
        yield mapped
    finally:
        # Arrays over it may live on in a traceback; they keep the mapping, and nothing is lost by that.
        with contextlib.suppress(BufferError):
            mapped.close()


def _fill_all(
    plan: Plan, mapped: mmap.mmap, start: int, offsets: dict[str, int], progress: Progress | None
) -> None:
    done, total = 0, plan.nbytes
    for name, tensor in plan.items():
        memory = _memory(mapped, start + offsets[name], tensor)
        plan.array(name, out=memory)
        del memory  # an exported buffer would keep the file mapped
        done += tensor.nbytes
        if progress is not None:
            progress(done, total, name)


def _memory(mapped: Any, offset: int, tensor: PlannedTensor) -> Array:
    flat = (
        np.frombuffer(mapped, tensor.dtype.bits, tensor.size, offset)
        if tensor.size
        else np.empty(0, tensor.dtype.bits)
    )
    return flat.reshape(tensor.shape)


def _offsets(plan: Plan) -> dict[str, int]:
    """Place the widest dtypes first, so that every tensor is aligned to its itemsize without holes."""
    offsets, end = {}, 0
    for tensor in sorted(plan.values(), key=lambda tensor: -tensor.dtype.itemsize):
        offsets[tensor.name] = end
        end += tensor.nbytes
    return offsets


def _encoded_header(plan: Plan, offsets: dict[str, int]) -> bytes:
    metadata = {"version": VERSION, "seed": plan.seed, "policy": plan.policy, "order": plan.order}
    if not _follows_from_header(plan):
        metadata["plan"] = plan.to_json()
    return encode_header(_specs(plan), offsets, {_PREFIX + key: str(value) for key, value in metadata.items()})


def _specs(plan: Plan) -> dict[str, TensorSpec]:
    return {name: TensorSpec(tensor.dtype, tensor.shape) for name, tensor in plan.items()}


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[int]:
    """Yield a descriptor of a new file beside `path` that takes its name if, and only if, all goes well."""
    path = path.resolve()  # through a symbolic link, to the file it names
    if path.is_dir():  # now, not at the rename, when everything has been filled
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if path.exists() and not path.is_file():  # to replace /dev/null by a file would break the whole machine
        raise CheckpointError(f"cannot write {path}: it is a device, pipe or socket; name a file")
    # Not made from the name, which may already be the longest the file system takes.
    temporary = path.with_name(f".fastinit-{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        try:
            if path.exists():  # who may read the old file may read the new one, and nobody else
                os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode))
            yield descriptor
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    # Make the rename survive a power cut. Some file systems cannot sync a folder; the file itself is safe.
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _reserve(descriptor: int, size: int) -> None:
    """Claim the file's blocks now: on a full disk, a store into mapped memory would be a SIGBUS later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    zeros = bytes(CHUNK_BYTES)
    for offset in range(0, size, CHUNK_BYTES):
        os.pwrite(descriptor, zeros[: size - offset], offset)


def verify_checkpoint(path: str | os.PathLike[str], progress: Progress | None = None) -> Verification:
    """Regenerate a checkpoint from its own header and compare every byte.

    Orthogonal tensors are the exception: LAPACK decides their last bits, so a weight may lie as far from the one
    made here as the contract allows, ``1e-12 / min(1, smallest abs(R[j, j]))`` times the gain.

    Parameters
    ----------
    path : str or path
        A file that `write_checkpoint` wrote.
    progress : callable, optional
        As for `write_checkpoint`.

    Returns
    -------
    Verification
        Truthy where every byte is right; else it names each tensor that differs and where.

    Raises
    ------
    CheckpointError
        If the file is not a ``.safetensors`` file, or not one that fastinit wrote.
    """
    path = Path(path)
    try:
        with open_file(path) as file:
            header = read_header(file, str(path))
            plan = described_plan(header.specs, header.metadata, path)
            if not plan.nbytes:
                return Verification(plan, ())
            with _mapping(file.fileno(), mmap.ACCESS_READ) as mapped:
                return Verification(plan, tuple(_mismatches(plan, mapped, header.offsets, progress)))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def _follows_from_header(plan: Plan) -> bool:
    """Say whether seed, policy and order are all it takes to make this plan again."""
    try:
        return Plan.from_specs(_specs(plan), plan.seed, plan.policy, order=plan.order) == plan
    except FastinitError:
        return False


def is_described(metadata: dict[str, str]) -> bool:
    """Say whether a header's metadata claims to hold the plan of its file."""
    return any(key.startswith(_PREFIX) for key in metadata)


def described_plan(layout: dict[str, Any], metadata: dict[str, str], path: Path) -> Plan:
    """Return the plan that the header of a file written by `write_checkpoint` describes.

    Raises
    ------
    CheckpointError
        If its metadata is not what `write_checkpoint` wrote.
    """
    facts = {key.removeprefix(_PREFIX): value for key, value in metadata.items() if key.startswith(_PREFIX)}
    missing = {"version", "seed", "policy", "order"} - facts.keys()
    if missing:
        raise CheckpointError(
            f"{path} was not written by fastinit: its metadata lacks {', '.join(sorted(missing))}, "
            "so there is nothing to verify it against"
        )
    if facts["version"] != str(VERSION):
        raise CheckpointError(f"{path} has plan version {facts['version']!r}; this fastinit reads {VERSION}")
    if not (facts["seed"].isascii() and facts["seed"].isdigit() and len(facts["seed"]) <= 20):
        raise CheckpointError(f"{path} has seed {facts['seed']!r}; expected an integer")
    try:
        if "plan" not in facts:
            return Plan.from_specs(layout, int(facts["seed"]), facts["policy"], order=facts["order"])
        plan = Plan.from_json(facts["plan"])
        if _specs(plan) != layout:
            raise CheckpointError("the plan in its metadata is not one of the tensors in its header")
        return plan
    except (FastinitError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _mismatches(
    plan: Plan, mapped: mmap.mmap, offsets: dict[str, int], progress: Progress | None
) -> Iterator[Mismatch]:
    done, total = 0, plan.nbytes
    for name, tensor in plan.items():
        stored = _memory(mapped, offsets[name], tensor).reshape(-1).view(f"u{tensor.dtype.itemsize}")
        found = _first_difference(tensor, stored)
        del stored
        if found is not None:
            yield found
        done += tensor.nbytes
        if progress is not None:
            progress(done, total, name)


def _first_difference(tensor: PlannedTensor, stored: Array) -> Mismatch | None:
    if not tensor.distribution.by_element:  # a part of it costs as much as the whole
        return _whole_difference(tensor, stored)
    step = CHUNK_BYTES // tensor.dtype.itemsize
    buffer = np.empty(min(step, tensor.size), tensor.dtype.bits)
    for begin in range(0, tensor.size, step):
        part = slice(begin, min(begin + step, tensor.size))
        chunk = buffer[: part.stop - begin]
        fill((tensor.size,), tensor.distribution, tensor.state, dtype=tensor.dtype, out=chunk, index=part)
        expected = chunk.view(stored.dtype)
        found = _mismatch(tensor, begin, stored[part], expected, expected != stored[part])
        if found is not None:
            return found
    return None


def _whole_difference(tensor: PlannedTensor, stored: Array) -> Mismatch | None:
    """Compare a tensor that is made whole, allowing each weight what another machine's LAPACK may change."""
    whole = tensor.distribution.values(tensor.shape, tensor.state, whole_part(tensor.shape), None, None)
    expected = narrowed(whole, tensor.dtype).reshape(-1)
    wrong = expected != stored
    if wrong.any():
        slack = tensor.distribution.slack(tensor.shape, tensor.state)
        least, greatest = (
            _ordered(narrowed(bound, tensor.dtype).reshape(-1)) for bound in (whole - slack, whole + slack)
        )
        values = _ordered(stored)
        wrong &= (values < least) | (values > greatest)
    return _mismatch(tensor, 0, stored, expected, wrong)


def _ordered(bits: Array) -> Array:
    """Return integers in the order of the values that `bits`, unsigned patterns of one float format, stand for."""
    sign = 1 << (8 * bits.itemsize - 1)
    magnitude = (bits & bits.dtype.type(sign - 1)).astype(np.int64)
    ordered: Array = np.where(bits >= sign, -magnitude, magnitude)
    return ordered


def _mismatch(tensor: PlannedTensor, begin: int, stored: Array, expected: Array, wrong: Array) -> Mismatch | None:
    if not wrong.any():
        return None
    first = int(wrong.argmax())
    digits = 2 * tensor.dtype.itemsize
    return Mismatch(
        tensor.name, begin + first, f"{int(stored[first]):0{digits}x}", f"{int(expected[first]):0{digits}x}"
    )
