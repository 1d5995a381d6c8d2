/* shm_world.h: the plane of ranks that share a node's memory, with all members in one process, that take
 * their turns or are threads. */
#ifndef TESTS_UNIT_SHM_WORLD_H
#define TESTS_UNIT_SHM_WORLD_H

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "batches.h"
#include "backend/shm/shm.h"
#include "unit.h"

#define ROOM      ((size_t)(SLOTS * SHM_CHUNK_BYTES)) /* of one member's slots */
#define PAGE      ((size_t)4096)
#define MAX_SEATS 128
#define TURNS     4000000 /* far more than any of these batches takes: past it nothing moves any more */
#define SECOND    INT64_C(1000000)

/* One member. */
struct seat {
    struct plane_env env;
    void *state, *team;
    struct part part;
    struct plane_span spans[BATCHES_SPANS];
    struct windows windows;
    int batch; /* how many it has begun */
    bool runs;
};

struct world {
    struct arena arena;
    struct hvd_job job;
    struct roster roster;
    int node_of_rank[MAX_SEATS], ranks[MAX_SEATS];
    int size;
    uint64_t random;
    /* Do these take part in batch [batch] with memory in their windows? NULL: none ever. */
    bool (*in_window)(int batch, int rank);
    const struct plan *plans;
    int plan_count;
    struct seat seats[MAX_SEATS];
};

static inline void world_add_team(struct world *world, int rank, int set, int64_t chunk_bytes)
{
    struct hvd_error err = {""};
    struct seat *seat = &world->seats[rank];
    const struct plane_team members = {.set = set, .rank = rank, .size = world->size, .ranks = world->ranks};
    int rc = plane_shm.add_team(seat->state, &members, clock_us() + SECOND, &seat->team, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    shm_set_chunk(seat->team, chunk_bytes);
}

/* Its arena has [bytes], and pages on both sides that cannot be touched. */
static inline struct world *world_open_in(size_t bytes, int size, int64_t chunk_bytes)
{
    struct world *world = calloc(1, sizeof(*world));
    char *all = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(all, MAP_FAILED);
    ck_assert_int_eq(mprotect(all + PAGE, bytes, PROT_READ | PROT_WRITE), 0);
    world->arena = (struct arena){all + PAGE, bytes};
    world->size = size;
    world->random = 1;
    world->job.size = size;
    world->roster = (struct roster){.size = size, .node_of_rank = world->node_of_rank};
    for (int rank = 0; rank < size; rank++) {
        struct seat *seat = &world->seats[rank];
        world->ranks[rank] = rank;
        seat->env = (struct plane_env){.job = &world->job,
                                       .roster = &world->roster,
                                       .arena = world->arena,
                                       .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
        ck_assert_int_eq(plane_shm.open(&seat->env, 0, &seat->state, NULL), HVD_OK);
        world_add_team(world, rank, 0, chunk_bytes);
    }
    return world;
}

/* With room for two teams. */
static inline struct world *world_open(int size, int64_t chunk_bytes)
{
    return world_open_in((2 * (size_t)size + 6) * ROOM, size, chunk_bytes);
}

static inline void world_close(struct world *world)
{
    for (int rank = 0; rank < world->size; rank++) {
        if (world->seats[rank].team != NULL)
            plane_shm.remove_team(world->seats[rank].state, world->seats[rank].team);
        plane_shm.close(world->seats[rank].state);
        close(world->seats[rank].env.epoll_fd);
    }
    munmap((char *)world->arena.base - PAGE, world->arena.bytes + 2 * PAGE);
    free(world);
}

/* Most batches leave it to the plane how long their chunks are; others ask for less, or for what cannot be.
 */
static inline int64_t plan_chunk_asked(const struct plan *plan)
{
    static const int64_t asked[] = {0, 0, 0, 1, 200, 448, INT64_MAX};
    return asked[plan->sequence % (sizeof(asked) / sizeof(asked[0]))];
}

/* Where its next batch's memory is to be. */
static inline char *world_room(const struct world *world, int rank)
{
    const struct seat *seat = &world->seats[rank];
    if (world->in_window == NULL || !world->in_window(seat->batch, rank))
        return NULL;
    return windows_reach(&seat->windows, rank, 0, seat->windows.bytes);
}

/* A step of [rank]: begin its next batch, or go on with it. False where there was nothing to do. */
static inline bool world_step(struct world *world, int rank)
{
    struct hvd_error err = {""};
    struct seat *seat = &world->seats[rank];
    bool moved = false;
    int lost = -1;
    if (!seat->runs && seat->batch == world->plan_count)
        return false;
    if (!seat->runs) {
        part_open_in(&seat->part, &world->plans[seat->batch], rank, world_room(world, rank));
        ck_assert(plane_shm.can(&seat->part.batch.need));
        if ((rank + seat->batch) % 2 == 0)
            part_cut_into_spans(&seat->part, seat->spans);
        seat->part.batch.chunk_bytes = plan_chunk_asked(&world->plans[seat->batch]);
        ck_assert_int_eq(plane_shm.start(seat->state, seat->team, &seat->part.batch, &err), HVD_OK);
        seat->batch++;
        seat->runs = true;
        return true;
    }
    int rc = plane_shm.test(seat->state, seat->team, &moved, &lost, &err);
    if (rc == HVD_IN_PROGRESS)
        return moved;
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    ck_assert(part_close(&seat->part, &world->plans[seat->batch - 1], rank));
    seat->runs = false;
    return true;
}

/* Take steps until nothing moves any more. */
static inline void run_dry(struct world *world, int rank)
{
    while (world_step(world, rank))
        continue;
}

/* Carry [plans], each member as far as it comes when it is its turn. */
static inline void world_carry(struct world *world, const struct plan *plans, int count)
{
    int left = world->size;
    world->plans = plans;
    world->plan_count = count;
    for (int rank = 0; rank < world->size; rank++)
        world->seats[rank].batch = 0;
    for (int i = 0; i < TURNS && left > 0; i++) {
        int rank = plan_dice(&world->random, world->size);
        bool ended = !world->seats[rank].runs && world->seats[rank].batch == count;
        if (ended || !world_step(world, rank))
            continue;
        left -= !world->seats[rank].runs && world->seats[rank].batch == count;
    }
    ck_assert_int_eq(left, 0);
}

/* ---- Members in threads -------------------------------------------------------------------------- */

struct member_thread {
    struct world *world;
    int rank;
    bool sleeps;
    pthread_t thread;
};

#define SLEEP_MS 20000 /* nobody sleeps so long */

static inline bool is_woken(const struct seat *seat, int timeout_ms)
{
    struct epoll_event event;
    return epoll_wait(seat->env.epoll_fd, &event, 1, timeout_ms) == 1;
}

/* As whoever holds the baton does it. */
static inline void sleep_until_it_goes_on(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    plane_shm.arm(seat->state, true);
    if (!world_step(world, rank) && seat->runs)
        ck_assert(is_woken(seat, SLEEP_MS));
    plane_shm.arm(seat->state, false);
}

static inline void *carry_in_thread(void *arg)
{
    const struct member_thread *self = arg;
    struct world *world = self->world;
    const struct seat *seat = &world->seats[self->rank];
    while (seat->runs || seat->batch < world->plan_count) {
        if (world_step(world, self->rank))
            continue;
        if (self->sleeps)
            sleep_until_it_goes_on(world, self->rank);
        else
            sched_yield();
    }
    return NULL;
}

/* Carry [plans], each member in a thread; it looks again and again where it finds nothing to do, or sleeps.
 */
static inline void world_carry_in_threads(struct world *world, const struct plan *plans, int count,
                                          bool sleeps)
{
    struct member_thread members[MAX_SEATS];
    world->plans = plans;
    world->plan_count = count;
    for (int rank = 0; rank < world->size; rank++) {
        world->seats[rank].batch = 0;
        members[rank] = (struct member_thread){.world = world, .rank = rank, .sleeps = sleeps};
        ck_assert_int_eq(pthread_create(&members[rank].thread, NULL, carry_in_thread, &members[rank]), 0);
    }
    for (int rank = 0; rank < world->size; rank++)
        pthread_join(members[rank].thread, NULL);
}

/* What a chunk holds: of it all, or for each member. */
static inline int64_t edge_bytes(enum plane_kind kind, int size, int64_t chunk_bytes)
{
    bool shared = kind == PLANE_ALLTOALL || kind == PLANE_REDUCESCATTER;
    return shared ? chunk_bytes / size / 64 * 64 : chunk_bytes;
}

#endif
