/* slots.h: the slots through which the members of a team on one node pass chunks to each other, and how a
 * member that sleeps is woken. The backend decides what a chunk holds.
 *
 * Each member owns SLOTS slots for its inputs and SLOTS slots for its part of the results. It alone writes
 * there, so its first touch places the pages in its own NUMA domain. Chunks and counters are as counters.h
 * says; the steps are:
 *
 *   published  the member has written its input of chunk p into its slot
 *   reduced    it has read what it needs from all slots of chunk p, and has written its part of the result
 *
 * What each step waits for:
 *   publish p  all have reduced p - SLOTS, and this member has collected the results of p - SLOTS
 *   reduce p   all have published p
 *   collect p  all have reduced p
 * So nothing is overwritten while a member may still read it: a member that has published p has collected the
 * results of p - SLOTS. No step waits for a later chunk, so there is always a member that can go on.
 *
 * A member that overwrites the shared memory can spoil results, or keep the others waiting until they learn
 * that it failed. It cannot make them read or write elsewhere: each computes for itself where a chunk lies.
 */
#ifndef NODE_SLOTS_H
#define NODE_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/cpu.h"
#include "node/arena.h"
#include "node/counters.h"
#include "node/doorbell.h"

/* The steps that are counted. SLOTS_ANNOUNCED counts alltoalls, of which only all members together know how
 * long they take. */
enum slots_counter { SLOTS_PUBLISHED, SLOTS_REDUCED, SLOTS_ANNOUNCED, SLOTS_COUNTERS };

/* One member's part of the shared memory. Each counter is on a cache line of its own, as others poll it. */
struct slots_member {
    /* written by the member alone */
    struct {
        _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t position;
    } counts[SLOTS_COUNTERS];
    /* The rounds of the alltoalls it announced last, by turn % 2. Two are enough: a member announces the next
     * but one only after all have read this one. */
    _Atomic uint64_t rounds[2];
    /* While it is armed: the position that all must reach in each counter before it can go on; 0: it does not
     * wait for that counter. The member that sees it reached sets it to 0 and rings the doorbell. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t awaited[SLOTS_COUNTERS];
    _Atomic int64_t cache_bytes; /* as cores_l2_bytes */
    unsigned char doorbell[DOORBELL_NAME_BYTES];
};

/* Written by all members. */
struct slots_common {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t sleepers; /* members that are armed */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t claimed;  /* as slots_claim; the parts of all batches */
};

/* One member's view. */
struct slots {
    int set, rank, size;
    const struct arena *arena;
    const struct doorbell *doorbell; /* this member's */
    struct slots_common *common;
    struct slots_member *members; /* [size], shared */
    char *areas;                  /* [size], shared: each member's input slots, then its result slots */
    int64_t chunk_bytes;          /* how much of a slot is used */
    int64_t slot_bytes, part_bytes;
    struct counters all[SLOTS_COUNTERS]; /* the members' counters */
    uint64_t reached[SLOTS_COUNTERS];    /* this member's */
    uint64_t flushed[SLOTS_COUNTERS];    /* this member's, when slots_flush last looked for sleepers */
    bool armed;                          /* between slots_arm and slots_disarm */
};

struct slots_params {
    int set, rank, size; /* the number of the process set; this member; how many there are */
    int64_t chunk_bytes; /* of the longest chunk: a multiple of 64, and at least 64 for each member */
    int64_t cache_bytes; /* as cores_l2_bytes */
};

/* All members call it. [arena] and [doorbell] must outlive the slots. Fails as arena_acquire does; do not
 * close the slots then. */
int slots_open(struct slots *slots, const struct arena *arena, const struct doorbell *doorbell,
               const struct slots_params *params, int64_t deadline_us, struct hvd_error *err);
void slots_close(struct slots *slots);

/* The slots of [member] for chunk [position]: of its input, and of its part of the result. */
char *slots_input(const struct slots *slots, int member, uint64_t position);
char *slots_result(const struct slots *slots, int member, uint64_t position);

/* Have all members reached [position]? */
bool slots_all_reached(struct slots *slots, enum slots_counter counter, uint64_t position);

/* Another member that has not reached [position], or -1. */
int slots_behind(const struct slots *slots, enum slots_counter counter, uint64_t position);

/* This member has reached [position]. Members that sleep until then usually wake now, and at the latest at
 * this member's next slots_flush. */
void slots_advance(struct slots *slots, enum slots_counter counter, uint64_t position);

/* Wake all members that wait for something this member has done. Call it before this member waits and when it
 * is done with a batch. */
void slots_flush(struct slots *slots);

/* Claim the next part of work from [begin] to [end] that no member has claimed, in *partp; false where none
 * is left. Parts are numbered on over all batches; all members must be done with those before [begin]. */
bool slots_claim(struct slots *slots, uint64_t begin, uint64_t end, uint64_t *partp);

/* Before this member sleeps: ring its doorbell when all have reached the awaited position of any counter; 0:
 * not that counter. Look once more before you sleep: the position may have been reached in between. Holds
 * until slots_disarm. */
void slots_arm(struct slots *slots, const uint64_t awaited[SLOTS_COUNTERS]);
void slots_disarm(struct slots *slots);

/* The smallest second-level cache of any member, or 0 where one is not known; the same on all members once
 * all have opened the slots. */
int64_t slots_l2_bytes(const struct slots *slots);

#endif
