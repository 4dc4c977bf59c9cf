"""Tensors and trainable leaves: what a parameter holds, and where its gradient will accumulate."""

from .tape import TensorValue
from .tensor import Tensor

__all__ = ["Tensor", "TensorValue"]
