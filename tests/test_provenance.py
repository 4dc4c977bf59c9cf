"""What `verify` says of a plan: bytes that follow from the plan in a file say nothing of the seed it claims."""

import json

import numpy as np
import pytest
from conftest import ROOT, run, safetensors_bytes

import fastinit
from fastinit import CheckpointError, Plan, PlanError, verify_checkpoint, write_checkpoint
from fastinit.initializers import Constant, Orthogonal
from fastinit.policies import Choice, UserRule, customized
from fastinit.provenance import follows

HOSTILE = ROOT / "tests" / "hostile"
MADE_UP = HOSTILE / "made_up_plan.safetensors"
"""96 zeros, and a plan in the metadata that says so and calls itself seed 17, policy xavier."""
SPECS = {"a.weight": {"dtype": "F32", "shape": [3, 4]}, "b.weight": {"dtype": "F32", "shape": [4, 3]}}


@pytest.fixture
def made(tmp_path):
    path = tmp_path / "made.safetensors"
    write_checkpoint(Plan.from_specs(SPECS, 17), path)
    return path


def own_plan(seed=17):
    """A plan that no seed and policy make."""
    text = Plan.from_specs(SPECS, seed).to_json()
    return Plan.from_json(text.replace(str(Plan.from_specs(SPECS, seed)["a.weight"].state), "5"))


@pytest.mark.parametrize(("label", "value"), [("seed", 18), ("policy", "kaiming"), ("order", "sequential")])
def test_a_plan_that_was_relabelled_after_it_was_made_follows_from_nothing(tmp_path, label, value):
    """That a plan follows is remembered from its making; a label changed since then would go into the header."""
    plan = Plan.from_specs(SPECS, 17)
    assert plan.is_from_specs
    setattr(plan, label, value)
    assert not follows(plan)
    write_checkpoint(plan, tmp_path / "w")
    found = verify_checkpoint(tmp_path / "w")
    assert found
    assert not found.follows


def test_a_plan_that_rules_or_a_callable_made_is_asked_again():
    """Its policy's name may be one of ours, or a tensor left out that decides about others."""

    def xavier(specs):
        return {name: Choice(Constant(0.0)) for name in specs}

    for plan in (
        Plan.from_specs(SPECS, 17, xavier),
        Plan.from_specs(SPECS, 17, customized("xavier", skip=["b.*"])),
    ):
        assert not plan.is_from_specs
    assert not follows(Plan.from_specs(SPECS, 17, xavier))


def test_a_made_up_plan_is_not_said_to_follow_from_its_seed(capsys):
    """Zeros with a plan of zeros printed "verified ... follow from seed 17, policy xavier"."""
    found = verify_checkpoint(MADE_UP)
    assert (found.mismatches, found.follows) == ((), False)
    status, out, err = run(capsys, "verify", MADE_UP)
    assert (status, err) == (0, "")
    assert "all 96 bytes of 1 tensor follow from the plan in the file, but that plan does not follow from" in out
    assert "--plan" in out
    assert json.loads(run(capsys, "verify", MADE_UP, "--json")[1])["follows"] is False


@pytest.mark.parametrize("demand", [{"seed": 17}, {"policy": "xavier"}, {"seed": 17, "policy": "xavier"}])
def test_a_made_up_plan_fails_once_its_seed_or_policy_is_demanded(capsys, demand):
    """The label in the file is right; the weights are not what that seed makes."""
    found = verify_checkpoint(MADE_UP, **demand)
    assert not found
    (sentence,) = found.departures
    assert "does not make tensor 'w'" in sentence
    assert "'zeros'" in sentence
    assert "'xavier_uniform'" in sentence
    status, out, err = run(capsys, "verify", MADE_UP, *(f"--{key}={value}" for key, value in demand.items()))
    assert (status, out) == (1, "")
    assert "does not make tensor 'w'" in err


def test_the_seed_policy_or_plan_that_made_a_file_is_confirmed(capsys, made, tmp_path):
    (tmp_path / "plan.json").write_text(Plan.from_specs(SPECS, 17).to_json())
    for demand in (
        ("--seed", 17),
        ("--policy", "xavier"),
        ("--seed", 17, "--policy", "xavier"),
        ("--plan", tmp_path / "plan.json"),
    ):
        status, out, err = run(capsys, "verify", made, *demand)
        assert (status, err) == (0, ""), demand
        assert "and that plan from seed 17, policy xavier, order named" in out


def test_another_seed_fails_by_its_number(capsys, made):
    """A file of seed 17 that passes for the seed 18 that was asked for."""
    status, out, err = run(capsys, "verify", made, "--seed", 18)
    assert (status, out) == (1, "")
    assert "its seed is 17; 18 was demanded" in err
    facts = json.loads(run(capsys, "verify", made, "--seed", 18, "--json")[1])
    assert (facts["good"], facts["mismatches"], len(facts["departures"])) == (False, [], 1)


def test_another_plan_fails_by_what_it_lacks_and_has(made):
    found = verify_checkpoint(made, plan=own_plan())
    assert len(found.departures) == 1
    assert "'a.weight' is 'xavier_uniform'" in found.departures[0]
    assert "state 0x5" in found.departures[0]
    lacks = {**SPECS, "c.weight": {"dtype": "F32", "shape": [1, 1]}}
    assert "lacks tensor 'c.weight'" in verify_checkpoint(made, plan=Plan.from_specs(lacks, 17)).departures[0]
    less = {"a.weight": SPECS["a.weight"]}
    assert "has tensor 'b.weight'" in verify_checkpoint(made, plan=Plan.from_specs(less, 17)).departures[0]
    sequential = Plan.from_specs(SPECS, 17, order="sequential")
    assert "its order is 'named'" in verify_checkpoint(made, plan=sequential).departures[0]


def test_a_plan_of_ones_own_is_confirmed_by_that_plan_alone(tmp_path, capsys):
    path, text = tmp_path / "own.safetensors", tmp_path / "own.json"
    write_checkpoint(own_plan(), path)
    text.write_text(own_plan().to_json())
    assert verify_checkpoint(path, plan=own_plan())
    assert not verify_checkpoint(path, seed=17)
    assert run(capsys, "verify", path, "--plan", text)[0] == 0


def test_a_policy_that_the_file_alone_knows_makes_nothing_that_could_be_demanded(tmp_path):
    text = json.loads(own_plan().to_json()) | {"policy": "of my own"}
    path = tmp_path / "own.safetensors"
    write_checkpoint(Plan.from_json(json.dumps(text)), path)
    assert verify_checkpoint(path)
    assert "unknown policy 'of my own'" in verify_checkpoint(path, seed=17).departures[0]
    assert (
        "its policy is 'of my own'; 'xavier' was demanded" in verify_checkpoint(path, policy="xavier").departures
    )


def contradicting(path, **labels):
    """A file of a plan of one's own, whose labels in the metadata say something else."""
    write_checkpoint(own_plan(), path)
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header["__metadata__"] |= {f"fastinit.{key}": value for key, value in labels.items()}
    path.write_bytes(safetensors_bytes(header, content[start:]))
    return path


@pytest.mark.parametrize(
    "labels",
    [{"seed": "18"}, {"policy": "kaiming"}, {"order": "sequential"}, {"seed": "0", "order": "sequential"}],
)
def test_metadata_that_contradicts_its_plan_is_refused(tmp_path, capsys, labels):
    """A loader that reads the label and a verifier that reads the plan would speak of two different files."""
    path = contradicting(tmp_path / "w.safetensors", **labels)
    label, value = next(iter(labels.items()))
    with pytest.raises(
        CheckpointError, match=f"w.safetensors: its metadata contradicts itself: {label} '{value}'"
    ):
        verify_checkpoint(path)
    for command in ("verify", "diagnose"):
        status, out, err = run(capsys, command, path)
        assert (status, out) == (2, "")
        assert "contradicts itself" in err


def test_the_contradiction_that_was_found_is_refused():
    with pytest.raises(CheckpointError, match="seed '17', but the plan in it has seed '18'"):
        verify_checkpoint(HOSTILE / "contradicting_plan.safetensors")


@pytest.mark.parametrize(
    ("demand", "kind"),
    [
        ({"plan": "plan.json"}, TypeError),
        ({"plan": Plan.from_specs(SPECS, 17), "seed": 17}, ValueError),
        ({"plan": Plan.from_specs(SPECS, 17), "policy": "xavier"}, ValueError),
        ({"seed": -1}, ValueError),
        ({"seed": 1.5}, TypeError),
        ({"policy": "magic"}, PlanError),
    ],
    ids=str,
)
def test_a_demand_that_makes_no_sense_is_the_callers_mistake(made, demand, kind):
    """A misspelt policy reported as a wrong file would send its owner looking for a fault in the file."""
    with pytest.raises(kind):
        verify_checkpoint(made, **demand)


def test_a_plan_beside_a_seed_is_refused_on_the_command_line(capsys, made):
    for extra in (("--seed", 17), ("--policy", "xavier")):
        status, out, err = run(capsys, "verify", made, "--plan", made, *extra)
        assert (status, out) == (2, "")
        assert "leave out" in err


def test_weights_of_another_lapack_are_not_called_equal_to_the_byte(tmp_path, capsys):
    """ "All bytes follow" was printed of orthogonal weights whose last bits are another machine's."""
    spec = {"w": {"dtype": "F64", "shape": [8, 8]}}
    base = Plan.from_specs(spec, 17)
    tensor = fastinit.PlannedTensor(
        "w", (8, 8), "float64", "orthogonal", Orthogonal().for_shape((8, 8)), base["w"].state
    )
    path = tmp_path / "q.safetensors"
    write_checkpoint(Plan(17, "mine", "named", [tensor]), path)
    assert verify_checkpoint(path).approximate == ()
    content = bytearray(path.read_bytes())
    last = np.frombuffer(content, np.float64, 1, len(content) - 8)
    last[0] = np.nextafter(last[0], 1)
    path.write_bytes(content)
    found = verify_checkpoint(path)
    assert found
    assert found.approximate == ("w",)
    assert "(1 orthogonal tensor within another LAPACK's bound)" in run(capsys, "verify", path)[1]


def relabelled(path, plan, **labels):
    """A file of a plan with other labels than its own."""
    write_checkpoint(Plan.from_json(json.dumps(json.loads(plan.to_json()) | labels)), path)
    return path


@pytest.mark.parametrize("order", ["named", "sequential"])
def test_a_plan_by_rules_or_code_is_told_from_one_that_claims_a_seed(tmp_path, capsys, order):
    """Neither follows from labels, but the streams of the former are those of its seed."""
    honest = Plan.from_specs(SPECS, 17, customized(rules=[UserRule("a.weight", "normal(0, 1)")]), order=order)
    for number, policy in enumerate((honest.policy, "recorded")):
        path = relabelled(tmp_path / f"honest{number}.safetensors", honest, policy=policy)
        found = verify_checkpoint(path)
        assert (bool(found), found.follows, found.is_seeded) == (True, False, True)
        assert "its streams are those of seed 17" in run(capsys, "verify", path)[1]
        claiming = relabelled(tmp_path / f"claiming{number}.safetensors", honest, policy=policy, seed=18)
        assert not verify_checkpoint(claiming).is_seeded
        assert "but that plan does not follow from its seed 18" in run(capsys, "verify", claiming)[1]


def test_a_plan_that_claims_a_policy_of_ours_is_told_apart_by_it(tmp_path, capsys):
    """Its streams are right, but xavier draws no normal."""
    honest = Plan.from_specs(SPECS, 17, customized(rules=[UserRule("a.weight", "normal(0, 1)")]))
    path = relabelled(tmp_path / "claiming.safetensors", honest, policy="xavier")
    assert "but that plan does not follow from its seed 17 and policy 'xavier'" in run(capsys, "verify", path)[1]


def test_the_second_of_models_recorded_together_is_seeded_too(tmp_path):
    """Its streams begin with 1/, so that no two models hold the same numbers."""
    texts = json.loads(Plan.from_specs(SPECS, 17).to_json())
    others = Plan.from_specs({f"1/{name}": entry for name, entry in SPECS.items()}, 17)
    for name, entry in texts["tensors"].items():
        entry["state"] = others[f"1/{name}"].state
    path = tmp_path / "second.safetensors"
    write_checkpoint(Plan.from_json(json.dumps(texts | {"policy": "recorded"})), path)
    assert verify_checkpoint(path).is_seeded
