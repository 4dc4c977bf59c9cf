"""A diagnosis accuses no model that starts as its own code starts it, and misses no fault that is put into one."""

import itertools
import math
import re
import zlib

import pytest
from conftest import peer

from fastinit.diagnosis import diagnose

torch = peer("torch")

from integrations import diagnosed  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

KNOWN = {
    "torch/encoder": {"equal"},  # torch makes one layer and copies it
    "torch/decoder": {"equal"},
    "torch/nested": {"equal"},  # the second half is loaded from the first
    "torch/constants": {"all zero", "constant"},  # no name or shape says why
    "torch/methods": {"constant"},
    "torch/repeated": {"repeated"},
    "torch/rows": {"spike"},  # one draw is overwritten by a number in many places
    "torch/masked": {"spike"},
}
"""What is found in the zoo's models whose code does what a diagnosis looks for."""

SPOILT = re.compile(
    r"^(?!quantizer).*(proj|fc1|qkv|c_attn|c_fc|query|key|to_q|wi|dense|weight_hh_l0|linear1|\.q)(\.weight)?$"
)
FAULTY = [
    name
    for name in diagnosed.MODELS
    if re.search(
        r"/(GPT2LM|Llama|Gemma|Bert|T5|Whisper|CLIP|ViT|Swin|Beit|Dinov2|Sam|Wav2Vec2|Mamba|Mixtral|GPTNeoX|Bart)"
        r"\w*$|^timm/(vit_tiny|swin_tiny|convnext|beit_base)|^diffusers/(UNet2D|ControlNet|DiT|SD3|Flux)|^adapters/|/LSTM$",
        name,
    )
]


def fresh(name):
    """The tensors of a fresh model, by name."""
    torch.manual_seed(zlib.crc32(name.encode()))
    return diagnosed.state_of(diagnosed.MODELS[name]())


def findings(state, path):
    save_file(state, path)
    found = {}
    for finding in diagnose(path).findings:
        found.setdefault(finding.kind, set()).update(finding.tensors)
    return found


def spoilt(state):
    """Names of projections that the model's code draws at random: the first, one in the middle and the last."""
    found = [
        name
        for name, tensor in state.items()
        if SPOILT.search(name) and tensor.dim() == 2 and min(tensor.shape) > 16 and tensor.std() > 0
    ]
    return sorted({found[0], found[len(found) // 2], found[-1]}) if found else []


@pytest.mark.parametrize("name", diagnosed.MODELS)
def test_a_fresh_model_is_not_accused(name, tmp_path):
    """One in four was: of zero factors, tokens, tables, gains, masks and heads."""
    found = findings(fresh(name), tmp_path / "w.safetensors")
    assert found.keys() == KNOWN.get(name, set()), found


def faults(weights):
    """Each fault by its kind: weights skipped, filled, lost, drawn alike by two ranks, and not scaled."""
    half = weights[: len(weights) // 2]
    return {
        "all zero": torch.zeros_like(weights),
        "constant": torch.full_like(weights, 0.02),
        "not finite": weights.index_fill(0, torch.tensor([1]), math.nan),
        "repeated": torch.cat([half, half]) if 2 * len(half) == len(weights) else None,
        "spread": torch.randn(weights.shape, generator=torch.Generator().manual_seed(3)),
    }


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_in_a_model_is_found(name, tmp_path):
    """A reason for one tensor must not become a reason for all."""
    state = fresh(name)
    for spoilt_name in spoilt(state):
        for kind, weights in faults(state[spoilt_name]).items():
            if weights is not None:
                found = findings(state | {spoilt_name: weights}, tmp_path / "w.safetensors")
                assert spoilt_name in found.get(kind, ()), f"{spoilt_name} {list(weights.shape)}: {kind}"


@pytest.mark.parametrize("name", FAULTY)
def test_an_infinite_row_and_a_second_use_of_a_seed_are_found(name, tmp_path):
    """Minus infinity is a mask's; two layers of one seed are equal, as two masks are."""
    state, path = fresh(name), tmp_path / "w.safetensors"
    names = spoilt(state)
    for one in names:
        weights = state[one].index_fill(0, torch.tensor([1]), -math.inf)
        assert one in findings(state | {one: weights}, path)["not finite"]
    for one, other in itertools.pairwise(names):
        if state[one].shape == state[other].shape:
            assert findings(state | {other: state[one].clone()}, path)["equal"] == {one, other}


def test_an_adapter_whose_factors_are_both_zero_is_found(tmp_path):
    """Beside a drawn factor zero is right; two zeros get no gradient, and the adapter never learns."""
    state = fresh("adapters/LoRA")
    factors = [name for name in state if "lora_A" in name]
    dead = {name: torch.zeros_like(state[name]) for name in factors[:1]}
    found = findings(state | dead, tmp_path / "w.safetensors")
    assert found == {"all zero": {factors[0], factors[0].replace("lora_A", "lora_B")}}


def test_one_silent_layer_among_drawn_ones_is_found(tmp_path):
    """A name explains nothing where the same part of another layer is drawn."""
    state = fresh("own/zero heads")
    path, name = tmp_path / "w.safetensors", "blocks.0.conv2.weight"
    assert findings(state | {name: torch.randn(state[name].shape) * 0.02}, path) == {
        "all zero": {"blocks.1.conv2.weight"}
    }
