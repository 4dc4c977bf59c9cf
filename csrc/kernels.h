/* Internal: what a level is. A level fills one contiguous, aligned run: element j takes the draw
 * mix64(x + j * step). One file per level; every level equals kernels_portable.c bit for bit. */
#ifndef FI_KERNELS_H
#define FI_KERNELS_H

#include "fastinit.h"

typedef void (*fi_kernel)(void *out, size_t count, uint64_t x, uint64_t step, const fi_spec *spec);

typedef struct {
    const char *name;
    bool (*supported)(void);
    fi_kernel fill[FI_BASES][FI_DTYPES];
} fi_level;

extern const fi_level fi_level_portable;

/* The level chosen for this process. */
const fi_level *fi_level_current(void);

#endif
