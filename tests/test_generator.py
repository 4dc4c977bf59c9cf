"""The generator: published vectors, the index law, and every way Python and numpy have of holding one."""

import copy
import itertools
import pickle
import signal
import threading

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from tables import REFUSED_INTEGERS, STATES

import fastinit
from fastinit import SplitMix64

WORDS = st.integers(0, 2**64 - 1)

PUBLISHED = {
    0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B],
    1234567: [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ],
}


@pytest.mark.parametrize(("seed", "draws"), PUBLISHED.items())
def test_published_vectors(seed, draws):
    """Another constant, shift or increment; and a reference that is wrong in the same way."""
    rng = SplitMix64(seed)
    assert [rng.next_u64() for _ in draws] == draws
    assert list(itertools.islice(reference.sequence(seed), len(draws))) == draws
    assert [reference.draw(seed, i) for i in range(len(draws))] == draws


@pytest.mark.parametrize("state", STATES)
def test_draws_match_the_reference_past_the_wrap_of_the_state(state):
    """A lost carry, a signed shift: 10,000 draws from each state, stepped and by the index law."""
    rng, count = SplitMix64.from_state(state), 10_000
    drawn = [rng.next_u64() for _ in range(count)]
    expected = list(itertools.islice(reference.sequence(state), count))
    wrong = [i for i in range(count) if drawn[i] != expected[i]]
    assert not wrong, f"state {state:#x}, draw {wrong[0]}: {drawn[wrong[0]]:#x} != {expected[wrong[0]]:#x}"
    assert [reference.draw(state, i) for i in range(count)] == expected
    assert rng.state == reference.advanced(state, count)


@given(WORDS)
def test_the_inverse_of_the_mix_leads_to_any_draw(word):
    """Tests that ask for a rare draw by its value would otherwise test another."""
    assert reference.mix64(reference.unmix64(word)) == word
    assert SplitMix64(reference.state_before(word)).next_u64() == word


@pytest.mark.parametrize("state", STATES)
def test_unit_draws_are_the_top_53_bits(state):
    """The low bits, a rounding up to 1.0, or a draw of its own."""
    rng = SplitMix64(state)
    assert [rng.next_unit_f64() for _ in range(1000)] == [
        reference.unit(reference.draw(state, i)) for i in range(1000)
    ]
    assert rng.state == reference.advanced(state, 1000)


@pytest.mark.parametrize(
    ("draw", "unit"),
    [(0, 0.0), (2**11 - 1, 0.0), (2**11, 2.0**-53), (2**63, 0.5), (2**64 - 1, 1 - 2.0**-53)],
)
def test_unit_draws_stay_below_one(draw, unit):
    """uniform() == 1.0: the ends of [0, 1)."""
    assert SplitMix64(reference.state_before(draw)).next_unit_f64() == unit


DISTANCES = [0, 1, 2, 2**32, 2**63, 2**64 - 1, 2**64, -1, -(2**63), 3**100, -(3**100), 1 << 5000]


@pytest.mark.parametrize("state", [0, 17, 2**64 - 1])
@pytest.mark.parametrize("n", DISTANCES, ids=lambda n: f"{'-' * (n < 0)}{n.bit_length()}bits")
def test_advance_is_a_multiplication_modulo_the_cycle(state, n):
    """An overflow in the conversion to C, or a direction lost, for huge and negative distances."""
    rng = SplitMix64(state)
    assert rng.advance(n) is rng
    assert rng.state == reference.advanced(state, n)
    assert rng.next_u64() == reference.draw(state, n)


@given(WORDS, st.integers(0, 200))
def test_advance_equals_that_many_draws(state, n):
    stepped, jumped = SplitMix64(state), SplitMix64(state)
    for _ in range(n):
        stepped.next_u64()
    assert jumped.advance(n) == stepped
    assert jumped.advance(-n).state == state


@pytest.mark.parametrize("k", [0, 1, 2, -1, 2**24, 10**30])
def test_jumped_leaves_the_original_where_it_is(k):
    """A jump that moves its own generator, or another distance than 2**40 draws."""
    rng = SplitMix64(17)
    ahead = rng.jumped(k)
    assert rng.state == 17
    assert ahead.state == reference.advanced(17, k * 2**40)
    assert type(ahead) is SplitMix64
    assert SplitMix64(17).jumped().state == reference.advanced(17, 2**40)


@pytest.mark.parametrize("method", ["advance", "jumped"])
@pytest.mark.parametrize("n", [1.0, True, None, "1"])
def test_distances_that_are_no_integers_are_refused(method, n):
    rng = SplitMix64(17)
    with pytest.raises(TypeError, match="must be an integer"):
        getattr(rng, method)(n)
    assert rng.state == 17


# ---- seeds and states --------------------------------------------------------------------------------


def assign(state):
    SplitMix64(17).state = state


@pytest.mark.parametrize("door", [SplitMix64, SplitMix64.from_seed, SplitMix64.from_state, assign])
@pytest.mark.parametrize(("value", "error"), REFUSED_INTEGERS, ids=lambda value: repr(value)[:20])
def test_seeds_are_never_truncated_wrapped_or_guessed(door, value, error):
    """1.9 taken as 1, True as 1, -1 as 2**64 - 1, None as the clock, an OverflowError from C."""
    with pytest.raises(error, match=r"must be (an integer|between 0 and 2\*\*64 - 1)"):
        door(value)


def test_a_refused_state_leaves_the_generator():
    rng = SplitMix64(17)
    with pytest.raises(ValueError, match="state"):
        rng.state = -1
    assert rng.state == 17


@pytest.mark.parametrize("kind", [int, np.int32, np.int64, np.uint64, np.uint8])
def test_one_integer_is_one_seed_whatever_its_type(kind):
    """jax#4745, #27282: the same number as another integer type gave another stream."""
    assert SplitMix64(kind(17)).state == 17


@pytest.mark.parametrize("state", STATES)
def test_a_recorded_state_resumes_where_it_was(state):
    rng = SplitMix64(state)
    rng.next_u64()
    resumed = SplitMix64.from_state(rng.state)
    assert type(rng.state) is int
    assert resumed.next_u64() == rng.next_u64() == reference.draw(state, 1)
    rng.state = state
    assert rng.next_u64() == reference.draw(state, 0)


# ---- as a Python object ------------------------------------------------------------------------------

COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "eval of repr": lambda rng: eval(repr(rng)),
    **{
        f"pickle {protocol}": lambda rng, protocol=protocol: pickle.loads(pickle.dumps(rng, protocol))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("state", [0, 17, 2**64 - 1])
def test_copies_continue_alike_and_share_nothing(way, state):
    """A copy at another place, or one whose draws move the original's state."""
    rng = SplitMix64(state)
    rng.next_u64()
    twin = COPIES[way](rng)
    assert type(twin) is SplitMix64
    assert twin == rng
    assert twin.next_u64() == reference.draw(state, 1)
    assert rng.state == reference.advanced(state, 1), "the copy's draw moved the original"
    assert twin != rng
    assert np.random.Generator(twin).random() == reference.unit(reference.draw(state, 2))
    assert twin.state == reference.advanced(state, 3)


def test_a_subclass_stays_one_when_copied_and_jumped():
    class Mine(SplitMix64):
        pass

    rng = Mine(17)
    for twin in (copy.copy(rng), copy.deepcopy(rng), rng.jumped(), Mine.from_state(17), Mine.from_seed(17)):
        assert type(twin) is Mine


def test_a_second_init_keeps_the_memory_that_numpy_points_to():
    """A Generator that goes on drawing from a freed state, which by then is another object's."""
    rng = SplitMix64(17)
    generator = np.random.Generator(rng)
    rng.__init__(5)
    assert generator.random() == SplitMix64(5).next_unit_f64()
    assert rng == SplitMix64(5).advance(1)


def test_generators_compare_by_state_and_do_not_hash():
    """A mutable dict key; equality with the state's own integer."""
    assert SplitMix64(17) == SplitMix64(17)
    assert SplitMix64(17) != SplitMix64(18)
    assert SplitMix64(17) != 17
    with pytest.raises(TypeError, match="unhashable"):
        hash(SplitMix64(17))


def test_repr_shows_the_whole_state():
    assert repr(SplitMix64(17)) == "SplitMix64(0x0000000000000011)"


# ---- as numpy's bit generator ------------------------------------------------------------------------


def test_numpy_draws_from_the_same_state():
    """A copy of the state inside numpy's struct: the two would drift apart."""
    rng = SplitMix64(17)
    generator = np.random.Generator(rng)
    assert generator.bit_generator is rng
    taken = [generator.random(), rng.next_unit_f64(), generator.random(), rng.next_unit_f64()]
    assert taken == [reference.unit(reference.draw(17, i)) for i in range(4)]
    rng.state = 2**64 - 1
    assert generator.random() == reference.unit(reference.draw(2**64 - 1, 0))
    rng.advance(10)
    assert generator.random() == reference.unit(reference.draw(2**64 - 1, 11))


def test_numpy_arrays_of_draws():
    rng = SplitMix64(2**64 - 1)
    generator = np.random.Generator(rng)
    draws = [reference.draw(2**64 - 1, i) for i in range(3000)]
    assert generator.random(1000).tolist() == [reference.unit(d) for d in draws[:1000]]
    assert generator.integers(0, 2**64, 1000, np.uint64).tolist() == draws[1000:2000]
    assert rng.random_raw(1000).tolist() == draws[2000:]
    assert rng.state == reference.advanced(2**64 - 1, 3000)


def test_32_bit_draws_take_the_high_half_and_keep_none():
    """A buffered low half: state alone would no longer be the whole generator."""
    rng = SplitMix64(17)
    generator = np.random.Generator(rng)
    draws = [reference.draw(17, i) for i in range(6)]
    assert generator.integers(0, 2**32, 3, np.uint32).tolist() == [d >> 32 for d in draws[:3]]
    assert rng.state == reference.advanced(17, 3)
    assert generator.random(dtype=np.float32) == (draws[3] >> 40) * 2.0**-24
    assert rng.next_u64() == draws[4]
    assert generator.integers(0, 2**32, dtype=np.uint32) == draws[5] >> 32


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: g.standard_normal(),
        lambda g: g.standard_normal(dtype=np.float32),
        lambda g: g.integers(0, 10),
        lambda g: g.exponential(),
        lambda g: g.permutation(20),
    ],
    ids=["standard_normal", "standard_normal_f32", "integers", "exponential", "permutation"],
)
def test_numpy_distributions_move_the_state_by_whole_draws(draw):
    """A distribution that draws from somewhere else, or that two equal generators draw differently."""
    rng = SplitMix64(17)
    first = draw(np.random.Generator(rng))
    assert 1 <= reference.draws_between(17, rng.state) <= 64
    assert np.array_equal(draw(np.random.Generator(SplitMix64(17))), first)
    assert rng.next_u64() == reference.draw(rng.state, -1)


def test_default_rng_takes_it():
    assert np.random.default_rng(SplitMix64(17)).random() == reference.unit(reference.draw(17, 0))


@pytest.mark.parametrize("way", ["deepcopy", "pickle 5"])
def test_numpy_generators_copy_and_pickle(way):
    """A restored Generator whose C pointer leads into the old one's state."""
    rng = SplitMix64(17)
    generator = np.random.Generator(rng)
    generator.random()
    twin = COPIES[way](generator)
    assert twin.random() == reference.unit(reference.draw(17, 1))
    assert rng.state == reference.advanced(17, 1)
    assert twin.bit_generator.state == reference.advanced(17, 2)


def test_a_generator_outlives_every_other_reference():
    """numpy's struct points at our state: it must not be freed first."""
    generators = [np.random.Generator(SplitMix64(seed)) for seed in range(100)]
    assert [g.random() for g in generators] == [reference.unit(reference.draw(seed, 0)) for seed in range(100)]


@pytest.mark.parametrize(
    "draw",
    [lambda rng: rng.next_u64(), lambda rng: int(np.random.Generator(rng).integers(0, 2**64, dtype=np.uint64))],
    ids=["next_u64", "Generator"],
)
def test_threads_share_a_generator_without_losing_or_repeating_draws(draw):
    """Two threads that read one state before either writes it."""
    rng, threads, count = SplitMix64(2**64 - 1), 8, 500
    drawn = [[] for _ in range(threads)]
    start = threading.Barrier(threads)

    def work(mine):
        start.wait()
        for _ in range(count):
            mine.append(draw(rng))

    workers = [threading.Thread(target=work, args=(mine,)) for mine in drawn]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    total = threads * count
    assert sorted(itertools.chain(*drawn)) == sorted(reference.draw(2**64 - 1, i) for i in range(total))
    assert rng.state == reference.advanced(2**64 - 1, total)


# ---- a draw in the middle of a fill ------------------------------------------------------------------


def set_state(rng):
    rng.state = 5


NESTED = {
    "next_u64": lambda rng, _: rng.next_u64(),
    "next_unit_f64": lambda rng, _: rng.next_unit_f64(),
    "advance": lambda rng, _: rng.advance(3),
    "state": lambda rng, _: set_state(rng),
    "random": lambda rng, _: rng.random(4),
    "a fill": lambda rng, _: fastinit.normal((3, 3), rng),
    "random_raw": lambda rng, _: rng.random_raw(4),
    "numpy's random": lambda _, generator: generator.random(),
    "numpy's array": lambda _, generator: generator.standard_normal(4),
    "numpy's integers": lambda _, generator: generator.integers(0, 9, 4),
}


@pytest.mark.parametrize("ask", NESTED.values(), ids=NESTED)
def test_a_signal_handler_does_not_get_the_draws_of_the_fill_it_interrupts(ask):
    """The lock lets its own thread in again: the handler got draws that the fill had already used."""
    rng = SplitMix64(17)
    generator, refused = np.random.Generator(rng), []

    def handle(*_):
        with pytest.raises(RuntimeError, match="signal handler") as caught:
            ask(rng, generator)
        refused.append(str(caught.value))

    def draw(state):
        signal.raise_signal(signal.SIGTERM)
        return state

    before = signal.signal(signal.SIGTERM, handle)
    try:
        assert rng.transact(4, draw) == 17
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(refused) == 1
    assert "stream_for" in refused[0]
    assert rng == SplitMix64(17).advance(4)
    assert ask(rng, generator) is None or rng != SplitMix64(17).advance(4), "refused for ever"


def test_a_generator_is_free_again_after_a_fill_that_failed():
    rng = SplitMix64(17)
    with pytest.raises(ZeroDivisionError):
        rng.transact(4, lambda state: state / 0)
    assert rng.state == 17
    assert rng.transact(4, lambda state: state) == 17


def test_what_moves_nothing_is_allowed_in_the_middle_of_a_fill():
    """A handler that only looks, or that takes a copy far ahead."""
    rng = SplitMix64(17)
    found = rng.transact(4, lambda _: (rng.state, rng.jumped(), copy.copy(rng), pickle.loads(pickle.dumps(rng))))
    assert found == (17, SplitMix64(17).jumped(), SplitMix64(17), SplitMix64(17))


def test_another_thread_waits_for_the_fill_and_is_not_refused():
    rng, asked = SplitMix64(17), threading.Event()
    drawn = []

    def ask():
        asked.set()
        drawn.append(np.random.Generator(rng).random())

    other = threading.Thread(target=ask)

    def draw(state):
        other.start()
        asked.wait(10)
        return state

    rng.transact(4, draw)
    other.join()
    assert drawn == [SplitMix64(17).advance(4).next_unit_f64()]


def test_the_lock_that_numpy_takes_is_a_lock():
    """numpy calls acquire and release, and its users may."""
    rng = SplitMix64(17)
    assert rng.lock.acquire()
    assert rng.lock.acquire(blocking=False), "the same thread may hold it twice, as numpy's own"
    rng.lock.release()
    taken = []
    other = threading.Thread(target=lambda: taken.append(rng.lock.acquire(blocking=False)))
    other.start()
    other.join()
    rng.lock.release()
    assert taken == [False]
