/* SplitMix64, its index law, and the exact numbers that are made of a draw.
 *
 * Draw i (from 0) of a stream whose state is s is
 *
 *     mix64(s + (i + 1) * gamma)        (all arithmetic modulo 2^64)
 *
 * so a draw is a pure function of (s, i): no vector width, chunk, thread count or memory order can
 * change it, and advancing n draws is one multiplication, s + n * gamma, also for negative n.
 *
 * Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
 * (the mix is Stafford's variant 13). The seed is the raw state before the first increment.
 *
 * The numbers: k is the top 53 bits of a draw, 0 <= k < 2^53. Every map is exact and non-decreasing in k.
 *
 *   function          interval        spacing     smallest (k = 0)   largest (k = 2^53 - 1)
 *   unit_closed_open  [0, 1)          2^-53       0                  1 - 2^-53
 *   centered_step     [-2^52, 2^52)   1           -2^52              2^52 - 1
 *   centered_open     (-1, 1)         2^-52       2^-53 - 1          1 - 2^-53
 */
#ifndef FI_SPLITMIX64_H
#define FI_SPLITMIX64_H

#include <stdint.h>

#define FI_GAMMA UINT64_C(0x9E3779B97F4A7C15)
#define FI_MIX_1 UINT64_C(0xBF58476D1CE4E5B9)
#define FI_MIX_2 UINT64_C(0x94D049BB133111EB)

static inline uint64_t mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * FI_MIX_1;
    z = (z ^ (z >> 27)) * FI_MIX_2;
    return z ^ (z >> 31);
}

static inline uint64_t splitmix64_next(uint64_t *state) {
    *state += FI_GAMMA;
    return mix64(*state);
}

static inline uint64_t top53(uint64_t draw) { return draw >> 11; }

static inline double unit_closed_open(uint64_t draw) { return (double)top53(draw) * 0x1p-53; }

static inline double centered_step(uint64_t draw) { return (double)((int64_t)top53(draw) - (INT64_C(1) << 52)); }

static inline double centered_open(uint64_t draw) { return centered_step(draw) * 0x1p-52 + 0x1p-53; }

#endif
