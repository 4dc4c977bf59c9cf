/* Stored weights back to numbers: their extremes and central moments, in one pass over memory.
 *
 * Every level compiles this same plain C for its own instruction set. The sixteen lanes and the order in which
 * they are added are part of the specification, so the moments are the same bits on every level.
 */
#ifndef FI_SUMMARY_H
#define FI_SUMMARY_H

#include <math.h>
#include <string.h>

#include "fastinit.h"
#include "formats.h"
#include "levels/level.h"

/* How many float64 a register of the level holds. */
#ifndef FI_VECTOR
#define FI_VECTOR 2
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define FI_LITTLE(width, x) FI_SWAP##width(x)
#define FI_SWAP8(x) (x)
#define FI_SWAP16 __builtin_bswap16
#define FI_SWAP32 __builtin_bswap32
#define FI_SWAP64 __builtin_bswap64
#else
#define FI_LITTLE(width, x) (x)
#endif

enum { SUMMARY_LANES = 16, SUMMARY_BLOCK = 2048 };

FI_INLINE double from_float64_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

FI_INLINE float from_float32_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

FI_INLINE uint32_t float32_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* A narrow format's exponent and significand moved under those of float32, whose bias is larger: the exponent's field
 * gets the difference. A subnormal, of exponent 0, gets one more, and the 1 that it does not have taken off; it is
 * never a subnormal float32, which some CPUs compute a hundred times slower. */
FI_INLINE float from_narrow(uint32_t sign, uint32_t magnitude, int mantissa, int bias, uint32_t infinite) {
    uint32_t placed = magnitude << (23 - mantissa), rebased = placed + ((uint32_t)(127 - bias) << 23);
    float lowest = from_float32_bits((uint32_t)(128 - bias) << 23);
    uint32_t subnormal = float32_bits(from_float32_bits(rebased + (UINT32_C(1) << 23)) - lowest);
    uint32_t is_subnormal = 0 - (uint32_t)(magnitude < UINT32_C(1) << mantissa);
    uint32_t is_infinite = 0 - (uint32_t)(magnitude >= infinite);
    uint32_t bits = (subnormal & is_subnormal) | (rebased & ~is_subnormal) | (is_infinite & UINT32_C(0x7F800000));
    return from_float32_bits(sign | bits);
}

FI_INLINE float from_float16_bits(uint32_t bits) {
    return from_narrow((bits & 0x8000) << 16, bits & 0x7FFF, 10, 15, 0x7C00);
}

/* Its one NaN; it has no infinity. */
FI_INLINE float from_float8_e4m3fn_bits(uint32_t bits) {
    return from_narrow((bits & 0x80) << 24, bits & 0x7F, 3, 7, 0x7F);
}

FI_INLINE float from_bfloat16_bits(uint32_t bits) { return from_float32_bits(bits << 16); }

/* The upper half of a float16. */
FI_INLINE float from_float8_e5m2_bits(uint32_t bits) { return from_float16_bits(bits << 8); }

/* Little-endian stored bits, at any address, to float64. */
FI_INLINE void widen_each(double *values, const void *bits, int64_t count, fi_dtype dtype) {
    const unsigned char *at = bits;
#define WIDEN(with, constant, name, width, ...)                    \
    case constant:                                                 \
        for (int64_t i = 0; i < count; i++) {                      \
            uint##width##_t x;                                     \
            memcpy(&x, at + (int64_t)sizeof x * i, sizeof x);      \
            values[i] = (from_##name##_bits)(FI_LITTLE(width, x)); \
        }                                                          \
        break;
    switch (dtype) { FI_EACH_DTYPE(WIDEN, ) }
#undef WIDEN
}

/* The compilers' own vectors, of the width the level's file has set; SUMMARY_VECTORS of them hold the lanes. */
#define SUMMARY_VECTORS (SUMMARY_LANES / FI_VECTOR)
#define EACH_LANES _Pragma("GCC unroll 8") for (int v = 0; v < SUMMARY_VECTORS; v++)
typedef double vector_t __attribute__((vector_size(8 * FI_VECTOR)));
typedef int64_t marks_t __attribute__((vector_size(8 * FI_VECTOR)));

typedef struct {
    vector_t sum[SUMMARY_VECTORS], low[SUMMARY_VECTORS], high[SUMMARY_VECTORS];
} first_t;

typedef struct {
    vector_t m2[SUMMARY_VECTORS], m3[SUMMARY_VECTORS], m4[SUMMARY_VECTORS];
} second_t;

FI_INLINE vector_t where(marks_t mask, vector_t yes, vector_t no) {
    return (vector_t)(((marks_t)yes & mask) | ((marks_t)no & ~mask));
}

#ifndef FI_LEAST /* else the level's own instruction, which must do just this */
#define FI_LEAST(a, b) where((a) < (b), a, b)
#define FI_MOST(a, b) where((a) > (b), a, b)
#endif

FI_INLINE double total(const vector_t *vectors) {
    double x[SUMMARY_LANES];
    memcpy(x, vectors, sizeof x);
    for (int step = SUMMARY_LANES / 2; step; step /= 2) {
        for (int i = 0; i < step; i++) x[i] += x[i + step];
    }
    return x[0];
}

/* `real` is all ones where a lane holds a weight and not the filling of the last lanes. */
FI_INLINE void first_step(first_t *pass, double *x, const marks_t *real, double anchor) {
    EACH_LANES {
        vector_t value;
        memcpy(&value, x + FI_VECTOR * v, sizeof value);
        vector_t y = value - anchor;
        memcpy(x + FI_VECTOR * v, &y, sizeof y);
        pass->sum[v] += real ? where(real[v], y, y - y) : y;
        pass->low[v] = FI_LEAST(value, pass->low[v]);
        pass->high[v] = FI_MOST(value, pass->high[v]);
    }
}

FI_INLINE void second_step(second_t *pass, const double *x, const marks_t *real, double mean) {
    EACH_LANES {
        vector_t value;
        memcpy(&value, x + FI_VECTOR * v, sizeof value);
        vector_t d = value - mean;
        if (real) d = where(real[v], d, d - d);
        vector_t square = d * d;
        pass->m2[v] += square;
        pass->m3[v] += square * d;
        pass->m4[v] += square * square;
    }
}

/* The last, partial lanes, filled up with the first value: it moves no extreme. */
FI_INLINE void load_rest(double *rest, marks_t *real, const double *x, int64_t begin, int64_t count) {
    int64_t marks[SUMMARY_LANES];
    for (int lane = 0; lane < SUMMARY_LANES; lane++) {
        bool is_real = begin + lane < count;
        rest[lane] = is_real ? x[begin + lane] : x[0];
        marks[lane] = -(int64_t)is_real;
    }
    memcpy(real, marks, sizeof marks);
}

/* Leaves x - anchor in place of x, so that the second pass need not subtract it again. */
FI_INLINE void first_pass(first_t *pass, double *x, int64_t count, double anchor) {
    EACH_LANES {
        pass->sum[v] = (vector_t){0};
        pass->low[v] = pass->high[v] = pass->sum[v] + x[0];
    }
    double rest[SUMMARY_LANES];
    marks_t real[SUMMARY_VECTORS];
    int64_t whole = count - count % SUMMARY_LANES;
    load_rest(rest, real, x, whole, count); /* before x changes: it is filled up with x[0] */
    for (int64_t i = 0; i < whole; i += SUMMARY_LANES) first_step(pass, x + i, NULL, anchor);
    if (whole < count) {
        first_step(pass, rest, real, anchor);
        memcpy(x + whole, rest, sizeof *x * (size_t)(count - whole));
    }
}

FI_INLINE void second_pass(second_t *pass, const double *x, int64_t count, double mean) {
    EACH_LANES pass->m2[v] = pass->m3[v] = pass->m4[v] = (vector_t){0};
    int64_t i = 0;
    for (; i + SUMMARY_LANES <= count; i += SUMMARY_LANES) second_step(pass, x + i, NULL, mean);
    if (i < count) {
        double rest[SUMMARY_LANES];
        marks_t real[SUMMARY_VECTORS];
        load_rest(rest, real, x, i, count);
        second_step(pass, rest, real, mean);
    }
}

/* Count by stored bits: many more of them than of float64 values fit a register. A block's count fits 16 bits. */
#define DEFINE_COUNT(width, counter)                                                                            \
    FI_INLINE int64_t count_bits##width(const unsigned char *at, int64_t count, uint64_t mask, uint64_t bits) { \
        uint##width##_t kept = (uint##width##_t)mask, wanted = (uint##width##_t)bits, x;                        \
        counter equal = 0;                                                                                      \
        for (int64_t i = 0; i < count; i++) {                                                                   \
            memcpy(&x, at + sizeof x * (size_t)i, sizeof x);                                                    \
            equal = (counter)(equal + ((FI_LITTLE(width, x) & kept) == wanted));                                \
        }                                                                                                       \
        return equal;                                                                                           \
    }
DEFINE_COUNT(8, uint16_t)
DEFINE_COUNT(16, uint16_t)
DEFINE_COUNT(32, uint32_t)
DEFINE_COUNT(64, int64_t)

/* How many stored weights are exactly `value`; zeros of either sign are one value. */
FI_INLINE int64_t count_equal(const void *at, int64_t count, fi_dtype dtype, double value) {
    int width = formats[dtype].bits;
    uint64_t mask = UINT64_MAX >> (64 - width), bits = 0;
    if (value == 0) {
        mask >>= 1;
    } else {
        bits = to_format(value, &formats[dtype]);
    }
    switch (width) {
    case 8: return count_bits8(at, count, mask, bits);
    case 16: return count_bits16(at, count, mask, bits);
    case 32: return count_bits32(at, count, mask, bits);
    case 64: return count_bits64(at, count, mask, bits);
    }
    return 0;
}

/* Leave the finite values, in their order; count the others. */
static inline int64_t keep_finite(fi_summary *summary, double *x, int64_t count) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        summary->nan += isnan(x[i]) != 0;
        summary->inf += isinf(x[i]) != 0;
        if (isfinite(x[i])) x[kept++] = x[i];
    }
    return kept;
}

/* The second pass is over the differences from the block's own mean, so nothing cancels: the textbook
 * formula from plain sums loses every digit where the mean is large beside the spread. */
FI_INLINE void summarize_block(fi_summary *block, const fi_summary *before, const void *bits, int64_t stored,
                               fi_dtype dtype) {
    double x[SUMMARY_BLOCK];
    widen_each(x, bits, stored, dtype);
    int64_t count = stored;
    first_t first;
    first_pass(&first, x, count, block->anchor);
    if (!isfinite(total(first.sum))) {
        widen_each(x, bits, stored, dtype);
        count = keep_finite(block, x, count);
        if (count == 0) return;
        first_pass(&first, x, count, block->anchor);
    }
    block->count = count;
    block->mean = total(first.sum) / (double)count;
    second_t second;
    second_pass(&second, x, count, block->mean);
    block->m2 = total(second.m2), block->m3 = total(second.m3), block->m4 = total(second.m4);
    block->zeros = count_equal(bits, stored, dtype, 0);
    double low[SUMMARY_LANES], high[SUMMARY_LANES];
    memcpy(low, first.low, sizeof low);
    memcpy(high, first.high, sizeof high);
    block->low = low[0], block->high = high[0];
    for (int lane = 1; lane < SUMMARY_LANES; lane++) {
        block->low = low[lane] < block->low ? low[lane] : block->low;
        block->high = high[lane] > block->high ? high[lane] : block->high;
    }
    /* A smooth distribution has a new extreme in few blocks, so the extremes are seldom counted. */
    if (before->count == 0 || block->low <= before->low)
        block->at_low = count_equal(bits, stored, dtype, block->low);
    if (before->count == 0 || block->high >= before->high)
        block->at_high = count_equal(bits, stored, dtype, block->high);
}

#define DEFINE_SUMMARIZE                                                                                 \
    static void CONCAT(summarize, LEVEL)(fi_summary * block, const fi_summary *before, const void *bits, \
                                         int64_t count, fi_dtype dtype) {                                \
        summarize_block(block, before, bits, count, dtype);                                              \
    }

#endif
