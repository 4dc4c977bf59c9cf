"""Verdicts on one tensor: its weights against what is expected of them, and against faults that need no plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._engine.dtypes import DType
from .._engine.narrow import rounded
from . import by_name
from .expected import Expected, least_step, relative_step
from .measured import Measured
from .neighbours import Neighbours
from .repeats import repeats
from .stored import StoredTensor

_Array = np.ndarray[Any, Any]

STANDARD_ERRORS = 5.0
"""Standard errors that a mean or a standard deviation may be off: sampling exceeds them once in 1.7 million."""

KURTOSIS_ERRORS = 8.0
"""Standard errors that a kurtosis may be off: more than for a mean, because its errors have a longer tail."""

KURTOSIS_SIZE = 1000
"""Weights from which on a kurtosis is judged."""

SPIKE_COUNT = 32
"""A spike: at least `SPIKE_COUNT` weights equal the minimum or maximum, and either `SPIKE_RATIO` times as many as
the neighbouring values have, or `SPIKE_RATIO` gaps away from them."""

SPIKE_RATIO = 3.0
"""How far a spike exceeds its neighbours, in number or in distance."""

SPIKE_BESIDE = 16
"""The neighbours of an extreme: so many occupied values next to it, of a sample."""

WIDEST_GAIN = 4.0
"""How many times wider than its inputs a matrix's outputs may be: He's start makes them 1.4 times so."""

_STANDARD = Expected("N(0, 1)", 1.0, mean=0.0, kurtosis=0.0)

Fault = tuple[str, str]
"""The kind of a fault, and a sentence on it that follows the tensor's name."""


def faults(
    tensor: StoredTensor, m: Measured, e: Expected | None, sample: _Array, neighbours: Neighbours
) -> Iterator[Fault]:
    """Yield everything that is wrong with a tensor.

    Parameters
    ----------
    tensor : StoredTensor
        Read again to look for equal parts.
    m : Measured
        Its weights.
    e : Expected or None
        What a plan or a rule says of them.
    sample : array
        Its `StoredTensor.sample`.
    neighbours : Neighbours
        The other tensors of its file.
    """
    if m.nan or m.inf:
        yield (
            "not finite",
            f"holds {m.nan:,} NaN and {m.inf:,} infinities among {tensor.spec.size:,} weights: the run that "
            "wrote it had diverged; go back to an earlier checkpoint",
        )
    if not m.finite:
        return
    is_drawn = e.is_drawn if e is not None else by_name.is_usually_drawn(tensor.name, tensor.spec)
    if is_drawn and _is_one_value(tensor, m, e):
        yield _one_value(m, neighbours.none_is_drawn)
    elif e is not None:
        yield from _against(m, e, tensor.spec.dtype)
    elif is_drawn and _is_never_scaled(tensor, m, neighbours):
        yield _never_scaled(tensor, m)
    if is_drawn and m.low < m.high:
        yield from _repeated_or_piled(tensor, m, e, sample)


# ---- against what is expected ------------------------------------------------------------------------


def _against(m: Measured, e: Expected, dtype: DType) -> Iterator[Fault]:
    """Compare with what is expected; every check states beside the difference how much of it is no fault."""
    checks = (_std, _mean, _kurtosis, _bounds) if e.std else (_values,)
    for check in checks:
        fault = check(m, e, dtype)
        if fault is not None:
            yield fault


def _values(m: Measured, e: Expected, dtype: DType) -> Fault | None:
    value = None if e.mean is None else rounded(e.mean, dtype)
    if m.low == m.high and value in (None, m.low):
        return None
    wanted = "equal" if value is None else f"{value:.6g}"
    return (
        "values",
        f"has values from {m.low:.6g} to {m.high:.6g} where {e.source} asks for {wanted} ones everywhere: "
        "it was trained, or filled with something else",
    )


def _std(m: Measured, e: Expected, dtype: DType) -> Fault | None:
    allowed = _sampling_of_std(m, e)
    allowed += e.rounding(dtype) + e.tolerance * e.std
    if abs(m.std - e.std) <= allowed:
        return None
    if m.std > 0 and math.isfinite(m.std):
        remedy = f"multiply it by {e.std / m.std:.4g}, or draw it again with std={e.std:.5g}"
    else:
        remedy = f"draw it again with std={e.std:.5g}"
    return (
        "spread",
        f"has standard deviation {m.std:.5g}, {m.std / e.std:.4g} times the {e.std:.5g} of {e.source} "
        f"(sampling and rounding explain {allowed:.2g}): {remedy}",
    )


def _sampling_of_std(m: Measured, e: Expected) -> float:
    """Return how far off sampling takes a standard deviation: its own errors, and the square of the mean's."""
    kurtosis = e.kurtosis if e.kurtosis is not None else max(0.0, m.kurtosis)
    error = STANDARD_ERRORS * e.std * math.sqrt((kurtosis + 2) / (4 * m.finite)) if m.finite > 1 else math.inf
    return error + e.std * STANDARD_ERRORS**2 / (2 * m.finite)


def _mean(m: Measured, e: Expected, dtype: DType) -> Fault | None:
    if e.mean is None:
        return None
    error = max(e.std, m.std) / math.sqrt(m.finite)
    if abs(m.mean - e.mean) <= STANDARD_ERRORS * error + e.rounding(dtype):
        return None
    return (
        "mean",
        f"has mean {m.mean:.5g}, {abs(m.mean - e.mean) / error:.3g} standard errors from the {e.mean:.5g} of "
        f"{e.source}: subtract the difference, or look for a draw on [0, limit) in place of [-limit, limit)",
    )


def _kurtosis(m: Measured, e: Expected, dtype: DType) -> Fault | None:
    if e.kurtosis is None or m.finite < KURTOSIS_SIZE or math.isnan(m.kurtosis):
        return None
    allowed = KURTOSIS_ERRORS * (e.kurtosis_error + 4 * KURTOSIS_ERRORS / math.sqrt(m.finite))
    allowed = allowed / math.sqrt(m.finite) + 10 * e.rounding(dtype) / e.std
    if abs(m.kurtosis - e.kurtosis) <= allowed:
        return None
    return (
        "kurtosis",
        f"has excess kurtosis {m.kurtosis:.3g} where {e.source} has {e.kurtosis:.3g} (a normal 0, a "
        "uniform -1.2; larger is heavier tails): another distribution was drawn, or it was trained",
    )


def _bounds(m: Measured, e: Expected, dtype: DType) -> Fault | None:
    below, above = (2 * relative_step(dtype) * abs(bound) + least_step(dtype) for bound in (e.low, e.high))
    if e.low - below <= m.low and m.high <= e.high + above:
        return None
    return (
        "bounds",
        f"reaches from {m.low:.6g} to {m.high:.6g}, outside the [{e.low:.6g}, {e.high:.6g}] of {e.source}",
    )


# ---- wrong whatever was planned ----------------------------------------------------------------------


def _is_one_value(tensor: StoredTensor, m: Measured, e: Expected | None) -> bool:
    """Say whether a matrix has equal weights everywhere, which neither rounding nor chance explains."""
    if len(tensor.spec.shape) < 2 or m.finite < 2 or m.low != m.high or m.nan or m.inf:
        return False
    return e is None or not (e.rounding(tensor.spec.dtype) >= e.std or e.may_be_equal(m.finite))


def _one_value(m: Measured, none_is_drawn: bool) -> Fault:
    alike = (
        "; no other tensor here is drawn either, and hidden units with equal weights on both sides get equal "
        "gradients, so they can never become different"
        if none_is_drawn
        else ""
    )
    if m.low == 0:
        return (
            "all zero",
            f"is zero everywhere ({m.finite:,} weights): it passes no signal on, and nothing here explains "
            f"that{alike}; was it skipped when the model was initialized or loaded, or cast to a dtype that "
            "rounds it to zero?",
        )
    return (
        "constant",
        f"is {m.low:.6g} everywhere ({m.finite:,} weights): all its units compute the same, so it starts as a "
        f"single unit{alike}; draw its weights at random",
    )


def _is_never_scaled(tensor: StoredTensor, m: Measured, neighbours: Neighbours) -> bool:
    """Say whether a matrix holds draws of N(0, 1), to the sampling error, and has inputs enough to do harm.

    Trained ones have another spread. Rows that are looked up, factors and what a norm divides may start so.
    """
    is_matrix = neighbours.has_bias(tensor) or by_name.is_linear(tensor.name)
    if not is_matrix or by_name.may_be_wide(tensor.name):
        return False
    if _gain(tensor, m) < WIDEST_GAIN or neighbours.is_wide_like_its_embedding(tensor):
        return False
    return all(check(m, _STANDARD, tensor.spec.dtype) is None for check in (_std, _mean, _kurtosis))


def _gain(tensor: StoredTensor, m: Measured) -> float:
    """Return how many times wider than its inputs a matrix's outputs are, whichever axis the inputs are."""
    shape = tensor.spec.shape
    if len(shape) < 2:
        return 0.0
    return m.std * math.sqrt(min(shape[:2]) * math.prod(shape[2:]))


def _never_scaled(tensor: StoredTensor, m: Measured) -> Fault:
    return (
        "spread",
        f"has standard deviation {m.std:.5g}, as N(0, 1) draws it: its outputs are {_gain(tensor, m):.3g} times "
        "as wide as its inputs, or more, unless a norm divides them again; scale it by its fan, as "
        "fastinit.xavier_uniform does",
    )


def _repeated_or_piled(tensor: StoredTensor, m: Measured, e: Expected | None, sample: _Array) -> Iterator[Fault]:
    """Yield equal parts of a tensor, or else a spike: equal parts repeat one anyway."""
    if e is not None and e.may_be_equal(m.finite // 2):
        return
    parts = repeats(tensor)
    if parts:
        yield "repeated", _repeated(*parts, tensor.spec.shape)
    elif not by_name.is_position_table(tensor.name):
        spike = _spike(m, sample, e.likeliest if e else 0.0)
        if spike:
            yield "spike", spike


def _repeated(axis: int, parts: int, shape: tuple[int, ...]) -> str:
    remedy = (
        "all its slices are one, so it acts as a single unit; draw every weight"
        if parts == shape[axis]
        else "every rank drew the same numbers; give each its part of the whole tensor's stream"
    )
    return f"has {parts:,} equal parts along axis {axis}: {remedy}"


def _spike(m: Measured, sample: _Array, likeliest: float) -> str | None:
    """Compare how many weights equal an extreme with how many equal its neighbours.

    The neighbours are values that the sample holds, so those of a coarse grid are the grid's. `likeliest` is the
    largest share of equal weights that is expected.
    """
    for value, count, inwards in ((m.low, m.at_low, 1), (m.high, m.at_high, -1)):
        if not _is_frequent(m, value, count, likeliest):
            continue
        share = count / m.finite
        occupied, counts = np.unique(sample[np.isfinite(sample) & (sample != value)], return_counts=True)
        occupied, counts = occupied[::inwards][:SPIKE_BESIDE], counts[::inwards][:SPIKE_BESIDE]
        if len(occupied) < SPIKE_BESIDE // 2:
            continue
        usual = int(counts.sum()) / len(counts) / len(sample)
        if _stands_out(share, usual, counts, len(sample)) or _stands_apart(value, share, usual, occupied):
            return (
                f"has {count:,} weights ({100 * share:.3g} %) at exactly {value:.6g}, its "
                f"{'least' if inwards > 0 else 'largest'} value; each of the next values inwards, from "
                f"{occupied[0]:.6g} on, has about {100 * usual:.2g} %. Clamping piles on the bound what it cuts "
                "off, and a narrow dtype drawn from directly has few values out there: draw in float64 "
                "by the inverse CDF and round once"
            )
    return None


def _is_frequent(m: Measured, value: float, count: int, likeliest: float) -> bool:
    """Say whether more weights equal an extreme than few, or than are expected to; zeros are counted elsewhere."""
    if value == 0 or count < SPIKE_COUNT or m.at_low + m.at_high + m.zeros >= m.finite:
        return False
    return count / m.finite > likeliest + STANDARD_ERRORS * math.sqrt(likeliest / m.finite)


def _stands_out(share: float, usual: float, counts: _Array, sampled: int) -> bool:
    """Say whether an extreme has `SPIKE_RATIO` times the share of its neighbours, sampling errors allowed for."""
    most = max(usual * (1 + STANDARD_ERRORS / math.sqrt(counts.sum())), counts[:2].mean() / sampled)
    return bool(share > SPIKE_RATIO * most)


def _stands_apart(value: float, share: float, usual: float, occupied: _Array) -> bool:
    """Say whether an extreme lies `SPIKE_RATIO` gaps off its neighbours, with no share much below theirs."""
    is_apart = abs(occupied[0] - value) > SPIKE_RATIO * np.abs(np.diff(occupied)).max()
    return bool(is_apart and SPIKE_RATIO * share > usual)
