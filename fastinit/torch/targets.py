"""Where weights of torch go: the memory of a tensor, and what torch must be told of a write to it.

A write through numpy is invisible to autograd: a saved tensor changes, and a gradient comes out wrong without a
word. So nothing here hands out memory but `writing`, which tells torch afterwards. Read `writing` first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch.autograd.graph import increment_version

from .._engine.annotations import FloatName
from .._engine.dtypes import FLOAT_NAMES, FLOATS, DType
from .._engine.parts import Array
from .._engine.targets import allocate

_STORED = {getattr(torch, dtype.name): dtype for dtype in FLOATS}
"""torch's dtypes of weights, each under the name it has here."""


class Memory(NamedTuple):
    """Memory to fill: an array, unsigned bit patterns where numpy lacks the dtype, and the dtype's name."""

    array: Array
    dtype: FloatName


@contextmanager
def writing(tensor: torch.Tensor) -> Iterator[Memory]:
    """Give the memory of a tensor to write to, and tell torch of the write when it is done.

    Every function of fastinit takes it as ``out=`` and ``dtype=``; `index` then fills a part of a larger tensor.
    Write all of the memory: it need not hold what the tensor does.

    Parameters
    ----------
    tensor : torch.Tensor
        Of a dtype that weights are stored in, in any memory order. A tensor that is not ordinary CPU memory gets
        its values by torch's ``copy_`` from memory that is.

    Yields
    ------
    array : numpy.ndarray
        The memory, of the tensor's shape; unsigned integers for bfloat16 and float8.
    dtype : str
        The dtype's name.

    Raises
    ------
    TypeError
        If it is no dense tensor of such a dtype, or a tensor without values (a meta tensor).
    RuntimeError
        torch's own, before anything is written, where it refuses an operation in place: a leaf that requires grad
        outside of ``torch.no_grad()``, an inference tensor outside of inference mode, elements that share memory.

    Examples
    --------
    >>> import torch
    >>> import fastinit.torch
    >>> shard = torch.empty(2, 4)
    >>> with torch.no_grad(), fastinit.torch.writing(shard) as (array, dtype):
    ...     _ = fastinit.xavier_uniform((8, 4), 17, out=array, dtype=dtype, index=slice(2, 4), layout="oi")
    >>> shard._version
    1
    """
    dtype = _checked(tensor)
    _refuse_as_torch_does(tensor)
    if _is_ordinary(tensor):
        try:
            yield Memory(_memory(tensor, dtype), cast(FloatName, dtype.name))
        finally:  # an interrupted write has written too
            increment_version(tensor)
    else:
        staged, memory = _stage(tensor, dtype)
        yield Memory(memory, cast(FloatName, dtype.name))
        tensor.copy_(staged)


def refuse_unwritable(tensor: torch.Tensor) -> DType:
    """Raise what `writing` would, of a tensor without memory too, which may get some; return its dtype."""
    if tensor.is_meta:
        return _dense(tensor)
    dtype = _checked(tensor)
    with torch.no_grad():
        _refuse_as_torch_does(tensor)
    _refuse_freed(tensor)
    return dtype


def stored_dtype(tensor: torch.Tensor) -> DType | None:
    """Return the tensor's dtype; None where no weights are stored in it."""
    return _STORED.get(tensor.dtype)


def has_no_values(tensor: torch.Tensor) -> bool:
    """Say whether there is nothing to write: of a meta or fake tensor torch knows the shape only."""
    return tensor.is_meta or (holds_others(tensor) and _is_fake(tensor))


def _is_fake(tensor: torch.Tensor) -> bool:
    from torch._subclasses import FakeTensor  # noqa: PLC0415  # torch has not loaded it before there is one

    return isinstance(tensor, FakeTensor)


def holds_others(tensor: torch.Tensor) -> bool:
    """Say whether its class keeps the values elsewhere (DTensor, a quantized weight): it has no memory itself."""
    return not is_plain_class(type(tensor))


def is_plain_class(kind: type) -> bool:
    """Say whether tensors of a class are memory, and torch's operations on them torch's own."""
    return bool(kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__)  # type: ignore[attr-defined]


def _checked(tensor: torch.Tensor) -> DType:
    """Return the dtype of a dense tensor that has values of its own; else say what it is."""
    dtype = _dense(tensor)
    if has_no_values(tensor):
        raise TypeError("a meta tensor has no memory; give it some with to_empty(device='cpu')")
    if holds_others(tensor):
        raise TypeError(
            f"the values of this {type(tensor).__name__} lie in other tensors; fill those, with index= where each "
            "is a part of one weight"
        )
    return dtype


def _dense(tensor: torch.Tensor) -> DType:
    """Return the dtype of a dense tensor; else say what it is."""
    dtype = stored_dtype(tensor)
    if dtype is None:
        raise TypeError(f"tensor must have one of the dtypes {FLOAT_NAMES}; got {tensor.dtype}")
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise TypeError(
            f"weights fill a dense tensor, got layout {tensor.layout}; fill a dense one, then convert it"
        )
    return dtype


def _refuse_freed(tensor: torch.Tensor) -> None:
    """Refuse a tensor whose storage was freed: torch itself would end the process."""
    if tensor.numel() and not tensor.untyped_storage().nbytes():
        raise RuntimeError("the storage of this tensor was freed (as FSDP does between uses); there is no memory")


def _refuse_as_torch_does(tensor: torch.Tensor) -> None:
    """Raise torch's own error where it refuses to change the tensor in place, before a draw is made for it."""
    if tensor.is_inference() or (tensor.requires_grad and tensor.is_leaf and torch.is_grad_enabled()):
        tensor.copy_(tensor)  # nothing to copy, so torch only checks
    if not tensor.is_contiguous() and 0 in tensor.stride():
        corner = tensor[
            (slice(2),) * tensor.dim()
        ]  # of two elements along each axis: what is shared there is refused
        corner.copy_(corner.clone())


def _is_ordinary(tensor: torch.Tensor) -> bool:
    """Say whether the tensor is CPU memory that may be written while torch does not look."""
    return (
        tensor.device.type == "cpu"
        and not (tensor.requires_grad and torch.is_grad_enabled())  # the write has a place in a graph
        and not tensor.is_neg()  # a view that reads every element with its sign changed
        and not torch._C._len_torch_dispatch_stack()  # a mode wants to see every operation,
        and not torch._C._is_tracing()  # and so does a trace
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # vmap's and grad's have no memory
    )


def _memory(tensor: torch.Tensor, dtype: DType) -> Array:
    """Return an array that shares the tensor's memory."""
    _refuse_freed(tensor)
    return (
        np.asarray(_Address(tensor.detach(), dtype.bits)) if tensor.numel() else np.empty(tensor.shape, dtype.bits)
    )


class _Address:
    """What numpy's arrays are made of; ``Tensor.numpy`` would forbid torch to resize the storage, for good."""

    def __init__(self, tensor: torch.Tensor, dtype: np.dtype[Any]) -> None:
        self._tensor = tensor  # keeps the memory
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), False),
            "shape": tuple(tensor.shape),
            "strides": tuple(stride * tensor.itemsize for stride in tensor.stride()),
            "typestr": dtype.str,
        }


def _stage(tensor: torch.Tensor, dtype: DType) -> tuple[torch.Tensor, Array]:
    """Return an ordinary tensor to copy from, and its memory; pinned for a GPU, which then reads it directly."""
    if tensor.device.type == "cuda":
        staged = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
        return staged, _memory(staged, dtype)
    memory = allocate(tuple(tensor.shape), dtype.bits)
    if not memory.size:  # frombuffer knows no empty memory
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu"), memory
    return torch.frombuffer(memory, dtype=tensor.dtype).reshape(tensor.shape), memory
