/* The arithmetic of the vector levels, once. A level's file defines the helpers below for its instruction set, one
 * line each where it can, in this order, and includes this last; so levels differ in instructions only.
 *
 *   LEVEL, LANES, LINE_BYTES    its name; float64 lanes of a register; bytes of one store
 *   FLIGHT                      registers that a long chain of operations keeps in flight, so that no unit waits
 *   draws_t, weights_t, words_t, mask_t, line_t
 *                               LANES 64-bit integers, LANES float64, 2 * LANES 32-bit lanes, one truth a lane of
 *                               weights_t, what one store writes
 *
 *   all_draws(x), add_draws, every_draw(x, step) = x, x + step, x + 2 * step, ..., mix64_lanes
 *   all_weights(x), add, subtract, multiply, magnitude, flip(w, sign) = w xor sign
 *   fma_lanes(a, b, c) = a * b + c and fnma_lanes(a, b, c) = c - a * b, rounded once
 *   least(a, b) = a < b ? a : b, most(a, b) = a > b ? a : b, and nothing else where zeros or a NaN meet
 *   less(a, b) -> mask, choose(mask, yes, no), keep(mask, w) = mask ? w : +0, lanes_of(mask) = one bit a lane
 *   load_weights, store_weights from and to any address
 *   top53_lanes, centered_step_lanes, centered_odd_lanes as in splitmix64.h
 *   quantile_centre_flight(y, z): quantile_centre() of quantile.h for FLIGHT registers
 *
 *   all_words(x), add_words, subtract_words, and_words, or_words, most_words (of values below 2^31)
 *   shift_words(x, n) = x >> n, add_floats: the words are float32
 *   odd_floats(a, b) -> words   two registers as float32, rounded to odd
 *   floats_for_bfloat16(w, x)   four registers as float32 from which rounding to bfloat16 is right
 *   pack_float64, pack_float32, pack_float16 (weights[]) -> line
 *   pack_halves(words[2]), pack_bytes(words[4]) -> line   the lower 16 or 8 bits of every word, in order
 *   store_line, stream_line     to any address; to an aligned one, around the caches
 */
#ifndef LEVEL
#error "loop.h is included by a level's file, which defines LEVEL first"
#endif

/* ---- bases ---- */

static inline weights_t scaled_and_shifted(weights_t z, const fi_spec *spec) {
    return add(all_weights(spec->shift), multiply(all_weights(spec->scale), z));
}

/* A zero keeps its sign. */
static inline weights_t clamp_lanes(weights_t w, double lo, double hi) {
    return least(all_weights(hi), most(all_weights(lo), w));
}

static inline weights_t constant_lanes(draws_t draw, const fi_spec *spec) {
    (void)draw;
    return all_weights(spec->shift);
}

static inline weights_t uniform_lanes(draws_t draw, const fi_spec *spec) {
    return scaled_and_shifted(multiply(top53_lanes(draw), all_weights(0x1p-53)), spec);
}

static inline weights_t centered_uniform_lanes(draws_t draw, const fi_spec *spec) {
    return multiply(all_weights(spec->scale), centered_step_lanes(draw));
}

/* One lane in 500 lies in the tail: by scalars and in a function of its own, so that the centre keeps its
 * registers. z has its sign already; bit j of `below` is lane j. */
static __attribute__((noinline)) void replace_tails(double *z, const double *t, uint64_t below) {
    for (; below; below &= below - 1) {
        int j = __builtin_ctzll(below);
        z[j] = z[j] < 0 ? -quantile_tail(t[j]) : quantile_tail(t[j]);
    }
}

static inline bool has_tail(const weights_t *y) {
    weights_t lowest = y[0];
    EACH_VECTOR lowest = least(lowest, y[i]);
    return lanes_of(less(lowest, all_weights(FI_QUANTILE_CUT))) != 0;
}

/* z with the tails of what lies below the cut; t is what they are a function of. */
FI_INLINE void tail_flight(const weights_t *t, const weights_t *y, weights_t *z) {
    double spilled[2][LANES * FLIGHT];
    uint64_t below = 0;
    EACH_VECTOR {
        below |= lanes_of(less(y[i], all_weights(FI_QUANTILE_CUT))) << (LANES * i);
        store_weights(spilled[0] + i * LANES, z[i]);
        store_weights(spilled[1] + i * LANES, t[i]);
    }
    replace_tails(spilled[0], spilled[1], below);
    EACH_VECTOR z[i] = load_weights(spilled[0] + i * LANES);
}

/* quantile() of quantile.h. */
FI_INLINE void normal_vectors(const draws_t *draws, weights_t *weights, int count, const fi_spec *spec) {
    weights_t o[FLIGHT], t[FLIGHT], y[FLIGHT], z[FLIGHT];
    for (int done = 0; done < count; done += FLIGHT) {
        EACH_VECTOR {
            o[i] = centered_odd_lanes(draws[done + i]);
            y[i] = fma_lanes(multiply(o[i], all_weights(-0x1p-106)), o[i], all_weights(FI_QUANTILE_TOP));
        }
        bool tails = has_tail(y);
        quantile_centre_flight(y, z);
        EACH_VECTOR z[i] = multiply(o[i], z[i]);
        if (tails) {
            EACH_VECTOR t[i] = subtract(all_weights(1), multiply(magnitude(o[i]), all_weights(0x1p-53)));
            tail_flight(t, y, z);
        }
        EACH_VECTOR weights[done + i] = scaled_and_shifted(z[i], spec);
    }
}

/* truncated_near() of truncated.h. */
FI_INLINE void truncated_near_vectors(const draws_t *draws, weights_t *weights, int count, const fi_spec *spec) {
    weights_t sign[FLIGHT], t[FLIGHT], y[FLIGHT], z[FLIGHT];
    for (int done = 0; done < count; done += FLIGHT) {
        EACH_VECTOR {
            weights_t k = top53_lanes(draws[done + i]);
            mask_t below = less(k, all_weights(spec->split));
            weights_t steps = choose(below, k, subtract(all_weights(0x1p53 - 1), k));
            weights_t tail = choose(below, all_weights(spec->low_tail), all_weights(spec->high_tail));
            sign[i] = keep(below, all_weights(-0.0));
            steps = add(add(steps, steps), all_weights(1));
            t[i] = least(add(tail, multiply(all_weights(spec->width), steps)), all_weights(1));
            y[i] = subtract(fnma_lanes(t[i], t[i], add(t[i], t[i])), all_weights(0x1p-53));
        }
        bool tails = has_tail(y);
        quantile_centre_flight(y, z);
        EACH_VECTOR z[i] = multiply(multiply(subtract(all_weights(1), t[i]), all_weights(0x1p53)), z[i]);
        if (tails) tail_flight(t, y, z);
        EACH_VECTOR {
            z[i] = clamp_lanes(flip(z[i], sign[i]), spec->lower, spec->upper);
            weights[done + i] = scaled_and_shifted(z[i], spec);
        }
    }
}

/* Far tails are one scalar function for all levels. */
static __attribute__((noinline)) void truncated_far_vectors(const draws_t *draws, weights_t *weights, int count,
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

FI_INLINE void truncated_normal_vectors(const draws_t *draws, weights_t *weights, int count, const fi_spec *spec) {
    if (spec->far)
        truncated_far_vectors(draws, weights, count, spec);
    else
        truncated_near_vectors(draws, weights, count, spec);
}

/* Short bases take a register at a time. */
#define DEFINE_VECTORS(base)                                                                                  \
    FI_INLINE void base##_vectors(const draws_t *draws, weights_t *weights, int count, const fi_spec *spec) { \
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++) weights[i] = base##_lanes(draws[i], spec);    \
    }

enum {
    FLIGHT_constant = 1,
    FLIGHT_uniform = 1,
    FLIGHT_centered_uniform = 1,
    FLIGHT_normal = FLIGHT,
    FLIGHT_truncated_normal = FLIGHT
};
DEFINE_VECTORS(constant)
DEFINE_VECTORS(uniform)
DEFINE_VECTORS(centered_uniform)

/* ---- dtypes ----
 *
 * The narrow dtypes are reached by way of a float32 that is rounded to odd: its last bit says whether anything was
 * dropped, so a second rounding, to at most 22 bits, is right (and spec.c keeps float32 subnormals away). Rounded
 * to nearest, a float32 that falls on a tie of the narrow dtype would go the wrong way. */

/* The upper half of a float32, rounded to nearest even by its lower half. */
static inline words_t upper_half(words_t x) {
    words_t last = and_words(shift_words(x, 16), all_words(1));
    return shift_words(add_words(add_words(x, all_words(0x7FFF)), last), 16);
}

static inline line_t pack_bfloat16(const weights_t w[4]) {
    words_t x[2];
    floats_for_bfloat16(w, x);
    x[0] = upper_half(x[0]), x[1] = upper_half(x[1]);
    return pack_halves(x);
}

/* Adding a power of two whose last bit has the weight of the format's last bit at |x| (or at the
 * smallest normal) rounds |x| there; what the addition left in the significand counts its units. */
static inline words_t to_float8(words_t odd, int mantissa, int bias) {
    const words_t lowest = all_words((uint32_t)(128 - bias) << 23);
    words_t value = and_words(odd, all_words(0x7FFFFFFF));
    words_t exponent = most_words(and_words(odd, all_words(0x7F800000)), lowest);
    words_t magic = add_words(exponent, all_words((uint32_t)(23 - mantissa) << 23));
    words_t units = subtract_words(add_floats(value, magic), magic);
    words_t binades = shift_words(subtract_words(exponent, lowest), 23 - mantissa);
    words_t sign = and_words(shift_words(odd, 24), all_words(0x80));
    return or_words(add_words(units, binades), sign);
}

FI_INLINE line_t pack_float8(const weights_t w[8], int mantissa, int bias) {
    words_t x[4];
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) x[i] =
        to_float8(odd_floats(w[2 * i], w[2 * i + 1]), mantissa, bias);
    return pack_bytes(x);
}

static inline line_t pack_float8_e4m3fn(const weights_t w[8]) { return pack_float8(w, 3, 7); }
static inline line_t pack_float8_e5m2(const weights_t w[8]) { return pack_float8(w, 2, 15); }

/* ---- kernels ----
 *
 * The loop goes by blocks of one or more lines. A block that is only partly wanted (before the first aligned
 * address, or at the end) is computed whole and copied in part: the bits cannot differ from those of the loop. That
 * is a function of its own, so that a kernel holds its long chain of operations once in each loop and no more. */

/* How many lines hold FLIGHT vectors; at least one. */
#define LINES(base, type) ((FLIGHT_##base * LANES * sizeof(type) + LINE_BYTES - 1) / LINE_BYTES)

#define DEFINE_FILL(base, number, dtype, width, type, ...)                                                        \
    enum { LINES_##base##_##dtype = LINES(base, type) };                                                          \
    typedef struct {                                                                                              \
        line_t lines[LINES_##base##_##dtype];                                                                     \
    } block_##base##_##dtype;                                                                                     \
                                                                                                                  \
    FI_INLINE block_##base##_##dtype next_##base##_##dtype(draws_t *at, draws_t stride, const fi_spec *spec,      \
                                                           bool clamped) {                                        \
        enum {                                                                                                    \
            LINE_VECTORS = LINE_BYTES / sizeof(type) / LANES,                                                     \
            BLOCK_VECTORS = LINE_VECTORS * LINES(base, type)                                                      \
        };                                                                                                        \
        draws_t draws[BLOCK_VECTORS];                                                                             \
        weights_t weights[BLOCK_VECTORS];                                                                         \
        block_##base##_##dtype block;                                                                             \
        _Pragma("GCC unroll 8") for (int i = 0; i < BLOCK_VECTORS; i++) {                                         \
            draws[i] = mix64_lanes(*at);                                                                          \
            *at = add_draws(*at, stride);                                                                         \
        }                                                                                                         \
        (base##_vectors)(draws, weights, BLOCK_VECTORS, spec);                                                    \
        _Pragma("GCC unroll 8") for (int i = 0; i < BLOCK_VECTORS; i++) if (clamped) weights[i] =                 \
            clamp_lanes(weights[i], spec->lo, spec->hi);                                                          \
        _Pragma("GCC unroll 8") for (int i = 0; i < LINES_##base##_##dtype; i++) block.lines[i] =                 \
            (pack_##dtype)(weights + i * LINE_VECTORS);                                                           \
        return block;                                                                                             \
    }                                                                                                             \
                                                                                                                  \
    static __attribute__((noinline)) void part_##base##_##dtype(type *out, size_t count, uint64_t x,              \
                                                                uint64_t step, const fi_spec *spec) {             \
        draws_t at = every_draw(x, step);                                                                         \
        block_##base##_##dtype block = next_##base##_##dtype(&at, all_draws(step * LANES), spec, spec->clamped);  \
        memcpy(out, &block, count * sizeof(type));                                                                \
    }                                                                                                             \
                                                                                                                  \
    FI_INLINE void run_##base##_##dtype(type *out, size_t count, uint64_t x, uint64_t step, const fi_spec *given, \
                                        bool clamped, bool stream) {                                              \
        enum { LINE = LINE_BYTES / sizeof(type), BLOCK = LINE * LINES_##base##_##dtype };                         \
        size_t head = stream ? -(uintptr_t)out % LINE_BYTES / sizeof(type) : 0;                                   \
        if (head) {                                                                                               \
            if (head > count) head = count;                                                                       \
            part_##base##_##dtype(out, head, x, step, given);                                                     \
            out += head, count -= head, x += head * step;                                                         \
        }                                                                                                         \
        if (count >= BLOCK) {                                                                                     \
            const fi_spec spec = *given; /* a copy that no store to out can alias */                              \
            const draws_t stride = all_draws(step * LANES);                                                       \
            draws_t at = every_draw(x, step);                                                                     \
            x += (count - count % BLOCK) * step;                                                                  \
            for (; count >= BLOCK; count -= BLOCK, out += BLOCK) {                                                \
                block_##base##_##dtype block = next_##base##_##dtype(&at, stride, &spec, clamped);                \
                _Pragma("GCC unroll 8") for (int i = 0; i < LINES_##base##_##dtype; i++) {                        \
                    if (stream)                                                                                   \
                        stream_line(out + i * LINE, block.lines[i]);                                              \
                    else                                                                                          \
                        store_line(out + i * LINE, block.lines[i]);                                               \
                }                                                                                                 \
            }                                                                                                     \
        }                                                                                                         \
        if (count) part_##base##_##dtype(out, count, x, step, given);                                             \
    }                                                                                                             \
    static void KERNEL_NAME(base, dtype)(void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, \
                                         bool stream) {                                                           \
        if (FLIGHT_##base > 1) /* long: four copies are much code, and one's two tests are lost in the work */    \
            run_##base##_##dtype(out, count, x, step, spec, spec->clamped, stream);                               \
        else if (stream && spec->clamped)                                                                         \
            run_##base##_##dtype(out, count, x, step, spec, true, true);                                          \
        else if (stream)                                                                                          \
            run_##base##_##dtype(out, count, x, step, spec, false, true);                                         \
        else if (spec->clamped)                                                                                   \
            run_##base##_##dtype(out, count, x, step, spec, true, false);                                         \
        else                                                                                                      \
            run_##base##_##dtype(out, count, x, step, spec, false, false);                                        \
    }

DEFINE_KERNELS

/* ---- summaries ---- */

#define FI_VECTOR LANES
#define FI_LEAST least
#define FI_MOST most
#include "../checksum.h"
#include "../summary.h"

DEFINE_SUMMARIZE
DEFINE_MULTILINEAR
