/* 8 lanes: AVX-512 F, DQ, VL, BW and CD (every AVX-512 server core has the five). */
#include "level.h"

#ifdef FI_X86

#include <immintrin.h>
#include <string.h>

#include "../formats.h"
#include "../splitmix64.h"

FI_TARGET_BEGIN("avx512f,avx512dq,avx512vl,avx512bw,avx512cd")

#define FI_HARDWARE_FMA /* every core of this level has it, and what follows may use it */
#include "../truncated.h"

#define LEVEL avx512
enum { LANES = 8, LINE_BYTES = 64, FLIGHT = 8 };
#define EACH_VECTOR _Pragma("GCC unroll 8") for (int i = 0; i < FLIGHT; i++)
typedef __m512i draws_t;
typedef __m512d weights_t;
typedef __m512i line_t;

/* ---- draws ---- */

static inline draws_t all_lanes(uint64_t x) { return _mm512_set1_epi64((long long)x); }
static inline draws_t add_draws(draws_t a, draws_t b) { return _mm512_add_epi64(a, b); }
static inline draws_t every_lane(uint64_t x, uint64_t step) {
    draws_t lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    return add_draws(all_lanes(x), _mm512_mullo_epi64(lane, all_lanes(step)));
}

static inline draws_t mix64_lanes(draws_t z) {
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 30)), all_lanes(FI_MIX_1));
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 27)), all_lanes(FI_MIX_2));
    return _mm512_xor_si512(z, _mm512_srli_epi64(z, 31));
}

/* ---- bases ---- */

static inline weights_t unit_closed_open_lanes(draws_t draw) {
    return _mm512_mul_pd(_mm512_cvtepi64_pd(_mm512_srli_epi64(draw, 11)), _mm512_set1_pd(0x1p-53));
}

/* Flipping the top bit and shifting with the sign subtracts 2^52 from the top 53 bits. */
static inline weights_t centered_step_lanes(draws_t draw) {
    return _mm512_cvtepi64_pd(_mm512_srai_epi64(_mm512_xor_si512(draw, all_lanes(UINT64_C(1) << 63)), 11));
}

static inline weights_t constant_lanes(draws_t draw, const fi_spec *spec) {
    (void)draw;
    return _mm512_set1_pd(spec->shift);
}

static inline weights_t uniform_lanes(draws_t draw, const fi_spec *spec) {
    weights_t scaled = _mm512_mul_pd(_mm512_set1_pd(spec->scale), unit_closed_open_lanes(draw));
    return _mm512_add_pd(_mm512_set1_pd(spec->shift), scaled);
}

static inline weights_t centered_uniform_lanes(draws_t draw, const fi_spec *spec) {
    return _mm512_mul_pd(_mm512_set1_pd(spec->scale), centered_step_lanes(draw));
}

/* Of 16 coefficients, the lane's: bits(y) >> 51 modulo 16, which is what the instruction looks at. */
static inline weights_t coefficient_lanes(int power, draws_t segment) {
    const double *row = fi_quantile_powers[power];
    return _mm512_permutex2var_pd(_mm512_load_pd(row), segment, _mm512_load_pd(row + 8));
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
    weights_t x[FLIGHT], lowest;
    draws_t segment[FLIGHT];
    EACH_VECTOR {
        draws_t bits = _mm512_castpd_si512(y[i]);
        segment[i] = _mm512_srli_epi64(bits, 51);
        bits = _mm512_ternarylogic_epi64(bits, all_lanes(FI_SIGNIFICAND), all_lanes(FI_ONE), 0xEA); /* & | */
        x[i] = _mm512_sub_pd(_mm512_castsi512_pd(bits), _mm512_set1_pd(1.25));
        z[i] = coefficient_lanes(FI_DEGREE, segment[i]);
        lowest = i ? _mm512_min_pd(lowest, y[i]) : y[i];
    }
    _Pragma("GCC unroll 16") for (int power = FI_DEGREE - 1; power >= 0; power--) {
        EACH_VECTOR z[i] = _mm512_fmadd_pd(z[i], x[i], coefficient_lanes(power, segment[i]));
    }
    return _mm512_cmp_pd_mask(lowest, _mm512_set1_pd(FI_QUANTILE_CUT), _CMP_LT_OQ) != 0;
}

/* z with the tails of what lies below the cut; t is what they are a function of. */
static inline __attribute__((always_inline)) void tail_flight(const weights_t *t, const weights_t *y,
                                                              weights_t *z) {
    double spilled[2][LANES * FLIGHT];
    uint64_t below = 0;
    EACH_VECTOR {
        below |= (uint64_t)_mm512_cmp_pd_mask(y[i], _mm512_set1_pd(FI_QUANTILE_CUT), _CMP_LT_OQ) << (LANES * i);
        _mm512_storeu_pd(spilled[0] + i * LANES, z[i]);
        _mm512_storeu_pd(spilled[1] + i * LANES, t[i]);
    }
    replace_tails(spilled[0], spilled[1], below);
    EACH_VECTOR z[i] = _mm512_loadu_pd(spilled[0] + i * LANES);
}

static inline weights_t centered_odd_lanes(draws_t draw) {
    draw = _mm512_srai_epi64(_mm512_xor_si512(draw, all_lanes(UINT64_C(1) << 63)), 10);
    return _mm512_cvtepi64_pd(_mm512_or_si512(draw, all_lanes(1)));
}

static inline __attribute__((always_inline)) void normal_vectors(const draws_t *draws, weights_t *weights,
                                                                 int count, const fi_spec *spec) {
    weights_t o[FLIGHT], y[FLIGHT], z[FLIGHT];
    for (int done = 0; done < count; done += FLIGHT) {
        EACH_VECTOR {
            o[i] = centered_odd_lanes(draws[done + i]);
            y[i] = _mm512_fmadd_pd(_mm512_mul_pd(o[i], _mm512_set1_pd(-0x1p-106)), o[i],
                                   _mm512_set1_pd(FI_QUANTILE_TOP));
        }
        bool tails = centre_flight(y, z);
        EACH_VECTOR z[i] = _mm512_mul_pd(o[i], z[i]);
        if (tails) {
            weights_t t[FLIGHT];
            EACH_VECTOR t[i] =
                _mm512_sub_pd(_mm512_set1_pd(1), _mm512_mul_pd(_mm512_abs_pd(o[i]), _mm512_set1_pd(0x1p-53)));
            tail_flight(t, y, z);
        }
        EACH_VECTOR {
            weights_t scaled = _mm512_mul_pd(_mm512_set1_pd(spec->scale), z[i]);
            weights[done + i] = _mm512_add_pd(_mm512_set1_pd(spec->shift), scaled);
        }
    }
}

static inline __attribute__((always_inline)) void near_vectors(const draws_t *draws, weights_t *weights, int count,
                                                               const fi_spec *spec) {
    weights_t t[FLIGHT], y[FLIGHT], z[FLIGHT];
    draws_t sign[FLIGHT];
    for (int done = 0; done < count; done += FLIGHT) {
        EACH_VECTOR {
            weights_t k = _mm512_cvtepi64_pd(_mm512_srli_epi64(draws[done + i], 11));
            __mmask8 below = _mm512_cmp_pd_mask(k, _mm512_set1_pd(spec->split), _CMP_LT_OQ);
            weights_t steps = _mm512_sub_pd(_mm512_set1_pd(0x1p53 - 1), k);
            steps = _mm512_mask_mov_pd(steps, below, k);
            weights_t tail =
                _mm512_mask_mov_pd(_mm512_set1_pd(spec->high_tail), below, _mm512_set1_pd(spec->low_tail));
            sign[i] = _mm512_maskz_mov_epi64(below, all_lanes(UINT64_C(1) << 63));
            steps = _mm512_add_pd(_mm512_add_pd(steps, steps), _mm512_set1_pd(1));
            t[i] = _mm512_add_pd(tail, _mm512_mul_pd(_mm512_set1_pd(spec->width), steps));
            t[i] = _mm512_min_pd(t[i], _mm512_set1_pd(1));
            y[i] = _mm512_sub_pd(_mm512_fnmadd_pd(t[i], t[i], _mm512_add_pd(t[i], t[i])), _mm512_set1_pd(0x1p-53));
        }
        bool tails = centre_flight(y, z);
        EACH_VECTOR z[i] =
            _mm512_mul_pd(_mm512_mul_pd(_mm512_sub_pd(_mm512_set1_pd(1), t[i]), _mm512_set1_pd(0x1p53)), z[i]);
        if (tails) tail_flight(t, y, z);
        EACH_VECTOR {
            z[i] = _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(z[i]), sign[i]));
            z[i] = _mm512_min_pd(_mm512_set1_pd(spec->upper), _mm512_max_pd(_mm512_set1_pd(spec->lower), z[i]));
            weights_t scaled = _mm512_mul_pd(_mm512_set1_pd(spec->scale), z[i]);
            weights[done + i] = _mm512_add_pd(_mm512_set1_pd(spec->shift), scaled);
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
    return _mm512_min_pd(_mm512_set1_pd(spec->hi), _mm512_max_pd(_mm512_set1_pd(spec->lo), w));
}

/* ---- dtypes ---- */

/* float64 to float32 rounded to odd, which a second rounding to at most 22 bits cannot spoil: the
 * dropped 29 bits are gathered in the last bit kept, and the conversion is then exact (spec.c keeps float32 subnormals away). */
static inline __m256 odd_float32(weights_t w) {
    const draws_t dropped = all_lanes((UINT64_C(1) << 29) - 1);
    draws_t bits = _mm512_castpd_si512(w);
    draws_t sticky = _mm512_add_epi64(_mm512_and_si512(bits, dropped), dropped);
    bits = _mm512_ternarylogic_epi64(bits, sticky, dropped, 0x54); /* (bits | sticky) & ~dropped */
    return _mm512_cvtpd_ps(_mm512_castsi512_pd(bits));
}

static inline __m512 odd_float32_pair(weights_t a, weights_t b) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(odd_float32(a)), odd_float32(b), 1);
}

static inline line_t pack_float64(const weights_t w[1]) { return _mm512_castpd_si512(w[0]); }

static inline __m512 float32_pair(weights_t a, weights_t b) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(a)), _mm512_cvtpd_ps(b), 1);
}

static inline line_t pack_float32(const weights_t w[2]) { return _mm512_castps_si512(float32_pair(w[0], w[1])); }

static inline line_t pack_float16(const weights_t w[4]) {
    __m256i a = _mm512_cvtps_ph(odd_float32_pair(w[0], w[1]), _MM_FROUND_TO_NEAREST_INT);
    __m256i b = _mm512_cvtps_ph(odd_float32_pair(w[2], w[3]), _MM_FROUND_TO_NEAREST_INT);
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

/* The upper half of a float32, rounded to nearest even by its lower half. */
static inline __m512i upper_half(__m512 odd) {
    __m512i bits = _mm512_castps_si512(odd);
    __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), last);
}

/* Whether the lower half of some float32 is exactly half of the upper one's last bit. */
static inline bool has_tie(__m512 x, __m512 y) {
    const __m512i half = _mm512_set1_epi32(0x8000);
    const __mmask32 lower_words = 0x55555555;
    return (_mm512_mask_cmpeq_epi16_mask(lower_words, _mm512_castps_si512(x), half) |
            _mm512_mask_cmpeq_epi16_mask(lower_words, _mm512_castps_si512(y), half)) != 0;
}

/* A float32 rounded to nearest spoils the second rounding only where it lies on a tie of bfloat16, which
 * is once in 2,000 lines: there, and only there, round to odd first. */
static inline line_t pack_bfloat16(const weights_t w[4]) {
    __m512 x = float32_pair(w[0], w[1]), y = float32_pair(w[2], w[3]);
    if (__builtin_expect(has_tie(x, y), false)) {
        x = odd_float32_pair(w[0], w[1]);
        y = odd_float32_pair(w[2], w[3]);
    }
    __m256i a = _mm512_cvtepi32_epi16(_mm512_srli_epi32(upper_half(x), 16));
    __m256i b = _mm512_cvtepi32_epi16(_mm512_srli_epi32(upper_half(y), 16));
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

/* Adding a power of two whose last bit has the weight of the format's last bit at |x| (or at the
 * smallest normal) rounds |x| there; what the addition left in the significand counts its units. */
static inline __m128i to_float8(__m512 odd, int mantissa, int bias) {
    const __m512i lowest = _mm512_set1_epi32((128 - bias) << 23);
    __m512i bits = _mm512_castps_si512(odd);
    __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF));
    __m512i exponent = _mm512_and_si512(bits, _mm512_set1_epi32(0x7F800000));
    exponent = _mm512_max_epi32(exponent, lowest);
    __m512i magic = _mm512_add_epi32(exponent, _mm512_set1_epi32((23 - mantissa) << 23));
    __m512 sum = _mm512_add_ps(_mm512_castsi512_ps(magnitude), _mm512_castsi512_ps(magic));
    __m512i units = _mm512_sub_epi32(_mm512_castps_si512(sum), magic);
    __m512i binades = _mm512_srli_epi32(_mm512_sub_epi32(exponent, lowest), 23 - mantissa);
    __m512i sign = _mm512_and_si512(_mm512_srli_epi32(bits, 24), _mm512_set1_epi32(0x80));
    return _mm512_cvtepi32_epi8(_mm512_or_si512(_mm512_add_epi32(units, binades), sign));
}

static inline line_t pack_float8(const weights_t w[8], int mantissa, int bias) {
    line_t line = _mm512_castsi128_si512(to_float8(odd_float32_pair(w[0], w[1]), mantissa, bias));
    line = _mm512_inserti32x4(line, to_float8(odd_float32_pair(w[2], w[3]), mantissa, bias), 1);
    line = _mm512_inserti32x4(line, to_float8(odd_float32_pair(w[4], w[5]), mantissa, bias), 2);
    return _mm512_inserti32x4(line, to_float8(odd_float32_pair(w[6], w[7]), mantissa, bias), 3);
}

static inline line_t pack_float8_e4m3fn(const weights_t w[8]) { return pack_float8(w, 3, 7); }
static inline line_t pack_float8_e5m2(const weights_t w[8]) { return pack_float8(w, 2, 15); }

static inline void store_line(void *out, line_t line) { _mm512_storeu_si512(out, line); }
static inline void stream_line(void *out, line_t line) { _mm512_stream_si512(out, line); }

#include "loop.h"

#define FI_VECTOR 8
#define FI_LEAST _mm512_min_pd
#define FI_MOST _mm512_max_pd
#include "../summary.h"

DEFINE_SUMMARIZE

FI_TARGET_END

DEFINE_LEVEL

#endif
