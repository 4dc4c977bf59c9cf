/* One weight by scalars, in float64: the specification of every kernel. */
#ifndef FI_WEIGHT_H
#define FI_WEIGHT_H

#include "formats.h"
#include "splitmix64.h"
#include "truncated.h"

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
    double scaled = spec->scale * quantile(centered_open(draw));
    return clamp(spec->shift + scaled, spec->lo, spec->hi);
}

static inline double truncated_normal(uint64_t draw, const fi_spec *spec) {
    double scaled = spec->scale * truncated_quantile((double)top53(draw), spec);
    return clamp(spec->shift + scaled, spec->lo, spec->hi);
}

static inline double weight(uint64_t draw, const fi_spec *spec) {
#define WEIGHT(with, number, base) \
    case number: return base(draw, spec);
    switch (spec->base) { FI_EACH_BASE(WEIGHT, ) }
#undef WEIGHT
    return 0;
}

#endif
