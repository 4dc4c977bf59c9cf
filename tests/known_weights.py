"""The weights that csrc/selftest.c must know, by the plain Python of the references.

``python tests/known_weights.py`` prints its lines ``#define KNOWN_<base>_<dtype>``. It imports nothing of
fastinit, which refuses to be imported while they are wrong.
"""

import math
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


def lines(bases: Iterable[str], dtypes: Iterable[str]) -> list[str]:
    return [
        f"#define KNOWN_{base}_{dtype} UINT64_C(0x{fnv1a((0, *stored, 0)):016X})"
        for base in bases
        for dtype in dtypes
        for form in [reference.FORMATS[dtype]]
        for stored in [[reference.pattern(KNOWN[base](draw, form), form) for draw in DRAWS]]
    ]


if __name__ == "__main__":
    print("\n".join(lines(KNOWN, reference.FORMATS)))
