/* The tables of quantile.h, and the far tails of truncated.h: what exists once, not once a level. */
#include <math.h>

#include "truncated.h"

#include "brief_table.h"
#include "quantile_table.h"

/* Natural logarithm of a positive normal x: x = 2^n m, m in [0.7, 1.41), f = (m - 1) / (m + 1), and the series of
 * 2 artanh(f) in f^2 <= 0.0295 up to 2^-60. Accurate near 1 as well, where m - 1 is exact. */
static double natural_log(double x) {
    static const double lowest = 0x1.6a09e667f3bcdp-1; /* sqrt(1/2) */
    static const double inverse[] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                     1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
    uint64_t bits = bits_of(x);
    int64_t n = (int64_t)(bits >> 52) - 1022;
    double m = from_bits((bits & (UINT64_MAX >> 12)) | UINT64_C(1022) << 52); /* [1/2, 1) */
    if (m < lowest) {
        m = m + m;
        n = n - 1;
    }
    double f = (m - 1) / (m + 1), square = f * f, sum = 0;
    for (int i = 0; i < (int)(sizeof inverse / sizeof *inverse); i++) sum = square * (inverse[i] + sum);
    double low = (double)n * 0x1.ef35793c76730p-45 + 2 * f * sum; /* ln 2 = 0x1.62e42fefa3800p-1 + that */
    return (double)n * 0x1.62e42fefa3800p-1 + (2 * f + low);
}

/* Mills' ratio Q(x) / phi(x) for x >= 5, by 40 terms of its continued fraction (Laplace). */
static double mills(double x) {
    double fraction = x;
    for (int i = 40; i >= 1; i--) fraction = x + i / fraction;
    return 1 / fraction;
}

/* a + d with Q(a + d) = v Q(a), where v falls from 1 to Q(b) / Q(a) from the inner bound a to the outer one b.
 * In logarithms that is a d + d^2 / 2 + log(M(a) / M(a + d)) = -log v; the root of the first two terms starts
 * Newton's iteration, which four steps end for every a. */
double fi_truncated_far(double k, const fi_spec *spec) {
    bool mirrored = spec->upper < 0;
    double a = spec->inner;
    double steps = 2 * (mirrored ? k : (0x1p53 - 1) - k) + 1; /* from the outer bound; one rounding */
    double e = -natural_log(spec->outer_share + spec->span * (steps * 0x1p-54));
    double d = 2 * e / (a + sqrt(a * a + 2 * e));
    for (int i = 0; i < 4; i++) {
        double m = mills(a + d);
        d = d - ((a * d + 0.5 * d * d) + natural_log(spec->inner_mills / m) - e) * m;
    }
    double z = d > 0 ? a + d : a;
    return mirrored ? -z : z;
}
