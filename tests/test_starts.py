"""Tensors whose start belongs to the model: 0 for 1, noise for a table and a draw for 0 train, badly, in silence.

Each row was found by comparing a policy with the recording of the class named; the values are that class's own.
"""

import pytest

from fastinit._files.specs import specs_of
from fastinit.policies import Choice, as_policy, sorted_out

LLAMA = {"model.embed_tokens.weight": (1000, 8), "model.norm.weight": (8,)}
VIT = {
    "embeddings.cls_token": (1, 1, 8),
    "embeddings.position_embeddings": (1, 17, 8),
    "embeddings.patch_embeddings.projection.weight": (8, 3, 4, 4),
    "encoder.layer.0.layernorm_before.weight": (8,),
}
MASKED = {"embeddings.mask_token": (1, 8)}


def decided(tensors, policy="xavier"):
    entries = {name: {"dtype": "F32", "shape": list(shape)} for name, shape in tensors.items()}
    return sorted_out(as_policy(policy), specs_of(entries, "specs"))


OFFSET = {
    "Qwen3-Next": {**LLAMA, "model.layers.0.linear_attn.in_proj_qkvz.weight": (8, 8)},
    "Qwen3.5": {**LLAMA, "model.layers.0.linear_attn.in_proj_qkv.weight": (8, 8)},
    "Qwen3-Next's head for several tokens": {
        "mtp.pre_fc_norm_embedding.weight": (8,),
        "model.layers.0.linear_attn.in_proj_qkvz.weight": (8, 8),
    },
    "MiniMax-M3": {**LLAMA, "model.layers.0.mlp.shared_experts.gate_up_proj.weight": (8, 8)},
    "Step 3.7": {**LLAMA, "model.layers.0.self_attn.g_proj.weight": (8, 8)},
    "Muse": {**LLAMA, "layers.0.mlp.pre_expert_norm.weight": (8,)},
    "ColPali": {"vlm.language_model.embed_tokens.weight": (257_152, 8), "vlm.language_model.norm.weight": (8,)},
    "Gemma with tokens of a user's": {"model.embed_tokens.weight": (256_008, 8), "model.norm.weight": (8,)},
    "VideoPrism": {
        "spatial_embeddings.position_embeddings": (1, 16, 8),
        "layers.0.layernorm_before.weight": (8,),
        "layers.0.layernorm_before.bias": (8,),
    },
}


@pytest.mark.parametrize("policy", ["xavier", "kaiming", "llama", "moe"])
@pytest.mark.parametrize("model", OFFSET)
def test_norms_that_may_multiply_by_one_and_the_weight_are_refused(model, policy):
    """Ones instead of zeros double every signal."""
    choices, refused = decided(OFFSET[model], policy)
    norms = {name for name in OFFSET[model] if "norm" in name and name.endswith("weight")}
    assert norms <= refused.keys()
    assert all("1 + w" in refused[name].reason and refused[name].advice == "zeros" for name in norms)
    assert not norms & choices.keys()


def test_norms_that_multiply_by_the_weight_stay_ones_beside_them():
    """The gated norm of linear attention, and the LayerNorms of a vision tower, which have biases."""
    others = {
        "model.layers.0.linear_attn.norm.weight": (8,),
        "visual.norm1.weight": (8,),
        "visual.norm1.bias": (8,),
    }
    choices, _ = decided({**OFFSET["Qwen3-Next"], **others})
    for name in ("model.layers.0.linear_attn.norm.weight", "visual.norm1.weight"):
        assert choices[name].distribution((8,)).value == 1.0
    assert "model.norm.weight" in decided(LLAMA)[0]


ZERO_TOKENS = {
    "DeiT": {**VIT, "embeddings.distillation_token": (1, 1, 8)},
    "BEiT": {**VIT, "encoder.layer.0.lambda_1": (8,)},
    "ViViT": {**VIT, "embeddings.patch_embeddings.projection.weight": (8, 3, 2, 4, 4)},
    "DPT": {f"dpt.{name}": shape for name, shape in VIT.items()},
    "FLAVA": {f"image_model.{name}": shape for name, shape in VIT.items()},
    "LayoutLMv3": {"embeddings.word_embeddings.weight": (99, 8), "cls_token": (1, 1, 8), "pos_embed": (1, 9, 8)},
    "BLIP-2": {"query_tokens": (1, 32, 8)},
    "SAM": {"pos_embed": (1, 4, 4, 8), "blocks.0.attn.rel_pos_h": (7, 4)},
    "DINOv2": {"embeddings.register_tokens": (1, 4, 8), "encoder.layer.0.layer_scale1.lambda1": (8,)},
    "Gemma 4": {"patch_embedder.position_embedding_table": (2, 64, 8)},
    "a model of one's own": {"pos_emb": (1, 64, 8)},
}  # fmt: skip


@pytest.mark.parametrize("policy", ["xavier", "llama", "vit"])
@pytest.mark.parametrize("model", ZERO_TOKENS)
def test_tokens_and_positions_are_drawn_only_where_another_name_tells(model, policy):
    """The codes of these start them at 0; the ViT of transformers, and timm, draw them under the same names."""
    choices, refused = decided(ZERO_TOKENS[model], policy)
    tokens = {n for n in ZERO_TOKENS[model] if n.endswith(("token", "tokens", "pos_embed", "pos_emb", "table"))}
    assert tokens <= refused.keys()
    assert not tokens & choices.keys()


def test_the_tokens_of_vit_are_drawn_and_its_mask_token_is_zero():
    choices, refused = decided({**VIT, **MASKED})
    assert refused == {}
    assert choices["embeddings.cls_token"].initializer.name == "xavier_uniform"
    assert choices["embeddings.mask_token"].distribution((1, 8)).value == 0.0
    seggpt = {**VIT, **MASKED, "embeddings.segment_token_input": (1, 1, 8)}
    assert "embeddings.mask_token" in decided(seggpt)[1]


BART = {f"model.{part}.layernorm_embedding.weight": (8,) for part in ("encoder", "decoder")}
TABLES = {
    "FSMT": {f"model.{part}.embed_positions.weight": (1026, 8) for part in ("encoder", "decoder")},
    "Informer": {
        "model.encoder.embed_positions.weight": (34, 8),
        "model.encoder.value_embedding.value_projection.weight": (8, 2),
        **BART,
    },
    "RoFormer": {"encoder.embed_positions.weight": (1536, 8)},
    "openai Whisper": {"encoder.positional_embedding": (1500, 8), "encoder.conv1.weight": (8, 80, 3)},
    "DistilBERT": {
        "embeddings.position_embeddings.weight": (512, 8),
        "transformer.layer.0.attention.q_lin.weight": (8, 8),
    },
    "XLM": {"position_embeddings.weight": (512, 8), "attentions.0.q_lin.weight": (8, 8)},
}


@pytest.mark.parametrize("policy", ["xavier", "bert", "whisper"])
@pytest.mark.parametrize("model", TABLES)
def test_a_table_that_may_be_fixed_sines_is_refused(model, policy):
    """Frozen noise stays noise for ever. FSMT's 1,026 rows passed for BART's."""
    refused = decided(TABLES[model], policy)[1]
    name = next(iter(TABLES[model]))
    assert "sines" in refused[name].reason


def test_the_positions_of_bart_are_learned():
    name = "model.encoder.embed_positions.weight"
    assert name in decided({name: (1026, 8), **BART})[0]


CONSTANTS = [
    ("xLSTM", {"m.igate_preact.bias": (4,)}, -10.0),
    ("xLSTM", {"m.fgate_preact.weight": (4, 8), "m.igate_preact.bias": (4,)}, 0.0),
    ("xLSTM", {"m.ogate_preact.weight": (8, 8), "m.igate_preact.bias": (4,)}, 0.0),
    ("Deformable DETR", {"e.sampling_offsets.weight": (64, 8)}, 0.0),
    ("Deformable DETR", {"e.attention_weights.weight": (32, 8), "e.sampling_offsets.bias": (64,)}, 0.0),
    ("D-FINE", {"decoder.layers.0.gateway.gate.weight": (8, 8)}, 0.0),
    ("D-FINE", {"decoder.lqe_layers.0.reg_conf.layers.1.weight": (1, 8)}, 0.0),
    ("AFMoE", {"model.layers.0.mlp.router.gate.weight": (4, 8)}, 0.0),
    ("MaskFormer's Swin", {"attention.self.relative_position_bias_table": (9, 4)}, 0.0),
    ("Gemma 3", {"multi_modal_projector.mm_input_projection_weight": (8, 8)}, 0.0),
    ("Mistral Large 4", {"self_attn.softmax_scaling.scale": (4,), "self_attn.softmax_scaling.bias": (4,)}, 0.0),
    ("Mistral Large 4", {"self_attn.softmax_scaling.bias": (4,), "self_attn.softmax_scaling.scale": (4,)}, 1.0),
    ("WavTokenizer", {"norm.scale.weight": (4, 8), "norm.shift.weight": (4, 8)}, 1.0),
    ("WavTokenizer", {"norm.shift.weight": (4, 8), "norm.scale.weight": (4, 8)}, 0.0),
    ("NeoMME", {"layers.0.mlp.down_proj.weight": (8, 8), "value_embeddings.weight": (9, 8)}, 0.0),
]


@pytest.mark.parametrize("policy", ["xavier", "llama"])
@pytest.mark.parametrize(("source", "tensors", "value"), CONSTANTS)
def test_what_its_code_starts_at_a_constant_has_that_constant(source, tensors, value, policy):
    name = next(iter(tensors))
    assert decided(tensors, policy)[0][name].distribution(tensors[name]).value == value


REFUSED = [
    ("xLSTM", {"m.fgate_preact.bias": (4,)}, "table"),
    ("Deformable DETR", {"e.sampling_offsets.bias": (64,)}, "directions"),
    ("Zamba", {"mamba.dt_proj_bias": (2, 8), "mamba.A_log": (2, 8, 16)}, "softplus"),
    ("RT-DETR", {"enc_score_head.bias": (80,)}, "log odds"),
    ("LW-DETR", {"enc_out_class_embed.3.bias": (91,)}, "log odds"),
    ("Grounding DINO", {"encoder_output_bbox_embed.layers.2.weight": (4, 8)}, "boxes"),
    ("XLNet", {"layer.0.rel_attn.r_w_bias": (4, 8)}, "draws"),
    ("CPM-Ant", {"position_bias.relative_attention_bias": (32, 4)}, "draws"),
    ("CSM", {"layers.0.self_attn_layer_scale.scale": (8,)}, "LayerScale"),
    ("HunYuan", {"layers.0.attn_hc.scale": (3,)}, "no rule"),
    ("Inkling", {"k_proj.sconv.static_weight": (8, 4)}, "no rule"),
    ("Nemo", {"upsampler.conv.weight": (8, 8, 4)}, "interpolates"),
    ("SAM 2", {"shared_image_embedding.positional_embedding": (2, 8)}, "Fourier"),
]


@pytest.mark.parametrize("policy", ["xavier", "llama"])
@pytest.mark.parametrize(("source", "tensors", "reason"), REFUSED)
def test_what_differs_from_model_to_model_is_refused_with_a_true_reason(source, tensors, reason, policy):
    refused = decided(tensors, policy)[1]
    assert reason in refused[next(iter(tensors))].reason


def test_the_router_of_gpt_oss_is_drawn_with_its_bias():
    names = {"mlp.router.bias": (4,), "layers.0.self_attn.sinks": (4,)}
    choice = decided(names, "moe")[0]["mlp.router.bias"]
    assert isinstance(choice, Choice)
    assert choice.distribution((4,)).std == 0.02
    assert decided({"mlp.router.bias": (4,)}, "moe")[0]["mlp.router.bias"].distribution((4,)).value == 0.0


BUFFERS = [
    ("alphas_cumprod", (1000,)), ("betas", (1000,)), ("posterior_mean_coef1", (1000,)), ("model_ema.decay", ()),
    ("pixel_mean", (3, 1, 1)), ("std", (1, 3, 1, 1)), ("rotary_emb.long_factor", (48,)), ("slopes", (32,)),
    ("attention.time_decay", (32, 64)), ("vq.cluster_size", (1024,)), ("vq.embed_avg", (1024, 64)),
    ("relative_coords_table", (1, 15, 15, 2)), ("neck.1.weight", (256,)), ("attn.sinks", (64,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape"), BUFFERS, ids=[name for name, _ in BUFFERS])
def test_no_draw_is_advised_for_what_looks_like_a_buffer(name, shape):
    """Noise for a diffusion's schedule: the advice was to type normal(0, 0.02)."""
    refused = decided({name: shape})[1][name]
    assert refused.advice == ""
    assert refused.reason.strip()


def test_a_draw_is_advised_for_a_matrix_that_no_rule_names():
    assert decided({"mystery": (4, 4)})[1]["mystery"].advice == "normal(0, 0.02)"
