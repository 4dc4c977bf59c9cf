"""The famous names as functions: ``xavier_uniform(shape, rng, ...)`` and its like, one line each.

A function makes an initializer of its own arguments and calls it with the others; `initialize` takes any
initializer. An argument has one meaning, which ``_help.py`` says once for all of them; the stub ``functions.pyi``
tells editors and type checkers the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from . import _core
from ._engine.checks import as_source
from ._engine.initializer import Initializer
from ._engine.parts import Array
from ._engine.targets import whole_shape
from ._files.json_text import parse_object
from ._help import documented, refuse_unbound
from .errors import CheckpointError
from .initializer_text import made, parse_call, written
from .initializers import (
    ONES,
    ZEROS,
    Constant,
    DeltaOrthogonal,
    Dirac,
    Identity,
    Normal,
    Orthogonal,
    Sparse,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
    kaiming,
    lecun,
    xavier,
)


def as_initializer(initializer: Initializer | str) -> Initializer:
    """Return an initializer, or the one that a function's name, a call of it or a JSON object as text stands for.

    Examples
    --------
    >>> from fastinit.functions import as_initializer
    >>> from fastinit.initializers import kaiming
    >>> as_initializer("he_normal") == as_initializer("kaiming_normal()") == kaiming("normal")
    True
    >>> as_initializer('{"kind": "normal", "mean": 0, "std": 0.01}').std
    0.01
    """
    if isinstance(initializer, Initializer):
        return initializer
    if not isinstance(initializer, str):
        raise TypeError(
            f"initializer must be one of fastinit.initializers, a name, a call or JSON text, got {initializer!r}"
        )
    if not initializer.lstrip().startswith("{"):
        return made(parse_call(initializer), _makers())
    try:
        return Initializer.from_json(parse_object(initializer, "initializer"))
    except CheckpointError as error:
        raise ValueError(str(error)) from error


def as_text(initializer: Initializer) -> str:
    """Return the text that `as_initializer` reads as this initializer; ``--initializer`` takes it too."""
    return written(initializer, _makers())


def _makers() -> dict[str, Callable[..., Initializer]]:
    """Return what makes the initializer of each function here."""
    makers = {name: value.make for name, value in globals().items() if hasattr(value, "make")}
    return {name: make for name, make in makers.items() if make is not as_initializer}


def _needs(make: Callable[..., Initializer]) -> bool:
    return any(parameter.default is parameter.empty for parameter in inspect.signature(make).parameters.values())


def _function(
    name: str,
    make: Callable[..., Initializer],
    own: str = "",
    *,
    drawn: bool = True,
    scaled: bool = True,
    fans: bool = False,
    about: str,
) -> Callable[..., Array]:
    """Return the function `name`: `make` takes the arguments named in `own`, and its initializer the others.

    `drawn`: whether it takes a generator; `scaled`: a gain; `fans`: fan_in and fan_out.
    """
    signature = _signature(make, own.split(), drawn, scaled, fans)
    known, mine = frozenset(signature.parameters), frozenset(own.split())
    plain = None if _needs(make) else make().__call__  # bound here: to call the object takes a detour in Python
    leading = 1 + drawn
    quick = _core.Quick(make, tuple(own.split()), leading)
    undrawn: dict[str, Any] = {} if drawn else {"rng": 0}
    most = leading + len(mine)

    def function(*given: Any, **options: Any) -> Array:
        filled: Array | None = _core.fill_quickly(quick, given, options)
        if filled is not None:
            return filled
        if not known.issuperset(options) or len(given) > most:
            refuse_unbound(name, signature, given, options)
        try:
            if plain is not None and len(given) <= leading and mine.isdisjoint(options):
                return plain(*given, **undrawn, **options)  # type: ignore[misc]  # either dict may be empty
            where = {**undrawn, **options}
            made = {argument: where.pop(argument) for argument in mine.intersection(where)}
            try:
                initializer = make(*given[leading:], **made)
            except (TypeError, ValueError):  # the order of checks: generator and shape first
                as_source(given[1] if drawn and len(given) > 1 else where["rng"])
                whole_shape(given[0] if given else where["shape"], where.get("out"), where.get("index"))
                raise
            return initializer(*given[:leading], **where)
        except (TypeError, KeyError):  # a KeyError where there is no shape or no rng
            refuse_unbound(name, signature, given, options)
            raise

    function.__name__ = function.__qualname__ = name
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__doc__ = documented(about, signature)
    function.__annotations__ = {}
    function.make = make  # type: ignore[attr-defined]
    return function


def _signature(
    make: Callable[..., Initializer], own: list[str], drawn: bool, scaled: bool, fans: bool
) -> inspect.Signature:
    def option(name: str, default: object = None) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)

    made = inspect.signature(make).parameters
    leading = ["shape", "rng"] if drawn else ["shape"]
    groups = [] if "groups" in own else [option("groups", 1)]
    return inspect.Signature(
        [
            *(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in leading),
            *(made[name].replace(annotation=inspect.Parameter.empty) for name in own),
            *([option("gain", 1.0)] if scaled else []),
            *map(option, ("dtype", "out", "index")),
            option("layout", "io"),
            *groups,
            *(map(option, ("fan_in", "fan_out")) if fans else ()),
            option("threads"),
        ]
    )


def _variance_scaling(
    scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal"
) -> VarianceScaling:
    return VarianceScaling(scale, mode, distribution)


# fmt: off

# ---- one value, and ones along a diagonal ------------------------------------------------------------
constant = _function("constant", Constant, "value", drawn=False, scaled=False, about="""
    Fill with one value, rounded to the dtype; takes no draws and no generator.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.constant((2, 2), 0.1, dtype="float32").dtype
    dtype('float32')
    """)
zeros = _function("zeros", lambda: ZEROS, drawn=False, scaled=False, about="""
    Fill with 0; takes no draws and no generator.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.zeros(3).tolist()
    [0.0, 0.0, 0.0]
    """)
ones = _function("ones", lambda: ONES, drawn=False, scaled=False, about="""
    Fill with 1; takes no draws and no generator.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.ones(3).tolist()
    [1.0, 1.0, 1.0]
    """)
identity = _function("identity", Identity, drawn=False, about="""
    Fill a matrix, or every matrix of a stack, with the identity times `gain`; takes no draws.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.identity((2, 3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """)
dirac = _function("dirac", Dirac, "groups", drawn=False, scaled=False, about="""
    Fill a convolution kernel so that it hands its inputs on unchanged; takes no draws.

    The identity is repeated in each of `groups` groups of outputs. The tap is the middle of the receptive field,
    ``n // 2`` of an axis of length n.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.dirac((2, 2, 3), layout="oiw").tolist()
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    """)

# ---- weights of one distribution, whatever the shape -------------------------------------------------
random = _function("random", lambda: Uniform(0.0, 1.0), about="""
    Draw numbers uniformly on [0, 1): the top 53 bits of a draw, times 2**-53.

    *Interval.* In narrow dtypes too, every number is below 1.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.random(2, 1234567).round(6).tolist()
    [0.35008, 0.173644]
    """)
def _default_rng(*seed: Any) -> Any:
    from ._engine.generator import default_rng  # noqa: PLC0415  # numpy.random is slow to import

    return default_rng(*seed)
random.default_rng = _default_rng  # type: ignore[attr-defined]  # dask asks the library of a bit generator for it
uniform = _function("uniform", Uniform, "low high", about="""
    Draw weights uniformly on [low, high): ``low + (high - low) * u``.

    *Interval.* ``low <= w < high`` holds in every dtype, also where `high` is rounded to it first. With
    ``high = low + 1 ulp`` every weight is `low`.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.uniform(3, 17, -1.0, 1.0).round(6).tolist()
    [0.004042, -0.217133, -0.34334]
    """)
normal = _function("normal", Normal, "mean std", about="""
    Draw normal weights: ``mean + std * z``, one draw each.

    *Interval.* z is the quantile of the weight's own draw, so ``|z| <= 8.2924``, and weights of one stream sort as
    its uniform weights do.

    Examples
    --------
    >>> import fastinit
    >>> weights = fastinit.normal((784, 10), 17, std=0.02)
    >>> bool(abs(weights.std() - 0.02) < 0.001)
    True
    """)
truncated_normal = _function("truncated_normal", TruncatedNormal, "mean std lower upper", about="""
    Draw normal weights inside ``[mean + lower * std, mean + upper * std]``, one draw each and none rejected.

    *Interval.* Both bounds are inclusive, and hold after rounding to the dtype. torch's ``trunc_normal_`` takes
    its bounds in weight units instead: its ``a=-2, b=2`` with std 0.02 lie 100 standard deviations away.

    Examples
    --------
    >>> import fastinit
    >>> weights = fastinit.truncated_normal((64, 64), 17, std=0.02)
    >>> bool(abs(weights).max() <= 0.04)
    True
    """)

# ---- weights scaled by their fans --------------------------------------------------------------------
variance_scaling = _function("variance_scaling", _variance_scaling, "scale mode distribution", fans=True, about="""
    Draw zero-centered weights of variance ``scale / fan``.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.variance_scaling((2, 2), 17, 1.0, "fan_avg", "uniform").round(6).tolist()
    [[0.004951, -0.265932], [-0.420504, -0.676313]]
    """)
xavier_uniform = _function("xavier_uniform", partial(xavier, "uniform"), fans=True, about="""
    Draw Xavier (Glorot) uniform weights, on [-limit, limit) with ``limit = sqrt(6 / (fan_in + fan_out))``.

    *Interval.* ``-limit <= w < limit`` holds after rounding too.

    References
    ----------
    Glorot and Bengio (2010), "Understanding the difficulty of training deep feedforward neural networks",
    eq. 16.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.xavier_uniform((2, 2), 17).round(12).tolist()
    [[0.004950883736, -0.265932089217], [-0.420504358848, -0.676313443233]]
    >>> whole = fastinit.xavier_uniform((4, 6), 17)
    >>> part = fastinit.xavier_uniform((4, 6), 17, index=(slice(None), slice(3, 6)))
    >>> bool((part == whole[:, 3:6]).all())
    True
    """)
xavier_normal = _function("xavier_normal", partial(xavier, "normal"), fans=True, about="""
    Draw Xavier (Glorot) normal weights of standard deviation ``sqrt(2 / (fan_in + fan_out))``.

    References
    ----------
    Glorot and Bengio (2010), "Understanding the difficulty of training deep feedforward neural networks",
    eq. 16.

    Examples
    --------
    >>> import fastinit
    >>> weights = fastinit.xavier_normal((784, 10), 17)
    >>> bool(abs(weights.std() - 0.0502) < 0.002)
    True
    """)
xavier_truncated_normal = _function(
    "xavier_truncated_normal", partial(xavier, "truncated_normal"), fans=True, about="""
    Draw Xavier (Glorot) truncated normal weights, of variance ``2 / (fan_in + fan_out)`` after truncation.

    *Interval.* The normal is truncated at two of its standard deviations, and made wider by 1 / 0.8796 so that the
    variance *after* truncation is the promised one.

    References
    ----------
    Glorot and Bengio (2010), "Understanding the difficulty of training deep feedforward neural networks",
    eq. 16.
    """)
kaiming_uniform = _function(
    "kaiming_uniform", partial(kaiming, "uniform"), "activation a mode", fans=True, about="""
    Draw Kaiming (He) uniform weights, on [-limit, limit) with ``limit = sqrt(3 * squared_gain / fan)``.

    References
    ----------
    He, Zhang, Ren and Sun (2015), "Delving deep into rectifiers: surpassing human-level performance on ImageNet
    classification", eq. 10, 14 and 15.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.kaiming_uniform((2, 2), 17).round(12).tolist()
    [[0.007001606926, -0.376084767241], [-0.59468296732, -0.956451643835]]
    """)
kaiming_normal = _function("kaiming_normal", partial(kaiming, "normal"), "activation a mode", fans=True, about="""
    Draw Kaiming (He) normal weights of standard deviation ``sqrt(squared_gain / fan)``.

    References
    ----------
    He, Zhang, Ren and Sun (2015), "Delving deep into rectifiers: surpassing human-level performance on ImageNet
    classification", eq. 10, 14 and 15.

    Examples
    --------
    >>> import fastinit
    >>> weights = fastinit.kaiming_normal((784, 10), 17)
    >>> bool(abs(weights.std() - 0.0505) < 0.002)
    True
    """)
kaiming_truncated_normal = _function(
    "kaiming_truncated_normal", partial(kaiming, "truncated_normal"), "activation a mode", fans=True, about="""
    Draw Kaiming (He) truncated normal weights, of variance ``squared_gain / fan`` after truncation.

    *Interval.* The normal is truncated at two of its standard deviations, and made wider by 1 / 0.8796 so that the
    variance *after* truncation is the promised one.

    References
    ----------
    He, Zhang, Ren and Sun (2015), "Delving deep into rectifiers: surpassing human-level performance on ImageNet
    classification", eq. 10, 14 and 15.
    """)
lecun_uniform = _function("lecun_uniform", partial(lecun, "uniform"), fans=True, about="""
    Draw LeCun uniform weights, on [-limit, limit) with ``limit = sqrt(3 / fan_in)``.

    References
    ----------
    LeCun, Bottou, Orr and Müller (1998), "Efficient BackProp", eq. 16.

    Examples
    --------
    >>> import fastinit
    >>> bool(abs(fastinit.lecun_uniform((300, 5), 17)).max() < 0.1)
    True
    """)
lecun_normal = _function("lecun_normal", partial(lecun, "normal"), fans=True, about="""
    Draw LeCun normal weights of standard deviation ``sqrt(1 / fan_in)``.

    References
    ----------
    LeCun, Bottou, Orr and Müller (1998), "Efficient BackProp", eq. 16.
    """)
lecun_truncated_normal = _function(
    "lecun_truncated_normal", partial(lecun, "truncated_normal"), fans=True, about="""
    Draw LeCun truncated normal weights, of variance ``1 / fan_in`` after truncation.

    *Interval.* The normal is truncated at two of its standard deviations, and made wider by 1 / 0.8796 so that the
    variance *after* truncation is the promised one.

    References
    ----------
    LeCun, Bottou, Orr and Müller (1998), "Efficient BackProp", eq. 16.
    """)
glorot_uniform = xavier_uniform
glorot_normal = xavier_normal
glorot_truncated_normal = xavier_truncated_normal
he_uniform = kaiming_uniform
he_normal = kaiming_normal
he_truncated_normal = kaiming_truncated_normal

# ---- fills that need the whole tensor ----------------------------------------------------------------
orthogonal = _function("orthogonal", Orthogonal, about="""
    Draw a random orthonormal matrix, uniformly (Haar) distributed, times `gain`.

    The outputs stand against everything else: the smaller side is orthonormal. Every matrix of a stack, and every
    group of a grouped convolution, is one. This is Q of a QR decomposition of the stream's normals, its columns
    times the signs of R's diagonal. LAPACK decides its last bits: it is the one fill that is not bit-exact across
    machines, but equal to 1e-12 / min(1, smallest abs(R[j, j])). The part asked for is cut from the whole.

    References
    ----------
    Saxe, McClelland and Ganguli (2014), "Exact solutions to the nonlinear dynamics of learning in deep linear
    neural networks".

    Examples
    --------
    >>> import fastinit
    >>> import numpy as np
    >>> weights = fastinit.orthogonal((3, 4, 5, 6), 17, layout="oihw").reshape(3, 120)
    >>> np.allclose(weights @ weights.T, np.eye(3))
    True
    """)
delta_orthogonal = _function("delta_orthogonal", DeltaOrthogonal, about="""
    Draw a convolution kernel that is orthonormal at the middle of its receptive field and zero elsewhere.

    It needs no more inputs than outputs. The tap is ``(n - 1) // 2`` of an axis of length n. LAPACK decides the
    last bits, as in `orthogonal`.

    References
    ----------
    Xiao et al. (2018), "Dynamical isometry and a mean field theory of CNNs: how to train 10,000-layer vanilla
    convolutional neural networks".

    Examples
    --------
    >>> import fastinit
    >>> import numpy as np
    >>> weights = fastinit.delta_orthogonal((3, 3, 4, 8), 17, layout="hwio")
    >>> np.allclose(weights[1, 1] @ weights[1, 1].T, np.eye(4)), int(np.count_nonzero(weights))
    (True, 32)
    """)
sparse = _function("sparse", Sparse, "fraction std", about="""
    Draw a normal matrix of which a fraction of every column is zero.

    A column is one of the stored matrix: with inputs as rows it holds what one unit receives. Every element takes
    a draw, zero or not; another hash of the draws decides which are zero, so the others are unbiased.

    References
    ----------
    Martens (2010), "Deep learning via Hessian-free optimization", section 5.

    Examples
    --------
    >>> import fastinit
    >>> (fastinit.sparse((5, 7), 17, 0.25) == 0).sum(axis=0).tolist()
    [2, 2, 2, 2, 2, 2, 2]
    """)

# ---- any of them -------------------------------------------------------------------------------------
initialize = _function("initialize", as_initializer, "initializer", fans=True, about="""
    Fill with any initializer.

    Constants, the identity and dirac take no draws.

    Examples
    --------
    >>> import fastinit
    >>> from fastinit.initializers import Residual, xavier
    >>> fastinit.initialize((2, 2), 17, Residual(xavier(), residual_layers=2)).round(12).tolist()
    [[0.002475441868, -0.132966044609], [-0.210252179424, -0.338156721616]]
    >>> fastinit.initialize((2, 2), 17, "he_uniform").round(12).tolist()
    [[0.007001606926, -0.376084767241], [-0.59468296732, -0.956451643835]]
    """)
# fmt: on
