"""A small reverse-mode tape in float64: leaves, operations, gradient checks and three optimizers.

Every method of `TensorValue` that computes is also a function here, under the same name and with the same options:
``silu(x)`` is ``x.silu()``. Read `tape.py` first, then `graph.py` for the backward pass, and `operations.py` for
the arithmetic.
"""

from typing import Final

from .check import check_gradients
from .graph import GraphRetention
from .optim import SGD, Adam, Momentum
from .tape import TensorValue, concatenate, where
from .tensor import Tensor

abs: Final = TensorValue.abs
add: Final = TensorValue.add
cross_entropy: Final = TensorValue.cross_entropy
divide: Final = TensorValue.divide
exp: Final = TensorValue.exp
gather: Final = TensorValue.gather
gelu: Final = TensorValue.gelu
layer_norm: Final = TensorValue.layer_norm
leaky_relu: Final = TensorValue.leaky_relu
log: Final = TensorValue.log
log_softmax: Final = TensorValue.log_softmax
matmul: Final = TensorValue.matmul
max: Final = TensorValue.max
mean: Final = TensorValue.mean
multiply: Final = TensorValue.multiply
negative: Final = TensorValue.negative
norm: Final = TensorValue.norm
power: Final = TensorValue.power
relu: Final = TensorValue.relu
reshape: Final = TensorValue.reshape
rms_norm: Final = TensorValue.rms_norm
sigmoid: Final = TensorValue.sigmoid
silu: Final = TensorValue.silu
slice: Final = TensorValue.slice
softmax: Final = TensorValue.softmax
softplus: Final = TensorValue.softplus
sqrt: Final = TensorValue.sqrt
subtract: Final = TensorValue.subtract
sum: Final = TensorValue.sum
tanh: Final = TensorValue.tanh
transpose: Final = TensorValue.transpose

__all__ = [
    "SGD",
    "Adam",
    "GraphRetention",
    "Momentum",
    "Tensor",
    "TensorValue",
    "abs",
    "add",
    "check_gradients",
    "concatenate",
    "cross_entropy",
    "divide",
    "exp",
    "gather",
    "gelu",
    "layer_norm",
    "leaky_relu",
    "log",
    "log_softmax",
    "matmul",
    "max",
    "mean",
    "multiply",
    "negative",
    "norm",
    "power",
    "relu",
    "reshape",
    "rms_norm",
    "sigmoid",
    "silu",
    "slice",
    "softmax",
    "softplus",
    "sqrt",
    "subtract",
    "sum",
    "tanh",
    "transpose",
    "where",
]
