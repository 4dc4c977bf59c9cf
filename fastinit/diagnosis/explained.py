"""Why a fault may be none where no plan is known: a reason in other tensors, the shape, the numbers or the name.

A fault with a reason is a remark. Each reason is true of what it is said of, whatever the model: a table of sines
is one by its numbers, a factor starts at zero beside one that is drawn. Names decide last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import by_name
from .measured import Measured
from .neighbours import Neighbours
from .stored import StoredTensor
from .tables import is_mask, table

_Array = np.ndarray[Any, Any]


class Reason(NamedTuple):
    """Why a tensor is as it is.

    Attributes
    ----------
    kind : str
        The reason in a word or two: the tensor's verdict.
    sentence : str
        The reason in words that follow "is".
    """

    kind: str
    sentence: str


def explanation(
    fault: str, tensor: StoredTensor, m: Measured, sample: _Array, neighbours: Neighbours
) -> Reason | None:
    """Return why a fault of that kind is none, None where nothing explains it.

    Parameters
    ----------
    fault : str
        "not finite", "all zero", "constant", "repeated", "spike" or "equal".
    tensor, m, sample : StoredTensor, Measured and array
        The tensor, its numbers, and its `StoredTensor.sample`.
    neighbours : Neighbours
        The other tensors.
    """
    if fault == "not finite":
        return _MASK if is_mask(m, sample) else None
    if fault == "all zero":
        return _of_zeros(tensor, neighbours)
    if fault == "constant":
        return _of_constants(tensor, m, neighbours)
    if fault in ("repeated", "spike", "equal"):
        found = table(tensor, m, sample)
        return Reason("table", f"{found}: nothing was drawn") if found else None
    return None


def copies(group: Sequence[StoredTensor]) -> Reason | None:
    """Return why equal tensors are so where their names say that one is the copy of another, None where not."""
    return _COPY if len({by_name.module_of(tensor.name) for tensor in group}) == 1 else None


_COPY = Reason("copy", "equal to the bit: one is, by the name, the copy of another")
_MASK = Reason("mask", "minus infinity in some places and one number in all others: a mask of attention")
_ONE_AXIS = Reason("one axis", "constant along the only axis longer than 1: gains, a token or one unit, no matrix")
_BATCH = Reason("broadcast", "constant with a first axis of 1: added to a whole batch, as tokens or positions are")
_GAIN = Reason("gain", "constant: factors of channels or heads, which training parts")
_BIAS = Reason("bias table", "zero: added to the scores of attention, which start unbiased")
_POSITIONS = Reason("positions", "zero: added to the positions of a sequence or an image")
_OFFSETS = Reason("offsets", "zero: added to channels, by the name")
_ADAPTER = Reason("adapter", "constant: a part of an adapter, by the name, which starts as no change of its model")
_FACTOR = Reason("zero factor", "zero beside a drawn factor: their product starts at zero and gets a gradient")
_ROTATION = Reason("rotation", "zero: the angles of a rotation, which starts as the identity")
_SILENT = Reason(
    "starts silent",
    "zero: by the name, a head, a gate or the end of a branch, which often start so and get a gradient",
)


def _of_zeros(tensor: StoredTensor, neighbours: Neighbours) -> Reason | None:
    """Return why a tensor is zero; a name explains nothing where the same part of another layer is drawn."""
    if by_name.adapter_of(tensor.name):
        return _FACTOR if neighbours.is_the_zero_factor(tensor) else None
    if by_name.is_rotation(tensor.name):
        return _ROTATION
    if by_name.is_of_peft(tensor.name):
        return _ADAPTER
    found = _of_shape(tensor)
    if found or neighbours.none_is_drawn or neighbours.is_drawn_elsewhere(tensor):
        return found
    if neighbours.has_drawn_twin(tensor):
        return _FACTOR
    return next((reason for is_so, reason in _NAMED_ZEROS if is_so(tensor.name)), None) or _silent(
        tensor, neighbours
    )


def _is_bare_position_table(name: str) -> bool:
    return by_name.is_position_table(name) and not name.endswith(".weight")


_NAMED_ZEROS: tuple[tuple[Callable[[str], bool], Reason], ...] = (
    (by_name.is_bias_table, _BIAS),
    (_is_bare_position_table, _POSITIONS),
    (by_name.is_offset, _OFFSETS),
)


def _silent(tensor: StoredTensor, neighbours: Neighbours) -> Reason | None:
    return _SILENT if _starts_silent(tensor, neighbours) else None


def _starts_silent(tensor: StoredTensor, neighbours: Neighbours) -> bool:
    is_last = by_name.ends_a_branch(tensor.name) or neighbours.ends_a_numbered_branch(tensor)
    return by_name.starts_silent(tensor.name) or (is_last and neighbours.of_its_kind(tensor) > 1)


def _of_constants(tensor: StoredTensor, m: Measured, neighbours: Neighbours) -> Reason | None:
    """Return why a tensor is one number that is not zero; equal positions would tell no two apart."""
    found = _of_shape(tensor)
    if found == _ONE_AXIS or (found and m.low == 1):
        return found
    if by_name.is_of_peft(tensor.name):
        return _ADAPTER
    return _GAIN if by_name.is_gain(tensor.name) or neighbours.has_bias_like_it(tensor) else None


def _of_shape(tensor: StoredTensor) -> Reason | None:
    shape = tensor.spec.shape
    if max(shape) == tensor.spec.size:
        return _ONE_AXIS
    is_kernel = len(shape) > 2 and "conv" in tensor.name
    return _BATCH if len(shape) > 2 and shape[0] == 1 and not is_kernel else None
