/* The float32 intervals of brief.h, for the upper 31 bits of every draw: do the ends lie on either side of the exact
 * weights of all draws with those bits? The quantile is monotone, so the first and the last of them say it.
 *
 *   cc -DLEVEL_FILE='"levels/avx512.c"' ... ./intervals [STRIDE]    every STRIDEth block of bits (default 1: all)
 *
 * Prints by how much the nearest ends miss, in units of 2^-24 of the weight, and exits non-zero where one does not. */
#include <stdio.h>
#include <stdlib.h>

#include LEVEL_FILE

#ifdef FLOAT_CUT
FI_TARGET_BEGIN(SETS)

enum { WORDS = 2 * LANES };

static double least_below = 9, least_above = 9;

/* What the mix would have to leave for stirred_lanes' readers to see this draw. */
static uint64_t unmixed(uint64_t draw) { return draw ^ draw >> 31 ^ draw >> 62; }

/* The exact |w| of the draws whose 2k + 1 - 2^53 is o, or -o below the middle. */
static void exact_weights(const fi_spec *spec, const uint64_t *o, double *w, bool below) {
    uint64_t z[FLIGHT * LANES];
    draws_t draws[FLIGHT];
    weights_t weights[FLIGHT];
    for (int i = 0; i < FLIGHT * LANES; i++) {
        uint64_t k = below ? (UINT64_C(1) << 52) - 1 - o[i] / 2 : (UINT64_C(1) << 52) + o[i] / 2;
        z[i] = unmixed(k << 11);
    }
    memcpy(draws, z, sizeof draws);
    fi_spec unclamped = *spec;
    unclamped.clamped = false;
    exact_vectors(spec->base, FLIGHT, draws, weights, &unclamped);
    memcpy(w, weights, sizeof weights);
    for (int i = 0; i < FLIGHT * LANES; i++) w[i] = below ? -w[i] : w[i];
}

static bool contained(const fi_spec *spec, uint32_t begin, bool below) {
    enum { COUNT = FLIGHT * LANES };
    uint64_t first[COUNT], last[COUNT];
    double low_w[COUNT], high_w[COUNT];
    float low[COUNT], high[COUNT];
    for (int i = 0; i < COUNT; i++) {
        first[i] = ((uint64_t)begin + (uint64_t)i) << 22 | 1;
        last[i] = first[i] + (UINT64_C(1) << 22) - 2;
    }
    exact_weights(spec, first, low_w, below);
    exact_weights(spec, last, high_w, below);
    for (int i = 0; i < COUNT; i += WORDS) {
        uint32_t upper[WORDS];
        floats_t ends[2];
        words_t words;
        for (int j = 0; j < WORDS; j++) {
            uint32_t distance = begin + (uint32_t)(i + j);
            upper[j] = below ? ~distance : distance ^ 1; /* what distance_words undoes */
        }
        memcpy(&words, upper, sizeof words);
        interval_floats(spec->base, spec->dtype, 1, &words, spec, &ends[0], &ends[1]);
        memcpy(low + i, &ends[0], sizeof ends[0]);
        memcpy(high + i, &ends[1], sizeof ends[1]);
    }
    for (int i = 0; i < COUNT; i++) {
        if (!(high[i] <= FLT_MAX)) continue; /* left to the exact way */
        if (!((double)low[i] < low_w[i] || low_w[i] == 0) || !(high_w[i] < (double)high[i])) {
            fprintf(stderr, "%s, %#x: [%a, %a] does not hold [%a, %a]\n", fi_base_name(spec->base),
                    begin + (uint32_t)i, (double)low[i], (double)high[i], low_w[i], high_w[i]);
            return false;
        }
        if (low_w[i] > 0) least_below = fmin(least_below, (1 - (double)low[i] / low_w[i]) * 0x1p24);
        least_above = fmin(least_above, ((double)high[i] / high_w[i] - 1) * 0x1p24);
    }
    return true;
}

static bool all_contained(fi_base base, fi_dtype dtype, const double *p, uint32_t stride) {
    enum { COUNT = FLIGHT * LANES };
    fi_spec spec;
    if (fi_spec_init(&spec, base, dtype, p) != FI_OK || !spec.brief) return false;
    least_below = least_above = 1e9;
    for (uint64_t block = 0; block < (UINT64_C(1) << 31) / COUNT; block++) {
        /* all of both ends, whatever the stride */
        bool end = block < 4096 || block >= (UINT64_C(1) << 31) / COUNT - 4096;
        if (!end && block % stride != stride / 3) continue;
        if (!contained(&spec, (uint32_t)(block * COUNT), block / stride % 2)) return false;
    }
    printf("%s %s %s, scale %g: the nearest ends miss by %.2f below, %.2f above\n", QUOTE(LEVEL),
           fi_base_name(base), fi_dtype_name(dtype), spec.scale, least_below, least_above);
    return true;
}

FI_TARGET_END

int main(int count, char **words) {
    static const double cases[][FI_PARAMETERS] = {
        {0, 0.7, -2, 2, 0x1.74bcf82c9d860p-5, 0x1.74bcf82c9d860p-5, 0x1.e8b4307d3627ap-54, 0x1p52},
        {0, 1.9, -1, 1, 0x1.44ed0bb7cb20bp-2, 0x1.44ed0bb7cb20bp-2, 0x1.5d897a241a6fap-54, 0x1p52},
        {0, 8000.0, -0x1.41205bc01a36ep-10, 0x1.41205bc01a36ep-10, 0x1.ff7fe39e449b6p-1, 0x1.ff7fe39e449b6p-1,
         0x1.0038c376c9492p-63, 0x1.0000000000000p+52},
        {0, 7000.0, -0x1.89374bc6a7efap-9, 0x1.89374bc6a7efap-9, 0x1.fec6426e462f7p-1, 0x1.fec6426e462f7p-1,
         0x1.39bd91b9d08e7p-62, 0x1.0000000000000p+52},
        {0, 3.0, -0x1.47ae147ae147bp-7, 0x1.47ae147ae147bp-7, 0x1.fbea36d462e24p-1, 0x1.fbea36d462e24p-1,
         0x1.05724ae747707p-60, 0x1.0000000000000p+52},
        {0, 0.02, -0x1.ccccccccccccdp+1, 0x1.ccccccccccccdp+1, 0x1.4dacc61ea1d42p-12, 0x1.4dacc61ea1d42p-12,
         0x1.ffd64a673c2bcp-54, 0x1.0000000000000p+52},
        {0, 1.0, -0x1.0000000000000p+3, 0x1.0000000000000p+3, 0x1.669d2c90d55cep-50, 0x1.669d2c90d55cep-50,
         0x1.ffffffffffff5p-54, 0x1.0000000000000p+52}};
    static const double scales[] = {1, 1.1, 1.99, 0.02};
    uint32_t stride = count > 1 ? (uint32_t)atol(words[1]) : 1;
    fp_state host = fp_enter();
    bool good = true;
    for (int dtype = FI_FLOAT16; dtype <= FI_BFLOAT16; dtype++) {
        for (int i = 0; i < (stride == 1 ? 1 : 4); i++) {
            double centered[FI_PARAMETERS] = {scales[i]}, normal[FI_PARAMETERS] = {0, scales[i]};
            if (dtype == FI_FLOAT16) good = good && all_contained(FI_CENTERED_UNIFORM, dtype, centered, stride);
            good = good && all_contained(FI_NORMAL, dtype, normal, stride);
        }
        for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
            good = good && all_contained(FI_TRUNCATED_NORMAL, dtype, cases[i], stride);
    }
    fp_leave(host);
    return good ? 0 : 1;
}
#endif
