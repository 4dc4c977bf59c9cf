"""Where weights go: any writable memory, and the dtype they are stored in."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from .. import _core
from ..errors import AllocationFailed
from .checks import MAX_AXES, ShapeLike, as_shape, size_of
from .dtypes import BY_NAME, FLOAT64, FLOAT_NAMES, DType, spelled_dtype
from .parts import Array, Index

OVERLAP_WORK = 10_000
"""The most solutions tried for one of the questions of `overlaps_itself`, of which there are at most 60."""


def whole_shape(shape: ShapeLike | None, out: object, index: Index | None) -> tuple[int, ...]:
    """Return the whole tensor's shape: the one given, or `out`'s."""
    if shape is not None:
        return as_shape(shape)
    if out is None:
        raise TypeError("shape must be given, or out= to take it from")
    if index is not None:
        raise TypeError("shape must be given with index=: it is the whole tensor's, and out has the part's")
    found: tuple[int, ...] = out.shape if isinstance(out, np.ndarray) else target_of(out).shape
    return found


def target_of(out: object) -> Array:
    """Return writable memory as a plain ndarray that shares it.

    Raises
    ------
    TypeError
        If `out` exposes no memory (a list, say).
    ValueError
        If it is read-only, if some of its elements share memory, or if that cannot be decided.
    """
    if type(out) is np.ndarray:
        array = out
    elif isinstance(out, np.ndarray):
        array = out.view(np.ndarray)
    else:
        try:
            array = np.asarray(memoryview(out))  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(
                f"out must be a numpy array or another writable buffer, got {type(out).__name__}{_hint(out)}"
            ) from None
    flags = array.flags
    if not flags.writeable:
        raise ValueError("out is read-only; pass a writable array (a copy, or a memmap opened with mode 'r+')")
    if not flags.forc and overlaps_itself(array):
        raise ValueError(
            f"out has elements that share memory (shape {array.shape}, strides {array.strides}); "
            "pass an array whose elements are distinct, not a broadcast view"
        )
    return array


def _hint(out: object) -> str:
    """Say what to type for an object without a buffer.

    A torch tensor is not filled here, though numpy could write to its memory: autograd would not notice, and a
    gradient would be wrong without a word. `fastinit.torch` tells it, which this floor may not import.
    """
    torch = sys.modules.get("torch")  # never imported: without it there is no tensor
    if isinstance(out, getattr(torch, "Tensor", ())):
        return (
            "; for a torch tensor call fastinit.torch.xavier_uniform_(tensor, generator=17) or its like, or any "
            "function inside `with fastinit.torch.writing(tensor) as (out, dtype):`, so that autograd knows"
        )
    if hasattr(out, "numpy"):  # another library's tensor: that may be a copy, or memory behind its gradients' back
        return "; fill a new array (leave out= away), and assign it with the library that made the tensor"
    return ""


def overlaps_itself(array: Array) -> bool:
    """Say whether two elements of `array` share a byte.

    Raises
    ------
    ValueError
        If a question would take more than `OVERLAP_WORK` solutions.
    """
    if array.size <= 1:
        return False
    axes = sorted(
        (abs(step), length) for step, length in zip(array.strides, array.shape, strict=True) if length > 1
    )
    extent = array.itemsize
    for step, length in axes:
        if step < extent:
            break
        extent += step * (length - 1)
    else:
        return False
    return _halves_share(array)


def _halves_share(array: Array) -> bool:
    """Decide what strides that interleave leave open (only as_strided makes such arrays), exactly, by halves.

    Two elements share memory if one half of an axis meets the other, or if two elements of one half do. All halves
    of a length look alike, so the first one answers for the second, and a length of n takes log2(n) questions to
    numpy, which solves the equation of the strides and touches no element.
    """
    part = array
    for axis in range(array.ndim):
        before = (slice(None),) * axis
        while part.shape[axis] > 1:
            half = (part.shape[axis] + 1) // 2
            first, second = part[(*before, slice(half))], part[(*before, slice(half, None))]
            try:
                if np.shares_memory(first, second, OVERLAP_WORK):  # type: ignore[arg-type] # numpy's stub: -1, 0
                    return True
            except np.exceptions.TooHardError:
                raise ValueError(
                    f"out has strides so entangled (shape {array.shape}, strides {array.strides}) that it could "
                    "not be decided whether its elements share memory; pass an array whose axes do not interleave"
                ) from None
            part = first
    return False


_SEEN: dict[np.dtype[Any], DType] = {}
"""The few numpy dtypes met so far: asking one for its name costs more than a small fill."""


def as_dtype(dtype: object) -> tuple[DType, np.dtype[Any] | None]:
    """Return the format `dtype` names, and the numpy dtype it came as (which knows its byte order).

    Raises
    ------
    TypeError
        If it is not one of the formats weights are stored in.
    """
    if isinstance(dtype, np.dtype):
        seen = _SEEN.get(dtype)
        if seen is not None:
            return seen, dtype
    if isinstance(dtype, DType):  # of a plan, whose buffers may hold integers
        return dtype, None
    # The usual names are looked up at once.
    named = (BY_NAME.get(dtype) if isinstance(dtype, str) else None) or spelled_dtype(dtype)
    if named is not None and named.is_float:
        return named, None
    try:
        resolved = np.dtype(dtype)  # type: ignore[call-overload]  # which refuses what it does not know
    except (TypeError, ValueError, SyntaxError):  # numpy parses text, and fails in several ways
        raise TypeError(f"dtype must be one of {FLOAT_NAMES}, got {dtype!r}") from None
    found = BY_NAME.get(resolved.name)
    if found is None or not found.is_float:
        raise TypeError(f"dtype must be one of {FLOAT_NAMES}, got {resolved.name}")
    _SEEN[resolved] = found
    return found, resolved


def choose_dtype(dtype: object, out: Array | None) -> tuple[DType, np.dtype[Any] | None]:
    """Settle the dtype: the one asked for, else `out`'s, else float64; and the numpy dtype, where known.

    Raises
    ------
    TypeError
        If `out` is of another dtype than asked for. A uint8 or uint16 `out` of the right width takes the bit
        patterns of an explicitly named narrow dtype.
    """
    if dtype is None:
        if out is None:
            return FLOAT64, FLOAT64.numpy
        seen = _SEEN.get(out.dtype)
        return (seen, out.dtype) if seen is not None else as_dtype(out.dtype)
    chosen, exact = as_dtype(dtype)
    if out is not None and out.dtype.name != chosen.name:
        carries_bits = chosen.itemsize < 4 and out.dtype.kind == "u" and out.itemsize == chosen.itemsize
        if not carries_bits:
            raise TypeError(f"dtype {chosen.name} contradicts out, which is {out.dtype.name}; drop one of the two")
    return chosen, exact


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new C-ordered array, or raise `AllocationFailed`."""
    if len(shape) > MAX_AXES:
        raise ValueError(f"numpy arrays have at most {MAX_AXES} axes; the shape has {len(shape)}")
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError, OverflowError):  # numpy's answers to too much, by how much it is
        if size_of(shape) == 0:
            raise ValueError(f"numpy cannot hold an array of shape {shape}, empty as it is") from None
        raise AllocationFailed(size_of(shape)) from None


def aligned_bytes(nbytes: int, multiple: int) -> Array:
    """Return new memory that starts at a multiple of so many bytes."""
    memory = np.empty(nbytes + multiple, np.uint8)
    start = -memory.ctypes.data % multiple
    return memory[start : start + nbytes]


_core.recognize(
    array=np.ndarray,
    empties={None: np.empty, "float64": np.empty, "float32": partial(np.empty, dtype=np.float32)},
)
