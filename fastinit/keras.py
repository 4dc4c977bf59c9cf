"""fastinit for Keras 3, on any backend: keras.initializers' names and conventions, and whole models.

Each class is Keras's own with another draw, because layers look at their initializers (EinsumDense, for one).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, SupportsIndex

from . import initializers
from ._engine.axes import SPATIAL
from ._engine.checks import as_u64
from ._engine.dtypes import FLOAT_NAMES, DType, named_dtype
from ._engine.fill import fill
from ._engine.initializer import Distribution
from ._engine.names import check_tensor_name, refuse_duplicates
from ._engine.streams import stream_state
from ._lazy import need
from .errors import PlanError
from .plan import Plan
from .policies.deciding import PolicyLike

keras: Any = need("fastinit.keras", "keras")

__all__ = [
    "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "LecunNormal", "LecunUniform", "Orthogonal",
    "RandomNormal", "RandomUniform", "TruncatedNormal", "VarianceScaling", "init_model",
]  # fmt: skip

DISTRIBUTIONS = {"uniform": "uniform", "truncated_normal": "truncated_normal", "untruncated_normal": "normal"}
"""Keras's names and those of fastinit."""


class Bound:
    """What the classes here have before Keras's own: the weights of (seed, name, index)."""

    def __init__(
        self, *arguments: Any, seed: SupportsIndex | None = None, name: str | None = None, **options: Any
    ) -> None:
        if seed is None or name is None:
            kind = type(self).__name__
            raise TypeError(
                f"{kind} needs a seed and a name, for a weight is a function of (seed, name, index); write "
                f'{kind}(..., seed=17, name="dense/kernel"), and give each variable a name of its own'
            )
        check_tensor_name(name)
        self.name = name
        super().__init__(*arguments, seed=as_u64(seed, "seed"), **options)  # type: ignore[call-arg]  # Keras's

    drawn: Callable[[Any, tuple[int, ...]], Distribution]
    """What a variable of a shape is filled with."""

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        """Return a tensor of the backend; `dtype` is Keras's floatx by default."""
        state = stream_state(self.seed, self.name)  # type: ignore[attr-defined]  # Keras's
        stored = named_dtype(keras.backend.standardize_dtype(dtype))
        if stored is None or not stored.is_float:
            raise TypeError(f"dtype must be one of {FLOAT_NAMES}, got {dtype}")
        return _tensor(state, tuple(shape), type(self).drawn(self, tuple(shape)), stored)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, from which `from_config` makes an equal initializer."""
        return {**super().get_config(), "name": self.name}  # type: ignore[misc]  # Keras's


def _scaled(own: Any, shape: tuple[int, ...]) -> Distribution:
    fan_in, fan_out = _fans(shape, getattr(own, "input_axes", None), getattr(own, "output_axes", None))
    scaling = initializers.VarianceScaling(own.scale, own.mode, DISTRIBUTIONS[own.distribution])
    return scaling.for_shape(shape, fan_in=fan_in, fan_out=fan_out)


def _fans(shape: tuple[int, ...], inputs: Any, outputs: Any) -> tuple[int, int]:
    """Count as Keras does: a vector has as many inputs as outputs; the receptive field comes first."""
    if inputs is not None and outputs is not None:
        return math.prod(shape[axis] for axis in inputs), math.prod(shape[axis] for axis in outputs)
    if len(shape) < 2:
        return (math.prod(shape),) * 2
    return math.prod(shape[:-1]), math.prod(shape[:-2]) * shape[-1]


def _orthogonal(own: Any, shape: tuple[int, ...]) -> Distribution:
    return initializers.Orthogonal(own.gain).for_shape(shape, SPATIAL[: max(0, len(shape) - 2)] + "io")


def _made(name: str, drawn: Callable[[Any, tuple[int, ...]], Distribution]) -> Any:
    """Return Keras's class of that name with the draws of `drawn`, so registered that a saved model finds it."""
    about = f"""Keras's {name} with the weights of fastinit.

    It takes the arguments of Keras's own and, by keyword, `seed` (an int of 0 to 2**64 - 1) and `name`, the
    variable's. One initializer for two variables gives both the same weights; `init_model` names each.
    """
    base = getattr(keras.initializers, name)
    body = {"drawn": drawn, "__doc__": about, "__module__": __name__, "__qualname__": name}
    made = type(name, (Bound, base), body)
    return keras.saving.register_keras_serializable("fastinit")(made)


GlorotNormal: type[Bound] = _made("GlorotNormal", _scaled)
GlorotUniform: type[Bound] = _made("GlorotUniform", _scaled)
HeNormal: type[Bound] = _made("HeNormal", _scaled)
HeUniform: type[Bound] = _made("HeUniform", _scaled)
LecunNormal: type[Bound] = _made("LecunNormal", _scaled)
LecunUniform: type[Bound] = _made("LecunUniform", _scaled)
VarianceScaling: type[Bound] = _made("VarianceScaling", _scaled)
Orthogonal: type[Bound] = _made("Orthogonal", _orthogonal)
RandomNormal: type[Bound] = _made("RandomNormal", lambda own, _: initializers.Normal(own.mean, own.stddev))
RandomUniform: type[Bound] = _made("RandomUniform", lambda own, _: initializers.Uniform(own.minval, own.maxval))
TruncatedNormal: type[Bound] = _made(
    "TruncatedNormal", lambda own, _: initializers.TruncatedNormal(own.mean, own.stddev, -2, 2)
)


def init_model(model: Any, seed: SupportsIndex, policy: PolicyLike = "xavier") -> Plan:
    """Start every variable of a built model by its path, and return the plan of them.

    Parameters
    ----------
    model : keras.Model or keras.Layer
        Built. Keras numbers unnamed layers through the whole process, so give layers names of their own.
    seed : int
        0 to 2**64 - 1.
    policy : str, path, rules or callable, default "xavier"
        As in `fastinit.Plan.from_specs`.

    Raises
    ------
    PlanError
        For variables that the policy refuses, all at once; nothing is changed then. For a model that is not built.
    """
    if not model.weights:
        raise PlanError(f"{model.name} has no variables yet; build it first: model.build(input_shape)")
    refuse_duplicates(variable.path for variable in model.weights)
    variables = {variable.path: variable for variable in model.weights}
    plan = Plan.from_specs(variables, seed, policy)
    for name, planned in plan.items():
        variables[name].assign(_tensor(planned.state, planned.shape, planned.distribution, planned.dtype))
    return plan


def _tensor(state: int, shape: tuple[int, ...], distribution: Distribution, dtype: DType) -> Any:
    if keras.backend.backend() == "jax":
        from .jax.arrays import check_stored  # noqa: PLC0415

        check_stored(dtype)  # without 64 bits JAX would round float64 in silence
    return keras.ops.convert_to_tensor(fill(state, shape, distribution, dtype), dtype.name)
