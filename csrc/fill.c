/* Public entry points: a distribution's constants, strided memory cut into runs, runs into kernel calls. */
#include <math.h>
#include <string.h>

#include "convert.h"
#include "fpenv.h"
#include "kernels.h"
#include "splitmix64.h"

/* ---- what to draw: fi_spec_init ------------------------------------------------------------------- */

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

/* Narrow the clamp to the dtype's values in [low, high), or leave it off where the first and the last
 * weight (k = 0 and k = 2^53 - 1; every map is monotone in k) comply without it. */
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

/* The vector levels take the one-multiply form of the centered uniform, and reach the narrow dtypes by
 * way of a float32 that must not be subnormal; bfloat16 alone has values that small. What they cannot
 * serve is `plain`. */
static __attribute__((noinline)) fi_status prepare(fi_spec *spec, const double *p) {
    double smallest;
    spec->scale = 0;
    spec->shift = 0;
    spec->presteps = 1;
    spec->lo = -INFINITY;
    spec->hi = INFINITY;
    spec->clamped = false;
    spec->plain = false;
    switch (spec->base) {
    case FI_CONSTANT:
        spec->shift = p[0];
        spec->plain = spec->dtype == FI_BFLOAT16 && fabs(p[0]) < FLT_MIN;
        return fabs(p[0]) <= formats[spec->dtype].largest ? FI_OK : FI_BEYOND_RANGE;
    case FI_UNIFORM:
        spec->scale = p[1] - p[0];
        spec->shift = p[0];
        if (!(p[0] < p[1] && spec->scale <= DBL_MAX)) return FI_NOT_AN_INTERVAL;
        /* The smallest nonzero |w| is at least the smaller last bit of the two terms. */
        smallest = p[0] == 0 ? spec->scale * 0x1p-53 : fmin(spec->scale * 0x1p-106, fabs(p[0]) * 0x1p-53);
        spec->plain = spec->dtype == FI_BFLOAT16 && smallest < FLT_MIN;
        return bound(spec, p[0], p[1], p[0], p[0] + spec->scale * (1 - 0x1p-53));
    default: /* FI_CENTERED_UNIFORM */
        if (!(p[0] >= 0)) return FI_NOT_AN_INTERVAL;
        if (p[0] == 0) { /* no spread: the mean, which is +0 */
            spec->base = FI_CONSTANT;
            return FI_OK;
        }
        /* a * 2^-52 must be exact for the one-multiply form to round once */
        spec->presteps = p[0] >= 0x1p-970 ? 1 : 0x1p-52;
        spec->scale = spec->presteps == 1 ? p[0] * 0x1p-52 : p[0];
        smallest = p[0] * 0x1p-52;
        spec->plain = spec->presteps != 1 || (spec->dtype == FI_BFLOAT16 && smallest < FLT_MIN);
        return bound(spec, -p[0], p[0], -p[0], spec->scale * (spec->presteps * (0x1p52 - 1)));
    }
}

fi_status fi_spec_init(fi_spec *spec, fi_base base, fi_dtype dtype, const double *parameters) {
    spec->base = base;
    spec->dtype = dtype;
    fp_state host = fp_enter();
    fi_status status = prepare(spec, parameters);
    fp_leave(host);
    return status;
}

/* ---- where to: regions ---------------------------------------------------------------------------- */

static void swap_axes(fi_region *r, int i, int j) {
    int64_t length = r->length[i], stride = r->stride[i];
    uint64_t draws = r->draws[i];
    r->length[i] = r->length[j], r->stride[i] = r->stride[j], r->draws[i] = r->draws[j];
    r->length[j] = length, r->stride[j] = stride, r->draws[j] = draws;
}

void fi_region_normalize(fi_region *r) {
    int kept = 0;
    for (int i = 0; i < r->ndim; i++) { /* forwards, and without axes of length 1 */
        if (r->length[i] == 1) continue;
        if (r->stride[i] < 0) {
            r->data += r->stride[i] * (r->length[i] - 1);
            r->first += r->draws[i] * (uint64_t)(r->length[i] - 1);
            r->stride[i] = -r->stride[i];
            r->draws[i] = -r->draws[i];
        }
        swap_axes(r, kept++, i);
    }
    r->ndim = kept;
    for (int i = 1; i < kept; i++) /* the largest stride outermost; equal ones stay in order */
        for (int j = i; j > 0 && r->stride[j - 1] < r->stride[j]; j--) swap_axes(r, j - 1, j);
    int last = 0;
    for (int i = 1; i < kept; i++) { /* merge an axis into the one outside it where both march as one */
        if (r->stride[last] == r->stride[i] * r->length[i] &&
            r->draws[last] == r->draws[i] * (uint64_t)r->length[i]) {
            r->length[last] *= r->length[i];
            r->stride[last] = r->stride[i];
            r->draws[last] = r->draws[i];
        } else if (++last != i) {
            swap_axes(r, last, i);
        }
    }
    r->ndim = kept ? last + 1 : 0;
}

int64_t fi_region_size(const fi_region *r) {
    int64_t size = 1;
    for (int i = 0; i < r->ndim; i++) size *= r->length[i];
    return size;
}

/* ---- runs ----------------------------------------------------------------------------------------- */

static void store(char *out, const char *weights, int64_t count, int64_t stride, size_t size, bool swapped) {
    for (int64_t j = 0; j < count; j++, out += stride, weights += size) {
        if (!swapped) {
            memcpy(out, weights, size);
        } else {
            for (size_t b = 0; b < size; b++) out[b] = weights[size - 1 - b];
        }
    }
}

/* One run along the innermost axis. Kernels write contiguous, aligned, native memory; anything else
 * goes through a buffer that stays in the first cache. */
static void fill_run(char *out, int64_t count, int64_t stride, bool swapped, uint64_t x, uint64_t step,
                     const fi_spec *spec, bool stream) {
    const fi_level *level = spec->plain ? &fi_level_portable : fi_level_current();
    fi_kernel kernel = level->fill[spec->base][spec->dtype];
    size_t size = (size_t)formats[spec->dtype].bits / 8;
    if (!swapped && (stride == (int64_t)size || count == 1) && (uintptr_t)out % size == 0) {
        kernel(out, (size_t)count, x, step, spec, stream);
        return;
    }
    enum { TILE = 512 };
    union {
        double aligned;
        char bytes[TILE * sizeof(double)];
    } tile;
    for (int64_t done = 0; done < count; done += TILE) {
        int64_t n = count - done < TILE ? count - done : TILE;
        kernel(tile.bytes, (size_t)n, x + (uint64_t)done * step, step, spec, false);
        store(out + done * stride, tile.bytes, n, stride, size, swapped);
    }
}

void fi_fill(const fi_region *r, const fi_spec *spec, uint64_t state, int64_t begin, int64_t end) {
    int64_t at[FI_MAX_DIMS], rest = begin;
    int inner = r->ndim - 1;
    char *out = r->data;
    uint64_t draw = r->first;
    for (int i = inner; i >= 0; i--) {
        at[i] = rest % r->length[i];
        rest /= r->length[i];
        out += at[i] * r->stride[i];
        draw += (uint64_t)at[i] * r->draws[i];
    }
    fp_state host = fp_enter();
    while (begin < end) {
        int64_t run = inner < 0 ? 1 : r->length[inner] - at[inner];
        if (run > end - begin) run = end - begin;
        int64_t stride = inner < 0 ? 0 : r->stride[inner];
        uint64_t step = inner < 0 ? 0 : r->draws[inner] * FI_GAMMA;
        fill_run(out, run, stride, r->swapped, state + (draw + 1) * FI_GAMMA, step, spec, r->stream);
        begin += run;
        if (inner < 0) break;
        /* carry like an odometer */
        at[inner] += run;
        out += run * stride;
        draw += (uint64_t)run * r->draws[inner];
        for (int i = inner; i > 0 && at[i] == r->length[i]; i--) {
            out += r->stride[i - 1] - r->length[i] * r->stride[i];
            draw += r->draws[i - 1] - (uint64_t)r->length[i] * r->draws[i];
            at[i] = 0;
            at[i - 1]++;
        }
    }
    fp_leave(host);
}

/* ---- one draw at a time --------------------------------------------------------------------------- */

uint64_t fi_advance(uint64_t state, uint64_t draws) { return state + draws * FI_GAMMA; }

uint64_t fi_next_u64(void *state) { return splitmix64_next(state); }

uint32_t fi_next_u32(void *state) { return (uint32_t)(splitmix64_next(state) >> 32); }

double fi_next_unit(void *state) { return unit_closed_open(splitmix64_next(state)); }
