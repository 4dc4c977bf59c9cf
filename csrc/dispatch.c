/* The only file that knows CPUs: a named table of levels, best first, and the one in use. */
#include <math.h>
#include <string.h>

#include "fpenv.h"
#include "kernels.h"
#include "splitmix64.h"

static bool always(void) { return true; }

#ifdef FI_X86
#include <cpuid.h>

/* The compiler's run-time support asks the CPU and, by XGETBV, whether the operating system keeps the
 * wider registers; "avx512" is the exact set its kernels use, named once more only there. */
static bool has_avx2(void) {
    unsigned a, b, c = 0, d;
    __builtin_cpu_init();
    /* not every compiler knows f16c by name */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
           (c & bit_F16C);
}
static bool has_avx512(void) {
    __builtin_cpu_init();
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd");
}
#endif

static const struct {
    const fi_level *level;
    bool (*supported)(void);
} levels[] = {
#ifdef FI_X86
    {&fi_level_avx512, has_avx512},
    {&fi_level_avx2, has_avx2},
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
    {&fi_level_neon, always},
#endif
    {&fi_level_portable, always},
};
enum { LEVELS = sizeof levels / sizeof *levels };

static const fi_level *current = &fi_level_portable;

const fi_level *fi_level_current(void) { return current; }
const char *fi_level_name(void) { return current->name; }
int fi_level_count(void) { return LEVELS; }
const char *fi_level_at(int i) { return levels[i].level->name; }
bool fi_level_supported(int i) { return levels[i].supported(); }

fi_status fi_level_select(const char *name) {
    for (int i = 0; i < LEVELS; i++) {
        if (name ? strcmp(name, levels[i].level->name) != 0 : !levels[i].supported()) continue;
        if (!levels[i].supported()) return FI_UNSUPPORTED_LEVEL;
        current = levels[i].level;
        return FI_OK;
    }
    return FI_UNKNOWN_LEVEL;
}

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
bool fi_level_self_test(void) {
    enum { COUNT = 75, ODD = 1, ROOM = 8 * (COUNT + 2 * ODD) };
    static const double parameters[FI_BASES][FI_PARAMETERS] = {
        [FI_CONSTANT] = {0.1},
        [FI_UNIFORM] = {-0.3, 0.7},
        [FI_CENTERED_UNIFORM] = {1.3},
        [FI_NORMAL] = {0.3, 0.7},
        [FI_TRUNCATED] = {0.3, 0.7, -1, INFINITY, 0x1.44ed0bb7cb20bp-2, 0, 0x1.aec4bd120d37dp-54,
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
            current->fill[spec.base][dtype](found + ODD, COUNT, x, FI_GAMMA, &spec, false);
            good &= memcmp(expected, found, ROOM) == 0;
        }
    }
    fp_leave(host);
    return good;
}
