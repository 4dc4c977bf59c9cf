"""Named streams, and the proof that no two of a plan's streams share a draw."""

import random

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from tables import REFUSED_INTEGERS

from fastinit import EmptyName, InvalidTensorName, StreamOverlap, stream_for
from fastinit._engine.streams import prove_disjoint, stream_state

WORDS = st.integers(0, 2**64 - 1)
NAMES = [
    "w",
    "decoder.block.0.attention.query.weight",
    "embeddings.LayerNorm.weight",
    "größe",
    "重み.0",
    "😀",
    "a b",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [0, 17, 2**63, 2**64 - 1])
def test_a_stream_is_the_hash_of_seed_and_name(seed, name):
    """Another tag, byte order, digest size or text encoding."""
    assert stream_for(seed, name).state == stream_state(seed, name) == reference.stream_state(seed, name)


@pytest.mark.parametrize("state_of", [stream_state, reference.stream_state], ids=["fastinit", "reference"])
def test_a_stream_by_another_program(state_of):
    r"""A tag or digest changed in code and reference alike. The judge is coreutils:

    printf 'fastinit/stream/v1\0\x11\0\0\0\0\0\0\0w' | b2sum -l 64
    """
    assert state_of(17, "w").to_bytes(8, "little").hex() == "c70a28302ec8629e"


def test_streams_of_one_seed_and_of_one_name_differ():
    """keras#15586, numpy PR#16551: two parameters, or two (seed, name) pairs, given one stream."""
    names = [*NAMES, *(f"layer.{i}" for i in range(1000)), "1", "11", "111"]
    states = {stream_state(seed, name) for seed in (0, 1, 17, 256, 49, 2**32, 2**64 - 1) for name in names}
    assert len(states) == 7 * len(names)


def test_a_stream_starts_anew_each_time_it_is_asked_for():
    first = stream_for(17, "w")
    first.next_u64()
    assert stream_for(17, "w").next_u64() == reference.draw(reference.stream_state(17, "w"), 0)


@pytest.mark.parametrize(("seed", "error"), REFUSED_INTEGERS, ids=lambda value: repr(value)[:20])
def test_stream_seeds_are_never_truncated_wrapped_or_guessed(seed, error):
    with pytest.raises(error, match="seed must be"):
        stream_for(seed, "w")


def test_empty_stream_names_are_refused():
    with pytest.raises(EmptyName):
        stream_for(17, "")


@pytest.mark.parametrize("name", ["a\nb", "a\0", "\x7f", "\udc80"])
def test_stream_names_that_no_file_can_carry_are_refused(name):
    with pytest.raises(InvalidTensorName):
        stream_for(17, name)


@pytest.mark.parametrize("name", [None, 5, b"w"])
def test_stream_names_are_text(name):
    with pytest.raises(TypeError):
        stream_for(17, name)


# ---- the proof ---------------------------------------------------------------------------------------

BITS = 16
CYCLE = 1 << BITS


def states_of(state, length):
    """Every state a stream passes, walked on the reduced cycle."""
    return (state + reference.GAMMA % CYCLE * np.arange(1, length + 1)) % CYCLE


def share_a_draw(streams):
    return bool((np.bincount(np.concatenate([states_of(*s) for s in streams]), minlength=CYCLE) > 1).any())


def random_plan(rng):
    """2 to 6 streams, near each other more often than chance would have them, of lengths 0 to the whole cycle."""
    anchor = rng.randrange(CYCLE)
    plan = []
    for i in range(rng.randint(2, 6)):
        length = rng.choice([0, 1, rng.randint(0, 40), int(2 ** rng.uniform(0, BITS))])
        state = rng.choice([rng.randrange(CYCLE), (anchor + rng.randint(-80, 80) * reference.GAMMA) % CYCLE])
        plan.append((f"t{i}", state, length))
    return plan


def overlap(streams, bits=64):
    """The names the proof refuses; None where it passes."""
    try:
        prove_disjoint(streams, bits=bits)
    except StreamOverlap as error:
        return error.first, error.second
    return None


def test_the_proof_equals_brute_force_on_a_small_cycle():
    """A missed or an invented overlap: wrap-around, touching, nested, empty and identical arcs."""
    rng = random.Random(17)
    overlapping = 0
    for _ in range(10_000):
        plan = random_plan(rng)
        arcs = {name: (state, length) for name, state, length in plan}
        found = overlap(plan, BITS)
        if share_a_draw(arcs.values()):
            overlapping += 1
            assert found, f"{plan}: streams share a draw, but the proof passed"
            assert found[0] != found[1], f"{plan}: named {found[0]} twice"
            assert share_a_draw([arcs[name] for name in found]), f"{plan}: {found} share no draw, others do"
        else:
            assert not found, f"{plan}: refused {found}, which share no draw"
    assert 2000 < overlapping < 8000, "the plans are too much alike for the test to show anything"


@given(WORDS, WORDS, st.integers(1, 2**64), st.integers(1, 2**64))
def test_two_streams_by_the_contracts_formula(s1, s2, length1, length2):
    """L1 <= d <= 2**64 - L2, at the full word size."""
    d = reference.draws_between(s1, s2)
    assert accepts(("a", s1, length1), ("b", s2, length2)) == (length1 <= d <= 2**64 - length2)


def accepts(*streams):
    return overlap(streams) is None


@given(WORDS, st.integers(1, 2**64 - 1), st.data())
def test_streams_may_touch_but_not_share_one_draw(state, length, data):
    """Off by one at either end, also where the arc passes the end of the ring."""
    room = 2**64 - length
    other = data.draw(st.integers(1, room))
    after = reference.advanced(state, length)
    before = reference.advanced(state, -other)
    for start, fits in [(after, True), (before, True)]:
        assert accepts(("a", state, length), ("b", start, other)) is fits
    assert not accepts(("a", state, length), ("b", reference.advanced(after, -1), other))
    assert not accepts(("a", state, length), ("b", reference.advanced(before, 1), other))


def test_wrapping_streams_meet_across_the_seam_of_the_ring():
    """Sorted arcs whose last one reaches around to the first."""
    seam = reference.advanced(0, 2**64 - 5)
    assert accepts(("last", seam, 5), ("first", 0, 3))
    with pytest.raises(StreamOverlap) as caught:
        prove_disjoint([("first", 0, 3), ("middle", reference.advanced(0, 2**40), 9), ("last", seam, 6)])
    assert {caught.value.first, caught.value.second} == {"first", "last"}


def test_empty_streams_overlap_nothing():
    assert accepts(("a", 17, 10), ("empty", 17, 0), ("inside", reference.advanced(17, 5), 0), ("too", 17, 0))
    prove_disjoint([])


def test_identical_states_overlap_and_both_are_named():
    """A tie in the sort that hides a stream behind its twin."""
    with pytest.raises(StreamOverlap) as caught:
        prove_disjoint([("decoder.query.weight", 17, 1), ("decoder.key.weight", 17, 1)])
    assert {caught.value.first, caught.value.second} == {"decoder.query.weight", "decoder.key.weight"}
    for name in ("decoder.query.weight", "decoder.key.weight"):
        assert name in str(caught.value)


def test_a_long_stream_overlaps_more_than_its_neighbour():
    """A long arc over a short one hides the third from a look at neighbours alone: still refused."""
    with pytest.raises(StreamOverlap):
        prove_disjoint([("long", 0, 100), ("short", reference.advanced(0, 10), 5)])


def test_a_stream_may_take_the_whole_cycle_and_then_it_is_alone():
    assert accepts(("all", 17, 2**64), ("empty", 3, 0))
    assert not accepts(("all", 17, 2**64), ("one", 3, 1))
    prove_disjoint([("all", 5, CYCLE)], bits=BITS)


def test_a_stream_longer_than_the_cycle_is_refused_by_name():
    with pytest.raises(ValueError, match="'too_long'"):
        prove_disjoint([("too_long", 17, 2**64 + 1)])


def test_a_seed_plus_gamma_is_caught_as_the_same_stream_shifted():
    """The child that a spawn by seed + k * gamma would make."""
    with pytest.raises(StreamOverlap, match="child"):
        prove_disjoint([("parent", 17, 1000), ("child", (17 + 3 * reference.GAMMA) % 2**64, 1000)])
