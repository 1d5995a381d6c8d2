/* relay.c: the relay, which carries chunks between the NUMA domains of one node: round a ring of members, by
 * the schedule of chain.h, through memory that they share.
 *
 * Each member puts what it sends into slots of its own. It alone writes there, so their pages are in its NUMA
 * domain. The next member copies the bytes from there, and only then do they go from domain to domain. Chunks
 * of all batches and of both kinds are numbered in one sequence. A member counts the chunks that it has put
 * into its slots, and those that it has taken from the previous member; both counters only ever grow. It may
 * put chunk p when the next member has taken p - SLOTS. It may take chunk p when the previous member has put
 * it and the schedule has a place for it. So chunks arrive in the order in which they were sent, and the
 * oldest one waits only for what chain.h says.
 *
 * A member that overwrites the shared memory can spoil results, keep the others waiting until they learn that
 * it failed, or make them fail. It cannot make them read or write elsewhere: each computes for itself how
 * long a chunk is and where it lies. */
#include "backend/shm/relay.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "backend/sched/chain.h"
#include "node/counters.h"

#define SLOT_BYTES BACKEND_SOURCE_BYTES
#define DEPTH      1 /* chunks on their way at a time: once a chunk is in its slot it has left */
#define PAGE_BYTES 4096

/* Which chunk a slot holds. */
struct relay_header {
    _Atomic uint64_t sequence, chunk; /* of the batch; of the chunk in it */
    _Atomic uint32_t kind;            /* enum chain_kind */
};

/* One member's counters and headers, which its neighbours read; it alone writes them. */
struct relay_line {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t put;
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t taken;
    _Alignas(CACHE_LINE_BYTES) struct relay_header headers[SLOTS];
};

struct relay {
    struct team ring;
    const struct arena *arena;
    struct chain chain;
    struct relay_line *own;
    const struct relay_line *previous;
    char *own_slots, *previous_slots;
    uint64_t put, taken;
    struct counters previous_put, next_taken;
};

/* ---- Teams ---------------------------------------------------------------------------------- */

/* Slots begin on pages, because the kernel places memory in NUMA domains by pages. */
static size_t lines_bytes(int size)
{
    return ((size_t)size * sizeof(struct relay_line) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

size_t relay_bytes(int size)
{
    return lines_bytes(size) + (size_t)size * SLOTS * SLOT_BYTES;
}

static int claim_of(const struct team *ring)
{
    return -1 - ring->slice;
}

static int enter(struct relay *relay, int64_t deadline_us, struct hvd_error *err)
{
    int rank = relay->ring.rank;
    int size = relay->ring.size;
    int before = (rank + size - 1) % size;
    const struct arena_request claim = {.set = claim_of(&relay->ring),
                                        .users = size,
                                        .bytes = relay_bytes(size),
                                        .zeroed = lines_bytes(size)};
    void *region = NULL;
    int rc = arena_acquire(relay->arena, &claim, deadline_us, &region, err);
    if (rc != HVD_OK)
        return rc;
    struct relay_line *lines = region;
    char *slots = (char *)region + lines_bytes(size);
    relay->own = &lines[rank];
    relay->previous = &lines[before];
    relay->previous_put = (struct counters){.first = &relay->previous->put, .count = 1};
    relay->next_taken = (struct counters){.first = &lines[(rank + 1) % size].taken, .count = 1};
    relay->own_slots = slots + (int64_t)rank * SLOTS * SLOT_BYTES;
    relay->previous_slots = slots + (int64_t)before * SLOTS * SLOT_BYTES;
    return HVD_OK;
}

static int relay_add_team(void *state, const struct team *ring, int64_t deadline_us, void **teamp,
                          struct hvd_error *err)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*relay));
    relay->ring = *ring;
    relay->arena = state;
    int rc = chain_init(&relay->chain, ring->rank, ring->size, SLOT_BYTES, DEPTH, err);
    if (rc == HVD_OK)
        rc = enter(relay, deadline_us, err);
    if (rc != HVD_OK) {
        chain_fini(&relay->chain);
        free(relay);
        return rc;
    }
    *teamp = relay;
    return HVD_OK;
}

static void relay_remove_team(void *state, void *team)
{
    struct relay *relay = team;
    arena_release(state, claim_of(&relay->ring));
    chain_fini(&relay->chain);
    free(relay);
}

/* ---- Batches -------------------------------------------------------------------------------- */

static int relay_start(void *state, void *team, const struct backend_batch *batch, struct hvd_error *err)
{
    (void)state;
    (void)err;
    struct relay *relay = team;
    chain_start(&relay->chain, batch);
    return HVD_OK;
}

static char *slot_at(char *slots, uint64_t position)
{
    return slots + (int64_t)(position % SLOTS) * SLOT_BYTES;
}

/* Send the oldest chunk that may go to the next member, if there is one; results are older. */
static bool send_one(struct relay *relay)
{
    struct chain *chain = &relay->chain;
    struct relay_header *header = &relay->own->headers[relay->put % SLOTS];
    struct chain_chunk piece;
    enum chain_kind kind = chain_can_send(chain, CHAIN_RESULT) ? CHAIN_RESULT : CHAIN_PARTIAL;
    if (!chain_can_send(chain, kind) ||
        !counters_all_reached(&relay->next_taken, counters_reusable_at(relay->put)))
        return false;
    const void *bytes = chain_send(chain, kind, &piece);
    memcpy(slot_at(relay->own_slots, relay->put), bytes, piece.length);
    chain_sent(chain, kind);
    atomic_store_explicit(&header->sequence, chain->batch.sequence, memory_order_relaxed);
    atomic_store_explicit(&header->chunk, (uint64_t)piece.chunk, memory_order_relaxed);
    atomic_store_explicit(&header->kind, kind, memory_order_relaxed);
    counter_advance(&relay->own->put, ++relay->put);
    return true;
}

static int refuse(const struct relay *relay, struct hvd_error *err)
{
    int before = (relay->ring.rank + relay->ring.size - 1) % relay->ring.size;
    return error_set(
        err, HVD_ERR_SYSTEM,
        "backend shm: what rank %d passed on in batch %llu of process set %d is not what was due: "
        "this node's shared memory was overwritten",
        relay->ring.ranks[before], (unsigned long long)relay->chain.batch.sequence, relay->ring.set);
}

/* Receive the oldest chunk from the previous member, if it is there and has a place. */
static int receive_one(struct relay *relay, bool *movedp, struct hvd_error *err)
{
    struct chain *chain = &relay->chain;
    const struct relay_header *header = &relay->previous->headers[relay->taken % SLOTS];
    struct chain_chunk due;
    if (!chain_receives_left(chain) || !counters_all_reached(&relay->previous_put, relay->taken + 1))
        return HVD_OK;
    uint32_t kind = atomic_load_explicit(&header->kind, memory_order_relaxed);
    if (kind == CHAIN_PARTIAL && chain_must_wait(chain))
        return HVD_OK;
    if (kind >= CHAIN_KINDS || !chain_can_receive(chain, (enum chain_kind)kind))
        return refuse(relay, err);
    void *place = chain_receive(chain, (enum chain_kind)kind, &due);
    if (atomic_load_explicit(&header->chunk, memory_order_relaxed) != (uint64_t)due.chunk ||
        atomic_load_explicit(&header->sequence, memory_order_relaxed) != chain->batch.sequence)
        return refuse(relay, err);
    memcpy(place, slot_at(relay->previous_slots, relay->taken), due.length);
    counter_advance(&relay->own->taken, ++relay->taken);
    chain_received(chain, (enum chain_kind)kind);
    *movedp = true;
    return HVD_OK;
}

static int relay_test(void *state, void *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)state;
    (void)rankp; /* not set: control watches the processes of a node */
    struct relay *relay = team;
    *movedp = false;
    int rc = receive_one(relay, movedp, err);
    if (rc != HVD_OK)
        return rc;
    *movedp = send_one(relay) || *movedp;
    bool left = chain_sends_left(&relay->chain) || chain_receives_left(&relay->chain);
    return left ? HVD_IN_PROGRESS : HVD_OK;
}

const struct backend_ops relay_ops = {
    .add_team = relay_add_team,
    .remove_team = relay_remove_team,
    .start = relay_start,
    .test = relay_test,
};
