"""`Tensor` and the leaves: a value that could change, or an identity that could be copied, breaks replay."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest

import fastinit
from fastinit import Tensor, TensorValue
from fastinit.errors import TensorAutodiffError, TensorError

NOT_TENSORS = [
    ("ragged", [[1.0, 2.0], [3.0]], "rectangular"),
    ("strings", ["1.0", "2.0"], "real numbers"),
    ("text", "17", "real numbers"),
    ("bytes", b"17", "real numbers"),
    ("complex", [1.0 + 0j], "real numbers"),
    ("complex array", np.zeros(2, np.complex64), "complex64"),
    ("None", None, "real numbers"),
    ("None inside", [1.0, None], "real numbers"),
    ("objects", [Fraction(1, 2)], "real numbers"),
    ("an int no float64 array holds", [2**70], "real numbers"),
    ("dates", np.zeros(1, "datetime64[s]"), "real numbers"),
    ("a dict", {"a": 1}, "real numbers"),
    ("nan", [0.0, 1.0, float("nan")], "element 2 .* nan"),
    ("inf", [[0.0, float("inf")], [0.0, 0.0]], "element 1 .* inf"),
    ("-inf", float("-inf"), "element 0 .* -inf"),
    ("a long double past float64", np.ldexp(np.longdouble(1), 2000), "element 0 .* inf"),  # and no warning
]


@pytest.mark.parametrize(("values", "said"), [row[1:] for row in NOT_TENSORS], ids=[row[0] for row in NOT_TENSORS])
def test_values_that_are_no_finite_real_array_are_refused(values, said):
    with pytest.raises(TensorError, match=said):
        Tensor(values)


@pytest.mark.parametrize(
    ("values", "shape"),
    [(1.5, ()), ([], (0,)), ([1, 2], (2,)), ([[True, False]], (1, 2)), (np.zeros((2, 0, 3)), (2, 0, 3))],
)
def test_values_become_row_major_float64(values, shape):
    tensor = Tensor(values)
    assert tensor.shape == shape
    assert type(tensor.shape) is tuple
    assert tensor.values.dtype == np.float64
    assert tensor.values.flags.c_contiguous
    assert np.array_equal(tensor.values, np.asarray(values))


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_tensor_does_not_follow_the_array_it_was_made_from(order):
    source = np.array([[1.0, 2.0], [3.0, 4.0]], order=order)
    tensor = Tensor(source)
    source[:] = -1
    assert tensor.values.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert tensor.values.flags.c_contiguous
    assert source.flags.writeable, "making a tensor froze the caller's array"


def test_a_tensor_of_a_tensor_shares_its_values():
    """A tensor counts as values too; it cannot change, so no copy is needed."""
    tensor = Tensor([[1.0, 2.0]])
    again = Tensor(tensor)
    assert again == tensor
    assert np.shares_memory(again.values, tensor.values)


def test_a_tensor_cannot_be_changed_through_its_values():
    tensor = Tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        tensor.values[0] = 5.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        tensor.values.flags.writeable = True
    with pytest.raises(AttributeError):
        tensor.values = np.zeros(2)
    with pytest.raises(AttributeError):
        tensor.extra = 1
    assert tensor.values.tolist() == [1.0, 2.0]


def test_from_vec_lays_values_out_row_major():
    assert Tensor.from_vec((2, 3), range(6)).values.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert Tensor.from_vec([], [7.0]).shape == ()
    assert Tensor.from_vec(3, iter([1.0, 2.0, 3.0])).shape == (3,)
    assert Tensor.from_vec((0, 3), []).shape == (0, 3)


@pytest.mark.parametrize(
    ("shape", "values", "said"),
    [
        ((2, 2), [1.0] * 3, r"\(2, 2\) holds 4 values, got 3"),
        ((2, 2), [1.0] * 5, "holds 4 values, got 5"),
        ((), [], "holds 1 values, got 0"),
        ((0,), [1.0], "holds 0 values, got 1"),
        ((2, 2), [[1.0, 2.0], [3.0, 4.0]], r"flat sequence, got shape \(2, 2\)"),
        ((2**40, 2**40), [1.0], f"holds {2**80} values"),
        ((2,), [1.0, float("nan")], "element 1"),
        ((2,), "ab", "real numbers"),
    ],
)
def test_from_vec_refuses_values_that_do_not_fit_the_shape(shape, values, said):
    with pytest.raises(TensorError, match=said):
        Tensor.from_vec(shape, values)


@pytest.mark.parametrize(
    ("shape", "error"),
    [((-1,), ValueError), ((1.0,), TypeError), ((True,), TypeError), (None, TypeError), ("2", TypeError),
     ((2**64,), ValueError)],
)  # fmt: skip
def test_from_vec_takes_integers_for_a_shape(shape, error):
    with pytest.raises(error) as caught:
        Tensor.from_vec(shape, [1.0])
    assert type(caught.value) is error


def test_equal_tensors_are_equal_and_hash_alike():
    assert Tensor([0.0, 1.0]) == Tensor([-0.0, 1.0])
    assert hash(Tensor([0.0, 1.0])) == hash(Tensor([-0.0, 1.0]))
    assert Tensor([1.0]) != Tensor([[1.0]])
    assert Tensor([1.0]) != Tensor([2.0])
    assert Tensor([1.0]) != [1.0]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])
def test_a_copied_tensor_is_equal_and_still_immutable(again):
    tensor = Tensor([[1.0, -0.0], [3.0, 5e-324]])
    made = again(tensor)
    assert made.values.tobytes() == tensor.values.tobytes()
    assert made.shape == tensor.shape
    assert not made.values.flags.writeable


LEAVES = [(TensorValue.parameter, True), (TensorValue.constant, False)]


@pytest.mark.parametrize(("make", "trainable"), LEAVES)
def test_a_leaf_holds_its_tensor_and_no_gradient_yet(make, trainable):
    tensor = Tensor([[1.0, 2.0, 3.0]])
    leaf = make(tensor)
    assert leaf.shape == (1, 3)
    assert leaf.value == tensor
    assert leaf.value_snapshot() == tensor
    assert leaf.gradient_snapshot() == (Tensor([[0.0, 0.0, 0.0]]) if trainable else None)
    assert leaf.is_trainable is trainable
    assert not leaf.has_gradient


@pytest.mark.parametrize(("make", "trainable"), LEAVES)
def test_equal_values_are_not_the_same_node(make, trainable):
    """A shared node receives every user's gradient; a look-alike must not."""
    tensor = Tensor([1.0])
    leaf, twin = make(tensor), make(tensor)
    assert leaf.is_same_node(leaf)
    assert leaf.is_same_node(copy.copy(leaf))
    for other in (twin, copy.deepcopy(leaf), pickle.loads(pickle.dumps(leaf))):
        assert not leaf.is_same_node(other)
        assert other.value == leaf.value
        assert other.is_trainable is trainable
        assert not other.has_gradient


def test_a_node_deepcopied_twice_in_one_object_stays_one_node():
    """Tied weights (one leaf under two roles) must stay tied in a copied model."""
    leaf = TensorValue.parameter(Tensor([1.0]))
    first, second = copy.deepcopy([leaf, leaf])
    assert first.is_same_node(second)
    first, second = pickle.loads(pickle.dumps([leaf, leaf]))
    assert first.is_same_node(second)


@pytest.mark.parametrize(("make", "trainable"), LEAVES)
@pytest.mark.parametrize("value", [[1.0], np.zeros(2), None, 1.0])
def test_a_leaf_holds_tensors_only(make, trainable, value):
    with pytest.raises(TensorAutodiffError, match=r"fastinit\.Tensor"):
        make(value)


def test_a_leaf_is_made_by_its_two_constructors_only():
    with pytest.raises(TypeError, match=r"TensorValue\.parameter"):
        fastinit.TensorValue()
    leaf = TensorValue.parameter(Tensor([1.0]))
    for attribute in ("value", "shape", "is_trainable"):
        with pytest.raises(AttributeError):
            setattr(leaf, attribute, None)
