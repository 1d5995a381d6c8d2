/* test_backends.c: the backends of a rank: which it has and opens, and batches of overlapping teams over real
 * connections between processes. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "batches.h"
#include "open_descriptors.h"
#include "backend/backends.h"

#define RANKS   5
#define WAIT_MS 20000
#define SECOND  INT64_C(1000000)

static struct hvd_config config = {.tcp_streams = 2, .start_timeout_us = 20 * SECOND, .lease_us = 5 * SECOND};
static const struct tree_shape shape = {.node_count = 1};

/* ---- Which backends there are ------------------------------------------------------------------ */

static uint64_t list_of(int first, int second)
{
    return (uint64_t)(first + 1) | (uint64_t)(second + 1) << 8;
}

static void expect_order(const struct backends *set, int first, int second, int third)
{
    ck_assert_int_eq(set->order[0], first);
    ck_assert_int_eq(set->order[1], second);
    ck_assert_int_eq(set->order[2], third);
}

/* A set of one rank, in a job of any size, needs a backend whatever the option says. */
START_TEST(local_is_always_there)
{
    struct backends set;
    struct hvd_job job = {.rank = 0, .size = 2};
    struct backend_env env = {.config = &config, .job = &job, .shape = &shape, .epoll_fd = -1};
    struct backend_need need = {COLL_ALLTOALL, HVD_INT8, HVD_INT8, HVD_SUM, 1};
    config.backends = list_of(BACKEND_TCP, -1);
    ck_assert_int_eq(backends_open(&set, &env, clock_us() + SECOND, NULL), HVD_OK);
    expect_order(&set, BACKEND_TCP, BACKEND_LOCAL, -1);
    ck_assert_uint_eq(backends_available(&set), 1u << BACKEND_TCP | 1u << BACKEND_LOCAL);
    ck_assert_uint_eq(backends_supporting(&set, &need, 0), 1u << BACKEND_LOCAL);
    need.ranks = 2;
    ck_assert_uint_eq(backends_supporting(&set, &need, 0), 1u << BACKEND_TCP);
    backends_close(&set);
    backends_close(&set);
}
END_TEST

START_TEST(a_job_needs_a_backend_between_ranks)
{
    struct backends set;
    struct hvd_error err;
    struct hvd_job job = {.rank = 0, .size = 2};
    struct backend_env env = {.config = &config, .job = &job, .shape = &shape, .epoll_fd = -1};
    config.backends = list_of(BACKEND_LOCAL, -1);
    ck_assert_int_eq(backends_open(&set, &env, clock_us() + SECOND, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "(local: it does not carry between this number of ranks)"));
    ck_assert(!set.opened[BACKEND_LOCAL]);
}
END_TEST

START_TEST(a_job_of_one_rank_needs_local_only)
{
    struct backends set;
    struct hvd_job job = {.rank = 0, .size = 1};
    struct backend_env env = {.config = &config, .job = &job, .shape = &shape, .epoll_fd = -1};
    config.backends = list_of(BACKEND_TCP, BACKEND_MPI);
    ck_assert_int_eq(backends_open(&set, &env, clock_us() + SECOND, NULL), HVD_OK);
    expect_order(&set, BACKEND_TCP, BACKEND_MPI, BACKEND_LOCAL);
    ck_assert_uint_eq(backends_available(&set), 1u << BACKEND_LOCAL);
    ck_assert(set.opened[BACKEND_LOCAL] && !set.opened[BACKEND_TCP]);
    backends_close(&set);
}
END_TEST

/* Four ranks on two nodes. */
static int two_nodes[] = {0, 0, 2, 2};

static uint32_t bit_of(int backend)
{
    return UINT32_C(1) << backend;
}

/* In the order of what auto prefers. */
START_TEST(sets_have_the_backends_that_reach_them)
{
    enum {
        LOCAL = 1 << BACKEND_LOCAL,
        SHM = 1 << BACKEND_SHM,
        HIER = 1 << BACKEND_HIER_TCP,
        TCP = 1 << BACKEND_TCP
    };
    static const struct {
        int size, ranks[4];
        uint32_t served;
        int ppn;
    } cases[] = {
        {4, {0, 1, 2, 3}, HIER | TCP, 2},
        {2, {0, 1}, SHM | TCP, 0},
        {2, {2, 3}, SHM | TCP, 0},
        {2, {1, 2}, TCP, 0},
        {3, {1, 2, 3}, HIER | TCP, 0},
        {3, {0, 1, 2}, HIER | TCP, 0},
        {1, {2}, LOCAL, 0},
    };
    struct backends set;
    struct hvd_job job = {.rank = 0, .size = 4};
    struct peer_table peer_table = {.size = 4, .node_of_rank = two_nodes};
    char memory[1];
    struct backend_env env = {.config = &config,
                              .job = &job,
                              .peer_table = &peer_table,
                              .shape = &shape,
                              .arena = {memory, sizeof(memory)},
                              .epoll_fd = -1};
    config.backends = 0;
    ck_assert_int_eq(backends_open(&set, &env, clock_us() + SECOND, NULL), HVD_OK);
    for (int i = 0; i < BACKEND_COUNT; i++)
        ck_assert_int_eq(set.order[i], i);
    ck_assert(set.opened[BACKEND_SHM]);
    ck_assert_uint_ne(backends_available(&set) & SHM, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct team members = {.size = cases[i].size, .ranks = cases[i].ranks};
        ck_assert_uint_eq(backends_reaching(&set, &members, LOCAL | SHM | HIER | TCP), cases[i].served);
        const struct backend_need need = {COLL_ALLTOALL, HVD_INT8, HVD_INT8, HVD_SUM, cases[i].size};
        int ppn = backends_ppn(&set, &members);
        ck_assert_int_eq(ppn, cases[i].ppn);
        ck_assert(((backends_supporting(&set, &need, ppn) & HIER) != 0) == (ppn > 0));
    }
    const struct team all = {.size = 4, .ranks = cases[0].ranks};
    ck_assert_uint_eq(backends_reaching(&set, &all, SHM), 0);
    backends_close(&set);
}
END_TEST

START_TEST(shm_alone_is_not_enough_between_nodes)
{
    struct backends set;
    struct hvd_error err;
    struct hvd_job job = {.rank = 3, .size = 4};
    struct peer_table peer_table = {.rank = 3, .size = 4, .node_of_rank = two_nodes};
    struct backend_env env = {
        .config = &config, .job = &job, .peer_table = &peer_table, .shape = &shape, .epoll_fd = -1};
    config.backends = list_of(BACKEND_SHM, -1);
    ck_assert_int_eq(backends_open(&set, &env, clock_us() + SECOND, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_str_eq(err.text,
                     "no backend is left to carry tensors (shm: the ranks are on several nodes; local: it "
                     "does not carry between this number of ranks); name another in --hvd-backends");
    config.backends = list_of(BACKEND_SHM, BACKEND_TCP);
    ck_assert_int_eq(backends_open(&set, &env, clock_us() + SECOND, &err), HVD_OK);
    backends_close(&set);
    config.backends = list_of(BACKEND_TCP, BACKEND_SHM);
    ck_assert_int_eq(backends_open(&set, &env, clock_us() + SECOND, &err), HVD_OK);
    expect_order(&set, BACKEND_TCP, BACKEND_SHM, BACKEND_LOCAL);
    backends_close(&set);
    /* more ranks than it carries between are no nodes */
    int one_node[1025] = {0};
    job.size = peer_table.size = 1025;
    peer_table.node_of_rank = one_node;
    config.backends = list_of(BACKEND_SHM, -1);
    ck_assert_int_eq(backends_open(&set, &env, clock_us() + SECOND, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "(shm: it does not carry between this number of ranks;"));
}
END_TEST

/* The memory that ranks share, not backed by anything until it is used. */
static struct arena open_arena(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    return (struct arena){memory, bytes};
}

static void note_warning(void *arg, enum log_level level, const char *component, const char *line)
{
    struct hvd_error *seen = arg;
    ck_assert_str_eq(component, "backend");
    if (level == LOG_WARN)
        error_set(seen, HVD_OK, "%s", line);
}

/* A set for which there is no room lives, and goes elsewhere. */
START_TEST(a_set_without_room_does_without_the_backend)
{
    static const int both[] = {0, 1};
    int one_node[] = {0, 0};
    struct backends set;
    struct process_set *process_sets[3] = {NULL};
    struct hvd_error err, seen = {""};
    struct hvd_job job = {.rank = 0, .size = 2};
    struct hvd_log log = {LOG_INFO, note_warning, &seen};
    struct peer_table peer_table = {.size = 2, .node_of_rank = one_node};
    struct backend_env env = {.config = &config,
                              .log = &log,
                              .job = &job,
                              .peer_table = &peer_table,
                              .shape = &shape,
                              .arena = open_arena((size_t)7 << 19),
                              .epoll_fd = -1};
    config.backends = list_of(BACKEND_SHM, -1);
    ck_assert_int_eq(backends_open(&set, &env, clock_us() + SECOND, NULL), HVD_OK);
    for (int i = 0; i < 3; i++) {
        struct team members = {.set = i, .size = 2, .ranks = both};
        ck_assert_int_eq(process_set_create(&set, &members, &process_sets[i], &err), HVD_OK);
        uint32_t backends = bit_of(BACKEND_SHM) | bit_of(BACKEND_TCP);
        ck_assert_uint_eq(process_set_backends(process_sets[i], backends),
                          i < 2 ? backends : bit_of(BACKEND_TCP));
        ck_assert((seen.text[0] == 0) == (i < 2));
    }
    ck_assert_ptr_nonnull(
        strstr(seen.text, "shm carries nothing in process set 2: no shared memory is left"));
    for (int i = 0; i < 3; i++)
        process_set_destroy(&set, process_sets[i]);
    backends_close(&set);
    munmap(env.arena.base, env.arena.bytes);
}
END_TEST

#ifdef HAVE_MPI
/* Over mpi, which is started at the first batch, it has to be known before that who has no room: then other
 * backends can still be agreed on. */
START_TEST(a_backend_that_opens_late_is_refused_at_once)
{
    static const int all[] = {0, 1, 2, 3};
    struct hvd_error err, seen = {""};
    struct hvd_job job = {.rank = 0, .size = 4};
    struct hvd_log log = {LOG_INFO, note_warning, &seen};
    struct peer_table peer_table = {.size = 4, .node_of_rank = two_nodes};
    struct team members = {.set = HVD_ALL_RANKS, .size = 4, .ranks = all};
    struct process_set *process_set = NULL;
    struct backends set;
    struct backend_env env = {.config = &config,
                              .log = &log,
                              .job = &job,
                              .peer_table = &peer_table,
                              .shape = &shape,
                              .arena = open_arena(_i == 0 ? (size_t)1 << 20 : (size_t)32 << 20),
                              .epoll_fd = -1};
    config.backends = list_of(BACKEND_HIER_MPI, -1);
    setenv("PMIX_NAMESPACE", "a job's", 1);
    ck_assert_int_eq(backends_open(&set, &env, clock_us() + SECOND, &err), HVD_OK);
    ck_assert_int_eq(process_set_create(&set, &members, &process_set, &err), HVD_OK);
    ck_assert_uint_eq(process_set_backends(process_set, bit_of(BACKEND_HIER_MPI) | bit_of(BACKEND_MPI)),
                      _i == 0 ? bit_of(BACKEND_MPI) : bit_of(BACKEND_HIER_MPI) | bit_of(BACKEND_MPI));
    ck_assert((strstr(seen.text, "hier-mpi carries nothing in process set 0: no shared memory") != NULL) ==
              (_i == 0));
    ck_assert(!set.opened_late[BACKEND_HIER_MPI]);
    process_set_destroy(&set, process_set);
    backends_close(&set);
    munmap(env.arena.base, env.arena.bytes);
}
END_TEST
#endif

/* ---- One process: sequence and giving up ------------------------------------------------------ */

static int carry(struct backends *set, struct process_set *process_set, int backend, struct hvd_error *err)
{
    for (;;) {
        int lost = -1;
        bool moved = false;
        struct epoll_event event;
        int status = backends_test(set, process_set, backend, &moved, &lost, err);
        if (status == HVD_IN_PROGRESS && !moved) {
            backends_arm(set, true);
            status = backends_test(set, process_set, backend, &moved, &lost, err);
        }
        if (status != HVD_IN_PROGRESS) {
            backends_arm(set, false);
            return status;
        }
        int64_t due_us = backends_deadline(set, process_set, backend);
        int wait_ms = due_us == INT64_MAX ? WAIT_MS : clock_ms_until(due_us);
        if (!moved && backend_table[backend]->polled)
            sched_yield();
        else if (!moved && epoll_wait(set->env.epoll_fd, &event, 1, wait_ms) == 0 && wait_ms == WAIT_MS)
            return error_set(err, HVD_ERR_TIMEOUT, "slept too long");
        backends_arm(set, false);
    }
}

START_TEST(what_was_given_up_carries_nothing)
{
    static const int self[] = {0};
    struct backends set;
    struct process_set *process_sets[2] = {NULL, NULL};
    struct hvd_error err;
    float data[4] = {1, 2, 3, 4};
    struct hvd_job job = {.rank = 0, .size = 1};
    struct backend_env env = {.config = &config, .job = &job, .shape = &shape, .epoll_fd = -1};
    struct backend_batch batch = {.need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 1},
                                  .input = data,
                                  .output = data,
                                  .prescale = 2,
                                  .postscale = 1,
                                  .count = 4};
    config.backends = 0;
    ck_assert_int_eq(backends_open(&set, &env, clock_us() + SECOND, NULL), HVD_OK);
    for (int i = 0; i < 2; i++) {
        struct team members = {.set = i, .size = 1, .ranks = self};
        ck_assert_int_eq(process_set_create(&set, &members, &process_sets[i], &err), HVD_OK);
    }
    for (uint64_t i = 1; i <= 3; i++) {
        ck_assert_int_eq(backends_start(&set, process_sets[0], BACKEND_LOCAL, &batch, &err), HVD_OK);
        ck_assert_uint_eq(batch.sequence, i);
        ck_assert_int_eq(carry(&set, process_sets[0], BACKEND_LOCAL, &err), HVD_OK);
    }
    ck_assert(data[0] == 8);
    ck_assert_int_eq(backends_start(&set, process_sets[0], BACKEND_LOCAL, &batch, &err), HVD_OK);
    backends_abort(&set, process_sets[0], BACKEND_LOCAL);
    backends_abort(&set, process_sets[0], BACKEND_LOCAL);
    ck_assert_int_eq(backends_start(&set, process_sets[0], BACKEND_LOCAL, &batch, &err), HVD_ERR_STATE);
    ck_assert(data[0] == 8);
    ck_assert_int_eq(backends_start(&set, process_sets[1], BACKEND_LOCAL, &batch, &err), HVD_OK);
    ck_assert_uint_eq(batch.sequence, 1);
    ck_assert_int_eq(carry(&set, process_sets[1], BACKEND_LOCAL, &err), HVD_OK);
    ck_assert(data[0] == 16);
    for (int i = 0; i < 2; i++)
        process_set_destroy(&set, process_sets[i]);
    process_set_destroy(&set, NULL);
    backends_close(&set);
}
END_TEST

/* ---- Many processes: overlapping teams -------------------------------------------------------- */

/* What each process knows; the endpoints are opened before it is forked. */
struct world {
    struct endpoint *endpoints[RANKS];
    struct peer peers[RANKS];
    unsigned char key[JOB_KEY_BYTES];
    struct arena arena;
    int backend; /* that carries between them */
};

static const struct {
    int size, ranks[RANKS];
} sets[] = {
    {5, {0, 1, 2, 3, 4}}, {2, {0, 1}}, {2, {1, 2}}, {3, {0, 2, 4}}, {1, {3}}, {4, {1, 2, 3, 4}}, {2, {0, 4}},
};

#define SETS (int)(sizeof(sets) / sizeof(sets[0]))

static int place_in(int set, int rank)
{
    for (int i = 0; i < sets[set].size; i++)
        if (sets[set].ranks[i] == rank)
            return i;
    return -1;
}

static void world_open(struct world *world)
{
    ck_assert_int_ge(sodium_init(), 0);
    randombytes_buf(world->key, sizeof(world->key));
    for (int rank = 0; rank < RANKS; rank++) {
        struct peer *peer = &world->peers[rank];
        ck_assert_int_eq(endpoint_open(&world->endpoints[rank], config.lease_us, NULL, NULL), HVD_OK);
        snprintf(peer->host, sizeof(peer->host), "n%d", rank);
        peer->port = endpoint_port(world->endpoints[rank]);
        peer->address_count = 1;
        inet_pton(AF_INET6, "::ffff:127.0.0.1", &peer->addresses[0]);
    }
}

static int complain(int rank, const char *what, const struct hvd_error *err)
{
    fprintf(stderr, "# rank %d: %s: %s\n", rank, what, err->text);
    return 1;
}

/* Batches in an order that all agree on: each carries those of its own teams. */
static int carry_batches(const struct world *world, struct backends *set, struct process_set **process_sets,
                         int rank)
{
    uint64_t random = 99;
    struct hvd_error err = {""};
    for (int i = 0; i < 400; i++) {
        int which = batch_plan_random_below(&random, SETS);
        struct batch_part part;
        struct batch_plan plan = batch_plan_random(
            &random, (enum backend_kind)batch_plan_random_below(&random, COLL_REDUCESCATTER + 1),
            sets[which].size, i % 40 == 0 ? 200000 : 512);
        int backend = sets[which].size == 1 ? BACKEND_LOCAL : world->backend;
        int place = place_in(which, rank);
        if (place < 0)
            continue;
        if (backends_supporting(set, &plan.need, 0) != 1u << backend)
            return complain(rank, "backends_supporting", &err);
        batch_part_open(&part, &plan, place);
        int status = backends_start(set, process_sets[which], backend, &part.batch, &err);
        if (status == HVD_OK)
            status = carry(set, process_sets[which], backend, &err);
        if (status != HVD_OK)
            return complain(rank, "a batch failed", &err);
        if (!batch_part_close(&part, &plan, place))
            return complain(rank, "a batch is wrong", &err);
    }
    return 0;
}

static int run_rank(struct world *world, int rank)
{
    struct backends set;
    struct process_set *process_sets[SETS] = {NULL};
    struct hvd_error err = {""};
    struct hvd_job job = {.rank = rank, .size = RANKS};
    int one_node[RANKS] = {0};
    struct peer_table peer_table = {
        .rank = rank, .size = RANKS, .peers = world->peers, .node_of_rank = one_node};
    struct backend_env env = {.config = &config,
                              .job = &job,
                              .peer_table = &peer_table,
                              .shape = &shape,
                              .endpoint = world->endpoints[rank],
                              .arena = world->arena,
                              .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    int before = open_descriptors();
    memcpy(peer_table.key, world->key, sizeof(peer_table.key));
    if (backends_open(&set, &env, clock_us() + 10 * SECOND, &err) != HVD_OK)
        return complain(rank, "backends_open", &err);
    for (int i = 0; i < SETS; i++) {
        struct team members = {
            .set = i, .rank = place_in(i, rank), .size = sets[i].size, .ranks = sets[i].ranks};
        if (i > 0 && backends_open_all(&set, backends_available(&set), &err) != HVD_OK)
            return complain(rank, "backends_open_all", &err);
        if (members.rank >= 0 && process_set_create(&set, &members, &process_sets[i], &err) != HVD_OK)
            return complain(rank, "process_set_create", &err);
    }
    int rc = carry_batches(world, &set, process_sets, rank);
    for (int i = 0; i < SETS; i++)
        process_set_destroy(&set, process_sets[i]);
    backends_close(&set);
    if (rc == 0 && open_descriptors() != before)
        return complain(rank, "descriptors are left", &err);
    close(env.epoll_fd);
    return rc;
}

/* [_i] is the backend. */
START_TEST(teams_overlap)
{
    struct world world = {.backend = _i};
    pid_t pids[RANKS];
    pid_t parent = getpid();
    config.backends = list_of(_i, -1);
    world.arena = open_arena((size_t)RANKS * 64 << 20);
    world_open(&world);
    for (int rank = 0; rank < RANKS; rank++) {
        pids[rank] = fork();
        ck_assert_int_ge(pids[rank], 0);
        if (pids[rank] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? run_rank(&world, rank) : 3);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        int status = -1;
        endpoint_close(world.endpoints[rank]);
        ck_assert_int_eq(waitpid(pids[rank], &status, 0), pids[rank]);
        ck_assert_int_eq(status, 0);
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("backends");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, local_is_always_there);
    tcase_add_test(tcase, a_job_needs_a_backend_between_ranks);
    tcase_add_test(tcase, a_job_of_one_rank_needs_local_only);
    tcase_add_test(tcase, what_was_given_up_carries_nothing);
    tcase_add_test(tcase, sets_have_the_backends_that_reach_them);
    tcase_add_test(tcase, shm_alone_is_not_enough_between_nodes);
    tcase_add_test(tcase, a_set_without_room_does_without_the_backend);
#ifdef HAVE_MPI
    tcase_add_loop_test(tcase, a_backend_that_opens_late_is_refused_at_once, 0, 2);
#else
    puts("# what opens late is not tested: hvd was built without MPI");
#endif
    tcase_add_loop_test(tcase, teams_overlap, BACKEND_SHM, BACKEND_SHM + 1);
    tcase_add_loop_test(tcase, teams_overlap, BACKEND_TCP, BACKEND_TCP + 1);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("backends", fill);
}
