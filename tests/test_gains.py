"""Fan arithmetic: worked values, integers past float64, the order of the checks, and the host's rounding."""

import copy
import dataclasses
import pickle
from fractions import Fraction

import host
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from tables import REFUSED_INTEGERS

import fastinit
from fastinit import FanSumOverflow, XavierScale, ZeroFanIn, ZeroFanOut, xavier_scale
from fastinit._engine.axes import fans


def numbers(scale):
    return scale.target_variance, scale.standard_deviation, scale.uniform_limit


@pytest.mark.parametrize(
    ("fan_in", "fan_out", "variance", "std", "limit"),
    [
        (2, 2, 0.5, 0.707106781187, 1.224744871392),
        (4, 2, 0.333333333333, 0.577350269190, 1.0),
        (1, 1, 1.0, 1.0, 1.732050807569),
        (3, 3, 0.333333333333, 0.577350269190, 1.0),
    ],
)
def test_worked_values(fan_in, fan_out, variance, std, limit):
    assert [round(x, 12) for x in numbers(xavier_scale(fan_in, fan_out))] == [variance, std, limit]


@pytest.mark.parametrize(("fan_in", "fan_out", "std"), [(784, 10, 0.0502), (9, 32, 0.2209)])
def test_standard_deviations_of_known_layers(fan_in, fan_out, std):
    """The first MNIST layer, and the 3x3 convolution from 1 to 32 channels counted as 9 and 32."""
    assert round(xavier_scale(fan_in, fan_out).standard_deviation, 4) == std


@given(st.integers(1, 2**63), st.integers(1, 2**63 - 1))
def test_every_fan_pair_has_the_references_bits(fan_in, fan_out):
    assert numbers(xavier_scale(fan_in, fan_out)) == reference.xavier_scale(fan_in, fan_out)


# Where 6/n is not 6.0/float(n): Python's division of integers rounds once, the contract's twice.
HUGE = [(2**53, 1), (2**52, 2**52 + 1), (2**63 - 2**10 - 1, 2**62), (2**54, 2**54 + 6), (2**60 + 1, 2**60 - 129)]


@pytest.mark.parametrize(("fan_in", "fan_out"), HUGE)
def test_huge_fans_are_added_exactly_and_converted_once(fan_in, fan_out):
    """A sum in float64, or an integer division: both differ past 2**53."""
    assert numbers(xavier_scale(fan_in, fan_out)) == reference.xavier_scale(fan_in, fan_out)
    assert numbers(xavier_scale(fan_out, fan_in)) == reference.xavier_scale(fan_in, fan_out)


def test_some_huge_fan_tells_the_two_divisions_apart():
    """Otherwise the test above shows nothing."""
    sums = [fan_in + fan_out for fan_in, fan_out in HUGE]
    assert [n for n in sums if 6 / n != 6.0 / float(n)]
    assert [n for n in sums if 2 / n != 2.0 / float(n)]


@pytest.mark.parametrize(("fan_in", "fan_out"), [(2**63, 2**63 - 1), (2**64 - 2, 1), (1, 2**64 - 2)])
def test_the_largest_fan_sum(fan_in, fan_out):
    """2**64 - 1 is still allowed, and is not -1."""
    scale = xavier_scale(fan_in, fan_out)
    assert (scale.fan_in, scale.fan_out) == (fan_in, fan_out)
    assert numbers(scale) == (2.0**-63, (2.0**-63) ** 0.5, (6 * 2.0**-64) ** 0.5)


@pytest.mark.parametrize(
    ("fan_in", "fan_out", "error", "facts"),
    [
        (0, 0, ZeroFanIn, ()),
        (0, 2**64 - 1, ZeroFanIn, ()),
        (1, 0, ZeroFanOut, ()),
        (2**64 - 1, 0, ZeroFanOut, ()),
        (2**64 - 1, 1, FanSumOverflow, (2**64 - 1, 1)),
        (2**63, 2**63, FanSumOverflow, (2**63, 2**63)),
        (2**64 - 1, 2**64 - 1, FanSumOverflow, (2**64 - 1, 2**64 - 1)),
    ],
)
def test_the_first_failing_check_is_the_error(fan_in, fan_out, error, facts):
    with pytest.raises(fastinit.InitializationError) as caught:
        xavier_scale(fan_in, fan_out)
    assert type(caught.value) is error
    assert isinstance(caught.value, ValueError)
    assert caught.value.args == facts
    if facts:
        assert (caught.value.fan_in, caught.value.fan_out) == facts


@pytest.mark.parametrize(("value", "error"), REFUSED_INTEGERS, ids=lambda value: repr(value)[:20])
def test_fans_are_integers_before_they_are_anything_else(value, error):
    """A type error hidden behind a zero fan; and, for a ValueError, not one of the checks that come later."""
    for fan_in, fan_out in [(value, 2), (2, value), (0, value), (value, 0)]:
        with pytest.raises(error, match=r"fan_(in|out) must be") as caught:
            xavier_scale(fan_in, fan_out)
        assert not isinstance(caught.value, fastinit.FastinitError)


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.int64])
def test_any_integer_type_gives_the_same_scale(kind):
    """numpy integers that wrap when added: int8(100) + int8(100)."""
    scale = xavier_scale(kind(100), kind(100))
    assert scale == xavier_scale(100, 100)
    assert type(scale.fan_in) is type(scale.fan_out) is int


def test_a_scale_is_frozen_data():
    scale = xavier_scale(4, 2)
    for field in dataclasses.fields(XavierScale):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(scale, field.name, 1)
    assert [field.name for field in dataclasses.fields(XavierScale)] == [
        "fan_in",
        "fan_out",
        "target_variance",
        "standard_deviation",
        "uniform_limit",
    ]
    assert scale == copy.deepcopy(scale) == pickle.loads(pickle.dumps(scale))
    assert hash(scale) == hash(xavier_scale(4, 2))
    assert scale != xavier_scale(2, 4)


# ---- layouts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "layout", "expected"),
    [
        ((4, 2), "io", (4, 2)),
        ((2, 4), "oi", (4, 2)),
        ((3, 3, 1, 32), "hwio", (9, 288)),
        ((32, 1, 3, 3), "oihw", (9, 288)),
        ((64, 32, 5), "oil", (160, 320)),
        ((5, 32, 64), "lio", (160, 320)),
        ((16, 8, 2, 3, 4), "oidhw", (192, 384)),
        ((2, 3, 4, 8, 16), "dhwio", (192, 384)),
        ((8, 4, 2), "eio", (4, 2)),
        ((8, 2, 4), "eoi", (4, 2)),
        ((2, 8, 3, 5), "oehi", (15, 6)),
        ((7, 5, 6), "tio", (35, 42)),
        ((0, 3), "io", (0, 3)),
        ((3, 0), "io", (3, 0)),
        ((4, 2, 0), "oiw", (0, 0)),
        ((2**40, 2**40, 2**40), "oil", (2**80, 2**80)),
    ],
)
def test_fans_of_layouts(shape, layout, expected):
    """Rows and columns confused; a receptive field that multiplies one fan only; experts counted as inputs."""
    assert fans(shape, layout) == expected


def test_rank_alone_never_enters_the_scale():
    """dynet#659: a sum over all axes, or a factor for the number of axes, instead of the two fans."""
    limit = reference.xavier_scale(9, 288)[2]
    scaled = fastinit.xavier_uniform((3, 3, 1, 32), reference.state_before(0), layout="hwio")
    assert scaled.flat[0] == -limit


@pytest.mark.parametrize("layout", ["", "i", "o", "ii", "oo", "ix", "iox", "ioi", "ihho", "IO", "i o", "eioe"])
def test_layouts_that_do_not_name_each_axis_once_are_refused(layout):
    with pytest.raises(ValueError, match="must name each axis once"):
        fans((2,) * len(layout), layout)


@pytest.mark.parametrize("layout", [None, 5, b"io", ["i", "o"]])
def test_layouts_are_text(layout):
    with pytest.raises(TypeError, match="layout must be a str"):
        fans((2, 2), layout)


@pytest.mark.parametrize(("shape", "layout"), [((2, 2, 2), "io"), ((2, 2), "oihw"), ((2, 2, 2, 2), "oil")])
def test_layouts_of_another_rank_are_refused(shape, layout):
    """A convolution scaled as if it were a matrix."""
    with pytest.raises(ValueError, match=f"names {len(layout)} axes.*has {len(shape)}"):
        fans(shape, layout)


@pytest.mark.parametrize("shape", [(), (5,), (0,)])
def test_tensors_without_fans_are_refused_by_rank(shape):
    with pytest.raises(ValueError, match=f"{len(shape)}-d tensor"):
        fans(shape, "io")


# ---- the host's floating-point environment -----------------------------------------------------------

PAIRS = [(2, 2), (4, 2), (784, 10), (9, 32), (3, 4), (1, 6), (11, 2), (2**53, 1), (2**63, 2**63 - 1)]


@pytest.mark.parametrize("mode", host.ROUNDING)
def test_a_hosts_rounding_mode_moves_no_scale(mode):
    """A library that sets a rounding mode when loaded: most limits would change in their last bit."""
    with host.rounding(mode):
        found = [numbers(xavier_scale(*pair)) for pair in PAIRS]
    assert found == [reference.xavier_scale(*pair) for pair in PAIRS]


@pytest.mark.parametrize("mode", host.ROUNDING)
def test_the_pairs_above_would_show_another_rounding_mode(mode):
    """Otherwise the test above shows nothing."""
    with host.rounding(mode):
        moved = [reference.xavier_scale(*pair) for pair in PAIRS]
    assert moved != [reference.xavier_scale(*pair) for pair in PAIRS]


def test_the_reference_divides_and_roots_correctly():
    """The judge's own floats: Python's are the hardware's, so hold them against exact rationals once."""
    for fan_in, fan_out in [*PAIRS, *HUGE]:
        n = Fraction(reference.nearest(Fraction(fan_in + fan_out), reference.FLOAT64))
        variance, _, limit = reference.xavier_scale(fan_in, fan_out)
        assert variance == reference.nearest(2 / n, reference.FLOAT64)
        square = Fraction(reference.nearest(6 / n, reference.FLOAT64))
        half = reference.FLOAT64.step_at(Fraction(limit)) / 2
        assert (Fraction(limit) - half) ** 2 < square < (Fraction(limit) + half) ** 2
