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
 *   a factor of 2^-1011 or more; centered_odd_lanes: see splitmix64.h; scaled53_lanes(draw) = top53 * UNIT53, a power of 2
 *   quantile_centre_flight(y, z): quantile_centre() of quantile.h for FLIGHT registers; brief_centre_flight, of brief.h
 *   near_tie(w) -> mask: within 2^17 units of the last place of w lies a tie of float32
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
 *   floats_t, all_floats(x), multiply_floats, fma_floats, least_floats, floats_of(words); float_words(floats) and word_floats(words)
 *                               are the same bits
 *   line_draws(x, step, at[4])  the draws of a line's weights, in the order in which the next two lead to it
 *   upper_words(a, b) -> words  of x and y, the upper halves of the draws but for the last bit, the first flipped
 *   upper_halves(x, y), float16_halves(x, y) -> line   of two words or floats
 *   distance_words(upper)       the upper 31 bits of |2k + 1 - 2^53|
 *   floats_of_31_bits(words)    rounded to a float32 below 2^31
 *   brief_coefficients(power, segment) of fi_brief_lanes or fi_brief_eight, by the lower bits of a segment's number
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

/* quantile() of quantile.h; or, where a place for them is given, its short way, which leaves out the tails. */
FI_INLINE void normal_vectors(const draws_t *draws, weights_t *weights, int count, const fi_spec *spec,
                              mask_t *tails) {
    weights_t o[FLIGHT], t[FLIGHT], y[FLIGHT], z[FLIGHT];
    for (int done = 0; done < count; done += FLIGHT) {
        EACH_VECTOR {
            o[i] = centered_odd_lanes(draws[done + i]);
            y[i] = fma_lanes(multiply(o[i], all_weights(-0x1p-106)), o[i], all_weights(FI_QUANTILE_TOP));
        }
        bool has_tails = !tails && has_tail(y);
        if (tails)
            brief_centre_flight(y, z);
        else
            quantile_centre_flight(y, z);
        EACH_VECTOR z[i] = multiply(o[i], z[i]);
        if (has_tails) {
            EACH_VECTOR t[i] = subtract(all_weights(1), multiply(magnitude(o[i]), all_weights(0x1p-53)));
            tail_flight(t, y, z);
        }
        EACH_VECTOR weights[done + i] = scaled_and_shifted(z[i], spec);
        if (tails) EACH_VECTOR tails[done + i] = less(y[i], all_weights(FI_QUANTILE_CUT));
    }
}

/* truncated_near() of truncated.h; or its short way. */
FI_INLINE void truncated_near_vectors(const draws_t *draws, weights_t *weights, int count, const fi_spec *spec,
                                      mask_t *tails) {
    weights_t sign[FLIGHT], t[FLIGHT], y[FLIGHT], z[FLIGHT];
    for (int done = 0; done < count; done += FLIGHT) {
        EACH_VECTOR {
            weights_t k = scaled53_lanes(draws[done + i]);
            mask_t below = less(k, all_weights(spec->split * UNIT53));
            weights_t steps = choose(below, k, subtract(all_weights((0x1p53 - 1) * UNIT53), k));
            weights_t tail = choose(below, all_weights(spec->low_tail), all_weights(spec->high_tail));
            sign[i] = keep(below, all_weights(-0.0));
            steps = fma_lanes(steps, all_weights(2 / UNIT53), all_weights(1));
            t[i] = least(add(tail, multiply(all_weights(spec->width), steps)), all_weights(1));
            y[i] = subtract(fnma_lanes(t[i], t[i], add(t[i], t[i])), all_weights(0x1p-53));
        }
        bool has_tails = !tails && has_tail(y);
        if (tails)
            brief_centre_flight(y, z);
        else
            quantile_centre_flight(y, z);
        EACH_VECTOR z[i] = multiply(multiply(subtract(all_weights(1), t[i]), all_weights(0x1p53)), z[i]);
        if (has_tails) tail_flight(t, y, z);
        EACH_VECTOR {
            z[i] = clamp_lanes(flip(z[i], sign[i]), spec->lower, spec->upper);
            weights[done + i] = scaled_and_shifted(z[i], spec);
            if (tails) tails[done + i] = less(y[i], all_weights(FI_QUANTILE_CUT));
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
            double scaled = spec->scale * truncated_quantile((double)top53(draw[j] ^ draw[j] >> 31), spec);
            w[j] = spec->shift + scaled;
        }
        memcpy(weights + i, w, sizeof w);
    }
}

FI_INLINE void truncated_normal_vectors(const draws_t *draws, weights_t *weights, int count, const fi_spec *spec,
                                        mask_t *tails) {
    if (!tails && spec->far)
        truncated_far_vectors(draws, weights, count, spec);
    else
        truncated_near_vectors(draws, weights, count, spec, tails);
}

/* Short bases take a register at a time. */
#define DEFINE_VECTORS(base)                                                                                \
    FI_INLINE void base##_vectors(const draws_t *draws, weights_t *weights, int count, const fi_spec *spec, \
                                  mask_t *none) {                                                           \
        (void)none;                                                                                         \
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++) weights[i] = base##_lanes(draws[i], spec);  \
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

/* ---- the short ways of brief.h ---- */

enum { HALVES = 4 * LANES, FLOATS = FLIGHT * LANES }; /* weights of a block: a line of 16-bit ones, or a flight */

/* A block of float32s by float64 lanes; a bit for each weight that is unsure. */
FI_INLINE uint64_t float32_block(fi_base base, draws_t *at, draws_t stride, const fi_spec *spec, line_t *lines) {
    draws_t draws[FLIGHT];
    weights_t weights[FLIGHT];
    mask_t unsure[FLIGHT];
    uint64_t bits = 0;
    EACH_VECTOR {
        draws[i] = stirred_lanes(*at);
        *at = add_draws(*at, stride);
    }
    if (base == FI_NORMAL)
        normal_vectors(draws, weights, FLIGHT, spec, unsure);
    else
        truncated_near_vectors(draws, weights, FLIGHT, spec, unsure);
    EACH_VECTOR bits |= lanes_of(either(unsure[i], near_tie(weights[i]))) << (LANES * i);
    if (base != FI_NORMAL) EACH_VECTOR weights[i] = clamp_lanes(weights[i], spec->lo, spec->hi);
    _Pragma("GCC unroll 8") for (int i = 0; i < FLIGHT / 2; i++) lines[i] = pack_float32(weights + 2 * i);
    return bits;
}

#ifdef FLOAT_CUT
enum { HAS_INTERVALS = true };

/* z / q by 2^31 t: a binade's polynomial about its middle. */
FI_INLINE floats_t brief_floats(floats_t t) {
    words_t bits = float_words(t), segment = shift_words(bits, 23);
    bits = or_words(and_words(bits, all_words(0x7FFFFF)), all_words(0x3F800000));
    floats_t x = word_floats(add_floats(bits, float_words(all_floats(-1.5f))));
    floats_t p = brief_coefficients(FI_BRIEF_FLOATS, segment);
    _Pragma("GCC unroll 8") for (int power = FI_BRIEF_FLOATS - 1; power >= 0; power--) p =
        fma_floats(p, x, brief_coefficients(power, segment));
    return p;
}

/* The ends of the intervals in which |w| lies, by the upper halves of the draws. */
FI_INLINE void interval_floats(fi_base base, words_t upper, const fi_spec *spec, floats_t *low, floats_t *high) {
    words_t distance = distance_words(upper), left = subtract_words(all_words(0x7FFFFFFF), distance);
    floats_t q = floats_of(distance), t = q;
    if (base == FI_NORMAL) t = floats_of_31_bits(left);
    if (base == FI_TRUNCATED_NORMAL) {
        t = fma_floats(floats_of(left), all_floats(spec->share), all_floats(spec->tail));
        t = least_floats(t, all_floats(0x1.fffffep30f));
    }
    if (base != FI_CENTERED_UNIFORM) *low = multiply_floats(q, brief_floats(t));
    *low = multiply_floats(base == FI_CENTERED_UNIFORM ? q : *low, all_floats(spec->step));
    *high = fma_floats(*low, all_floats(spec->wide), all_floats(spec->slack));
    if (base != FI_CENTERED_UNIFORM) *high = infinite_below(*high, t, FLOAT_CUT);
    /* Near 0 the exact way's 1 - t has an absolute error, and it can be a zero, which is +0. */
    if (base == FI_TRUNCATED_NORMAL) *high = infinite_below(*high, q, 0x1p14f);
}

/* Rounded to nearest, ties up: where both ends of an interval give one value, no tie lies within. */
FI_INLINE line_t nearest_halves(fi_dtype dtype, floats_t x, floats_t y) {
    if (dtype == FI_FLOAT16) return float16_halves(x, y);
    return upper_halves(add_words(float_words(x), all_words(0x8000)),
                        add_words(float_words(y), all_words(0x8000)));
}

/* A line of 16-bit weights by float32 lanes; a bit for each weight that is unsure. */
FI_INLINE uint64_t halves_block(fi_base base, fi_dtype dtype, draws_t *at, draws_t stride, const fi_spec *spec,
                                line_t *line) {
    floats_t low[2], high[2];
    words_t upper[2] = {upper_words(at[0], at[1]), upper_words(at[2], at[3])};
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) at[i] = add_draws(at[i], stride);
    _Pragma("GCC unroll 2") for (int i = 0; i < 2; i++) interval_floats(base, upper[i], spec, &low[i], &high[i]);
    line_t codes = nearest_halves(dtype, low[0], low[1]), others = nearest_halves(dtype, high[0], high[1]);
    line_t signs = upper_halves(upper[0], upper[1]), clamped = codes;
    if (base != FI_NORMAL) {
        const line_t most = all_words(spec->most * 0x10001u), most_below = all_words(spec->most_below * 0x10001u);
        clamped = least_halves(codes, select_halves(signs, most, most_below));
    }
    *line = or_words(clamped, and_words(signs, all_words(0x80008000)));
    return unequal_halves(codes, others);
}

#else
enum { HAS_INTERVALS = false };
FI_INLINE uint64_t halves_block(fi_base base, fi_dtype dtype, draws_t *at, draws_t stride, const fi_spec *spec,
                                line_t *line) {
    (void)base, (void)dtype, (void)at, (void)stride, (void)spec, (void)line;
    return 0;
}
#define line_draws(x, step, at) (void)(at)
#endif

/* A tile is filled by the short way, mended, and only then streamed: a scalar store into a line that has left the
 * caches would fetch it again, and a branch for each unsure weight would be mispredicted. */
enum { TILE_BYTES = 8192, TILE_BLOCKS = TILE_BYTES / (2 * HALVES) };
typedef struct {
    int count;
    int block[TILE_BLOCKS];
    uint64_t bits[TILE_BLOCKS];
} unsure_t;

static __attribute__((noinline)) void mend(char *tile, const unsure_t *unsure, uint64_t x, uint64_t step,
                                           const fi_spec *spec) {
    size_t itemsize = spec->dtype == FI_FLOAT32 ? 4 : 2, length = spec->dtype == FI_FLOAT32 ? FLOATS : HALVES;
    for (int i = 0; i < unsure->count; i++) {
        for (uint64_t bits = unsure->bits[i]; bits; bits &= bits - 1) {
            size_t j = (size_t)unsure->block[i] * length + (size_t)__builtin_ctzll(bits);
            uint64_t code = to_format(weight(mix64(x + j * step), spec), &formats[spec->dtype]);
            memcpy(tile + j * itemsize, &code, itemsize); /* its lower bytes: vector levels are little-endian */
        }
    }
}

typedef void (*part_t)(void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec);

FI_INLINE void fill_brief(fi_base base, fi_dtype dtype, char *out, size_t count, uint64_t x, uint64_t step,
                          const fi_spec *given, bool stream, part_t part) {
    enum { BLOCK_LINES = FLIGHT / 2 };
    const int itemsize = dtype == FI_FLOAT32 ? 4 : 2, length = dtype == FI_FLOAT32 ? FLOATS : HALVES;
    const int lines = length * itemsize / LINE_BYTES, most = TILE_BYTES / (length * itemsize);
    _Alignas(LINE_BYTES) char buffer[TILE_BYTES];
    const fi_spec spec = *given;
    const draws_t stride = all_draws(step * (dtype == FI_FLOAT32 ? LANES : HALVES));
    draws_t at[4];
    unsure_t unsure;
    size_t head = stream ? -(uintptr_t)out % LINE_BYTES / (size_t)itemsize : 0;
    if (head > count) head = count;
    if (head) part(out, head, x, step, given);
    out += head * (size_t)itemsize, count -= head, x += head * step;
    if (dtype == FI_FLOAT32)
        at[0] = every_draw(x, step);
    else
        line_draws(x, step, at);
    while (count >= (size_t)length) {
        int blocks = count / (size_t)length < (size_t)most ? (int)(count / (size_t)length) : most;
        size_t done = (size_t)blocks * (size_t)length;
        char *tile = stream ? buffer : out, *place = tile;
        unsure.count = 0;
        for (int i = 0; i < blocks; i++) {
            line_t line[BLOCK_LINES];
            uint64_t bits = dtype == FI_FLOAT32 ? float32_block(base, at, stride, &spec, line)
                                                : halves_block(base, dtype, at, stride, &spec, line);
            _Pragma("GCC unroll 4") for (int j = 0; j < lines; j++, place += LINE_BYTES)
                store_line(place, line[j]);
            unsure.block[unsure.count] = i;
            unsure.bits[unsure.count] = bits;
            unsure.count += bits != 0;
        }
        mend(tile, &unsure, x, step, given);
        if (stream)
            for (size_t j = 0; j < done * (size_t)itemsize; j += LINE_BYTES)
                stream_line(out + j, load_line(tile + j));
        out += done * (size_t)itemsize, count -= done, x += done * step;
    }
    if (count) part(out, count, x, step, given);
}

/* ---- kernels ----
 *
 * The loop goes by blocks of one or more lines. A block that is only partly wanted (before the first aligned
 * address, or at the end) is computed whole and copied in part: the bits cannot differ from those of the loop. That
 * is a function of its own, so that a kernel holds its long chain of operations once in each loop and no more. */

/* How many lines hold FLIGHT vectors; at least one. */
#define LINES(base, type) ((FLIGHT_##base * LANES * sizeof(type) + LINE_BYTES - 1) / LINE_BYTES)

#define BASE_NUMBER(with, number, base) BASE_##base = number,
enum { FI_EACH_BASE(BASE_NUMBER, ) };
#undef BASE_NUMBER

/* The short ways that there are. */
#define IS_BRIEF(base, width)                                                                   \
    ((width) == 32 ? BASE_##base == BASE_normal || BASE_##base == BASE_truncated_normal         \
                   : (width) == 16 && HAS_INTERVALS &&                                          \
                         (BASE_##base == BASE_centered_uniform || BASE_##base == BASE_normal || \
                          BASE_##base == BASE_truncated_normal))

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
            draws[i] = stirred_lanes(*at);                                                                        \
            *at = add_draws(*at, stride);                                                                         \
        }                                                                                                         \
        (base##_vectors)(draws, weights, BLOCK_VECTORS, spec, NULL);                                              \
        _Pragma("GCC unroll 8") for (int i = 0; i < BLOCK_VECTORS; i++) if (clamped) weights[i] =                 \
            clamp_lanes(weights[i], spec->lo, spec->hi);                                                          \
        _Pragma("GCC unroll 8") for (int i = 0; i < LINES_##base##_##dtype; i++) block.lines[i] =                 \
            (pack_##dtype)(weights + i * LINE_VECTORS);                                                           \
        return block;                                                                                             \
    }                                                                                                             \
                                                                                                                  \
    static __attribute__((noinline)) void part_##base##_##dtype(void *out, size_t count, uint64_t x,              \
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
    static __attribute__((noinline)) void brief_##base##_##dtype(                                                 \
        void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, bool stream) {                   \
        if (IS_BRIEF(base, width))                                                                                \
            fill_brief((fi_base)BASE_##base, number, out, count, x, step, spec, stream, part_##base##_##dtype);   \
    }                                                                                                             \
    static void KERNEL_NAME(base, dtype)(void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, \
                                         bool stream) {                                                           \
        if (IS_BRIEF(base, width) && spec->brief)                                                                 \
            brief_##base##_##dtype(out, count, x, step, spec, stream);                                            \
        else if (FLIGHT_##base > 1 || IS_BRIEF(base, width))                                                      \
            /* long or rare: four copies are much code, and two tests are lost in the work */                     \
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

/* ---- draws alone ---- */

static uint64_t CONCAT(sum_draws, LEVEL)(uint64_t x, size_t count) {
    enum { BLOCK = LANES * FLIGHT };
    draws_t at[FLIGHT], sum[FLIGHT];
    EACH_VECTOR {
        at[i] = every_draw(x + (uint64_t)(LANES * i) * FI_GAMMA, FI_GAMMA);
        sum[i] = all_draws(0);
    }
    x += (count - count % BLOCK) * FI_GAMMA;
    const draws_t stride = all_draws(BLOCK * FI_GAMMA);
    for (; count >= BLOCK; count -= BLOCK) {
        EACH_VECTOR {
            sum[i] = add_draws(sum[i], mixed_lanes(stirred_lanes(at[i])));
            at[i] = add_draws(at[i], stride);
        }
    }
    uint64_t each[BLOCK], total = 0;
    memcpy(each, sum, sizeof each);
    for (int i = 0; i < BLOCK; i++) total += each[i];
    for (; count; count--, x += FI_GAMMA) total += mix64(x);
    return total;
}
