/* What this build is, and whether it gives the bits it must. */
#include <math.h>
#include <string.h>

#include "formats.h"
#include "fpenv.h"
#include "levels/level.h"
#include "splitmix64.h"
#include "truncated.h"

const char *fi_build_compiler(void) { return __VERSION__; }
const char *fi_build_flags(void) {
#ifdef FI_FLAGS
    return FI_FLAGS;
#else
    return "";
#endif
}

/* One run of every base and dtype, and what it must hold: a hash of the stored bits, from the plain Python of
 * tests/reference.py and tests/reference_quantile.py, not from this code. tests/known_weights.py prints these lines,
 * and tests/test_levels.py compares them. Levels that are only compared with one another could all be wrong
 * together: by a compiler flag, or in code they share. */
#define PARAMETERS_constant {0.1}
#define PARAMETERS_uniform {-0.3, 0.7}
#define PARAMETERS_centered_uniform {1.3}
#define PARAMETERS_normal {0.3, 0.7}
#define PARAMETERS_truncated_normal \
    {0.3, 0.7, -1, INFINITY, 0x1.44ed0bb7cb20bp-2, 0, 0x1.aec4bd120d37dp-54, 0x1.9f734e17374ccp+51}
/* Around 0 narrow weights take the short ways of brief.h. */
#define PARAMETERS_normal_around_0 {0, 0.7}
#define PARAMETERS_truncated_normal_around_0 \
    {0, 0.7, -2, 2, 0x1.74bcf82c9d860p-5, 0x1.74bcf82c9d860p-5, 0x1.e8b4307d3627ap-54, 0x1p52}

/* clang-format off */
#define KNOWN_constant_float64 UINT64_C(0x1044DF90C53D178D)
#define KNOWN_constant_float32 UINT64_C(0xFA9635E45C9F6F94)
#define KNOWN_constant_float16 UINT64_C(0x7199B66CAB4A2909)
#define KNOWN_constant_bfloat16 UINT64_C(0x0E09CB66F45BFC94)
#define KNOWN_constant_float8_e4m3fn UINT64_C(0x8E9835EFD1ACB624)
#define KNOWN_constant_float8_e5m2 UINT64_C(0x14366E74696B5BE1)
#define KNOWN_uniform_float64 UINT64_C(0x728DEF6F07EAC190)
#define KNOWN_uniform_float32 UINT64_C(0xA9DFAACBDB81E81E)
#define KNOWN_uniform_float16 UINT64_C(0x6D6D84818141F0B5)
#define KNOWN_uniform_bfloat16 UINT64_C(0x1017670D2F6B0128)
#define KNOWN_uniform_float8_e4m3fn UINT64_C(0xAB6AB4E117DFA063)
#define KNOWN_uniform_float8_e5m2 UINT64_C(0x9E446E15775516E5)
#define KNOWN_centered_uniform_float64 UINT64_C(0xFEEC0E0A53053418)
#define KNOWN_centered_uniform_float32 UINT64_C(0x0B5807FF1C0DE697)
#define KNOWN_centered_uniform_float16 UINT64_C(0x2C0DB51EC78630C2)
#define KNOWN_centered_uniform_bfloat16 UINT64_C(0x207A8A9325DB1B97)
#define KNOWN_centered_uniform_float8_e4m3fn UINT64_C(0xDB46AD0482590037)
#define KNOWN_centered_uniform_float8_e5m2 UINT64_C(0x0780BAD2AEB80975)
#define KNOWN_normal_float64 UINT64_C(0xB7A824E05DE2132C)
#define KNOWN_normal_float32 UINT64_C(0x26E3CE6E4D0D79C0)
#define KNOWN_normal_float16 UINT64_C(0xEDB30017B342ECFE)
#define KNOWN_normal_bfloat16 UINT64_C(0x29257DEDDDE79550)
#define KNOWN_normal_float8_e4m3fn UINT64_C(0x8D6E03742665815A)
#define KNOWN_normal_float8_e5m2 UINT64_C(0xDD33AFD592717D34)
#define KNOWN_truncated_normal_float64 UINT64_C(0xAD2D5B82F73CD0A8)
#define KNOWN_truncated_normal_float32 UINT64_C(0xD59249F6882F98B4)
#define KNOWN_truncated_normal_float16 UINT64_C(0x9A5FF9B1F8F083A7)
#define KNOWN_truncated_normal_bfloat16 UINT64_C(0x53848B92D1AB82D5)
#define KNOWN_truncated_normal_float8_e4m3fn UINT64_C(0x7DF726D6AF42BB27)
#define KNOWN_truncated_normal_float8_e5m2 UINT64_C(0xA476D0967B48053A)
#define KNOWN_normal_around_0_float64 UINT64_C(0x702357617D57826A)
#define KNOWN_normal_around_0_float32 UINT64_C(0x99ED20119FE3B213)
#define KNOWN_normal_around_0_float16 UINT64_C(0x66AC141573E46D92)
#define KNOWN_normal_around_0_bfloat16 UINT64_C(0x607E16ACB62A9194)
#define KNOWN_normal_around_0_float8_e4m3fn UINT64_C(0xE017B25CC4EC7243)
#define KNOWN_normal_around_0_float8_e5m2 UINT64_C(0x3E8CB3262D60914B)
#define KNOWN_truncated_normal_around_0_float64 UINT64_C(0x27B564BFFAC43FEA)
#define KNOWN_truncated_normal_around_0_float32 UINT64_C(0x074219076B128139)
#define KNOWN_truncated_normal_around_0_float16 UINT64_C(0xD68C75B8CDC300F6)
#define KNOWN_truncated_normal_around_0_bfloat16 UINT64_C(0x55C43495997EF77F)
#define KNOWN_truncated_normal_around_0_float8_e4m3fn UINT64_C(0x521B9C4472218412)
#define KNOWN_truncated_normal_around_0_float8_e5m2 UINT64_C(0xF86D43840F602DC8)
#define KNOWN_scales UINT64_C(0xEB1B1826A6838A14)
#define KNOWN_tails UINT64_C(0x93DA19556F817F35)
#define KNOWN_far_tails UINT64_C(0xA6F50E824A867CE6)
#define KNOWN_summary UINT64_C(0xB7CD6C256D7E93D6)
/* clang-format on */

#define KNOWN(base, number, dtype, ...) [number] = KNOWN_##base##_##dtype,
#define RUN(with, number, base) {number, PARAMETERS_##base, {FI_EACH_DTYPE(KNOWN, base)}},
static const struct {
    fi_base base;
    double parameters[FI_PARAMETERS];
    uint64_t hash[FI_DTYPES];
} runs[] = {FI_EACH_BASE(RUN, ) RUN(, FI_NORMAL, normal_around_0)
                RUN(, FI_TRUNCATED_NORMAL, truncated_normal_around_0)};

/* Whole blocks and a rest on every level; draw 40 is 0, so the tail, the clamp and the smallest value are met. */
enum { COUNT = 75, ROOM = COUNT + 2 };
static const uint64_t state = 0 - 41 * FI_GAMMA;

/* FNV-1a of the run and of the element on either side, which must still be zero. */
static uint64_t hash_of(const char *room, fi_dtype dtype) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
#define STIR(with, number, name, width, ...)                   \
    case number:                                               \
        for (int i = 0; i < ROOM; i++) {                       \
            uint##width##_t x;                                 \
            memcpy(&x, room + sizeof x * (size_t)i, sizeof x); \
            hash = (hash ^ x) * UINT64_C(0x100000001B3);       \
        }                                                      \
        break;
    switch (dtype) { FI_EACH_DTYPE(STIR, ) }
#undef STIR
    return hash;
}

/* The level in use by way of fi_fill, as a caller has it; the portable one by itself, because it also serves the
 * specs that are `plain`. */
static bool is_known(size_t run, fi_dtype dtype) {
    const fi_base base = runs[run].base;
    double used[ROOM] = {0}, portable[ROOM] = {0};
    int itemsize = formats[dtype].bits / 8;
    fi_region region = {.data = (char *)used + itemsize, .ndim = 1, .length = {COUNT}, .stride = {itemsize}};
    region.draws[0] = 1;
    fi_spec spec;
    if (fi_spec_init(&spec, base, dtype, runs[run].parameters) != FI_OK) return false;
    fi_fill(&region, &spec, state, 0, COUNT);
    fi_level_portable.fill[base][dtype]((char *)portable + itemsize, COUNT, state + FI_GAMMA, FI_GAMMA, &spec,
                                        false);
    return memcmp(used, portable, sizeof used) == 0 && hash_of((const char *)used, dtype) == runs[run].hash[dtype];
}

static uint64_t stirred(uint64_t hash, double x) { return (hash ^ bits_of(x)) * UINT64_C(0x100000001B3); }

/* The runs above divide nothing. Fans, far tails and summaries do, and a compiler that may multiply by a reciprocal
 * changes them alone. */
static bool scales_are_known(void) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (int i = 1; i <= 12; i++) {
        fi_scale_result found;
        double factor = 1.3, scale;
        fi_scale(&found, 1.3, i * i + 3, (fi_fan)(i % 3), 1.7);
        fi_rescale(&factor, i, i, 7);
        fi_rectifier_scale(&scale, i * 0.125, 0.3);
        hash = stirred(stirred(hash, found.variance), found.std);
        hash = stirred(stirred(hash, found.limit), found.parent_std);
        hash = stirred(stirred(hash, factor), scale);
        hash = (hash ^ fi_share(0.3, 7 * i)) * UINT64_C(0x100000001B3);
    }
    return hash == KNOWN_scales;
}

/* The runs above meet the tails of the normal once, and its far ones nowhere. */
static bool tails_are_known(void) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (int i = 0; i < 123; i++) { /* every binade of the tail, three times and more */
        uint64_t draw = (uint64_t)(5 + i % 11) << (11 + i % 41);
        hash = stirred(hash, quantile(centered_open(i % 2 ? draw : UINT64_MAX - draw)));
    }
    return hash == KNOWN_tails;
}

static bool far_tails_are_known(void) {
    static const double cases[][FI_PARAMETERS] = {
        {0, 1, 0x1.5p+2, 1000000, 0x1.5p+2, 0, 1, 0x1.7941fdedadc79p-3},
        {0, 1, 30, 31, 30, 0x1.eec3961370cb0p-45, 0x1.ffffffffffe11p-1, 0x1.10c3a6dfb06cap-5},
        {0, 1, -40, -39, 39, 0x1.f7ecee7d3f2fcp-58, 1, 0x1.a3d3b014e3178p-6}};
    /* Newton's iteration mends most of what another order of operations does: one draw in 60 shows it, and these
     * do (3 j 2^38 for every j below 10,000 was compared under each flag of gcc and clang). */
    static const int sensitive[] = {6237, 7705, 7848, 9924};
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fi_spec spec;
        if (fi_spec_init(&spec, FI_TRUNCATED_NORMAL, FI_FLOAT64, cases[i]) != FI_OK) return false;
        for (int j = 0; j < 16; j++) hash = stirred(hash, truncated_quantile(j * 0x1p49, &spec));
        for (int j = 0; j < 4; j++) hash = stirred(hash, truncated_quantile(3 * sensitive[j] * 0x1p38, &spec));
    }
    return hash == KNOWN_far_tails;
}

/* Runs of weights, each joined to those before it, and a lane that is partly filled. */
static bool summaries_are_known(void) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    fi_summary found = {.anchor = 0.3};
    for (int run = 0; run < 24; run++) {
        unsigned char bytes[8 * COUNT];
        for (int i = 0; i < COUNT; i++) {
            uint64_t bits = bits_of(unit_closed_open(mix64((uint64_t)(run * COUNT + i))));
            for (int j = 0; j < 8; j++) bytes[8 * i + j] = (unsigned char)(bits >> 8 * j);
        }
        fi_summarize(&found, bytes, COUNT, FI_FLOAT64);
        hash = stirred(stirred(hash, found.mean), found.m2);
        hash = stirred(stirred(hash, found.m3), found.m4);
    }
    return hash == KNOWN_summary;
}

/* NaN, infinities and signed zeros, which a compiler may be told to leave out of account. */
static bool special_values_are_known(void) {
    static const uint64_t stored[] = {0x7FF8000000000000, 0xFFF0000000000000,
                                      0x8000000000000000, 0,                   /* NaN -inf -0 0 */
                                      0x3FF0000000000000, 0x4008000000000000}; /* 1 3 */
    static const double minus_zero[FI_PARAMETERS] = {-0.0, 0};
    unsigned char bytes[sizeof stored];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(stored[i / 8] >> i % 8 * 8);
    fi_summary found = {.anchor = 1};
    fi_spec spec;
    fi_summarize(&found, bytes, sizeof stored / sizeof *stored, FI_FLOAT64);
    return found.count == 4 && found.nan == 1 && found.inf == 1 && found.zeros == 2 && found.low == 0 &&
           found.high == 3 && found.mean == 0 && found.m2 == 6 &&
           fi_spec_init(&spec, FI_NORMAL, FI_FLOAT64, minus_zero) == FI_OK && bits_of(spec.shift) == 0;
}

/* Some tenths of a millisecond, at every import. The first draw of seed 1234567 is published. */
bool fi_self_test(void) {
    uint64_t seed = 1234567;
    bool good = fi_next_u64(&seed) == UINT64_C(6457827717110365317);
    fp_state host = fp_enter();
    for (size_t run = 0; run < sizeof runs / sizeof *runs; run++)
        for (int dtype = 0; dtype < FI_DTYPES; dtype++) good &= is_known(run, (fi_dtype)dtype);
    good = good && scales_are_known() && tails_are_known() && far_tails_are_known() && summaries_are_known() &&
           special_values_are_known();
    fp_leave(host);
    return good;
}
