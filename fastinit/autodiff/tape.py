"""The tape: `TensorValue` records every operation on it, so that a backward pass can walk the record.

A value that depends on a trainable leaf remembers its operation, its inputs and their arrays. `node.py` has
values without operations, `graph.py` walks the record, `operands.py` checks the arguments of the methods here, and
`operations.py` has the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from .._engine.checks import as_finite, as_index, as_nonnegative
from ..errors import TensorAutodiffError
from .graph import of_shapes
from .node import Node
from .operands import AxisLike, array_of, axes_of, basic_index, integers, mask_of, optional_mask, positions
from .operations import OPERATIONS, Array, Operation
from .tensor import Tensor, first_not_finite, is_finite

Operand: TypeAlias = Union["TensorValue", Tensor, float]
"""An input of an operation."""


class TensorValue(Node):
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
    ((2,), True, Tensor([0., 0.]))
    >>> loss = (3 * leaf**2).sum()
    >>> loss.item()
    15.0
    >>> loss.backward()
    >>> leaf.gradient_snapshot()
    Tensor([ 6., 12.])
    """

    __slots__ = ()

    # Arithmetic. A method takes numbers and Tensors as `self` too: called through its class, it is a function.

    def add(self: Operand, other: Operand) -> TensorValue:
        """Return the sum, broadcast."""
        return _apply("add", (self, other))

    def subtract(self: Operand, other: Operand) -> TensorValue:
        """Return the difference, broadcast."""
        return _apply("subtract", (self, other))

    def multiply(self: Operand, other: Operand) -> TensorValue:
        """Return the product element by element, broadcast."""
        return _apply("multiply", (self, other))

    def divide(self: Operand, other: Operand) -> TensorValue:
        """Return the quotient, broadcast."""
        return _apply("divide", (self, other))

    def power(self: Operand, exponent: Operand) -> TensorValue:
        """Return the power, broadcast; where the exponent is 0 the gradient of the base is 0."""
        return _apply("power", (self, exponent))

    def negative(self: Operand) -> TensorValue:
        """Return the value with its sign changed."""
        return _apply("negative", (self,))

    def matmul(self: Operand, other: Operand) -> TensorValue:
        """Return the matrix product; axes before the last two are a batch, and broadcast.

        Examples
        --------
        >>> from fastinit import Tensor, TensorValue
        >>> (TensorValue.constant(Tensor([[1.0, 2.0]])) @ Tensor([3.0, 4.0])).value
        Tensor([11.])
        """
        return _apply("matmul", (self, other))

    def __add__(self, other: Operand) -> TensorValue:
        return _apply("add", (self, other))

    def __radd__(self, other: Operand) -> TensorValue:
        return _apply("add", (other, self))

    def __sub__(self, other: Operand) -> TensorValue:
        return _apply("subtract", (self, other))

    def __rsub__(self, other: Operand) -> TensorValue:
        return _apply("subtract", (other, self))

    def __mul__(self, other: Operand) -> TensorValue:
        return _apply("multiply", (self, other))

    def __rmul__(self, other: Operand) -> TensorValue:
        return _apply("multiply", (other, self))

    def __truediv__(self, other: Operand) -> TensorValue:
        return _apply("divide", (self, other))

    def __rtruediv__(self, other: Operand) -> TensorValue:
        return _apply("divide", (other, self))

    def __pow__(self, exponent: Operand) -> TensorValue:
        return _apply("power", (self, exponent))

    def __rpow__(self, base: Operand) -> TensorValue:
        return _apply("power", (base, self))

    def __matmul__(self, other: Operand) -> TensorValue:
        return _apply("matmul", (self, other))

    def __rmatmul__(self, other: Operand) -> TensorValue:
        return _apply("matmul", (other, self))

    def __neg__(self) -> TensorValue:
        return _apply("negative", (self,))

    def __abs__(self) -> TensorValue:
        return _apply("abs", (self,))

    # Reductions

    def sum(self: Operand, axis: AxisLike = None, keepdims: bool = False) -> TensorValue:
        """Return the sum over `axis` (None: over all)."""
        return _apply("sum", (self,), axes_of(axis, "sum"), bool(keepdims))

    def mean(self: Operand, axis: AxisLike = None, keepdims: bool = False) -> TensorValue:
        """Return the mean over `axis` (None: over all); the mean of nothing is refused."""
        return _apply("mean", (self,), axes_of(axis, "mean"), bool(keepdims))

    def max(self: Operand, axis: AxisLike = None, keepdims: bool = False) -> TensorValue:
        """Return the largest element over `axis` (None: over all); equal ones share the gradient evenly."""
        return _apply("max", (self,), axes_of(axis, "max"), bool(keepdims))

    def norm(self: Operand, axis: AxisLike = None, keepdims: bool = False) -> TensorValue:
        """Return the Euclidean norm over `axis` (None: over all); its gradient at 0 is 0."""
        return _apply("norm", (self,), axes_of(axis, "norm"), bool(keepdims))

    # Shapes and parts

    def reshape(self: Operand, *shape: Any) -> TensorValue:
        """Return the value in another shape, row-major; one length may be -1."""
        return _apply("reshape", (self,), integers(shape, "reshape: a shape entry"))

    def transpose(self: Operand, *axes: Any) -> TensorValue:
        """Return the value with its axes permuted; without `axes`, reversed."""
        return _apply(
            "transpose", (self,), integers(axes, "transpose: an axis") if axes and axes != (None,) else None
        )

    @property
    def T(self) -> TensorValue:
        """The value with its axes reversed."""
        return _apply("transpose", (self,), None)

    def slice(self: Operand, index: Any) -> TensorValue:
        """Return ``x[index]``: ints, slices, Ellipsis, None, or a tuple of them."""
        return _apply("slice", (self,), basic_index(index))

    def __getitem__(self, index: Any) -> TensorValue:
        return _apply("slice", (self,), basic_index(index))

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
        return _apply("gather", (self,), positions(rows, "gather: rows"))

    def concatenate(self: Operand, *others: Operand, axis: SupportsIndex = 0) -> TensorValue:
        """Return this value and `others`, joined along `axis`."""
        return concatenate((self, *others), axis)

    def where(self: Operand, condition: npt.ArrayLike, other: Operand) -> TensorValue:
        """Return this value where `condition` holds and `other` elsewhere, broadcast."""
        return where(condition, self, other)

    # Functions of one element

    def exp(self: Operand) -> TensorValue:
        """Return e to the power of each element."""
        return _apply("exp", (self,))

    def log(self: Operand) -> TensorValue:
        """Return the natural logarithm; of positive values only."""
        return _apply("log", (self,))

    def sqrt(self: Operand) -> TensorValue:
        """Return the square root; at 0 it has a value, and its backward pass is refused."""
        return _apply("sqrt", (self,))

    def abs(self: Operand) -> TensorValue:
        """Return the magnitude; its gradient at 0 is 0."""
        return _apply("abs", (self,))

    def tanh(self: Operand) -> TensorValue:
        """Return the hyperbolic tangent."""
        return _apply("tanh", (self,))

    def sigmoid(self: Operand) -> TensorValue:
        """Return 1 / (1 + exp(-x))."""
        return _apply("sigmoid", (self,))

    def relu(self: Operand) -> TensorValue:
        """Return max(x, 0); its gradient at 0 is 0."""
        return _apply("relu", (self,))

    def leaky_relu(self: Operand, slope: SupportsFloat = 0.01) -> TensorValue:
        """Return x where it is positive, else `slope` times x; the gradient at 0 is `slope`."""
        return _apply("leaky_relu", (self,), as_finite(slope, "leaky_relu: slope"))

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
        return _apply("gelu" if form == "erf" else "gelu_tanh", (self,))

    def silu(self: Operand) -> TensorValue:
        """Return x times sigmoid(x), also called swish."""
        return _apply("silu", (self,))

    def softplus(self: Operand) -> TensorValue:
        """Return log(1 + exp(x))."""
        return _apply("softplus", (self,))

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
        return _apply("softmax", (self,), as_index(axis, "softmax: axis"), optional_mask(mask, "softmax: mask"))

    def log_softmax(self: Operand, axis: SupportsIndex = -1, mask: npt.ArrayLike | None = None) -> TensorValue:
        """Return the logarithms of the probabilities along `axis`.

        A masked entry (see `softmax`) has the lowest finite float64, whose exponential is 0, and gradient 0.
        """
        return _apply(
            "log_softmax", (self,), as_index(axis, "log_softmax: axis"), optional_mask(mask, "log_softmax: mask")
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
        return _apply(
            "cross_entropy",
            (self,),
            positions(targets, "cross_entropy: targets"),
            as_index(axis, "cross_entropy: axis"),
        )

    def layer_norm(self: Operand, axis: AxisLike = -1, epsilon: SupportsFloat = 1e-5) -> TensorValue:
        """Return the value minus its mean over `axis`, over sqrt(variance + `epsilon`); the gain is one."""
        return _apply(
            "layer_norm", (self,), axes_of(axis, "layer_norm"), as_nonnegative(epsilon, "layer_norm: epsilon")
        )

    def rms_norm(self: Operand, axis: AxisLike = -1, epsilon: SupportsFloat = 1e-5) -> TensorValue:
        """Return the value over sqrt(mean square + `epsilon`) over `axis`; the gain is one."""
        return _apply("rms_norm", (self,), axes_of(axis, "rms_norm"), as_nonnegative(epsilon, "rms_norm: epsilon"))


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
    return _apply("concatenate", joined, as_index(axis, "concatenate: axis"))


def where(condition: npt.ArrayLike, x: Operand, y: Operand) -> TensorValue:
    """Return `x` where `condition` holds and `y` elsewhere, broadcast.

    Examples
    --------
    >>> from fastinit import Tensor, autodiff
    >>> autodiff.where([True, False], Tensor([1.0, 2.0]), 0).value
    Tensor([1., 0.])
    """
    return _apply("where", (x, y), mask_of(condition, "where: condition"))


def _apply(name: str, inputs: tuple[Operand, ...], *options: Any) -> TensorValue:
    """Apply the operation `name`; record it where a trainable leaf is involved."""
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
            arrays.append(array_of(name, value))
    result = _forward(operation, arrays, options)
    record = (operation, tuple(parents), tuple(arrays), options) if tracked else None
    return TensorValue._node(result, False, record)


def _forward(operation: Operation, arrays: list[Array], options: tuple[Any, ...]) -> Array:
    with np.errstate(all="ignore"):
        try:
            result = operation.forward(*arrays, *options)
        except (ValueError, TypeError, IndexError) as error:
            raise TensorAutodiffError(f"{operation.name}{of_shapes(arrays)}: {error}") from error
        array: Array = result if type(result) is np.ndarray else np.asarray(result)
        if not is_finite(array):
            raise TensorAutodiffError(
                f"{operation.name}{of_shapes(arrays)}: the result is not finite; {first_not_finite(array)}"
            )
    return array
