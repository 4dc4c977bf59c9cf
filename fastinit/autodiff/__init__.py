"""A small reverse-mode tape in float64: leaves, operations, gradient checks and three optimizers.

Every method of `TensorValue` that computes is also a function here, under the same name and with the same options:
``silu(x)`` is ``x.silu()``. Read `tape.py` first, then `graph.py` for the backward pass, and `operations.py` for
the arithmetic.
"""

from .check import check_gradients
from .graph import GraphRetention
from .optim import SGD, Adam, Momentum
from .tape import TensorValue, concatenate, where
from .tensor import Tensor

abs = TensorValue.abs
add = TensorValue.add
cross_entropy = TensorValue.cross_entropy
divide = TensorValue.divide
exp = TensorValue.exp
gather = TensorValue.gather
gelu = TensorValue.gelu
layer_norm = TensorValue.layer_norm
leaky_relu = TensorValue.leaky_relu
log = TensorValue.log
log_softmax = TensorValue.log_softmax
matmul = TensorValue.matmul
max = TensorValue.max
mean = TensorValue.mean
multiply = TensorValue.multiply
negative = TensorValue.negative
norm = TensorValue.norm
power = TensorValue.power
relu = TensorValue.relu
reshape = TensorValue.reshape
rms_norm = TensorValue.rms_norm
sigmoid = TensorValue.sigmoid
silu = TensorValue.silu
slice = TensorValue.slice
softmax = TensorValue.softmax
softplus = TensorValue.softplus
sqrt = TensorValue.sqrt
subtract = TensorValue.subtract
sum = TensorValue.sum
tanh = TensorValue.tanh
transpose = TensorValue.transpose

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
