"""Policies against recordings, model by model: no tensor is of another kind than its own code makes, in silence.

What a policy says on purpose is excepted: it starts biases at 0 and the gains of norms at 1, whatever a code does.
"""

import re

import pytest
from conftest import peer

torch = peer("torch")

from integrations.zoo_transformers import MODELS  # noqa: E402

import fastinit.torch as ft  # noqa: E402
from fastinit._files.specs import TensorSpec  # noqa: E402
from fastinit.policies import as_policy, sorted_out  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

TOO_SMALL = {"GemmaForCausalLM", "PaliGemmaForConditionalGeneration"}
"""Models whose norms are told by a vocabulary of the true size alone."""

SCHEME = r"(^|[._])bias$|(norm\w*|bn\d?|normalization)\.weight$"
CONFUSED = {"ViTMSNForImageClassification": r"cls_token|position_embeddings"}
"""What has the names of ViT to the last, and another start."""


def kind(distribution):
    """Say what a tensor is: given, drawn, or its one value."""
    if distribution.is_given:
        return "given"
    return "drawn" if distribution.draws_per_weight else getattr(distribution, "value", "positions")


def own_kind(plan, computed, tensor):
    """Say what a tensor's own code makes it; data may be computed from draws, one value or a table."""
    if not tensor.is_given:
        return kind(tensor.distribution)
    if tensor.name in computed:
        return "drawn"
    data = plan.array(tensor.name)
    return data.flat[0] if (data == data.flat[0]).all() else "given"


def differences(plan, computed, choices):
    for name, choice in choices.items():
        tensor = plan[name]
        planned, own = kind(choice.distribution(tensor.shape)), own_kind(plan, computed, tensor)
        is_scheme = re.search(SCHEME, name) and len(tensor.shape) == 1 and own != "given"
        if not (planned == own or is_scheme or (planned == "positions" and own == "given")):
            yield name, planned, own


@pytest.mark.parametrize("policy", ["xavier", "llama"])
@pytest.mark.parametrize("name", sorted(MODELS.keys() - TOO_SMALL))
def test_no_tensor_of_a_real_class_is_of_another_kind(name, policy):
    with ft.record(seed=17) as recording:
        model = MODELS[name]()
    plan = recording.plan(17, model)
    specs = {n: TensorSpec(t.dtype, t.shape) for n, t in plan.items() if not t.copy_of and t.size}
    choices, _ = sorted_out(as_policy(policy), specs)
    confused = CONFUSED.get(name)
    found = differences(plan, recording.computed, choices)
    assert [each for each in found if not (confused and re.search(confused, each[0]))] == []
