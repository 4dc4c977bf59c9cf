"""The zero-symmetry probe: a tape that is a little wrong would teach that equal units come apart."""

import dataclasses
import math

import numpy as np
import pytest

from fastinit.lessons import symmetry
from fastinit.lessons.symmetry import SymmetryProbe, zero_symmetry_probe


def network(weights):
    """silu([1, -1] @ W) @ [1, 1] in plain Python, weights row-major."""
    hidden = [weights[unit] - weights[2 + unit] for unit in range(2)]
    return sum(h / (1 + math.exp(-h)) for h in hidden)


def test_the_gradient_is_the_lessons_and_a_difference_quotients():
    probe = zero_symmetry_probe()
    assert probe == SymmetryProbe(0.0, (0.5, 0.5, -0.5, -0.5), True)
    assert probe.passed
    step = 1e-5
    quotients = [(network(step * row) - network(-step * row)) / (2 * step) for row in np.eye(4)]
    assert probe.gradient == pytest.approx(quotients, abs=1e-9)


def test_equal_columns_are_found_by_looking_at_them(monkeypatch):
    """Unequal output weights treat the units differently: the report must not go on calling them equal."""
    matmul = symmetry.TensorValue.__matmul__

    def uneven(self, other):
        if other.shape == (2, 1):
            other = symmetry.TensorValue.constant(symmetry.Tensor([[1.0], [3.0]]))
        return matmul(self, other)

    monkeypatch.setattr(symmetry.TensorValue, "__matmul__", uneven)
    probe = zero_symmetry_probe()
    assert probe.gradient == (0.5, 1.5, -0.5, -1.5)
    assert not probe.columns_equal
    assert not probe.passed


@pytest.mark.parametrize(
    "wrong",
    [{"output": 0.1}, {"gradient": (0.6, 0.6, -0.6, -0.6)}, {"gradient": (0.0,) * 4}, {"columns_equal": False}],
    ids=str,
)
def test_a_probe_with_any_other_number_does_not_hold(wrong):
    assert not dataclasses.replace(zero_symmetry_probe(), **wrong).passed
