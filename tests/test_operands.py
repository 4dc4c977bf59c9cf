"""Operands: numbers and tensors on either side of an operator, and nothing that could lose a gradient."""

import numpy as np
import pytest

from fastinit import Tensor, TensorValue
from fastinit import autodiff as ad
from fastinit.errors import TensorAutodiffError


def parameter(values):
    return TensorValue.parameter(Tensor(values))


SWALLOWING = [
    ("w.T.dot(x)", lambda w, x: w.T.dot(x)),
    ("np.dot", np.dot),
    ("np.matmul", np.matmul),
    ("np.add", np.add),
    ("np.exp", lambda w, x: np.exp(x)),
    ("np.sum", lambda w, x: np.sum(x)),
    ("np.asarray", lambda w, x: np.asarray(x)),
    ("np.array of nodes", lambda w, x: np.array([x, x])),
    ("np.where", lambda w, x: np.where(w > 0, x, w)),
    ("array @ node", lambda w, x: w @ x),
    ("array + node", lambda w, x: w + x),
    ("node * array", lambda w, x: x * w),
    ("node - array", lambda w, x: x - w),
    ("array / node", lambda w, x: w / x),
    ("array ** node", lambda w, x: w**x),
    ("array += node", lambda w, x: w.__iadd__(x)),
    ("Tensor(node)", lambda w, x: Tensor(x)),
    ("Tensor of nodes", lambda w, x: Tensor([x, x])),
]


@pytest.mark.parametrize("swallow", [row[1] for row in SWALLOWING], ids=[row[0] for row in SWALLOWING])
def test_numpy_never_swallows_a_node(swallow):
    """``w.T.dot(x)`` with a plain array gave a gradient of zeros, silently."""
    with pytest.raises((TensorAutodiffError, TypeError)) as caught:
        swallow(np.ones((2, 2)), parameter([[1.0, 2.0], [3.0, 4.0]]))
    assert "Tensor" in str(caught.value) or "__array_ufunc__" in str(caught.value)


@pytest.mark.parametrize(
    ("function", "ours"),
    [
        (np.sum, "fastinit.autodiff.sum(x)"),
        (np.mean, "fastinit.autodiff.mean(x)"),
        (np.max, "fastinit.autodiff.max(x)"),
        (np.transpose, "fastinit.autodiff.transpose(x)"),
        (np.prod, "the operations of fastinit.autodiff"),
    ],
)
def test_a_function_of_numpy_is_refused_in_our_words(function, ours):
    """``sum() got an unexpected keyword argument 'out'``: numpy called our method with arguments of its own."""
    with pytest.raises(TensorAutodiffError) as caught:
        function(parameter([1.0, 2.0]))
    assert f"numpy's {function.__name__} cannot take a TensorValue" in str(caught.value)
    assert ours in str(caught.value)


OPERATORS = [
    (lambda a, b: a + b, lambda a, b: a + b),
    (lambda a, b: a - b, lambda a, b: a - b),
    (lambda a, b: a * b, lambda a, b: a * b),
    (lambda a, b: a / b, lambda a, b: a / b),
    (lambda a, b: a**b, lambda a, b: a**b),
]


@pytest.mark.parametrize(("operator", "expected"), OPERATORS)
@pytest.mark.parametrize("number", [2, 2.0, np.float64(2), np.float32(2), np.int64(2), Tensor([2.0, 2.0])])
def test_operators_take_numbers_and_tensors_on_either_side(operator, expected, number):
    x = parameter([1.5, 3.0])
    plain = number.values if isinstance(number, Tensor) else 2.0
    for found, wanted in (
        (operator(x, number), expected(np.array([1.5, 3.0]), plain)),
        (operator(number, x), expected(plain, np.array([1.5, 3.0]))),
    ):
        assert isinstance(found, TensorValue)
        np.testing.assert_allclose(found.value.values, wanted, rtol=1e-15)
        found.sum().backward()
    assert x.gradient_snapshot() is not None


def test_matrix_operators_take_tensors_on_either_side():
    x, matrix = parameter([1.0, 2.0]), Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert (x @ matrix).value == Tensor([7.0, 10.0])
    assert (matrix @ x).value == Tensor([5.0, 11.0])
    assert (-x).value == Tensor([-1.0, -2.0])
    assert abs(-x).value == Tensor([1.0, 2.0])


@pytest.mark.parametrize("foreign", [None, "2", 2j, True, [1.0, 2.0], object(), np.ones(2), 10**400])
@pytest.mark.parametrize(
    "operator", [lambda x, y: x * y, lambda x, y: y - x, ad.add, lambda x, y: x.concatenate(y)]
)
def test_foreign_operands_are_refused(foreign, operator):
    with pytest.raises((TensorAutodiffError, TypeError)) as caught:
        operator(parameter([1.0, 2.0]), foreign)
    assert isinstance(caught.value, TensorAutodiffError) or isinstance(foreign, list)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -np.inf, np.float32("inf")])
def test_numbers_that_are_not_finite_are_refused(number):
    with pytest.raises(TensorAutodiffError, match="multiply: operands are finite"):
        parameter([1.0]) * number
