"""Expectations: a wrong one, or one too tight for a dtype's rounding, accuses every good checkpoint."""

import contextlib
import json
import math
from statistics import NormalDist

import ml_dtypes
import numpy as np
import pytest
from conftest import MIXED

import fastinit
from fastinit._engine.constructions import Sparse
from fastinit._engine.distributions import CenteredUniform, Normal, TruncatedNormal, Uniform
from fastinit._engine.dtypes import BY_NAME, FLOATS
from fastinit._files.sources import read_specs
from fastinit.diagnosis import diagnose
from fastinit.diagnosis.expected import of_planned
from fastinit.errors import PlanError
from fastinit.plan import PlannedTensor

NUMPY = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def planned(distribution, shape=(100, 100), dtype="float32"):
    return PlannedTensor("w", shape, BY_NAME[dtype], distribution.name, distribution, 17)


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


DENSE = [Normal(1.0, 0.5), Uniform(-1.0, 3.0), CenteredUniform(2.0), TruncatedNormal(0.0, 1.0, -1.0, 2.0)]


@pytest.mark.parametrize("distribution", DENSE, ids=str)
def test_a_density_has_mass_one(distribution):
    x = np.linspace(-5, 7, 200_001)
    assert math.isclose(np.trapezoid(distribution.density(x), x), 1, rel_tol=1e-4)


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
    "ones": (fastinit.initializers.ONES, (300,), "io"),
}


@pytest.mark.parametrize("dtype", [dtype.name for dtype in FLOATS])
@pytest.mark.parametrize("name", INITIALIZERS)
def test_what_fastinit_fills_is_what_is_expected(tmp_path, name, dtype):
    """A wrong expectation, or a bound too tight for the dtype's rounding, would accuse every good checkpoint."""
    initializer, shape, layout = INITIALIZERS[name]
    distribution = initializer.for_shape(shape, layout)
    tensor = PlannedTensor("w", shape, BY_NAME[dtype], initializer.name, distribution, 17)
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
    fastinit.write_checkpoint(fastinit.Plan.from_specs(MIXED, 17), path)
    found = diagnose(path)
    assert found, found.findings
    verdicts = {tensor.name: tensor.verdict for tensor in found.tensors}
    assert list(verdicts) == list(MIXED)
    assert verdicts["a.position_ids"] == verdicts["e.empty.weight"] == ""  # listed, not judged
    assert found.drawn == (6, 6)
    assert diagnose(path, policy="xavier", seed=18).drawn[0] == 0
    assert "NaN" not in json.dumps(found.facts(), allow_nan=False)


SHARES = (np.arange(20_000) + 0.5) / 20_000


def quantiles(lower=-math.inf, upper=math.inf):
    """Return the quantiles of a standard normal inside the bounds, one for each of `SHARES`."""
    begin, end = NormalDist().cdf(lower), NormalDist().cdf(upper)
    return np.vectorize(NormalDist().inv_cdf)(begin + (end - begin) * SHARES)


# The distribution, its dtype, float64 weights by other means, and their interval: closed where truncated, else
# half-open.
NARROW = {
    "uniform, clamped at both ends": (
        *(CenteredUniform(0.0255), "float8_e4m3fn"),
        *(0.0255 * (2 * SHARES - 1), -0.0255, 0.0255),
    ),
    "uniform, few values": (Uniform(0.9, 1.6), "float8_e5m2", 0.9 + 0.7 * SHARES, 0.9, 1.6),
    "uniform from a power of two": (Uniform(1.0, 1.01), "float16", 1 + 0.01 * SHARES, 1.0, 1.01),
    "normal around 1": (Normal(1.0, 0.002), "bfloat16", 1 + 0.002 * quantiles(), -math.inf, math.inf),
    "normal among the subnormals": (Normal(0.0, 0.004), "float8_e4m3fn", 0.004 * quantiles(), -math.inf, math.inf),
    "truncated, both bounds values": (
        *(TruncatedNormal(1.0, 0.125, -2.0, 2.0), "float8_e5m2"),
        *(1 + 0.125 * quantiles(-2, 2), 0.75, 1.25),
    ),
    "truncated to a tail": (
        *(TruncatedNormal(0.0, 1.0, 2.0, math.inf), "float8_e4m3fn"),
        *(quantiles(2), 2.0, math.inf),
    ),
}


@pytest.mark.parametrize("name", NARROW)
def test_a_narrow_dtypes_moments_are_those_of_the_rounded_weights(name):
    """A large part of the weights lies where the values are far apart, and the clamp moves it one way."""
    distribution, dtype, weights, low, high = NARROW[name]
    kind = NUMPY.get(dtype, np.float16)
    rounded = weights.astype(kind).astype(float)
    stored = np.arange(1 << (8 * BY_NAME[dtype].itemsize)).astype(f"u{BY_NAME[dtype].itemsize}").view(kind)
    stored = np.unique(stored[np.isfinite(stored.astype(np.float32))].astype(float))
    top = stored <= high if "truncated" in name else stored < min(high, float(kind(high)))
    stored = stored[top & (stored >= low)]
    rounded = np.clip(rounded, stored[0], stored[-1])
    found = of_planned(planned(distribution, dtype=dtype))
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
    """Rounding biases the moments, few values are equal by chance, sparse weights have heavy tails."""
    tensors = []
    for distribution in CORRECT:
        for shape in ((4, 4), (1, 7), (120, 100), (300, 700)):
            name = f"{distribution} {shape}"
            state = fastinit.stream_for(1, name).state
            tensor = PlannedTensor(name, shape, dtype, distribution.name, distribution, state)
            with contextlib.suppress(PlanError):  # no value of the dtype may lie in the interval
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


@pytest.mark.parametrize("model", fastinit.bundled_models())
def test_no_bundled_model_in_float8_is_accused(tmp_path, model):
    reduced, seen = {}, set()
    for name, tensor in read_specs(model).items():
        shape = [min(length, 400) for length in tensor.shape]
        kind = (*shape, name.rpartition(".")[2])
        is_table_of_sines = "encoder.embed_positions" in name  # Whisper's, which no policy plans
        if kind not in seen and math.prod(shape) and not is_table_of_sines:
            seen.add(kind)
            reduced[name] = {"dtype": tensor.dtype.tag, "shape": shape}
    path = tmp_path / "w.safetensors"
    for dtype in NUMPY:
        fastinit.write_checkpoint(fastinit.Plan.from_specs(reduced, 17, dtype=dtype), path, force=True)
        found = diagnose(path)
        assert found, found.findings
