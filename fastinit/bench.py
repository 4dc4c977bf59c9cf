"""What a fill is measured against: the speed of memory itself, in the same run."""

from __future__ import annotations

import ctypes
import statistics
import time

import numpy as np


def memset_seconds(nbytes: int, repeats: int = 5) -> float:
    """Return the median time libc's memset takes over `nbytes` of resident memory.

    Parameters
    ----------
    nbytes : int
        Bytes; of more than 1 GiB only 1 GiB is written, and the time scaled.
    repeats : int, default 5
        Runs to take the median of.
    """
    measured = min(nbytes, 1 << 30)
    if measured == 0:
        return 0.0
    buffer = np.ones(measured, np.uint8)
    address = buffer.ctypes.data
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        ctypes.memset(address, 0, measured)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * (nbytes / measured)
