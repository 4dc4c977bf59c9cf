"""Shared by all tests. `reference.py` beside this file is the independent judge of numbers."""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

# As the commands do for their own process, which here runs all the tests: before numpy, whose BLAS reads it once.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

from fastinit.cli import main as cli

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore = ["typing"]  # for type checkers; test_typing.py runs what is to be run

# A shell starts what it runs in the background with Ctrl-C ignored, nohup with the end of the terminal ignored.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# A slow machine is no failure: time is judged by benchmarks, not by hypothesis.
settings.register_profile("fastinit", deadline=None)
settings.load_profile("fastinit")

U64 = 1 << 64
GAMMA = 0x9E3779B97F4A7C15
ROOT = Path(__file__).parent.parent

# Every dtype, an odd number of bytes, scalars, empty axes, in an order that would misalign a naive writer.
MIXED = {
    "a.position_ids": {"dtype": "I64", "shape": [1, 5]},
    "b.float8.weight": {"dtype": "F8_E4M3", "shape": [3, 5]},
    "c.LayerNorm.bias": {"dtype": "F64", "shape": []},
    "d.half.weight": {"dtype": "F16", "shape": [3, 3]},
    "e.empty.weight": {"dtype": "F32", "shape": [0, 4]},
    "f.double.weight": {"dtype": "F64", "shape": [4, 3]},
    "g.float8b.weight": {"dtype": "F8_E5M2", "shape": [7, 1]},
    "h.brain.weight": {"dtype": "BF16", "shape": [5, 3]},
    "i.norm.weight": {"dtype": "F32", "shape": [3]},
    "j.num_batches_tracked": {"dtype": "I32", "shape": []},
    "k.single.weight": {"dtype": "F32", "shape": [5, 7]},
}


def mixed(values):
    """The output function of SplitMix64, on an array of states (C1)."""
    z = np.asarray(values, np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def xavier_weights(state, shape, fan_sum):
    """Xavier uniform float64 weights of the stream at `state`, in numpy alone (C2, C7, C13)."""
    size = int(np.prod(shape, dtype=np.int64))
    steps = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(GAMMA)
    unit = (mixed(np.uint64(state) + steps) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (np.sqrt(6.0 / float(fan_sum)) * (2.0 * unit - 1.0)).reshape(shape)


def bits(array):
    """The stored bits of an array, comparable across dtypes numpy cannot compare."""
    return np.ascontiguousarray(array).tobytes()


def safetensors_bytes(header, data=b"", *, length=None):
    """A .safetensors file: `header` is an object or raw bytes, `length` what its first 8 bytes claim."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def peer(name):
    """Import another library; where it is absent skip, or fail if FASTINIT_REQUIRE_PEERS demands it.

    FASTINIT_REQUIRE_PEERS has libraries with commas between them, or 1 for all.
    """
    if {name.partition(".")[0], "1"} & set(os.environ.get("FASTINIT_REQUIRE_PEERS", "").split(",")):
        return importlib.import_module(name)
    return pytest.importorskip(name)


@contextlib.contextmanager
def unmoved(rng):
    """Inside, a request is refused; the generator must not have noticed (C18)."""
    before = rng.state
    yield
    assert rng.state == before, "a refused request moved the generator"


def run_python(*arguments, **options):
    """Run this Python as a child and return its CompletedProcess; `env` adds to the environment."""
    env = {**os.environ, **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, *arguments],
        env=env,
        text=True,
        capture_output=True,
        check=False,
        **{"cwd": ROOT, "timeout": 60, **options},
    )


def run(capsys, *arguments):
    """Run the command line in this process and return (exit status, standard output, standard error)."""
    try:
        status = cli.main([str(argument) for argument in arguments])
    except SystemExit as exit_:  # argparse's own
        status = exit_.code
    output = capsys.readouterr()
    return status, output.out, output.err


@pytest.fixture
def interrupted():
    """A stand-in for any callable, as if Ctrl-C arrived inside it."""

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    return interrupt
