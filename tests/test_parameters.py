"""Named parameters: the order of checks, and that a refused request never moves the generator."""

import copy
import pickle
import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import GAMMA, U64, unmoved, xavier_weights
from hypothesis import given
from hypothesis import strategies as st

import fastinit
from fastinit import NamedParameter, NamedParameters, SplitMix64, Tensor, TensorValue
from fastinit.errors import (
    AllocationFailed,
    DuplicateName,
    EmptyName,
    EmptyNameSegment,
    FanSumOverflow,
    InitializationError,
    InvalidNameCharacter,
    ShapeProductOverflow,
    TensorAutodiffError,
    TensorError,
    ZeroFanIn,
    ZeroFanOut,
)

MAX = U64 - 1
GOOD = "decoder.weight"

# (name, fan_in, fan_out), the error, its facts. Rows marked with two faults stand at the border of two
# neighbouring checks; a zero fan cannot overflow the sum, so that border does not exist.
REFUSED = [
    ("float before empty name", ("", 1.9, 2), TypeError, None),
    ("bool before name", ("Bad", True, 2), TypeError, None),
    ("None before name", ("Bad", 2, None), TypeError, None),
    ("text before name", ("", "2", 2), TypeError, None),
    ("numpy bool before name", ("", np.True_, 2), TypeError, None),
    ("numpy float before name", ("", np.float64(2), 2), TypeError, None),
    ("negative before name", ("Bad", -1, 2), ValueError, None),
    ("2**64 before name", ("", 2, U64), ValueError, None),
    ("huge before zero fan", (GOOD, 0, 10**5000), ValueError, None),
    ("empty name", ("", 2, 2), EmptyName, ()),
    ("segment", ("a..b", 2, 2), EmptyNameSegment, (2,)),
    ("character", ("Decoder.weight", 2, 2), InvalidNameCharacter, (0, 0x44)),
    ("empty name before fan_in", ("", 0, 2), EmptyName, ()),
    ("segment before fan_in", ("a.", 0, 2), EmptyNameSegment, (2,)),
    ("character before fan_in", ("a.B", 0, 2), InvalidNameCharacter, (2, 0x42)),
    ("name before fan_out", ("a.B", 2, 0), InvalidNameCharacter, (2, 0x42)),
    ("name before sum", ("a.B", MAX, 1), InvalidNameCharacter, (2, 0x42)),
    ("fan_in", ("decoder.invalid.weight", 0, 2), ZeroFanIn, ()),
    ("fan_in before fan_out", (GOOD, 0, 0), ZeroFanIn, ()),
    ("fan_out", (GOOD, 2, 0), ZeroFanOut, ()),
    ("fan_out beside the largest sum", (GOOD, MAX, 0), ZeroFanOut, ()),
    ("sum by one", (GOOD, MAX, 1), FanSumOverflow, (MAX, 1)),
    ("sum before product", (GOOD, MAX, MAX), FanSumOverflow, (MAX, MAX)),
    ("product by one, sum fits", (GOOD, 2**32, 2**32), ShapeProductOverflow, (2**32, 2**32)),
    ("product at the largest sum", (GOOD, MAX - 2, 2), ShapeProductOverflow, (MAX - 2, 2)),
    ("storage of the largest product", (GOOD, 2**32 - 1, 2**32 + 1), AllocationFailed, (MAX,)),
    ("storage past numpy's limit", (GOOD, 2**31, 2**31), AllocationFailed, (2**62,)),
]


@pytest.mark.parametrize(
    ("request_", "error", "facts"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_the_first_failing_check_is_the_error_and_moves_nothing(request_, error, facts):
    rng = SplitMix64(17)
    with unmoved(rng), pytest.raises(error) as caught:
        NamedParameter.xavier_uniform(*request_, rng)
    assert type(caught.value) is error
    if facts is not None:
        assert caught.value.args == facts
    # Correcting the request reuses the draws it was meant to have.
    corrected = NamedParameter.xavier_uniform(GOOD, 2, 2, rng)
    assert np.array_equal(corrected.tensor.value.values, xavier_weights(17, (2, 2), 4))


@pytest.mark.parametrize("value", [1.9, True, None, "17", b"17", [17], np.float32(3), 1 + 0j])
def test_what_is_no_integer_is_named(value):
    for request_, what in (((value, 2), "fan_in"), ((2, value), "fan_out")):
        with pytest.raises(TypeError, match=f"{what} must be an integer, got {re.escape(repr(value))}"):
            NamedParameter.xavier_uniform(GOOD, *request_, 17)
        with pytest.raises(TypeError, match=what):
            fastinit.xavier_scale(*request_)


@pytest.mark.parametrize("value", [-1, U64, -(2**63), pytest.param(10**5000, id="10**5000")])
def test_an_integer_out_of_range_is_a_value_error_never_an_overflow_error(value):
    for request_, what in (((value, 2), "fan_in"), ((2, value), "fan_out")):
        with pytest.raises(ValueError, match=f"{what} must be between 0 and"):
            NamedParameter.xavier_uniform(GOOD, *request_, 17)
    with pytest.raises(ValueError, match="must be between 0 and"):
        NamedParameter.xavier_uniform(GOOD, 2, 2, value)


@pytest.mark.parametrize("rng", [1.9, True, None, "17", np.random.default_rng(0), np.random.PCG64(0)])
def test_a_generator_of_another_kind_is_refused_before_the_name(rng):
    with pytest.raises(TypeError):
        NamedParameter.xavier_uniform("", 2, 2, rng)


def test_numpy_integers_are_integers():
    ours = NamedParameter.xavier_uniform(GOOD, np.uint8(2), np.int64(3), np.uint64(17))
    assert np.array_equal(ours.tensor.value.values, xavier_weights(17, (2, 3), 5))


# The last three checks can only be made to fail by breaking what they call.
def raising(error):
    def fail(*arguments, **options):
        raise error

    return fail


def test_a_shortage_of_memory_names_the_elements_and_moves_nothing(monkeypatch):
    rng = SplitMix64(17)
    monkeypatch.setattr(np, "empty", raising(MemoryError()))
    with unmoved(rng), pytest.raises(AllocationFailed) as caught:
        NamedParameter.xavier_uniform(GOOD, 3, 5, rng)
    assert caught.value.elements == 15
    assert isinstance(caught.value, MemoryError)
    with unmoved(rng), pytest.raises(AllocationFailed):
        fastinit.xavier_uniform((3, 5), rng, layout="oi")  # the quick way has numpy.empty from before


def test_storage_comes_before_the_tensor_and_the_tensor_before_the_leaf(monkeypatch):
    rng = SplitMix64(17)
    monkeypatch.setattr(TensorValue, "parameter", raising(TensorAutodiffError("no leaf")))
    with unmoved(rng), pytest.raises(InitializationError, match="no leaf") as caught:
        NamedParameter.xavier_uniform(GOOD, 2, 2, rng)
    assert isinstance(caught.value.__cause__, TensorAutodiffError)
    monkeypatch.setattr(Tensor, "adopt", raising(TensorError("no tensor")))
    with unmoved(rng), pytest.raises(InitializationError, match="no tensor") as caught:
        NamedParameter.xavier_uniform(GOOD, 2, 2, rng)
    assert isinstance(caught.value.__cause__, TensorError)
    monkeypatch.setattr(np, "empty", raising(MemoryError()))
    with unmoved(rng), pytest.raises(AllocationFailed):
        NamedParameter.xavier_uniform(GOOD, 2, 2, rng)


@pytest.mark.parametrize("where", ["fastinit.parameters.fill", "fastinit.autodiff.Tensor.adopt"])
def test_an_interrupt_leaves_the_generator_as_it_was_and_usable(monkeypatch, interrupted, where):
    """C18: a state moved by half a request makes every later weight another one; a held lock hangs a thread."""
    rng = SplitMix64(17)
    monkeypatch.setattr(where, interrupted)
    with unmoved(rng), pytest.raises(KeyboardInterrupt):
        NamedParameter.xavier_uniform(GOOD, 2, 2, rng)
    drawn = []
    thread = threading.Thread(target=lambda: drawn.append(rng.next_u64()), daemon=True)
    thread.start()
    thread.join(10)
    assert drawn == [SplitMix64(17).next_u64()]


MOST_CALLS, MOST_MODULES = 25, 8


def test_a_parameter_is_made_in_few_steps():
    """A reader must know every module that a request crosses, and each call costs time."""
    rng, package, calls = SplitMix64(17), Path(fastinit.__file__).parent, []
    NamedParameter.xavier_uniform(GOOD, 2, 3, rng)  # loads what is loaded on first use

    def seen(frame, event, _):
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(package):
            calls.append(frame.f_code)

    sys.setprofile(seen)
    try:
        NamedParameter.xavier_uniform(GOOD, 2, 3, rng)
    finally:
        sys.setprofile(None)
    names = [f"{Path(code.co_filename).stem}.{code.co_name}" for code in calls]
    assert len(names) <= MOST_CALLS, names
    assert len({code.co_filename for code in calls}) <= MOST_MODULES, names


def test_two_parameters_in_sequence_are_one_stream():
    rng = SplitMix64(17)
    query = NamedParameter.xavier_uniform("query.weight", 2, 2, rng)
    table = NamedParameter.xavier_uniform("token_embedding.weight", 4, 2, rng)
    assert np.array_equal(query.tensor.value.values, xavier_weights(17, (2, 2), 4))
    assert np.array_equal(table.tensor.value.values, xavier_weights((17 + 4 * GAMMA) % U64, (4, 2), 6))
    assert rng.state == (17 + 12 * GAMMA) % U64


def test_the_worked_values_of_the_contract():
    """C21, to the twelve decimals they are published with."""
    parameter = NamedParameter.xavier_uniform("decoder.block.0.attention.query.weight", 2, 2, SplitMix64(17))
    shown = [f"{value:.12f}" for value in parameter.tensor.value.values.ravel()]
    assert shown == ["0.004950883736", "-0.265932089217", "-0.420504358848", "-0.676313443233"]


@given(
    seed=st.integers(0, MAX),
    shapes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=6),
)
def test_refusals_between_parameters_shift_no_later_one(seed, shapes):
    rng, state = SplitMix64(seed), seed
    for fan_in, fan_out, good_name in shapes:
        name = GOOD if good_name else "a..b"
        if good_name and fan_in and fan_out:
            made = NamedParameter.xavier_uniform(name, fan_in, fan_out, rng)
            assert np.array_equal(
                made.tensor.value.values, xavier_weights(state, (fan_in, fan_out), fan_in + fan_out)
            )
            state = (state + fan_in * fan_out * GAMMA) % U64
        else:
            with pytest.raises(InitializationError):
                NamedParameter.xavier_uniform(name, fan_in, fan_out, rng)
        assert rng.state == state


def test_from_tensor_checks_the_name_before_the_values():
    with pytest.raises(EmptyName):
        NamedParameter.from_tensor("", [float("nan")])
    with pytest.raises(InvalidNameCharacter):
        NamedParameter.from_tensor("Bad", "no numbers")


@pytest.mark.parametrize("values", [[float("nan")], [[1.0], [1.0, 2.0]], ["a"], [1j]])
def test_bad_values_are_an_initialization_error_that_keeps_its_cause(values):
    with pytest.raises(InitializationError, match=re.escape(repr(GOOD))) as caught:
        NamedParameter.from_tensor(GOOD, values)
    assert type(caught.value) is InitializationError
    assert isinstance(caught.value.__cause__, TensorError)
    assert str(caught.value.__cause__) in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), -np.inf])
def test_a_wrapped_tensor_error_says_which_element_and_what_it_is(value):
    """A caller that has to read them out of a sentence."""
    with pytest.raises(InitializationError) as caught:
        NamedParameter.from_tensor(GOOD, [[1.0, 2.0], [value, np.inf]])
    cause = caught.value.__cause__
    assert (cause.index, str(cause.value)) == (2, str(value))
    assert pickle.loads(pickle.dumps(cause)) == cause
    with pytest.raises(TensorError) as ragged:
        fastinit.Tensor([[1.0], [1.0, 2.0]])
    assert (ragged.value.index, ragged.value.value) == (None, None)


def test_from_tensor_makes_a_trainable_leaf_of_its_own():
    tensor = Tensor([1.0, 2.0])
    first, second = NamedParameter.from_tensor("a", tensor), NamedParameter.from_tensor("a", tensor)
    assert first.tensor.value == tensor
    assert first.tensor.is_trainable
    assert not first.tensor.is_same_node(second.tensor)
    assert NamedParameter.from_tensor("a", [1, 2]).tensor.value == tensor


def test_a_copy_shares_the_leaf_and_a_deep_one_does_not():
    parameter = NamedParameter.xavier_uniform(GOOD, 2, 2, 17)
    shared = copy.copy(parameter)
    assert shared.name == GOOD
    assert shared.tensor.is_same_node(parameter.tensor)
    for made in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert made.name == GOOD
        assert made.tensor.value == parameter.tensor.value
        assert made.tensor.is_trainable
        assert not made.tensor.is_same_node(parameter.tensor)


def test_a_parameter_is_immutable_and_made_by_its_constructors_only():
    parameter = NamedParameter.xavier_uniform(GOOD, 2, 2, 17)
    for attribute in ("name", "tensor", "other"):
        with pytest.raises(AttributeError):
            setattr(parameter, attribute, None)
    with pytest.raises(TypeError, match="from_tensor"):
        NamedParameter()


def named(*names):
    return [NamedParameter.from_tensor(name, [float(index)]) for index, name in enumerate(names)]


def test_a_collection_keeps_declaration_order():
    """Sorting would change which draws a rebuilt model's parameters get."""
    items = named("z", "a.b", "m", "a.a")
    collection = NamedParameters(iter(items))
    assert collection.names == ("z", "a.b", "m", "a.a")
    assert list(collection) == items
    assert len(collection) == 4
    assert [collection[index] for index in (0, 3, -1)] == [items[0], items[3], items[3]]
    assert collection[1:3] == tuple(items[1:3])
    assert collection[::-1] == tuple(items[::-1])
    with pytest.raises(IndexError):
        collection[4]


def test_looking_up_a_name():
    items = named("z", "a.b")
    collection = NamedParameters(items)
    assert collection.get("a.b") is items[1]
    assert collection.get("a") is None
    assert collection.get("") is None
    assert "a.b" in collection
    assert "a" not in collection
    assert items[0] in collection
    assert named("z")[0] not in collection, "membership is identity, not an equal name"


def test_an_empty_collection_is_one():
    collection = NamedParameters()
    assert (len(collection), list(collection), collection.names, bool(collection)) == (0, [], (), False)


@pytest.mark.parametrize(
    ("names", "facts"),
    [
        ("aa", ("a", 0, 1)),
        ("abcb", ("b", 1, 3)),
        ("abba", ("b", 1, 2)),
        ("aaa", ("a", 0, 1)),
        ("abca", ("a", 0, 3)),
    ],
)
def test_the_earliest_repetition_is_refused_with_both_indices(names, facts):
    with pytest.raises(DuplicateName) as caught:
        NamedParameters(named(*names))
    assert (caught.value.name, caught.value.first, caught.value.repeated) == facts


def test_a_parameter_repeated_through_its_copy_is_a_duplicate():
    parameter = NamedParameter.xavier_uniform(GOOD, 2, 2, 17)
    with pytest.raises(DuplicateName):
        NamedParameters([parameter, copy.copy(parameter)])


@pytest.mark.parametrize("item", ["a", None, Tensor([1.0]), ("a", [1.0])])
def test_what_is_no_parameter_is_refused_by_its_type(item):
    with pytest.raises(TypeError, match=type(item).__name__):
        NamedParameters([*named("z"), item])


def test_a_copied_collection_keeps_names_and_values():
    collection = NamedParameters(named("b", "a"))
    for made in (copy.deepcopy(collection), pickle.loads(pickle.dumps(collection))):
        assert made.names == collection.names
        for ours, theirs in zip(made, collection, strict=True):
            assert ours.tensor.value == theirs.tensor.value
            assert made.get(ours.name) is ours
            assert not ours.tensor.is_same_node(theirs.tensor)
