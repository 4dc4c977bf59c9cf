"""The graph: gradients must not depend on its depth, its order or the reuse of its nodes."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from conftest import run_python

import fastinit
from fastinit import GraphRetention, Tensor, TensorValue
from fastinit import autodiff as ad
from fastinit.autodiff.graph import toposort
from fastinit.errors import TensorAutodiffError, TensorError


def parameter(values):
    return TensorValue.parameter(Tensor(values))


def gradient(leaf):
    return leaf.gradient_snapshot().values.tolist()


def test_the_zero_symmetry_probe():
    """The first lesson: zero weights still learn, and two hidden units stay one."""
    inputs = TensorValue.constant(Tensor([[1.0, -1.0]]))
    weights = parameter([[0.0, 0.0], [0.0, 0.0]])
    output_weights = TensorValue.constant(Tensor([[1.0], [1.0]]))
    output = inputs.matmul(weights).silu().matmul(output_weights)
    output.backward_with_seed(Tensor([[1.0]]), GraphRetention.RETAIN)
    assert output.value == Tensor([[0.0]])
    assert weights.gradient_snapshot() == Tensor([[0.5, 0.5], [-0.5, -0.5]])
    assert inputs.gradient_snapshot() is None


def test_a_node_used_twice_gets_both_gradients_once():
    """A recursive walk that visits b twice gives too much."""
    a = parameter([1.0])
    b = a + a
    c = b + b
    c.backward()
    assert gradient(a) == [4.0]


def test_a_diamond_deep_in_the_graph_waits_for_all_its_users():
    """d(x**8) through four squarings whose results are also used elsewhere."""
    x = parameter(3.0)
    y, total = x, 0.0
    for _ in range(3):
        y = y * y
        total = y + total
    total.backward()
    assert gradient(x) == 2 * 3 + 4 * 3**3 + 8 * 3**7


@pytest.mark.parametrize("times", [2, 3])
def test_leaves_accumulate_exactly_once_a_pass(times):
    """A second pass over a retained graph counted inner gradients again."""
    x = parameter([1.0, 2.0])
    loss = ((x * x) * (x * x)).sum()
    for _ in range(times):
        loss.backward(GraphRetention.RETAIN)
    assert gradient(x) == [times * 4.0, times * 32.0]
    x.zero_gradient()
    assert gradient(x) == [0.0, 0.0]
    assert not x.has_gradient
    loss.backward()
    assert gradient(x) == [4.0, 32.0]


def test_gradients_of_two_graphs_add_up():
    x = parameter([2.0])
    (3 * x).backward()
    (x * x).backward()
    assert gradient(x) == [7.0]


def test_shared_gradients_stay_apart():
    """`x + y` hands one array to both; adding to one of them must not change the other."""
    x, y = parameter([1.0]), parameter([1.0])
    (x + y).backward()
    (x * 5).backward()
    snapshot = x.gradient_snapshot()
    (x * 5).backward()
    assert (gradient(x), gradient(y), snapshot) == ([11.0], [1.0], Tensor([6.0]))


def test_a_leaf_is_its_own_graph():
    x = parameter([[3.0]])
    x.backward()
    x.backward_with_seed(Tensor([[4.0]]))
    assert gradient(x) == [[5.0]]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_backward_starts_from_any_one_element(shape):
    x = parameter(np.full(shape, 3.0))
    y = x * x
    assert y.shape == shape
    y.backward()
    assert x.gradient_snapshot() == Tensor(np.full(shape, 6.0))


def test_constants_record_nothing():
    """Inputs and frozen weights: no gradient is computed for them, no graph is kept behind them."""
    x = TensorValue.constant(Tensor([1.0, 2.0]))
    y = (x * x).sum()
    assert toposort(y) == [y]
    w = parameter([3.0, 4.0])
    assert [node.shape for node in toposort((x * w).sum())] == [(), (2,), (2,)]
    with pytest.raises(TensorAutodiffError, match="no trainable leaf"):
        y.backward()


def test_a_seed_weighs_the_elements():
    x = parameter([[1.0, 2.0], [3.0, 4.0]])
    (x * x).backward_with_seed(Tensor([[1.0, 0.0], [-1.0, 0.5]]))
    assert gradient(x) == [[2.0, 0.0], [-6.0, 4.0]]


@pytest.mark.parametrize(
    "seed", [Tensor([1.0]), Tensor([[1.0, 1.0]]), Tensor(1.0), [1.0, 1.0], np.ones(2), 1.0, None]
)
def test_a_seed_of_another_shape_or_type_is_refused(seed):
    """Broadcast quietly, it would scale the gradient by the number of elements."""
    x = parameter([1.0, 2.0])
    with pytest.raises(TensorAutodiffError, match=r"the seed is a Tensor of the value's shape \(2,\)"):
        (x * x).backward_with_seed(seed)
    assert not x.has_gradient


def test_a_seed_that_is_not_finite_is_refused():
    with pytest.raises(TensorError, match="nan"):
        parameter([1.0]).backward_with_seed(Tensor([float("nan")]))


def test_backward_from_several_elements_says_what_to_do():
    x = parameter([1.0, 2.0])
    with pytest.raises(TensorAutodiffError, match=r"shape \(2,\).*\.sum\(\).*backward_with_seed"):
        (x * x).backward()
    with pytest.raises(TensorAutodiffError, match="one element"):
        (x[:0] * 2).backward()


@pytest.mark.parametrize("retention", [True, "retain", None, 0])
def test_retention_is_never_guessed(retention):
    x = parameter([1.0])
    with pytest.raises(TypeError, match="GraphRetention"):
        (x * x).backward(retention)


def test_a_released_graph_is_refused_and_named():
    x = parameter([1.0, 2.0])
    inner = x * x
    loss = inner.sum()
    loss.backward()
    for end in (loss, (inner * 2).sum()):
        with pytest.raises(TensorAutodiffError, match=r"released.*GraphRetention\.RETAIN"):
            end.backward()
    assert gradient(x) == [2.0, 4.0], "a refused pass added something"
    assert loss.item() == 5.0
    assert repr(loss) == "TensorValue.sum(shape=())"


def test_release_frees_what_only_the_graph_held():
    x = parameter([1.0, 2.0])
    inner = x * x
    seen = weakref.ref(inner)
    loss = inner.sum()
    del inner
    loss.backward(GraphRetention.RETAIN)
    assert seen() is not None
    loss.backward()
    assert seen() is None


def test_a_graph_recorded_before_an_update_is_refused():
    """Gradients of the old weights, applied to the new ones, are a silent mistake."""
    w = parameter([1.0, 2.0])
    before = w.value_snapshot()
    loss = (w * w).sum()
    w.assign(Tensor([5.0, 6.0]))
    with pytest.raises(TensorAutodiffError, match=r"mutated inputs: a leaf of shape \(2,\).*'multiply'"):
        loss.backward()
    assert not w.has_gradient
    assert (before, w.value_snapshot()) == (Tensor([1.0, 2.0]), Tensor([5.0, 6.0]))
    (w * w).sum().backward()
    assert gradient(w) == [10.0, 12.0]


def test_only_a_trainable_leaf_is_assigned_and_only_its_shape():
    w = parameter([1.0, 2.0])
    for node in (TensorValue.constant(Tensor([1.0, 2.0])), w * 2):
        with pytest.raises(TensorAutodiffError, match="only a trainable leaf"):
            node.assign(Tensor([1.0, 2.0]))
    for value in (Tensor([1.0]), Tensor([[1.0, 2.0]]), [1.0, 2.0], None):
        with pytest.raises(TensorAutodiffError, match=r"Tensor of shape \(2,\)"):
            w.assign(value)
    assert w.value == Tensor([1.0, 2.0])


def test_the_graph_does_not_follow_the_callers_arrays():
    rows, mask, classes = np.array([0, 1]), np.array([True, False]), np.array([1, 0])
    x = parameter([[1.0, 2.0], [3.0, 4.0]])
    y = parameter([1.0, 2.0])
    gathered, chosen, lost = x.gather(rows), ad.where(mask, y, 0.0), x.cross_entropy(classes)
    expected = x.cross_entropy([1, 0])
    rows[:], mask[:], classes[:] = 0, True, 0
    gathered.sum().backward()
    assert gradient(x) == [[1.0, 1.0], [1.0, 1.0]]
    chosen.sum().backward()
    assert gradient(y) == [1.0, 0.0]
    x.zero_gradient()
    lost.backward()
    found = gradient(x)
    x.zero_gradient()
    expected.backward()
    assert found == gradient(x)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x.sqrt().sum(), r"sqrt of shape \(2,\): the gradient of input 0 is not finite; element 0"),
        (lambda x: (x**0.5).sum(), r"power of shapes \(2,\), \(\): the gradient of input 0 is not finite"),
        (
            lambda x: (x[0] * 1e200) * 1e200,
            r"multiply of shapes \(\), \(\): the gradient of input 0 is not finite",
        ),
    ],
)
def test_a_gradient_that_is_not_finite_is_refused_by_the_name_of_its_rule(function, said):
    x = parameter([0.0, 4.0])
    loss = function(x)
    with pytest.raises(TensorAutodiffError, match=said):
        loss.backward(GraphRetention.RETAIN)
    assert not x.has_gradient


def test_a_refused_pass_changes_no_leaf():
    """The second leaf's gradient is infinite; the first one's must not have been stored by then."""
    x, y = parameter([1.0]), parameter([0.0])
    loss = x + y.sqrt()
    for _ in range(2):
        with pytest.raises(TensorAutodiffError, match="sqrt"):
            loss.backward()
    assert not x.has_gradient
    assert not y.has_gradient


def test_accumulated_gradients_that_overflow_are_refused():
    x = parameter([1.0])
    (x * 1.7e308).backward()
    with pytest.raises(TensorAutodiffError, match="accumulated gradient"):
        (x * 1.7e308).backward()
    assert gradient(x) == [1.7e308]


def test_a_node_is_no_sequence_and_no_number():
    x = parameter([1.0, 2.0])
    for use in (iter, float, len, lambda x: 1.0 in x, lambda x: x < 1, lambda x: x // 2):
        with pytest.raises(TypeError):
            use(x)
    with pytest.raises(TensorAutodiffError, match="one element"):
        x.item()
    assert x[1].item() == 2.0
    assert len({x, copy.copy(x), parameter([1.0, 2.0])}) == 2


@pytest.mark.parametrize("again", [copy.deepcopy, lambda node: pickle.loads(pickle.dumps(node))])
def test_a_copied_result_is_a_leaf_without_a_graph(again):
    x = parameter([1.0, 2.0])
    made = again((x * x).transpose())
    assert made.value == Tensor([1.0, 4.0])
    assert not made.is_trainable
    with pytest.raises(TensorAutodiffError, match="no trainable leaf"):
        made[0].backward()


def test_values_and_gradients_are_row_major_and_read_only():
    x = parameter(np.arange(6.0).reshape(2, 3))
    y = x.T
    y.backward_with_seed(Tensor(np.arange(6.0).reshape(3, 2)))
    for tensor in (y.value, x.gradient_snapshot(), x[:, ::2].value, (x[0, 0] * 1).value):
        assert type(tensor.values) is np.ndarray
        assert tensor.values.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            tensor.values[...] = 0
    assert gradient(x) == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]


def test_representations_name_the_operation():
    x = parameter([1.0])
    nodes = (x, TensorValue.constant(Tensor([1.0])), x.silu(), (x @ Tensor([1.0])))
    assert [repr(node) for node in nodes] == [
        "TensorValue.parameter(shape=(1,))",
        "TensorValue.constant(shape=(1,))",
        "TensorValue.silu(shape=(1,))",
        "TensorValue.matmul(shape=())",
    ]


def test_toposort_puts_every_node_after_its_users():
    x, y = parameter([1.0]), parameter([2.0])
    a = x * y
    b = a + x
    c = (b * a) - y
    order = toposort(c)
    place = {node: at for at, node in enumerate(order)}
    assert len(order) == len(place) == 6
    assert place[c] == 0
    assert place[b] < place[a] < place[x]
    assert place[a] < place[y]


DEEP = """
import gc, sys, threading
from fastinit import GraphRetention, Tensor, TensorValue

def chain(x, links):
    for _ in range(links):
        x = -x
    return x

def run():
    gc.disable()  # a million live objects would be looked at again and again
    leaf = TensorValue.parameter(Tensor([1.0]))
    end = chain(leaf, 1_000_000)
    {use}
    print("done", end is None or end.item(), leaf.gradient_snapshot() if leaf.has_gradient else None)

sys.setrecursionlimit(200)
threading.stack_size(256 * 1024)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("end.backward(GraphRetention.RETAIN); end.backward()", "done 1.0 Tensor([2.])"),
        ("ring = [end]; ring.append(ring); del ring; end = None; gc.collect()", "done True None"),
    ],
    ids=["two passes and release", "never walked, collected as garbage"],
)
def test_a_million_links_need_no_recursion(use, said):
    """Freeing a chain of 60,000 additions overflowed the stack. Here a stack of 256 KiB must do."""
    ended = run_python("-c", DEEP.format(use=use))
    assert ended.returncode == 0, f"a chain of 10**6 nodes crashed: {ended.stderr[-500:]}"
    assert ended.stdout.strip() == said


def test_a_training_loop_keeps_no_old_graphs():
    weight = parameter([[0.5]])
    seen = []
    for _ in range(3):
        loss = (weight * weight).sum()
        seen.append(weakref.ref(loss))
        loss.backward()
        weight.assign(Tensor(weight.value.values - 0.1 * weight.gradient_snapshot().values))
        weight.zero_gradient()
    del loss
    gc.collect()
    assert [ref() for ref in seen] == [None, None, None]


def test_the_public_names():
    assert fastinit.GraphRetention is ad.GraphRetention
    assert all(hasattr(ad, name) for name in ad.__all__)


def test_a_fresh_trainable_leaf_has_a_gradient_of_zeros_and_nothing_else_has_one():
    """None says that there is no trainable leaf, not that no backward pass has come by."""
    leaf, constant = parameter([[1.0, 2.0]]), TensorValue.constant(Tensor([[1.0, 2.0]]))
    assert leaf.gradient_snapshot() == Tensor([[0.0, 0.0]])
    assert constant.gradient_snapshot() is None
    made = leaf * constant
    assert made.gradient_snapshot() is None
    made.sum().backward()
    assert made.gradient_snapshot() is None
    assert leaf.has_gradient
    assert not parameter([1.0]).has_gradient
