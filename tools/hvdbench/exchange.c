/* exchange.c: copy bytes between the ranks of a node through shared memory. */
#include "config.h"

#include "tools/hvdbench/exchange.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/descriptors.h"

/* As large as hvd's own chunks, which fit in the second-level cache. */
#define CHUNK_BYTES ((int64_t)128 * 1024)
#define CHUNKS      4
#define SPINS       200 /* before it yields the core */

/* Chunks that one rank writes and another reads. Each side has its counter on its own cache line. */
struct exchange_area {
    _Alignas(64) _Atomic int64_t written;
    _Alignas(64) _Atomic int64_t taken;
    _Alignas(4096) unsigned char chunks[CHUNKS][CHUNK_BYTES];
};

/* ---- Opening -------------------------------------------------------------------------------------- */

static struct exchange_area *map(int fd)
{
    void *area = mmap(NULL, sizeof(struct exchange_area), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return area == MAP_FAILED ? NULL : area;
}

static int make_own(struct exchange *exchange, int *fdp, struct hvd_error *err)
{
    *fdp = memfd_create("hvdbench", MFD_CLOEXEC);
    if (*fdp < 0 || ftruncate(*fdp, sizeof(struct exchange_area)) != 0)
        return error_set_errno(err, "no memory to share with other ranks");
    exchange->own = map(*fdp);
    return exchange->own != NULL ? HVD_OK : error_set_errno(err, "no memory to share with other ranks");
}

/* [places]: the process id of each rank, and its descriptor there. */
static int map_previous(struct exchange *exchange, const struct bench *bench, const int32_t *places,
                        struct hvd_error *err)
{
    char path[64];
    int previous = (bench->rank + bench->size - 1) % bench->size;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)places[2 * previous], (int)places[2 * previous + 1]);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    exchange->previous = fd >= 0 ? map(fd) : NULL;
    int status = exchange->previous != NULL
                     ? HVD_OK
                     : error_set_errno(err, "rank %d cannot open %s, the memory of rank %d", bench->rank,
                                       path, previous);
    descriptors_close(&fd);
    return status;
}

static int share_fds(const struct bench *bench, int fd, int32_t *places, struct hvd_error *err)
{
    struct hvd_tensor tensor = hvd_vector("hvdbench.places", places, 2 * (int64_t)bench->size, HVD_INT32);
    places[2 * bench->rank] = getpid();
    places[2 * bench->rank + 1] = fd;
    int status = hvd_allreduce(&tensor, HVD_SUM, NULL);
    return status == HVD_OK ? HVD_OK : bench_hvd_error(status, "telling each other about shared memory", err);
}

int exchange_open(struct exchange *exchange, struct bench *bench, struct hvd_error *err)
{
    int fd = -1;
    int32_t *places = calloc((size_t)bench->size * 2, sizeof(*places));
    *exchange = (struct exchange){NULL, NULL};
    int status =
        places != NULL ? make_own(exchange, &fd, err) : error_set_errno(err, "no memory for a list of ranks");
    status = bench_agree(bench, status, err);
    if (status == HVD_OK)
        status = bench_agree(bench, share_fds(bench, fd, places, err), err);
    if (status == HVD_OK)
        status = bench_agree(bench, map_previous(exchange, bench, places, err), err);
    descriptors_close(&fd);
    free(places);
    if (status != HVD_OK)
        exchange_close(exchange);
    return status;
}

static void unmap(struct exchange_area *area)
{
    if (area != NULL)
        munmap(area, sizeof(*area));
}

void exchange_close(struct exchange *exchange)
{
    unmap(exchange->own);
    unmap(exchange->previous);
    *exchange = (struct exchange){NULL, NULL};
}

/* ---- Exchanging ----------------------------------------------------------------------------------- */

/* The size of the chunk at [at], of [bytes] in total. */
static size_t chunk_at(int64_t at, int64_t bytes)
{
    return (size_t)(bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES);
}

static bool write_chunk(struct exchange_area *area, const unsigned char *from, int64_t bytes, int64_t *atp)
{
    int64_t written = atomic_load_explicit(&area->written, memory_order_relaxed);
    if (*atp >= bytes || written - atomic_load_explicit(&area->taken, memory_order_acquire) == CHUNKS)
        return false;
    memcpy(area->chunks[written % CHUNKS], from + *atp, chunk_at(*atp, bytes));
    atomic_store_explicit(&area->written, written + 1, memory_order_release);
    *atp += CHUNK_BYTES;
    return true;
}

static bool read_chunk(struct exchange_area *area, unsigned char *to, int64_t bytes, int64_t *atp)
{
    int64_t taken = atomic_load_explicit(&area->taken, memory_order_relaxed);
    if (*atp >= bytes || atomic_load_explicit(&area->written, memory_order_acquire) == taken)
        return false;
    memcpy(to + *atp, area->chunks[taken % CHUNKS], chunk_at(*atp, bytes));
    atomic_store_explicit(&area->taken, taken + 1, memory_order_release);
    *atp += CHUNK_BYTES;
    return true;
}

void exchange_run(const struct exchange *exchange, unsigned char *to, const unsigned char *from,
                  int64_t bytes)
{
    int64_t written = 0;
    int64_t taken = 0;
    int looks = 0;
    while (written < bytes || taken < bytes) {
        bool took = read_chunk(exchange->previous, to, bytes, &taken);
        bool wrote = write_chunk(exchange->own, from, bytes, &written);
        looks = took || wrote ? 0 : looks + 1;
        if (looks > SPINS)
            sched_yield();
        else if (looks > 0)
            cpu_relax();
    }
}
