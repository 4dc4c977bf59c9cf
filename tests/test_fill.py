"""The door to the kernels: the bits of every distribution and dtype, intervals, parts, and any memory."""

import math
import mmap
import sys
from fractions import Fraction
from pathlib import Path

import host
import ml_dtypes
import numpy as np
import pytest
import reference
from bits import DTYPES, NUMPY, assert_bits, bits_of, patterns, weight
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tables import EDGE_DRAWS, STATES

import fastinit
from fastinit import DistributionError
from fastinit._engine.distributions import CenteredUniform, Constant, Uniform
from fastinit._engine.fill import fill

WORDS = st.integers(0, 2**64 - 1)
NARROW = [name for name in DTYPES if name != "float64"]


def drawn(content, draw, dtype):
    """What fastinit stores for one draw, however rare."""
    return float(fill(reference.state_before(draw), (1,), content, dtype=dtype)[0])


# ---- the judge itself --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [name for name in NARROW if name != "float32"])
def test_the_reference_reads_every_pattern_as_its_peers_do(dtype):
    """numpy and ml_dtypes decode all 2**8 or 2**16 patterns: another bias, subnormals, or largest value."""
    form = reference.FORMATS[dtype]
    every = np.arange(2**form.width, dtype=f"u{form.width // 8}")
    with np.errstate(invalid="ignore"):  # the signalling NaNs, which the next line drops
        values = every.view(NUMPY[dtype]).astype(np.float64)
    finite = np.isfinite(values)
    assert_bits(patterns(values[finite].tolist(), dtype), every[finite], f"{dtype} reference")
    assert values[finite].max() == form.largest == float(ml_dtypes.finfo(NUMPY[dtype]).max)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_reference_rounds_as_numpy_does(dtype):
    """A rounding that is not to nearest even, or is wrong among subnormals."""
    form = reference.FORMATS[dtype]
    step = float(form.smallest_step)
    exact = [math.ldexp(1 + k / 64, e) for e in range(-form.precision - 1, 14) for k in range(64)]
    exact += [k * step / 4 for k in range(80)] + [1 + k * 2.0 ** -(form.precision + 1) for k in range(16)]
    values = np.array(exact + [-x for x in exact])
    assert_bits(
        patterns([reference.narrowed(x, form) for x in values.tolist()], dtype),
        bits_of(values.astype(dtype)),
        f"{dtype} reference",
    )


# ---- bits --------------------------------------------------------------------------------------------

CONTENTS = [
    CenteredUniform(1.0),
    CenteredUniform(math.sqrt(6 / 4)),
    CenteredUniform(0.001953125),
    CenteredUniform(1 / 3),
    Uniform(0.0, 1.0),
    Uniform(-1.0, 1.0),
    Uniform(-0.1, 0.7),
    Uniform(-0.0, 0.3),
    Uniform(96.0, 112.0),
    Uniform(-3.0, -1 / 3),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("content", CONTENTS, ids=repr)
def test_bits_for_every_dtype_and_state(content, dtype):
    """A fused or double rounding, float32 on the way to bfloat16, a lost carry near 2**64."""
    for state in STATES:
        expected = [weight(content, reference.draw(state, i), dtype) for i in range(40)]
        assert_bits(
            fill(state, (40,), content, dtype=dtype),
            patterns(expected, dtype),
            f"{content} {dtype} state {state:#x}",
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("content", CONTENTS, ids=repr)
def test_bits_of_draws_that_chance_would_not_show(content, dtype):
    """k = 0, 1, 2**52 and 2**53 - 1: the ends of every interval, and zero."""
    for draw in EDGE_DRAWS:
        expected = weight(content, draw, dtype)
        found = drawn(content, draw, dtype)
        assert (found, math.copysign(1, found)) == (expected, math.copysign(1, expected)), f"draw {draw:#x}"


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("content", [CenteredUniform(1.0), Uniform(0.0, 1.0), Uniform(-0.3, 1.1)], ids=repr)
def test_narrow_weights_round_ties_of_the_float64_weight_to_even(content, dtype):
    """Double rounding shows only within a float32 ulp of a tie: aim at ties and their neighbours."""
    form = reference.FORMATS[dtype]
    low = -content.limit if isinstance(content, CenteredUniform) else content.low
    width = -2 * low if isinstance(content, CenteredUniform) else content.high - content.low
    for exponent in range(-9, 0):
        step = form.step_at(Fraction(2) ** exponent)
        for m in range(1, 4):
            tie = Fraction(2) ** exponent + (m - Fraction(1, 2)) * step
            k = round((tie - Fraction(low)) / Fraction(width) * 2**53)
            for near in (k - 2, k - 1, k, k + 1, k + 2):
                draw = near % 2**53 << 11
                expected = weight(content, draw, dtype)
                assert drawn(content, draw, dtype) == expected, (
                    f"{content} {dtype} near {float(tie)!r}, k = {near}"
                )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("exponent", [-960, -969, -970, -971, -1000, -1022, -1023, -1050, -1074])
def test_tiny_limits_are_multiplied_once(exponent, dtype):
    """limit * 2**-52 is subnormal below 2**-970: two roundings, or a zero, in its place."""
    for limit in (math.ldexp(1.0, exponent), math.ldexp(4 / 3, exponent)):
        content = CenteredUniform(limit)
        if dtype == "float32":
            with pytest.raises(DistributionError, match="no float32 value"):
                fill(17, (1,), content, dtype=dtype)
            continue
        draws = [*EDGE_DRAWS, *(reference.draw(17, i) for i in range(100))]
        for draw in draws:
            expected = weight(content, draw, dtype)
            found = drawn(content, draw, dtype)
            assert found.hex() == expected.hex(), f"limit {limit.hex()}, draw {draw:#x}"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_weights_among_the_dtypes_subnormals(dtype):
    """A conversion that flushes them, or that loses the sign of a negative one that rounds to zero."""
    smallest = float(reference.FORMATS[dtype].smallest_step)
    for limit in (smallest, 1.5 * smallest, 5 * smallest, 300 * smallest):
        content = CenteredUniform(limit)
        expected = [weight(content, reference.draw(17, i), dtype) for i in range(100)]
        assert_bits(fill(17, (100,), content, dtype=dtype), patterns(expected, dtype), f"{content} {dtype}")


def test_uniform_and_centered_uniform_differ_at_the_same_bounds():
    """One kernel used for both: they round differently by contract."""
    centered, uniform = (fill(17, (1000,), content) for content in (CenteredUniform(0.3), Uniform(-0.3, 0.3)))
    assert (centered != uniform).any()
    assert np.abs(centered - uniform).max() < 1e-15


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.5, 1 / 3, 448.0, 1.0625, 3e-5])
def test_constants_are_rounded_once_and_take_no_draws(value, dtype):
    expected = patterns([reference.narrowed(value, reference.FORMATS[dtype])] * 12, dtype, (3, 4))
    for state in (0, 17):
        assert_bits(fill(state, (3, 4), Constant(value), dtype=dtype), expected, f"{value} {dtype}")


def test_float32_is_the_rounding_of_float64_at_every_length():
    """pytorch#79703: n = 15 and n = 16 took unrelated draws in float32 and float64."""
    for n in (1, 7, 8, 15, 16, 17, 31, 33, 1000):
        wide, narrow = (fill(17, (n,), CenteredUniform(1.0), dtype=dtype) for dtype in ("f8", "f4"))
        assert (wide.astype("f4") == narrow).all(), f"n = {n}"


def test_every_index_is_filled_past_32_bits():
    """pytorch#17898: elements past 2**31 left at 0. Parts of a tensor of 2**64 - 1 elements, by the index law."""
    content = CenteredUniform(1.0)
    for shape in [(1, 65536, 32768), (1, 2**64 - 1, 1), (3, 2**32, 2**30)]:
        for index in [
            (-1, -1, -1),
            (-1, -1, slice(-3, None)),
            (0, slice(-5, None, 2), 0),
            (-1, ..., -2, slice(1)),
        ]:
            part, positions = reference.cut(shape, index)
            expected = [weight(content, reference.draw(17, i), "float64") for i in positions]
            assert_bits(
                fill(17, shape, content, index=index), patterns(expected, "float64", part), f"{shape}[{index}]"
            )


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_runs_have_no_seams(dtype):
    """Tiles, chunks and vector tails: lengths around every power of two, and one of several chunks."""
    content = CenteredUniform(1.0)
    whole = fill(17, (3 * 2**20 + 5,), content, dtype=dtype)
    for at in (0, 511, 512, 1023, 1024, 2**16, 2**20 - 1, 2**20, 2**20 + 1, 2**21, 3 * 2**20 + 4):
        expected = [weight(content, reference.draw(17, at), dtype)]
        assert_bits(whole[at : at + 1], patterns(expected, dtype), f"{dtype}, element {at}")
    for length in sorted({2**e + d for e in range(11) for d in (-1, 0, 1)} - {0}):
        for start in (0, 1, 3):
            part = fill(17, whole.shape, content, dtype=dtype, index=slice(start, start + length))
            assert_bits(part, bits_of(whole[start : start + length]), f"{dtype}, {length} from {start}")


# ---- intervals ---------------------------------------------------------------------------------------


def as_dtype(x, dtype):
    """A bound as a user converts it: to nearest in the dtype, then compared there."""
    return reference.narrowed(x, reference.FORMATS[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0.0, 1.0),
        (0.0, 4.0),
        (0.0, 0.7),
        (0.0, 0.3),
        (-0.3, 0.0),
        (-1.0, 1e-9),
        (1.0, 1.3),
        (-0.7, 0.7),
        (0.1, 0.9),
        (-1e-3, 1e-3),
    ],
)
def test_the_closed_end_is_never_drawn_in_any_dtype(low, high, dtype):
    """pytorch#2740, #197079, mxnet#20651: 1.0 from a uniform on [0, 1) once it is rounded to the dtype."""
    for draw in EDGE_DRAWS:
        w = drawn(Uniform(low, high), draw, dtype)
        assert low <= w < high, f"draw {draw:#x}: {w!r}"
        assert w < as_dtype(high, dtype), f"draw {draw:#x}: {w!r} is not below {high} as {dtype}"
    assert drawn(Uniform(low, high), 2**64 - 1, dtype) == reference.uniform_weight(
        2**64 - 1, low, high, reference.FORMATS[dtype]
    )


def test_the_largest_float32_unit_is_one_step_below_one():
    """pytorch#2740 names the value."""
    assert drawn(Uniform(0.0, 1.0), 2**64 - 1, "float32") == 1 - 2.0**-24


@pytest.mark.parametrize(
    ("low", "high"),
    [(2.0**32 - 3, 2.0**32 - 1), (1.0, 1 + 2.0**-40), (1.0, 1 + 2.0**-51), (1e16, 1e16 + 4)],
    ids=["cupy#4139", "numpy#10803", "two_steps", "large"],
)
def test_rounding_up_to_high_is_clamped_and_the_low_end_is_not_biased(low, high):
    """cupy#4139, #4153, numpy#10803: high was drawn; and a fix by resampling or by shifting moved the low end."""
    content = Uniform(low, high)
    step = math.ulp(math.nextafter(high, low))
    last_to_round_up = [2**64 - 1 - (i << 11) for i in range(3)]
    for draw in last_to_round_up:
        assert drawn(content, draw, "float64") == math.nextafter(high, low)
    half = math.ceil(Fraction(step) / 2 / Fraction(high - low) * 2**53)
    for k in (0, 1, half - 2, half - 1):
        assert drawn(content, k << 11, "float64") == low, f"k = {k}"
    for k in (half + 1, half + 2):
        assert drawn(content, k << 11, "float64") == math.nextafter(low, high), f"k = {k}"
    drawn_by_chance = fill(13, (10**5,), content)
    assert low <= drawn_by_chance.min()
    assert drawn_by_chance.max() < high


@pytest.mark.parametrize("low", [1.0, -1.0, 0.0, -5e-324, 1e300, 2.0**-1022])
def test_an_interval_of_one_value_gives_it_only(low):
    """high = low + 1 ulp: half of the draws round to high."""
    weights = fill(17, (1000,), Uniform(low, math.nextafter(low, math.inf)))
    assert (weights == low).all()


@settings(max_examples=300)
@given(
    st.floats(-400, 400),
    st.floats(2.0**-30, 8),
    st.sampled_from(DTYPES),
    st.sampled_from(EDGE_DRAWS) | WORDS,
)
def test_any_interval_holds_or_is_refused(low, width, dtype, draw):
    """A clamp that is off by one value, skipped where needed, or refuses an interval that holds values."""
    high = low + width
    form = reference.FORMATS[dtype]
    assume(low < high and max(abs(low), abs(high)) <= form.largest)
    content = Uniform(low, high)
    if reference.interval(low, high, form) is None:
        with pytest.raises(DistributionError, match=f"no {dtype} value"):
            fill(17, (1,), content, dtype=dtype)
        return
    expected = reference.uniform_weight(draw, low, high, form)
    found = drawn(content, draw, dtype)
    assert (found, math.copysign(1, found)) == (expected, math.copysign(1, expected))
    assert low <= found < min(high, as_dtype(high, dtype))


@settings(max_examples=300)
@given(st.floats(0, 448, exclude_min=True), st.sampled_from(DTYPES), st.sampled_from(EDGE_DRAWS) | WORDS)
def test_any_limit_holds_or_is_refused(limit, dtype, draw):
    """The same for fan-scaled weights: -limit is allowed, limit is not."""
    form = reference.FORMATS[dtype]
    content = CenteredUniform(limit)
    if reference.interval(-limit, limit, form) is None:
        with pytest.raises(DistributionError, match=f"no {dtype} value"):
            fill(17, (1,), content, dtype=dtype)
        return
    expected = reference.centered_weight(draw, limit, form)
    found = drawn(content, draw, dtype)
    assert (found, math.copysign(1, found)) == (expected, math.copysign(1, expected))
    assert -limit <= found < min(limit, as_dtype(limit, dtype))


REFUSED = [
    (Uniform, (1.0, 1.0), "float64", "low < high"),
    (Uniform, (0.0, -0.0), "float64", "low < high"),
    (Uniform, (2.0, 1.0), "float64", "low < high"),
    (Uniform, (math.nan, 1.0), "float64", "low must be finite"),
    (Uniform, (0.0, math.nan), "float64", "high must be finite"),
    (Uniform, (-1.7e308, 1.7e308), "float64", "not an interval"),
    (Uniform, (0.0, math.inf), "float64", "high must be finite"),
    (Uniform, (-math.inf, 0.0), "float64", "low must be finite"),
    (CenteredUniform, (-1.0,), "float64", "limit must be finite and >= 0"),
    (CenteredUniform, (math.nan,), "float64", "limit must be finite and >= 0"),
    (CenteredUniform, (math.inf,), "float64", "limit must be finite"),
    (CenteredUniform, (65505.0,), "float16", "range of float16"),
    (CenteredUniform, (448.5,), "float8_e4m3fn", "range of float8_e4m3fn"),
    (CenteredUniform, (57345.0,), "float8_e5m2", "range of float8_e5m2"),
    (CenteredUniform, (3.4028235e38,), "float32", "range of float32"),
    (CenteredUniform, (3.38e38,), "bfloat16", None),
    (CenteredUniform, (3.39e38,), "bfloat16", "range of bfloat16"),
    (Uniform, (-70000.0, 0.0), "float16", "range of float16"),
    (Constant, (65520.0,), "float16", "range of float16"),
    (Constant, (math.nan,), "float32", "value must be finite"),
    (Constant, (math.inf,), "float64", "value must be finite"),
    (Uniform, (1.0001, 1.0002), "bfloat16", "no bfloat16 value"),
    (Uniform, (1.0001, 1.0002), "float32", None),
    (Uniform, (1e-300, 2e-300), "float32", "no float32 value"),
    (CenteredUniform, (1e-300,), "float32", "no float32 value"),
    (CenteredUniform, (5e-324,), "float64", None),
]


@pytest.mark.parametrize(("cls", "parameters", "dtype", "reason"), REFUSED, ids=repr)
def test_what_a_dtype_cannot_hold_is_refused_before_anything_is_written(cls, parameters, dtype, reason):
    """An inf or NaN stored, or a bound outside the interval stored because nothing lies inside."""
    target = np.full(8, 0x5A, NUMPY[dtype] if dtype == "float64" else f"u{NUMPY[dtype].itemsize}").view(
        NUMPY[dtype]
    )
    before = target.tobytes()
    if reason is None:
        fill(17, (8,), cls(*parameters), dtype=dtype, out=target)
        assert target.tobytes() != before
        return
    with pytest.raises(ValueError, match=reason):
        fill(17, (8,), cls(*parameters), dtype=dtype, out=target)
    assert target.tobytes() == before


def test_a_limit_of_zero_is_positive_zero_everywhere():
    """-0.0 as a spread counts as 0, and gives no -0.0 weights."""
    for limit in (0.0, -0.0):
        for dtype in DTYPES:
            assert not bits_of(fill(17, (50,), CenteredUniform(limit), dtype=dtype)).any(), (limit, dtype)


# ---- the host's floating-point environment -----------------------------------------------------------


def hostile_fills():
    return [
        fill(state, (200,), content, dtype=dtype)
        for content in CONTENTS[1:]
        for dtype in DTYPES
        for state in (17, reference.state_before(0), reference.state_before(2**64 - 1))
    ]


@pytest.mark.parametrize("mode", host.ROUNDING)
def test_a_hosts_rounding_mode_changes_no_weight_and_is_restored(mode):
    """Under another mode nearly every weight would differ, and the interval's clamp with them."""
    expected = hostile_fills()
    with host.rounding(mode):
        found = hostile_fills()
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert_bits(one, bits_of(other), f"fill {i} of hostile_fills, rounding {mode}")


def subnormal_fills():
    return [
        fill(17, (200,), CenteredUniform(1e-310)),
        fill(17, (200,), CenteredUniform(1e-300)),
        fill(17, (200,), Uniform(0.0, 1e-310)),
        fill(17, (200,), CenteredUniform(1e-40), dtype="float32"),
        fill(17, (200,), Uniform(-1e-42, 1e-41), dtype="float32"),
        fill(17, (200,), CenteredUniform(1e-40), dtype="bfloat16"),
        fill(17, (200,), CenteredUniform(1e-6), dtype="float16"),
        fill(17, (200,), Constant(1e-310)),
    ]


def test_a_hosts_flush_to_zero_changes_no_weight_and_is_restored():
    """Some libraries turn it on when loaded: subnormal weights would be stored as 0."""
    expected = subnormal_fills()
    with host.flushing():
        found = subnormal_fills()
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert_bits(one, bits_of(other), f"fill {i} of subnormal_fills, flushing")
        assert bits_of(other).any()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_few_columns_of_fresh_memory_are_not_backed_by_huge_pages():
    """8 KiB of weights, 512 KiB apart, that make the system back a quarter of a gigabyte."""
    hugepages = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not hugepages.exists() or "[madvise]" not in hugepages.read_text():
        pytest.skip("huge pages are not given by advice here")

    def resident():
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * mmap.PAGESIZE

    memory = mmap.mmap(-1, 1 << 28, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    target = np.frombuffer(memory, np.float32).reshape(512, -1)[:, :4]
    before = resident()
    fastinit.random(None, 17, out=target)
    assert resident() - before < 1 << 25
