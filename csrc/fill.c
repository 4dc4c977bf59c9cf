/* A region, walked into kernel calls. */
#include <string.h>

#include "formats.h"
#include "fpenv.h"
#include "levels/level.h"
#include "splitmix64.h"

typedef struct {
    fi_kernel kernel;
    const fi_spec *spec;
    int64_t itemsize;
    bool swapped, stream;
} filler;

/* Move weights from a buffer to where they belong, through one constant-size copy a dtype. */
static void scatter(char *out, const char *weights, int64_t count, int64_t stride, const filler *f) {
#define SCATTER(type, swap)                                                       \
    for (int64_t j = 0; j < count; j++, out += stride, weights += sizeof(type)) { \
        type w;                                                                   \
        memcpy(&w, weights, sizeof w);                                            \
        if (f->swapped) w = swap(w);                                              \
        memcpy(out, &w, sizeof w);                                                \
    }
    switch (f->itemsize) {
    case 8: SCATTER(uint64_t, __builtin_bswap64) break;
    case 4: SCATTER(uint32_t, __builtin_bswap32) break;
    case 2: SCATTER(uint16_t, __builtin_bswap16) break;
    case 1: SCATTER(uint8_t, (uint8_t)) break;
    }
#undef SCATTER
}

enum { TILE = 512 }; /* elements; with what is scattered from it, it stays in the first cache */

/* One run along an axis. Kernels write contiguous, aligned, native memory; anything else goes through a
 * buffer. */
static void fill_run(char *out, int64_t count, int64_t stride, uint64_t x, uint64_t step, const filler *f) {
    bool contiguous = stride == f->itemsize || count == 1;
    if (contiguous && !f->swapped && (int64_t)((uintptr_t)out % (uintptr_t)f->itemsize) == 0) {
        f->kernel(out, (size_t)count, x, step, f->spec, f->stream);
        return;
    }
    union {
        double aligned;
        char bytes[TILE * sizeof(double)];
    } tile;
    for (int64_t done = 0; done < count; done += TILE) {
        int64_t n = count - done < TILE ? count - done : TILE;
        f->kernel(tile.bytes, (size_t)n, x + (uint64_t)done * step, step, f->spec, false);
        scatter(out + done * stride, tile.bytes, n, stride, f);
    }
}

/* Short rows (an F-ordered matrix of two rows, a slice of three columns) would be all kernel calls and
 * no run: take them across, a block of rows at a time, one run for each place in the row. */
enum { SHORT_ROW = 32 };

static void fill_short_rows(char *out, int64_t rows, int64_t row_stride, uint64_t row_step, int64_t length,
                            int64_t stride, uint64_t step, uint64_t x, const filler *f) {
    for (int64_t done = 0; done < rows; done += TILE) {
        int64_t n = rows - done < TILE ? rows - done : TILE;
        char *block = out + done * row_stride;
        uint64_t block_x = x + (uint64_t)done * row_step;
        for (int64_t j = 0; j < length; j++)
            fill_run(block + j * stride, n, row_stride, block_x + (uint64_t)j * step, row_step, f);
    }
}

void fi_fill(const fi_region *r, const fi_spec *spec, uint64_t state, int64_t begin, int64_t end) {
    const fi_level *level = spec->plain ? &fi_level_portable : fi_level_current();
    const filler f = {level->fill[spec->base][spec->dtype], spec, formats[spec->dtype].bits / 8, r->swapped,
                      r->stream};
    /* a region of no axes is one of one element */
    const int inner = r->ndim > 0 ? r->ndim - 1 : 0;
    const int64_t length = r->ndim > 0 ? r->length[inner] : 1;
    const int64_t stride = r->ndim > 0 ? r->stride[inner] : f.itemsize;
    const uint64_t draws = r->ndim > 0 ? r->draws[inner] : 0;
    int64_t at[FI_MAX_DIMS] = {0}, rest = begin;
    char *out = r->data;
    uint64_t draw = r->first;
    for (int i = r->ndim - 1; i >= 0; i--) {
        at[i] = rest % r->length[i];
        rest /= r->length[i];
        out += at[i] * r->stride[i];
        draw += (uint64_t)at[i] * r->draws[i];
    }
    fp_state host = fp_enter();
    while (begin < end) {
        uint64_t x = state + (draw + 1) * FI_GAMMA;
        int64_t rows = inner > 0 && at[inner] == 0 && length < SHORT_ROW ? (end - begin) / length : 0;
        int axis; /* the one that has moved on */
        int64_t moved;
        if (rows > 1) {
            axis = inner - 1;
            moved = r->length[axis] - at[axis] < rows ? r->length[axis] - at[axis] : rows;
            fill_short_rows(out, moved, r->stride[axis], r->draws[axis] * FI_GAMMA, length, stride,
                            draws * FI_GAMMA, x, &f);
            begin += moved * length;
        } else {
            axis = inner;
            moved = length - at[axis] < end - begin ? length - at[axis] : end - begin;
            fill_run(out, moved, stride, x, draws * FI_GAMMA, &f);
            begin += moved;
        }
        if (r->ndim == 0) break;
        /* carry like an odometer */
        at[axis] += moved;
        out += moved * r->stride[axis];
        draw += (uint64_t)moved * r->draws[axis];
        for (int i = axis; i > 0 && at[i] == r->length[i]; i--) {
            out += r->stride[i - 1] - r->length[i] * r->stride[i];
            draw += r->draws[i - 1] - (uint64_t)r->length[i] * r->draws[i];
            at[i] = 0;
            at[i - 1]++;
        }
    }
    fp_leave(host);
    if (r->stream) __sync_synchronize(); /* streaming stores are not ordered: done before anyone is told */
}

uint64_t fi_sum_draws(uint64_t state, size_t count) {
    return fi_level_current()->sum_draws(state + FI_GAMMA, count);
}
