/* slots.c: how ranks of one node hand chunks to each other: slots in memory, counting, sleeping, waking. */
#include "node/slots.h"

#include <string.h>

#define PAGE_BYTES ((int64_t)4096)

static int64_t round_up(int64_t bytes, int64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* Areas begin on pages, as memory is near to somebody by pages. */
static int64_t area_bytes(const struct slots *slots)
{
    return round_up(SLOTS * (slots->slot_bytes + slots->part_bytes), PAGE_BYTES);
}

int slots_enter(struct slots *slots, const struct arena *arena, const struct door *door,
                const struct slots_want *want, int64_t deadline_us, struct hvd_error *err)
{
    void *region = NULL;
    *slots = (struct slots){.set = want->set,
                            .rank = want->rank,
                            .size = want->size,
                            .arena = arena,
                            .door = door,
                            .chunk_bytes = want->chunk_bytes,
                            .slot_bytes = want->chunk_bytes};
    slots->part_bytes = (want->chunk_bytes / CACHE_LINE_BYTES / want->size + 1) * CACHE_LINE_BYTES;
    int64_t told_bytes =
        (int64_t)sizeof(struct slots_common) + want->size * (int64_t)sizeof(struct slots_member);
    int64_t lines_bytes = round_up(told_bytes, PAGE_BYTES);
    const struct arena_claim claim = {.set = want->set,
                                      .users = want->size,
                                      .bytes = (size_t)(lines_bytes + want->size * area_bytes(slots)),
                                      .zeroed = (size_t)lines_bytes};
    int rc = arena_enter(arena, &claim, deadline_us, &region, err);
    if (rc != HVD_OK)
        return rc;
    slots->common = region;
    slots->members = (struct slots_member *)(void *)(slots->common + 1);
    slots->areas = (char *)region + lines_bytes;
    memcpy(slots->members[want->rank].door, door->name, sizeof(door->name));
    atomic_store(&slots->members[want->rank].domain, want->domain < 0 ? -1 : want->domain + 1);
    atomic_store(&slots->members[want->rank].cache, want->cache_bytes);
    return HVD_OK;
}

void slots_leave(struct slots *slots)
{
    slots_rise(slots);
    arena_leave(slots->arena, slots->set);
}

static char *area_of(const struct slots *slots, int member)
{
    return slots->areas + member * area_bytes(slots);
}

char *slots_given(const struct slots *slots, int member, uint64_t position)
{
    return area_of(slots, member) + (int64_t)(position % SLOTS) * slots->slot_bytes;
}

char *slots_result(const struct slots *slots, int member, uint64_t position)
{
    return area_of(slots, member) + SLOTS * slots->slot_bytes +
           (int64_t)(position % SLOTS) * slots->part_bytes;
}

int slots_domain(const struct slots *slots, int member)
{
    int told = atomic_load(&slots->members[member].domain);
    return told > 0 ? told - 1 : told == 0 ? -2 : -1;
}

int64_t slots_cache(const struct slots *slots)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < slots->size; i++) {
        int64_t told = atomic_load(&slots->members[i].cache);
        least = told < least ? told : least;
    }
    return least > 0 ? least : 0;
}

/* ---- Counting ------------------------------------------------------------------------------- */

bool slots_all_have(struct slots *slots, enum slots_step step, uint64_t position)
{
    if (slots->seen[step] >= position)
        return true;
    uint64_t least = UINT64_MAX;
    int member = slots->behind[step];
    for (int i = 0; i < slots->size; i++) {
        uint64_t value = atomic_load(&slots->members[member].counts[step].position);
        if (value < position) {
            slots->behind[step] = member;
            return false;
        }
        least = value < least ? value : least;
        member = member + 1 < slots->size ? member + 1 : 0;
    }
    slots->seen[step] = least;
    return true;
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

/* Two ways of seeing each other: who sleeps first counts itself among the sleepers, then looks how far all
 * have come. Who comes further first says so, then looks for sleepers; to do that in this order takes it as
 * long as all its stores before, so that it is done only now and then: slots_settle. In between it looks
 * without care, and finds nearly all. */

static bool is_due(struct slots *slots, struct slots_member *member)
{
    for (int step = 0; step < STEPS; step++) {
        uint64_t position = atomic_load(&member->wants[step]);
        if (position != 0 && position <= slots->at[step] &&
            slots_all_have(slots, (enum slots_step)step, position) &&
            atomic_exchange(&member->wants[step], 0) != 0)
            return true;
    }
    return false;
}

static void wake_due(struct slots *slots)
{
    for (int i = 0; i < slots->size; i++) {
        struct slots_member *member = &slots->members[i];
        if (i != slots->rank && is_due(slots, member))
            door_knock(slots->door, member->door);
    }
}

void slots_come_to(struct slots *slots, enum slots_step step, uint64_t position)
{
    slots->at[step] = position;
    atomic_store_explicit(&slots->members[slots->rank].counts[step].position, position, memory_order_release);
    if (atomic_load_explicit(&slots->common->sleepers, memory_order_relaxed) != 0)
        wake_due(slots);
}

void slots_settle(struct slots *slots)
{
    struct slots_member *mine = &slots->members[slots->rank];
    bool moved = false;
    for (int step = 0; step < STEPS; step++) {
        if (slots->settled[step] == slots->at[step])
            continue;
        slots->settled[step] = slots->at[step];
        atomic_exchange(&mine->counts[step].position, slots->at[step]);
        moved = true;
    }
    if (moved && atomic_load(&slots->common->sleepers) != 0)
        wake_due(slots);
}

void slots_sleep(struct slots *slots, const uint64_t wants[STEPS])
{
    struct slots_member *mine = &slots->members[slots->rank];
    if (!slots->asleep)
        door_clear(slots->door); /* of knocks that came too late, as only so many are kept */
    for (int step = 0; step < STEPS; step++)
        atomic_store(&mine->wants[step], wants[step]);
    if (!slots->asleep)
        atomic_fetch_add(&slots->common->sleepers, 1);
    slots->asleep = true;
}

void slots_rise(struct slots *slots)
{
    if (!slots->asleep)
        return;
    struct slots_member *mine = &slots->members[slots->rank];
    atomic_store(&mine->dozes, 0);
    for (int step = 0; step < STEPS; step++)
        atomic_store(&mine->wants[step], 0);
    atomic_fetch_sub(&slots->common->sleepers, 1);
    slots->asleep = false;
}

/* Who stirs looks for sleepers after it has counted that, and who dozes looks at those counts after it has
 * told of itself: one of them sees the other, and with the count all that was done before. */
void slots_doze(struct slots *slots)
{
    const uint64_t nothing[STEPS] = {0};
    slots_sleep(slots, nothing);
    atomic_store(&slots->members[slots->rank].dozes, 1);
    for (int i = 0; i < slots->size; i++)
        (void)atomic_load(&slots->members[i].stirs);
}

void slots_stir(struct slots *slots)
{
    atomic_fetch_add(&slots->members[slots->rank].stirs, 1);
    if (atomic_load(&slots->common->sleepers) == 0)
        return;
    for (int i = 0; i < slots->size; i++) {
        struct slots_member *member = &slots->members[i];
        if (i != slots->rank && atomic_load(&member->dozes) != 0 && atomic_exchange(&member->dozes, 0) != 0)
            door_knock(slots->door, member->door);
    }
}
