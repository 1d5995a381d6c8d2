/* test_backends.c: the planes of a rank: which it has and opens, and batches of overlapping teams over real
 * connections between processes. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <dirent.h>
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
#include "backend/backends.h"

#define RANKS   5
#define WAIT_MS 20000
#define SECOND  INT64_C(1000000)

static struct hvd_config config = {.tcp_streams = 2, .start_timeout_us = 20 * SECOND, .lease_us = 5 * SECOND};
static const struct shape shape = {.node_count = 1};

/* ---- Which planes there are ------------------------------------------------------------------ */

static uint64_t list_of(int first, int second)
{
    return (uint64_t)(first + 1) | (uint64_t)(second + 1) << 8;
}

static void expect_order(const struct plane_set *set, int first, int second, int third)
{
    ck_assert_int_eq(set->order[0], first);
    ck_assert_int_eq(set->order[1], second);
    ck_assert_int_eq(set->order[2], third);
}

/* A set of one rank, in a job of any size, needs a plane whatever the option says. */
START_TEST(local_is_always_there)
{
    struct plane_set set;
    struct hvd_job job = {.rank = 0, .size = 2};
    struct plane_env env = {.config = &config, .job = &job, .shape = &shape, .epoll_fd = -1};
    struct plane_need need = {PLANE_ALLTOALL, HVD_INT8, HVD_INT8, HVD_SUM, 1};
    config.planes = list_of(PLANE_TCP, -1);
    ck_assert_int_eq(plane_set_open(&set, &env, clock_us() + SECOND, NULL), HVD_OK);
    expect_order(&set, PLANE_TCP, PLANE_LOCAL, -1);
    ck_assert_uint_eq(plane_set_available(&set), 1u << PLANE_TCP | 1u << PLANE_LOCAL);
    ck_assert_uint_eq(plane_set_can(&set, &need, 0), 1u << PLANE_LOCAL);
    need.ranks = 2;
    ck_assert_uint_eq(plane_set_can(&set, &need, 0), 1u << PLANE_TCP);
    plane_set_close(&set);
    plane_set_close(&set);
}
END_TEST

START_TEST(a_job_needs_a_plane_between_ranks)
{
    struct plane_set set;
    struct hvd_error err;
    struct hvd_job job = {.rank = 0, .size = 2};
    struct plane_env env = {.config = &config, .job = &job, .shape = &shape, .epoll_fd = -1};
    config.planes = list_of(PLANE_LOCAL, -1);
    ck_assert_int_eq(plane_set_open(&set, &env, clock_us() + SECOND, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "(local: it does not carry between so many ranks)"));
    ck_assert(!set.opened[PLANE_LOCAL]);
}
END_TEST

START_TEST(a_job_of_one_rank_needs_local_only)
{
    struct plane_set set;
    struct hvd_job job = {.rank = 0, .size = 1};
    struct plane_env env = {.config = &config, .job = &job, .shape = &shape, .epoll_fd = -1};
    config.planes = list_of(PLANE_TCP, PLANE_MPI);
    ck_assert_int_eq(plane_set_open(&set, &env, clock_us() + SECOND, NULL), HVD_OK);
    expect_order(&set, PLANE_TCP, PLANE_MPI, PLANE_LOCAL);
    ck_assert_uint_eq(plane_set_available(&set), 1u << PLANE_LOCAL);
    ck_assert(set.opened[PLANE_LOCAL] && !set.opened[PLANE_TCP]);
    plane_set_close(&set);
}
END_TEST

/* Four ranks on two nodes. */
static int two_nodes[] = {0, 0, 2, 2};

static uint32_t bit_of(int plane)
{
    return UINT32_C(1) << plane;
}

/* In the order of what auto prefers. */
START_TEST(sets_have_the_planes_that_serve_them)
{
    enum { LOCAL = 1 << PLANE_LOCAL, SHM = 1 << PLANE_SHM, HIER = 1 << PLANE_HIER_TCP, TCP = 1 << PLANE_TCP };
    static const struct {
        int size, ranks[4];
        uint32_t served;
        int each;
    } cases[] = {
        {4, {0, 1, 2, 3}, HIER | TCP, 2},
        {2, {0, 1}, SHM | TCP, 0},
        {2, {2, 3}, SHM | TCP, 0},
        {2, {1, 2}, TCP, 0},
        {3, {1, 2, 3}, HIER | TCP, 0},
        {3, {0, 1, 2}, HIER | TCP, 0},
        {1, {2}, LOCAL, 0},
    };
    struct plane_set set;
    struct hvd_job job = {.rank = 0, .size = 4};
    struct roster roster = {.size = 4, .node_of_rank = two_nodes};
    char memory[1];
    struct plane_env env = {.config = &config,
                            .job = &job,
                            .roster = &roster,
                            .shape = &shape,
                            .arena = {memory, sizeof(memory)},
                            .epoll_fd = -1};
    config.planes = 0;
    ck_assert_int_eq(plane_set_open(&set, &env, clock_us() + SECOND, NULL), HVD_OK);
    for (int i = 0; i < PLANE_COUNT; i++)
        ck_assert_int_eq(set.order[i], i);
    ck_assert(set.opened[PLANE_SHM]);
    ck_assert_uint_ne(plane_set_available(&set) & SHM, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct plane_team members = {.size = cases[i].size, .ranks = cases[i].ranks};
        ck_assert_uint_eq(plane_set_serving(&set, &members, LOCAL | SHM | HIER | TCP), cases[i].served);
        const struct plane_need need = {PLANE_ALLTOALL, HVD_INT8, HVD_INT8, HVD_SUM, cases[i].size};
        int each = plane_set_each(&set, &members);
        ck_assert_int_eq(each, cases[i].each);
        ck_assert(((plane_set_can(&set, &need, each) & HIER) != 0) == (each > 0));
    }
    const struct plane_team all = {.size = 4, .ranks = cases[0].ranks};
    ck_assert_uint_eq(plane_set_serving(&set, &all, SHM), 0);
    plane_set_close(&set);
}
END_TEST

START_TEST(shm_alone_is_not_enough_between_nodes)
{
    struct plane_set set;
    struct hvd_error err;
    struct hvd_job job = {.rank = 3, .size = 4};
    struct roster roster = {.rank = 3, .size = 4, .node_of_rank = two_nodes};
    struct plane_env env = {
        .config = &config, .job = &job, .roster = &roster, .shape = &shape, .epoll_fd = -1};
    config.planes = list_of(PLANE_SHM, -1);
    ck_assert_int_eq(plane_set_open(&set, &env, clock_us() + SECOND, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_str_eq(err.text,
                     "no plane is left to carry tensors (shm: the ranks are on several nodes; local: it "
                     "does not carry between so many ranks); name another in --hvd-planes");
    config.planes = list_of(PLANE_SHM, PLANE_TCP);
    ck_assert_int_eq(plane_set_open(&set, &env, clock_us() + SECOND, &err), HVD_OK);
    plane_set_close(&set);
    config.planes = list_of(PLANE_TCP, PLANE_SHM);
    ck_assert_int_eq(plane_set_open(&set, &env, clock_us() + SECOND, &err), HVD_OK);
    expect_order(&set, PLANE_TCP, PLANE_SHM, PLANE_LOCAL);
    plane_set_close(&set);
    /* more ranks than it carries between are no nodes */
    int one_node[1025] = {0};
    job.size = roster.size = 1025;
    roster.node_of_rank = one_node;
    config.planes = list_of(PLANE_SHM, -1);
    ck_assert_int_eq(plane_set_open(&set, &env, clock_us() + SECOND, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "(shm: it does not carry between so many ranks;"));
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
    ck_assert_str_eq(component, "plane");
    if (level == LOG_WARN)
        error_set(seen, HVD_OK, "%s", line);
}

/* A set for which there is no room lives, and goes elsewhere. */
START_TEST(a_set_without_room_does_without_the_plane)
{
    static const int both[] = {0, 1};
    int one_node[] = {0, 0};
    struct plane_set set;
    struct team *teams[3] = {NULL};
    struct hvd_error err, seen = {""};
    struct hvd_job job = {.rank = 0, .size = 2};
    struct hvd_log log = {LOG_INFO, note_warning, &seen};
    struct roster roster = {.size = 2, .node_of_rank = one_node};
    struct plane_env env = {.config = &config,
                            .log = &log,
                            .job = &job,
                            .roster = &roster,
                            .shape = &shape,
                            .arena = open_arena((size_t)7 << 19),
                            .epoll_fd = -1};
    config.planes = list_of(PLANE_SHM, -1);
    ck_assert_int_eq(plane_set_open(&set, &env, clock_us() + SECOND, NULL), HVD_OK);
    for (int i = 0; i < 3; i++) {
        struct plane_team members = {.set = i, .size = 2, .ranks = both};
        ck_assert_int_eq(team_create(&set, &members, &teams[i], &err), HVD_OK);
        uint32_t planes = bit_of(PLANE_SHM) | bit_of(PLANE_TCP);
        ck_assert_uint_eq(team_planes(teams[i], planes), i < 2 ? planes : bit_of(PLANE_TCP));
        ck_assert((seen.text[0] == 0) == (i < 2));
    }
    ck_assert_ptr_nonnull(
        strstr(seen.text, "shm carries nothing in process set 2: no shared memory is left"));
    for (int i = 0; i < 3; i++)
        team_destroy(&set, teams[i]);
    plane_set_close(&set);
    munmap(env.arena.base, env.arena.bytes);
}
END_TEST

#ifdef HAVE_MPI
/* Over mpi, which is started at the first batch, it has to be known before that who has no room: then other
 * planes can still be agreed on. */
START_TEST(a_plane_that_opens_late_is_refused_at_once)
{
    static const int all[] = {0, 1, 2, 3};
    struct hvd_error err, seen = {""};
    struct hvd_job job = {.rank = 0, .size = 4};
    struct hvd_log log = {LOG_INFO, note_warning, &seen};
    struct roster roster = {.size = 4, .node_of_rank = two_nodes};
    struct plane_team members = {.set = HVD_ALL_RANKS, .size = 4, .ranks = all};
    struct team *team = NULL;
    struct plane_set set;
    struct plane_env env = {.config = &config,
                            .log = &log,
                            .job = &job,
                            .roster = &roster,
                            .shape = &shape,
                            .arena = open_arena(_i == 0 ? (size_t)1 << 20 : (size_t)32 << 20),
                            .epoll_fd = -1};
    config.planes = list_of(PLANE_HIER_MPI, -1);
    setenv("PMIX_NAMESPACE", "a job's", 1);
    ck_assert_int_eq(plane_set_open(&set, &env, clock_us() + SECOND, &err), HVD_OK);
    ck_assert_int_eq(team_create(&set, &members, &team, &err), HVD_OK);
    ck_assert_uint_eq(team_planes(team, bit_of(PLANE_HIER_MPI) | bit_of(PLANE_MPI)),
                      _i == 0 ? bit_of(PLANE_MPI) : bit_of(PLANE_HIER_MPI) | bit_of(PLANE_MPI));
    ck_assert((strstr(seen.text, "hier-mpi carries nothing in process set 0: no shared memory") != NULL) ==
              (_i == 0));
    ck_assert(!set.opened_late[PLANE_HIER_MPI]);
    team_destroy(&set, team);
    plane_set_close(&set);
    munmap(env.arena.base, env.arena.bytes);
}
END_TEST
#endif

/* ---- One process: sequence and giving up ------------------------------------------------------ */

static int carry(struct plane_set *set, struct team *team, int plane, struct hvd_error *err)
{
    for (;;) {
        int lost = -1;
        bool moved = false;
        struct epoll_event event;
        int status = plane_set_test(set, team, plane, &moved, &lost, err);
        if (status == HVD_IN_PROGRESS && !moved) {
            plane_set_arm(set, true);
            status = plane_set_test(set, team, plane, &moved, &lost, err);
        }
        if (status != HVD_IN_PROGRESS) {
            plane_set_arm(set, false);
            return status;
        }
        if (!moved && plane_table[plane]->polled)
            sched_yield();
        else if (!moved && epoll_wait(set->env.epoll_fd, &event, 1, WAIT_MS) == 0)
            return error_set(err, HVD_ERR_TIMEOUT, "slept too long");
        plane_set_arm(set, false);
    }
}

START_TEST(what_was_given_up_carries_nothing)
{
    static const int self[] = {0};
    struct plane_set set;
    struct team *teams[2] = {NULL, NULL};
    struct hvd_error err;
    float data[4] = {1, 2, 3, 4};
    struct hvd_job job = {.rank = 0, .size = 1};
    struct plane_env env = {.config = &config, .job = &job, .shape = &shape, .epoll_fd = -1};
    struct plane_batch batch = {.need = {PLANE_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 1},
                                .input = data,
                                .output = data,
                                .prescale = 2,
                                .postscale = 1,
                                .count = 4};
    config.planes = 0;
    ck_assert_int_eq(plane_set_open(&set, &env, clock_us() + SECOND, NULL), HVD_OK);
    for (int i = 0; i < 2; i++) {
        struct plane_team members = {.set = i, .size = 1, .ranks = self};
        ck_assert_int_eq(team_create(&set, &members, &teams[i], &err), HVD_OK);
    }
    for (uint64_t i = 1; i <= 3; i++) {
        ck_assert_int_eq(plane_set_start(&set, teams[0], PLANE_LOCAL, &batch, &err), HVD_OK);
        ck_assert_uint_eq(batch.sequence, i);
        ck_assert_int_eq(carry(&set, teams[0], PLANE_LOCAL, &err), HVD_OK);
    }
    ck_assert(data[0] == 8);
    ck_assert_int_eq(plane_set_start(&set, teams[0], PLANE_LOCAL, &batch, &err), HVD_OK);
    plane_set_give_up(&set, teams[0], PLANE_LOCAL);
    plane_set_give_up(&set, teams[0], PLANE_LOCAL);
    ck_assert_int_eq(plane_set_start(&set, teams[0], PLANE_LOCAL, &batch, &err), HVD_ERR_STATE);
    ck_assert(data[0] == 8);
    ck_assert_int_eq(plane_set_start(&set, teams[1], PLANE_LOCAL, &batch, &err), HVD_OK);
    ck_assert_uint_eq(batch.sequence, 1);
    ck_assert_int_eq(carry(&set, teams[1], PLANE_LOCAL, &err), HVD_OK);
    ck_assert(data[0] == 16);
    for (int i = 0; i < 2; i++)
        team_destroy(&set, teams[i]);
    team_destroy(&set, NULL);
    plane_set_close(&set);
}
END_TEST

/* ---- Many processes: overlapping teams -------------------------------------------------------- */

/* What each process knows; the endpoints are opened before it is forked. */
struct world {
    struct endpoint *endpoints[RANKS];
    struct roster_peer peers[RANKS];
    unsigned char key[ROSTER_KEY_BYTES];
    struct arena arena;
    int plane; /* that carries between them */
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
        struct roster_peer *peer = &world->peers[rank];
        ck_assert_int_eq(endpoint_open(&world->endpoints[rank], config.lease_us, NULL, NULL), HVD_OK);
        snprintf(peer->host, sizeof(peer->host), "n%d", rank);
        peer->port = endpoint_port(world->endpoints[rank]);
        peer->address_count = 1;
        inet_pton(AF_INET6, "::ffff:127.0.0.1", &peer->addresses[0]);
    }
}

static int count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

static int complain(int rank, const char *what, const struct hvd_error *err)
{
    fprintf(stderr, "# rank %d: %s: %s\n", rank, what, err->text);
    return 1;
}

/* Batches in an order that all agree on: each carries those of its own teams. */
static int carry_batches(const struct world *world, struct plane_set *set, struct team **teams, int rank)
{
    uint64_t random = 99;
    struct hvd_error err = {""};
    for (int i = 0; i < 400; i++) {
        int which = plan_dice(&random, SETS);
        struct part part;
        struct plan plan = plan_random(&random, (enum plane_kind)plan_dice(&random, PLANE_REDUCESCATTER + 1),
                                       sets[which].size, i % 40 == 0 ? 200000 : 512);
        int plane = sets[which].size == 1 ? PLANE_LOCAL : world->plane;
        int place = place_in(which, rank);
        if (place < 0)
            continue;
        if (plane_set_can(set, &plan.need, 0) != 1u << plane)
            return complain(rank, "plane_set_can", &err);
        part_open(&part, &plan, place);
        int status = plane_set_start(set, teams[which], plane, &part.batch, &err);
        if (status == HVD_OK)
            status = carry(set, teams[which], plane, &err);
        if (status != HVD_OK)
            return complain(rank, "a batch failed", &err);
        if (!part_close(&part, &plan, place))
            return complain(rank, "a batch is wrong", &err);
    }
    return 0;
}

static int run_rank(struct world *world, int rank)
{
    struct plane_set set;
    struct team *teams[SETS] = {NULL};
    struct hvd_error err = {""};
    struct hvd_job job = {.rank = rank, .size = RANKS};
    int one_node[RANKS] = {0};
    struct roster roster = {.rank = rank, .size = RANKS, .peers = world->peers, .node_of_rank = one_node};
    struct plane_env env = {.config = &config,
                            .job = &job,
                            .roster = &roster,
                            .shape = &shape,
                            .endpoint = world->endpoints[rank],
                            .arena = world->arena,
                            .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    int before = count_fds();
    memcpy(roster.key, world->key, sizeof(roster.key));
    if (plane_set_open(&set, &env, clock_us() + 10 * SECOND, &err) != HVD_OK)
        return complain(rank, "plane_set_open", &err);
    for (int i = 0; i < SETS; i++) {
        struct plane_team members = {
            .set = i, .rank = place_in(i, rank), .size = sets[i].size, .ranks = sets[i].ranks};
        if (i > 0 && plane_set_open_all(&set, plane_set_available(&set), &err) != HVD_OK)
            return complain(rank, "plane_set_open_all", &err);
        if (members.rank >= 0 && team_create(&set, &members, &teams[i], &err) != HVD_OK)
            return complain(rank, "team_create", &err);
    }
    int rc = carry_batches(world, &set, teams, rank);
    for (int i = 0; i < SETS; i++)
        team_destroy(&set, teams[i]);
    plane_set_close(&set);
    if (rc == 0 && count_fds() != before)
        return complain(rank, "descriptors are left", &err);
    close(env.epoll_fd);
    return rc;
}

/* [_i] is the plane. */
START_TEST(teams_overlap)
{
    struct world world = {.plane = _i};
    pid_t pids[RANKS];
    pid_t parent = getpid();
    config.planes = list_of(_i, -1);
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
    TCase *tcase = tcase_create("set");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, local_is_always_there);
    tcase_add_test(tcase, a_job_needs_a_plane_between_ranks);
    tcase_add_test(tcase, a_job_of_one_rank_needs_local_only);
    tcase_add_test(tcase, what_was_given_up_carries_nothing);
    tcase_add_test(tcase, sets_have_the_planes_that_serve_them);
    tcase_add_test(tcase, shm_alone_is_not_enough_between_nodes);
    tcase_add_test(tcase, a_set_without_room_does_without_the_plane);
#ifdef HAVE_MPI
    tcase_add_loop_test(tcase, a_plane_that_opens_late_is_refused_at_once, 0, 2);
#else
    puts("# what opens late is not tested: hvd was built without MPI");
#endif
    tcase_add_loop_test(tcase, teams_overlap, PLANE_SHM, PLANE_SHM + 1);
    tcase_add_loop_test(tcase, teams_overlap, PLANE_TCP, PLANE_TCP + 1);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("set", fill);
}
