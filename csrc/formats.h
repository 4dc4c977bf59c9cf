/* The formats of the dtypes, and the one rounding from a float64 weight to them. */
#ifndef FI_FORMATS_H
#define FI_FORMATS_H

#include <stdint.h>
#include <string.h>

#include "fastinit.h"

/* A switch that forgets a dtype or a base must not compile: it would decode one dtype as another. A part that a
 * list's row lacks is an error too, of the plain kind: its name is written in parentheses where it is called, so it
 * cannot be declared by its use, which C11's compilers only warn of (and -w silences every warning). */
#pragma GCC diagnostic error "-Wswitch"

typedef struct {
    int mantissa;   /* stored bits of the significand */
    int bias;       /* of the exponent */
    int bits;       /* width of the whole */
    double largest; /* the largest finite value */
} fi_format;

#define FI_FORMAT(with, dtype, name, bits, type, mantissa, bias, largest) \
    [dtype] = {mantissa, bias, bits, largest},
static const fi_format formats[FI_DTYPES] = {FI_EACH_DTYPE(FI_FORMAT, )};
#undef FI_FORMAT

/* Numeric clamp: a zero keeps its sign, and a bound that is absent is an infinity. */
static inline double clamp(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

static inline uint64_t shift_to_nearest_even(uint64_t x, int shift) {
    uint64_t below_half = (UINT64_C(1) << (shift - 1)) - 1;
    return (x + below_half + ((x >> shift) & 1)) >> shift;
}

/* A float64 on its way to a format: the code is what is left of magnitude without its lower bits, rounded. */
typedef struct {
    uint64_t sign, magnitude;
    int shift;
} fi_rounding;

static inline fi_rounding before_rounding(double x, const fi_format *format) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint64_t sign = bits >> 63 << (format->bits - 1), magnitude = bits & (UINT64_MAX >> 1);
    int64_t exponent = (int64_t)(magnitude >> 52) - 1023 + format->bias;
    int shift = 52 - format->mantissa;
    if (exponent > 0) /* rebias; a carry out of the significand is the next binade, as it should be */
        return (fi_rounding){sign, magnitude - ((uint64_t)(1023 - format->bias) << 52), shift};
    /* subnormal in the format: make the implicit bit explicit and shift further */
    int64_t further = shift + 1 - exponent;
    magnitude = (magnitude & (UINT64_MAX >> 12)) | UINT64_C(1) << 52;
    return (fi_rounding){sign, magnitude, further < 63 ? (int)further : 63};
}

static inline uint64_t rounded_to_nearest(fi_rounding r) {
    return r.sign | shift_to_nearest_even(r.magnitude, r.shift);
}

/* Integers all the way: a hardware conversion by way of float32 rounds twice, and bfloat16's flushes
 * subnormals. x is finite and not beyond the format's largest value. */
static inline uint64_t to_format(double x, const fi_format *format) {
    if (format->bits < 64) return rounded_to_nearest(before_rounding(x, format));
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
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
