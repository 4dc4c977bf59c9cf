"""Which kernels run: the best this machine has, or the one the environment variable FASTINIT_LEVEL names."""

from __future__ import annotations

import os
import warnings

from .. import _core

self_test = _core.self_test

VARIABLE = "FASTINIT_LEVEL"


def simd_level() -> str:
    """Return the name of the kernels in use, such as avx512 or portable."""
    return _core.simd_level()


def choose() -> None:
    """Select the level, once, when fastinit is imported.

    Raises
    ------
    ImportError
        If FASTINIT_LEVEL names a level that does not exist or cannot run here, or if no level gives the right
        bits.

    Warns
    -----
    RuntimeWarning
        If the level gives wrong bits on this machine; the portable one is used instead.
    """
    wanted = os.environ.get(VARIABLE) or None
    status = _core.select_level(wanted)
    if status == _core.OK:
        _test()
        return
    known = ", ".join(name if runs else f"{name} (not on this machine)" for name, runs in _core.levels().items())
    problem = "is not a level" if status == _core.UNKNOWN_LEVEL else "cannot run on this machine"
    raise ImportError(f"{VARIABLE}={wanted} {problem}; levels are: {known}; unset it to use the best")


def _test() -> None:
    if self_test():
        return
    broken = _core.simd_level()
    _core.select_level("portable")
    if not self_test():
        raise ImportError("fastinit's kernels give wrong bits on this machine; please report its CPU and compiler")
    warnings.warn(
        f"fastinit's {broken} kernels give wrong bits on this machine, so the slower portable ones are used; "
        "please report its CPU and compiler",
        RuntimeWarning,
        stacklevel=2,
    )
