/* The loop that every vector level shares; the level's own file defines the helpers and includes this last.
 *
 *   LEVEL                        the level's name, for the names of its kernels
 *   draws_t, weights_t, line_t   LANES 64-bit integers, LANES float64, one line of LINE_BYTES
 *   every_lane(x, step)          x, x + step, x + 2 * step, ...
 *   add_draws(a, b), all_lanes(x), mix64_lanes(x)
 *   constant_lanes, uniform_lanes, centered_uniform_lanes   (draws, spec) -> weights
 *   FLIGHT                       how many vectors a long chain of operations needs in flight to keep the units busy
 *   normal_vectors, truncated_normal_vectors   (draws[], weights[], count, spec), count a multiple of FLIGHT
 *   clamp_lanes(weights, spec)
 *   pack_<dtype>(weights[])      LINE_BYTES / itemsize weights in order -> one line
 *   store_line, stream_line      to any address; to an aligned one, around the caches
 *
 * The loop goes by blocks of one or more lines. A block that is only partly wanted (before the first aligned
 * address, or at the end) is computed whole and copied in part: the bits cannot differ from those of the loop.
 */
#ifndef LEVEL
#error "loop.h is included by a level's file, which defines LEVEL first"
#endif

/* Short bases take a vector at a time. */
#define DEFINE_VECTORS(base)                                                                                   \
    static inline __attribute__((always_inline)) void base##_vectors(const draws_t *draws, weights_t *weights, \
                                                                     int count, const fi_spec *spec) {         \
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++) weights[i] = base##_lanes(draws[i], spec);     \
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

/* How many lines hold FLIGHT vectors; at least one. */
#define LINES(base, type) ((FLIGHT_##base * LANES * sizeof(type) + LINE_BYTES - 1) / LINE_BYTES)

#define DEFINE_FILL(base, number, dtype, width, type, ...)                                                        \
    enum { LINES_##base##_##dtype = LINES(base, type) };                                                          \
    typedef struct {                                                                                              \
        line_t lines[LINES_##base##_##dtype];                                                                     \
    } block_##base##_##dtype;                                                                                     \
                                                                                                                  \
    static inline __attribute__((always_inline)) block_##base##_##dtype next_##base##_##dtype(                    \
        draws_t *at, draws_t stride, const fi_spec *spec, bool clamped) {                                         \
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
        base##_vectors(draws, weights, BLOCK_VECTORS, spec);                                                      \
        _Pragma("GCC unroll 8") for (int i = 0; i < BLOCK_VECTORS; i++) if (clamped) weights[i] =                 \
            clamp_lanes(weights[i], spec);                                                                        \
        _Pragma("GCC unroll 8") for (int i = 0; i < LINES_##base##_##dtype; i++) block.lines[i] =                 \
            pack_##dtype(weights + i * LINE_VECTORS);                                                             \
        return block;                                                                                             \
    }                                                                                                             \
                                                                                                                  \
    static inline __attribute__((always_inline)) void run_##base##_##dtype(                                       \
        type *out, size_t count, uint64_t x, uint64_t step, const fi_spec *given, bool clamped, bool stream) {    \
        enum { LINE = LINE_BYTES / sizeof(type), BLOCK = LINE * LINES_##base##_##dtype };                         \
        const fi_spec spec = *given; /* a copy that no store to out can alias */                                  \
        const draws_t stride = all_lanes(step * LANES);                                                           \
        draws_t at = every_lane(x, step);                                                                         \
        block_##base##_##dtype block;                                                                             \
        size_t head = stream ? -(uintptr_t)out % LINE_BYTES / sizeof(type) : 0;                                   \
        if (head) {                                                                                               \
            if (head > count) head = count;                                                                       \
            block = next_##base##_##dtype(&at, stride, &spec, clamped);                                           \
            memcpy(out, &block, head * sizeof(type));                                                             \
            out += head;                                                                                          \
            count -= head;                                                                                        \
            at = every_lane(x + head * step, step);                                                               \
        }                                                                                                         \
        for (; count >= BLOCK; count -= BLOCK, out += BLOCK) {                                                    \
            block = next_##base##_##dtype(&at, stride, &spec, clamped);                                           \
            _Pragma("GCC unroll 8") for (int i = 0; i < LINES_##base##_##dtype; i++) {                            \
                if (stream)                                                                                       \
                    stream_line(out + i * LINE, block.lines[i]);                                                  \
                else                                                                                              \
                    store_line(out + i * LINE, block.lines[i]);                                                   \
            }                                                                                                     \
        }                                                                                                         \
        if (count) {                                                                                              \
            block = next_##base##_##dtype(&at, stride, &spec, clamped);                                           \
            memcpy(out, &block, count * sizeof(type));                                                            \
        }                                                                                                         \
    }                                                                                                             \
    static void KERNEL_NAME(base, dtype)(void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, \
                                         bool stream) {                                                           \
        if (FLIGHT_##base > 1) /* long: one copy of the code, and its two tests are lost in the work */           \
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
