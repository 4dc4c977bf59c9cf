/* The arithmetic of the vector levels, once. A level's file defines the helpers below for its instruction set, one
 * line each where it can, in this order, and includes this last; so levels differ in instructions only.
 *
 *   LEVEL, LANES, LINE_BYTES    its name; float64 lanes of a register; bytes of one store
 *   FLIGHT                      registers that a long chain of operations keeps in flight, so that no unit waits
 *   draws_t, weights_t, words_t, mask_t, line_t
 *                               LANES 64-bit integers, LANES float64, 2 * LANES 32-bit lanes, one truth a lane of
 *                               weights_t, what one store writes
 *
 *   all_draws(x), add_draws, every_draw(x, step) = x, x + step, x + 2 * step, ...
 *   stirred_lanes(x)            mix64 but for its last step, z ^ z >> 31: what reads a draw takes that, together with
 *                               a mask where the instruction set can
 *   mixed_lanes(z)              that step alone
 *   all_weights(x), add, subtract, multiply, magnitude, flip(w, sign) = w xor sign
 *   fma_lanes(a, b, c) = a * b + c and fnma_lanes(a, b, c) = c - a * b, rounded once
 *   least(a, b) = a < b ? a : b, most(a, b) = a > b ? a : b, and nothing else where zeros or a NaN meet
 *   less(a, b) -> mask, choose(mask, yes, no), keep(mask, w) = mask ? w : +0, either(mask, mask),
 *   lanes_of(mask) = one bit a lane
 *   load_weights, store_weights from and to any address
 *   unit_steps(draw, factor) = factor * top53, centered_steps(draw, factor) = factor * centered_step, rounded once for
 *   a factor of 2^-1011 or more; centered_open_lanes: see splitmix64.h
 *   scaled53_lanes(draw) = top53 * UNIT53, a power of 2
 *   quantile_centre_flight(flight, y, z): quantile_centre() of quantile.h for so many registers; brief_centre_flight,
 *                               of brief.h; or CENTRE_BY_ROWS, and segments_flight(table, width, count, degree, bit,
 *                               flight, y, z), from which these are made
 *   near_tie(w) -> mask: within the error of brief_centre_flight lies a tie of float32 (see brief.h)
 *
 *   all_words(x), add_words, subtract_words, and_words, or_words, most_words (of values below 2^31)
 *   shift_words(x, n) = x >> n, add_floats: the words are float32
 *   odd_floats(a, b) -> words   two registers as float32, rounded to odd
 *   floats_for_bfloat16(w, x)   four registers as float32 from which rounding to bfloat16 is right
 *   pack_float64, pack_float32, pack_float16 (weights[]) -> line
 *   pack_halves(words[2]), pack_bytes(words[4]) -> line   the lower 16 or 8 bits of every word, in order
 *   store_line, load_line       to and from any address
 *   stream_line                 to an aligned one, around the caches
 *
 * A level that defines FLOAT_CUT, the least t of its float32 polynomials, has these as well:
 *
 *   FLOAT_FLIGHT                registers of float32 that a chain of operations keeps in flight
 *   floats_t, all_floats(x), multiply_floats, fma_floats, least_floats, floats_of(words); float_words(floats) and
 *                               word_floats(words) are the same bits
 *   line_draws(x, step, at[4])  the draws of a line's weights, in the order in which the next two lead to it
 *   upper_words(a, b) -> words  of x and y, the upper halves of the draws but for the last bit, the first flipped
 *   upper_halves(x, y), float16_halves(x, y) -> line   of two words or floats
 *   distance_words(upper)       the upper 31 bits of |2k + 1 - 2^53|
 *   floats_of_31_bits(words)    rounded to a float32 below 2^31
 *   significands(words) of floats, in [1, 2)
 *   BRIEF_FLOATS(dtype), coefficients of brief.h; brief_coefficients(powers, power, segment) of them, by the lower bits
 *                               of a segment's number
 *   infinite_below(x, t, cut)   x, but infinity where t < cut
 *   least_halves(a, b), select_halves(upper, above, below), by the first bits; unequal_halves(a, b), a bit each
 */
#ifndef LEVEL
#error "loop.h is included by a level's file, which defines LEVEL first"
#endif
#ifdef FI_SOFT_FMA
#error "a level's file defines FI_HARDWARE_FMA before it includes anything else of the core"
#endif

/* ---- bases ---- */

#ifdef CENTRE_BY_ROWS
FI_INLINE void quantile_centre_flight(int flight, const weights_t *y, weights_t *z) {
    segments_flight(fi_quantile_centre[0], 16, FI_CENTRE_ROWS, FI_DEGREE, 51, flight, y, z);
}

FI_INLINE void brief_centre_flight(int flight, const weights_t *y, weights_t *z) {
    segments_flight(fi_brief_centre[0], FI_BRIEF_DEGREE_CENTRE + 1, FI_BRIEF_ROWS, FI_BRIEF_DEGREE_CENTRE, 48,
                    flight, y, z);
}
#endif

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

/* scale times u = k * 2^-53 is scale * 2^-53 times k: either is rounded once. */
static inline weights_t uniform_lanes(draws_t draw, const fi_spec *spec) {
    return add(all_weights(spec->shift), unit_steps(draw, spec->scale * 0x1p-53));
}

static inline weights_t centered_uniform_lanes(draws_t draw, const fi_spec *spec) {
    return centered_steps(draw, spec->scale);
}

/* One lane in 500 lies in the tail: by scalars and in a function of its own, so that the centre keeps its
 * registers. z has its sign already; bit j of `below` is lane j. */
static __attribute__((noinline)) void replace_tails(double *z, const double *t, uint64_t below) {
    for (; below; below &= below - 1) {
        int j = __builtin_ctzll(below);
        z[j] = z[j] < 0 ? -quantile_tail(t[j]) : quantile_tail(t[j]);
    }
}

FI_INLINE bool has_tail(int flight, const weights_t *y) {
    weights_t lowest = y[0];
    EACH_VECTOR(flight) lowest = least(lowest, y[i]);
    return lanes_of(less(lowest, all_weights(FI_QUANTILE_CUT))) != 0;
}

/* z with the tails of what lies below the cut; t is what they are a function of. */
FI_INLINE void tail_flight(int flight, const weights_t *t, const weights_t *y, weights_t *z) {
    double spilled[2][LANES * FLIGHT];
    uint64_t below = 0;
    EACH_VECTOR(flight) {
        below |= lanes_of(less(y[i], all_weights(FI_QUANTILE_CUT))) << (LANES * i);
        store_weights(spilled[0] + i * LANES, z[i]);
        store_weights(spilled[1] + i * LANES, t[i]);
    }
    replace_tails(spilled[0], spilled[1], below);
    EACH_VECTOR(flight) z[i] = load_weights(spilled[0] + i * LANES);
}

/* quantile() of quantile.h; or, where a place for them is given, its short way, which leaves out the tails. */
FI_INLINE void normal_vectors(int flight, const draws_t *draws, weights_t *weights, const fi_spec *spec,
                              mask_t *tails) {
    weights_t q[FLIGHT], t[FLIGHT], y[FLIGHT], z[FLIGHT];
    EACH_VECTOR(flight) {
        q[i] = centered_open_lanes(draws[i]);
        y[i] = fnma_lanes(q[i], q[i], all_weights(FI_QUANTILE_TOP));
    }
    bool has_tails = !tails && has_tail(flight, y);
    if (tails)
        brief_centre_flight(flight, y, z);
    else
        quantile_centre_flight(flight, y, z);
    EACH_VECTOR(flight) z[i] = multiply(q[i], z[i]);
    if (has_tails) {
        EACH_VECTOR(flight) t[i] = subtract(all_weights(1), magnitude(q[i]));
        tail_flight(flight, t, y, z);
    }
    EACH_VECTOR(flight)
    weights[i] = tails ? multiply(all_weights(spec->scale), z[i]) : scaled_and_shifted(z[i], spec);
    if (tails) EACH_VECTOR(flight) tails[i] = less(y[i], all_weights(FI_QUANTILE_CUT));
}

/* truncated_near() of truncated.h; or its short way. */
FI_INLINE void truncated_near_vectors(int flight, const draws_t *draws, weights_t *weights, const fi_spec *spec,
                                      mask_t *tails) {
    weights_t sign[FLIGHT], t[FLIGHT], y[FLIGHT], z[FLIGHT];
    EACH_VECTOR(flight) {
        weights_t k = scaled53_lanes(draws[i]);
        mask_t below = less(k, all_weights(spec->split * UNIT53));
        weights_t steps = choose(below, k, subtract(all_weights((0x1p53 - 1) * UNIT53), k));
        weights_t tail = choose(below, all_weights(spec->low_tail), all_weights(spec->high_tail));
        sign[i] = keep(below, all_weights(-0.0));
        steps = fma_lanes(steps, all_weights(2 / UNIT53), all_weights(1));
        t[i] = least(add(tail, multiply(all_weights(spec->width), steps)), all_weights(1));
        y[i] = subtract(fnma_lanes(t[i], t[i], add(t[i], t[i])), all_weights(0x1p-53));
    }
    bool has_tails = !tails && has_tail(flight, y);
    if (tails)
        brief_centre_flight(flight, y, z);
    else
        quantile_centre_flight(flight, y, z);
    EACH_VECTOR(flight) z[i] = multiply(subtract(all_weights(1), t[i]), z[i]);
    if (has_tails) tail_flight(flight, t, y, z);
    EACH_VECTOR(flight) {
        z[i] = clamp_lanes(flip(z[i], sign[i]), spec->lower, spec->upper);
        weights[i] = scaled_and_shifted(z[i], spec); /* of a z of -0 too, which the sum makes +0 */
        if (tails) tails[i] = less(y[i], all_weights(FI_QUANTILE_CUT));
    }
}

/* Far tails are one scalar function for all levels. */
static __attribute__((noinline)) void truncated_far_vectors(int flight, const draws_t *draws, weights_t *weights,
                                                            const fi_spec *spec) {
    uint64_t draw[LANES];
    double w[LANES];
    for (int i = 0; i < flight; i++) {
        memcpy(draw, draws + i, sizeof draw);
        for (int j = 0; j < LANES; j++) {
            double scaled = spec->scale * truncated_quantile((double)top53(draw[j] ^ draw[j] >> 31), spec);
            w[j] = spec->shift + scaled;
        }
        memcpy(weights + i, w, sizeof w);
    }
}

FI_INLINE void truncated_normal_vectors(int flight, const draws_t *draws, weights_t *weights,
                                        const fi_spec *spec) {
    if (spec->far)
        truncated_far_vectors(flight, draws, weights, spec);
    else
        truncated_near_vectors(flight, draws, weights, spec, NULL);
}

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
    EACH_VECTOR(4) x[i] = to_float8(odd_floats(w[2 * i], w[2 * i + 1]), mantissa, bias);
    return pack_bytes(x);
}

static inline line_t pack_float8_e4m3fn(const weights_t w[8]) { return pack_float8(w, 3, 7); }
static inline line_t pack_float8_e5m2(const weights_t w[8]) { return pack_float8(w, 2, 15); }

/* Eight registers of weights, of as many lines as a weight has bytes. */
enum { BLOCK = LINE_BYTES };

FI_INLINE void put_line(void *out, line_t line, bool stream) {
    if (stream)
        stream_line(out, line);
    else
        store_line(out, line);
}

/* As much of a line as is wanted: all of it, or the first of its weights. Returns how many. */
FI_INLINE size_t put_part(void *out, line_t line, size_t wanted, size_t itemsize, bool stream) {
    const size_t all = LINE_BYTES / itemsize;
    char spilled
        [LINE_BYTES]; /* here and not by the line's own address, or every line would be written to the stack */
    if (wanted >= all) {
        put_line(out, line, stream);
        return all;
    }
    store_line(spilled, line);
    memcpy(out, spilled, wanted * itemsize);
    return wanted;
}

/* How many weights lie before the first line that can be streamed. */
FI_INLINE size_t head_of(const void *out, size_t count, size_t itemsize, bool stream) {
    size_t head = stream ? -(uintptr_t)out % LINE_BYTES / itemsize : 0;
    return head < count ? head : count;
}

/* Float64 weights to whole lines of a dtype, of which the last may be wanted in part. */
typedef void (*pack_t)(char *out, const double *weights, size_t count, bool stream);

#define DEFINE_PACK(with, number, dtype, width, type, ...)                                                    \
    static __attribute__((noinline)) void pack_lines_##dtype(char *out, const double *from, size_t count,     \
                                                             bool stream) {                                   \
        enum { LINE = LINE_BYTES / sizeof(type), VECTORS = LINE / LANES };                                    \
        for (; count; out += LINE_BYTES, from += LINE) {                                                      \
            weights_t weights[VECTORS];                                                                       \
            EACH_VECTOR((int)VECTORS) weights[i] = load_weights(from + i * LANES);                            \
            count -= put_part(out, (pack_##dtype)(weights), count, sizeof(type), stream); /* see formats.h */ \
        }                                                                                                     \
    }
FI_EACH_DTYPE(DEFINE_PACK, )

/* ---- the exact way ----
 *
 * A long chain of operations stands once a base, and makes float64 weights: of any draws, in flights. Narrow ones pass
 * through a tile of float64 in the first cache. */

enum {
    FLIGHT_WEIGHTS = FLIGHT * LANES, /* a block or a part of it */
    TILE_WEIGHTS = 1024
};
_Static_assert(BLOCK % FLIGHT_WEIGHTS == 0 && TILE_WEIGHTS % BLOCK == 0, "tiles of whole blocks of whole flights");

typedef struct {
    /* Flights of the draws x, x + step, ... */
    void (*run)(double *out, size_t flights, uint64_t x, uint64_t step, const fi_spec *spec, bool stream);
    /* Vectors of any draws. */
    void (*alone)(double *out, size_t vectors, const draws_t *at, const fi_spec *spec);
} exact_t;

FI_INLINE void exact_vectors(fi_base base, int flight, const draws_t *draws, weights_t *weights,
                             const fi_spec *spec) {
    if (base == FI_CENTERED_UNIFORM) EACH_VECTOR(flight) weights[i] = centered_uniform_lanes(draws[i], spec);
    if (base == FI_NORMAL) normal_vectors(flight, draws, weights, spec, NULL);
    if (base == FI_TRUNCATED_NORMAL) truncated_normal_vectors(flight, draws, weights, spec);
    if (spec->clamped) EACH_VECTOR(flight) weights[i] = clamp_lanes(weights[i], spec->lo, spec->hi);
}

#define DEFINE_EXACT(base, number)                                                                             \
    static __attribute__((noinline)) void exact_run_##base(double *out, size_t flights, uint64_t x,            \
                                                           uint64_t step, const fi_spec *given, bool stream) { \
        const fi_spec spec = *given; /* a copy that no store to out can alias */                               \
        const draws_t stride = all_draws(step * LANES);                                                        \
        draws_t at = every_draw(x, step);                                                                      \
        for (; flights; flights--, out += FLIGHT_WEIGHTS) {                                                    \
            draws_t draws[FLIGHT];                                                                             \
            weights_t weights[FLIGHT];                                                                         \
            EACH_VECTOR(FLIGHT) {                                                                              \
                draws[i] = stirred_lanes(at);                                                                  \
                at = add_draws(at, stride);                                                                    \
            }                                                                                                  \
            exact_vectors(number, FLIGHT, draws, weights, &spec);                                              \
            EACH_VECTOR(FLIGHT) put_line(out + i * LANES, pack_float64(weights + i), stream);                  \
        }                                                                                                      \
    }                                                                                                          \
    static __attribute__((noinline)) void exact_alone_##base(double *out, size_t vectors, const draws_t *at,   \
                                                             const fi_spec *spec) {                            \
        for (; vectors; vectors--, out += LANES) {                                                             \
            draws_t draws = stirred_lanes(*at++);                                                              \
            weights_t weights;                                                                                 \
            exact_vectors(number, 1, &draws, &weights, spec);                                                  \
            store_weights(out, weights);                                                                       \
        }                                                                                                      \
    }

DEFINE_EXACT(centered_uniform, FI_CENTERED_UNIFORM)
DEFINE_EXACT(normal, FI_NORMAL)
DEFINE_EXACT(truncated_normal, FI_TRUNCATED_NORMAL)

static const exact_t exact[FI_BASES] = {
    [FI_CENTERED_UNIFORM] = {exact_run_centered_uniform, exact_alone_centered_uniform},
    [FI_NORMAL] = {exact_run_normal, exact_alone_normal},
    [FI_TRUNCATED_NORMAL] = {exact_run_truncated_normal, exact_alone_truncated_normal},
};

static __attribute__((noinline)) void fill_exactly(const exact_t *ways, pack_t pack, char *out, size_t count,
                                                   uint64_t x, uint64_t step, const fi_spec *spec, bool stream) {
    _Alignas(LINE_BYTES) double tile[TILE_WEIGHTS];
    const size_t itemsize = (size_t)formats[spec->dtype].bits / 8;
    size_t head = head_of(out, count, itemsize, stream);
    while (count) {
        size_t done = head ? head : count < TILE_WEIGHTS ? count : TILE_WEIGHTS;
        if (itemsize == sizeof *tile && head == 0 && count >= FLIGHT_WEIGHTS) {
            done = count - count % FLIGHT_WEIGHTS;
            ways->run((double *)out, done / FLIGHT_WEIGHTS, x, step, spec, stream);
        } else {
            ways->run(tile, (done + BLOCK - 1) / BLOCK * (BLOCK / FLIGHT_WEIGHTS), x, step, spec, false);
            pack(out, tile, done, stream);
        }
        out += done * itemsize, count -= done, x += done * step, head = 0;
    }
}

/* ---- the short ways of brief.h ---- */

/* A flight of float32s by float64 lanes; a bit for each weight that is unsure. */
FI_INLINE uint64_t float32_block(fi_base base, draws_t *at, draws_t stride, const fi_spec *spec, line_t *lines) {
    draws_t draws[FLIGHT];
    weights_t weights[FLIGHT];
    mask_t unsure[FLIGHT];
    uint64_t bits = 0;
    EACH_VECTOR(FLIGHT) {
        draws[i] = stirred_lanes(*at);
        *at = add_draws(*at, stride);
    }
    if (base == FI_NORMAL)
        normal_vectors(FLIGHT, draws, weights, spec, unsure);
    else
        truncated_near_vectors(FLIGHT, draws, weights, spec, unsure);
    EACH_VECTOR(FLIGHT) bits |= lanes_of(either(unsure[i], near_tie(weights[i]))) << (LANES * i);
    if (base != FI_NORMAL) EACH_VECTOR(FLIGHT) weights[i] = clamp_lanes(weights[i], spec->lo, spec->hi);
    EACH_VECTOR(FLIGHT / 2) lines[i] = pack_float32(weights + 2 * i);
    return bits;
}

#ifdef FLOAT_CUT
enum { HAS_INTERVALS = true };

/* z / q by 2^31 t: a binade's polynomial about its middle. */
FI_INLINE void brief_floats(fi_dtype dtype, int flight, const floats_t *t, floats_t *p) {
    const float *powers = dtype == FI_FLOAT16 ? BRIEF_FLOATS(float16) : BRIEF_FLOATS(bfloat16);
    const int degree = dtype == FI_FLOAT16 ? FI_BRIEF_DEGREE_FLOAT16 : FI_BRIEF_DEGREE_BFLOAT16;
    words_t segment[FLOAT_FLIGHT];
    floats_t x[FLOAT_FLIGHT];
    EACH_VECTOR(flight) {
        segment[i] = shift_words(float_words(t[i]), 23);
        x[i] = word_floats(add_floats(significands(float_words(t[i])), float_words(all_floats(-1.5f))));
        p[i] = brief_coefficients(powers, degree, segment[i]);
    }
    _Pragma("GCC unroll 8") for (int power = degree - 1; power >= 0; power--) {
        EACH_VECTOR(flight) p[i] = fma_floats(p[i], x[i], brief_coefficients(powers, power, segment[i]));
    }
}

/* The ends of the intervals in which |w| lies, by the upper halves of the draws. */
FI_INLINE void interval_floats(fi_base base, fi_dtype dtype, int flight, const words_t *upper, const fi_spec *spec,
                               floats_t *low, floats_t *high) {
    floats_t q[FLOAT_FLIGHT], t[FLOAT_FLIGHT];
    EACH_VECTOR(flight) {
        words_t distance = distance_words(upper[i]), left = subtract_words(all_words(0x7FFFFFFF), distance);
        q[i] = t[i] = floats_of(distance);
        if (base == FI_NORMAL) t[i] = floats_of_31_bits(left);
        if (base == FI_TRUNCATED_NORMAL) {
            t[i] = fma_floats(floats_of(left), all_floats(spec->share), all_floats(spec->tail));
            t[i] = least_floats(t[i], all_floats(0x1.fffffep30f));
        }
    }
    if (base != FI_CENTERED_UNIFORM) brief_floats(dtype, flight, t, low);
    EACH_VECTOR(flight) {
        low[i] = base == FI_CENTERED_UNIFORM ? q[i] : multiply_floats(q[i], low[i]);
        low[i] = multiply_floats(low[i], all_floats(spec->step));
        high[i] = fma_floats(low[i], all_floats(spec->wide), all_floats(spec->slack));
        if (base != FI_CENTERED_UNIFORM) high[i] = infinite_below(high[i], t[i], FLOAT_CUT);
        /* Near 0 the exact way's 1 - t has an absolute error, and it can be a zero, which is +0. */
        if (base == FI_TRUNCATED_NORMAL) high[i] = infinite_below(high[i], q[i], 0x1p14f);
    }
}

/* Rounded to nearest, ties up: where both ends of an interval give one value, no tie lies within. */
FI_INLINE line_t nearest_halves(fi_dtype dtype, floats_t x, floats_t y) {
    if (dtype == FI_FLOAT16) return float16_halves(x, y);
    return upper_halves(add_words(float_words(x), all_words(0x8000)),
                        add_words(float_words(y), all_words(0x8000)));
}

/* Lines of 16-bit weights by float32 lanes; a bit for each weight that is unsure. */
FI_INLINE uint64_t halves_block(fi_base base, fi_dtype dtype, draws_t *at, draws_t stride, const fi_spec *spec,
                                line_t *lines) {
    floats_t low[FLOAT_FLIGHT], high[FLOAT_FLIGHT];
    words_t upper[FLOAT_FLIGHT];
    uint64_t bits = 0;
    EACH_VECTOR(FLOAT_FLIGHT) {
        upper[i] = upper_words(at[2 * i], at[2 * i + 1]);
        at[2 * i] = add_draws(at[2 * i], stride);
        at[2 * i + 1] = add_draws(at[2 * i + 1], stride);
    }
    interval_floats(base, dtype, FLOAT_FLIGHT, upper, spec, low, high);
    EACH_VECTOR(FLOAT_FLIGHT / 2) {
        line_t codes = nearest_halves(dtype, low[2 * i], low[2 * i + 1]), clamped = codes;
        line_t others = nearest_halves(dtype, high[2 * i], high[2 * i + 1]);
        line_t signs = upper_halves(upper[2 * i], upper[2 * i + 1]);
        if (base != FI_NORMAL) {
            const line_t most = all_words(spec->most * 0x10001u), below = all_words(spec->most_below * 0x10001u);
            clamped = least_halves(codes, select_halves(signs, most, below));
        }
        lines[i] = or_words(clamped, and_words(signs, all_words(0x80008000)));
        bits |= unequal_halves(codes, others) << (LINE_BYTES / 2 * i);
    }
    return bits;
}

#else
enum { HAS_INTERVALS = false, FLOAT_FLIGHT = 2 };
FI_INLINE uint64_t halves_block(fi_base base, fi_dtype dtype, draws_t *at, draws_t stride, const fi_spec *spec,
                                line_t *line) {
    (void)base, (void)dtype, (void)at, (void)stride, (void)spec, (void)line;
    return 0;
}
#define line_draws(x, step, at) (void)(at)
#endif

enum { HALVES = 2 * LANES * FLOAT_FLIGHT }; /* weights of a block of 16-bit ones */

/* A tile is filled by the short way, mended, and only then streamed: a scalar store into a line that has left the
 * caches would fetch it again, and a branch for each unsure weight would be mispredicted. */
enum { TILE_BYTES = 8192, TILE_BLOCKS = TILE_BYTES / (2 * HALVES) };
_Static_assert(TILE_BLOCKS >= TILE_BYTES / (4 * FLIGHT_WEIGHTS), "blocks of float32 find room too");
typedef struct {
    int count;
    int block[TILE_BLOCKS];
    uint64_t bits[TILE_BLOCKS];
} unsure_t;

/* Unsure weights by the exact way, in registers of their own: most tiles have a few. */
static __attribute__((noinline)) void mend(char *tile, const unsure_t *unsure, uint64_t x, uint64_t step,
                                           const fi_spec *spec, const exact_t *ways, pack_t pack) {
    const bool wide = spec->dtype == FI_FLOAT32;
    const size_t itemsize = wide ? 4 : 2, length = wide ? FLIGHT_WEIGHTS : HALVES;
    _Alignas(LINE_BYTES) uint64_t at[BLOCK];
    _Alignas(LINE_BYTES) double weights[BLOCK];
    char codes[sizeof weights], *place[BLOCK];
    size_t count = 0;
    for (int i = 0; i < BLOCK; i++) at[i] = x; /* no tail as a rule, as what is unsure often is */
    for (int i = 0; i < BLOCK; i += LANES) store_weights(weights + i, all_weights(1));
    for (int i = 0; i < unsure->count; i++) {
        for (uint64_t bits = unsure->bits[i]; bits;) {
            size_t j = (size_t)unsure->block[i] * length + (size_t)__builtin_ctzll(bits);
            at[count] = x + j * step;
            place[count++] = tile + j * itemsize;
            bits &= bits - 1;
            if (count < BLOCK && (bits || i + 1 < unsure->count)) continue;
            ways->alone(weights, (count + LANES - 1) / LANES, (const draws_t *)at, spec);
            pack(codes, weights, count, false);
            for (size_t k = 0; k < count; k++) {
                if (wide)
                    memcpy(place[k], codes + 4 * k, 4);
                else
                    memcpy(place[k], codes + 2 * k, 2);
            }
            count = 0;
        }
    }
}

/* The lines of a mended tile leave while the next tile is computed; all at once, the stores would wait for memory. */
typedef struct {
    char *from, *end, *to;
} leaving_t;

FI_INLINE void stream_lines(leaving_t *tile, int lines) {
    if (tile->from == tile->end) return;
    EACH_VECTOR(lines) stream_line(tile->to + i * LINE_BYTES, load_line(tile->from + i * LINE_BYTES));
    tile->from += lines * LINE_BYTES, tile->to += lines * LINE_BYTES;
}

FI_INLINE void fill_brief(fi_base base, fi_dtype dtype, char *out, size_t count, uint64_t x, uint64_t step,
                          const fi_spec *given, bool stream, const exact_t *ways, pack_t pack) {
    enum { BLOCK_LINES = FLIGHT / 2 }; /* or fewer */
    const int itemsize = dtype == FI_FLOAT32 ? 4 : 2, length = dtype == FI_FLOAT32 ? FLIGHT_WEIGHTS : HALVES;
    const int lines = length * itemsize / LINE_BYTES, most = TILE_BYTES / (length * itemsize);
    _Static_assert((int)FLOAT_FLIGHT <= FLIGHT && HALVES <= 64 && FLIGHT_WEIGHTS <= 64,
                   "lines and bits of a block");
    _Static_assert(TILE_BYTES % (2 * HALVES) == 0 && TILE_BYTES % (4 * FLIGHT_WEIGHTS) == 0,
                   "tiles of whole blocks");
    _Alignas(LINE_BYTES) char buffers[2][TILE_BYTES];
    leaving_t leaving = {0};
    const fi_spec spec = *given;
    const draws_t stride = all_draws(step * (dtype == FI_FLOAT32 ? LANES : HALVES));
    draws_t at[2 * FLOAT_FLIGHT];
    unsure_t unsure;
    size_t head = head_of(out, count, (size_t)itemsize, stream);
    if (head) fill_exactly(ways, pack, out, head, x, step, given, false);
    out += head * (size_t)itemsize, count -= head, x += head * step;
    if (dtype == FI_FLOAT32)
        at[0] = every_draw(x, step);
    else
        EACH_VECTOR(FLOAT_FLIGHT / 2) line_draws(x + (uint64_t)i * (4 * LANES) * step, step, at + 4 * i);
    for (int turn = 0; count >= (size_t)length; turn ^= 1) {
        int blocks = count / (size_t)length < (size_t)most ? (int)(count / (size_t)length) : most;
        size_t done = (size_t)blocks * (size_t)length;
        char *tile = stream ? buffers[turn] : out, *place = tile;
        unsure.count = 0;
        for (int i = 0; i < blocks; i++) {
            line_t line[BLOCK_LINES];
            uint64_t bits = dtype == FI_FLOAT32 ? float32_block(base, at, stride, &spec, line)
                                                : halves_block(base, dtype, at, stride, &spec, line);
            EACH_VECTOR(lines) store_line(place + i * LINE_BYTES, line[i]);
            place += lines * LINE_BYTES;
            stream_lines(&leaving, lines);
            unsure.block[unsure.count] = i;
            unsure.bits[unsure.count] = bits;
            unsure.count += bits != 0;
        }
        while (leaving.from < leaving.end) stream_lines(&leaving, lines);
        mend(tile, &unsure, x, step, given, ways, pack);
        if (stream) leaving = (leaving_t){tile, place, out};
        out += done * (size_t)itemsize, count -= done, x += done * step;
    }
    while (leaving.from < leaving.end) stream_lines(&leaving, lines);
    if (count) fill_exactly(ways, pack, out, count, x, step, given, false);
}

/* ---- kernels ---- */

/* Which bases have many operations for each weight. */
#define LONG_constant 0
#define LONG_uniform 0
#define LONG_centered_uniform 0
#define LONG_normal 1
#define LONG_truncated_normal 1

/* Of a base that is not listed, LONG_<base> is undeclared here. */
#define BASE_NUMBER(with, number, base) BASE_##base = number, IS_LONG_##base = LONG_##base,
enum { FI_EACH_BASE(BASE_NUMBER, ) };
#undef BASE_NUMBER

/* The short ways that there are. */
#define IS_CENTRAL(base) ((int)BASE_##base == BASE_normal || (int)BASE_##base == BASE_truncated_normal)
#define IS_BRIEF(base, width) \
    ((width) == 32            \
         ? IS_CENTRAL(base)   \
         : (width) == 16 && HAS_INTERVALS && (IS_CENTRAL(base) || (int)BASE_##base == BASE_centered_uniform))

#define DEFINE_BRIEF(base, number, dtype, width)                                                             \
    static __attribute__((noinline)) void brief_##base##_##dtype(                                            \
        void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, bool stream) {              \
        if (IS_BRIEF(base, width))                                                                           \
            fill_brief((fi_base)BASE_##base, number, out, count, x, step, spec, stream, &exact[BASE_##base], \
                       pack_lines_##dtype);                                                                  \
    }

/* A base of many operations, LONG_<base> 1. */
#define DEFINE_1(base, number, dtype, width, type, ...)                                                           \
    DEFINE_BRIEF(base, number, dtype, width)                                                                      \
    static void KERNEL_NAME(base, dtype)(void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, \
                                         bool stream) {                                                           \
        if (IS_BRIEF(base, width) && spec->brief)                                                                 \
            brief_##base##_##dtype(out, count, x, step, spec, stream);                                            \
        else                                                                                                      \
            fill_exactly(&exact[BASE_##base], pack_lines_##dtype, out, count, x, step, spec, stream);             \
    }

/* A base of few, LONG_<base> 0: BLOCK weights at a time, from draws to memory, and a line at a time before the first
 * aligned address and at the end. A line that is only partly wanted is computed whole and copied in part. */
#define DEFINE_0(base, number, dtype, width, type, ...)                                                           \
    FI_INLINE void next_##base##_##dtype(draws_t *at, draws_t stride, const fi_spec *spec, bool clamped,          \
                                         int count, line_t *lines) {                                              \
        enum { VECTORS = LINE_BYTES / sizeof(type) / LANES };                                                     \
        draws_t draws[BLOCK / LANES];                                                                             \
        weights_t weights[BLOCK / LANES];                                                                         \
        EACH_VECTOR(count * (int)VECTORS) {                                                                       \
            draws[i] = stirred_lanes(*at);                                                                        \
            *at = add_draws(*at, stride);                                                                         \
        }                                                                                                         \
        EACH_VECTOR(count * (int)VECTORS) weights[i] = base##_lanes(draws[i], spec);                              \
        if (clamped) EACH_VECTOR(count * (int)VECTORS) weights[i] = clamp_lanes(weights[i], spec->lo, spec->hi);  \
        EACH_VECTOR(count) lines[i] = (pack_##dtype)(weights + i * VECTORS); /* see formats.h */                  \
    }                                                                                                             \
    static __attribute__((noinline)) void part_##base##_##dtype(                                                  \
        char *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, bool stream) {                   \
        draws_t at = every_draw(x, step), stride = all_draws(step * LANES);                                       \
        for (; count; out += LINE_BYTES) {                                                                        \
            line_t line;                                                                                          \
            next_##base##_##dtype(&at, stride, spec, spec->clamped, 1, &line);                                    \
            count -= put_part(out, line, count, sizeof(type), stream);                                            \
        }                                                                                                         \
    }                                                                                                             \
    FI_INLINE void run_##base##_##dtype(char *out, size_t count, uint64_t x, uint64_t step, const fi_spec *given, \
                                        bool clamped, bool stream) {                                              \
        size_t head = head_of(out, count, sizeof(type), stream);                                                  \
        if (head) {                                                                                               \
            part_##base##_##dtype(out, head, x, step, given, false);                                              \
            out += head * sizeof(type), count -= head, x += head * step;                                          \
        }                                                                                                         \
        if (count >= BLOCK) {                                                                                     \
            const fi_spec spec = *given; /* a copy that no store to out can alias */                              \
            const draws_t stride = all_draws(step * LANES);                                                       \
            draws_t at = every_draw(x, step);                                                                     \
            x += (count - count % BLOCK) * step;                                                                  \
            for (; count >= BLOCK; count -= BLOCK, out += BLOCK * sizeof(type)) {                                 \
                line_t lines[sizeof(type)];                                                                       \
                next_##base##_##dtype(&at, stride, &spec, clamped, sizeof(type), lines);                          \
                EACH_VECTOR((int)sizeof(type)) put_line(out + i * LINE_BYTES, lines[i], stream);                  \
            }                                                                                                     \
        }                                                                                                         \
        if (count) part_##base##_##dtype(out, count, x, step, given, stream);                                     \
    }                                                                                                             \
    DEFINE_BRIEF(base, number, dtype, width)                                                                      \
    static void KERNEL_NAME(base, dtype)(void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, \
                                         bool stream) {                                                           \
        if (IS_BRIEF(base, width) && spec->brief)                                                                 \
            brief_##base##_##dtype(out, count, x, step, spec, stream);                                            \
        else if (spec->clamped)                                                                                   \
            run_##base##_##dtype(out, count, x, step, spec, true, stream);                                        \
        else                                                                                                      \
            run_##base##_##dtype(out, count, x, step, spec, false, stream);                                       \
    }

#define DEFINE_FILL(base, ...) CONCAT(DEFINE, LONG_##base)(base, __VA_ARGS__)

DEFINE_KERNELS

/* ---- summaries ---- */

#define FI_VECTOR LANES
#define FI_LEAST least
#define FI_MOST most
#include "../checksum.h"
#include "../summary.h"

DEFINE_SUMMARIZE
DEFINE_MULTILINEAR

/* ---- draws alone ---- */

static uint64_t CONCAT(sum_draws, LEVEL)(uint64_t x, size_t count) {
    draws_t at[FLIGHT], sum[FLIGHT];
    EACH_VECTOR(FLIGHT) {
        at[i] = every_draw(x + (uint64_t)(LANES * i) * FI_GAMMA, FI_GAMMA);
        sum[i] = all_draws(0);
    }
    x += (count - count % FLIGHT_WEIGHTS) * FI_GAMMA;
    const draws_t stride = all_draws(FLIGHT_WEIGHTS * FI_GAMMA);
    for (; count >= FLIGHT_WEIGHTS; count -= FLIGHT_WEIGHTS) {
        EACH_VECTOR(FLIGHT) {
            sum[i] = add_draws(sum[i], mixed_lanes(stirred_lanes(at[i])));
            at[i] = add_draws(at[i], stride);
        }
    }
    uint64_t each[FLIGHT_WEIGHTS], total = 0;
    memcpy(each, sum, sizeof each);
    for (int i = 0; i < FLIGHT_WEIGHTS; i++) total += each[i];
    for (; count; count--, x += FI_GAMMA) total += mix64(x);
    return total;
}
