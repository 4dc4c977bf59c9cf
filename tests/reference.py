"""The contract in plain Python, for the tests to judge by: ints, fractions and math.sqrt, nothing of fastinit.

Written from the contract's text, one rule a function, the slow and obvious way: rounding is `round` of an exact
rational, the interval clamp is a floor and a ceiling on the dtype's grid, an index is Python's own `range`
slicing. Read it in order: the stream, the dtypes, the weights, the scale, the parts of a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from itertools import product

# ---- the stream -------------------------------------------------------------------------------------

WORD = 2**64
GAMMA = 0x9E3779B97F4A7C15
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)


def mix64(z: int) -> int:
    z = (z ^ (z >> SHIFTS[0])) * MULTIPLIERS[0] % WORD
    z = (z ^ (z >> SHIFTS[1])) * MULTIPLIERS[1] % WORD
    return z ^ (z >> SHIFTS[2])


def unmix64(z: int) -> int:
    """Return the word that mix64 turns into z: undo its three steps, last one first."""
    z = _unshift(z, SHIFTS[2])
    z = _unshift(z * pow(MULTIPLIERS[1], -1, WORD) % WORD, SHIFTS[1])
    return _unshift(z * pow(MULTIPLIERS[0], -1, WORD) % WORD, SHIFTS[0])


def _unshift(shifted: int, by: int) -> int:
    z = shifted
    for _ in range(64 // by):
        z = shifted ^ (z >> by)
    return z


def sequence(state: int) -> Iterator[int]:
    """Yield the draws one step at a time, as the published algorithm does: it judges the index law."""
    while True:
        state = (state + GAMMA) % WORD
        yield mix64(state)


def draw(state: int, i: int) -> int:
    return mix64((state + (i + 1) * GAMMA) % WORD)


def advanced(state: int, n: int) -> int:
    return (state + n * GAMMA) % WORD


def draws_between(start: int, end: int) -> int:
    """How many draws lead from one state to another."""
    return (end - start) * pow(GAMMA, -1, WORD) % WORD


def state_before(value: int) -> int:
    """Return the state whose first draw is `value`: the way to any rare draw without waiting for it."""
    return (unmix64(value) - GAMMA) % WORD


def stream_state(seed: int, name: str) -> int:
    key = b"fastinit/stream/v1\0" + seed.to_bytes(8, "little") + name.encode("utf-8")
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")


# ---- the dtypes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: significand bits (the implicit one included), lowest normal exponent."""

    name: str
    precision: int
    lowest: int
    width: int
    largest: Fraction

    @property
    def smallest_step(self) -> Fraction:
        return Fraction(2) ** (self.lowest - self.precision + 1)

    def step_at(self, x: Fraction) -> Fraction:
        """Return the distance between neighbouring values in the binade of x."""
        if x == 0:
            return self.smallest_step
        return Fraction(2) ** (max(_exponent(abs(x)), self.lowest) - self.precision + 1)


def _exponent(x: Fraction) -> int:
    """Return e with 2**e <= x < 2**(e + 1)."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


FORMATS = {
    form.name: form
    for form in (
        Format("float64", 53, -1022, 64, (2 - Fraction(1, 2**52)) * 2**1023),
        Format("float32", 24, -126, 32, (2 - Fraction(1, 2**23)) * 2**127),
        Format("float16", 11, -14, 16, Fraction(65504)),
        Format("bfloat16", 8, -126, 16, (2 - Fraction(1, 2**7)) * 2**127),
        Format("float8_e4m3fn", 4, -6, 8, Fraction(448)),
        Format("float8_e5m2", 3, -14, 8, Fraction(57344)),
    )
}
FLOAT64 = FORMATS["float64"]


def nearest(x: Fraction, form: Format) -> float:
    """Round an exact real to nearest even, once; a negative one that rounds to zero stays -0.0."""
    step = form.step_at(x)
    value = abs(round(x / step) * step)  # Python rounds a Fraction's ties to even
    if value > form.largest:
        raise OverflowError(f"{float(x)} leaves the finite range of {form.name}")
    return -float(value) if x < 0 else float(value)


def narrowed(w: float, form: Format) -> float:
    return math.copysign(nearest(Fraction(w), form), w)


def smallest_at_least(low: float, form: Format) -> float:
    exact = Fraction(low)
    step = form.step_at(exact)
    return math.copysign(float(math.ceil(exact / step) * step), low)


def largest_below(high: Fraction, form: Format) -> float:
    just_below = high - form.smallest_step / 2**1200
    step = form.step_at(just_below)
    return math.copysign(float(math.floor(just_below / step) * step), -1.0 if high <= 0 else 1.0)


def pattern(value: float, form: Format) -> int:
    """Return the stored bits of a value of the format."""
    sign = int(math.copysign(1.0, value) < 0) << (form.width - 1)
    magnitude = abs(Fraction(value))
    if magnitude < Fraction(2) ** form.lowest:
        field, fraction = 0, magnitude / form.smallest_step
    else:
        exponent = _exponent(magnitude)
        field = exponent - form.lowest + 1
        fraction = (magnitude / Fraction(2) ** exponent - 1) * 2 ** (form.precision - 1)
    if fraction.denominator != 1:
        raise ValueError(f"{value!r} is not a value of {form.name}")
    return sign | field << (form.precision - 1) | fraction.numerator


# ---- the weights ------------------------------------------------------------------------------------


def unit(draw: int) -> float:
    """Return the top 53 bits of a draw over 2**53: in [0, 1), exact."""
    return float(Fraction(draw >> 11, 2**53))


def centered(draw: int, limit: float) -> float:
    """Return limit * (2u - 1): one rounding."""
    return nearest(Fraction(limit) * (2 * Fraction(draw >> 11, 2**53) - 1), FLOAT64)


def uniform(draw: int, low: float, high: float) -> float:
    """Return low + (high - low) * u: one rounding for the width, two a weight."""
    width = nearest(Fraction(high) - Fraction(low), FLOAT64)
    scaled = nearest(Fraction(width) * Fraction(draw >> 11, 2**53), FLOAT64)
    return nearest(Fraction(low) + Fraction(scaled), FLOAT64)


def interval(low: float, high: float, form: Format) -> tuple[float, float] | None:
    """Return the smallest and the largest value a weight in [low, high) may have; None where there is none."""
    lo = smallest_at_least(low, form)
    hi = largest_below(min(Fraction(high), Fraction(narrowed(high, form))), form)
    return (lo, hi) if lo <= hi else None


def stored(w: float, low: float, high: float, form: Format) -> float:
    """Round a float64 weight to the dtype, then clamp it to the interval; a zero keeps its sign."""
    bounds = interval(low, high, form)
    assert bounds is not None, f"[{low}, {high}) holds no {form.name}"
    lo, hi = bounds
    x = narrowed(w, form)
    return lo if x < lo else hi if x > hi else x


def centered_weight(draw: int, limit: float, form: Format = FLOAT64) -> float:
    return 0.0 if limit == 0 else stored(centered(draw, limit), -limit, limit, form)


def uniform_weight(draw: int, low: float, high: float, form: Format = FLOAT64) -> float:
    return stored(uniform(draw, low, high), low, high, form)


# ---- the scale --------------------------------------------------------------------------------------


def xavier_scale(fan_in: int, fan_out: int) -> tuple[float, float, float]:
    """Return variance, standard deviation and limit; the fans are added exactly and converted once."""
    n = float(fan_in + fan_out)
    return 2.0 / n, math.sqrt(2.0 / n), math.sqrt(6.0 / n)


# ---- the parts of a tensor --------------------------------------------------------------------------


def cut(shape: tuple[int, ...], index: object = ...) -> tuple[tuple[int, ...], list[int]]:
    """Return the shape of ``whole[index]`` and its elements' positions in the whole, both in row-major order."""
    entries = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis not in entries:
        entries.append(Ellipsis)
    gap = entries.index(Ellipsis)
    entries[gap : gap + 1] = [slice(None)] * (len(shape) - len(entries) + 1)
    axes = []
    part_shape = []
    for entry, length in zip(entries, shape, strict=True):
        positions = range(length)[entry]
        axes.append(list(positions) if isinstance(entry, slice) else [positions])
        if isinstance(entry, slice):
            part_shape.append(len(axes[-1]))
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    elements = [sum(map(int.__mul__, place, strides)) for place in product(*axes)]
    return tuple(part_shape), elements
