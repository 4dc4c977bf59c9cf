"""Where weights become arrays of JAX: at once, in memory that JAX takes over, or when compiled code runs.

Read `made` first. Nothing here chooses what a tensor is filled with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from .._engine.dtypes import FLOAT_NAMES, DType, named_dtype
from .._engine.fill import fill
from .._engine.initializer import Distribution
from .._engine.parts import Array, Index, locate
from .._engine.targets import aligned_bytes

Place: TypeAlias = Sharding | PartitionSpec | None
"""Where an array lies; a PartitionSpec is one of the mesh that `jax.set_mesh` set."""

ALIGNMENT = 64
"""Bytes: JAX takes memory that starts at a multiple of it for its own on a CPU, and copies any other."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What one array is: the elements of a tensor of `shape` that starts at the raw state `state`."""

    state: int
    shape: tuple[int, ...]
    distribution: Distribution
    dtype: DType

    def part(self, index: Index | None = None) -> Array:
        """Return (a part of) the tensor in new memory that JAX need not copy."""
        out = aligned(locate(self.shape, index).shape, self.dtype)
        fill(self.state, self.shape, self.distribution, self.dtype, out, index)
        return out

    def whole_once(self) -> Any:
        """Return what makes each part: `part`, or cuts of one whole where a part cannot be made without it."""
        return self.part if self.distribution.by_part else self.part().__getitem__


def aligned(shape: tuple[int, ...], dtype: DType) -> Array:
    """Return new C-ordered memory that starts at a multiple of `ALIGNMENT`."""
    memory = aligned_bytes(dtype.nbytes(math.prod(shape)), ALIGNMENT)
    return memory.view(dtype.numpy).reshape(shape)


def weights_dtype(dtype: Any) -> DType:
    """Return the dtype that weights are stored in; None is JAX's own default, and so is Python's float, as in JAX.

    Raises
    ------
    TypeError
        If nothing here draws it, or if JAX would store another one in silence.
    """
    asked = jnp.result_type(float) if dtype is None or dtype is float else dtype
    found = named_dtype(asked)
    if found is None or not found.is_float:
        raise TypeError(f"dtype must be one of {FLOAT_NAMES}, got {found.name if found else asked}")
    check_stored(found)
    return found


def check_stored(dtype: DType) -> None:
    """Refuse a dtype that JAX would replace by a narrower one."""
    kept = jax.dtypes.canonicalize_dtype(dtype.numpy)
    if kept != dtype.numpy:
        raise TypeError(
            f"JAX would store {dtype.name} as {kept.name}; allow 64 bits by "
            f'jax.config.update("jax_enable_x64", True), or ask for {kept.name}'
        )


def made(contents: Contents, place: Place = None) -> jax.Array:
    """Return the array, laid out as `place` says: at once, or under a trace by a callback when its code runs.

    A callback, and not a constant: a trace for shapes (`jax.eval_shape`) then draws nothing, and a compiled
    program holds no weights.
    """
    sharding = as_sharding(place)
    if is_traced():
        return (
            _sharded_callback(contents, sharding) if isinstance(sharding, NamedSharding) else _callback(contents)
        )
    if sharding is None:
        return jax.device_put(contents.part())
    return jax.make_array_from_callback(contents.shape, sharding, contents.whole_once())


def is_traced() -> bool:
    """Say whether JAX is recording a program, not running one: then any array that it makes is a tracer."""
    return isinstance(jnp.asarray(0), jax.core.Tracer)


def as_sharding(place: Place) -> Sharding | None:
    """Return a sharding, or the one that a PartitionSpec names; None of an empty mesh, as in JAX."""
    if isinstance(place, PartitionSpec):
        mesh = jax.sharding.get_abstract_mesh() if is_traced() else jax.sharding.get_mesh()
        if mesh.empty:
            raise ValueError(
                f"{place} names axes of a mesh, and none is set; call it inside `with jax.set_mesh(mesh):`, or "
                "give a jax.sharding.NamedSharding"
            )
        place = NamedSharding(mesh, place)
    if place is not None and not isinstance(place, Sharding):
        raise TypeError(f"a sharding is a jax.sharding.Sharding or a PartitionSpec, got {place!r}")
    return None if isinstance(place, NamedSharding) and place.mesh.empty else place


# ---- while compiled code runs ------------------------------------------------------------------------


def _callback(contents: Contents) -> jax.Array:
    array: jax.Array = jax.pure_callback(contents.part, _described(contents, contents.shape))
    return array


def _described(contents: Contents, shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, contents.dtype.numpy)


def _sharded_callback(contents: Contents, sharding: Any) -> jax.Array:
    """Let each device ask for its own shard; one of an orthogonal matrix is cut from the whole, on each device."""
    mesh, spec = sharding.mesh, sharding.spec
    sizes = dict(mesh.shape)
    names = [_names(entry) for entry in (*spec, *[None] * (len(contents.shape) - len(spec)))]
    local = sharding.shard_shape(contents.shape)  # refuses an axis that the devices cannot share evenly

    def part(*numbers: Any) -> Array:
        at = dict(zip(sizes, map(int, numbers), strict=True))
        firsts = [_flat(each, at, sizes) * length for each, length in zip(names, local, strict=True)]
        return contents.part(tuple(slice(i, i + n) for i, n in zip(firsts, local, strict=True)))

    def shard() -> Any:
        return jax.pure_callback(part, _described(contents, local), *map(jax.lax.axis_index, sizes))

    whole: jax.Array = jax.shard_map(shard, mesh=mesh, in_specs=(), out_specs=spec, check_vma=False)()
    return whole


def _names(entry: Any) -> tuple[str, ...]:
    """Return the axes of a mesh that share an axis of an array."""
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


def _flat(names: tuple[str, ...], at: dict[str, int], sizes: dict[str, int]) -> int:
    """Return which of its pieces a device has of an axis that `names` share, the first of them slowest."""
    place = 0
    for name in names:
        place = place * sizes[name] + at[name]
    return place
