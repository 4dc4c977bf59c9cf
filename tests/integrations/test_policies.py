"""Each family's policy against that family's real class: a guess from names is judged by code.

Twice. Against the model's own start: constants must be equal to the bit, and of what its code draws, standard
deviation and mean must lie within five standard errors of what the policy says. And against the recording of its
code, which knows the very numbers: an error of a millionth is seen.
"""

import importlib
import math

import numpy as np
import pytest
from conftest import peer

from fastinit._files.specs import specs_of
from fastinit.policies import POLICIES, Choice, Refused, as_policy, sorted_out

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

ERRORS = 5
TAGS = {"float32": "F32", "float64": "F64", "int64": "I64", "bool": "BOOL", "int32": "I32"}


def own(model):
    """Return the tensors that a model's own code made: {name: array}."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}


def specs(arrays):
    entries = {n: {"dtype": TAGS[str(a.dtype)], "shape": list(a.shape)} for n, a in arrays.items()}
    return specs_of(entries, "specs")


def transformers_model(name, **config):
    library = peer("transformers")
    torch = peer("torch")
    torch.manual_seed(17)
    made = getattr(library, f"{name}Config")(**config)
    return library.AutoModel.from_config(made)


def judge(array, choice):
    """Return why an array of the code's is not what the policy says; "" where it is."""
    distribution = choice.distribution(array.shape)
    moments = distribution.moments(array.shape)
    values = array.astype(np.float64)
    if moments is None or not moments.std:
        value = None if moments is None else moments.mean
        return "" if value is None or (array == np.float32(value)).all() else f"{values.ravel()[:3]}, not {value}"
    error = 1 / math.sqrt(2 * array.size)  # of a normal; what is bounded has less
    if abs(values.std() / moments.std - 1) > ERRORS * error + 1e-6:
        return f"sd {values.std():.6g}, not {moments.std:.6g}"
    if abs(values.mean() - moments.mean) > ERRORS * moments.std / math.sqrt(array.size):
        return f"mean {values.mean():.3g}, not {moments.mean:.3g}"
    return ""


def check(policy, build, refused=(), unjudged=()):
    """Judge a whole model; `refused` are the kinds that the policy must refuse, and no other may be."""
    torch = peer("torch")
    with importlib.import_module("fastinit.torch").record(seed=17) as recording:
        build()
    torch.manual_seed(17)
    recorded, arrays = recording.plan(17), own(build())
    choices, refusals = sorted_out(as_policy(policy), specs(arrays))
    assert {pattern(name) for name in refusals} == set(refused)
    wrong = {}
    for name, choice in choices.items():
        distribution = choice.distribution(arrays[name].shape)
        why = judge(arrays[name], choice) or unlike(distribution, recorded.get(name))
        if why and pattern(name) not in unjudged:
            wrong[name] = why
    assert not wrong
    assert choices


def unlike(distribution, tensor):
    """Return how a policy's distribution differs from the one recorded; "" where both say the same."""
    if tensor is None or not tensor.dtype.is_float:  # tied to another, which is judged; or a buffer of integers
        return ""
    ours, theirs = distribution.moments(tensor.shape), tensor.distribution.moments(tensor.shape)
    if ours is None or theirs is None:
        return "" if ours == theirs else f"recorded as {tensor.distribution}"
    same = ours.std == pytest.approx(theirs.std, rel=1e-9) and ours.mean == pytest.approx(theirs.mean, abs=1e-9)
    return "" if same else f"recorded as {tensor.distribution}, not {distribution}"


def pattern(name):
    return ".".join("*" if part.isdigit() else part for part in name.split("."))


TEXT = {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
GATED = {**TEXT, "intermediate_size": 96, "num_key_value_heads": 2, "head_dim": 16, "pad_token_id": None}
CLASSES = {
    "gpt2": ("GPT2", {"vocab_size": 1000, "n_embd": 64, "n_layer": 6, "n_head": 4, "n_positions": 64}),
    "llama": ("Llama", GATED),
    "gemma": ("Gemma", GATED),
    "gemma 2": ("Gemma2", GATED),
    "gemma 3": ("Gemma3Text", GATED),
    "bert": ("Bert", {**TEXT, "intermediate_size": 96, "pad_token_id": None}),
    "t5": ("T5", {"vocab_size": 1000, "d_model": 64, "d_kv": 8, "d_ff": 96, "num_layers": 2, "num_heads": 4}),
    "t5 gated": ("T5", {"vocab_size": 1000, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 2,
                        "feed_forward_proj": "gated-gelu"}),
    "vit": ("ViT", {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
                    "image_size": 32, "patch_size": 8}),
    "convnext": ("ConvNext", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1]}),
    "convnext v2": ("ConvNextV2", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1]}),
    "resnet": ("ResNet", {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [2, 2],
                          "layer_type": "basic"}),
    "moe": ("Mixtral", {**GATED, "num_local_experts": 4}),
    "moe granite": ("GraniteMoe", {**GATED, "num_local_experts": 4}),
    "olmo": ("Olmo", GATED),
    "olmo 2": ("Olmo2", GATED),
}  # fmt: skip


@pytest.mark.parametrize("case", CLASSES)
def test_a_family_starts_as_the_class_of_transformers_does(case):
    name, config = CLASSES[case]
    check(case.split(maxsplit=1)[0], lambda: transformers_model(name, **config))


SPEECH = {
    "vocab_size": 1000, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_mel_bins": 20,
    "max_source_positions": 50, "max_target_positions": 40, "pad_token_id": 0, "decoder_start_token_id": 1,
}  # fmt: skip


def test_whisper_starts_as_its_class_does_and_its_sines_are_refused():
    """transformers#25989: the encoder's positions are frozen, so noise stays noise for ever."""
    refused = {"encoder.embed_positions.weight"}
    padded = {"decoder.embed_tokens.weight"}  # its row of padding is zero
    check("whisper", lambda: transformers_model("Whisper", **SPEECH), refused, padded)


def test_mamba_starts_as_its_class_does_and_its_computed_steps_are_refused():
    config = {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "pad_token_id": None}
    refused = {"layers.*.mixer.A_log", "layers.*.mixer.dt_proj.bias"}
    check("mamba", lambda: transformers_model("Mamba", **config), refused=refused)


@pytest.mark.parametrize("policy", ["xavier", "llama"])
def test_the_norms_of_gemma_are_refused_by_other_policies(policy):
    """Ones instead of zeros double every signal: forward is 1 + w (transformers#40224)."""
    for name in ("Gemma2", "Gemma3Text"):
        arrays = own(transformers_model(name, **GATED))
        choices, refusals = sorted_out(as_policy(policy), specs(arrays))
        assert {name for name in choices if "norm" in name} == set()
        assert all("gemma" in verdict.reason for verdict in refusals.values())


TIMM = {
    "vit": ("vit_tiny_patch16_224", {"embed_dim": 64, "depth": 2, "num_heads": 4, "img_size": 64}),
    "convnext": ("convnext_atto", {"depths": (1, 1, 2, 1), "dims": (16, 32, 48, 64)}),
    "convnext v2": ("convnextv2_atto", {"depths": (1, 1, 2, 1), "dims": (16, 32, 48, 64)}),
    "resnet": ("resnet26", {}),
    "resnet basic": ("resnet10t", {}),
}  # fmt: skip


@pytest.mark.parametrize("case", TIMM)
def test_a_family_starts_as_the_model_of_timm_does(case):
    name, options = TIMM[case]
    timm = peer("timm")
    check(case.split()[0], lambda: timm.create_model(name, num_classes=10, **options))


def adapted(config):
    """A tiny Llama with adapters, and the tensors of the adapters alone."""
    model = transformers_model("Llama", **GATED)
    library = peer("peft")
    return library.get_peft_model(model, getattr(library, f"{config}Config")(**ADAPTERS[config]))


ADAPTERS = {
    "Lora": {"r": 8, "target_modules": ["q_proj", "v_proj", "embed_tokens"]},
    "AdaLora": {"init_r": 8, "target_modules": ["q_proj", "v_proj"], "total_step": 10},
    "LoHa": {"r": 8, "target_modules": ["q_proj", "v_proj"]},
    "LoKr": {"r": 8, "target_modules": ["q_proj", "v_proj"]},
}


@pytest.mark.parametrize("config", ADAPTERS)
def test_an_adapter_starts_as_peft_starts_it(config):
    """A drawn `lora_B` moves the logits by .5 before the first step; it is to be the identity."""
    arrays = {
        name: array
        for name, array in own(adapted(config)).items()
        if "lora_" in name or "hada_" in name or "lokr_" in name
    }
    choices, refusals = sorted_out(POLICIES["lora"], specs(arrays))
    assert not refusals
    assert {name: why for name, choice in choices.items() if (why := judge(arrays[name], choice))} == {}
    assert any((array == 0).all() for array in arrays.values())


def test_the_unet_of_diffusers_keeps_torchs_start():
    diffusers = peer("diffusers")
    options = dict(  # noqa: C408
        sample_size=8, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32, norm_num_groups=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        attention_head_dim=8,
    )  # fmt: skip
    check("diffusion", lambda: diffusers.UNet2DConditionModel(**options))


def test_the_zero_convolutions_of_a_controlnet_are_zero():
    """The copy is to start silent: drawn, it destroys the picture at the first step."""
    diffusers = peer("diffusers")
    options = dict(  # noqa: C408
        block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32, norm_num_groups=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), attention_head_dim=8,
        conditioning_embedding_out_channels=(16, 32),
    )  # fmt: skip
    check("diffusion", lambda: diffusers.ControlNetModel(**options))


def test_the_dit_of_diffusers_keeps_torchs_start():
    diffusers = peer("diffusers")
    options = dict(  # noqa: C408
        num_attention_heads=2, attention_head_dim=32, num_layers=2, sample_size=8, in_channels=4, out_channels=4,
        patch_size=2, num_embeds_ada_norm=1000,
    )  # fmt: skip
    check("diffusion", lambda: diffusers.DiTTransformer2DModel(**options))


def layers(torch):
    n = torch.nn
    return n.ModuleDict({
        "linear": n.Linear(60, 40), "conv": n.Conv2d(12, 24, 3), "grouped": n.Conv2d(12, 24, 3, groups=4),
        "transposed_conv": n.ConvTranspose2d(12, 24, 3), "embedding": n.Embedding(200, 32),
        "norm": n.LayerNorm(40),
        "ln2": n.LayerNorm((8, 16)), "bn1": n.BatchNorm2d(8), "lstm": n.LSTM(30, 20, 2, bidirectional=True),
        "gru": n.GRU(30, 20), "rnn": n.RNN(30, 20), "cell": n.LSTMCell(30, 20),
        "attn": n.MultiheadAttention(32, 4),
        "prelu": n.PReLU(), "prelu2": n.PReLU(32), "bilinear": n.Bilinear(10, 12, 14),
        "projected": n.LSTM(30, 20, proj_size=8),
    })  # fmt: skip


def test_torch_default_starts_the_layers_of_torch_as_torch_does():
    torch = peer("torch")
    check("torch-default", lambda: layers(torch))


def test_xavier_counts_each_gate_of_torchs_rnns_as_a_matrix():
    """All four gates as one matrix: a standard deviation of .115 where a gate alone has .189."""
    arrays = own(layers(peer("torch")))
    choices, _ = sorted_out(POLICIES["xavier"], specs(arrays))
    for name, gates in (
        ("lstm.weight_ih_l0", 4),
        ("gru.weight_hh_l0", 3),
        ("rnn.weight_ih_l0", 1),
        ("cell.weight_ih", 4),
    ):
        rows, inputs = arrays[name].shape
        limit = choices[name].distribution(arrays[name].shape).limit
        assert limit == pytest.approx(math.sqrt(6 / (rows // gates + inputs))), name
    assert isinstance(choices["projected.weight_hr_l0"], Choice)


def test_every_policy_reads_every_model_here_without_an_error():
    """A policy that raises on a model of another family says nothing of its tensors."""
    arrays = own(layers(peer("torch")))
    for policy in POLICIES.values():
        verdicts = policy(specs(arrays))
        assert verdicts.keys() == arrays.keys()
        assert all(isinstance(verdict, Choice | Refused) for verdict in verdicts.values())
