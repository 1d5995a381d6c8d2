/* test_shm.c: the backend of ranks that share a node's memory: all members in one process, turn by turn in
 * random but repeatable order. */
#include "config.h"
#include "unit.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "node/node_memory.h"
#include "backend/shm/shm_team.h"
#include "shm_world.h"
#include "waits.h"
#include "backend/backend_env.h"

/* ---- What is carried -------------------------------------------------------------------------- */

static const int sizes[] = {2, 3, 4, 5, 6, 7, 33};

#define SIZES   (int)(sizeof(sizes) / sizeof(sizes[0]))
#define BATCHES 60

/* [_i] is the kind and the size. */
START_TEST(each_kind_is_right_at_all_sizes)
{
    enum backend_kind kind = (enum backend_kind)(_i / SIZES);
    int size = sizes[_i % SIZES];
    int64_t chunk_bytes = size > 7 ? 4096 : 512;
    int count = size > 7 ? BATCHES / 4 : BATCHES;
    struct batch_plan *plans = calloc((size_t)count, sizeof(*plans));
    struct shm_world *world = shm_world_open(size, chunk_bytes);
    world->random = (uint64_t)_i + 11;
    for (int i = 0; i < count; i++)
        plans[i] = batch_plan_random(&world->random, kind, size, edge_bytes(kind, size, chunk_bytes));
    shm_world_carry(world, plans, count);
    shm_world_close(world);
    free(plans);
}
END_TEST

/* One after the other, so that each begins where another kind has left the slots. */
START_TEST(kinds_follow_each_other)
{
    struct batch_plan *plans = calloc(BATCHES, sizeof(*plans));
    int size = 2 + _i % 5;
    struct shm_world *world = shm_world_open(size, 512);
    world->random = (uint64_t)_i + 101;
    for (int i = 0; i < BATCHES; i++) {
        enum backend_kind kind =
            (enum backend_kind)batch_plan_random_below(&world->random, COLL_REDUCESCATTER + 1);
        plans[i] = batch_plan_random(&world->random, kind, size, edge_bytes(kind, size, 512));
    }
    shm_world_carry(world, plans, BATCHES);
    shm_world_close(world);
    free(plans);
}
END_TEST

/* Around a slot, and around all slots of a member: as large as they are. */
START_TEST(edges_of_real_slots_are_right)
{
    enum backend_kind kind = (enum backend_kind)_i;
    const int64_t slot = edge_bytes(kind, 3, SHM_CHUNK_BYTES) / 4;
    const int64_t counts[] = {
        slot - 1, slot, slot + 1, SLOTS * slot, SLOTS * slot + 1, (2 * SLOTS + 1) * slot - 1};
    struct shm_world *world = shm_world_open(3, SHM_CHUNK_BYTES);
    struct batch_plan plans[6];
    world->random = (uint64_t)_i + 71;
    for (int i = 0; i < 6; i++) {
        struct batch_plan *plan = &plans[i];
        *plan = (struct batch_plan){.need = {kind, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 3},
                                    .sequence = (uint64_t)i,
                                    .root = 1,
                                    .prescale = i % 2 == 0 ? 1 : 0.5,
                                    .postscale = 1,
                                    .in_place = i % 3 == 0 && kind != COLL_ALLTOALL,
                                    .count = counts[i]};
        for (int from = 0; kind >= COLL_ALLGATHER && from < 3; from++) {
            plan->counts[from][from == 2 ? 0 : 2] = counts[i];
            plan->counts[from][1] = from == 0 ? 1 : 0;
        }
        if (kind >= COLL_ALLGATHER)
            plan->count = counts[i] + 1;
    }
    shm_world_carry(world, plans, 6);
    shm_world_close(world);
}
END_TEST

/* ---- Who waits for whom ----------------------------------------------------------------------- */

static bool is_through(void *arg, int rank)
{
    const struct shm_world *world = arg;
    return !world->seats[rank].runs && world->seats[rank].batch == world->plan_count;
}

static bool all_are_through(struct shm_world *world)
{
    for (int rank = 0; rank < world->size; rank++)
        if (!is_through(world, rank))
            return false;
    return true;
}

static int waits_for(void *arg, int rank)
{
    struct shm_world *world = arg;
    ck_assert(world->seats[rank].runs);
    return backend_shm.waits_for(world->seats[rank].state, world->seats[rank].team);
}

/* One member stops somewhere; [_i] is the kind. */
START_TEST(a_stopped_member_is_waited_for)
{
    enum backend_kind kind = (enum backend_kind)_i;
    for (int round = 0; round < 40; round++) {
        struct shm_world *world = shm_world_open(2 + round % 4, 512);
        struct batch_plan plans[3];
        struct waits waits = {world->size, is_through, waits_for, world};
        world->random = (uint64_t)(100 * _i + round + 1);
        for (int i = 0; i < 3; i++)
            plans[i] = batch_plan_random(&world->random, kind, world->size, 4096);
        int stopped = batch_plan_random_below(&world->random, world->size);
        world->plans = plans;
        world->plan_count = 3;
        for (int rank = 0; rank < world->size; rank++)
            shm_world_step(world, rank); /* begins the first */
        for (int i = batch_plan_random_below(&world->random, 60); i > 0; i--)
            shm_world_step(world, batch_plan_random_below(&world->random, world->size));
        for (int idle = 0; idle < 1000; idle++) {
            int rank = batch_plan_random_below(&world->random, world->size);
            if (rank != stopped && shm_world_step(world, rank))
                idle = 0;
        }
        ck_assert_waits_end_at(&waits, stopped);
        for (int i = 0; i < TURNS && !all_are_through(world); i++)
            shm_world_step(world, i % world->size);
        ck_assert(all_are_through(world));
        shm_world_close(world);
    }
}
END_TEST

/* A member may have no memory at all, and all of them nothing to do. */
START_TEST(bears_nothing)
{
    static const int64_t none[3] = {0}, some[3] = {0, 0, 700}, from_one[3] = {0, 700, 0};
    char sent[700], received[700] = "";
    bool moved = false;
    int lost = -1;
    struct shm_world *world = shm_world_open(3, 512);
    memset(sent, 0x31, sizeof(sent));
    for (int round = 0; round < 12; round++) {
        bool full = round % 3 == 2;
        int left = 3;
        for (int rank = 0; rank < 3; rank++) {
            bool sends = full && rank == 1, receives = full && rank == 2;
            struct backend_batch batch = {.need = {COLL_ALLTOALL, HVD_INT8, HVD_INT8, HVD_SUM, 3},
                                          .input = sends ? sent : NULL,
                                          .output = receives ? received : NULL,
                                          .counts = sends ? some : none,
                                          .receive_counts = receives ? from_one : none};
            struct shm_member *seat = &world->seats[rank];
            ck_assert_int_eq(backend_shm.start(seat->state, seat->team, &batch, NULL), HVD_OK);
            seat->runs = true;
        }
        for (int i = 0; i < TURNS && left > 0; i++) {
            struct shm_member *seat = &world->seats[i % 3];
            if (!seat->runs)
                continue;
            seat->runs = backend_shm.test(seat->state, seat->team, &moved, &lost, NULL) != HVD_OK;
            left -= !seat->runs;
        }
        ck_assert_int_eq(left, 0);
        if (full)
            ck_assert_mem_eq(received, sent, sizeof(sent));
        memset(received, 0, sizeof(received));
    }
    shm_world_close(world);
}
END_TEST

/* A part of a chunk may be nothing, and the sum has an order. */
START_TEST(a_hundred_members_agree)
{
    static const int64_t counts[] = {1, 100, 64 * 128 - 1, 64 * 128 + 1, 30000};
    struct shm_world *world = shm_world_open(MAX_SHM_MEMBERS, 64 * MAX_SHM_MEMBERS * 4);
    for (int i = 0; i < 5; i++) {
        struct backend_batch batch = {
            .need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, MAX_SHM_MEMBERS},
            .prescale = 1,
            .postscale = 1,
            .sequence = (uint64_t)i,
            .count = counts[i]};
        size_t bytes = (size_t)counts[i] * sizeof(float);
        void *expected = reference_sums_expected(&batch, MAX_SHM_MEMBERS);
        void *data[MAX_SHM_MEMBERS];
        int left = MAX_SHM_MEMBERS;
        for (int rank = 0; rank < MAX_SHM_MEMBERS; rank++) {
            struct shm_member *seat = &world->seats[rank];
            data[rank] = malloc(bytes);
            reference_sums_input(&batch, rank, data[rank]);
            batch.input = batch.output = data[rank];
            ck_assert_int_eq(backend_shm.start(seat->state, seat->team, &batch, NULL), HVD_OK);
            seat->runs = true;
        }
        for (int k = 0; k < TURNS && left > 0; k++) {
            struct shm_member *seat = &world->seats[batch_plan_random_below(&world->random, MAX_SHM_MEMBERS)];
            bool moved = false;
            int lost = -1;
            if (!seat->runs)
                continue;
            seat->runs = backend_shm.test(seat->state, seat->team, &moved, &lost, NULL) != HVD_OK;
            left -= !seat->runs;
        }
        ck_assert_int_eq(left, 0);
        for (int rank = 0; rank < MAX_SHM_MEMBERS; rank++) {
            ck_assert_mem_eq(data[rank], expected, bytes);
            free(data[rank]);
        }
        free(expected);
    }
    shm_world_close(world);
}
END_TEST

static bool is_armed(const void *state_of_team)
{
    const struct shm_team *team = state_of_team;
    return team->slots.armed;
}

/* A batch of one team follows another's while the rank is about to sleep. */
START_TEST(one_team_is_armed_at_a_time)
{
    struct shm_world *world = shm_world_open(2, 512);
    struct shm_member *seat = &world->seats[0];
    void *first = seat->team;
    float value = 1;
    bool moved = false;
    int lost = -1;
    struct backend_batch batch = {.need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 2},
                                  .input = &value,
                                  .output = &value,
                                  .prescale = 1,
                                  .postscale = 1,
                                  .count = 1};
    shm_world_add_team(world, 0, 1, 512);
    backend_shm.arm(seat->state, true);
    ck_assert_int_eq(backend_shm.start(seat->state, first, &batch, NULL), HVD_OK);
    ck_assert_int_eq(backend_shm.test(seat->state, first, &moved, &lost, NULL), HVD_IN_PROGRESS);
    ck_assert(is_armed(first));
    ck_assert_int_eq(backend_shm.start(seat->state, seat->team, &batch, NULL), HVD_OK);
    ck_assert_int_eq(backend_shm.test(seat->state, seat->team, &moved, &lost, NULL), HVD_IN_PROGRESS);
    ck_assert(!is_armed(first) && is_armed(seat->team));
    backend_shm.arm(seat->state, false);
    ck_assert(!is_armed(seat->team));
    backend_shm.remove_team(seat->state, first);
    shm_world_close(world);
}
END_TEST

/* ---- What goes wrong ----------------------------------------------------------------------------- */

static void give_up(struct shm_world *world, int rank)
{
    struct shm_member *seat = &world->seats[rank];
    backend_shm.remove_team(seat->state, seat->team);
    seat->team = NULL;
    batch_part_abandon(&seat->part);
}

/* In the middle of it: its memory is the caller's again, the others can give up too, and the room is free for
 * another team, whatever lies in it. [_i] is the kind. */
START_TEST(a_batch_can_be_given_up)
{
    struct batch_plan *plans = calloc(20, sizeof(*plans));
    struct shm_world *world = shm_world_open(4, 512);
    world->random = (uint64_t)_i + 5;
    for (int set = 1; set <= 12; set++) {
        enum backend_kind kind = (enum backend_kind)_i;
        for (int i = 0; i < 20; i++)
            plans[i] = batch_plan_random(&world->random, kind, 4, edge_bytes(kind, 4, 512));
        shm_world_carry(world, plans, 1 + batch_plan_random_below(&world->random, 2));
        /* long enough that nobody comes to its end alone */
        *plans = (struct batch_plan){.need = {kind, HVD_FLOAT64, HVD_FLOAT64, HVD_SUM, 4},
                                     .sequence = 9,
                                     .prescale = 1,
                                     .postscale = 1,
                                     .in_place = kind != COLL_ALLTOALL && set % 2 == 0,
                                     .count = 64 * 4 * 20};
        for (int from = 0; from < 4; from++) {
            for (int to = 0; to < 4; to++)
                plans->counts[from][to] = 64 * 20;
        }
        for (int rank = 0; rank < 4; rank++)
            world->seats[rank].batch = 0;
        world->plan_count = 1;
        int first = batch_plan_random_below(&world->random, 4);
        while (world->seats[first].batch == 0)
            shm_world_step(world, batch_plan_random_below(&world->random, 4));
        for (int i = batch_plan_random_below(&world->random, 10); i > 0; i--)
            shm_world_step(world, batch_plan_random_below(&world->random, 4));
        for (int rank = 0; rank < 4; rank++) {
            if (world->seats[rank].batch == 0)
                shm_world_step(world, rank);
            ck_assert(world->seats[rank].runs);
        }
        for (int i = 0; i < 4; i++) {
            give_up(world, (first + i) % 4);
            for (int k = 0; k < 20; k++) {
                int other = (first + i + 1 + batch_plan_random_below(&world->random, 3)) % 4;
                if (world->seats[other].team != NULL)
                    shm_world_step(world, other);
            }
        }
        for (int rank = 0; rank < 4; rank++) {
            ck_assert(batch_part_close_untouched(&world->seats[rank].part));
            world->seats[rank].runs = false;
            shm_world_add_team(world, rank, set, 512);
        }
    }
    shm_world_close(world);
    free(plans);
}
END_TEST

/* Write nonsense over [count] words of the lines and slots of a team, more often the former. */
static void spoil(struct shm_world *world, int count)
{
    /* the table is smaller than a page here */
    uint64_t *lines = (uint64_t *)(void *)((char *)world->arena.base + PAGE);
    for (int i = 0; i < count; i++) {
        uint64_t random = reference_random(&world->random);
        uint64_t words = random % 3 == 0 ? ((uint64_t)world->size + 1) * ROOM / 8
                                         : sizeof(struct slots_common) / 8 +
                                               (uint64_t)world->size * sizeof(struct slots_member) / 8;
        const uint64_t values[] = {0, 1, 2, 5, UINT64_MAX, INT64_MAX, random, UINT64_MAX / 64, random >> 50};
        lines[reference_random(&world->random) % words] = values[batch_plan_random_below(&world->random, 9)];
    }
}

/* Whatever other processes write there: what lies around input and output stays as it is, and so does input.
 */
START_TEST(nonsense_in_memory_touches_nothing_else)
{
    enum backend_kind kind = (enum backend_kind)(_i % (COLL_REDUCESCATTER + 1));
    uint64_t random = (uint64_t)_i + 31;
    for (int round = 0; round < 20; round++) {
        struct shm_world *world = shm_world_open(4, 512);
        struct batch_plan plan = batch_plan_random(&random, kind, 4, edge_bytes(kind, 4, 512));
        plan.in_place = false;
        world->random = random;
        for (int rank = 0; rank < 4; rank++) {
            struct shm_member *seat = &world->seats[rank];
            batch_part_open(&seat->part, &plan, rank);
            ck_assert_int_eq(backend_shm.start(seat->state, seat->team, &seat->part.batch, NULL), HVD_OK);
            seat->runs = true;
        }
        for (int i = 0; i < 400; i++) {
            struct shm_member *seat = &world->seats[batch_plan_random_below(&world->random, 4)];
            bool moved = false;
            int lost = -1;
            struct hvd_error err;
            spoil(world, batch_plan_random_below(&world->random, 4));
            if (seat->runs)
                seat->runs =
                    backend_shm.test(seat->state, seat->team, &moved, &lost, &err) == HVD_IN_PROGRESS;
        }
        for (int rank = 0; rank < 4; rank++) {
            struct shm_member *seat = &world->seats[rank];
            char *input = malloc(seat->part.input_bytes + 1);
            backend_shm.remove_team(seat->state, seat->team);
            seat->team = NULL;
            if (seat->part.input != NULL) {
                batch_plan_input(&plan, rank, input);
                ck_assert_mem_eq(input, seat->part.input, seat->part.input_bytes);
            }
            free(input);
            ck_assert(guarded_free(seat->part.output, seat->part.output_bytes));
            ck_assert(guarded_free(seat->part.input, seat->part.input_bytes));
        }
        shm_world_close(world);
    }
}
END_TEST

START_TEST(too_many_rounds_are_an_error)
{
    static const int64_t counts[2] = {10, 10};
    char input[20] = "", output[20];
    struct hvd_error err = {""};
    bool moved = false;
    int lost = -1;
    struct shm_world *world = shm_world_open(2, 512);
    struct backend_batch batch = {.need = {COLL_ALLTOALL, HVD_INT8, HVD_INT8, HVD_SUM, 2},
                                  .input = input,
                                  .output = output,
                                  .counts = counts,
                                  .receive_counts = counts};
    struct shm_member *seat = &world->seats[0];
    struct slots_member *other = &((struct shm_team *)seat->team)->slots.members[1];
    ck_assert_int_eq(backend_shm.start(seat->state, seat->team, &batch, &err), HVD_OK);
    ck_assert_int_eq(backend_shm.test(seat->state, seat->team, &moved, &lost, &err), HVD_IN_PROGRESS);
    ck_assert(!moved);
    atomic_store(&other->rounds[1], UINT64_MAX);
    atomic_store(&other->counts[SLOTS_ANNOUNCED].position, 1);
    ck_assert_int_eq(backend_shm.test(seat->state, seat->team, &moved, &lost, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 1 announced an alltoall of 18446744073709551615 rounds"));
    shm_world_close(world);
}
END_TEST

/* In real memory, which a child has not. */
START_TEST(a_fork_changes_nothing)
{
    struct node_memory *memory = NULL;
    struct batch_plan plans[2];
    int fd = -1, status = -1;
    struct shm_world *world = shm_world_open(2, 512);
    ck_assert_int_eq(node_memory_create(2, 1, &memory, &fd, NULL), HVD_OK);
    const struct arena arena = {node_memory_arena(memory, 2), 2 * (size_t)NODE_MEMORY_ARENA_BYTES};
    for (int rank = 0; rank < 2; rank++) {
        struct shm_member *seat = &world->seats[rank];
        backend_shm.remove_team(seat->state, seat->team);
        backend_shm.close(seat->state);
        seat->env.arena = arena;
        ck_assert_int_eq(backend_shm.open(&seat->env, 0, &seat->state, NULL), HVD_OK);
        shm_world_add_team(world, rank, 3, 512);
    }
    for (int i = 0; i < 2; i++)
        plans[i] = batch_plan_random(&world->random, COLL_ALLREDUCE, 2, 4096);
    world->plans = plans;
    world->plan_count = 2;
    for (int i = 0; i < 6; i++)
        shm_world_step(world, i % 2);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        for (int rank = 0; rank < 2; rank++)
            backend_shm.after_fork(world->seats[rank].state);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    for (int i = 0; world->seats[0].runs || world->seats[1].runs || world->seats[1].batch < 2; i++)
        shm_world_step(world, i % 2);
    for (int rank = 0; rank < 2; rank++)
        backend_shm.remove_team(world->seats[rank].state, world->seats[rank].team);
    world->seats[0].team = world->seats[1].team = NULL;
    shm_world_close(world);
    node_memory_detach(memory, 2);
    close(fd);
}
END_TEST

/* ---- Whom it carries for -------------------------------------------------------------------------- */

START_TEST(a_team_without_room_is_refused)
{
    struct hvd_error err = {""};
    struct shm_world *world = shm_world_open(2, 512);
    struct shm_member *seat = &world->seats[0];
    void *teams[8] = {NULL};
    int count = 0, rc = HVD_OK;
    for (; rc == HVD_OK && count < 8; count += rc == HVD_OK) {
        const struct team members = {.set = 10 + count, .size = 2, .ranks = world->ranks};
        rc = backend_shm.add_team(seat->state, &members, clock_us() + SECOND, &teams[count], &err);
    }
    ck_assert_int_eq(rc, HVD_ERR_UNSUPPORTED);
    /* beside the first: the arena has room for the slots of 10, a team needs a little more than those of 3 */
    ck_assert_int_eq(count, 2);
    ck_assert_ptr_null(teams[count]);
    while (count > 0)
        backend_shm.remove_team(seat->state, teams[--count]);
    backend_shm.remove_team(seat->state, NULL);
    shm_world_close(world);
}
END_TEST

START_TEST(no_memory_is_no_team)
{
    static const int ranks[] = {0, 1};
    const struct team members = {.set = 0, .size = 2, .ranks = ranks};
    struct backend_env env = {.epoll_fd = -1};
    struct hvd_error err;
    void *state = NULL, *team = NULL;
    ck_assert_int_eq(backend_shm.open(&env, 0, &state, &err), HVD_OK);
    ck_assert_int_eq(backend_shm.add_team(state, &members, clock_us() + SECOND, &team, &err),
                     HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_null(team);
    backend_shm.close(state);
}
END_TEST

/* All members on one node, whichever that is. */
START_TEST(serves_ranks_of_one_node)
{
    static const struct {
        int size, ranks[4];
        bool served;
    } cases[] = {
        {2, {0, 1}, true},  {2, {2, 4}, true},        {2, {0, 2}, false},
        {1, {3}, true},     {3, {2, 4, 5}, true},     {4, {0, 1, 2, 3}, false},
        {2, {3, 5}, false}, {4, {1, 2, 4, 5}, false}, {2, {4, 5}, true},
    };
    int nodes[] = {0, 0, 2, 3, 2, 2};
    struct peer_table peer_table = {.size = 6, .node_of_rank = nodes};
    const struct backend_env env = {.peer_table = &peer_table, .epoll_fd = -1};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct team team = {.size = cases[i].size, .ranks = cases[i].ranks};
        const char *why = NULL;
        ck_assert_msg(backend_shm.reaches(&env, &team, &why) == cases[i].served, "case %zu", i);
        if (!cases[i].served)
            ck_assert_str_eq(why, "the ranks are on several nodes");
    }
}
END_TEST

START_TEST(knows_what_it_can)
{
    struct backend_need need = {(enum backend_kind)_i, HVD_FLOAT16, HVD_FLOAT32, HVD_SUM, 2};
    bool reduces = _i == COLL_ALLREDUCE || _i == COLL_REDUCESCATTER;
    ck_assert(backend_shm.supports(&need));
    need.ranks = 1024;
    ck_assert(backend_shm.supports(&need));
    need.ranks = 1025;
    ck_assert(!backend_shm.supports(&need));
    need.ranks = 1;
    ck_assert(!backend_shm.supports(&need));
    need.ranks = 2;
    need.op = HVD_ADASUM;
    ck_assert(backend_shm.supports(&need) == !reduces);
    need.op = HVD_AVERAGE;
    need.dtype = HVD_BOOL;
    ck_assert(backend_shm.supports(&need) == !reduces);
    need.dtype = (enum hvd_dtype)99;
    ck_assert(!backend_shm.supports(&need));
}
END_TEST

START_TEST(is_there_where_a_job_has_several_ranks)
{
    struct hvd_job job = {.rank = 0, .size = 1};
    const struct backend_env env = {.job = &job, .epoll_fd = -1};
    const char *why = NULL;
    ck_assert(!backend_shm.available(&env, &why));
    ck_assert_str_eq(why, "the job has one rank");
    job.size = 2;
    ck_assert(backend_shm.available(&env, &why));
}
END_TEST

/* Slots of all of them in half of the cache, unless those are too small to be worth a turn. */
START_TEST(chunks_of_crowded_ranks_fit_the_cache)
{
    const int64_t kib = 1024;
    ck_assert_int_eq(shm_oversubscribed_chunk(4, 2048 * kib), 64 * kib);
    ck_assert_int_eq(shm_oversubscribed_chunk(7, 2048 * kib), 37440);
    ck_assert_int_eq(shm_oversubscribed_chunk(8, 2048 * kib), 32 * kib);
    ck_assert_int_eq(shm_oversubscribed_chunk(9, 2048 * kib), 512 * kib);
    ck_assert_int_eq(shm_oversubscribed_chunk(3, 512 * kib), 512 * kib);
    ck_assert_int_eq(shm_oversubscribed_chunk(2, 65536 * kib), 512 * kib);
    ck_assert_int_eq(shm_oversubscribed_chunk(2, INT64_MAX), 512 * kib);
    ck_assert_int_eq(shm_oversubscribed_chunk(4, 0), 512 * kib);
    ck_assert_int_eq(shm_oversubscribed_slot(2), 512 * kib);
    ck_assert_int_eq(shm_oversubscribed_slot(32), 512 * kib);
    ck_assert_int_eq(shm_oversubscribed_slot(33), 508352);
    ck_assert_int_eq(shm_oversubscribed_slot(256), 64 * kib);
    ck_assert_int_eq(shm_oversubscribed_slot(512), 64 * kib);
    ck_assert_int_eq(shm_oversubscribed_slot(1024), 128 * kib); /* 128 bytes for each member */
}
END_TEST

static void fill(Suite *suite)
{
    int kinds = COLL_REDUCESCATTER + 1;
    TCase *tcase = tcase_create("shm");
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, each_kind_is_right_at_all_sizes, 0, kinds * SIZES);
    tcase_add_loop_test(tcase, kinds_follow_each_other, 0, 15);
    tcase_add_loop_test(tcase, edges_of_real_slots_are_right, 0, kinds);
    tcase_add_loop_test(tcase, a_stopped_member_is_waited_for, 0, COLL_REDUCESCATTER + 1);
    tcase_add_test(tcase, bears_nothing);
    tcase_add_test(tcase, a_hundred_members_agree);
    tcase_add_test(tcase, one_team_is_armed_at_a_time);
    tcase_add_loop_test(tcase, a_batch_can_be_given_up, 0, kinds);
    tcase_add_loop_test(tcase, nonsense_in_memory_touches_nothing_else, 0, 3 * kinds);
    tcase_add_test(tcase, too_many_rounds_are_an_error);
    tcase_add_test(tcase, a_fork_changes_nothing);
    tcase_add_test(tcase, a_team_without_room_is_refused);
    tcase_add_test(tcase, no_memory_is_no_team);
    tcase_add_test(tcase, serves_ranks_of_one_node);
    tcase_add_loop_test(tcase, knows_what_it_can, 0, kinds);
    tcase_add_test(tcase, chunks_of_crowded_ranks_fit_the_cache);
    tcase_add_test(tcase, is_there_where_a_job_has_several_ranks);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("shm", fill);
}
