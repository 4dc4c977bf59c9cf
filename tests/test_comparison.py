"""Networks side by side: the claims of a lesson, and the drawing and the page of what was measured."""

import math
import os
import pickle
import subprocess
import sys
import textwrap
from xml.etree import ElementTree

import pytest

from fastinit.initializers import Normal
from fastinit.propagation import compare_initializers, propagate, residual_stack
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
    plain, scaled = residual_stack(12, width=128, inputs=16, seeds=5).runs
    assert plain.stack.layers == scaled.stack.layers == 24
    assert 2.0**11 < plain.activations.median[-1] < 2.0**13
    assert plain.activations.verdict.startswith("explodes")
    assert scaled.activations.median[-1] == pytest.approx(math.sqrt((1 + 1 / 24) ** 24), rel=0.2)
    assert scaled.activations.verdict == "holds"


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
    assert len(lessons.claims.rows) == 9


def test_a_page_holds_the_drawing_every_network_and_every_claim(lessons):
    text = lessons.page()
    assert text.count("<svg") == 1
    assert text.count("<table") == 3
    assert all(f"<td>{run.stack.name}</td>" in text for run in lessons.runs)
    assert all(table.html() in text for table in lessons.tables())
    assert all(table.html() in lessons._repr_html_() for table in lessons.tables())


def test_the_drawing_shows_each_network_its_expectation_and_the_band(lessons, tmp_path):
    drawing = lessons.figure()
    for axis in drawing.axes:
        assert axis.get_yscale() == "log"
        solid = [line for line in axis.lines if line.get_linestyle() == "-"]
        assert len(solid) == len(lessons.runs)
        dashed = [line for line in axis.lines if line.get_linestyle() == "--" and len(line.get_xdata())]
        assert len(dashed) == sum(run.activations.expected is not None for run in lessons.runs) == 9
    kaiming_line = next(line for line in drawing.axes[0].lines if line.get_label() == "kaiming_normal + relu")
    run = next(run for run in lessons.runs if run.stack.name == "kaiming_normal + relu")
    assert list(kaiming_line.get_ydata()) == [size / run.activations.median[0] for size in run.activations.median]
    figures.save(lessons.figure(), tmp_path / "signals.svg")
    texts = {element.text for element in ElementTree.parse(tmp_path / "signals.svg").iter() if element.text}
    assert {"0.5 to 2", "expected", "activations", "gradients"} <= texts


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
