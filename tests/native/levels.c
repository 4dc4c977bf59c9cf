/* Every level against the portable one, bit for bit, through the public entry points; and the host's
 * floating-point environment left alone. Prints one hash of all the portable bits, which must be the same on
 * every architecture, and exits non-zero at the first difference.
 *
 *   cc -std=c11 -ffp-contract=off -Icsrc tests/native/levels.c <every .c of csrc> -lm && ./a.out [REQUIRED LEVEL ...]
 */
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fastinit.h"
#include "fpenv.h"
#include "splitmix64.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum { LONGEST = 4096 + 2, GUARD = 64, ROOM = 8 * LONGEST + 2 * GUARD };

#define SIZE(with, constant, name, width, ...) [constant] = width / 8,
static const int sizes[FI_DTYPES] = {FI_EACH_DTYPE(SIZE, )};

/* Ordinary scales, clamps at both ends, subnormals of every dtype, the smallest and the largest. */
static const struct {
    fi_base base;
    double p[FI_PARAMETERS];
} cases[] = {
    {FI_CONSTANT, {0.1}},
    {FI_CONSTANT, {-0.0}},
    {FI_CONSTANT, {1e-40}},
    {FI_UNIFORM, {0, 1}},
    {FI_UNIFORM, {-0.7, 0.3}},
    {FI_UNIFORM, {0.1, 0.7}},
    {FI_UNIFORM, {-440, 440}},
    {FI_UNIFORM, {1e-3, 2e-3}},
    {FI_UNIFORM, {0, 3e-38}},
    {FI_UNIFORM, {-0x1p-30, 1}},
    {FI_UNIFORM, {-1e-8, 1e-8}},
    {FI_UNIFORM, {-60000, 65504}},
    {FI_UNIFORM, {0, 1e-290}},
    {FI_CENTERED_UNIFORM, {1}},
    {FI_CENTERED_UNIFORM, {1.3}},
    {FI_CENTERED_UNIFORM, {0.0869}},
    {FI_CENTERED_UNIFORM, {1e-2}},
    {FI_CENTERED_UNIFORM, {3e-5}},
    {FI_CENTERED_UNIFORM, {1e-37}},
    {FI_CENTERED_UNIFORM, {1e-44}},
    {FI_CENTERED_UNIFORM, {1e-289}},
    {FI_CENTERED_UNIFORM, {1e-300}},
    {FI_CENTERED_UNIFORM, {448}},
    {FI_CENTERED_UNIFORM, {57344}},
    {FI_CENTERED_UNIFORM, {3e38}},
    {FI_CENTERED_UNIFORM, {1e308}},
    {FI_NORMAL, {0, 1}},
    {FI_NORMAL, {0.3, 0.02}},
    {FI_NORMAL, {-7, 3}},
    {FI_NORMAL, {1e-3, 50}},
    {FI_NORMAL, {0, 6900}},
    {FI_NORMAL, {-0.0, 1e-9}},
    {FI_NORMAL, {0, 1e-37}},
    {FI_NORMAL, {1e-30, 1e-44}},
    {FI_NORMAL, {0, 1e-320}},
    {FI_NORMAL, {1e5, 4e37}},
    {FI_NORMAL, {0, 2e307}},
    {FI_NORMAL, {0.1, 0}},
    /* mean, std, lower, upper and their constants (fastinit/_engine/truncation.py) */
    {FI_TRUNCATED_NORMAL,
     {0, 1, -2, 2, 0x1.74bcf82c9d860p-5, 0x1.74bcf82c9d860p-5, 0x1.e8b4307d3627ap-54, 0x1.0000000000000p+52}},
    {FI_TRUNCATED_NORMAL,
     {0x1.3333333333333p-2, 0x1.47ae147ae147bp-6, -2, 2, 0x1.74bcf82c9d860p-5, 0x1.74bcf82c9d860p-5,
      0x1.e8b4307d3627ap-54, 0x1.0000000000000p+52}},
    {FI_TRUNCATED_NORMAL,
     {0, 1, -1, INFINITY, 0x1.44ed0bb7cb20bp-2, 0, 0x1.aec4bd120d37dp-54, 0x1.9f734e17374ccp+51}},
    {FI_TRUNCATED_NORMAL,
     {1, 3, -INFINITY, 0x1.0000000000000p-1, 0, 0x1.3bf143b9aa712p-1, 0x1.62075e232ac77p-54,
      0x1.723ad3580dcc3p+52}},
    {FI_TRUNCATED_NORMAL,
     {0, 1, 0x1.2000000000000p+2, INFINITY, 0x1.ffff8dfe35c8bp+0, 0, 0x1.c80728dd3b03ap-72, 0}},
    {FI_TRUNCATED_NORMAL, {0, 1, 0x1.5000000000000p+2, 1000000, 0x1.5000000000000p+2, 0, 1, 0x1.7941dfedadc79p-3}},
    {FI_TRUNCATED_NORMAL,
     {0, 0x1.12e0be826d695p-30, 30, 31, 30, 0x1.eec3961370cb0p-45, 0x1.ffffffffffe11p-1, 0x1.10c3a6dfb06cap-5}},
    {FI_TRUNCATED_NORMAL, {0, 50, -40, -39, 39, 0x1.f7ecee7d3f2fcp-58, 1, 0x1.a3d3b014e3178p-6}},
    {FI_TRUNCATED_NORMAL, {0, 0x1.999999999999ap-4, 0, 0x1.56e1fc2f8f359p-997, 1, 1, 0x0.000000088ca59p-1022, 0}},
    {FI_TRUNCATED_NORMAL,
     {0, 1, -0x1.999999999999ap-4, 0x1.1000000000000p+3, 0x1.d7375f15b2f1ep-1, 0x1.5dbbaccf1a4e0p-56,
      0x1.1464507526871p-54, 0x1.2e32a779625f8p+49}},
    {FI_TRUNCATED_NORMAL, {2, 1, -INFINITY, INFINITY, 0, 0, 0, 0}},
    {FI_TRUNCATED_NORMAL,
     {0, 1, -0x1.0000000000000p-46, 0x1.0000000000000p-46, 0x1.fffffffffff9ap-1, 0x1.fffffffffff9ap-1,
      0x1.9884533d43651p-100, 0x1.0000000000000p+52}},
    {FI_TRUNCATED_NORMAL, {0, 1, -INFINITY, 0, 0, 1, 0x1.0000000000000p-54, 0x1.0000000000000p+53}},
    {FI_TRUNCATED_NORMAL,
     {0, 0x1.1039d428a8b8fp-123, -2, 2, 0x1.74bcf82c9d860p-5, 0x1.74bcf82c9d860p-5, 0x1.e8b4307d3627ap-54,
      0x1.0000000000000p+52}},
    {FI_TRUNCATED_NORMAL,
     {0x1.6666666666666p-1, 0x1.0000000000000p-2, -1, 1, 0x1.44ed0bb7cb20bp-2, 0x1.44ed0bb7cb20bp-2,
      0x1.5d897a241a6fap-54, 0x1.0000000000000p+52}},
    {FI_TRUNCATED_NORMAL,
     {0, 0x1.0000000000000p-20, 2, 0x1.0000000000800p+1, 0x1.f45a183e9b13dp+0, 0x1.74bcf82c9a116p-5,
      0x1.ba4b436e81f30p-98, 0}},
    {FI_TRUNCATED_NORMAL,
     {0, 0, -2, 2, 0x1.74bcf82c9d860p-5, 0x1.74bcf82c9d860p-5, 0x1.e8b4307d3627ap-54, 0x1.0000000000000p+52}},
};
enum { CASES = sizeof cases / sizeof *cases };

static unsigned char expected[ROOM], found[ROOM];
static uint64_t hash = UINT64_C(0xCBF29CE484222325);

static void stir(const unsigned char *bytes, size_t count, int size) {
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        if (size == 8) memcpy(&value, bytes + 8 * i, 8);
        uint32_t word;
        uint16_t half;
        if (size == 4) memcpy(&word, bytes + 4 * i, 4), value = word;
        if (size == 2) memcpy(&half, bytes + 2 * i, 2), value = half;
        if (size == 1) value = bytes[i];
        hash = (hash ^ value) * UINT64_C(0x100000001B3);
    }
}

/* Bytes of the room that a fill may touch, with the guards around them. */
static size_t used(const fi_spec *spec, size_t offset, size_t count) {
    return 2 * GUARD + (offset + count) * (size_t)sizes[spec->dtype];
}

static void fill(unsigned char *room, size_t offset, size_t count, uint64_t draws, uint64_t state,
                 const fi_spec *spec, bool stream) {
    size_t size = (size_t)sizes[spec->dtype];
    fi_region region = {.data = (char *)room + GUARD + offset * size, .ndim = 1, .first = 3};
    region.length[0] = (int64_t)count;
    region.stride[0] = (int64_t)size;
    region.draws[0] = draws;
    fi_region_normalize(&region);
    fi_region_prepare(&region, spec->dtype, stream ? FI_STORES_STREAMING : FI_STORES_ORDINARY);
    memset(room, 0xA5, used(spec, offset, count));
    if (count) fi_fill(&region, spec, state, 0, (int64_t)count);
}

static void fail(const char *level, const fi_spec *spec, const char *what, size_t offset, size_t count,
                 uint64_t draws, uint64_t state) {
    fprintf(stderr, "%s: level %s, dtype %s, base %d, scale %a, offset %zu, count %zu, draws %#llx, state %#llx\n",
            what, level, fi_dtype_name(spec->dtype), spec->base, spec->scale, offset, count,
            (unsigned long long)draws, (unsigned long long)state);
    exit(1);
}

static void compare(const char *level, const fi_spec *spec, size_t offset, size_t count, uint64_t draws,
                    uint64_t state) {
    fi_level_select("portable");
    fill(expected, offset, count, draws, state, spec, false);
    for (int stream = 0; stream < 2; stream++) {
        fi_level_select(level);
        fill(found, offset, count, draws, state, spec, stream);
        if (memcmp(expected, found, used(spec, offset, count)) != 0)
            fail(level, spec, "bits differ", offset, count, draws, state);
    }
}

static void compare_level(const char *level) {
    static const uint64_t draws[] = {1, 2, 784, 0x123456789ABCDEF, UINT64_MAX};
    static const uint64_t states[] = {17, UINT32_MAX, UINT64_C(1) << 63, UINT64_MAX - 5};
    for (int c = 0; c < CASES; c++) {
        for (int dtype = 0; dtype < FI_DTYPES; dtype++) {
            fi_spec spec;
            if (fi_spec_init(&spec, cases[c].base, (fi_dtype)dtype, cases[c].p) != FI_OK) continue;
            size_t turn = 0;
            for (size_t count = 0; count <= 257; count++, turn++)
                for (size_t offset = 0; offset < 2; offset++)
                    compare(level, &spec, offset * (1 + turn % 7), count, draws[turn % 5], states[turn % 4]);
            for (size_t count = 4095; count <= 4097; count++)
                compare(level, &spec, 1, count, draws[count % 5], states[count % 4]);
        }
    }
}

static void hash_portable(void) {
    fi_level_select("portable");
    for (int c = 0; c < CASES; c++) {
        for (int dtype = 0; dtype < FI_DTYPES; dtype++) {
            fi_spec spec;
            fi_status status = fi_spec_init(&spec, cases[c].base, (fi_dtype)dtype, cases[c].p);
            hash = (hash ^ (uint64_t)status) * UINT64_C(0x100000001B3);
            if (status != FI_OK) continue;
            fill(expected, 0, 4097, 1, UINT64_MAX - 2000 * FI_GAMMA, &spec, false);
            stir(expected + GUARD, 4097, sizes[dtype]);
        }
    }
    fi_scale_result scale;
    fi_scale(&scale, 1, 794, FI_FAN_SUM, 1.7);
    uint64_t bits;
    memcpy(&bits, &scale.limit, sizeof bits);
    hash = (hash ^ bits) * UINT64_C(0x100000001B3);
}

/* The bits under every rounding mode, and with subnormals flushed, are those under the default. */
static void check_environment(const char *level) {
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    fi_level_select(level);
    for (int c = 0; c < CASES; c++) {
        for (int dtype = 0; dtype < FI_DTYPES; dtype++) {
            fi_spec spec, other;
            if (fi_spec_init(&spec, cases[c].base, (fi_dtype)dtype, cases[c].p) != FI_OK) continue;
            fill(expected, 0, 300, 1, 17, &spec, false);
            for (int m = 0; m < 4; m++) {
                fesetround(modes[m]);
#if defined(__SSE2__)
                unsigned int flushing = _mm_getcsr() | 0x8040; /* FTZ and DAZ */
                _mm_setcsr(flushing);
#endif
                fi_spec_init(&other, cases[c].base, (fi_dtype)dtype, cases[c].p);
                fill(found, 0, 300, 1, 17, &other, false);
                bool kept = fegetround() == modes[m];
#if defined(__SSE2__)
                kept = kept && (_mm_getcsr() & 0xFFC0) == (flushing & 0xFFC0);
                _mm_setcsr(0x1F80);
#endif
                fesetround(FE_TONEAREST);
                if (!kept) fail(level, &spec, "the host's environment was not restored", 0, 300, 1, 17);
                if (memcmp(expected, found, used(&spec, 0, 300)) != 0)
                    fail(level, &spec, "the host's environment changed bits", 0, 300, 1, 17);
            }
        }
    }
}

int main(int count, char **required) {
    for (int i = 1; i < count; i++) {
        if (fi_level_select(required[i]) != FI_OK) {
            fprintf(stderr, "required level %s cannot run here\n", required[i]);
            return 2;
        }
    }
    for (int i = 0; i < fi_level_count(); i++) {
        if (!fi_level_supported(i)) {
            fprintf(stderr, "skipped: level %s cannot run here\n", fi_level_at(i));
            continue;
        }
        if (strcmp(fi_level_at(i), "portable") != 0) compare_level(fi_level_at(i));
        check_environment(fi_level_at(i));
        fi_level_select(fi_level_at(i));
        if (!fi_self_test()) {
            fprintf(stderr, "self-test of level %s failed\n", fi_level_at(i));
            return 1;
        }
        printf("level %s\n", fi_level_at(i));
    }
    hash_portable();
    printf("hash %016llx\n", (unsigned long long)hash);
    return 0;
}
