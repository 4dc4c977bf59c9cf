/* Where to: strided memory becomes the longest runs, and the operating system says how its pages are best written.
 *
 * Two facts decide how a large target is written (bench/README.md has the figures). Resident memory
 * that no cache will keep is written fastest by streaming stores, which fetch no line before overwriting it. A page
 * that does not exist yet is zeroed by the kernel on first touch, and its lines are then in the cache: there ordinary
 * stores are no slower, and what counts is to take few faults, that is huge pages.
 */
#if defined(__linux__)
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "formats.h"

/* ---- runs ---- */

static void swap_axes(fi_region *r, int i, int j) {
    int64_t length = r->length[i], stride = r->stride[i];
    uint64_t draws = r->draws[i];
    r->length[i] = r->length[j], r->stride[i] = r->stride[j], r->draws[i] = r->draws[j];
    r->length[j] = length, r->stride[j] = stride, r->draws[j] = draws;
}

void fi_region_normalize(fi_region *r) {
    int kept = 0;
    for (int i = 0; i < r->ndim; i++) { /* forwards, and without axes of length 1 */
        if (r->length[i] == 1) continue;
        if (r->stride[i] < 0) {
            r->data += r->stride[i] * (r->length[i] - 1);
            r->first += r->draws[i] * (uint64_t)(r->length[i] - 1);
            r->stride[i] = -r->stride[i];
            r->draws[i] = -r->draws[i];
        }
        swap_axes(r, kept++, i);
    }
    r->ndim = kept;
    for (int i = 1; i < kept; i++) /* the largest stride outermost; equal ones stay in order */
        for (int j = i; j > 0 && r->stride[j - 1] < r->stride[j]; j--) swap_axes(r, j - 1, j);
    int last = 0;
    for (int i = 1; i < kept; i++) { /* merge an axis into the one outside it where both march as one */
        if (r->stride[last] == r->stride[i] * r->length[i] &&
            r->draws[last] == r->draws[i] * (uint64_t)r->length[i]) {
            r->length[last] *= r->length[i];
            r->stride[last] = r->stride[i];
            r->draws[last] = r->draws[i];
        } else if (++last != i) {
            swap_axes(r, last, i);
        }
    }
    r->ndim = kept ? last + 1 : 0;
}

int64_t fi_region_size(const fi_region *r) {
    int64_t size = 1;
    for (int i = 0; i < r->ndim; i++) size *= r->length[i];
    return size;
}

/* ---- caches ---- */

/* What is smaller is neither streamed nor backed by huge pages, whatever the machine. */
#define LARGE_BYTES ((int64_t)4 << 20)
/* What is larger is streamed: a cache that could hold it is shared by dozens of cores, and often by virtual machines
 * that see it whole (300 MiB, of which it kept less than 24 for two cores). */
#define KEPT_BYTES ((int64_t)16 << 20)

/* Linux: from the kernel. sysconf(_SC_LEVEL3_CACHE_SIZE) would be shorter, but glibc adds up the caches of all core
 * complexes on AMD (384 MiB of which no core sees more than 32), and knows none on ARM; nor does musl anywhere. */
int64_t fi_last_level_cache(void) {
    long kibibytes = 0;
#if defined(__linux__)
    char path[] = "/sys/devices/system/cpu/cpu0/cache/index4/size";
    for (char *index = path + sizeof "/sys/devices/system/cpu/cpu0/cache/index" - 1; *index >= '2'; --*index) {
        FILE *file = fopen(path, "re");
        if (!file) continue;
        if (fscanf(file, "%ldK", &kibibytes) != 1) kibibytes = 0;
        fclose(file);
        break;
    }
#elif defined(__APPLE__)
    static const char *const names[] = {"hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize"};
    for (size_t i = 0; kibibytes == 0 && i < sizeof names / sizeof *names; i++) {
        int64_t bytes = 0;
        size_t size = sizeof bytes;
        if (sysctlbyname(names[i], &bytes, &size, NULL, 0) == 0) kibibytes = (long)(bytes >> 10);
    }
#endif
    return kibibytes > 0 ? (int64_t)kibibytes << 10 : 0;
}

/* A target up to half of the last cache, and to KEPT_BYTES, stays in it, and who wrote it reads it from there; the
 * other half is left to what else the machine does. */
int64_t fi_stream_bytes(int64_t last_level_cache) {
    int64_t half = last_level_cache / 2;
    return half < LARGE_BYTES ? LARGE_BYTES : half > KEPT_BYTES ? KEPT_BYTES : half;
}

/* Asked once: the question may reach the CPU, which under a hypervisor takes longer than a small fill. */
static int64_t stream_bytes_here(void) {
    static int64_t known;
    int64_t bytes = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (bytes == 0) {
        bytes = fi_stream_bytes(fi_last_level_cache());
        __atomic_store_n(&known, bytes, __ATOMIC_RELAXED);
    }
    return bytes;
}

/* ---- pages ---- */

#define HUGE_PAGE ((uintptr_t)2 << 20)

#if defined(__linux__)

/* Ask about a few pages spread over the range; fresh memory is fresh all over. */
static bool is_resident(uintptr_t begin, uintptr_t end) {
    enum { SAMPLES = 16 };
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    int backed = 0;
    for (int i = 0; i < SAMPLES; i++) {
        uintptr_t at = (begin + (end - begin) / SAMPLES * (uintptr_t)i) & ~(page - 1);
        unsigned char state = 1;
        if (mincore((void *)at, 1, &state) == 0) backed += state & 1;
    }
    return backed > SAMPLES / 2;
}

static void advise_huge_pages(uintptr_t begin, uintptr_t end) {
    begin = (begin + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    end &= ~(HUGE_PAGE - 1);
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* a hint: may be refused */
}

#else

static bool is_resident(uintptr_t begin, uintptr_t end) { return begin < end; }
static void advise_huge_pages(uintptr_t begin, uintptr_t end) { (void)begin, (void)end; }

#endif

void fi_region_prepare(fi_region *r, fi_dtype dtype, fi_stores stores) {
    int64_t itemsize = formats[dtype].bits / 8, extent = itemsize;
    for (int i = 0; i < r->ndim; i++) extent += r->stride[i] * (r->length[i] - 1);
    uintptr_t begin = (uintptr_t)r->data, end = begin + (uintptr_t)extent;
    bool large = extent >= LARGE_BYTES;
    bool resident = large && is_resident(begin, end);
    /* a few columns of a wide matrix touch few pages: huge ones would back all that lies between */
    bool dense = fi_region_size(r) * itemsize >= extent / 2;
    if (large && !resident && dense) advise_huge_pages(begin, end);
    r->stream =
        stores == FI_STORES_STREAMING || (stores == FI_STORES_AUTO && resident && extent >= stream_bytes_here());
}
