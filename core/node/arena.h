/* arena.h: regions of the memory that the ranks of a node share, one or more for each process set. */
#ifndef NODE_ARENA_H
#define NODE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Zeroed memory at the same place of the same file in all ranks of the node. */
struct arena {
    void *base; /* NULL: this rank shares none */
    size_t bytes;
};

/* A set that needs several regions acquires the others under its number plus multiples of this. */
#define ARENA_SET_STRIDE (1 << 28)

/* What a process set needs; all its members pass the same. */
struct arena_request {
    int set, users; /* its number, which is never reused, and how many members acquire the region */
    size_t bytes;
    size_t zeroed; /* the first of them are zeros; the rest may hold what an earlier region left there */
};

/* The longest that arena_acquire waits. The table of regions is locked for microseconds at a time, unless a
 * rank dies while it holds the lock. */
#define ARENA_ACQUIRE_US INT64_C(5000000)

/* The region of a set. The first rank that asks makes it, and no rank waits for the others.
 * HVD_ERR_UNSUPPORTED where there is no room: all members get the same answer. HVD_ERR_TIMEOUT where the
 * table of regions stayed locked until [deadline_us], or for ARENA_ACQUIRE_US. */
int arena_acquire(const struct arena *arena, const struct arena_request *request, int64_t deadline_us,
                  void **regionp, struct hvd_error *err);

/* This rank, which acquired the region, no longer uses it. Once all users have released it, other sets may
 * get the memory. */
void arena_release(const struct arena *arena, int set);

#endif
