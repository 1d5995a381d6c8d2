/* counters.h: how processes that share memory pass chunks through slots, and when a slot may be written
 * again.
 *
 * Chunks are numbered in one sequence over all batches, and chunk p lies in slot p % SLOTS of the process
 * that writes it. For each step of its work a process has a counter in shared memory: how many chunks have
 * passed the step. Only this process writes the counter, and it only ever grows. The steps of others wait for
 * these counters and for nothing else:
 *   to read chunk p, until its writers have reached p + 1 in the step that fills the slot;
 *   to write chunk p, until its readers have reached counters_reusable_at(p) in the step that empties it:
 *   they no longer need chunk p - SLOTS, which lay in the same slot.
 * slots.h, hier_node.c and hier_alltoall.c say which of their steps waits for which. */
#ifndef NODE_COUNTERS_H
#define NODE_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOTS 4

/* The counters of one step, as one process watches them: [count] of them, [stride] bytes apart. */
struct counters {
    const _Atomic uint64_t *first;
    size_t stride;
    int count;
    int lagging;      /* the counter that was behind at the last look: it is looked at first */
    uint64_t reached; /* what all had reached at the last look */
};

/* Have all reached [position]? Then all that was stored before each of them was advanced can be seen. The
 * loads are seq_cst for slots_arm: a process that arms itself and then looks here cannot miss what another
 * process counted before it looked for sleepers. */
static inline bool counters_all_reached(struct counters *counters, uint64_t position)
{
    if (counters->reached >= position)
        return true;
    uint64_t least = UINT64_MAX;
    int at = counters->lagging;
    for (int i = 0; i < counters->count; i++) {
        const char *counter = (const char *)counters->first + (size_t)at * counters->stride;
        uint64_t value = atomic_load((const _Atomic uint64_t *)(const void *)counter);
        if (value < position) {
            counters->lagging = at;
            return false;
        }
        least = value < least ? value : least;
        at = at + 1 < counters->count ? at + 1 : 0;
    }
    counters->reached = least;
    return true;
}

/* The first counter after [self] that has not reached [position], going round; -1: all others have. */
static inline int counters_behind(const struct counters *counters, int self, uint64_t position)
{
    for (int i = 1; i < counters->count; i++) {
        int at = (self + i) % counters->count;
        const char *counter = (const char *)counters->first + (size_t)at * counters->stride;
        if (atomic_load((const _Atomic uint64_t *)(const void *)counter) < position)
            return at;
    }
    return -1;
}

/* Advance this process's own counter. Others that see it also see all that was stored before. */
static inline void counter_advance(_Atomic uint64_t *counter, uint64_t position)
{
    atomic_store_explicit(counter, position, memory_order_release);
}

/* What the readers of a slot must have reached before chunk [position] may be written there. */
static inline uint64_t counters_reusable_at(uint64_t position)
{
    return position < SLOTS ? 0 : position - SLOTS + 1;
}

#endif
