/* arena.c: regions of the memory that the ranks of a node share, one or more for each process set.
 *
 * The arena begins with a table of its regions. All ranks can write there, so whatever the table holds, no
 * call touches memory outside the arena and every call ends. */
#include "node/arena.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/round_up.h"

#define ALIGN_BYTES ((size_t)4096)

/* The table has one entry for each ENTRY_BYTES of the arena. Regions are larger, so memory runs out before
 * entries do. The remaining entries record refusals until all users have read them. Refusals are few: all
 * ranks create process sets together, one after the other. */
#define ENTRY_BYTES ((size_t)1 << 20)

/* How long arena_release waits for the lock. A holder that keeps it longer has died or is stopped. */
#define RELEASE_TIMEOUT_US INT64_C(1000000)

/* One region, in the table. Zeroed: a free entry. */
struct region {
    int32_t set;         /* + 1, so that zero is no set */
    int32_t users;       /* users that have not released it yet, acquired or not */
    uint64_t begin, end; /* where it lies; both 0: there was no room, and every user gets that answer */
};

struct arena_table {
    _Atomic uint32_t locked;
    struct region regions[];
};

static struct arena_table *table_of(const struct arena *arena)
{
    return arena->base;
}

static size_t region_count(const struct arena *arena)
{
    return arena->bytes / ENTRY_BYTES;
}

/* A copy, so that what is checked is what is used: other ranks may write to the table meanwhile. */
static struct region read_region(const volatile struct region *region)
{
    return *region;
}

static size_t table_bytes(const struct arena *arena)
{
    return (size_t)round_up(sizeof(struct arena_table) + region_count(arena) * sizeof(struct region),
                            ALIGN_BYTES);
}

/* The lock is held for microseconds, or for ever by a process that dies while it holds it. */
static bool lock(struct arena_table *table, int64_t deadline_us)
{
    uint32_t open = 0;
    while (!atomic_compare_exchange_strong(&table->locked, &open, 1)) {
        if (clock_us() >= deadline_us)
            return false;
        open = 0;
        sched_yield();
    }
    return true;
}

static void unlock(struct arena_table *table)
{
    atomic_store(&table->locked, 0);
}

/* The entry of [number], a set + 1, or 0 for a free entry; NULL where there is none. */
static struct region *find_region_locked(const struct arena *arena, int32_t number)
{
    struct arena_table *table = table_of(arena);
    for (size_t i = 0; i < region_count(arena); i++) {
        if (table->regions[i].set == number)
            return &table->regions[i];
    }
    return NULL;
}

/* The lowest offset where [bytes] fit between the regions; 0 where there is none. */
static size_t find_room_locked(const struct arena *arena, size_t bytes)
{
    const struct arena_table *table = table_of(arena);
    size_t at = table_bytes(arena);
    bool moved = true;
    while (moved) {
        moved = false;
        for (size_t i = 0; i < region_count(arena); i++) {
            struct region region = read_region(&table->regions[i]);
            bool overlaps = region.end > region.begin && at < region.end && region.begin < at + bytes;
            if (overlaps && region.end > arena->bytes)
                return 0;
            if (overlaps) {
                at = region.end;
                moved = true;
            }
        }
    }
    return bytes <= arena->bytes && at <= arena->bytes - bytes ? at : 0;
}

/* Make the region; NULL if the table is full. */
static struct region *create_locked(const struct arena *arena, const struct arena_request *request)
{
    size_t bytes = (size_t)round_up(request->bytes, ALIGN_BYTES);
    size_t begin = find_room_locked(arena, bytes);
    struct region *region = find_region_locked(arena, 0);
    if (region == NULL)
        return NULL;
    if (begin != 0)
        memset((char *)arena->base + begin, 0, request->zeroed);
    *region = (struct region){request->set + 1, request->users, begin, begin == 0 ? 0 : begin + bytes};
    return region;
}

static void release_locked(struct region *region)
{
    int32_t users = read_region(region).users;
    if (users > 1)
        region->users = users - 1;
    else
        *region = (struct region){0};
}

/* Where the region lies; 0 where there is none. */
static size_t acquire_locked(const struct arena *arena, const struct arena_request *request)
{
    struct region *region = find_region_locked(arena, request->set + 1);
    if (region == NULL)
        region = create_locked(arena, request);
    if (region == NULL)
        return 0;
    struct region found = read_region(region);
    bool inside = found.begin >= table_bytes(arena) && found.begin % ALIGN_BYTES == 0 &&
                  found.end <= arena->bytes && found.begin < found.end &&
                  found.end - found.begin == (size_t)round_up(request->bytes, ALIGN_BYTES);
    if (!inside)
        release_locked(region);
    return inside ? found.begin : 0;
}

int arena_acquire(const struct arena *arena, const struct arena_request *request, int64_t deadline_us,
                  void **regionp, struct hvd_error *err)
{
    struct arena_table *table = table_of(arena);
    int64_t latest_us = clock_us() + ARENA_ACQUIRE_US;
    if (table == NULL)
        return error_set(err, HVD_ERR_UNSUPPORTED, "this rank shares no memory with the others of its node");
    if (!lock(table, deadline_us < latest_us ? deadline_us : latest_us))
        return error_set(err, HVD_ERR_TIMEOUT,
                         "process set %d did not get its shared memory on this node in time: another rank "
                         "died or was stopped while it was getting some",
                         request->set % ARENA_SET_STRIDE);
    size_t begin = acquire_locked(arena, request);
    unlock(table);
    if (begin == 0)
        return error_set(err, HVD_ERR_UNSUPPORTED,
                         "no shared memory is left on this node for process set %d: it wants %zu bytes, of "
                         "%zu for all sets; remove sets that are no longer used",
                         request->set % ARENA_SET_STRIDE, request->bytes, arena->bytes);
    *regionp = (char *)arena->base + begin;
    return HVD_OK;
}

void arena_release(const struct arena *arena, int set)
{
    if (!lock(table_of(arena), clock_us() + RELEASE_TIMEOUT_US))
        return;
    struct region *region = find_region_locked(arena, set + 1);
    if (region != NULL)
        release_locked(region);
    unlock(table_of(arena));
}
