"""Networks side by side: the claims of a lesson, and the drawing and the page of what was measured."""

import math
import os
import pickle
import re
import subprocess
import sys
import textwrap

import pytest

from fastinit.initializers import Normal
from fastinit.propagation import compare_initializers, propagate, residual_stack, unequal_fans
from fastinit.views import figure as figures


def test_the_six_initializers():
    found = compare_initializers("tanh", 4, 16, 8, seeds=1)
    assert [run.stack.name for run in found.runs] == [
        "zeros + tanh",
        "N(0, std 1) + tanh",
        "N(0, std 0.01) + tanh",
        "xavier_normal + tanh",
        "kaiming_normal + tanh",
        "lecun_normal + selu",
    ]


def test_a_measured_residual_stream_is_bounded_with_the_factor_only():
    plain, scaled, *_ = residual_stack(12, width=128, inputs=16, seeds=5).runs
    assert plain.stack.layers == scaled.stack.layers == 24
    assert 2.0**11 < plain.activations.median[-1] < 2.0**13
    assert plain.activations.verdict.startswith("grows 1.4")
    assert scaled.activations.median[-1] == pytest.approx(math.sqrt((1 + 1 / 24) ** 24), rel=0.2)
    assert scaled.holds


@pytest.mark.parametrize("n", [12, 40])
def test_behind_a_norm_a_measured_residual_stream_grows_in_proportion_to_its_depth(n):
    """The claim of the third text, on networks like those it names; without the norm it is another network's."""
    runs = residual_stack(n, width=128, inputs=32, seeds=3).runs
    assert [(run.stack.norm, run.stack.layers) for run in runs] == [
        (norm, 2 * n) for norm in (None, "rms", "layer") for _ in range(2)
    ]
    for grown, scaled in (runs[2:4], runs[4:6]):
        assert grown.activations.ratio(2 * n) ** 2 == pytest.approx(1 + 2 * n, rel=0.1)
        assert grown.activations.ratio(n) ** 2 == pytest.approx(1 + n, rel=0.1)
        assert scaled.activations.ratio(2 * n) ** 2 == pytest.approx(2, rel=0.1)
        assert scaled.holds
    assert runs[0].activations.ratio(2 * n) ** 2 > 1000 * (1 + 2 * n)


def test_a_residual_stream_takes_a_given_initializer_for_every_matrix():
    runs = residual_stack(2, "gelu", "xavier_normal", width=16, inputs=4, seeds=1).runs
    assert {run.stack.initializer.name for run in runs[2:]} == {"xavier_normal"}
    assert [run.stack.writes.name for run in runs[2:]] == ["xavier_normal", "residual(xavier_normal)"] * 2


def test_unequal_fans_show_what_each_variance_keeps():
    found = unequal_fans((64, 16), layers=20, inputs=32, seeds=3)
    rows = {row[0]: row[1:] for row in found.claims.rows}
    assert list(rows) == ["1 / fan_in", "1 / fan_out", "1 / fan_avg", "1 / fan_geo_avg"]
    exact = {
        "1 / fan_in": (1, 0.25),
        "1 / fan_out": (4, 1),
        "1 / fan_avg": (1.6, 0.4),
        "1 / fan_geo_avg": (2, 0.5),
    }
    for name, (signal, gradient) in exact.items():
        measured_signal, expected_signal, measured_gradient, expected_gradient = rows[name][:4]
        assert (expected_signal, expected_gradient) == pytest.approx((signal, gradient))
        assert measured_signal == pytest.approx(signal, rel=0.2)
        assert measured_gradient == pytest.approx(gradient, rel=0.3)
    assert rows["1 / fan_avg"][5] == pytest.approx(0.64**10)
    assert rows["1 / fan_avg"][4] == pytest.approx(0.64**10, rel=0.9)
    assert found.runs[0].sample.startswith("widths 64, 16 in turn, 32 inputs")
    names = [run.stack.name for run in found.runs]
    assert len(set(names)) == 4, "two schemes of one name"
    assert names[3] == "variance_scaling(1.0, 'fan_geo_avg', 'normal') + linear"


@pytest.fixture(scope="module")
def lessons():
    """The lesson, measured in another process: there BLAS starts no threads that spin against each other."""
    code = """
        import pickle, sys
        from fastinit.propagation import lesson
        sys.stdout.buffer.write(pickle.dumps(lesson(inputs=16, seeds=2)))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    ended = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, check=True)
    return pickle.loads(ended.stdout)


def test_the_lessons_claims_stand_beside_what_is_measured(lessons):
    """The lesson's figures where they are right, and arithmetic where they are wrong."""
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
    assert len(lessons.claims.rows) == 12
    gelu = by_name["kaiming_normal + gelu"]
    assert gelu.activations.verdict.startswith("shrinks 0.7")
    assert gelu.activations.ratio(50) < 1e-4
    assert not sigmoid.holds
    assert "inputs can no longer be told apart from layer 5" in text


def test_a_page_holds_the_drawing_every_network_and_every_claim(lessons):
    text = lessons.page()
    assert text.count("<svg") == 1
    assert text.count("<table") == 6
    assert all(run.stack.name in re.sub(r"<[^>]+>", "", text) for run in lessons.runs)
    assert all(table.html() in text for table in lessons.tables())
    assert all(table.html() in lessons._repr_html_() for table in lessons.tables())


def drawn_lines(axes):
    """The measured line of each network, by its label without the reason."""
    return {text.get_text().replace("\n", " "): text for text in axes.texts if text.arrow_patch is not None}


def test_the_drawing_shows_each_network_its_expectation_and_its_name(lessons):
    drawing = lessons.figure()
    for axes in drawing.axes:
        assert axes.get_yscale() == "log"
        assert len([line for line in axes.lines if line.get_linestyle() == "-"]) == len(lessons.runs)
        circles = [line for line in axes.lines if line.get_linestyle() == "None"]
        assert len(circles) == sum(run.activations.expected is not None for run in lessons.runs) == 13
        assert {line.get_markerfacecolor() for line in circles} == {"none"}, "seen on a line that they lie on"
        labels = drawn_lines(axes)
        assert len(labels) == len(lessons.runs)
        for run in lessons.runs:
            (label,) = [text for name, text in labels.items() if name.split(", x ")[0].startswith(run.stack.name)][
                :1
            ]
            assert (label.get_fontweight() == "bold") is run.holds
    run = next(run for run in lessons.runs if run.stack.name == "kaiming_normal + relu")
    measured = [size / run.activations.median[0] for size in run.activations.median]
    (line,) = [line for line in drawing.axes[0].lines if list(line.get_ydata()) == measured]
    assert line.get_color() == figures.PALETTE[0]
    assert line.get_marker() in figures.MARKERS
    solid = [line for line in drawing.axes[0].lines if line.get_linestyle() == "-"]
    streams = {
        run.stack.norm: line
        for run, line in zip(lessons.runs, solid, strict=True)
        if run.stack.residual and not run.holds
    }
    assert streams[None].get_ydata()[-1] > 1e3
    assert 4 < streams["layer"].get_ydata()[-1] < 6, "the bare stream and the normalized one are both drawn"


def test_the_drawing_alone_says_which_start_holds_and_why_the_others_do_not(lessons):
    """The one start that holds was drawn grey on a grey band, its name in a legend far below."""
    drawing = lessons.figure()
    title = drawing.get_suptitle().replace("\n", " ")
    assert title.startswith("Of 14 networks these hold: kaiming_normal + relu; x + f(LayerNorm(x))")
    assert "xavier" not in title
    magnitudes, inputs, gradients = map(drawn_lines, drawing.axes)
    assert "N(0, std 1) + relu, x 15.9 a layer" in magnitudes
    assert "xavier_normal + sigmoid" in magnitudes, "its magnitude holds"
    assert "xavier_normal + sigmoid, one output from layer 5" in inputs
    assert "constant 0.001953 + relu, all units are one" in inputs
    assert any(name.startswith("xavier_normal + sigmoid, x 0.2") for name in gradients)
    assert drawing.axes[2].xaxis_inverted(), "gradients go from the last layer to the input"


def test_what_is_drawn_of_inputs_is_what_the_verdict_asks(lessons):
    """A line in the tinted zone and a verdict that inputs can be told apart would contradict each other."""
    lines = [line for line in lessons.figure().axes[1].lines if line.get_linestyle() == "-"]
    for run, line in zip(lessons.runs, lines, strict=True):
        below = [layer for layer, share in enumerate(line.get_ydata()) if share < run.NEAREST]
        assert (below[0] if below else None) == run.lost


def test_a_drawing_of_one_network_is_about_it():
    """A single network that fails was grey: nothing in its picture was looked at."""
    drawing = propagate("relu", "xavier_normal", 10, 16, inputs=8, seeds=2).figure()
    assert drawing.get_suptitle().startswith("xavier_normal + relu: magnitude shrinks")
    assert drawing.axes[0].lines[0].get_color() == figures.PALETTE[0]


@pytest.mark.parametrize(
    ("initializer", "layers", "said"), [("zeros", 3, "exactly 0"), (Normal(std=1e30), 12, "inf")]
)
def test_zero_and_infinity_can_be_drawn(initializer, layers, said):
    """matplotlib warns of a logarithm of 0, and refuses a limit of inf."""
    assert said in propagate("relu", initializer, layers, 16, inputs=4, seeds=1).page()


def test_a_comparisons_repr_is_a_line():
    """A notebook or a traceback would otherwise print every layer of every network."""
    result = compare_initializers(width=8, layers=2, inputs=4, seeds=1)
    assert repr(result) == f"<Comparison of 6 networks: {result.title}>"
