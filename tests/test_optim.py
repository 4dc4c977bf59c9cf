"""The optimizers: a wrong update still trains, only worse, so figures are computed by hand or with fractions."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from fastinit import GraphRetention, NamedParameter, NamedParameters, Tensor, TensorValue
from fastinit.autodiff import SGD, Adam, Momentum
from fastinit.errors import DuplicateName, TensorAutodiffError

GRADIENTS = [Fraction(1, 2), Fraction(-2), Fraction(1, 4), Fraction(0), Fraction(3)]
START, RATE = Fraction(1), Fraction(1, 8)


def named(name="w", values=(1.0,)):
    return NamedParameter.from_tensor(name, Tensor(values))


def set_gradient(parameter, value):
    parameter.tensor.zero_gradient()
    parameter.tensor.backward_with_seed(Tensor(np.full(parameter.tensor.shape, float(value))))


def walked(optimizer, parameter):
    """The values after each of GRADIENTS."""
    values = []
    for gradient in GRADIENTS:
        set_gradient(parameter, gradient)
        optimizer.step()
        values.append(parameter.tensor.value.values[0])
    return values


def test_sgd_subtracts_the_rate_times_the_gradient():
    parameter = named()
    expected, w = [], START
    for g in GRADIENTS:
        w -= RATE * g
        expected.append(float(w))
    assert walked(SGD([parameter], RATE), parameter) == expected


def test_momentum_carries_the_velocity():
    parameter = named()
    expected, w, v = [], START, Fraction(0)
    for g in GRADIENTS:
        v = Fraction(1, 2) * v + g
        w -= RATE * v
        expected.append(float(w))
    optimizer = Momentum([parameter], RATE, momentum=0.5)
    assert walked(optimizer, parameter) == expected
    assert optimizer.state == {"w": {"velocity": Tensor([float(v)])}}


def test_adam_corrects_its_averages_for_starting_at_zero():
    parameter = named()
    first, second = Fraction(3, 4), Fraction(7, 8)
    expected, w, m, s = [], float(START), Fraction(0), Fraction(0)
    for t, g in enumerate(GRADIENTS, 1):
        m = first * m + (1 - first) * g
        s = second * s + (1 - second) * g * g
        w -= float(RATE) * float(m / (1 - first**t)) / (float(s / (1 - second**t)) ** 0.5 + 1e-8)
        expected.append(w)
    optimizer = Adam([parameter], RATE, (0.75, 0.875))
    np.testing.assert_allclose(walked(optimizer, parameter), expected, rtol=1e-14)
    assert optimizer.state["w"]["mean"] == Tensor([float(m)])
    assert optimizer.state["w"]["steps"] == Tensor(5.0)


def test_adams_first_step_has_the_length_of_the_rate():
    """Without the correction for the start at 0 the step would be a third of the rate, at the usual betas."""
    parameter = named(values=[1.0, -1.0, 0.5])
    (parameter.tensor * Tensor([1e-3, -20.0, 0.0])).sum().backward()
    Adam([parameter], 0.01).step()
    np.testing.assert_allclose(parameter.tensor.value.values, [0.99, -0.99, 0.5], rtol=1e-6)


OPTIMIZERS = [lambda p: SGD(p, 0.1), lambda p: Momentum(p, 0.1), lambda p: Adam(p, 0.1)]


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_state_belongs_to_names_and_only_to_those_that_moved(make):
    parameters = NamedParameters([named("a.weight", [1.0, 2.0]), named("b.bias", 3.0), named("idle", [4.0])])
    optimizer = make(parameters)
    for _ in range(2):
        ((parameters[0].tensor * parameters[1].tensor).sum()).backward()
        optimizer.step()
        optimizer.zero_gradient()
    assert set(optimizer.state) == {"a.weight", "b.bias", "idle"}
    assert optimizer.state["idle"] == {}
    assert parameters[2].tensor.value == Tensor([4.0])
    assert not parameters[0].tensor.has_gradient
    assert parameters[1].tensor.shape == ()
    assert parameters[1].tensor.value != Tensor(3.0)


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_an_update_spares_snapshots_and_spoils_recorded_graphs(make):
    parameter = named(values=[1.0, 2.0])
    optimizer = make([parameter])
    loss = (parameter.tensor * parameter.tensor).sum()
    loss.backward(GraphRetention.RETAIN)
    before, gradient = parameter.tensor.value_snapshot(), parameter.tensor.gradient_snapshot()
    optimizer.step()
    assert (before, gradient) == (Tensor([1.0, 2.0]), Tensor([2.0, 4.0]))
    assert parameter.tensor.value != before
    assert parameter.tensor.gradient_snapshot() == gradient
    with pytest.raises(TensorAutodiffError, match="mutated inputs"):
        loss.backward()


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_a_step_out_of_the_finite_numbers_moves_nothing(make):
    first, second = named("first"), named("second", [-1.7e308])
    optimizer = make([first, second])
    optimizer.learning_rate = 1e308
    for parameter in (first, second):
        set_gradient(parameter, 1.5)
    with pytest.raises(TensorAutodiffError, match="'second'"):
        optimizer.step()
    assert first.tensor.value == Tensor([1.0])
    assert second.tensor.value == Tensor([-1.7e308])
    assert optimizer.state == {"first": {}, "second": {}}


def test_two_parameters_of_one_name_would_share_state():
    with pytest.raises(DuplicateName):
        SGD([named("w"), named("w")], 0.1)


@pytest.mark.parametrize("rate", [None, "0.1", True])
def test_a_rate_is_a_number(rate):
    with pytest.raises(TypeError, match="learning_rate"):
        SGD([named()], rate)


WRONG = [
    ("learning_rate", SGD, [np.nan, np.inf, -0.1]),
    ("learning_rate", Adam, [np.nan, np.inf, -0.1]),
    ("momentum", lambda p, value: Momentum(p, 0.1, value), [np.nan, -0.1, 1.0, 1.5]),
    ("betas.0.", lambda p, value: Adam(p, betas=(value, 0.9)), [np.nan, -0.1, 1.0, 1.5]),
    ("betas.1.", lambda p, value: Adam(p, betas=(0.9, value)), [np.nan, -0.1, 1.0, 2.0]),
    ("epsilon", lambda p, value: Adam(p, epsilon=value), [np.nan, np.inf, -1e-8]),
]


@pytest.mark.parametrize(
    ("name", "make", "value"), [(name, make, value) for name, make, values in WRONG for value in values]
)
def test_an_option_that_would_climb_or_divide_by_zero_is_refused(name, make, value):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        make([named()], value)


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_a_constant_that_no_step_would_ever_move_is_refused_by_name(make):
    """It never has a gradient, so it would stay as it is without a word."""

    class Frozen(NamedTuple):
        name: str
        tensor: TensorValue

    with pytest.raises(TensorAutodiffError, match=r"'b\.weight' is no trainable leaf"):
        make([named(), Frozen("b.weight", TensorValue.constant(Tensor([1.0])))])


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("foreign", [TensorValue.parameter(Tensor([1.0])), Tensor([1.0]), "w", None, np.ones(2)])
def test_what_has_no_name_and_leaf_is_refused_with_what_to_type(make, foreign):
    with pytest.raises(
        TypeError, match=rf"got {type(foreign).__name__}; .*NamedParameter\.from_tensor\(name, tensor"
    ):
        make([named(), foreign])


@pytest.mark.parametrize("single", [named(), TensorValue.parameter(Tensor([1.0])), None, 3])
def test_a_single_parameter_is_not_a_list_of_them(single):
    with pytest.raises(TypeError, match=rf"got one {type(single).__name__}; write \[parameter\]"):
        SGD(single, 0.1)


def test_equal_columns_stay_equal_to_the_bit():
    """The lesson of the zero matrix: a nonzero gradient, equal updates, and still one feature."""
    for make in OPTIMIZERS:
        weights = named("w", np.zeros((2, 2)))
        optimizer = make([weights])
        for _ in range(20):
            hidden = (TensorValue.constant(Tensor([[1.0, -0.7], [0.3, 2.0]])) @ weights.tensor).silu()
            ((hidden @ Tensor([[1.0], [1.0]]) - 1) ** 2).sum().backward()
            optimizer.step()
            optimizer.zero_gradient()
        trained = weights.tensor.value.values
        assert np.array_equal(trained[:, 0], trained[:, 1])
        assert not np.array_equal(trained, np.zeros((2, 2)))
