/* 2 lanes: NEON (AArch64's Advanced SIMD, which every AArch64 core has). */
#include "level.h"

#ifdef FI_NEON

#include <arm_neon.h>
#include <string.h>

#define FI_HARDWARE_FMA /* every core of this level has the instruction */
#include "../formats.h"
#include "../splitmix64.h"
#include "../truncated.h"

#define LEVEL neon
enum { LANES = 2, LINE_BYTES = 16, FLIGHT = 4 };
#define EACH_VECTOR _Pragma("GCC unroll 8") for (int i = 0; i < FLIGHT; i++)
typedef uint64x2_t draws_t;
typedef float64x2_t weights_t;
typedef uint8x16_t line_t;

/* ---- draws ---- */

/* NEON has no 64-bit multiply, and the scalar one is fast: mix in scalar registers. */
static inline draws_t two_lanes(uint64_t a, uint64_t b) { return vcombine_u64(vcreate_u64(a), vcreate_u64(b)); }
static inline draws_t all_lanes(uint64_t x) { return vdupq_n_u64(x); }
static inline draws_t add_draws(draws_t a, draws_t b) { return vaddq_u64(a, b); }
static inline draws_t every_lane(uint64_t x, uint64_t step) { return two_lanes(x, x + step); }

static inline draws_t mix64_lanes(draws_t z) {
    return two_lanes(mix64(vgetq_lane_u64(z, 0)), mix64(vgetq_lane_u64(z, 1)));
}

/* ---- bases ---- */

static inline weights_t unit_closed_open_lanes(draws_t draw) {
    return vmulq_f64(vcvtq_f64_u64(vshrq_n_u64(draw, 11)), vdupq_n_f64(0x1p-53));
}

/* Flipping the top bit and shifting with the sign subtracts 2^52 from the top 53 bits. */
static inline weights_t centered_step_lanes(draws_t draw) {
    draws_t flipped = veorq_u64(draw, all_lanes(UINT64_C(1) << 63));
    return vcvtq_f64_s64(vshrq_n_s64(vreinterpretq_s64_u64(flipped), 11));
}

static inline weights_t constant_lanes(draws_t draw, const fi_spec *spec) {
    (void)draw;
    return vdupq_n_f64(spec->shift);
}

static inline weights_t uniform_lanes(draws_t draw, const fi_spec *spec) {
    weights_t scaled = vmulq_f64(vdupq_n_f64(spec->scale), unit_closed_open_lanes(draw));
    return vaddq_f64(vdupq_n_f64(spec->shift), scaled);
}

static inline weights_t centered_uniform_lanes(draws_t draw, const fi_spec *spec) {
    return vmulq_f64(vdupq_n_f64(spec->scale), centered_step_lanes(draw));
}

/* One lane in 500 lies in the tail: by scalars, out of the way. z has its sign already. */
static __attribute__((noinline, cold)) void replace_tails(double *z, const double *t, const double *y, int count) {
    for (int j = 0; j < count; j++)
        if (y[j] < FI_QUANTILE_CUT) z[j] = z[j] < 0 ? -quantile_tail(t[j]) : quantile_tail(t[j]);
}

/* quantile_centre() of FLIGHT vectors at once; and whether a y lies below the cut. */
static inline __attribute__((always_inline)) bool centre_flight(const weights_t *y, weights_t *z) {
    weights_t x[FLIGHT], lowest;
    const double *rows[FLIGHT][LANES];
    EACH_VECTOR {
        draws_t bits = vreinterpretq_u64_f64(y[i]);
        draws_t segment = vandq_u64(vshrq_n_u64(bits, 51), all_lanes(FI_CENTRE_ROWS - 1));
        rows[i][0] = fi_quantile_centre[vgetq_lane_u64(segment, 0)];
        rows[i][1] = fi_quantile_centre[vgetq_lane_u64(segment, 1)];
        bits = vorrq_u64(vandq_u64(bits, all_lanes(FI_SIGNIFICAND)), all_lanes(FI_ONE));
        x[i] = vsubq_f64(vreinterpretq_f64_u64(bits), vdupq_n_f64(1.25));
        z[i] = vdupq_n_f64(0); /* a row's 15 is a zero, so the first step is exact */
        lowest = i ? vminq_f64(lowest, y[i]) : y[i];
    }
    _Pragma("GCC unroll 8") for (int power = FI_DEGREE; power >= 0; power -= 2) {
        EACH_VECTOR { /* two coefficients from each lane's row */
            weights_t a = vld1q_f64(rows[i][0] + power), b = vld1q_f64(rows[i][1] + power);
            z[i] = vfmaq_f64(vzip2q_f64(a, b), z[i], x[i]);
            z[i] = vfmaq_f64(vzip1q_f64(a, b), z[i], x[i]);
        }
    }
    return vgetq_lane_f64(lowest, 0) < FI_QUANTILE_CUT || vgetq_lane_f64(lowest, 1) < FI_QUANTILE_CUT;
}

/* z with the tails of what lies below the cut; t is what they are a function of. */
static inline __attribute__((always_inline)) void tail_flight(const weights_t *t, const weights_t *y,
                                                              weights_t *z) {
    double spilled[3][LANES * FLIGHT];
    EACH_VECTOR {
        vst1q_f64(spilled[0] + i * LANES, z[i]);
        vst1q_f64(spilled[1] + i * LANES, t[i]);
        vst1q_f64(spilled[2] + i * LANES, y[i]);
    }
    replace_tails(spilled[0], spilled[1], spilled[2], LANES * FLIGHT);
    EACH_VECTOR z[i] = vld1q_f64(spilled[0] + i * LANES);
}

static inline weights_t centered_odd_lanes(draws_t draw) {
    weights_t step = centered_step_lanes(draw);
    return vaddq_f64(vaddq_f64(step, step), vdupq_n_f64(1));
}

static inline __attribute__((always_inline)) void normal_vectors(const draws_t *draws, weights_t *weights,
                                                                 int count, const fi_spec *spec) {
    weights_t o[FLIGHT], y[FLIGHT], z[FLIGHT];
    for (int done = 0; done < count; done += FLIGHT) {
        EACH_VECTOR {
            o[i] = centered_odd_lanes(draws[done + i]);
            y[i] = vfmaq_f64(vdupq_n_f64(FI_QUANTILE_TOP), vmulq_f64(o[i], vdupq_n_f64(-0x1p-106)), o[i]);
        }
        bool tails = centre_flight(y, z);
        EACH_VECTOR z[i] = vmulq_f64(o[i], z[i]);
        if (tails) {
            weights_t t[FLIGHT];
            EACH_VECTOR t[i] = vsubq_f64(vdupq_n_f64(1), vmulq_f64(vabsq_f64(o[i]), vdupq_n_f64(0x1p-53)));
            tail_flight(t, y, z);
        }
        EACH_VECTOR {
            weights_t scaled = vmulq_f64(vdupq_n_f64(spec->scale), z[i]);
            weights[done + i] = vaddq_f64(vdupq_n_f64(spec->shift), scaled);
        }
    }
}

static inline __attribute__((always_inline)) void near_vectors(const draws_t *draws, weights_t *weights, int count,
                                                               const fi_spec *spec) {
    weights_t t[FLIGHT], y[FLIGHT], z[FLIGHT];
    draws_t sign[FLIGHT];
    const weights_t lower = vdupq_n_f64(spec->lower), upper = vdupq_n_f64(spec->upper);
    for (int done = 0; done < count; done += FLIGHT) {
        EACH_VECTOR {
            weights_t k = vcvtq_f64_u64(vshrq_n_u64(draws[done + i], 11));
            draws_t below = vcltq_f64(k, vdupq_n_f64(spec->split));
            weights_t steps = vsubq_f64(vdupq_n_f64(0x1p53 - 1), k);
            steps = vbslq_f64(below, k, steps);
            weights_t tail = vbslq_f64(below, vdupq_n_f64(spec->low_tail), vdupq_n_f64(spec->high_tail));
            sign[i] = vandq_u64(below, all_lanes(UINT64_C(1) << 63));
            steps = vaddq_f64(vaddq_f64(steps, steps), vdupq_n_f64(1));
            t[i] = vaddq_f64(tail, vmulq_f64(vdupq_n_f64(spec->width), steps));
            t[i] = vminq_f64(t[i], vdupq_n_f64(1));
            y[i] = vsubq_f64(vfmsq_f64(vaddq_f64(t[i], t[i]), t[i], t[i]), vdupq_n_f64(0x1p-53));
        }
        bool tails = centre_flight(y, z);
        EACH_VECTOR z[i] = vmulq_f64(vmulq_f64(vsubq_f64(vdupq_n_f64(1), t[i]), vdupq_n_f64(0x1p53)), z[i]);
        if (tails) tail_flight(t, y, z);
        EACH_VECTOR {
            z[i] = vreinterpretq_f64_u64(veorq_u64(vreinterpretq_u64_f64(z[i]), sign[i]));
            z[i] = vbslq_f64(vcltq_f64(z[i], lower), lower, z[i]);
            z[i] = vbslq_f64(vcgtq_f64(z[i], upper), upper, z[i]);
            weights_t scaled = vmulq_f64(vdupq_n_f64(spec->scale), z[i]);
            weights[done + i] = vaddq_f64(vdupq_n_f64(spec->shift), scaled);
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

/* Compare and select, not vmaxq: that orders -0 below +0, and a zero must keep its sign. */
static inline weights_t clamp_lanes(weights_t w, const fi_spec *spec) {
    weights_t lo = vdupq_n_f64(spec->lo), hi = vdupq_n_f64(spec->hi);
    w = vbslq_f64(vcltq_f64(w, lo), lo, w);
    return vbslq_f64(vcgtq_f64(w, hi), hi, w);
}

/* ---- dtypes ---- */

/* float64 to float32 rounded to odd (one instruction here), which a second rounding to at most 22 bits
 * cannot spoil. */
static inline float32x4_t odd_float32_pair(weights_t a, weights_t b) {
    return vcvtx_high_f32_f64(vcvtx_f32_f64(a), b);
}

static inline line_t pack_float64(const weights_t w[1]) { return vreinterpretq_u8_f64(w[0]); }

static inline line_t pack_float32(const weights_t w[2]) {
    return vreinterpretq_u8_f32(vcvt_high_f32_f64(vcvt_f32_f64(w[0]), w[1]));
}

static inline line_t pack_float16(const weights_t w[4]) {
    float16x4_t a = vcvt_f16_f32(odd_float32_pair(w[0], w[1]));
    return vreinterpretq_u8_f16(vcvt_high_f16_f32(a, odd_float32_pair(w[2], w[3])));
}

/* The upper half of a float32, rounded to nearest even by its lower half. */
static inline uint32x4_t upper_half(float32x4_t odd) {
    uint32x4_t bits = vreinterpretq_u32_f32(odd);
    uint32x4_t last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vshrq_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), last), 16);
}

static inline uint16x8_t pack_halves(uint32x4_t a, uint32x4_t b) { return vmovn_high_u32(vmovn_u32(a), b); }

static inline line_t pack_bfloat16(const weights_t w[4]) {
    return vreinterpretq_u8_u16(
        pack_halves(upper_half(odd_float32_pair(w[0], w[1])), upper_half(odd_float32_pair(w[2], w[3]))));
}

/* Adding a power of two whose last bit has the weight of the format's last bit at |x| (or at the
 * smallest normal) rounds |x| there; what the addition left in the significand counts its units. */
static inline uint32x4_t to_float8(float32x4_t odd, int mantissa, int bias) {
    const uint32x4_t lowest = vdupq_n_u32((uint32_t)(128 - bias) << 23);
    uint32x4_t bits = vreinterpretq_u32_f32(odd);
    uint32x4_t magnitude = vandq_u32(bits, vdupq_n_u32(0x7FFFFFFF));
    uint32x4_t exponent = vandq_u32(bits, vdupq_n_u32(0x7F800000));
    exponent = vmaxq_u32(exponent, lowest);
    uint32x4_t magic = vaddq_u32(exponent, vdupq_n_u32((uint32_t)(23 - mantissa) << 23));
    float32x4_t sum = vaddq_f32(vreinterpretq_f32_u32(magnitude), vreinterpretq_f32_u32(magic));
    uint32x4_t units = vsubq_u32(vreinterpretq_u32_f32(sum), magic);
    uint32x4_t binades = vshlq_u32(vsubq_u32(exponent, lowest), vdupq_n_s32(mantissa - 23));
    uint32x4_t sign = vandq_u32(vshrq_n_u32(bits, 24), vdupq_n_u32(0x80));
    return vorrq_u32(vaddq_u32(units, binades), sign);
}

static inline line_t pack_float8(const weights_t w[8], int mantissa, int bias) {
    uint16x8_t a = pack_halves(to_float8(odd_float32_pair(w[0], w[1]), mantissa, bias),
                               to_float8(odd_float32_pair(w[2], w[3]), mantissa, bias));
    uint16x8_t b = pack_halves(to_float8(odd_float32_pair(w[4], w[5]), mantissa, bias),
                               to_float8(odd_float32_pair(w[6], w[7]), mantissa, bias));
    return vmovn_high_u16(vmovn_u16(a), b);
}

static inline line_t pack_float8_e4m3fn(const weights_t w[8]) { return pack_float8(w, 3, 7); }
static inline line_t pack_float8_e5m2(const weights_t w[8]) { return pack_float8(w, 2, 15); }

static inline void store_line(void *out, line_t line) { vst1q_u8(out, line); }
static inline void stream_line(void *out, line_t line) { vst1q_u8(out, line); } /* no such instruction */

#include "loop.h"

#define FI_VECTOR 2
#include "../summary.h"

DEFINE_SUMMARIZE

DEFINE_LEVEL

#endif
