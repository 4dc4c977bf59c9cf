/* Summaries of stored weights: the entry points, and how two of them become one. */
#include "summary.h"

/* Pebay (2008), "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order
 * statistical moments", equations 2.1; for the second moment it is Chan, Golub and LeVeque's (1979). */
static __attribute__((noinline)) void merge_moments(fi_summary *a, const fi_summary *b) {
    double na = (double)a->count, nb = (double)b->count, n = na + nb;
    double delta = b->mean - a->mean, step = delta / n, product = na * nb * delta * step;
    double m4 = a->m4 + b->m4 + product * step * step * (na * na - na * nb + nb * nb) +
                6 * step * step * (na * na * b->m2 + nb * nb * a->m2) + 4 * step * (na * b->m3 - nb * a->m3);
    double m3 = a->m3 + b->m3 + product * step * (na - nb) + 3 * step * (na * b->m2 - nb * a->m2);
    a->m2 = a->m2 + b->m2 + product;
    a->m3 = m3;
    a->m4 = m4;
    a->mean = a->mean + nb * step;
}

void fi_summary_merge(fi_summary *a, const fi_summary *b) {
    a->nan += b->nan;
    a->inf += b->inf;
    if (b->count == 0) return;
    if (a->count == 0) {
        int64_t nan = a->nan, inf = a->inf;
        *a = *b;
        a->nan = nan;
        a->inf = inf;
        return;
    }
    a->zeros += b->zeros;
    if (b->low <= a->low) a->at_low = b->at_low + (b->low == a->low ? a->at_low : 0);
    if (b->high >= a->high) a->at_high = b->at_high + (b->high == a->high ? a->at_high : 0);
    a->low = b->low < a->low ? b->low : a->low;
    a->high = b->high > a->high ? b->high : a->high;
    fp_state host = fp_enter();
    merge_moments(a, b);
    fp_leave(host);
    a->count += b->count;
}

/* The moments of a block are taken in the level's registers; the blocks are joined here, in order. */
void fi_summarize(fi_summary *summary, const void *bits, int64_t count, fi_dtype dtype) {
    const fi_level *level = fi_level_current();
    int64_t itemsize = formats[dtype].bits / 8;
    fp_state host = fp_enter();
    for (int64_t begin = 0; begin < count; begin += SUMMARY_BLOCK) {
        int64_t length = count - begin < SUMMARY_BLOCK ? count - begin : SUMMARY_BLOCK;
        fi_summary block = {.anchor = summary->anchor};
        level->summarize(&block, summary, (const char *)bits + begin * itemsize, length, dtype);
        fi_summary_merge(summary, &block);
    }
    fp_leave(host);
}

void fi_widen(double *values, const void *bits, int64_t count, fi_dtype dtype) {
    fp_state host = fp_enter();
    widen_each(values, bits, count, dtype);
    fp_leave(host);
}
