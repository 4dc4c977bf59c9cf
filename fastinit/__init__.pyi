"""The public names of fastinit: this list is read at run time, and ``dir(fastinit)`` is it."""

from typing import SupportsIndex

from numpy.typing import DTypeLike

from . import autodiff as autodiff
from . import diagnosis as diagnosis
from . import initializers as initializers
from . import lessons as lessons
from . import policies as policies
from . import propagation as propagation
from ._engine.axes import fans as fans
from ._engine.checks import ShapeLike
from ._engine.gains import XavierScale as XavierScale
from ._engine.gains import gain as gain
from ._engine.gains import xavier_scale as xavier_scale
from ._engine.generator import SplitMix64 as SplitMix64
from ._engine.generator import stream_for as stream_for
from ._engine.levels import simd_level as simd_level
from ._engine.names import validate_name as validate_name
from ._engine.parts import Array, Index
from ._files.sources import bundled_models as bundled_models
from .autodiff.graph import GraphRetention as GraphRetention
from .autodiff.tape import TensorValue as TensorValue
from .autodiff.tensor import Tensor as Tensor
from .checkpoint import Mismatch as Mismatch
from .checkpoint import Verification as Verification
from .checkpoint import verify_checkpoint as verify_checkpoint
from .errors import AllocationFailed as AllocationFailed
from .errors import CheckpointError as CheckpointError
from .errors import DistributionError as DistributionError
from .errors import DuplicateName as DuplicateName
from .errors import EmptyName as EmptyName
from .errors import EmptyNameInFile as EmptyNameInFile
from .errors import EmptyNameSegment as EmptyNameSegment
from .errors import FanSumOverflow as FanSumOverflow
from .errors import FastinitError as FastinitError
from .errors import InitializationError as InitializationError
from .errors import InvalidNameCharacter as InvalidNameCharacter
from .errors import InvalidNameInFile as InvalidNameInFile
from .errors import InvalidTensorName as InvalidTensorName
from .errors import PlanError as PlanError
from .errors import ShapeProductOverflow as ShapeProductOverflow
from .errors import StreamOverlap as StreamOverlap
from .errors import TensorAutodiffError as TensorAutodiffError
from .errors import TensorError as TensorError
from .errors import TensorsRefused as TensorsRefused
from .errors import ZeroFanIn as ZeroFanIn
from .errors import ZeroFanOut as ZeroFanOut
from .lessons.advice import recommend as recommend
from .parameters import NamedParameter as NamedParameter
from .parameters import NamedParameters as NamedParameters
from .plan import Plan as Plan
from .plan import PlannedTensor as PlannedTensor
from .propagation.fixed_point import computed_gain as computed_gain
from .writing.writer import Written as Written
from .writing.writer import write_checkpoint as write_checkpoint

__version__: str
__all__: list[str]

# The functions, which stand in functions.py; ``help(fastinit.normal)`` says more of each.
# fmt: off

def constant(
    shape: ShapeLike | None, value: float, *, dtype: DTypeLike | None = None, out: object = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Fill with one value, rounded to the dtype; takes no draws and no generator.

    shape: the whole tensor's; None takes that of `out`. value: finite.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

def zeros(
    shape: ShapeLike | None, *, dtype: DTypeLike | None = None, out: object = None, index: Index | None = None,
    layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Fill with 0; takes no draws and no generator.

    shape: the whole tensor's; None takes that of `out`.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

def ones(
    shape: ShapeLike | None, *, dtype: DTypeLike | None = None, out: object = None, index: Index | None = None,
    layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Fill with 1; takes no draws and no generator.

    shape: the whole tensor's; None takes that of `out`.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

def identity(
    shape: ShapeLike | None, *, gain: float = 1.0, dtype: DTypeLike | None = None, out: object = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Fill a matrix, or every matrix of a stack, with the identity times `gain`; takes no draws.

    shape: the whole tensor's; None takes that of `out`. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

def dirac(
    shape: ShapeLike | None, groups: SupportsIndex | None = None, *, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", threads: int | None = None,
) -> Array:
    """Fill a convolution kernel so that it hands its inputs on unchanged; takes no draws.

    shape: the whole tensor's; None takes that of `out`.
    groups: the identity is repeated in each of so many groups of outputs.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    threads: for a large fill; the bits do not depend on it.
    """

def random(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    threads: int | None = None,
) -> Array:
    """Draw numbers uniformly on [0, 1): the top 53 bits of a draw, times 2**-53.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

def uniform(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, low: float = 0.0, high: float = 1.0, *,
    gain: float = 1.0, dtype: DTypeLike | None = None, out: object = None, index: Index | None = None,
    layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Draw weights uniformly on [low, high): ``low + (high - low) * u``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. low: the smallest weight.
    high: the bound that no weight reaches. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

def normal(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, mean: float = 0.0, std: float = 1.0, *,
    gain: float = 1.0, dtype: DTypeLike | None = None, out: object = None, index: Index | None = None,
    layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Draw normal weights: ``mean + std * z``, one draw each.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. mean: of the normal, before truncation.
    std: of the normal, before truncation; >= 0. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

def truncated_normal(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, mean: float = 0.0, std: float = 1.0,
    lower: float = -2.0, upper: float = 2.0, *, gain: float = 1.0, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    threads: int | None = None,
) -> Array:
    """Draw normal weights inside ``[mean + lower * std, mean + upper * std]``, one draw each and none rejected.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. mean: of the normal, before truncation.
    std: of the normal, before truncation; >= 0. lower: least weight, in standard deviations from the mean.
    upper: greatest weight, likewise. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

def variance_scaling(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, scale: float = 1.0, mode: str = "fan_in",
    distribution: str = "truncated_normal", *, gain: float = 1.0, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw zero-centered weights of variance ``scale / fan``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. scale: the squared gain.
    mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg".
    distribution: "truncated_normal", "normal" or "uniform". gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

def xavier_uniform(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Xavier (Glorot) uniform weights, on [-limit, limit) with ``limit = sqrt(6 / (fan_in + fan_out))``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

def xavier_normal(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Xavier (Glorot) normal weights of standard deviation ``sqrt(2 / (fan_in + fan_out))``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

def xavier_truncated_normal(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Xavier (Glorot) truncated normal weights, of variance ``2 / (fan_in + fan_out)`` after truncation.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

def kaiming_uniform(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, activation: str = "relu", a: float | None = None,
    mode: str = "fan_in", *, gain: float = 1.0, dtype: DTypeLike | None = None, out: object = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Kaiming (He) uniform weights, on [-limit, limit) with ``limit = sqrt(3 * squared_gain / fan)``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed.
    activation: the function after the layer, as in `gain`.
    a: the activation's parameter: leaky_relu's slope, elu's alpha.
    mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg". gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

def kaiming_normal(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, activation: str = "relu", a: float | None = None,
    mode: str = "fan_in", *, gain: float = 1.0, dtype: DTypeLike | None = None, out: object = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Kaiming (He) normal weights of standard deviation ``sqrt(squared_gain / fan)``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed.
    activation: the function after the layer, as in `gain`.
    a: the activation's parameter: leaky_relu's slope, elu's alpha.
    mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg". gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

def kaiming_truncated_normal(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, activation: str = "relu", a: float | None = None,
    mode: str = "fan_in", *, gain: float = 1.0, dtype: DTypeLike | None = None, out: object = None,
    index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw Kaiming (He) truncated normal weights, of variance ``squared_gain / fan`` after truncation.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed.
    activation: the function after the layer, as in `gain`.
    a: the activation's parameter: leaky_relu's slope, elu's alpha.
    mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg". gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

def lecun_uniform(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw LeCun uniform weights, on [-limit, limit) with ``limit = sqrt(3 / fan_in)``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

def lecun_normal(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw LeCun normal weights of standard deviation ``sqrt(1 / fan_in)``.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

def lecun_truncated_normal(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    fan_in: SupportsIndex | None = None, fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Draw LeCun truncated normal weights, of variance ``1 / fan_in`` after truncation.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

def orthogonal(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    threads: int | None = None,
) -> Array:
    """Draw a random orthonormal matrix, uniformly (Haar) distributed, times `gain`.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

def delta_orthogonal(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, *, gain: float = 1.0, dtype: DTypeLike | None = None,
    out: object = None, index: Index | None = None, layout: str = "io", groups: SupportsIndex = 1,
    threads: int | None = None,
) -> Array:
    """Draw a convolution kernel that is orthonormal at the middle of its receptive field and zero elsewhere.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

def sparse(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, fraction: float, std: float = 0.01, *,
    gain: float = 1.0, dtype: DTypeLike | None = None, out: object = None, index: Index | None = None,
    layout: str = "io", groups: SupportsIndex = 1, threads: int | None = None,
) -> Array:
    """Draw a normal matrix of which a fraction of every column is zero.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed.
    fraction: share of every column that is zero. std: of the normal, before truncation; >= 0.
    gain: multiplies every weight. dtype: float64 (default) or a narrower one; None takes that of `out`.
    out: memory to fill, in any memory order. index: fill only ``whole[index]``.
    layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. threads: for a large fill; the bits do not depend on it.
    """

def initialize(
    shape: ShapeLike | None, rng: SplitMix64 | SupportsIndex, initializer: initializers.Initializer | str, *,
    gain: float = 1.0, dtype: DTypeLike | None = None, out: object = None, index: Index | None = None,
    layout: str = "io", groups: SupportsIndex = 1, fan_in: SupportsIndex | None = None,
    fan_out: SupportsIndex | None = None, threads: int | None = None,
) -> Array:
    """Fill with any initializer.

    shape: the whole tensor's; None takes that of `out`.
    rng: the generator, which moves on by one draw a weight, or a seed.
    initializer: any of `fastinit.initializers`, its name, or JSON text. gain: multiplies every weight.
    dtype: float64 (default) or a narrower one; None takes that of `out`. out: memory to fill, in any memory order.
    index: fill only ``whole[index]``. layout: the meaning of each axis: "io", "oi" (torch), "hwio", "oihw", ...
    groups: groups of a grouped convolution. fan_in: connections into a unit, where not to be counted.
    fan_out: connections out of a unit, likewise. threads: for a large fill; the bits do not depend on it.
    """

glorot_uniform = xavier_uniform
glorot_normal = xavier_normal
glorot_truncated_normal = xavier_truncated_normal
he_uniform = kaiming_uniform
he_normal = kaiming_normal
he_truncated_normal = kaiming_truncated_normal
# fmt: on
