"""Theory of signals through depth: a factor that is wrong by a layer's gain still draws a fine curve."""

import json
import math

import mpmath
import numpy as np
import pytest

from fastinit import initializers
from fastinit._engine.gains import ACTIVATION_NAMES
from fastinit.initializers import (
    ZEROS,
    Constant,
    DeltaOrthogonal,
    Normal,
    Orthogonal,
    Residual,
    Sparse,
    Uniform,
    kaiming,
    lecun,
    xavier,
)
from fastinit.propagation import propagate
from fastinit.propagation.activations import ACTIVATIONS, as_activation
from fastinit.propagation.mean_field import expected
from fastinit.propagation.quadrature import difference

# The activations again, from their definitions, for mpmath.
SELU = mpmath.mpf("1.0507009873554804934193349852946"), mpmath.mpf("1.6732632423543772848170429916717")
EXACT = {
    "linear": lambda z: z,
    "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)),
    "tanh": mpmath.tanh,
    "relu": lambda z: max(z, mpmath.mpf(0)),
    "leaky_relu": lambda z: z if z > 0 else mpmath.mpf("0.01") * z,
    "gelu": lambda z: z * mpmath.ncdf(z),
    "silu": lambda z: z / (1 + mpmath.exp(-z)),
    "swish": lambda z: z / (1 + mpmath.exp(-z)),
    "softplus": lambda z: mpmath.log1p(mpmath.exp(z)),
    "elu": lambda z: z if z > 0 else mpmath.expm1(z),
    "celu": lambda z: z if z > 0 else mpmath.expm1(z),
    "prelu": lambda z: z if z > 0 else z / 4,
    "gelu_tanh": lambda z: (
        z / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (z + mpmath.mpf("0.044715") * z**3)))
    ),
    "quick_gelu": lambda z: z / (1 + mpmath.exp(-mpmath.mpf("1.702") * z)),
    "mish": lambda z: z * mpmath.tanh(mpmath.log1p(mpmath.exp(z))),
    "relu6": lambda z: min(max(z, mpmath.mpf(0)), mpmath.mpf(6)),
    "hardtanh": lambda z: min(max(z, mpmath.mpf(-1)), mpmath.mpf(1)),
    "hardswish": lambda z: z * min(max(z + 3, mpmath.mpf(0)), mpmath.mpf(6)) / 6,
    "softsign": lambda z: z / (1 + abs(z)),
    "selu": lambda z: SELU[0] * (z if z > 0 else SELU[1] * mpmath.expm1(z)),
}


KINKS = {"relu6": [6], "hardtanh": [-1, 1], "hardswish": [-3, 3]}


def over_a_normal(function, kinks=()):
    """E[function(z)] for z a standard normal, by mpmath; the functions have a kink at 0, and those given."""
    return mpmath.quad(lambda z: function(z) * mpmath.npdf(z), sorted({-14, -6, -2, 0, 2, 6, 14, *kinks}))


@pytest.mark.parametrize("activation", [name for name in ACTIVATION_NAMES if name in EXACT])
def test_one_layer_of_theory_is_the_integral_of_an_independent_judge(activation):
    function, gain = EXACT[activation], math.sqrt(2)
    kinks = [kink / gain for kink in KINKS.get(activation, ())]
    close = 1e-3 if kinks else 1e-8  # a kink may lie inside an interval of the rule
    means, rms, _, _, gradients = expected(activation, kaiming("normal"), 1, 7)
    moment = over_a_normal(lambda z: abs(function(gain * z)), kinks)
    assert means[1] == pytest.approx(float(moment), rel=close / 100)
    moment = over_a_normal(lambda z: function(gain * z) ** 2, kinks)
    assert rms[1] == pytest.approx(float(mpmath.sqrt(moment)), rel=close / 100)
    slope = lambda z: mpmath.diff(function, gain * z) if z else mpmath.mpf(0)  # noqa: E731
    with mpmath.workdps(20):
        moment = over_a_normal(lambda z: slope(z) ** 2, kinks)
    assert gradients[0] == pytest.approx(float(mpmath.sqrt(2 * moment)), rel=close)
    assert (means[0], rms[0], gradients[1]) == (pytest.approx(math.sqrt(2 / math.pi)), 1.0, 1.0)


@pytest.mark.parametrize("gain", [1e-6, 1.0, 22.6, 1e4], ids=str)
def test_theory_resolves_a_tanh_that_is_a_line_or_a_step(gain):
    """A fixed grid misses the step of a saturated tanh, and with it the slope that gradients take."""
    initializer = Normal(std=gain / math.sqrt(4))
    edges = [-14, *(-(mpmath.mpf(10) ** -k) for k in range(0, 9, 2)), 0]
    judge = lambda f: 2 * mpmath.quad(lambda z: f(gain * z) * mpmath.npdf(z), edges)  # noqa: E731
    _, rms, _, _, gradients = expected("tanh", initializer, 1, 4)
    assert rms[1] == pytest.approx(float(mpmath.sqrt(judge(lambda x: mpmath.tanh(x) ** 2))), rel=1e-9)
    slopes = judge(lambda x: mpmath.sech(x) ** 4)
    assert gradients[0] == pytest.approx(gain * float(mpmath.sqrt(slopes)), rel=1e-9)


@pytest.mark.parametrize(
    ("initializer", "variance"),
    [
        (Normal(), 1.0),
        (Normal(std=0.01), 1e-4),
        (ZEROS, 0.0),
        (Uniform(-0.5, 0.5), 1 / 12),
        (xavier("uniform"), 1 / 64),
        (xavier("truncated_normal"), 1 / 64),
        (kaiming("normal"), 2 / 64),
        (lecun("normal"), 1 / 64),
        (Orthogonal(), 1 / 64),
        (DeltaOrthogonal(), 1 / 64),
        (Sparse(0.25, 0.5), 0.75 * 0.25),
        (Residual(kaiming("normal"), 8), 2 / 64 / 16),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_relu_multiplies_the_second_moment_by_half_the_fan_in_times_the_variance(initializer, variance):
    """Each layer multiplies it by fan_in * Var(w) / 2, exactly, up and down."""
    _, rms, _, _, gradients = expected("relu", initializer, 5, 64)
    factor = 64 * variance / 2
    assert [size**2 for size in rms] == pytest.approx([factor**layer for layer in range(6)], rel=1e-12)
    assert [size**2 for size in gradients] == pytest.approx(
        [factor ** (5 - layer) for layer in range(6)], rel=1e-12
    )


@pytest.mark.parametrize(
    "initializer", [Constant(0.1), Uniform(0.0, 1.0), Normal(0.5, 1.0), initializers.Identity()]
)
def test_theory_is_silent_on_weights_that_it_does_not_cover(initializer):
    assert expected("relu", initializer, 3, 8) is None
    run = propagate("relu", initializer, 3, 8, inputs=8, seeds=1)
    assert run.activations.expected is None
    assert json.loads(json.dumps(run.facts()))["activations"]["expected"] is None
    assert run.lines()


def test_a_residual_stack_grows_geometrically_and_is_bounded_by_e_with_the_factor():
    """Every relu branch adds half of c = 2 times the variance: 2**(2N), and (1 + 1/(2N))**(2N) < e."""
    n = 126
    means, plain, _, _, up = expected("relu", kaiming("normal"), 2 * n, 512, residual=True)
    assert means[-1] / plain[-1] == pytest.approx(math.sqrt(2 / math.pi)), "a sum of normals is normal"
    assert plain[-1] ** 2 == pytest.approx(2.0 ** (2 * n), rel=1e-9)
    assert up[0] == pytest.approx(plain[-1], rel=1e-9)
    _, scaled, _, _, _ = expected("relu", Residual(kaiming("normal"), n), 2 * n, 512, residual=True)
    assert scaled[-1] ** 2 == pytest.approx((1 + 1 / (2 * n)) ** (2 * n), rel=1e-9)
    assert scaled[-1] ** 2 < math.e


# ---- how far inputs are told apart -------------------------------------------------------------------


def arc_cosine(correlation):
    """E[relu(x) * relu(y)] for standard normals of that correlation: Cho and Saul (2009), eq. 5."""
    angle = mpmath.acos(correlation)
    return (mpmath.sin(angle) + (mpmath.pi - angle) * correlation) / (2 * mpmath.pi)


def erf_pair(correlation, std):
    """E[erf(std * x) * erf(std * y)]: Williams (1997)."""
    square = 2 * mpmath.mpf(std) ** 2
    return 2 / mpmath.pi * mpmath.asin(square * correlation / (1 + square))


@pytest.mark.parametrize("apart", ["1.9", "1", "0.7", "0.1", "1e-3", "1e-6", "1e-10"])
@pytest.mark.parametrize("std", [0.01, 1.0, 20.0, 1e4])
def test_the_spread_after_a_layer_is_that_of_closed_forms(apart, std):
    """A step is missed by a fixed grid, and a small spread is lost where the two products are subtracted."""
    apart = mpmath.mpf(apart)
    with mpmath.workdps(50):
        exact = std**2 * (mpmath.mpf("0.5") - arc_cosine(1 - apart))
        assert difference(ACTIVATIONS["relu"], std, float(apart)) ** 2 == pytest.approx(float(exact), rel=1e-6)
        assert difference(ACTIVATIONS["linear"], std, float(apart)) ** 2 == pytest.approx(
            float(std**2 * apart), rel=1e-6
        )
        exact = erf_pair(1, std) - erf_pair(1 - apart, std)
    erf = as_activation(numpy_erf)
    assert difference(erf, std, float(apart)) ** 2 == pytest.approx(float(exact), rel=1e-5)


numpy_erf = np.vectorize(math.erf, otypes=[float])


@pytest.mark.parametrize("activation", ["tanh", "gelu", "mish", "sigmoid"])
def test_nearly_equal_inputs_are_set_apart_by_the_slope(activation):
    function = ACTIVATIONS[activation]
    slope = over_a_normal(lambda z: float(function.slope(np.array(1.5 * float(z)))) ** 2)
    for apart in (1e-20, 1e-40):
        assert difference(function, 1.5, apart) ** 2 == pytest.approx(1.5**2 * apart * float(slope), rel=1e-6)
    near = difference(function, 1.5, 1.01e-13 / 1.5**2), difference(function, 1.5, 0.99e-13 / 1.5**2)
    assert near[0] / near[1] == pytest.approx(math.sqrt(1.01 / 0.99), rel=1e-3), "the two ways part"


def test_the_correlation_is_carried_from_layer_to_layer():
    found = expected("relu", kaiming("normal"), 30, 64)
    correlation = mpmath.mpf(0)
    for layer in range(1, 31):
        correlation = 2 * arc_cosine(correlation)
        assert found.correlation[layer] == pytest.approx(float(correlation), abs=1e-9)
        assert found.spread[layer] ** 2 == pytest.approx(float(1 - correlation), rel=1e-6)


def test_a_sigmoid_forgets_its_input_long_before_float64_can_say_so():
    found = expected("sigmoid", xavier("normal"), 50, 512)
    assert found.correlation[50] == 1.0
    assert found.spread[50] == pytest.approx(3.92e-32, rel=1e-2)
    assert found.spread[50] / found.spread[49] == pytest.approx(
        found.gradients[49] / found.gradients[50], rel=1e-3
    )


def test_zeros_leave_nothing_to_tell_apart():
    assert expected("sigmoid", ZEROS, 2, 8).spread == (1.0, 0.0, 0.0)
    assert all(map(math.isnan, expected("relu", ZEROS, 2, 8).correlation[1:]))


# ---- norms, residual streams, unequal fans -------------------------------------------------------------


@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("n", [12, 126])
def test_behind_a_norm_a_residual_stream_grows_in_proportion_to_its_depth(n, norm):
    """Every branch adds 1 to the second moment, and divides by the stream's what it adds to the gradient's."""
    options = {"residual": True, "norm": norm}
    found = expected("relu", lecun("normal"), 2 * n, 512, writes=kaiming("normal"), **options)
    assert [size**2 for size in found.rms] == pytest.approx([1 + layer for layer in range(2 * n + 1)], rel=1e-9)
    assert found.gradients[0] ** 2 == pytest.approx(1 + 2 * n, rel=1e-9)
    scaled = Residual(kaiming("normal"), n)
    found = expected("relu", lecun("normal"), 2 * n, 512, writes=scaled, **options)
    assert found.rms[-1] ** 2 == pytest.approx(2, rel=1e-9)
    assert found.gradients[0] ** 2 == pytest.approx(2, rel=1e-9)
    stream, apart = 1.0, mpmath.mpf(1)
    for _ in range(2 * n):
        apart += (1 - 2 * arc_cosine(1 - apart / stream)) / (2 * n)
        stream += 1 / (2 * n)
    assert found.spread[-1] ** 2 == pytest.approx(float(apart), rel=1e-6)


def test_a_layer_norm_takes_the_offset_of_an_activation_away():
    """Behind relu it leaves a variance of 1/2 - 1/(2 pi); RMSNorm leaves the correlation as it is."""
    rms, layer = (expected("relu", kaiming("normal"), 2, 64, norm=norm) for norm in ("rms", "layer"))
    assert rms.correlation == pytest.approx(expected("relu", kaiming("normal"), 2, 64).correlation, abs=1e-12)
    centered = (2 * arc_cosine(0) - 1 / mpmath.pi) / (1 - 1 / mpmath.pi)
    assert layer.correlation[2] == pytest.approx(float(2 * arc_cosine(centered)), abs=1e-9)
    assert layer.gradients[0] ** 2 == pytest.approx(float(1 / (1 - 1 / mpmath.pi)), rel=1e-9)


def test_unequal_fans_ask_for_different_scales_and_cancel_over_a_cycle_but_for_xaviers():
    """Signals are multiplied by fan_in * Var(w), gradients by fan_out * Var(w)."""

    def squares(mode, layers):
        scheme = initializers.VarianceScaling(1.0, mode, "normal")
        found = expected("linear", scheme, layers, (1024, 256))
        return [found.rms[-1] ** 2, found.gradients[0] ** 2]

    assert squares("fan_in", 1) == pytest.approx([1, 1 / 4])
    assert squares("fan_out", 1) == pytest.approx([4, 1])
    assert squares("fan_avg", 1) == pytest.approx([1.6, 0.4])
    assert squares("fan_geo_avg", 1) == pytest.approx([2, 1 / 2])
    for mode in ("fan_in", "fan_out", "fan_geo_avg"):
        assert squares(mode, 50) == pytest.approx([1, 1])
    assert squares("fan_avg", 50) == pytest.approx([0.64**25, 0.64**25])
