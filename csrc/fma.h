/* fi_fma(a, b, c): a * b + c rounded once, without the C library: some C runtimes round twice where the CPU has
 * no such instruction, and the others are slow.
 *
 * A level that requires the instruction defines FI_HARDWARE_FMA and includes this where its target is in force
 * (before that point the compiler would call the library). Elsewhere the sum is made exact and rounded to odd,
 * which a last rounding to nearest cannot spoil (Boldo and Melquiond, "Emulation of a FMA and correctly rounded
 * sums", IEEE Trans. Computers 57, 2008). That takes |a|, |b| < 2^990, a * b zero or of magnitude 2^-900 to 2^990,
 * and |c| zero or of the same range: everything quantile.h does lies between 2^-220 and 2^60.
 */
#ifndef FI_FMA_H
#define FI_FMA_H

#include <stdint.h>
#include <string.h>

/* x as the sum of two numbers of at most 26 bits (Veltkamp). */
static inline void fma_split(double x, double *high, double *low) {
    double scaled = x * 134217729.0; /* 2^27 + 1 */
    *high = scaled - (scaled - x);
    *low = x - *high;
}

/* a + b, and what its rounding dropped (Knuth). */
static inline double fma_two_sum(double a, double b, double *dropped) {
    double sum = a + b, rest = sum - a;
    *dropped = (a - (sum - rest)) + (b - rest);
    return sum;
}

static inline double soft_fma(double a, double b, double c) {
    double a1, a0, b1, b0, product_rest, sum_rest, odd_rest;
    double product = a * b;
    fma_split(a, &a1, &a0);
    fma_split(b, &b1, &b0);
    product_rest = ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0; /* Dekker: exact */
    double low = fma_two_sum(c, product_rest, &product_rest);
    double high = fma_two_sum(product, low, &sum_rest);
    double odd = fma_two_sum(product_rest, sum_rest, &odd_rest);
    uint64_t bits;
    memcpy(&bits, &odd, sizeof bits);
    if (odd_rest != 0 && !(bits & 1)) bits += (odd_rest > 0) == (odd > 0) ? 1 : UINT64_MAX;
    memcpy(&odd, &bits, sizeof odd);
    return high + odd;
}

#if defined(FI_HARDWARE_FMA) || defined(__FP_FAST_FMA) || defined(__aarch64__)
#define fi_fma(a, b, c) __builtin_fma(a, b, c)
#else
#define FI_SOFT_FMA
#define fi_fma(a, b, c) soft_fma(a, b, c)
#endif

#endif
