/* What a level is: every kernel, written for one instruction set.
 *
 * A kernel fills one contiguous, aligned run: element j takes the draw mix64(x + j * step). Its caller has entered
 * the floating-point environment of fpenv.h. Every level equals weight.h bit for bit.
 *
 * A level's file defines LEVEL and DEFINE_FILL(base, a row of FI_EACH_DTYPE), which defines one kernel; then come
 * DEFINE_KERNELS, DEFINE_SUMMARIZE of summary.h, DEFINE_MULTILINEAR of checksum.h, sum_draws (loop.h says these for a
 * vector level) and, last, DEFINE_LEVEL.
 */
#ifndef FI_LEVEL_H
#define FI_LEVEL_H

#include "../fastinit.h"
#include "../fpenv.h"

/* `stream`: write around the caches where the level can (see region.c). */
typedef void (*fi_kernel)(void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, bool stream);

/* Sets *block, which is zero but for its anchor, to the summary of at most SUMMARY_BLOCK weights, the next ones
 * after those of *before. */
typedef void (*fi_summarizer)(fi_summary *block, const fi_summary *before, const void *bits, int64_t count,
                              fi_dtype dtype);

/* The sum of the `count` draws mix64(x + j * gamma). */
typedef uint64_t (*fi_draw_adder)(uint64_t x, size_t count);
/* fi_multilinear. */
typedef void (*fi_multilinear_sums)(uint64_t sums[2], const void *words, const uint64_t *weights, int64_t count);

typedef struct {
    const char *name;
    fi_summarizer summarize;
    fi_draw_adder sum_draws;
    fi_multilinear_sums multilinear;
    fi_kernel fill[FI_BASES][FI_DTYPES];
} fi_level;

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define FI_X86 1
#endif
#if defined(__aarch64__) && !defined(__AARCH64EB__)
#define FI_NEON 1
#endif

extern const fi_level fi_level_portable;
extern const fi_level fi_level_avx2;
extern const fi_level fi_level_avx512;
extern const fi_level fi_level_neon;

/* The level chosen for this process. */
const fi_level *fi_level_current(void);

#define FI_INLINE static inline __attribute__((always_inline))

/* Functions between the two may use the named instruction sets, whatever the file is compiled for. So one build
 * has every level, and no other file can use an instruction that the CPU lacks. */
#define FI_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define FI_TARGET_BEGIN(sets) FI_PRAGMA(clang attribute push(__attribute__((target(sets))), apply_to = function))
#define FI_TARGET_END _Pragma("clang attribute pop")
#else
#define FI_TARGET_BEGIN(sets) _Pragma("GCC push_options") FI_PRAGMA(GCC target(sets))
#define FI_TARGET_END _Pragma("GCC pop_options")
#endif

/* Not unrolled, arrays of registers would live in memory. */
#define EACH_VECTOR(count) _Pragma("GCC unroll 8") for (int i = 0; i < (count); i++)

#define CONCAT_(a, b) a##_##b
#define CONCAT(a, b) CONCAT_(a, b)
#define QUOTE_(a) #a
#define QUOTE(a) QUOTE_(a)

/* A kernel for every base and dtype, and the table of them. */
#define KERNEL_NAME(base, dtype) CONCAT(fill_##base##_##dtype, LEVEL)
#define DEFINE_DTYPES(with, constant, base) FI_EACH_DTYPE(DEFINE_FILL, base)
#define DEFINE_KERNELS FI_EACH_BASE(DEFINE_DTYPES, )
#define LEVEL_CELL(base, constant, dtype, ...) [constant] = KERNEL_NAME(base, dtype),
#define LEVEL_ROW(with, constant, base) [constant] = {FI_EACH_DTYPE(LEVEL_CELL, base)},
#define DEFINE_LEVEL                                                                     \
    const fi_level CONCAT(fi_level, LEVEL) = {.name = QUOTE(LEVEL),                      \
                                              .summarize = CONCAT(summarize, LEVEL),     \
                                              .multilinear = CONCAT(multilinear, LEVEL), \
                                              .sum_draws = CONCAT(sum_draws, LEVEL),     \
                                              .fill = {FI_EACH_BASE(LEVEL_ROW, )}};

#endif
