/* windows.c: memory of the program that all ranks of a node can reach. */
#include "config.h"
#include "node/windows.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/round_up.h"
#include "node/shared_file.h"

#define UNIT_BYTES  (INT64_C(2) << 20) /* windows begin where huge pages do */
#define ROUND_BYTES (INT64_C(1) << 30)
#define MAX_BYTES   (INT64_C(16) << 40) /* of all windows: an eighth of a process's address space */

/* A window is as large as the node's memory: no rank can use more. */
static int64_t window_bytes(int count)
{
    int64_t max_bytes = MAX_BYTES / count / UNIT_BYTES * UNIT_BYTES;
    int64_t pages = sysconf(_SC_PHYS_PAGES);
    int64_t bytes = round_up(pages * sysconf(_SC_PAGESIZE), ROUND_BYTES);
    return pages > 0 && bytes < max_bytes ? bytes : max_bytes;
}

/* A forked child does not belong to the job and must not reach the windows of other ranks. */
static int keep_from_children(char *begin, const char *end, struct hvd_error *err)
{
    if (end > begin && madvise(begin, (size_t)(end - begin), MADV_DONTFORK) != 0)
        return error_set_errno(err, "cannot keep the windows of other ranks from forked children");
    return HVD_OK;
}

static int windows_map(struct windows *windows, int fd, struct hvd_error *err)
{
    struct windows mapped = *windows;
    size_t all_bytes = (size_t)(mapped.count * mapped.bytes);
    mapped.opened = calloc((size_t)mapped.count, sizeof(*mapped.opened));
    if (mapped.opened == NULL)
        return error_set_errno(err, "no memory for %d windows", mapped.count);
    void *base = mmap(NULL, all_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
        int status = error_set_errno(err, "cannot map %zu bytes of windows that the ranks of this node share",
                                     all_bytes);
        windows_disown(&mapped);
        return status;
    }
    mapped.base = base;
    char *own = mapped.base + mapped.own * mapped.bytes;
    int status = keep_from_children(mapped.base, own, err);
    if (status == HVD_OK)
        status = keep_from_children(own + mapped.bytes, mapped.base + all_bytes, err);
    if (status != HVD_OK) {
        windows_detach(&mapped);
        return status;
    }
    /* A core dump would touch every page, used or not. hvd_alloc puts back into dumps what it returns. */
    madvise(mapped.base, all_bytes, MADV_DONTDUMP);
    *windows = mapped;
    return HVD_OK;
}

int windows_create(struct windows *windows, int count, int *fdp, struct hvd_error *err)
{
    struct windows made = {.bytes = window_bytes(count), .count = count};
    int fd = -1;
    int status = shared_file_create("hvd-windows", (size_t)(count * made.bytes), &fd, err);
    if (status != HVD_OK)
        return status;
    status = windows_map(&made, fd, err);
    if (status != HVD_OK) {
        close(fd);
        return status;
    }
    *windows = made;
    *fdp = fd;
    return HVD_OK;
}

int windows_attach(struct windows *windows, int fd, int count, int own, struct hvd_error *err)
{
    int64_t bytes = 0;
    int status = shared_file_size(fd, &bytes, err);
    if (status != HVD_OK)
        return status;
    if (bytes <= 0 || bytes > MAX_BYTES || bytes % (count * UNIT_BYTES) != 0)
        return error_set(err, HVD_ERR_SYSTEM,
                         "the windows that this node's first rank made have %lld bytes, expected %d times a "
                         "multiple of %lld, at most %lld: all ranks need the same libhvd",
                         (long long)bytes, count, (long long)UNIT_BYTES, (long long)MAX_BYTES);
    struct windows made = {.bytes = bytes / count, .count = count, .own = own};
    status = windows_map(&made, fd, err);
    if (status == HVD_OK)
        *windows = made;
    return status;
}

void windows_disown(struct windows *windows)
{
    free((void *)windows->opened);
    *windows = (struct windows){.base = NULL};
}

void windows_detach(struct windows *windows)
{
    if (windows->base != NULL)
        munmap(windows->base, (size_t)(windows->count * windows->bytes));
    windows_disown(windows);
}

int windows_open(const struct windows *windows, int index, int64_t bytes, struct hvd_error *err)
{
    if (index < 0 || index >= windows->count || bytes > windows->bytes)
        return error_set(err, HVD_ERR_INVALID, "window %d of %d has %lld bytes, not %lld", index,
                         windows->count, (long long)windows->bytes, (long long)bytes);
    int64_t opened = atomic_load(&windows->opened[index]);
    if (bytes <= opened)
        return HVD_OK;
    int64_t more = round_up(bytes - opened, sysconf(_SC_PAGESIZE));
    if (mprotect(windows->base + index * windows->bytes + opened, (size_t)more, PROT_READ | PROT_WRITE) != 0)
        return error_set_errno(err, "cannot open %lld bytes more of window %d (mprotect)", (long long)more,
                               index);
    atomic_store(&windows->opened[index], opened + more);
    return HVD_OK;
}
