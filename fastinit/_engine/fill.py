"""The one door to the kernels: these elements of that tensor, from this stream state.

It resolves where weights go (any strided, writable memory), which part of the whole tensor they are, and in
which dtype; it knows raw states, and no generator object.
"""

from __future__ import annotations

import math
import os
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import AllocationFailed, DistributionError
from .checks import size_of
from .constructions import Construction, Normals
from .distributions import CenteredUniform, Constant, Content, Normal, Positions, TruncatedNormal, Uniform
from .dtypes import FLOAT64, DType, narrowed
from .parts import Array, Index, Part, _whole, locate
from .targets import allocate, choose_dtype, target_of
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
        spec, drawn = _core.Spec(_core.CONSTANT, dtype.code, (content.largest,)), None
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
