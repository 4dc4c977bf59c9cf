"""Theory of signals through depth: a factor that is wrong by a layer's gain still draws a fine curve."""

import json
import math

import mpmath
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
from fastinit.propagation.mean_field import expected

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
    "selu": lambda z: SELU[0] * (z if z > 0 else SELU[1] * mpmath.expm1(z)),
}


def over_a_normal(function):
    """E[function(z)] for z a standard normal, by mpmath; the functions have their kinks at 0."""
    return mpmath.quad(lambda z: function(z) * mpmath.npdf(z), [-14, -6, -2, 0, 2, 6, 14])


@pytest.mark.parametrize("activation", [name for name in ACTIVATION_NAMES if name in EXACT])
def test_one_layer_of_theory_is_the_integral_of_an_independent_judge(activation):
    function, gain = EXACT[activation], math.sqrt(2)
    means, rms, gradients = expected(activation, kaiming("normal"), 1, 7)
    assert means[1] == pytest.approx(float(over_a_normal(lambda z: abs(function(gain * z)))), rel=1e-10)
    assert rms[1] == pytest.approx(float(mpmath.sqrt(over_a_normal(lambda z: function(gain * z) ** 2))), rel=1e-10)
    slope = lambda z: mpmath.diff(function, gain * z) if z else mpmath.mpf(0)  # noqa: E731
    with mpmath.workdps(20):
        moment = over_a_normal(lambda z: slope(z) ** 2)
    assert gradients[0] == pytest.approx(float(mpmath.sqrt(2 * moment)), rel=1e-8)
    assert (means[0], rms[0], gradients[1]) == (pytest.approx(math.sqrt(2 / math.pi)), 1.0, 1.0)


@pytest.mark.parametrize("gain", [1e-6, 1.0, 22.6, 1e4], ids=str)
def test_theory_resolves_a_tanh_that_is_a_line_or_a_step(gain):
    """A fixed grid misses the step of a saturated tanh, and with it the slope that gradients take."""
    initializer = Normal(std=gain / math.sqrt(4))
    edges = [-14, *(-(mpmath.mpf(10) ** -k) for k in range(0, 9, 2)), 0]
    judge = lambda f: 2 * mpmath.quad(lambda z: f(gain * z) * mpmath.npdf(z), edges)  # noqa: E731
    _, rms, gradients = expected("tanh", initializer, 1, 4)
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
    _, rms, gradients = expected("relu", initializer, 5, 64)
    factor = 64 * variance / 2
    assert [size**2 for size in rms] == pytest.approx([factor**layer for layer in range(6)], rel=1e-12)
    assert [size**2 for size in gradients] == pytest.approx(
        [factor ** (5 - layer) for layer in range(6)], rel=1e-12
    )


@pytest.mark.parametrize(
    "initializer", [Constant(0.1), Uniform(0.0, 1.0), Normal(0.5, 1.0), initializers.Identity()]
)
def test_theory_is_silent_on_weights_that_it_does_not_cover(initializer):
    assert expected("relu", initializer, 3, 8) == (None, None, None)
    run = propagate("relu", initializer, 3, 8, inputs=8, seeds=1)
    assert run.activations.expected is None
    assert json.loads(json.dumps(run.facts()))["activations"]["expected"] is None
    assert run.lines()


def test_a_residual_stack_grows_geometrically_and_is_bounded_by_e_with_the_factor():
    """Every relu branch adds half of c = 2 times the variance: 2**(2N), and (1 + 1/(2N))**(2N) < e."""
    n = 126
    means, plain, up = expected("relu", kaiming("normal"), 2 * n, 512, residual=True)
    assert means[-1] / plain[-1] == pytest.approx(math.sqrt(2 / math.pi)), "a sum of normals is normal"
    assert plain[-1] ** 2 == pytest.approx(2.0 ** (2 * n), rel=1e-9)
    assert up[0] == pytest.approx(plain[-1], rel=1e-9)
    _, scaled, _ = expected("relu", Residual(kaiming("normal"), n), 2 * n, 512, residual=True)
    assert scaled[-1] ** 2 == pytest.approx((1 + 1 / (2 * n)) ** (2 * n), rel=1e-9)
    assert scaled[-1] ** 2 < math.e
