"""Rules of the user: what was typed is what happens, and a misspelt or doubtful rule is an error."""

import json
import pickle
import re

import pytest
from conftest import run

import fastinit
from fastinit import Plan, PlanError
from fastinit.errors import TensorsRefused
from fastinit.functions import as_initializer
from fastinit.initializers import ONES, ZEROS, Constant, DepthScaled, Normal, Residual, Scaled, kaiming
from fastinit.policies import Choice, Refused, Rule, UserRule, customized, parse_rule, read_policy

SPECS = {
    "h.0.attn.bias": {"dtype": "F32", "shape": [1, 1, 4, 4]},
    "h.1.attn.bias": {"dtype": "F32", "shape": [1, 1, 4, 4]},
    "h.0.attn.weight": {"dtype": "F32", "shape": [6, 4]},
    "h.1.attn.weight": {"dtype": "F32", "shape": [6, 4]},
    "temperature": {"dtype": "F32", "shape": []},
    "flags": {"dtype": "BOOL", "shape": [4]},
}
SKIPS = ["h.*.attn.bias", "flags"]


def plan(rules=(), skip=(), base="xavier", specs=SPECS):
    return Plan.from_specs(specs, 17, customized(base, [parse_rule(rule) for rule in rules], skip))


def test_a_rule_decides_before_the_policy_and_a_skip_leaves_out():
    made = plan(["temperature=constant(0.5)", "h.1.attn.weight=normal(0, 0.02)"], SKIPS)
    assert list(made) == ["h.0.attn.weight", "h.1.attn.weight", "temperature"]
    assert made["temperature"].distribution == Constant(0.5)
    assert made["h.1.attn.weight"].distribution == Normal(0.0, 0.02)
    assert made["h.0.attn.weight"].initializer == "xavier_uniform"


def test_every_refusal_comes_at_once_by_kind_with_what_to_type():
    """One tensor a run: a 24-layer Pythia needed 72 edits."""
    with pytest.raises(TensorsRefused) as caught:
        Plan.from_specs(SPECS, 17)
    found = {refusal.pattern: refusal for refusal in caught.value.refusals}
    assert found.keys() == {"h.*.attn.bias", "temperature", "flags"}
    assert found["h.*.attn.bias"].names == ("h.0.attn.bias", "h.1.attn.bias")
    assert [refusal.option for refusal in found.values()] == [
        "--skip 'h.*.attn.bias'",
        "--skip 'temperature'",
        "--skip 'flags'",
    ]
    assert "6" in caught.value.lines[0]
    rules = [refusal.option[8:-1] for refusal in found.values() if refusal.advice]
    assert len(plan(rules, [refusal.pattern for refusal in found.values() if not refusal.advice])) == 2


def test_the_glob_of_a_refusal_takes_no_tensor_that_is_filled():
    """`bn*.v` would also have taken a `bn1.v` that a rule knows."""
    specs = {f"layer{n}.x": {"dtype": "F32", "shape": [2]} for n in range(3)}
    policy = customized(rules=[UserRule("layer1.x", "zeros")])
    with pytest.raises(TensorsRefused) as caught:
        Plan.from_specs(specs, 17, policy)
    assert [refusal.pattern for refusal in caught.value.refusals] == ["layer0.x", "layer2.x"]


def test_a_name_with_glob_characters_is_a_pattern_that_matches_it():
    specs = {"a[0]*?.x": {"dtype": "F32", "shape": [2]}}
    with pytest.raises(TensorsRefused) as caught:
        Plan.from_specs(specs, 17)
    assert len(plan([], [caught.value.refusals[0].pattern], specs=specs)) == 0


def test_a_file_of_very_many_kinds_is_refused_in_a_readable_length():
    """Letters for digits, so that each is a kind."""
    words = [chr(97 + n // 26) + chr(97 + n % 26) for n in range(600)]
    specs = {f"{word}{'x' * 4000}.mystery": {"dtype": "F32", "shape": [2]} for word in words}
    with pytest.raises(TensorsRefused) as caught:
        Plan.from_specs(specs, 17)
    assert len(str(caught.value)) < 9_700
    assert "and 580 tensors of 580 more kinds" in str(caught.value)
    assert len(caught.value.refusals) == 600


@pytest.mark.parametrize(
    ("rules", "skip", "said"),
    [
        (
            ["h.*.atn.weight=zeros"],
            [],
            "'h.*.atn.weight' matches no tensor; names here look like 'h.1.attn.weight'",
        ),
        ([], ["nothing*"], "'nothing*' matches no tensor"),
        (
            ["*.weight=zeros", "h.0*weight=ones"],
            [],
            "'*.weight' and 'h.0*weight' both match tensor 'h.0.attn.weight'",
        ),
        (["*.weight=zeros"], ["h.1.attn.w*"], "'*.weight' and 'h.1.attn.w*' both match tensor 'h.1.attn.weight'"),
    ],
)
def test_a_rule_that_matches_nothing_and_a_tie_are_errors(rules, skip, said):
    with pytest.raises(PlanError, match=re.escape(said)):
        plan(rules, skip)


@pytest.mark.parametrize(
    ("rule", "groups", "fan_sum"),
    [
        ("conv.weight=xavier_uniform", 1, (8 + 1) * 9),
        ("conv.weight=xavier_uniform groups=depthwise", 8, (1 + 1) * 9),
        ("conv.weight=xavier_uniform groups=2", 2, (4 + 1) * 9),
        ("conv.weight=xavier_uniform layout=iohw", 1, (8 + 1) * 9),
        ("conv.weight=kaiming_uniform  groups=8 layout=oihw", 8, None),
    ],
)
def test_layout_and_groups_may_follow(rule, groups, fan_sum):
    specs = {"conv.weight": {"dtype": "F32", "shape": [8, 1, 3, 3]}}
    limit = plan([rule], specs=specs)["conv.weight"].distribution.limit
    assert parse_rule(rule).groups in (None, groups, "depthwise")
    if fan_sum:
        assert limit == pytest.approx((6 / fan_sum) ** 0.5)


NO_RULES = [
    "", "a", "=zeros", "a=", "a= ", "a=nothing", "a=normal(0, 0.02", "a=zeros groups=x", "a=zeros layout=zz",
    "a=__import__('os')", "a=normal(mean=x)", "a=normal(0)(1)",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_RULES)
def test_a_rule_that_says_nothing_is_refused(text):
    with pytest.raises((ValueError, TypeError)):
        parse_rule(text)


# ---- initializers as text ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "initializer"),
    [
        ("normal(0, 0.02)", Normal(0.0, 0.02)),
        (" normal( std = 0.02 ) ", Normal(0.0, 0.02)),
        ("normal(-1, 2e-3)", Normal(-1.0, 0.002)),
        ("zeros", ZEROS),
        ("ones()", ONES),
        ("constant(0.25)", Constant(0.25)),
        ("kaiming_normal('leaky_relu', a=0.2)", kaiming("normal", "leaky_relu", 0.2)),
        ("residual(normal(0, 0.02), 12)", Residual(Normal(0.0, 0.02), 12)),
        ("depth_scaled(he_normal, layer=3)", DepthScaled(kaiming("normal"), 3)),
        ("scaled(ones, 0.5)", Scaled(ONES, 0.5)),
        ('{"kind": "normal", "mean": 0, "std": 0.02}', Normal(0.0, 0.02)),
    ],
)
def test_a_call_as_text_is_that_initializer(text, initializer):
    assert as_initializer(text) == initializer


NO_CALLS = [
    "normal(0, 0.02", "normal(0, 0.02); x", "normal.x(1)", "normal(*[1])", "normal(**{})", "1", "'zeros'",
    "normal(1 + 1)", "lambda: 1", "(normal)(0)(1)", "normal(0, 0.02)" + " " * 2000, "a" * 5000, "(" * 900, "\0",
    "", "constant", "initialize('zeros')", "constant(1, 2)", "normal(std=0.02, std=1)", "residual(12)",
    "normal(low=1)",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_CALLS)
def test_text_that_is_no_call_is_refused_and_never_run(text):
    with pytest.raises((ValueError, TypeError)):
        as_initializer(text)


def test_a_function_that_takes_an_initializer_takes_a_call():
    assert (fastinit.initialize((2, 2), 17, "normal(1, 0)") == 1).all()


# ---- files -------------------------------------------------------------------------------------------

FILE = """
base = "gpt2"
[[rule]]
pattern = "temperature"
initializer = {kind = "constant", value = 0.5}
[[rule]]
pattern = "h.1.attn.weight"
initializer = "xavier_uniform"
layout = "io"
[[rule]]
pattern = "*.attn.bias"
skip = true
[[rule]]
pattern = "flags"
skip = true
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def specs(tmp_path):
    path = tmp_path / "specs.json"
    path.write_text(json.dumps(SPECS))
    return path


def test_a_file_of_rules_is_a_policy(file):
    made = Plan.from_specs(SPECS, 17, file)
    assert made["temperature"].distribution == Constant(0.5)
    assert made["h.0.attn.weight"].distribution == Normal(0.0, 0.02)
    assert made["h.1.attn.weight"].initializer == "xavier_uniform"
    assert made.policy == "gpt2 with 4 user rules"


def test_the_command_line_goes_before_the_file(file, specs, capsys):
    status, out, err = run(capsys, "show", specs, "--policy", file, "--rule", "temperature=zeros", "--json")
    assert (status, err) == (0, "")
    assert Plan.from_json(out)["temperature"].distribution == Constant(0.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("base = 3", "base names a policy"),
        ('base = "zavier"', "unknown policy 'zavier'; did you mean 'xavier'"),
        ('bse = "xavier"', "unknown key 'bse'; did you mean 'base'"),
        ("rule = 3", "rule"),
        ("[[rule]]", "needs an initializer, or skip = true"),
        ('[[rule]]\npattern = "x"\nskip = true\ninitializer = "zeros"', "not both"),
        ('[[rule]]\npattern = "x"\nskip = 1', "skip"),
        ('[[rule]]\npattern = 3\nskip = true', "glob"),
        ('[[rule]]\npattern = "x"\ninit = "zeros"', "unknown key 'init'"),
        ('[[rule]]\npattern = "x"\ninitializer = "zero"', "did you mean 'zeros'"),
        ('[[rule]]\npattern = "x"\ninitializer = {kind = "nrmal"}', "kind"),
        ('[[rule]]\npattern = "x"\ninitializer = "zeros"\ngroups = "many"', "groups"),
        ("x = = 1", "Invalid"),
        ("\xff", ""),
    ],
)  # fmt: skip
def test_a_file_that_describes_no_policy_is_refused_by_name(tmp_path, text, said):
    path = tmp_path / "bad.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(PlanError, match=r"bad\.toml is no policy") as caught:
        read_policy(path)
    assert said in str(caught.value)


def test_a_name_in_a_file_never_chooses_a_file_to_read(file, tmp_path):
    """A checkpoint names its policy; a path there must not be opened."""
    for text in (str(file), "mine.toml"):
        with pytest.raises(PlanError, match="unknown policy"):
            Plan.from_specs(SPECS, 17, text)


def test_a_checkpoint_keeps_a_plan_of_user_rules_and_verifies(file, specs, capsys, tmp_path):
    """Its policy text names no policy, so the plan itself must be in the file."""
    out = tmp_path / "w.safetensors"
    status, _, err = run(capsys, "init", specs, "--policy", file, "--out", out, "--quiet")
    assert (status, err) == (0, "")
    status, said, err = run(capsys, "verify", out)
    assert (status, err) == (0, "")
    assert "gpt2 with 4 user rules" in said
    status, _, err = run(capsys, "verify", out, "--policy", "gpt2")
    assert status == 1
    assert "seed 17, policy 'gpt2', order 'named' make no plan of its tensors" in err


def test_no_output_overwrites_the_rules(file, specs, capsys):
    status, _, err = run(capsys, "init", specs, "--policy", file, "--out", file, "--quiet")
    assert status == 2
    assert "would overwrite" in err
    assert file.read_text() == FILE


def test_the_command_line_prints_a_line_for_each_kind(specs, capsys):
    status, out, err = run(capsys, "show", specs)
    assert (status, out) == (2, "")
    lines = err.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("fastinit: policy xavier refuses 4 of 6 tensors")
    assert lines[1].endswith("--skip 'h.*.attn.bias'")


def test_a_hostile_name_cannot_forge_a_line(tmp_path):
    specs = {"a\u2028fastinit: all is well": {"dtype": "F32", "shape": [2]}}
    with pytest.raises(TensorsRefused) as caught:
        Plan.from_specs(specs, 17)
    assert str(caught.value).isprintable()
    assert all(map(str.isprintable, caught.value.lines))
    assert len(caught.value.lines) == 2


def test_diagnose_judges_by_a_policy_with_user_rules(specs, file, capsys, tmp_path):
    out = tmp_path / "w.safetensors"
    assert run(capsys, "init", specs, "--policy", file, "--out", out, "--quiet")[0] == 0
    assert run(capsys, "diagnose", out, "--policy", file, "--quiet")[0] == 2  # it has no masks to skip
    rule = ("--rule", "h.0.attn.weight=normal(0, 0.2)")
    status, said, _ = run(capsys, "diagnose", out, "--policy", "gpt2", *rule, "--quiet")
    assert status == 1
    assert "h.0.attn.weight" in said


# ---- policies of the caller --------------------------------------------------------------------------


def test_a_callable_sees_the_whole_model():
    def by_size(specs):
        widest = max(specs, key=lambda name: specs[name].size)
        return {name: Choice(ONES if name == widest else ZEROS) for name in specs}

    made = Plan.from_layout(
        {"a": {"dtype": "F32", "shape": [2]}, "b": {"dtype": "F32", "shape": [3]}}, 17, by_size
    )
    assert [tensor.distribution.value for tensor in made.values()] == [0.0, 1.0]
    assert made.policy.startswith("callable ")
    assert made.policy.endswith("by_size")


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ({}, TensorsRefused, "says nothing of it"),
        ({"a": Refused("it is a mask")}, TensorsRefused, "it is a mask"),
        ({"a": Choice(ZEROS), "b": Choice(ZEROS)}, PlanError, "'b', which the model does not have"),
        ({"a": ZEROS}, PlanError, "Choice, Refused or None"),
        ({"a": Choice(kaiming())}, TensorsRefused, "1-d tensor"),
    ],
)
def test_a_callable_that_does_not_decide_is_refused(answer, error, said):
    with pytest.raises(error, match=said):
        Plan.from_specs({"a": {"dtype": "F32", "shape": [2]}}, 17, lambda specs: answer)


def test_a_callable_may_leave_a_tensor_out():
    assert len(Plan.from_specs({"a": {"dtype": "F32", "shape": [2]}}, 17, lambda specs: {"a": None})) == 0


def test_rules_of_the_caller_are_a_policy():
    rules = [Rule("anything", "", range(64), ONES)]
    made = Plan.from_specs({"a": {"dtype": "F32", "shape": [2]}}, 17, rules)
    assert made["a"].distribution == ONES
    for nothing in ([], [1], 3, None):
        with pytest.raises(PlanError, match="policy must be"):
            Plan.from_specs({"a": {"dtype": "F32", "shape": [2]}}, 17, nothing)


def test_the_error_travels_with_its_facts():
    """Across processes, as every error here."""
    with pytest.raises(TensorsRefused) as caught:
        Plan.from_specs(SPECS, 17)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again == caught.value
    assert again.refusals == caught.value.refusals
