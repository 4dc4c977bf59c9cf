"""A host process with another floating-point environment: a rounding mode, or subnormals flushed to zero."""

import contextlib
import ctypes
import ctypes.util
import platform
import sys

import pytest

_ARM = platform.machine().lower() in ("arm64", "aarch64")
ROUNDING = {
    "downward": 0x800000 if _ARM else 0x400,
    "upward": 0x400000 if _ARM else 0x800,
    "towardzero": 0xC00000 if _ARM else 0xC00,
}
"""The FE_ constants of <fenv.h>"""

if platform.machine().lower() not in ("arm64", "aarch64", "x86_64", "amd64"):
    ROUNDING = {}

_libm = ctypes.CDLL(ctypes.util.find_library("m") or None)


def quotients():
    """1/3 (nearest is below) and 1/10 (above), of both signs, as the hardware divides now."""
    one, three, ten = float("1"), float("3"), float("10")
    return one / three, -one / three, one / ten, -one / ten


@contextlib.contextmanager
def rounding(mode):
    """Run under another rounding mode, and prove that it was on from the first to the last line."""
    nearest, before = quotients(), _libm.fegetround()
    assert _libm.fesetround(ROUNDING[mode]) == 0
    try:
        on = quotients()
        yield
        still, name = quotients(), _libm.fegetround()
    finally:
        _libm.fesetround(before)
    assert on != nearest, f"the host's rounding mode {mode} had no effect, so the test shows nothing"
    assert (still, name) == (on, ROUNDING[mode]), f"the host's rounding mode {mode} was not restored"


def flushes():
    smallest, two = float("5e-324"), float("2")
    return smallest * two == 0


@contextlib.contextmanager
def flushing():
    """Run with subnormals flushed to zero, on input and output."""
    environment = ctypes.create_string_buffer(64)
    if not sys.platform.startswith("linux") or not ROUNDING:
        pytest.skip("the layout of fenv_t is known here for Linux on x86-64 and aarch64 only")
    word = ctypes.c_uint32.from_buffer(environment, 0 if _ARM else 28)
    _libm.fegetenv(environment)
    before = word.value
    word.value |= 1 << 24 if _ARM else 0x8040
    _libm.fesetenv(environment)
    try:
        on = flushes()
        yield
        still = flushes()
    finally:
        word.value = before
        _libm.fesetenv(environment)
    assert on, "flushing subnormals had no effect, so the test shows nothing"
    assert still, "the host's flush-to-zero was not restored"
