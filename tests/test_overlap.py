"""Whether elements of a target share memory: decided from the strides, exactly, and without the elements."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from fastinit import SplitMix64
from fastinit import xavier_uniform as xavier
from fastinit._engine import targets
from fastinit._engine.targets import overlaps_itself

MIDDLE = 4096
BLOCK = np.zeros(2 * MIDDLE, np.uint8)


def strided(shape, strides, itemsize):
    return as_strided(BLOCK[MIDDLE:].view(f"V{itemsize}"), shape, strides)


def shares_a_byte(shape, strides, itemsize):
    """Brute force: every byte of every element."""
    places = itertools.product(*map(range, shape))
    offsets = [sum(map(int.__mul__, place, strides)) for place in places]
    touched = [offset + byte for offset in offsets for byte in range(itemsize)]
    return len(set(touched)) < len(touched)


@st.composite
def layouts(draw):
    axes = draw(st.integers(1, 4))
    shape = draw(st.lists(st.integers(0, 5), min_size=axes, max_size=axes))
    strides = draw(st.lists(st.integers(-60, 60), min_size=axes, max_size=axes))
    return tuple(shape), tuple(strides), draw(st.sampled_from([1, 2, 4, 8]))


@given(layouts())
@example(((3, 4), (24, 80), 8))  # nested
@example(((3, 2), (16, 24), 8))  # interleaved, distinct: 0 16 32 and 24 40 56
@example(((3, 3), (24, 16), 8))  # interleaved: 2 * 24 is 3 * 16, which lies outside; 48 is out of reach
@example(((4, 4), (24, 16), 8))  # as before, and inside
@example(((5, 5, 5), (1, 5, 25), 1))
@example(((5, 5, 5), (1, 5, 24), 1))
def test_overlap_is_decided_as_brute_force_decides_it(layout):
    """A distinct target refused, or one accepted whose elements overwrite each other."""
    assert overlaps_itself(strided(*layout)) == shares_a_byte(*layout)


def stretched(shape, strides):
    """Such float64 elements, in memory that is there: an error's traceback may print them."""
    reach = [stride * (length - 1) // 8 for stride, length in zip(strides, shape, strict=True)]
    start = -sum(step for step in reach if step < 0)
    block = np.zeros(start + sum(step for step in reach if step > 0) + 1)
    return as_strided(block[start:], shape, strides)


HUGE = {
    "stride 0": ((20_000, 20_000), (0, 8)),
    "stride 0 inside": ((20_000, 20_000), (8, 0)),
    "one step too near": ((4_000, 4_000), (8 * 3_999, 8)),
    "interleaved rows": ((4_000, 4_000, 3), (8 * 3, 8 * 12_000 - 24, 8)),
    "backwards": ((4_000, 4_000), (-8 * 3_999, 8)),
}


@pytest.mark.parametrize("kind", HUGE)
def test_a_huge_overlapping_target_is_refused_without_a_list_of_its_elements(kind):
    """A typing error in as_strided took 7.5 s and 6.7 GB to be refused: the offset of every element was listed."""
    shape, strides = HUGE[kind]
    out = stretched(shape, strides)
    layout = {"layout": "eio"} if len(shape) == 3 else {}
    rng = SplitMix64(17)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="share memory"):
            xavier(None, rng, out=out, **layout)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert rng.state == 17


def test_a_huge_distinct_target_is_accepted_without_a_list_of_its_elements():
    """Interleaved and distinct, and the same one column wider: 24 is no multiple of 16, but 2 * 24 is."""
    distinct, overlapping = (stretched((1 << 20, wide), (16, 24)) for wide in (2, 3))
    tracemalloc.start()
    try:
        assert not overlaps_itself(distinct)
        assert overlaps_itself(overlapping)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_question_too_hard_is_refused_by_a_sentence_that_says_so(monkeypatch):
    """A knapsack in the strides: a search without end, or a target accepted because nobody knew."""
    monkeypatch.setattr(targets, "OVERLAP_WORK", 1)
    out = stretched((97,) * 5, [8 * n for n in (10_007, 10_009, 10_037, 10_039, 10_061)])
    with pytest.raises(ValueError, match="could not be decided"):
        xavier(None, 17, out=out, layout="ehwio")
