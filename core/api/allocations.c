/* allocations.c: memory of hvd_alloc and hvd_alloc_on: where it is placed, and how it is freed. */
#include "config.h"
#include "api/allocations.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/round_up.h"

/* From this size on, huge pages are worthwhile, if the node has them. */
#define HUGE_BYTES (INT64_C(2) << 20)

static int64_t page_bytes(void)
{
    return sysconf(_SC_PAGESIZE);
}

static char *window_begin(const struct windows *windows)
{
    return windows->base + windows->own * windows->bytes;
}

static bool is_in_window(const struct windows *windows, const struct allocation *allocation)
{
    uint64_t at;
    return windows_offset_of(windows, allocation->memory, allocation->bytes, &at);
}

/* ---- Allocating --------------------------------------------------------------------------------- */

/* The lowest address in the window where it fits; NULL if there is none. */
static char *find_gap_locked(const struct allocations *allocations, const struct windows *windows,
                             int64_t bytes)
{
    const struct allocation *allocation = NULL;
    int64_t unit = bytes < HUGE_BYTES ? page_bytes() : HUGE_BYTES;
    int64_t at = 0;
    if (windows->base == NULL)
        return NULL;
    TAILQ_FOREACH(allocation, &allocations->list, link)
    {
        int64_t begin = allocation->memory - window_begin(windows);
        if (!is_in_window(windows, allocation))
            continue;
        if (bytes <= begin - at)
            break;
        at = round_up(begin + allocation->bytes, unit);
    }
    return bytes <= windows->bytes - at ? window_begin(windows) + at : NULL;
}

static void insert_locked(struct allocations *allocations, struct allocation *allocation)
{
    struct allocation *next = TAILQ_FIRST(&allocations->list);
    while (next != NULL && next->memory < allocation->memory)
        next = TAILQ_NEXT(next, link);
    if (next == NULL)
        TAILQ_INSERT_TAIL(&allocations->list, allocation, link);
    else
        TAILQ_INSERT_BEFORE(next, allocation, link);
}

/* Find a gap and make its pages usable. Returns NULL if there is no room. */
static char *open_gap_locked(const struct allocations *allocations, const struct windows *windows,
                             int64_t bytes)
{
    char *memory = find_gap_locked(allocations, windows, bytes);
    if (memory == NULL)
        return NULL;
    int64_t end = memory + bytes - window_begin(windows);
    if (windows_open(windows, windows->own, end, NULL) != HVD_OK)
        return NULL;
    madvise(memory, (size_t)bytes, MADV_DODUMP);
    return memory;
}

/* Map the memory. It is private if there is no window or no room left in it. */
static int map_locked(struct allocations *allocations, const struct windows *windows,
                      struct allocation *allocation, struct hvd_error *err)
{
    allocation->memory = open_gap_locked(allocations, windows, allocation->bytes);
    if (allocation->memory == NULL) {
        void *own =
            mmap(NULL, (size_t)allocation->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (own == MAP_FAILED)
            return error_set_errno(err, "hvd_alloc: no memory for %lld bytes", (long long)allocation->bytes);
        allocation->memory = own;
    }
    if (allocation->bytes >= HUGE_BYTES)
        madvise(allocation->memory, (size_t)allocation->bytes,
                MADV_HUGEPAGE); /* if the node has huge pages */
    return HVD_OK;
}

static int no_room_for_address(const char *call, struct hvd_error *err)
{
    return error_set(err, HVD_ERR_INVALID, "%s: memoryp is NULL; pass the address of a void *", call);
}

static int no_such_memory(const char *call, int64_t bytes, struct hvd_error *err)
{
    return error_set(err, HVD_ERR_NO_MEMORY, "%s: no memory for %lld bytes; a process can address 2^47", call,
                     (long long)bytes);
}

int allocations_allocate(struct allocations *allocations, const struct windows *windows, int64_t bytes,
                         void **memoryp, struct hvd_error *err)
{
    if (memoryp == NULL)
        return no_room_for_address("hvd_alloc", err);
    if (bytes < 0)
        return error_set(err, HVD_ERR_INVALID, "hvd_alloc: %lld bytes; expected 0 or more", (long long)bytes);
    if (bytes > BYTES_MAX)
        return no_such_memory("hvd_alloc", bytes, err);
    if (bytes == 0) {
        *memoryp = NULL;
        return HVD_OK;
    }
    struct allocation *allocation = calloc(1, sizeof(*allocation));
    if (allocation == NULL)
        return error_set_errno(err, "hvd_alloc: no memory for %zu bytes", sizeof(*allocation));
    allocation->bytes = round_up(bytes, page_bytes());
    pthread_mutex_lock(&allocations->lock);
    int rc = map_locked(allocations, windows, allocation, err);
    if (rc == HVD_OK)
        insert_locked(allocations, allocation);
    pthread_mutex_unlock(&allocations->lock);
    if (rc != HVD_OK) {
        free(allocation);
        return rc;
    }
    *memoryp = allocation->memory;
    return HVD_OK;
}

int allocations_allocate_on(struct allocations *allocations, struct gpu *gpu, int device, int64_t bytes,
                            void **memoryp, struct hvd_error *err)
{
    struct hvd_error why;
    if (memoryp == NULL)
        return no_room_for_address("hvd_alloc_on", err);
    if (bytes > BYTES_MAX)
        return no_such_memory("hvd_alloc_on", bytes, err);
    if (bytes < 0 || device < 0)
        return error_set(
            err, HVD_ERR_INVALID,
            "hvd_alloc_on: %lld bytes on device %d; expected 0 or more, and CUDA's number of a GPU",
            (long long)bytes, device);
    if (bytes == 0) {
        *memoryp = NULL;
        return HVD_OK;
    }
    struct allocation *allocation = calloc(1, sizeof(*allocation));
    if (allocation == NULL)
        return error_set_errno(err, "hvd_alloc_on: no memory for %zu bytes", sizeof(*allocation));
    int rc = gpu_memory_create(gpu, device, bytes, &allocation->on_gpu, &why);
    if (rc != HVD_OK) {
        free(allocation);
        return error_set(err, rc, "hvd_alloc_on: %s", why.text);
    }
    allocation->memory = gpu_memory_address(allocation->on_gpu);
    allocation->bytes = bytes;
    pthread_mutex_lock(&allocations->lock);
    insert_locked(allocations, allocation);
    pthread_mutex_unlock(&allocations->lock);
    *memoryp = allocation->memory;
    return HVD_OK;
}

/* ---- Freeing ---------------------------------------------------------------------------- */

/* Return the pages to the node, or the memory to its GPU. Pages of a window are then zero for their next
 * owner. */
static int release_memory(const struct windows *windows, const struct allocation *allocation,
                          struct hvd_error *err)
{
    size_t bytes = (size_t)allocation->bytes;
    if (allocation->on_gpu != NULL) {
        gpu_memory_free(allocation->on_gpu);
        return HVD_OK;
    }
    bool inside = is_in_window(windows, allocation);
    int rc = inside ? madvise(allocation->memory, bytes, MADV_REMOVE) : munmap(allocation->memory, bytes);
    if (rc != 0)
        return error_set_errno(err, "hvd_free: cannot free %zu bytes", bytes);
    if (inside)
        madvise(allocation->memory, bytes, MADV_DONTDUMP); /* a core dump would allocate the pages again */
    return HVD_OK;
}

int allocations_free(struct allocations *allocations, const struct windows *windows, void *memory,
                     struct hvd_error *err)
{
    struct allocation *allocation = NULL;
    int rc = HVD_OK;
    if (memory == NULL)
        return HVD_OK;
    pthread_mutex_lock(&allocations->lock);
    TAILQ_FOREACH(allocation, &allocations->list, link)
    {
        if (allocation->memory == memory)
            break;
    }
    if (allocation == NULL)
        rc = error_set(err, HVD_ERR_INVALID,
                       "hvd_free: %p is not memory from hvd_alloc, or was already freed", memory);
    else
        rc = release_memory(windows, allocation, err);
    if (rc == HVD_OK) {
        TAILQ_REMOVE(&allocations->list, allocation, link);
        free(allocation);
    }
    pthread_mutex_unlock(&allocations->lock);
    return rc;
}

void allocations_unmap_windows(struct allocations *allocations, struct windows *windows)
{
    const struct allocation *allocation = NULL;
    char *at = windows->base;
    if (at == NULL)
        return;
    pthread_mutex_lock(&allocations->lock);
    TAILQ_FOREACH(allocation, &allocations->list, link)
    {
        if (!is_in_window(windows, allocation))
            continue;
        if (allocation->memory > at)
            munmap(at, (size_t)(allocation->memory - at));
        at = allocation->memory + allocation->bytes;
    }
    pthread_mutex_unlock(&allocations->lock);
    char *end = windows->base + windows->count * windows->bytes;
    if (end > at)
        munmap(at, (size_t)(end - at));
    windows_disown(windows);
}

void allocations_after_fork(struct allocations *allocations)
{
    pthread_mutex_init(&allocations->lock, NULL);
}
