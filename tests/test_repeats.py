"""Equal parts of a tensor: found whatever the chunks, and in one reading, or a hostile file is read for hours."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from fastinit.diagnosis import repeats as module
from fastinit.diagnosis.repeats import repeats
from fastinit.diagnosis.stored import StoredTensor, open_checkpoint


def judged(array):
    """The first axis with equal parts, and the most of them, by cutting the array at every divisor."""
    for axis, length in enumerate(array.shape):
        for parts in range(length, 1, -1):
            if length % parts == 0 and array.ndim > 1:
                first, *others = np.split(array, parts, axis)
                if all(np.array_equal(first, other) for other in others):
                    return axis, parts
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("repeats")


@settings(max_examples=300)
@given(data=st.data())
def test_the_parts_are_those_of_a_search_through_all_divisors(folder, data):
    """Periods cross the chunks in every way: rows within one, blocks over several, parts longer than one."""
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12]), min_size=1, max_size=4))
    unit = [data.draw(st.sampled_from([d for d in (1, 2, 3, 4, 6, 12, n) if n % d == 0])) for n in shape]
    part = np.arange(math.prod(unit), dtype=np.uint8).reshape(unit)
    array = np.ascontiguousarray(np.tile(part, [n // d for n, d in zip(shape, unit, strict=True)]))
    for _ in range(data.draw(st.integers(0, 2))):
        array.reshape(-1)[data.draw(st.integers(0, array.size - 1))] += 1
    path = folder / "w.safetensors"
    save_file({"w": array}, path)
    original, module.CHUNK_BYTES = module.CHUNK_BYTES, data.draw(st.sampled_from([1, 2, 7, 16, 50, 1 << 19]))
    try:
        with open_checkpoint(path) as (tensors, *_):
            assert repeats(tensors[0]) == judged(array)
    finally:
        module.CHUNK_BYTES = original


@pytest.mark.parametrize("shape", [(1, 720_720), (720_720, 1), (5040, 143)])
def test_a_tensor_is_read_once_however_many_parts_it_may_have(folder, monkeypatch, shape):
    """720,720 has 240 divisors: equal weights but for the last were read once for each of them."""
    array = np.ones(shape, np.float32)
    array[-1, -1] = 2
    path = folder / "w.safetensors"
    save_file({"w": array}, path)
    lengths = []
    original = StoredTensor.read

    def read(self, begin, buffer):
        lengths.append(len(memoryview(buffer)))
        return original(self, begin, buffer)

    monkeypatch.setattr(StoredTensor, "read", read)
    with open_checkpoint(path) as (tensors, *_):
        assert repeats(tensors[0]) is None
    assert sum(lengths) <= array.nbytes + 100 * 128, f"{sum(lengths) / array.nbytes:.1f} readings"
