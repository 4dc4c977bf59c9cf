"""jax.nn.initializers' functions: its names, signatures, defaults and conventions, with the weights of fastinit.

A function returns an initializer that is bound to a seed and a name (`bound.py`). What draws nothing is JAX's own.
"""

from __future__ import annotations

from typing import Any, Protocol, SupportsIndex

from jax.nn.initializers import constant, ones, zeros

from .._engine.checks import as_u64
from ..functions import as_initializer
from ..initializers import (
    DeltaOrthogonal,
    Initializer,
    Normal,
    Orthogonal,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
)
from .bound import AxisOrAxes, Bound, Columns, Fans, Letters, as_axes, bound

__all__ = [
    "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "initializer",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal",
    "truncated_normal", "uniform", "variance_scaling", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip

Seed = SupportsIndex | None


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: AxisOrAxes = -2,
    out_axis: AxisOrAxes = -1,
    batch_axis: AxisOrAxes = (),
    dtype: Any = None,
    *,
    seed: Seed = None,
    name: str | None = None,
) -> Bound:
    """Return an initializer of variance ``scale / fan``.

    Parameters
    ----------
    scale : float
        Finite and >= 0.
    mode : {"fan_in", "fan_out", "fan_avg", "fan_geo_avg"}
        What the fan is.
    distribution : {"truncated_normal", "normal", "uniform"}
        A truncated normal is cut at two of its standard deviations, and is as much wider (1 / 0.8796) as keeps the
        variance, as in JAX.
    in_axis, out_axis, batch_axis : int or sequence of int
        Axes of inputs, outputs and stacked matrices; all others are the receptive field. Equinox's weights are
        ``in_axis=1, out_axis=0``.
    dtype : dtype, optional
        Where the call names none; None is JAX's default.
    seed : int
        0 to 2**64 - 1.
    name : str
        The tensor's, which names its stream.

    Returns
    -------
    Bound
        To be called as ``init(key, shape, dtype, out_sharding)``, or as Haiku's, ``init(shape, dtype)``.

    Raises
    ------
    TypeError
        Without a seed or a name.

    Notes
    -----
    *Reproducibility.* The weights are those of the numpy function of the same formula at
    ``stream_for(seed, name)``: on every backend, for every sharding, with and without 64 bits.

    Examples
    --------
    >>> import numpy as np
    >>> import fastinit, fastinit.jax
    >>> init = fastinit.jax.variance_scaling(1.0, "fan_avg", "uniform", seed=17, name="Dense_0.kernel")
    >>> weight = fastinit.glorot_uniform((2, 3), fastinit.stream_for(17, "Dense_0.kernel"), dtype="float32")
    >>> np.array_equal(init(None, (2, 3)), weight)
    True
    """
    fans = Fans(as_axes(in_axis), as_axes(out_axis), as_axes(batch_axis))
    return bound("variance_scaling", VarianceScaling(scale, mode, distribution), seed, name, fans, dtype)


class Scaled(Protocol):
    """The signature of the famous names, in JAX's order."""

    def __call__(
        self,
        in_axis: AxisOrAxes = -2,
        out_axis: AxisOrAxes = -1,
        batch_axis: AxisOrAxes = (),
        dtype: Any = None,
        *,
        seed: Seed = None,
        name: str | None = None,
    ) -> Bound:
        """Return the initializer."""


def _scaled(function: str, scale: float, mode: str, distribution: str, author: str) -> Scaled:
    """Return the function of a famous name."""
    scaling = VarianceScaling(scale, mode, distribution)

    def make(
        in_axis: AxisOrAxes = -2,
        out_axis: AxisOrAxes = -1,
        batch_axis: AxisOrAxes = (),
        dtype: Any = None,
        *,
        seed: Seed = None,
        name: str | None = None,
    ) -> Bound:
        fans = Fans(as_axes(in_axis), as_axes(out_axis), as_axes(batch_axis))
        return bound(function, scaling, seed, name, fans, dtype)

    make.__name__ = make.__qualname__ = function
    make.__doc__ = f"""Return an initializer of {author} {distribution.replace("_", " ")} weights.

    It is ``variance_scaling({scale}, "{mode}", "{distribution}")``, which explains the arguments.
    """
    return make


glorot_uniform: Scaled = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform", "Glorot (Xavier)")
glorot_normal: Scaled = _scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal", "Glorot (Xavier)")
xavier_uniform: Scaled = _scaled("xavier_uniform", 1.0, "fan_avg", "uniform", "Glorot (Xavier)")
xavier_normal: Scaled = _scaled("xavier_normal", 1.0, "fan_avg", "truncated_normal", "Glorot (Xavier)")
lecun_uniform: Scaled = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", "LeCun")
lecun_normal: Scaled = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal", "LeCun")
he_uniform: Scaled = _scaled("he_uniform", 2.0, "fan_in", "uniform", "He (Kaiming)")
he_normal: Scaled = _scaled("he_normal", 2.0, "fan_in", "truncated_normal", "He (Kaiming)")
kaiming_uniform: Scaled = _scaled("kaiming_uniform", 2.0, "fan_in", "uniform", "He (Kaiming)")
kaiming_normal: Scaled = _scaled("kaiming_normal", 2.0, "fan_in", "truncated_normal", "He (Kaiming)")


def uniform(scale: float = 1e-2, dtype: Any = None, *, seed: Seed = None, name: str | None = None) -> Bound:
    """Return an initializer of weights drawn uniformly from [0, scale), as JAX's; scale must be above 0."""
    return bound("uniform", Uniform(0.0, scale), seed, name, dtype=dtype)


def normal(stddev: float = 1e-2, dtype: Any = None, *, seed: Seed = None, name: str | None = None) -> Bound:
    """Return an initializer of normal weights of mean 0."""
    return bound("normal", Normal(0.0, stddev), seed, name, dtype=dtype)


def truncated_normal(
    stddev: float = 1e-2,
    dtype: Any = None,
    lower: float = -2.0,
    upper: float = 2.0,
    *,
    seed: Seed = None,
    name: str | None = None,
) -> Bound:
    """Return an initializer of normal weights inside [lower * stddev, upper * stddev].

    `stddev` is that of the normal before it is cut, as in JAX: nothing here restores the variance, which
    `variance_scaling` does.

    Examples
    --------
    >>> import fastinit.jax
    >>> init = fastinit.jax.truncated_normal(0.02, lower=-1.0, upper=1.0, seed=17, name="pos_embedding")
    >>> bool(abs(init(None, (64, 64))).max() <= 0.02)
    True
    """
    return bound("truncated_normal", TruncatedNormal(0.0, stddev, lower, upper), seed, name, dtype=dtype)


def orthogonal(
    scale: float = 1.0, column_axis: int = -1, dtype: Any = None, *, seed: Seed = None, name: str | None = None
) -> Bound:
    """Return an initializer of (semi) orthogonal matrices times `scale`: the columns against everything else.

    LAPACK decides the last bits: it is the one scheme that is not the same bit by bit on every machine.
    """
    return bound("orthogonal", Orthogonal(scale), seed, name, Columns(column_axis), dtype)


def delta_orthogonal(
    scale: float = 1.0, column_axis: int = -1, dtype: Any = None, *, seed: Seed = None, name: str | None = None
) -> Bound:
    """Return an initializer of kernels that are orthogonal at the middle of their field, and zero elsewhere."""
    return bound("delta_orthogonal", DeltaOrthogonal(scale), seed, name, Columns(column_axis), dtype)


def initializer(
    initializer: Initializer | str,
    layout: str = "io",
    groups: SupportsIndex = 1,
    dtype: Any = None,
    *,
    seed: Seed = None,
    name: str | None = None,
) -> Bound:
    """Return any initializer of fastinit, for JAX.

    Parameters
    ----------
    initializer : Initializer or str
        As `fastinit.initialize` takes it.
    layout : str, default "io"
        The meaning of the axes, as in `fastinit.fans`: ``"oi"`` of Equinox, ``"hwio"`` of a kernel of Flax.
    groups : int, default 1
        Groups of a grouped convolution.
    dtype, seed, name
        As in `variance_scaling`.

    Examples
    --------
    >>> import fastinit.jax
    >>> init = fastinit.jax.initializer("kaiming_normal('gelu')", "oi", seed=17, name="layers.0.weight")
    >>> init(None, (4, 8)).shape
    (4, 8)
    """
    chosen, letters = as_initializer(initializer), Letters(layout, as_u64(groups, "groups"))
    return bound("initializer", chosen, seed, name, letters, dtype)
