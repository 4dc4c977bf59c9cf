"""torch.nn.init's functions: its names, signatures, defaults and shape rules, with the weights of fastinit.

A function makes an initializer and fills the tensor with it; what draws nothing is torch's own. Values are those
of the numpy function of the same name in torch's layout (``"oi"``, ``"oihw"``, ...) at the same state.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, cast

import torch
from torch.nn.init import _calculate_fan_in_and_fan_out, calculate_gain, dirac_, eye_, ones_, zeros_
from torch.overrides import handle_torch_function, has_torch_function_unary

from .._engine.axes import SPATIAL
from .._engine.checks import as_choice, as_finite, as_number
from .._engine.narrow import rounded
from .._engine.truncation import standard_bounds
from ..errors import DistributionError
from ..initializers import (
    Constant,
    Distribution,
    Initializer,
    Normal,
    Orthogonal,
    Sparse,
    TruncatedNormal,
    Uniform,
    kaiming,
    xavier,
)
from .generators import Generator, as_stream
from .targets import has_no_values, stored_dtype, writing

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

P = ParamSpec("P")


def _overridable(function: Callable[P, torch.Tensor]) -> Callable[P, torch.Tensor]:
    """Give a tensor's class, or a mode of torch, the call first: what ``__torch_function__`` is for.

    A compiler runs the function as it stands: it would take numpy for torch.
    """

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> torch.Tensor:
        if torch.compiler.is_compiling():
            run: Any = torch.compiler.disable  # torch does not say what it returns
            return cast(torch.Tensor, run(function)(*arguments, **options))
        tensor = arguments[0] if arguments else options.get("tensor")
        if has_torch_function_unary(tensor):
            answer: torch.Tensor = handle_torch_function(call, (tensor,), *arguments, **options)
            return answer
        if arguments or options:  # else Python says what is missing
            _check(tensor)
        return function(*arguments, **options)

    return call


def _check(tensor: object) -> None:
    """Refuse what is no tensor, and warn of one that is no parameter but computed from some."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(
            f"tensor must be a torch.Tensor, got {type(tensor).__name__}; the functions of fastinit itself fill "
            "numpy arrays"
        )
    if tensor.grad_fn is not None and not tensor._is_view():  # torch fills it in silence, to no effect on a model
        warnings.warn(
            f"this tensor is computed from others ({type(tensor.grad_fn).__name__}), and they stay as they are; "
            "a parametrized weight is assigned: layer.weight = normal_(torch.empty_like(layer.weight))",
            stacklevel=3,
        )


def _filled(tensor: torch.Tensor, initializer: Initializer, generator: Generator, **options: Any) -> torch.Tensor:
    """Fill the tensor in place and return it; without a draw or a word where torch has nothing to fill either."""
    stream = as_stream(generator)
    if has_no_values(tensor) or not tensor.numel():
        return tensor
    with torch.no_grad(), writing(tensor) as (array, dtype):
        initializer(array.shape, stream, out=array, dtype=dtype, **options)
    return tensor


def _scaled(
    tensor: torch.Tensor, initializer: Initializer, generator: Generator, gain: float = 1.0
) -> torch.Tensor:
    """Fill by the fans that torch counts: of every tensor axis 0 holds the outputs, axis 1 the inputs."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return _filled(tensor, initializer, generator, gain=gain, fan_in=fan_in, fan_out=fan_out)


# ---- what draws nothing: zeros_, ones_, eye_ and dirac_ are torch's own, exact for every tensor ---------


@_overridable
def constant_(tensor: torch.Tensor, val: float) -> torch.Tensor:
    """Fill the tensor with `val`, rounded once to its dtype; torch rounds to float32 in between."""
    dtype = stored_dtype(tensor)
    if dtype is not None and math.isfinite(float(val)):
        Constant(float(val)).prepare(dtype)  # beyond the dtype's range it is refused
        val = rounded(float(val), dtype)
    return torch.nn.init.constant_(tensor, val)


# ---- weights of one distribution ---------------------------------------------------------------------


@_overridable
def uniform_(tensor: torch.Tensor, a: float = 0.0, b: float = 1.0, generator: Generator = None) -> torch.Tensor:
    """Fill the tensor with weights drawn uniformly from [a, b); with `a` where the two are equal.

    *Interval.* Every weight is below `b` in the tensor's own dtype too.

    Examples
    --------
    >>> import torch
    >>> import fastinit.torch
    >>> fastinit.torch.uniform_(torch.empty(3), -1.0, 1.0, generator=17)
    tensor([ 0.0040, -0.2171, -0.3433])
    """
    return _filled(tensor, _between(a, b) or Uniform(a, b), generator)


@_overridable
def normal_(
    tensor: torch.Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator = None
) -> torch.Tensor:
    """Fill the tensor with normal weights: ``mean + std * z``, one draw each."""
    return _filled(tensor, Normal(mean, std), generator)


@_overridable
def trunc_normal_(
    tensor: torch.Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator = None,
) -> torch.Tensor:
    """Fill the tensor with normal weights inside [a, b], one draw each and none rejected.

    The bounds are weights, as torch's: for two standard deviations of 0.02 say ``a=-0.04, b=0.04``. A mean far
    outside of them is exact too, so there is no warning.

    Examples
    --------
    >>> import torch
    >>> import fastinit.torch
    >>> weights = fastinit.torch.trunc_normal_(torch.empty(64, 64), std=0.02, a=-0.04, b=0.04, generator=17)
    >>> bool(weights.abs().max() <= 0.04)
    True
    """
    return _filled(tensor, _truncated(mean, std, a, b), generator)


def _between(a: float, b: float) -> Distribution | None:
    """Return the one weight of an interval whose bounds are equal; it takes its draws as any other."""
    return Normal(a, 0.0) if a == b else None


def _truncated(mean: float, std: float, a: float, b: float) -> Distribution:
    mean, std, a, b = as_finite(mean, "mean"), as_finite(std, "std"), as_number(a, "a"), as_number(b, "b")
    if not a <= b:
        raise DistributionError(f"trunc_normal_ needs a <= b, in the units of the weights; got a={a} and b={b}")
    if std > 0:
        return _between(a, b) or _within(mean, std, a, b)
    if not a <= mean <= b:
        raise DistributionError(f"with std={std} every weight is mean={mean}, which lies outside [{a}, {b}]")
    return Normal(mean, std)


def _within(mean: float, std: float, a: float, b: float) -> Distribution:
    lower, upper = standard_bounds(mean, std, a, b)
    if not lower < upper:
        raise DistributionError(f"no two weights mean + std * z lie inside [{a!r}, {b!r}]; make it wider")
    return TruncatedNormal(mean, std, lower, upper)


# ---- weights scaled by their fans --------------------------------------------------------------------


@_overridable
def xavier_uniform_(tensor: torch.Tensor, gain: float = 1.0, generator: Generator = None) -> torch.Tensor:
    """Fill the tensor with Xavier (Glorot) uniform weights, on [-limit, limit).

    ``limit = gain * sqrt(6 / (fan_in + fan_out))``, with axis 0 for the outputs and axis 1 for the inputs.

    Parameters
    ----------
    tensor : torch.Tensor
        Two axes or more, in any memory order, of any dtype that fastinit stores.
    gain : float, default 1.0
        Finite and >= 0.
    generator : torch.Generator, SplitMix64 or int, optional
        A torch.Generator gives one key of 64 bits, at which the stream of the weights starts; None takes torch's
        default one, which `torch.manual_seed` seeds. A SplitMix64 moves on by one draw a weight; an int is its
        raw state.

    Returns
    -------
    torch.Tensor
        The tensor itself.

    Examples
    --------
    >>> import torch
    >>> import fastinit.torch
    >>> fastinit.torch.xavier_uniform_(torch.empty(2, 2, dtype=torch.float64), generator=17)
    tensor([[ 0.0050, -0.2659],
            [-0.4205, -0.6763]], dtype=torch.float64)
    """
    return _scaled(tensor, xavier("uniform"), generator, gain)


@_overridable
def xavier_normal_(tensor: torch.Tensor, gain: float = 1.0, generator: Generator = None) -> torch.Tensor:
    """Fill the tensor with Xavier (Glorot) normal weights of std ``gain * sqrt(2 / (fan_in + fan_out))``."""
    return _scaled(tensor, xavier("normal"), generator, gain)


@_overridable
def kaiming_uniform_(
    tensor: torch.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator = None,
) -> torch.Tensor:
    """Fill the tensor with Kaiming (He) uniform weights, on [-limit, limit) with ``limit = gain * sqrt(3 / fan)``.

    The gain is that of `calculate_gain`; `a` is the slope of leaky_relu, and means nothing to the others.
    """
    return _kaiming("uniform", tensor, a, mode, nonlinearity, generator)


@_overridable
def kaiming_normal_(
    tensor: torch.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator = None,
) -> torch.Tensor:
    """Fill the tensor with Kaiming (He) normal weights of std ``gain / sqrt(fan)``.

    The gain is that of `calculate_gain`; `a` is the slope of leaky_relu, and means nothing to the others.
    """
    return _kaiming("normal", tensor, a, mode, nonlinearity, generator)


def _kaiming(
    distribution: str, tensor: torch.Tensor, a: float, mode: str, nonlinearity: Any, generator: Generator
) -> torch.Tensor:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=4)
        return tensor
    mode = as_choice(mode.lower(), ("fan_in", "fan_out"), "mode")
    calculate_gain(nonlinearity, a)  # refuses what torch refuses
    slope = a if nonlinearity == "leaky_relu" else None
    return _scaled(tensor, kaiming(distribution, nonlinearity, slope, mode), generator)


# ---- weights made together ---------------------------------------------------------------------------


@_overridable
def orthogonal_(tensor: torch.Tensor, gain: float = 1, generator: Generator = None) -> torch.Tensor:
    """Fill the tensor with a (semi) orthogonal matrix times `gain`: the outputs against everything else.

    It is made in float64 and rounded once, in every dtype.
    """
    axes = tensor.dim()
    if not 2 <= axes <= len(SPATIAL) + 2:
        raise ValueError(f"Only tensors with 2 or more dimensions are supported (to 7), got {axes}")
    return _filled(tensor, Orthogonal(), generator, gain=gain, layout="oi" + SPATIAL[: axes - 2])


@_overridable
def sparse_(tensor: torch.Tensor, sparsity: float, std: float = 0.01, generator: Generator = None) -> torch.Tensor:
    """Fill the matrix with normal weights of which ``ceil(sparsity * rows)`` are zero in every column."""
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got {tensor.dim()}")
    return _filled(tensor, Sparse(sparsity, std), generator)
