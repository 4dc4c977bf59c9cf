"""Inputs that several tests share: what is refused where an unsigned 64-bit integer is due, and rare places."""

import numpy as np
import reference

REFUSED_INTEGERS = [
    (1.9, TypeError),
    (17.0, TypeError),
    (np.float64(17), TypeError),
    (True, TypeError),
    (np.True_, TypeError),
    (None, TypeError),
    ("17", TypeError),
    (b"17", TypeError),
    (-1, ValueError),
    (np.int64(-1), ValueError),
    (2**64, ValueError),
    (1 << 5000, ValueError),
]
"""(value, the error it must raise; never OverflowError)"""

STATES = [0, 1, 17, 1234567, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, 2**64 - reference.GAMMA]
"""Ordinary seeds, and states whose next step carries, wraps past 2**64 or lands on 0."""

EDGE_DRAWS = [0, 1, 2**11 - 1, 2**11, 2**63 - 1, 2**63, 2**63 + 2**11, 2**64 - 2**12, 2**64 - 2**11, 2**64 - 1]
"""Draws at the ends and in the middle of every interval: k = 0, 1, 2**52 - 1, 2**52, ..., 2**53 - 1."""
