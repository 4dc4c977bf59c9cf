"""fastinit: starting weights at memory speed, with bits that never change.

A weight is a pure function of (seed, name, index): the same bits on every CPU, dtype (rounded), memory layout
and shard. The kernels are chosen here, once; everything else is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import levels

if TYPE_CHECKING:
    from .arrays import (
        constant,
        delta_orthogonal,
        dirac,
        glorot_normal,
        glorot_truncated_normal,
        glorot_uniform,
        he_normal,
        he_truncated_normal,
        he_uniform,
        identity,
        initialize,
        kaiming_normal,
        kaiming_truncated_normal,
        kaiming_uniform,
        lecun_normal,
        lecun_truncated_normal,
        lecun_uniform,
        normal,
        ones,
        orthogonal,
        random,
        sparse,
        truncated_normal,
        uniform,
        variance_scaling,
        xavier_normal,
        xavier_truncated_normal,
        xavier_uniform,
        zeros,
    )
    from .autodiff import GraphRetention, Tensor, TensorValue
    from .checkpoint import Mismatch, Verification, Written, verify_checkpoint, write_checkpoint
    from .errors import (
        AllocationFailed,
        CheckpointError,
        DistributionError,
        DuplicateName,
        EmptyName,
        EmptyNameSegment,
        FanSumOverflow,
        FastinitError,
        InitializationError,
        InvalidNameCharacter,
        InvalidTensorName,
        PlanError,
        ShapeProductOverflow,
        StreamOverlap,
        TensorAutodiffError,
        TensorError,
        ZeroFanIn,
        ZeroFanOut,
    )
    from .initializers import recommend
    from .levels import simd_level
    from .names import validate_name
    from .parameters import NamedParameter, NamedParameters
    from .plan import Plan, PlannedTensor
    from .scale import XavierScale, fans, gain, xavier_scale
    from .splitmix64 import SplitMix64, stream_for

__version__ = "0.1.0"

_HOMES = {
    "arrays": (
        "constant",
        "delta_orthogonal",
        "dirac",
        "glorot_normal",
        "glorot_truncated_normal",
        "glorot_uniform",
        "he_normal",
        "he_truncated_normal",
        "he_uniform",
        "identity",
        "initialize",
        "kaiming_normal",
        "kaiming_truncated_normal",
        "kaiming_uniform",
        "lecun_normal",
        "lecun_truncated_normal",
        "lecun_uniform",
        "normal",
        "ones",
        "orthogonal",
        "random",
        "sparse",
        "truncated_normal",
        "uniform",
        "variance_scaling",
        "xavier_normal",
        "xavier_truncated_normal",
        "xavier_uniform",
        "zeros",
    ),
    "autodiff": ("GraphRetention", "Tensor", "TensorValue"),
    "checkpoint": ("Mismatch", "Verification", "Written", "verify_checkpoint", "write_checkpoint"),
    "errors": (
        "AllocationFailed",
        "CheckpointError",
        "DistributionError",
        "DuplicateName",
        "EmptyName",
        "EmptyNameSegment",
        "FanSumOverflow",
        "FastinitError",
        "InitializationError",
        "InvalidNameCharacter",
        "InvalidTensorName",
        "PlanError",
        "ShapeProductOverflow",
        "StreamOverlap",
        "TensorAutodiffError",
        "TensorError",
        "ZeroFanIn",
        "ZeroFanOut",
    ),
    "initializers": ("recommend",),
    "levels": ("simd_level",),
    "names": ("validate_name",),
    "parameters": ("NamedParameter", "NamedParameters"),
    "plan": ("Plan", "PlannedTensor"),
    "scale": ("XavierScale", "fans", "gain", "xavier_scale"),
    "splitmix64": ("SplitMix64", "stream_for"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AllocationFailed",
    "CheckpointError",
    "DistributionError",
    "DuplicateName",
    "EmptyName",
    "EmptyNameSegment",
    "FanSumOverflow",
    "FastinitError",
    "GraphRetention",
    "InitializationError",
    "InvalidNameCharacter",
    "InvalidTensorName",
    "Mismatch",
    "NamedParameter",
    "NamedParameters",
    "Plan",
    "PlanError",
    "PlannedTensor",
    "ShapeProductOverflow",
    "SplitMix64",
    "StreamOverlap",
    "Tensor",
    "TensorAutodiffError",
    "TensorError",
    "TensorValue",
    "Verification",
    "Written",
    "XavierScale",
    "ZeroFanIn",
    "ZeroFanOut",
    "__version__",
    "constant",
    "delta_orthogonal",
    "dirac",
    "fans",
    "gain",
    "glorot_normal",
    "glorot_truncated_normal",
    "glorot_uniform",
    "he_normal",
    "he_truncated_normal",
    "he_uniform",
    "identity",
    "initialize",
    "kaiming_normal",
    "kaiming_truncated_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_truncated_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "random",
    "recommend",
    "simd_level",
    "sparse",
    "stream_for",
    "truncated_normal",
    "uniform",
    "validate_name",
    "variance_scaling",
    "verify_checkpoint",
    "write_checkpoint",
    "xavier_normal",
    "xavier_scale",
    "xavier_truncated_normal",
    "xavier_uniform",
    "zeros",
]

levels.choose()


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in _HOMES or name == "diagnostics":
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'fastinit' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
