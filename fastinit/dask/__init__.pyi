"""The public names of fastinit for dask: this list is read at run time."""

from typing import SupportsIndex, TypedDict, Unpack

import dask.array as da

from .._engine.annotations import FloatDType
from .._engine.checks import ShapeLike
from .._engine.initializer import Initializer
from .functions import Seed
from .lazy import Chunks
from .lazy import LazyArray as LazyArray
from .planned import arrays as arrays
from .writing import write_checkpoint as write_checkpoint

class _Filled(TypedDict, total=False):
    chunks: Chunks
    dtype: FloatDType | None
    layout: str
    threads: int | None

class _Grouped(_Filled, total=False):
    groups: SupportsIndex

class _Gained(_Grouped, total=False):
    gain: float

class _Drawn(_Gained, total=False):
    name: str | None

class _Scaled(_Drawn, total=False):
    fan_in: SupportsIndex | None
    fan_out: SupportsIndex | None

# The functions, which stand in functions.py; ``help(fastinit.dask.normal)`` says more of each.
# fmt: off

def constant(shape: ShapeLike, value: float, **options: Unpack[_Grouped]) -> da.Array: ...
def zeros(shape: ShapeLike, **options: Unpack[_Grouped]) -> da.Array: ...
def ones(shape: ShapeLike, **options: Unpack[_Grouped]) -> da.Array: ...
def identity(shape: ShapeLike, **options: Unpack[_Gained]) -> da.Array: ...
def dirac(shape: ShapeLike, groups: SupportsIndex | None = None, **options: Unpack[_Filled]) -> da.Array: ...
def random(shape: ShapeLike, seed: Seed, **options: Unpack[_Drawn]) -> da.Array: ...
def uniform(
    shape: ShapeLike, seed: Seed, low: float = 0.0, high: float = 1.0, **options: Unpack[_Drawn],
) -> da.Array: ...
def normal(
    shape: ShapeLike, seed: Seed, mean: float = 0.0, std: float = 1.0, **options: Unpack[_Drawn],
) -> da.Array: ...
def truncated_normal(
    shape: ShapeLike, seed: Seed, mean: float = 0.0, std: float = 1.0, lower: float = -2.0, upper: float = 2.0,
    **options: Unpack[_Drawn],
) -> da.Array: ...
def variance_scaling(
    shape: ShapeLike, seed: Seed, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal",
    **options: Unpack[_Scaled],
) -> da.Array: ...
def xavier_uniform(shape: ShapeLike, seed: Seed, **options: Unpack[_Scaled]) -> da.Array: ...
def xavier_normal(shape: ShapeLike, seed: Seed, **options: Unpack[_Scaled]) -> da.Array: ...
def xavier_truncated_normal(shape: ShapeLike, seed: Seed, **options: Unpack[_Scaled]) -> da.Array: ...
def kaiming_uniform(
    shape: ShapeLike, seed: Seed, activation: str = "relu", a: float | None = None, mode: str = "fan_in",
    **options: Unpack[_Scaled],
) -> da.Array: ...
def kaiming_normal(
    shape: ShapeLike, seed: Seed, activation: str = "relu", a: float | None = None, mode: str = "fan_in",
    **options: Unpack[_Scaled],
) -> da.Array: ...
def kaiming_truncated_normal(
    shape: ShapeLike, seed: Seed, activation: str = "relu", a: float | None = None, mode: str = "fan_in",
    **options: Unpack[_Scaled],
) -> da.Array: ...
def lecun_uniform(shape: ShapeLike, seed: Seed, **options: Unpack[_Scaled]) -> da.Array: ...
def lecun_normal(shape: ShapeLike, seed: Seed, **options: Unpack[_Scaled]) -> da.Array: ...
def lecun_truncated_normal(shape: ShapeLike, seed: Seed, **options: Unpack[_Scaled]) -> da.Array: ...
def orthogonal(shape: ShapeLike, seed: Seed, **options: Unpack[_Drawn]) -> da.Array: ...
def delta_orthogonal(shape: ShapeLike, seed: Seed, **options: Unpack[_Drawn]) -> da.Array: ...
def sparse(
    shape: ShapeLike, seed: Seed, fraction: float, std: float = 0.01, **options: Unpack[_Drawn],
) -> da.Array: ...
def initialize(
    shape: ShapeLike, seed: Seed, initializer: Initializer | str, **options: Unpack[_Scaled],
) -> da.Array: ...

glorot_uniform = xavier_uniform
glorot_normal = xavier_normal
glorot_truncated_normal = xavier_truncated_normal
he_uniform = kaiming_uniform
he_normal = kaiming_normal
he_truncated_normal = kaiming_truncated_normal
