"""`TensorValue`: a node of the tape. A leaf holds a value, and where it is trainable, a gradient."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..errors import TensorAutodiffError
from .tensor import Tensor


class TensorValue:
    """One node: a value, and the gradient accumulated for it.

    Make leaves with `parameter` (trainable) and `constant`. Two nodes with equal values are different nodes;
    ``copy.copy`` shares a node, ``copy.deepcopy`` and pickle make a new leaf with the same value and no
    gradient.

    Examples
    --------
    >>> import fastinit
    >>> leaf = fastinit.TensorValue.parameter(fastinit.Tensor([1.0, 2.0]))
    >>> leaf.shape, leaf.is_trainable, leaf.gradient_snapshot()
    ((2,), True, None)
    """

    __slots__ = ("_gradient", "_trainable", "_value")
    _value: Tensor
    _trainable: bool
    _gradient: npt.NDArray[np.float64] | None

    def __init__(self) -> None:
        raise TypeError("make a leaf with TensorValue.parameter(tensor) or TensorValue.constant(tensor)")

    @classmethod
    def _leaf(cls, tensor: Tensor, trainable: bool) -> Self:
        if not isinstance(tensor, Tensor):
            raise TensorAutodiffError(
                f"a leaf holds a fastinit.Tensor, got {type(tensor).__name__}; wrap it: Tensor(values)"
            )
        leaf = cls.__new__(cls)
        leaf._value = tensor
        leaf._trainable = trainable
        leaf._gradient = None
        return leaf

    @classmethod
    def parameter(cls, tensor: Tensor) -> Self:
        """Return a new trainable leaf that holds `tensor`."""
        return cls._leaf(tensor, True)

    @classmethod
    def constant(cls, tensor: Tensor) -> Self:
        """Return a new leaf that holds `tensor` and takes no gradient."""
        return cls._leaf(tensor, False)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self._value.shape

    @property
    def value(self) -> Tensor:
        """The value."""
        return self._value

    @property
    def is_trainable(self) -> bool:
        """Whether backward passes accumulate a gradient here."""
        return self._trainable

    def value_snapshot(self) -> Tensor:
        """Return the value as it is now; later updates do not change the snapshot."""
        return self._value

    def gradient_snapshot(self) -> Tensor | None:
        """Return a copy of the accumulated gradient, or None where there is none."""
        return None if self._gradient is None else Tensor(self._gradient)

    def is_same_node(self, other: TensorValue) -> bool:
        """Say whether `other` is this very node, not merely one with an equal value."""
        return self is other

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._leaf(self._value, self._trainable)

    def __reduce__(self) -> tuple[Any, tuple[Tensor, bool]]:
        return type(self)._leaf, (self._value, self._trainable)

    def __repr__(self) -> str:
        kind = "parameter" if self._trainable else "constant"
        return f"TensorValue.{kind}(shape={self.shape})"
