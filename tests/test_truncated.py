"""The truncated normal (C10): error against mpmath, bounds, order, bits on every level, set-up constants."""

import decimal
import math
import random
import struct
from fractions import Fraction

import host
import ml_dtypes
import mpmath
import numpy as np
import pytest
import reference_quantile as reference
from mpmath import mp, mpf

import fastinit
from fastinit import _core
from fastinit._engine.distributions import Normal, TruncatedNormal
from fastinit._engine.fill import fill
from fastinit._engine.truncation import _constants, constants, standard_bounds
from fastinit.errors import DistributionError

K_LIMIT = 2**53
INF = math.inf
NEAR = [
    (-2.0, 2.0),
    (-1.0, INF),
    (-INF, 0.5),
    (4.5, INF),
    (4.99999, 5.5),
    (0.5, 0.6),
    (-0.1, 8.5),
    (3.0, 7.0),
    (2.0, 2.0 + 2.0**-40),
    (-5.0, 5.0),
    (-9.0, -4.9),
    (-1e-3, 1e-3),
    (-30.0, 1e300),
    (0.0, 1e-200),
    (0.0, 5e-324),
]
FAR = [
    (5.25, 1e6),
    (5.0, INF),
    (5.0, 5.0001),
    (30.0, 31.0),
    (-40.0, -39.0),
    (-INF, -7.5),
    (1000.0, INF),
    (1e6, 1e6 + 1),
    (1e9, INF),
    (1e160, INF),
]


def zs(ks, lower, upper):
    content = TruncatedNormal(0.0, 1.0, lower, upper)
    return np.array([fill(reference.state_for(k), (1,), content)[0] for k in ks])


def some_ks(seed, n):
    rng = random.Random(seed)
    ks = [0, 1, 2, K_LIMIT - 1, K_LIMIT - 2, *(rng.getrandbits(53) for _ in range(n))]
    small = [rng.getrandbits(rng.randrange(1, 54)) for _ in range(n)]
    return ks + small + [K_LIMIT - 1 - k for k in small]


def upper_tail(x):
    return mpf(0) if x > 10**10 else mpmath.erfc(x / mpmath.sqrt(2)) / 2


def excess(z, k, lower, upper):
    """z minus the target, by Newton's iteration from z, in logarithms of the tail it lies in."""
    with mp.workdps(60):
        mirrored = z < 0
        low, high = (-mpf(upper), -mpf(lower)) if mirrored else (mpf(lower), mpf(upper))
        share = mpf(2 * k + 1) / 2**54
        share = share if mirrored else 1 - share  # of the mass, beyond the target
        target = mpmath.log(upper_tail(high) + (upper_tail(low) - upper_tail(high)) * share)
        root = mpf(abs(z))
        for _ in range(5):
            q = upper_tail(root)
            root += (mpmath.log(q) - target) * q * mpmath.sqrt(2 * mp.pi) * mpmath.exp(root * root / 2)
        return float(mpf(abs(z)) - min(max(root, low), high))


@pytest.mark.parametrize(("lower", "upper"), [bounds for bounds in NEAR + FAR if bounds[0] < 1e100])
def test_error_is_bounded(lower, upper):
    """A tail taken from 1, a constant rounded twice, an iteration stopped early."""
    ks = some_ks(1, 40)
    for k, z in zip(ks, zs(ks, lower, upper), strict=True):
        allowed = 4 * max(float(np.spacing(abs(z))), 2.0**-52)
        assert abs(excess(float(z), k, lower, upper)) <= allowed, f"k = {k}, z = {z}"


@pytest.mark.parametrize(("lower", "upper"), NEAR + FAR)
def test_bounds_hold_and_order_is_kept(lower, upper):
    ks = sorted(some_ks(2, 150))
    found = zs(ks, lower, upper)
    assert (found >= lower).all()
    assert (found <= upper).all()
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize(("lower", "upper"), NEAR)
def test_neighbours_are_in_order(lower, upper):
    """Where a join lies under the interval, and where draws lie closer than float64s do."""
    rng = random.Random(3)
    low_tail, high_tail, width, split = constants(lower, upper)
    ks = [rng.randrange(K_LIMIT - 1) for _ in range(100)]
    ks += [max(0, min(K_LIMIT - 2, int(split) + i)) for i in range(-5, 5)]
    for t in [1 - math.sqrt(1 - 2.0**-8), *(p * 2.0**-e for e in range(1, 30) for p in (1.0, 1.5))]:
        for tail, sign in ((low_tail, 1), (high_tail, -1)):
            steps = (t - tail) / width / 2 if width else -1.0
            if 0 < steps < K_LIMIT - 20:
                k = int(steps) if sign > 0 else K_LIMIT - 2 - int(steps)
                ks += range(max(0, k - 8), min(K_LIMIT - 1, k + 8))
    assert (zs(ks, lower, upper) <= zs([k + 1 for k in ks], lower, upper)).all()


def test_two_sided_quantile_has_no_step_down_at_its_joins():
    """The cut between centre and tail, which no edge of a segment marks, and y's edges, taken by every t."""
    cuts = [1 - math.sqrt(1 - p * 2.0**-e) for e in range(1, 9) for p in (1.0, 1.5)]
    for cut in [*cuts, *(p * 2.0**-e for e in range(10, 76) for p in (1.0, 1.5))]:
        t = cut * (1 - 2.0**-46)
        values = []
        for _ in range(300):
            values.append(reference.two_sided(t))
            t = math.nextafter(t, 1)
        assert values == sorted(values, reverse=True), f"near t = {cut}"


@pytest.mark.parametrize("level", [name for name, here in _core.levels().items() if here])
@pytest.mark.parametrize(("lower", "upper"), NEAR + FAR)
def test_the_list_replays_bit_for_bit(level, lower, upper):
    replay = reference.far if lower >= 5 or upper <= -5 else reference.near
    ks = some_ks(4, 12)
    expected = [0.25 + 1.5 * replay(k, lower, upper, constants(lower, upper)) for k in ks]
    before = _core.simd_level()
    _core.select_level(level)
    content = TruncatedNormal(0.25, 1.5, lower, upper)
    found = (
        [fill(reference.state_for(k), (1,), content)[0] for k in ks]
        if max(map(abs, expected)) < 1e300
        else expected
    )
    _core.select_level(before)
    assert found == expected


@pytest.mark.parametrize(("lower", "upper"), NEAR + FAR)
def test_constants_are_correctly_rounded(lower, upper):
    """mpmath at more digits than decimal had."""
    with mp.workdps(500):
        if lower >= 5 or upper <= -5:
            a, b = (lower, upper) if lower >= 5 else (-upper, -lower)
            if a > 1e4:
                return  # mpmath's erfc takes too long out there
            ratio = mpmath.erfc(mpf(b) / mpmath.sqrt(2)) / mpmath.erfc(mpf(a) / mpmath.sqrt(2))
            density = mpmath.exp(-(mpf(a) ** 2) / 2) / mpmath.sqrt(2 * mp.pi)
            expected = (a, ratio, 1 - ratio, mpmath.erfc(mpf(a) / mpmath.sqrt(2)) / 2 / density)
        else:
            low_tail = mpmath.erfc(-mpf(lower) / mpmath.sqrt(2))
            high_tail = 2 * upper_tail(mpf(upper))
            mass = 1 - low_tail / 2 - high_tail / 2
            split = min(max(mpmath.nint((1 - low_tail) / 2 / mass * 2**53), 0), 2**53)
            expected = (low_tail, high_tail, mass / 2**53, split)
        for found, wanted in zip(constants(lower, upper), expected, strict=True):
            spacing = mpf(math.ulp(found))
            assert abs(mpf(found) - wanted) <= spacing / 2


def test_far_tail_of_the_contract():
    z = fill(1, (4000,), TruncatedNormal(0.0, 1.0, 5.25, 1e6))
    assert 5.40 < z.mean() < 5.45
    z = fill(1, (4000,), TruncatedNormal(0.0, 1.0, -40.0, -39.0))
    assert -39.1 < z.mean() < -39.02


def test_moments():
    """The standard deviation of the normal truncated at 2 is 0.87962566103423978."""
    n = 4 * 10**6
    z = fill(7, (n,), TruncatedNormal(0.0, 1.0, -2.0, 2.0))
    assert abs(z.mean()) < 5 * 0.88 / n**0.5
    assert abs(z.std() / 0.87962566103423978 - 1) < 5 / n**0.5


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(("mean", "std", "lower", "upper"), [(0.0, 1.0, -0.7, 0.3), (0.1, 0.3, -2.0, 2.0)])
def test_bounds_hold_in_every_dtype(dtype, mean, std, lower, upper):
    """Rounding a weight near a bound to the far side of it."""
    w = fill(3, (1 << 18,), TruncatedNormal(mean, std, lower, upper), dtype=dtype).astype(np.float64)
    assert mean + std * lower <= w.min() < w.max() <= mean + std * upper


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize(("lower", "upper"), [(-2.0, 2.0), (-1.0, INF), (5.25, 1e4)])
def test_narrow_weights_are_the_float64_ones_rounded_once(dtype, lower, upper):
    content = TruncatedNormal(0.0, 0.75, lower, upper)
    kinds = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float8_e5m2": ml_dtypes.float8_e5m2}
    wide, kind = fill(8, (999,), content), kinds[dtype]
    found = fill(8, (999,), content, dtype=dtype).astype(np.float64)
    for w, narrow in zip(wide, found, strict=True):
        below, above = (float(np.nextafter(kind(narrow), kind(to))) for to in (-INF, INF))
        assert abs(Fraction(w) - Fraction(narrow)) <= min(
            abs(Fraction(w) - Fraction(below)), abs(Fraction(w) - Fraction(above))
        )


def test_infinite_bounds_are_the_normal():
    whole = TruncatedNormal(0.3, 2.0, -INF, INF)
    assert fill(5, (777,), whole).tobytes() == fill(5, (777,), Normal(0.3, 2.0)).tobytes()


@pytest.mark.parametrize(
    ("lower", "upper"), [(2.0, -2.0), (1.0, 1.0), (math.nan, 1.0), (0.0, math.nan), (INF, INF)]
)
def test_refuses_what_is_no_interval(lower, upper):
    with pytest.raises(DistributionError, match="lower < upper"):
        TruncatedNormal(0.0, 1.0, lower, upper)


def test_refuses_bounds_beyond_the_range_and_empty_intervals():
    with pytest.raises(DistributionError, match="finite range"):
        fill(1, (2,), TruncatedNormal(0.0, 1.0, 5.25, 1e6), dtype="float16")
    with pytest.raises(DistributionError, match="no float16 value"):
        fill(1, (2,), TruncatedNormal(1.0, 1e-6, 1.0, 2.0), dtype="float16")
    with pytest.raises(ValueError, match="std must be finite and >= 0"):
        TruncatedNormal(0.0, -1.0, -2.0, 2.0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(
    ("mean", "std", "bound"), [(1.0, 1e-4, 0.5), (1.0, 0.02, 1.0), (0.0, 1e-6, 1.0), (1e-9, 1e-12, 2.0)]
)
def test_a_half_line_holds_values_of_every_dtype(mean, std, bound, dtype):
    """[low, inf) refused as empty, since its furthest draw rounds to a value below low; and its mirror image."""
    kinds = {"float32": np.float32, "float16": np.float16}
    kind = kinds[dtype] if dtype in kinds else getattr(ml_dtypes, dtype)
    low = mean + std * bound
    nearest = kind(low)
    least = (
        nearest if Fraction(float(nearest)) >= Fraction(low) else np.nextafter(nearest, ml_dtypes.finfo(kind).max)
    )
    wide = fill(17, (300,), TruncatedNormal(mean, std, bound, INF))
    above = fill(17, (300,), TruncatedNormal(mean, std, bound, INF), dtype=dtype)
    assert (above.astype(float) == np.maximum(wide.astype(kind).astype(float), float(least))).all()
    below = fill(17, (300,), TruncatedNormal(-mean, std, -INF, -bound), dtype=dtype).astype(float)
    assert (below <= -low).all()
    assert below.max() <= -float(least)


def test_a_half_line_past_the_range_is_refused():
    for bounds in [(7e4, INF), (-INF, -7e4)]:
        with pytest.raises(DistributionError, match="finite range"):
            fill(1, (2,), TruncatedNormal(0.0, 1.0, *bounds), dtype="float16")


TINY = [
    TruncatedNormal(0.0, 1e300, 1e-310, 2e-310),
    TruncatedNormal(0.0, 1e300, -3e-310, 2e-310),
    TruncatedNormal(0.0, 1e300, -1e-310, 1.0),
    TruncatedNormal(0.0, 1e-308, 1.5e308, INF),
]


@pytest.mark.parametrize("content", TINY)
def test_a_host_that_flushes_subnormals_changes_no_bound_and_no_constant(content):
    """Bounds that compare equal, a cache entry of other ones, Mills' ratio 0: zeros, or a read past a table."""
    bounds = (content.lower, content.upper)
    _constants.cache_clear()
    expected, constant = fill(5, (6,), content), constants(*bounds)
    assert any(constant)
    _constants.cache_clear()
    with host.flushing():
        constants(1e-320, 3e-320)
        found, flushed = fill(5, (6,), content), constants(*bounds)
    assert found.tobytes() == expected.tobytes()
    assert struct.pack("<4d", *flushed) == struct.pack("<4d", *constant)


@pytest.mark.parametrize("mode", host.ROUNDING)
def test_a_hosts_rounding_mode_changes_no_constant(mode):
    _constants.cache_clear()
    expected = [constants(*bounds) for bounds in NEAR + FAR]
    _constants.cache_clear()
    with host.rounding(mode):
        found = [constants(*bounds) for bounds in NEAR + FAR]
    assert found == expected


def test_constants_that_are_none_never_reach_the_tables():
    """An index of them computed from t = 0."""
    for wrong in [(0.0,) * 4, (math.nan,) * 4, (1.0, 0.0, 0.0, 0.0), (-1.0, 1.0, 0.5, 0.0)]:
        spec = _core.Spec(_core.BASES["truncated_normal"], _core.DTYPES["float64"], (0.0, 1.0, -2.0, 2.0, *wrong))
        assert spec.status == _core.NOT_AN_INTERVAL


def test_the_callers_decimal_context_has_no_say():
    """Traps that raise, three digits, another rounding: an error, or another weight."""
    bounds = [(-0.7, 0.3), (5.25, 1e6), (1.0, INF), (0.1, 0.1 + 2.0**-50)]
    _constants.cache_clear()
    expected = [constants(*pair) for pair in bounds]
    _constants.cache_clear()
    with decimal.localcontext() as context:
        context.clear_flags()
        context.prec, context.rounding, context.Emin, context.Emax = 3, decimal.ROUND_UP, -3, 3
        for signal in (decimal.FloatOperation, decimal.Inexact, decimal.Rounded, decimal.Subnormal):
            context.traps[signal] = True
        assert [constants(*pair) for pair in bounds] == expected
        assert not any(context.flags.values())


# ---- bounds in the units of the weights --------------------------------------------------------------


def cases(count):
    """(mean, std, low, high) of all magnitudes, with the mean inside and far outside."""
    rng = random.Random(17)
    for _ in range(count):
        mean = rng.choice([0.0, rng.gauss(0, 1) * 10 ** rng.uniform(-9, 9)])
        std = 10 ** rng.uniform(-9, 9)
        middle = rng.choice([mean, mean + std * rng.uniform(-9, 9), rng.gauss(0, 1)])
        bounds = sorted(middle + std * rng.gauss(0, 3) for _ in range(2))
        if bounds[0] < bounds[1]:
            yield mean, std, *bounds


def test_bounds_in_weight_units_hold_and_are_not_wasted():
    """-0.7 less 0.1, over 0.3, comes back as -0.7 or one step outside of it. numpy's arithmetic judges."""
    for mean, std, low, high in cases(20_000):
        lower, upper = standard_bounds(mean, std, low, high)
        reached = np.float64(mean) + np.float64(std) * np.array([lower, upper])
        step = max(math.ulp(mean), math.ulp(low), math.ulp(high), math.ulp(low - mean), math.ulp(high - mean))
        where = (mean, std, low, high)
        assert low <= reached[0] <= low + 3 * step, where
        assert high - 3 * step <= reached[1] <= high, where


def test_bounds_in_weight_units_at_the_ends_of_float64():
    assert standard_bounds(0.0, 0.02, -0.04, INF) == (-2.0, INF)
    assert standard_bounds(0.5, 0.25, -INF, 0.25) == (-INF, -1.0)
    assert standard_bounds(0.0, 2.0**-1074, -(2.0**-1073), 1.0) == (-2.0, math.nextafter(INF, 0.0))
    lower, upper = standard_bounds(1e308, 1e-308, -1e308, 1.5e308)
    assert lower < -1e300
    assert upper > 1e300


@pytest.mark.parametrize("mode", host.ROUNDING)
def test_a_hosts_rounding_mode_changes_no_bound(mode):
    expected = [standard_bounds(*case) for case in cases(500)]
    given = list(cases(500))
    standard_bounds.cache_clear()
    with host.rounding(mode):
        found = [standard_bounds(*case) for case in given]
    assert found == expected


def test_no_spread_is_the_mean():
    assert (fill(1, (5,), TruncatedNormal(0.1, 0.0, -2.0, 2.0), dtype="float32") == np.float32(0.1)).all()


def test_json_round_trip():
    content = TruncatedNormal(0.5, 0.02, -2.0, 2.0)
    assert TruncatedNormal.from_json(content.to_json()) == content


@pytest.mark.parametrize("bound", [0.0012245, 0.001225, 0.0017, 0.002, 0.003, 0.01, 2.0])
def test_narrow_bounds_give_one_weight_alone_and_in_a_row(bound):
    """Near 0 the quantile of a narrow interval has an absolute error: a relative bound is none there.

    The seed puts draws beside the middle, where float16's subnormals tell one last bit from another.
    """
    std, seed = float.fromhex("0x1.bc72051ad8c16p+12"), 0xEE92156B7C9B5558
    for first in (0, 5, 31):
        row = fastinit.truncated_normal((256,), seed, 0.0, std, -bound, bound, dtype="float16")
        exact = fastinit.truncated_normal((256,), seed, 0.0, std, -bound, bound)
        assert row.view("u2")[first] == np.float16(exact[first]).view("u2")
