"""Small models of transformers, by class: one line each, or one word where a family shares a configuration."""

import copy

from conftest import peer


def hf(name, **options):
    """A model of transformers by its class, made from a configuration: its own init, and no download."""

    def build():
        model = getattr(peer("transformers"), name)
        return model(model.config_class(**copy.deepcopy(options)))  # a configuration keeps or changes its parts

    return build


def family(names, **options):
    """Models that take the same configuration, by class."""
    return {name: hf(name, **options) for name in names.split()}


def over_resnet(name, *stages, **options):
    """A model over a small ResNet, which is made rather than downloaded."""

    def build():
        backbone = peer("transformers").ResNetConfig(**STAGES, embedding_size=16, out_features=list(stages))
        made = {"backbone": None, "use_timm_backbone": False, "use_pretrained_backbone": False}
        return hf(name, backbone_config=backbone, **made, **options)()

    return build


TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TEXT = {
    "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
    "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = {**TEXT, **TOKENS, "num_key_value_heads": 2}
NARROW = {**GROUPED, "head_dim": 16}
EXPERTS = {
    **NARROW, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "num_experts": 4,
    "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
    "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "n_group": 2, "topk_group": 1,
}  # fmt: skip

DECODERS = {
    **family("GPT2LMHeadModel GPTNeoXForCausalLM GPTJForCausalLM BloomForCausalLM FalconForCausalLM", **GROUPED),
    **family("MptForCausalLM PhiForCausalLM Phi3ForCausalLM PhimoeForCausalLM Starcoder2ForCausalLM", **GROUPED),
    **family("CodeGenForCausalLM GPTBigCodeForCausalLM OpenAIGPTLMHeadModel BioGptForCausalLM", **GROUPED),
    **family("LlamaForCausalLM MistralForCausalLM MixtralForCausalLM Qwen2ForCausalLM", **GROUPED),
    **family("StableLmForCausalLM", **GROUPED),
    **family("OlmoForCausalLM Olmo2ForCausalLM CohereForCausalLM Cohere2ForCausalLM", **GROUPED),
    **family("GraniteForCausalLM", **GROUPED),
    **family("GraniteMoeForCausalLM JetMoeForCausalLM NemotronForCausalLM PersimmonForCausalLM", **GROUPED),
    **family("SmolLM3ForCausalLM ArceeForCausalLM DiffLlamaForCausalLM Exaone4ForCausalLM", **GROUPED),
    **family("MiniMaxForCausalLM ApertusForCausalLM", **GROUPED),
    **family("Qwen3ForCausalLM GemmaForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM HeliumForCausalLM", **NARROW),
    **family("GlmForCausalLM Glm4ForCausalLM SeedOssForCausalLM Ernie4_5ForCausalLM", **NARROW),
    **family("Qwen2MoeForCausalLM Qwen3MoeForCausalLM OlmoeForCausalLM GptOssForCausalLM", **EXPERTS),
    **family("DeepseekV2ForCausalLM DeepseekV3ForCausalLM Llama4ForCausalLM", **EXPERTS),
    **family("GPTNeoForCausalLM", **TEXT, attention_types=[[["global", "local"], 1]]),
    **family("OPTForCausalLM", **TEXT, **TOKENS, ffn_dim=96, word_embed_proj_dim=32),
    **family("CTRLLMHeadModel", **TEXT, dff=96),
    **family("XGLMForCausalLM", **TEXT, **TOKENS, ffn_dim=96),
    **family(
        "DbrxForCausalLM", vocab_size=96, d_model=64, n_heads=4, n_layers=2, max_seq_len=64,
        ffn_config={"ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2},
        attn_config={"kv_n_heads": 2, "rope_theta": 1e4},
    ),
    **family(
        "Gemma3nForCausalLM", **NARROW, vocab_size_per_layer_input=96, hidden_size_per_layer_input=16,
        laurel_rank=8, num_kv_shared_layers=0, altup_num_inputs=2,
    ),
    **family("XLNetLMHeadModel", vocab_size=96, d_model=64, n_layer=2, n_head=4, d_inner=96),
    **family(
        "ReformerModelWithLMHead", vocab_size=96, hidden_size=64, num_attention_heads=2, attention_head_size=16,
        feed_forward_size=96, axial_pos_shape=[4, 8], axial_pos_embds_dim=[32, 32], max_position_embeddings=32,
        is_decoder=True, attn_layers=["local", "lsh"],
    ),
    **family(
        "DecisionTransformerModel", state_dim=4, act_dim=2, hidden_size=64, n_layer=1, n_head=4, max_ep_len=32,
    ),
}  # fmt: skip

RECURRENT = {
    **family("MambaForCausalLM FalconMambaForCausalLM JambaForCausalLM RwkvForCausalLM", **GROUPED),
    **family("xLSTMForCausalLM RecurrentGemmaForCausalLM BambaForCausalLM Lfm2ForCausalLM", **GROUPED),
    **family(
        "Mamba2ForCausalLM", vocab_size=96, hidden_size=64, num_hidden_layers=2, head_dim=16, num_heads=8,
        state_size=16, n_groups=2,
    ),
    **family("FalconH1ForCausalLM", **NARROW, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16),
    **family(
        "Qwen3NextForCausalLM", **EXPERTS, linear_num_value_heads=4, linear_num_key_heads=2,
        linear_key_head_dim=16, linear_value_head_dim=16,
    ),
}  # fmt: skip

ENCODERS = {
    **family("BertForMaskedLM RobertaForMaskedLM AlbertForMaskedLM ElectraForPreTraining", **TEXT, **TOKENS),
    **family("DebertaForMaskedLM DebertaV2ForMaskedLM MPNetForMaskedLM ModernBertForMaskedLM", **TEXT, **TOKENS),
    **family("LongformerForMaskedLM CamembertForMaskedLM XLMRobertaForMaskedLM", **TEXT, **TOKENS),
    **family("BigBirdForMaskedLM", **TEXT, **TOKENS),
    **family("RoFormerForMaskedLM FNetForMaskedLM ConvBertForMaskedLM NystromformerForMaskedLM", **TEXT, **TOKENS),
    **family("MegatronBertForMaskedLM ErnieForMaskedLM RemBertForMaskedLM EsmForMaskedLM", **TEXT, **TOKENS),
    **family("XLMModel", **TEXT, **TOKENS),
    **family("FlaubertModel IBertModel MraModel YosoModel SplinterModel DPRContextEncoder", **TEXT, **TOKENS),
    **family("BertGenerationEncoder ClapTextModel LayoutLMForMaskedLM", **TEXT, **TOKENS),
    **family("DistilBertForMaskedLM", **TEXT, hidden_dim=96, sinusoidal_pos_embds=True),
    **family("SqueezeBertForMaskedLM", **TEXT, embedding_size=64),
    **family(
        "MobileBertForMaskedLM", vocab_size=96, hidden_size=64, embedding_size=32, num_hidden_layers=2,
        intermediate_size=64, intra_bottleneck_size=32,
    ),
    **family(
        "FunnelForMaskedLM", vocab_size=96, d_model=64, block_sizes=[1, 1], num_decoder_layers=1, n_head=4,
        d_head=16, d_inner=96,
    ),
    **family("CanineModel", **TEXT, num_hash_buckets=64),
    **family("LukeModel", **TEXT, entity_vocab_size=32, entity_emb_size=16),
    **family("TapasModel", **TEXT, type_vocab_sizes=[3, 8, 8, 2, 8, 8, 4]),
    **family("XmodModel", **TEXT, languages=["a", "b"]),
    **family("RoCBertModel", **TEXT, pronunciation_vocab_size=32, shape_vocab_size=32),
    **family(
        "PerceiverForMaskedLM", vocab_size=96, num_latents=8, d_latents=64, d_model=32, num_blocks=1,
        num_self_attends_per_block=2, num_self_attention_heads=4, num_cross_attention_heads=4,
        max_position_embeddings=32,
    ),
}  # fmt: skip

SEQUENCES = {
    "vocab_size": 96, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "max_position_embeddings": 64,
    **TOKENS, "decoder_start_token_id": 1,
}  # fmt: skip
RELATIVE = {
    "vocab_size": 96, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "pad_token_id": 0,
    "decoder_start_token_id": 0,
}  # fmt: skip
TRANSLATORS = {
    **family("BartForConditionalGeneration PegasusForConditionalGeneration MarianMTModel", **SEQUENCES),
    **family("MBartForConditionalGeneration M2M100ForConditionalGeneration", **SEQUENCES),
    **family("PLBartForConditionalGeneration", **SEQUENCES),
    **family("BlenderbotForConditionalGeneration BlenderbotSmallForConditionalGeneration", **SEQUENCES),
    **family("NllbMoeForConditionalGeneration PegasusXForConditionalGeneration", **SEQUENCES),
    **family("T5ForConditionalGeneration MT5ForConditionalGeneration LongT5ForConditionalGeneration", **RELATIVE),
    **family("UMT5ForConditionalGeneration Pop2PianoForConditionalGeneration", **RELATIVE),
    **family(
        "SwitchTransformersForConditionalGeneration", **RELATIVE, num_experts=4, num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
    ),
    **family(
        "LEDForConditionalGeneration", **SEQUENCES, max_encoder_position_embeddings=64,
        max_decoder_position_embeddings=64, attention_window=8,
    ),
    **family(
        "ProphetNetModel", vocab_size=96, hidden_size=64, num_encoder_layers=1, num_decoder_layers=1,
        num_encoder_attention_heads=4, num_decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96,
        max_position_embeddings=64,
    ),
    **family(
        "TrOCRForCausalLM", vocab_size=96, d_model=64, decoder_layers=2, decoder_attention_heads=4,
        decoder_ffn_dim=96, max_position_embeddings=64,
    ),
    **family(
        "InformerForPrediction AutoformerForPrediction TimeSeriesTransformerForPrediction", prediction_length=4,
        context_length=8, d_model=32, encoder_layers=1, decoder_layers=1,
    ),
    **family("PatchTSTForPrediction", context_length=32, d_model=32, num_hidden_layers=1, ffn_dim=64),
    **family("PatchTSMixerForPrediction", context_length=32, d_model=16, num_layers=1),
}  # fmt: skip

FEATURES = {
    "conv_dim": (32, 32), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
WAVES = {
    "vocab_size": 32, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
    **FEATURES,
}  # fmt: skip
AUDIO = {
    **family("Wav2Vec2ForCTC HubertForCTC WavLMForCTC UniSpeechForCTC UniSpeechSatForCTC SEWForCTC", **WAVES),
    **family(
        "Wav2Vec2ForPreTraining", **WAVES, proj_codevector_dim=32, codevector_dim=32, num_codevectors_per_group=16,
    ),
    **family("Wav2Vec2ConformerForCTC", **WAVES, conv_depthwise_kernel_size=7),
    **family("Data2VecAudioForCTC", **WAVES, conv_pos_kernel_size=7),
    **family(
        "WhisperForConditionalGeneration", **SEQUENCES, num_mel_bins=16, max_source_positions=32,
        max_target_positions=32,
    ),
    **family(
        "MoonshineForConditionalGeneration", vocab_size=96, hidden_size=64, intermediate_size=96,
        encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, encoder_num_attention_heads=4,
        decoder_num_attention_heads=4,
    ),
    **family(
        "SpeechT5Model", vocab_size=96, hidden_size=64, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, **FEATURES,
    ),
    **family(
        "VitsModel", vocab_size=96, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, ffn_dim=64,
        flow_size=32, spectrogram_bins=33, prior_encoder_num_flows=2, upsample_initial_channel=64,
        upsample_rates=[8, 8], upsample_kernel_sizes=[16, 16], resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1]], duration_predictor_filter_channels=32,
    ),
    **family("EncodecModel", num_filters=4, hidden_size=16, codebook_size=32, upsampling_ratios=[2, 2]),
    **family(
        "DacModel", encoder_hidden_size=4, downsampling_ratios=[2, 2], decoder_hidden_size=32,
        upsampling_ratios=[2, 2], codebook_size=32, n_codebooks=2,
    ),
    **family("MusicgenForCausalLM", **TEXT, ffn_dim=96),
    **family(
        "BarkSemanticModel", block_size=32, input_vocab_size=96, output_vocab_size=96, num_layers=2, num_heads=4,
        hidden_size=64,
    ),
}  # fmt: skip

PATCHES = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
RECONSTRUCTED = {
    "decoder_hidden_size": 32, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2,
    "decoder_intermediate_size": 64,
}  # fmt: skip
WINDOWS = {
    "image_size": 32, "patch_size": 2, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4,
}  # fmt: skip
STAGES = {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}
HEADS = {**STAGES, "num_attention_heads": [1, 2, 3, 4]}
DETECTOR = {
    "d_model": 32, "hidden_size": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_queries": 8,
}  # fmt: skip
VISION = {
    **family("ViTForImageClassification DeiTForImageClassification ViTMSNForImageClassification", **PATCHES),
    **family("IJepaForImageClassification SiglipVisionModel CLIPVisionModel", **PATCHES),
    **family("VivitForVideoClassification TimesformerModel ASTForAudioClassification", **PATCHES),
    **family(
        "BeitForImageClassification Data2VecVisionModel", **PATCHES, use_mask_token=True,
        layer_scale_init_value=0.1, use_absolute_position_embeddings=True, use_relative_position_bias=True,
    ),
    **family("Dinov2ForImageClassification Dinov2WithRegistersForImageClassification DINOv3ViTModel", **PATCHES),
    **family("ViTMAEForPreTraining VideoMAEForPreTraining", **PATCHES, **RECONSTRUCTED),
    **family("YolosForObjectDetection", **{**PATCHES, "image_size": [32, 48]}, num_detection_tokens=8),
    **family(
        "DPTForDepthEstimation", **PATCHES, backbone_out_indices=[0, 0, 1, 1], neck_hidden_sizes=[8, 16, 24, 32],
        fusion_hidden_size=16,
    ),
    **family("SwinForImageClassification Swinv2ForImageClassification DonutSwinModel", **WINDOWS),
    **family("Swin2SRForImageSuperResolution", **{**WINDOWS, "patch_size": 1, "depths": [2], "num_heads": [2]}),
    **family("ConvNextForImageClassification ConvNextV2ForImageClassification", **STAGES),
    **family("PoolFormerForImageClassification ResNetForImageClassification", **STAGES, embedding_size=16),
    **family("RegNetForImageClassification", **STAGES, embedding_size=16, groups_width=8),
    **family(
        "BitForImageClassification", embedding_size=16, hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 1, 1],
        num_groups=8,
    ),
    **family("MobileNetV1ForImageClassification", depth_multiplier=0.25),
    **family("MobileNetV2ForImageClassification", depth_multiplier=0.25, finegrained_output=False),
    **family(
        "MobileViTForImageClassification", image_size=64, hidden_sizes=[32, 48, 64],
        neck_hidden_sizes=[8, 16, 24, 32, 48, 64, 128],
    ),
    **family("MobileViTV2ForImageClassification", width_multiplier=0.25),
    **family("EfficientNetForImageClassification", width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=64),
    **family("SegformerForSemanticSegmentation", **HEADS, decoder_hidden_size=64),
    **family("PvtForImageClassification", **HEADS, image_size=64),
    **family("PvtV2ForImageClassification", **HEADS),
    **family(
        "LevitForImageClassification", image_size=64, hidden_sizes=[32, 48, 64], num_attention_heads=[2, 2, 2],
        depths=[1, 1, 1], key_dim=[8, 8, 8],
    ),
    **family(
        "FocalNetForImageClassification", image_size=32, embed_dim=16, depths=[1, 1, 1, 1], use_layerscale=True,
    ),
    **family(
        "HieraForImageClassification", image_size=[64, 64], embed_dim=16, depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 4],
    ),
    **family(
        "SuperPointForKeypointDetection", encoder_hidden_sizes=[8, 8, 16, 16], decoder_hidden_size=32,
        descriptor_decoder_dim=32,
    ),
    **family(
        "SamModel",
        vision_config={
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 64, "patch_size": 8,
            "output_channels": 32, "mlp_dim": 64, "global_attn_indexes": [1], "window_size": 4,
            "num_pos_feats": 16,
        },
        prompt_encoder_config={"hidden_size": 32, "image_size": 64, "patch_size": 8, "mask_input_channels": 4},
        mask_decoder_config={
            "hidden_size": 32, "mlp_dim": 64, "num_attention_heads": 4, "iou_head_hidden_dim": 32
        },
    ),
    **{
        f"{name}ForObjectDetection": over_resnet(f"{name}ForObjectDetection", "stage4", **DETECTOR)
        for name in ("Detr", "ConditionalDetr", "DabDetr", "TableTransformer")
    },
    "UperNetForSemanticSegmentation": over_resnet(
        "UperNetForSemanticSegmentation", "stage1", "stage2", "stage3", "stage4", hidden_size=16,
        pool_scales=[1, 2], auxiliary_channels=8, auxiliary_in_channels=48,
    ),
}  # fmt: skip

SEEN = {"text_config": TEXT, "vision_config": PATCHES}
BOTH = {
    **family("CLIPModel CLIPSegModel OwlViTModel", **SEEN, projection_dim=32),
    **family("SiglipModel", **SEEN),
    **family("AltCLIPModel", text_config={**TEXT, "project_dim": 32}, vision_config=PATCHES),
    **family(
        "BlipForConditionalGeneration", text_config={**TEXT, "encoder_hidden_size": 64}, vision_config=PATCHES,
    ),
    **family(
        "Blip2ForConditionalGeneration", vision_config=PATCHES, num_query_tokens=8,
        text_config={**TEXT, "model_type": "opt", "ffn_dim": 96, "word_embed_proj_dim": 64},
        qformer_config={**TEXT, "encoder_hidden_size": 64},
    ),
    **family("FlavaModel", text_config=TEXT, image_config=PATCHES, multimodal_config=PATCHES),
    **family("ViltModel", **PATCHES, vocab_size=96, max_position_embeddings=40),
    **family("GitForCausalLM", **TEXT, vision_config=PATCHES),
    **family(
        "LlavaForConditionalGeneration", text_config={**TEXT, "model_type": "llama"},
        vision_config={**PATCHES, "model_type": "clip_vision_model"},
    ),
    **family(
        "PaliGemmaForConditionalGeneration", text_config={**NARROW, "model_type": "gemma"},
        vision_config={**PATCHES, "model_type": "siglip_vision_model"},
    ),
    **family(
        "Qwen2VLForConditionalGeneration", text_config={**TEXT, "num_key_value_heads": 2},
        vision_config={"depth": 2, "embed_dim": 64, "hidden_size": 64, "num_heads": 4, "mlp_ratio": 2},
    ),
    **family(
        "LayoutLMv3Model", **TEXT, max_2d_position_embeddings=64, coordinate_size=8, shape_size=16, input_size=32,
        patch_size=8,
    ),
    **family(
        "LxmertModel", vocab_size=96, hidden_size=64, num_attention_heads=4, intermediate_size=96, l_layers=1,
        x_layers=1, r_layers=1, visual_feat_dim=32,
    ),
    **family("VisualBertModel", **TEXT, visual_embedding_dim=32),
    **family(
        "MgpstrForSceneTextRecognition", image_size=[32, 64], patch_size=8, hidden_size=32, num_hidden_layers=1,
        num_attention_heads=2, mlp_ratio=2, num_character_labels=20, num_bpe_labels=32, num_wordpiece_labels=32,
        max_token_length=8,
    ),
}  # fmt: skip

MODELS = {**DECODERS, **RECURRENT, **ENCODERS, **TRANSLATORS, **AUDIO, **VISION, **BOTH}
