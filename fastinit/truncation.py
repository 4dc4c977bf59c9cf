"""The set-up constants of a truncated normal, correctly rounded.

`csrc/truncated.h` draws it with four constants that depend on the bounds alone. They are float64 roundings of
exact reals, computed here in `decimal` with no function of the C library, so that they are the same everywhere.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, getcontext, localcontext
from functools import lru_cache

FAR = 5.0
"""Where the interval keeps clear of zero by this much, `csrc/truncated.h` takes the far form."""

_DIGITS = 60
_SERIES_ENDS = 4  # below, Phi - 1/2 by its series; from here up, Q by its continued fraction
_FRACTION_TERMS = 600  # at 4, exp(-8 sqrt(1200)) is below 10^-120
_LARGEST_EXPONENT = 3000  # exp(-3000) is 0 in float64

Constants = tuple[float, float, float, float]


@lru_cache(maxsize=1024)
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
        and Mills' ratio Q(a) / phi(a). All zeros where there is no interval, or nothing to truncate.
    """
    if not lower < upper or (math.isinf(lower) and math.isinf(upper)):
        return (0.0, 0.0, 0.0, 0.0)
    with localcontext(_context(lower, upper)):
        if lower >= FAR:
            return _far(lower, upper)
        if upper <= -FAR:
            return _far(-upper, -lower)
        return _near(lower, upper)


def _context(lower: float, upper: float) -> Context:
    """Return enough digits for the difference of two close probabilities to keep `_DIGITS`."""
    width = Decimal(upper) - Decimal(lower) if math.isfinite(upper - lower) else Decimal(1)
    lost = max(0, -width.adjusted())
    return Context(
        prec=_DIGITS + 30 + 2 * min(lost, 20) + lost,
        rounding=ROUND_HALF_EVEN,
        Emin=MIN_EMIN,
        Emax=MAX_EMAX,
        traps=[],
    )


def _near(lower: float, upper: float) -> Constants:
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
    return float(2 * low_tail), float(2 * high_tail), float(mass / 2**53), float(split)


def _far(inner: float, outer: float) -> Constants:
    a, b = Decimal(inner), Decimal(outer)
    mills = _mills(a)
    exponent = (b - a) * (b + a) / 2 if math.isfinite(outer) else Decimal(_LARGEST_EXPONENT)
    ratio = (-exponent).exp() * _mills(b) / mills if exponent < _LARGEST_EXPONENT else Decimal(0)
    return float(inner), float(ratio), float(1 - ratio), float(mills)


def _upper_tail(x: float) -> Decimal:
    """Return Q(x), the probability of more than x."""
    if math.isinf(x):
        return Decimal(int(x < 0))
    if x < _SERIES_ENDS:
        return Decimal("0.5") - _central(x)
    exact = Decimal(x)
    if exact * exact / 2 > _LARGEST_EXPONENT:
        return Decimal(0)
    return _density(exact) * _mills(exact)


def _central(x: float) -> Decimal:
    """Return Phi(x) - 1/2."""
    if abs(x) >= _SERIES_ENDS:
        half = Decimal("0.5") - _upper_tail(abs(x))
        return half if x > 0 else -half
    # phi(x) (x + x^3 / 3 + x^5 / (3 5) + ...)
    exact = Decimal(x)
    term = total = exact
    odd = 1
    while term and term.adjusted() >= total.adjusted() - _precision():
        odd += 2
        term = term * exact * exact / odd
        total += term
    return _density(exact) * total


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
