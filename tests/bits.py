"""Comparing arrays with reference weights, bit for bit, and saying where they part."""

import ml_dtypes
import numpy as np
import reference

from fastinit import _core
from fastinit._engine.distributions import CenteredUniform, Uniform

NUMPY = {
    name: np.dtype(name) if hasattr(np, name) else np.dtype(getattr(ml_dtypes, name)) for name in reference.FORMATS
}
"""dtype name -> numpy dtype"""

DTYPES = list(NUMPY)


def weight(content, draw, dtype):
    """What the reference stores for one draw."""
    form = reference.FORMATS[dtype]
    if isinstance(content, CenteredUniform):
        return reference.centered_weight(draw, content.limit, form)
    if isinstance(content, Uniform):
        return reference.uniform_weight(draw, content.low, content.high, form)
    return reference.narrowed(content.value, form)


def bits_of(array):
    """The stored bits of any array, as native unsigned integers in logical order."""
    plain = np.array(array, order="C", subok=False)
    bits = plain.view(f"u{plain.itemsize}")
    return bits if plain.dtype.isnative else bits.byteswap()


def patterns(weights, dtype, shape=(-1,)):
    """The bits the reference stores for these weights."""
    form = reference.FORMATS[dtype]
    bits = np.array([reference.pattern(w, form) for w in weights], dtype=f"u{form.width // 8}")
    return bits.reshape(shape)


def assert_bits(actual, expected, what):
    """`actual` is any array, `expected` unsigned integers of its shape; `what` tells how to draw it again."""
    found = bits_of(actual)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    wrong = np.argwhere(found != expected)
    if wrong.size:
        where = tuple(int(i) for i in wrong[0])
        digits = 2 * found.itemsize
        raise AssertionError(
            f"{what}, level {_core.simd_level()}: {len(wrong)} of {found.size} elements differ, first at {where}: "
            f"{np.asarray(actual)[where]!r} = 0x{int(found[where]):0{digits}x}, "
            f"reference 0x{int(expected[where]):0{digits}x}"
        )
