/* What a construction needs of C: it makes a whole tensor in float64, which is then stored in its dtype. */
#include "convert.h"
#include "fastinit.h"
#include "splitmix64.h"

void fi_keys(uint64_t *keys, int64_t count, uint64_t state) {
    for (int64_t i = 0; i < count; ++i) keys[i] = mix64(splitmix64_next(&state));
}

/* Integers alone: no host environment can move a bit. */
void fi_narrow(const double *values, int64_t count, fi_dtype dtype, void *bits) {
    const fi_format *format = &formats[dtype];
    for (int64_t i = 0; i < count; ++i) {
        uint64_t x = to_format(values[i], format);
        switch (format->bits) {
        case 8: ((uint8_t *)bits)[i] = (uint8_t)x; break;
        case 16: ((uint16_t *)bits)[i] = (uint16_t)x; break;
        case 32: ((uint32_t *)bits)[i] = (uint32_t)x; break;
        default: ((uint64_t *)bits)[i] = x;
        }
    }
}
