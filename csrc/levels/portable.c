/* Plain C, without an instruction that a CPU may lack. */
#include "../brief.h"
#include "../weight.h"
#include "level.h"

#define LEVEL portable

/* ---- dtypes ---- */

#define ROUNDED(w, number, type) \
    _Generic((type)0, double: (w), float: (float)(w), default: (type)to_format(w, &formats[number]))

/* ---- normal weights, eight at a time, so that their long chains of operations overlap ---- */

enum { EIGHT = 8 };
#define EACH for (int i = 0; i < EIGHT; i++)

/* Replaces *a by a * x + c, where |c| >= |a * x|, and says whether that is surely rounded once, as fi_fma rounds: the
 * sum of c and the product is exact in two parts but for the last bit of the smaller one, and moving it by two such
 * bits does not move the result. */
static inline bool multiply_and_add(double *a, double x, double c) {
    double product = *a * x, a1, a0, x1, x0;
    fma_split(*a, &a1, &a0);
    fma_split(x, &x1, &x0);
    double rest = ((a1 * x1 - product) + a1 * x0 + a0 * x1) + a0 * x0; /* Dekker: exact */
    double sum = c + product, low = (product - (sum - c)) + rest;
    *a = sum + low;
    return sum + low * (1 - 0x1p-51) == sum + low * (1 + 0x1p-51);
}

/* quantile_centre of quantile.h. */
static void ratios(const double *y, double *z) {
    const double *row[EIGHT];
    double x[EIGHT];
    bool sure = true;
    EACH {
        row[i] = fi_quantile_centre[(bits_of(y[i]) >> 51) % FI_CENTRE_ROWS];
        x[i] = from_bits((bits_of(y[i]) & FI_SIGNIFICAND) | FI_ONE) - 1.25;
        z[i] = row[i][FI_DEGREE];
    }
    for (int power = FI_DEGREE - 1; power >= 0; power--) EACH sure &= multiply_and_add(&z[i], x[i], row[i][power]);
    if (!sure) EACH z[i] = quantile_centre(y[i]);
}

/* The same by brief.h, with a product and a sum for each fma. */
static void brief_ratios(const double *y, double *z) {
    const double *row[EIGHT];
    double x[EIGHT];
    EACH {
        row[i] = fi_brief_centre[(bits_of(y[i]) >> 48) % FI_BRIEF_ROWS];
        x[i] = from_bits((bits_of(y[i]) & FI_BRIEF_SIGNIFICAND) | FI_ONE) - FI_BRIEF_MIDDLE;
        z[i] = row[i][FI_BRIEF_DEGREE_CENTRE];
    }
    for (int power = FI_BRIEF_DEGREE_CENTRE - 1; power >= 0; power--) EACH z[i] = z[i] * x[i] + row[i][power];
}

/* No branch: which side a weight lies on is not predicted. */
static inline double chosen(uint64_t mask, double yes, double no) {
    return from_bits((bits_of(yes) & mask) | (bits_of(no) & ~mask));
}

/* The t of a draw, 1 - |q|, and the sign of its weight, as weight.h has them. */
FI_INLINE uint64_t tail_of(fi_base base, uint64_t draw, const fi_spec *spec, double *t) {
    const uint64_t top = UINT64_C(1) << 63;
    if (base == FI_NORMAL) {
        uint64_t q = bits_of(centered_open(draw));
        *t = 1 - from_bits(q & ~top);
        return q & top;
    }
    double k = (double)top53(draw);
    uint64_t below = 0 - (uint64_t)(k < spec->split);
    double steps = 2 * chosen(below, k, (0x1p53 - 1) - k) + 1;
    *t = chosen(below, spec->low_tail, spec->high_tail) + spec->width * steps;
    if (!(*t < 1)) *t = 1;
    return below & top;
}

/* Eight weights of normal or truncated_normal, or with `brief` what comes close to them; a bit for each that has to be
 * computed by itself. */
FI_INLINE unsigned eight_weights(fi_base base, uint64_t x, uint64_t step, const fi_spec *spec, bool brief,
                                 double *w) {
    double t[EIGHT], y[EIGHT], z[EIGHT];
    uint64_t sign[EIGHT];
    unsigned tails = 0;
    EACH sign[i] = tail_of(base, mix64(x + (uint64_t)i * step), spec, &t[i]);
    EACH {
        y[i] = t[i] * (2 - t[i]);
        tails |= (unsigned)(y[i] < FI_QUANTILE_CUT * (1 + 0x1p-20))
                 << i; /* surely below, also after the roundings */
    }
    if (brief) {
        EACH y[i] = y[i] < FI_QUANTILE_TOP ? y[i] : FI_QUANTILE_TOP;
        brief_ratios(y, z);
    } else {
        bool sure = true;
        EACH {
            double q = 1 - t[i]; /* exact for a normal weight, whose y is TOP - q^2 */
            y[i] = base == FI_NORMAL ? -q : -t[i];
            sure &= multiply_and_add(&y[i], base == FI_NORMAL ? q : t[i],
                                     base == FI_NORMAL ? FI_QUANTILE_TOP : t[i] + t[i]);
            if (base != FI_NORMAL) y[i] = y[i] - 0x1p-53;
        }
        if (!sure) return ~0u;
        ratios(y, z);
    }
    EACH {
        z[i] = from_bits(bits_of((1 - t[i]) * z[i]) ^ sign[i]);
        if (base == FI_TRUNCATED_NORMAL) z[i] = clamp(z[i], spec->lower, spec->upper);
        double scaled = spec->scale * z[i];
        w[i] = brief && base == FI_NORMAL ? scaled : spec->shift + scaled; /* which makes +0 of -0 */
        if (base == FI_TRUNCATED_NORMAL) w[i] = clamp(w[i], spec->lo, spec->hi);
    }
    return tails;
}

/* Functions of their own: the exact chains are long, and there are twelve kernels. */
static __attribute__((noinline)) unsigned eight_exact_weights(uint64_t x, uint64_t step, const fi_spec *spec,
                                                              double *w) {
    if (spec->base == FI_NORMAL) return eight_weights(FI_NORMAL, x, step, spec, false, w);
    return eight_weights(FI_TRUNCATED_NORMAL, x, step, spec, false, w);
}

static __attribute__((noinline)) double weight_alone(uint64_t x, const fi_spec *spec) {
    return weight(mix64(x), spec);
}

/* Whether a tie lies within the error of a brief weight. */
static inline bool is_unsure(fi_rounding r) {
    uint64_t half = UINT64_C(1) << (r.shift - 1), unit = 2 * half;
    return ((r.magnitude + half + FI_BRIEF_UNITS) & (unit - 1)) < 2 * FI_BRIEF_UNITS;
}

/* ---- kernels ---- */

/* Clamping before the rounding gives the same weight as after it: lo and hi are values of the dtype
 * and rounding is monotone (a zero lo carries the sign that rounding would leave). */
#define BASE_NUMBER(with, number, base) BASE_##base = number,
enum { FI_EACH_BASE(BASE_NUMBER, ) };
#undef BASE_NUMBER
#define COMES_IN_EIGHTS(base) (BASE_##base == BASE_normal || BASE_##base == BASE_truncated_normal)

#define DEFINE_FILL(base, number, dtype, width, type, ...)                                                        \
    static void KERNEL_NAME(base, dtype)(void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, \
                                         bool stream) {                                                           \
        (void)stream;                                                                                             \
        type *weights = out;                                                                                      \
        const bool brief = (width) < 64 && spec->brief;                                                           \
        for (; COMES_IN_EIGHTS(base) && !spec->far && count >= EIGHT; count -= EIGHT, x += EIGHT * step) {        \
            double w[EIGHT];                                                                                      \
            unsigned alone = brief ? eight_weights((fi_base)BASE_##base, x, step, spec, true, w)                  \
                                   : eight_exact_weights(x, step, spec, w);                                       \
            EACH {                                                                                                \
                if (alone >> i & 1 || (brief && is_unsure(before_rounding(w[i], &formats[number]))))              \
                    w[i] = weight_alone(x + (uint64_t)i * step, spec);                                            \
                *weights++ = ROUNDED(w[i], number, type);                                                         \
            }                                                                                                     \
        }                                                                                                         \
        for (; count; count--, x += step) {                                                                       \
            double w =                                                                                            \
                COMES_IN_EIGHTS(base) ? weight_alone(x, spec) : (base)(mix64(x), spec); /* see formats.h */       \
            *weights++ = ROUNDED(w, number, type);                                                                \
        }                                                                                                         \
    }

DEFINE_KERNELS

#include "../checksum.h"
#include "../summary.h"

DEFINE_SUMMARIZE
DEFINE_MULTILINEAR

static uint64_t CONCAT(sum_draws, LEVEL)(uint64_t x, size_t count) {
    uint64_t total = 0;
    for (; count; count--, x += FI_GAMMA) total += mix64(x);
    return total;
}

DEFINE_LEVEL
