/* The rounding to every dtype, on every level, where it can go wrong: at each value of the format, at the
 * midpoint to the next one, and one float64 step to either side of both, with both signs. What is right follows
 * from the construction alone, without a rounding: the nearer value, and at the midpoint the even pattern.
 * float16, bfloat16 and float8 are taken whole, float32 at every binade's edges and at random.
 *
 *   ./rounding [RANDOM FLOAT32 VALUES]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fastinit.h"

static const struct {
    const char *name;
    int bytes, mantissa, bias;
    uint32_t largest; /* pattern of the largest finite value */
} formats[FI_DTYPES] = {
    [FI_FLOAT32] = {"float32", 4, 23, 127, 0x7F7FFFFF}, [FI_FLOAT16] = {"float16", 2, 10, 15, 0x7BFF},
    [FI_BFLOAT16] = {"bfloat16", 2, 7, 127, 0x7F7F},    [FI_FLOAT8_E4M3FN] = {"float8_e4m3fn", 1, 3, 7, 0x7E},
    [FI_FLOAT8_E5M2] = {"float8_e5m2", 1, 2, 15, 0x7B},
};

static unsigned long long checks;

static double value(uint32_t pattern, int dtype) {
    int mantissa = formats[dtype].mantissa;
    int exponent = (int)(pattern >> mantissa);
    double fraction = pattern & ((1u << mantissa) - 1);
    if (exponent == 0) return ldexp(fraction, 1 - formats[dtype].bias - mantissa);
    return ldexp(fraction + (1u << mantissa), exponent - formats[dtype].bias - mantissa);
}

static void check(double x, uint32_t expected, int dtype) {
    for (int negative = 0; negative < 2; negative++) {
        double signed_x = negative ? -x : x;
        uint32_t sign = negative ? 1u << (8 * formats[dtype].bytes - 1) : 0;
        fi_spec spec;
        double room = 0;
        fi_region region = {.data = (char *)&room, .ndim = 0};
        if (fi_spec_init(&spec, FI_CONSTANT, (fi_dtype)dtype, &signed_x) != FI_OK) {
            fprintf(stderr, "%s: %a was refused\n", formats[dtype].name, signed_x);
            exit(1);
        }
        fi_fill(&region, &spec, 17, 0, 1);
        uint32_t bits = 0;
        uint16_t half;
        memcpy(&bits, &room, 4);
        memcpy(&half, &room, 2);
        if (formats[dtype].bytes == 2) bits = half;
        if (formats[dtype].bytes == 1) bits = *(const unsigned char *)&room;
        checks++;
        if (bits != (expected | sign)) {
            fprintf(stderr, "level %s: %a as %s is 0x%x, expected 0x%x\n", fi_level_name(), signed_x,
                    formats[dtype].name, bits, expected | sign);
            exit(1);
        }
    }
}

static void check_around(uint32_t pattern, int dtype) {
    double here = value(pattern, dtype);
    check(here, pattern, dtype);
    if (pattern > 0) check(nextafter(here, 0), pattern, dtype);
    if (pattern == formats[dtype].largest) return;
    check(nextafter(here, INFINITY), pattern, dtype);
    double middle = (here + value(pattern + 1, dtype)) / 2; /* exact: one more bit than the format has */
    check(middle, pattern & 1 ? pattern + 1 : pattern, dtype);
    check(nextafter(middle, 0), pattern, dtype);
    check(nextafter(middle, INFINITY), pattern + 1, dtype);
}

int main(int count, char **arguments) {
    long long random = count > 1 ? atoll(arguments[1]) : 100000;
    for (int i = 0; i < fi_level_count(); i++) {
        if (!fi_level_supported(i)) continue;
        fi_level_select(fi_level_at(i));
        for (int dtype = FI_FLOAT16; dtype < FI_DTYPES; dtype++)
            for (uint32_t pattern = 0; pattern <= formats[dtype].largest; pattern++) check_around(pattern, dtype);
        for (uint32_t exponent = 0; exponent < 255; exponent++) {
            for (uint32_t near = 0; near < 4; near++) {
                check_around((exponent << 23) + near, FI_FLOAT32);
                check_around(((exponent + 1) << 23) - 1 - near, FI_FLOAT32);
            }
        }
        uint64_t state = 17;
        for (long long j = 0; j < random; j++)
            check_around((uint32_t)(fi_next_u64(&state) % (formats[FI_FLOAT32].largest + 1u)), FI_FLOAT32);
    }
    printf("%llu roundings right\n", checks);
    return 0;
}
