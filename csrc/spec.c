/* What to draw: a distribution and a dtype become the constants of a kernel, checked once. */
#include <math.h>

#include "brief.h"
#include "formats.h"
#include "fpenv.h"
#include "truncated.h"

const char *fi_base_name(fi_base base) {
#define NAME(with, constant, name) [constant] = #name,
    static const char *const names[FI_BASES] = {FI_EACH_BASE(NAME, )};
#undef NAME
    return names[base];
}

const char *fi_dtype_name(fi_dtype dtype) {
#define NAME(with, constant, name, ...) [constant] = #name,
    static const char *const names[FI_DTYPES] = {FI_EACH_DTYPE(NAME, )};
#undef NAME
    return names[dtype];
}

static double rounded(double x, const fi_format *format) { return from_format(to_format(x, format), format); }

/* The neighbour of a value of the format: magnitudes order as integers do. */
static double next_value(double x, bool upwards, const fi_format *format) {
    uint64_t sign = UINT64_C(1) << (format->bits - 1), bits = to_format(x, format);
    if (x == 0) return from_format(upwards ? 1 : sign | 1, format);
    return from_format((x > 0) == upwards ? bits + 1 : bits - 1, format);
}

static double smallest_at_least(double low, const fi_format *format) {
    double r = rounded(low, format);
    return r < low ? next_value(r, true, format) : r;
}

static double largest_at_most(double high, const fi_format *format) {
    double r = rounded(high, format);
    return r > high ? next_value(r, false, format) : r;
}

/* The clamp of [low, high): its bounds are values of the dtype. It is left off where the first and the last weight
 * (k = 0 and k = 2^53 - 1) comply without it, because every map is monotone in k. */
static fi_status bound(fi_spec *spec, double low, double high, double first, double last) {
    const fi_format *format = &formats[spec->dtype];
    if (!(fabs(low) <= format->largest && fabs(high) <= format->largest)) return FI_BEYOND_RANGE;
    double lo = smallest_at_least(low, format);
    /* below both high and high rounded: `w < high` holds in the dtype and in float64 alike */
    double hi = next_value(rounded(high, format), false, format);
    if (lo > hi) return FI_EMPTY_INTERVAL;
    if (rounded(first, format) < lo) spec->lo = lo;
    if (rounded(last, format) > hi) spec->hi = hi;
    spec->clamped = isfinite(spec->lo) || isfinite(spec->hi);
    return FI_OK;
}

/* At most the smallest nonzero |shift + scale * x|, where a nonzero |x| is `least` or more: a sum is no smaller
 * than the last bit of its smaller term. */
static double least_sum(double shift, double scale, double least) {
    double product = scale * least, last_bit = fabs(shift) * 0x1p-53;
    if (shift == 0) return product;
    return last_bit < product * 0x1p-53 ? last_bit : product * 0x1p-53;
}

/* The vector levels reach the narrow dtypes by way of a float32, which must not be subnormal: rounding to odd
 * needs all its bits. Only a format with values that small can tell. */
static bool is_too_small(double least, const fi_format *format) {
    bool has_such = 1 - format->bias - format->mantissa < FLT_MIN_EXP - 1;
    return format->bits < 32 && has_such && least < FLT_MIN;
}

static double least_nonzero(double a, double b) {
    if (a == 0 || b == 0) return fabs(a) + fabs(b);
    return fabs(a) < fabs(b) ? fabs(a) : fabs(b);
}

static fi_status prepare_constant(fi_spec *spec, const double *p) {
    const fi_format *format = &formats[spec->dtype];
    spec->base = FI_CONSTANT;
    spec->shift = p[0];
    spec->plain = is_too_small(fabs(p[0]), format);
    return fabs(p[0]) <= format->largest ? FI_OK : FI_BEYOND_RANGE;
}

/* From here up a spread times 2^-64 is a normal number: the vector levels multiply integers by such factors. */
#define LEAST_SCALED 0x1p-950

static fi_status prepare_uniform(fi_spec *spec, const double *p) {
    spec->scale = p[1] - p[0];
    spec->shift = p[0];
    if (!(p[0] < p[1] && spec->scale <= DBL_MAX)) return FI_NOT_AN_INTERVAL;
    spec->plain =
        spec->scale < LEAST_SCALED || is_too_small(least_sum(p[0], spec->scale, 0x1p-53), &formats[spec->dtype]);
    return bound(spec, p[0], p[1], p[0], p[0] + spec->scale * (1 - 0x1p-53));
}

static fi_status prepare_centered_uniform(fi_spec *spec, const double *p) {
    double limit = p[0], step = limit * 0x1p-52;
    if (!(limit >= 0)) return FI_NOT_AN_INTERVAL;
    if (limit == 0) { /* no spread: the mean, which is +0 */
        spec->base = FI_CONSTANT;
        return FI_OK;
    }
    /* one multiplication rounds once only if limit * 2^-52, and less of it, is exact; the vector levels know no
     * other form */
    bool exact = limit >= LEAST_SCALED;
    spec->presteps = exact ? 1 : 0x1p-52;
    spec->scale = exact ? step : limit;
    spec->plain = !exact || is_too_small(step, &formats[spec->dtype]);
    return bound(spec, -limit, limit, -limit, spec->scale * (spec->presteps * (0x1p52 - 1)));
}

/* A mean and a std; without the latter the weights are the mean, whatever the bounds. */
static fi_status prepare_spread(fi_spec *spec, double mean, double std) {
    if (!(fabs(mean) <= DBL_MAX && std >= 0 && std <= DBL_MAX)) return FI_NOT_A_SPREAD;
    spec->shift = mean + 0.0; /* -0.0 and 0.0 are one mean */
    spec->scale = std;
    if (std != 0) return FI_OK;
    return prepare_constant(spec, &spec->shift);
}

static fi_status prepare_normal(fi_spec *spec, const double *p) {
    const fi_format *format = &formats[spec->dtype];
    fi_status status = prepare_spread(spec, p[0], p[1]);
    if (status != FI_OK || spec->base == FI_CONSTANT) return status;
    spec->base = FI_NORMAL; /* also for a truncated one without bounds */
    spec->plain = is_too_small(least_sum(spec->shift, spec->scale, 0x1p-53), format);
    return fabs(spec->shift) + FI_QUANTILE_LARGEST * spec->scale <= format->largest ? FI_OK : FI_BEYOND_RANGE;
}

/* As bound() does, but both ends belong to the interval. */
static fi_status bound_truncated(fi_spec *spec) {
    const fi_format *format = &formats[spec->dtype];
    bool has_low = isfinite(spec->lower), has_high = isfinite(spec->upper);
    double low = spec->shift + spec->scale * spec->lower, high = spec->shift + spec->scale * spec->upper;
    double first = spec->shift + spec->scale * truncated_quantile(0, spec);
    double last = spec->shift + spec->scale * truncated_quantile(0x1p53 - 1, spec);
    /* an infinite bound does not clamp; the extreme weight is used only for the range check */
    double lowest = has_low ? low : first, highest = has_high ? high : last;
    if (!(fabs(lowest) <= format->largest && fabs(highest) <= format->largest)) return FI_BEYOND_RANGE;
    double lo = has_low ? smallest_at_least(low, format) : -format->largest;
    double hi = has_high ? largest_at_most(high, format) : format->largest;
    if (lo > hi) return FI_EMPTY_INTERVAL;
    if (has_low && rounded(first, format) < lo) spec->lo = lo;
    if (has_high && rounded(last, format) > hi) spec->hi = hi;
    spec->clamped = isfinite(spec->lo) || isfinite(spec->hi);
    return FI_OK;
}

static fi_status prepare_truncated_normal(fi_spec *spec, const double *p) {
    fi_status status = prepare_spread(spec, p[0], p[1]);
    if (status != FI_OK) return status;
    if (!(p[2] < p[3])) return FI_NOT_AN_INTERVAL;
    if (spec->base == FI_CONSTANT) return FI_OK;
    if (isinf(p[2]) && isinf(p[3])) return prepare_normal(spec, p);
    spec->lower = p[2];
    spec->upper = p[3];
    spec->far = truncated_is_far(p[2], p[3]);
    if (spec->far) {
        spec->inner = p[4], spec->outer_share = p[5], spec->span = p[6], spec->inner_mills = p[7];
    } else {
        spec->low_tail = p[4], spec->high_tail = p[5], spec->width = p[6], spec->split = p[7];
        /* smallest table argument; a real interval never gives less, so the constants are not these bounds' */
        if (!(p[4] + p[6] >= 0x1p-76 && p[5] + p[6] >= 0x1p-76)) return FI_NOT_AN_INTERVAL;
    }
    double least = least_nonzero(p[2], p[3]);
    least = least_sum(spec->shift, spec->scale, least < 0x1p-53 ? least : 0x1p-53);
    spec->plain = is_too_small(least, &formats[spec->dtype]);
    return bound_truncated(spec);
}

/* Codes of 16 bits; without a bound, more than any finite one. */
static uint16_t magnitude_bits(double bound, const fi_format *format) {
    return isfinite(bound) ? (uint16_t)to_format(fabs(bound), format) : 0x7FFF;
}

/* The constants of brief.h, where it serves: weights around 0, in a dtype below float64. */
static void prepare_brief(fi_spec *spec) {
    const fi_format *format = &formats[spec->dtype];
    bool centered = spec->base == FI_CENTERED_UNIFORM, truncated = spec->base == FI_TRUNCATED_NORMAL;
    bool symmetric = spec->split == 0x1p52 && spec->low_tail == spec->high_tail;
    double spread = centered ? spec->scale * (spec->presteps * 0x1p52) : spec->scale;
    if (!centered && !truncated && spec->base != FI_NORMAL) return;
    if (format->bits == 64 || spec->shift != 0 || spec->plain || spec->far) return;
    if (truncated && format->bits == 16 && !symmetric) return;
    if (!(spread >= FI_BRIEF_LEAST)) return;
    double polynomial = spec->dtype == FI_BFLOAT16 ? FI_BRIEF_ERROR_BFLOAT16 : FI_BRIEF_ERROR_FLOAT16;
    double error = centered ? FI_BRIEF_ERROR_UNIFORM : polynomial + 0x3p-24;
    double above = centered ? FI_BRIEF_ABOVE_UNIFORM : polynomial + 0x0.ap-24; /* 0.625 u */
    double share = truncated ? spec->width * 0x1p53 : 1, step = spread * share * 0x1p-31;
    if (format->bits == 16 && !(share >= FI_BRIEF_SHARE)) return;
    spec->brief = true;
    spec->step = (float)(step * (1 - error));
    spec->wide = (float)((1 + above) / (1 - error) * (1 + 0x1.1p-22));
    spec->slack = (float)(step * (centered ? 1.01 : FI_BRIEF_SLACK));
    spec->tail = (float)(spec->low_tail * 0x1p31);
    spec->share = (float)share;
    spec->most = magnitude_bits(spec->hi, format);
    spec->most_below = magnitude_bits(spec->lo, format);
}

fi_status fi_spec_init(fi_spec *spec, fi_base base, fi_dtype dtype, const double *parameters) {
#define PREPARE(with, constant, name) [constant] = prepare_##name,
    static fi_status (*const prepare[FI_BASES])(fi_spec *, const double *) = {FI_EACH_BASE(PREPARE, )};
#undef PREPARE
    *spec = (fi_spec){.base = base, .dtype = dtype, .presteps = 1, .lo = -INFINITY, .hi = INFINITY};
    fp_state host = fp_enter();
    fi_status status = prepare[base](spec, parameters);
    if (status == FI_OK) prepare_brief(spec);
    fp_leave(host);
    return status;
}
