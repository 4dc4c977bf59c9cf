"""The tape: `TensorValue` records every operation on it, and walks the record backwards.

A value that depends on a trainable leaf remembers its operation, its inputs and their arrays; that record is the
graph. Nothing here recurses, so a graph may be as deep as memory allows. The arithmetic is in `vjps.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Literal, NoReturn, Self, SupportsFloat, SupportsIndex, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from .._engine.checks import as_finite, as_index, as_nonnegative
from ..errors import TensorAutodiffError
from .operations import OPERATIONS, Array, Axes, Operation, unbroadcast
from .tensor import Tensor, first_not_finite, is_finite

Operand: TypeAlias = Union["TensorValue", Tensor, float]
AxisLike = SupportsIndex | Iterable[SupportsIndex] | None
Record = tuple[Operation, tuple["TensorValue | None", ...], tuple[Array, ...], tuple[Any, ...]]


class GraphRetention(Enum):
    """What a backward pass does with the graph it walked."""

    RELEASE = "release"
    """Forget it: its memory is returned, and a second pass over it is refused."""
    RETAIN = "retain"
    """Keep it: a second pass adds the same gradients again."""


class TensorValue:
    """One node: a value, and the gradient accumulated for it.

    Make leaves with `parameter` (trainable) and `constant`; operators and methods make the other nodes. Numbers
    and `Tensor` objects are taken as constants on either side of an operator; numpy arrays are refused, so that no
    numpy function can swallow a node and its gradient. Every method that computes is also a function of
    ``fastinit.autodiff``.

    Two nodes with equal values are different nodes; ``copy.copy`` shares a node, ``copy.deepcopy`` and pickle make
    a new leaf with the same value and no gradient.

    Raises
    ------
    TensorAutodiffError
        By every operation: where the operands do not fit it, and where its result is not finite.

    Examples
    --------
    >>> import fastinit
    >>> leaf = fastinit.TensorValue.parameter(fastinit.Tensor([1.0, 2.0]))
    >>> leaf.shape, leaf.is_trainable, leaf.gradient_snapshot()
    ((2,), True, None)
    >>> loss = (3 * leaf**2).sum()
    >>> loss.item()
    15.0
    >>> loss.backward()
    >>> leaf.gradient_snapshot()
    Tensor([ 6., 12.])
    """

    __slots__ = ("__weakref__", "_gradient", "_record", "_tracked", "_trainable", "_values")
    _values: Array
    _gradient: Array | None
    _trainable: bool
    _tracked: bool  # whether a trainable leaf is reached from here
    _record: Record | Operation | None  # how it was computed; the bare Operation once that was released

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
        if not isinstance(tensor, Tensor):
            raise TensorAutodiffError(
                f"a leaf holds a fastinit.Tensor, got {type(tensor).__name__}; wrap it: Tensor(values)"
            )
        return cls._node(tensor.values, trainable, None)

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

    def gradient_snapshot(self) -> Tensor | None:
        """Return the accumulated gradient as it is now, or None where there is none."""
        return None if self._gradient is None else Tensor.of_finite(self._gradient)

    def zero_gradient(self) -> None:
        """Forget the accumulated gradient; the next backward pass starts from none."""
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

    def is_same_node(self, other: TensorValue) -> bool:
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
        _backward(self, np.ones(self.shape), retention)

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
            If the seed is no Tensor of this shape; else as `backward`.

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
        _backward(self, seed.values, retention)

    # Arithmetic. A method takes numbers and Tensors as `self` too: called through its class, it is a function.

    def add(self: Operand, other: Operand) -> TensorValue:
        """Return the sum, broadcast."""
        return _record("add", (self, other))

    def subtract(self: Operand, other: Operand) -> TensorValue:
        """Return the difference, broadcast."""
        return _record("subtract", (self, other))

    def multiply(self: Operand, other: Operand) -> TensorValue:
        """Return the product element by element, broadcast."""
        return _record("multiply", (self, other))

    def divide(self: Operand, other: Operand) -> TensorValue:
        """Return the quotient, broadcast."""
        return _record("divide", (self, other))

    def power(self: Operand, exponent: Operand) -> TensorValue:
        """Return the power, broadcast; where the exponent is 0 the gradient of the base is 0."""
        return _record("power", (self, exponent))

    def negative(self: Operand) -> TensorValue:
        """Return the value with its sign changed."""
        return _record("negative", (self,))

    def matmul(self: Operand, other: Operand) -> TensorValue:
        """Return the matrix product; axes before the last two are a batch, and broadcast.

        Examples
        --------
        >>> from fastinit import Tensor, TensorValue
        >>> (TensorValue.constant(Tensor([[1.0, 2.0]])) @ Tensor([3.0, 4.0])).value
        Tensor([11.])
        """
        return _record("matmul", (self, other))

    def __add__(self, other: Operand) -> TensorValue:
        return _record("add", (self, other))

    def __radd__(self, other: Operand) -> TensorValue:
        return _record("add", (other, self))

    def __sub__(self, other: Operand) -> TensorValue:
        return _record("subtract", (self, other))

    def __rsub__(self, other: Operand) -> TensorValue:
        return _record("subtract", (other, self))

    def __mul__(self, other: Operand) -> TensorValue:
        return _record("multiply", (self, other))

    def __rmul__(self, other: Operand) -> TensorValue:
        return _record("multiply", (other, self))

    def __truediv__(self, other: Operand) -> TensorValue:
        return _record("divide", (self, other))

    def __rtruediv__(self, other: Operand) -> TensorValue:
        return _record("divide", (other, self))

    def __pow__(self, exponent: Operand) -> TensorValue:
        return _record("power", (self, exponent))

    def __rpow__(self, base: Operand) -> TensorValue:
        return _record("power", (base, self))

    def __matmul__(self, other: Operand) -> TensorValue:
        return _record("matmul", (self, other))

    def __rmatmul__(self, other: Operand) -> TensorValue:
        return _record("matmul", (other, self))

    def __neg__(self) -> TensorValue:
        return _record("negative", (self,))

    def __abs__(self) -> TensorValue:
        return _record("abs", (self,))

    # Reductions

    def sum(self: Operand, axis: AxisLike = None, keepdims: bool = False) -> TensorValue:
        """Return the sum over `axis` (None: over all)."""
        return _record("sum", (self,), _axes(axis, "sum"), bool(keepdims))

    def mean(self: Operand, axis: AxisLike = None, keepdims: bool = False) -> TensorValue:
        """Return the mean over `axis` (None: over all); the mean of nothing is refused."""
        return _record("mean", (self,), _axes(axis, "mean"), bool(keepdims))

    def max(self: Operand, axis: AxisLike = None, keepdims: bool = False) -> TensorValue:
        """Return the largest element over `axis` (None: over all); equal ones share the gradient evenly."""
        return _record("max", (self,), _axes(axis, "max"), bool(keepdims))

    def norm(self: Operand, axis: AxisLike = None, keepdims: bool = False) -> TensorValue:
        """Return the Euclidean norm over `axis` (None: over all); its gradient at 0 is 0."""
        return _record("norm", (self,), _axes(axis, "norm"), bool(keepdims))

    # Shapes and parts

    def reshape(self: Operand, *shape: Any) -> TensorValue:
        """Return the value in another shape, row-major; one length may be -1."""
        return _record("reshape", (self,), _integers(shape, "reshape: a shape entry"))

    def transpose(self: Operand, *axes: Any) -> TensorValue:
        """Return the value with its axes permuted; without `axes`, reversed."""
        return _record(
            "transpose", (self,), _integers(axes, "transpose: an axis") if axes and axes != (None,) else None
        )

    @property
    def T(self) -> TensorValue:
        """The value with its axes reversed."""
        return _record("transpose", (self,), None)

    def slice(self: Operand, index: Any) -> TensorValue:
        """Return ``x[index]``: ints, slices, Ellipsis, None, or a tuple of them."""
        return _record("slice", (self,), _basic_index(index))

    def __getitem__(self, index: Any) -> TensorValue:
        return _record("slice", (self,), _basic_index(index))

    def gather(self: Operand, rows: npt.ArrayLike) -> TensorValue:
        """Look rows up by position, as a token table does; the gradients of equal positions add up.

        Parameters
        ----------
        rows : array_like of int
            Positions along the first axis, in [0, length); of any shape, which becomes the result's first axes.

        Examples
        --------
        >>> from fastinit import Tensor, TensorValue
        >>> table = TensorValue.parameter(Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        >>> table.gather([2, 0, 2]).sum().backward()
        >>> table.gradient_snapshot()
        Tensor([[1., 1.],
                [0., 0.],
                [2., 2.]])
        """
        return _record("gather", (self,), _positions(rows, "gather: rows"))

    def concatenate(self: Operand, *others: Operand, axis: SupportsIndex = 0) -> TensorValue:
        """Return this value and `others`, joined along `axis`."""
        return concatenate((self, *others), axis)

    def where(self: Operand, condition: npt.ArrayLike, other: Operand) -> TensorValue:
        """Return this value where `condition` holds and `other` elsewhere, broadcast."""
        return where(condition, self, other)

    # Functions of one element

    def exp(self: Operand) -> TensorValue:
        """Return e to the power of each element."""
        return _record("exp", (self,))

    def log(self: Operand) -> TensorValue:
        """Return the natural logarithm; of positive values only."""
        return _record("log", (self,))

    def sqrt(self: Operand) -> TensorValue:
        """Return the square root; at 0 it has a value, and its backward pass is refused."""
        return _record("sqrt", (self,))

    def abs(self: Operand) -> TensorValue:
        """Return the magnitude; its gradient at 0 is 0."""
        return _record("abs", (self,))

    def tanh(self: Operand) -> TensorValue:
        """Return the hyperbolic tangent."""
        return _record("tanh", (self,))

    def sigmoid(self: Operand) -> TensorValue:
        """Return 1 / (1 + exp(-x))."""
        return _record("sigmoid", (self,))

    def relu(self: Operand) -> TensorValue:
        """Return max(x, 0); its gradient at 0 is 0."""
        return _record("relu", (self,))

    def leaky_relu(self: Operand, slope: SupportsFloat = 0.01) -> TensorValue:
        """Return x where it is positive, else `slope` times x; the gradient at 0 is `slope`."""
        return _record("leaky_relu", (self,), as_finite(slope, "leaky_relu: slope"))

    def gelu(self: Operand, form: Literal["erf", "tanh"] = "erf") -> TensorValue:
        """Return x times the normal distribution function at x.

        Parameters
        ----------
        form : {"erf", "tanh"}, default "erf"
            The function itself, or its approximation ``x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x**3))) / 2``.

        Notes
        -----
        Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016). Both forms keep their precision in the tails.
        """
        if form not in ("erf", "tanh"):
            raise ValueError(f"gelu: form must be 'erf' or 'tanh', got {form!r}")
        return _record("gelu" if form == "erf" else "gelu_tanh", (self,))

    def silu(self: Operand) -> TensorValue:
        """Return x times sigmoid(x), also called swish."""
        return _record("silu", (self,))

    def softplus(self: Operand) -> TensorValue:
        """Return log(1 + exp(x))."""
        return _record("softplus", (self,))

    # Rows

    def softmax(self: Operand, axis: SupportsIndex = -1, mask: npt.ArrayLike | None = None) -> TensorValue:
        """Return probabilities along `axis`.

        Parameters
        ----------
        axis : int, default -1
            The axis along which they sum to 1.
        mask : array_like of bool, optional
            True marks an entry as masked, as in ``numpy.ma``: its probability and its gradient are 0. Broadcasts
            to the value's shape; a wholly masked row is refused.

        Examples
        --------
        >>> from fastinit import Tensor, TensorValue
        >>> TensorValue.constant(Tensor([1000.0, 1000.0, 7.0])).softmax(mask=[False, False, True]).value
        Tensor([0.5, 0.5, 0. ])
        """
        return _record("softmax", (self,), as_index(axis, "softmax: axis"), _optional_mask(mask, "softmax: mask"))

    def log_softmax(self: Operand, axis: SupportsIndex = -1, mask: npt.ArrayLike | None = None) -> TensorValue:
        """Return the logarithms of the probabilities along `axis`.

        A masked entry (see `softmax`) has the lowest finite float64, whose exponential is 0, and gradient 0.
        """
        return _record(
            "log_softmax", (self,), as_index(axis, "log_softmax: axis"), _optional_mask(mask, "log_softmax: mask")
        )

    def cross_entropy(self: Operand, targets: npt.ArrayLike, axis: SupportsIndex = -1) -> TensorValue:
        """Return the mean of minus the log probability of each target.

        Parameters
        ----------
        targets : array_like of int
            Class indices in [0, classes); of the logits' shape without `axis`.
        axis : int, default -1
            The axis of classes.

        Examples
        --------
        >>> from fastinit import Tensor, TensorValue
        >>> round(TensorValue.constant(Tensor([[0.0] * 10])).cross_entropy([3]).item(), 12)
        2.302585092994
        """
        return _record(
            "cross_entropy",
            (self,),
            _positions(targets, "cross_entropy: targets"),
            as_index(axis, "cross_entropy: axis"),
        )

    def layer_norm(self: Operand, axis: AxisLike = -1, epsilon: SupportsFloat = 1e-5) -> TensorValue:
        """Return the value minus its mean over `axis`, over sqrt(variance + `epsilon`); the gain is one."""
        return _record(
            "layer_norm", (self,), _axes(axis, "layer_norm"), as_nonnegative(epsilon, "layer_norm: epsilon")
        )

    def rms_norm(self: Operand, axis: AxisLike = -1, epsilon: SupportsFloat = 1e-5) -> TensorValue:
        """Return the value over sqrt(mean square + `epsilon`) over `axis`; the gain is one."""
        return _record("rms_norm", (self,), _axes(axis, "rms_norm"), as_nonnegative(epsilon, "rms_norm: epsilon"))

    def __array__(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise TensorAutodiffError(
            "numpy cannot take a TensorValue: its gradient would be lost; use the operations of "
            "fastinit.autodiff, or read the array: x.value.values"
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


def concatenate(values: Iterable[Operand], axis: SupportsIndex = 0) -> TensorValue:
    """Return `values` joined along `axis`.

    Examples
    --------
    >>> from fastinit import Tensor, autodiff
    >>> autodiff.concatenate([Tensor([[1.0], [2.0]]), Tensor([[3.0], [4.0]])], axis=1).value
    Tensor([[1., 3.],
            [2., 4.]])
    """
    joined = tuple(values)
    if not joined:
        raise TensorAutodiffError("concatenate: there is nothing to join; give at least one value")
    return _record("concatenate", joined, as_index(axis, "concatenate: axis"))


def where(condition: npt.ArrayLike, x: Operand, y: Operand) -> TensorValue:
    """Return `x` where `condition` holds and `y` elsewhere, broadcast.

    Examples
    --------
    >>> from fastinit import Tensor, autodiff
    >>> autodiff.where([True, False], Tensor([1.0, 2.0]), 0).value
    Tensor([1., 0.])
    """
    return _record("where", (x, y), _mask(condition, "where: condition"))


def toposort(end: TensorValue) -> list[TensorValue]:
    """Return the tracked nodes that `end` depends on, `end` first, each after everything computed from it."""
    uses: dict[TensorValue, int] = {}
    stack = [end]
    while stack:
        node = stack.pop()
        uses[node] = uses.get(node, 0) + 1
        if uses[node] == 1:
            stack.extend(_parents(node))
    order = []
    stack = [end]
    while stack:
        node = stack.pop()
        order.append(node)
        for parent in _parents(node):
            uses[parent] -= 1
            if not uses[parent]:
                stack.append(parent)
    return order


def _parents(node: TensorValue) -> list[TensorValue]:
    """Return the tracked inputs of `node`, one of them twice if it was used twice."""
    record = node._record
    if record is None:
        return []
    if isinstance(record, Operation):
        raise TensorAutodiffError(
            f"the graph behind this {record.name!r} was released by an earlier backward pass; compute it again, "
            "or pass GraphRetention.RETAIN to that pass"
        )
    operation, parents, arrays, _ = record
    found = []
    for parent, array in zip(parents, arrays, strict=True):
        if parent is not None:
            if parent._values is not array:
                raise TensorAutodiffError(
                    f"mutated inputs: a leaf of shape {parent.shape} was given a new value after "
                    f"{operation.name!r} read it; compute the graph again from the new value"
                )
            found.append(parent)
    return found


def _record(name: str, inputs: tuple[Operand, ...], *options: Any) -> TensorValue:
    """Apply the operation `name`, and remember how wherever a trainable leaf is involved."""
    operation = OPERATIONS[name]
    parents: list[TensorValue | None] = []
    arrays = []
    tracked = False
    for value in inputs:
        if isinstance(value, TensorValue):
            tracked = tracked or value._tracked
            parents.append(value if value._tracked else None)
            arrays.append(value._values)
        else:
            parents.append(None)
            arrays.append(_constant(name, value))
    result = _applied(operation, arrays, options)
    record = (operation, tuple(parents), tuple(arrays), options) if tracked else None
    return TensorValue._node(result, False, record)


def _applied(operation: Operation, arrays: list[Array], options: tuple[Any, ...]) -> Array:
    with np.errstate(all="ignore"):
        try:
            result = operation.forward(*arrays, *options)
        except (ValueError, TypeError, IndexError) as error:
            raise TensorAutodiffError(f"{operation.name}{_of_shapes(arrays)}: {error}") from error
        array: Array = result if type(result) is np.ndarray else np.asarray(result)
        if not is_finite(array):
            raise TensorAutodiffError(
                f"{operation.name}{_of_shapes(arrays)}: the result is not finite; {first_not_finite(array)}"
            )
    return array


def _of_shapes(arrays: Sequence[Array]) -> str:
    return f" of shape{'s' if len(arrays) > 1 else ''} {', '.join(str(array.shape) for array in arrays)}"


def _backward(end: TensorValue, seed: Array, retention: GraphRetention) -> None:
    """Compute every leaf's new gradient, then store them all: a refused pass changes nothing."""
    if not isinstance(retention, GraphRetention):
        raise TypeError(f"retention must be a GraphRetention, got {retention!r}")
    if not end._tracked:
        raise TensorAutodiffError("this value depends on no trainable leaf; make one with TensorValue.parameter")
    order = toposort(end)
    with np.errstate(all="ignore"):
        accumulated = _accumulated(order, seed)
    for leaf, gradient in accumulated.items():
        leaf._gradient = gradient
    if retention is GraphRetention.RELEASE:
        _release(order)


def _accumulated(order: list[TensorValue], seed: Array) -> dict[TensorValue, Array]:
    """Return the leaves' gradients with what they had before; all finite."""
    accumulated = {}
    for leaf, found in _sweep(order, seed).items():
        gradient = np.asarray(found if leaf._gradient is None else leaf._gradient + found)
        if not is_finite(gradient):
            _sweep(order, seed, refuse_not_finite=True)
            raise TensorAutodiffError(f"the accumulated gradient of a leaf of shape {leaf.shape} is not finite")
        accumulated[leaf] = gradient
    return accumulated


def _sweep(order: list[TensorValue], seed: Array, refuse_not_finite: bool = False) -> dict[TensorValue, Array]:
    """Apply the rules from the end back, and return the gradients of the leaves.

    No gradient is ever written to: rules may return the array they were given, and two nodes then share it.
    """
    pending = {order[0]: seed}
    leaves = {}
    for node in order:
        gradient = pending.pop(node)
        record = node._record
        if record is None:
            leaves[node] = gradient
            continue
        operation, parents, arrays, options = record  # type: ignore[misc]
        for position, parent in enumerate(parents):
            if parent is None:
                continue
            part = operation.rules[position](gradient, node._values, *arrays, *options)
            if part.shape != arrays[position].shape:
                part = unbroadcast(part, arrays[position].shape)
            if refuse_not_finite and not is_finite(part):
                raise TensorAutodiffError(
                    f"{operation.name}{_of_shapes(arrays)}: the gradient of input {position} is not finite; "
                    f"{first_not_finite(part)}"
                )
            seen = pending.get(parent)
            pending[parent] = part if seen is None else seen + part
    return leaves


def _release(order: list[TensorValue]) -> None:
    """Cut every node from its inputs while `order` still holds them all, so that no freeing runs down a chain."""
    for node in order:
        if node._record is not None:
            node._record = node._record[0]  # type: ignore[index]


def _constant(name: str, value: object) -> Array:
    """Return the array of an operand that is no node."""
    if isinstance(value, Tensor):
        return value.values
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        raise TensorAutodiffError(
            f"{name}: an operand is a TensorValue, a Tensor or a number, got {type(value).__name__}; "
            "wrap arrays: Tensor(values)"
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise TensorAutodiffError(f"{name}: operands are finite float64 numbers, got {number}")
    return np.asarray(number)


def _axes(axis: AxisLike, name: str) -> Axes:
    if axis is None:
        return None
    if isinstance(axis, Iterable):
        return tuple(as_index(one, f"{name}: axis") for one in axis)
    return as_index(axis, f"{name}: axis")


def _integers(given: tuple[Any, ...], what: str) -> tuple[int, ...]:
    """Take ``f(2, 3)`` and ``f((2, 3))`` alike."""
    if len(given) == 1 and isinstance(given[0], Iterable):
        given = tuple(given[0])
    return tuple(as_index(one, what) for one in given)


def _basic_index(index: Any) -> tuple[Any, ...]:
    """Refuse what numpy would treat as positions or a mask: those are `gather`'s and `where`'s work."""
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(
        part if part is None or part is Ellipsis or isinstance(part, slice) else as_index(part, "slice: an index")
        for part in parts
    )


def _positions(positions: npt.ArrayLike, what: str) -> npt.NDArray[np.integer]:
    found = np.array(positions)  # a copy: the graph must not follow the caller's array
    if found.dtype.kind in "iu":  # as they are: a cast would make a negative position of a large unsigned one
        return found
    if found.size:
        raise TypeError(f"{what} must be integers, got an array of dtype {found.dtype}")
    return found.astype(np.intp)


def _mask(mask: npt.ArrayLike, what: str) -> npt.NDArray[np.bool_]:
    found = np.array(mask)  # a copy, too
    if found.dtype != np.bool_:
        raise TypeError(f"{what} must be an array of bool, got dtype {found.dtype}")
    return found


def _optional_mask(mask: npt.ArrayLike | None, what: str) -> npt.NDArray[np.bool_] | None:
    return None if mask is None else _mask(mask, what)
