/* shm_world.h: the backend shm with all members in one process, which step in random order or run as threads.
 */
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
#define TURNS           4000000 /* far more than any of these batches takes: after that the backend hangs */
#define SECOND          INT64_C(1000000)

/* One member. */
struct shm_member {
    struct backend_env env;
    void *state, *team;
    struct batch_part part;
    struct backend_span spans[BATCHES_SPANS];
    struct windows windows;
    int batch; /* how many batches it has begun */
    bool runs;
};

struct shm_world {
    struct arena arena;
    struct hvd_job job;
    struct peer_table peer_table;
    int node_of_rank[MAX_SHM_MEMBERS], ranks[MAX_SHM_MEMBERS];
    int size;
    uint64_t random;
    /* Does [rank] have the tensors of batch [batch] in its window? NULL: no rank ever does. */
    bool (*in_window)(int batch, int rank);
    const struct batch_plan *plans;
    int plan_count;
    struct shm_member seats[MAX_SHM_MEMBERS];
};

/* Small chunks let small batches have many: a multiple of 64 bytes, at least 64 for each member and no larger
 * than before. */
static inline void shm_world_add_team(struct shm_world *world, int rank, int set, int64_t chunk_bytes)
{
    struct hvd_error err = {""};
    struct shm_member *seat = &world->seats[rank];
    const struct team members = {.set = set, .rank = rank, .size = world->size, .ranks = world->ranks};
    int rc = backend_shm.add_team(seat->state, &members, clock_us() + SECOND, &seat->team, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    ((struct shm_team *)seat->team)->slots.chunk_bytes = chunk_bytes;
}

/* A world whose arena has [bytes], between two guard pages. */
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

/* A world whose arena has room for two teams. */
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

/* Most batches let the backend choose the chunk size; others ask for small chunks, or for impossible sizes.
 */
static inline int64_t batch_plan_chunk_bytes(const struct batch_plan *plan)
{
    static const int64_t asked[] = {0, 0, 0, 1, 200, 448, INT64_MAX};
    return asked[plan->sequence % (sizeof(asked) / sizeof(asked[0]))];
}

/* Where the memory of [rank]'s next batch is placed: in its window, or NULL for anywhere. */
static inline char *shm_world_room(const struct shm_world *world, int rank)
{
    const struct shm_member *seat = &world->seats[rank];
    if (world->in_window == NULL || !world->in_window(seat->batch, rank))
        return NULL;
    return windows_pointer(&seat->windows, rank, 0, seat->windows.bytes);
}

/* One step of [rank]: begin its next batch, or continue the current one. False if nothing moved. */
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

/* Step [rank] until nothing moves any more. */
static inline void run_until_idle(struct shm_world *world, int rank)
{
    while (shm_world_step(world, rank))
        continue;
}

/* Carry [plans]: members take single steps, in random order. */
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

#define SLEEP_MS 20000 /* longer than any member has to sleep */

static inline bool is_woken(const struct shm_member *seat, int timeout_ms)
{
    struct epoll_event event;
    return epoll_wait(seat->env.epoll_fd, &event, 1, timeout_ms) == 1;
}

/* Sleep as the progress driver does: arm, look once more, then wait. */
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

/* Carry [plans], each member in its own thread. A member that cannot go on sleeps, if [sleeps], or polls and
 * yields. */
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

/* The bytes of a batch that a chunk carries; in alltoall and reducescatter, those for each member. */
static inline int64_t edge_bytes(enum backend_kind kind, int size, int64_t chunk_bytes)
{
    bool shared = kind == COLL_ALLTOALL || kind == COLL_REDUCESCATTER;
    return shared ? chunk_bytes / size / 64 * 64 : chunk_bytes;
}

#endif
