/* 4 lanes: AVX2, with FMA and F16C (every AVX2 core has the three). */
#include "level.h"

#ifdef FI_X86

#include <immintrin.h>
#include <math.h>

#define SETS "avx2,fma,f16c"
FI_TARGET_BEGIN(SETS)

#define FI_HARDWARE_FMA /* every core of this level has it, and what follows may use it */
#include "../brief.h"
#include "../weight.h"

/* FLIGHT: with eight, of sixteen registers, gcc takes minutes to compile this file. */
#define LEVEL avx2
enum { LANES = 4, LINE_BYTES = 32, FLIGHT = 4 };
typedef __m256i draws_t;
typedef __m256d weights_t;
typedef __m256i words_t;
typedef __m256d mask_t;
typedef __m256i line_t;

/* ---- draws ---- */

/* AVX2 has no 64-bit multiply: three 32-bit ones, the two crossed products meeting in the upper half. */
static inline draws_t multiply_draws(draws_t a, draws_t b) {
    draws_t crossed = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b),
                                       _mm256_mul_epu32(a, _mm256_srli_epi64(b, 32)));
    return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(crossed, 32));
}

static inline draws_t all_draws(uint64_t x) { return _mm256_set1_epi64x((long long)x); }
static inline draws_t add_draws(draws_t a, draws_t b) { return _mm256_add_epi64(a, b); }
static inline draws_t every_draw(uint64_t x, uint64_t step) {
    return add_draws(all_draws(x), multiply_draws(_mm256_set_epi64x(3, 2, 1, 0), all_draws(step)));
}

static inline draws_t stirred_once(draws_t z) {
    z = multiply_draws(_mm256_xor_si256(z, _mm256_srli_epi64(z, 30)), all_draws(FI_MIX_1));
    return _mm256_xor_si256(z, _mm256_srli_epi64(z, 27));
}

static inline draws_t stirred_lanes(draws_t z) { return multiply_draws(stirred_once(z), all_draws(FI_MIX_2)); }

static inline draws_t mixed_lanes(draws_t z) { return _mm256_xor_si256(z, _mm256_srli_epi64(z, 31)); }

/* ---- weights ---- */

static inline weights_t all_weights(double x) { return _mm256_set1_pd(x); }
static inline weights_t add(weights_t a, weights_t b) { return _mm256_add_pd(a, b); }
static inline weights_t subtract(weights_t a, weights_t b) { return _mm256_sub_pd(a, b); }
static inline weights_t multiply(weights_t a, weights_t b) { return _mm256_mul_pd(a, b); }
static inline weights_t magnitude(weights_t w) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), w); }
static inline weights_t flip(weights_t w, weights_t sign) { return _mm256_xor_pd(w, sign); }
static inline weights_t fma_lanes(weights_t a, weights_t b, weights_t c) { return _mm256_fmadd_pd(a, b, c); }
static inline weights_t fnma_lanes(weights_t a, weights_t b, weights_t c) { return _mm256_fnmadd_pd(a, b, c); }
static inline weights_t least(weights_t a, weights_t b) { return _mm256_min_pd(a, b); }
static inline weights_t most(weights_t a, weights_t b) { return _mm256_max_pd(a, b); }
static inline mask_t less(weights_t a, weights_t b) { return _mm256_cmp_pd(a, b, _CMP_LT_OQ); }
static inline weights_t choose(mask_t m, weights_t yes, weights_t no) { return _mm256_blendv_pd(no, yes, m); }
static inline weights_t keep(mask_t m, weights_t w) { return _mm256_and_pd(m, w); }
static inline mask_t either(mask_t a, mask_t b) { return _mm256_or_pd(a, b); }
static inline uint64_t lanes_of(mask_t m) { return (uint64_t)_mm256_movemask_pd(m); }
static inline weights_t load_weights(const double *from) { return _mm256_loadu_pd(from); }
static inline void store_weights(double *to, weights_t w) { _mm256_storeu_pd(to, w); }

/* ---- from draws to weights ---- */

/* The top 53 bits minus `offset` (0 or 2^52), exactly: the upper 21 bits in the significand of 2^84 and
 * the lower 32 in that of 2^52, and every sum below is representable. */
static inline weights_t top53_minus(draws_t z, double offset) {
    draws_t draw = mixed_lanes(z);
    const draws_t magic52 = all_draws(UINT64_C(0x4330000000000000)); /* 2^52 */
    const draws_t magic84 = all_draws(UINT64_C(0x4530000000000000)); /* 2^84 */
    draws_t upper = _mm256_or_si256(_mm256_srli_epi64(draw, 43), magic84);
    draws_t lower = _mm256_blend_epi32(_mm256_srli_epi64(draw, 11), magic52, 0xAA);
    weights_t sum = subtract(_mm256_castsi256_pd(upper), all_weights(0x1p84 + 0x1p52 + offset));
    return add(sum, _mm256_castsi256_pd(lower));
}

#define UNIT53 1.0
static inline weights_t scaled53_lanes(draws_t z) { return top53_minus(z, 0); }
static inline weights_t unit_steps(draws_t z, double factor) {
    return multiply(all_weights(factor), scaled53_lanes(z));
}
static inline weights_t centered_steps(draws_t z, double factor) {
    return multiply(all_weights(factor), top53_minus(z, 0x1p52));
}
static inline weights_t centered_open_lanes(draws_t z) {
    return fma_lanes(top53_minus(z, 0x1p52), all_weights(0x1p-52), all_weights(0x1p-53));
}

static inline weights_t pair_of_rows(const double *low, const double *high) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_load_pd(low)), _mm_load_pd(high), 1);
}

/* A polynomial of each lane's segment: bits(y) from `bit` up number its row, the bits below say where in it y lies.
 * Two coefficients at a time: a transposition, half of it in the loads. */
FI_INLINE void segments_flight(const double *table, int width, int count, int degree, int bit, int flight,
                               const weights_t *y, weights_t *z) {
    const draws_t below = all_draws((UINT64_C(1) << bit) - 1);
    const weights_t middle = all_weights(1 + (double)(UINT64_C(1) << bit) * 0x1p-53);
    weights_t x[FLIGHT];
    const double *rows[FLIGHT][LANES];
    EACH_VECTOR(flight) {
        draws_t bits = _mm256_castpd_si256(y[i]);
        draws_t segment = _mm256_and_si256(_mm256_srli_epi64(bits, bit), all_draws((uint64_t)count - 1));
        rows[i][0] = table + width * _mm256_extract_epi64(segment, 0);
        rows[i][1] = table + width * _mm256_extract_epi64(segment, 1);
        rows[i][2] = table + width * _mm256_extract_epi64(segment, 2);
        rows[i][3] = table + width * _mm256_extract_epi64(segment, 3);
        bits = _mm256_or_si256(_mm256_and_si256(bits, below), all_draws(FI_ONE));
        x[i] = subtract(_mm256_castsi256_pd(bits), middle);
    }
    _Pragma("GCC unroll 8") for (int power = degree & ~1; power >= 0; power -= 2) {
        EACH_VECTOR(flight) {
            weights_t a = pair_of_rows(rows[i][0] + power, rows[i][2] + power);
            weights_t b = pair_of_rows(rows[i][1] + power, rows[i][3] + power);
            weights_t low = _mm256_unpacklo_pd(a, b), high = _mm256_unpackhi_pd(a, b);
            if (power + 1 <= degree) z[i] = power + 1 == degree ? high : fma_lanes(z[i], x[i], high);
            z[i] = power == degree ? low : fma_lanes(z[i], x[i], low);
        }
    }
}

#define CENTRE_BY_ROWS

static inline mask_t near_tie(weights_t w) {
    draws_t raised = add_draws(_mm256_castpd_si256(w), all_draws((1 << 28) + (1 << 17)));
    raised = _mm256_and_si256(raised, all_draws((1 << 29) - (1 << 18)));
    return _mm256_castsi256_pd(_mm256_cmpeq_epi64(raised, _mm256_setzero_si256()));
}

/* ---- words ---- */

static inline words_t all_words(uint32_t x) { return _mm256_set1_epi32((int)x); }
static inline words_t add_words(words_t a, words_t b) { return _mm256_add_epi32(a, b); }
static inline words_t subtract_words(words_t a, words_t b) { return _mm256_sub_epi32(a, b); }
static inline words_t and_words(words_t a, words_t b) { return _mm256_and_si256(a, b); }
static inline words_t or_words(words_t a, words_t b) { return _mm256_or_si256(a, b); }
static inline words_t most_words(words_t a, words_t b) { return _mm256_max_epi32(a, b); }
static inline words_t shift_words(words_t x, int n) { return _mm256_srli_epi32(x, n); }
static inline words_t add_floats(words_t a, words_t b) {
    return _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
}

/* ---- rounding and packing ---- */

static inline __m256 two_floats(__m128 a, __m128 b) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(a), b, 1);
}

/* The dropped 29 bits are gathered in the last bit kept, and the conversion is then exact. */
static inline __m128 odd_float(weights_t w) {
    const draws_t dropped = all_draws((UINT64_C(1) << 29) - 1);
    draws_t bits = _mm256_castpd_si256(w);
    draws_t sticky = _mm256_add_epi64(_mm256_and_si256(bits, dropped), dropped);
    bits = _mm256_andnot_si256(dropped, _mm256_or_si256(bits, sticky));
    return _mm256_cvtpd_ps(_mm256_castsi256_pd(bits));
}

static inline words_t odd_floats(weights_t a, weights_t b) {
    return _mm256_castps_si256(two_floats(odd_float(a), odd_float(b)));
}

static inline void floats_for_bfloat16(const weights_t w[4], words_t x[2]) {
    x[0] = odd_floats(w[0], w[1]);
    x[1] = odd_floats(w[2], w[3]);
}

static inline line_t pack_float64(const weights_t w[1]) { return _mm256_castpd_si256(w[0]); }

static inline line_t pack_float32(const weights_t w[2]) {
    return _mm256_castps_si256(two_floats(_mm256_cvtpd_ps(w[0]), _mm256_cvtpd_ps(w[1])));
}

static inline line_t pack_float16(const weights_t w[4]) {
    __m128i a = _mm256_cvtps_ph(_mm256_castsi256_ps(odd_floats(w[0], w[1])), _MM_FROUND_TO_NEAREST_INT);
    __m128i b = _mm256_cvtps_ph(_mm256_castsi256_ps(odd_floats(w[2], w[3])), _MM_FROUND_TO_NEAREST_INT);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

/* The packing instructions interleave the 128-bit halves of a and b: 0xD8 puts them in order. */
static inline line_t pack_halves(const words_t x[2]) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(x[0], x[1]), 0xD8);
}

static inline line_t pack_bytes(const words_t x[4]) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(pack_halves(x), pack_halves(x + 2)), 0xD8);
}

/* ---- float32 lanes ---- */

#define FLOAT_CUT 0x1p23f /* 2^31 t: t from 2^-8 up */
typedef __m256 floats_t;
enum { FLOAT_FLIGHT = 4 };

static inline floats_t all_floats(float x) { return _mm256_set1_ps(x); }
static inline floats_t multiply_floats(floats_t a, floats_t b) { return _mm256_mul_ps(a, b); }
static inline floats_t fma_floats(floats_t a, floats_t b, floats_t c) { return _mm256_fmadd_ps(a, b, c); }
static inline floats_t least_floats(floats_t a, floats_t b) { return _mm256_min_ps(a, b); }
static inline floats_t floats_of(words_t x) { return _mm256_cvtepi32_ps(x); }
static inline words_t float_words(floats_t x) { return _mm256_castps_si256(x); }
static inline floats_t word_floats(words_t x) { return _mm256_castsi256_ps(x); }
static inline floats_t floats_of_31_bits(words_t x) {
    return least_floats(floats_of(x), all_floats(0x1.fffffep30f));
}
static inline floats_t infinite_below(floats_t x, floats_t t, float cut) {
    floats_t infinity = _mm256_and_ps(_mm256_cmp_ps(t, all_floats(cut), _CMP_LT_OQ), all_floats(INFINITY));
    return _mm256_or_ps(x, infinity); /* or a NaN: no end of an interval either */
}

/* The significands of floats, in [1, 2). */
static inline words_t significands(words_t x) {
    return or_words(and_words(x, all_words(0x7FFFFF)), all_words(0x3F800000));
}

/* Within each 128 bits upper_words takes two of a and two of b, and upper_halves four of x and four of y. */
static inline void line_draws(uint64_t x, uint64_t step, draws_t at[4]) {
    at[0] = add_draws(all_draws(x), multiply_draws(_mm256_set_epi64x(9, 8, 1, 0), all_draws(step)));
    _Pragma("GCC unroll 4") for (int i = 1; i < 4; i++) at[i] = add_draws(at[i - 1], all_draws(2 * step));
}

/* The upper halves of the products alone: the carry from the lower halves, and two crossed products. */
static inline __m256 upper_product(draws_t z) {
    draws_t crossed = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(z, 32), all_draws(FI_MIX_2)),
                                       _mm256_mul_epu32(z, all_draws(FI_MIX_2 >> 32)));
    draws_t carry = _mm256_srli_epi64(_mm256_mul_epu32(z, all_draws(FI_MIX_2)), 32);
    return _mm256_castsi256_ps(_mm256_add_epi64(crossed, carry));
}

static inline words_t upper_words(draws_t a, draws_t b) {
    floats_t upper = _mm256_shuffle_ps(upper_product(stirred_once(a)), upper_product(stirred_once(b)), 0x88);
    return _mm256_xor_si256(_mm256_castps_si256(upper), all_words(UINT32_C(1) << 31));
}

/* Below the middle the one's complement; the last step of the mix, bit 63 into bit 32, flips the last bit of either. */
static inline words_t distance_words(words_t upper) {
    return _mm256_xor_si256(upper, _mm256_or_si256(_mm256_srai_epi32(upper, 31), all_words(1)));
}

#define BRIEF_FLOATS(dtype) fi_brief_##dtype##_eight[0]
static inline floats_t brief_coefficients(const float *powers, int power, words_t segment) {
    return _mm256_permutevar8x32_ps(_mm256_load_ps(powers + 8 * power), segment);
}

static inline line_t upper_halves(words_t x, words_t y) {
    return _mm256_packus_epi32(shift_words(x, 16), shift_words(y, 16));
}

static inline line_t float16_halves(floats_t x, floats_t y) {
    __m128i a = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT), b = _mm256_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi64(a, b)), _mm_unpackhi_epi64(a, b), 1);
}

static inline line_t least_halves(line_t a, line_t b) { return _mm256_min_epu16(a, b); }
static inline line_t select_halves(line_t upper, line_t above, line_t below) {
    return _mm256_blendv_epi8(above, below, _mm256_srai_epi16(upper, 15));
}
static inline uint64_t unequal_halves(line_t a, line_t b) {
    line_t same = _mm256_cmpeq_epi16(a, b);
    __m128i narrowed = _mm_packs_epi16(_mm256_castsi256_si128(same), _mm256_extracti128_si256(same, 1));
    return (uint64_t)_mm_movemask_epi8(narrowed) ^ 0xFFFF;
}

static inline void store_line(void *out, line_t line) { _mm256_storeu_si256(out, line); }
static inline line_t load_line(const void *from) { return _mm256_loadu_si256(from); }
static inline void stream_line(void *out, line_t line) { _mm256_stream_si256(out, line); }

#include "loop.h"

FI_TARGET_END

DEFINE_LEVEL

#endif
