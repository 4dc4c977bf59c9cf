/* Adjacent draws in order, at random and around z = 1: ./a.out PAIRS [LEVEL]. Any k is reached by inverting mix64.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fastinit.h"
#include "splitmix64.h"

static uint64_t unmix64(uint64_t z) {
    z ^= z >> 31 ^ z >> 62;
    z *= UINT64_C(0x319642B2D24D8EC3); /* the inverse of FI_MIX_2 */
    z ^= z >> 27 ^ z >> 54;
    z *= UINT64_C(0x96DE1B173F119089); /* the inverse of FI_MIX_1 */
    return z ^ z >> 30 ^ z >> 60;
}

int main(int count, char **words) {
    static const double parameters[FI_PARAMETERS] = {0, 1};
    enum { RUN = 2 };
    uint64_t state = 1;
    long pairs = count > 1 ? atol(words[1]) : 100000;
    if (unmix64(mix64(12345)) != 12345 || fi_level_select(count > 2 ? words[2] : NULL) != FI_OK) return 2;
    fi_spec spec;
    if (fi_spec_init(&spec, FI_NORMAL, FI_FLOAT64, parameters) != FI_OK) return 2;
    for (long i = 0; i < pairs; i++) {
        uint64_t k = splitmix64_next(&state) >> 11;
        if (i % 4 == 1) k = UINT64_C(0x1AEC4BD120D37C) + (k >> 6); /* Phi(1) 2^53 and up: a step is 2 ulp */
        if (i % 4 == 2) k >>= state % 53;                          /* the tail, evenly by binade */
        if (k == (UINT64_C(1) << 53) - 1) continue;
        double z[RUN];
        for (int j = 0; j < RUN; j++) {
            fi_region region = {.data = (char *)&z[j], .ndim = 0};
            fi_fill(&region, &spec, unmix64((k + (uint64_t)j) << 11) - FI_GAMMA, 0, 1);
        }
        if (!(z[0] <= z[1])) {
            printf("order broken at k = %llu: %a then %a\n", (unsigned long long)k, z[0], z[1]);
            return 1;
        }
    }
    return 0;
}
