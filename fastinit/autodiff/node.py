"""`Node`: a value of the graph with its gradient, without operations; `tape.py` adds them.

Leaves are made here, given new values, and asked for their gradients.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

import numpy as np

from ..errors import TensorAutodiffError
from .graph import GraphRetention, Record, walk_back
from .operations import Array, Operation
from .tensor import Tensor


class Node:
    """A value, the gradient accumulated for it, and the record of how it was computed."""

    __slots__ = ("__weakref__", "_gradient", "_record", "_tracked", "_trainable", "_values")
    _values: Array
    _gradient: Array | None
    _trainable: bool
    _tracked: bool  # whether a trainable leaf is reached from here
    _record: Record | Operation | None  # the bare Operation once the rest was released

    __array_ufunc__ = None  # numpy's operators then leave the work to ours
    __iter__ = None  # else Python would iterate by __getitem__ until an IndexError that is never raised

    def __init__(self) -> None:
        raise TypeError("make a leaf with TensorValue.parameter(tensor) or TensorValue.constant(tensor)")

    @classmethod
    def _node(cls, values: Array, trainable: bool, record: Record | None) -> Self:
        node = cls.__new__(cls)
        node._values = values
        node._gradient = None
        node._trainable = trainable
        node._tracked = trainable or record is not None
        node._record = record
        return node

    @classmethod
    def _leaf(cls, tensor: Tensor, trainable: bool) -> Self:
        return cls.parameter(tensor) if trainable else cls.constant(tensor)

    @classmethod
    def parameter(cls, tensor: Tensor) -> Self:
        """Return a new trainable leaf that holds `tensor`; TensorAutodiffError if it is not a `Tensor`."""
        if not isinstance(tensor, Tensor):
            raise _not_a_tensor(tensor)
        return cls._node(tensor.values, True, None)

    @classmethod
    def constant(cls, tensor: Tensor) -> Self:
        """Return a new leaf that holds `tensor` and takes no gradient; errors as `parameter`."""
        if not isinstance(tensor, Tensor):
            raise _not_a_tensor(tensor)
        return cls._node(tensor.values, False, None)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self._values.shape

    @property
    def value(self) -> Tensor:
        """The value."""
        return Tensor.of_finite(self._values)

    @property
    def is_trainable(self) -> bool:
        """Whether backward passes accumulate a gradient here."""
        return self._trainable

    def item(self) -> float:
        """Return the value of a one-element node as a float."""
        if self._values.size != 1:
            raise TensorAutodiffError(f"item: the value has shape {self.shape}, not one element")
        return float(self._values.item())

    def value_snapshot(self) -> Tensor:
        """Return the value as it is now; later updates do not change the snapshot."""
        return self.value

    @property
    def has_gradient(self) -> bool:
        """Whether a backward pass has reached this leaf since its gradient was last zero."""
        return self._gradient is not None

    def gradient_snapshot(self) -> Tensor | None:
        """Return the gradient accumulated so far, zeros before any; None where there is no trainable leaf."""
        if not self._trainable:
            return None
        return Tensor.of_finite(np.zeros(self.shape) if self._gradient is None else self._gradient)

    def zero_gradient(self) -> None:
        """Set the accumulated gradient to zero."""
        self._gradient = None

    def assign(self, tensor: Tensor) -> None:
        """Give a trainable leaf a new value of the same shape, as an optimizer does.

        Snapshots keep the old value. A graph recorded before refuses its backward pass: its gradients would belong
        to weights that are no longer there.
        """
        if not self._trainable:
            raise TensorAutodiffError("assign: only a trainable leaf can be given a new value")
        if not isinstance(tensor, Tensor) or tensor.shape != self.shape:
            given = f"shape {tensor.shape}" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise TensorAutodiffError(f"assign: expected a Tensor of shape {self.shape}, got {given}")
        self._values = tensor.values

    def is_same_node(self, other: Node) -> bool:
        """Say whether `other` is this very node, not merely one with an equal value."""
        return self is other

    def backward(self, retention: GraphRetention = GraphRetention.RELEASE) -> None:
        """Add the gradient of this one-element value to every trainable leaf it depends on.

        Parameters
        ----------
        retention : GraphRetention, default RELEASE
            Whether the graph can be walked again.

        Raises
        ------
        TensorAutodiffError
            If the value has not one element, depends on no trainable leaf, or rests on a released graph or on a
            leaf that was given a new value since; if a gradient is not finite. No leaf is changed then.
        """
        if self._values.size != 1:
            raise TensorAutodiffError(
                f"backward starts from one element, and this value has shape {self.shape}; "
                "reduce it (.sum(), .mean()) or pass a seed: backward_with_seed(seed)"
            )
        walk_back(self, np.ones(self.shape), retention)

    def backward_with_seed(self, seed: Tensor, retention: GraphRetention = GraphRetention.RELEASE) -> None:
        """Add, to every trainable leaf, the gradient of the sum of this value times `seed`.

        Parameters
        ----------
        seed : Tensor
            The gradient of this value; of its shape.
        retention : GraphRetention, default RELEASE
            Whether the graph can be walked again.

        Raises
        ------
        TensorAutodiffError
            If the seed is not a Tensor of this shape; otherwise as `backward`.

        Examples
        --------
        >>> from fastinit import GraphRetention, Tensor, TensorValue
        >>> x = TensorValue.parameter(Tensor([1.0, 2.0]))
        >>> y = x * x
        >>> y.backward_with_seed(Tensor([1.0, 10.0]), GraphRetention.RETAIN)
        >>> y.backward_with_seed(Tensor([1.0, 10.0]))
        >>> x.gradient_snapshot()
        Tensor([ 4., 80.])
        """
        if not isinstance(seed, Tensor) or seed.shape != self.shape:
            given = f"shape {seed.shape}" if isinstance(seed, Tensor) else type(seed).__name__
            raise TensorAutodiffError(f"the seed is a Tensor of the value's shape {self.shape}, got {given}")
        walk_back(self, seed.values, retention)

    def __array__(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise TensorAutodiffError(
            "numpy cannot take a TensorValue: its gradient would be lost; use the operations of "
            "fastinit.autodiff, or read the array: x.value.values"
        )

    def __array_function__(self, function: Any, *_arguments: Any) -> NoReturn:
        """Refuse numpy's functions; without this, some call the method of their name with arguments of numpy's."""
        name = function.__name__
        ours = f"fastinit.autodiff.{name}(x)" if hasattr(self, name) else "the operations of fastinit.autodiff"
        raise TensorAutodiffError(
            f"numpy's {name} cannot take a TensorValue: its gradient would be lost; use {ours}, "
            "or read the array: x.value.values"
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._leaf(self.value, self._trainable)

    def __reduce__(self) -> tuple[Any, tuple[Tensor, bool]]:
        return type(self)._leaf, (self.value, self._trainable)

    def __repr__(self) -> str:
        if self._record is None:
            kind = "parameter" if self._trainable else "constant"
        else:
            kind = (self._record if isinstance(self._record, Operation) else self._record[0]).name
        return f"TensorValue.{kind}(shape={self.shape})"


def _not_a_tensor(value: object) -> TensorAutodiffError:
    return TensorAutodiffError(
        f"a leaf holds a fastinit.Tensor, got {type(value).__name__}; wrap it: Tensor(values)"
    )
