"""Which kernels run: the best this machine has, or the one the environment variable FASTINIT_LEVEL names."""

from __future__ import annotations

import os
import warnings

try:
    # The code that Cython generates for _core imports inspect, and may crash the process if it cannot.
    from inspect import CO_OPTIMIZED  # noqa: F401
except Exception as error:
    raise ImportError(
        f"fastinit needs Python's own module inspect, which cannot be imported here: {error}; the usual cause is "
        "a file of yours that has the name of a standard module (token.py, types.py, ...): rename it"
    ) from error

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
    levels = _core.levels()
    if wanted is None or levels.get(wanted):
        _core.select_level(wanted)
        _test()
        return
    known = ", ".join(name if runs else f"{name} (not on this machine)" for name, runs in levels.items())
    problem = "cannot run on this machine" if wanted in levels else "is not a level"
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
