"""Tensors that a guess from names got wrong, in silence: each is known, or refused with a true reason.

The reference is the model's own code, named in each row; tests/integrations/test_policies.py runs the code itself.
"""

import math
import re

import pytest

from fastinit import Plan
from fastinit._files.specs import specs_of as read
from fastinit.errors import PlanError, TensorsRefused
from fastinit.policies import POLICIES, as_policy, sorted_out


def specs_of(tensors):
    return {name: {"dtype": "F32", "shape": list(shape)} for name, shape in tensors.items()}


def planned(tensors, policy="xavier"):
    return Plan.from_specs(specs_of(tensors), 17, policy)


def refusal(tensors, policy="xavier"):
    with pytest.raises(TensorsRefused) as caught:
        planned(tensors, policy)
    return {name: found for found in caught.value.refusals for name in found.names}


ALWAYS_REFUSED = [
    ("ng-video-lecture gpt.py", {"blocks.0.sa.heads.0.tril": (256, 256)}, "mask"),
    ("LLMs-from-scratch, chapter 4", {"trf_blocks.0.att.mask": (1024, 1024)}, "mask"),
    ("openai CLIP", {"attn_mask": (77, 77)}, "mask"),
    ("GPT-2's file", {"h.0.attn.bias": (1, 1, 1024, 1024)}, "mask"),
    ("GPT-2's file", {"h.0.attn.masked_bias": ()}, "masked scores"),
    ("Whisper", {"encoder.embed_positions.weight": (1500, 768), "encoder.conv1.weight": (768, 80, 3)}, "sines"),
    ("Marian", {"model.encoder.embed_positions.weight": (512, 512)}, "sines"),
    ("Pegasus", {"model.decoder.embed_positions.weight": (1024, 1024)}, "sines"),
    ("SD3", {"pos_embed.pos_embed": (1, 256, 32)}, "sines"),
    ("ViT-MAE", {"pos_embed": (1, 197, 32), "decoder_pos_embed": (1, 197, 16)}, "sines"),
    ("torch's tutorial", {"pos_encoder.pe": (5000, 1, 512)}, "sines"),
    ("Llama before 2024", {"model.layers.0.self_attn.rotary_emb.inv_freq": (64,)}, "rotary"),
    ("Llama of Meta", {"rope.freqs": (64,)}, "rotary"),
    ("Mamba", {"mixer.A_log": (96, 16)}, "decay rates"),
    ("Mamba", {"mixer.dt_proj.bias": (96,), "mixer.A_log": (96, 16)}, "softplus"),
    ("CLIP", {"logit_scale": ()}, r"temperature, ln\(1 / 0.07\)"),
    ("a quantized file", {"q_proj.weight_scale": (4096, 1)}, "quantized"),
    ("ZeRO-3", {"model.layers.0.self_attn.q_proj.weight": (0,)}, "ZeRO-3"),
    ("DINOv2", {"encoder.layer.0.layer_scale1.lambda1": (384,)}, "LayerScale"),
    ("ConvNeXt of timm", {"stages.0.blocks.0.gamma": (96,)}, "LayerScale"),
    ("torch.nn.utils.weight_norm", {"conv.weight_g": (8, 1, 1)}, "weight-normed"),
    ("torch spectral_norm", {"conv.weight_u": (8,)}, "singular"),
    ("nn.Sequential(Linear, PReLU)", {"1.weight": (1,)}, "PReLU"),
    ("a parameter of its own", {"mystery": (4, 4)}, "no rule"),
]


@pytest.mark.parametrize("policy", ["xavier", "kaiming", "llama", "torch-default", "mup"])
@pytest.mark.parametrize(("source", "tensors", "reason"), ALWAYS_REFUSED, ids=[row[0] for row in ALWAYS_REFUSED])
def test_what_no_seed_may_fill_is_refused_with_its_reason(source, tensors, reason, policy):
    found = refusal(tensors, policy)
    name = next(iter(tensors))
    assert re.search(reason, found[name].reason), found[name].reason
    assert found[name].option.startswith(("--skip ", "--rule "))


KNOWN = [
    ("LoRA", {"q_proj.lora_B.weight": (4096, 16)}, 0.0),
    ("LoRA, two adapters", {"q_proj.lora_B.default.weight": (64, 4)}, 0.0),
    ("LoRA of a table", {"embed.lora_embedding_A.default": (4, 1000)}, 0.0),
    ("AdaLoRA", {"q_proj.lora_E": (8, 1)}, 0.0),
    ("LoHa", {"q_proj.hada_w2_b.default": (8, 64)}, 0.0),
    ("LoKr", {"q_proj.lokr_w1": (1, 6)}, 0.0),
    ("ControlNet", {"controlnet_down_blocks.0.weight": (32, 32, 1, 1)}, 0.0),
    ("DiT", {"blocks.0.adaLN_modulation.1.weight": (96, 16)}, 0.0),
    ("ConvNeXtV2 of transformers", {"encoder.stages.0.layers.0.grn.weight": (1, 1, 1, 96)}, 0.0),
    ("ConvNeXtV2 of transformers", {"encoder.stages.0.layers.0.grn.bias": (1, 1, 1, 96)}, 0.0),
    ("ConvNeXtV2 of timm", {"blocks.0.mlp.grn.weight": (160,)}, 0.0),
    ("LayerNorm over two axes", {"ln2.weight": (8, 16)}, 1.0),
    ("LayerNorm over two axes, by its bias", {"2.weight": (8, 16), "2.bias": (8, 16)}, 1.0),
    ("MaxText", {"model.layers.input_layernorm.weight": (32, 4096)}, 1.0),
    ("torch.nn.PReLU", {"prelu.weight": (32,)}, 0.25),
    ("torch.nn.PReLU", {"prelu.weight": (1,)}, 0.25),
    ("torch.nn.LSTMCell", {"bias_ih": (80,)}, 0.0),
    ("torch.nn.LSTMCell", {"rnn.bias_hh": (80,)}, 0.0),
    ("Mamba", {"mixer.D": (96,), "mixer.A_log": (96, 16)}, 1.0),
    ("Flax", {"LayerNorm_0/scale": (8,)}, 1.0),
    ("Keras", {"bn/gamma": (8,)}, 1.0),
    ("Keras", {"bn/moving_variance": (8,)}, 1.0),
    ("Haiku", {"linear/~/b": (8,), "linear/~/w": (4, 8)}, 0.0),
    ("Flax", {"Dense_0/bias": (8,)}, 0.0),
]


@pytest.mark.parametrize("policy", ["xavier", "kaiming", "llama"])
@pytest.mark.parametrize(("source", "tensors", "value"), KNOWN, ids=[row[0] for row in KNOWN])
def test_what_starts_at_a_constant_has_that_constant(source, tensors, value, policy):
    name = next(iter(tensors))
    choices, _ = sorted_out(as_policy(policy), as_specs(tensors))
    assert choices[name].distribution(tensors[name]).value == value


def as_specs(tensors):
    return read(specs_of(tensors), "specs")


@pytest.mark.parametrize(
    "tensors",
    [
        {"model.embed_tokens.weight": (256_000, 8), "model.norm.weight": (8,)},
        {"model.layers.0.pre_feedforward_layernorm.weight": (8,), "model.norm.weight": (8,)},
        {"model.layers.0.pre_feedforward_layernorm.weight": (8,), "model.layers.0.self_attn.q_norm.weight": (8,)},
    ],
)
def test_gemmas_norms_are_zero_by_its_policy_and_refused_by_others(tensors):
    """Forward is 1 + w: ones double the signal (transformers#40224). Gemma's names are Llama's."""
    plan = planned(tensors, "gemma")
    norms = [name for name in tensors if "norm" in name]
    assert {plan[name].distribution.value for name in norms} == {0.0}
    assert refusal(tensors, "llama").keys() == set(norms)
    assert "--policy gemma" in refusal(tensors)[norms[0]].reason


def test_gemma_3n_multiplies_by_its_gain():
    """Its names are Gemma 2's, and its norms start at one."""
    tensors = {"layers.0.altup.router_norm.weight": (8,), "layers.0.pre_feedforward_layernorm.weight": (8,)}
    for policy in ("xavier", "gemma"):
        plan = planned(tensors, policy)
        assert {tensor.distribution.value for tensor in plan.values()} == {1.0}


def limit(tensors, name, policy="xavier"):
    return planned(tensors, policy)[name].distribution.limit


def test_a_unit_counts_the_connections_that_it_has():
    """Depthwise kernels came out 7 to 28 x too small, stacked experts 23 x, LSTM gates 1.6 x."""
    assert limit({"dwconv.weight": (768, 1, 7, 7)}, "dwconv.weight") == math.sqrt(6 / (49 + 49))
    pos_conv = {"encoder.pos_conv_embed.conv.weight": (768, 48, 128)}
    assert limit(pos_conv, *pos_conv) == pytest.approx(math.sqrt(6 / (48 * 128 + 48 * 128)))
    experts = {"block_sparse_moe.input_linear.weight": (32, 1024, 1000)}
    assert limit(experts, *experts) == math.sqrt(6 / 2024)
    lstm = {"weight_ih_l0": (80, 30), "weight_hh_l0": (80, 20)}
    assert limit(lstm, "weight_ih_l0") == math.sqrt(6 / (20 + 30))
    assert limit(lstm, "weight_hh_l0") == math.sqrt(6 / (20 + 20))
    assert "weight_hh" in refusal({"weight_ih_l0": (80, 30)})["weight_ih_l0"].reason


def test_a_kernel_that_may_be_depthwise_is_refused_where_it_matters():
    tensors = {"block.conv2.weight": (32, 1, 3, 3)}
    assert "groups" in refusal(tensors)["block.conv2.weight"].reason
    assert planned(tensors, "torch-default")["block.conv2.weight"].distribution.limit == pytest.approx(1 / 3)


def test_experts_are_read_the_way_round_that_the_width_says():
    """Kaiming counts inputs alone: a stack read the wrong way round has the wrong scale."""
    tensors = {
        "model.embed_tokens.weight": (100, 8),
        "a.experts.gate_up_proj": (4, 24, 8),
        "b.experts.gate_up_proj": (4, 8, 24),
        "a.experts.down_proj": (4, 8, 12),
        "b.experts.down_proj": (4, 12, 8),
    }
    plan = planned(tensors, "kaiming")
    for block in "ab":
        assert plan[f"{block}.experts.gate_up_proj"].distribution.std == pytest.approx(math.sqrt(2 / 8))
        assert plan[f"{block}.experts.down_proj"].distribution.std == pytest.approx(math.sqrt(2 / 12))


def test_positions_that_are_learned_are_not_called_sines():
    """BART and OPT have two rows more than positions, and Whisper's decoder learns its own."""
    norm = {"model.encoder.layernorm_embedding.weight": (16,)}
    planned({"model.encoder.embed_positions.weight": (1026, 16), **norm})
    planned({"model.decoder.embed_positions.weight": (2050, 16)})
    planned({"model.decoder.embed_positions.weight": (448, 16), "model.encoder.conv1.weight": (16, 8, 3)})


RESIDUAL = {
    "gpt2": [f"h.{n}.{part}.c_proj.weight" for n in range(6) for part in ("attn", "mlp")],
    "megatron": [
        f"decoder.layers.{n}.{part}.weight"
        for n in range(6)
        for part in ("mlp.linear_fc2", "self_attention.linear_proj")
    ],
}


@pytest.mark.parametrize("policy", RESIDUAL)
def test_what_writes_to_the_residual_stream_is_divided_by_the_layers_of_the_whole_model(policy):
    plan = planned(dict.fromkeys([*RESIDUAL[policy], "lm_head.weight"], (8, 8)), policy)
    for name in RESIDUAL[policy]:
        assert plan[name].distribution.std == pytest.approx(0.02 / math.sqrt(12))
    assert plan["lm_head.weight"].distribution.std == 0.02


def test_llama_depth_divides_by_the_depth_of_each_layer():
    """torchtitan: std 0.02 / sqrt(2 (layer + 1)) of wo, w2, w3; tables 1; the output 1 / sqrt(width)."""
    names = [
        f"layers.{n}.{part}.weight"
        for n in range(3)
        for part in ("attention.wq", "attention.wo", "feed_forward.w2")
    ]
    plan = planned(
        dict.fromkeys(names, (16, 16)) | {"tok_embeddings.weight": (99, 16), "output.weight": (99, 16)},
        "llama-depth",
    )
    assert plan["layers.2.attention.wo.weight"].distribution.std == pytest.approx(0.02 / math.sqrt(6))
    assert plan["layers.0.feed_forward.w2.weight"].distribution.std == pytest.approx(0.02 / math.sqrt(2))
    assert plan["layers.2.attention.wq.weight"].distribution.std == 0.02
    assert plan["tok_embeddings.weight"].distribution.std == 1.0
    assert plan["output.weight"].distribution.std == pytest.approx(0.25)


def test_mup_starts_hidden_layers_by_their_inputs_and_the_output_smaller():
    """Yang et al. (2022), table 3: variances 1 / fan_in and 1 / fan_in**2."""
    plan = planned({"layers.0.up.weight": (64, 16), "lm_head.weight": (99, 16), "wte.weight": (99, 16)}, "mup")
    stds = [plan[name].distribution.std for name in plan]
    assert stds == pytest.approx([1 / 4, 1 / 16, 1.0])


def test_dit_starts_its_patches_as_a_matrix_and_its_last_layer_at_zero():
    """Peebles and Xie, `initialize_weights`: xavier_uniform_ of weight.view(rows, -1)."""
    plan = planned({"x_embedder.proj.weight": (24, 4, 2, 2), "final_layer.linear.weight": (16, 24)}, "diffusion")
    assert plan["x_embedder.proj.weight"].distribution.limit == math.sqrt(6 / (16 + 24))
    assert plan["final_layer.linear.weight"].distribution.value == 0.0


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_reads_an_empty_model(policy):
    assert len(planned({}, policy)) == 0


@pytest.mark.parametrize("policy", [p for p in POLICIES if p not in ("lora", "t5")])
def test_every_policy_plans_a_plain_transformer_whole(policy):
    """A shared rule that stands too early would refuse half a model."""
    layer = "model.layers.0."
    plan = planned(
        {
            "model.embed_tokens.weight": (99, 16),
            layer + "self_attn.q_proj.weight": (16, 16),
            layer + "self_attn.q_proj.bias": (16,),
            layer + "mlp.down_proj.weight": (16, 32),
            layer + "input_layernorm.weight": (16,),
            "lm_head.weight": (99, 16),
        },
        policy,
    )
    assert len(plan) == 6
    assert issubclass(TensorsRefused, PlanError)
