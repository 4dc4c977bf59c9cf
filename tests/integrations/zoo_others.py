"""Small models of timm, diffusers and peft, by what they are called there."""

import importlib

from conftest import peer
from integrations.zoo_transformers import GROUPED, TEXT, TOKENS, hf


def timm():
    """The library timm."""
    return peer("timm")


def image(name, **options):
    """A model of timm by its name there."""
    return lambda: timm().create_model(name, pretrained=False, num_classes=7, **options)


def images(names, **options):
    """Models of timm that take the same options, by name."""
    return {name: image(name, **options) for name in names.split()}


def mixer(**options):
    """A mixer of timm from its parts, named as there: those that have a name themselves are large."""

    def build():
        module = importlib.import_module(f"{timm().__name__}.models.mlp_mixer")
        parts = {key: getattr(module, part) if key.endswith("layer") else part for key, part in options.items()}
        return module.MlpMixer(img_size=32, patch_size=8, embed_dim=48, num_blocks=2, num_classes=7, **parts)

    return build


BLOCKS = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 3}
WINDOWS = {
    "img_size": 32, "patch_size": 2, "window_size": 4, "embed_dim": 24, "depths": (2, 2), "num_heads": (2, 4)
}  # fmt: skip
STAGES = {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}
CHANNELS = {"layers": [1, 1, 1, 1], "channels": [16, 16, 24, 32]}
VITS = {
    **images("vit_tiny_patch16_224 vit_small_patch14_dinov2 vit_base_patch16_siglip_224", **BLOCKS),
    **images("vit_relpos_small_patch16_224 vit_srelpos_small_patch16_224", **BLOCKS),
    **images("deit_tiny_distilled_patch16_224 deit3_small_patch16_224 beit_base_patch16_224", **BLOCKS),
    **images("beitv2_base_patch16_224 eva02_tiny_patch14_224 cait_xxs24_224 xcit_nano_12_p16_224", **BLOCKS),
    "vit moco": image("vit_tiny_patch16_224", **BLOCKS, weight_init="moco"),
    "vit jax": image("vit_tiny_patch16_224", **BLOCKS, weight_init="jax"),
    "vit jax nlhb": image("vit_tiny_patch16_224", **BLOCKS, weight_init="jax_nlhb"),
    "vit scaled": image(
        "vit_tiny_patch16_224", **BLOCKS, init_values=1e-5, class_token=False, global_pool="avg", qk_norm=True
    ),
    "vit map": image("vit_tiny_patch16_224", **BLOCKS, class_token=False, global_pool="map"),
    "convit_tiny": image("convit_tiny", **{**BLOCKS, "embed_dim": 16}, local_up_to_layer=1),
    "tnt_s_patch16_224": image(
        "tnt_s_patch16_224", img_size=32, embed_dim=48, inner_dim=8, depth=2, num_heads_outer=3
    ),
    **images("swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 swinv2_cr_tiny_224", **WINDOWS),
    "mixer": mixer(),
    "resmlp": mixer(block_layer="ResBlock", norm_layer="Affine", mlp_ratio=4),
    "gmlp": mixer(block_layer="SpatialGatingBlock", mlp_layer="GatedMlp", mlp_ratio=4),
    "mixer nlhb": mixer(nlhb=True),
    **images("mobilevit_xxs mobilevitv2_050 efficientvit_b0 efficientvit_m0"),
    **images("test_vit test_vit2 test_vit3 test_vit4"),
    "davit_tiny": image(
        "davit_tiny", depths=(1, 1, 1, 1), embed_dims=(16, 24, 32, 48), num_heads=(1, 2, 2, 3)
    ),
}  # fmt: skip
CONVOLUTIONS = {
    **images("resnet18 seresnet18 skresnet18", channels=[8, 16, 24, 32]),
    **images("resnet50 res2net50_14w_8s", **CHANNELS),
    "resnet18 zero": image("resnet18", channels=[8, 16, 24, 32], zero_init_last=False),
    "resnext50_32x4d": image("resnext50_32x4d", **{**CHANNELS, "channels": [32] * 4}, cardinality=8, base_width=8),
    "resnetv2_50": image("resnetv2_50", **CHANNELS, stem_chs=8),
    **images("convnext_atto convnextv2_atto", **STAGES),
    "convnext scaled": image("convnext_atto", **STAGES, ls_init_value=1e-6, head_init_scale=0.001),
    "mambaout_femto": image("mambaout_femto", depths=(1, 1, 1, 1), dims=(16, 24, 32, 48)),
    "densenet121": image("densenet121", growth_rate=8, block_config=(2, 2, 2, 2)),
    "tf_efficientnetv2_b0": image("tf_efficientnetv2_b0", channel_multiplier=0.25),
    "rexnet_100": image("rexnet_100", width_mult=0.25),
    **images("mobilenetv2_035 mobilenetv3_small_050 mobilenetv4_conv_small_035 mnasnet_small tinynet_e lcnet_035"),
    **images("regnetx_002 regnety_002 ghostnet_050 dla46_c edgenext_xx_small"),
    **images("test_resnet test_efficientnet test_efficientnet_gn test_efficientnet_evos test_convnext"),
    **images("test_convnext2 test_convnext3 test_byobnet test_nfnet test_mambaout"),
}


def diffusion(name, **options):
    """A model of diffusers by its class."""
    return lambda: getattr(peer("diffusers"), name)(**options)


UNET = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8, "attention_head_dim": 4}
CROSSED = {**UNET, "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "cross_attention_dim": 24}
CODER = {
    "block_out_channels": (16, 32), "norm_num_groups": 8, "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2, "sample_size": 16,
}  # fmt: skip
HEADS = {"num_attention_heads": 2, "attention_head_dim": 16}
TILES = {**HEADS, "num_layers": 2, "sample_size": 8, "patch_size": 2, "in_channels": 4}
JOINT = {
    **TILES, "joint_attention_dim": 32, "caption_projection_dim": 32, "pooled_projection_dim": 24,
    "pos_embed_max_size": 8,
}  # fmt: skip
DIFFUSERS = {
    "UNet2DModel": diffusion(
        "UNet2DModel", **UNET, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ),
    "UNet2DConditionModel": diffusion(
        "UNet2DConditionModel", **CROSSED, up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")
    ),
    "UNet3DConditionModel": diffusion(
        "UNet3DConditionModel", **UNET, down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
        up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"), cross_attention_dim=24,
    ),
    "UNet1DModel": diffusion("UNet1DModel", block_out_channels=(32, 32, 64), sample_size=64),
    "ControlNetModel": diffusion("ControlNetModel", **CROSSED, conditioning_embedding_out_channels=(8, 16)),
    "AutoencoderKL": diffusion("AutoencoderKL", **CODER),
    "VQModel": diffusion("VQModel", **CODER, num_vq_embeddings=32),
    "AutoencoderTiny": diffusion(
        "AutoencoderTiny", encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8),
        num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1),
    ),
    "AutoencoderOobleck": diffusion(
        "AutoencoderOobleck", encoder_hidden_size=8, downsampling_ratios=[2, 2], channel_multiples=[1, 2],
        decoder_channels=8, decoder_input_channels=4,
    ),
    "DiTTransformer2DModel": diffusion("DiTTransformer2DModel", **TILES, num_embeds_ada_norm=16),
    "SD3Transformer2DModel": diffusion("SD3Transformer2DModel", **JOINT),
    "SD3.5": diffusion("SD3Transformer2DModel", **JOINT, qk_norm="rms_norm", dual_attention_layers=(0,)),
    "PixArtTransformer2DModel": diffusion(
        "PixArtTransformer2DModel", **TILES, cross_attention_dim=32, caption_channels=24
    ),
    "FluxTransformer2DModel": diffusion(
        "FluxTransformer2DModel", **HEADS, patch_size=1, in_channels=4, num_layers=1, num_single_layers=1,
        joint_attention_dim=32, pooled_projection_dim=24, axes_dims_rope=(4, 4, 8),
    ),
    "Transformer2DModel": diffusion(
        "Transformer2DModel", **HEADS, in_channels=32, num_layers=1, norm_num_groups=8,
    ),
    "VQDiffusion": diffusion(
        "Transformer2DModel", **HEADS, num_vector_embeds=32, sample_size=8, num_layers=1, cross_attention_dim=24,
        norm_type="ada_norm", num_embeds_ada_norm=10,
    ),
    "HunyuanDiT2DModel": diffusion(
        "HunyuanDiT2DModel", **TILES, hidden_size=32, cross_attention_dim=32, cross_attention_dim_t5=24,
        pooled_projection_dim=24, text_len=4, text_len_t5=4,
    ),
    "SanaTransformer2DModel": diffusion(
        "SanaTransformer2DModel", **HEADS, in_channels=4, out_channels=4, num_layers=1,
        num_cross_attention_heads=2, cross_attention_head_dim=16, cross_attention_dim=32, caption_channels=24,
        sample_size=8,
    ),
    "AuraFlowTransformer2DModel": diffusion(
        "AuraFlowTransformer2DModel", **HEADS, sample_size=8, num_mmdit_layers=1, num_single_dit_layers=1,
        joint_attention_dim=24, caption_projection_dim=32, pos_embed_max_size=16,
    ),
    "CogVideoXTransformer3DModel": diffusion(
        "CogVideoXTransformer3DModel", **HEADS, in_channels=4, out_channels=4, time_embed_dim=8, text_embed_dim=24,
        num_layers=1, sample_width=8, sample_height=8, sample_frames=5, max_text_seq_length=8,
    ),
    "WanTransformer3DModel": diffusion(
        "WanTransformer3DModel", **HEADS, in_channels=4, out_channels=4, text_dim=24, freq_dim=16, ffn_dim=48,
        num_layers=1, rope_max_seq_len=16,
    ),
    "LTXVideoTransformer3DModel": diffusion(
        "LTXVideoTransformer3DModel", **HEADS, in_channels=4, out_channels=4, cross_attention_dim=32, num_layers=1,
        caption_channels=24,
    ),
    "MochiTransformer3DModel": diffusion(
        "MochiTransformer3DModel", **HEADS, num_layers=2, pooled_projection_dim=16, in_channels=4,
        text_embed_dim=24, time_embed_dim=8, max_sequence_length=8,
    ),
    "PriorTransformer": diffusion(
        "PriorTransformer", **HEADS, num_layers=1, embedding_dim=24, num_embeddings=8, additional_embeddings=4
    ),
    "MotionAdapter": diffusion(
        "MotionAdapter", block_out_channels=(16, 32), motion_layers_per_block=1, motion_norm_num_groups=8,
        motion_num_attention_heads=2, motion_max_seq_length=16,
    ),
    "UVit2DModel": diffusion(
        "UVit2DModel", hidden_size=32, cond_embed_dim=24, micro_cond_encode_dim=8, micro_cond_embed_dim=40,
        encoder_hidden_size=24, vocab_size=40, codebook_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, block_out_channels=32, sample_size=8,
    ),
    "AutoencoderDC": diffusion(
        "AutoencoderDC", latent_channels=4, attention_head_dim=8, encoder_block_types="ResBlock",
        decoder_block_types="ResBlock", encoder_block_out_channels=(16, 32), decoder_block_out_channels=(16, 32),
        encoder_layers_per_block=(1, 1), decoder_layers_per_block=(1, 1), encoder_qkv_multiscales=((), ()),
        decoder_qkv_multiscales=((), ()),
    ),
}  # fmt: skip


def adapted(name, base=("LlamaForCausalLM", GROUPED), task="CAUSAL_LM", **options):
    """A small model with an adapter of peft."""

    def build():
        model = hf(base[0], **base[1])()
        return peer("peft").get_peft_model(model, getattr(peer("peft"), name)(task_type=task, **options))

    return build


QV = {"target_modules": ["q_proj", "v_proj"]}
LORA = {**QV, "r": 4}
PEFT = {
    "LoRA": adapted("LoraConfig", **LORA),
    "LoRA gaussian": adapted("LoraConfig", **LORA, init_lora_weights="gaussian"),
    "LoRA orthogonal": adapted("LoraConfig", **LORA, init_lora_weights="orthogonal"),
    "LoRA embedding": adapted("LoraConfig", r=4, target_modules=["q_proj", "embed_tokens"], use_rslora=True),
    "LoRA head": adapted("LoraConfig", **LORA, modules_to_save=["lm_head"]),
    "LoRA BERT": adapted(
        "LoraConfig", ("BertForSequenceClassification", {**TEXT, **TOKENS}), "SEQ_CLS", r=4,
        target_modules=["query", "value"],
    ),
    "DoRA": adapted("LoraConfig", **LORA, use_dora=True),
    "PiSSA": adapted("LoraConfig", **LORA, init_lora_weights="pissa"),
    "OLoRA": adapted("LoraConfig", **LORA, init_lora_weights="olora"),
    "AdaLoRA": adapted("AdaLoraConfig", **QV, init_r=4, target_r=2, total_step=10),
    "LoHa": adapted("LoHaConfig", **LORA),
    "LoKr": adapted("LoKrConfig", **LORA),
    "VeRA": adapted("VeraConfig", target_modules=["q_proj", "o_proj"], r=4),
    "VB-LoRA": adapted("VBLoRAConfig", **LORA, num_vectors=8, vector_length=16),
    "IA3": adapted(
        "IA3Config", target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]
    ),
    "OFT": adapted("OFTConfig", **QV, oft_block_size=8),
    "HRA": adapted("HRAConfig", **LORA),
    "FourierFT": adapted("FourierFTConfig", **QV, n_frequency=16),
    "Poly": adapted("PolyConfig", **LORA, n_tasks=2, n_skills=2),
    "SHiRA": adapted("ShiraConfig", **LORA),
    "MiSS": adapted("MissConfig", **LORA),
    "C3A": adapted("C3AConfig", **QV, block_size=8),
    "RandLoRA": adapted("RandLoraConfig", target_modules=["q_proj"], r=4),
    "Llama adapter": adapted("AdaptionPromptConfig", adapter_len=4, adapter_layers=1),
    "trainable tokens": adapted("TrainableTokensConfig", target_modules=["embed_tokens"], token_indices=[0, 1]),
    "prompt tuning": adapted("PromptTuningConfig", num_virtual_tokens=5),
    "multitask prompt": adapted("MultitaskPromptTuningConfig", num_virtual_tokens=5, num_tasks=2),
    "prefix tuning": adapted("PrefixTuningConfig", num_virtual_tokens=5),
    "p-tuning": adapted("PromptEncoderConfig", num_virtual_tokens=5, encoder_hidden_size=32),
    "p-tuning LSTM": adapted(
        "PromptEncoderConfig", num_virtual_tokens=5, encoder_hidden_size=32, encoder_num_layers=1,
        encoder_reparameterization_type="LSTM",
    ),
}  # fmt: skip

MODELS = {"timm": {**VITS, **CONVOLUTIONS}, "diffusers": DIFFUSERS, "peft": PEFT}
