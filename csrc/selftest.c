/* What this build is, and whether it gives the bits it must. */
#include <math.h>
#include <string.h>

#include "fpenv.h"
#include "levels/level.h"
#include "splitmix64.h"

const char *fi_build_compiler(void) { return __VERSION__; }
const char *fi_build_flags(void) {
#ifdef FI_FLAGS
    return FI_FLAGS;
#else
    return "";
#endif
}

/* A handful of runs of every kernel, with heads and tails, against the portable level; and seed 1234567's
 * published first draw. Microseconds, at import. */
bool fi_self_test(void) {
    enum { COUNT = 75, ODD = 1, ROOM = 8 * (COUNT + 2 * ODD) };
    static const double parameters[FI_BASES][FI_PARAMETERS] = {
        [FI_CONSTANT] = {0.1},
        [FI_UNIFORM] = {-0.3, 0.7},
        [FI_CENTERED_UNIFORM] = {1.3},
        [FI_NORMAL] = {0.3, 0.7},
        [FI_TRUNCATED_NORMAL] = {0.3, 0.7, -1, INFINITY, 0x1.44ed0bb7cb20bp-2, 0, 0x1.aec4bd120d37dp-54,
                                 0x1.9f734e17374ccp+51}};
    const uint64_t x = UINT64_MAX - 40 * FI_GAMMA;
    bool good = mix64(UINT64_C(1234567) + FI_GAMMA) == UINT64_C(6457827717110365317);
    fp_state host = fp_enter();
    for (int base = 0; base < FI_BASES; base++) {
        for (int dtype = 0; dtype < FI_DTYPES; dtype++) {
            double expected[ROOM / 8] = {0}, found[ROOM / 8] = {0};
            fi_spec spec;
            good &= fi_spec_init(&spec, (fi_base)base, (fi_dtype)dtype, parameters[base]) == FI_OK;
            fi_level_portable.fill[spec.base][dtype](expected + ODD, COUNT, x, FI_GAMMA, &spec, false);
            fi_level_current()->fill[spec.base][dtype](found + ODD, COUNT, x, FI_GAMMA, &spec, false);
            good &= memcmp(expected, found, ROOM) == 0;
        }
    }
    fp_leave(host);
    return good;
}
