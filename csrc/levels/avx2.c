/* 4 lanes: AVX2, with FMA and F16C (every AVX2 core has the three). */
#include "level.h"

#ifdef FI_X86

#include <immintrin.h>
#include <string.h>

#include "../formats.h"
#include "../splitmix64.h"

FI_TARGET_BEGIN("avx2,fma,f16c")

#define FI_HARDWARE_FMA /* every core of this level has it, and what follows may use it */
#include "../truncated.h"

#define LEVEL avx2
enum { LANES = 4, LINE_BYTES = 32, FLIGHT = 4 };
#define EACH_VECTOR _Pragma("GCC unroll 8") for (int i = 0; i < FLIGHT; i++)
typedef __m256i draws_t;
typedef __m256d weights_t;
typedef __m256i line_t;

/* ---- draws ---- */

/* AVX2 has no 64-bit multiply: three 32-bit ones, the two crossed products meeting in the upper half. */
static inline draws_t multiply_lanes(draws_t a, draws_t b) {
    draws_t crossed = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b),
                                       _mm256_mul_epu32(a, _mm256_srli_epi64(b, 32)));
    return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(crossed, 32));
}

static inline draws_t all_lanes(uint64_t x) { return _mm256_set1_epi64x((long long)x); }
static inline draws_t add_draws(draws_t a, draws_t b) { return _mm256_add_epi64(a, b); }
static inline draws_t every_lane(uint64_t x, uint64_t step) {
    draws_t lane = _mm256_set_epi64x(3, 2, 1, 0);
    return add_draws(all_lanes(x), multiply_lanes(lane, all_lanes(step)));
}

static inline draws_t mix64_lanes(draws_t z) {
    z = multiply_lanes(_mm256_xor_si256(z, _mm256_srli_epi64(z, 30)), all_lanes(FI_MIX_1));
    z = multiply_lanes(_mm256_xor_si256(z, _mm256_srli_epi64(z, 27)), all_lanes(FI_MIX_2));
    return _mm256_xor_si256(z, _mm256_srli_epi64(z, 31));
}

/* ---- bases ---- */

/* The top 53 bits minus `offset` (0 or 2^52), exactly: the upper 21 bits in the significand of 2^84 and
 * the lower 32 in that of 2^52, and every sum below is representable. */
static inline weights_t top53_lanes(draws_t draw, double offset) {
    const draws_t magic52 = all_lanes(UINT64_C(0x4330000000000000)); /* 2^52 */
    const draws_t magic84 = all_lanes(UINT64_C(0x4530000000000000)); /* 2^84 */
    draws_t upper = _mm256_or_si256(_mm256_srli_epi64(draw, 43), magic84);
    draws_t lower = _mm256_blend_epi32(_mm256_srli_epi64(draw, 11), magic52, 0xAA);
    weights_t sum = _mm256_sub_pd(_mm256_castsi256_pd(upper), _mm256_set1_pd(0x1p84 + 0x1p52 + offset));
    return _mm256_add_pd(sum, _mm256_castsi256_pd(lower));
}

static inline weights_t unit_closed_open_lanes(draws_t draw) {
    return _mm256_mul_pd(top53_lanes(draw, 0), _mm256_set1_pd(0x1p-53));
}

static inline weights_t centered_step_lanes(draws_t draw) { return top53_lanes(draw, 0x1p52); }

static inline weights_t constant_lanes(draws_t draw, const fi_spec *spec) {
    (void)draw;
    return _mm256_set1_pd(spec->shift);
}

static inline weights_t uniform_lanes(draws_t draw, const fi_spec *spec) {
    weights_t scaled = _mm256_mul_pd(_mm256_set1_pd(spec->scale), unit_closed_open_lanes(draw));
    return _mm256_add_pd(_mm256_set1_pd(spec->shift), scaled);
}

static inline weights_t centered_uniform_lanes(draws_t draw, const fi_spec *spec) {
    return _mm256_mul_pd(_mm256_set1_pd(spec->scale), centered_step_lanes(draw));
}

static inline weights_t pair_of_rows(const double *low, const double *high) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_load_pd(low)), _mm_load_pd(high), 1);
}

/* Four coefficients from each lane's row: a transposition, half of it in the loads. */
static inline void coefficient_lanes(const double *const rows[LANES], int power, weights_t c[4]) {
    weights_t a = pair_of_rows(rows[0] + power, rows[2] + power);
    weights_t b = pair_of_rows(rows[1] + power, rows[3] + power);
    c[0] = _mm256_unpacklo_pd(a, b);
    c[1] = _mm256_unpackhi_pd(a, b);
    a = pair_of_rows(rows[0] + power + 2, rows[2] + power + 2);
    b = pair_of_rows(rows[1] + power + 2, rows[3] + power + 2);
    c[2] = _mm256_unpacklo_pd(a, b);
    c[3] = _mm256_unpackhi_pd(a, b);
}

/* One lane in 500 lies in the tail: by scalars, out of the way. z has its sign already; bit j of `below` is lane j. */
static __attribute__((noinline)) void replace_tails(double *z, const double *t, uint64_t below) {
    for (; below; below &= below - 1) {
        int j = __builtin_ctzll(below);
        z[j] = z[j] < 0 ? -quantile_tail(t[j]) : quantile_tail(t[j]);
    }
}

/* quantile_centre() of FLIGHT vectors at once; and whether a y lies below the cut. */
static inline __attribute__((always_inline)) bool centre_flight(const weights_t *y, weights_t *z) {
    weights_t x[FLIGHT], c[4], lowest;
    const double *rows[FLIGHT][LANES];
    EACH_VECTOR {
        draws_t bits = _mm256_castpd_si256(y[i]);
        draws_t segment = _mm256_and_si256(_mm256_srli_epi64(bits, 51), all_lanes(FI_CENTRE_ROWS - 1));
        rows[i][0] = fi_quantile_centre[_mm256_extract_epi64(segment, 0)];
        rows[i][1] = fi_quantile_centre[_mm256_extract_epi64(segment, 1)];
        rows[i][2] = fi_quantile_centre[_mm256_extract_epi64(segment, 2)];
        rows[i][3] = fi_quantile_centre[_mm256_extract_epi64(segment, 3)];
        bits = _mm256_or_si256(_mm256_and_si256(bits, all_lanes(FI_SIGNIFICAND)), all_lanes(FI_ONE));
        x[i] = _mm256_sub_pd(_mm256_castsi256_pd(bits), _mm256_set1_pd(1.25));
        lowest = i ? _mm256_min_pd(lowest, y[i]) : y[i];
    }
    _Pragma("GCC unroll 8") for (int power = 12; power >= 0; power -= 4) { /* 15 is a row's zero */
        EACH_VECTOR {
            coefficient_lanes(rows[i], power, c);
            if (power < 12) z[i] = _mm256_fmadd_pd(z[i], x[i], c[3]);
            z[i] = power < 12 ? _mm256_fmadd_pd(z[i], x[i], c[2]) : c[2];
            z[i] = _mm256_fmadd_pd(_mm256_fmadd_pd(z[i], x[i], c[1]), x[i], c[0]);
        }
    }
    return _mm256_movemask_pd(_mm256_cmp_pd(lowest, _mm256_set1_pd(FI_QUANTILE_CUT), _CMP_LT_OQ)) != 0;
}

/* z with the tails of what lies below the cut; t is what they are a function of. */
static inline __attribute__((always_inline)) void tail_flight(const weights_t *t, const weights_t *y,
                                                              weights_t *z) {
    double spilled[2][LANES * FLIGHT];
    uint64_t below = 0;
    EACH_VECTOR {
        below |= (uint64_t)_mm256_movemask_pd(_mm256_cmp_pd(y[i], _mm256_set1_pd(FI_QUANTILE_CUT), _CMP_LT_OQ))
                 << (LANES * i);
        _mm256_storeu_pd(spilled[0] + i * LANES, z[i]);
        _mm256_storeu_pd(spilled[1] + i * LANES, t[i]);
    }
    replace_tails(spilled[0], spilled[1], below);
    EACH_VECTOR z[i] = _mm256_loadu_pd(spilled[0] + i * LANES);
}

static inline weights_t centered_odd_lanes(draws_t draw) {
    weights_t step = centered_step_lanes(draw);
    return _mm256_add_pd(_mm256_add_pd(step, step), _mm256_set1_pd(1));
}

static inline __attribute__((always_inline)) void normal_vectors(const draws_t *draws, weights_t *weights,
                                                                 int count, const fi_spec *spec) {
    weights_t o[FLIGHT], y[FLIGHT], z[FLIGHT];
    for (int done = 0; done < count; done += FLIGHT) {
        EACH_VECTOR {
            o[i] = centered_odd_lanes(draws[done + i]);
            y[i] = _mm256_fmadd_pd(_mm256_mul_pd(o[i], _mm256_set1_pd(-0x1p-106)), o[i],
                                   _mm256_set1_pd(FI_QUANTILE_TOP));
        }
        bool tails = centre_flight(y, z);
        EACH_VECTOR z[i] = _mm256_mul_pd(o[i], z[i]);
        if (tails) {
            weights_t t[FLIGHT];
            EACH_VECTOR t[i] =
                _mm256_sub_pd(_mm256_set1_pd(1), _mm256_mul_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.0), o[i]),
                                                               _mm256_set1_pd(0x1p-53)));
            tail_flight(t, y, z);
        }
        EACH_VECTOR {
            weights_t scaled = _mm256_mul_pd(_mm256_set1_pd(spec->scale), z[i]);
            weights[done + i] = _mm256_add_pd(_mm256_set1_pd(spec->shift), scaled);
        }
    }
}

static inline __attribute__((always_inline)) void near_vectors(const draws_t *draws, weights_t *weights, int count,
                                                               const fi_spec *spec) {
    weights_t t[FLIGHT], y[FLIGHT], z[FLIGHT];
    weights_t sign[FLIGHT];
    for (int done = 0; done < count; done += FLIGHT) {
        EACH_VECTOR {
            weights_t k = top53_lanes(draws[done + i], 0);
            weights_t below = _mm256_cmp_pd(k, _mm256_set1_pd(spec->split), _CMP_LT_OQ);
            weights_t steps = _mm256_sub_pd(_mm256_set1_pd(0x1p53 - 1), k);
            steps = _mm256_blendv_pd(steps, k, below);
            weights_t tail =
                _mm256_blendv_pd(_mm256_set1_pd(spec->high_tail), _mm256_set1_pd(spec->low_tail), below);
            sign[i] = _mm256_and_pd(below, _mm256_set1_pd(-0.0));
            steps = _mm256_add_pd(_mm256_add_pd(steps, steps), _mm256_set1_pd(1));
            t[i] = _mm256_add_pd(tail, _mm256_mul_pd(_mm256_set1_pd(spec->width), steps));
            t[i] = _mm256_min_pd(t[i], _mm256_set1_pd(1));
            y[i] = _mm256_sub_pd(_mm256_fnmadd_pd(t[i], t[i], _mm256_add_pd(t[i], t[i])), _mm256_set1_pd(0x1p-53));
        }
        bool tails = centre_flight(y, z);
        EACH_VECTOR z[i] =
            _mm256_mul_pd(_mm256_mul_pd(_mm256_sub_pd(_mm256_set1_pd(1), t[i]), _mm256_set1_pd(0x1p53)), z[i]);
        if (tails) tail_flight(t, y, z);
        EACH_VECTOR {
            z[i] = _mm256_xor_pd(z[i], sign[i]);
            z[i] = _mm256_min_pd(_mm256_set1_pd(spec->upper), _mm256_max_pd(_mm256_set1_pd(spec->lower), z[i]));
            weights_t scaled = _mm256_mul_pd(_mm256_set1_pd(spec->scale), z[i]);
            weights[done + i] = _mm256_add_pd(_mm256_set1_pd(spec->shift), scaled);
        }
    }
}

/* Far tails are one scalar function for all levels. */
static __attribute__((noinline)) void far_vectors(const draws_t *draws, weights_t *weights, int count,
                                                  const fi_spec *spec) {
    uint64_t draw[LANES];
    double w[LANES];
    for (int i = 0; i < count; i++) {
        memcpy(draw, draws + i, sizeof draw);
        for (int j = 0; j < LANES; j++) {
            double scaled = spec->scale * truncated_quantile((double)top53(draw[j]), spec);
            w[j] = spec->shift + scaled;
        }
        memcpy(weights + i, w, sizeof w);
    }
}

static inline __attribute__((always_inline)) void
truncated_normal_vectors(const draws_t *draws, weights_t *weights, int count, const fi_spec *spec) {
    if (spec->far)
        far_vectors(draws, weights, count, spec);
    else
        near_vectors(draws, weights, count, spec);
}

/* max(lo, x) is lo > x ? lo : x, and min(hi, x) is hi < x ? hi : x: a zero keeps its sign. */
static inline weights_t clamp_lanes(weights_t w, const fi_spec *spec) {
    return _mm256_min_pd(_mm256_set1_pd(spec->hi), _mm256_max_pd(_mm256_set1_pd(spec->lo), w));
}

/* ---- dtypes ---- */

/* float64 to float32 rounded to odd, which a second rounding to at most 22 bits cannot spoil: the
 * dropped 29 bits are gathered in the last bit kept, and the conversion is then exact (spec.c keeps float32 subnormals away). */
static inline __m128 odd_float32(weights_t w) {
    const draws_t dropped = all_lanes((UINT64_C(1) << 29) - 1);
    draws_t bits = _mm256_castpd_si256(w);
    draws_t sticky = _mm256_add_epi64(_mm256_and_si256(bits, dropped), dropped);
    bits = _mm256_andnot_si256(dropped, _mm256_or_si256(bits, sticky));
    return _mm256_cvtpd_ps(_mm256_castsi256_pd(bits));
}

static inline __m256 odd_float32_pair(weights_t a, weights_t b) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(odd_float32(a)), odd_float32(b), 1);
}

static inline line_t pack_float64(const weights_t w[1]) { return _mm256_castpd_si256(w[0]); }

static inline line_t pack_float32(const weights_t w[2]) {
    return _mm256_castps_si256(
        _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(w[0])), _mm256_cvtpd_ps(w[1]), 1));
}

static inline line_t pack_float16(const weights_t w[4]) {
    __m128i a = _mm256_cvtps_ph(odd_float32_pair(w[0], w[1]), _MM_FROUND_TO_NEAREST_INT);
    __m128i b = _mm256_cvtps_ph(odd_float32_pair(w[2], w[3]), _MM_FROUND_TO_NEAREST_INT);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

/* The upper half of a float32, rounded to nearest even by its lower half. */
static inline __m256i upper_half(__m256 odd) {
    __m256i bits = _mm256_castps_si256(odd);
    __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), last), 16);
}

/* Two vectors of 32-bit lanes to one of 16-bit lanes, in order. */
static inline __m256i pack_halves(__m256i a, __m256i b) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8);
}

static inline line_t pack_bfloat16(const weights_t w[4]) {
    return pack_halves(upper_half(odd_float32_pair(w[0], w[1])), upper_half(odd_float32_pair(w[2], w[3])));
}

/* Adding a power of two whose last bit has the weight of the format's last bit at |x| (or at the
 * smallest normal) rounds |x| there; what the addition left in the significand counts its units. */
static inline __m256i to_float8(__m256 odd, int mantissa, int bias) {
    const __m256i lowest = _mm256_set1_epi32((128 - bias) << 23);
    __m256i bits = _mm256_castps_si256(odd);
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
    __m256i exponent = _mm256_and_si256(bits, _mm256_set1_epi32(0x7F800000));
    exponent = _mm256_max_epi32(exponent, lowest);
    __m256i magic = _mm256_add_epi32(exponent, _mm256_set1_epi32((23 - mantissa) << 23));
    __m256 sum = _mm256_add_ps(_mm256_castsi256_ps(magnitude), _mm256_castsi256_ps(magic));
    __m256i units = _mm256_sub_epi32(_mm256_castps_si256(sum), magic);
    __m256i binades = _mm256_srli_epi32(_mm256_sub_epi32(exponent, lowest), 23 - mantissa);
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), _mm256_set1_epi32(0x80));
    return _mm256_or_si256(_mm256_add_epi32(units, binades), sign);
}

static inline line_t pack_float8(const weights_t w[8], int mantissa, int bias) {
    __m256i a = pack_halves(to_float8(odd_float32_pair(w[0], w[1]), mantissa, bias),
                            to_float8(odd_float32_pair(w[2], w[3]), mantissa, bias));
    __m256i b = pack_halves(to_float8(odd_float32_pair(w[4], w[5]), mantissa, bias),
                            to_float8(odd_float32_pair(w[6], w[7]), mantissa, bias));
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xD8);
}

static inline line_t pack_float8_e4m3fn(const weights_t w[8]) { return pack_float8(w, 3, 7); }
static inline line_t pack_float8_e5m2(const weights_t w[8]) { return pack_float8(w, 2, 15); }

static inline void store_line(void *out, line_t line) { _mm256_storeu_si256(out, line); }
static inline void stream_line(void *out, line_t line) { _mm256_stream_si256(out, line); }

#include "loop.h"

#define FI_VECTOR 4
#define FI_LEAST _mm256_min_pd
#define FI_MOST _mm256_max_pd
#include "../summary.h"

DEFINE_SUMMARIZE

FI_TARGET_END

DEFINE_LEVEL

#endif
