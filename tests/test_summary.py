"""Summaries: the core's counts, extremes and sums of powers, of any piece of a tensor."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from fastinit import _core
from fastinit._engine.dtypes import BY_NAME, FLOATS

NUMPY = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def summary(array, dtype, pieces=1, anchor=None):
    """The core's summary of an array's little-endian bytes, merged from those of `pieces` parts."""
    dtype = BY_NAME[dtype]
    flat = np.ravel(array)
    if anchor is None:
        anchor = float(flat[0]) if np.isfinite(float(flat[0])) else 0.0
    parts = []
    for piece in np.array_split(flat, pieces):
        part = _core.Summary(anchor)
        part.add(piece.tobytes(), dtype.code, dtype.itemsize)
        parts.append(part)
    for part in parts[1:]:
        parts[0].merge(part)
    return parts[0].facts()


def exact(array):
    """The mean of the finite values, and the sums of powers of their differences from it, in rational numbers."""
    values = [Fraction(x) for x in np.asarray(array, np.float64).ravel().tolist() if math.isfinite(x)]
    mean = sum(values) / len(values)
    return [mean, *(sum((x - mean) ** power for x in values) for power in (2, 3, 4))]


def rng():
    return np.random.default_rng(5)


ADVERSARIAL = {
    "a large mean beside a small spread": 1e8 + rng().normal(size=5001) * 1e-3,
    "neighbouring float64 values": 1e8 + rng().integers(0, 2, 5001) * 2.0**-26,
    "an outlier first": np.r_[1e12, rng().normal(size=5000)],
    "an outlier last": np.r_[rng().normal(size=5000), -1e12],
    "subnormals of float32": (rng().normal(size=5000) * 1e-42).astype(np.float32),
    "sorted": np.sort(rng().normal(3, 1, 9000)),
    "NaN first and infinities in the middle": np.r_[np.nan, rng().normal(size=4000), np.inf, -np.inf, 3.0],
    "one weight": np.array([0.3]),
    "seventeen": rng().normal(size=17),
}


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_moments_equal_rational_arithmetic(name, pieces):
    """Sums of squares cancel where the mean is large; a merge of parts that differ cancels too."""
    array = ADVERSARIAL[name]
    found = summary(array, str(array.dtype), min(pieces, array.size))
    mean, m2, m3, m4 = exact(array)
    spread = math.sqrt(m2 / found["count"])
    assert abs(Fraction(found["anchor"]) + Fraction(found["mean"]) - mean) <= 1e-13 * spread
    assert math.isclose(found["m2"], m2, rel_tol=1e-11)
    assert math.isclose(found["m4"], m4, rel_tol=1e-11)
    assert abs(found["m3"] - m3) <= 1e-11 * float(m2) * spread
    finite = array[np.isfinite(array)]
    assert (found["low"], found["high"]) == (finite.min(), finite.max())
    assert (found["nan"], found["inf"]) == (np.isnan(array).sum(), np.isinf(array).sum())


@pytest.mark.parametrize("dtype", [dtype.name for dtype in FLOATS[2:]])
def test_every_pattern_of_a_narrow_dtype_is_read_as_ml_dtypes_reads_it(dtype):
    """A subnormal, infinity or NaN decoded wrong poisons every moment."""
    kind = BY_NAME[dtype]
    bits = np.arange(1 << (8 * kind.itemsize), dtype=f"u{kind.itemsize}")
    values = np.empty(bits.size)
    _core.widen(bits, values, kind.code, kind.itemsize)
    with np.errstate(invalid="ignore"):  # NaNs are cast
        peer = bits.view(NUMPY.get(dtype, dtype)).astype(np.float64)
    np.testing.assert_array_equal(values, peer)
    assert np.array_equal(np.signbit(values[values == 0]), np.signbit(peer[peer == 0]))
    found = summary(bits, dtype, anchor=0.0)
    assert found["nan"] == np.isnan(peer).sum()
    assert found["inf"] == np.isinf(peer).sum()
    assert (found["zeros"], found["at_low"], found["at_high"]) == (2, 1, 1)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e5m2"])
def test_zeros_and_extremes_are_counted_in_every_block_and_piece(dtype):
    """A count may be kept of the last block alone, or be lost where a new extreme comes later."""
    values = np.zeros(10_000)
    values[[3, 5000, 9999]], values[[2048, 7000]], values[7] = 2.0, -3.0, -0.0
    values[100:200] = 1.0
    stored = values.astype(NUMPY.get(dtype, dtype))
    for pieces in (1, 5):
        found = summary(stored, dtype, pieces, anchor=0.0)
        assert (found["zeros"], found["at_low"], found["at_high"]) == (10_000 - 105, 2, 3)
