/* 8 lanes: AVX-512 F, DQ, VL, BW and CD (every AVX-512 server core has the five). */
#include "level.h"

#ifdef FI_X86

#include <immintrin.h>

#include "../formats.h"
#include "../splitmix64.h"

FI_TARGET_BEGIN("avx512f,avx512dq,avx512vl,avx512bw,avx512cd")

#define FI_HARDWARE_FMA /* every core of this level has it, and what follows may use it */
#include "../truncated.h"

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

static inline draws_t mix64_lanes(draws_t z) {
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 30)), all_draws(FI_MIX_1));
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 27)), all_draws(FI_MIX_2));
    return _mm512_xor_si512(z, _mm512_srli_epi64(z, 31));
}

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
static inline uint64_t lanes_of(mask_t m) { return m; }
static inline weights_t load_weights(const double *from) { return _mm512_loadu_pd(from); }
static inline void store_weights(double *to, weights_t w) { _mm512_storeu_pd(to, w); }

/* ---- from draws to weights ---- */

static inline weights_t top53_lanes(draws_t draw) { return _mm512_cvtepi64_pd(_mm512_srli_epi64(draw, 11)); }

/* Flipping the top bit and shifting with the sign subtracts half the range. */
static inline draws_t centered_bits(draws_t draw, unsigned shift) {
    return _mm512_srai_epi64(_mm512_xor_si512(draw, all_draws(UINT64_C(1) << 63)), shift);
}

static inline weights_t centered_step_lanes(draws_t draw) { return _mm512_cvtepi64_pd(centered_bits(draw, 11)); }
static inline weights_t centered_odd_lanes(draws_t draw) {
    return _mm512_cvtepi64_pd(_mm512_or_si512(centered_bits(draw, 10), all_draws(1)));
}

/* Of 16 coefficients, the lane's: bits(y) >> 51 modulo 16, which is what the instruction looks at. */
static inline weights_t coefficient_lanes(int power, draws_t segment) {
    const double *row = fi_quantile_powers[power];
    return _mm512_permutex2var_pd(_mm512_load_pd(row), segment, _mm512_load_pd(row + 8));
}

FI_INLINE void quantile_centre_flight(const weights_t *y, weights_t *z) {
    weights_t x[FLIGHT];
    draws_t segment[FLIGHT];
    EACH_VECTOR {
        draws_t bits = _mm512_castpd_si512(y[i]);
        segment[i] = _mm512_srli_epi64(bits, 51);
        bits = _mm512_ternarylogic_epi64(bits, all_draws(FI_SIGNIFICAND), all_draws(FI_ONE), 0xEA); /* & | */
        x[i] = subtract(_mm512_castsi512_pd(bits), all_weights(1.25));
        z[i] = coefficient_lanes(FI_DEGREE, segment[i]);
    }
    _Pragma("GCC unroll 16") for (int power = FI_DEGREE - 1; power >= 0; power--) {
        EACH_VECTOR z[i] = fma_lanes(z[i], x[i], coefficient_lanes(power, segment[i]));
    }
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

static inline void store_line(void *out, line_t line) { _mm512_storeu_si512(out, line); }
static inline void stream_line(void *out, line_t line) { _mm512_stream_si512(out, line); }

#include "loop.h"

FI_TARGET_END

DEFINE_LEVEL

#endif
