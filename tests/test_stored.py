"""Checkpoints as they lie in files: every byte is read once, in little memory, or the file is refused."""

import json
import math
import os
import sys

import numpy as np
import pytest
from conftest import run_python, safetensors_bytes
from safetensors.numpy import save_file

import fastinit
from fastinit._engine.distributions import Normal
from fastinit._engine.dtypes import FLOATS
from fastinit.diagnosis import diagnose, stored
from fastinit.errors import CheckpointError
from fastinit.plan import PlannedTensor
from fastinit.views import figure as figures


def findings(path, **request):
    return {(finding.kind, finding.tensors) for finding in diagnose(path, **request).findings}


def normal(*shape, std=0.02, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * std).astype(np.float32)


def rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_tensor_of_many_spans_and_chunks_is_measured_whole(tmp_path, monkeypatch, threads):
    """A span may be left out, or taken twice, where a tensor is larger than one thread's turn."""
    monkeypatch.setattr(stored, "SPAN_BYTES", 1 << 15)
    monkeypatch.setattr(stored, "CHUNK_BYTES", 1 << 13)
    array = normal(150, 301, std=0.5) + np.linspace(0, 0.4, 150, dtype=np.float32)[:, None]
    save_file({"bias": np.ones(3, np.float32), "w": array}, tmp_path / "w.safetensors")
    measured = diagnose(tmp_path / "w.safetensors", threads=threads).tensors[1].measured
    wide = array.astype(np.float64)
    z = (wide - wide.mean()) / wide.std()
    assert measured.finite == array.size
    np.testing.assert_allclose(
        [measured.mean, measured.std, measured.kurtosis], [wide.mean(), wide.std(), (z**4).mean() - 3], rtol=1e-9
    )
    assert (measured.low, measured.high) == (array.min(), array.max())
    counts, _ = np.histogram(wide, 32)
    shares = np.array(measured.histogram) / measured.sampled
    np.testing.assert_allclose(shares, counts / array.size, atol=0.03)  # a sample's error


def test_threads_change_nothing(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({f"{i}.w": normal(1000 + i, 3000, seed=i) for i in range(4)}, path)
    assert diagnose(path, threads=1).facts() == diagnose(path, threads=3).facts()


def test_shards_are_read_by_their_index(tmp_path):
    save_file({"a.w": normal(20, 30), "b.w": normal(10, 30, seed=1)}, tmp_path / "1.safetensors")
    save_file({"c.w": normal(20, 30)}, tmp_path / "2.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    homes = {"c.w": "2.safetensors", "a.w": "1.safetensors", "b.w": "1.safetensors"}
    index.write_text(json.dumps({"metadata": {}, "weight_map": homes}))
    assert findings(index) == {("equal", ("c.w", "a.w"))}
    homes_of_a = ("../1.safetensors", "\ud800", "none", 3)
    for homes in ({"c.w": "1.safetensors"}, *({"a.w": home} for home in homes_of_a), {}, []):
        index.write_text(json.dumps({"weight_map": homes}))
        with pytest.raises(CheckpointError, match=r"index\.json|none"):
            diagnose(index)


HOSTILE = {
    "an empty file": b"",
    "a length past the file": safetensors_bytes(b"{}", length=5000),
    "data cut off": safetensors_bytes({"w": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}, bytes(35)),
    "a name with a control character": safetensors_bytes(
        {"a\x01": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)
    ),
    "metadata without a plan": safetensors_bytes({"__metadata__": {"fastinit.seed": "x"}}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(tmp_path, name):
    path = tmp_path / "w.safetensors"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(CheckpointError, match=r"w\.safetensors"):
        diagnose(path)
    with pytest.raises(CheckpointError):
        diagnose(tmp_path)
    with pytest.raises(CheckpointError):
        diagnose(tmp_path / "none.safetensors")


EXTREME = {
    "huge": (1e80, 1.0),
    "huge, beyond its own square": (1e300, 1e307),
    "tiny": (1e-90, 0.0),
    "tiny, below its own square": (1e-200, 0.0),
    "subnormal": (1e-318, 0.0),
}


@pytest.mark.parametrize("name", EXTREME)
def test_powers_that_leave_float64_are_measured_by_a_scale(tmp_path, name):
    """Fourth powers underflow to a kurtosis of -3, squares to a zero deviation; sums overflow to infinity."""
    mpmath = pytest.importorskip("mpmath")
    spread, shift = EXTREME[name]
    array = rng().normal(size=(60, 50)) * spread + shift
    path = tmp_path / "w.safetensors"
    save_file({"w": array}, path)
    plan = fastinit.Plan(17, "own", "named", [PlannedTensor("w", array.shape, FLOATS[0], "n", Normal(0, 1), 1)])
    m = diagnose(path, plan=plan).tensors[0].measured
    values = [mpmath.mpf(x) for x in array.ravel().tolist()]
    with mpmath.workdps(60):
        mean = sum(values) / len(values)
        square, fourth = (sum((x - mean) ** power for x in values) / len(values) for power in (2, 4))
        std, kurtosis = mpmath.sqrt(square), fourth / square**2 - 3
        assert abs(m.mean - mean) <= 1e-12 * std + 1e-15 * abs(mean) + 5e-324
    assert math.isclose(m.std, std, rel_tol=1e-12, abs_tol=5e-324)
    assert math.isclose(m.kurtosis, kurtosis, rel_tol=1e-7)
    figures.save(diagnose(path).figure(), tmp_path / "w.svg")


def test_the_largest_and_the_smallest_float64_are_judged_and_drawn_without_a_warning(tmp_path):
    path = tmp_path / "w.safetensors"
    array = np.array([[1.7e308, -1.7e308, 1e300]])
    save_file({"a": array, "b": np.array([[1e-300, 2e-300, 5e-324]]), "c": np.full((2, 2), 1e300)}, path)
    found = diagnose(path, rules={"a": 1.0})
    assert [finding.kind for finding in found.findings] == ["spread", "constant"]
    assert math.isclose(found.tensors[0].measured.std, math.sqrt(2 / 3) * 1.7e308, rel_tol=1e-7)
    json.dumps(found.facts(), allow_nan=False)
    figures.save(found.figure(), tmp_path / "w.svg")


def test_minus_zero_is_shown_as_zero(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"a": np.array([-0.0, -0.0]), "b": np.array([-1.0, -0.0])}, path)
    assert " -0 " not in "\n".join(diagnose(path).lines())


def test_memory_stays_small_beside_the_file(tmp_path):
    """A mapped or loaded checkpoint would count as memory in full; half of this file is too much."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the peak of resident memory is read from /proc")
    path = tmp_path / "w.safetensors"
    specs = {f"{i}.weight": {"dtype": "F32", "shape": [4096, 2560]} for i in range(4)}
    fastinit.write_checkpoint(fastinit.Plan.from_specs(specs, 17), path)
    code = (
        "import sys; from pathlib import Path; from fastinit.diagnosis import diagnose; "
        "good = diagnose(sys.argv[1]); status = Path('/proc/self/status').read_text(); "
        "print(bool(good), status.split('VmHWM:')[1].split()[0])"
    )
    ended = run_python("-c", code, str(path))
    assert ended.returncode == 0, ended.stderr
    good, peak = ended.stdout.split()
    peak_bytes = int(peak) * 1024
    assert good == "True"
    assert os.path.getsize(path) > 160e6
    assert peak_bytes < 80e6, f"{peak_bytes:,} bytes at the peak"


def test_a_file_that_is_cut_while_it_is_read_is_named(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"w": normal(20, 30)}, path)
    with stored.open_checkpoint(path) as (tensors, *_):
        os.truncate(path, os.path.getsize(path) - 4)
        with pytest.raises(CheckpointError, match=r"w\.safetensors has become shorter while tensor 'w' was read"):
            tensors[0].values(0, 600)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_an_index_that_is_a_pipe_is_refused_at_once(tmp_path):
    """To open a pipe waits for a writer, for ever."""
    pipe = tmp_path / "model.safetensors.index.json"
    os.mkfifo(pipe)
    with pytest.raises(CheckpointError, match="device, pipe or socket"):
        diagnose(pipe)
