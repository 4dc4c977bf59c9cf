"""A diagnosis must name what is wrong with a checkpoint, and stay silent where nothing is."""

import math

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import fastinit
from fastinit._engine.distributions import Normal
from fastinit._engine.dtypes import FLOATS
from fastinit._files.sources import read_specs
from fastinit.diagnosis import diagnose
from fastinit.errors import PlanError
from fastinit.plan import PlannedTensor


def findings(path, **request):
    return {(finding.kind, finding.tensors) for finding in diagnose(path, **request).findings}


def normal(*shape, std=0.02, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * std).astype(np.float32)


BAD = {
    "not finite": {"a.weight": np.where(np.arange(400).reshape(20, 20) == 7, np.nan, normal(20, 20))},
    "all zero": {"a.weight": np.zeros((30, 20), np.float32), "a.bias": np.zeros(20, np.float32)},
    "constant": {"a.weight": np.full((30, 20), 0.05, np.float32), "a.gain": np.ones(20, np.float32)},
    "equal": {"a.weight": normal(64, 3000), "b.weight": normal(64, 3000), "c.weight": normal(64, 3000, seed=1)},
    "spike": {"a.weight": np.clip(normal(200, 200, std=1.0), -1.5, 9)},
    "repeated": {"a.weight": np.tile(normal(32, 64), (4, 1)), "b.weight": normal(64, 30)},
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_without_any_plan_is_named(tmp_path, kind):
    path = tmp_path / "bad.safetensors"
    save_file({name: np.ascontiguousarray(array) for name, array in BAD[kind].items()}, path)
    names = ("a.weight", "b.weight") if kind == "equal" else ("a.weight",)
    assert findings(path) == {(kind, names)}


@pytest.mark.parametrize(
    ("axis", "parts"), [(0, 2), (1, 8), (1, 1024), (0, 512), (2, 4), (0, 3), (1, 3), (0, 5), (1, 6), (2, 3)]
)
def test_equal_parts_along_any_axis_are_found_with_their_number(tmp_path, axis, parts):
    """Shards that every rank drew alike lie side by side, or far apart, by the axis that was split."""
    shape = [512, 1024, 8][: max(2, axis + 1)]
    shape[axis] = max(1, shape[axis] // parts)
    array = np.concatenate([normal(*shape)] * parts, axis)
    path = tmp_path / "w.safetensors"
    save_file({"w": array}, path)
    (finding,) = diagnose(path).findings
    assert finding.kind == "repeated"
    assert f"{parts:,} equal parts along axis {axis}" in str(finding)
    array[(-1,) * array.ndim] += 1
    save_file({"w": array}, path)
    assert "repeated" not in dict(findings(path)), "one weight differs, so the parts are not equal"


def sines(positions, width):
    angle = np.arange(positions)[:, None] / 10_000 ** (np.arange(width) / width)
    return np.concatenate([np.sin(angle), np.cos(angle)], 1).astype(np.float32)


BUFFERS = {
    "h.{}.attn.bias": np.tri(40, dtype=np.float32)[None, None],
    "h.{}.attn.masked_bias": np.array(-1e4, np.float32),
    "h.{}.causal_mask": np.tri(40, dtype=np.float32),
    "layers.{}.rotary_emb.inv_freq": 10_000 ** -np.linspace(0, 1, 32, dtype=np.float32),
    "layers.{}.rotary_emb.cos_cached": np.tile(np.cos(np.outer(np.arange(64), 0.5 ** np.arange(8))), (1, 2)),
    "layers.{}.freqs_cos": np.tile(np.cos(np.outer(np.arange(64), 0.5 ** np.arange(8))), (1, 2)),
    "pos_encoder.{}.pe": sines(200, 64)[:, None],
    "experts.{}.bias": np.zeros((4, 30), np.float32),
    "blocks.{}.norm.scale": np.ones((12, 30), np.float32),
    "blocks.{}.ln_1.weight": np.ones((12, 30), np.float32),
}


def test_buffers_and_gains_are_not_taken_for_weights(tmp_path):
    """Masks and tables are the same in every layer, with equal rows and one extreme: nothing was drawn twice."""
    path = tmp_path / "buffers.safetensors"
    arrays = {name.format(i): np.ascontiguousarray(array) for name, array in BUFFERS.items() for i in (0, 1)}
    save_file(arrays, path)
    assert not findings(path)
    assert not findings(path, policy="xavier")
    save_file({"encoder.embed_positions.weight": sines(64, 64)}, path)
    assert not findings(path)
    save_file({"h.0.attn.c_attn.weight": np.ones((9, 8)), "h.1.attn.bias.weight": np.ones((9, 8))}, path)
    assert {kind for kind, _ in findings(path)} == {"constant"}


@pytest.mark.parametrize("levels", [15, 31, 255])
def test_a_coarse_grid_has_no_spike(tmp_path, levels):
    """In weights dequantized from a few levels, the neighbours of an extreme are the grid's, not the dtype's."""
    grid = np.random.default_rng(2).integers(-(levels // 2), levels // 2 + 1, (300, 300)) * 0.01
    path = tmp_path / "w.safetensors"
    save_file({"w": grid.astype(np.float32)}, path)
    assert not findings(path)
    save_file({"w": np.clip(normal(300, 300, std=0.2).round(2), -0.3, 9)}, path)
    assert findings(path) == {("spike", ("w",))}, "on a grid too, a clamp piles up what it cuts off"


def test_a_pile_of_bfloat16_at_minus_two_is_named_and_a_rounded_truncation_is_not(tmp_path):
    """N(0, 0.02) by the inverse error function of bfloat16 draws on [-1, 1): -1 gives -inf, clamped to a = -2."""
    mpmath = pytest.importorskip("mpmath")
    place = np.random.default_rng(0).integers(0, 256, (400, 1000))
    z = [-math.inf, *(float(mpmath.sqrt(2) * mpmath.erfinv(k / mpmath.mpf(128) - 1)) for k in range(1, 256))]
    path = tmp_path / "w.safetensors"
    save_file({"w": np.clip(0.02 * np.array(z)[place], -2, 2).astype(ml_dtypes.bfloat16)}, path)
    (finding,) = diagnose(path).findings
    assert finding.kind == "spike"
    assert f"{(place == 0).sum():,} weights (0.403 %) at exactly -2," in str(finding)
    good = fastinit.truncated_normal((400, 1000), 17, dtype="bfloat16")
    save_file({"w": good}, path)
    assert not findings(path)


def test_the_residual_projections_of_gpt2_at_the_wrong_spread_are_named(tmp_path):
    """GPT-2's c_proj should have 0.02 / sqrt(24), and often has 0.02."""
    specs = read_specs("gpt2-124m")
    names = [n for n in specs if ".h.0." in n and n.endswith("weight") and len(specs[n].shape) == 2]
    assert sum("c_proj" in name for name in names) == 2
    path = tmp_path / "gpt2.safetensors"

    def write(std):
        save_file(
            {n: normal(*specs[n].shape, std=std if "c_proj" in n else 0.02, seed=i) for i, n in enumerate(names)},
            path,
        )

    rules = {"*c_proj.weight": 0.0041, "*": 0.02}
    write(0.02)
    wrong = {("spread", (name,)) for name in names if "c_proj" in name}
    assert findings(path, rules=rules) == wrong
    sentence = str(diagnose(path, rules=rules).findings[0])
    assert "4.87" in sentence or "4.88" in sentence
    assert "0.0041" in sentence
    write(0.02 / math.sqrt(24))
    assert not findings(path, rules=rules), "the rule's two digits must allow 0.0040825"
    write(0.0041 * 1.02)
    assert findings(path, rules=rules) == wrong


def test_the_tolerance_is_the_sampling_error_not_a_percentage(tmp_path):
    """Half a percent is chance in 10^3 weights and a mistake in 10^6."""
    path = tmp_path / "w.safetensors"
    for size, kinds in ((30, set()), (1500, {"spread"})):
        x = np.random.default_rng(3).normal(size=(size, size))
        x = (x - x.mean()) / x.std()
        save_file({"w": x * 0.02 * 1.005}, path)
        plan = fastinit.Plan(17, "own", "named", [PlannedTensor("w", x.shape, FLOATS[0], "n", Normal(0, 0.02), 1)])
        assert {kind for kind, _ in findings(path, plan=plan)} == kinds


PLANNED_WRONG = {
    "mean": fastinit.normal((200, 200), 17, 0.001, 0.02),
    "kurtosis": fastinit.uniform((200, 200), 17, -0.02 * 3**0.5, 0.02 * 3**0.5),
    "bounds": np.where(np.arange(40_000).reshape(200, 200) == 5, -0.2, fastinit.normal((200, 200), 17, 0.0, 0.02)),
    "bounds above": np.where(
        np.arange(40_000).reshape(200, 200) == 5, 0.2, fastinit.normal((200, 200), 17, 0.0, 0.02)
    ),
}


@pytest.mark.parametrize("kind", PLANNED_WRONG)
def test_what_differs_from_the_plan_is_named(tmp_path, kind):
    path = tmp_path / "w.safetensors"
    save_file({"w": PLANNED_WRONG[kind]}, path)
    tensor = PlannedTensor("w", (200, 200), FLOATS[0], "normal", Normal(0.0, 0.02), 1)
    plan = fastinit.Plan(17, "own", "named", [tensor])
    assert (kind.split()[0], ("w",)) in findings(path, plan=plan)


def test_a_plan_of_another_model_is_named(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"w": normal(20, 30)}, path)
    specs = {"w": {"dtype": "F32", "shape": [30, 20]}, "v.bias": {"dtype": "F32", "shape": [2]}}
    assert findings(path, plan=fastinit.Plan.from_specs(specs, 17)) == {
        ("shape", ("w",)),
        ("missing", ("v.bias",)),
    }


def test_a_tensor_that_the_plan_lacks_is_named(tmp_path):
    """A layer added to the model, or a head that no plan fills, would pass unseen."""
    path = tmp_path / "w.safetensors"
    specs = {"a.weight": {"dtype": "F32", "shape": [20, 30]}}
    plan = fastinit.Plan.from_specs(specs, 17)
    save_file({"a.weight": plan.array("a.weight"), "head.weight": normal(20, 30), "ids": np.arange(3)}, path)
    assert findings(path, plan=plan) == {("not in the plan", ("head.weight",)), ("not in the plan", ("ids",))}
    assert findings(path, plan=plan, rules={"head.*": 0.02}) == {("not in the plan", ("ids",))}
    with pytest.raises(TypeError, match=r"fastinit\.Plan, got str.*Plan\.from_json"):
        diagnose(path, plan="plan.json")


def test_constants_are_judged_by_their_value(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"norm.weight": np.r_[np.ones(7), 1.5].astype(np.float32), "lora.weight": np.zeros((3, 4))}, path)
    assert findings(path, policy="xavier", rules={"lora*": 0}) == {("values", ("norm.weight",))}


@pytest.mark.parametrize("rules", [{"*c_prj*": 0.02}, {"*c_proj.weight": 0.02, "h.9.*": 1.0}, {"": 0.1}])
def test_a_rule_that_matches_nothing_is_refused(tmp_path, rules):
    """A misspelt glob would otherwise pass every checkpoint."""
    path = tmp_path / "w.safetensors"
    save_file({"h.0.c_proj.weight": normal(20, 30)}, path)
    with pytest.raises(ValueError, match=r"matches no tensor.*'h\.0\.c_proj\.weight'"):
        diagnose(path, rules=rules)
    for bad in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match="standard deviation"):
            diagnose(path, rules={"*": bad})


def test_the_first_rule_that_matches_decides_and_one_that_decides_nothing_is_refused(tmp_path):
    """`*` before `*c_proj*` would judge the projections by a rule that was meant for the others."""
    path = tmp_path / "w.safetensors"
    save_file({"h.0.c_proj.weight": normal(20, 30, std=0.1), "h.0.c_fc.weight": normal(20, 30, seed=1)}, path)
    assert not findings(path, rules={"*c_proj*": np.std(normal(20, 30)) * 5, "*": 0.02})
    with pytest.raises(ValueError, match=r"'\*c_proj\*' decides nothing.*'\*'.*first"):
        diagnose(path, rules={"*": 0.02, "*c_proj*": 0.1})


def test_a_policy_that_refuses_a_tensor_leaves_it_unjudged(tmp_path):
    """GPT-2's own files hold masks under the name bias; the other tensors must still be judged."""
    path = tmp_path / "w.safetensors"
    save_file({"attn.bias": np.tri(8)[None, None], "norm.weight": np.ones(8)}, path)
    found = diagnose(path, policy="xavier")
    assert [tensor.verdict for tensor in found.tensors] == ["", "good"]
    with pytest.raises(PlanError, match="unknown policy"):
        diagnose(path, policy="zavier")
