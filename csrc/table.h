/* A kernel for every base and dtype, and the table of them: LEVEL_TABLE.
 *
 *   LEVEL                            the level's name, for the names of its kernels
 *   DEFINE_FILL(base, dtype, type)   defines CONCAT(fill_<base>_<dtype>, LEVEL); `type` holds the bits of one
 * weight
 */
#define CONCAT_(a, b) a##_##b
#define CONCAT(a, b) CONCAT_(a, b)

#define DEFINE_FILLS(base)                    \
    DEFINE_FILL(base, float64, double)        \
    DEFINE_FILL(base, float32, float)         \
    DEFINE_FILL(base, float16, uint16_t)      \
    DEFINE_FILL(base, bfloat16, uint16_t)     \
    DEFINE_FILL(base, float8_e4m3fn, uint8_t) \
    DEFINE_FILL(base, float8_e5m2, uint8_t)

DEFINE_FILLS(constant)
DEFINE_FILLS(uniform)
DEFINE_FILLS(centered_uniform)
DEFINE_FILLS(normal)
DEFINE_FILLS(truncated)

#define FILLS(base)                                                      \
    {                                                                    \
        [FI_FLOAT64] = CONCAT(fill_##base##_float64, LEVEL),             \
        [FI_FLOAT32] = CONCAT(fill_##base##_float32, LEVEL),             \
        [FI_FLOAT16] = CONCAT(fill_##base##_float16, LEVEL),             \
        [FI_BFLOAT16] = CONCAT(fill_##base##_bfloat16, LEVEL),           \
        [FI_FLOAT8_E4M3FN] = CONCAT(fill_##base##_float8_e4m3fn, LEVEL), \
        [FI_FLOAT8_E5M2] = CONCAT(fill_##base##_float8_e5m2, LEVEL),     \
    }

#define LEVEL_TABLE                                      \
    {                                                    \
        [FI_CONSTANT] = FILLS(constant),                 \
        [FI_UNIFORM] = FILLS(uniform),                   \
        [FI_CENTERED_UNIFORM] = FILLS(centered_uniform), \
        [FI_NORMAL] = FILLS(normal),                     \
        [FI_TRUNCATED] = FILLS(truncated),               \
    }
