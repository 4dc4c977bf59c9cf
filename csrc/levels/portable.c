/* The specification in plain C: every other level equals this file bit for bit. */
#include "../formats.h"
#include "../splitmix64.h"
#include "../truncated.h"
#include "level.h"

#define LEVEL portable

/* ---- bases ---- */

static inline double constant(uint64_t draw, const fi_spec *spec) {
    (void)draw;
    return spec->shift;
}

static inline double uniform(uint64_t draw, const fi_spec *spec) {
    double scaled = spec->scale * unit_closed_open(draw);
    return clamp(spec->shift + scaled, spec->lo, spec->hi);
}

static inline double centered_uniform(uint64_t draw, const fi_spec *spec) {
    return clamp(spec->scale * (spec->presteps * centered_step(draw)), spec->lo, spec->hi);
}

static inline double normal(uint64_t draw, const fi_spec *spec) {
    double scaled = spec->scale * quantile(centered_odd(draw));
    return clamp(spec->shift + scaled, spec->lo, spec->hi);
}

static inline double truncated_normal(uint64_t draw, const fi_spec *spec) {
    double scaled = spec->scale * truncated_quantile((double)top53(draw), spec);
    return clamp(spec->shift + scaled, spec->lo, spec->hi);
}

/* ---- dtypes ---- */

#define ROUNDED(w, number, type) \
    _Generic((type)0, double: (w), float: (float)(w), default: (type)to_format(w, &formats[number]))

/* ---- kernels ---- */

/* Clamping before the rounding gives the same weight as after it: lo and hi are values of the dtype
 * and rounding is monotone (a zero lo carries the sign that rounding would leave). */
#define DEFINE_FILL(base, number, dtype, width, type, ...)                                                        \
    static void KERNEL_NAME(base, dtype)(void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, \
                                         bool stream) {                                                           \
        (void)stream;                                                                                             \
        type *weights = out;                                                                                      \
        for (size_t j = 0; j < count; j++, x += step) {                                                           \
            double w = (base)(mix64(x), spec); /* see formats.h */                                                \
            weights[j] = ROUNDED(w, number, type);                                                                \
        }                                                                                                         \
    }

DEFINE_KERNELS

#include "../checksum.h"
#include "../summary.h"

DEFINE_SUMMARIZE
DEFINE_MULTILINEAR
DEFINE_LEVEL
