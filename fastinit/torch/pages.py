"""Huge pages for a model that was built and not yet touched.

A fill advises the aligned inside of a large tensor itself. The tensors of a model lie side by side: advised
together they are huge pages from end to end, small ones too. Touching fresh memory is most of what a start costs.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Iterator

from .contents import Tensor

_LEAST = 1 << 18
"""Bytes of a tensor that lies in a mapping of its own, and not among the small objects of the heap."""

_GAP = 1 << 16
"""Bytes between two tensors that lie side by side: an allocator's header, the rest of a page."""


def advise_huge_pages(tensors: Iterable[Tensor]) -> None:
    """Advise the memory of CPU tensors to huge pages; a hint, which systems without them do not get."""
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is None:
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for begin, end in _joined(sorted(_ranges(tensors))):
        madvise(begin, end - begin, advice)


def _ranges(tensors: Iterable[Tensor]) -> Iterator[tuple[int, int]]:
    """Yield the pages of each tensor that is worth it."""
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.device.type == "cpu" and storage.nbytes() >= _LEAST:
            begin = storage.data_ptr()
            yield begin & -mmap.PAGESIZE, (begin + storage.nbytes() + mmap.PAGESIZE - 1) & -mmap.PAGESIZE


def _joined(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield sorted ranges, joined where the next begins close behind."""
    held: tuple[int, int] | None = None
    for begin, end in ranges:
        if held is not None and begin <= held[1] + _GAP:
            held = held[0], max(held[1], end)
            continue
        if held is not None:
            yield held
        held = begin, end
    if held is not None:
        yield held
