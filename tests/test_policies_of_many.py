"""Rules are searched for once in all names that differ in their numbers only; no verdict may change by it."""

import itertools

import pytest

from fastinit import bundled_models
from fastinit._engine.dtypes import BY_TAG
from fastinit._files.sources import read_specs
from fastinit._files.specs import TensorSpec
from fastinit.initializers import ONES
from fastinit.policies import POLICIES
from fastinit.policies.rules import Model, Rule, Ruled, Subject, first

F32 = BY_TAG["F32"]
ODD = [
    "classifier.0.weight",
    "classifier.1.weight",
    "classifier.10.weight",
    "classifier.1.bias",
    "classifier.0.bias",
    "layers.3.conv4.1.weight",
    "temp_convs.12.conv4.0.weight",
    "temp_convs.12.conv4.3.weight",
    "norm.7.weight",
    "enc.l.weight_ih_l0",
    "enc.l.weight_hh_l11_reverse",
    "0.weight",
    "12345678.weight",
    "x/12/kernel",
    "norm_1.weight",
    "layer3.5.bn2.weight",
    "m.parametrizations.weight.original1",
    "m.parametrizations.weight.original0",
    "layers.1.lora_A.default.weight",
]


def rules_of(policy, specs):
    return policy.rules(Model(specs)) if callable(policy.rules) else policy.rules


@pytest.mark.parametrize("name", POLICIES)
def test_every_verdict_is_that_of_each_rule_in_turn(name):
    shapes = [(8,), (8, 8), (8, 4, 3, 3)]
    models = [{f"{part}": TensorSpec(F32, shape) for part in ODD} for shape in shapes]
    models += [dict(itertools.islice(read_specs(model).items(), 300)) for model in bundled_models()]
    policy = POLICIES[name]
    for specs in models:
        model, rules = Model(specs), rules_of(policy, specs)
        assert policy(specs) == {name: first(rules, Subject(model, name, spec)) for name, spec in specs.items()}


@pytest.mark.parametrize("pattern", [r"\.1\.", r"\.[13]\.", r"\.\d\d\.", r"\.\d{2}\.", r"(?<!4)\.7\.", r"\.1?2\."])
def test_a_pattern_may_tell_numbers_apart(pattern):
    specs = {f"layers.{number}.weight": TensorSpec(F32, (4, 4)) for number in range(13)}
    ruled = Ruled("mine", (Rule("of one layer", pattern, range(64), ONES),))
    model = Model(specs)
    assert ruled(specs) == {name: first(ruled.rules, Subject(model, name, spec)) for name, spec in specs.items()}
    assert len({str(verdict) for verdict in ruled(specs).values()}) == 2
