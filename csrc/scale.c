/* Fan arithmetic: + - * / sqrt in float64 and nothing else, inside the kernels' environment, so that a
 * host's rounding mode cannot move a limit. Source: Glorot and Bengio (2010), eq. 16; He et al. (2015). */
#include <math.h>

#include "fastinit.h"
#include "fpenv.h"

/* The standard deviation of a standard normal truncated at -2 and 2. */
static const double TRUNCATED_STD = 0.87962566103423978;

/* Results go through memory so that no arithmetic leaves the guard (fpenv.h). */
static __attribute__((noinline)) void compute(fi_scale_result *result, double scale, double fan, fi_fan kind,
                                              double gain) {
    double n = kind == FI_FAN_SUM ? fan / 2 : kind == FI_FAN_PRODUCT ? sqrt(fan) : fan;
    result->variance = scale / n;
    result->std = sqrt(scale / n) * gain;
    result->limit = sqrt((3 * scale) / n) * gain;
    result->parent_std = sqrt(scale / n) / TRUNCATED_STD * gain;
}

static __attribute__((noinline)) void compute_rescaled(double *x, double factor, double p, double q) {
    *x = *x * factor / sqrt(p / q);
}

static __attribute__((noinline)) void compute_rectifier(double *scale, double slope, double moment) {
    *scale = 2 / (1 + moment * slope * slope);
}

static __attribute__((noinline)) void compute_share(uint64_t *share, double fraction, double count) {
    double product = fraction * count;
    *share = (uint64_t)product;
    *share += (double)*share < product;
}

void fi_scale(fi_scale_result *result, double scale, double fan, fi_fan kind, double gain) {
    fp_state host = fp_enter();
    compute(result, scale, fan, kind, gain);
    fp_leave(host);
}

void fi_rescale(double *x, double factor, double p, double q) {
    fp_state host = fp_enter();
    compute_rescaled(x, factor, p, q);
    fp_leave(host);
}

void fi_rectifier_scale(double *scale, double slope, double moment) {
    fp_state host = fp_enter();
    compute_rectifier(scale, slope, moment);
    fp_leave(host);
}

uint64_t fi_share(double fraction, double count) {
    uint64_t share;
    fp_state host = fp_enter();
    compute_share(&share, fraction, count);
    fp_leave(host);
    return share;
}
