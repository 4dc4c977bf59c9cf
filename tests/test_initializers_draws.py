"""What the initializers draw: measured variances, consumed draws, constructions of the stream's own normals."""

import math

import numpy as np
import pytest
import reference
import reference_quantile
from bits import DTYPES, NUMPY, assert_bits, bits_of, patterns
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from memory import targets

import fastinit
from fastinit import Plan, PlannedTensor, initializers
from fastinit._engine import distributions
from fastinit._engine.dtypes import BY_NAME
from fastinit.initializers import (
    DeltaOrthogonal,
    DepthScaled,
    MuP,
    Normal,
    Orthogonal,
    Residual,
    Scaled,
    Sparse,
    TruncatedNormal,
    VarianceScaling,
    kaiming,
    lecun,
    xavier,
)

TRUNCATED_STD = 0.87962566103423978
KURTOSIS = {"uniform": 1.8, "normal": 3.0, "truncated_normal": 2.3656}
"""E[x^4] / E[x^2]^2: the variance of a measured variance is (kurtosis - 1) / n, relative to its square."""

LARGE = 10**7
SHAPES = [
    ((2500, 4000), "io", 1),
    ((4000, 2500), "oi", 1),
    ((25, 25, 100, 160), "hwio", 1),
    ((160, 25, 50, 50), "oihw", 4),
    ((160, 100, 25, 25), "iohw", 1),
    ((160, 25, 50, 50), "Iohw", 4),
    ((10, 1000, 1000), "eio", 1),
    ((100, 100, 1000), "iow", 1),
]


def measured(weights):
    """Mean and variance about 0, in float64, without a second array of ten million."""
    flat = weights.reshape(-1)
    total = square = 0.0
    for begin in range(0, flat.size, 1 << 20):
        part = flat[begin : begin + (1 << 20)].astype(np.float64)
        total += part.sum()
        square += part @ part
    return total / flat.size, square / flat.size


def assert_variance(weights, variance, distribution):
    mean, found = measured(weights)
    error = math.sqrt((KURTOSIS[distribution] - 1) / weights.size)
    assert abs(mean) < 5 * math.sqrt(variance / weights.size)
    assert found / variance == pytest.approx(1, abs=5 * error)


def fan_of(mode, shape, layout, groups):
    fan_in, fan_out = fastinit.fans(shape, layout, groups)
    return {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]


@pytest.mark.parametrize("distribution", initializers.DISTRIBUTIONS)
@pytest.mark.parametrize(("shape", "layout", "groups"), SHAPES)
def test_the_variance_is_the_promised_one_for_every_layout(shape, layout, groups, distribution):
    """On 10^7 weights, within five standard errors: a factor of 0.8796, a fan or a gain that is off."""
    assert math.prod(shape) == LARGE
    for mode in ("fan_in", "fan_out"):
        initializer = VarianceScaling(0.7, mode, distribution)
        weights = fastinit.initialize(shape, 17, initializer, layout=layout, groups=groups, dtype="float32")
        assert_variance(weights, 0.7 / fan_of(mode, shape, layout, groups), distribution)


@pytest.mark.parametrize("distribution", initializers.DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_variance_is_the_promised_one_in_every_dtype(dtype, distribution):
    for make in (xavier, kaiming, lecun):
        initializer = make(distribution)
        weights = fastinit.initialize((2500, 4000), 18, initializer, dtype=dtype)
        assert_variance(weights, initializer.scale / fan_of(initializer.mode, (2500, 4000), "io", 1), distribution)


def values_of(dtype):
    """Every finite value of a float8, ascending, the two zeros as one."""
    every = np.arange(256, dtype=np.uint8).view(NUMPY[dtype]).astype(np.float64)
    return np.unique(every[np.isfinite(every)])


@pytest.mark.parametrize("distribution", initializers.DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_the_variance_in_float8_is_that_of_the_rounded_distribution(dtype, distribution):
    """Rounding to a few bits changes the variance: the exact one is a sum over the dtype's values."""
    content = VarianceScaling(0.4, "fan_in", distribution).for_shape((2, LARGE // 2))
    values = values_of(dtype)
    if distribution == "uniform":
        lo, hi = reference.interval(-content.limit, content.limit, reference.FORMATS[dtype])

        def below(x):
            return min(max((x / content.limit + 1) / 2, 0.0), 1.0)
    else:
        lo, hi = (-2 * content.std, 2 * content.std) if distribution == "truncated_normal" else (-np.inf, np.inf)
        lo, hi = (float(np.float64(x).astype(NUMPY[dtype])) if np.isfinite(x) else x for x in (lo, hi))
        tail = math.erfc(math.sqrt(2)) / 2 if distribution == "truncated_normal" else 0.0

        def below(x):
            return min(max((math.erfc(-x / content.std / math.sqrt(2)) / 2 - tail) / (1 - 2 * tail), 0.0), 1.0)

    edges = [below(x) for x in (values[:-1] + values[1:]) / 2]
    share = np.diff([0.0, *edges, 1.0])
    stored = np.clip(values, lo, hi)
    weights = fastinit.initialize((2, LARGE // 2), 19, VarianceScaling(0.4, "fan_in", distribution), dtype=dtype)
    variance, fourth = float(share @ stored**2), float(share @ stored**4)
    _, found = measured(weights)
    assert found == pytest.approx(variance, abs=5 * math.sqrt((fourth - variance**2) / LARGE))


@pytest.mark.parametrize(
    ("initializer", "shape", "std"),
    [
        (xavier("normal"), (784, 10), 0.0502),
        (xavier("normal"), (10, 10), 0.3162),
        (kaiming("normal"), (784, 10), 0.0505),
        (kaiming("normal"), (10, 10), 0.447),
        (Residual(Normal(std=0.02), 12), (768, 768), 0.0040825),
    ],
)
def test_known_layers_have_their_standard_deviations(initializer, shape, std):
    weights = fastinit.initialize(shape, 17, initializer)
    assert weights.std() == pytest.approx(std, rel=5 / math.sqrt(2 * weights.size))


def test_the_second_texts_network_consumes_a_draw_a_weight():
    rng = fastinit.SplitMix64(17)
    fastinit.xavier_normal((784, 10), rng)
    assert rng.state == reference.advanced(17, 7840)
    fastinit.xavier_normal((10, 10), rng)
    assert rng.state == reference.advanced(17, 7940)


EQUAL = [
    ("xavier_normal", (), Normal(std=math.sqrt(2 / 12))),
    ("kaiming_normal", (), Normal(std=math.sqrt(2 / 5))),
    ("kaiming_normal", ("linear", None, "fan_out"), Normal(std=math.sqrt(1 / 7))),
    ("lecun_normal", (), Normal(std=math.sqrt(1 / 5))),
    ("xavier_truncated_normal", (), TruncatedNormal(std=math.sqrt(2 / 12) / TRUNCATED_STD)),
    ("kaiming_truncated_normal", (), TruncatedNormal(std=math.sqrt(2 / 5) / TRUNCATED_STD)),
    ("lecun_truncated_normal", (), TruncatedNormal(std=math.sqrt(1 / 5) / TRUNCATED_STD)),
    ("variance_scaling", (), TruncatedNormal(std=math.sqrt(1 / 5) / TRUNCATED_STD)),
]


@pytest.mark.parametrize(("name", "arguments", "same"), EQUAL, ids=[name for name, *_ in EQUAL])
@pytest.mark.parametrize("dtype", DTYPES)
def test_named_schemes_are_the_plain_distributions_at_their_spread(name, arguments, same, dtype):
    rng = fastinit.SplitMix64(17)
    weights = getattr(fastinit, name)((5, 7), rng, *arguments, dtype=dtype)
    assert_bits(weights, bits_of(fastinit.initialize((5, 7), 17, same, dtype=dtype)), name)
    assert rng.state == reference.advanced(17, 35)


@pytest.mark.parametrize("initializer", [Normal(0.5, 0.0), TruncatedNormal(0.5, 0.0), kaiming("normal")])
def test_a_spread_of_zero_gives_the_mean_and_takes_its_draws(initializer):
    rng = fastinit.SplitMix64(17)
    weights = fastinit.initialize((3, 4), rng, Scaled(initializer, 0.0))
    assert not weights.any()
    assert rng.state == reference.advanced(17, 12)


# ---- constructions -----------------------------------------------------------------------------------

BUILT = [
    (Orthogonal(1.5), (6, 4), "io"),
    (Orthogonal(), (3, 4, 2, 2), "oihw"),
    (DeltaOrthogonal(), (4, 2, 3), "oiw"),
    (Sparse(0.25, 0.5), (5, 7), "io"),
]


@pytest.mark.parametrize(("initializer", "shape", "layout"), BUILT)
def test_a_construction_consumes_the_whole_tensors_draws(initializer, shape, layout):
    """A rank that asks for one row, or for nothing, must stay in step with the others."""
    for index in (None, 0, slice(0, 0), ...):
        rng = fastinit.SplitMix64(17)
        fastinit.initialize(shape, rng, initializer, layout=layout, index=index)
        assert rng.state == reference.advanced(17, math.prod(shape))


@settings(max_examples=100)
@given(st.data())
def test_a_part_of_a_construction_is_that_part_in_any_memory(data):
    """C4, and one rounding of the float64 result, for every dtype."""
    initializer, shape, layout = data.draw(st.sampled_from(BUILT))
    dtype = data.draw(st.sampled_from(DTYPES))
    index = data.draw(st.none() | hnp.basic_indices(shape, allow_ellipsis=True))
    whole = fastinit.initialize(shape, 17, initializer, layout=layout)
    part = np.asarray(whole[... if index is None else index])
    form = reference.FORMATS[dtype]
    expected = patterns([reference.narrowed(float(x), form) for x in part.flat], dtype, part.shape)
    target = data.draw(targets(part.shape, NUMPY[dtype]))
    fastinit.initialize(shape, 17, initializer, layout=layout, out=target.array, index=index)
    assert_bits(target.array, expected, f"{initializer} {shape}, index {index}, {target}")
    target.assert_guards()


@pytest.mark.parametrize("shape", [(5, 5), (9, 4), (4, 9), (1, 6), (300, 200)])
def test_orthogonal_is_q_of_the_streams_normals(shape):
    x = fastinit.normal(shape, 17)
    q, r = np.linalg.qr(x if shape[0] >= shape[1] else x.T)
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    found = fastinit.orthogonal(shape, 17)
    assert np.allclose(found, q if shape[0] >= shape[1] else q.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "error"), [("float64", 1e-12), ("float32", 1e-6), ("bfloat16", 4e-3)])
def test_a_thousand_orthogonal_rows(dtype, error):
    """TF#22226: Q Q^T - I of 1e-2 for 1000 x 1000."""
    weights = fastinit.orthogonal((1000, 1000), 17, dtype=dtype).astype(np.float64)
    assert np.abs(weights @ weights.T - np.eye(1000)).max() < error


def test_delta_orthogonal_uses_the_draws_of_its_tap():
    x = fastinit.normal((3, 4, 6), 17)[1]
    weights = fastinit.delta_orthogonal((3, 4, 6), 17, layout="wio")
    q, r = np.linalg.qr(x.T)
    assert np.allclose(weights[1], (q * np.where(np.diag(r) < 0, -1.0, 1.0)).T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_survivors_of_sparse_are_the_normals_they_would_have_been(dtype):
    weights = fastinit.sparse((40, 30), 17, 0.3, 0.5, dtype=dtype)
    plain = fastinit.normal((40, 30), 17, 0.0, 0.5, dtype=dtype)
    found, expected = bits_of(weights), bits_of(plain)
    zeroed = found != expected
    assert (found[zeroed] == 0).all()
    assert ((weights == 0).sum(axis=0) >= 12).all()
    assert (zeroed.sum(axis=0) <= 12).all()


def test_sparse_survivors_are_unbiased():
    weights = fastinit.sparse((1000, 1000), 17, 0.5, 1.0)
    assert ((weights == 0).sum(axis=0) == 500).all()
    kept = weights[weights != 0]
    assert abs(kept.mean()) < 5 / math.sqrt(kept.size)
    assert kept.var() == pytest.approx(1, abs=5 * math.sqrt(2 / kept.size))


def test_orthogonal_traces_of_neighbouring_streams_are_haar():
    """E[trace] = 0 and E[trace**2] = 1, over the matrices of one stack."""
    count = 20_000
    stack = fastinit.orthogonal((count, 4, 4), 17, layout="eio")
    trace = np.trace(stack, axis1=1, axis2=2)
    assert abs(trace.mean()) < 5 / math.sqrt(count)
    assert abs((trace**2).mean() - 1) < 5 * math.sqrt(2 / count)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_construction_that_is_interrupted_leaves_everything_as_it_was(monkeypatch, error):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(np.linalg, "qr", fail)
    rng, out = fastinit.SplitMix64(17), np.full((4, 4), 7.0)
    with pytest.raises(fastinit.AllocationFailed if error is MemoryError else error):
        fastinit.orthogonal((4, 4), rng, out=out)
    assert rng.state == 17
    assert (out == 7).all()


# ---- whole models ------------------------------------------------------------------------------------


def test_a_plan_and_its_checkpoint_hold_every_random_content(tmp_path):
    entries = [
        *BUILT,
        (xavier("normal"), (3, 4), "io"),
        (kaiming("truncated_normal"), (3, 4), "io"),
        (Residual(Normal(std=0.02), 12), (3, 4), "io"),
        (DepthScaled(Orthogonal(), 3), (3, 4), "io"),
        (MuP((2, 2), xavier("normal")), (3, 4), "io"),
    ]
    tensors, state = [], 17
    for number, (initializer, shape, layout) in enumerate(entries):
        for dtype in ("float32", "bfloat16"):
            content = initializer.for_shape(shape, layout)
            name = f"{dtype}.{number}"
            tensors.append(PlannedTensor(name, shape, BY_NAME[dtype], initializer.name, content, state))
            state = reference.advanced(state, tensors[-1].draws)
    plan = Plan(17, "own", "sequential", tensors)
    assert Plan.from_json(plan.to_json()) == plan
    rng = fastinit.SplitMix64(17)
    for tensor in tensors:
        initializer, shape, layout = entries[int(tensor.name.split(".")[1])]
        expected = fastinit.initialize(shape, rng, initializer, layout=layout, dtype=tensor.dtype.name)
        assert_bits(plan.array(tensor.name), bits_of(expected), tensor.name)
    fastinit.write_checkpoint(plan, tmp_path / "w.safetensors")
    assert fastinit.verify_checkpoint(tmp_path / "w.safetensors")


def test_infinite_bounds_are_the_normal():
    found = fastinit.truncated_normal((50, 50), 17, 0.5, 0.25, -math.inf, math.inf)
    assert_bits(found, bits_of(fastinit.normal((50, 50), 17, 0.5, 0.25)), "infinite bounds")
    content = TruncatedNormal(0.5, 0.25, -math.inf, 3.0).for_shape((2, 2))
    assert content == distributions.TruncatedNormal(0.5, 0.25, -math.inf, 3.0)


# ---- public reports: what users of other libraries ran into ---------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_extreme_draws_are_finite(dtype):
    """tinygrad PR#1192: a draw of 0 became log(0), an infinite weight. |z| never passes 8.2924 here."""
    for k in (0, 1, 2**53 - 2, 2**53 - 1):
        weight = fastinit.normal((1,), reference_quantile.state_for(k), dtype=dtype).astype(np.float64)
        assert 8.0 <= abs(weight[0]) <= 8.5


def test_bfloat16_normals_keep_their_tails():
    """pytorch#166853: tails that end near 3.5. The counts are binomial; float32 weights agree but for rounding."""
    n = 4_000_000
    weights = fastinit.normal((n,), 17, dtype="bfloat16").astype(np.float64)
    for bound, half_a_step in ((3.5, 2**-7), (4.0, 2**-7), (4.5, 2**-6)):
        mass = n * math.erfc((bound - half_a_step) / math.sqrt(2))  # from where weights round up to the bound
        assert abs((np.abs(weights) >= bound).sum() - mass) < 5 * math.sqrt(mass)
    wide = fastinit.normal((n,), 17, dtype="float32").astype(np.float64)
    assert (np.abs(weights - wide) <= 2**-8 * np.abs(wide) * (1 + 2**-8)).all()


@pytest.mark.parametrize("function", [fastinit.normal, fastinit.truncated_normal])
@pytest.mark.parametrize("n", [15, 16, 17])
def test_a_longer_or_narrower_tensor_has_the_same_normals(function, n):
    """pytorch#79703: from 16 elements on, float32 and float64 were unrelated."""
    longest = function((40,), 0)
    assert function((n,), 0).tolist() == longest[:n].tolist()
    assert function((n,), 0, dtype="float32").tolist() == longest[:n].astype(np.float32).tolist()


@pytest.mark.parametrize("function", [fastinit.normal, fastinit.truncated_normal])
def test_a_transposed_target_has_the_same_normals(function):
    """pytorch#80041: memory order decided which weight got which draw."""
    plain, transposed = np.empty((64, 64)), np.empty((64, 64)).T
    function(None, 42, out=plain)
    function(None, 42, out=transposed)
    assert np.array_equal(plain, transposed)


@pytest.mark.parametrize(
    ("dtype", "shape", "std", "largest"),
    [
        ("bfloat16", (10, 500), 0.02, 0.12),  # torchtitan#2269: -2.0 appeared, the mean was -0.0084
        ("float32", (4000, 500), 0.001, 0.01),  # pytorch#155588: 2.0, two thousand standard deviations out
        ("float32", (4000, 500), 0.02, 0.04),  # fms#289: bounds of -2 and 2 truncated nothing
    ],
)
def test_truncation_is_in_standard_deviations(dtype, shape, std, largest):
    weights = fastinit.truncated_normal(shape, 17, 0.0, std, dtype=dtype).astype(np.float64)
    assert np.abs(weights).max() <= min(largest, 2 * std * (1 + 2**-8))
    assert abs(weights.mean()) < 5 * std / math.sqrt(weights.size)
    assert abs(weights.std() / std - 0.8796) < 5 / math.sqrt(weights.size)


@pytest.mark.parametrize(
    ("shape", "mean", "std", "lower", "upper"),
    [
        ((10000, 32), 0.0, 1.0, -100.0, 100.0),  # jax#4559: -inf
        ((10000,), 0.5382424, 0.05, (0.80921564 - 0.5382424) / 0.05, (0.86921564 - 0.5382424) / 0.05),
    ],
    ids=["jax#4559", "tensorflow/probability#1844"],  # the second: NaN
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_wide_and_far_bounds_give_finite_weights_inside(shape, mean, std, lower, upper, dtype):
    weights = fastinit.truncated_normal(shape, 2, mean, std, lower, upper, dtype=dtype)
    assert np.isfinite(weights).all()
    assert mean + std * lower <= weights.min() < weights.max() <= mean + std * upper


def test_normals_past_two_to_the_31_are_drawn():
    """pytorch#17898: a tensor of 65536 x 32768 whose far end stayed 0."""
    corner = fastinit.normal((65536, 32768), 17, index=(slice(65534, None), slice(32765, None)))
    draws = [[row * 32768 + column for column in range(32765, 32768)] for row in (65534, 65535)]
    expected = [[reference_quantile.quantile(reference.draw(17, i) >> 11) for i in row] for row in draws]
    assert corner.tolist() == expected
