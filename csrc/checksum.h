/* The sums of a checksum, in plain C: the compiler makes vectors of them with each level's instructions. */
#ifndef FI_CHECKSUM_H
#define FI_CHECKSUM_H

#include <string.h>

#include "levels/level.h"

FI_INLINE void multilinear(uint64_t sums[2], const void *words, const uint64_t *weights, int64_t count) {
    const char *bytes = words;
    uint64_t whole = 0, upper = 0;
    for (int64_t i = 0; i < count; ++i) {
        uint64_t word;
        memcpy(&word, bytes + 8 * i, sizeof word); /* a region may begin anywhere */
        whole += word * weights[i];
        upper += (word >> 32) * weights[i];
    }
    sums[0] = whole;
    sums[1] = upper;
}

#define DEFINE_MULTILINEAR                                                                               \
    static void CONCAT(multilinear, LEVEL)(uint64_t sums[2], const void *words, const uint64_t *weights, \
                                           int64_t count) {                                              \
        multilinear(sums, words, weights, count);                                                        \
    }

#endif
