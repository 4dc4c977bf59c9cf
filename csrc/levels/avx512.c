/* 8 lanes: AVX-512 F, DQ, VL, BW and CD (every AVX-512 server core has the five). */
#include "level.h"

#ifdef FI_X86

#include <immintrin.h>
#include <math.h>

#define SETS "avx512f,avx512dq,avx512vl,avx512bw,avx512cd"
FI_TARGET_BEGIN(SETS)

#define FI_HARDWARE_FMA /* every core of this level has it, and what follows may use it */
#include "../brief.h"
#include "../weight.h"

/* FLIGHT: with four, the units wait for one another; there are 32 registers. */
#define LEVEL avx512
enum { LANES = 8, LINE_BYTES = 64, FLIGHT = 8 };
typedef __m512i draws_t;
typedef __m512d weights_t;
typedef __m512i words_t;
typedef __mmask8 mask_t;
typedef __m512i line_t;

/* ---- draws ---- */

static inline draws_t all_draws(uint64_t x) { return _mm512_set1_epi64((long long)x); }
static inline draws_t add_draws(draws_t a, draws_t b) { return _mm512_add_epi64(a, b); }
static inline draws_t every_draw(uint64_t x, uint64_t step) {
    return add_draws(all_draws(x), _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), all_draws(step)));
}

static inline draws_t stirred_lanes(draws_t z) {
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 30)), all_draws(FI_MIX_1));
    return _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 27)), all_draws(FI_MIX_2));
}

static inline draws_t mixed_lanes(draws_t z) { return _mm512_xor_si512(z, _mm512_srli_epi64(z, 31)); }

/* ---- weights ---- */

static inline weights_t all_weights(double x) { return _mm512_set1_pd(x); }
static inline weights_t add(weights_t a, weights_t b) { return _mm512_add_pd(a, b); }
static inline weights_t subtract(weights_t a, weights_t b) { return _mm512_sub_pd(a, b); }
static inline weights_t multiply(weights_t a, weights_t b) { return _mm512_mul_pd(a, b); }
static inline weights_t magnitude(weights_t w) { return _mm512_abs_pd(w); }
static inline weights_t flip(weights_t w, weights_t sign) { return _mm512_xor_pd(w, sign); }
static inline weights_t fma_lanes(weights_t a, weights_t b, weights_t c) { return _mm512_fmadd_pd(a, b, c); }
static inline weights_t fnma_lanes(weights_t a, weights_t b, weights_t c) { return _mm512_fnmadd_pd(a, b, c); }
static inline weights_t least(weights_t a, weights_t b) { return _mm512_min_pd(a, b); }
static inline weights_t most(weights_t a, weights_t b) { return _mm512_max_pd(a, b); }
static inline mask_t less(weights_t a, weights_t b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
static inline weights_t choose(mask_t m, weights_t yes, weights_t no) { return _mm512_mask_mov_pd(no, m, yes); }
static inline weights_t keep(mask_t m, weights_t w) { return _mm512_maskz_mov_pd(m, w); }
static inline mask_t either(mask_t a, mask_t b) { return (mask_t)(a | b); }
/* By way of a 32-bit register: a mask that gcc 12 spills is read back, as a 64-bit number, with what lies beside it. */
static inline uint64_t mask_bits(uint32_t mask) {
    __asm__("" : "+r"(mask));
    return mask;
}
static inline uint64_t lanes_of(mask_t m) { return mask_bits(m); }
static inline weights_t load_weights(const double *from) { return _mm512_loadu_pd(from); }
static inline void store_weights(double *to, weights_t w) { _mm512_storeu_pd(to, w); }

/* ---- from draws to weights ---- */

/* 2^11 k: the last step of the mix and the mask in one operation. */
#define UNIT53 0x1p11
static inline weights_t scaled53_lanes(draws_t z) {
    draws_t mask = all_draws(~UINT64_C(2047));
    return _mm512_cvtepu64_pd(_mm512_ternarylogic_epi64(z, _mm512_srli_epi64(z, 31), mask, 0x28)); /* (^) & */
}

static inline weights_t unit_steps(draws_t z, double factor) {
    return multiply(scaled53_lanes(z), all_weights(factor * 0x1p-11));
}

/* factor (k - 2^52), of which all but the sum is exact. */
static inline weights_t centered_steps(draws_t z, double factor) {
    return fma_lanes(scaled53_lanes(z), all_weights(factor * 0x1p-11), all_weights(factor * -0x1p52));
}

static inline weights_t centered_open_lanes(draws_t z) {
    return fma_lanes(scaled53_lanes(z), all_weights(0x1p-63), all_weights(0x1p-53 - 1));
}

/* Of 16 coefficients, the lane's: bits(y) >> 51 modulo 16, which is what the instruction looks at. */
static inline weights_t coefficient_lanes(const double *row, draws_t segment) {
    return _mm512_permutex2var_pd(_mm512_load_pd(row), segment, _mm512_load_pd(row + 8));
}

/* A polynomial on each of 16 half binades. */
FI_INLINE void half_binades_flight(const double (*powers)[16], int degree, int flight, const weights_t *y,
                                   weights_t *z) {
    weights_t x[FLIGHT];
    draws_t segment[FLIGHT];
    EACH_VECTOR(flight) {
        draws_t bits = _mm512_castpd_si512(y[i]);
        segment[i] = _mm512_srli_epi64(bits, 51);
        bits = _mm512_ternarylogic_epi64(bits, all_draws(FI_SIGNIFICAND), all_draws(FI_ONE), 0xEA); /* & | */
        x[i] = subtract(_mm512_castsi512_pd(bits), all_weights(1.25));
        z[i] = coefficient_lanes(powers[degree], segment[i]);
    }
    _Pragma("GCC unroll 16") for (int power = degree - 1; power >= 0; power--) {
        EACH_VECTOR(flight) z[i] = fma_lanes(z[i], x[i], coefficient_lanes(powers[power], segment[i]));
    }
}

FI_INLINE void quantile_centre_flight(int flight, const weights_t *y, weights_t *z) {
    half_binades_flight(fi_quantile_powers, FI_DEGREE, flight, y, z);
}

FI_INLINE void brief_centre_flight(int flight, const weights_t *y, weights_t *z) {
    half_binades_flight(fi_brief_powers, FI_BRIEF_DEGREE_POWERS, flight, y, z);
}

static inline mask_t near_tie(weights_t w) {
    draws_t raised = add_draws(_mm512_castpd_si512(w), all_draws((1 << 28) + (1 << 20)));
    return _mm512_testn_epi64_mask(raised, all_draws((1 << 29) - (1 << 21)));
}

/* ---- words ---- */

static inline words_t all_words(uint32_t x) { return _mm512_set1_epi32((int)x); }
static inline words_t add_words(words_t a, words_t b) { return _mm512_add_epi32(a, b); }
static inline words_t subtract_words(words_t a, words_t b) { return _mm512_sub_epi32(a, b); }
static inline words_t and_words(words_t a, words_t b) { return _mm512_and_si512(a, b); }
static inline words_t or_words(words_t a, words_t b) { return _mm512_or_si512(a, b); }
static inline words_t most_words(words_t a, words_t b) { return _mm512_max_epi32(a, b); }
static inline words_t shift_words(words_t x, int n) { return _mm512_srli_epi32(x, (unsigned)n); }
static inline words_t add_floats(words_t a, words_t b) {
    return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
}

/* ---- rounding and packing ---- */

static inline __m512 two_floats(__m256 a, __m256 b) { return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1); }

/* The dropped 29 bits are gathered in the last bit kept, and the conversion is then exact. */
static inline __m256 odd_float(weights_t w) {
    const draws_t dropped = all_draws((UINT64_C(1) << 29) - 1);
    draws_t bits = _mm512_castpd_si512(w);
    draws_t sticky = _mm512_add_epi64(_mm512_and_si512(bits, dropped), dropped);
    bits = _mm512_ternarylogic_epi64(bits, sticky, dropped, 0x54); /* (bits | sticky) & ~dropped */
    return _mm512_cvtpd_ps(_mm512_castsi512_pd(bits));
}

static inline words_t odd_floats(weights_t a, weights_t b) {
    return _mm512_castps_si512(two_floats(odd_float(a), odd_float(b)));
}

static inline words_t nearest_floats(weights_t a, weights_t b) {
    return _mm512_castps_si512(two_floats(_mm512_cvtpd_ps(a), _mm512_cvtpd_ps(b)));
}

/* Whether the lower half of some float32 is exactly half of the upper one's last bit. */
static inline bool has_tie(const words_t x[2]) {
    const words_t half = all_words(0x8000);
    const __mmask32 lower_halves = 0x55555555;
    return (_mm512_mask_cmpeq_epi16_mask(lower_halves, x[0], half) |
            _mm512_mask_cmpeq_epi16_mask(lower_halves, x[1], half)) != 0;
}

/* A float32 rounded to nearest spoils the second rounding only where it lies on a tie of bfloat16, which
 * is once in 2,000 lines: there, and only there, round to odd, which costs more. */
static inline void floats_for_bfloat16(const weights_t w[4], words_t x[2]) {
    x[0] = nearest_floats(w[0], w[1]);
    x[1] = nearest_floats(w[2], w[3]);
    if (__builtin_expect(has_tie(x), false)) {
        x[0] = odd_floats(w[0], w[1]);
        x[1] = odd_floats(w[2], w[3]);
    }
}

static inline line_t pack_float64(const weights_t w[1]) { return _mm512_castpd_si512(w[0]); }

static inline line_t pack_float32(const weights_t w[2]) { return nearest_floats(w[0], w[1]); }

static inline line_t pack_float16(const weights_t w[4]) {
    __m256i a = _mm512_cvtps_ph(_mm512_castsi512_ps(odd_floats(w[0], w[1])), _MM_FROUND_TO_NEAREST_INT);
    __m256i b = _mm512_cvtps_ph(_mm512_castsi512_ps(odd_floats(w[2], w[3])), _MM_FROUND_TO_NEAREST_INT);
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

static inline line_t pack_halves(const words_t x[2]) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(x[0])), _mm512_cvtepi32_epi16(x[1]), 1);
}

static inline line_t pack_bytes(const words_t x[4]) {
    line_t line = _mm512_castsi128_si512(_mm512_cvtepi32_epi8(x[0]));
    line = _mm512_inserti32x4(line, _mm512_cvtepi32_epi8(x[1]), 1);
    line = _mm512_inserti32x4(line, _mm512_cvtepi32_epi8(x[2]), 2);
    return _mm512_inserti32x4(line, _mm512_cvtepi32_epi8(x[3]), 3);
}

/* ---- float32 lanes ---- */

#define FLOAT_CUT 0x1p19f /* 2^31 t: t from 2^-12 up */
typedef __m512 floats_t;
enum { FLOAT_FLIGHT = 4 };

static inline floats_t all_floats(float x) { return _mm512_set1_ps(x); }
static inline floats_t multiply_floats(floats_t a, floats_t b) { return _mm512_mul_ps(a, b); }
static inline floats_t fma_floats(floats_t a, floats_t b, floats_t c) { return _mm512_fmadd_ps(a, b, c); }
static inline floats_t least_floats(floats_t a, floats_t b) { return _mm512_min_ps(a, b); }
static inline floats_t floats_of(words_t x) { return _mm512_cvtepi32_ps(x); }
static inline words_t float_words(floats_t x) { return _mm512_castps_si512(x); }
static inline floats_t word_floats(words_t x) { return _mm512_castsi512_ps(x); }
static inline floats_t floats_of_31_bits(words_t x) {
    return _mm512_cvt_roundepi32_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
static inline floats_t infinite_below(floats_t x, floats_t t, float cut) {
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(t, all_floats(cut), _CMP_LT_OQ), all_floats(INFINITY));
}

/* The significands of floats, in [1, 2). */
static inline words_t significands(words_t x) {
    return _mm512_ternarylogic_epi32(x, all_words(0x7FFFFF), all_words(0x3F800000), 0xEA); /* & | */
}

/* Of two registers, one takes the upper halves within each 128 bits. */
static inline void line_draws(uint64_t x, uint64_t step, draws_t at[4]) {
    draws_t places = _mm512_set_epi64(13, 12, 9, 8, 5, 4, 1, 0);
    at[0] = add_draws(all_draws(x), _mm512_mullo_epi64(places, all_draws(step)));
    at[1] = add_draws(at[0], all_draws(2 * step));
    at[2] = add_draws(at[0], all_draws(16 * step));
    at[3] = add_draws(at[0], all_draws(18 * step));
}

/* (z + 2^63) M = z M + 2^63 for an odd M: the flip rides in the mix. */
static inline __m512 flipped_lanes(draws_t z) {
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 30)), all_draws(FI_MIX_1));
    z = _mm512_ternarylogic_epi64(z, _mm512_srli_epi64(z, 27), all_draws(UINT64_C(1) << 63), 0x96); /* ^ ^ */
    return _mm512_castsi512_ps(_mm512_mullo_epi64(z, all_draws(FI_MIX_2)));
}

static inline words_t upper_words(draws_t a, draws_t b) {
    return _mm512_castps_si512(_mm512_shuffle_ps(flipped_lanes(a), flipped_lanes(b), 0xDD));
}

/* Below the middle the one's complement; the last step of the mix, bit 63 into bit 32, flips the last bit of either. */
static inline words_t distance_words(words_t upper) {
    return _mm512_ternarylogic_epi32(upper, _mm512_srai_epi32(upper, 31), all_words(1), 0x1E); /* ^ (|) */
}

#define BRIEF_FLOATS(dtype) fi_brief_##dtype[0]
static inline floats_t brief_coefficients(const float *powers, int power, words_t segment) {
    return _mm512_permutexvar_ps(segment, _mm512_load_ps(powers + 16 * power));
}

static inline line_t upper_halves(words_t x, words_t y) {
    const line_t odd = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                                        25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(x, odd, y);
}

static inline line_t float16_halves(floats_t x, floats_t y) {
    __m256i a = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT), b = _mm512_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT);
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

static inline line_t least_halves(line_t a, line_t b) { return _mm512_min_epu16(a, b); }
static inline line_t select_halves(line_t upper, line_t above, line_t below) {
    return _mm512_mask_blend_epi16(_mm512_movepi16_mask(upper), above, below);
}
static inline uint64_t unequal_halves(line_t a, line_t b) { return mask_bits(_mm512_cmpneq_epi16_mask(a, b)); }

static inline void store_line(void *out, line_t line) { _mm512_storeu_si512(out, line); }
static inline line_t load_line(const void *from) { return _mm512_loadu_si512(from); }
static inline void stream_line(void *out, line_t line) { _mm512_stream_si512(out, line); }

#include "loop.h"

FI_TARGET_END

DEFINE_LEVEL

#endif
