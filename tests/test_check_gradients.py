"""`check_gradients`: a check that passes a wrong rule is worse than none."""

import numpy as np
import pytest

from fastinit import Tensor, TensorValue
from fastinit import autodiff as ad
from fastinit.errors import TensorAutodiffError


def test_check_gradients_finds_a_wrong_gradient_and_says_where():
    def flawed(x, y):
        detached = TensorValue.constant(x.value)  # a forgotten path: half the gradient is missing
        return x * detached + y

    with pytest.raises(TensorAutodiffError, match=r"gradient of input 0 is wrong: along direction 0 .*relative"):
        ad.check_gradients(flawed, Tensor([1.0, 2.0]), Tensor([1.0, 2.0]))
    assert ad.check_gradients(lambda x, y: x.tanh(), Tensor([1.0]), Tensor([3.0])) < 1e-9
    assert ad.check_gradients(lambda x: x * 2, Tensor(np.zeros((0, 2)))) == 0.0


def test_check_gradients_is_repeatable():
    function, x = (lambda x: x.silu()), Tensor([0.3, -0.7])
    assert ad.check_gradients(function, x, seed=3) == ad.check_gradients(function, x, seed=3)


def twice(x):
    """x, with a gradient of 2: wrong by a factor."""
    return x * 2 - Tensor(x.value.values)


def nearly(x):
    """x, with a gradient of 1 + 1e-5."""
    return x * (1 + 1e-5) - Tensor(x.value.values * 1e-5)


@pytest.mark.parametrize("wrong", [twice, nearly])
@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e-6, 1.0, 1e6, 1e200])
def test_check_gradients_catches_a_wrong_rule_at_every_scale(wrong, scale):
    """If the tolerated noise had a fixed size, a small result would pass with any gradient."""
    x = Tensor([0.3, -0.7])
    assert ad.check_gradients(lambda v: scale * v.tanh(), x) < 1e-9
    with pytest.raises(TensorAutodiffError, match="input 0 is wrong"):
        ad.check_gradients(lambda v: scale * wrong(v).tanh(), x)
    inputs = Tensor(x.values * scale)
    assert ad.check_gradients(lambda v: (v / scale).tanh(), inputs) < 1e-9
    with pytest.raises(TensorAutodiffError, match="input 0 is wrong"):
        ad.check_gradients(lambda v: (wrong(v) / scale).tanh(), inputs)


UNJUDGED = [
    ("a large constant", lambda v: v + 1e12, [1.0]),
    ("no digit moves", lambda v: 1e-30 * v + 1.0, [1.0]),
]


@pytest.mark.parametrize(("function", "values"), [row[1:] for row in UNJUDGED], ids=[row[0] for row in UNJUDGED])
def test_check_gradients_does_not_pass_what_differences_cannot_judge(function, values):
    with pytest.raises(TensorAutodiffError, match="cannot judge the gradient of input 0 to 1e-06"):
        ad.check_gradients(function, Tensor(values))


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda v: (v + 1e10) - 1e10, [1.0]),
        (lambda v: v.relu(), [1e-5, 1.0]),
        (lambda v: (v * 1e4).tanh(), [1e-4, 1.0]),
    ],
    ids=["lost digits", "a kink", "a step too long"],
)
def test_check_gradients_passes_no_differences_that_mislead(function, values):
    """Their error does not always show. A right gradient is then called wrong, and somebody looks into it."""
    with pytest.raises(TensorAutodiffError, match="the gradient of input 0"):
        ad.check_gradients(function, Tensor(values))


def test_check_gradients_passes_gradients_of_exactly_zero():
    assert ad.check_gradients(lambda v: v.relu(), Tensor([-1.0, -2.0])) == 0.0
    assert ad.check_gradients(lambda v: v.softmax(), Tensor([[1.0], [2.0]])) == 0.0
    assert ad.check_gradients(lambda v: v * v, Tensor([0.0])) == 0.0


@pytest.mark.parametrize(
    "options",
    [{"directions": 0}, {"directions": -1}, {"step": 0.0}, {"step": -0.1}, {"step": np.inf}, {"step": np.nan},
     {"tolerance": np.nan}, {"tolerance": np.inf}, {"tolerance": 0.0}, {"tolerance": -1e-6}, {"tolerance": 1.0}],
)  # fmt: skip
def test_check_gradients_refuses_options_that_check_nothing(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        ad.check_gradients(twice, Tensor([1.0]), **options)


def test_check_gradients_refuses_what_has_no_gradient():
    with pytest.raises(ValueError, match="nothing would be checked: 0 inputs"):
        ad.check_gradients(lambda: 1.0)
    with pytest.raises(TypeError, match="must return a TensorValue, got float"):
        ad.check_gradients(lambda v: v.item(), Tensor([1.0]))
    with pytest.raises(TensorAutodiffError, match="no trainable leaf"):
        ad.check_gradients(lambda v: TensorValue.constant(v.value), Tensor([1.0]))
