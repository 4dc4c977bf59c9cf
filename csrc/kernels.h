/* Internal: what a level is. A level fills one contiguous, aligned run: element j takes the draw
 * mix64(x + j * step). One file per level; every level equals kernels_portable.c bit for bit. */
#ifndef FI_KERNELS_H
#define FI_KERNELS_H

#include "fastinit.h"

/* `stream`: write around the caches where the level can (see fi_region_prepare). */
typedef void (*fi_kernel)(void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec, bool stream);

typedef void (*fi_summarizer)(fi_summary *summary, const void *bits, int64_t count, fi_dtype dtype);

typedef struct {
    const char *name;
    fi_summarizer summarize;
    fi_kernel fill[FI_BASES][FI_DTYPES];
} fi_level;

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define FI_X86 1
#endif

/* Functions between the two may use the named instruction sets, whatever the file is compiled for. */
#define FI_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define FI_TARGET_BEGIN(sets) FI_PRAGMA(clang attribute push(__attribute__((target(sets))), apply_to = function))
#define FI_TARGET_END _Pragma("clang attribute pop")
#else
#define FI_TARGET_BEGIN(sets) _Pragma("GCC push_options") FI_PRAGMA(GCC target(sets))
#define FI_TARGET_END _Pragma("GCC pop_options")
#endif

extern const fi_level fi_level_portable;
extern const fi_level fi_level_avx2;
extern const fi_level fi_level_avx512;
extern const fi_level fi_level_neon;

/* The level chosen for this process. */
const fi_level *fi_level_current(void);

#endif
