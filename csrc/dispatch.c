/* The only file that knows CPUs: a named table of levels, best first, and the one in use. */
#include <string.h>

#include "levels/level.h"

static bool always(void) { return true; }

#ifdef FI_X86
#include <cpuid.h>

/* Keep the two in step with FI_TARGET_BEGIN in avx2.c and avx512.c. The compiler's run-time support asks the CPU
 * and, by XGETBV, whether the operating system keeps the wider registers, which the CPU alone does not say. */
static bool has_avx2(void) {
    unsigned a, b, c = 0, d;
    __builtin_cpu_init();
    /* some compilers' run-time support does not know f16c by name */
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
#elif defined(FI_NEON)
    {&fi_level_neon, always},
#endif
    {&fi_level_portable, always},
};
enum { LEVELS = sizeof levels / sizeof *levels };

/* Portable until one is selected: a caller that selects none still gets the right bits. */
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
