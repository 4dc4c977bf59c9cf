"""Guesses from a tensor's name and shape, for checkpoints whose plan is unknown."""

from __future__ import annotations

import re

from .._files.specs import TensorSpec
from ..initializers import ONES, ZEROS
from ..policies import XAVIER

_BUFFERS = re.compile(
    r"rotary|inv_freq|freqs|sinusoid|mask$|(^|[._])((cos|sin)(_?cached?)?|pe)$"
    r"|(^(?>.*norm)[^.]*+|(^|\.)ln(_[^.]++)?)\.(weight|scale|gamma|gain)$"  # the last "norm": linear in the length
)
_POSITIONS = re.compile(r"pos(ition)?s?(_|\.|$)|pos_?emb")


def is_buffer(name: str) -> bool:
    """Say whether a name means a table of angles, a mask or a norm gain: none is drawn, whatever its axes."""
    return _BUFFERS.search(name) is not None


def is_position_table(name: str) -> bool:
    """Say whether a name means a table of positions: one of sines has many weights of exactly 1."""
    return _POSITIONS.search(name) is not None


def is_usually_drawn(name: str, spec: TensorSpec) -> bool:
    """Say whether such a tensor usually has a draw for each weight: neither a constant nor a buffer."""
    rule = next((rule for rule in XAVIER if rule.matches(name, spec.shape, spec.dtype)), None)
    is_refused_or_constant = rule is not None and rule.initializer in (None, ZEROS, ONES)
    return not (is_refused_or_constant or is_buffer(name))
