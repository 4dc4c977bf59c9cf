/* What a whole-tensor fill needs of C: its weights are made in float64, and stored in their dtype. */
#include "formats.h"
#include "splitmix64.h"

void fi_keys(uint64_t *keys, int64_t count, uint64_t state) {
    for (int64_t i = 0; i < count; ++i) keys[i] = mix64(splitmix64_next(&state));
}

/* No floating-point environment is entered: these are integers alone. */
void fi_narrow(const double *values, int64_t count, fi_dtype dtype, void *bits) {
#define NARROW(with, constant, name, width, ...)                                                      \
    case constant:                                                                                    \
        for (int64_t i = 0; i < count; ++i)                                                           \
            ((uint##width##_t *)bits)[i] = (uint##width##_t)to_format(values[i], &formats[constant]); \
        break;
    switch (dtype) { FI_EACH_DTYPE(NARROW, ) }
#undef NARROW
}
