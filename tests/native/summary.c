/* Summaries of the same stored bytes, of every dtype: ./a.out prints one line a dtype, the same on every level. */
#include <stdio.h>
#include <string.h>

#include "fastinit.h"
#include "splitmix64.h"

#define SIZE(with, constant, name, width, ...) [constant] = width / 8,

int main(void) {
    static unsigned char bytes[8 * 5003 + 1];
    static const int itemsize[FI_DTYPES] = {FI_EACH_DTYPE(SIZE, )};
    uint64_t state = 17;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(splitmix64_next(&state) >> 33);
    for (int level = 0; level < fi_level_count(); level++) {
        if (!fi_level_supported(level)) continue;
        if (fi_level_select(fi_level_at(level)) != FI_OK) return 2;
        printf("level %s\n", fi_level_name());
        for (int dtype = 0; dtype < FI_DTYPES; dtype++) {
            unsigned char run[sizeof bytes];
            memcpy(run, bytes, sizeof bytes);
            /* little-endian float64 and float32 of moderate size: their fourth powers must not overflow */
            for (int i = 1 + itemsize[dtype] - 1; dtype <= FI_FLOAT32 && i < (int)sizeof run; i += itemsize[dtype])
                run[i] = (unsigned char)(0x3F | (run[i] & 0x80));
            fi_summary a = {.anchor = 0.25}, b = {.anchor = 0.25};
            fi_summarize(&a, run + 1, 5003 - 2048 * 2 + 1000, (fi_dtype)dtype); /* unaligned, with a rest */
            fi_summarize(&b, run + 1, 5003, (fi_dtype)dtype);
            fi_summary_merge(&a, &b);
            printf("%d: %lld finite %lld nan %lld inf %lld zeros, %lld at %a, %lld at %a, %a %a %a %a\n", dtype,
                   (long long)a.count, (long long)a.nan, (long long)a.inf, (long long)a.zeros, (long long)a.at_low,
                   a.low, (long long)a.at_high, a.high, a.mean, a.m2, a.m3, a.m4);
        }
    }
    return 0;
}
