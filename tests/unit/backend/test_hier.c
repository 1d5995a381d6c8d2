/* test_hier.c: the backend of teams on several nodes, over tcp. A node is a piece of memory that its members
 * share; all members are in one process, turn by turn in random but repeatable order, or each in a thread. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "batches.h"
#include "waits.h"
#include "backend/hier/hier_team.h"
#include "backend/backend_env.h"

#define MAX_NODES       3
#define MAX_SHM_MEMBERS 9
#define PAGE            ((size_t)4096)
#define ARENA_BYTES     ((size_t)48 << 20) /* of a node */
#define CHUNK_BYTES     256                /* where nothing else is said */
#define SECOND          INT64_C(1000000)
#define LIMIT_US        (20 * SECOND) /* far longer than anything here takes */

/* Members of each node. */
static const int spreads[][MAX_NODES] = {{2, 2},    {1, 2},    {2, 1},    {3, 3},
                                         {3, 1, 2}, {1, 1, 3}, {2, 2, 2}, {3, 2, 3}};

#define SPREADS (int)(sizeof(spreads) / sizeof(spreads[0]))

/* Of these those with as many on each node. */
static const int even_spreads[] = {0, 3, 6};

/* One member. */
struct seat {
    struct backend_env env;
    struct peer_table peer_table;
    struct tree_shape shape;
    void *state, *team;
    struct batch_part part;
    struct backend_span spans[BATCHES_SPANS];
    int batch; /* how many it has begun */
    bool runs;
};

struct world {
    struct hvd_config config;
    struct hvd_job job;
    struct peer peers[MAX_SHM_MEMBERS];
    int node_of_rank[MAX_SHM_MEMBERS], ranks[MAX_SHM_MEMBERS];
    struct arena arenas[MAX_NODES];
    int size, slices;
    int each; /* members on each node, or 0 */
    int64_t chunk_bytes;
    uint64_t random;
    const struct batch_plan *plans;
    int plan_count;
    _Atomic bool failed;
    struct seat seats[MAX_SHM_MEMBERS];
};

/* ---- Members ------------------------------------------------------------------------------------ */

static void add_team(struct world *world, int rank, int set)
{
    struct hvd_error err = {""};
    struct seat *seat = &world->seats[rank];
    const struct team members = {.set = set, .rank = rank, .size = world->size, .ranks = world->ranks};
    int rc = backend_hier_tcp.add_team(seat->state, &members, clock_us() + SECOND, &seat->team, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    hier_team_set_chunk(seat->team, world->chunk_bytes);
}

/* With pages on both sides that cannot be touched. */
static struct arena open_arena(void)
{
    char *all =
        mmap(NULL, ARENA_BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(all, MAP_FAILED);
    ck_assert_int_eq(mprotect(all + PAGE, ARENA_BYTES, PROT_READ | PROT_WRITE), 0);
    return (struct arena){all + PAGE, ARENA_BYTES};
}

static void open_seat(struct world *world, int rank, int node, int local_size)
{
    struct seat *seat = &world->seats[rank];
    struct peer *peer = &world->peers[rank];
    seat->peer_table = (struct peer_table){
        .rank = rank, .size = world->size, .peers = world->peers, .node_of_rank = world->node_of_rank};
    seat->shape = (struct tree_shape){.local_size = local_size};
    seat->env = (struct backend_env){.config = &world->config,
                                     .job = &world->job,
                                     .peer_table = &seat->peer_table,
                                     .shape = &seat->shape,
                                     .arena = world->arenas[node],
                                     .epoll_fd = -1};
    ck_assert_int_eq(endpoint_open(&seat->env.endpoint, world->config.lease_us, NULL, NULL), HVD_OK);
    snprintf(peer->host, sizeof(peer->host), "n%d", node);
    peer->port = endpoint_port(seat->env.endpoint);
    peer->address_count = 1;
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &peer->addresses[0]);
}

static struct world *world_open(const int spread[MAX_NODES], int64_t chunk_bytes)
{
    struct world *world = calloc(1, sizeof(*world));
    world->config =
        (struct hvd_config){.start_timeout_us = LIMIT_US, .lease_us = 5 * SECOND, .tcp_streams = 2};
    world->chunk_bytes = chunk_bytes;
    world->random = 1;
    world->slices = MAX_SHM_MEMBERS;
    for (int node = 0; node < MAX_NODES; node++)
        world->size += spread[node];
    world->job.size = world->size;
    world->each = spread[0];
    for (int node = 0, rank = 0; node < MAX_NODES && spread[node] > 0; node++) {
        world->each = spread[node] == world->each ? world->each : 0;
        world->slices = spread[node] < world->slices ? spread[node] : world->slices;
        if (spread[node] > 1)
            world->arenas[node] = open_arena();
        for (int i = 0, leader = rank; i < spread[node]; i++, rank++) {
            world->node_of_rank[rank] = leader;
            world->ranks[rank] = rank;
            open_seat(world, rank, node, spread[node]);
        }
    }
    for (int rank = 0; rank < world->size; rank++) {
        struct seat *seat = &world->seats[rank];
        memset(seat->peer_table.key, 0x5a, sizeof(seat->peer_table.key));
        ck_assert_int_eq(backend_hier_tcp.open(&seat->env, 0, &seat->state, NULL), HVD_OK);
        add_team(world, rank, 0);
    }
    return world;
}

static void world_close(struct world *world)
{
    for (int rank = 0; rank < world->size; rank++) {
        struct seat *seat = &world->seats[rank];
        backend_hier_tcp.remove_team(seat->state, seat->team);
        backend_hier_tcp.close(seat->state);
        endpoint_close(seat->env.endpoint);
    }
    for (int node = 0; node < MAX_NODES; node++)
        if (world->arenas[node].base != NULL)
            munmap((char *)world->arenas[node].base - PAGE, ARENA_BYTES + 2 * PAGE);
    free(world);
}

/* ---- Batches ------------------------------------------------------------------------------------ */

/* In any thread: complain, for the test to see. */
static bool complain(struct world *world, int rank, const char *what, const struct hvd_error *err)
{
    fprintf(stderr, "# rank %d: %s: %s\n", rank, what, err->text);
    atomic_store(&world->failed, true);
    return false;
}

static bool begin(struct world *world, int rank)
{
    struct hvd_error err = {""};
    struct seat *seat = &world->seats[rank];
    batch_part_open(&seat->part, &world->plans[seat->batch], rank);
    if ((rank + seat->batch) % 2 == 0)
        batch_part_split_into_spans(&seat->part, seat->spans);
    seat->batch++;
    seat->runs = backend_hier_tcp.start(seat->state, seat->team, &seat->part.batch, &err) == HVD_OK;
    return seat->runs || complain(world, rank, "start", &err);
}

/* A step of [rank]: begin its next batch, or go on with it. False where there was nothing to do. */
static bool step(struct world *world, int rank)
{
    struct hvd_error err = {""};
    struct seat *seat = &world->seats[rank];
    bool moved = false;
    int lost = -1;
    if (!seat->runs)
        return seat->batch < world->plan_count && begin(world, rank);
    int rc = backend_hier_tcp.test(seat->state, seat->team, &moved, &lost, &err);
    if (rc == HVD_IN_PROGRESS)
        return moved;
    seat->runs = false;
    if (rc != HVD_OK)
        return complain(world, rank, "test", &err);
    if (!batch_part_close(&seat->part, &world->plans[seat->batch - 1], rank))
        return complain(world, rank, "wrong results", &err);
    return true;
}

static bool is_through(void *arg, int rank)
{
    const struct world *world = arg;
    return !world->seats[rank].runs && world->seats[rank].batch == world->plan_count;
}

struct member_thread {
    struct world *world;
    int rank;
    pthread_t thread;
};

static void in_threads(struct world *world, void *(*body)(void *arg))
{
    struct member_thread members[MAX_SHM_MEMBERS];
    for (int rank = 0; rank < world->size; rank++) {
        members[rank] = (struct member_thread){world, rank, 0};
        ck_assert_int_eq(pthread_create(&members[rank].thread, NULL, body, &members[rank]), 0);
    }
    for (int rank = 0; rank < world->size; rank++)
        pthread_join(members[rank].thread, NULL);
    ck_assert(!atomic_load(&world->failed));
}

static void *begin_in_thread(void *arg)
{
    const struct member_thread *self = arg;
    begin(self->world, self->rank);
    return NULL;
}

static void *run_member_thread(void *arg)
{
    const struct member_thread *self = arg;
    int64_t end_us = clock_us() + LIMIT_US;
    while (!is_through(self->world, self->rank) && !atomic_load(&self->world->failed)) {
        if (step(self->world, self->rank))
            continue;
        if (clock_us() > end_us)
            complain(self->world, self->rank, "too late", &(struct hvd_error){""});
        sched_yield();
    }
    return NULL;
}

static void take_plans(struct world *world, const struct batch_plan *plans, int count)
{
    world->plans = plans;
    world->plan_count = count;
    for (int rank = 0; rank < world->size; rank++)
        world->seats[rank].batch = 0;
}

/* Carry [plans], each member as far as it comes when it is its turn. The first is begun in threads, as the
 * members may have to connect. */
static void carry(struct world *world, const struct batch_plan *plans, int count)
{
    int64_t end_us = clock_us() + LIMIT_US;
    int left = world->size;
    take_plans(world, plans, count);
    in_threads(world, begin_in_thread);
    while (left > 0 && clock_us() < end_us && !atomic_load(&world->failed)) {
        int rank = batch_plan_random_below(&world->random, world->size);
        if (!is_through(world, rank) && step(world, rank))
            left -= is_through(world, rank);
    }
    ck_assert(!atomic_load(&world->failed));
    ck_assert_int_eq(left, 0);
}

/* Around what is of one member in a chunk, around a chunk, and far more than there are slots for; some have
 * nothing for anybody, some get nothing, and some of this node have nothing for the other ones. */
static struct batch_plan random_alltoall(struct world *world)
{
    static const int64_t edges[] = {64, 256, 1024};
    struct batch_plan plan = batch_plan_random(&world->random, COLL_ALLTOALL, world->size,
                                               edges[batch_plan_random_below(&world->random, 3)]);
    int cut = batch_plan_random_below(&world->random, 4);
    int one = batch_plan_random_below(&world->random, world->size);
    for (int other = 0; other < world->size; other++) {
        if (cut == 1)
            plan.counts[one][other] = 0;
        if (cut == 2)
            plan.counts[other][one] = 0;
        for (int from = 0; from < world->size && cut == 3; from++)
            if (world->node_of_rank[from] != world->node_of_rank[one] &&
                world->node_of_rank[other] == world->node_of_rank[one])
                plan.counts[from][other] = 0;
    }
    plan.counts[one][one] += 1;
    return plan;
}

/* Around what a turn of all slices holds, or what a member has of one. */
static const enum backend_kind kinds[] = {COLL_ALLREDUCE, COLL_BROADCAST, COLL_ALLGATHER, COLL_REDUCESCATTER,
                                          COLL_ALLTOALL};

#define KINDS 5 /* the last for members that are spread evenly only */

static struct batch_plan random_plan(struct world *world, enum backend_kind kind)
{
    bool shared = kind == COLL_ALLGATHER || kind == COLL_REDUCESCATTER;
    int64_t edge = world->chunk_bytes * world->slices;
    if (kind == COLL_ALLTOALL)
        return random_alltoall(world);
    return batch_plan_random(&world->random, kind, world->size, shared ? edge / 4 : edge);
}

static enum backend_kind random_kind(struct world *world)
{
    return kinds[batch_plan_random_below(&world->random, world->each > 0 ? KINDS : KINDS - 1)];
}

/* ---- What is carried ------------------------------------------------------------------------------ */

#define BATCHES 50

/* [_i] is the kind and how members are spread. */
START_TEST(each_kind_is_right_however_members_are_spread)
{
    static struct batch_plan plans[BATCHES];
    struct world *world = world_open(spreads[_i % SPREADS], CHUNK_BYTES);
    world->random = (uint64_t)_i + 11;
    for (int i = 0; i < BATCHES; i++)
        plans[i] = random_plan(world, kinds[_i / SPREADS]);
    carry(world, plans, BATCHES);
    world_close(world);
}
END_TEST

/* [_i] is how members are spread, and seeds. */
START_TEST(alltoalls_are_right)
{
    static struct batch_plan plans[BATCHES];
    struct world *world = world_open(spreads[even_spreads[_i % 3]], 64 << _i / 3);
    world->random = (uint64_t)_i + 17;
    for (int i = 0; i < BATCHES; i++)
        plans[i] = random_alltoall(world);
    carry(world, plans, BATCHES);
    world_close(world);
}
END_TEST

static struct batch_plan plan_of_one_type(const struct world *world, enum hvd_dtype dtype)
{
    return (struct batch_plan){
        .need = {COLL_ALLTOALL, dtype, dtype, HVD_SUM, world->size}, .prescale = 1, .postscale = 1};
}

/* As large as chunks and slots are: one element, edges, many times what there is room for; and only one pair
 * has something, on one node or between two. */
START_TEST(edges_of_real_chunks_are_right)
{
    const int64_t chunk = HIER_ALLTOALL_CHUNK_BYTES / 4;
    const int64_t counts[] = {1, chunk / 2, chunk / 2 + 1, chunk - 1, 9 * chunk + 7};
    const int pairs[][2] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {3, 0}};
    struct world *world = world_open(spreads[0], HIER_ALLTOALL_CHUNK_BYTES);
    struct batch_plan plans[10];
    for (int i = 0; i < 10; i++) {
        plans[i] = plan_of_one_type(world, HVD_FLOAT32);
        plans[i].sequence = (uint64_t)i;
        for (int from = 0; from < 4 && i < 5; from++)
            for (int to = 0; to < 4; to++)
                plans[i].counts[from][to] = counts[i];
        if (i >= 5)
            plans[i].counts[pairs[i - 5][0]][pairs[i - 5][1]] = 5 * chunk + 1;
    }
    carry(world, plans, 10);
    world_close(world);
}
END_TEST

/* One after the other, so that each begins where another kind has left the slots; what connects first. */
START_TEST(kinds_follow_each_other)
{
    static struct batch_plan plans[BATCHES];
    struct world *world = world_open(spreads[_i % SPREADS], 64 << _i / SPREADS);
    world->random = (uint64_t)_i + 101;
    for (int i = 0; i < BATCHES; i++)
        plans[i] = random_plan(world, i == 0 ? kinds[KINDS - 1 - (world->each == 0)] : random_kind(world));
    carry(world, plans, BATCHES);
    world_close(world);
}
END_TEST

/* Around a piece, and around all slots of a slice: as large as they are. */
START_TEST(edges_of_real_slots_are_right)
{
    enum backend_kind kind = kinds[_i];
    const int64_t turn = 2 * HIER_CHUNK_BYTES / 4;
    const int64_t counts[] = {1, turn - 1, turn, turn + 1, SLOTS * turn + 1, 3 * SLOTS * turn - 1};
    struct world *world = world_open(spreads[0], HIER_CHUNK_BYTES);
    struct batch_plan plans[6];
    world->random = (uint64_t)_i + 71;
    for (int i = 0; i < 6; i++) {
        struct batch_plan *plan = &plans[i];
        *plan = (struct batch_plan){.need = {kind, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 4},
                                    .sequence = (uint64_t)i,
                                    .root = i % 4,
                                    .prescale = i % 2 == 0 ? 1 : 0.5,
                                    .postscale = 1,
                                    .in_place = i % 3 == 0,
                                    .count = counts[i]};
        for (int member = 0; member < 4; member++)
            plan->counts[0][member] = counts[i] / 4 + (member == i % 4 ? counts[i] % 4 : 0);
    }
    carry(world, plans, 6);
    world_close(world);
}
END_TEST

START_TEST(members_in_threads_are_right)
{
    static struct batch_plan plans[BATCHES];
    struct world *world = world_open(spreads[_i], 1024);
    world->random = (uint64_t)_i + 7;
    for (int i = 0; i < BATCHES; i++)
        plans[i] = random_plan(world, random_kind(world));
    take_plans(world, plans, BATCHES);
    in_threads(world, run_member_thread);
    world_close(world);
}
END_TEST

/* ---- What goes wrong ------------------------------------------------------------------------------ */

static void give_up(struct world *world, int rank)
{
    struct seat *seat = &world->seats[rank];
    backend_hier_tcp.remove_team(seat->state, seat->team);
    seat->team = NULL;
    seat->runs = false;
    batch_part_abandon(&seat->part);
}

/* Long enough that nobody comes to its end alone, in parts that all have something of. */
static struct batch_plan long_plan(const struct world *world, enum backend_kind kind)
{
    struct batch_plan plan = {.need = {kind, HVD_FLOAT64, HVD_FLOAT64, HVD_SUM, world->size},
                              .sequence = 9,
                              .prescale = 1,
                              .postscale = 1};
    for (int member = 0; member < world->size; member++) {
        plan.counts[0][member] = 40000;
        plan.count += plan.counts[0][member];
        for (int to = 0; to < world->size && kind == COLL_ALLTOALL; to++)
            plan.counts[member][to] = 8000;
    }
    return plan;
}

/* In the middle of it: its memory is the caller's again, the others can give up too, and the room is free for
 * another team, whatever lies in it. [_i] is the kind. */
START_TEST(a_batch_can_be_given_up)
{
    struct batch_plan plans[2];
    struct world *world = world_open(spreads[3], CHUNK_BYTES);
    world->random = (uint64_t)_i + 5;
    for (int set = 1; set <= 6; set++) {
        plans[0] = random_plan(world, kinds[_i]);
        carry(world, plans, 1);
        plans[1] = long_plan(world, kinds[_i]);
        plans[1].in_place = set % 2 == 0 && kinds[_i] != COLL_ALLTOALL;
        world->plan_count = 2;
        for (int rank = 0; rank < world->size; rank++)
            begin(world, rank);
        for (int i = batch_plan_random_below(&world->random, 30); i > 0; i--)
            step(world, batch_plan_random_below(&world->random, world->size));
        int first = batch_plan_random_below(&world->random, world->size);
        for (int i = 0; i < world->size; i++) {
            ck_assert(world->seats[(first + i) % world->size].runs);
            give_up(world, (first + i) % world->size);
        }
        for (int rank = 0; rank < world->size; rank++) {
            ck_assert(batch_part_close_untouched(&world->seats[rank].part));
            add_team(world, rank, set);
        }
    }
    world_close(world);
}
END_TEST

static int waits_for(void *world, int rank)
{
    return backend_hier_tcp.waits_for(NULL, ((struct world *)world)->seats[rank].team);
}

/* One member stops somewhere; [_i] is the kind. */
START_TEST(a_stopped_member_is_waited_for)
{
    for (int round = 0; round < 12; round++) {
        const int *spread = _i == KINDS - 1 ? spreads[even_spreads[round % 3]] : spreads[round % SPREADS];
        struct world *world = world_open(spread, CHUNK_BYTES);
        struct batch_plan plan = long_plan(world, kinds[_i]);
        int stopped = round % world->size, turns_left = 2 * round + _i;
        take_plans(world, &plan, 1);
        in_threads(world, begin_in_thread);
        for (int idle = 0; idle < 3000; idle++) {
            int rank = batch_plan_random_below(&world->random, world->size);
            bool stands = is_through(world, rank) || (rank == stopped && turns_left-- <= 0);
            idle = !stands && step(world, rank) ? 0 : idle;
        }
        ck_assert_waits_end_at(&(struct waits){world->size, is_through, waits_for, world}, stopped);
        for (int i = 0; i < world->size; i++)
            ck_assert(!world->seats[i].runs || batch_part_free(&world->seats[i].part));
        world_close(world);
    }
}
END_TEST

/* Of the ranks that carry the same slice the neighbours see it, by its rank in the job; in an alltoall all.
 */
START_TEST(a_lost_rank_is_named)
{
    struct hvd_error err = {""};
    struct batch_plan plans[2];
    enum backend_kind kind = _i == 0 ? COLL_ALLREDUCE : COLL_ALLTOALL;
    struct world *world = world_open(spreads[6], CHUNK_BYTES);
    plans[0] = long_plan(world, kind); /* all slices have something, so all connect */
    plans[0].sequence--;
    carry(world, plans, 1);
    plans[1] = long_plan(world, kind);
    world->plan_count = 2;
    for (int rank = 0; rank < world->size; rank++)
        begin(world, rank);
    give_up(world, 3);
    ck_assert(batch_part_close_untouched(&world->seats[3].part));
    int rc = HVD_IN_PROGRESS, lost = -1;
    for (int64_t end_us = clock_us() + LIMIT_US; rc == HVD_IN_PROGRESS && clock_us() < end_us;) {
        bool moved = false;
        rc = backend_hier_tcp.test(world->seats[1].state, world->seats[1].team, &moved, &lost, &err);
    }
    ck_assert_int_eq(rc, HVD_ERR_RANK_LOST);
    ck_assert_int_eq(lost, 3);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 3 (n1)"));
    for (int rank = 0; rank < world->size; rank++) {
        if (rank == 3)
            continue;
        give_up(world, rank);
        ck_assert(batch_part_close_untouched(&world->seats[rank].part));
    }
    world_close(world);
}
END_TEST

/* Where a node's team keeps what it needs for alltoalls: behind the region of the stage. */
static char *alltoall_region(const struct world *world, int node)
{
    /* the table of the arena is smaller than a page, and so are the lines of the stage */
    size_t slots = ((size_t)world->each + 1) * SLOTS * (size_t)world->each * (size_t)HIER_CHUNK_BYTES;
    return (char *)world->arenas[node].base + 2 * PAGE + slots;
}

/* Of two members of a node the other one says how much it has for the first rank of the other node. */
START_TEST(counts_that_cannot_be_are_an_error)
{
    static const int64_t counts[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX / 8, INT64_MAX / 8 - 8000 + 1};
    struct hvd_error err = {""};
    char expected[200];
    struct world *world = world_open(spreads[0], CHUNK_BYTES);
    struct seat *seat = &world->seats[0];
    struct batch_plan plan = long_plan(world, COLL_ALLTOALL);
    take_plans(world, &plan, 1);
    in_threads(world, begin_in_thread);
    /* heads, counts of what was given, and the table of the first turn, which is in its second half */
    int64_t *table = (int64_t *)(void *)(alltoall_region(world, 0) + INT64_C(4) * 64) + INT64_C(2) * 4;
    ck_assert_int_eq(table[4 + 2], 8000);
    table[4 + 2] = counts[_i];
    int rc = HVD_IN_PROGRESS, lost = -1;
    for (int i = 0; i < 1000 && rc == HVD_IN_PROGRESS; i++) {
        bool moved = false;
        rc = backend_hier_tcp.test(seat->state, seat->team, &moved, &lost, &err);
    }
    ck_assert_int_eq(rc, HVD_ERR_SYSTEM);
    snprintf(expected, sizeof(expected),
             "rank 1 announced %lld elements for rank 2 in an alltoall of process set 0",
             (long long)counts[_i]);
    ck_assert_msg(strstr(err.text, expected) != NULL, "%s", err.text);
    for (int rank = 0; rank < world->size; rank++) {
        give_up(world, rank);
        ck_assert(batch_part_close_untouched(&world->seats[rank].part));
    }
    world_close(world);
}
END_TEST

/* Write nonsense over [count] words of the lines and slots of a node's team, more often the former. */
static void spoil(struct world *world, int node, enum backend_kind kind, int count)
{
    /* the table of the arena is smaller than a page */
    void *stage = (char *)world->arenas[node].base + PAGE;
    uint64_t *lines = kind == COLL_ALLTOALL ? (void *)alltoall_region(world, node) : stage;
    for (int i = 0; i < count; i++) {
        uint64_t random = reference_random(&world->random);
        uint64_t words = random % 3 == 0 ? 100000 : kind == COLL_ALLTOALL ? 160 : 3 * 8;
        const uint64_t values[] = {0, 1, 2, 5, UINT64_MAX, INT64_MAX, random, UINT64_MAX / 64, random >> 50};
        lines[reference_random(&world->random) % words] = values[batch_plan_random_below(&world->random, 9)];
    }
}

/* Whatever other processes write there: what lies around input and output stays as it is, and so does input.
 */
START_TEST(nonsense_in_memory_touches_nothing_else)
{
    enum backend_kind kind = kinds[_i % KINDS];
    struct world *world = world_open(spreads[3], CHUNK_BYTES);
    world->random = (uint64_t)_i + 31;
    for (int set = 1; set <= 5; set++) {
        struct batch_plan plan = random_plan(world, kind);
        plan.in_place = false;
        take_plans(world, &plan, 1);
        in_threads(world, begin_in_thread);
        for (int i = 0; i < 600; i++) {
            struct seat *seat = &world->seats[batch_plan_random_below(&world->random, world->size)];
            bool moved = false;
            int lost = -1;
            struct hvd_error err;
            spoil(world, batch_plan_random_below(&world->random, 2), kind,
                  batch_plan_random_below(&world->random, 4));
            if (seat->runs)
                seat->runs =
                    backend_hier_tcp.test(seat->state, seat->team, &moved, &lost, &err) == HVD_IN_PROGRESS;
        }
        for (int rank = 0; rank < world->size; rank++) {
            struct seat *seat = &world->seats[rank];
            char *input = malloc(seat->part.input_bytes + 1);
            backend_hier_tcp.remove_team(seat->state, seat->team);
            if (seat->part.input != NULL) {
                batch_plan_input(&plan, rank, input);
                ck_assert_mem_eq(input, seat->part.input, seat->part.input_bytes);
            }
            free(input);
            ck_assert(guarded_free(seat->part.output, seat->part.output_bytes));
            ck_assert(guarded_free(seat->part.input, seat->part.input_bytes));
            seat->runs = false;
        }
        for (int rank = 0; rank < world->size; rank++)
            add_team(world, rank, set);
    }
    world_close(world);
}
END_TEST

/* A forked child has closed what is its teams' before it does anything else. */
START_TEST(a_forked_child_has_no_connection)
{
    int status = -1;
    bool before[200];
    struct batch_plan plan;
    struct world *world = world_open(spreads[0], CHUNK_BYTES);
    plan = random_plan(world, COLL_ALLTOALL);
    for (int fd = 0; fd < 200; fd++)
        before[fd] = fcntl(fd, F_GETFD) >= 0;
    carry(world, &plan, 1);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        for (int rank = 0; rank < world->size; rank++)
            backend_hier_tcp.after_fork(world->seats[rank].state);
        for (int fd = 0; fd < 200; fd++)
            if (!before[fd] && fcntl(fd, F_GETFD) >= 0)
                _exit(1);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    carry(world, &plan, 1);
    world_close(world);
}
END_TEST

/* ---- Whom it carries for --------------------------------------------------------------------------- */

START_TEST(a_team_without_room_is_refused)
{
    struct hvd_error err = {""};
    struct world *world = world_open(spreads[0], HIER_CHUNK_BYTES);
    struct seat *seat = &world->seats[0];
    void *teams[64] = {NULL};
    int count = 0, rc = HVD_OK;
    for (; rc == HVD_OK && count < 64; count += rc == HVD_OK) {
        const struct team members = {.set = 10 + count, .size = 4, .ranks = world->ranks};
        rc = backend_hier_tcp.add_team(seat->state, &members, clock_us() + SECOND, &teams[count], &err);
    }
    ck_assert_int_eq(rc, HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_null(teams[count]);
    /* two members and the results, each with slots of two slices; two members, each with slots for both ways
     * of alltoalls; and one team is there */
    const int64_t slots_bytes = 3 * 2 * SLOTS * HIER_CHUNK_BYTES;
    const int64_t alltoall_bytes = INT64_C(2) * 2 * SLOTS * HIER_ALLTOALL_CHUNK_BYTES;
    ck_assert_int_eq(count, (int)((int64_t)ARENA_BYTES / (slots_bytes + alltoall_bytes)) - 1);
    while (count > 0)
        backend_hier_tcp.remove_team(seat->state, teams[--count]);
    backend_hier_tcp.remove_team(seat->state, NULL);
    world_close(world);
}
END_TEST

START_TEST(serves_teams_that_are_spread_as_it_needs)
{
    static const char one_node[] = "the ranks are on one node";
    static const char alone[] = "each rank is on a node of its own";
    static const char mixed[] = "ranks of other nodes are between those of a node";
    static const struct {
        int size, ranks[6];
        const char *why; /* NULL: it does */
    } cases[] = {
        {6, {0, 1, 2, 3, 4, 5}, mixed}, {3, {0, 1, 2}, NULL}, {4, {0, 1, 3, 4}, NULL},
        {2, {0, 1}, one_node},          {2, {1, 3}, alone},   {1, {4}, one_node},
        {3, {2, 3, 4}, mixed},          {3, {0, 2, 4}, NULL}, {4, {1, 3, 4, 5}, NULL},
        {3, {3, 4, 5}, NULL},           {2, {3, 4}, alone},   {2, {2, 4}, one_node},
        {5, {4, 5, 6, 7, 8}, mixed},
    };
    int nodes[] = {0, 0, 2, 3, 2, 2, 0, 2, 2}; /* from rank 4 on: back to the higher one */
    struct peer_table peer_table = {.size = 9, .node_of_rank = nodes};
    const struct backend_env env = {.peer_table = &peer_table, .epoll_fd = -1};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct team team = {.size = cases[i].size, .ranks = cases[i].ranks};
        const char *why = NULL;
        bool reaches = backend_hier_tcp.reaches(&env, &team, &why);
        ck_assert_msg(reaches == (cases[i].why == NULL), "case %zu", i);
        ck_assert_msg(reaches || strcmp(why, cases[i].why) == 0, "case %zu: %s", i, why);
        ck_assert(backend_hier_mpi.reaches(&env, &team, &why) == reaches);
    }
}
END_TEST

START_TEST(knows_what_it_can)
{
    struct backend_need need = {(enum backend_kind)_i, HVD_FLOAT16, HVD_FLOAT32, HVD_SUM, 3};
    bool reduces = _i == COLL_ALLREDUCE || _i == COLL_REDUCESCATTER;
    ck_assert(backend_hier_tcp.supports(&need));
    ck_assert(backend_hier_mpi.supports(&need));
    ck_assert(backend_hier_tcp.supports_ppn(&need, 0) == (_i != COLL_ALLTOALL));
    ck_assert(backend_hier_mpi.supports_ppn(&need, 0) == (_i != COLL_ALLTOALL));
    ck_assert(backend_hier_tcp.supports_ppn(&need, 2));
    need.op = HVD_ADASUM;
    ck_assert(backend_hier_tcp.supports(&need) == !reduces);
    need.op = HVD_SUM;
    need.ranks = 1;
    ck_assert(!backend_hier_tcp.supports(&need));
}
END_TEST

START_TEST(is_there_where_tcp_and_shared_memory_are)
{
    struct hvd_job job = {.rank = 0, .size = 1};
    struct tree_shape one = {.local_size = 1}, two = {.local_size = 2};
    struct backend_env env = {.job = &job, .shape = &one, .epoll_fd = -1};
    char memory[1];
    const char *why = NULL;
    ck_assert(!backend_hier_tcp.available(&env, &why));
    ck_assert_str_eq(why, "the job has one rank");
    job.size = 4;
    ck_assert(backend_hier_tcp.available(&env, &why));
    env.shape = &two;
    ck_assert(!backend_hier_tcp.available(&env, &why));
    ck_assert_str_eq(why, "this rank shares no memory with the others of its node");
    env.arena.base = memory;
    ck_assert(backend_hier_tcp.available(&env, &why));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("hier");
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, each_kind_is_right_however_members_are_spread, 0, 4 * SPREADS);
    tcase_add_loop_test(tcase, alltoalls_are_right, 0, 9);
    tcase_add_test(tcase, edges_of_real_chunks_are_right);
    tcase_add_loop_test(tcase, kinds_follow_each_other, 0, 3 * SPREADS);
    tcase_add_loop_test(tcase, edges_of_real_slots_are_right, 0, 4);
    tcase_add_loop_test(tcase, a_batch_can_be_given_up, 0, KINDS);
    tcase_add_loop_test(tcase, a_stopped_member_is_waited_for, 0, KINDS);
    tcase_add_loop_test(tcase, a_lost_rank_is_named, 0, 2);
    tcase_add_loop_test(tcase, counts_that_cannot_be_are_an_error, 0, 5);
    tcase_add_loop_test(tcase, nonsense_in_memory_touches_nothing_else, 0, 3 * KINDS);
    tcase_add_test(tcase, a_forked_child_has_no_connection);
    tcase_add_test(tcase, a_team_without_room_is_refused);
    tcase_add_test(tcase, serves_teams_that_are_spread_as_it_needs);
    tcase_add_loop_test(tcase, knows_what_it_can, 0, COLL_REDUCESCATTER + 1);
    tcase_add_test(tcase, is_there_where_tcp_and_shared_memory_are);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create(UNIT_THREADS);
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, members_in_threads_are_right, 0, SPREADS);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    if (sodium_init() < 0)
        return 1;
    return unit_run("hier", fill);
}
