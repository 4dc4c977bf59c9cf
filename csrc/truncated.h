/* The truncated normal quantile: z on [lower, upper] with Phi(z) = Phi(lower) + (Phi(upper) - Phi(lower)) (2k + 1)
 * 2^-54, k the top 53 bits of a draw. Like quantile.h, a list of operations.
 *
 *   error     |z - target| <= 4 max(ulp(z), 2^-52); then z is clamped to [lower, upper]
 *   monotone  the near form is non-decreasing in k: every step of it is a monotone function of float64s, see
 *             quantile.h. The far form can swap neighbours by an ulp where an interval is so narrow that
 *             neighbours lie closer than its rounding errors.
 *
 * Both are scaled to the tail they lie in, so that no probability is ever taken from 1. The constants are
 * correctly rounded values of exact reals, made by fastinit/_engine/truncation.py.
 */
#ifndef FI_TRUNCATED_H
#define FI_TRUNCATED_H

#include "formats.h"
#include "quantile.h"

/* Where the interval keeps clear of zero by this much, it is far. */
#define FI_FAR 5.0

static inline bool truncated_is_far(double lower, double upper) { return lower >= FI_FAR || upper <= -FI_FAR; }

/* Z with 2 Q(Z) = t, for t in [2^-76, 1]; non-increasing in t. */
static inline double two_sided_quantile(double t) {
    double y = fi_fma(-t, t, t + t) - 0x1p-53; /* t (2 - t) = 1 - q^2 */
    return y < FI_QUANTILE_CUT ? quantile_tail(t) : (1 - t) * quantile_centre(y);
}

/* Near: from each end the two-sided tail grows in steps of width, up to where zero lies. */
static inline double truncated_near(double k, const fi_spec *spec) {
    bool below = k < spec->split;
    double steps = 2 * (below ? k : (0x1p53 - 1) - k) + 1; /* one rounding */
    double t = (below ? spec->low_tail : spec->high_tail) + spec->width * steps;
    double z = two_sided_quantile(t < 1 ? t : 1);
    return below ? -z : z;
}

/* Far, in quantile.c: one scalar function for all levels. */
double fi_truncated_far(double k, const fi_spec *spec);

static inline double truncated_quantile(double k, const fi_spec *spec) {
    double z = spec->far ? fi_truncated_far(k, spec) : truncated_near(k, spec);
    return clamp(z, spec->lower, spec->upper);
}

#endif
