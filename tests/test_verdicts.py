"""Verdicts beside theory: seven activations before five starts, at layers 1, 10, 25 and 50."""

import math

import pytest

import fastinit
from fastinit.initializers import ZEROS, Normal, kaiming, xavier
from fastinit.propagation import propagate

MARKS = (1, 10, 25, 50)
ACTIVATIONS = ("relu", "tanh", "sigmoid", "gelu", "silu", "selu", "linear")
STARTS = {
    "recommended": None,
    "xavier": xavier("normal"),
    "kaiming": kaiming("normal"),
    "normal": Normal(),
    "zeros": ZEROS,
}
CASES = [(activation, start) for activation in ACTIVATIONS for start in STARTS]
FLOOR = 2e-7  # what float32 resolves of a spread, as a share of the magnitude


@pytest.fixture(scope="module")
def measured():
    runs = {}
    for activation, start in CASES:
        options = {}
        initializer = STARTS[start]
        if initializer is None:
            stack = fastinit.recommend(activation).trials[-1].stack
            initializer = stack.initializer
            options = {"residual": stack.residual, "norm": stack.norm, "writes": stack.writes}
        runs[activation, start] = propagate(activation, initializer, 50, 512, inputs=64, seeds=5, **options)
    return runs


def close(found, expected, layer, sharpness):
    """Whether a magnitude is that of theory, as far as fluctuations of `layer` layers let it be."""
    if expected == 0 or math.isinf(expected):
        return found == expected
    return abs(math.log(found / expected)) < sharpness * (0.1 + 0.025 * layer)


@pytest.mark.parametrize(("activation", "start"), CASES)
def test_what_is_measured_is_what_mean_field_theory_expects(measured, activation, start):
    """A repelling fixed point enlarges what a layer's finite width does to a magnitude."""
    run = measured[activation, start]
    sharp = 2 if activation in ("gelu", "silu") else 1
    for layer in MARKS:
        rms, spread = run.activations.median[layer], run.spread.median[layer]
        assert close(rms, run.activations.expected[layer], layer, sharp), layer
        if run.spread.expected[layer] > FLOOR * run.activations.expected[layer]:
            assert close(spread, run.spread.expected[layer], layer, sharp), layer
        else:
            assert spread <= FLOOR * rms
        if run.activations.expected[layer]:
            assert run.correlation.median[layer] == pytest.approx(run.correlation.expected[layer], abs=0.2)
        else:
            assert math.isnan(run.correlation.median[layer])
        assert close(run.gradients.median[50 - layer], run.gradients.expected[50 - layer], layer, 2 * sharp), layer


@pytest.mark.parametrize(("activation", "start"), CASES)
def test_every_verdict_follows_from_what_is_measured(measured, activation, start):
    run = measured[activation, start]
    for signal, words in ((run.activations, "magnitude"), (run.gradients, "gradient")):
        ratios = [each / signal.median[signal.start] for each in signal.median]
        inside = all(0.5 <= ratio <= 2 for ratio in ratios)
        assert (f"{words} holds" in run.verdict) is inside
    told = [
        1 - c >= 2.0**-16 or (r > 0 and s >= r / 256)
        for c, s, r in zip(run.correlation.median, run.spread.median, run.activations.median, strict=True)
    ]
    assert ("inputs can be told apart" in run.verdict) is all(told)
    assert ("all units are one" in run.verdict) is (run.distinct_units == 1)
    holds = "no longer" not in run.verdict and run.verdict.count("holds") == 2 and "units" not in run.verdict
    assert run.holds is holds


@pytest.mark.parametrize(("activation", "start"), CASES)
def test_the_verdict_is_theorys(measured, activation, start):
    """Where theory is not at the edge of the band, the measured verdict is the expected one."""
    run = measured[activation, start]
    rms, gradients = run.activations.expected, run.gradients.expected
    magnitude = max(abs(math.log(each)) if each else math.inf for each in rms)
    upwards = max(abs(math.log(each)) if each else math.inf for each in gradients)
    for expected, signal in ((magnitude, run.activations), (upwards, run.gradients)):
        if abs(expected - math.log(2)) > 0.2:
            assert signal.holds is (expected < math.log(2)), (activation, start, signal.verdict)
    shares = [s / r if r else 0.0 for s, r in zip(run.spread.expected, rms, strict=True)]
    lost = next((layer for layer, share in enumerate(shares) if share < 2.0**-8), None)
    assert (run.lost is None) is (lost is None)
    assert lost is None or abs(run.lost - lost) <= 1


HOLDS = {
    ("relu", "recommended"), ("relu", "kaiming"), ("tanh", "recommended"), ("sigmoid", "recommended"),
    ("gelu", "recommended"), ("silu", "recommended"), ("selu", "recommended"), ("linear", "recommended"),
    ("linear", "xavier"),
}  # fmt: skip
"""By theory alone: what keeps magnitude and gradient within 0.5 to 2, and inputs apart, through 50 layers."""


def test_which_starts_hold(measured):
    assert {case for case, run in measured.items() if run.holds} == HOLDS


def test_a_magnitude_of_one_half_is_no_signal(measured):
    """Xavier and zeros before a sigmoid: the magnitude holds, and no input is left in it."""
    for start in ("xavier", "zeros"):
        run = measured["sigmoid", start]
        assert run.activations.holds
        assert not run.holds
        assert run.correlation.median[10] == pytest.approx(1, abs=1e-9)
    assert measured["sigmoid", "xavier"].spread.median[10] ** 2 == pytest.approx(2.4e-13, rel=0.5)
    assert measured["sigmoid", "zeros"].distinct_units == 1
