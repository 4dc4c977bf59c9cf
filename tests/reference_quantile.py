"""The operation list of csrc/quantile.h in plain Python, for comparison bit for bit.

The table is read from the header's text, fma is exact rational arithmetic, everything else Python's own float64.
"""

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
    o = float(2 * k + 1 - 2**53)
    y = fma(o * -(2.0**-106), o, 1 - 2.0**-53)
    if y >= 2.0**-8:
        return o * centre(y)
    z = tail(1 - abs(o) * 2.0**-53)
    return -z if o < 0 else z


def normal(k, mean, std):
    return mean + std * quantile(k)
