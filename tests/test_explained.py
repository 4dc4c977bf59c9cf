"""A fault with a reason is a remark: what a healthy fresh model holds must not be called wrong, nor a fault right.

Real models of real libraries are in integrations/test_diagnose_models.py; here stands one of each kind, in numpy.
"""

import json

import ml_dtypes
import numpy as np
import pytest
from conftest import run
from safetensors.numpy import save_file

import fastinit
from fastinit import PlannedTensor
from fastinit.diagnosis import diagnose
from fastinit.initializers import Normal


def normal(*shape, std=0.02, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * std).astype(np.float32)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def ones(*shape):
    return np.ones(shape, np.float32)


def judged(arrays, path, **request):
    """{kind: names} of the findings, and of the remarks."""
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    found = diagnose(path, **request)
    return tuple(
        {kind: {name for f in some if f.kind == kind for name in f.tensors} for kind in {f.kind for f in some}}
        for some in (found.findings, found.remarks)
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "w.safetensors"


MASK = np.where(np.tri(40) == 1, 0, -np.inf).astype(np.float32)
ANGLES = np.outer(np.arange(50), 10_000 ** -np.linspace(0, 0.97, 16))
DRAWN = {"other.weight": normal(24, 32, seed=9)}

EXPLAINED = {
    "zero factor": {"q.lora_A.weight": normal(8, 64), "q.lora_B.weight": zeros(64, 8)},
    "zero factor of three": {
        "q.lora_A": normal(8, 64), "q.lora_B": normal(64, 8, seed=1), "q.lora_E": zeros(8, 1)
    },
    "zero factor of four": {
        "q.hada_w1_a": normal(64, 8), "q.hada_w1_b": normal(8, 32, seed=1), "q.hada_w2_a": normal(64, 8, seed=2),
        "q.hada_w2_b": zeros(8, 32),
    },
    "zero factor of its own name": {"delta.A": normal(4, 64), "delta.B": zeros(48, 4)},
    "one axis": {
        "gain": ones(32, 1, 1, 1), "scale": zeros(1, 1, 1, 32), "cls_token": zeros(1, 1, 32), "v": ones(9, 1)
    },
    "broadcast": {"pos_embed": zeros(1, 17, 32), "register_tokens": zeros(1, 4, 32), "mask": ones(1, 1, 8, 8)},
    "bias table": {"attn.relative_position_bias_table": zeros(49, 4), "rel_pos_h": zeros(7, 8)},
    "starts silent": {
        "head.weight": zeros(10, 32), "blocks.0.adaLN_modulation.1.weight": zeros(96, 16),
        "controlnet_down_blocks.0.weight": zeros(32, 32, 1, 1),
    },
    "starts silent, last of a branch": {
        f"blocks.{i}.fc{n}.weight": zeros(32, 64) if n == 2 else normal(64, 32, seed=i)
        for i in (0, 1) for n in (1, 2)
    },
    "gain": {"weight": normal(8, 8), "2.weight": ones(8, 16), "2.bias": zeros(8, 16)},
    "mask": {f"{i}.attn": MASK for i in range(3)},
    "table": {f"{i}.tril": np.tri(40, dtype=np.float32) for i in range(8)},
    "table of two numbers": {f"{i}.decays": np.tri(40) * 0.3 for i in range(2)},
    "table of sines": {f"{i}.t": np.concatenate([np.sin(ANGLES), np.cos(ANGLES)], 1) for i in (0, 1)},
    "table of sines in turns": {
        f"{i}.t": np.stack([np.sin(ANGLES), np.cos(ANGLES)], -1).reshape(50, 32).astype(np.float32) for i in (0, 1)
    },
    "table of rounded sines": {
        f"{i}.t": np.concatenate([np.sin(ANGLES), np.cos(ANGLES)], 1).astype(ml_dtypes.bfloat16) for i in (0, 1)
    },
    "table of angles": {"turn": np.tile(np.cos(ANGLES), (1, 2)), "sine": np.tile(np.sin(ANGLES), (1, 2))},
    "table, a ramp": {f"{i}.decay": np.linspace(0, 1, 32)[None] ** 2 for i in (0, 1)},
    "table of whole numbers": {f"{i}.places": np.indices((6, 9)).reshape(2, 54) * 1.0 for i in (0, 1)},
    "copy": {"student.w": normal(8, 8), "teacher.w": normal(8, 8)},
}  # fmt: skip


@pytest.mark.parametrize("kind", EXPLAINED)
def test_what_has_a_reason_is_a_remark_and_the_status_is_0(kind, path, capsys):
    arrays = EXPLAINED[kind]
    findings, remarks = judged(DRAWN | arrays, path)
    assert not findings
    (reason,) = remarks
    assert reason == kind.split(",")[0].split(" of ")[0]
    status, out, err = run(capsys, "diagnose", path, "--quiet")
    assert (status, err) == (0, "")
    assert f"remark, {reason}: " in out
    assert "nothing wrong found" in out
    facts = json.loads(run(capsys, "diagnose", path, "--json", "--quiet")[1])
    assert facts["good"]
    assert {remark["kind"] for remark in facts["remarks"]} == {reason}
    verdicts = {tensor["verdict"] for tensor in facts["tensors"] if tensor["name"] in remarks[reason]}
    assert verdicts == {reason}


UNEXPLAINED = {
    "both factors are zero, and neither gets a gradient": (
        "all zero",
        {"q.lora_A.weight": zeros(8, 64), "q.lora_B.weight": zeros(64, 8)},
    ),
    "two of three factors are zero": (
        "all zero",
        {"q.lora_A": zeros(8, 64), "q.lora_B": normal(64, 8), "q.lora_E": zeros(8, 1)},
    ),
    "a projection whose name ends like a factor's": (
        "all zero",
        {"q_a.weight": normal(64, 64), "q_b.weight": zeros(64, 64)},
    ),
    "a name that often starts at zero, drawn in the next layer": (
        "all zero",
        {"0.proj_out.weight": zeros(32, 32), "1.proj_out.weight": normal(32, 32)},
    ),
    "the first of a branch": (
        "all zero",
        {f"{i}.fc{n}.weight": zeros(64, 32) if n == 1 else normal(32, 64, seed=i) for i in (0, 1) for n in (1, 2)},
    ),
    "a matrix of ones": ("constant", {"fc.weight": ones(24, 24), "fc.bias": zeros(24)}),
    "equal positions": ("constant", {"pos_embed": np.full((1, 17, 32), 0.1, np.float32)}),
    "a convolution of one channel": ("all zero", {"conv.weight": zeros(1, 8, 3, 3)}),
    "minus infinity among different weights": (
        "not finite",
        {"fc.weight": np.where(np.tri(40) == 1, normal(40, 40), -np.inf).astype(np.float32)},
    ),
    "NaN beside minus infinity": ("not finite", {"m": np.where(np.eye(40) == 1, np.nan, MASK).astype(np.float32)}),
    "infinities of both signs": ("not finite", {"m": np.where(np.eye(40) == 1, np.inf, MASK).astype(np.float32)}),
    "one lost weight among zeros": (
        "not finite",
        {"m": np.where(np.arange(1600).reshape(40, 40) == 3, -np.inf, 0.0)},
    ),
    "equal rows whose squares add up to another number": (
        "equal",
        {f"{i}.t": np.concatenate([np.sin(ANGLES), np.cos(ANGLES)], 1) * 0.9 for i in (0, 1)},
    ),
    "N(0, 1) in a projection": ("spread", {"q_proj.weight": normal(64, 64, std=1)}),
    "N(0, 1) beside a bias": ("spread", {"x.weight": normal(64, 64, std=1), "x.bias": zeros(64)}),
}


@pytest.mark.parametrize("case", UNEXPLAINED)
def test_what_has_no_reason_is_a_finding(case, path):
    kind, arrays = UNEXPLAINED[case]
    findings, _ = judged(DRAWN | arrays, path)
    assert set(findings) == {kind}


ALLOWED = {
    "an embedding, which torch draws from N(0, 1)": {"embed_tokens.weight": normal(96, 64, std=1)},
    "a head with the start of its embedding": {
        "shared.weight": normal(96, 64, std=1), "lm_head.weight": normal(96, 64, std=1, seed=1)
    },
    "what a weight norm divides": {"q_proj.parametrizations.weight.original1": normal(64, 64, std=1)},
    "a trained matrix, which is as wide by chance": {"q_proj.weight": normal(64, 64, std=1) ** 3 / 15**0.5},
    "few inputs": {"q_proj.weight": normal(300, 8, std=1)},
    "He's start of few inputs": {"fc.weight": normal(300, 2, std=1), "fc.bias": zeros(300)},
}  # fmt: skip


@pytest.mark.parametrize("case", ALLOWED)
def test_a_wide_start_that_does_no_harm_is_not_named(case, path):
    assert judged(DRAWN | ALLOWED[case], path) == ({}, {})


def test_a_plan_or_a_rule_goes_before_every_reason(path):
    """Who says what a tensor should be wants no guess from its name."""
    arrays = EXPLAINED["zero factor"]
    tensors = [
        PlannedTensor(
            name, array.shape, "float32", "normal", Normal(0.0, 0.02), fastinit.stream_for(17, name).state
        )
        for name, array in arrays.items()
    ]
    plan = fastinit.Plan(17, "own", "named", tensors)
    findings, remarks = judged(arrays, path, plan=plan)
    assert "q.lora_B.weight" in findings["all zero"]
    assert not remarks
    assert judged(arrays, path, rules={"*lora_B*": 0.02})[0] == {"all zero": {"q.lora_B.weight"}}
    assert judged(arrays, path, rules={"*lora_B*": 0}) == ({}, {})


def test_what_is_said_of_equal_units_is_true(path):
    """One zero matrix does learn, and equal units part where what follows is drawn: no sentence says else."""
    save_file({"0.weight": zeros(24, 32), "1.weight": normal(10, 24)}, path)
    (finding,) = diagnose(path).findings
    assert "never" not in str(finding)
    assert "passes no signal on" in str(finding)
    save_file({"0.weight": zeros(24, 32), "0.bias": zeros(24), "1.weight": ones(10, 24)}, path)
    for finding in diagnose(path).findings:
        assert "no other tensor here is drawn" in str(finding)
        assert "can never become different" in str(finding)


def test_one_sentence_says_a_reason_for_all_its_tensors(path, capsys):
    save_file(DRAWN | {f"{i}.gain": ones(8, 1) for i in range(9)}, path)
    (remark,) = diagnose(path).remarks
    assert str(remark).startswith("'0.gain', '1.gain', '2.gain' and 6 more are constant along the only axis")
    assert len(remark.tensors) == 9
    page = diagnose(path).page()
    assert "What is unusual, and why it is no fault" in page


def test_packed_integers_are_passed_over_aloud(path):
    """Quantized weights lie in integers: to say nothing of them would count them as judged."""
    packed = {"q.qweight": np.arange(64, dtype=np.int32).reshape(8, 8), "position_ids": np.arange(8)[None]}
    save_file(DRAWN | packed, path)
    found = diagnose(path)
    assert found
    assert {tensor.name: tensor.verdict for tensor in found.tensors} == {
        "other.weight": "", "q.qweight": "not read", "position_ids": ""
    }  # fmt: skip
    assert any(
        line.startswith("1 tensor not read: 'q.qweight' (I32); weights are read as") for line in found.lines()
    )
