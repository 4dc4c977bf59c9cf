"""`LazyArray`: a tensor that fills what is asked of it, and nothing else."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import tokenize

from .._engine.checks import ShapeLike, as_nonnegative, as_shape, as_u64, draws_of
from .._engine.dtypes import DType
from .._engine.fill import fill
from .._engine.initializer import Distribution, Initializer
from .._engine.parts import Array
from .._engine.streams import stream_state
from .._engine.targets import choose_dtype
from .._engine.threads import as_threads
from ..functions import as_initializer

if TYPE_CHECKING:
    from .._engine.annotations import FloatDType

Entry = SupportsIndex | slice | EllipsisType | None | list[Any] | Array
"""What an index has for an axis: what numpy takes."""

Chunks = Any
"""Whatever dask takes as chunks."""


@dataclass(frozen=True, slots=True)
class LazyArray:
    """A tensor as data: ``lazy[index]`` fills that part of it, ``numpy.asarray(lazy)`` all of it.

    It is what `dask.array.from_array` asks for, at any chunking, and a few hundred bytes when pickled. Equal
    arrays have equal tokens, in every process. Make one with `of`.

    Attributes
    ----------
    state : int
        Raw state of the tensor's stream.
    shape : tuple of int
        Its shape.
    distribution : Distribution
        What it is filled with.
    stored : DType
        What it is stored as.
    initializer : str
        The initializer's name, which dask shows.
    threads : int or None
        Threads for one part. The default is 1, for dask asks for many parts at once.

    Examples
    --------
    >>> import dask.array as da
    >>> import fastinit
    >>> from fastinit.dask import LazyArray
    >>> lazy = LazyArray.of("xavier_uniform", (4, 6), 17, name="layer.weight")
    >>> lazy.shape, lazy.dtype, lazy[1:3, ::2].shape
    ((4, 6), dtype('float64'), (2, 3))
    >>> whole = fastinit.xavier_uniform((4, 6), fastinit.stream_for(17, "layer.weight"))
    >>> bool((da.from_array(lazy, chunks=(3, 2)).compute() == whole).all())
    True
    """

    state: int
    shape: tuple[int, ...]
    distribution: Distribution
    stored: DType
    initializer: str = field(compare=False)
    threads: int | None = 1

    @classmethod
    def of(
        cls,
        initializer: Initializer | str,
        shape: ShapeLike,
        seed: SupportsIndex,
        *,
        name: str | None = None,
        gain: float = 1.0,
        dtype: FloatDType | None = None,
        threads: int | None = 1,
        **axes: Any,
    ) -> Self:
        """Return the tensor that an initializer makes of a shape; every check is made here, before any fill.

        Parameters
        ----------
        initializer : Initializer or str
            As in `fastinit.initialize`.
        shape : int or tuple of int
            The whole tensor's shape.
        seed : int
            With `name` the model's seed; else the raw state at which the tensor's stream starts.
        name : str, optional
            The tensor's name: its stream is then ``fastinit.stream_for(seed, name)``.
        gain, dtype, threads
            As in `fastinit.initialize`; one thread for a part, where `threads` is not given.
        **axes
            `layout`, `groups`, `fan_in` and `fan_out`, as in `fastinit.initialize`.
        """
        state = as_u64(seed, "seed") if name is None else stream_state(seed, name)
        whole = as_shape(shape)
        factor = as_nonnegative(gain, "gain")
        chosen = as_initializer(initializer)
        distribution = chosen.for_shape(whole, **axes)
        if factor != 1.0:
            distribution = distribution.rescaled(factor)
        stored = choose_dtype(dtype, None)[0]
        distribution.prepare(stored)
        draws_of(whole)
        return cls(state, whole, distribution, stored, chosen.name, as_threads(threads))

    @property
    def draws(self) -> int:
        """Draws that the whole of it takes."""
        return draws_of(self.shape) * self.distribution.draws_per_weight

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its dtype, as numpy has it."""
        return self.stored.numpy

    @property
    def ndim(self) -> int:
        """Number of its axes."""
        return len(self.shape)

    def __getitem__(self, index: Entry | tuple[Entry, ...]) -> Array:
        """Return a new array of ``whole[index]``, as numpy cuts it: lists, masks and newaxis too."""
        entries = index if isinstance(index, tuple) else (index,)
        if any(isinstance(entry, list | np.ndarray) for entry in entries):
            return self._gathered(entries)
        found: Array = self._cut(tuple(entry for entry in entries if entry is not None))[_kept(entries)]
        return found

    def _cut(self, index: tuple[Any, ...]) -> Array:
        return fill(self.state, self.shape, self.distribution, self.stored, index=index, threads=self.threads)

    def _gathered(self, entries: tuple[Any, ...]) -> Array:
        """Return what lists and masks pick, from the smallest box that holds all of it."""
        np.broadcast_to(np.False_, self.shape)[entries]  # numpy says what is wrong with an index
        placed = list(_placed(entries, self.shape))
        box = self._cut(tuple(outer for outer, _ in placed if outer is not None))
        found: Array = box[tuple(inner for _, inner in placed)]
        return found

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Return all of it; numpy calls this."""
        if copy is False:
            raise ValueError("a LazyArray has no memory to share; leave out copy=False")
        return np.asarray(self[...], dtype)

    def __dask_tokenize__(self) -> tuple[str, str, int, tuple[int, ...], str]:
        """Return what its values depend on, the same in every process."""
        content = json.dumps(self.distribution.to_json())
        return "fastinit.dask.LazyArray", content, self.state, self.shape, self.stored.name


def _kept(entries: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the index that puts the new axes of `entries` into what the rest of them cut."""
    axes = (entry for entry in entries if entry is None or entry is ... or isinstance(entry, slice))
    return tuple(slice(None) if isinstance(entry, slice) else entry for entry in axes)


def _placed(entries: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Yield for each entry what it takes of its axis as a slice, and its place in that; None without axis."""
    flat: list[Any] = []
    for entry in entries:
        array = np.asarray(entry) if isinstance(entry, list) else entry
        is_mask = isinstance(array, np.ndarray) and array.dtype == bool
        flat.extend(array.nonzero() if is_mask else [array])
    axis, taken = 0, sum(entry is not None and entry is not ... for entry in flat)
    for entry in flat:
        if entry is None:
            yield None, None
        elif entry is ...:
            axis += len(shape) - taken
            yield ..., ...
        else:
            yield (entry, slice(None)) if isinstance(entry, slice) else _boxed(np.asarray(entry), shape[axis])
            axis += 1


def _boxed(places: Array, length: int) -> tuple[slice, Array]:
    """Return the least slice of an axis that holds all places, and the places in it."""
    if not places.size:
        return slice(0, 0), places.astype(np.intp)
    places = np.where(places < 0, places + length, places)
    least = int(places.min())
    return slice(least, int(places.max()) + 1), places - least


def chunked(lazy: LazyArray, chunks: Chunks = "auto") -> da.Array:
    """Return a dask array whose chunks are parts of `lazy`; a fill that needs the whole tensor is one chunk.

    Raises
    ------
    ValueError
        If such a tensor was to be divided: every chunk would make all of it again.
    """
    is_whole = not lazy.distribution.by_part
    sizes = sizes_of(-1 if is_whole and isinstance(chunks, str) else chunks, lazy.shape, lazy.dtype)
    count = math.prod(map(len, sizes))
    if is_whole and count > 1:
        raise ValueError(
            f"{lazy.initializer} needs the whole tensor, so each of {count} chunks would make all of it again; "
            "leave chunks out, and divide the array that you get: .rechunk(...)"
        )
    name = f"{lazy.initializer}-{tokenize(lazy, sizes)}"
    meta = np.empty((0,) * lazy.ndim, lazy.dtype)  # else dask asks for an empty part, and that may make the whole
    return da.from_array(lazy, sizes, name=name, meta=meta, inline_array=True)


def sizes_of(chunks: Chunks, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[tuple[int, ...], ...]:
    """Return the lengths of the chunks along every axis, as dask divides a shape."""
    if 0 in shape and isinstance(chunks, str):  # a size in bytes, by which dask would divide by 0
        chunks = -1
    return da.core.normalize_chunks(chunks, shape, dtype=dtype)  # type: ignore[no-any-return]
