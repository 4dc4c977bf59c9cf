"""Tensors whose start belongs to the model and to no scheme: norms by offset, tokens, gates, detectors.

Names of one kind start at 0 in one model, are drawn in the next and are a table in a third. Where another name
of the model tells which, the rule knows it; where nothing does, the tensor is refused. `shared.py` puts these
among the rules of every policy; each was found by comparing with the recording of the model's own code.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..initializers import ONES, ZEROS, Constant
from .rules import MATRIX, VECTOR, Rule, Subject

NORM = (
    r"^(?>.*[Nn]orm)(?:alization)?[_\d]{0,8}[./](?:weight|scale|gamma)$"
    r"|(?:^|[./])(?:ln|bn|gn)(?:_?\d{1,4}|_[a-z]{1,8})?[./](?:weight|scale|gamma)$"
)
"""Gains of norms: the last "norm" of a name stands in its module."""

GEMMA_3N = r"\.(altup|laurel)\."
"""Gemma 3n multiplies by w."""


def needs(pattern: str) -> Callable[[Subject], bool]:
    """Ask for a name of the model in which the pattern is found."""
    return lambda subject: subject.model.has(pattern)


def beside(pattern: str, replacement: str) -> Callable[[Subject], bool]:
    """Ask for the tensor whose name has a part replaced."""
    return lambda subject: re.sub(pattern, replacement, subject.name) in subject.model.specs


# ---- norms that multiply by 1 + w --------------------------------------------------------------------

_OFFSET_VOCABULARIES = range(256_000, 262_500)
"""Rows of Gemma's tables of tokens, padded, extended or not."""

_OFFSET_NAMES = (
    r"\.(pre_feedforward_layernorm|temporal_pre_norm|linear_attn\.in_proj_(qkvz?|ba)|pre_expert_norm"
    r"|shared_experts\.gate_up_proj|self_attn\.g_proj)\.weight$"
)
"""Of Gemma 2 and after, RecurrentGemma, Qwen3-Next and Qwen3.5, Muse, MiniMax-M3, Step 3.7."""

_OFFSET_LAYER_NORMS = r"(^|\.)spatial_embeddings\.position_embeddings$"
"""Of VideoPrism, whose norms have biases too."""


def _may_be_offset(subject: Subject) -> bool:
    """Gemma and Qwen3-Next multiply by 1 + w under Llama's names: the vocabulary or other names must tell.

    Elsewhere a norm with a bias is a LayerNorm, and that of linear attention a gated one: both multiply by w.
    """
    model = subject.model
    if model.has(_OFFSET_LAYER_NORMS):
        return re.search(r"norm\w{0,12}\.weight$", subject.name) is not None
    if model.has(GEMMA_3N) or subject.beside(r"weight$", "bias") or ".linear_attn." in subject.name:
        return False
    return model.has(_OFFSET_NAMES) or any(rows in _OFFSET_VOCABULARIES for rows in model.vocabularies)


OFFSET_NORMS = (
    Rule(
        "a norm's gain of a model with the vocabulary or names of one that multiplies by 1 + w and starts it at 0 "
        "(Gemma: --policy gemma; Qwen3-Next, MiniMax-M3, Step 3.7, VideoPrism), where others start it at 1",
        rf"{NORM}|(?:^|\.)weight$",
        VECTOR,
        None,
        when=_may_be_offset,
        advice="zeros",
    ),
)

# ---- tokens and positions ----------------------------------------------------------------------------

_DRAWN_TOKENS = (r"\.layernorm_before\.|\.layer_scale1\.lambda1$", r"^blocks\.0\.")
"""Names of ViT and DINOv2 in transformers, and of timm, which draw class tokens and positions."""

_ZERO_TOKENS = (
    r"distillation_token|detection_tokens|(^|\.)lambda_\d$|image_model\.|^dpt\.|^neck\.|(^|\.)text_|rel_pos_[hw]$"
    r"|(^|\.)decoder\.|word_embeddings"
)
"""Names of DeiT, AST, YOLOS, BEiT, FLAVA, DPT, SAM and others that start them at 0."""

_ALWAYS_ASKED = r"(mask|register|query|group|distillation|detection)_tokens?$|no_mem\w{0,32}$"


def _may_be_zero(subject: Subject) -> bool:
    model = subject.model
    is_zero = model.has(_ZERO_TOKENS) or model.has(r"patch_embeddings\.projection\.weight$", rank=5)  # ViViT
    is_drawn = any(map(model.has, _DRAWN_TOKENS)) and not is_zero
    return not is_drawn or re.search(_ALWAYS_ASKED, subject.name) is not None


TOKENS = (
    Rule(
        "the token of masked patches",
        r"(^|\.)embeddings\.mask_token$",
        range(2, 5),
        ZEROS,
        when=lambda subject: not subject.model.has(r"segment_token"),  # SegGPT draws it
    ),
    Rule(
        "a token or a table of positions that is a parameter of its own: its model's code draws it, starts it at "
        "0 or computes it, and its name does not say which",
        r"(?:^|[._/])(?:tokens?|pos_emb(?:ed)?|position_embeddings?|position_embedding_table|positional_encoding"
        r"|no_mem\w{0,32})$",
        range(2, 5),
        None,
        when=_may_be_zero,
        advice="normal(0, 0.02)",
    ),
)

_WHISPER = r"(^|[./])encoder\.conv1\.weight$"


def _may_be_sines(subject: Subject) -> bool:
    """Marian, Pegasus and FSMT compute this table. BART learns one, and so does OPT, which has two rows more.

    Informer and its like have BART's names and compute it: they embed values, not tokens.
    """
    model = subject.model
    is_bart = model.has(r"\.layernorm_embedding\.weight$") and not model.has(r"\.value_embedding\.")
    is_opt = subject.shape[0] % 8 == 2 and not model.has(r"(^|[./])encoder\.embed_positions\.weight$")
    return not (is_bart or is_opt or model.has(_WHISPER))


SINES = (
    Rule(
        "a fixed table of sines, which the model's code computes",
        r"(^|[._])(sinusoid\w{0,16}|pe|pos_embed\.pos_embed|embed_positions\.weights)$",
        range(2, 4),
        None,
    ),
    Rule(
        "Whisper's fixed table of sines, which the model's code computes and never trains; record the model, or "
        "leave it out and keep the code's own",
        r"(^|[./])encoder\.(embed_positions\.weight|positional_embedding)$",
        MATRIX,
        None,
        when=needs(_WHISPER),
    ),
    Rule(
        "a fixed table of sines (Marian, Pegasus, FSMT) or a learned one (Blenderbot), and its name does not say "
        "which",
        r"(^|[./])(en|de)coder\.embed_positions\.weight$",
        MATRIX,
        None,
        when=_may_be_sines,
        advice="normal(0, 0.02)",
    ),
    Rule(
        "a learned table, or fixed sines where the configuration of DistilBERT, XLM or FlauBERT asks for them, "
        "and its name does not say which",
        r"(^|[./])position_embeddings\.weight$",
        MATRIX,
        None,
        when=needs(r"\.q_lin\.weight$"),
        advice="normal(0, 0.02)",
    ),
    Rule(
        "a fixed table of sines of a masked autoencoder or a diffusion transformer",
        r"(^|[./])(pos_embed|decoder_pos_embed|position_embeddings)$",
        range(2, 4),
        None,
        when=needs(r"(^|[./])(decoder_pos_embed|x_embedder\.proj\.weight)$"),
    ),
)

# ---- gates, attention that learns where to look, detectors -------------------------------------------

_HEADS = r"(^|\.)\w{0,24}(class_embed|score_head)(\.\d{1,3})?\.bias$"

_is_xlstm = needs(r"\.igate_preact\.bias$")


def _looks_evenly(subject: Subject) -> bool:
    """OmDet-Turbo alone draws them."""
    return not subject.model.has(r"encoder_vision_features")


STARTS = (
    *TOKENS,
    Rule("a gate of xLSTM", r"(^|\.)([ifo]gate_preact|proj_up_gate)\.weight$", MATRIX, ZEROS, when=_is_xlstm),
    Rule("the input gate's bias of xLSTM", r"(^|\.)igate_preact\.bias$", VECTOR, Constant(-10.0)),
    Rule("the forget gate's bias of xLSTM, which is a table", r"(^|\.)fgate_preact\.bias$", VECTOR, None),
    Rule(
        "where deformable attention looks at first, a table of directions",
        r"(^|\.)sampling_offsets\.bias$",
        VECTOR,
        None,
    ),
    Rule("deformable attention's places", r"(^|\.)sampling_offsets\.weight$", MATRIX, ZEROS, when=_looks_evenly),
    Rule(
        "deformable attention's weights",
        r"(^|\.)attention_weights\.(weight|bias)$",
        range(1, 3),
        ZEROS,
        when=lambda subject: _looks_evenly(subject) and subject.model.has(r"\.sampling_offsets\.bias$"),
    ),
    Rule("a detector's confidence", r"(^|\.)reg_conf\.layers\.1\.weight$", MATRIX, ZEROS),
    Rule(
        "the last layer of a detector's boxes, which some codes start at 0 and others draw",
        r"(^|\.)(\w{0,24}bbox_(embed|head)(\.\d{1,3})?\.layers\.2|reference_points_head\.layers\.1)\.weight$",
        MATRIX,
        None,
        advice="zeros",
    ),
    Rule(
        "the bias of a detector's classes, which some codes start at the log odds of a rare object, others at 0",
        _HEADS,
        range(2),
        None,
        advice="constant(-4.5951)",
    ),
    Rule("a router or a gate that starts level", r"(^|\.)(router|gateway)\.gate\.weight$", MATRIX, ZEROS),
    Rule(
        "a projection of a model with embeddings of values, all of which add nothing at first",
        r"(^|\.)(output_projection\.o_proj|mlp\.down_proj|value_embeddings)\.weight$",
        MATRIX,
        ZEROS,
        when=needs(r"(^|\.)value_embeddings\.weight$"),
    ),
    Rule("a learned temperature by position", r"(^|\.)softmax_scaling\.scale$", VECTOR, ZEROS),
    Rule("its offset", r"(^|\.)softmax_scaling\.bias$", VECTOR, ONES),
    Rule(
        "a norm's gain of each class", r"(^|\.)norm\.scale\.weight$", MATRIX, ONES, when=beside("scale", "shift")
    ),
    Rule(
        "a norm's offset of each class",
        r"(^|\.)norm\.shift\.weight$",
        MATRIX,
        ZEROS,
        when=beside("shift", "scale"),
    ),
    Rule(
        "a kernel that interpolates, which the model's code computes",
        r"(^|\.)upsampler\.conv\.weight$",
        range(3, 4),
        None,
    ),
    Rule("projection of soft tokens", r"(^|\.)mm_input_projection_weight$", MATRIX, ZEROS),
    Rule(
        "the offsets of windows",
        r"(^|\.)(attention\.self|relative_position_bias)\.relative_position_bias_table$",
        MATRIX,
        ZEROS,
    ),
    Rule(
        "a table that is called a bias and that its code draws",
        r"(^|\.)(r_[rsw]_bias|relative_attention_bias)$",
        MATRIX,
        None,
        advice="normal(0, 0.02)",
    ),
    Rule(
        "a LayerScale, whose start differs from model to model (1e-6 to 1)",
        r"(^|[./])((\w{1,24}_)?layer_?scale\w{0,12}(\.(lambda1|gamma|scale))?|ls_?\d?\.(gamma|scale)|lambda_?\d)$",
        range(1, 4),
        None,
        advice="constant(1e-5)",
    ),
)
