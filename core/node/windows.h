/* windows.h: memory of the program that all ranks of a node can reach: one window for each rank, all in one
 * file that every rank maps as a whole. Pages that no rank uses are mapped without access, so they stay empty
 * even where a process touches all of its memory, as mlockall and core dumps do. */
#ifndef NODE_WINDOWS_H
#define NODE_WINDOWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* One rank's view. Zeroed: there are no windows. */
struct windows {
    char *base;              /* of the first window; the others follow. NULL: none */
    int64_t bytes;           /* of each */
    int count;               /* ranks of the node, in their order */
    int own;                 /* this rank's index */
    _Atomic int64_t *opened; /* by window: how many bytes from its begin this process can access */
};

/* Make windows for [count] ranks, of which the caller is the first: a sealed memfd in *fdp, close-on-exec,
 * and its mapping. Only pages that are used take memory. On failure nothing is left to close. */
int windows_create(struct windows *windows, int count, int *fdp, struct hvd_error *err);

/* Map the windows that another rank made. Refused where the file is not sealed, or its size is not one that
 * windows_create gives [count] ranks on any machine. */
int windows_attach(struct windows *windows, int fd, int count, int own, struct hvd_error *err);

/* Unmap all windows. Zeroed windows are fine. */
void windows_detach(struct windows *windows);

/* Forget the mapping without unmapping it: a copy of [windows] owns it from now on. */
void windows_disown(struct windows *windows);

/* Give this process access to the first [bytes] of window [index], rounded up to pages. One thread at a time
 * for each window. HVD_ERR_INVALID where the window is smaller. */
int windows_open(const struct windows *windows, int index, int64_t bytes, struct hvd_error *err);

/* How many bytes of its own window this rank has opened. */
static inline int64_t windows_own_bytes(const struct windows *windows)
{
    return windows->base == NULL ? 0 : atomic_load(&windows->opened[windows->own]);
}

/* Does all of [memory] lie in this rank's window? Then *atp is its offset there. */
static inline bool windows_offset_of(const struct windows *windows, const void *memory, int64_t bytes,
                                     uint64_t *atp)
{
    uint64_t at = (uintptr_t)memory - (uintptr_t)windows->base - (uint64_t)(windows->own * windows->bytes);
    *atp = at;
    return windows->base != NULL && at < (uint64_t)windows->bytes && bytes >= 0 &&
           bytes <= windows->bytes - (int64_t)at;
}

/* The memory at offset [at] of window [index]; NULL unless all [bytes] of it are opened. */
static inline char *windows_pointer(const struct windows *windows, int index, uint64_t at, int64_t bytes)
{
    if (index < 0 || index >= windows->count)
        return NULL;
    int64_t opened = atomic_load_explicit(&windows->opened[index], memory_order_relaxed);
    if (bytes < 0 || bytes > opened || at > (uint64_t)(opened - bytes))
        return NULL;
    return windows->base + index * windows->bytes + at;
}

#endif
