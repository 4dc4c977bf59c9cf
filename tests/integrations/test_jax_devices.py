"""Equal bytes on one device and on eight: three shardings and none, at once and compiled, leaf by leaf.

Numpy's fills of the same seed and name are the judge; each device may fill no more than its own shard.
"""

import hashlib
import json
from pathlib import Path

import pytest
import reference
from conftest import ROOT, peer, run_python

import fastinit

jax = peer("jax")

STATE = reference.stream_state(17, "w")
SHAPE = (16, 24)
EXPECTED = {
    "glorot_uniform": lambda: fastinit.glorot_uniform(SHAPE, STATE, dtype="float32"),
    "truncated_normal": lambda: fastinit.truncated_normal(SHAPE, STATE, 0.0, 0.5, dtype="bfloat16"),
    "orthogonal": lambda: fastinit.orthogonal(SHAPE, STATE, dtype="float32"),
    "stack": lambda: fastinit.glorot_uniform((3, *SHAPE), STATE, layout="eio", dtype="float32"),
}


@pytest.fixture(scope="module")
def made():
    script = str(Path(__file__).with_name("eight_devices.py"))
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    ended = run_python(script, env={**flags, "PYTHONPATH": str(ROOT)}, timeout=600)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout)


@pytest.mark.parametrize("name", EXPECTED)
def test_eight_devices_hold_the_bytes_of_numpy(made, name):
    """JAX's own draws change with the sharding where threefry is not partitionable."""
    expected = hashlib.blake2b(EXPECTED[name]().tobytes(), digest_size=8).hexdigest()
    found = {case: digest for case, digest in made.items() if case.startswith(f"{name},")}
    assert len(found) == (8 if name == "stack" else 48)
    assert {case for case, digest in found.items() if digest != expected} == set()


@pytest.mark.parametrize("how", ["at once", "jit"])
def test_rows_that_the_devices_cannot_share_evenly_are_refused(made, how):
    assert "evenly divide" in made[f"uneven, {how}"]
