"""The error family: an error must be catchable by its kind, survive a process boundary, and teach."""

import copy
import inspect
import math
import pickle

import pytest

import fastinit
from fastinit import errors
from fastinit.errors import FastinitError, InitializationError
from fastinit.policies.deciding import Refusal

HUGE = 2**64 - 1

# The error; what else it must be caught as; its facts; what its sentence must say.
FAMILY = [
    (errors.EmptyName(), (InitializationError, ValueError), {}, ["must not be empty", "decoder.query.weight"]),
    (errors.EmptyNameSegment(5), (InitializationError, ValueError), {"index": 5}, ["segment", "byte 5"]),
    (
        errors.InvalidNameCharacter(3, 0x44),
        (InitializationError, ValueError),
        {"index": 3, "byte": 0x44},
        ["byte 3", "lowercase", "digit", "underscore", "dot", "0x44", "'D'"],
    ),
    (errors.ZeroFanIn(), (InitializationError, ValueError), {}, ["fan_in", "greater than zero"]),
    (errors.ZeroFanOut(), (InitializationError, ValueError), {}, ["fan_out", "greater than zero"]),
    (
        errors.FanSumOverflow(HUGE, 1),
        (InitializationError, ValueError),
        {"fan_in": HUGE, "fan_out": 1},
        [str(HUGE), "plus fan_out 1", "2**64 - 1"],
    ),
    (
        errors.ShapeProductOverflow(2**32, 2**33),
        (InitializationError, ValueError),
        {"fan_in": 2**32, "fan_out": 2**33},
        [str(2**32), str(2**33), "2**64 - 1"],
    ),
    (
        errors.DuplicateName("a.b", 1, 4),
        (InitializationError, ValueError),
        {"name": "a.b", "first": 1, "repeated": 4},
        ["'a.b'", "index 1", "index 4"],
    ),
    (
        errors.AllocationFailed(12),
        (InitializationError, MemoryError),
        {"elements": 12, "made_whole": ""},
        ["12 values", "out=", "index="],
    ),
    (
        errors.AllocationFailed(12, "orthogonal"),
        (InitializationError, MemoryError),
        {"elements": 12, "made_whole": "orthogonal"},
        ["12 values", "orthogonal is made whole", "index= would not help"],
    ),
    (
        errors.InvalidTensorName("a\n", "has a control character"),
        (InitializationError, ValueError),
        {"name": "a\n", "reason": "has a control character"},
        [r"'a\n'", "control character"],
    ),
    (errors.DistributionError("no"), (InitializationError, ValueError), {}, ["no"]),
    (errors.TensorError("no"), (FastinitError, ValueError), {"index": None, "value": None}, ["no"]),
    (errors.TensorError("no", 3, math.inf), (FastinitError, ValueError), {"index": 3, "value": math.inf}, ["no"]),
    (errors.TensorAutodiffError("no"), (FastinitError,), {}, ["no"]),
    (errors.PlanError("no"), (FastinitError, ValueError), {}, ["no"]),
    (
        errors.StreamOverlap("left", "right"),
        (errors.PlanError, ValueError),
        {"first": "left", "second": "right"},
        ["'left'", "'right'", "overlap"],
    ),
    (
        errors.TensorsRefused(
            "xavier", 3, (Refusal("h.*.mask", "it is a mask", "", ("h.0.mask",), (4, 4), "F32"),)
        ),
        (errors.PlanError, ValueError),
        {"policy": "xavier", "total": 3},
        ["refuses 1 of 3", "'h.0.mask' [4, 4] F32", "it is a mask", "--skip 'h.*.mask'"],
    ),
    (errors.CheckpointError("no"), (FastinitError,), {}, ["no"]),
    (
        errors.EmptyNameInFile("m.safetensors"),
        (errors.CheckpointError, errors.EmptyName, ValueError),
        {"path": "m.safetensors"},
        ["m.safetensors", "empty"],
    ),
    (
        errors.InvalidNameInFile("m.safetensors", "a\n", "has a control character"),
        (errors.CheckpointError, errors.InvalidTensorName, ValueError),
        {"path": "m.safetensors", "name": "a\n", "reason": "has a control character"},
        ["m.safetensors", r"'a\n'", "control character"],
    ),
    (InitializationError("no"), (FastinitError,), {}, ["no"]),
    (FastinitError("no"), (Exception,), {}, ["no"]),
]
every = pytest.mark.parametrize(
    ("error", "bases", "facts", "said"), FAMILY, ids=[type(row[0]).__name__ for row in FAMILY]
)


@every
def test_an_error_is_caught_by_each_of_its_kinds(error, bases, facts, said):
    for base in (*bases, FastinitError if type(error) is not FastinitError else Exception):
        assert isinstance(error, base), f"{type(error).__name__} is no {base.__name__}"
    # A broad `except OSError` must not swallow it, nor `except ValueError` what is no bad value.
    for other in {ValueError, MemoryError, OSError, LookupError, ArithmeticError, TypeError} - set(bases):
        assert not isinstance(error, other), f"{type(error).__name__} is a {other.__name__}"


@every
def test_the_facts_are_attributes(error, bases, facts, said):
    assert {name: getattr(error, name) for name in facts} == facts


@every
def test_the_sentence_says_what_was_given_and_what_to_do(error, bases, facts, said):
    for part in said:
        assert part in str(error)


@every
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_crosses_a_process_boundary(error, bases, facts, said, protocol):
    """A worker pool pickles errors; one that cannot be rebuilt hangs the pool."""
    again = pickle.loads(pickle.dumps(error, protocol))
    assert (type(again), again.args, str(again), vars(again)) == (type(error), error.args, str(error), vars(error))


@every
def test_an_error_can_be_copied(error, bases, facts, said):
    for again in (copy.copy(error), copy.deepcopy(error)):
        assert again is not error
        assert (type(again), again.args, str(again), vars(again)) == (
            type(error), error.args, str(error), vars(error),
        )  # fmt: skip


@every
def test_errors_are_equal_where_class_and_facts_are(error, bases, facts, said):
    """A test of a user's that compares what it caught with what it expects."""
    again = type(error)(*error.args)
    assert again == error
    assert hash(again) == hash(error)
    assert [row[0] for row in FAMILY if row[0] == error] == [error]
    assert error != str(error)


def test_other_facts_make_another_error():
    assert errors.DuplicateName("a", 0, 1) != errors.DuplicateName("a", 0, 2)
    assert errors.FanSumOverflow(1, 2) != errors.ShapeProductOverflow(1, 2)


def test_the_table_above_and_the_package_hold_every_error():
    defined = {name for name, item in vars(errors).items() if inspect.isclass(item)}
    assert {type(row[0]).__name__ for row in FAMILY} == defined
    assert defined <= set(fastinit.__all__)
    assert all(getattr(fastinit, name) is getattr(errors, name) for name in defined)


@pytest.mark.parametrize("byte", [0x00, 0x1B, 0x7F, 0xC3, 0xFF])
def test_an_unprintable_byte_is_named_by_number_only(byte):
    """An escape sequence echoed from a name would rewrite the reader's terminal."""
    message = str(errors.InvalidNameCharacter(0, byte))
    assert f"0x{byte:02x}" in message
    assert message.isascii()
    assert message.isprintable()


def test_a_tensor_name_is_shown_escaped():
    assert str(errors.InvalidTensorName("a\x1b[2J", "is bad")).isprintable()
