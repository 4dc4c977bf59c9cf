"""Signals through depth: a magnitude that is wrong by a layer's factor still looks like a fine curve."""

import json
import math
import os
import pickle
import re
import subprocess
import sys
import textwrap
from xml.etree import ElementTree

import mpmath
import numpy as np
import pytest

import fastinit
from fastinit import Tensor, TensorValue, autodiff, initializers, stream_for
from fastinit._engine.gains import NONLINEARITIES
from fastinit.cli import main as cli
from fastinit.initializers import Constant, Normal, Orthogonal, Residual, Uniform, Zeros, kaiming, lecun, xavier
from fastinit.propagation import stack as propagation
from fastinit.propagation.mean_field import ACTIVATIONS, expected
from fastinit.propagation.stack import Signal, Stack, measure, propagate, residual_stack, six_schemes
from fastinit.views import figure as figures
from fastinit.views import pages_old as pages

SMALL = {"layers": 6, "width": 24, "inputs": 16, "seeds": 2}

# Written again from their definitions, for mpmath.
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


@pytest.fixture(autouse=True)
def one_thread_a_product(monkeypatch):
    """The command sets it for its process, which here is that of all tests."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def over_a_normal(function):
    """E[function(z)], z a standard normal, by mpmath; kinks are at 0."""
    return mpmath.quad(lambda z: function(z) * mpmath.npdf(z), [-14, -6, -2, 0, 2, 6, 14])


# ---- theory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", [name for name in NONLINEARITIES if name in EXACT])
def test_one_layer_of_theory_is_the_integral_of_an_independent_judge(activation):
    function, spread = EXACT[activation], math.sqrt(2)
    means, rms, gradients = expected(activation, kaiming("normal"), 1, 7)
    assert means[1] == pytest.approx(float(over_a_normal(lambda z: abs(function(spread * z)))), rel=1e-10)
    assert rms[1] == pytest.approx(
        float(mpmath.sqrt(over_a_normal(lambda z: function(spread * z) ** 2))), rel=1e-10
    )
    slope = lambda z: mpmath.diff(function, spread * z) if z else mpmath.mpf(0)  # noqa: E731
    with mpmath.workdps(20):
        moment = over_a_normal(lambda z: slope(z) ** 2)
    assert gradients[0] == pytest.approx(float(mpmath.sqrt(2 * moment)), rel=1e-8)
    assert (means[0], rms[0], gradients[1]) == (pytest.approx(math.sqrt(2 / math.pi)), 1.0, 1.0)


@pytest.mark.parametrize("spread", [1e-6, 1.0, 22.6, 1e4], ids=str)
def test_theory_resolves_a_tanh_that_is_a_line_or_a_step(spread):
    """A fixed grid misses the step of a saturated tanh, and with it the slope that gradients take."""
    init = Normal(std=spread / math.sqrt(4))
    edges = [-14, *(-(mpmath.mpf(10) ** -k) for k in range(0, 9, 2)), 0]
    judge = lambda f: 2 * mpmath.quad(lambda z: f(spread * z) * mpmath.npdf(z), edges)  # noqa: E731
    _, rms, gradients = expected("tanh", init, 1, 4)
    assert rms[1] == pytest.approx(float(mpmath.sqrt(judge(lambda x: mpmath.tanh(x) ** 2))), rel=1e-9)
    slopes = judge(lambda x: mpmath.sech(x) ** 4)
    assert gradients[0] == pytest.approx(spread * float(mpmath.sqrt(slopes)), rel=1e-9)


@pytest.mark.parametrize(
    ("init", "variance"),
    [
        (Normal(), 1.0),
        (Normal(std=0.01), 1e-4),
        (Zeros(), 0.0),
        (Uniform(-0.5, 0.5), 1 / 12),
        (xavier("uniform"), 1 / 64),
        (xavier("truncated_normal"), 1 / 64),
        (kaiming("normal"), 2 / 64),
        (lecun("normal"), 1 / 64),
        (Orthogonal(), 1 / 64),
        (Residual(kaiming("normal"), 8), 2 / 64 / 16),
    ],
    ids=lambda value: getattr(value, "scheme", ""),
)
def test_relu_multiplies_the_second_moment_by_half_the_fan_in_times_the_variance(init, variance):
    """fan_in * Var(w) / 2 a layer, exactly, up and down."""
    _, rms, gradients = expected("relu", init, 5, 64)
    factor = 64 * variance / 2
    assert [size**2 for size in rms] == pytest.approx([factor**layer for layer in range(6)], rel=1e-12)
    assert [size**2 for size in gradients] == pytest.approx(
        [factor ** (5 - layer) for layer in range(6)], rel=1e-12
    )


@pytest.mark.parametrize("init", [Constant(0.1), Uniform(0.0, 1.0), Normal(0.5, 1.0), initializers.Identity()])
def test_theory_is_silent_on_weights_it_is_not_about(init):
    assert expected("relu", init, 3, 8) == (None, None, None)
    run = propagate("relu", init, 3, 8, inputs=8, seeds=1)
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


# ---- measured ----------------------------------------------------------------------------------------


def elu(x, scale=1.0, alpha=1.0):
    """On the tape, which has no elu of its own."""
    return (x.relu() + ((-((-x).relu())).exp() - 1.0) * alpha) * scale


def on_the_tape(activation, init, residual, seed):
    """Mean magnitude, rms and gradients' rms of the SMALL network, in float64 by the tape."""
    own = {"linear": lambda x: x, "swish": autodiff.silu, "elu": elu, "selu": lambda x: elu(x, *map(float, SELU))}
    apply = own.get(activation) or getattr(autodiff, activation)
    shape = SMALL["inputs"], SMALL["width"]
    x = TensorValue.parameter(Tensor(fastinit.normal(shape, stream_for(seed, "propagation.inputs"))))
    signals, leaves = [x], [x]
    for layer in range(SMALL["layers"]):
        stream = stream_for(seed, f"propagation.{layer}.weight")
        weights = TensorValue.constant(Tensor(fastinit.initialize((shape[1], shape[1]), stream, init)))
        leaves.append(TensorValue.parameter(Tensor(np.zeros(shape))))  # its gradient is that of the layer
        x = (x + apply(x) @ weights if residual else apply(x @ weights)) + leaves[-1]
        signals.append(x)
    values = np.array([signal.value.values for signal in signals])
    x.backward_with_seed(Tensor(fastinit.normal(shape, stream_for(seed, "propagation.gradients"))))
    gradients = np.array([leaf.gradient_snapshot().values for leaf in leaves])
    return tuple(
        f(each).reshape(len(signals), -1).mean(1) ** power
        for each, f, power in ((values, np.abs, 1), (values, np.square, 0.5), (gradients, np.square, 0.5))
    )


@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
@pytest.mark.parametrize("activation", [name for name in NONLINEARITIES if name in EXACT])
def test_measured_magnitudes_are_the_tapes(activation, residual):
    """The slopes are written by hand; the stream names are promised."""
    run = propagate(activation, "lecun_normal", residual=residual, **SMALL)
    judged = np.array([on_the_tape(activation, lecun("normal"), residual, seed) for seed in (17, 18)])
    for signal, both in zip(
        (run.mean_magnitude, run.activations, run.gradients), judged.swapaxes(0, 1), strict=True
    ):
        assert signal.median == pytest.approx(np.mean(both, axis=0), rel=1e-5)
        assert signal.low == pytest.approx(np.min(both, axis=0), rel=1e-5)
        assert signal.high == pytest.approx(np.max(both, axis=0), rel=1e-5)


@pytest.mark.parametrize("std", [1e3, 1e-3])
@pytest.mark.parametrize("activation", ["silu", "gelu", "softplus", "tanh", "selu"])
def test_numbers_beyond_float32_pass_through_an_activation_as_they_are(activation, std):
    """Scaled numbers through an activation that is not homogeneous would be another network."""
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
def test_a_signal_past_every_float_is_infinite_and_no_accident(activation, residual):
    run = propagate(activation, Normal(std=1e3), 120, 32, inputs=4, seeds=2, residual=residual)
    sizes = run.activations
    assert sizes.median[-1] == math.inf
    assert sizes.expected[-1] == math.inf
    assert sizes.verdict == "explodes at layer 1"
    first = sizes.median.index(math.inf)
    assert sizes.median[first - 1] > 1e300
    facts = json.loads(json.dumps(run.facts(), allow_nan=False))
    assert facts["activations"]["median"][-1] == "inf"
    assert run.lines()
    assert run.gradients.median[-1] == pytest.approx(1, rel=0.2)
    if activation == "relu":  # its slope needs the sign alone
        assert run.gradients.median[0] == math.inf


@pytest.mark.parametrize("activation", ["relu", "gelu", "selu"])
def test_a_signal_below_every_float_is_zero_and_no_accident(activation):
    run = propagate(activation, Normal(std=1e-5), 120, 32, inputs=4, seeds=2)
    sizes = run.activations
    assert sizes.median[-1] == sizes.expected[-1] == 0.0
    assert sizes.verdict == "vanishes at layer 1"
    assert 0 < sizes.median[sizes.median.index(0.0) - 1] < 1e-300
    assert run.gradients.median[0] == 0.0


def test_a_network_whose_units_all_die_is_zero_from_there():
    """Zero has no exponent: scaling it by that of the layer before is 0 / 0."""
    minus = Constant(-1.0)
    for layers in (3, 200):
        run = propagate("relu", minus, layers, 4, inputs=4, seeds=2)
        assert run.activations.median[-1] == 0.0
    sizes = propagate("relu", Normal(std=1e3), 400, 3, inputs=2, seeds=1).activations.median
    died = sizes.index(0.0)  # three units soon die together
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
    assert (run.activations.verdict, run.gradients.verdict) == ("vanishes at layer 1", "vanishes at layer 5")
    assert run.lines()[-1] == "the signal vanishes at layer 1; the gradient vanishes at layer 5"
    run = propagate("sigmoid", "zeros", **SMALL)
    assert run.activations.median[1:] == (0.5,) * 6
    assert run.gradients.median[:-1] == (0.0,) * 6
    assert run.distinct_units == 1


def test_equal_weights_are_one_unit_and_drawn_ones_are_not():
    assert propagate("relu", Constant(1 / 24), **SMALL).distinct_units == 1
    assert propagate("tanh", "xavier_normal", **SMALL).distinct_units == 24


def test_of_several_networks_the_one_with_the_fewest_distinct_units_counts():
    run = propagate("relu", "kaiming_normal", 8, 24, inputs=2, seeds=4)
    each = [run.stack.measure(seed)[2] for seed in range(17, 21)]
    assert run.distinct_units == min(each) < max(each)


def test_deep_relu_networks_keep_the_second_moment_that_theory_expects():
    """Over many seeds the mean square, not its median, is the expectation; six standard errors."""
    stack = Stack("relu", kaiming("normal"), layers=3, width=64, inputs=32)
    squares = [stack.measure(seed)[0][-1][1] ** 2 for seed in range(200)]
    error = np.std(squares) / math.sqrt(len(squares))
    assert abs(np.mean(squares) - 1) < 6 * error
    assert error < 0.05


@pytest.mark.parametrize(
    ("median", "start", "verdict"),
    [
        ((1.0, 0.5, 2.0), 0, "holds"),
        ((2.0, 1.0, 4.0), 0, "holds"),
        ((1.0, math.nextafter(0.5, 0), 1.0), 0, "vanishes at layer 1"),
        ((1.0, 1.0, math.nextafter(2.0, 3)), 0, "explodes at layer 2"),
        ((1.0, 3.0, 0.1), 0, "explodes at layer 1"),
        ((1.0, math.inf), 0, "explodes at layer 1"),
        ((1.0, 0.0), 0, "vanishes at layer 1"),
        ((0.1, 0.2, 1.0), 2, "vanishes at layer 1"),
        ((9.0, 1.5, 1.0), 2, "explodes at layer 0"),
        ((9.0, 4.5, 9.0), 2, "holds"),
    ],
)
def test_the_verdict_is_the_first_layer_outside_half_to_twice_the_start(median, start, verdict):
    assert Signal(median, median, median, None, start).verdict == verdict


def test_the_same_seed_gives_the_same_numbers_and_another_does_not():
    first = propagate("relu", "kaiming_normal", **SMALL)
    assert propagate("relu", "he_normal", **SMALL) == first
    assert propagate("relu", "he_normal", **SMALL, seed=18).activations != first.activations
    both = measure((first.stack, first.stack), 2)
    assert both == (first, first), "networks measured side by side disturb each other"


# ---- what is compared --------------------------------------------------------------------------------


def test_the_six_starts():
    found = six_schemes("tanh", 4, 16, 8, seeds=1)
    assert [run.stack.name for run in found.runs] == [
        "zeros + tanh",
        "N(0, std 1) + tanh",
        "N(0, std 0.01) + tanh",
        "xavier_normal + tanh",
        "kaiming_normal + tanh",
        "lecun_normal + selu",
    ]


def test_a_measured_residual_stream_is_bounded_with_the_factor_only():
    plain, scaled = residual_stack(12, width=128, inputs=16, seeds=5).runs
    assert plain.stack.layers == scaled.stack.layers == 24
    assert 2.0**11 < plain.activations.median[-1] < 2.0**13
    assert plain.activations.verdict.startswith("explodes")
    assert scaled.activations.median[-1] == pytest.approx(math.sqrt((1 + 1 / 24) ** 24), rel=0.2)
    assert scaled.activations.verdict == "holds"


@pytest.fixture(scope="module")
def lessons():
    """In a process of its own, where BLAS starts no threads that spin against each other."""
    code = """
        import pickle, sys
        from fastinit.propagation.stack import lesson
        sys.stdout.buffer.write(pickle.dumps(lesson(inputs=16, seeds=2)))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    ended = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, check=True)
    return pickle.loads(ended.stdout)


def test_the_lessons_claims_stand_beside_what_is_measured(lessons):
    """The lesson's own figures where they are right, arithmetic where they are not."""
    by_name = {run.stack.name: run for run in lessons.runs}
    assert by_name["N(0, std 1) + relu"].activations.ratio(5) == pytest.approx(16**5, rel=0.3)
    assert by_name["N(0, std 0.01) + relu"].activations.ratio(10) == pytest.approx(0.16**10, rel=0.3)
    assert by_name["N(0, std 0.1) + relu"].activations.ratio(50) > 1e9
    sigmoid = by_name["xavier_normal + sigmoid"]
    assert sigmoid.activations.median[50] == pytest.approx(0.515, abs=0.03)
    assert sigmoid.gradients.ratio(0) < 1e-30
    assert by_name["constant 0.001953 + relu"].distinct_units == 1
    assert by_name["N(0, std 1) + linear"].activations.ratio(10) ** 2 == pytest.approx(1.2e27, rel=0.3)
    assert by_name["N(0, std 0.03162) + linear"].activations.ratio(10) ** 2 == pytest.approx(0.512**10, rel=0.3)
    text = "\n".join(lessons.lines())
    assert "ten times too low" in text
    assert len(lessons.claims.rows) == 9


def test_a_page_holds_the_drawing_every_scheme_and_every_claim(lessons, tmp_path):
    pages.save(lessons, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text.count("<svg") == 1
    assert text.count("<table") == 3
    assert all(f"<td>{run.stack.name}</td>" in text for run in lessons.runs)
    assert all(table.html() in text for table in lessons.tables())
    assert all(table.html() in lessons._repr_html_() for table in lessons.tables())


def test_the_drawing_shows_each_scheme_its_expectation_and_the_band(lessons, tmp_path):
    with figures.style():
        drawing = figures.draw(lessons)
    for axis in drawing.axes:
        assert axis.get_yscale() == "log"
        solid = [line for line in axis.lines if line.get_linestyle() == "-"]
        assert len(solid) == len(lessons.runs)
        dashed = [line for line in axis.lines if line.get_linestyle() == "--" and len(line.get_xdata())]
        assert len(dashed) == sum(run.activations.expected is not None for run in lessons.runs) == 9
    kaiming_line = next(line for line in drawing.axes[0].lines if line.get_label() == "kaiming_normal + relu")
    run = next(run for run in lessons.runs if run.stack.name == "kaiming_normal + relu")
    assert list(kaiming_line.get_ydata()) == [size / run.activations.median[0] for size in run.activations.median]
    figures.save(lessons, tmp_path / "signals.svg")
    texts = {element.text for element in ElementTree.parse(tmp_path / "signals.svg").iter() if element.text}
    assert {"0.5 to 2", "expected", "activations", "gradients"} <= texts


@pytest.mark.parametrize(("init", "layers", "said"), [("zeros", 3, "exactly 0"), (Normal(std=1e30), 12, "inf")])
def test_zero_and_infinity_can_be_drawn(init, layers, said):
    """A logarithm of 0, and a limit of inf, are warnings or worse."""
    assert said in pages.page(propagate("relu", init, layers, 16, inputs=4, seeds=1))


# ---- requests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("rleu", "normal"), ValueError, "did you mean 'relu'"),
        (("relu", "kaiming_norml"), ValueError, "did you mean 'kaiming_normal'"),
        (("relu", '{"kind": "norml"}'), ValueError, "did you mean 'normal'"),
        (("relu", "{kind: normal}"), ValueError, "not valid JSON"),
        (("relu", 0.01), TypeError, "name of one"),
        (("relu", "normal", 0), ValueError, "layers must be at least 1"),
        (("relu", "normal", 3, 0), ValueError, "width must be at least 1"),
        (("relu", "normal", 3.5), TypeError, "layers must be an integer"),
    ],
)
def test_a_wrong_request_says_what_to_ask_instead(arguments, error, said):
    with pytest.raises(error, match=said):
        propagate(*arguments)


def test_seeds_are_counted_and_end_where_seeds_do():
    with pytest.raises(ValueError, match="seeds must be at least 1"):
        propagate("relu", "normal", 1, 2, inputs=2, seeds=0)
    with pytest.raises(ValueError, match="the last seed"):
        propagate("relu", "normal", 1, 2, inputs=2, seeds=2, seed=2**64 - 1)


@pytest.mark.parametrize("name", initializers.NAMED)
def test_every_name_means_what_the_function_of_that_name_fills(name):
    function = getattr(fastinit, name)
    drawn = function((6, 6)) if name in ("zeros", "ones", "identity") else function((6, 6), 17)
    assert np.array_equal(fastinit.initialize((6, 6), 17, initializers.parse(name)), drawn)


def run_cli(capsys, *arguments):
    status = cli.main(["propagate", *map(str, arguments)])
    output = capsys.readouterr()
    return status, output.out, output.err


FEW = ("--width", 16, "--inputs", 8, "--seeds", 2)


def test_the_command_measures_one_start(capsys, tmp_path):
    page, drawing = tmp_path / "p.html", tmp_path / "p.svg"
    status, out, err = run_cli(
        capsys, "--init", "kaiming_normal", "--layers", 5, *FEW, "--figure", drawing, "--html", page
    )
    assert (status, err) == (0, "")
    assert out.splitlines() == propagate("relu", "kaiming_normal", 5, 16, inputs=8, seeds=2).lines()
    assert len(out.splitlines()) == 5 + 4
    assert page.read_text().startswith("<!doctype html>")
    assert drawing.read_text().startswith("<?xml")
    init = '{"kind": "normal", "mean": 0, "std": 0.5}'
    facts = json.loads(run_cli(capsys, "--init", init, "--activation", "gelu", "--layers", 2, *FEW, "--json")[1])
    assert facts["initializer"] == {"kind": "normal", "mean": 0.0, "std": 0.5}
    assert (facts["activation"], facts["layers"], facts["width"], facts["seeds"]) == ("gelu", 2, 16, 2)
    assert len(facts["activations"]["median"]) == 3


def test_the_command_compares_six_starts_or_a_residual_stack(capsys):
    facts = json.loads(run_cli(capsys, "--layers", 3, "--activation", "tanh", *FEW, "--json")[1])
    assert [run["initializer"]["kind"] for run in facts["runs"]] == [
        "zeros",
        *["normal"] * 2,
        *["variance_scaling"] * 3,
    ]
    facts = json.loads(run_cli(capsys, "--residual", 3, *FEW, "--json")[1])
    assert [(run["layers"], run["residual"], run["initializer"]["kind"]) for run in facts["runs"]] == [
        (6, True, "variance_scaling"),
        (6, True, "residual"),
    ]


def test_the_lessons_networks_are_fixed(capsys, monkeypatch, lessons):
    monkeypatch.setattr("fastinit.propagation.stack.lesson", lambda **sample: lessons)
    status, out, err = run_cli(capsys, "--lesson")
    assert (status, err) == (0, "")
    assert out.splitlines() == lessons.lines()
    status, out, err = run_cli(capsys, "--lesson", "--width", 64, "--init", "normal")
    assert (status, out) == (2, "")
    assert "leave out --initializer, --width" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--activation", "rleu"), "did you mean 'relu'"),
        (("--init", "he_norml"), "did you mean 'he_normal'"),
        (("--layers", 0), "layers must be at least 1"),
        (("--residual", 0), "blocks must be at least 1"),
        (("--init", "kaiming_normal", "--width", 100_000_000, "--layers", 2), "GiB of memory, and there are"),
        (("--init", "kaiming_normal", "--layers", 99_999_999_999), "take fewer layers, units, inputs or seeds"),
        (("--residual", 99_999_999_999), "take fewer"),
        (("--inputs", 99_999_999_999), "take fewer"),
        (("--seeds", 99_999_999_999), "take fewer"),
        (("--lesson", "--seeds", 99_999_999_999), "take fewer"),
        (("--layers", 2**63), "take fewer"),
    ],
)
def test_a_refused_command_is_status_2(capsys, arguments, said):
    status, out, err = run_cli(capsys, *arguments)
    assert (status, out) == (2, "")
    assert said in err


def test_a_network_that_fits_is_not_refused(monkeypatch):
    """8 layers of 64: 8 * 64 * (64 + 32) float32s a network, and what a run itself takes."""
    needed = 4 * 8 * 64 * (64 + 32) + propagation.RUN_BYTES
    monkeypatch.setattr(propagation, "_memory", lambda: float(needed))
    propagate("relu", "zeros", 8, 64, inputs=32, seeds=1)
    with pytest.raises(ValueError, match="take fewer"):
        propagate("relu", "zeros", 9, 64, inputs=32, seeds=1)


def test_recommend_says_which_and_why(capsys):
    assert cli.main(["recommend", "relu"]) == 0
    name, reason = capsys.readouterr().out.splitlines()
    assert name == "relu: kaiming_normal"
    assert "2 / fan_in" in reason
    assert cli.main(["recommend", "tanh", "--residual-layers", "12", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert initializers.from_json(facts["initializer"]) == fastinit.recommend("tanh", 12).initializer
    assert facts["scheme"] == "residual(xavier_uniform)"
    assert cli.main(["recommend", "gelo"]) == 2
    assert "did you mean 'gelu'" in capsys.readouterr().err


def test_a_comparisons_repr_is_a_line():
    """A notebook or a traceback would otherwise print every layer of every network."""
    result = six_schemes(width=8, layers=2, inputs=4, seeds=1)
    assert repr(result) == f"<Comparison of 6 networks: {result.title}>"


@pytest.mark.parametrize("activation", [name for name in NONLINEARITIES if name[:4] not in ("conv", "swis")])
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


@pytest.mark.parametrize("activation", NONLINEARITIES)
def test_residual_scaling_bounds_the_stream_as_its_reason_says(activation):
    advice = fastinit.recommend(activation, 24)
    assert "by about e, whatever the depth" in advice.reason
    run = propagate(activation, advice.initializer, 48, 128, inputs=64, seeds=1, residual=True)
    assert 1 < run.activations.ratio(48) ** 2 < 1.15 * math.e
