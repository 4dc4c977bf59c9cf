"""The rules that every policy shares: what no seed may fill, and what starts alike in every model.

Order matters: a mask may be called `bias`, a zero factor `weight`. A family puts its own rules before these, and
`weights` after them.
"""

from __future__ import annotations

import re

from ..initializers import ONES, POSITIONS, ZEROS, Constant, Initializer, Normal, VarianceScaling
from .kernels import ADAPTER_KERNELS, OFFSETS, STATES, kernels
from .rules import ANY, EMBEDDINGS, MATRIX, VECTOR, Choice, Chooser, Refused, Rule, Subject, Verdict
from .starts import NORM, OFFSET_NORMS, SINES, STARTS, beside

TORCH = VarianceScaling(1.0 / 3.0, "fan_in", "uniform")
"""torch.nn.Linear.reset_parameters: kaiming_uniform_(a=sqrt(5)), which is uniform within 1 / sqrt(fan_in)."""

# ---- buffers: made by the model's code, so given data and no weights ---------------------------------


def _is_placeholder(subject: Subject) -> bool:
    return subject.shape == (0,)


_MIXER = r"(dt_proj[._]bias|dt_bias|A_log|D)$"

INDICES = (
    Rule("position indices", r"(^|[._])position_ids$", range(1, 64), POSITIONS, is_float=False),
    Rule("token type indices", r"(^|[._])token_type_ids$", ANY, ZEROS, is_float=False),
    Rule("batch counter", r"(^|\.)num_batches_tracked$", range(1), ZEROS, is_float=False),
    Rule("a table of indices, which the model's code makes", r"_ind(ex|ices)$", ANY, None, is_float=False),
)
GIVEN = (
    Rule(
        "an empty placeholder: ZeRO-3 holds the values in another file; gather them with zero_to_fp32.py first",
        r"",
        VECTOR,
        None,
        when=_is_placeholder,
    ),
    Rule(
        "an attention mask, which the model's code makes; drawn at random it would hide nothing",
        r"(^|[._])(tril|triu|((attn|attention|causal)_)?mask)$",
        ANY,
        None,
    ),
    Rule("the value of masked scores, not a bias", r"(^|[._])masked_bias$", ANY, None),
    Rule(
        "a table of rotary frequencies or angles, which the model's code computes",
        r"(^|[._])(inv_freq|freqs(_cis|_cos|_sin)?|(cos|sin)(_?cached)?|rotary_pos_emb|rope_\w{1,8}|attn_bias_cache)$",
        ANY,
        None,
    ),
    *SINES,
    Rule("the decay rates of a state space, log(1), log(2), ..., not a matrix", r"(^|\.)A_log$", ANY, None),
    Rule("the skip of a state space", r"(^|\.)D$", VECTOR, ONES, when=beside(_MIXER, "A_log")),
    Rule(
        "the inverse softplus of random time steps, which the model's code computes",
        r"(^|\.)dt_(proj[._])?bias$",
        range(1, 3),
        None,
        when=beside(_MIXER, "A_log"),
    ),
    Rule(
        "a learned temperature, ln(1 / 0.07) in CLIP and ln(10) in SigLIP and Swin V2",
        r"(^|[._])logit_scale$",
        ANY,
        None,
        advice="constant(2.6592)",
    ),
    Rule(
        "the scale of quantized weights, not a matrix",
        r"(^|[._])(weight|input|output|act|activation|kv|[qkvo])_scale(_inv|_2)?$|[._](scales|qzeros)$",
        ANY,
        None,
    ),
    Rule(
        "the norms of a weight-normed matrix, which follow from the matrix",
        r"(^|[._])(weight_g|parametrizations\.\w{1,16}\.original0|lora_magnitude_vector(\.\w{1,64}){0,2})$",
        ANY,
        None,
    ),
    Rule("a singular vector, which spectral norm computes", r"(^|\.)(weight_[uv]|\w{1,16}\._[uv])$", VECTOR, None),
)

# ---- starts that a model needs, whatever the rest ----------------------------------------------------


def _has_lora_e(subject: Subject) -> bool:
    """AdaLoRA: the middle factor is zero, so the outer two are drawn."""
    return re.sub(r"lora_[AB]", "lora_E", subject.name) in subject.model.specs


ADAPTERS = (
    Rule(
        "AdaLoRA's outer factor", r"(^|[./])lora_[AB](\.\w{1,64})?$", MATRIX, Normal(0.0, 0.02), when=_has_lora_e
    ),
    Rule("AdaLoRA's rank", r"(^|\.)ranknum(\.\w{1,64})?$", VECTOR, None),
    Rule(
        "the factor that is zero, so that the adapter is the identity at first",
        r"(^|[./])(lora_(B|E|up|embedding_A)|lora\.up|hada_w2_b|lokr_w1(_a)?|oft_R)(\.\w{1,64}){0,2}$",
        range(1, 6),
        ZEROS,
    ),
    Rule("IA3's factor", r"(^|[./])ia3_l(\.\w{1,64})?$", MATRIX, ONES),
    Rule("LoRA's table", r"(^|[./])lora_embedding_B(\.\w{1,64})?$", MATRIX, Normal(0.0, 1.0)),
    Rule(
        "an adapter's drawn factor",
        r"(^|[./])(lora_(A|down)|lora\.down|hada_(w[12]_[ab]|t[12])|lokr_(w[12](_[ab])?|t2))(\.\w{1,64}){0,2}$",
        range(2, 6),
        TORCH,
    ),
)
ZERO_STARTS = (
    Rule(
        "a zero convolution: the copy is silent at first",
        r"(^|[./])(temp_convs\.\d+\.conv4\.[1-9]|controlnet_(down_blocks\.\d+|mid_block|cond_embedding\.conv_out)|zero_convs?(\.\d+){0,2})\.(weight|bias)$",
        range(1, 6),
        ZEROS,
    ),
    Rule("adaLN-zero's modulation", r"(^|[./])adaLN_modulation(\.\d+)?\.(weight|bias)$", range(1, 3), ZEROS),
    Rule("global response normalization", r"(^|[./])grn[./](weight|bias|gamma|beta)$", range(1, 5), ZEROS),
)


_ATTENTION_MASK = Rule(
    "an attention mask stored under the name bias, not a bias",
    r"(^|\.)bias$",
    range(4, 5),
    None,
    when=lambda subject: subject.shape[1:] != (1, 1, 1),  # Equinox's, of a convolution
)

# ---- norms and biases --------------------------------------------------------------------------------


def _may_be_slope(subject: Subject) -> bool:
    """Ask for a lone weight, or one in a Sequential without a bias beside it, where names say nothing."""
    is_numbered = re.search(r"(^|\.)\d{1,6}\.weight$", subject.name) is not None
    return subject.shape == (1,) or (is_numbered and not subject.beside(r"weight$", "bias"))


def _has_bias_for_each(subject: Subject) -> bool:
    """Ask for a weight with a bias of its own shape: a norm over several axes."""
    return subject.beside(r"weight$", "bias") == subject.shape


NORMS_AND_BIASES = (
    *OFFSET_NORMS,
    *STARTS,
    Rule("running mean", r"(^|[./])(running|moving)_mean$", VECTOR, ZEROS),
    Rule("running variance", r"(^|[./])(running_var|moving_variance)$", VECTOR, ONES),
    *STATES,
    Rule("norm gain", NORM, range(1, 4), ONES),
    Rule("gain of a norm over several axes", r"(^|\.)weight$", range(2, 5), ONES, when=_has_bias_for_each),
    _ATTENTION_MASK,
    Rule("bias", r"(^|[._/])bias(_[ih]h(_l\d+(_reverse)?)?)?$", ANY, ZEROS),
    *OFFSETS,
    Rule(
        "random frequencies of Fourier features",
        r"(^|[._])(time_proj|(gaussian_)?fourier_\w{1,16})\.weight$",
        VECTOR,
        None,
        advice="normal(0, 16)",
    ),
    Rule(
        "SAM's random frequencies of Fourier features, which are never trained",
        r"(^|[._])(positional_embedding|positional_encoding_gaussian_matrix)$",
        MATRIX,
        None,
        when=lambda subject: subject.shape[0] == 2,
        advice="normal(0, 1)",
    ),
    Rule("the slope of a PReLU", r"^(?>.*[Pp][Rr]e[Ll][Uu])[^./]*+\.weight$", VECTOR, Constant(0.25)),
    Rule(
        "the slope of a PReLU (0.25) or the gain of a norm (1), and its name does not say which",
        r"(^|\.)weight$",
        VECTOR,
        None,
        when=_may_be_slope,
    ),
    Rule("norm gain", r"(^|\.)weight$", VECTOR, ONES),
    Rule(
        "a gain called gamma outside a norm: a LayerScale, whose start differs from model to model (1e-6 to 1)",
        r"(^|[./])gamma$",
        VECTOR,
        None,
        advice="constant(1e-6)",
    ),
    Rule("norm offset", r"(^|[./])beta$", VECTOR, ZEROS),
)

SHARED = (*INDICES, *GIVEN, *ADAPTERS, *ADAPTER_KERNELS, *ZERO_STARTS, *NORMS_AND_BIASES)
"""Tried between a family's own rules and its `weights`."""

# ---- weights -----------------------------------------------------------------------------------------

_CONVOLUTION = r"^(?>.*conv)[^.]*+(\.[^.]++)*\.weight(_v|_orig)?$"
_TOKENS = r"^(?>.*(token|position|pos_emb))[^.]*+(\.weight)?$"
_EXPERTS = r"(^|[._/])(experts[._/]|(input|output)_linear\.weight$)"
_DEPTHWISE = (
    r"(^|[._/])(dw_?conv|depth_?wise(_conv)?|conv_?dw|(mixer|mamba)\.conv1d|short_conv(olution)?)"
    r"([._]\w{1,16})?\.weight$"
)
_POSITIONAL = r"(^|[._])pos_conv(_embed)?\."
_MATRIX = (
    r"(^|[./])(weight|w|kernel|embedding|embeddings)$|(^|[._])proj_weight$"
    r"|(^|[./])weight(_v|_orig|_[ih][hr](_l\d+(_reverse)?)?)$|(^|[./])parametrizations\.weight\.original(1?)$"
    r"|(^|[./_])(proj|projection|class_embedding|positional_embedding|bias_table|embedding_table|token|tokens"
    r"|pos_embed|position_embeddings?)$"
)


def _stacked(subject: Subject) -> str:  # noqa: ARG001
    """Name the last two axes: a stack of matrices."""
    return "eio"


def _matrix_layout(subject: Subject) -> str:
    """Name (out, in) but for Flax and Haiku, and for the Conv1D of GPT-2, which stores (in, out)."""
    if re.search(r"(^|[./])(kernel|w)$", subject.name):
        return "io"
    fused = subject.beside(r"(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight$", "attn.c_attn.weight")
    return "io" if len(fused) == 2 and fused[1] > fused[0] and ".c_" in subject.name else "oi"


def _expert_layout(subject: Subject) -> str:
    """Tell inputs from outputs by the width of the model: transformers stores (out, in) or (in, out)."""
    writes = re.search(r"down|output_linear|(^|[._])w2([._]|$)", subject.name) is not None
    last_is_hidden = subject.shape[2] == subject.model.hidden
    return "eio" if subject.model.hidden in subject.shape and last_is_hidden == writes else "eoi"


def _groups(subject: Subject) -> int:
    """Count the groups that a name implies: as many as channels, or those of wav2vec2's positions."""
    outputs, share = subject.shape[:2]
    if re.search(_DEPTHWISE, subject.name) and share == 1:
        return outputs
    return outputs // share if share and re.search(_POSITIONAL, subject.name) and outputs % share == 0 else 1


def _gates(subject: Subject) -> int:
    """Count the gates of a recurrent layer: each is a matrix of its own."""
    recurrent = subject.beside(r"weight_[ih][hr]", "weight_hh")
    projected = subject.beside(r"weight_[ih][hr]", "weight_hr")
    width = projected[1] if len(projected) == 2 else recurrent[1] if len(recurrent) == 2 else 0
    return subject.shape[0] // width if width and subject.shape[0] % width == 0 else 0


def _recurrent(initializer: Initializer) -> Chooser:
    def choose(subject: Subject) -> Verdict:
        gates = 1 if "weight_hr" in subject.name else _gates(subject)
        if not gates:
            return Refused("the matrix of some gates; their number follows from weight_hh, which is not here")
        return Choice(initializer, "oi", gates)

    return choose


def _one_input(subject: Subject) -> bool:
    """Ask for a kernel that may be depthwise, or have one input."""
    outputs, share = subject.shape[:2]
    return share == 1 < outputs and not re.search(_DEPTHWISE, subject.name)


AMBIGUOUS = Rule(
    "a kernel of one input channel, or a depthwise one, and its name does not say which; say groups=1 or "
    "groups=depthwise",
    r"weight(_v|_orig)?$",
    range(3, 6),
    None,
    when=_one_input,
    advice="xavier_uniform groups=depthwise",
)
"""For schemes that count fans as a unit has them; torch's own count does not depend on the groups."""


def weights(
    drawn: Initializer, tables: Initializer | None = None, tokens: Initializer | None = None
) -> tuple[Rule, ...]:
    """Return the rules of the matrices, tables of embeddings, kernels, tokens and experts that names tell.

    Parameters
    ----------
    drawn : Initializer
        What they are filled with.
    tables, tokens : Initializer, optional
        What embeddings get instead, and tokens and positions that are parameters of their own.
    """
    tables = drawn if tables is None else tables
    tokens = tables if tokens is None else tokens
    return (
        Rule("table of embeddings", EMBEDDINGS, MATRIX, tables, lambda _: "io"),
        Rule("a gate's matrix", r"(^|[./])weight_[ih][hr](_l\d+(_reverse)?)?$", MATRIX, _recurrent(drawn)),
        *kernels(drawn),
        Rule("matrix", _MATRIX, MATRIX, drawn, _matrix_layout),
        Rule("stacked experts", _EXPERTS, range(3, 4), drawn, _expert_layout),
        Rule("convolution kernel", _CONVOLUTION, range(3, 6), drawn, groups=_groups),
        Rule("tokens, positions", _TOKENS, range(3, 4), tokens, _stacked),
        Rule(
            "convolution kernel",
            r"(^|\.)(weight(_v|_orig)?|parametrizations\.weight\.original1)$",
            range(3, 6),
            drawn,
            groups=_groups,
        ),
    )
