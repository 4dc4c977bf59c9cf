/* 2 lanes: NEON (AArch64's Advanced SIMD, which every AArch64 core has). */
#include "level.h"

#ifdef FI_NEON

#include <arm_neon.h>

#define FI_HARDWARE_FMA /* every core of this level has the instruction */
#include "../brief.h"
#include "../weight.h"

#define LEVEL neon
enum { LANES = 2, LINE_BYTES = 16, FLIGHT = 4 };
typedef uint64x2_t draws_t;
typedef float64x2_t weights_t;
typedef uint32x4_t words_t;
typedef uint64x2_t mask_t;
typedef uint8x16_t line_t;

/* ---- draws ---- */

static inline draws_t two_draws(uint64_t a, uint64_t b) { return vcombine_u64(vcreate_u64(a), vcreate_u64(b)); }

static inline draws_t all_draws(uint64_t x) { return vdupq_n_u64(x); }
static inline draws_t add_draws(draws_t a, draws_t b) { return vaddq_u64(a, b); }
static inline draws_t every_draw(uint64_t x, uint64_t step) { return two_draws(x, x + step); }

/* NEON has no 64-bit multiply, and the scalar one is fast: stir in scalar registers. */
static inline uint64_t stirred(uint64_t z) {
    z = (z ^ (z >> 30)) * FI_MIX_1;
    return (z ^ (z >> 27)) * FI_MIX_2;
}

static inline draws_t stirred_lanes(draws_t z) {
    return two_draws(stirred(vgetq_lane_u64(z, 0)), stirred(vgetq_lane_u64(z, 1)));
}

static inline draws_t mixed_lanes(draws_t z) { return veorq_u64(z, vshrq_n_u64(z, 31)); }

/* ---- weights ---- */

static inline weights_t all_weights(double x) { return vdupq_n_f64(x); }
static inline weights_t add(weights_t a, weights_t b) { return vaddq_f64(a, b); }
static inline weights_t subtract(weights_t a, weights_t b) { return vsubq_f64(a, b); }
static inline weights_t multiply(weights_t a, weights_t b) { return vmulq_f64(a, b); }
static inline weights_t magnitude(weights_t w) { return vabsq_f64(w); }
static inline weights_t flip(weights_t w, weights_t sign) {
    return vreinterpretq_f64_u64(veorq_u64(vreinterpretq_u64_f64(w), vreinterpretq_u64_f64(sign)));
}
static inline weights_t fma_lanes(weights_t a, weights_t b, weights_t c) { return vfmaq_f64(c, a, b); }
static inline weights_t fnma_lanes(weights_t a, weights_t b, weights_t c) { return vfmsq_f64(c, a, b); }
/* Compare and select, not vminq and vmaxq: those order -0 below +0, and a zero must keep its sign. */
static inline weights_t least(weights_t a, weights_t b) { return vbslq_f64(vcltq_f64(a, b), a, b); }
static inline weights_t most(weights_t a, weights_t b) { return vbslq_f64(vcgtq_f64(a, b), a, b); }
static inline mask_t less(weights_t a, weights_t b) { return vcltq_f64(a, b); }
static inline weights_t choose(mask_t m, weights_t yes, weights_t no) { return vbslq_f64(m, yes, no); }
static inline weights_t keep(mask_t m, weights_t w) {
    return vreinterpretq_f64_u64(vandq_u64(m, vreinterpretq_u64_f64(w)));
}
static inline mask_t either(mask_t a, mask_t b) { return vorrq_u64(a, b); }
static inline uint64_t lanes_of(mask_t m) { return (vgetq_lane_u64(m, 0) & 1) | (vgetq_lane_u64(m, 1) & 2); }
static inline weights_t load_weights(const double *from) { return vld1q_f64(from); }
static inline void store_weights(double *to, weights_t w) { vst1q_f64(to, w); }

/* ---- from draws to weights ---- */

#define UNIT53 1.0
static inline weights_t scaled53_lanes(draws_t z) { return vcvtq_f64_u64(vshrq_n_u64(mixed_lanes(z), 11)); }
static inline weights_t unit_steps(draws_t z, double factor) {
    return multiply(all_weights(factor), scaled53_lanes(z));
}

/* Flipping the top bit and shifting with the sign subtracts 2^52 from the top 53 bits. */
static inline weights_t centered_step_lanes(draws_t z) {
    draws_t flipped = veorq_u64(mixed_lanes(z), all_draws(UINT64_C(1) << 63));
    return vcvtq_f64_s64(vshrq_n_s64(vreinterpretq_s64_u64(flipped), 11));
}

static inline weights_t centered_steps(draws_t z, double factor) {
    return multiply(all_weights(factor), centered_step_lanes(z));
}

static inline weights_t centered_open_lanes(draws_t z) {
    return fma_lanes(centered_step_lanes(z), all_weights(0x1p-52), all_weights(0x1p-53));
}

/* A polynomial of each lane's segment: bits(y) from `bit` up number its row, the bits below say where in it y lies. */
FI_INLINE void segments_flight(const double *table, int width, int count, int degree, int bit, int flight,
                               const weights_t *y, weights_t *z) {
    const draws_t below = all_draws((UINT64_C(1) << bit) - 1);
    const weights_t middle = all_weights(1 + (double)(UINT64_C(1) << bit) * 0x1p-53);
    weights_t x[FLIGHT];
    const double *rows[FLIGHT][LANES];
    EACH_VECTOR(flight) {
        draws_t bits = vreinterpretq_u64_f64(y[i]);
        draws_t segment = vandq_u64(vshlq_u64(bits, vdupq_n_s64(-bit)), all_draws((uint64_t)count - 1));
        rows[i][0] = table + (uint64_t)width * vgetq_lane_u64(segment, 0);
        rows[i][1] = table + (uint64_t)width * vgetq_lane_u64(segment, 1);
        bits = vorrq_u64(vandq_u64(bits, below), all_draws(FI_ONE));
        x[i] = subtract(vreinterpretq_f64_u64(bits), middle);
    }
    _Pragma("GCC unroll 8") for (int power = degree & ~1; power >= 0; power -= 2) {
        EACH_VECTOR(flight) { /* two coefficients from each lane's row */
            weights_t a = load_weights(rows[i][0] + power), b = load_weights(rows[i][1] + power);
            weights_t low = vzip1q_f64(a, b), high = vzip2q_f64(a, b);
            if (power + 1 <= degree) z[i] = power + 1 == degree ? high : fma_lanes(z[i], x[i], high);
            z[i] = power == degree ? low : fma_lanes(z[i], x[i], low);
        }
    }
}

#define CENTRE_BY_ROWS

static inline mask_t near_tie(weights_t w) {
    draws_t raised = add_draws(vreinterpretq_u64_f64(w), all_draws((1 << 28) + (1 << 17)));
    return vceqzq_u64(vandq_u64(raised, all_draws((1 << 29) - (1 << 18))));
}

/* ---- words ---- */

static inline words_t all_words(uint32_t x) { return vdupq_n_u32(x); }
static inline words_t add_words(words_t a, words_t b) { return vaddq_u32(a, b); }
static inline words_t subtract_words(words_t a, words_t b) { return vsubq_u32(a, b); }
static inline words_t and_words(words_t a, words_t b) { return vandq_u32(a, b); }
static inline words_t or_words(words_t a, words_t b) { return vorrq_u32(a, b); }
static inline words_t most_words(words_t a, words_t b) { return vmaxq_u32(a, b); }
static inline words_t shift_words(words_t x, int n) { return vshlq_u32(x, vdupq_n_s32(-n)); }
static inline words_t add_floats(words_t a, words_t b) {
    return vreinterpretq_u32_f32(vaddq_f32(vreinterpretq_f32_u32(a), vreinterpretq_f32_u32(b)));
}

/* ---- rounding and packing ---- */

/* Rounding to odd is one instruction here. */
static inline words_t odd_floats(weights_t a, weights_t b) {
    return vreinterpretq_u32_f32(vcvtx_high_f32_f64(vcvtx_f32_f64(a), b));
}

static inline void floats_for_bfloat16(const weights_t w[4], words_t x[2]) {
    x[0] = odd_floats(w[0], w[1]);
    x[1] = odd_floats(w[2], w[3]);
}

static inline line_t pack_float64(const weights_t w[1]) { return vreinterpretq_u8_f64(w[0]); }

static inline line_t pack_float32(const weights_t w[2]) {
    return vreinterpretq_u8_f32(vcvt_high_f32_f64(vcvt_f32_f64(w[0]), w[1]));
}

static inline line_t pack_float16(const weights_t w[4]) {
    float16x4_t a = vcvt_f16_f32(vreinterpretq_f32_u32(odd_floats(w[0], w[1])));
    return vreinterpretq_u8_f16(vcvt_high_f16_f32(a, vreinterpretq_f32_u32(odd_floats(w[2], w[3]))));
}

static inline uint16x8_t lower_halves(words_t a, words_t b) { return vmovn_high_u32(vmovn_u32(a), b); }

static inline line_t pack_halves(const words_t x[2]) { return vreinterpretq_u8_u16(lower_halves(x[0], x[1])); }

static inline line_t pack_bytes(const words_t x[4]) {
    return vmovn_high_u16(vmovn_u16(lower_halves(x[0], x[1])), lower_halves(x[2], x[3]));
}

static inline void store_line(void *out, line_t line) { vst1q_u8(out, line); }
static inline line_t load_line(const void *from) { return vld1q_u8(from); }
static inline void stream_line(void *out, line_t line) { vst1q_u8(out, line); } /* no such instruction */

#include "loop.h"

DEFINE_LEVEL

#endif
