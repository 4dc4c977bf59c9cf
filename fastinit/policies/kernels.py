"""The rules of tensors as Flax, Keras and Haiku name and store them: `kernel` or `w`, inputs before outputs.

`shared.py` puts them among the rules of every policy. torch and Equinox say `weight`, and store the outputs first.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .._engine.axes import SPATIAL, STACKED
from ..initializers import ONES, ZEROS, Initializer, VarianceScaling
from .rules import ANY, MATRIX, VECTOR, Choice, Chooser, Refused, Rule, Subject, Verdict
from .starts import beside

_KERNEL = r"(^|[./])(kernel|w)$"
_GATES = r"(^|[./])(recurrent_)?kernel$"
_HEADS = r"(^|[./])(query|key|value)[./]kernel$"
_JOINED = r"(^|[./])(out|attention_output)[./]kernel$"
_CONVOLUTION = r"(?i)^(?>.*conv)[^./]*+([./]\d{1,6})*+[./](kernel|w)$|(^|[./])pointwise_kernel$"
_TRANSPOSED = r"(^|[./_])conv\d_?d_transpose(_\d{1,4})?[./](kernel|w)$"
_KERAS_DEPTHWISE = r"(^|[./])((\w{1,64}_)?depthwise_conv\dd(_\d{1,4})?[./]kernel|depthwise_kernel)$"
_DEPTHWISE = r"(^|[./_])depth_?wise[^./]{0,64}[./](kernel|w)$"
_CONVOLUTIONS = range(3, 6)


def _spatial(subject: Subject, channels: str = "io") -> str:
    """Name the axes of a convolution: the receptive field comes first."""
    letters = {1: "w", 2: "hw", 3: "dhw"}
    field = len(subject.shape) - 2
    return letters.get(field, SPATIAL[:field]) + channels


def _in_attention(subject: Subject) -> bool:
    """Ask for a projection beside a query: a layer called `out` may be anything."""
    return beside(r"[^./]{1,64}([./])kernel$", r"query\1kernel")(subject)


def _heads(letters: str) -> Callable[[Subject], str]:
    """Name the axes of an attention's projection, of one layer or of a stack of them."""
    return lambda subject: STACKED * (len(subject.shape) - 3) + letters


def _outputs(subject: Subject) -> int:
    return subject.shape[-1]


def _channels(subject: Subject) -> int:
    return subject.shape[-2]


def _recurrent(drawn: Initializer) -> Chooser:
    """Choose the kernel of a recurrent layer of Keras: each gate is a matrix of its own."""

    def choose(subject: Subject) -> Verdict:
        units, outputs = subject.beside(_GATES, r"\1recurrent_kernel")[-2], subject.shape[-1]
        if not units or outputs % units:
            return Refused("the kernel of some gates, whose number does not follow from recurrent_kernel")
        return Choice(drawn, _spatial(subject), outputs // units)

    return choose


def _has_recurrent(subject: Subject) -> bool:
    return len(subject.beside(_GATES, r"\1recurrent_kernel")) > 1


def _one_input(subject: Subject) -> bool:
    """Ask for a kernel that may be depthwise, or have one input."""
    known = re.search(_DEPTHWISE, subject.name) or re.search(_KERAS_DEPTHWISE, subject.name)
    return subject.shape[-2] == 1 < subject.shape[-1] and not known and not _in_attention(subject)


ONE_INPUT_KERNELS = tuple(
    Rule(
        "a kernel of one input channel, or a depthwise one, and its name does not say which; say groups=1 or "
        "groups=depthwise",
        _CONVOLUTION,
        range(rank, rank + 1),
        None,
        when=_one_input,
        advice=f"xavier_uniform layout={layout} groups=depthwise",
    )
    for rank, layout in ((3, "wio"), (4, "hwio"), (5, "dhwio"))
)
"""For schemes that count fans as a unit has them."""

STATES = (
    Rule("Haiku's moving average", r"_ema[./](average|hidden)$", ANY, ZEROS),
    Rule("Haiku's counter", r"_ema[./]counter$", ANY, ZEROS, is_float=False),
    Rule("running mean", r"(^|[./])mean$", VECTOR, ZEROS, when=beside(r"mean$", "var")),
    Rule("running variance", r"(^|[./])var$", VECTOR, ONES, when=beside(r"var$", "mean")),
)
"""Statistics of norms, which Flax and Haiku keep under short names."""

OFFSETS = (
    Rule("Haiku's bias", r"(^|[./])b$", VECTOR, ZEROS, when=beside(r"b$", "w")),
    Rule("Haiku's norm gain", r"(^|[./])scale$", range(1, 6), ONES, when=beside(r"scale$", "offset")),
    Rule("Haiku's norm offset", r"(^|[./])offset$", range(1, 6), ZEROS, when=beside(r"offset$", "scale")),
    Rule("norm gain", r"(^|[./])scale$", VECTOR, ONES, when=beside(r"scale$", "bias")),
    Rule("gain of Flax's weight norm", r"[./]kernel/scale$", VECTOR, ONES),
)

ADAPTER_KERNELS = (
    Rule("Flax's LoRA: its drawn factor", r"(^|[./])lora_a$", MATRIX, VarianceScaling(2.0, "fan_in", "uniform"),
         lambda _: "io", when=beside(r"lora_a$", "lora_b")),
    Rule("Flax's LoRA: the factor that is zero", r"(^|[./])lora_b$", MATRIX, ZEROS,
         when=beside(r"lora_b$", "lora_a")),
)  # fmt: skip


def kernels(drawn: Initializer) -> tuple[Rule, ...]:
    """Return the rules of kernels that are no plain matrices; `drawn` is what they are filled with."""

    def swapped(subject: Subject) -> str:
        return _spatial(subject, "oi")

    def per_channel(subject: Subject) -> str:
        return _spatial(subject, "Io")

    return (
        Rule("a recurrent layer's kernel", _GATES, range(2, 6), _recurrent(drawn), when=_has_recurrent),
        Rule("attention's heads", _HEADS, range(3, 5), drawn, _heads("ioo"), when=_in_attention),
        Rule("attention's output", _JOINED, range(3, 5), drawn, _heads("iio"), when=_in_attention),
        Rule("transposed kernel of Keras or Haiku", _TRANSPOSED, _CONVOLUTIONS, drawn, swapped),
        Rule("depthwise kernel of Keras", _KERAS_DEPTHWISE, _CONVOLUTIONS, drawn, per_channel, _channels),
        Rule("depthwise kernel of Flax or Haiku", _DEPTHWISE, _CONVOLUTIONS, drawn, _spatial, _outputs,
             when=lambda subject: subject.shape[-2] == 1),
        Rule("convolution kernel", _CONVOLUTION, _CONVOLUTIONS, drawn, _spatial),
        Rule("convolution kernel", _KERNEL, range(4, 5), drawn, _spatial),
        Rule(
            "a stack of matrices (layout=eio), a convolution (wio) or heads (ioo, iio), and its name does not say "
            "which",
            _KERNEL,
            range(3, 4),
            None,
            advice="xavier_uniform layout=eio",
        ),
    )  # fmt: skip
