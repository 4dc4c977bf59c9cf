"""What a tensor is by the numbers in it alone: a mask, a table of angles, a ramp. None of them was drawn.

A few thousand weights tell: no draw repeats two numbers, rises all the way, or has rows of sines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .expected import relative_step
from .measured import Measured
from .stored import StoredTensor

_Array = np.ndarray[Any, Any]

_FEW = 2  # different numbers in a mask
_LEAST = 8  # weights that tell a table from a draw
_ROWS = 64  # of a table of angles that are read
_WIDEST = 1 << 16  # numbers in a row: a wider one is no table of angles
_SHARE = 16  # a mask hides at least so small a part of its places


def is_mask(m: Measured, sample: _Array) -> bool:
    """Say whether a tensor is minus infinity in some places and one number in all others.

    A run that had diverged leaves NaN, infinities of both signs, or different weights between them.
    """
    hides = m.inf * _SHARE >= m.inf + m.finite
    return bool(m.inf and m.finite and not m.nan and m.low == m.high and hides and not np.isposinf(sample).any())


def table(tensor: StoredTensor, m: Measured, sample: _Array) -> str:
    """Return what a tensor is by its numbers, in words that follow "it is"; "" where it may have been drawn."""
    if m.nan or m.inf or m.finite < _LEAST:
        return ""
    few = np.unique(sample)
    if len(few) <= _FEW:
        return f"a mask or a pattern of the numbers {' and '.join(f'{x:.6g}' for x in few)}"
    if (sample == np.round(sample)).all() and m.high - m.low < m.finite * _SHARE:
        return "a table of whole numbers"
    if max(tensor.spec.shape) == tensor.spec.size and _is_regular(sample):
        return "a ramp, or a row that reads the same from both ends"
    rows = _rows(tensor)
    if rows is not None and _is_repeated_ramp(rows):
        return "a table whose rows are one ramp"
    if rows is not None and _is_within_one(tensor, m) and (_are_sines(rows, tensor) or _are_angles(rows, tensor)):
        return "a table of sines or cosines"
    return ""


def _is_regular(row: _Array) -> bool:
    """Say whether numbers rise or fall from each to the next, or read the same backwards."""
    steps = np.diff(row)
    return bool((steps >= 0).all() or (steps <= 0).all() or (row == row[::-1]).all())


def _is_repeated_ramp(rows: _Array) -> bool:
    return bool(rows.shape[1] >= _LEAST and (rows == rows[0]).all() and _is_regular(rows[0]))


def _rows(tensor: StoredTensor) -> _Array | None:
    """Return the first rows of a table, None of what is no table."""
    shape = tensor.spec.shape
    wide = shape[-1] if shape else 0
    count = min(_ROWS, tensor.spec.size // max(wide, 1))
    return tensor.values(0, count * wide).reshape(count, wide) if 1 < wide <= _WIDEST and count > 1 else None


def _is_within_one(tensor: StoredTensor, m: Measured) -> bool:
    return max(-m.low, m.high) <= 1 + 2 * relative_step(tensor.spec.dtype)


def _are_sines(rows: _Array, tensor: StoredTensor) -> bool:
    """Say whether each row has as many sines as cosines of the same angles, in any order: their squares add up.

    The row of a padding token may be zero.
    """
    kept = rows[np.abs(rows).max(axis=1) > 0]
    if len(kept) < 2:
        return False
    half = rows.shape[1] // 2
    return bool((np.abs((kept**2).sum(axis=1) - half) <= half * 8 * _error(tensor)).all())


def _are_angles(rows: _Array, tensor: StoredTensor) -> bool:
    """Say whether row n is the cosine, or the sine, of n times the angles of row 1."""
    if len(rows) < _LEAST:
        return False
    first, once, multiples = rows[0], np.clip(rows[1], -1, 1), np.arange(_LEAST)[:, None]
    if (first == 1).all():
        expected = np.cos(multiples * np.arccos(once))
    elif (first == 0).all():
        expected = np.sin(multiples * np.arcsin(once))
    else:
        return False
    return bool((np.abs(rows[:_LEAST] - expected) <= _LEAST**2 * _error(tensor)).all())


def _error(tensor: StoredTensor) -> float:
    """Return how far the square of a stored sine may be off, of 1; no less than float32's angles are."""
    return max(4 * relative_step(tensor.spec.dtype), 1e-6)
