/* Public entry points: a distribution's constants, strided memory cut into runs, runs into kernel calls. */
#include <math.h>
#include <string.h>

#include "convert.h"
#include "fpenv.h"
#include "kernels.h"
#include "splitmix64.h"
#include "truncated.h"

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

static double largest_at_most(double high, const fi_format *format) {
    double r = rounded(high, format);
    return r > high ? next_value(r, false, format) : r;
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

/* At most the smallest nonzero |shift + scale * x|, where a nonzero |x| is `least` or more: a sum is no smaller
 * than the last bit of its smaller term. */
static double least_sum(double shift, double scale, double least) {
    double product = scale * least, last_bit = fabs(shift) * 0x1p-53;
    if (shift == 0) return product;
    return last_bit < product * 0x1p-53 ? last_bit : product * 0x1p-53;
}

static double least_nonzero(double a, double b) {
    if (a == 0 || b == 0) return fabs(a) + fabs(b);
    return fabs(a) < fabs(b) ? fabs(a) : fabs(b);
}

/* A mean and a std; none of the latter leaves the mean, whatever the bounds. */
static fi_status prepare_spread(fi_spec *spec, double mean, double std) {
    double largest = formats[spec->dtype].largest;
    if (!(fabs(mean) <= DBL_MAX && std >= 0 && std <= DBL_MAX)) return FI_NOT_A_SPREAD;
    spec->shift = mean + 0.0; /* -0.0 and 0.0 are one mean */
    spec->scale = std;
    if (std != 0) return FI_OK;
    spec->base = FI_CONSTANT;
    spec->plain = spec->dtype == FI_BFLOAT16 && fabs(mean) < FLT_MIN;
    return fabs(mean) <= largest ? FI_OK : FI_BEYOND_RANGE;
}

static fi_status prepare_normal(fi_spec *spec) {
    double reach = fabs(spec->shift) + FI_QUANTILE_LARGEST * spec->scale;
    spec->plain = spec->dtype == FI_BFLOAT16 && least_sum(spec->shift, spec->scale, 0x1p-53) < FLT_MIN;
    return reach <= formats[spec->dtype].largest ? FI_OK : FI_BEYOND_RANGE;
}

/* Narrow the clamp to the dtype's values in [low, high], where an infinite bound is none. */
static fi_status prepare_truncated(fi_spec *spec, const double *p) {
    const fi_format *format = &formats[spec->dtype];
    spec->lower = p[2];
    spec->upper = p[3];
    spec->far = truncated_is_far(p[2], p[3]);
    if (spec->far) {
        spec->inner = p[4], spec->outer_share = p[5], spec->span = p[6], spec->inner_mills = p[7];
    } else {
        spec->low_tail = p[4], spec->high_tail = p[5], spec->width = p[6], spec->split = p[7];
        /* what the tables are read at; no interval has less, so these are not the bounds' constants */
        if (!(p[4] + p[6] >= 0x1p-76 && p[5] + p[6] >= 0x1p-76)) return FI_NOT_AN_INTERVAL;
    }
    double least = least_nonzero(p[2], p[3]);
    least =
        spec->dtype == FI_BFLOAT16 ? least_sum(spec->shift, spec->scale, least < 0x1p-53 ? least : 0x1p-53) : 1;
    spec->plain = least < FLT_MIN;
    double low = spec->shift + spec->scale * p[2], high = spec->shift + spec->scale * p[3];
    double first = spec->shift + spec->scale * truncated_quantile(0, spec);
    double last = spec->shift + spec->scale * truncated_quantile(0x1p53 - 1, spec);
    double lowest = isinf(p[2]) ? first : low, highest = isinf(p[3]) ? last : high;
    if (!(fabs(lowest) <= format->largest && fabs(highest) <= format->largest)) return FI_BEYOND_RANGE;
    /* the extreme weights stand for an infinite bound's reach, not for the bound: [low, inf) is never empty */
    double lo = isinf(p[2]) ? -format->largest : smallest_at_least(low, format);
    double hi = isinf(p[3]) ? format->largest : largest_at_most(high, format);
    if (lo > hi) return FI_EMPTY_INTERVAL;
    if (isfinite(p[2]) && rounded(first, format) < lo) spec->lo = lo;
    if (isfinite(p[3]) && rounded(last, format) > hi) spec->hi = hi;
    spec->clamped = isfinite(spec->lo) || isfinite(spec->hi);
    return FI_OK;
}

/* The vector levels take the one-multiply form of the centered uniform, and reach the narrow dtypes by
 * way of a float32 that must not be subnormal; bfloat16 alone has values that small. What they cannot
 * serve is `plain`. */
static __attribute__((noinline)) fi_status prepare(fi_spec *spec, const double *p) {
    double smallest;
    fi_status status;
    spec->scale = 0;
    spec->shift = 0;
    spec->presteps = 1;
    spec->lo = -INFINITY;
    spec->hi = INFINITY;
    spec->clamped = false;
    spec->plain = false;
    spec->far = false;
    spec->lower = spec->upper = spec->low_tail = spec->high_tail = spec->width = spec->split = 0;
    spec->inner = spec->outer_share = spec->span = spec->inner_mills = 0;
    switch (spec->base) {
    case FI_CONSTANT:
        spec->shift = p[0];
        spec->plain = spec->dtype == FI_BFLOAT16 && fabs(p[0]) < FLT_MIN;
        return fabs(p[0]) <= formats[spec->dtype].largest ? FI_OK : FI_BEYOND_RANGE;
    case FI_UNIFORM:
        spec->scale = p[1] - p[0];
        spec->shift = p[0];
        if (!(p[0] < p[1] && spec->scale <= DBL_MAX)) return FI_NOT_AN_INTERVAL;
        spec->plain = spec->dtype == FI_BFLOAT16 && least_sum(p[0], spec->scale, 0x1p-53) < FLT_MIN;
        return bound(spec, p[0], p[1], p[0], p[0] + spec->scale * (1 - 0x1p-53));
    case FI_NORMAL:
        status = prepare_spread(spec, p[0], p[1]);
        return status != FI_OK || spec->base == FI_CONSTANT ? status : prepare_normal(spec);
    case FI_TRUNCATED:
        status = prepare_spread(spec, p[0], p[1]);
        if (status != FI_OK) return status;
        if (!(p[2] < p[3])) return FI_NOT_AN_INTERVAL;
        if (spec->base == FI_CONSTANT) return FI_OK;
        if (isinf(p[2]) && isinf(p[3])) {
            spec->base = FI_NORMAL;
            return prepare_normal(spec);
        }
        return prepare_truncated(spec, p);
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

typedef struct {
    fi_kernel kernel;
    const fi_spec *spec;
    int64_t itemsize;
    bool swapped, stream;
} filler;

/* Move weights from a buffer to where they belong, through one constant-size copy a dtype. */
static void scatter(char *out, const char *weights, int64_t count, int64_t stride, const filler *f) {
#define SCATTER(type, swap)                                                       \
    for (int64_t j = 0; j < count; j++, out += stride, weights += sizeof(type)) { \
        type w;                                                                   \
        memcpy(&w, weights, sizeof w);                                            \
        if (f->swapped) w = swap(w);                                              \
        memcpy(out, &w, sizeof w);                                                \
    }
    switch (f->itemsize) {
    case 8: SCATTER(uint64_t, __builtin_bswap64) break;
    case 4: SCATTER(uint32_t, __builtin_bswap32) break;
    case 2: SCATTER(uint16_t, __builtin_bswap16) break;
    default: SCATTER(uint8_t, (uint8_t)) break;
    }
#undef SCATTER
}

enum { TILE = 512 }; /* elements; with what is scattered from it, it stays in the first cache */

/* One run along an axis. Kernels write contiguous, aligned, native memory; anything else goes through a
 * buffer. */
static void fill_run(char *out, int64_t count, int64_t stride, uint64_t x, uint64_t step, const filler *f) {
    bool contiguous = stride == f->itemsize || count == 1;
    if (contiguous && !f->swapped && (int64_t)((uintptr_t)out % (uintptr_t)f->itemsize) == 0) {
        f->kernel(out, (size_t)count, x, step, f->spec, f->stream);
        return;
    }
    union {
        double aligned;
        char bytes[TILE * sizeof(double)];
    } tile;
    for (int64_t done = 0; done < count; done += TILE) {
        int64_t n = count - done < TILE ? count - done : TILE;
        f->kernel(tile.bytes, (size_t)n, x + (uint64_t)done * step, step, f->spec, false);
        scatter(out + done * stride, tile.bytes, n, stride, f);
    }
}

/* Short rows (an F-ordered matrix of two rows, a slice of three columns) would be all kernel calls and
 * no run: take them across, a block of rows at a time, one run for each place in the row. */
enum { SHORT_ROW = 32 };

static void fill_short_rows(char *out, int64_t rows, int64_t row_stride, uint64_t row_step, int64_t length,
                            int64_t stride, uint64_t step, uint64_t x, const filler *f) {
    for (int64_t done = 0; done < rows; done += TILE) {
        int64_t n = rows - done < TILE ? rows - done : TILE;
        char *block = out + done * row_stride;
        uint64_t block_x = x + (uint64_t)done * row_step;
        for (int64_t j = 0; j < length; j++)
            fill_run(block + j * stride, n, row_stride, block_x + (uint64_t)j * step, row_step, f);
    }
}

void fi_fill(const fi_region *r, const fi_spec *spec, uint64_t state, int64_t begin, int64_t end) {
    const fi_level *level = spec->plain ? &fi_level_portable : fi_level_current();
    const filler f = {level->fill[spec->base][spec->dtype], spec, formats[spec->dtype].bits / 8, r->swapped,
                      r->stream};
    /* a region of no axes is one of one element */
    const int inner = r->ndim > 0 ? r->ndim - 1 : 0;
    const int64_t length = r->ndim > 0 ? r->length[inner] : 1;
    const int64_t stride = r->ndim > 0 ? r->stride[inner] : f.itemsize;
    const uint64_t draws = r->ndim > 0 ? r->draws[inner] : 0;
    int64_t at[FI_MAX_DIMS] = {0}, rest = begin;
    char *out = r->data;
    uint64_t draw = r->first;
    for (int i = r->ndim - 1; i >= 0; i--) {
        at[i] = rest % r->length[i];
        rest /= r->length[i];
        out += at[i] * r->stride[i];
        draw += (uint64_t)at[i] * r->draws[i];
    }
    fp_state host = fp_enter();
    while (begin < end) {
        uint64_t x = state + (draw + 1) * FI_GAMMA;
        int64_t rows = inner > 0 && at[inner] == 0 && length < SHORT_ROW ? (end - begin) / length : 0;
        int axis; /* the one that has moved on */
        int64_t moved;
        if (rows > 1) {
            axis = inner - 1;
            moved = r->length[axis] - at[axis] < rows ? r->length[axis] - at[axis] : rows;
            fill_short_rows(out, moved, r->stride[axis], r->draws[axis] * FI_GAMMA, length, stride,
                            draws * FI_GAMMA, x, &f);
            begin += moved * length;
        } else {
            axis = inner;
            moved = length - at[axis] < end - begin ? length - at[axis] : end - begin;
            fill_run(out, moved, stride, x, draws * FI_GAMMA, &f);
            begin += moved;
        }
        if (r->ndim == 0) break;
        /* carry like an odometer */
        at[axis] += moved;
        out += moved * r->stride[axis];
        draw += (uint64_t)moved * r->draws[axis];
        for (int i = axis; i > 0 && at[i] == r->length[i]; i--) {
            out += r->stride[i - 1] - r->length[i] * r->stride[i];
            draw += r->draws[i - 1] - (uint64_t)r->length[i] * r->draws[i];
            at[i] = 0;
            at[i - 1]++;
        }
    }
    fp_leave(host);
    if (r->stream) __sync_synchronize(); /* streaming stores are not ordered: done before anyone is told */
}

/* ---- one draw at a time --------------------------------------------------------------------------- */

uint64_t fi_advance(uint64_t state, uint64_t draws) { return state + draws * FI_GAMMA; }

uint64_t fi_next_u64(void *state) { return splitmix64_next(state); }

uint32_t fi_next_u32(void *state) { return (uint32_t)(splitmix64_next(state) >> 32); }

double fi_next_unit(void *state) { return unit_closed_open(splitmix64_next(state)); }
