/* test_tcp_bruck.c: small batches over real sockets: many members stepped in one process, processes that
 * sleep, and members that die or lie. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "batch_driver.h"
#include "backend/tcp/tcp_bruck.h"
#include "backend/tcp/fragment.h"
#include "base/dtype.h"

#define CHUNK   64 /* bytes; counts are around multiples of it */
#define RANKS   33
#define STEPS   6 /* of so many ranks */
#define BATCHES 6
#define STRIDE  3 /* member i is rank STRIDE * i + 1 of the job */

/* fds[rank][step]: the connection from that member to the one that it reaches in that step. */
struct wires {
    int size;
    bool shares_nodes;
    int fds[RANKS][STEPS][2];
};

static int other(int size, int rank, int distance)
{
    return ((rank + distance) % size + size) % size;
}

static void wires_open(struct wires *wires, int size, bool shares_nodes)
{
    wires->size = size;
    wires->shares_nodes = shares_nodes;
    for (int rank = 0; rank < size; rank++)
        for (int step = 0; step < bruck_step_count(size); step++)
            open_pair(wires->fds[rank][step]);
}

/* What is sent by [rank] goes in small pieces. */
static void wires_narrow(const struct wires *wires, int rank)
{
    for (int step = 0; step < bruck_step_count(wires->size); step++)
        narrow(wires->fds[rank][step][0]);
}

/* Close the ends of all members but [rank], or of that one. */
static void wires_close(const struct wires *wires, int rank, bool others)
{
    for (int from = 0; from < wires->size; from++) {
        for (int step = 0; step < bruck_step_count(wires->size); step++) {
            if ((from == rank) != others)
                close(wires->fds[from][step][0]);
            if ((other(wires->size, from, 1 << step) == rank) != others)
                close(wires->fds[from][step][1]);
        }
    }
}

static struct tcp_bruck *tcp_bruck_at(const struct wires *wires, int rank, int epoll_fd)
{
    struct tcp_bruck *tcp_bruck = NULL;
    struct tcp_bruck_peer to[STEPS] = {0}, from[STEPS] = {0};
    for (int step = 0; step < bruck_step_count(wires->size); step++) {
        int next = other(wires->size, rank, 1 << step);
        int previous = other(wires->size, rank, -(1 << step));
        to[step] = (struct tcp_bruck_peer){.rank = STRIDE * next + 1, .fd = wires->fds[rank][step][0]};
        from[step] =
            (struct tcp_bruck_peer){.rank = STRIDE * previous + 1, .fd = wires->fds[previous][step][1]};
        snprintf(to[step].name, sizeof(to->name), "member %d", next);
        snprintf(from[step].name, sizeof(from->name), "member %d", previous);
    }
    const struct tcp_bruck_params seat = {.rank = rank,
                                          .size = wires->size,
                                          .shares_nodes = wires->shares_nodes,
                                          .to = to,
                                          .from = from,
                                          .epoll_fd = epoll_fd};
    ck_assert_int_eq(tcp_bruck_open(&tcp_bruck, &seat, NULL), HVD_OK);
    return tcp_bruck;
}

static int start(void *self, const struct backend_batch *batch, struct hvd_error *err)
{
    return tcp_bruck_start(self, batch, err);
}

static int test(void *self, bool *movedp, int *lostp, struct hvd_error *err)
{
    return tcp_bruck_test(self, movedp, lostp, err);
}

static int waits_for(const void *self)
{
    int rank = tcp_bruck_waits_for(self);
    return rank < 0 ? rank : (rank - 1) / STRIDE;
}

static void close_member(void *self)
{
    tcp_bruck_close(self);
}

static const struct batch_driver driver = {start, test, waits_for, close_member};

/* ---- All members in one process, in random order --------------------------------------------- */

static void run_batches(int size, const struct batch_plan *plans, uint64_t seed)
{
    struct wires wires;
    struct stepped_member members[RANKS] = {0};
    uint64_t random = seed;
    wires_open(&wires, size, batch_plan_random_below(&random, 2) == 0);
    for (int rank = 0; rank < size; rank++) {
        if (batch_plan_random_below(&random, 3) == 0)
            wires_narrow(&wires, rank);
        members[rank].self = tcp_bruck_at(&wires, rank, -1);
    }
    drive_in_turns(&driver, members, size, plans, BATCHES, &random);
    for (int rank = 0; rank < size; rank++)
        tcp_bruck_close(members[rank].self);
}

/* Every third is as large as one may be: more than a socket holds. */
static struct batch_plan plan_small(uint64_t *random, int size)
{
    static const enum backend_kind kinds[] = {COLL_ALLREDUCE, COLL_REDUCESCATTER, COLL_ALLGATHER,
                                              COLL_BROADCAST};
    struct batch_plan plan =
        batch_plan_random(random, kinds[batch_plan_random_below(random, 4)], size, CHUNK);
    if (batch_plan_random_below(random, 3) > 0)
        return plan;
    plan.count = BRUCK_BYTES / (int64_t)dtype_bytes(plan.need.dtype);
    if (batch_plan_reduces(&plan)) {
        int64_t most = BRUCK_BYTES / (int64_t)dtype_bytes(plan.need.partial);
        plan.count = plan.count / size < most ? plan.count / size : most;
    }
    memset(plan.counts[0], 0, sizeof(plan.counts[0]));
    plan.counts[0][batch_plan_random_below(random, size)] = plan.count;
    return plan;
}

START_TEST(everybody_gets_what_is_due)
{
    static const int sizes[] = {2, 3, 4, 5, 7, 8, 12, RANKS};
    int size = sizes[_i];
    uint64_t random = (uint64_t)_i + 3;
    for (int i = 0; i < 16; i++) {
        struct batch_plan plans[BATCHES];
        for (int k = 0; k < BATCHES; k++)
            plans[k] = plan_small(&random, size);
        run_batches(size, plans, random);
    }
}
END_TEST

/* [_i] is how many members there are. */
START_TEST(a_stopped_member_is_waited_for)
{
    uint64_t random = (uint64_t)_i + 177;
    for (int i = 0; i < 40; i++) {
        struct wires wires;
        struct stepped_member members[RANKS] = {0};
        struct batch_plan plan = plan_small(&random, _i);
        wires_open(&wires, _i, i % 8 < 4);
        for (int rank = 0; rank < _i; rank++) {
            wires_narrow(&wires, rank);
            members[rank].self = tcp_bruck_at(&wires, rank, -1);
        }
        drive_to_a_stop(&driver, members, _i, &plan, &random);
    }
}
END_TEST

/* ---- Each member a process that sleeps until its sockets wake it ------------------------------ */

static int sleeping_member(void *arg, int rank)
{
    const struct wires *wires = arg;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    uint64_t random = 4711;
    struct tcp_bruck *tcp_bruck = tcp_bruck_at(wires, rank, epoll_fd);
    for (int i = 0; i < 40; i++) {
        struct batch_plan plan = plan_small(&random, wires->size);
        if (!drive_part(&driver, tcp_bruck, epoll_fd, &plan, rank))
            return 1;
    }
    tcp_bruck_close(tcp_bruck);
    close(epoll_fd);
    return 0;
}

START_TEST(wakes_sleeping_processes)
{
    struct wires wires;
    wires_open(&wires, _i / 2, _i % 2 == 0);
    for (int rank = 0; rank < wires.size; rank += 2)
        wires_narrow(&wires, rank);
    run_in_processes(wires.size, sleeping_member, &wires);
}
END_TEST

/* ---- One member between ends that the test holds --------------------------------------------- */

#define COUNT 5 /* elements of a batch */

/* A message in an allreduce or a broadcast of so many int32. */
struct message {
    struct fragment_header header;
    int32_t values[2 * COUNT];
};

/* Member 0 of four, or of more; the others are played by hand. */
struct stage {
    struct wires wires;
    struct lone_member member;
    struct backend_batch batch;
    int32_t output[COUNT];
};

static void stage_open(struct stage *stage, enum backend_kind kind, int root)
{
    memset(stage, 0, sizeof(*stage));
    wires_open(&stage->wires, 4, false);
    stage->member = (struct lone_member){&driver, tcp_bruck_at(&stage->wires, 0, -1), .lost = -1};
    stage->batch = (struct backend_batch){.need = {kind, HVD_INT32, HVD_INT32, HVD_SUM, 4},
                                          .root = root,
                                          .sequence = 7,
                                          .input = stage->output,
                                          .output = stage->output,
                                          .prescale = 1,
                                          .postscale = 1,
                                          .count = COUNT};
    for (int i = 0; i < COUNT; i++)
        stage->output[i] = i;
    ck_assert_int_eq(tcp_bruck_start(stage->member.self, &stage->batch, NULL), HVD_OK);
}

static void stage_close(struct stage *stage)
{
    tcp_bruck_close(stage->member.self);
    wires_close(&stage->wires, 0, true);
}

/* What member 0 hears in a step: member 3 is the one before it, member 2 the one two before it. */
static int to_step(const struct stage *stage, int step)
{
    return stage->wires.fds[step == 0 ? 3 : 2][step][0];
}

/* [blocks] blocks of ones. */
static struct message message_of(uint64_t sequence, int step, size_t blocks)
{
    struct message message = {.header = {FRAGMENT_MAGIC, FRAGMENT_BRUCK, sequence, (uint64_t)step,
                                         blocks * COUNT * sizeof(int32_t)}};
    for (size_t i = 0; i < 2 * COUNT; i++)
        message.values[i] = 1;
    return message;
}

static void put_step(const struct stage *stage, uint64_t sequence, int step, size_t blocks)
{
    struct message message = message_of(sequence, step, blocks);
    put(to_step(stage, step), &message, sizeof(message.header) + message.header.length);
}

/* Member 0 sends its own block, then, with that of member 3, both. */
START_TEST(sends_what_it_has)
{
    struct stage stage;
    struct message heard;
    stage_open(&stage, COLL_ALLREDUCE, 0);
    int first = stage.wires.fds[0][0][1], second = stage.wires.fds[0][1][1];
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    ck_assert_int_eq(recv(first, &heard, sizeof(heard), 0), sizeof(heard.header) + COUNT * 4);
    ck_assert_uint_eq(heard.header.chunk, 0);
    ck_assert_mem_eq(heard.values, stage.output, COUNT * 4);
    ck_assert_int_lt(recv(second, &heard, sizeof(heard), 0), 0);
    put_step(&stage, 7, 0, 1);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    ck_assert_int_eq(recv(second, &heard, sizeof(heard), 0), sizeof(heard));
    ck_assert_uint_eq(heard.header.chunk, 1);
    ck_assert_mem_eq(heard.values, stage.output, COUNT * 4);
    ck_assert_int_eq(heard.values[COUNT], 1);
    put_step(&stage, 7, 1, 2);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(stage.output[i], i + 3);
    stage_close(&stage);
}
END_TEST

/* What comes too early belongs to the batch to come, byte for byte, and waits in the socket. */
START_TEST(takes_bytes_one_by_one_and_leaves_the_next_batch)
{
    struct stage stage;
    const struct message message = message_of(7, 1, 1);
    size_t length = sizeof(message.header) + message.header.length;
    stage_open(&stage, COLL_BROADCAST, 2);
    for (size_t i = 0; i < length - 1; i++) {
        put(to_step(&stage, 1), (const char *)&message + i, 1);
        ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    }
    put(to_step(&stage, 1), (const char *)&message + length - 1, 1);
    put_step(&stage, 9, 1, 1);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(stage.output[i], 1);
    stage.output[3] = 7;
    stage.batch.sequence = 9;
    ck_assert_int_eq(tcp_bruck_start(stage.member.self, &stage.batch, &stage.member.err), HVD_OK);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    ck_assert_int_eq(stage.output[3], 1);
    stage_close(&stage);
}
END_TEST

/* Frames that a member must refuse where those of [step] are due. */
static const struct {
    int step;
    struct fragment_header header;
    const char *words;
} hostile[] = {
    {0, {0x12345678, FRAGMENT_BRUCK, 7, 0, 20}, "header mark"},
    {0, {FRAGMENT_MAGIC, FRAGMENT_BRUCK, 8, 0, 20}, "batch 8 where 7"},
    {0, {FRAGMENT_MAGIC, FRAGMENT_BRUCK, 6, 0, 20}, "batch 6 where 7"},
    {0, {FRAGMENT_MAGIC, FRAGMENT_PAIRWISE, 7, 0, 20}, "kind 2"},
    {0, {FRAGMENT_MAGIC, UINT32_MAX, 7, 0, 20}, "kind 4294967295"},
    {0, {FRAGMENT_MAGIC, FRAGMENT_BRUCK, 7, 1, 20}, "chunk 1 where 0"},
    {0, {FRAGMENT_MAGIC, FRAGMENT_BRUCK, 7, 0, 19}, "length 19 where 20"},
    {0, {FRAGMENT_MAGIC, FRAGMENT_BRUCK, 7, 0, 0}, "length 0 where 20"},
    {0, {FRAGMENT_MAGIC, FRAGMENT_BRUCK, 7, 0, UINT64_MAX}, "where 20"},
    {1, {FRAGMENT_MAGIC, FRAGMENT_BRUCK, 7, 0, 40}, "chunk 0 where 1"},
    {1, {FRAGMENT_MAGIC, FRAGMENT_BRUCK, 7, UINT64_MAX, 40}, "where 1"},
    {1, {FRAGMENT_MAGIC, FRAGMENT_BRUCK, 7, 1, 20}, "length 20 where 40"},
};

START_TEST(refuses_a_frame_that_is_not_due)
{
    static char bytes[4096];
    struct stage stage;
    size_t more = _i % 2 == 0 ? sizeof(bytes) : 0;
    memset(bytes, 0x77, sizeof(bytes));
    stage_open(&stage, COLL_ALLREDUCE, 0);
    if (hostile[_i].step == 1)
        put_step(&stage, 7, 0, 1);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    put(to_step(&stage, hostile[_i].step), &hostile[_i].header, sizeof(hostile[_i].header));
    put(to_step(&stage, hostile[_i].step), bytes, more);
    lone_expect_failure(&stage.member, &stage.batch, HVD_ERR_MISMATCH,
                        STRIDE * (hostile[_i].step == 0 ? 3 : 2) + 1, hostile[_i].words);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(stage.output[i], i);
    stage_close(&stage);
}
END_TEST

/* Member 3 leaves in the midst of its message, or member 2 before its own. */
START_TEST(tells_a_member_that_left)
{
    struct stage stage;
    stage_open(&stage, COLL_ALLREDUCE, 0);
    if (_i == 1)
        put_step(&stage, 7, 0, 1);
    else
        put(to_step(&stage, 0), "Zdvh", 4);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    shutdown(to_step(&stage, _i), SHUT_RDWR);
    lone_expect_failure(&stage.member, &stage.batch, HVD_ERR_RANK_LOST, STRIDE * (3 - _i) + 1,
                        _i == 0 ? "batch 7 the connection of this rank with member 3 was closed"
                                : "member 2 was closed");
    stage_close(&stage);
}
END_TEST

/* Member 1, to which member 0 sends, is gone. */
START_TEST(tells_a_member_that_takes_nothing)
{
    struct stage stage;
    stage_open(&stage, COLL_BROADCAST, 0);
    shutdown(stage.wires.fds[0][0][1], SHUT_RDWR);
    lone_expect_failure(&stage.member, &stage.batch, HVD_ERR_RANK_LOST, STRIDE + 1, "member 1");
    stage_close(&stage);
}
END_TEST

static void *open_member(void *world, int rank, int epoll_fd)
{
    return tcp_bruck_at(world, rank, epoll_fd);
}

static void close_all_but(void *world, int rank)
{
    wires_close(world, rank, true);
}

START_TEST(tells_a_killed_member)
{
    struct wires wires;
    struct hvd_error err;
    int lost = -1;
    static float data[BRUCK_BYTES / 8];
    const struct member_pair pair = {&wires, open_member, close_all_but};
    struct backend_batch batch = {.need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 2},
                                  .sequence = 1,
                                  .input = data,
                                  .output = data,
                                  .prescale = 1,
                                  .postscale = 1,
                                  .count = sizeof(data) / sizeof(data[0])};
    wires_open(&wires, 2, false);
    wires_narrow(&wires, 1);
    kill_amid_batch(&driver, &pair, &batch, &lost, &err);
    ck_assert_int_eq(lost, STRIDE + 1);
}
END_TEST

/* Of member 0's descriptors: are there any? */
static bool any_open(const struct wires *wires)
{
    bool any = false;
    for (int step = 0; step < bruck_step_count(wires->size); step++) {
        int previous = other(wires->size, 0, -(1 << step));
        any = any || fcntl(wires->fds[0][step][0], F_GETFD) >= 0 ||
              fcntl(wires->fds[previous][step][1], F_GETFD) >= 0;
    }
    return any;
}

START_TEST(closes_its_descriptors)
{
    struct wires wires;
    wires_open(&wires, 5, false);
    struct tcp_bruck *tcp_bruck = tcp_bruck_at(&wires, 0, -1);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        tcp_bruck_after_fork(tcp_bruck);
        _exit(any_open(&wires));
    }
    ck_assert_int_eq(wait_for(pid), 0);
    ck_assert(any_open(&wires));
    tcp_bruck_close(tcp_bruck);
    ck_assert(!any_open(&wires));
    wires_close(&wires, 0, true);
    tcp_bruck_after_fork(NULL);
    tcp_bruck_close(NULL);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("tcp_bruck");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, everybody_gets_what_is_due, 0, 8);
    tcase_add_loop_test(tcase, a_stopped_member_is_waited_for, 2, RANKS + 1);
    tcase_add_loop_test(tcase, wakes_sleeping_processes, 4, 16);
    tcase_add_test(tcase, sends_what_it_has);
    tcase_add_test(tcase, takes_bytes_one_by_one_and_leaves_the_next_batch);
    tcase_add_loop_test(tcase, refuses_a_frame_that_is_not_due, 0, sizeof(hostile) / sizeof(hostile[0]));
    tcase_add_loop_test(tcase, tells_a_member_that_left, 0, 2);
    tcase_add_test(tcase, tells_a_member_that_takes_nothing);
    tcase_add_test(tcase, tells_a_killed_member);
    tcase_add_test(tcase, closes_its_descriptors);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("tcp_bruck", fill);
}
