"""Gains computed by quadrature: a scale a few percent off is a factor of ten after fifty layers."""

import math

import mpmath
import numpy as np
import pytest
from conftest import ROOT
from test_mean_field import EXACT, KINKS, over_a_normal

import fastinit
from fastinit._engine.gains import CONVENTIONAL, squared_gain
from fastinit.propagation.fixed_point import steady_scale


@pytest.mark.parametrize("activation", EXACT)
def test_the_computed_gain_keeps_the_second_moment_by_an_independent_integral(activation):
    found, function, kinks = fastinit.computed_gain(activation), EXACT[activation], KINKS.get(activation, ())
    moment = over_a_normal(lambda z: function(z) ** 2, kinks)
    assert found.scale * float(moment) == pytest.approx(1, rel=1e-12)
    assert found.gain == math.sqrt(found.scale)
    if activation not in CONVENTIONAL:
        assert squared_gain(activation) == pytest.approx(float(1 / moment), rel=1e-15)
        assert found.convention is None
    else:
        assert found.convention == fastinit.gain(activation)


@pytest.mark.parametrize("activation", EXACT)
def test_a_fixed_point_returns_as_the_map_of_second_moments_does(activation):
    """The factor of a departure is the logarithmic derivative of v -> E[f(sqrt(v) z)**2], taken by differences."""
    function, kinks = EXACT[activation], KINKS.get(activation, ())

    def moment(v):
        root = mpmath.sqrt(v)
        return over_a_normal(lambda z: function(root * z) ** 2, [kink / float(root) for kink in kinks])

    step = mpmath.mpf("1e-4")
    slope = mpmath.log(moment(1 + step) / moment(1 - step)) / mpmath.log((1 + step) / (1 - step))
    found = fastinit.computed_gain(activation)
    assert found.returns == pytest.approx(float(slope), abs=1e-6)
    expected = "keeps" if abs(slope - 1) < 1e-3 else "attracts" if slope < 1 else "repels"
    assert found.fixed_point == expected
    assert expected in found.lines()[1].replace("is kept", "keeps")


def test_the_table_of_the_lesson_is_what_is_computed():
    """Every gain with its source: a convention or the equation."""
    text = (ROOT / "docs" / "lessons.md").read_text()
    (start,) = [k for k, line in enumerate(text.splitlines()) if line.startswith("| activation | `gain`")]
    rows = {}
    for line in text.splitlines()[start + 2 :]:
        if not line.startswith("|"):
            break
        names, gain, source, computed, fixed_point = (cell.strip() for cell in line.strip("|").split("|"))
        rows |= {name.strip(): (gain, source, computed, fixed_point) for name in names.split(",")}
    assert set(rows) == set(EXACT) - {"swish"}
    for name, (gain, source, computed, fixed_point) in rows.items():
        found = fastinit.computed_gain(name)
        assert (gain, computed) == (f"{fastinit.gain(name):.4f}", f"{found.scale:.4f}")
        assert fixed_point.startswith(found.fixed_point)
        assert source.startswith("convention") is (name in CONVENTIONAL)


def test_a_function_without_a_second_moment_is_refused():
    for function in (np.zeros_like, lambda x: np.full_like(x, np.inf)):
        with pytest.raises(ValueError, match="no gain makes it 1"):
            fastinit.computed_gain(function)
    with pytest.raises(TypeError, match="activation must be a str"):
        fastinit.computed_gain(3)


def test_a_steady_scale_keeps_both_in_theory_and_there_is_none_around_a_point_that_repels():
    for activation in ("selu", "elu"):
        assert steady_scale(activation, 50, 0.5, 2.0) < fastinit.computed_gain(activation).scale
    for activation in ("gelu", "silu", "tanh", "sigmoid"):
        assert steady_scale(activation, 50, 0.5, 2.0) is None
    assert steady_scale("tanh", 4, 0.5, 2.0) is not None
