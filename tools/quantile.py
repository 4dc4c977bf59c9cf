"""Make csrc/quantile_table.h: the polynomials of the normal quantile, from mpmath alone.

Run ``python tools/quantile.py > csrc/quantile_table.h`` after a change here; a test compares. ``--proof`` prints
what the monotonicity and error claims of csrc/quantile.h rest on, segment by segment. The output does not depend
on the machine: everything is computed at 45 digits and rounded to float64 once.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from fractions import Fraction

import mpmath
from mpmath import mp, mpf

DEGREE = 14
WIDTH = 16  # float64 a row: 15 coefficients and a zero, so that rows are whole cache lines
CENTRE_SEGMENTS = 16  # two a binade of y in [2^-8, 1)
CUT = -8  # y below 2^CUT is left to the tail
TAIL_FIRST, TAIL_LAST = -76, -9  # binades of t

mp.dps = 45
U = mpf(2) ** -53
OFFSET = mpf(2) ** -53  # y = 1 - q^2 - OFFSET


def tail_quantile(t: mpf) -> mpf:
    """Return Z with 2 Q(Z) = t, that is P(|N| > Z) = t, by Halley's iteration on erfc."""
    if t > 0.5:
        return mpmath.sqrt(2) * mpmath.erfinv(1 - t)
    # the asymptotic form is near enough for cubic convergence
    log = -2 * mpmath.log(t)
    z = mpmath.sqrt(log - mpmath.log(max(log * mp.pi / 2 - 1, mpf("0.1"))))
    for _ in range(60):
        excess = mpmath.erfc(z / mpmath.sqrt(2)) - t
        r = excess / (mpmath.sqrt(2 / mp.pi) * mpmath.exp(-z * z / 2))
        step = r / (1 - z * r / 2)
        z += step
        if abs(step) < mpf(10) ** -30 * z:  # cubic: the next step is beyond the working precision
            return z
    raise ArithmeticError(f"no convergence at t = {t}")


def centre_ratio(y: mpf) -> mpf:
    """Return z / q, where y + OFFSET = 1 - q^2."""
    square = 1 - (y + OFFSET)
    if square < mpf(2) ** -60:  # the series, where square is too small to divide by
        return mpmath.sqrt(mp.pi / 2) * (1 + mp.pi / 12 * square)
    q = mpmath.sqrt(square)
    return tail_quantile((y + OFFSET) / (1 + q)) / q


def fit(f: Callable[[mpf], mpf], degree: int = DEGREE, inverse_reach: int = 4) -> list[mpf]:
    """Interpolate f, |x| <= 1 / inverse_reach, at the Chebyshev nodes; coefficients of x^0, x^1, ..."""
    nodes = [mpmath.cos(mp.pi * (2 * i + 1) / (2 * (degree + 1))) / inverse_reach for i in range(degree + 1)]
    divided = [f(x) for x in nodes]
    for j in range(1, degree + 1):
        for i in range(degree, j - 1, -1):
            divided[i] = (divided[i] - divided[i - 1]) / (nodes[i] - nodes[i - j])
    polynomial = [divided[degree]]
    for node, value in zip(nodes[-2::-1], divided[-2::-1], strict=True):
        shifted = [mpf(0), *polynomial]
        for k, coefficient in enumerate(polynomial):
            shifted[k] -= node * coefficient
        shifted[0] += value
        polynomial = shifted
    return polynomial


def value(row: list[float], x: float) -> float:
    """Horner with one rounding a step, as csrc/quantile.h does it."""
    total = row[DEGREE]
    for coefficient in row[DEGREE - 1 :: -1]:
        total = float(Fraction(total) * Fraction(x) + Fraction(coefficient))
    return total


def neighbour(x: float, upwards: bool) -> float:
    """Return the next float64 of a positive x."""
    (bits,) = struct.unpack("<q", struct.pack("<d", x))
    (result,) = struct.unpack("<d", struct.pack("<q", bits + (1 if upwards else -1)))
    return float(result)


LOW_EDGE, HIGH_EDGE = -0.25, neighbour(1.5, False) - 1.25


class Segment:
    """One half of a binade, [low, low + 2^e / 2): v in [1, 1.5) runs through it, and x = v - 1.25."""

    def __init__(self, f: Callable[[mpf], mpf], exponent: int, half: int) -> None:
        self.f, self.exponent, self.half = f, exponent, half
        self.row = [float(c) for c in fit(self.exact)]

    def exact(self, x: mpf) -> mpf:
        """Return the function at x."""
        return self.f((mpf(1.25) + mpf(self.half) / 2 + x) * mpf(2) ** self.exponent)

    def settle_edges(self) -> None:
        """Tilt the polynomial until no join steps down.

        Outwards (x falls, z grows) a segment starts at or above the rounded exact value of its inner edge, and
        ends at or below that of its outer edge. The rounding of c0 can spoil one of the two, by half an ulp;
        a slope less steep by as much mends it, and adds nothing up from one segment to the next.
        """
        inner, outer = float(self.exact(mpf(1) / 4)), float(self.exact(mpf(-1) / 4))
        unit = neighbour(self.row[0], True) - self.row[0]
        while value(self.row, HIGH_EDGE) < inner or value(self.row, LOW_EDGE) > outer:
            self.row[1] += unit / 4  # moves either edge by 1/16 ulp


def segments() -> tuple[list[Segment], list[Segment]]:
    """Return the centre's (from y = 1 outwards) and the tail's (from t = 1.5 * 2^-9 outwards)."""
    centre = [Segment(centre_ratio, e, half) for e in range(-1, CUT - 1, -1) for half in (1, 0)]
    tail = [Segment(tail_quantile, e, half) for e in range(TAIL_LAST, TAIL_FIRST - 1, -1) for half in (1, 0)]
    del tail[0]  # t stays below 2^-9 * 1.01 where y is below 2^-8
    for segment in (*centre, *tail):
        segment.settle_edges()
    return centre, tail


def proof(segment: Segment) -> tuple[mpf, mpf, mpf]:
    """Bounds over a segment, all in units of 2^-53.

    Returns the relative error of the rounded polynomial, that of the computed one (the argument's rounding
    included), and how much of the least step of the exact polynomial its computed derivative part may lose.
    """
    row, reach = [mpf(c) for c in segment.row], mpf(1) / 4
    points = [mpf(i) / 128 for i in range(-32, 33)]
    if segment.exponent == -1 and segment.half == 1:
        points[-1] -= mpf(2) ** -50
    approximation = max(abs(mpmath.polyval(row[::-1], x) / segment.exact(x) - 1) for x in points)
    error, magnitude = mpf(0), abs(row[DEGREE])
    slope_error = mpf(0)
    for i in range(DEGREE - 1, -1, -1):
        magnitude = magnitude * reach + abs(row[i])
        if i == 0:
            slope_error = error
        error = error * reach + magnitude * U
    slopes = [abs(mpmath.diff(lambda x: mpmath.polyval(row[::-1], x), x)) for x in points]
    least = min(abs(segment.exact(x)) for x in points)
    computed = approximation + (error + max(slopes) * U) / least
    # from one x to the next (2^-52 at least) the exact polynomial moves by min(slopes) * 2^-52, the computed
    # tail of the sum c0 + x * p1 may err by slope_error * reach at either end
    loss = 2 * slope_error * reach / (min(slopes) * 2 * U)
    return approximation / U, computed / U, loss


def table() -> str:
    """Return the text of csrc/quantile_table.h."""
    centre, tail = segments()
    # bits(y) >> 51, modulo 16, numbers the centre's rows; the tail's follow t upwards
    rows = sorted(centre, key=lambda s: ((1023 + s.exponent) * 2 + s.half) % CENTRE_SEGMENTS)
    tail_rows = tail[::-1]
    lines = [
        "/* Generated by tools/quantile.py: change that, not this. Included by quantile.c alone. */",
        "#ifndef FI_QUANTILE_TABLE_H",
        "#define FI_QUANTILE_TABLE_H",
        "",
        '#include "quantile.h"',
        "",
        "/* Row s, coefficients of x^0 to x^14 and a zero: z / q where bits(y) >> 51 = s modulo 16. */",
        f"FI_ALIGNED const double fi_quantile_centre[{len(rows)}][{WIDTH}] = {{",
        *(_row(s.row) for s in rows),
        "};",
        "",
        "/* The same numbers, a power of x a row. */",
        f"FI_ALIGNED const double fi_quantile_powers[{DEGREE + 1}][{len(rows)}] = {{",
        *(_row([s.row[k] for s in rows]) for k in range(DEGREE + 1)),
        "};",
        "",
        f"/* Z for t in halves of binades, from 2^{TAIL_FIRST} upwards. */",
        f"FI_ALIGNED const double fi_quantile_tail[{len(tail_rows)}][{WIDTH}] = {{",
        *(_row(s.row) for s in tail_rows),
        "};",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _row(numbers: list[float]) -> str:
    padded = [*numbers, *[0.0] * (WIDTH - len(numbers))]
    text = [x.hex() if x else "0" for x in padded]
    groups = [", ".join(text[i : i + 4]) for i in range(0, WIDTH, 4)]
    return "    {" + ",\n     ".join(groups) + "},"


def main() -> None:
    """Print the header, or with --proof the bounds."""
    if "--proof" not in sys.argv:
        print(table(), end="")
        return
    for name, part in zip(("centre", "tail"), segments(), strict=True):
        for segment in part:
            approximation, computed, loss = proof(segment)
            low = 1 + segment.half / 2
            print(
                f"{name} [{low} * 2^{segment.exponent}: approximation {float(approximation):.3f} u, "
                f"before the last rounding {float(computed):.3f} u, step lost {float(loss):.3f}"
            )


if __name__ == "__main__":
    main()
