"""Libraries that spawn generators themselves must get the children that `SplitMix64.spawn` names."""

import numpy as np
import pytest
from conftest import peer
from reference import stream_state

from fastinit import SplitMix64


def numpys(state):
    return np.random.Generator(SplitMix64(state))


def test_dask_draws_each_chunk_from_a_child():
    random = peer("dask.array.random")
    drawn = random.default_rng(SplitMix64(17)).standard_normal((6, 4), chunks=(3, 4)).compute()
    for number, chunk in enumerate((drawn[:3], drawn[3:])):
        assert (chunk == numpys(stream_state(17, f"spawn/{number}")).standard_normal((3, 4))).all()


def test_scipys_designs_draw_from_a_child():
    qmc = peer("scipy.stats.qmc")
    first = qmc.LatinHypercube(3, rng=numpys(17)).random(8)
    assert (first == qmc.LatinHypercube(3, rng=numpys(17)).random(8)).all()
    assert not (first == qmc.LatinHypercube(3, rng=numpys(18)).random(8)).all()


@pytest.mark.parametrize("design", ["Sobol", "Halton", "PoissonDisk"])
def test_scipys_designs_take_the_generator(design):
    sample = getattr(peer("scipy.stats.qmc"), design)(2, rng=numpys(17)).random(4)
    assert sample.shape == (4, 2)
