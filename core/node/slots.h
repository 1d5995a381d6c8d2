/* slots.h: how ranks of one node hand chunks to each other: slots in memory that all of them see, how far
 * each has come, and how one that sleeps is woken. What a chunk holds is known to the backends.
 *
 * Each member owns SLOTS slots for what it gives to the others, and as many for its part of the results:
 * it alone writes there, so that the first touch puts their pages near to it. Chunks of all batches of a team
 * are numbered on and on; chunk p uses slot p % SLOTS. Each member counts how far it has come in two things,
 * and only ever adds:
 *
 *   given   it has put what others need of chunk p into its slot; and before, it has taken what it needs of
 *           the results of p - SLOTS
 *   mixed   it has read what it needs of all members' slots, and has written its part of the result
 * From that follows who may do what, and that no slot is overwritten while somebody still needs it:
 *   take p  when all have mixed p
 *   mix p   when all have given p
 *   give p  when all have mixed p - SLOTS
 * Nothing ever waits for a later chunk, so somebody can always go on.
 *
 * A member that writes nonsense into the shared memory spoils results, or keeps the others waiting until they
 * are told that it failed. It does not make them read or write elsewhere: where a chunk lies each knows
 * itself. */
#ifndef NODE_SLOTS_H
#define NODE_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/cpu.h"
#include "node/arena.h"
#include "node/counters.h"
#include "node/doorbell.h"

/* What is counted. Announced are alltoalls, whose length only all members together know. */
enum slots_counter { SLOTS_PUBLISHED, SLOTS_REDUCED, SLOTS_ANNOUNCED, SLOTS_COUNTERS };

/* What one member tells the others; on lines of their own, as each is looked at by itself. */
struct slots_member {
    /* written by it alone */
    struct {
        _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t position;
    } counts[SLOTS_COUNTERS];
    /* rounds of the alltoalls announced last, of even and odd turns: the next but one cannot be begun before
     * all have read it */
    _Atomic uint64_t rounds[2];
    _Atomic uint64_t notifications; /* moves that are counted elsewhere, so that who dozes sees them */
    /* while it sleeps: how far all must come in each that it may go on; 0: it does not wait for that. Whoever
     * sees that it is so takes it back, and knocks at its doorbell */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t wants[SLOTS_COUNTERS];
    _Atomic uint32_t dozes; /* 1 while it sleeps until anybody notifications; taken back in the same way */
    _Atomic int32_t domain; /* + 1: NUMA domain; -1: it does not know; 0: not told yet */
    _Atomic int64_t cache;  /* as cores_l2_bytes */
    unsigned char doorbell[DOORBELL_NAME_BYTES];
};

/* What all write. */
struct slots_common {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t sleepers;
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t claimed; /* parts of work, whoever does them */
};

/* One member's view. */
struct slots {
    int set, rank, size;
    const struct arena *arena;
    const struct doorbell *doorbell; /* its own */
    struct slots_common *common;
    struct slots_member *members; /* [size], shared */
    char *areas;                  /* [size], shared: slots, then slots of results */
    int64_t chunk_bytes;          /* used of a slot */
    int64_t slot_bytes, part_bytes;
    struct counters all[SLOTS_COUNTERS]; /* the members' counters */
    uint64_t reached[SLOTS_COUNTERS];    /* this member's */
    uint64_t flushed[SLOTS_COUNTERS];    /* the positions up to which slots_flush has looked for sleepers */
    bool armed;                          /* between slots_arm and slots_disarm */
};

/* What a team needs: room for the chunks of [size] members. */
struct slots_params {
    int set, rank, size; /* the number of the process set; this member */
    int64_t chunk_bytes; /* the longest; a multiple of 64, and at least 64 for each member */
    int domain;          /* as cores_numa_domain */
    int64_t cache_bytes; /* as cores_l2_bytes */
};

/* All members call it. [arena] and [doorbell] are borrowed. As arena_acquire; on failure there is nothing to
 * leave.
 */
int slots_open(struct slots *slots, const struct arena *arena, const struct doorbell *doorbell,
               const struct slots_params *want, int64_t deadline_us, struct hvd_error *err);
void slots_close(struct slots *slots);

/* The slot of [member] for chunk [position]: for what it gives, and for its part of the result. */
char *slots_input(const struct slots *slots, int member, uint64_t position);
char *slots_result(const struct slots *slots, int member, uint64_t position);

/* Have all members come to [position]? */
bool slots_all_reached(struct slots *slots, enum slots_counter counter, uint64_t position);

/* This one has; who sleeps for that wakes, at the latest when it settles. */
void slots_advance(struct slots *slots, enum slots_counter counter, uint64_t position);

/* Before this member waits or is through with a batch: whoever sleeps for something that it has done wakes.
 */
void slots_flush(struct slots *slots);

/* The next part of work from [begin] to [end] that no member does yet, in *partp; false where there is none.
 * Parts are numbered on and on, and all members are through with those before [begin]. */
bool slots_claim(struct slots *slots, uint64_t begin, uint64_t end, uint64_t *partp);

/* It may sleep soon: from here on it is woken when all have come to what it wants of any counter; 0: nothing.
 * Look once more afterwards. Until slots_disarm. */
void slots_arm(struct slots *slots, const uint64_t wants[SLOTS_COUNTERS]);
void slots_disarm(struct slots *slots);

/* The same for what members do together by other counts than these: who dozes wakes when any other
 * notifications. Look once more after dozing; stir after whatever another may wait for. */
void slots_arm_any(struct slots *slots);
void slots_notify(struct slots *slots);

/* What [member] told of its domain, which is the same on all members once all have entered: as
 * cores_numa_domain, or -2 where it has told nothing. */
int slots_domain(const struct slots *slots, int member);

/* The smallest cache that any member told of; the same on all members once all have entered. 0: not known. */
int64_t slots_l2_bytes(const struct slots *slots);

#endif
