/* The normal quantile: from the top 53 bits of a draw to z = sqrt(2) erfinv(q), q = (2k + 1 - 2^53) 2^-53.
 *
 * The functions here are the list of operations, in IEEE float64, that every level follows: + - *, fma where
 * fi_fma stands, comparisons, table look-ups and operations on the bits; nothing from the C library.
 *
 *   interval     [-8.2924, 8.2924], exactly antisymmetric in k <-> 2^53 - 1 - k, never 0
 *   error        below 3 ulp of the exact quantile (tools/quantile.py --proof gives a bound for each segment)
 *   monotone     non-decreasing in k, see below
 *   source       polynomials of degree 14 through the Chebyshev nodes of 16 + 135 segments, made by
 *                tools/quantile.py with mpmath; no published approximation is copied
 *
 * In the centre, z = q R(y) with y = 1 - q^2: R is smooth where z is not, and one multiplication by q gives
 * the sign, the zero and the relative accuracy near it. A segment is half a binade of y, so its number and
 * its argument are bits of y, and with 16 of them a coefficient fits in two wide registers. y >= 2^-8 holds for
 * 99.8 % of the draws; the others take Z(t), t = 1 - |q|, from the same kind of segments.
 *
 * Why it is monotone. All roundings are monotone functions of what they round. Within a segment R, computed as
 * c0 + x p, is one rounding of a sum: from one float64 x to the next the exact polynomial moves by at least
 * 2.6 times what the roundings inside p can vary (--proof: "step lost"), so R never grows with y. y falls and q
 * grows with |q|, hence so does their product. The tail is such a sum itself. At every join the table's
 * rows are tilted until the rounded exact value lies between the two sides.
 */
#ifndef FI_QUANTILE_H
#define FI_QUANTILE_H

#include <stdint.h>
#include <string.h>

#include "fma.h"
#include "fpenv.h"

#define FI_ALIGNED __attribute__((aligned(64)))
#define FI_QUANTILE_CUT 0x1p-8                   /* y from here up: the centre */
#define FI_QUANTILE_TOP (1 - 0x1p-53)            /* what q^2 is taken from: y stays below 1 and in its 8 binades */
#define FI_SIGNIFICAND ((UINT64_C(1) << 51) - 1) /* all but the first bit, which numbers the segment */
#define FI_ONE (UINT64_C(1023) << 52)            /* the bits of 1.0 */
#define FI_QUANTILE_LARGEST 8.2924               /* |z| is below it */
enum { FI_DEGREE = 14, FI_CENTRE_ROWS = 16, FI_TAIL_ROWS = 135, FI_TAIL_FIRST = 2 * (1023 - 76) };

extern const double fi_quantile_centre[FI_CENTRE_ROWS][16];            /* rows of coefficients, x^0 first */
extern const double fi_quantile_powers[FI_DEGREE + 1][FI_CENTRE_ROWS]; /* the same, a power of x a row */
extern const double fi_quantile_tail[FI_TAIL_ROWS][16];

static inline uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The argument's place in its half binade, in [-1/4, 1/4), exactly; then Horner. */
static inline double segment(const double *row, double argument) {
    double x = from_bits((bits_of(argument) & FI_SIGNIFICAND) | FI_ONE) - 1.25;
    double p = row[FI_DEGREE];
    for (int i = FI_DEGREE - 1; i >= 0; i--) p = fi_fma(p, x, row[i]);
    return p;
}

/* z / q, for y in [2^-8, 1). */
static inline double quantile_centre(double y) {
    return segment(fi_quantile_centre[(bits_of(y) >> 51) % FI_CENTRE_ROWS], y);
}

/* |z|, for t in [2^-76, 1.5 * 2^-9): where y < 2^-8. */
static inline double quantile_tail(double t) {
    return segment(fi_quantile_tail[(bits_of(t) >> 51) - FI_TAIL_FIRST], t);
}

/* The same for q, with its sign. */
static inline double signed_tail(double q) {
    double z = quantile_tail(1 - from_bits(bits_of(q) & (UINT64_MAX >> 1)));
    return q < 0 ? -z : z;
}

/* z for q, an odd multiple of 2^-53 between -1 and 1. */
static inline double quantile(double q) {
    double y = fi_fma(-q, q, FI_QUANTILE_TOP);
    return y < FI_QUANTILE_CUT ? signed_tail(q) : q * quantile_centre(y);
}

#endif
