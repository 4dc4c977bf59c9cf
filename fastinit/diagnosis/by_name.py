"""Guesses from a tensor's name and shape, for checkpoints whose plan is unknown."""

from __future__ import annotations

import re

from .._files.specs import TensorSpec

_BUFFERS = re.compile(
    r"rotary|inv_freq|freqs|sinusoid|mask$|(^|[._])((cos|sin)(_?cached?)?|pe)$"
    r"|(^(?>.*norm)[^.]*+|(^|\.)ln(_[^.]++)?)\.(weight|scale|gamma|gain)$"  # the last "norm": linear in the length
)
_UNDRAWN = re.compile(
    r"(^|[._])(masked_)?bias(_[ih]h(_l\d+(_reverse)?)?)?$|(^|\.)(A_log|running_(mean|var))$|_scale(_inv)?$"
)
_VECTORS = re.compile(r"(^|\.)(weight|gamma|beta)$")
_POSITIONS = re.compile(r"pos(ition)?s?(_|\.|$)|pos_?emb")
_BIASES = re.compile(r"(rel_?pos|relative_|position_?bias|attention_?bias)[^.]*+(\.weight)?$|[_.]bias_table$")
_OFFSETS = re.compile(r"(shift|offset|beta)[^.]*+(\.weight)?$")
_COPIES = re.compile(
    r"[._](student|teacher|online|target|momentum|ema|copy|shadow|original_module|modules_to_save\.[^.]++)(?=[._])"
)
_GAINS = re.compile(r"(norm|scale|decay|gain|gamma|alpha|temperature|magnitude_vector|lambda)[^.]*+(\.weight)?$")
_ADAPTERS = re.compile(r"(?:^|[._])(?:lora|lokr|hada)(?=_)")
_ROTATIONS = re.compile(r"(^|[._])b?oft_[rR]($|\.)")
_SILENT = re.compile(
    r"^out\.\d+\.weight$|(^|[._])(controlnet_(\w+_)?blocks?[._]|zero_?(conv|linear|module|proj)|\w?gat(e|ing)(_pre\w*)?\.weight$"
    r"|(ada_?(ln|norm)\w*|\w*modulation|mod)(\.\d+|\.lin|\.linear)?\.weight$|pos_embed_input\."
    r"|(final|last|out)_layers?(\.\d+|\.linear)?\.weight$|conv_out\.weight$"
    r"|(head|classifier|predictor|bbox_embed|logits|score)s?(\.(fc|linear|proj|out_proj|\d+))?(\.layers\.[1-9])?"
    r"\.weight$)",
    re.IGNORECASE,
)
_LAST_OF_BRANCH = re.compile(
    r"(^|[._])(proj_out|out_proj|o_proj|to_out|c_proj|down_proj|wo|fc2|w2|output\.dense|attn\.proj|dense_4h_to_h)[._]"
)
_LOOKED_UP = re.compile(r"emb|token|wte|wpe|vocab|codebook|queries|table|shared", re.IGNORECASE)
_LINEARS = re.compile(
    r"proj|linear|head|reduction|receptance|(^|[._])weight_[ih]h"
    r"|(^|[._])(fc|query|key|value|output|dense|attn|mlp|qkv|w?[qkvo]|w[i123])[\d._]",
    re.IGNORECASE,
)
_WIDE = re.compile(r"quantiz|(^|[._])(original1|weight_v|weight_orig)$")

_SEARCHED = 256  # last characters of a name: these patterns begin again at each of them
_LAYER = re.compile(r"(?<![^.])\d+(?![^.])")  # a number alone between dots
_NUMBERED = re.compile(r"(\d+)(?=(\.\d+)?\.weight$)")


def is_buffer(name: str) -> bool:
    """Say whether a name means a table of angles, a mask or a norm gain: none is drawn, whatever its axes."""
    return _BUFFERS.search(name) is not None or name.endswith("_integer")


def is_position_table(name: str) -> bool:
    """Say whether a name means a table of positions: one of sines has many weights of exactly 1."""
    return _POSITIONS.search(name) is not None


def is_usually_drawn(name: str, spec: TensorSpec) -> bool:
    """Say whether such a tensor usually has a draw for each weight: neither a constant nor a buffer."""
    is_gain = len(spec.shape) == 1 and _VECTORS.search(name) is not None
    return not (is_gain or _UNDRAWN.search(name) or is_buffer(name))


def is_bias_table(name: str) -> bool:
    """Say whether a name means numbers added to attention scores, by relative position."""
    return _BIASES.search(name[-_SEARCHED:]) is not None


def is_gain(name: str) -> bool:
    """Say whether a name means factors of single channels or heads."""
    return _GAINS.search(name[-_SEARCHED:]) is not None


def starts_silent(name: str) -> bool:
    """Say whether a name means a layer that some models start at zero: a head, a gate, a modulation, a control."""
    return _SILENT.search(name[-_SEARCHED:]) is not None


def ends_a_branch(name: str) -> bool:
    """Say whether a name means the last projection of a residual branch."""
    return _LAST_OF_BRANCH.search(name) is not None


def is_rotation(name: str) -> bool:
    """Say whether a name means the angles of a rotation, which is the identity where they are zero."""
    return _ROTATIONS.search(name) is not None


def adapter_of(name: str) -> str:
    """Return what the factors of one adapter have in common: its name but for the word of the factor, or ""."""
    found = _ADAPTERS.search(name)
    if found is None:
        return ""
    _, dot, rest = name[found.end() :].partition(".")
    return name[: found.end()] + dot + rest


def is_linear(name: str) -> bool:
    """Say whether a name means a matrix that its input is multiplied by, and no rows that are looked up."""
    return not is_looked_up(name) and _LINEARS.search(name[-_SEARCHED:]) is not None


def is_looked_up(name: str) -> bool:
    """Say whether a name means rows that are looked up."""
    last = ".".join(name.split(".")[-2:])
    return _LOOKED_UP.search(last) is not None


def may_be_wide(name: str) -> bool:
    """Say whether a name means what may start from N(0, 1): a factor, logits of a choice, what a norm divides."""
    return _WIDE.search(name) is not None or adapter_of(name) != "" or is_of_peft(name)


def kind_of(name: str) -> str:
    """Return a name without the numbers of layers, which is the same in every layer."""
    return _LAYER.sub("#", name)


def numbered(name: str) -> tuple[str, str]:
    """Return the names of the parts before and after a numbered one, such as ``fc1`` and ``fc3`` of ``fc2``.

    Both are "" where the part has no number of its own.
    """
    found = _NUMBERED.search(name[-_SEARCHED:])
    if found is None or name[-_SEARCHED:][: found.start()].endswith("."):
        return "", ""
    begin, end = (at + max(0, len(name) - _SEARCHED) for at in found.span())
    before, after = (f"{name[:begin]}{int(found[0][-9:]) + step}{name[end:]}" for step in (-1, 1))
    return before, after


def is_of_peft(name: str) -> bool:
    """Say whether a name is that of an adapter's own tensor, as PEFT names it."""
    return name.startswith("base_model.") and name.rpartition(".")[2] not in ("weight", "bias")


def is_offset(name: str) -> bool:
    """Say whether a name means numbers that are added to channels."""
    return _OFFSETS.search(name[-_SEARCHED:]) is not None


def module_of(name: str) -> str:
    """Return a name without the word that tells a module from its copy: a student's from a teacher's."""
    return _COPIES.sub(".", f".{name}")
