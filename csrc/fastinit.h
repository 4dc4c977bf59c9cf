/* fastinit's C core: the one header its callers see. Read it from top to bottom:
 *
 *   FI_EACH_*       the lists of bases and dtypes
 *   fi_spec_init    what to draw: distribution + dtype -> constants, checked once
 *   fi_region       where to: any strided memory, and which draw each of its elements takes
 *   fi_fill         a range of a region; pure, reentrant, any number of threads at once
 *   fi_scale        fan arithmetic, in the same floating-point environment as the kernels
 *   fi_narrow       a finished float64 tensor to its dtype
 *   fi_summarize    what stored weights hold
 *   fi_level_*      which kernels run
 *   fi_next_*       one draw at a time, in the shape numpy's bit generators have
 */
#ifndef FASTINIT_H
#define FASTINIT_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    FI_OK = 0,
    FI_NOT_AN_INTERVAL,  /* low < high does not hold, or high - low is not finite */
    FI_EMPTY_INTERVAL,   /* no value of the dtype lies in the interval */
    FI_BEYOND_RANGE,     /* a finite bound, constant or spread lies beyond the dtype's finite range */
    FI_NOT_A_SPREAD,     /* the mean is not finite, or std is negative or not finite */
    FI_UNKNOWN_LEVEL,    /* no level of that name is built in */
    FI_UNSUPPORTED_LEVEL /* this CPU or operating system cannot run it */
} fi_status;

/* The bases. With k the top 53 bits of a draw, u = k * 2^-53 and all arithmetic in float64:
 *
 *   FI_CONSTANT          p[0]                         takes no draws
 *   FI_UNIFORM           p[0] + (p[1] - p[0]) * u     in [p[0], p[1]): two roundings
 *   FI_CENTERED_UNIFORM  p[0] * (2u - 1)              in [-p[0], p[0]): one rounding
 *   FI_NORMAL            p[0] + p[1] * z              two roundings; z as in quantile.h
 *   FI_TRUNCATED_NORMAL  p[0] + p[1] * z              z on [p[2], p[3]] as in truncated.h, whose four constants
 *                                                     p[4] to p[7] are
 *
 * Then the value is rounded once, to nearest even, to the dtype, and clamped to the interval's values in that
 * dtype (truncated: p[0] + p[1] * bound, both inclusive).
 *
 * This list and the next are the only ones: enums, tables, kernels and Python's names are made from them, so a
 * base or a dtype that lacks a part does not compile. `with` is handed to every X(with, ...), because one list
 * must be able to run inside the other. */
#define FI_EACH_BASE(X, with)                      \
    X(with, FI_CONSTANT, constant)                 \
    X(with, FI_UNIFORM, uniform)                   \
    X(with, FI_CENTERED_UNIFORM, centered_uniform) \
    X(with, FI_NORMAL, normal)                     \
    X(with, FI_TRUNCATED_NORMAL, truncated_normal)

/* The dtypes: X(with, constant, name, bits, C type that holds a weight, bits of the stored significand, bias of
 * the exponent, largest finite value). */
#define FI_EACH_DTYPE(X, with)                                       \
    X(with, FI_FLOAT64, float64, 64, double, 52, 1023, DBL_MAX)      \
    X(with, FI_FLOAT32, float32, 32, float, 23, 127, FLT_MAX)        \
    X(with, FI_FLOAT16, float16, 16, uint16_t, 10, 15, 65504)        \
    X(with, FI_BFLOAT16, bfloat16, 16, uint16_t, 7, 127, 0x1.FEp127) \
    X(with, FI_FLOAT8_E4M3FN, float8_e4m3fn, 8, uint8_t, 3, 7, 448)  \
    X(with, FI_FLOAT8_E5M2, float8_e5m2, 8, uint8_t, 2, 15, 57344)

#define FI_ENUMERATOR(with, constant, ...) constant,
#define FI_COUNTED(with, ...) +1
typedef enum { FI_EACH_BASE(FI_ENUMERATOR, ) } fi_base;
typedef enum { FI_EACH_DTYPE(FI_ENUMERATOR, ) } fi_dtype;
/* Not enumerators of the two: then a switch would have to serve them. */
enum { FI_BASES = FI_EACH_BASE(FI_COUNTED, ), FI_DTYPES = FI_EACH_DTYPE(FI_COUNTED, ), FI_PARAMETERS = 8 };
#undef FI_ENUMERATOR
#undef FI_COUNTED

/* "float64", "truncated_normal": what Python calls them. */
const char *fi_base_name(fi_base base);
const char *fi_dtype_name(fi_dtype dtype);

typedef struct {
    fi_base base;
    fi_dtype dtype;
    double scale;        /* uniform: high - low; normal: std;
                          * centered: a * 2^-52, or a where that would be subnormal */
    double shift;        /* uniform: low; constant: the value; normal: the mean */
    double presteps;     /* centered: what the integer step is multiplied by first, exactly: 1 or 2^-52 */
    double lo, hi;       /* clamp, values of the dtype; -inf and inf where every draw complies unclamped */
    bool clamped;        /* whether lo or hi is finite */
    double lower, upper; /* truncated: z's bounds */
    double low_tail, high_tail, width, split;     /* truncated, near zero: see truncated_near */
    double inner, outer_share, span, inner_mills; /* truncated, far from it: see fi_truncated_far */
    bool far;                                     /* which of the two */
    bool plain;                                   /* only the portable level serves: see spec.c */
    bool brief;                                   /* the short ways of brief.h serve; the rest is theirs */
    float step, wide, slack;                      /* from steps of 2^-31 to both ends of a weight's interval */
    float tail, share;                            /* truncated: 2^31 t for 2^31 (1 - |q|) */
    uint16_t most, most_below;                    /* largest magnitude, as 16 bits, above 0 and below */
} fi_spec;

fi_status fi_spec_init(fi_spec *spec, fi_base base, fi_dtype dtype, const double *parameters);

/* Element (i0, i1, ...) lies at data + sum(i * stride) and takes draw first + sum(i * draws). */
#define FI_MAX_DIMS 64
typedef struct {
    char *data;
    bool swapped; /* stored in the other byte order */
    int ndim;
    int64_t length[FI_MAX_DIMS];
    int64_t stride[FI_MAX_DIMS]; /* bytes */
    uint64_t draws[FI_MAX_DIMS]; /* modulo 2^64 */
    uint64_t first;
    bool stream; /* write around the caches */
} fi_region;

/* Rearrange a region so that memory is walked forwards in the longest runs it allows. Changes the
 * order of the walk, never which draw an element takes. */
void fi_region_normalize(fi_region *region);
int64_t fi_region_size(const fi_region *region);

/* Decide how the memory of a normalized region is best written: set `stream`, and ask for huge pages where no page
 * backs a large region yet. */
typedef enum { FI_STORES_AUTO = 0, FI_STORES_ORDINARY, FI_STORES_STREAMING } fi_stores;
void fi_region_prepare(fi_region *region, fi_dtype dtype, fi_stores stores);

/* Bytes of the CPU's last level of cache, 0 where the system does not say; and the bytes of a resident target from
 * which on FI_STORES_AUTO streams where the last cache is that large. */
int64_t fi_last_level_cache(void);
int64_t fi_stream_bytes(int64_t last_level_cache);

/* Fill elements [begin, end) of a normalized region, counted in its walking order. */
void fi_fill(const fi_region *region, const fi_spec *spec, uint64_t state, int64_t begin, int64_t end);

/* The sum modulo 2^64 of a stream's first draws, by the level in use: a fill that converts and stores nothing. */
uint64_t fi_sum_draws(uint64_t state, size_t count);

typedef enum { FI_FAN = 0, FI_FAN_SUM, FI_FAN_PRODUCT } fi_fan;
typedef struct {
    double variance, std, limit, parent_std;
} fi_scale_result;

/* variance = scale / n, std = sqrt(scale / n), limit = sqrt((3 * scale) / n), parent_std = std / 0.8796...
 * (of the normal which, truncated at two standard deviations, has that std), the last three then times
 * gain; n is fan itself, fan / 2 for a sum of two fans, sqrt(fan) for their product. */
void fi_scale(fi_scale_result *result, double scale, double fan, fi_fan kind, double gain);

/* *x = *x * factor / sqrt(p / q): what is done to a finished spread. */
void fi_rescale(double *x, double factor, double p, double q);

/* *scale = 2 / (1 + moment * slope * slope): the squared gain of a function that is x for x > 0 and
 * slope * g(x) below, where moment is E[g(x)^2 | x < 0] of a standard normal x. */
void fi_rectifier_scale(double *scale, double slope, double moment);

/* ceil(fraction * count), one rounding for the product; fraction in [0, 1], count an integer below 2^64. */
uint64_t fi_share(double fraction, double count);

/* The keys by which sparse chooses: keys[i] = mix64(draw i). */
void fi_keys(uint64_t *keys, int64_t count, uint64_t state);

/* The sums of words[i] * weights[i] and of (words[i] >> 32) * weights[i], modulo 2^64; words need no alignment. */
void fi_multilinear(uint64_t sums[2], const void *words, const uint64_t *weights, int64_t count);

/* Round finite values, none beyond the dtype's largest, once, to nearest even; bits in native order. */
void fi_narrow(const double *values, int64_t count, fi_dtype dtype, void *bits);

/* What weights stored as little-endian bits hold: counts, extremes and central moments of the finite ones. Start
 * from zeros and any finite anchor (one near the weights keeps a small spread around a large mean exact), and add
 * runs to it in order; summaries of one anchor merge. The same runs give the same bits on every level. */
typedef struct {
    int64_t count, nan, inf, zeros; /* count: finite ones */
    int64_t at_low, at_high;        /* how many have exactly the value `low`, `high` */
    double low, high;
    double anchor, mean, m2, m3, m4; /* mean of x - anchor; sums of powers of the differences from it */
} fi_summary;

void fi_summarize(fi_summary *summary, const void *bits, int64_t count, fi_dtype dtype);
void fi_summary_merge(fi_summary *a, const fi_summary *b);

/* Little-endian stored bits to float64, exactly. */
void fi_widen(double *values, const void *bits, int64_t count, fi_dtype dtype);

const char *fi_level_name(void);
int fi_level_count(void);
const char *fi_level_at(int i);
bool fi_level_supported(int i);
fi_status fi_level_select(const char *name); /* NULL: the best supported */

/* The compiler and the flags that this was built with. */
const char *fi_build_compiler(void);
const char *fi_build_flags(void);

/* Whether the level in use, and the portable one, give known weights for every base and dtype. */
bool fi_self_test(void);

uint64_t fi_advance(uint64_t state, uint64_t draws);
uint64_t fi_next_u64(void *state);
uint32_t fi_next_u32(void *state); /* the high half of a draw; the low half is not kept */
double fi_next_unit(void *state);

#endif
