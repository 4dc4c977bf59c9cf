"""A diagnosis must name what is wrong with a checkpoint, and stay silent where nothing is."""

import contextlib
import json
import math
import os
import sys
from fractions import Fraction
from statistics import NormalDist

import ml_dtypes
import numpy as np
import pytest
from conftest import MIXED, run_python, safetensors_bytes
from safetensors.numpy import save_file

import fastinit
from fastinit import _core
from fastinit._engine.constructions import Sparse
from fastinit._engine.distributions import CenteredUniform, Normal, TruncatedNormal, Uniform
from fastinit._engine.dtypes import BY_NAME, FLOATS
from fastinit._files.sources import read_specs
from fastinit.cli import main as cli
from fastinit.diagnosis import stored
from fastinit.diagnosis.expected import density, of_planned
from fastinit.diagnosis.judge import diagnose
from fastinit.errors import CheckpointError, PlanError
from fastinit.plan import PlannedTensor
from fastinit.views import figure as figures
from fastinit.views import pages_old as pages

NUMPY = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def summary(array, dtype, pieces=1, anchor=None):
    """The core's summary of an array's little-endian bytes, merged from so many pieces."""
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
    """Mean and sums of powers of the differences from it, of the finite values, in rational numbers."""
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
    with np.errstate(invalid="ignore"):  # of the NaNs
        peer = bits.view(NUMPY.get(dtype, dtype)).astype(np.float64)
    np.testing.assert_array_equal(values, peer)
    assert np.array_equal(np.signbit(values[values == 0]), np.signbit(peer[peer == 0]))
    found = summary(bits, dtype, anchor=0.0)
    assert found["nan"] == np.isnan(peer).sum()
    assert found["inf"] == np.isinf(peer).sum()
    assert (found["zeros"], found["at_low"], found["at_high"]) == (2, 1, 1)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e5m2"])
def test_zeros_and_extremes_are_counted_in_every_block_and_piece(dtype):
    """A count kept of the last block alone, or lost where a new extreme comes later."""
    values = np.zeros(10_000)
    values[[3, 5000, 9999]], values[[2048, 7000]], values[7] = 2.0, -3.0, -0.0
    values[100:200] = 1.0
    stored = values.astype(NUMPY.get(dtype, dtype))
    for pieces in (1, 5):
        found = summary(stored, dtype, pieces, anchor=0.0)
        assert (found["zeros"], found["at_low"], found["at_high"]) == (10_000 - 105, 2, 3)


def planned(content, shape=(100, 100), dtype="float32"):
    return PlannedTensor("w", shape, BY_NAME[dtype], content.kind, content, 17)


@pytest.mark.parametrize(("lower", "upper"), [(-2, 2), (-1, math.inf), (0.5, 3), (-9, 9), (5.25, 1e6), (-40, -39)])
def test_a_truncated_normals_moments_equal_numerical_integration(lower, upper):
    mpmath = pytest.importorskip("mpmath")
    top = min(upper, max(lower, 0) + 12)

    def moment(power, about):
        return mpmath.quad(
            lambda z: (z - about) ** power * mpmath.exp((near**2 - z * z) / 2), mpmath.linspace(lower, top, 9)
        )

    near = min(max(0.0, lower), upper)
    mass = moment(0, 0)
    mean = moment(1, 0) / mass
    variance = moment(2, mean) / mass
    found = of_planned(planned(TruncatedNormal(0.25, 2.0, lower, upper)))
    assert math.isclose(found.mean, 0.25 + 2 * mean, rel_tol=1e-9, abs_tol=1e-12)
    assert math.isclose(found.std, 2 * mpmath.sqrt(variance), rel_tol=1e-9)
    assert math.isclose(found.kurtosis, moment(4, mean) / mass / variance**2 - 3, rel_tol=1e-6, abs_tol=1e-9)


@pytest.mark.parametrize("content", [Normal(1.0, 0.5), Uniform(-1.0, 3.0), TruncatedNormal(0.0, 1.0, -1.0, 2.0)])
def test_a_density_has_mass_one(content):
    x = np.linspace(-5, 7, 200_001)
    assert math.isclose(np.trapezoid(density(content, x), x), 1, rel_tol=1e-4)


INITIALIZERS = {
    "orthogonal": (fastinit.initializers.Orthogonal(1.5), (48, 96), "oi"),
    "orthogonal kernel": (fastinit.initializers.Orthogonal(), (16, 8, 3, 3), "oihw"),
    "delta orthogonal": (fastinit.initializers.DeltaOrthogonal(), (16, 8, 3, 3), "oihw"),
    "dirac": (fastinit.initializers.Dirac(), (16, 8, 3, 3), "oihw"),
    "identity": (fastinit.initializers.Identity(2.0), (40, 30), "io"),
    "sparse": (fastinit.initializers.Sparse(0.3, 0.5), (300, 200), "io"),
    "normal": (fastinit.initializers.Normal(std=0.02), (300, 200), "io"),
    "truncated": (fastinit.initializers.TruncatedNormal(std=0.02), (300, 200), "io"),
    "lecun": (fastinit.initializers.lecun("truncated_normal"), (300, 200), "io"),
    "ones": (fastinit.initializers.ONES, (300,), None),
}


@pytest.mark.parametrize("dtype", [dtype.name for dtype in FLOATS])
@pytest.mark.parametrize("name", INITIALIZERS)
def test_what_fastinit_fills_is_what_is_expected(tmp_path, name, dtype):
    """A wrong expectation, or a bound too tight for the dtype's rounding, would accuse every good checkpoint."""
    initializer, shape, layout = INITIALIZERS[name]
    content = initializer.content(shape, layout) if layout else initializer.content(shape)
    tensor = PlannedTensor("w", shape, BY_NAME[dtype], initializer.scheme, content, 17)
    plan = fastinit.Plan(17, "own", "named", [tensor])
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(plan, path)
    found = diagnose(path)
    assert found, found.findings
    expected, measured = found.tensors[0].expected, found.tensors[0].measured
    if dtype == "float64" and expected.std and name != "identity":
        assert math.isclose(measured.std, expected.std, rel_tol=0.02)


def test_a_good_model_of_every_dtype_is_good(tmp_path):
    path = tmp_path / "mixed.safetensors"
    fastinit.write_checkpoint(fastinit.Plan.from_layout(MIXED, 17), path)
    found = diagnose(path)
    assert found, found.findings
    verdicts = {tensor.name: tensor.verdict for tensor in found.tensors}
    assert list(verdicts) == list(MIXED)
    assert verdicts["a.position_ids"] == verdicts["e.empty.weight"] == ""  # listed, not judged
    assert found.drawn == (6, 6)
    assert diagnose(path, policy="xavier", seed=18).drawn[0] == 0
    assert "NaN" not in json.dumps(found.facts(), allow_nan=False)


NARROW = {
    "uniform, clamped at both ends": (CenteredUniform(0.0255), "float8_e4m3fn"),
    "uniform, few values": (Uniform(0.9, 1.6), "float8_e5m2"),
    "uniform from a power of two": (Uniform(1.0, 1.01), "float16"),
    "normal around 1": (Normal(1.0, 0.002), "bfloat16"),
    "normal among the subnormals": (Normal(0.0, 0.004), "float8_e4m3fn"),
    "truncated, both bounds values": (TruncatedNormal(1.0, 0.125, -2.0, 2.0), "float8_e5m2"),
    "truncated to a tail": (TruncatedNormal(0.0, 1.0, 2.0, math.inf), "float8_e4m3fn"),
}


@pytest.mark.parametrize("name", NARROW)
def test_a_narrow_dtypes_moments_are_those_of_the_rounded_weights(name):
    """A large part of the weights lies where the values are far apart, and the clamp moves it one way."""
    content, dtype = NARROW[name]
    share = (np.arange(20_000) + 0.5) / 20_000
    quantile = np.vectorize(NormalDist().inv_cdf)
    low, high = -math.inf, math.inf
    match content:
        case CenteredUniform(limit):
            weights, low, high = limit * (2 * share - 1), -limit, limit
        case Uniform(low, high):
            weights = low + (high - low) * share
        case Normal(mean, std):
            weights = mean + std * quantile(share)
        case TruncatedNormal(mean, std, lower, upper):
            begin, end = NormalDist().cdf(lower), NormalDist().cdf(upper)
            weights = mean + std * quantile(begin + (end - begin) * share)
            low, high = mean + std * lower, mean + std * upper
    kind = NUMPY.get(dtype, np.float16)
    rounded = weights.astype(kind).astype(float)
    stored = np.arange(1 << (8 * BY_NAME[dtype].itemsize)).astype(f"u{BY_NAME[dtype].itemsize}").view(kind)
    stored = np.unique(stored[np.isfinite(stored.astype(np.float32))].astype(float))
    top = stored <= high if isinstance(content, TruncatedNormal) else stored < min(high, float(kind(high)))
    stored = stored[top & (stored >= low)]
    rounded = np.clip(rounded, stored[0], stored[-1])
    found = of_planned(planned(content, dtype=dtype))
    assert math.isclose(found.mean, rounded.mean(), abs_tol=1e-3 * rounded.std())
    assert math.isclose(found.std, rounded.std(), rel_tol=1e-3)
    z = (rounded - rounded.mean()) / rounded.std()
    assert math.isclose(found.kurtosis, (z**4).mean() - 3, abs_tol=2e-2)
    assert math.isclose(found.likeliest, np.unique(rounded, return_counts=True)[1].max() / 20_000, abs_tol=2e-3)


CORRECT = [
    *map(CenteredUniform, (1e-6, 0.0255, 1.3)),
    *(Uniform(*b) for b in ((1.0, 1.01), (0.9, 1.25), (0.0, 1.0), (-1.01, -1.0), (100.0, 110.0), (1.0, 1.1875))),
    *(Normal(*p) for p in ((0.0, 0.02), (1.0, 0.002), (1.0, 0.1), (1.0, 1e-9), (100.0, 1.0), (-3.0, 0.5))),
    *(TruncatedNormal(*p) for p in ((1.0, 0.1, -2.0, 2.0), (0.0, 1.0, 2.0, math.inf), (0.0, 1.0, -40.0, -39.0))),
    *(Sparse(*p) for p in ((0.3, 0.5), (0.9, 0.02), (0.99, 0.02), (1.0, 0.02))),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_no_correct_checkpoint_is_accused(tmp_path, dtype):
    """Rounding biases mean and spread, few values are equal by chance, sparse weights have heavy tails."""
    tensors = []
    for content in CORRECT:
        for shape in ((4, 4), (1, 7), (120, 100), (300, 700)):
            name = f"{content} {shape}"
            tensor = PlannedTensor(name, shape, dtype, content.kind, content, fastinit.stream_for(1, name).state)
            with contextlib.suppress(PlanError):  # no value of the dtype lies in the interval
                fastinit.Plan(1, "own", "named", [tensor])
                tensors.append(tensor)
    assert len(tensors) > 60
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(fastinit.Plan(1, "own", "named", tensors), path)
    found = diagnose(path)
    assert found, found.findings


def test_few_weights_of_few_values_may_be_equal(tmp_path):
    """Seven weights that are each 96 or 104: thirty such tensors have equals among them, and equal parts."""
    tensors = [
        PlannedTensor(f"w{i}", shape, BY_NAME["float8_e4m3fn"], "n", Normal(100.0, 1.0), 17 + (i << 40))
        for i, shape in enumerate([(1, 7)] * 30 + [(4, 2)] * 30)
    ]
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(fastinit.Plan(17, "own", "named", tensors), path)
    found = diagnose(path)
    assert found, found.findings


@pytest.mark.parametrize("layout", fastinit.bundled_models())
def test_no_bundled_model_in_float8_is_accused(tmp_path, layout):
    reduced, seen = {}, set()
    for name, tensor in read_specs(layout).items():
        shape = [min(length, 400) for length in tensor.shape]
        kind = (*shape, name.rpartition(".")[2])
        if kind not in seen and math.prod(shape):
            seen.add(kind)
            reduced[name] = {"dtype": tensor.dtype.tag, "shape": shape}
    path = tmp_path / "w.safetensors"
    for dtype in NUMPY:
        fastinit.write_checkpoint(fastinit.Plan.from_layout(reduced, 17, dtype=dtype), path)
        found = diagnose(path)
        assert found, found.findings


def findings(path, **request):
    return {(finding.kind, finding.tensors) for finding in diagnose(path, **request).findings}


def normal(*shape, std=0.02, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * std).astype(np.float32)


BAD = {
    "not finite": {"a.weight": np.where(np.arange(400).reshape(20, 20) == 7, np.nan, normal(20, 20))},
    "all zero": {"a.weight": np.zeros((30, 20), np.float32), "a.bias": np.zeros(20, np.float32)},
    "constant": {"a.weight": np.full((30, 20), 0.05, np.float32), "a.gain": np.ones(20, np.float32)},
    "equal": {"a.weight": normal(64, 3000), "b.weight": normal(64, 3000), "c.weight": normal(64, 3000, seed=1)},
    "spike": {"a.weight": np.clip(normal(200, 200, std=1.0), -1.5, 9)},
    "repeated": {"a.weight": np.tile(normal(32, 64), (4, 1)), "b.weight": normal(64, 30)},
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_without_any_plan_is_named(tmp_path, kind):
    path = tmp_path / "bad.safetensors"
    save_file({name: np.ascontiguousarray(array) for name, array in BAD[kind].items()}, path)
    names = ("a.weight", "b.weight") if kind == "equal" else ("a.weight",)
    assert findings(path) == {(kind, names)}


@pytest.mark.parametrize(
    ("axis", "parts"), [(0, 2), (1, 8), (1, 1024), (0, 512), (2, 4), (0, 3), (1, 3), (0, 5), (1, 6), (2, 3)]
)
def test_equal_parts_along_any_axis_are_found_with_their_number(tmp_path, axis, parts):
    """Shards that every rank drew alike lie side by side, or far apart, by the axis that was split."""
    shape = [512, 1024, 8][: max(2, axis + 1)]
    shape[axis] = max(1, shape[axis] // parts)
    array = np.concatenate([normal(*shape)] * parts, axis)
    path = tmp_path / "w.safetensors"
    save_file({"w": array}, path)
    (finding,) = diagnose(path).findings
    assert finding.kind == "repeated"
    assert f"{parts:,} equal parts along axis {axis}" in str(finding)
    array[(-1,) * array.ndim] += 1
    save_file({"w": array}, path)
    assert "repeated" not in dict(findings(path)), "one weight differs, so the parts are not equal"


def sines(positions, width):
    angle = np.arange(positions)[:, None] / 10_000 ** (np.arange(width) / width)
    return np.concatenate([np.sin(angle), np.cos(angle)], 1).astype(np.float32)


BUFFERS = {
    "h.{}.attn.bias": np.tri(40, dtype=np.float32)[None, None],
    "h.{}.attn.masked_bias": np.array(-1e4, np.float32),
    "h.{}.causal_mask": np.tri(40, dtype=np.float32),
    "layers.{}.rotary_emb.inv_freq": 10_000 ** -np.linspace(0, 1, 32, dtype=np.float32),
    "layers.{}.rotary_emb.cos_cached": np.tile(np.cos(np.outer(np.arange(64), 0.5 ** np.arange(8))), (1, 2)),
    "layers.{}.freqs_cos": np.tile(np.cos(np.outer(np.arange(64), 0.5 ** np.arange(8))), (1, 2)),
    "pos_encoder.{}.pe": sines(200, 64)[:, None],
    "experts.{}.bias": np.zeros((4, 30), np.float32),
    "blocks.{}.norm.scale": np.ones((12, 30), np.float32),
    "blocks.{}.ln_1.weight": np.ones((12, 30), np.float32),
}


def test_buffers_and_gains_are_not_taken_for_weights(tmp_path):
    """Masks and tables are the same in every layer, with equal rows and one extreme: nothing was drawn twice."""
    path = tmp_path / "buffers.safetensors"
    arrays = {name.format(i): np.ascontiguousarray(array) for name, array in BUFFERS.items() for i in (0, 1)}
    save_file(arrays, path)
    assert not findings(path)
    assert not findings(path, policy="xavier")
    save_file({"encoder.embed_positions.weight": sines(64, 64)}, path)
    assert not findings(path)
    save_file({"h.0.attn.c_attn.weight": np.ones((9, 8)), "h.1.attn.bias.weight": np.ones((9, 8))}, path)
    assert {kind for kind, _ in findings(path)} == {"constant"}


@pytest.mark.parametrize("levels", [15, 31, 255])
def test_a_coarse_grid_has_no_spike(tmp_path, levels):
    """Weights dequantized from a few levels: the values beside an extreme are the grid's, not the dtype's."""
    grid = np.random.default_rng(2).integers(-(levels // 2), levels // 2 + 1, (300, 300)) * 0.01
    path = tmp_path / "w.safetensors"
    save_file({"w": grid.astype(np.float32)}, path)
    assert not findings(path)
    save_file({"w": np.clip(normal(300, 300, std=0.2).round(2), -0.3, 9)}, path)
    assert findings(path) == {("spike", ("w",))}, "on a grid too, a clamp piles up what it cuts off"


def test_a_pile_of_bfloat16_at_minus_two_is_named_and_a_rounded_truncation_is_not(tmp_path):
    """N(0, 0.02) by the inverse error function of bfloat16 draws on [-1, 1): -1 gives -inf, clamped to a = -2."""
    mpmath = pytest.importorskip("mpmath")
    place = np.random.default_rng(0).integers(0, 256, (400, 1000))
    z = [-math.inf, *(float(mpmath.sqrt(2) * mpmath.erfinv(k / mpmath.mpf(128) - 1)) for k in range(1, 256))]
    path = tmp_path / "w.safetensors"
    save_file({"w": np.clip(0.02 * np.array(z)[place], -2, 2).astype(ml_dtypes.bfloat16)}, path)
    (finding,) = diagnose(path).findings
    assert finding.kind == "spike"
    assert f"{(place == 0).sum():,} weights (0.403 %) at exactly -2," in str(finding)
    good = fastinit.truncated_normal((400, 1000), 17, dtype="bfloat16")
    save_file({"w": good}, path)
    assert not findings(path)


def test_the_residual_projections_of_gpt2_at_the_wrong_spread_are_named(tmp_path):
    """GPT-2's layout, whose c_proj should be 0.02 / sqrt(24) and so often is 0.02."""
    layout = read_specs("gpt2-124m")
    names = [n for n in layout if ".h.0." in n and n.endswith("weight") and len(layout[n].shape) == 2]
    assert sum("c_proj" in name for name in names) == 2
    path = tmp_path / "gpt2.safetensors"

    def write(std):
        save_file(
            {n: normal(*layout[n].shape, std=std if "c_proj" in n else 0.02, seed=i) for i, n in enumerate(names)},
            path,
        )

    rules = {"*c_proj.weight": 0.0041, "*": 0.02}
    write(0.02)
    wrong = {("spread", (name,)) for name in names if "c_proj" in name}
    assert findings(path, rules=rules) == wrong
    sentence = str(diagnose(path, rules=rules).findings[0])
    assert "4.87" in sentence or "4.88" in sentence
    assert "0.0041" in sentence
    write(0.02 / math.sqrt(24))
    assert not findings(path, rules=rules), "the rule's two digits must allow 0.0040825"
    write(0.0041 * 1.02)
    assert findings(path, rules=rules) == wrong


def test_the_tolerance_is_the_sampling_error_not_a_percentage(tmp_path):
    """Half a percent is chance in 10^3 weights and a mistake in 10^6."""
    path = tmp_path / "w.safetensors"
    for size, kinds in ((30, set()), (1500, {"spread"})):
        x = np.random.default_rng(3).normal(size=(size, size))
        x = (x - x.mean()) / x.std()
        save_file({"w": x * 0.02 * 1.005}, path)
        plan = fastinit.Plan(17, "own", "named", [PlannedTensor("w", x.shape, FLOATS[0], "n", Normal(0, 0.02), 1)])
        assert {kind for kind, _ in findings(path, plan=plan)} == kinds


PLANNED_WRONG = {
    "mean": fastinit.normal((200, 200), 17, 0.001, 0.02),
    "kurtosis": fastinit.uniform((200, 200), 17, -0.02 * 3**0.5, 0.02 * 3**0.5),
    "bounds": np.where(np.arange(40_000).reshape(200, 200) == 5, -0.2, fastinit.normal((200, 200), 17, 0.0, 0.02)),
    "bounds above": np.where(
        np.arange(40_000).reshape(200, 200) == 5, 0.2, fastinit.normal((200, 200), 17, 0.0, 0.02)
    ),
}


@pytest.mark.parametrize("kind", PLANNED_WRONG)
def test_what_differs_from_the_plan_is_named(tmp_path, kind):
    path = tmp_path / "w.safetensors"
    save_file({"w": PLANNED_WRONG[kind]}, path)
    content = Normal(0.0, 0.02)
    plan = fastinit.Plan(17, "own", "named", [PlannedTensor("w", (200, 200), FLOATS[0], "normal", content, 1)])
    assert (kind.split()[0], ("w",)) in findings(path, plan=plan)


def test_a_plan_of_another_model_is_named(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"w": normal(20, 30)}, path)
    layout = {"w": {"dtype": "F32", "shape": [30, 20]}, "v.bias": {"dtype": "F32", "shape": [2]}}
    assert findings(path, plan=fastinit.Plan.from_layout(layout, 17)) == {
        ("shape", ("w",)),
        ("missing", ("v.bias",)),
    }


def test_a_tensor_that_the_plan_lacks_is_named(tmp_path):
    """A layer added to the model, or a head that no plan fills, would pass unseen."""
    path = tmp_path / "w.safetensors"
    layout = {"a.weight": {"dtype": "F32", "shape": [20, 30]}}
    plan = fastinit.Plan.from_layout(layout, 17)
    save_file({"a.weight": plan.array("a.weight"), "head.weight": normal(20, 30), "ids": np.arange(3)}, path)
    assert findings(path, plan=plan) == {("not in the plan", ("head.weight",)), ("not in the plan", ("ids",))}
    assert findings(path, plan=plan, rules={"head.*": 0.02}) == {("not in the plan", ("ids",))}
    with pytest.raises(TypeError, match=r"fastinit\.Plan, got str.*Plan\.from_json"):
        diagnose(path, plan="plan.json")


def test_constants_are_judged_by_their_value(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"norm.weight": np.r_[np.ones(7), 1.5].astype(np.float32), "lora.weight": np.zeros((3, 4))}, path)
    assert findings(path, policy="xavier", rules={"lora*": 0}) == {("values", ("norm.weight",))}


@pytest.mark.parametrize("rules", [{"*c_prj*": 0.02}, {"*c_proj.weight": 0.02, "h.9.*": 1.0}, {"": 0.1}])
def test_a_rule_that_matches_nothing_is_refused(tmp_path, rules):
    """A misspelt glob would otherwise pass every checkpoint."""
    path = tmp_path / "w.safetensors"
    save_file({"h.0.c_proj.weight": normal(20, 30)}, path)
    with pytest.raises(ValueError, match=r"matches no tensor.*'h\.0\.c_proj\.weight'"):
        diagnose(path, rules=rules)
    for bad in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match="standard deviation"):
            diagnose(path, rules={"*": bad})


def test_the_first_rule_that_matches_decides_and_one_that_decides_nothing_is_refused(tmp_path):
    """`*` before `*c_proj*` would judge the projections by the rule that was not meant for them."""
    path = tmp_path / "w.safetensors"
    save_file({"h.0.c_proj.weight": normal(20, 30, std=0.1), "h.0.c_fc.weight": normal(20, 30, seed=1)}, path)
    assert not findings(path, rules={"*c_proj*": np.std(normal(20, 30)) * 5, "*": 0.02})
    with pytest.raises(ValueError, match=r"'\*c_proj\*' decides nothing.*'\*'.*first"):
        diagnose(path, rules={"*": 0.02, "*c_proj*": 0.1})


@pytest.mark.parametrize("threads", [1, 2])
def test_a_tensor_of_many_spans_and_chunks_is_measured_whole(tmp_path, monkeypatch, threads):
    """A span left out, or taken twice, where a tensor is larger than one thread's turn."""
    monkeypatch.setattr(stored, "SPAN_BYTES", 1 << 15)
    monkeypatch.setattr(stored, "CHUNK_BYTES", 1 << 13)
    array = normal(150, 301, std=0.5) + np.linspace(0, 0.4, 150, dtype=np.float32)[:, None]
    save_file({"bias": np.ones(3, np.float32), "w": array}, tmp_path / "w.safetensors")
    measured = diagnose(tmp_path / "w.safetensors", threads=threads).tensors[1].measured
    wide = array.astype(np.float64)
    z = (wide - wide.mean()) / wide.std()
    assert measured.finite == array.size
    np.testing.assert_allclose(
        [measured.mean, measured.std, measured.kurtosis], [wide.mean(), wide.std(), (z**4).mean() - 3], rtol=1e-9
    )
    assert (measured.low, measured.high) == (array.min(), array.max())
    counts, _ = np.histogram(wide, 32)
    shares = np.array(measured.histogram) / measured.sampled
    np.testing.assert_allclose(shares, counts / array.size, atol=0.03)  # of a sample


def test_threads_change_nothing(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({f"{i}.w": normal(1000 + i, 3000, seed=i) for i in range(4)}, path)
    assert diagnose(path, threads=1).facts() == diagnose(path, threads=3).facts()


def test_shards_are_read_by_their_index(tmp_path):
    save_file({"a.w": normal(20, 30), "b.w": normal(10, 30, seed=1)}, tmp_path / "1.safetensors")
    save_file({"c.w": normal(20, 30)}, tmp_path / "2.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    homes = {"c.w": "2.safetensors", "a.w": "1.safetensors", "b.w": "1.safetensors"}
    index.write_text(json.dumps({"metadata": {}, "weight_map": homes}))
    assert findings(index) == {("equal", ("c.w", "a.w"))}
    for homes in ({"c.w": "1.safetensors"}, {"a.w": "../1.safetensors"}, {"a.w": 3}, {"a.w": "none"}, {}, []):
        index.write_text(json.dumps({"weight_map": homes}))
        with pytest.raises(CheckpointError, match=r"index\.json|none"):
            diagnose(index)


HOSTILE = {
    "an empty file": b"",
    "a length past the file": safetensors_bytes(b"{}", length=5000),
    "data cut off": safetensors_bytes({"w": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}, bytes(35)),
    "metadata of a plan that is none": safetensors_bytes({"__metadata__": {"fastinit.seed": "x"}}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(tmp_path, name):
    path = tmp_path / "w.safetensors"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(CheckpointError, match=r"w\.safetensors"):
        diagnose(path)
    with pytest.raises(CheckpointError):
        diagnose(tmp_path)
    with pytest.raises(CheckpointError):
        diagnose(tmp_path / "none.safetensors")


EXTREME = {
    "huge": (1e80, 1.0),
    "huge, beyond its own square": (1e300, 1e307),
    "tiny": (1e-90, 0.0),
    "tiny, below its own square": (1e-200, 0.0),
    "subnormal": (1e-318, 0.0),
}


@pytest.mark.parametrize("name", EXTREME)
def test_powers_that_leave_float64_are_measured_by_a_scale(tmp_path, name):
    """Fourth powers underflow to a kurtosis of -3, squares to a spread of 0, sums overflow to infinity."""
    mpmath = pytest.importorskip("mpmath")
    spread, shift = EXTREME[name]
    array = rng().normal(size=(60, 50)) * spread + shift
    path = tmp_path / "w.safetensors"
    save_file({"w": array}, path)
    plan = fastinit.Plan(17, "own", "named", [PlannedTensor("w", array.shape, FLOATS[0], "n", Normal(0, 1), 1)])
    m = diagnose(path, plan=plan).tensors[0].measured
    values = [mpmath.mpf(x) for x in array.ravel().tolist()]
    with mpmath.workdps(60):
        mean = sum(values) / len(values)
        square, fourth = (sum((x - mean) ** power for x in values) / len(values) for power in (2, 4))
        std, kurtosis = mpmath.sqrt(square), fourth / square**2 - 3
        assert abs(m.mean - mean) <= 1e-12 * std + 1e-15 * abs(mean) + 5e-324
    assert math.isclose(m.std, std, rel_tol=1e-12, abs_tol=5e-324)
    assert math.isclose(m.kurtosis, kurtosis, rel_tol=1e-7)
    figures.save(diagnose(path), tmp_path / "w.svg")


def test_the_largest_and_the_smallest_float64_are_judged_and_drawn_without_a_warning(tmp_path):
    path = tmp_path / "w.safetensors"
    array = np.array([[1.7e308, -1.7e308, 1e300]])
    save_file({"a": array, "b": np.array([[1e-300, 2e-300, 5e-324]]), "c": np.full((2, 2), 1e300)}, path)
    found = diagnose(path, rules={"a": 1.0})
    assert [finding.kind for finding in found.findings] == ["spread", "constant"]
    assert math.isclose(found.tensors[0].measured.std, math.sqrt(2 / 3) * 1.7e308, rel_tol=1e-7)
    json.dumps(found.facts(), allow_nan=False)
    figures.save(found, tmp_path / "w.svg")


def test_minus_zero_is_shown_as_zero(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"a": np.array([-0.0, -0.0]), "b": np.array([-1.0, -0.0])}, path)
    assert " -0 " not in "\n".join(diagnose(path).lines())


def test_memory_stays_small_beside_the_file(tmp_path):
    """A mapped or loaded checkpoint would count whole; half of this file is too much."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the peak of resident memory is read from /proc")
    path = tmp_path / "w.safetensors"
    layout = {f"{i}.weight": {"dtype": "F32", "shape": [4096, 2560]} for i in range(4)}
    fastinit.write_checkpoint(fastinit.Plan.from_layout(layout, 17), path)
    code = (
        "import sys; from pathlib import Path; from fastinit.diagnosis.judge import diagnose; "
        "good = diagnose(sys.argv[1]); status = Path('/proc/self/status').read_text(); "
        "print(bool(good), status.split('VmHWM:')[1].split()[0])"
    )
    ended = run_python("-c", code, str(path))
    assert ended.returncode == 0, ended.stderr
    good, peak = ended.stdout.split()
    peak_bytes = int(peak) * 1024
    assert good == "True"
    assert os.path.getsize(path) > 160e6
    assert peak_bytes < 80e6, f"{peak_bytes:,} bytes at the peak"


def run(capsys, *arguments):
    status = cli.main([str(argument) for argument in arguments])
    output = capsys.readouterr()
    return status, output.out, output.err


def test_the_command_tells_good_bad_and_refused_apart(capsys, tmp_path):
    path, plan = tmp_path / "w.safetensors", tmp_path / "plan.json"
    layout = {"h.0.c_proj.weight": {"dtype": "F32", "shape": [64, 64]}}
    fastinit.write_checkpoint(fastinit.Plan.from_layout(layout, 17), path)
    plan.write_text(fastinit.Plan.from_layout(layout, 17).to_json())
    for request in (
        (),
        ("--plan", plan),
        ("--seed", 17),
        ("--policy", "xavier"),
        ("--seed", 17, "--policy", "xavier"),
    ):
        status, out, err = run(capsys, "diagnose", path, *request)
        assert (status, err) == (0, ""), request
        assert "1 tensor, 1 judged, nothing wrong found" in out
        assert "1 of 1 tensor begins with the very weights" in out
    status, out, err = run(capsys, "diagnose", path, "--expect", "*c_proj.weight=0.0041")
    assert (status, err) == (1, "")
    assert "spread: 'h.0.c_proj.weight' has standard deviation 0.12" in out
    status, out, _ = run(capsys, "diagnose", path, "--json", "--expect", "*c_proj.weight=0.0041")
    facts = json.loads(out)
    assert (status, facts["good"], facts["tensors"][0]["verdict"]) == (1, False, "spread")
    assert sum(facts["tensors"][0]["measured"]["histogram"]) == 4096
    for refused in (
        ("--expect", "nothing=1"),
        ("--expect", "0.02"),
        ("--expect", "*=wide"),
        ("--plan", plan, "--seed", 3),
        ("--plan", path.with_name("none")),
        ("--policy", "unknown"),
    ):
        status, out, err = run(capsys, "diagnose", path, *refused)
        assert (status, out) == (2, ""), refused
        assert err.startswith("fastinit: ")


def test_a_plans_file_that_is_none_is_named_with_what_it_is(capsys, tmp_path):
    path, layout, pipe = tmp_path / "w.safetensors", tmp_path / "layout.json", tmp_path / "pipe"
    layout.write_text(json.dumps({"a.weight": {"dtype": "F32", "shape": [64, 64]}}))
    fastinit.write_checkpoint(fastinit.Plan.from_layout(layout, 17), path)
    other = tmp_path / "other.json"
    other.write_bytes(b"\xff[]")
    if hasattr(os, "mkfifo"):
        os.mkfifo(pipe)
    else:
        pipe.mkdir()
    for file, word in (
        (path, "checkpoint"),
        (layout, "fastinit show"),
        (other, "not a plan"),
        (tmp_path / "none.json", "cannot read"),
        (tmp_path, "cannot read"),
        (pipe, "cannot read"),
    ):
        status, out, err = run(capsys, "diagnose", path, "--plan", file)
        assert (status, out) == (2, "")
        assert str(file) in err, "which file"
        assert word in err
        assert "Errno" not in err
    status, out, err = run(capsys, "diagnose", path, "--expect", "*=0.1", "--expect", "*=0.2")
    assert (status, out) == (2, "")
    assert "'*' is given twice" in err


def test_the_views_show_every_tensor_and_every_finding(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"good.w": normal(50, 60, seed=1), "a.w": normal(64, 64), "b.w": normal(64, 64)}, path)
    found = diagnose(path, rules={"good*": 0.02})
    page = pages.page(found)
    for word in ("good.w", "a.w", "equal to the bit", "<svg", "<figcaption"):
        assert word in page
    assert "a.w" in found._repr_html_()
    figures.save(found, tmp_path / "w.svg")
    assert "good.w" in (tmp_path / "w.svg").read_text()
    assert len(found.tables()) == 2
    assert "nan" not in "\n".join(found.lines())


def test_a_file_of_integers_is_listed_without_a_word_on_weights(tmp_path):
    """An empty figure under a full caption, and "0 of 0 tensors", say that something was measured."""
    path = tmp_path / "w.safetensors"
    save_file({"position_ids": np.arange(5)}, path)
    found = diagnose(path, seed=17, policy="xavier")
    assert found.conclusions() == [f"{path}: 1 tensor, 0 judged, nothing wrong found"]
    assert repr(found) == f"<Diagnosis of {path}: 1 tensor, 0 findings>"
    assert "<svg" not in pages.page(found)
    figures.save(found, tmp_path / "w.svg")
    assert "no tensor of weights" in (tmp_path / "w.svg").read_text()
    save_file({"a": np.zeros((2, 3), np.float32)}, path)
    assert diagnose(path).conclusions() == [f"{path}: 1 tensor, 1 judged, 1 finding"]


@pytest.mark.filterwarnings("error")
def test_names_in_any_script_are_drawn_without_a_warning(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"重み.weight": normal(20, 30)}, path)
    found = diagnose(path)
    for suffix in ("svg", "png"):
        figures.save(found, tmp_path / f"w.{suffix}")
    assert "重み.weight" in (tmp_path / "w.svg").read_text(encoding="utf-8")
    assert "重み.weight" in pages.page(found)


def test_a_policy_that_refuses_a_tensor_leaves_it_unjudged(tmp_path):
    """GPT-2's own files hold masks under the name bias; that is no reason to judge nothing."""
    path = tmp_path / "w.safetensors"
    save_file({"attn.bias": np.tri(8)[None, None], "norm.weight": np.ones(8)}, path)
    found = diagnose(path, policy="xavier")
    assert [tensor.verdict for tensor in found.tensors] == ["", "good"]
    with pytest.raises(PlanError, match="unknown policy"):
        diagnose(path, policy="zavier")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_an_index_that_is_a_pipe_is_refused_at_once(tmp_path):
    """To open one waits for a writer, for ever."""
    pipe = tmp_path / "model.safetensors.index.json"
    os.mkfifo(pipe)
    with pytest.raises(CheckpointError, match="device, pipe or socket"):
        diagnose(pipe)
