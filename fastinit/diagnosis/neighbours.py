"""`Neighbours`: what the other tensors of a file say about one, where no plan does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import _core
from .._files.specs import TensorSpec
from . import by_name
from .stored import StoredTensor

_TWINS = {"B": "A", "b": "a", "up": "down"}  # the last word of a factor that may be zero, and that of the other
_LAST_WORD = re.compile(r"(?<![^._])(B|b|up)(?=(\.weight)?$)")
_LEAST, _MOST = 0.8, 1.2  # the variance of rows from N(0, 1)


class _Kind(NamedTuple):
    """Tensors that are the same part of different layers."""

    name: str
    shape: tuple[int, ...]


class Neighbours:
    """The tensors of a file, by what they have in common.

    Parameters
    ----------
    tensors : sequence of StoredTensor
        Of floating dtypes, none of them empty.
    gathered : mapping of str to Summary
        Of every tensor.
    """

    def __init__(self, tensors: Sequence[StoredTensor], gathered: Mapping[str, _core.Summary]) -> None:
        self._shapes = {tensor.name: tensor.spec.shape for tensor in tensors}
        self._drawn: dict[str, TensorSpec] = {}
        self._adapters: set[str] = set()
        self._zeros: Counter[str] = Counter()
        self._kinds = Counter(by_name.kind_of(tensor.name) for tensor in tensors)
        self._drawn_kinds: set[_Kind] = set()
        self._standard: set[tuple[int, ...]] = set()
        for tensor in tensors:
            self._add(tensor, gathered[tensor.name].facts())
        self._matrices = sum(len(tensor.spec.shape) > 1 for tensor in tensors)

    def _add(self, tensor: StoredTensor, facts: dict[str, Any]) -> None:
        adapter = by_name.adapter_of(tensor.name)
        if facts["low"] == facts["high"] == 0 and adapter and not tensor.name.endswith("bias"):
            self._zeros[adapter] += 1
        if not (facts["count"] and facts["low"] < facts["high"]):
            return
        self._drawn[tensor.name] = tensor.spec
        self._drawn_kinds.add(_kind(tensor))
        if adapter and max(tensor.spec.shape) < tensor.spec.size:
            self._adapters.add(adapter)
        is_standard = _LEAST < facts["m2"] / facts["count"] < _MOST
        if is_standard and by_name.is_looked_up(tensor.name) and not self.has_bias(tensor):
            self._standard.add(tensor.spec.shape)

    @property
    def none_is_drawn(self) -> bool:
        """Whether the file has two matrices or more, and no tensor with different weights."""
        return self._matrices > 1 and not self._drawn

    def is_drawn_elsewhere(self, tensor: StoredTensor) -> bool:
        """Say whether the same part of another layer has different weights."""
        return _kind(tensor) in self._drawn_kinds

    def of_its_kind(self, tensor: StoredTensor) -> int:
        """Return how many tensors are the same part of a layer, this one included, whatever their shapes."""
        return self._kinds[by_name.kind_of(tensor.name)]

    def is_the_zero_factor(self, tensor: StoredTensor) -> bool:
        """Say whether a tensor is the only zero factor of an adapter's product: two would get no gradient."""
        adapter = by_name.adapter_of(tensor.name)
        return adapter in self._adapters and self._zeros[adapter] == 1

    def has_drawn_twin(self, tensor: StoredTensor) -> bool:
        """Say whether a tensor is multiplied by a drawn factor of its own rank, which is their smallest length."""
        spec, shape = self._drawn.get(_twin(tensor.name)), tensor.spec.shape
        return spec is not None and min(spec.shape) == min(shape) < min(max(spec.shape), max(shape))

    def ends_a_numbered_branch(self, tensor: StoredTensor) -> bool:
        """Say whether a tensor is the last of numbered parts, and the one before is drawn: ``fc2``, ``fc1``."""
        before, after = by_name.numbered(tensor.name)
        return before in self._drawn and after not in self._shapes

    def has_bias_like_it(self, tensor: StoredTensor) -> bool:
        """Say whether a bias of the same axes stands beside a weight: both are of a norm, not of a matrix."""
        stem, _, last = tensor.name.rpartition(".")
        return last == "weight" and self._shapes.get(f"{stem}.bias") == tensor.spec.shape

    def is_wide_like_its_embedding(self, tensor: StoredTensor) -> bool:
        """Say whether a head has the shape of looked-up rows from N(0, 1): some models start both alike."""
        return "head" in tensor.name and tensor.spec.shape in self._standard

    def has_bias(self, tensor: StoredTensor) -> bool:
        """Say whether a bias of its length stands beside a weight."""
        stem, _, last = tensor.name.rpartition(".")
        bias = self._shapes.get(f"{stem}.bias", ())
        return last == "weight" and len(bias) == 1 and bias[0] in tensor.spec.shape[:2]


def _kind(tensor: StoredTensor) -> _Kind:
    return _Kind(by_name.kind_of(tensor.name), tensor.spec.shape)


def _twin(name: str) -> str:
    """Return the name of the other factor, which differs in the last word; "" where that is no such word."""
    found = _LAST_WORD.search(name)
    return name[: found.start()] + _TWINS[found[0]] + name[found.end() :] if found else ""
