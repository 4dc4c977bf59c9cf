"""What the functions of `initializers.py` return: initializers of JAX that are bound to a seed and a name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import jax
from jax.custom_batching import custom_vmap
from jax.sharding import NamedSharding, PartitionSpec

from .._engine.axes import SPATIAL, STACKED
from .._engine.checks import as_shape, as_u64
from .._engine.initializer import Distribution, Initializer
from .._engine.names import check_tensor_name
from .._engine.streams import stream_state
from .arrays import Contents, Place, made, weights_dtype

AxisOrAxes: TypeAlias = int | Sequence[int]
"""An axis of a shape, or several; negative ones count from the end."""


class Meaning(Protocol):
    """What the axes of a tensor mean to its initializer, once its shape is known."""

    def options(self, shape: tuple[int, ...], copies: tuple[int, ...]) -> dict[str, Any]:
        """Return what `Initializer.for_shape` is told; `copies` are the axes of a stack before `shape`."""


@dataclass(frozen=True, slots=True)
class Fans:
    """Inputs, outputs and batches by their axes, as in jax.nn; all other axes are the receptive field."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    batch: tuple[int, ...]

    def options(self, shape: tuple[int, ...], copies: tuple[int, ...]) -> dict[str, Any]:  # noqa: ARG002
        """Return the fans of one copy."""
        inputs, outputs, batch = (_places(axes, shape) for axes in (self.inputs, self.outputs, self.batch))
        field = math.prod(n for axis, n in enumerate(shape) if axis not in {*inputs, *outputs, *batch})
        fan_in, fan_out = (math.prod(shape[axis] for axis in axes) for axes in (inputs, outputs))
        return {"fan_in": fan_in * field, "fan_out": fan_out * field}


@dataclass(frozen=True, slots=True)
class Columns:
    """The axis of the outputs; of the others the last holds the inputs, as in a kernel of JAX."""

    axis: int

    def options(self, shape: tuple[int, ...], copies: tuple[int, ...]) -> dict[str, Any]:
        """Return the letters of the axes."""
        if not 2 <= len(shape) <= len(SPATIAL) + 2:
            raise ValueError(
                f"an orthogonal matrix needs 2 to {len(SPATIAL) + 2} axes; shape {shape} has {len(shape)}"
            )
        (column,) = _places((self.axis,), shape)
        others = [*SPATIAL[: len(shape) - 2], "i"]
        return {"layout": STACKED * len(copies) + "".join([*others[:column], "o", *others[column:]])}


@dataclass(frozen=True, slots=True)
class Letters:
    """A layout, and groups, as `fastinit.fans` takes them."""

    layout: str = "io"
    groups: int = 1

    def options(self, shape: tuple[int, ...], copies: tuple[int, ...]) -> dict[str, Any]:
        """Return the letters of the axes; copies are stacked matrices."""
        stacked = self.layout != "io" or len(shape) == 2
        return {"layout": STACKED * len(copies) * stacked + self.layout, "groups": self.groups}


def _places(axes: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return axes counted from the front."""
    for axis in axes:
        if not -len(shape) <= axis < len(shape):
            raise ValueError(
                f"a weight of shape {shape} has no axis {axis}; name its own by in_axis, out_axis or column_axis"
            )
    return tuple(axis % len(shape) for axis in axes)


@dataclass(frozen=True)
class Bound:
    """An initializer of JAX whose weights are those of one tensor: of a seed, a name and the index of each.

    Call it as ``init(key, shape, dtype, out_sharding)``, as jax.nn's initializers, Flax's and Equinox's; or as
    ``init(shape, dtype)``, as Haiku's. The key decides nothing, so None will do. Only its batches are looked at:
    under `jax.vmap` over n keys, copy i is ``whole[i]`` of the tensor of shape ``(n, *shape)``.
    """

    initializer: Initializer
    seed: int
    name: str
    meaning: Meaning = Letters()
    dtype: Any = None

    def __call__(self, key: Any, shape: Any = None, dtype: Any = None, out_sharding: Place = None) -> jax.Array:
        """Return the array; under a trace, the one that its code will make when it runs.

        Parameters
        ----------
        key : jax.Array or None
            Not used for draws.
        shape : tuple of int
            The tensor's shape.
        dtype : dtype, optional
            None takes that of the function that made the initializer, else JAX's default.
        out_sharding : Sharding or PartitionSpec, optional
            Each shard is made where it lies.

        Raises
        ------
        TypeError
            For a dtype that JAX would replace by another, and inside of a loop of JAX.
        """
        if isinstance(key, tuple | list):  # Haiku's
            key, shape, dtype = None, key, shape
        dtype = weights_dtype(self.dtype if dtype is None else dtype)
        return self._drawn(key, _Wanted(as_shape(shape), dtype, out_sharding))

    def _drawn(self, key: Any, wanted: _Wanted) -> jax.Array:
        if not isinstance(key, jax.core.Tracer):
            return self._made(wanted)
        self._refuse_loop(key)
        draw: Any = custom_vmap(lambda key: self._made(wanted))  # noqa: ARG005
        draw.def_vmap(lambda size, _, keys: (self._drawn(keys, wanted.stacked(size)), True))
        array: jax.Array = draw(key)
        return array

    def _made(self, wanted: _Wanted) -> jax.Array:
        distribution = self._distribution(wanted.shape, wanted.copies)
        whole = (*wanted.copies, *wanted.shape)
        contents = Contents(stream_state(self.seed, self.name), whole, distribution, wanted.dtype)
        return made(contents, wanted.place)

    def _distribution(self, shape: tuple[int, ...], copies: tuple[int, ...]) -> Distribution:
        return self.initializer.for_shape((*copies, *shape), **self.meaning.options(shape, copies))

    def _refuse_loop(self, key: Any) -> None:
        """Refuse the body of a loop: each turn would get the same weights."""
        frame = getattr(getattr(key, "_trace", None), "frame", None)
        if getattr(getattr(frame, "debug_info", None), "traced_for", "") in LOOPS:
            raise TypeError(
                f"inside jax.lax.scan (flax's nn.scan) each turn would get the same weights {self.name!r}; "
                "make the stack outside of it, by init(key, (layers, *shape)) with batch_axis=0 or by "
                "fastinit.jax.init_tree"
            )


LOOPS = ("scan", "while_loop", "fori_loop")
"""What JAX calls the programs that it records for loops."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What one call asks for."""

    shape: tuple[int, ...]
    dtype: Any
    place: Place
    copies: tuple[int, ...] = ()

    def stacked(self, size: int) -> _Wanted:
        """Return what `size` such calls ask for together."""
        place = self.place
        if isinstance(place, PartitionSpec):
            place = PartitionSpec(None, *place)
        elif isinstance(place, NamedSharding):
            place = NamedSharding(place.mesh, PartitionSpec(None, *place.spec))
        return _Wanted(self.shape, self.dtype, place, (size, *self.copies))


def bound(
    function: str, initializer: Initializer, seed: Any, name: Any, meaning: Meaning = Letters(), dtype: Any = None
) -> Bound:
    """Return the initializer of `function`, once seed and name are checked."""
    if seed is None or name is None:
        raise TypeError(
            f"{function} needs a seed and a name, for a weight is a function of (seed, name, index); write "
            f'{function}(..., seed=17, name="Dense_0.kernel"), and give each tensor a name of its own'
        )
    check_tensor_name(name)
    return Bound(initializer, as_u64(seed, "seed"), name, meaning, dtype)


def as_axes(axes: AxisOrAxes) -> tuple[int, ...]:
    """Return axes as a tuple; what is none is refused where they are used."""
    several: Any = axes if isinstance(axes, list | tuple | range) else (axes,)
    return tuple(several)
