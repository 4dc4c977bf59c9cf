"""The families: how the code of known models starts them, each a short list of rules beside the shared ones.

A family is a function from the model to its rules, so that numbers that follow from the model are read from its
specs: layers, width, fans. Its docstring names the source. `POLICIES` lists them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from .._engine.checks import as_choice
from ..errors import PlanError
from ..initializers import (
    XAVIER_UNIFORM,
    ZEROS,
    Constant,
    DepthScaled,
    Normal,
    Residual,
    TruncatedNormal,
    VarianceScaling,
    kaiming,
    lecun,
    xavier,
)
from .kernels import ONE_INPUT_KERNELS
from .rules import (
    ANY,
    MATRIX,
    VECTOR,
    Choice,
    Chooser,
    Model,
    Refused,
    Rule,
    Ruled,
    Subject,
    Verdict,
    layer_of,
    modules,
)
from .shared import AMBIGUOUS, GIVEN, SHARED, TORCH, ZERO_STARTS, weights
from .starts import GEMMA_3N, NORM, needs

Rules = tuple[Rule, ...]

SMALL = Normal(0.0, 0.02)
"""initializer_range of GPT, BERT and most after them: ``PreTrainedModel._init_weights`` of transformers."""

XAVIER: Rules = (*SHARED, AMBIGUOUS, *ONE_INPUT_KERNELS, *weights(XAVIER_UNIFORM))
"""Matrices, embeddings and convolutions Xavier uniform, norm gains one, biases zero; index buffers explicit.

Glorot and Bengio (2010), "Understanding the difficulty of training deep feedforward neural networks".
"""

KAIMING: Rules = (*SHARED, AMBIGUOUS, *ONE_INPUT_KERNELS, *weights(kaiming("normal"), SMALL))
"""He et al. (2015), "Delving deep into rectifiers"; of tables it says nothing, and they get BERT's 0.02."""


def _fan(scale: float, fan_of: Callable[[Subject], int], distribution: str = "normal") -> Chooser:
    """Return what chooses weights of variance ``scale / fan``, where the fan follows from the model."""

    def choose(subject: Subject) -> Verdict:
        fan = fan_of(subject)
        if not fan:
            return Refused("a weight whose scale follows from a tensor that is not here")
        return Choice(VarianceScaling(scale, "fan_in", distribution), fan_in=fan, fan_out=1)

    return choose


def _transformer(*own: Rule) -> Rules:
    """Return the rules of ``PreTrainedModel._init_weights``: everything drawn is normal(0, 0.02)."""
    return (*own, *SHARED, *weights(SMALL))


def _torch_fan(subject: Subject) -> int:
    """Count the inputs of the weight beside a bias, as torch's ``_calculate_fan_in_and_fan_out`` does."""
    shape = subject.beside(r"bias$", "weight")
    return shape[1] if re.search(_BILINEAR, subject.name) else math.prod(shape[1:])


_BILINEAR = r"^(?>.*bilinear)[^./]*+\.(weight|bias)$"


def _has_fan(subject: Subject) -> bool:
    return len(subject.beside(r"bias$", "weight")) > 1


def _is_bias_alone(subject: Subject) -> bool:
    return not subject.beside(r"bias$", "weight")


def _recurrent_width(subject: Subject) -> int:
    """Return the width of a recurrent layer's cell: an LSTM may project its outputs to fewer."""
    cell = r"(weight|bias)_[ih][hr]"
    return (*(subject.beside(cell, "weight_hr") or subject.beside(cell, "weight_hh")), 0, 0)[1]


def _of_attention(subject: Subject) -> bool:
    """Ask whether the bias is of torch.nn.MultiheadAttention, which sets it to 0."""
    return subject.beside(r"out_proj\.bias$", "in_proj_bias") != ()


TORCH_DEFAULT: Rules = (
    *GIVEN,
    *ZERO_STARTS,
    Rule(
        "a gate",
        r"(^|[./])(weight|bias)_[ih][hr](_l\d+(_reverse)?)?$",
        ANY,
        _fan(1 / 3, _recurrent_width, "uniform"),
    ),
    Rule("attention's fused projection", r"(^|[./])in_proj_weight$", MATRIX, xavier("uniform")),
    Rule("attention's bias", r"(^|[./])out_proj\.bias$", VECTOR, ZEROS, when=_of_attention),
    Rule("bias", r"(^|\.)bias$", VECTOR, _fan(1 / 3, _torch_fan, "uniform"), when=_has_fan),
    Rule(
        "a bias without a weight beside it; torch has no default",
        r"(^|\.)bias$",
        VECTOR,
        None,
        when=_is_bias_alone,
        advice="zeros",
    ),
    Rule(
        "bilinear form",
        _BILINEAR,
        range(3, 4),
        _fan(1 / 3, lambda s: s.shape[1], "uniform"),
    ),
    *SHARED,
    Rule(
        "a parameter of its own; torch has no default",
        r"(token|position|pos_emb\w{0,8}|positional_embedding)$",
        range(2, 4),
        None,
    ),
    *weights(TORCH, Normal(0.0, 1.0)),
)
"""``reset_parameters`` of torch.nn: Linear and convolutions uniform within 1 / sqrt(fan_in), their biases as well,
Embedding normal(0, 1), RNNs uniform within 1 / sqrt(hidden), MultiheadAttention's projection Xavier uniform."""


def gpt2(model: Model) -> Rules:
    """Radford et al. (2019), section 2.3; ``GPT2PreTrainedModel._init_weights`` of transformers, and nanoGPT."""
    return _transformer(
        Rule("a projection into the residual stream", modules("c_proj"), MATRIX, Residual(SMALL, model.layers))
    )


TRANSFORMER = _transformer(
    Rule("GPT-OSS's router", r"(^|\.)router\.bias$", VECTOR, SMALL, when=needs(r"\.self_attn\.sinks$"))
)
"""``PreTrainedModel._init_weights`` of transformers with nothing of its own, under the name of each family:

- llama: Touvron et al. (2023), ``LlamaPreTrainedModel``; Mistral and Qwen start alike.
- bert: Devlin et al. (2019), section A.2, ``BertPreTrainedModel``. Its padding row is drawn here.
- whisper: Radford et al. (2022), ``WhisperPreTrainedModel``. The encoder's positions are refused.
- moe: ``MixtralPreTrainedModel``, ``GraniteMoePreTrainedModel``: stacked experts are 0.02 as well.
- olmo: OLMo Team (2024), "2 OLMo 2 Furious", section 3.2: normal(0, 0.02) for all; ``Olmo2PreTrainedModel``.
"""


def _depth(subject: Subject) -> Verdict:
    return Choice(DepthScaled(SMALL, layer_of(subject.name)), "oi")


def _head(model: Model) -> Chooser:
    """Choose an output layer of std ``1 / sqrt(width)``, truncated at three of them."""

    def choose(subject: Subject) -> Verdict:
        width = model.hidden or subject.shape[1]
        return Choice(VarianceScaling(1.0, "fan_in", "normal"), fan_in=width, fan_out=1)

    return choose


def llama_depth(model: Model) -> Rules:
    """``Transformer.init_weights`` of torchtitan with ``depth_init``: after Zhang et al. (2019), DS-Init.

    It truncates at two units (100 of 0.02), and the output layer at three of its standard deviations; no weight
    of the former reaches its bound, and the latter is a normal here.
    """
    return _transformer(
        Rule(
            "a projection into the residual stream, and the up projection",
            modules("o_proj down_proj up_proj wo w2 w3"),
            MATRIX,
            _depth,
        ),
        Rule("table of tokens", modules("embed_tokens tok_embeddings"), MATRIX, Normal(0.0, 1.0)),
        Rule("output layer", modules("lm_head output"), MATRIX, _head(model)),
    )


GEMMA = _transformer(
    Rule(
        "a tensor of the vision tower, which its own code starts otherwise",
        r"(^|[./])vision_(tower|model)\.",
        ANY,
        None,
    ),
    Rule("norm gain, less 1", NORM, range(1, 4), ZEROS, when=lambda subject: not subject.model.has(GEMMA_3N)),
)
"""Gemma Team (2024); ``GemmaPreTrainedModel._init_weights`` and those of Gemma 2 and 3: norms are 1 + w."""


def t5(model: Model) -> Rules:
    """Raffel et al. (2020) with Mesh TensorFlow's fans; ``T5PreTrainedModel._init_weights`` of transformers."""
    heads = max(
        (spec.shape[-1] for name, spec in model.specs.items() if name.endswith("relative_attention_bias.weight")),
        default=0,
    )

    def head_fan(subject: Subject) -> int:
        inner, width = subject.shape
        return width * inner // heads if heads and inner % heads == 0 else 0

    by_width = _fan(1.0, lambda subject: model.hidden or subject.shape[-1])
    return (
        Rule("a query, with the scale of its scores", r"Attention\.q\.weight$", MATRIX, _fan(1.0, head_fan)),
        Rule("positions", modules("relative_attention_bias"), MATRIX, by_width),
        Rule("a matrix from the width", modules("k v wi wi_[01] qa_outputs dense"), MATRIX, by_width),
        Rule(
            "a matrix to the width", modules("wo o out_proj"), MATRIX, _fan(1.0, lambda subject: subject.shape[1])
        ),
        Rule(
            "a table of tokens, or the head",
            modules("shared embed_tokens lm_head classifier"),
            MATRIX,
            Normal(0.0, 1.0),
        ),
        *SHARED,
    )


def vit(model: Model) -> Rules:
    """Dosovitskiy et al. (2021); ``ViTPreTrainedModel`` of transformers, ``init_weights_vit_timm`` of timm."""
    is_timm = model.has(r"^blocks\.0\.")
    small = TruncatedNormal(0.0, 0.02, -100.0, 100.0)  # trunc_normal_ cuts at 2, not at two standard deviations
    timm = (
        Rule("timm's class token", r"^cls_token$", range(3, 4), Normal(0.0, 1e-6)),
        Rule("timm's register tokens", r"^reg_token$", range(3, 4), Normal(0.0, 1e-6)),
        Rule("timm's patches, as torch starts a convolution", modules(r"patch_embed\.proj"), range(4, 5), TORCH),
        Rule("their bias", modules(r"patch_embed\.proj", "bias"), VECTOR, _fan(1 / 3, _torch_fan, "uniform")),
    )
    return (
        *(timm if is_timm else ()),
        Rule("the token of masked patches", r"(^|\.)mask_token$", range(2, 4), ZEROS),
        *SHARED,
        *weights(SMALL, SMALL, small),
    )


CONVNEXT = _transformer(
    Rule("LayerScale", r"(^|\.)(layer_scale_parameter|stages\.\d+\.blocks\.\d+\.gamma)$", VECTOR, Constant(1e-6))
)
"""Liu et al. (2022), Woo et al. (2023); ``ConvNextPreTrainedModel`` of transformers, ``ConvNeXt`` of timm."""

MAMBA = (
    Rule("a kernel or projection that keeps torch's start", modules("conv1d out_proj"), range(2, 4), TORCH),
    Rule("the step's projection, within 1 / sqrt(rank)", modules("dt_proj"), MATRIX, TORCH),
    *SHARED,
    *weights(Normal(0.0, 0.1)),
)
"""Gu and Dao (2023); ``MambaPreTrainedModel._init_weights`` of transformers, ``initializer_range`` 0.1."""


def resnet(model: Model) -> Rules:
    """He et al. (2016); ``ResNet`` of timm (last norm of a block zero: Goyal et al. 2017), and of transformers.

    torchvision's names are timm's, but its last norms start at one.
    """
    last = "bn3" if model.has(r"(^|\.)layer\d\.\d+\.bn3\.") else "bn2"
    return (
        Rule(
            "a block's last norm: the block is the identity at first",
            rf"(^|\.)layer\d\.\d+\.{last}\.weight$",
            VECTOR,
            ZEROS,
        ),
        Rule(
            "bias of the head",
            r"^fc\.bias$|(^|\.)classifier\.1\.bias$",
            VECTOR,
            _fan(1 / 3, _torch_fan, "uniform"),
        ),
        *SHARED,
        Rule("the head", modules(r"fc classifier\.1"), MATRIX, TORCH),
        *weights(kaiming("normal", mode="fan_out")),
    )


LORA = SHARED
"""Adapters alone: Hu et al. (2022), ``reset_lora_parameters`` of peft; LoHa, LoKr and AdaLoRA likewise."""


def _patches(subject: Subject) -> Verdict:
    """Count the places of a kernel as inputs only: DiT starts its patches as a matrix."""
    outputs, channels, height, width = subject.shape
    return Choice(XAVIER_UNIFORM, fan_in=channels * height * width, fan_out=outputs)


DIFFUSION_TRANSFORMER = (
    Rule("patches", modules(r"x_embedder\.proj"), range(4, 5), _patches),
    Rule("labels and time steps", modules(r"y_embedder\.embedding_table t_embedder\.mlp\.[02]"), MATRIX, SMALL),
    Rule("the last layer", modules(r"final_layer\.linear"), MATRIX, ZEROS),
    *XAVIER,
)
"""Peebles and Xie (2023): ``DiT.initialize_weights``."""


def diffusion(model: Model) -> Rules:
    """``UNet2DConditionModel``, ``ControlNetModel`` of diffusers: torch's defaults, zero convolutions; or DiT."""
    return DIFFUSION_TRANSFORMER if model.has(r"(^|\.)x_embedder\.proj\.") else TORCH_DEFAULT


def megatron(model: Model) -> Rules:
    """Shoeybi et al. (2019), section 3; ``scaled_init_method_normal`` of Megatron-LM."""
    into_residual = modules(r"linear_proj linear_fc2 dense_4h_to_h (?:self_attention|attention)\.dense")
    return _transformer(
        Rule("a projection into the residual stream", into_residual, MATRIX, Residual(SMALL, model.layers))
    )


def _readout(subject: Subject) -> Verdict:
    """Variance ``1 / fan_in**2``: the output of a wide network starts small."""
    fan = subject.shape[1]
    return Choice(VarianceScaling(1.0, "fan_in", "normal"), fan_in=fan * fan, fan_out=1)


_HEAD = modules("lm_head head fc classifier score output output_layer embed_out")

MUP = (
    *SHARED,
    AMBIGUOUS,
    *ONE_INPUT_KERNELS,
    Rule("readout", _HEAD, MATRIX, _readout),
    *weights(lecun("normal"), Normal(0.0, 1.0)),
)
"""Yang et al. (2022), "Tensor programs V", table 3: hidden 1 / fan_in, output 1 / fan_in**2, tables 1.

Learning rates belong to it, and no plan holds them; `initializers.MuP` starts from a base model.
"""

_FAMILIES: Mapping[str, Rules | Callable[[Model], Rules]] = {
    "xavier": XAVIER,
    "kaiming": KAIMING,
    "torch-default": TORCH_DEFAULT,
    "gpt2": gpt2,
    "llama": TRANSFORMER,
    "llama-depth": llama_depth,
    "gemma": GEMMA,
    "bert": TRANSFORMER,
    "t5": t5,
    "vit": vit,
    "convnext": CONVNEXT,
    "whisper": TRANSFORMER,
    "mamba": MAMBA,
    "resnet": resnet,
    "moe": TRANSFORMER,
    "lora": LORA,
    "diffusion": diffusion,
    "megatron": megatron,
    "olmo": TRANSFORMER,
    "mup": MUP,
}

POLICIES = {name: Ruled(name, rules) for name, rules in _FAMILIES.items()}
"""name -> policy."""


def policy_called(name: str) -> Ruled:
    """Return the policy called `name`; PlanError with the known ones for another."""
    try:
        return POLICIES[as_choice(name, POLICIES, "policy")]
    except ValueError as error:
        raise PlanError(str(error)) from None
