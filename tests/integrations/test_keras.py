"""fastinit.keras on two backends: the same bytes as numpy, Keras's conventions, saved models, a step of training.

Keras chooses its backend at import, so a script tells what each makes; numpy's fills of the formula are the judge.
"""

import hashlib
import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
import reference
from conftest import ROOT, peer, run_python, xavier_weights

import fastinit
from fastinit.initializers import Normal, TruncatedNormal, Uniform, VarianceScaling

BACKENDS = ("torch", "jax")
STATE = reference.stream_state(17, "w")
FORMULAS = {
    "GlorotUniform": VarianceScaling(1.0, "fan_avg", "uniform"),
    "GlorotNormal": VarianceScaling(1.0, "fan_avg", "truncated_normal"),
    "HeUniform": VarianceScaling(2.0, "fan_in", "uniform"),
    "HeNormal": VarianceScaling(2.0, "fan_in", "truncated_normal"),
    "LecunUniform": VarianceScaling(1.0, "fan_in", "uniform"),
    "LecunNormal": VarianceScaling(1.0, "fan_in", "truncated_normal"),
    "VarianceScaling": VarianceScaling(0.5, "fan_out", "normal"),
    "RandomNormal": Normal(0.5, 0.05),
    "RandomUniform": Uniform(-0.05, 0.25),
    "TruncatedNormal": TruncatedNormal(0.0, 2.0, -2.0, 2.0),
}
FANS = {(640,): (640, 640), (48, 32): (48, 32), (3, 3, 16, 24): (9 * 16, 9 * 24)}


def digest(array):
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=8).hexdigest()


@pytest.fixture(scope="module", params=BACKENDS)
def made(request):
    for name in ("keras", request.param):
        if importlib.util.find_spec(name) is None:  # not imported here: that would choose a backend
            peer(name)
    script = str(Path(__file__).with_name("keras_models.py"))
    ended = run_python(
        script, request.param, env={"KERAS_BACKEND": request.param, "PYTHONPATH": str(ROOT)}, timeout=600
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return request.param, json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("shape", FANS, ids=str)
def test_weights_are_those_of_numpy(made, name, shape):
    fan_in, fan_out = FANS[shape]
    expected = FORMULAS[name](shape, STATE, fan_in=fan_in, fan_out=fan_out, dtype="float32")
    assert made[1][f"{name} {shape}"] == digest(expected)


@pytest.mark.parametrize("name", FORMULAS)
def test_mean_spread_and_extremes_are_those_of_keras(made, name):
    """A truncated normal of Keras is corrected in VarianceScaling and not in TruncatedNormal."""
    own, theirs = made[1][f"{name} moments"]
    assert own[0] == pytest.approx(theirs[0], abs=0.01 * theirs[1] + 5e-4)
    assert own[1] == pytest.approx(theirs[1], rel=0.01)
    if name not in ("RandomNormal", "VarianceScaling"):
        assert own[2:] == pytest.approx(theirs[2:], rel=0.01)


def test_every_dtype_is_the_rounded_float64_weight(made):
    for dtype in ("float16", "bfloat16", "float32"):
        expected = fastinit.glorot_uniform((48, 32), STATE, dtype=dtype)
        assert made[1][f"dtype {dtype}"] == digest(expected.astype("f4") if dtype == "bfloat16" else expected)


def test_float64_is_drawn_or_refused(made):
    """The jax backend warns, and stores float32."""
    backend, facts = made
    if backend == "jax":
        assert facts["dtype float64"].startswith("TypeError: JAX would store float64 as float32; allow 64 bits")
    else:
        assert facts["dtype float64"] == "nothing"


@pytest.mark.parametrize("case", ["serialized", "cloned", "in a layer", "loaded"])
def test_an_initializer_survives_its_file(made, case):
    assert made[1][case] == digest(xavier_weights(STATE, (48, 32), 80).astype("f4"))


def test_attention_counts_its_inputs(made):
    """(in, heads, width) is no convolution: Keras tells its own initializers so, and ours are Keras's own."""
    assert made[1]["heads"] == [[48, 2, 16], digest(xavier_weights(STATE, (48, 2, 16), 80).astype("f4"))]


FAN_SUMS = {
    "conv1d/kernel": 3 * 6 + 3 * 8, "mha/query/kernel": 16, "mha/key/kernel": 16, "mha/value/kernel": 16,
    "mha/attention_output/kernel": 16, "lstm/lstm_cell/kernel": 16, "lstm/lstm_cell/recurrent_kernel": 16,
    "gru/gru_cell/kernel": 16, "gru/gru_cell/recurrent_kernel": 16, "separable/depthwise_kernel": 6,
    "separable/pointwise_kernel": 16, "depthwise_conv1d/kernel": 6, "conv1d_transpose/kernel": 48,
    "head/kernel": 9,
}  # fmt: skip
ONES = {"bn/gamma", "bn/moving_variance", "ln/gamma"}


def test_a_model_is_started_by_the_paths_of_its_variables(made):
    facts = {
        name.removeprefix("variable "): fact for name, fact in made[1].items() if name.startswith("variable ")
    }
    assert len(facts) == 31
    for name, (shape, found) in facts.items():
        if name in FAN_SUMS:
            expected = xavier_weights(reference.stream_state(17, name), shape, FAN_SUMS[name])
        else:
            expected = np.full(shape, float(name in ONES))
        assert found == digest(expected.astype("f4")), name


def test_backends_agree_and_the_plan_travels(made):
    plan = fastinit.Plan.from_json(made[1]["plan"])
    assert math.prod(plan["mha/query/kernel"].shape) == 8 * 2 * 4
    assert digest(plan.array("head/kernel")) == made[1]["variable head/kernel"][1]


def test_a_started_model_learns(made):
    before, after = made[1]["losses"]
    assert after < before


def test_refusals_say_what_to_type(made):
    facts = made[1]
    for case in ("no name", "no seed", "positional seed"):
        assert facts[case].startswith("TypeError: HeNormal needs a seed and a name")
        assert 'HeNormal(..., seed=17, name="dense/kernel")' in facts[case]
    assert facts["negative seed"].startswith("ValueError: seed must be between 0 and")
    assert facts["integers"].startswith("TypeError: dtype must be one of float64")
    assert facts["not built"].startswith("PlanError: m has no variables yet; build it first")
    assert facts["no such policy"].startswith("PlanError: ")
    assert facts["untouched"] is True
    assert facts["empty"] == [0, 8]


def test_orthogonal_kernels_are_those_of_numpy(made):
    expected = fastinit.orthogonal((3, 8, 8), STATE, gain=2.0, layout="wio", dtype="float32")
    assert made[1]["orthogonal"] == digest(expected)


def test_one_initializer_for_two_variables_gives_equal_weights_and_init_model_does_not(made):
    """keras#15586: queries, keys and values that start alike. Keras clones one initializer for all of them."""
    facts = made[1]
    assert len({facts[f"variable mha/{part}/kernel"][1] for part in ("query", "key", "value")}) == 3


def test_the_examples_of_the_page_run(made):
    env = {"KERAS_BACKEND": made[0], "PYTHONPATH": str(ROOT)}
    ended = run_python("-m", "doctest", "docs/keras.md", env=env, timeout=600)
    assert (ended.returncode, ended.stdout) == (0, "")
