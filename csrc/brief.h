/* Short ways to narrow weights, which end in the bits of the long one.
 *
 * An approximation of proved error says between which two numbers the float64 weight lies. Rounding is monotone: where
 * both ends round to one value of the dtype, that is the weight. Elsewhere, and in the tails, it is computed as
 * weight.h has it, so no bit rests on an approximation. A weight around a mean that is not 0 can lose the relative
 * accuracy on which the ends rest, so it takes the long way (spec.c: `brief`).
 *
 *   float32          float64 lanes, polynomials of degree 9 or 5 instead of 14: |w' - w| <= 2^-37.2 |w|, see near_tie
 *   float16,         float32 lanes, from the upper 32 bits of a draw: w (1 - e) and w (1 + e) + slack, where e covers
 *   bfloat16         the polynomial, the roundings of float32 and those of the constants, and the slack one step of
 *                    what the 32 bits leave open
 *   the portable     the polynomial of degree 5 with a product and a sum for each fma: |w' - w| <= 2^-39 |w|
 *   level, all three
 *
 * Error bounds, relative, u = 2^-24 of float32 and v = 2^-53 of float64.
 *
 * Float64 lanes. A polynomial errs by its approximation (tools/brief.py --proof: 2^-37.25 for fi_brief_powers, 2^-39.90
 * for fi_brief_centre) and by Horner's roundings: |x| <= 1/4 and |c0| > 4 |c1|, so below 4 v with an fma, 8 v without;
 * two products add 2 v, and z itself is within 3 ulp = 6 v of the quantile. 2^-37.25 + 16 v < 2^-37.24. The portable
 * level's y, t (2 - t), lacks the exact list's 2^-53 and has two roundings: that moves z by less than 2^-45. In units of
 * the weight's last place, which is more than v |w|, that is less than 2^15.8. near_tie looks 2^17 to either side, the
 * portable level 2^15 for its 2^-39.
 *
 * Float32 lanes. Let a be the upper 31 bits of |2k + 1 - 2^53| and w' = a p(t). tests/native/intervals.c walks through
 * all a and finds w' (1 - E) <= z 2^31 <= w' (1 + E) + 5 at both ends of the 2^22 numbers behind each a, E = 2^-22 = 4 u.
 * The scale adds the roundings of `step` and of the product, 2 u: 6 u < e = 7 u. Upwards E alone is to be covered, and
 * `wide` brings back what `step` took off, these two roundings and its own two, 4 u; `slack` is the 5, and its rounding.
 *
 * A truncated weight has t = tail + share (1 - |q|), which errs by 3 u; |d ln p / d ln t| < 0.2 for t >= 2^-12, so that
 * is 0.6 u more: 6.6 u < e, 4.6 u upwards. Other values of t than those of the walk are float32s between two of them,
 * where p follows the same polynomials with the same roundings. Near 0 the exact way's 1 - t errs by 2^-53: from
 * a = 2^14 on that is below 0.4 u of a share of 2^-10, and below it no interval is believed. A uniform weight has no
 * polynomial: 3 u < e = 3.125 u, and upwards the rounding of a, u. */
#ifndef FI_BRIEF_H
#define FI_BRIEF_H

#include "quantile.h"

enum { FI_BRIEF_DEGREE = 5, FI_BRIEF_ROWS = 128, FI_BRIEF_POWERS = 9, FI_BRIEF_FLOATS = 7 };

/* R(y) = z / (2^53 q), y in [2^-8, 1): see quantile.h. Of `centre` bits(y) >> 48, modulo 128, numbers the row, of
 * `powers` bits(y) >> 51, modulo 16, the column; x is the distance from the segment's middle. */
extern const double fi_brief_centre[FI_BRIEF_ROWS][FI_BRIEF_DEGREE + 1];
extern const double fi_brief_powers[FI_BRIEF_POWERS + 1][FI_CENTRE_ROWS];

/* z / q by 2^31 t: its exponent, modulo 16 or 8, numbers the column; x is the significand - 1.5. */
extern const float fi_brief_lanes[FI_BRIEF_FLOATS + 1][16]; /* t in [2^-16, 1) */
extern const float fi_brief_eight[FI_BRIEF_FLOATS + 1][8];  /* t in [2^-8, 1) */

#define FI_BRIEF_SIGNIFICAND ((UINT64_C(1) << 48) - 1)
#define FI_BRIEF_MIDDLE 1.03125 /* of the first of 16 segments */

/* Within them no weight that is not 0, no end of an interval and no constant leaves float32's normal numbers. */
#define FI_BRIEF_LEAST 0x1p-60
#define FI_BRIEF_ERROR 0x1.cp-22
#define FI_BRIEF_ABOVE 0x1.28p-22 /* 4.625 u */
#define FI_BRIEF_ERROR_UNIFORM 0x1.9p-23
#define FI_BRIEF_ABOVE_UNIFORM 0x1p-24
#define FI_BRIEF_UNITS (1 << 15) /* of a weight's last place, on the portable level: more than 2^-38 |w| */
#define FI_BRIEF_SLACK 5.5       /* steps of 2^-31 */
#define FI_BRIEF_SHARE 0x1p-10   /* of the normal's mass: below it, roundings of t are more than a step */

#endif
