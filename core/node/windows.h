/* windows.h: memory of the program that the ranks of a node reach at each other's: a window for each, all in
 * one file that each of them has mapped as a whole. What nobody uses of it cannot be touched, so that it
 * stays empty whatever a process does to all of its memory, as mlockall and dumps of the core do. */
#ifndef NODE_WINDOWS_H
#define NODE_WINDOWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* One rank's view. Zeroed: it has none. */
struct windows {
    char *base;              /* of the first; the others follow. NULL: none */
    int64_t bytes;           /* of each */
    int count;               /* ranks of the node, in their order */
    int own;                 /* this rank's place among them */
    _Atomic int64_t *opened; /* bytes of each, from its begin, that can be touched here */
};

/* Make windows for [count] ranks, the caller being the first: a sealed memfd in *fdp, close-on-exec, and its
 * mapping. Only pages that are used cost anything. On failure there are none, and nothing to close. */
int windows_create(struct windows *windows, int count, int *fdp, struct hvd_error *err);

/* Map what another rank made. Refused where it is not sealed, or its size is not one that windows_create
 * gives [count] ranks on any machine. */
int windows_attach(struct windows *windows, int fd, int count, int own, struct hvd_error *err);

/* Unmap all of it. Without any it is fine. */
void windows_detach(struct windows *windows);

/* Its mapping is somebody else's from now on. */
void windows_disown(struct windows *windows);

/* Let the first [bytes] of the window at [place], rounded up to pages, be touched here. One thread for each
 * place. HVD_ERR_INVALID, with a sentence, where it has not so many. */
int windows_open(const struct windows *windows, int place, int64_t bytes, struct hvd_error *err);

/* What this rank has opened of its own. */
static inline int64_t windows_own_bytes(const struct windows *windows)
{
    return windows->base == NULL ? 0 : atomic_load(&windows->opened[windows->own]);
}

/* Does all of it lie in the own window? Then *atp is where it begins there. */
static inline bool windows_offset_of(const struct windows *windows, const void *memory, int64_t bytes,
                                     uint64_t *atp)
{
    uint64_t at = (uintptr_t)memory - (uintptr_t)windows->base - (uint64_t)(windows->own * windows->bytes);
    *atp = at;
    return windows->base != NULL && at < (uint64_t)windows->bytes && bytes >= 0 &&
           bytes <= windows->bytes - (int64_t)at;
}

/* The memory [at] bytes into the window of the rank at [place]; NULL where not all [bytes] lie in what is
 * opened of it. */
static inline char *windows_pointer(const struct windows *windows, int place, uint64_t at, int64_t bytes)
{
    if (place < 0 || place >= windows->count)
        return NULL;
    int64_t opened = atomic_load_explicit(&windows->opened[place], memory_order_relaxed);
    if (bytes < 0 || bytes > opened || at > (uint64_t)(opened - bytes))
        return NULL;
    return windows->base + place * windows->bytes + at;
}

#endif
