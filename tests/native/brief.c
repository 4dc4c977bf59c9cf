/* The short ways of brief.h beside the exact one, on every level: equal bits over many scales, dtypes, counts, places
 * and increments. Both are the level's own kernel; the exact one gets a spec that forbids the short way.
 *
 *   brief [MILLIONS]    weights of each dtype and level (default 1)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fastinit.h"
#include "fpenv.h"
#include "levels/level.h"
#include "splitmix64.h"

enum { MOST = 10000, ROOM = 4 * MOST + 256 };

static _Alignas(64) char quick[ROOM], exact[ROOM];

/* Bounds and constants of truncated normals (fastinit/_engine/truncation.py). */
static const double truncated[][6] = {
    {-2, 2, 0x1.74bcf82c9d860p-5, 0x1.74bcf82c9d860p-5, 0x1.e8b4307d3627ap-54, 0x1p52},
    {-1, 1, 0x1.44ed0bb7cb20bp-2, 0x1.44ed0bb7cb20bp-2, 0x1.5d897a241a6fap-54, 0x1p52},
    {-1, INFINITY, 0x1.44ed0bb7cb20bp-2, 0, 0x1.aec4bd120d37dp-54, 0x1.9f734e17374ccp+51},
    {0x1.2p+2, INFINITY, 0x1.ffff8dfe35c8bp+0, 0, 0x1.c80728dd3b03ap-72, 0},
    /* weights of exactly 0, which are +0 */
    {-0x1p-46, 0x1p-46, 0x1.fffffffffff9ap-1, 0x1.fffffffffff9ap-1, 0x1.9884533d43651p-100, 0x1p52},
};
enum { TRUNCATED = sizeof truncated / sizeof *truncated };

static const double scales[] = {1e-30, 1e-19, 3e-18, 1e-12, 1e-8, 6e-8, 1e-6, 3e-5, 1e-3, 0.02, 0.05,
                                0.125, 1,     1.3,   50,    448,  6900, 1e6,  1e12, 1e19, 1e30, 3e37};
enum { SCALES = sizeof scales / sizeof *scales };

static uint64_t random_state = 99;

static bool agree(const fi_level *level, const fi_spec *spec, size_t size, int turn) {
    static const uint64_t increments[] = {1, 1, 784, 0x123456789ABCDEF};
    uint64_t r = splitmix64_next(&random_state), x = splitmix64_next(&random_state);
    size_t count = turn % 3 == 0 ? (size_t)(r % 200) : MOST - (size_t)(r >> 20) % 99;
    size_t offset = size * ((r >> 40) % 33), used = offset + (count + 1) * size;
    uint64_t step = FI_GAMMA * increments[turn % 4];
    fi_spec plain = *spec;
    plain.brief = false;
    memset(quick, 0x55, used);
    memset(exact, 0x55, used);
    level->fill[spec->base][spec->dtype](quick + offset, count, x, step, spec, turn % 2);
    level->fill[spec->base][spec->dtype](exact + offset, count, x, step, &plain, false);
    if (memcmp(quick, exact, used) == 0) return true;
    fprintf(stderr, "%s %s %s: scale %a, z within [%a, %a], x %#llx, step %#llx, count %zu, offset %zu\n",
            level->name, fi_base_name(spec->base), fi_dtype_name(spec->dtype), spec->scale, spec->lower,
            spec->upper, (unsigned long long)x, (unsigned long long)step, count, offset);
    return false;
}

/* One distribution of case c; false where it has no short way in this dtype. */
static bool prepare(fi_spec *spec, fi_dtype dtype, int c) {
    double p[FI_PARAMETERS] = {0, scales[c % SCALES]};
    int kind = c / SCALES;
    fi_base base = kind == 0 ? FI_CENTERED_UNIFORM : kind == 1 ? FI_NORMAL : FI_TRUNCATED_NORMAL;
    if (kind == 0) p[0] = p[1];
    if (kind > 1) memcpy(p + 2, truncated[kind - 2], sizeof truncated[0]);
    return fi_spec_init(spec, base, dtype, p) == FI_OK && spec->brief;
}

int main(int count, char **words) {
    double wanted = (count > 1 ? atof(words[1]) : 1) * 1e6;
    fp_state host = fp_enter();
    for (int i = 0; i < fi_level_count(); i++) {
        if (!fi_level_supported(i) || fi_level_select(fi_level_at(i)) != FI_OK) continue;
        for (int dtype = FI_FLOAT32; dtype < FI_DTYPES; dtype++) {
            int turns = (int)(wanted / (MOST * 2 / 3)) + 1, found = 0;
            for (int turn = 0; turn < turns;) {
                int before = turn;
                for (int c = 0; c < SCALES * (2 + TRUNCATED); c++) {
                    fi_spec spec;
                    if (!prepare(&spec, (fi_dtype)dtype, c)) continue;
                    size_t size = dtype == FI_FLOAT32 ? 4 : dtype < FI_FLOAT8_E4M3FN ? 2 : 1;
                    if (!agree(fi_level_current(), &spec, size, turn++)) return 1;
                }
                found = turn - before;
            }
            printf("%s %s: %d distributions\n", fi_level_name(), fi_dtype_name((fi_dtype)dtype), found);
        }
    }
    fp_leave(host);
    return 0;
}
