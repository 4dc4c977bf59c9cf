"""The weights that csrc/selftest.c must know, by the plain Python of the references.

``python tests/known_weights.py`` prints its lines ``#define KNOWN_<base>_<dtype>``. It imports nothing of
fastinit, which refuses to be imported while they are wrong.
"""

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


def truncated_weight(draw, form):
    weight = 0.3 + 0.7 * reference_quantile.near(draw >> 11, -1.0, math.inf, ABOVE_MINUS_ONE)
    return max(reference.narrowed(weight, form), reference.smallest_at_least(0.3 + 0.7 * -1.0, form))


KNOWN = {
    "constant": lambda draw, form: reference.narrowed(0.1, form),
    "uniform": lambda draw, form: reference.uniform_weight(draw, -0.3, 0.7, form),
    "centered_uniform": lambda draw, form: reference.centered_weight(draw, 1.3, form),
    "normal": lambda draw, form: reference.narrowed(reference_quantile.normal(draw >> 11, 0.3, 0.7), form),
    "truncated_normal": truncated_weight,
}
"""base -> the weight of a draw, with the parameters of csrc/selftest.c; in the order of csrc/fastinit.h."""


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


def known_far_tails():
    constants = (5.25, 0.0, 1.0, float.fromhex("0x1.7941fdedadc79p-3"))
    return fnv1a(float64_words([reference_quantile.far(i << 50, 5.25, 1e6, constants) for i in range(8)]))


def lines(bases: Iterable[str], dtypes: Iterable[str]) -> list[str]:
    return [
        f"#define KNOWN_{base}_{dtype} UINT64_C(0x{fnv1a((0, *stored, 0)):016X})"
        for base in bases
        for dtype in dtypes
        for form in [reference.FORMATS[dtype]]
        for stored in [[reference.pattern(KNOWN[base](draw, form), form) for draw in DRAWS]]
    ] + [
        f"#define KNOWN_scales UINT64_C(0x{known_scales():016X})",
        f"#define KNOWN_far_tails UINT64_C(0x{known_far_tails():016X})",
    ]


if __name__ == "__main__":
    print("\n".join(lines(KNOWN, reference.FORMATS)))
