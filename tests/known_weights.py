"""The weights that csrc/selftest.c must know, by the plain Python of the references.

``python tests/known_weights.py`` prints its lines ``#define KNOWN_<base>_<dtype>``. It imports nothing of
fastinit, which refuses to be imported while they are wrong.
"""

import itertools
import math
import struct
from collections.abc import Iterable

import reference
import reference_quantile

COUNT = 75
STATE = -41 * reference.GAMMA % reference.WORD  # draw 40 is 0
DRAWS = [reference.draw(STATE, i) for i in range(COUNT)]
ABOVE_MINUS_ONE = tuple(
    map(float.fromhex, ("0x1.44ed0bb7cb20bp-2", "0", "0x1.aec4bd120d37dp-54", "0x1.9f734e17374ccp+51"))
)


WITHIN_TWO = tuple(map(float.fromhex, ("0x1.74bcf82c9d860p-5",) * 2 + ("0x1.e8b4307d3627ap-54", "0x1p52")))


def truncated_weight_around_0(draw, form):
    bound = reference.smallest_at_least(0.7 * -2.0, form)
    weight = reference.narrowed(0.7 * reference_quantile.near(draw >> 11, -2.0, 2.0, WITHIN_TWO), form)
    return min(max(weight, bound), -bound)


def truncated_weight(draw, form):
    weight = 0.3 + 0.7 * reference_quantile.near(draw >> 11, -1.0, math.inf, ABOVE_MINUS_ONE)
    return max(reference.narrowed(weight, form), reference.smallest_at_least(0.3 + 0.7 * -1.0, form))


KNOWN = {
    "constant": lambda draw, form: reference.narrowed(0.1, form),
    "uniform": lambda draw, form: reference.uniform_weight(draw, -0.3, 0.7, form),
    "centered_uniform": lambda draw, form: reference.centered_weight(draw, 1.3, form),
    "normal": lambda draw, form: reference.narrowed(reference_quantile.normal(draw >> 11, 0.3, 0.7), form),
    "truncated_normal": truncated_weight,
    "normal_around_0": lambda draw, form: reference.narrowed(
        reference_quantile.normal(draw >> 11, 0.0, 0.7), form
    ),
    "truncated_normal_around_0": truncated_weight_around_0,
}
"""base -> the weight of a draw, with the parameters of csrc/selftest.c; in the order of csrc/fastinit.h. Around 0
narrow weights take the short ways of csrc/brief.h."""


def fnv1a(words):
    value = 0xCBF29CE484222325
    for word in words:
        value = (value ^ word) * 0x100000001B3 % reference.WORD
    return value


def float64_words(values):
    return struct.unpack(f"<{len(values)}Q", struct.pack(f"<{len(values)}d", *values))


def known_scales():
    """Python's float64 arithmetic is IEEE's, one operation at a time (C13)."""
    words = []
    for i in range(1, 13):
        fan = float(i * i + 3)
        n = (fan, fan / 2, math.sqrt(fan))[i % 3]
        std = math.sqrt(1.3 / n)
        scales = 1.3 / n, std * 1.7, math.sqrt(3 * 1.3 / n) * 1.7, std / 0.87962566103423978 * 1.7
        rescaled = 1.3 * float(i) / math.sqrt(i / 7)
        slope = i * 0.125
        words += [*float64_words([*scales, rescaled, 2 / (1 + 0.3 * slope * slope)]), math.ceil(0.3 * (7 * i))]
    return fnv1a(words)


def known_tails():
    ks = [(5 + i % 11) << i % 41 for i in range(123)]
    return fnv1a(
        float64_words([reference_quantile.quantile(k if i % 2 else 2**53 - 1 - k) for i, k in enumerate(ks)])
    )


FAR = [
    (5.25, 1e6, "0x1.5p+2", "0", "1", "0x1.7941fdedadc79p-3"),
    (30.0, 31.0, "0x1.ep+4", "0x1.eec3961370cb0p-45", "0x1.ffffffffffe11p-1", "0x1.10c3a6dfb06cap-5"),
    (-40.0, -39.0, "0x1.38p+5", "0x1.f7ecee7d3f2fcp-58", "1", "0x1.a3d3b014e3178p-6"),
]
"""Bounds, then their constants."""


def known_far_tails():
    found = []
    for lower, upper, *constants in FAR:
        exact = tuple(map(float.fromhex, constants))
        ks = [j << 49 for j in range(16)] + [3 * j << 38 for j in (6237, 7705, 7848, 9924)]
        found += [reference_quantile.far(k, lower, upper, exact) for k in ks]
    return fnv1a(float64_words(found))


LANES = 16


def total(values):
    """Element i goes to lane i % 16; then halves of the lanes are added."""
    lanes = [0.0] * LANES
    for i, value in enumerate(values):
        lanes[i % LANES] += value
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [a + b for a, b in zip(lanes[:half], lanes[half:], strict=True)]
    return lanes[0]


def moments(values, anchor):
    """Count, mean and sums of powers of one block, in the order of csrc/summary.h."""
    shifted = [x - anchor for x in values]
    mean = total(shifted) / len(values)
    d = [x - mean for x in shifted]
    return (
        len(values),
        mean,
        total(x * x for x in d),
        total(x * x * x for x in d),
        total(x * x * (x * x) for x in d),
    )


def merged(a, b):
    """Equations 2.1 of Pebay (2008), in the order of csrc/summary.c."""
    (na, mean, a2, a3, a4), (nb, mean_b, b2, b3, b4) = a, b
    n = float(na + nb)
    na, nb = float(na), float(nb)
    delta = mean_b - mean
    step = delta / n
    product = na * nb * delta * step
    m4 = a4 + b4 + product * step * step * (na * na - na * nb + nb * nb)
    m4 = m4 + 6.0 * step * step * (na * na * b2 + nb * nb * a2) + 4.0 * step * (na * b3 - nb * a3)
    m3 = a3 + b3 + product * step * (na - nb) + 3.0 * step * (na * b2 - nb * a2)
    return n, mean + nb * step, a2 + b2 + product, m3, m4


def known_summary():
    weights = [reference.unit(reference.mix64(i)) for i in range(24 * COUNT)]
    runs = [moments(weights[begin : begin + COUNT], 0.3) for begin in range(0, len(weights), COUNT)]
    return fnv1a(float64_words([x for found in itertools.accumulate(runs, merged) for x in found[1:]]))


def lines(bases: Iterable[str], dtypes: Iterable[str]) -> list[str]:
    return [
        f"#define KNOWN_{base}_{dtype} UINT64_C(0x{fnv1a((0, *stored, 0)):016X})"
        for base in bases
        for dtype in dtypes
        for form in [reference.FORMATS[dtype]]
        for stored in [[reference.pattern(KNOWN[base](draw, form), form) for draw in DRAWS]]
    ] + [
        f"#define KNOWN_scales UINT64_C(0x{known_scales():016X})",
        f"#define KNOWN_tails UINT64_C(0x{known_tails():016X})",
        f"#define KNOWN_far_tails UINT64_C(0x{known_far_tails():016X})",
        f"#define KNOWN_summary UINT64_C(0x{known_summary():016X})",
    ]


if __name__ == "__main__":
    print("\n".join(lines(KNOWN, reference.FORMATS)))
