"""Signals through depth: a magnitude that is wrong by a layer's factor still looks like a fine curve."""

import json
import math
import re

import numpy as np
import pytest

import fastinit
from fastinit import Tensor, TensorValue, autodiff, stream_for
from fastinit._engine.gains import ACTIVATION_NAMES
from fastinit.initializers import Constant, Normal, kaiming, lecun
from fastinit.propagation import experiments, propagate, stack
from fastinit.propagation.activations import ACTIVATIONS
from fastinit.propagation.result import Propagation
from fastinit.propagation.signal import Profile, Signal
from fastinit.propagation.stack import Stack

SMALL = {"layers": 6, "width": 24, "inputs": 16, "seeds": 2}
SELU = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. (2017), eq. 14


def elu(x, scale=1.0, alpha=1.0):
    """ELU from the tape's operations: the tape has none of its own."""
    return (x.relu() + ((-((-x).relu())).exp() - 1.0) * alpha) * scale


def hardtanh(x, low=-1.0, high=1.0):
    return (x - low).relu() - (x - high).relu() + low


OWN = {
    "linear": lambda x: x,
    "swish": autodiff.silu,
    "prelu": lambda x: x.leaky_relu(0.25),
    "gelu_tanh": lambda x: x.gelu("tanh"),
    "quick_gelu": lambda x: x * (x * 1.702).sigmoid(),
    "mish": lambda x: x * x.softplus().tanh(),
    "elu": elu,
    "celu": elu,
    "selu": lambda x: elu(x, *SELU),
    "relu6": lambda x: hardtanh(x, 0.0, 6.0),
    "hardtanh": hardtanh,
    "hardswish": lambda x: x * hardtanh(x + 3.0, 0.0, 6.0) * (1 / 6),
    "softsign": lambda x: x / (x.abs() + 1.0),
}
"""Activations that the tape has no operation for, from its operations."""

NORMS = {
    None: lambda x: x,
    "rms": lambda x: x.rms_norm(epsilon=1e-300),
    "layer": lambda x: x.layer_norm(epsilon=1e-300),
}


def on_the_tape(activation, initializer, residual, norm, seed):
    """Mean magnitude, rms, spread, correlation and the gradients' rms of the SMALL network, in float64."""
    apply = OWN.get(activation) or getattr(autodiff, activation)
    shape = SMALL["inputs"], SMALL["width"]
    x = TensorValue.parameter(Tensor(fastinit.normal(shape, stream_for(seed, "propagation.inputs"))))

    def drawn(layer, name):
        stream = stream_for(seed, f"propagation.{layer}.{name}")
        return TensorValue.constant(Tensor(fastinit.initialize((shape[1], shape[1]), stream, initializer)))

    signals, leaves = [x], [x]
    for layer in range(SMALL["layers"]):
        if not residual:
            made = apply(NORMS[norm](x) @ drawn(layer, "weight"))
        elif norm is None:
            made = x + apply(x) @ drawn(layer, "weight")
        else:
            made = x + apply(NORMS[norm](x) @ drawn(layer, "weight")) @ drawn(layer, "write")
        leaves.append(TensorValue.parameter(Tensor(np.zeros(shape))))  # receives the layer's gradient
        x = made + leaves[-1]
        signals.append(x)
    values = np.array([signal.value.values for signal in signals])
    x.backward_with_seed(Tensor(fastinit.normal(shape, stream_for(seed, "propagation.gradients"))))
    gradients = np.array([leaf.gradient_snapshot().values for leaf in leaves])
    spread = np.sqrt(values.var(axis=1, ddof=1).mean(axis=1))
    units = values / np.linalg.norm(values, axis=2, keepdims=True)
    cosines = (units @ units.swapaxes(1, 2))[:, ~np.eye(shape[0], dtype=bool)].mean(axis=1)
    rms, gradients = (np.sqrt(np.square(each).mean(axis=(1, 2))) for each in (values, gradients))
    return np.abs(values).mean(axis=(1, 2)), rms, spread, cosines, gradients


def same_as_the_tape(run, judged):
    profiles = (run.mean_magnitude, run.activations, run.spread, run.correlation, run.gradients)
    for profile, both in zip(profiles, judged.swapaxes(0, 1), strict=True):
        close = {"rel": 1e-5, "abs": 1e-6 if profile is run.correlation else 0}
        assert profile.median == pytest.approx(np.mean(both, axis=0), **close)
        assert profile.low == pytest.approx(np.min(both, axis=0), **close)
        assert profile.high == pytest.approx(np.max(both, axis=0), **close)


@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
@pytest.mark.parametrize("activation", [name for name in ACTIVATION_NAMES if not name.startswith("conv")])
def test_measured_magnitudes_are_the_tapes(activation, residual):
    """The slopes are written by hand, and the names of the streams are promised."""
    run = propagate(activation, "lecun_normal", residual=residual, **SMALL)
    judged = np.array([on_the_tape(activation, lecun("normal"), residual, None, seed) for seed in (17, 18)])
    same_as_the_tape(run, judged)


@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "sigmoid"])
def test_a_norm_and_its_gradient_are_the_tapes(activation, residual, norm):
    run = propagate(activation, "kaiming_normal", residual=residual, norm=norm, **SMALL)
    judged = np.array([on_the_tape(activation, kaiming("normal"), residual, norm, seed) for seed in (17, 18)])
    same_as_the_tape(run, judged)


def test_a_function_of_ones_own_is_measured_as_the_one_by_name():
    """Its slope is a difference quotient, and float32 must not blur it."""
    by_name = propagate("gelu", "kaiming_normal", **SMALL)
    run = propagate(ACTIVATIONS["gelu"].value, "kaiming_normal", **SMALL)
    assert run.activations == by_name.activations
    assert run.gradients.median == pytest.approx(by_name.gradients.median, rel=1e-6)
    assert run.gradients.expected == pytest.approx(by_name.gradients.expected, rel=1e-6)

    def swung(x):
        return x + np.sin(x)

    assert propagate(swung, "lecun_normal", **SMALL).stack.name == "lecun_normal + swung"
    for wrong in (lambda x: 1.0, math.tanh, lambda x: x > 0):
        with pytest.raises(TypeError, match="array"):
            propagate(wrong, "lecun_normal", **SMALL)


@pytest.mark.parametrize("std", [1e3, 1e-3])
@pytest.mark.parametrize("activation", ["silu", "gelu", "softplus", "tanh", "selu"])
def test_numbers_beyond_float32_pass_through_an_activation_as_they_are(activation, std):
    """An activation that is not homogeneous gives scaled numbers another shape: they must be scaled back first."""
    depth = {**SMALL, "layers": 20, "seeds": 1}
    run = propagate(activation, Normal(std=std), **depth)
    weights = [
        fastinit.normal((24, 24), stream_for(17, f"propagation.{layer}.weight"), 0.0, std) for layer in range(20)
    ]
    x = fastinit.normal((16, 24), stream_for(17, "propagation.inputs"))
    with np.errstate(under="ignore"):
        for layer, matrix in enumerate(weights, 1):
            x = ACTIVATIONS[activation].value(x @ matrix)
            rms = float(np.sqrt(np.mean(np.square(x / np.abs(x).max())))) * np.abs(x).max()
            assert run.activations.median[layer] == pytest.approx(rms, rel=1e-4)


@pytest.mark.parametrize("activation", ["relu", "gelu", "selu", "softplus"])
@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
def test_a_signal_past_every_float_is_reported_as_infinite(activation, residual):
    run = propagate(activation, Normal(std=1e3), 120, 32, inputs=4, seeds=2, residual=residual)
    sizes = run.activations
    assert sizes.median[-1] == math.inf
    assert sizes.expected[-1] == math.inf
    assert re.fullmatch(r"grows [\d.e+]+ times a layer, outside 0.5 to 2 from layer 1", sizes.verdict)
    first = sizes.median.index(math.inf)
    assert sizes.median[first - 1] > 1e300
    facts = json.loads(json.dumps(run.facts(), allow_nan=False))
    assert facts["activations"]["median"][-1] == "inf"
    assert run.lines()
    assert run.gradients.median[-1] == pytest.approx(1, rel=0.2)
    if activation == "relu":  # its slope needs only the sign
        assert run.gradients.median[0] == math.inf


@pytest.mark.parametrize("activation", ["relu", "gelu", "selu"])
def test_a_signal_below_every_float_is_reported_as_zero(activation):
    run = propagate(activation, Normal(std=1e-5), 120, 32, inputs=4, seeds=2)
    sizes = run.activations
    assert sizes.median[-1] == sizes.expected[-1] == 0.0
    assert re.fullmatch(r"shrinks [\d.e-]+ times a layer, outside 0.5 to 2 from layer 1", sizes.verdict)
    assert 0 < sizes.median[sizes.median.index(0.0) - 1] < 1e-300
    assert run.gradients.median[0] == 0.0


def test_a_network_whose_units_all_die_is_zero_from_there():
    """Zero has no exponent: to scale it by the exponent of the layer before gives 0 / 0."""
    minus = Constant(-1.0)
    for layers in (3, 200):
        run = propagate("relu", minus, layers, 4, inputs=4, seeds=2)
        assert run.activations.median[-1] == 0.0
    sizes = propagate("relu", Normal(std=1e3), 400, 3, inputs=2, seeds=1).activations.median
    died = sizes.index(0.0)  # three units soon all die
    assert sizes[died - 1] > 1e6
    assert set(sizes[died:]) == {0.0}


def test_fifty_layers_of_n_0_1_before_relu_are_measured_past_float32():
    run = propagate("relu", "normal", layers=50, width=64, inputs=16, seeds=3)
    assert 0.1 < run.activations.median[50] / math.sqrt(32) ** 50 < 10
    assert run.activations.expected[50] == pytest.approx(math.sqrt(32) ** 50)


def test_zero_weights_stop_everything_and_a_sigmoid_hides_it():
    run = propagate("relu", "zeros", **SMALL)
    assert run.activations.median[1:] == (0.0,) * 6
    assert run.gradients.median[:-1] == (0.0,) * 6
    lost = "inputs can no longer be told apart from layer 1"
    assert run.verdict == f"magnitude is 0 from layer 1; {lost}; gradient is 0 from layer 5; all units are one"
    assert run.lines()[-1] == run.verdict
    run = propagate("sigmoid", "zeros", **SMALL)
    assert run.activations.median[1:] == (0.5,) * 6
    assert run.gradients.median[:-1] == (0.0,) * 6
    assert run.distinct_units == 1
    assert run.verdict == f"magnitude holds; {lost}; gradient is 0 from layer 5; all units are one"
    assert not run.holds


def test_a_magnitude_that_holds_without_a_signal_is_not_called_one():
    """Behind a sigmoid every input soon gives the same output, of magnitude 1/2."""
    run = propagate("sigmoid", "xavier_normal", layers=12, width=128, inputs=64, seeds=3)
    assert run.activations.verdict == "holds"
    assert 1e-14 < run.spread.median[10] ** 2 < 1e-12
    assert run.spread.median[10] == pytest.approx(run.spread.expected[10], rel=0.2)
    assert run.inputs_verdict == "can no longer be told apart from layer 5"
    assert run.correlation.median[5] > 1 - 2.0**-16 > run.correlation.median[4]
    assert not run.holds


def profile(*values, start=None):
    return Profile(values, values, values, None) if start is None else Signal(values, values, values, None, start)


@pytest.mark.parametrize(
    ("correlations", "spreads", "lost"),
    [
        ((0.0, 1 - 2.0**-16), (1.0, 0.0), None),
        ((0.0, 1 - 2.0**-17), (1.0, 0.0), 1),
        ((0.0, 1.0), (1.0, 2.0**-9), 1),
        ((0.0, 1.0), (1.0, 2.0**-8), None),  # by their lengths: of units that are one
        ((0.0, math.nan), (1.0, 0.0), 1),
        ((-0.01, -1.0), (1.0, math.inf), None),
    ],
)
def test_inputs_are_lost_where_their_spread_is_below_a_share_of_the_magnitude(correlations, spreads, lost):
    sizes = profile(1.0, 1.0, start=0)
    told = profile(*correlations)
    run = Propagation(
        Stack("relu", "zeros", 1, 4), 1, 17, sizes, sizes, profile(*spreads, start=0), told, sizes, 4
    )
    assert run.lost == lost
    assert run.holds is (lost is None)


def test_equal_units_still_tell_inputs_apart_by_their_size():
    run = propagate("relu", Constant(1 / 24), **SMALL)
    assert run.correlation.median[-1] == pytest.approx(1)
    assert run.verdict.endswith("all units are one")
    assert "inputs can be told apart" in run.verdict


@pytest.mark.parametrize("width", [24, 33, 40, 64])
def test_equal_weights_are_one_unit_and_drawn_ones_are_not(width):
    """BLAS sums the columns at a block's edge in another order, so equal units differ in their last bits."""
    sizes = {**SMALL, "width": width}
    assert propagate("relu", Constant(1 / width), **sizes).distinct_units == 1
    assert propagate("relu", Normal(std=0.0), **sizes).distinct_units == 1
    assert propagate("tanh", "xavier_normal", **sizes).distinct_units == width


def test_units_are_equal_by_their_weights_or_by_their_outputs():
    """Columns 0 and 1 differ by rounding alone; column 3 is as dead as column 2, with other weights."""
    units = np.array([[1, 1, 2, 3], [4, 4, 5, 6]], np.float32)
    outputs = np.array([[1, np.nextafter(1, 2, dtype=np.float32), 0, 0]] * 3, np.float32)
    assert stack._distinct(units, outputs) == 2


def test_in_a_residual_stack_equal_weights_keep_the_differences_of_the_inputs():
    run = propagate("relu", Constant(1 / 24), residual=True, **SMALL)
    assert run.distinct_units == 24


def test_of_several_networks_the_one_with_the_fewest_distinct_units_counts():
    run = propagate("relu", "kaiming_normal", 8, 24, inputs=2, seeds=4)
    each = [run.stack.measure(seed).distinct_units for seed in range(17, 21)]
    assert run.distinct_units == min(each) < max(each)


def test_deep_relu_networks_keep_the_second_moment_that_theory_expects():
    """The mean square over many seeds, not its median, meets the expectation: within six standard errors."""
    stack = Stack("relu", kaiming("normal"), layers=3, width=64, inputs=32)
    squares = [stack.measure(seed).rms[-1] ** 2 for seed in range(200)]
    error = np.std(squares) / math.sqrt(len(squares))
    assert abs(np.mean(squares) - 1) < 6 * error
    assert error < 0.05


@pytest.mark.parametrize(
    ("median", "start", "verdict"),
    [
        ((1.0, 0.5, 2.0), 0, "holds"),
        ((2.0, 1.0, 4.0), 0, "holds"),
        ((1.0, math.nextafter(0.5, 0), 1.0), 0, "leaves 0.5 to 2 at layer 1 and comes back"),
        ((1.0, 1.0, 2.25), 0, "grows 1.5 times a layer, outside 0.5 to 2 from layer 2"),
        ((1.0, 3.0, 0.0625), 0, "shrinks 0.25 times a layer, outside 0.5 to 2 from layer 1"),
        ((1.0, 4.0, math.inf), 0, "grows 4 times a layer, outside 0.5 to 2 from layer 1"),
        ((1.0, math.inf), 0, "is past every float from layer 1"),
        ((1.0, 0.0), 0, "is 0 from layer 1"),
        ((0.0625, 0.2, 1.0), 2, "shrinks 0.25 times a layer, outside 0.5 to 2 from layer 1"),
        ((9.0, 1.5, 1.0), 2, "grows 3 times a layer, outside 0.5 to 2 from layer 0"),
        ((9.0, 4.5, 9.0), 2, "holds"),
    ],
)
def test_the_verdict_is_the_growth_a_layer_and_where_it_leaves_half_to_twice_the_start(median, start, verdict):
    """Six times over fifty layers is no explosion: the factor of a layer says how fast."""
    signal = Signal(median, median, median, None, start)
    assert signal.verdict == verdict
    assert signal.holds is (verdict == "holds")


def test_the_same_seed_gives_the_same_numbers_and_another_does_not():
    first = propagate("relu", "kaiming_normal", **SMALL)
    assert propagate("relu", "he_normal", **SMALL) == first
    assert propagate("relu", "he_normal", **SMALL, seed=18).activations != first.activations
    both = experiments.measure((first.stack, first.stack), 2)
    assert both == (first, first), "networks measured side by side disturb each other"


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("rleu", "normal"), ValueError, "did you mean 'relu'"),
        (("relu", "kaiming_norml"), ValueError, "did you mean 'kaiming_normal'"),
        (("relu", '{"kind": "norml"}'), ValueError, "did you mean 'normal'"),
        (("relu", "{kind: normal}"), ValueError, "not valid JSON"),
        (("relu", 0.01), TypeError, "a name, a call or JSON text"),
        (("relu", "normal", 0), ValueError, "layers must be at least 1"),
        (("relu", "normal", 3, 0), ValueError, "width must be at least 1"),
        (("relu", "normal", 3.5), TypeError, "layers must be an integer"),
        (("relu", "normal", 3, ()), ValueError, "at least one number of units"),
        (("relu", "normal", 3, (4, 0)), ValueError, "width must be at least 1"),
    ],
)
def test_a_wrong_request_says_what_to_ask_instead(arguments, error, said):
    with pytest.raises(error, match=said):
        propagate(*arguments)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"inputs": 1}, "inputs must be at least 2"),
        ({"norm": "batch"}, 'norm is None, "rms" or "layer"'),
        ({"width": (4, 8), "residual": True}, "has one width"),
        ({"writes": "normal"}, "writes belongs to a residual stream"),
    ],
)
def test_a_network_that_there_is_not_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        propagate("relu", "normal", 3, **{"width": 4, "inputs": 2, **options})


def test_seeds_are_counted_and_end_where_seeds_do():
    with pytest.raises(ValueError, match="seeds must be at least 1"):
        propagate("relu", "normal", 1, 2, inputs=2, seeds=0)
    with pytest.raises(ValueError, match="the last seed"):
        propagate("relu", "normal", 1, 2, inputs=2, seeds=2, seed=2**64 - 1)


NAMES = (
    *("zeros", "ones", "uniform", "normal", "truncated_normal", "identity", "orthogonal"),
    *(
        f"{family}_{distribution}"
        for family in ("xavier", "glorot", "kaiming", "he", "lecun")
        for distribution in ("uniform", "normal", "truncated_normal")
    ),
)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_means_what_the_function_of_that_name_fills(name):
    function = getattr(fastinit, name)
    drawn = function((6, 6)) if name in ("zeros", "ones", "identity") else function((6, 6), 17)
    assert np.array_equal(fastinit.initialize((6, 6), 17, Stack("relu", name).initializer), drawn)


def test_a_network_that_fits_is_not_refused(monkeypatch):
    """8 layers of 64: 8 * 64 * (64 + 32) float32s for a network, and RUN_BYTES for its run; more with a norm."""
    needed = 4 * 8 * 64 * (64 + 32) + experiments.RUN_BYTES
    monkeypatch.setattr(experiments, "_memory", lambda: float(needed))
    propagate("relu", "zeros", 8, 64, inputs=32, seeds=1)
    with pytest.raises(ValueError, match="take fewer"):
        propagate("relu", "zeros", 9, 64, inputs=32, seeds=1)
    with pytest.raises(ValueError, match="take fewer"):
        propagate("relu", "zeros", 8, 64, inputs=32, seeds=1, norm="rms")
    with pytest.raises(ValueError, match="take fewer"):
        propagate("relu", "zeros", 8, (64, 65), inputs=32, seeds=1)
