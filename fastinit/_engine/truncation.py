"""The set-up constants of a truncated normal, correctly rounded.

`csrc/truncated.h` draws it with four constants that depend on the bounds alone. They are float64 roundings of
exact reals, computed here in `decimal` with no function of the C library, so that they are the same everywhere.
"""

from __future__ import annotations

import math
import struct
import sys
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, getcontext, localcontext
from fractions import Fraction
from functools import lru_cache

FAR = 5
"""Where the interval keeps clear of zero by this much, `csrc/truncated.h` takes the far form."""

_DIGITS = 60
_CONTEXT = Context(prec=_DIGITS, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
"""What all arithmetic here starts from: never the caller's context, which may trap or round otherwise."""

_SERIES_ENDS = 4  # below, Phi - 1/2 by its series; from here up, Q by its continued fraction
_FRACTION_TERMS = 600  # at 4, exp(-8 sqrt(1200)) is below 10^-120
_LARGEST_EXPONENT = 3000  # exp(-3000) is 0 in float64

_LARGEST = Fraction(sys.float_info.max)
_STEPS_INWARD = 8  # two roundings lead out by two steps at most; more only among subnormals

Constants = tuple[float, float, float, float]


def constants(lower: float, upper: float) -> Constants:
    """Return the four constants of the standard normal truncated to [lower, upper].

    Parameters
    ----------
    lower, upper : float
        In standard deviations; infinite ones are allowed.

    Returns
    -------
    tuple of float
        Near zero: 2 Phi(lower), 2 Q(upper), (Phi(upper) - Phi(lower)) * 2**-53, and the number of draws, of
        2**53, below zero. Far from it, with a the inner bound and b the outer one: a, Q(b) / Q(a), 1 minus that,
        and Mills' ratio Q(a) / phi(a). All zeros where the interval is empty or both bounds are infinite.

    Notes
    -----
    Floats are read and made by their bits, and cached by them: in a process that flushes subnormals to zero two
    of those are equal, and neither arithmetic nor a conversion can be trusted.
    """
    return _constants(*struct.unpack("<2Q", struct.pack("<2d", lower, upper)))


@lru_cache(maxsize=1024)
def standard_bounds(mean: float, std: float, low: float, high: float) -> tuple[float, float]:
    """Return bounds in the units of the weights as standard deviations from the mean.

    Parameters
    ----------
    mean, std : float
        Of the normal before it is truncated; finite, ``std > 0``.
    low, high : float
        Least and greatest weight; may be infinite.

    Notes
    -----
    A kernel's bound is ``mean + std * bound``, with two roundings, and they may lead one step out of [low, high]:
    then the next bound further in is taken. All arithmetic is exact, so the host's rounding mode changes nothing.
    """
    return _standard_bound(mean, std, low, math.inf), _standard_bound(mean, std, high, -math.inf)


def _standard_bound(mean: float, std: float, bound: float, inward: float) -> float:
    if math.isinf(bound):
        return bound
    middle, spread = Fraction(mean), Fraction(std)
    found = _nearest((Fraction(bound) - middle) / spread)
    for _ in range(_STEPS_INWARD):
        product = _nearest(spread * Fraction(found)) if math.isfinite(found) else found
        reached = _nearest(middle + Fraction(product)) if math.isfinite(product) else product
        if reached == bound or (reached > bound) == (inward > 0):
            break
        found = math.nextafter(found, inward)
    return found


def _nearest(x: Fraction) -> float:
    """Return the float64 nearest to x; Python's own quotient of two integers obeys the host's rounding mode."""
    size = _rounded(abs(x)) if abs(x) <= _LARGEST else math.inf
    return -size if x < 0 else size


@lru_cache(maxsize=1024)
def _constants(lower_bits: int, upper_bits: int) -> Constants:
    with localcontext(_CONTEXT) as context:
        lower, upper = _exact(lower_bits), _exact(upper_bits)
        if not lower < upper or (lower.is_infinite() and upper.is_infinite()):
            return (0.0, 0.0, 0.0, 0.0)
        # enough digits for the difference of two close probabilities to keep _DIGITS
        lost = max(0, -(upper - lower).adjusted())
        context.prec = _DIGITS + 30 + 2 * min(lost, 20) + lost
        if lower >= FAR:
            found = _far(lower, upper)
        elif upper <= -FAR:
            found = _far(-upper, -lower)
        else:
            found = _near(lower, upper)
        return tuple(map(_rounded, found))  # type: ignore[return-value]  # four of them


def _exact(bits: int) -> Decimal:
    """Return the value of a float64, given as its bits."""
    sign, exponent, significand = bits >> 63, bits >> 52 & 0x7FF, bits & ((1 << 52) - 1)
    if exponent == 0x7FF:
        return Decimal("NaN" if significand else "-Infinity" if sign else "Infinity")
    significand |= (exponent > 0) << 52
    power = max(exponent, 1) - 1075  # of two: m 2^-n is m 5^n 10^-n
    digits, tens = (significand << power, 0) if power >= 0 else (significand * 5**-power, power)
    return Decimal(f"{'-' * sign}{digits}E{tens}")


def _rounded(x: Decimal | Fraction) -> float:
    """Return the float64 nearest to x >= 0, ties to even."""
    if not x:
        return 0.0
    top, bottom = x.as_integer_ratio()
    power = max(top.bit_length() - bottom.bit_length() - 53, -1074)  # of two, for at most 54 bits
    while True:
        scaled, divisor = (top << -power, bottom) if power < 0 else (top, bottom << power)
        significand, rest = divmod(scaled, divisor)
        if significand < 1 << 53:
            break
        power += 1
    significand += 2 * rest > divisor or (2 * rest == divisor and significand % 2)
    # a normal number's first bit, and a carry, count up the exponent
    bits = ((power + 1074) << 52) + significand
    return struct.unpack("<d", struct.pack("<Q", bits))[0]  # type: ignore[no-any-return]


def _near(lower: Decimal, upper: Decimal) -> tuple[Decimal, ...]:
    below, above = _central(lower), _central(upper)  # Phi - 1/2
    low_tail, high_tail = _upper_tail(-lower), _upper_tail(upper)
    if lower >= 0:
        mass = _upper_tail(lower) - high_tail
    elif upper <= 0:
        mass = _upper_tail(-upper) - low_tail
    else:
        mass = above - below
    if abs(lower) < 1 and abs(upper) < 1:  # both near zero: the tails are 1/2 less nothing
        mass = above - below
    split = (-below / mass * 2**53).to_integral_value(ROUND_HALF_EVEN)
    split = min(max(split, Decimal(0)), Decimal(2**53))
    return 2 * low_tail, 2 * high_tail, mass / 2**53, split


def _far(a: Decimal, b: Decimal) -> tuple[Decimal, ...]:
    mills = _mills(a)
    exponent = (b - a) * (b + a) / 2
    ratio = (-exponent).exp() * _mills(b) / mills if exponent < _LARGEST_EXPONENT else Decimal(0)
    return a, ratio, 1 - ratio, mills


def _upper_tail(x: Decimal) -> Decimal:
    """Return Q(x), the probability of more than x."""
    if x.is_infinite():
        return Decimal(int(x < 0))
    if x < _SERIES_ENDS:
        return Decimal("0.5") - _central(x)
    if x * x / 2 > _LARGEST_EXPONENT:
        return Decimal(0)
    return _density(x) * _mills(x)


def _central(x: Decimal) -> Decimal:
    """Return Phi(x) - 1/2."""
    if abs(x) >= _SERIES_ENDS:
        half = Decimal("0.5") - _upper_tail(abs(x))
        return half if x > 0 else -half
    # phi(x) (x + x^3 / 3 + x^5 / (3 5) + ...)
    term = total = x
    odd = 1
    while term and term.adjusted() >= total.adjusted() - _precision():
        odd += 2
        term = term * x * x / odd
        total += term
    return _density(x) * total


def _density(x: Decimal) -> Decimal:
    return (-x * x / 2).exp() / (2 * _pi()).sqrt()


def _mills(x: Decimal) -> Decimal:
    """Return Q(x) / phi(x) for x >= 4 by Laplace's continued fraction."""
    fraction = x
    for i in range(_FRACTION_TERMS, 0, -1):
        fraction = x + i / fraction
    return 1 / fraction


def _pi() -> Decimal:
    """Return pi: 16 artan(1/5) - 4 artan(1/239) (Machin)."""
    return _pi_to(_precision())


@lru_cache(maxsize=16)
def _pi_to(digits: int) -> Decimal:
    unit: int = 10 ** (digits + 10)

    def artan_inverse(n: int) -> int:
        power: int = unit // n
        total = power
        odd, sign = 1, 1
        while power:
            power //= n * n
            odd, sign = odd + 2, -sign
            total += sign * (power // odd)
        return total

    return Decimal(16 * artan_inverse(5) - 4 * artan_inverse(239)) / unit


def _precision() -> int:
    return getcontext().prec
