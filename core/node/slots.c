/* slots.c: the slots through which members on one node pass chunks: memory, counting, sleeping, waking. */
#include "node/slots.h"

#include <string.h>

#include "base/round_up.h"

#define PAGE_BYTES ((int64_t)4096)

/* ---- Memory --------------------------------------------------------------------------------- */

/* Areas begin on pages, because the kernel places memory in NUMA domains by pages. */
static int64_t area_bytes(const struct slots *slots)
{
    return round_up(SLOTS * (slots->slot_bytes + slots->part_bytes), PAGE_BYTES);
}

int slots_open(struct slots *slots, const struct arena *arena, const struct doorbell *doorbell,
               const struct slots_params *params, int64_t deadline_us, struct hvd_error *err)
{
    void *region = NULL;
    *slots = (struct slots){.set = params->set,
                            .rank = params->rank,
                            .size = params->size,
                            .arena = arena,
                            .doorbell = doorbell,
                            .chunk_bytes = params->chunk_bytes,
                            .slot_bytes = params->chunk_bytes};
    slots->part_bytes = (params->chunk_bytes / CACHE_LINE_BYTES / params->size + 1) * CACHE_LINE_BYTES;
    int64_t header_bytes =
        (int64_t)sizeof(struct slots_common) + params->size * (int64_t)sizeof(struct slots_member);
    int64_t header_pages_bytes = round_up(header_bytes, PAGE_BYTES);
    const struct arena_request request = {.set = params->set,
                                          .users = params->size,
                                          .bytes =
                                              (size_t)(header_pages_bytes + params->size * area_bytes(slots)),
                                          .zeroed = (size_t)header_pages_bytes};
    int rc = arena_acquire(arena, &request, deadline_us, &region, err);
    if (rc != HVD_OK)
        return rc;
    slots->common = region;
    slots->members = (struct slots_member *)(void *)(slots->common + 1);
    slots->areas = (char *)region + header_pages_bytes;
    memcpy(slots->members[params->rank].doorbell, doorbell->name, sizeof(doorbell->name));
    atomic_store(&slots->members[params->rank].cache_bytes, params->cache_bytes);
    for (int counter = 0; counter < SLOTS_COUNTERS; counter++)
        slots->all[counter] = (struct counters){.first = &slots->members[0].counts[counter].position,
                                                .stride = sizeof(struct slots_member),
                                                .count = params->size};
    return HVD_OK;
}

void slots_close(struct slots *slots)
{
    slots_disarm(slots);
    arena_release(slots->arena, slots->set);
}

static char *area_of(const struct slots *slots, int member)
{
    return slots->areas + member * area_bytes(slots);
}

char *slots_input(const struct slots *slots, int member, uint64_t position)
{
    return area_of(slots, member) + (int64_t)(position % SLOTS) * slots->slot_bytes;
}

char *slots_result(const struct slots *slots, int member, uint64_t position)
{
    return area_of(slots, member) + SLOTS * slots->slot_bytes +
           (int64_t)(position % SLOTS) * slots->part_bytes;
}

int64_t slots_l2_bytes(const struct slots *slots)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < slots->size; i++) {
        int64_t bytes = atomic_load(&slots->members[i].cache_bytes);
        least = bytes < least ? bytes : least;
    }
    return least > 0 ? least : 0;
}

/* ---- Counting ------------------------------------------------------------------------------- */

bool slots_all_reached(struct slots *slots, enum slots_counter counter, uint64_t position)
{
    return counters_all_reached(&slots->all[counter], position);
}

int slots_behind(const struct slots *slots, enum slots_counter counter, uint64_t position)
{
    return counters_behind(&slots->all[counter], slots->rank, position);
}

bool slots_claim(struct slots *slots, uint64_t begin, uint64_t end, uint64_t *partp)
{
    uint64_t claimed = atomic_load(&slots->common->claimed);
    do {
        *partp = claimed > begin ? claimed : begin;
    } while (*partp < end && !atomic_compare_exchange_weak(&slots->common->claimed, &claimed, *partp + 1));
    return *partp < end;
}

/* ---- Sleeping ------------------------------------------------------------------------------- */

/* No wake-up is lost: a member that arms first counts itself as a sleeper and then looks at the counters; a
 * member that advances first stores its counter and then looks for sleepers. One of the two sees the other,
 * if both orders hold. The second one needs a seq_cst store, which drains the store buffer: after a copy that
 * takes long, so only slots_flush does it. slots_advance looks without it and finds nearly all sleepers. */

static bool is_due(struct slots *slots, struct slots_member *member)
{
    for (int counter = 0; counter < SLOTS_COUNTERS; counter++) {
        uint64_t position = atomic_load(&member->awaited[counter]);
        if (position != 0 && position <= slots->reached[counter] &&
            slots_all_reached(slots, (enum slots_counter)counter, position) &&
            atomic_exchange(&member->awaited[counter], 0) != 0)
            return true;
    }
    return false;
}

static void wake_due(struct slots *slots)
{
    for (int i = 0; i < slots->size; i++) {
        struct slots_member *member = &slots->members[i];
        if (i != slots->rank && is_due(slots, member))
            doorbell_ring(slots->doorbell, member->doorbell);
    }
}

void slots_advance(struct slots *slots, enum slots_counter counter, uint64_t position)
{
    slots->reached[counter] = position;
    counter_advance(&slots->members[slots->rank].counts[counter].position, position);
    if (atomic_load_explicit(&slots->common->sleepers, memory_order_relaxed) != 0)
        wake_due(slots);
}

void slots_flush(struct slots *slots)
{
    struct slots_member *mine = &slots->members[slots->rank];
    bool moved = false;
    for (int counter = 0; counter < SLOTS_COUNTERS; counter++) {
        if (slots->flushed[counter] == slots->reached[counter])
            continue;
        slots->flushed[counter] = slots->reached[counter];
        atomic_exchange(&mine->counts[counter].position, slots->reached[counter]);
        moved = true;
    }
    if (moved && atomic_load(&slots->common->sleepers) != 0)
        wake_due(slots);
}

void slots_arm(struct slots *slots, const uint64_t awaited[SLOTS_COUNTERS])
{
    struct slots_member *mine = &slots->members[slots->rank];
    if (!slots->armed)
        doorbell_clear(slots->doorbell); /* of rings that came late: the kernel queues only a few */
    for (int counter = 0; counter < SLOTS_COUNTERS; counter++)
        atomic_store(&mine->awaited[counter], awaited[counter]);
    if (!slots->armed)
        atomic_fetch_add(&slots->common->sleepers, 1);
    slots->armed = true;
}

void slots_disarm(struct slots *slots)
{
    if (!slots->armed)
        return;
    struct slots_member *mine = &slots->members[slots->rank];
    for (int counter = 0; counter < SLOTS_COUNTERS; counter++)
        atomic_store(&mine->awaited[counter], 0);
    atomic_fetch_sub(&slots->common->sleepers, 1);
    slots->armed = false;
}
