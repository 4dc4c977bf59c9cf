/* Short ways to narrow weights, which end in the bits of the long one.
 *
 * An approximation of proved error says between which two numbers the float64 weight lies. Rounding is monotone: where
 * both ends round to one value of the dtype, that is the weight. Elsewhere, and in the tails, it is computed as
 * weight.h has it, so no bit rests on an approximation. A weight around a mean that is not 0 can lose the relative
 * accuracy on which the ends rest, so it takes the long way (spec.c: `brief`).
 *
 *   float32          float64 lanes, polynomials of degree 8 or 5 instead of 14: |w' - w| <= 2^-33.7 |w|, see near_tie
 *   float16,         float32 lanes, from the upper 32 bits of a draw, polynomials of degree 6 and 5: w (1 - e) and
 *   bfloat16         w (1 + e) + slack, where e covers the polynomial, the roundings of float32 and those of the
 *                    constants, and the slack one step of what the 32 bits leave open
 *   the portable     the polynomial of degree 5 with a product and a sum for each fma: |w' - w| <= 2^-39 |w|
 *   level, all three
 *
 * A shorter polynomial leaves more weights unsure. They are computed a register at a time, so a few more cost nothing:
 * the degrees of fi_brief_powers and of the float32 lanes are the least that leave a tile of loop.h one or two.
 *
 * Error bounds, relative, u = 2^-24 of float32 and v = 2^-53 of float64.
 *
 * Float64 lanes. A polynomial errs by its approximation (tools/brief.py --proof: 2^-33.78 for fi_brief_powers,
 * 2^-39.90 for fi_brief_centre) and by Horner's roundings: |x| <= 1/4 and |c0| > 4 |c1|, so below 4 v with an fma, 8 v
 * without; two products add 2 v, and z itself is within 3 ulp = 6 v of the quantile. 2^-33.78 + 16 v < 2^-33.77. The
 * portable level's y, t (2 - t), lacks the exact list's 2^-53 and has two roundings: that moves z by less than 2^-45. A
 * unit of the weight's last place is more than v |w|, so fi_brief_powers errs by less than 2^19.3 units, and near_tie
 * looks 2^20 to either side; fi_brief_centre by less than 2^13.2, and near_tie looks 2^17, the portable level 2^15 for
 * its 2^-39.
 *
 * Float32 lanes. Let a be the upper 31 bits of |2k + 1 - 2^53| and w' = a p(t). tests/native/intervals.c walks through
 * all a and finds w' (1 - E) <= z 2^31 <= w' (1 + E) + 5 at both ends of the 2^22 numbers behind each a: E = 10.5 u for
 * float16 and 57 u for bfloat16 (9.9 and 55.3 would do). The scale adds the roundings of `step` and of the product,
 * 2 u: E + 2 u < e = E + 3 u. Upwards E alone is to be covered, and `wide` brings back what `step` took off, these two
 * roundings and its own two, 4 u of its 4.25; `slack` is the 5, and its rounding.
 *
 * A truncated weight has t = tail + share (1 - |q|), which errs by 3 u; |d ln p / d ln t| < 0.2 for t >= 2^-12, so that
 * is 0.6 u more: E + 2.6 u < e, E + 0.6 u upwards. Its t and its a are not those of one another: p(t) alone errs by 8.4
 * and 54.3 u, found for a third of all float32s t, and a and the product by 2 u, together less than E. Other values of t
 * than those of the walk are float32s between two of them, where p follows the same polynomials with the same
 * roundings. Near 0 the exact way's 1 - t errs by 2^-53: from a = 2^14 on that is below 0.4 u of a share of 2^-10, and
 * below it no interval is believed. A uniform weight has no polynomial: 3 u < e = 3.125 u, and upwards the rounding of
 * a, u. */
#ifndef FI_BRIEF_H
#define FI_BRIEF_H

#include "quantile.h"

enum {
    FI_BRIEF_DEGREE_CENTRE = 5,
    FI_BRIEF_ROWS = 128,
    FI_BRIEF_DEGREE_POWERS = 8,
    FI_BRIEF_DEGREE_FLOAT16 = 6,
    FI_BRIEF_DEGREE_BFLOAT16 = 5
};

/* R(y) = z / q, y in [2^-8, 1): see quantile.h. Of `centre` bits(y) >> 48, modulo 128, numbers the row, of
 * `powers` bits(y) >> 51, modulo 16, the column; x is the distance from the segment's middle. */
extern const double fi_brief_centre[FI_BRIEF_ROWS][FI_BRIEF_DEGREE_CENTRE + 1];
extern const double fi_brief_powers[FI_BRIEF_DEGREE_POWERS + 1][FI_CENTRE_ROWS];

/* z / q by 2^31 t: its exponent, modulo 16 or 8, numbers the column; x is the significand - 1.5. */
extern const float fi_brief_float16[FI_BRIEF_DEGREE_FLOAT16 + 1][16]; /* t in [2^-16, 1) */
extern const float fi_brief_bfloat16[FI_BRIEF_DEGREE_BFLOAT16 + 1][16];
extern const float fi_brief_float16_eight[FI_BRIEF_DEGREE_FLOAT16 + 1][8]; /* t in [2^-8, 1) */
extern const float fi_brief_bfloat16_eight[FI_BRIEF_DEGREE_BFLOAT16 + 1][8];

#define FI_BRIEF_SIGNIFICAND ((UINT64_C(1) << 48) - 1)
#define FI_BRIEF_MIDDLE 1.03125 /* of the first of 16 segments */

/* Within them no weight that is not 0, no end of an interval and no constant leaves float32's normal numbers. */
#define FI_BRIEF_LEAST 0x1p-60
#define FI_BRIEF_ERROR_FLOAT16 0x1.5p-21   /* E: 10.5 u */
#define FI_BRIEF_ERROR_BFLOAT16 0x1.c8p-19 /* 57 u */
#define FI_BRIEF_ERROR_UNIFORM 0x1.9p-23
#define FI_BRIEF_ABOVE_UNIFORM 0x1p-24
#define FI_BRIEF_UNITS (1 << 15) /* of a weight's last place, on the portable level: more than 2^-38 |w| */
#define FI_BRIEF_SLACK 5.5       /* steps of 2^-31 */
#define FI_BRIEF_SHARE 0x1p-10   /* of the normal's mass: below it, roundings of t are more than a step */

#endif
