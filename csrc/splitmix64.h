/* SplitMix64 and its index law.
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

#endif
