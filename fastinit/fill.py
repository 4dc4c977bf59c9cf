"""The one door to the kernels: these elements of that tensor, from this stream state.

It resolves where weights go (any strided, writable memory), which part of the whole tensor they are, and in
which dtype; it knows raw states, and no generator object.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from types import EllipsisType
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _core
from .arguments import MAX_AXES, U64_LIMIT, Shape, as_index, as_shape, size_of
from .constructions import Construction, Normals
from .distributions import (
    CenteredUniform,
    Constant,
    Content,
    Normal,
    Positions,
    TruncatedNormal,
    Uniform,
)
from .dtypes import FLOAT64, DType, as_dtype, narrowed
from .errors import AllocationFailed, DistributionError
from .threads import as_threads, run

STORES_VARIABLE = "FASTINIT_STORES"
_STORES = {
    "auto": _core.STORES_AUTO,
    "ordinary": _core.STORES_ORDINARY,
    "streaming": _core.STORES_STREAMING,
}

_CHOICE_BYTES = 1 << 20
_SMALL_BYTES = 1 << 12
_KERNELS = (CenteredUniform, Uniform, Normal, TruncatedNormal, Constant)

Array = np.ndarray[Any, Any]
IndexEntry = SupportsIndex | slice | EllipsisType
Index = IndexEntry | tuple[IndexEntry, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Which draws a part of a tensor takes: element (i0, i1, ...) takes draw ``first + sum(i * draws)``."""

    shape: tuple[int, ...]
    first: int
    draws: tuple[int, ...]


def locate(shape: tuple[int, ...], index: Index | None) -> Part:
    """Return the part ``whole[index]`` of a tensor of `shape` (None: the whole), as numpy would cut it.

    Raises
    ------
    TypeError
        For lists, masks, None (newaxis) and bools, which basic slicing does not take.
    IndexError
        For too many entries, or an integer out of bounds.
    """
    whole = _whole(shape)
    if index is None:
        return whole
    entries = list(index) if isinstance(index, tuple) else [index]
    gaps = [position for position, entry in enumerate(entries) if entry is Ellipsis]
    if len(gaps) > 1:
        raise IndexError("index= may hold one Ellipsis only")
    missing = len(shape) - (len(entries) - len(gaps))
    if missing < 0:
        raise IndexError(f"index= has {len(entries)} entries, but shape {shape} has {len(shape)} axes")
    gap = gaps[0] if gaps else len(entries)
    entries[gap : gap + len(gaps)] = [slice(None)] * missing
    part_shape, first, draws = [], 0, []
    for axis, (entry, length, step) in enumerate(zip(entries, shape, whole.draws, strict=True)):
        if isinstance(entry, slice):
            span = range(*entry.indices(length))
            part_shape.append(_span_length(span))
            first += span.start * step
            draws.append(span.step * step % U64_LIMIT)
        else:
            if entry is None or isinstance(entry, list | np.ndarray | range):
                raise TypeError(f"index= takes ints, slices and Ellipsis, as numpy's basic slicing; got {entry!r}")
            position = as_index(entry, "an index= entry")
            if not -length <= position < length:
                raise IndexError(f"index {position} is out of bounds for axis {axis} of length {length}")
            first += position % length * step
    return Part(tuple(part_shape), first % U64_LIMIT, tuple(draws))


@lru_cache(maxsize=1024)
def _whole(shape: tuple[int, ...]) -> Part:
    draws: list[int] = []
    step = 1
    for length in reversed(shape):
        draws.append(step % U64_LIMIT)
        step *= length
    return Part(shape, 0, tuple(reversed(draws)))


def _span_length(span: range) -> int:
    """Return ``len(span)``, which itself refuses lengths past 2**63 - 1."""
    return max(0, (span.stop - span.start + span.step - (1 if span.step > 0 else -1)) // span.step)


def whole_shape(shape: Shape | None, out: object, index: Index | None) -> tuple[int, ...]:
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
        If it is read-only, or if some of its elements share memory.
    """
    if type(out) is np.ndarray:
        array = out
    elif isinstance(out, np.ndarray):
        array = out.view(np.ndarray)
    else:
        try:
            array = np.asarray(memoryview(out))  # type: ignore[arg-type]
        except TypeError:
            hint = "; pass what its .numpy() returns, which shares its memory" if hasattr(out, "numpy") else ""
            raise TypeError(
                f"out must be a numpy array or another writable buffer, got {type(out).__name__}{hint}"
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


def overlaps_itself(array: Array) -> bool:
    """Say whether two elements of `array` share a byte."""
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
    # The axes interleave (only as_strided makes such arrays): look at every offset.
    offsets = np.zeros(1, np.int64)
    for step, length in axes:
        offsets = np.add.outer(offsets, step * np.arange(length)).ravel()
    offsets.sort()
    return bool((np.diff(offsets) < array.itemsize).any())


def choose_dtype(dtype: DType | npt.DTypeLike | None, out: Array | None) -> tuple[DType, np.dtype[Any] | None]:
    """Settle the dtype: the one asked for, else `out`'s, else float64; and the numpy dtype, where known.

    Raises
    ------
    TypeError
        If `out` is of another dtype than asked for. A uint8 or uint16 `out` of the right width takes the bit
        patterns of an explicitly named narrow dtype.
    """
    if dtype is None:
        return (FLOAT64, FLOAT64.numpy) if out is None else as_dtype(out.dtype)
    chosen, exact = as_dtype(dtype)
    if out is not None and out.dtype.name != chosen.name:
        carries_bits = chosen.itemsize < 4 and out.dtype.kind == "u" and out.itemsize == chosen.itemsize
        if not carries_bits:
            raise TypeError(f"dtype {chosen.name} contradicts out, which is {out.dtype.name}; drop one of the two")
    return chosen, exact


def prepare(content: Content, dtype: DType) -> _core.Spec | None:
    """Check that `content` can be drawn into `dtype`; None where no kernel is needed for the whole of it.

    Raises
    ------
    DistributionError
        If the interval or the spread is none, holds no value of the dtype, or leaves its finite range.
    """
    if dtype.code is None or isinstance(content, Positions):
        last = content.length - 1 if isinstance(content, Positions) else getattr(content, "value", math.nan)
        held = np.iinfo(dtype.bits) if dtype.code is None else None
        if held is None or not held.min <= last <= held.max or last != int(last):
            raise DistributionError(f"{content} cannot be stored as {dtype.name}")
        return None
    if isinstance(content, Construction):
        spec, drawn = _core.Spec(_core.BASES["constant"], dtype.code, (content.largest,)), None
    else:
        spec = drawn = _core.Spec(content.base, dtype.code, content.parameters)
    if spec.status == _core.OK:
        return drawn
    if spec.status == _core.NOT_AN_INTERVAL:
        needs = "lower < upper" if isinstance(content, TruncatedNormal) else "low < high and a finite high - low"
        raise DistributionError(f"{content} is no interval: it needs {needs}")
    if spec.status == _core.EMPTY_INTERVAL:
        raise DistributionError(f"no {dtype.name} value lies inside {content}; use a wider dtype")
    if spec.status == _core.BEYOND_RANGE:
        raise DistributionError(f"{content} leaves the finite range of {dtype.name}; use a wider dtype")
    raise DistributionError(f"{content} is no spread: it needs a finite mean and a finite std of 0 or more")


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


def fill(
    shape: tuple[int, ...],
    content: Content,
    state: int,
    *,
    dtype: DType | npt.DTypeLike | None = None,
    out: object = None,
    index: Index | None = None,
    threads: int | None = None,
) -> Array:
    """Fill (a part of) a tensor of `shape` from the stream at `state`; every check comes before any write.

    Parameters
    ----------
    shape : tuple of int
        The whole tensor's logical shape.
    content : Distribution or Construction
        What to fill it with.
    state : int
        Raw stream state in [0, 2**64): the tensor's draw i is ``mix64(state + (i + 1) * gamma)``.
    dtype, out, index, threads
        As in `fastinit.xavier_uniform`.

    Returns
    -------
    numpy.ndarray
        `out` itself, or a new array of the part's shape.
    """
    part = _whole(shape) if index is None else locate(shape, index)
    if threads is not None:
        threads = as_threads(threads)
    target = None if out is None else target_of(out)
    chosen, exact = choose_dtype(dtype, target)
    if target is not None and target.shape != part.shape:
        asked = "the tensor" if index is None else f"index={index} of the tensor of shape {shape}"
        raise ValueError(f"out has shape {target.shape}, but {asked} has shape {part.shape}")
    if target is not None and target.nbytes <= _SMALL_BYTES and _draw_small(target, chosen, content, state, part):
        return out  # type: ignore[return-value]
    spec = prepare(content, chosen)
    whole = None
    if spec is None and isinstance(content, Construction):
        whole = built(content, shape, state, threads)
        if index is None and target is None and (exact or chosen.numpy) == FLOAT64.numpy:
            return np.asarray(whole, order="C")
    result: Any = out
    if target is None:
        result = target = allocate(part.shape, exact or chosen.numpy)
    if spec is not None:
        run(_job(spec, target, chosen, state, part), threads)
    elif whole is not None:
        _store(target, chosen, whole if index is None else np.asarray(whole[index]))
    else:
        _write_integers(target, content, part)
    return result  # type: ignore[no-any-return]


def _draw_small(target: Array, dtype: DType, content: Content, state: int, part: Part) -> bool:
    """Draw a few native weights by one call of `_core`, or say that the long way must be taken."""
    if dtype.code is None or target.dtype.isbuiltin != 1 or not isinstance(content, _KERNELS):
        return False
    parameters = content.parameters
    return _core.draw(content.base, dtype.code, parameters, target, state, part.first, part.draws) == _core.OK


def built(content: Construction, shape: tuple[int, ...], state: int, threads: int | None = None) -> Array:
    """Return a whole construction in float64; what it writes, nobody has seen before."""
    content.check(shape)
    if 0 in shape:
        return np.empty(shape)
    try:
        if size_of(shape) * FLOAT64.itemsize > sys.maxsize:
            raise MemoryError
        return content.build(shape, state, normals_of(shape, state, threads))
    except MemoryError:
        raise AllocationFailed(size_of(shape)) from None


def normals_of(shape: tuple[int, ...], state: int, threads: int | None = None) -> Normals:
    """Return what a construction asks for the normal weights of its stream."""

    def normals(std: float = 1.0, index: Index | None = None) -> Array:
        return fill(shape, Normal(0.0, std), state, index=index, threads=threads)

    return normals


def _store(target: Array, dtype: DType, values: Array) -> None:
    """Write float64 `values` rounded once."""
    bits = narrowed(values, dtype)
    target.view(bits.dtype.newbyteorder("=" if target.dtype.isnative else "S"))[...] = bits


def _job(spec: _core.Spec, target: Array, dtype: DType, state: int, part: Part) -> _core.Job:
    held, swapped = target.dtype, False
    if held.isbuiltin != 1:  # another byte order, or a dtype of ml_dtypes
        swapped = not held.isnative
        target = target.view(dtype.bits)
    stores = _core.STORES_AUTO if target.nbytes < _CHOICE_BYTES else _stores()
    return _core.Job(spec, target, swapped, state, part.first, part.draws, stores)


def _stores() -> int:
    """Return how large targets are stored; small ones have no choice, and are not slowed by asking for it."""
    wanted = os.environ.get(STORES_VARIABLE, "auto")
    if wanted not in _STORES:
        raise ValueError(f"{STORES_VARIABLE} must be one of {', '.join(_STORES)}, got {wanted!r}")
    return _STORES[wanted]


def _write_integers(target: Array, content: Content, part: Part) -> None:
    if isinstance(content, Positions):
        linear = np.uint64(part.first)
        for length, draws in zip(part.shape, part.draws, strict=True):
            linear = np.add.outer(linear, np.arange(length, dtype=np.uint64) * np.uint64(draws))
        target[...] = linear % np.uint64(content.length)
    elif isinstance(content, Constant):
        target[...] = content.value
