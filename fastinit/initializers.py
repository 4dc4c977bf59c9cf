"""Initializers: frozen data that turns a shape and its axes into a distribution.

The formula stands once, in `VarianceScaling`; `xavier`, `kaiming` and `lecun` are one-line specialisations of it.
`Residual`, `DepthScaled`, `MuP` and `Scaled` scale the weights of another initializer. A distribution is an
initializer itself. All of them can be called, compare, hash, and travel as small JSON objects.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, SupportsIndex

from . import _core
from ._engine import constructions, distributions, divided, given, initializer
from ._engine.axes import SPATIAL, Axes
from ._engine.checks import as_choice, as_finite, as_nonnegative, as_shape, as_u64
from ._engine.constructions import *  # noqa: F403
from ._engine.constructions import Diagonal, agreed
from ._engine.distributions import *  # noqa: F403
from ._engine.distributions import CenteredUniform, Constant, Normal, Positions, TruncatedNormal
from ._engine.divided import *  # noqa: F403
from ._engine.gains import squared_gain
from ._engine.given import *  # noqa: F403
from ._engine.initializer import *  # noqa: F403
from ._engine.initializer import Distribution, Initializer
from .errors import DistributionError

if not TYPE_CHECKING:  # a type checker cannot read this sum, and takes what a star imports for public anyway
    __all__ = [
        "ONES", "POSITIONS", "XAVIER_UNIFORM", "ZEROS", "DepthScaled", "Dirac", "Identity", "MuP", "Residual",
        "Scaled", "VarianceScaling", "glorot", "he", "kaiming", "lecun", "xavier",
    ]  # fmt: skip
    __all__ += constructions.__all__
    __all__ += distributions.__all__
    __all__ += divided.__all__
    __all__ += given.__all__
    __all__ += initializer.__all__

MODES = ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
"""What the fan of a variance scaling may be."""

DISTRIBUTIONS = ("uniform", "normal", "truncated_normal")
"""What a variance scaling may draw from."""


# ---- weights scaled by their fans --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VarianceScaling(Initializer):
    """Zero-centered weights of variance ``scale / fan``.

    Attributes
    ----------
    scale : float
        The squared gain; finite and >= 0.
    mode : {"fan_in", "fan_out", "fan_avg", "fan_geo_avg"}
        What `fan` is: one of the two fans, their arithmetic or their geometric mean.
    distribution : {"uniform", "normal", "truncated_normal"}
        Uniform on [-limit, limit) with ``limit = sqrt(3 * scale / fan)``; normal; or a normal truncated at two of
        its standard deviations, which is made wider by 1 / 0.8796 so that the variance *after* truncation is
        the promised one.

    Notes
    -----
    An empty tensor has nothing to scale and gets a constant.

    References
    ----------
    Glorot and Bengio (2010), eq. 16 (scale 1, fan_avg); He et al. (2015), eq. 10 and 15 (scale 2, fan_in);
    LeCun et al. (1998), "Efficient BackProp", eq. 16 (scale 1, fan_in).
    """

    scale: float
    mode: str
    distribution: str

    kind: ClassVar[str] = "variance_scaling"

    def __post_init__(self) -> None:
        as_choice(self.mode, MODES, "mode")
        as_choice(self.distribution, DISTRIBUTIONS, "distribution")
        self._set(scale=as_nonnegative(self.scale, "scale"))

    @property
    def name(self) -> str:
        """The famous name where it has one."""
        famous = {(1.0, "fan_avg"): "xavier", (2.0, "fan_in"): "kaiming", (1.0, "fan_in"): "lecun"}
        return f"{famous.get((self.scale, self.mode), self.kind)}_{self.distribution}"

    def at(self, axes: Axes) -> Distribution:
        """Return the distribution whose variance after truncation, if any, is ``scale / fan``."""
        pair = axes.checked_fans
        if pair is None:
            return Constant(0.0)
        fan_in, fan_out = pair
        if self.mode == "fan_avg":
            fan, kind = fan_in + fan_out, _core.FAN_SUM
        elif self.mode == "fan_geo_avg":
            fan, kind = fan_in * fan_out, _core.FAN_PRODUCT
        else:
            fan, kind = fan_in if self.mode == "fan_in" else fan_out, _core.FAN
        _, std, limit, parent_std = _core.scale(self.scale, float(fan), kind, 1.0)
        if self.distribution == "uniform" and limit < math.inf:
            return CenteredUniform(limit)
        if self.distribution == "normal" and std < math.inf:
            return Normal(0.0, std)
        if self.distribution == "truncated_normal" and parent_std < math.inf:
            return TruncatedNormal(0.0, parent_std, -2.0, 2.0)
        raise DistributionError(f"{self} leaves the finite range of float64")

    def recipe(self) -> _core.Recipe | None:
        """Return the parent's numbers, and what its spread follows from."""
        if type(self) is not VarianceScaling:  # a class of a user's may have a formula of its own
            return None
        parent = _PARENTS[self.distribution]
        return _core.Recipe(parent.base, parent.parameters, self.mode, self.scale, self.distribution)


_PARENTS: dict[str, CenteredUniform | Normal | TruncatedNormal] = {
    "uniform": CenteredUniform(1.0),
    "normal": Normal(),
    "truncated_normal": TruncatedNormal(0.0, 1.0, -2.0, 2.0),
}
"""What is scaled, with a spread of 1."""


def xavier(distribution: str = "uniform") -> VarianceScaling:
    """Return Glorot and Bengio's (2010) scheme: variance ``2 / (fan_in + fan_out)``."""
    return VarianceScaling(1.0, "fan_avg", distribution)


def kaiming(
    distribution: str = "uniform", activation: str = "relu", a: float | None = None, mode: str = "fan_in"
) -> VarianceScaling:
    """Return He et al.'s (2015) scheme: variance ``gain**2 / fan``; `a` is the parameter of the gain.

    A slope of 0 is relu: ``a=0`` may be said with it, as in torch.
    """
    if activation == "relu" and a is not None and as_finite(a, "a") == 0:
        a = None
    return VarianceScaling(squared_gain(activation, a), mode, distribution)


def lecun(distribution: str = "uniform") -> VarianceScaling:
    """Return LeCun et al.'s (1998) scheme: variance ``1 / fan_in``."""
    return VarianceScaling(1.0, "fan_in", distribution)


glorot = xavier
"""Xavier Glorot's scheme by his other name."""

he = kaiming
"""Kaiming He's scheme by his other name."""

# ---- ones along a diagonal ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity(Initializer):
    """`gain` on the diagonal of a matrix, or of every matrix of a stack; zero elsewhere.

    Attributes
    ----------
    gain : float
        Finite and >= 0.
    """

    gain: float = 1.0

    kind: ClassVar[str] = "identity"

    def __post_init__(self) -> None:
        self._set(gain=as_nonnegative(self.gain, "gain"))

    def at(self, axes: Axes) -> Distribution:
        """Return the diagonal of a matrix or of a stack of them."""
        if set(axes.letters.lower()) & set(SPATIAL):
            raise ValueError(f"identity fills matrices, not layout {axes.layout!r}; for a convolution use dirac")
        return Diagonal(self.gain).at(axes)


@dataclass(frozen=True, slots=True)
class Dirac(Initializer):
    """The kernel that hands every input on to the output of its number, in each of `groups` groups.

    The tap is the middle of the receptive field, n // 2 of an axis of length n, as in torch.

    Attributes
    ----------
    groups : int or None
        None takes the groups of the call; a number must not contradict them.
    """

    groups: SupportsIndex | None = None

    kind: ClassVar[str] = "dirac"

    def __post_init__(self) -> None:
        if self.groups is not None:
            self._set(groups=as_u64(self.groups, "groups"))

    def at(self, axes: Axes) -> Distribution:
        """Return the ones of the tap."""
        groups = agreed(self, "groups", axes, 1)
        return Diagonal(1.0, axes.layout, groups).at(dataclasses.replace(axes, groups=groups))


# ---- the weights of another initializer, scaled ------------------------------------------------------


def _check_base(base: object) -> None:
    if not isinstance(base, Initializer) or not base.holds_weights:
        raise TypeError(f"base must be an initializer of weights, got {base!r}")


@dataclass(frozen=True, slots=True)
class _Changed(Initializer):
    """The weights of `base` times a factor."""

    base: Initializer

    def __post_init__(self) -> None:
        _check_base(self.base)

    @property
    def name(self) -> str:
        """The name of the base inside that of the change."""
        return f"{self.kind}({self.base.name})"

    @property
    def _factor(self) -> tuple[float, float]:
        """What every weight is multiplied by, and by the root of what it is divided."""
        raise NotImplementedError

    def at(self, axes: Axes) -> Distribution:
        """Return the distribution of the base, rescaled."""
        return self.base.at(axes).rescaled(*self._factor)


@dataclass(frozen=True, slots=True)
class Scaled(_Changed):
    """Every weight of `base` times `factor`; finite and >= 0."""

    factor: float

    kind: ClassVar[str] = "scaled"

    def __post_init__(self) -> None:
        _Changed.__post_init__(self)
        self._set(factor=as_nonnegative(self.factor, "factor"))

    @property
    def _factor(self) -> tuple[float, float]:
        return self.factor, 1.0


@dataclass(frozen=True, slots=True)
class Residual(_Changed):
    """Every weight of `base` divided by ``sqrt(2 * residual_layers)``, so a mean or a constant as well.

    For the projections that write to the residual stream of a transformer of so many layers, each of which writes
    twice (attention and feed-forward).

    References
    ----------
    Radford et al. (2019), "Language models are unsupervised multitask learners" (GPT-2), section 2.3.

    Examples
    --------
    >>> from fastinit import initializers
    >>> initializers.Residual(initializers.Normal(std=0.02), residual_layers=12).for_shape((768, 768)).std
    0.004082482904638631
    """

    residual_layers: int

    kind: ClassVar[str] = "residual"

    def __post_init__(self) -> None:
        _Changed.__post_init__(self)
        layers = as_u64(self.residual_layers, "residual_layers")
        if layers == 0:
            raise ValueError(
                "residual_layers must be at least 1: it counts the layers that write to the residual stream"
            )
        self._set(residual_layers=layers)

    @property
    def _factor(self) -> tuple[float, float]:
        return 1.0, float(2 * self.residual_layers)


@dataclass(frozen=True, slots=True)
class DepthScaled(_Changed):
    """Every weight of `base` divided by ``sqrt(2 * (layer + 1))``, for layer 0, 1, ...; a mean as well.

    References
    ----------
    Zhang, Titov and Sennrich (2019), "Improving deep transformer with depth-scaled initialization and merged
    attention", has the law; with the factor 2 it is OLMo's ("mitchell") and torchtitan's (``depth_init``).
    """

    layer: int

    kind: ClassVar[str] = "depth_scaled"

    def __post_init__(self) -> None:
        _Changed.__post_init__(self)
        self._set(layer=as_u64(self.layer, "layer"))

    @property
    def _factor(self) -> tuple[float, float]:
        return 1.0, float(2 * (self.layer + 1))


@dataclass(frozen=True, slots=True)
class MuP(Initializer):
    """The weights `base` has at `base_shape`, carried over to other widths by the maximal update parametrization.

    Attributes
    ----------
    base_shape : tuple of int
        The tensor's shape in the small model whose hyperparameters were tuned. Inputs or outputs that differ from
        it are *wide*.
    base : Initializer
        What the tensor has there; a distribution, not a construction.

    Notes
    -----
    With std0 the standard deviation of `base` at `base_shape`:

    =====================  ==========================================  =========================================
    wide                   tensors                                     std
    =====================  ==========================================  =========================================
    neither                norm gains, convolutions of fixed channels  std0
    outputs only           input weights, embeddings, biases           std0
    inputs only            output weights (with mup's MuReadout)       std0
    inputs and outputs     hidden weights                              ``std0 / sqrt(inputs / base inputs)``
    =====================  ==========================================  =========================================

    A std is that of the weights: a `base` with a mean has its mean divided as well. A grouped kernel has as many
    groups at `base_shape`, a depthwise one as many as it has channels there. An empty tensor gets a constant.
    Learning rates and the output multiplier are not an initializer's.

    References
    ----------
    Yang et al. (2022), "Tensor Programs V: tuning large neural networks via zero-shot hyperparameter transfer",
    table 8; the package ``mup`` (``mup.init``), with which the tests compare it.
    """

    base_shape: tuple[int, ...]
    base: Initializer = VarianceScaling(2.0, "fan_in", "normal")

    kind: ClassVar[str] = "mup"

    def __post_init__(self) -> None:
        _check_base(self.base)
        base_shape = as_shape(self.base_shape)
        if 0 in base_shape:
            raise ValueError(f"base_shape must have no zero, got {base_shape}")
        self._set(base_shape=base_shape)

    @property
    def name(self) -> str:
        """The name of the base inside that of the change."""
        return f"{self.kind}({self.base.name})"

    def at(self, axes: Axes) -> Distribution:
        """Return the distribution of the base at `base_shape`, rescaled where inputs and outputs are both wide."""
        axes.check()
        shape, base_shape = axes.shape, self.base_shape
        if len(shape) != len(base_shape):
            raise ValueError(f"shape {shape} and base_shape {base_shape} differ in their number of axes")
        if 0 in shape:
            return Constant(0.0)
        distribution = self.base.at(dataclasses.replace(axes, shape=base_shape, groups=self._base_groups(axes)))
        if not distribution.by_element:
            raise DistributionError(f"mup scales the standard deviation of a distribution, not {self.base.name}")
        widths = self._widths(axes) if len(shape) > 1 else ()
        return distribution.rescaled(1.0, *map(float, widths)) if widths else distribution

    def _widths(self, axes: Axes) -> tuple[int, ...]:
        """Return the inputs here and at `base_shape` of a hidden matrix, wide in both; of any other, nothing."""
        base_lengths = dataclasses.replace(axes, shape=self.base_shape, groups=1).lengths
        lengths = {letter: (length, base_lengths[letter]) for letter, length in axes.lengths.items()}
        wide = {letter for letter, (length, base) in lengths.items() if length != base}
        if wide - set("io"):
            raise ValueError(
                f"only inputs and outputs have a width, but shape {axes.shape} differs from base_shape "
                f"{self.base_shape} in {', '.join(sorted(wide - set('io')))} (layout {axes.layout!r})"
            )
        return lengths["i"] if len(wide) == 2 else ()

    def _base_groups(self, axes: Axes) -> int:
        """Return the groups at `base_shape`: as many as here, but one channel each if they have one here."""
        if axes.groups == 1:
            return 1
        holder = axes.letters.index("I" if "I" in axes.letters else "O")
        base_length = self.base_shape[holder]
        groups = base_length if axes.groups == axes.shape[holder] else axes.groups
        if base_length % groups:
            raise ValueError(
                f"groups={groups} must divide the {base_length} channels of base_shape {self.base_shape} too: the "
                "groups stay as many when the width changes, unless each has one channel (depthwise)"
            )
        return groups


XAVIER_UNIFORM = xavier("uniform")
"""Glorot and Bengio's uniform scheme."""

ZEROS = Constant(0.0)
"""0 everywhere."""

ONES = Constant(1.0)
"""1 everywhere."""

POSITIONS = Positions()
"""0, 1, ..., n - 1 along the last axis."""
