/* test_tcp_pairwise.c: alltoalls over real sockets: many members stepped in one process, processes that
 * sleep, and members that die or lie. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "batch_driver.h"
#include "backend/tcp/tcp_pairwise.h"
#include "backend/tcp/fragment.h"
#include "net/peer_table.h"

#define CHUNK   4096 /* bytes */
#define RANKS   12
#define BATCHES 5
#define STRIDE  3 /* member i is rank STRIDE * i + 1 of the job */

static int ranks[RANKS];
static struct peer peers[RANKS * STRIDE + 1];
static const struct peer_table peer_table = {.size = RANKS * STRIDE + 1, .peers = peers};

/* fds[a][b]: the end that a has of its connection with b. */
struct wires {
    int size;
    int fds[RANKS][RANKS];
};

static void wires_open(struct wires *wires, int size)
{
    wires->size = size;
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = STRIDE * i + 1;
        snprintf(peers[ranks[i]].host, sizeof(peers[0].host), "n%d", i);
    }
    for (int a = 0; a < size; a++) {
        wires->fds[a][a] = -1;
        for (int b = 0; b < a; b++) {
            int pair[2];
            open_pair(pair);
            wires->fds[a][b] = pair[0];
            wires->fds[b][a] = pair[1];
        }
    }
}

/* Close the ends of one member. */
static void wires_cut(const struct wires *wires, int member)
{
    for (int i = 0; i < wires->size; i++)
        if (i != member)
            close(wires->fds[member][i]);
}

static struct tcp_pairwise *tcp_pairwise_at(const struct wires *wires, struct team *team, int rank,
                                            int64_t chunk_bytes, int epoll_fd)
{
    struct tcp_pairwise *tcp_pairwise = NULL;
    *team = (struct team){.rank = rank, .size = wires->size, .ranks = ranks};
    struct tcp_pairwise_params seat = {team, &peer_table, chunk_bytes, epoll_fd, NULL};
    ck_assert_int_eq(tcp_pairwise_open(&tcp_pairwise, &seat, wires->fds[rank], NULL), HVD_OK);
    return tcp_pairwise;
}

static int start(void *self, const struct backend_batch *batch, struct hvd_error *err)
{
    return tcp_pairwise_start(self, batch, err);
}

static int test(void *self, bool *movedp, int *lostp, struct hvd_error *err)
{
    return tcp_pairwise_test(self, movedp, lostp, err);
}

static int waits_for(const void *self)
{
    int rank = tcp_pairwise_waits_for(self);
    return rank < 0 ? rank : (rank - 1) / STRIDE;
}

static void close_member(void *self)
{
    tcp_pairwise_close(self);
}

static const struct batch_driver driver = {start, test, waits_for, close_member};

/* ---- All members in one process, in random order --------------------------------------------- */

static void run_batches(int size, const struct batch_plan *plans, uint64_t seed)
{
    struct wires wires;
    struct team teams[RANKS];
    struct stepped_member members[RANKS] = {0};
    uint64_t random = seed;
    wires_open(&wires, size);
    for (int rank = 0; rank < size; rank++)
        members[rank].self = tcp_pairwise_at(&wires, &teams[rank], rank, CHUNK, -1);
    drive_in_turns(&driver, members, size, plans, BATCHES, &random);
    for (int rank = 0; rank < size; rank++)
        tcp_pairwise_close(members[rank].self);
}

START_TEST(everybody_gets_its_part_of_all)
{
    uint64_t random = (uint64_t)_i + 5;
    for (int i = 0; i < 8; i++) {
        struct batch_plan plans[BATCHES];
        for (int k = 0; k < BATCHES; k++)
            plans[k] = batch_plan_random(&random, COLL_ALLTOALL, _i, k == 2 ? 8 * CHUNK : CHUNK / 4);
        run_batches(_i, plans, random);
    }
}
END_TEST

/* [_i] is how many members there are. */
START_TEST(a_stopped_member_is_waited_for)
{
    uint64_t random = (uint64_t)_i + 177;
    for (int i = 0; i < 6; i++) {
        struct wires wires;
        struct team teams[RANKS];
        struct stepped_member members[RANKS] = {0};
        struct batch_plan plan = batch_plan_random(&random, COLL_ALLTOALL, _i, 16 * CHUNK);
        wires_open(&wires, _i);
        for (int rank = 0; rank < _i; rank++)
            members[rank].self = tcp_pairwise_at(&wires, &teams[rank], rank, CHUNK, -1);
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
    struct team team;
    struct tcp_pairwise *tcp_pairwise = tcp_pairwise_at(wires, &team, rank, 256 * 1024, epoll_fd);
    for (int i = 0; i < 6; i++) {
        struct batch_plan plan = batch_plan_random(&random, COLL_ALLTOALL, wires->size, 8 * 1024);
        if (i == 2)
            plan.counts[0][wires->size - 1] = 1000001;
        if (!drive_part(&driver, tcp_pairwise, epoll_fd, &plan, rank))
            return 1;
    }
    tcp_pairwise_close(tcp_pairwise);
    close(epoll_fd);
    return 0;
}

START_TEST(wakes_sleeping_processes)
{
    struct wires wires;
    wires_open(&wires, _i);
    run_in_processes(_i, sleeping_member, &wires);
}
END_TEST

/* ---- One member between ends that the test holds --------------------------------------------- */

/* Member 0 of two or three; all of its connections end here. */
struct stage {
    struct wires wires;
    struct team team;
    struct lone_member member;
    struct batch_plan plan;
    struct batch_part part;
};

static void stage_open(struct stage *stage, int size, int64_t out, int64_t in, int epoll_fd)
{
    memset(stage, 0, sizeof(*stage));
    wires_open(&stage->wires, size);
    stage->member = (struct lone_member){
        &driver, tcp_pairwise_at(&stage->wires, &stage->team, 0, CHUNK, epoll_fd), .lost = -1};
    stage->plan =
        (struct batch_plan){.need = {COLL_ALLTOALL, HVD_INT32, HVD_INT32, HVD_SUM, size}, .sequence = 7};
    stage->plan.counts[0][1] = out;
    stage->plan.counts[1][0] = in;
    batch_part_open(&stage->part, &stage->plan, 0);
    ck_assert_int_eq(tcp_pairwise_start(stage->member.self, &stage->part.batch, NULL), HVD_OK);
}

static void stage_close(struct stage *stage)
{
    tcp_pairwise_close(stage->member.self);
    for (int i = 1; i < stage->wires.size; i++)
        wires_cut(&stage->wires, i);
    guarded_free(stage->part.output, stage->part.output_bytes);
    guarded_free(stage->part.input, stage->part.input_bytes);
}

/* Frames that must be refused where 1500 int32 (chunks of 4096 and 1904 bytes) are due in sequence 7. */
static const struct {
    struct fragment_header header;
    const char *words;
} hostile[] = {
    {{0x12345678, FRAGMENT_PAIRWISE, 7, 0, 4096}, "header mark"},
    {{FRAGMENT_MAGIC, FRAGMENT_PAIRWISE, 8, 0, 4096}, "batch 8 where 7"},
    {{FRAGMENT_MAGIC, FRAGMENT_PAIRWISE, 7, 1, 4096}, "chunk 1 where 0"},
    {{FRAGMENT_MAGIC, FRAGMENT_PAIRWISE, 7, UINT64_MAX, 4096}, "where 0"},
    {{FRAGMENT_MAGIC, FRAGMENT_PAIRWISE, 7, 0, 4097}, "length 4097 where 4096"},
    {{FRAGMENT_MAGIC, FRAGMENT_PAIRWISE, 7, 0, 6000}, "length 6000 where 4096"},
    {{FRAGMENT_MAGIC, FRAGMENT_PAIRWISE, 7, 0, 0}, "length 0 where 4096"},
    {{FRAGMENT_MAGIC, FRAGMENT_PAIRWISE, 7, 0, UINT64_MAX}, "where 4096"},
    {{FRAGMENT_MAGIC, 0, 7, 0, 4096}, "kind 0"},
    {{FRAGMENT_MAGIC, 3, 7, 0, 4096}, "kind 3"},
};

START_TEST(refuses_a_frame_that_is_not_due)
{
    static char bytes[3 * CHUNK];
    struct stage stage;
    memset(bytes, 0x77, sizeof(bytes));
    stage_open(&stage, 3, 0, 1500, -1);
    put(stage.wires.fds[1][0], &hostile[_i].header, sizeof(hostile[_i].header));
    put(stage.wires.fds[1][0], bytes, sizeof(bytes));
    lone_expect_failure(&stage.member, &stage.part.batch, HVD_ERR_MISMATCH, ranks[1], hostile[_i].words);
    ck_assert_msg(strstr(stage.member.err.text, "rank 4 (n1)") != NULL, "%s", stage.member.err.text);
    for (size_t i = 0; i < stage.part.output_bytes; i++)
        ck_assert_int_eq(stage.part.output[i], 0x5a);
    stage_close(&stage);
}
END_TEST

/* What comes too early belongs to the batch to come, byte for byte, and waits in the socket. */
START_TEST(takes_bytes_one_by_one_and_leaves_the_next_batch)
{
    struct stage stage;
    struct {
        struct fragment_header header;
        int32_t values[2];
    } messages[2] = {{{FRAGMENT_MAGIC, FRAGMENT_PAIRWISE, 7, 0, 8}, {5, -6}},
                     {{FRAGMENT_MAGIC, FRAGMENT_PAIRWISE, 9, 0, 8}, {7, 8}}};
    stage_open(&stage, 2, 0, 2, -1);
    int fd = stage.wires.fds[1][0];
    for (size_t i = 0; i < sizeof(messages[0]) - 1; i++) {
        ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
        put(fd, (const char *)messages + i, 1);
    }
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    put(fd, (const char *)messages + sizeof(messages[0]) - 1, 1 + sizeof(messages[1]));
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    ck_assert_mem_eq(stage.part.output, messages[0].values, 8);
    stage.part.batch.sequence = 9;
    ck_assert_int_eq(tcp_pairwise_start(stage.member.self, &stage.part.batch, NULL), HVD_OK);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    ck_assert_mem_eq(stage.part.output, messages[1].values, 8);
    stage_close(&stage);
}
END_TEST

/* Whoever still has something to give, or to take, may not leave. */
START_TEST(tells_a_member_that_left)
{
    struct stage stage;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    stage_open(&stage, 3, _i == 0 ? 5000000 : 0, _i == 0 ? 0 : 1500, epoll_fd);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    shutdown(stage.wires.fds[1][0], SHUT_RDWR);
    int status = drive_batch(&driver, stage.member.self, epoll_fd, &stage.member.lost, &stage.member.err);
    ck_assert_msg(status == HVD_ERR_RANK_LOST, "%s", stage.member.err.text);
    ck_assert_int_eq(stage.member.lost, ranks[1]);
    ck_assert_msg(strstr(stage.member.err.text, "rank 4 (n1)") != NULL, "%s", stage.member.err.text);
    stage_close(&stage);
    close(epoll_fd);
}
END_TEST

/* Member 2 has nothing to do with this batch: it may be anywhere. */
START_TEST(does_not_ask_who_has_nothing_to_say)
{
    struct stage stage;
    struct {
        struct fragment_header header;
        int32_t values[2];
    } message = {{FRAGMENT_MAGIC, FRAGMENT_PAIRWISE, 7, 0, 8}, {5, -6}};
    stage_open(&stage, 3, 0, 2, -1);
    put(stage.wires.fds[2][0], "not for this batch", 18);
    shutdown(stage.wires.fds[2][0], SHUT_RDWR);
    bool moved = true;
    ck_assert_int_eq(tcp_pairwise_test(stage.member.self, &moved, &stage.member.lost, &stage.member.err),
                     HVD_IN_PROGRESS);
    ck_assert(!moved);
    put(stage.wires.fds[1][0], &message, sizeof(message));
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    ck_assert_mem_eq(stage.part.output, message.values, 8);
    stage_close(&stage);
}
END_TEST

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

START_TEST(closes_its_descriptors)
{
    struct wires wires;
    struct team team;
    wires_open(&wires, 3);
    struct tcp_pairwise *tcp_pairwise = tcp_pairwise_at(&wires, &team, 1, CHUNK, -1);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        tcp_pairwise_after_fork(tcp_pairwise);
        _exit(is_open(wires.fds[1][0]) || is_open(wires.fds[1][2]));
    }
    ck_assert_int_eq(wait_for(pid), 0);
    ck_assert(is_open(wires.fds[1][0]) && is_open(wires.fds[1][2]));
    tcp_pairwise_close(tcp_pairwise);
    ck_assert(!is_open(wires.fds[1][0]) && !is_open(wires.fds[1][2]));
    tcp_pairwise_close(NULL);
    tcp_pairwise_after_fork(NULL);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("tcp_pairwise");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, everybody_gets_its_part_of_all, 2, RANKS + 1);
    tcase_add_loop_test(tcase, a_stopped_member_is_waited_for, 2, RANKS + 1);
    tcase_add_loop_test(tcase, wakes_sleeping_processes, 2, 6);
    tcase_add_loop_test(tcase, refuses_a_frame_that_is_not_due, 0, sizeof(hostile) / sizeof(hostile[0]));
    tcase_add_test(tcase, takes_bytes_one_by_one_and_leaves_the_next_batch);
    tcase_add_loop_test(tcase, tells_a_member_that_left, 0, 2);
    tcase_add_test(tcase, does_not_ask_who_has_nothing_to_say);
    tcase_add_test(tcase, closes_its_descriptors);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("tcp_pairwise", fill);
}
