"""The one door to the kernels: these elements of that tensor, from this stream state.

It resolves where weights go (any strided, writable memory), which part of the whole tensor they are, and in
which dtype; it knows raw states, and no generator object. A distribution is asked, never looked at.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .dtypes import FLOAT64, DType
from .narrow import narrowed
from .parts import Array, Index, Part, Slice, locate, whole_part
from .targets import allocate, choose_dtype, target_of
from .threads import as_threads, run

if TYPE_CHECKING:
    from .initializer import Distribution

STORES_VARIABLE = "FASTINIT_STORES"
_STORES = {
    "auto": _core.STORES_AUTO,
    "ordinary": _core.STORES_ORDINARY,
    "streaming": _core.STORES_STREAMING,
}

_CHOICE_BYTES = 1 << 20
_SMALL_BYTES = 1 << 12


def fill(
    state: int,
    shape: tuple[int, ...],
    distribution: Distribution,
    dtype: object = None,
    out: object = None,
    index: Index | None = None,
    threads: int | None = None,
) -> Array:
    """Fill (a part of) a tensor of `shape` from the stream at `state`; every check comes before any write.

    Parameters
    ----------
    state : int
        Raw stream state in [0, 2**64): the tensor's draw i is ``mix64(state + (i + 1) * gamma)``.
    shape : tuple of int
        The whole tensor's logical shape.
    distribution : Distribution
        What to fill it with.
    dtype, out, index, threads
        As in `fastinit.initialize`.

    Returns
    -------
    numpy.ndarray
        `out` itself, or a new array of the part's shape.
    """
    part = whole_part(shape) if index is None else locate(shape, index)
    if out is dtype is index is threads is None:
        drawn = _new_and_small(distribution, state, part)
        if drawn is not None:
            return drawn
    if threads is not None:
        threads = as_threads(threads)
    target = None if out is None else target_of(out)
    chosen, exact = choose_dtype(dtype, target)
    if target is not None:
        if target.shape != part.shape:
            asked = "the tensor" if index is None else f"index={index} of the tensor of shape {shape}"
            raise ValueError(f"out has shape {target.shape}, but {asked} has shape {part.shape}")
        if target.nbytes <= _SMALL_BYTES and _drawn_at_once(target, chosen, distribution, state, part):
            return out  # type: ignore[return-value]
    spec = distribution.prepare(chosen)
    if distribution.is_divided:
        filled = allocate(part.shape, exact or chosen.numpy) if target is None else target
        _fill_regions(filled, chosen, shape, distribution.regions(shape, index), state, threads)
        return filled if target is None else out  # type: ignore[return-value]
    values = None if spec is not None else distribution.values(shape, state, part, index, threads)
    result: Any = out
    if target is None:
        if values is not None and index is None and (exact or chosen.numpy) == FLOAT64.numpy:
            return np.asarray(values, order="C")  # nobody else has it: no copy
        result = target = allocate(part.shape, exact or chosen.numpy)
    if spec is not None:
        run(_job(spec, target, chosen, state, part), threads)
    elif values is not None:
        _store(target, chosen, values)
    return result  # type: ignore[no-any-return]


def _fill_regions(
    target: Array,
    dtype: DType,
    shape: tuple[int, ...],
    regions: Iterable[tuple[Distribution, Slice, Part]],
    state: int,
    threads: int | None,
) -> None:
    """Fill each region of a target in its place; nothing of the target's size is made."""
    for distribution, region, part in regions:
        place = target[(*region, ...)]  # the Ellipsis keeps an array of an element, not the element
        spec = distribution.prepare(dtype)
        if spec is not None:
            run(_job(spec, place, dtype, state, part), threads)
        else:
            _store(place, dtype, distribution.values(shape, state, part, None, threads))


def _new_and_small(distribution: Distribution, state: int, part: Part) -> Array | None:
    """Draw a few new float64 weights by one call of `_core`; None says that the long way must be taken."""
    if distribution.base is None or math.prod(part.shape) * FLOAT64.itemsize > _SMALL_BYTES:
        return None
    try:
        target = np.empty(part.shape)
    except (MemoryError, ValueError):  # or too many axes: the long way says so
        return None
    return target if _drawn_at_once(target, FLOAT64, distribution, state, part) else None


def _drawn_at_once(target: Array, dtype: DType, distribution: Distribution, state: int, part: Part) -> bool:
    """Draw a few native weights by one call of `_core`, or say that the long way must be taken."""
    base = distribution.base
    if base is None or dtype.code < 0 or target.dtype.isbuiltin != 1:
        return False
    parameters = distribution.parameters
    return _core.draw(base, dtype.code, parameters, target, state, part.first, part.draws) == _core.OK


def _store(target: Array, dtype: DType, values: Array) -> None:
    """Write float64 `values` rounded once, or integers as they are."""
    if not dtype.is_float:
        target[...] = values
        return
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
