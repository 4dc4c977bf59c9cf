"""What a user may pass, for type checkers alone: the names of dtypes, dtypes of any library, memory to fill.

Nothing here is looked at when the package runs: `targets.py` takes and refuses, and its errors say more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias, TypedDict

import numpy as np

from .dtypes import DType
from .parts import Index

if TYPE_CHECKING:
    from typing_extensions import Buffer, TypeVar

    Scalar = TypeVar("Scalar", bound=np.generic, default=np.float64)
    """The numpy type of the weights; float64 where nobody says another."""

FloatName: TypeAlias = Literal[
    "float64", "f64", "F64", "torch.float64", "double", "f8", "<f8", ">f8", "=f8",
    "float32", "f32", "F32", "torch.float32", "single", "f4", "<f4", ">f4", "=f4",
    "float16", "f16", "F16", "torch.float16", "half", "f2", "<f2", ">f2", "=f2",
    "bfloat16", "bf16", "BF16", "torch.bfloat16",
    "float8_e4m3fn", "f8_e4m3", "F8_E4M3", "torch.float8_e4m3fn",
    "float8_e5m2", "f8_e5m2", "F8_E5M2", "torch.float8_e5m2",
]  # fmt: skip
"""The usual spellings; others that numpy and `spelled_dtype` read are taken too, but no checker can list them."""


class HasDType(Protocol):
    """An object that states its dtype as numpy does: jax.numpy.float32."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """What numpy calls it."""


class TorchDType(Protocol):
    """torch.float32 and its like, without torch."""

    @property
    def is_floating_point(self) -> bool:
        """Whether it holds weights."""


FloatDType: TypeAlias = FloatName | np.dtype[Any] | type[np.generic] | type[float] | DType | HasDType | TorchDType
"""A dtype as users give it."""

Out: TypeAlias = "np.ndarray[Any, Any] | Buffer"
"""Memory to fill, which must be writable."""

if TYPE_CHECKING:
    from .generator import SplitMix64

    Rng: TypeAlias = SplitMix64 | SupportsIndex
    """Where draws come from: a generator, which moves on, or a seed."""

    Kind: TypeAlias = np.dtype[Scalar] | type[Scalar] | None
    """A dtype of numpy's, which a checker can carry into the result; None for float64."""


class Placed(TypedDict, total=False):
    """Options of every function: which part of which axes, and how many threads."""

    index: Index | None
    layout: str
    threads: int | None


class Grouped(Placed, total=False):
    """And the groups of a convolution."""

    groups: SupportsIndex


class Gained(Grouped, total=False):
    """And a factor of every weight."""

    gain: float


class Fanned(Gained, total=False):
    """And fans that are not to be counted."""

    fan_in: SupportsIndex | None
    fan_out: SupportsIndex | None
