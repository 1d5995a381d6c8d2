/* shm_world.h: the backend of ranks that share a node's memory, with all members in one process, that take
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
#include "backend/backend_env.h"

#define ROOM            ((size_t)(SLOTS * SHM_CHUNK_BYTES)) /* of one member's slots */
#define PAGE            ((size_t)4096)
#define MAX_SHM_MEMBERS 128
#define TURNS           4000000 /* far more than any of these batches takes: past it nothing moves any more */
#define SECOND          INT64_C(1000000)

/* One member. */
struct shm_member {
    struct backend_env env;
    void *state, *team;
    struct batch_part part;
    struct backend_span spans[BATCHES_SPANS];
    struct windows windows;
    int batch; /* how many it has begun */
    bool runs;
};

struct shm_world {
    struct arena arena;
    struct hvd_job job;
    struct peer_table peer_table;
    int node_of_rank[MAX_SHM_MEMBERS], ranks[MAX_SHM_MEMBERS];
    int size;
    uint64_t random;
    /* Do these take part in batch [batch] with memory in their windows? NULL: none ever. */
    bool (*in_window)(int batch, int rank);
    const struct batch_plan *plans;
    int plan_count;
    struct shm_member seats[MAX_SHM_MEMBERS];
};

static inline void shm_world_add_team(struct shm_world *world, int rank, int set, int64_t chunk_bytes)
{
    struct hvd_error err = {""};
    struct shm_member *seat = &world->seats[rank];
    const struct team members = {.set = set, .rank = rank, .size = world->size, .ranks = world->ranks};
    int rc = backend_shm.add_team(seat->state, &members, clock_us() + SECOND, &seat->team, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    shm_set_chunk(seat->team, chunk_bytes);
}

/* Its arena has [bytes], and pages on both sides that cannot be touched. */
static inline struct shm_world *shm_world_open_in(size_t bytes, int size, int64_t chunk_bytes)
{
    struct shm_world *world = calloc(1, sizeof(*world));
    char *all = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(all, MAP_FAILED);
    ck_assert_int_eq(mprotect(all + PAGE, bytes, PROT_READ | PROT_WRITE), 0);
    world->arena = (struct arena){all + PAGE, bytes};
    world->size = size;
    world->random = 1;
    world->job.size = size;
    world->peer_table = (struct peer_table){.size = size, .node_of_rank = world->node_of_rank};
    for (int rank = 0; rank < size; rank++) {
        struct shm_member *seat = &world->seats[rank];
        world->ranks[rank] = rank;
        seat->env = (struct backend_env){.job = &world->job,
                                         .peer_table = &world->peer_table,
                                         .arena = world->arena,
                                         .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
        ck_assert_int_eq(backend_shm.open(&seat->env, 0, &seat->state, NULL), HVD_OK);
        shm_world_add_team(world, rank, 0, chunk_bytes);
    }
    return world;
}

/* With room for two teams. */
static inline struct shm_world *shm_world_open(int size, int64_t chunk_bytes)
{
    return shm_world_open_in((2 * (size_t)size + 6) * ROOM, size, chunk_bytes);
}

static inline void shm_world_close(struct shm_world *world)
{
    for (int rank = 0; rank < world->size; rank++) {
        if (world->seats[rank].team != NULL)
            backend_shm.remove_team(world->seats[rank].state, world->seats[rank].team);
        backend_shm.close(world->seats[rank].state);
        close(world->seats[rank].env.epoll_fd);
    }
    munmap((char *)world->arena.base - PAGE, world->arena.bytes + 2 * PAGE);
    free(world);
}

/* Most batches leave it to the backend how long their chunks are; others ask for less, or for what cannot be.
 */
static inline int64_t batch_plan_chunk_bytes(const struct batch_plan *plan)
{
    static const int64_t asked[] = {0, 0, 0, 1, 200, 448, INT64_MAX};
    return asked[plan->sequence % (sizeof(asked) / sizeof(asked[0]))];
}

/* Where its next batch's memory is to be. */
static inline char *shm_world_room(const struct shm_world *world, int rank)
{
    const struct shm_member *seat = &world->seats[rank];
    if (world->in_window == NULL || !world->in_window(seat->batch, rank))
        return NULL;
    return windows_pointer(&seat->windows, rank, 0, seat->windows.bytes);
}

/* A step of [rank]: begin its next batch, or go on with it. False where there was nothing to do. */
static inline bool shm_world_step(struct shm_world *world, int rank)
{
    struct hvd_error err = {""};
    struct shm_member *seat = &world->seats[rank];
    bool moved = false;
    int lost = -1;
    if (!seat->runs && seat->batch == world->plan_count)
        return false;
    if (!seat->runs) {
        batch_part_open_in(&seat->part, &world->plans[seat->batch], rank, shm_world_room(world, rank));
        ck_assert(backend_shm.supports(&seat->part.batch.need));
        if ((rank + seat->batch) % 2 == 0)
            batch_part_split_into_spans(&seat->part, seat->spans);
        seat->part.batch.chunk_bytes = batch_plan_chunk_bytes(&world->plans[seat->batch]);
        ck_assert_int_eq(backend_shm.start(seat->state, seat->team, &seat->part.batch, &err), HVD_OK);
        seat->batch++;
        seat->runs = true;
        return true;
    }
    int rc = backend_shm.test(seat->state, seat->team, &moved, &lost, &err);
    if (rc == HVD_IN_PROGRESS)
        return moved;
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    ck_assert(batch_part_close(&seat->part, &world->plans[seat->batch - 1], rank));
    seat->runs = false;
    return true;
}

/* Take steps until nothing moves any more. */
static inline void run_until_idle(struct shm_world *world, int rank)
{
    while (shm_world_step(world, rank))
        continue;
}

/* Carry [plans], each member as far as it comes when it is its turn. */
static inline void shm_world_carry(struct shm_world *world, const struct batch_plan *plans, int count)
{
    int left = world->size;
    world->plans = plans;
    world->plan_count = count;
    for (int rank = 0; rank < world->size; rank++)
        world->seats[rank].batch = 0;
    for (int i = 0; i < TURNS && left > 0; i++) {
        int rank = batch_plan_random_below(&world->random, world->size);
        bool ended = !world->seats[rank].runs && world->seats[rank].batch == count;
        if (ended || !shm_world_step(world, rank))
            continue;
        left -= !world->seats[rank].runs && world->seats[rank].batch == count;
    }
    ck_assert_int_eq(left, 0);
}

/* ---- Members in threads -------------------------------------------------------------------------- */

struct member_thread {
    struct shm_world *world;
    int rank;
    bool sleeps;
    pthread_t thread;
};

#define SLEEP_MS 20000 /* nobody sleeps so long */

static inline bool is_woken(const struct shm_member *seat, int timeout_ms)
{
    struct epoll_event event;
    return epoll_wait(seat->env.epoll_fd, &event, 1, timeout_ms) == 1;
}

/* As whoever holds the progress does it. */
static inline void sleep_until_woken(struct shm_world *world, int rank)
{
    struct shm_member *seat = &world->seats[rank];
    backend_shm.arm(seat->state, true);
    if (!shm_world_step(world, rank) && seat->runs)
        ck_assert(is_woken(seat, SLEEP_MS));
    backend_shm.arm(seat->state, false);
}

static inline void *run_member_thread(void *arg)
{
    const struct member_thread *self = arg;
    struct shm_world *world = self->world;
    const struct shm_member *seat = &world->seats[self->rank];
    while (seat->runs || seat->batch < world->plan_count) {
        if (shm_world_step(world, self->rank))
            continue;
        if (self->sleeps)
            sleep_until_woken(world, self->rank);
        else
            sched_yield();
    }
    return NULL;
}

/* Carry [plans], each member in a thread; it looks again and again where it finds nothing to do, or sleeps.
 */
static inline void shm_world_carry_in_threads(struct shm_world *world, const struct batch_plan *plans,
                                              int count, bool sleeps)
{
    struct member_thread members[MAX_SHM_MEMBERS];
    world->plans = plans;
    world->plan_count = count;
    for (int rank = 0; rank < world->size; rank++) {
        world->seats[rank].batch = 0;
        members[rank] = (struct member_thread){.world = world, .rank = rank, .sleeps = sleeps};
        ck_assert_int_eq(pthread_create(&members[rank].thread, NULL, run_member_thread, &members[rank]), 0);
    }
    for (int rank = 0; rank < world->size; rank++)
        pthread_join(members[rank].thread, NULL);
}

/* What a chunk holds: of it all, or for each member. */
static inline int64_t edge_bytes(enum backend_kind kind, int size, int64_t chunk_bytes)
{
    bool shared = kind == COLL_ALLTOALL || kind == COLL_REDUCESCATTER;
    return shared ? chunk_bytes / size / 64 * 64 : chunk_bytes;
}

#endif
