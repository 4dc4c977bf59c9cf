/* From 64 drawn bits to a float64 weight, and from there to the stored dtype.
 *
 * k is the top 53 bits of a draw, 0 <= k < 2^53. Every map below is non-decreasing in k.
 *
 *   function          interval        spacing     smallest (k = 0)   largest (k = 2^53 - 1)
 *   unit_closed_open  [0, 1)          2^-53       0                  1 - 2^-53
 *   centered_step     [-2^52, 2^52)   1           -2^52              2^52 - 1
 *   centered_odd      (-2^53, 2^53)   2           1 - 2^53           2^53 - 1
 *
 * They are exact: the only roundings of a weight are those named at fi_base (fastinit.h) and the one
 * to its dtype. Nothing here may be contracted to fma.
 */
#ifndef FI_CONVERT_H
#define FI_CONVERT_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#include "fastinit.h"

#if defined(__FAST_MATH__) || defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "fastinit promises bits: compile it without -ffast-math and -Ofast"
#endif
/* 1 (s390x) widens float arithmetic to double: there is none here. 2 (x87) widens double. */
#if !defined(FLT_EVAL_METHOD) || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 1)
#error "fastinit promises bits: float64 arithmetic must not be wider (on x86 use -msse2 -mfpmath=sse)"
#endif

static inline uint64_t top53(uint64_t draw) { return draw >> 11; }

static inline double unit_closed_open(uint64_t draw) { return (double)top53(draw) * 0x1p-53; }

static inline double centered_step(uint64_t draw) { return (double)((int64_t)top53(draw) - (INT64_C(1) << 52)); }

static inline double centered_odd(uint64_t draw) { return 2 * centered_step(draw) + 1; }

/* Numeric clamp: a zero keeps its sign, and a bound that is absent is an infinity. */
static inline double clamp(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

/* ---- float64 to a narrower binary format, once, to nearest even ----------------------------------- */

typedef struct {
    int mantissa;   /* stored bits of the significand */
    int bias;       /* of the exponent */
    int bits;       /* width of the whole */
    double largest; /* the largest finite value */
} fi_format;

static const fi_format formats[FI_DTYPES] = {
    /* clang-format off */
    [FI_FLOAT64] = {52, 1023, 64, DBL_MAX},
    [FI_FLOAT32] = {23, 127, 32, FLT_MAX},
    [FI_FLOAT16] = {10, 15, 16, 65504},
    [FI_BFLOAT16] = {7, 127, 16, 0x1.FEp127},
    [FI_FLOAT8_E4M3FN] = {3, 7, 8, 448},
    [FI_FLOAT8_E5M2] = {2, 15, 8, 57344},
    /* clang-format on */
};

static inline uint64_t shift_to_nearest_even(uint64_t x, int shift) {
    uint64_t below_half = (UINT64_C(1) << (shift - 1)) - 1;
    return (x + below_half + ((x >> shift) & 1)) >> shift;
}

/* Integers all the way: a hardware conversion by way of float32 rounds twice, and bfloat16's flushes
 * subnormals. x is finite and not beyond the format's largest value. */
static inline uint64_t to_format(double x, const fi_format *format) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (format->bits == 64) return bits;
    uint64_t sign = bits >> 63 << (format->bits - 1), magnitude = bits & (UINT64_MAX >> 1);
    int64_t exponent = (int64_t)(magnitude >> 52) - 1023 + format->bias;
    int shift = 52 - format->mantissa;
    if (exponent > 0) { /* rebias; a carry out of the significand is the next binade, as it should be */
        return sign | shift_to_nearest_even(magnitude - ((uint64_t)(1023 - format->bias) << 52), shift);
    }
    /* subnormal in the format: make the implicit bit explicit and shift further */
    magnitude = (magnitude & (UINT64_MAX >> 12)) | UINT64_C(1) << 52;
    int64_t further = shift + 1 - exponent;
    return sign | shift_to_nearest_even(magnitude, further < 63 ? (int)further : 63);
}

static inline double from_format(uint64_t bits, const fi_format *format) {
    double x;
    if (format->bits == 64) {
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    uint64_t sign = bits >> (format->bits - 1);
    uint64_t magnitude = bits & ((UINT64_C(1) << (format->bits - 1)) - 1);
    int64_t exponent = (int64_t)(magnitude >> format->mantissa);
    uint64_t fraction = magnitude & ((UINT64_C(1) << format->mantissa) - 1);
    if (exponent > 0) {
        fraction |= UINT64_C(1) << format->mantissa;
    } else {
        exponent = 1;
    }
    /* fraction * 2^(exponent - bias - mantissa): the power is a normal float64 for every narrow format */
    uint64_t power_bits = (uint64_t)(exponent - format->bias - format->mantissa + 1023) << 52;
    double power;
    memcpy(&power, &power_bits, sizeof power);
    x = (double)fraction * power;
    return sign ? -x : x;
}

#endif
