"""Recommendations: advice that measurements refute is worse than none."""

import json
import math
import re

import pytest

import fastinit
from fastinit import initializers
from fastinit._engine.gains import ACTIVATION_NAMES
from fastinit.cli import main as cli
from fastinit.propagation import propagate


def test_recommend_says_which_and_why(capsys):
    assert cli.main(["recommend", "relu"]) == 0
    name, reason = capsys.readouterr().out.splitlines()
    assert name == "relu: kaiming_normal"
    assert "2 / fan_in" in reason
    assert cli.main(["recommend", "tanh", "--residual-layers", "12", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert initializers.Initializer.from_json(facts["initializer"]) == fastinit.recommend("tanh", 12).initializer
    assert facts["scheme"] == "residual(xavier_uniform)"
    assert cli.main(["recommend", "gelo"]) == 2
    assert "did you mean 'gelu'" in capsys.readouterr().err


@pytest.mark.parametrize("activation", [name for name in ACTIVATION_NAMES if name[:4] not in ("conv", "swis")])
def test_a_recommendations_reason_says_what_is_measured_of_it(activation):
    """Advice that promised to keep a signal which vanishes would be refuted by the next command."""
    advice = fastinit.recommend(activation)
    run = propagate(activation, advice.initializer, 50, 512, inputs=32, seeds=1)
    kept = run.activations.verdict == run.gradients.verdict == "holds"
    said = re.search("50 layers of 512 units multiply the signal by (.*) and the gradient by (.*)", advice.reason)
    assert kept is (said is None)
    if said:
        measured = [run.activations.ratio(50), run.gradients.ratio(0)]
        assert [float(number) for number in said.groups()] == pytest.approx(measured, rel=0.3)
    assert ("makes up for it" in advice.reason) is (activation in ("relu", "leaky_relu"))
    assert ("is linear" in advice.reason) is (activation == "linear")


def test_one_function_has_one_reason_by_every_name():
    for name, other in (("swish", "silu"), ("conv2d", "linear"), ("conv_transpose1d", "linear")):
        assert fastinit.recommend(name).reason.replace(name, other) == fastinit.recommend(other).reason


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_residual_scaling_bounds_the_stream_as_its_reason_says(activation):
    advice = fastinit.recommend(activation, 24)
    assert "by about e, whatever the depth" in advice.reason
    run = propagate(activation, advice.initializer, 48, 128, inputs=64, seeds=1, residual=True)
    assert 1 < run.activations.ratio(48) ** 2 < 1.15 * math.e
