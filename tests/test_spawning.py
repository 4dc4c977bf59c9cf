"""Children of a generator: named streams, whoever asks for them; never the parent's stream, shifted."""

import copy
import pickle
import threading

import numpy as np
import pytest
import reference
from tables import REFUSED_INTEGERS

from fastinit import SplitMix64

SPAWN = {
    "own": lambda rng, n: rng.spawn(n),
    "Generator": lambda rng, n: [child.bit_generator for child in np.random.Generator(rng).spawn(n)],
    # dask.array.random and scipy.stats.qmc do this, without asking the generator
    "seeds": lambda rng, n: [type(rng)(seed) for seed in rng._seed_seq.spawn(n)],
}


def named_children(start, numbers):
    return [SplitMix64(reference.stream_state(start, f"spawn/{number}")) for number in numbers]


@pytest.mark.parametrize("spawn", SPAWN.values(), ids=SPAWN)
def test_children_are_named_streams_of_the_start(spawn):
    """C5. A child at seed + k * gamma would be the parent's own stream, shifted."""
    rng = SplitMix64(17)
    assert spawn(rng, 2) == named_children(17, [0, 1])
    rng.random(1000)  # what has been drawn in between changes no child
    assert spawn(rng, 1) == named_children(17, [2])
    assert rng == SplitMix64(17).advance(1000)
    assert spawn(rng, 0) == []
    rng.state = 99
    assert spawn(rng, 1) == named_children(17, [3])


def test_children_spawn_children_of_their_own():
    child = SplitMix64(17).spawn(1)[0]
    expected = named_children(child.state, [0, 1])
    child.random(10)
    assert child.spawn(2) == expected


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda rng: pickle.loads(pickle.dumps(rng))])
def test_copies_carry_the_start_and_the_count(way):
    """A pickled generator that began to count anew would give two workers the same children."""
    rng = SplitMix64(17)
    rng.spawn(3)
    rng.random(5)
    twin = way(rng)
    assert twin == rng
    assert twin.spawn(1) == rng.spawn(1) == named_children(17, [3])


def test_a_jumped_copy_spawns_other_children():
    rng = SplitMix64(17)
    assert rng.jumped().spawn(1) == named_children(rng.jumped().state, [0])


def test_a_generator_made_anew_counts_anew():
    rng = SplitMix64(17)
    rng.spawn(2)
    rng.__init__(18)
    assert rng.spawn(1) == named_children(18, [0])


def test_threads_that_share_a_generator_spawn_different_children():
    rng, found = SplitMix64(17), []
    threads = [threading.Thread(target=lambda: found.extend(rng.spawn(50))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(child.state for child in found) == sorted(
        child.state for child in named_children(17, range(400))
    )


@pytest.mark.parametrize(("count", "error"), REFUSED_INTEGERS)
def test_a_count_that_is_none_spawns_nothing(count, error):
    rng = SplitMix64(17)
    with pytest.raises(error, match="n_children"):
        rng.spawn(count)
    assert rng.spawn(1) == named_children(17, [0])


def test_a_start_is_no_entropy_for_another_generator():
    with pytest.raises(NotImplementedError, match=r"numpy\.random\.SeedSequence"):
        np.random.PCG64(SplitMix64(17).seed_seq)
