"""The three populations in numpy and exact fractions alone."""

import math
from fractions import Fraction

import numpy as np
from conftest import xavier_weights


def reference_weights(seed):
    """The three matrices, by numpy alone."""
    xavier = xavier_weights(seed, (64, 64), 128)
    return {"zero": np.zeros((64, 64)), "oversized": 2 * xavier, "xavier": xavier}


def exact(values):
    """Extremes, mean, variance and counts of the nine bins, in rational arithmetic."""
    fractions = [Fraction(value) for value in values.ravel().tolist()]
    mean = sum(fractions) / len(fractions)
    variance = sum((value - mean) ** 2 for value in fractions) / len(fractions)
    counts = [0] * 9
    for value in fractions:
        counts[math.floor(value * 10 + Fraction(9, 2))] += 1
    return float(min(fractions)), float(max(fractions)), float(mean), float(variance), tuple(counts)
