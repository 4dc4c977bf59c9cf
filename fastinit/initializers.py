"""Initializers: frozen data that turns a shape and its fans into what a tensor is filled with.

The formula stands once, in `VarianceScaling`; the famous names are one-line specialisations of it. `Residual`,
`DepthScaled`, `MuP` and `Scaled` scale the weights of another initializer. All of them compare, hash, and travel
as small JSON objects.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsIndex

from . import _core, constructions, distributions
from .arguments import as_choice, as_finite, as_number, as_shape, as_spread, as_u64
from .constructions import Construction
from .distributions import CenteredUniform, Content, Positions
from .errors import CheckpointError, DistributionError
from .layout import parse_object
from .scale import SPATIAL, Axes, axes_of, squared_gain

MODES = ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
SHAPES = ("uniform", "normal", "truncated_normal")

_SPREADS: dict[type[Any], tuple[str, ...]] = {
    distributions.Constant: ("value",),
    distributions.Uniform: ("low", "high"),
    CenteredUniform: ("limit",),
    distributions.Normal: ("mean", "std"),
    distributions.TruncatedNormal: ("mean", "std"),
    constructions.Diagonal: ("gain",),
    constructions.Orthogonal: ("gain",),
    constructions.DeltaOrthogonal: ("gain",),
    constructions.Sparse: ("std",),
}
"""The parameters of a content that grow in proportion to its weights."""


def rescaled(content: Content, factor: float, p: float = 1.0, q: float = 1.0) -> Content:
    """Return `content` with every weight times ``factor / sqrt(p / q)``; the arithmetic is C's."""
    cls: type[Any] = type(content)
    if cls not in _SPREADS:
        raise DistributionError(f"{content.kind} are no weights: they have no spread to change")
    spreads = _SPREADS[cls]
    values = [(name, getattr(content, name)) for name in cls.__match_args__]  # every content is a dataclass
    scaled = cls(*[_core.rescale(value, factor, p, q) if name in spreads else value for name, value in values])
    if cls is distributions.Uniform and math.isfinite(scaled.high - scaled.low):
        spec = _core.Spec(cls.base, _core.DTYPES["float64"], scaled.parameters)
        if spec.status == _core.NOT_AN_INTERVAL:  # the bounds have met: a spread of 0, which still takes its draws
            return distributions.Normal(scaled.low, 0.0)
    return scaled  # type: ignore[no-any-return]


class Initializer:
    """What a tensor of any shape starts as."""

    __slots__ = ()
    kind: ClassVar[str]

    @property
    def scheme(self) -> str:
        """The name shown in plans and errors."""
        return self.kind

    def content(
        self,
        shape: tuple[int, ...],
        layout: str = "io",
        groups: SupportsIndex = 1,
        fan_in: SupportsIndex | None = None,
        fan_out: SupportsIndex | None = None,
    ) -> Content:
        """Return what a tensor of `shape` is filled with.

        Parameters
        ----------
        shape : tuple of int
            The tensor's logical shape.
        layout, groups
            The meaning of its axes, as in `fastinit.fans`.
        fan_in, fan_out : int, optional
            Taken instead of the counted connections.

        Raises
        ------
        TypeError, ValueError
            For integers of a wrong type or range, and a shape that this initializer cannot be used for.
        """
        axes = axes_of(shape, layout, groups, fan_in, fan_out)
        axes.check()
        return self._content(axes)

    def _content(self, axes: Axes) -> Content:
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, ``{"kind": ..., parameter: value, ...}``, that `from_json` reads."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every initializer is a dataclass
        return {"kind": self.kind, **{field.name: _to_json(getattr(self, field.name)) for field in fields}}

    def _set(self, **values: Any) -> None:
        """Put checked values in place of those given; for ``__post_init__``."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _to_json(value: Any) -> Any:
    if isinstance(value, Initializer):
        return value.to_json()
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and math.isinf(value) else value


def from_json(data: Mapping[str, Any]) -> Initializer:
    """Return the initializer that `to_json` described; ValueError for anything else.

    Text is for `parse`, which also refuses what is no JSON and a key that occurs twice.

    Examples
    --------
    >>> from fastinit import initializers
    >>> residual = initializers.Residual(initializers.kaiming("normal", "gelu"), layers=12)
    >>> initializers.from_json(residual.to_json()) == residual
    True
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"an initializer is a JSON object, got {data!r}")
    try:
        parameters = {name: from_json(v) if isinstance(v, Mapping) else v for name, v in data.items()}
    except RecursionError:
        raise ValueError("an initializer is nested too deeply") from None
    kind = parameters.pop("kind", None)
    if not isinstance(kind, str):
        raise ValueError(f"an initializer needs a kind, one of {', '.join(_KINDS)}; got {kind!r}")
    cls = _KINDS[as_choice(kind, _KINDS, "kind of initializer")]
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    if parameters.keys() != set(names):
        raise ValueError(f"{kind!r} takes {names}, got {list(parameters)}")
    try:
        return cls(**parameters)
    except TypeError as error:
        raise ValueError(f"{kind!r}: {error}") from error


# ---- weights of one distribution, whatever the shape -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant(Initializer):  # noqa: PLW1641  # dataclass makes the hash
    """The same value everywhere."""

    value: float

    __eq__ = distributions.same_bits
    kind: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        self._set(value=as_finite(self.value, "value"))

    def _content(self, _axes: Axes) -> Content:
        return distributions.Constant(self.value)


@dataclass(frozen=True, slots=True)
class Zeros(Initializer):
    """0 everywhere."""

    kind: ClassVar[str] = "zeros"

    def _content(self, _axes: Axes) -> Content:
        return distributions.Constant(0.0)


@dataclass(frozen=True, slots=True)
class Ones(Initializer):
    """1 everywhere."""

    kind: ClassVar[str] = "ones"

    def _content(self, _axes: Axes) -> Content:
        return distributions.Constant(1.0)


@dataclass(frozen=True, slots=True)
class Uniform(Initializer):
    """Uniform on [low, high)."""

    low: float = 0.0
    high: float = 1.0

    kind: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        low, high = as_finite(self.low, "low"), as_finite(self.high, "high")
        if not low < high:
            raise DistributionError(f"uniform needs low < high, got low={low} and high={high}")
        self._set(low=low, high=high)

    def _content(self, _axes: Axes) -> Content:
        return distributions.Uniform(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Normal(Initializer):
    """Normal with `mean` and standard deviation `std`; a std of 0 gives the mean."""

    mean: float = 0.0
    std: float = 1.0

    kind: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        self._set(mean=as_finite(self.mean, "mean"), std=as_spread(self.std, "std"))

    def _content(self, _axes: Axes) -> Content:
        return distributions.Normal(self.mean, self.std)


@dataclass(frozen=True, slots=True)
class TruncatedNormal(Initializer):
    """``mean + std * z``, z standard normal inside [lower, upper]: bounds in standard deviations, None for none.

    `mean` and `std` are those of the normal before it is truncated.
    """

    mean: float = 0.0
    std: float = 1.0
    lower: float = -2.0
    upper: float = 2.0

    kind: ClassVar[str] = "truncated_normal"

    def __post_init__(self) -> None:
        lower = -math.inf if self.lower is None else as_number(self.lower, "lower")
        upper = math.inf if self.upper is None else as_number(self.upper, "upper")
        if not lower < upper:
            raise DistributionError(
                "truncated_normal needs lower < upper, in standard deviations; "
                f"got lower={lower} and upper={upper}"
            )
        self._set(mean=as_finite(self.mean, "mean"), std=as_spread(self.std, "std"), lower=lower, upper=upper)

    def _content(self, _axes: Axes) -> Content:
        return distributions.TruncatedNormal(self.mean, self.std, self.lower, self.upper)


@dataclass(frozen=True, slots=True)
class PositionIds(Initializer):
    """0, 1, ..., n - 1 along the last axis."""

    kind: ClassVar[str] = "positions"

    def _content(self, axes: Axes) -> Content:
        if not axes.shape:
            raise ValueError("positions count along the last axis, and a 0-d tensor has none")
        length = axes.shape[-1]
        return Positions(length) if length else distributions.Constant(0.0)


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
        as_choice(self.distribution, SHAPES, "distribution")
        self._set(scale=as_spread(self.scale, "scale"))

    @property
    def scheme(self) -> str:
        """The famous name where it has one."""
        famous = {(1.0, "fan_avg"): "xavier", (2.0, "fan_in"): "kaiming", (1.0, "fan_in"): "lecun"}
        return f"{famous.get((self.scale, self.mode), self.kind)}_{self.distribution}"

    def _content(self, axes: Axes) -> Content:
        return self.scaled(axes, 1.0)

    def scaled(self, axes: Axes, gain: float) -> Content:
        """Return the content whose finished standard deviation or limit is multiplied by `gain`."""
        pair = axes.checked_fans
        if pair is None:
            return distributions.Constant(0.0)
        fan_in, fan_out = pair
        if self.mode == "fan_avg":
            fan, kind = fan_in + fan_out, _core.FAN_SUM
        elif self.mode == "fan_geo_avg":
            fan, kind = fan_in * fan_out, _core.FAN_PRODUCT
        else:
            fan, kind = fan_in if self.mode == "fan_in" else fan_out, _core.FAN
        _, std, limit, parent_std = _core.scale(self.scale, float(fan), kind, gain)
        if self.distribution == "uniform":
            return CenteredUniform(limit)
        if self.distribution == "normal":
            return distributions.Normal(0.0, std)
        return distributions.TruncatedNormal(0.0, parent_std, -2.0, 2.0)


def xavier(distribution: str = "uniform") -> VarianceScaling:
    """Return Glorot and Bengio's (2010) scheme: variance ``2 / (fan_in + fan_out)``."""
    return VarianceScaling(1.0, "fan_avg", distribution)


def kaiming(
    distribution: str = "uniform", nonlinearity: str = "relu", a: float | None = None, mode: str = "fan_in"
) -> VarianceScaling:
    """Return He et al.'s (2015) scheme: variance ``gain**2 / fan``; `a` is the parameter of the gain.

    A slope of 0 is relu: ``a=0`` may be said with it, as in torch.
    """
    if nonlinearity == "relu" and a is not None and as_finite(a, "a") == 0:
        a = None
    return VarianceScaling(squared_gain(nonlinearity, a, "a"), mode, distribution)


def lecun(distribution: str = "uniform") -> VarianceScaling:
    """Return LeCun et al.'s (1998) scheme: variance ``1 / fan_in``."""
    return VarianceScaling(1.0, "fan_in", distribution)


glorot = xavier
he = kaiming

# ---- constructions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity(Initializer):
    """`gain` on the diagonal of a matrix, or of every matrix of a stack; zero elsewhere."""

    gain: float = 1.0

    kind: ClassVar[str] = "identity"

    def __post_init__(self) -> None:
        self._set(gain=as_spread(self.gain, "gain"))

    def _content(self, axes: Axes) -> Content:
        if set(axes.letters.lower()) & set(SPATIAL):
            raise ValueError(f"identity fills matrices, not layout {axes.layout!r}; for a convolution use dirac")
        return constructions.Diagonal(self.gain, axes.layout, axes.groups)


@dataclass(frozen=True, slots=True)
class Dirac(Initializer):
    """The kernel that hands every input on to the output of its number, in each of `groups` groups.

    The tap is the middle of the receptive field, n // 2 of an axis of length n, as in torch.
    """

    groups: SupportsIndex = 1

    kind: ClassVar[str] = "dirac"

    def __post_init__(self) -> None:
        self._set(groups=as_u64(self.groups, "groups"))

    def _content(self, axes: Axes) -> Content:
        content = constructions.Diagonal(1.0, axes.layout, as_u64(self.groups, "groups"))
        content.check(axes.shape)
        return content


@dataclass(frozen=True, slots=True)
class Orthogonal(Initializer):
    """`gain` times a uniformly (Haar) distributed orthonormal matrix: outputs against everything else.

    The smaller side is orthonormal. Every group of a grouped convolution and every matrix of a stack is one.

    References
    ----------
    Saxe, McClelland and Ganguli (2014), "Exact solutions to the nonlinear dynamics of learning in deep linear
    neural networks".
    """

    gain: float = 1.0

    kind: ClassVar[str] = "orthogonal"

    def __post_init__(self) -> None:
        self._set(gain=as_spread(self.gain, "gain"))

    def _content(self, axes: Axes) -> Content:
        content = constructions.Orthogonal(self.gain, axes.layout, axes.groups)
        content.check(axes.shape)
        return content


@dataclass(frozen=True, slots=True)
class DeltaOrthogonal(Initializer):
    """`gain` times an orthonormal matrix at the middle of the receptive field; no more inputs than outputs.

    The tap is (n - 1) // 2 of an axis of length n, as in JAX.

    References
    ----------
    Xiao et al. (2018), "Dynamical isometry and a mean field theory of CNNs".
    """

    gain: float = 1.0

    kind: ClassVar[str] = "delta_orthogonal"

    def __post_init__(self) -> None:
        self._set(gain=as_spread(self.gain, "gain"))

    def _content(self, axes: Axes) -> Content:
        content = constructions.DeltaOrthogonal(self.gain, axes.layout, axes.groups)
        content.check(axes.shape)
        return content


@dataclass(frozen=True, slots=True)
class Sparse(Initializer):
    """Normal weights of which ``ceil(fraction * rows)`` are zero in every column of the stored matrix.

    In the layout ``"io"`` a column is what one unit receives, as in the source.

    References
    ----------
    Martens (2010), "Deep learning via Hessian-free optimization", section 5.
    """

    fraction: float
    std: float = 0.01

    kind: ClassVar[str] = "sparse"

    def __post_init__(self) -> None:
        checked = constructions.Sparse(self.fraction, self.std)
        self._set(fraction=checked.fraction, std=checked.std)

    def _content(self, axes: Axes) -> Content:
        content = constructions.Sparse(self.fraction, self.std)
        content.check(axes.shape)
        return content


# ---- the weights of another initializer, scaled ------------------------------------------------------


def _check_base(base: object) -> None:
    if not isinstance(base, Initializer) or isinstance(base, PositionIds):
        raise TypeError(f"base must be an initializer of weights, got {base!r}")


@dataclass(frozen=True, slots=True)
class _Changed(Initializer):
    """The weights of `base` times a factor."""

    base: Initializer

    def __post_init__(self) -> None:
        _check_base(self.base)

    @property
    def scheme(self) -> str:
        """The name of the base inside that of the change."""
        return f"{self.kind}({self.base.scheme})"


@dataclass(frozen=True, slots=True)
class Scaled(_Changed):
    """Every weight of `base` times `factor`; finite and >= 0."""

    factor: float

    kind: ClassVar[str] = "scaled"

    def __post_init__(self) -> None:
        _Changed.__post_init__(self)
        self._set(factor=as_spread(self.factor, "factor"))

    def _content(self, axes: Axes) -> Content:
        return rescaled(self.base._content(axes), self.factor)


@dataclass(frozen=True, slots=True)
class Residual(_Changed):
    """Every weight of `base` divided by ``sqrt(2 * layers)``: its spread, and with it a mean or a constant.

    For the projections that write to the residual stream of a transformer of `layers` layers, each of which writes
    twice (attention and feed-forward).

    References
    ----------
    Radford et al. (2019), "Language models are unsupervised multitask learners" (GPT-2), section 2.3.

    Examples
    --------
    >>> from fastinit import initializers
    >>> initializers.Residual(initializers.Normal(std=0.02), layers=12).content((768, 768)).std
    0.004082482904638631
    """

    layers: int

    kind: ClassVar[str] = "residual"

    def __post_init__(self) -> None:
        _Changed.__post_init__(self)
        layers = as_u64(self.layers, "layers")
        if layers == 0:
            raise ValueError("layers must be at least 1: it counts the layers that write to the residual stream")
        self._set(layers=layers)

    def _content(self, axes: Axes) -> Content:
        return rescaled(self.base._content(axes), 1.0, float(2 * self.layers))


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

    def _content(self, axes: Axes) -> Content:
        return rescaled(self.base._content(axes), 1.0, float(2 * (self.layer + 1)))


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
    def scheme(self) -> str:
        """The name of the base inside that of the change."""
        return f"{self.kind}({self.base.scheme})"

    def _content(self, axes: Axes) -> Content:
        shape, base_shape = axes.shape, self.base_shape
        if len(shape) != len(base_shape):
            raise ValueError(f"shape {shape} and base_shape {base_shape} differ in their number of axes")
        if 0 in shape:
            return distributions.Constant(0.0)
        at_base = dataclasses.replace(axes, shape=base_shape, groups=self._base_groups(axes))
        content = self.base._content(at_base)
        if isinstance(content, Construction):
            raise DistributionError(f"mup scales the standard deviation of a distribution, not {self.base.scheme}")
        if len(shape) < 2:
            return content
        lengths = {
            letter.lower(): (length, base)
            for letter, length, base in zip(axes.letters, axes.shape, self.base_shape, strict=True)
        }
        wide = {letter for letter, (length, base) in lengths.items() if length != base}
        if wide - set("io"):
            raise ValueError(
                f"only inputs and outputs have a width, but shape {axes.shape} differs from base_shape "
                f"{self.base_shape} in {', '.join(sorted(wide - set('io')))} (layout {axes.layout!r})"
            )
        return rescaled(content, 1.0, *map(float, lengths["i"])) if len(wide) == 2 else content

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


_KINDS: dict[str, type[Initializer]] = {
    cls.kind: cls
    for cls in (
        Constant,
        Zeros,
        Ones,
        Uniform,
        Normal,
        TruncatedNormal,
        PositionIds,
        VarianceScaling,
        Identity,
        Dirac,
        Orthogonal,
        DeltaOrthogonal,
        Sparse,
        Scaled,
        Residual,
        DepthScaled,
        MuP,
    )
}

XAVIER_UNIFORM = xavier("uniform")
ZEROS = Zeros()
ONES = Ones()
POSITIONS = PositionIds()

_FAMOUS = {"xavier": xavier, "glorot": glorot, "kaiming": kaiming, "he": he, "lecun": lecun}
NAMED: dict[str, Initializer] = {
    "zeros": ZEROS,
    "ones": ONES,
    "uniform": Uniform(),
    "normal": Normal(),
    "truncated_normal": TruncatedNormal(),
    "identity": Identity(),
    "orthogonal": Orthogonal(),
    **{f"{family}_{shape}": made(shape) for family, made in _FAMOUS.items() for shape in SHAPES},
}
"""What fills a matrix with no further parameter, by the name of the function that does it."""


def parse(text: str) -> Initializer:
    """Return the initializer that a name of `NAMED`, or a JSON object as text, stands for.

    Examples
    --------
    >>> from fastinit import initializers
    >>> initializers.parse("he_normal") == initializers.kaiming("normal")
    True
    >>> initializers.parse('{"kind": "normal", "mean": 0, "std": 0.01}').std
    0.01
    """
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return NAMED[as_choice(text, NAMED, "initializer")]
    try:
        return from_json(parse_object(text, "initializer"))
    except CheckpointError as error:
        raise ValueError(str(error)) from error


# ---- which one ---------------------------------------------------------------------------------------


_THROUGH_50 = {
    "sigmoid": (0.51, 4.2e-32),
    "tanh": (0.1, 0.12),
    "gelu": (1.5e-6, 4.3e-6),
    "silu": (9.7e-8, 1.4e-7),
    "swish": (9.7e-8, 1.4e-7),
    "selu": (1.0, 6.0),
    "elu": (0.78, 2.1),
    "softplus": (0.93, 3.4e-13),
}
"""activation -> rms of signal and gradient after 50 layers, over the start's, where one leaves 0.5 to 2: what
`fastinit.diagnostics.propagation.propagate` measures of the recommendation, by its defaults."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """An initializer, and why."""

    initializer: Initializer
    reason: str


def recommend(activation: str, residual_layers: SupportsIndex | None = None) -> Recommendation:
    """Recommend an initializer for the weights in front of an activation.

    Parameters
    ----------
    activation : str
        A nonlinearity that `gain` knows.
    residual_layers : int, optional
        The number of layers N of a residual network, for the projections that write to its residual stream.

    Returns
    -------
    Recommendation
        The initializer and the reason, in words.

    Examples
    --------
    >>> import fastinit
    >>> advice = fastinit.recommend("gelu", residual_layers=12)
    >>> advice.initializer.scheme
    'residual(kaiming_normal)'
    >>> print(advice.reason)
    gelu passes about half of its inputs, and less of them than relu: Kaiming, variance 2 / fan_in, as for relu; \
measured, 50 layers of 512 units multiply the signal by 1.5e-06 and the gradient by 4.3e-06; each of 12 layers \
adds to the residual stream twice: dividing by sqrt(2 * 12) bounds the growth of its second moment by about e, \
whatever the depth
    """
    scale = squared_gain(activation)
    initializer: Initializer
    if activation == "selu":
        initializer = lecun("normal")
        reason = (
            "selu keeps mean 0 and variance 1 by itself with LeCun, variance 1 / fan_in (Klambauer et al., 2017)"
        )
    elif activation in ("elu", "softplus"):
        initializer = kaiming("normal", activation)
        reason = (
            f"a signal through {activation} keeps its second moment with variance {scale:.4g} / fan_in, by He et "
            "al.'s (2015) equation 10"
        )
    elif scale in (1.0, squared_gain("tanh")):
        initializer = xavier("uniform")
        shape = {"sigmoid": "has slope 1/4 at 0", "tanh": "has slope 1 at 0"}.get(activation, "is linear")
        reason = (
            f"{activation} {shape}: Xavier, variance 2 / (fan_in + fan_out), lies between what keeps signals and "
            "what keeps gradients at one scale through a linear layer (Glorot and Bengio, 2010)"
        )
    else:
        initializer = kaiming("normal", activation)
        halves = {"relu": "zeroes", "leaky_relu": "shrinks"}.get(activation)
        reason = (
            f"{activation} {halves} half of its inputs: Kaiming, variance {scale:.4g} / fan_in, makes up for it"
            if halves
            else f"{activation} passes about half of its inputs, and less of them than relu: Kaiming, variance "
            f"{scale:.4g} / fan_in, as for relu"
        )
    if activation in _THROUGH_50:
        signal, gradient = _THROUGH_50[activation]
        reason += (
            f"; measured, 50 layers of 512 units multiply the signal by {signal:.2g} and the gradient by "
            f"{gradient:.2g}"
        )
    if residual_layers is None:
        return Recommendation(initializer, reason)
    residual = Residual(initializer, as_u64(residual_layers, "residual_layers"))
    return Recommendation(
        residual,
        f"{reason}; each of {residual.layers} layers adds to the residual stream twice: dividing by "
        f"sqrt(2 * {residual.layers}) bounds the growth of its second moment by about e, whatever the depth",
    )
