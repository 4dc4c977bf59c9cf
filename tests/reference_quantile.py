"""The operation list of csrc/quantile.h in plain Python, for comparison bit for bit.

The table is read from the header's text, fma is exact rational arithmetic, everything else Python's own float64.
"""

import math
import re
import struct
from fractions import Fraction
from functools import cache
from pathlib import Path

HEADER = Path(__file__).parent.parent / "csrc" / "quantile_table.h"
GAMMA = 0x9E3779B97F4A7C15
U64 = 1 << 64
DEGREE = 14
MIX = ((27, 0x94D049BB133111EB), (30, 0xBF58476D1CE4E5B9))


def unmix64(z):
    """The inverse of SplitMix64's output function."""
    z ^= (z >> 31) ^ (z >> 62)
    for shift, multiplier in MIX:
        z = z * pow(multiplier, -1, U64) % U64
        z ^= (z >> shift) ^ (z >> 2 * shift)
    return z


def state_for(k, low_bits=0):
    """The state whose next draw has k as its top 53 bits."""
    return (unmix64(k << 11 | low_bits) - GAMMA) % U64


def bits_of(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def from_bits(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


@cache
def tables():
    """{name: rows} of the header."""
    text = HEADER.read_text()
    found = {}
    for name, body in re.findall(r"const double (\w+)\[\d+\]\[\d+\] = \{(.*?)\n\};", text, re.DOTALL):
        rows = re.findall(r"\{(.*?)\}", body, re.DOTALL)
        found[name] = [[float.fromhex(number) for number in row.split(",")] for row in rows]
    return found


def fma(a, b, c):
    """a * b + c, rounded once (Python's division of integers is correctly rounded)."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def segment(row, argument):
    x = from_bits(bits_of(argument) & ((1 << 51) - 1) | 1023 << 52) - 1.25
    p = row[DEGREE]
    for i in range(DEGREE - 1, -1, -1):
        p = fma(p, x, row[i])
    return p


def centre(y):
    return segment(tables()["fi_quantile_centre"][(bits_of(y) >> 51) % 16], y)


def tail(t):
    return segment(tables()["fi_quantile_tail"][(bits_of(t) >> 51) - 2 * (1023 - 76)], t)


def quantile(k):
    """z of the draw whose top 53 bits are k."""
    q = float(2 * k + 1 - 2**53) * 2.0**-53
    y = fma(-q, q, 1 - 2.0**-53)
    if y >= 2.0**-8:
        return q * centre(y)
    z = tail(1 - abs(q))
    return -z if q < 0 else z


def normal(k, mean, std):
    return mean + std * quantile(k)


def two_sided(t):
    y = fma(-t, t, t + t) - 2.0**-53
    return tail(t) if y < 2.0**-8 else (1 - t) * centre(y)


def near(k, lower, upper, constants):
    """z of the near form of csrc/truncated.h."""
    low_tail, high_tail, width, split = constants
    below = float(k) < split
    steps = 2 * (float(k) if below else (2.0**53 - 1) - float(k)) + 1
    t = (low_tail if below else high_tail) + width * steps
    z = two_sided(min(t, 1.0))
    return clamp(-z if below else z, lower, upper)


def clamp(x, lo, hi):
    return lo if x < lo else hi if x > hi else x


def natural_log(x):
    bits = bits_of(x)
    n = (bits >> 52) - 1022
    m = from_bits(bits & ((1 << 52) - 1) | 1022 << 52)
    if m < float.fromhex("0x1.6a09e667f3bcdp-1"):
        m, n = m + m, n - 1
    f = (m - 1) / (m + 1)
    square, total = f * f, 0.0
    for i in range(23, 1, -2):
        total = square * (1.0 / i + total)
    low = float(n) * float.fromhex("0x1.ef35793c76730p-45") + 2 * f * total
    return float(n) * float.fromhex("0x1.62e42fefa3800p-1") + (2 * f + low)


def mills(x):
    fraction = x
    for i in range(40, 0, -1):
        fraction = x + i / fraction
    return 1 / fraction


def far(k, lower, upper, constants):
    """z of the far form."""
    a, outer_share, span, inner_mills = constants
    mirrored = upper < 0
    steps = 2 * (float(k) if mirrored else (2.0**53 - 1) - float(k)) + 1
    e = -natural_log(outer_share + span * (steps * 2.0**-54))
    d = 2 * e / (a + math.sqrt(a * a + 2 * e)) if a < 1e150 else 0.0
    for _ in range(4):
        m = mills(a + d)
        d = d - ((a * d + 0.5 * d * d) + natural_log(inner_mills / m) - e) * m
    z = a + d if d > 0 else a
    return clamp(-z if mirrored else z, lower, upper)
