/* The loop that every vector level shares; the level's own file defines the helpers and includes this last.
 *
 *   LEVEL                        the level's name, for the names of its kernels
 *   draws_t, weights_t, line_t   LANES 64-bit integers, LANES float64, one line of LINE_BYTES
 *   every_lane(x, step)          x, x + step, x + 2 * step, ...
 *   add_draws(a, b), all_lanes(x), mix64_lanes(x)
 *   constant_lanes, uniform_lanes, centered_uniform_lanes   (draws, spec) -> weights
 *   clamp_lanes(weights, spec)
 *   pack_<dtype>(weights[])      LINE_BYTES / itemsize weights in order -> one line
 *   store_line, stream_line      to any address; to an aligned one, around the caches
 *
 * A line that is only partly wanted (before the first aligned address, or at the end) is computed whole and
 * copied in part: the bits cannot differ from those of the loop.
 */
#ifndef LEVEL
#error "lines.h is included by a level's file, which defines LEVEL first"
#endif

#define CONCAT_(a, b) a##_##b
#define CONCAT(a, b) CONCAT_(a, b)

#define DEFINE_FILL(base, dtype, type)                                                                   \
    static inline __attribute__((always_inline)) line_t line_##base##_##dtype(                          \
        draws_t *at, draws_t stride, const fi_spec *spec, bool clamped) {                                \
        enum { VECTORS = LINE_BYTES / sizeof(type) / LANES };                                            \
        weights_t weights[VECTORS];                                                                      \
        _Pragma("GCC unroll 8") for (int i = 0; i < VECTORS; i++) {                                      \
            weights[i] = base##_lanes(mix64_lanes(*at), spec);                                           \
            if (clamped) weights[i] = clamp_lanes(weights[i], spec);                                     \
            *at = add_draws(*at, stride);                                                                \
        }                                                                                                \
        return pack_##dtype(weights);                                                                    \
    }                                                                                                    \
                                                                                                         \
    static inline __attribute__((always_inline)) void run_##base##_##dtype(                             \
        type *out, size_t count, uint64_t x, uint64_t step, const fi_spec *given, bool clamped,          \
        bool stream) {                                                                                   \
        enum { LINE = LINE_BYTES / sizeof(type) };                                                       \
        const fi_spec spec = *given; /* a copy that no store to out can alias */                         \
        const draws_t stride = all_lanes(step * LANES);                                                  \
        draws_t at = every_lane(x, step);                                                                \
        line_t line;                                                                                     \
        size_t head = stream ? -(uintptr_t)out % LINE_BYTES / sizeof(type) : 0;                          \
        if (head) {                                                                                      \
            if (head > count) head = count;                                                              \
            line = line_##base##_##dtype(&at, stride, &spec, clamped);                                   \
            memcpy(out, &line, head * sizeof(type));                                                     \
            out += head;                                                                                 \
            count -= head;                                                                               \
            at = every_lane(x + head * step, step);                                                      \
        }                                                                                                \
        for (; count >= LINE; count -= LINE, out += LINE) {                                              \
            line = line_##base##_##dtype(&at, stride, &spec, clamped);                                   \
            if (stream)                                                                                  \
                stream_line(out, line);                                                                  \
            else                                                                                         \
                store_line(out, line);                                                                   \
        }                                                                                                \
        if (count) {                                                                                     \
            line = line_##base##_##dtype(&at, stride, &spec, clamped);                                   \
            memcpy(out, &line, count * sizeof(type));                                                    \
        }                                                                                                \
    }                                                                                                    \
                                                                                                         \
    static void CONCAT(fill_##base##_##dtype, LEVEL)(void *out, size_t count, uint64_t x, uint64_t step, \
                                                     const fi_spec *spec, bool stream) {                 \
        if (stream && spec->clamped)                                                                     \
            run_##base##_##dtype(out, count, x, step, spec, true, true);                                 \
        else if (stream)                                                                                 \
            run_##base##_##dtype(out, count, x, step, spec, false, true);                                \
        else if (spec->clamped)                                                                          \
            run_##base##_##dtype(out, count, x, step, spec, true, false);                                \
        else                                                                                             \
            run_##base##_##dtype(out, count, x, step, spec, false, false);                               \
    }

#define DEFINE_FILLS(base)                                                                               \
    DEFINE_FILL(base, float64, double)                                                                   \
    DEFINE_FILL(base, float32, float)                                                                    \
    DEFINE_FILL(base, float16, uint16_t)                                                                 \
    DEFINE_FILL(base, bfloat16, uint16_t)                                                                \
    DEFINE_FILL(base, float8_e4m3fn, uint8_t)                                                            \
    DEFINE_FILL(base, float8_e5m2, uint8_t)

#define FILLS(base)                                                                                      \
    {                                                                                                    \
        [FI_FLOAT64] = CONCAT(fill_##base##_float64, LEVEL),                                             \
        [FI_FLOAT32] = CONCAT(fill_##base##_float32, LEVEL),                                             \
        [FI_FLOAT16] = CONCAT(fill_##base##_float16, LEVEL),                                             \
        [FI_BFLOAT16] = CONCAT(fill_##base##_bfloat16, LEVEL),                                           \
        [FI_FLOAT8_E4M3FN] = CONCAT(fill_##base##_float8_e4m3fn, LEVEL),                                 \
        [FI_FLOAT8_E5M2] = CONCAT(fill_##base##_float8_e5m2, LEVEL),                                     \
    }

DEFINE_FILLS(constant)
DEFINE_FILLS(uniform)
DEFINE_FILLS(centered_uniform)

#define LEVEL_TABLE                                                                                      \
    {                                                                                                    \
        [FI_CONSTANT] = FILLS(constant), [FI_UNIFORM] = FILLS(uniform),                                  \
        [FI_CENTERED_UNIFORM] = FILLS(centered_uniform),                                                 \
    }
