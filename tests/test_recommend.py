"""Recommendations: advice that measurements refute is worse than none."""

import json
import math

import numpy as np
import pytest
from conftest import run

import fastinit
from fastinit import initializers
from fastinit._engine.gains import ACTIVATION_NAMES
from fastinit.functions import as_initializer, as_text
from fastinit.propagation import propagate

NAMES = [name for name in ACTIVATION_NAMES if name[:4] not in ("conv", "swis")]


def test_recommend_says_which_where_and_why(capsys):
    status, out, _ = run(capsys, "recommend", "relu")
    first, reason, gain, *_ = out.splitlines()
    assert (status, first) == (0, "relu: kaiming_normal, in plain layers")
    assert "2 / fan_in" in reason
    assert gain == "relu: computed gain 1.41421, variance 2 / fan_in"
    facts = json.loads(run(capsys, "recommend", "tanh", "--residual-layers", "12", "--json")[1])
    assert initializers.Initializer.from_json(facts["initializer"]) == fastinit.recommend("tanh", 12).initializer
    assert facts["scheme"] == "residual(xavier_uniform, 12)"


@pytest.mark.parametrize("activation", NAMES)
def test_what_is_recommended_is_measured_to_hold_elsewhere_too(activation):
    """By other seeds and more inputs than the advice was measured with."""
    advice = fastinit.recommend(activation)
    stack = advice.trials[-1].stack
    assert stack.initializer == advice.initializer
    assert all(not each.holds for each in advice.trials[:-1])
    again = propagate(
        activation, advice.initializer, 50, 512, inputs=48, seeds=3, seed=1000,
        residual=stack.residual, norm=stack.norm, writes=stack.writes,
    )  # fmt: skip
    assert again.holds, again.verdict


@pytest.mark.parametrize("activation", NAMES)
@pytest.mark.parametrize("residual_layers", [None, 12])
def test_what_is_printed_can_be_typed(capsys, activation, residual_layers):
    """The name of a variance scaling or of a residual factor was refused by the next command."""
    advice = fastinit.recommend(activation, residual_layers)
    assert as_initializer(advice.scheme) == advice.initializer
    typed = [advice.scheme, *(as_text(each.stack.writes) for each in advice.trials if each.stack.writes)]
    few = ("--layers", 1, "--width", 4, "--inputs", 2, "--seeds", 1)
    for text in typed:
        assert run(capsys, "propagate", "--init", text, *few)[0] == 0
        assert text in " ".join(advice.lines())


@pytest.mark.parametrize("activation", ["gelu", "silu", "mish"])
def test_no_plain_scale_is_recommended_where_the_fixed_point_repels(activation):
    """Kaiming's signal vanishes, the critical scale's explodes: measured, as the advice says."""
    advice = fastinit.recommend(activation)
    assert advice.gain.fixed_point == "repels"
    assert advice.trials[-1].stack.residual
    assert "no scale holds through 50 plain layers" in advice.reason
    assert all(not each.holds for each in advice.trials if not each.stack.residual)
    if activation != "mish":
        said, critical = (each.activations.ratio(50) for each in advice.trials[:2])
        assert said < 1e-5
        assert critical > 10


def test_magnitudes_of_gelu_and_silu_are_those_that_were_reported():
    """Measured apart from this advice: 1.5e-6 and 1e-7 with Kaiming, 30 and 2,000 with the critical scale."""
    for activation, vanished, grown in (("gelu", 1.5e-6, 30), ("silu", 1e-7, 2000)):
        said, critical = (each.activations.ratio(50) for each in fastinit.recommend(activation).trials[:2])
        assert vanished / 3 < said < vanished * 3
        assert grown / 2 < critical < grown * 2


def test_lecun_before_selu_lets_gradients_grow_and_a_smaller_variance_does_not():
    advice = fastinit.recommend("selu")
    lecun, smaller = advice.trials
    assert lecun.activations.holds
    assert lecun.gradients.ratio(0) == pytest.approx(5.6, rel=0.15)
    assert smaller.holds
    assert smaller.stack.initializer.scale < 1


def test_a_function_of_ones_own_gets_advice_too():
    advice = fastinit.recommend(np.sin)
    assert advice.activation == "sin"
    assert advice.gain.scale == pytest.approx(2 / (1 - math.exp(-2)), rel=1e-9)  # E[sin(z)**2] in closed form
    assert advice.trials[-1].holds
    assert fastinit.recommend(np.abs).scheme == "lecun_normal"


def test_where_nothing_holds_nothing_is_recommended():
    """A step so steep that gradients explode in any network of its layers."""

    def wild(x):
        return np.sin(1000 * x)

    advice = fastinit.recommend(wild)
    assert (advice.initializer, advice.scheme) == (None, "none")
    assert not any(each.holds for each in advice.trials)
    assert advice.lines()[0] == "wild: none, because nothing that was tried holds"
    assert advice.facts()["initializer"] is None
    assert fastinit.recommend(wild, 4).initializer is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gelo", "did you mean 'gelu'"),
        ("swiglu", r"silu\(x @ W\) \* \(x @ V\), not a function of one number"),
        ("softshrink", "pass the function itself"),
        ("rrelu", "pass the function itself"),
        ("squared_relu", "pass the function itself"),
        ("snake", "unknown activation 'snake'; expected one of"),
        ("sine", "unknown activation 'sine'; expected one of"),
        ("logistic", "unknown activation 'logistic'; expected one of"),
    ],
)
def test_another_function_is_never_suggested(capsys, name, said):
    for call in (fastinit.recommend, fastinit.gain, fastinit.computed_gain):
        with pytest.raises(ValueError, match=said):
            call(name)
    status, _, err = run(capsys, "recommend", name)
    assert status == 2
    assert ("did you mean" in err) is (name == "gelo")


def test_one_function_has_one_reason_by_every_name():
    for name, other in (("swish", "silu"), ("conv2d", "linear"), ("conv_transpose1d", "linear")):
        assert fastinit.recommend(name).reason.replace(name, other) == fastinit.recommend(other).reason


@pytest.mark.parametrize("activation", NAMES)
def test_residual_scaling_bounds_the_stream_as_its_reason_says(activation):
    """Behind a norm what is added does not depend on the depth; bare, the second moment grows by about e."""
    advice = fastinit.recommend(activation, 24)
    assert "by about e" in advice.reason
    bare = propagate(activation, advice.initializer, 48, 128, inputs=64, seeds=1, residual=True)
    assert 1 < bare.activations.ratio(48) ** 2 < 1.15 * math.e
    options = {"inputs": 64, "seeds": 1, "residual": True, "norm": "layer"}
    added = []
    for layers in (6, 24):
        writes = fastinit.recommend(activation, layers).initializer
        stream = propagate(activation, "lecun_normal", 2 * layers, 128, writes=writes, **options)
        added.append(stream.activations.ratio(2 * layers) ** 2 - 1)
    assert 0 < added[0] == pytest.approx(added[1], rel=0.25)


def test_advice_is_shown_as_tables():
    advice = fastinit.recommend("gelu")
    said, gain, measured = advice.tables()
    assert said.rows[0][1] == "kaiming_normal"
    assert gain.rows[0][1:5] == (
        pytest.approx(1.53353, rel=1e-5),
        pytest.approx(2.35172, rel=1e-5),
        math.sqrt(2),
        "repels",
    )
    assert [row[1] == "holds" for row in measured.rows] == [False] * 4 + [True]
