/* test_tcp_chain.c: batches over real sockets: many rings stepped in one process, rings of processes that
 * sleep, and neighbours that die or lie. */
#include "unit.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "batch_driver.h"
#include "backend/tcp/tcp_chain.h"

#define CHUNK   4096 /* bytes */
#define RANKS   7
#define BATCHES 6

/* A ring of sockets: fds[rank][lane] is a connection from that rank to the next. */
struct pairs {
    int lanes;
    int fds[RANKS][TCP_CHAIN_MAX_LANES][2];
};

static void pairs_open(struct pairs *pairs, int size, int lanes)
{
    pairs->lanes = lanes;
    for (int rank = 0; rank < size; rank++)
        for (int lane = 0; lane < lanes; lane++)
            open_pair(pairs->fds[rank][lane]);
}

/* What is sent on one lane from [rank] goes in small pieces. */
static void pairs_narrow(const struct pairs *pairs, int rank, int lane)
{
    narrow(pairs->fds[rank][lane % pairs->lanes][0]);
}

/* One end of all lanes from [rank]: 0 is its own. */
static void pairs_close(const struct pairs *pairs, int rank, int end)
{
    for (int lane = 0; lane < pairs->lanes; lane++)
        close(pairs->fds[rank][lane][end]);
}

static struct tcp_chain *tcp_chain_at(const struct pairs *pairs, int rank, int size, int64_t chunk_bytes,
                                      int epoll_fd)
{
    struct tcp_chain *tcp_chain = NULL;
    int previous = (rank + size - 1) % size;
    struct tcp_chain_params seat = {.rank = rank,
                                    .size = size,
                                    .chunk_bytes = chunk_bytes,
                                    .lanes = pairs->lanes,
                                    .next = {.rank = (rank + 1) % size, .name = "the next"},
                                    .previous = {.rank = previous, .name = "the previous"},
                                    .epoll_fd = epoll_fd};
    for (int lane = 0; lane < pairs->lanes; lane++) {
        seat.next.fds[lane] = pairs->fds[rank][lane][0];
        seat.previous.fds[lane] = pairs->fds[previous][lane][1];
    }
    int status = tcp_chain_open(&tcp_chain, &seat, NULL);
    ck_assert_int_eq(status, HVD_OK);
    return tcp_chain;
}

static int start(void *self, const struct backend_batch *batch, struct hvd_error *err)
{
    return tcp_chain_start(self, batch, err);
}

static int test(void *self, bool *movedp, int *lostp, struct hvd_error *err)
{
    return tcp_chain_test(self, movedp, lostp, err);
}

static int waits_for(const void *self)
{
    return tcp_chain_waits_for(self);
}

static void close_member(void *self)
{
    tcp_chain_close(self);
}

static const struct batch_driver driver = {start, test, waits_for, close_member};

/* ---- All ranks in one process, in random order ---------------------------------------------- */

static void run_batches(int size, int lanes, const struct batch_plan *plans, uint64_t seed)
{
    struct pairs pairs;
    struct stepped_member ranks[RANKS] = {0};
    uint64_t random = seed;
    pairs_open(&pairs, size, lanes);
    for (int rank = 0; rank < size; rank++) {
        if (batch_plan_random_below(&random, 2) == 0)
            pairs_narrow(&pairs, rank, batch_plan_random_below(&random, 16));
        ranks[rank].self = tcp_chain_at(&pairs, rank, size, CHUNK, -1);
    }
    drive_in_turns(&driver, ranks, size, plans, BATCHES, &random);
    for (int rank = 0; rank < size; rank++)
        tcp_chain_close(ranks[rank].self);
}

START_TEST(carries_all_kinds_of_batches)
{
    static const enum backend_kind kinds[] = {COLL_ALLREDUCE, COLL_REDUCESCATTER, COLL_ALLGATHER,
                                              COLL_BROADCAST};
    static const int lanes[] = {1, 2, 3, 1, 4, TCP_CHAIN_MAX_LANES};
    uint64_t random = (uint64_t)_i + 77;
    for (int i = 0; i < 60; i++) {
        struct batch_plan plans[BATCHES];
        for (int k = 0; k < BATCHES; k++)
            plans[k] = batch_plan_random(&random, kinds[batch_plan_random_below(&random, 4)], _i, CHUNK);
        run_batches(_i, lanes[i % 6], plans, random);
    }
}
END_TEST

/* [_i] is the size of the ring. */
START_TEST(a_stopped_member_is_waited_for)
{
    static const enum backend_kind kinds[] = {COLL_ALLREDUCE, COLL_REDUCESCATTER, COLL_ALLGATHER,
                                              COLL_BROADCAST};
    uint64_t random = (uint64_t)_i + 177;
    for (int i = 0; i < 40; i++) {
        struct pairs pairs;
        struct stepped_member ranks[RANKS] = {0};
        struct batch_plan plan = batch_plan_random(&random, kinds[i % 4], _i, 16 * CHUNK);
        pairs_open(&pairs, _i, 1 + i % 3);
        for (int rank = 0; rank < _i; rank++) {
            for (int lane = 0; lane < pairs.lanes; lane++)
                pairs_narrow(&pairs, rank, lane);
            ranks[rank].self = tcp_chain_at(&pairs, rank, _i, CHUNK, -1);
        }
        drive_to_a_stop(&driver, ranks, _i, &plan, &random);
    }
}
END_TEST

/* ---- Each rank a process that sleeps until its sockets wake it ------------------------------- */

/* A ring of which each rank is a process. */
struct ring {
    int size;
    struct pairs pairs;
};

static int sleeping_rank(void *arg, int rank)
{
    const struct ring *ring = arg;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct tcp_chain *tcp_chain = tcp_chain_at(&ring->pairs, rank, ring->size, 256 * 1024, epoll_fd);
    for (int i = 0; i < 4; i++) {
        struct batch_plan plan = {.need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_AVERAGE, ring->size},
                                  .sequence = (uint64_t)i + 1,
                                  .prescale = 1,
                                  .postscale = 1,
                                  .in_place = i % 2 == 0,
                                  .count = i == 1 ? 1 : 1500001};
        if (i >= 2) {
            plan.need.dtype = HVD_FLOAT16;
            plan.need.kind = i == 3 ? COLL_REDUCESCATTER : COLL_ALLREDUCE;
            plan.counts[0][ring->size / 2] = plan.count;
        }
        if (!drive_part(&driver, tcp_chain, epoll_fd, &plan, rank))
            return 1;
    }
    tcp_chain_close(tcp_chain);
    close(epoll_fd);
    return 0;
}

START_TEST(wakes_sleeping_processes)
{
    struct ring ring = {.size = _i};
    pairs_open(&ring.pairs, _i, _i == 2 ? 1 : _i - 1);
    run_in_processes(_i, sleeping_rank, &ring);
}
END_TEST

static void *open_member(void *world, int rank, int epoll_fd)
{
    return tcp_chain_at(world, rank, 2, CHUNK, epoll_fd);
}

static void close_all_but(void *world, int rank)
{
    pairs_close(world, rank, 1);
    pairs_close(world, 1 - rank, 0);
}

START_TEST(tells_a_killed_neighbour)
{
    struct pairs pairs;
    struct hvd_error err;
    int lost = -1;
    static float data[1 << 20];
    const struct member_pair pair = {&pairs, open_member, close_all_but};
    struct backend_batch batch = {.need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 2},
                                  .sequence = 1,
                                  .input = data,
                                  .output = data,
                                  .prescale = 1,
                                  .postscale = 1,
                                  .count = 1 << 20};
    pairs_open(&pairs, 2, _i);
    kill_amid_batch(&driver, &pair, &batch, &lost, &err);
    ck_assert_int_eq(lost, 1);
    ck_assert_msg(strstr(err.text, "the previous") != NULL || strstr(err.text, "the next") != NULL, "%s",
                  err.text);
}
END_TEST

/* ---- One rank between ends that the test holds ---------------------------------------------- */

/* A rank with both neighbours played by hand. */
struct stage {
    struct lone_member member;
    int lanes;
    /* our ends, by lane: what the rank receives goes into the first */
    int to_previous[TCP_CHAIN_MAX_LANES], from_next[TCP_CHAIN_MAX_LANES];
    struct backend_batch batch;
    char *memory; /* the output with guards */
};

#define GUARD 64

static void stage_open(struct stage *stage, int lanes, int rank, int size, enum backend_kind kind,
                       int64_t count)
{
    struct pairs pairs;
    pairs_open(&pairs, size, lanes);
    int previous = (rank + size - 1) % size;
    stage->member = (struct lone_member){&driver, tcp_chain_at(&pairs, rank, size, CHUNK, -1), .lost = -1};
    stage->lanes = lanes;
    for (int lane = 0; lane < lanes; lane++) {
        stage->to_previous[lane] = pairs.fds[previous][lane][0];
        stage->from_next[lane] = pairs.fds[rank][lane][1];
    }
    for (int i = 0; i < size; i++) {
        if (i != rank && i != previous) {
            pairs_close(&pairs, i, 0);
            pairs_close(&pairs, i, 1);
        }
    }
    size_t bytes = (size_t)count * sizeof(int32_t);
    stage->memory = calloc(1, bytes + (size_t)2 * GUARD);
    char *output = stage->memory + GUARD;
    stage->batch = (struct backend_batch){.need = {kind, HVD_INT32, HVD_INT32, HVD_SUM, size},
                                          .sequence = 7,
                                          .input = output,
                                          .output = output,
                                          .prescale = 1,
                                          .postscale = 1,
                                          .count = count};
    ck_assert_int_eq(tcp_chain_start(stage->member.self, &stage->batch, NULL), HVD_OK);
}

static void stage_close(struct stage *stage)
{
    tcp_chain_close(stage->member.self);
    for (int lane = 0; lane < stage->lanes; lane++) {
        close(stage->to_previous[lane]);
        close(stage->from_next[lane]);
    }
    free(stage->memory);
}

/* Read and drop what the rank sent. */
static void drain(int fd)
{
    char bytes[4096];
    ssize_t got;
    do
        got = recv(fd, bytes, sizeof(bytes), 0);
    while (got > 0);
}

/* Frames that a rank must refuse, for a batch of 1500 int32 (chunks of 4096 and 1904 bytes) in sequence 7. */
static const struct {
    int rank, size;
    enum backend_kind kind;
    struct fragment_header header;
    const char *words;
} hostile[] = {
    {1, 2, COLL_ALLREDUCE, {0x12345678, CHAIN_PARTIAL, 7, 0, 4096}, "header mark"},
    {1, 2, COLL_ALLREDUCE, {FRAGMENT_MAGIC, CHAIN_PARTIAL, 8, 0, 4096}, "batch 8 where 7"},
    {1, 2, COLL_ALLREDUCE, {FRAGMENT_MAGIC, CHAIN_PARTIAL, 6, 0, 4096}, "batch 6 where 7"},
    {1, 2, COLL_ALLREDUCE, {FRAGMENT_MAGIC, CHAIN_PARTIAL, 7, 1, 4096}, "chunk 1 where 0"},
    {1, 2, COLL_ALLREDUCE, {FRAGMENT_MAGIC, CHAIN_PARTIAL, 7, UINT64_MAX, 4096}, "where 0"},
    {1, 2, COLL_ALLREDUCE, {FRAGMENT_MAGIC, CHAIN_PARTIAL, 7, 0, 4097}, "length 4097 where 4096"},
    {1, 2, COLL_ALLREDUCE, {FRAGMENT_MAGIC, CHAIN_PARTIAL, 7, 0, 0}, "length 0 where 4096"},
    {1, 2, COLL_ALLREDUCE, {FRAGMENT_MAGIC, CHAIN_PARTIAL, 7, 0, UINT64_MAX}, "where 4096"},
    {1, 2, COLL_ALLREDUCE, {FRAGMENT_MAGIC, CHAIN_RESULT, 7, 0, 4096}, "kind 1"},
    {1, 2, COLL_ALLREDUCE, {FRAGMENT_MAGIC, 2, 7, 0, 4096}, "kind 2"},
    {1, 2, COLL_ALLREDUCE, {FRAGMENT_MAGIC, UINT32_MAX, 7, 0, 4096}, "kind 4294967295"},
    {0, 2, COLL_ALLREDUCE, {FRAGMENT_MAGIC, CHAIN_PARTIAL, 7, 0, 4096}, "kind 0"},
    {0,
     2,
     COLL_ALLREDUCE,
     {FRAGMENT_MAGIC, CHAIN_RESULT, 7, 0, 4096},
     "kind 1"}, /* before its partial has left */
    {1, 3, COLL_ALLREDUCE, {FRAGMENT_MAGIC, CHAIN_RESULT, 7, 0, 4096}, "kind 1"},
    {1, 2, COLL_BROADCAST, {FRAGMENT_MAGIC, CHAIN_PARTIAL, 7, 0, 4096}, "kind 0"},
    {1, 2, COLL_BROADCAST, {FRAGMENT_MAGIC, CHAIN_RESULT, 7, 0, 4095}, "length 4095"},
};

START_TEST(refuses_a_frame_that_is_not_due)
{
    static char bytes[3 * CHUNK];
    struct stage stage;
    memset(bytes, 0x77, sizeof(bytes));
    stage_open(&stage, 1, hostile[_i].rank, hostile[_i].size, hostile[_i].kind, 1500);
    put(stage.to_previous[0], &hostile[_i].header, sizeof(hostile[_i].header));
    put(stage.to_previous[0], bytes, sizeof(bytes));
    lone_expect_failure(&stage.member, &stage.batch, HVD_ERR_MISMATCH,
                        (hostile[_i].rank + hostile[_i].size - 1) % hostile[_i].size, hostile[_i].words);
    for (size_t i = 0; i < 1500 * sizeof(int32_t) + (size_t)2 * GUARD; i++)
        ck_assert_int_eq(stage.memory[i], 0);
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
    } messages[2] = {{{FRAGMENT_MAGIC, CHAIN_RESULT, 7, 0, 8}, {5, -6}},
                     {{FRAGMENT_MAGIC, CHAIN_RESULT, 9, 0, 8}, {7, 8}}};
    stage_open(&stage, 1, 1, 2, COLL_BROADCAST, 2);
    for (size_t i = 0; i < sizeof(messages[0]); i++) {
        ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
        if (i == sizeof(messages[0]) - 1)
            break;
        put(stage.to_previous[0], (const char *)messages + i, 1);
    }
    put(stage.to_previous[0], (const char *)messages + sizeof(messages[0]) - 1, 1 + sizeof(messages[1]));
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    ck_assert_mem_eq(stage.batch.output, messages[0].values, 8);
    stage.batch.sequence = 9;
    ck_assert_int_eq(tcp_chain_start(stage.member.self, &stage.batch, &stage.member.err), HVD_OK);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    ck_assert_mem_eq(stage.batch.output, messages[1].values, 8);
    stage_close(&stage);
}
END_TEST

/* Rank 1 of 3 adds halves up in float32, in two slots. The next rank reads nothing: the partials that fit
 * neither into slots nor into its socket wait in the socket of the previous rank, and go on once there is
 * room. */
START_TEST(lets_partials_wait_for_slots)
{
    enum { CHUNKS = 2000, COUNT = CHUNKS * CHUNK / 4 };
    static struct {
        struct fragment_header header;
        float values[CHUNK / 4];
    } message, heard;
    int put_count = 0, heard_count = 0, stuck_at = 0;
    struct stage stage;
    stage_open(&stage, _i, 1, 3, COLL_ALLREDUCE, COUNT);
    stage.batch.need.dtype = HVD_FLOAT16;
    stage.batch.need.partial = HVD_FLOAT32;
    ck_assert_int_eq(tcp_chain_start(stage.member.self, &stage.batch, NULL), HVD_OK);
    while (heard_count < CHUNKS) {
        message.header =
            (struct fragment_header){FRAGMENT_MAGIC, CHAIN_PARTIAL, 7, (uint64_t)put_count, CHUNK};
        message.values[0] = (float)put_count;
        bool put_one = put_count < CHUNKS &&
                       send(stage.to_previous[put_count % _i], &message, sizeof(message), MSG_NOSIGNAL) > 0;
        put_count += put_one;
        ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
        if (put_one)
            continue;
        stuck_at = stuck_at == 0 ? put_count : stuck_at;
        ssize_t got = recv(stage.from_next[heard_count % _i], &heard, sizeof(heard), 0);
        ck_assert_int_eq(got, sizeof(heard));
        ck_assert_uint_eq(heard.header.chunk, (uint64_t)heard_count);
        ck_assert(heard.values[0] == (float)heard_count);
        heard_count++;
    }
    ck_assert_int_lt(stuck_at, CHUNKS);
    stage_close(&stage);
}
END_TEST

START_TEST(tells_a_previous_rank_that_left_amid_a_chunk)
{
    struct stage stage;
    const struct fragment_header header = {FRAGMENT_MAGIC, CHAIN_PARTIAL, 7, 0, 4096};
    stage_open(&stage, 1, 2, 3, COLL_ALLREDUCE, 1500);
    put(stage.to_previous[0], &header, sizeof(header));
    put(stage.to_previous[0], &header, sizeof(header));
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    shutdown(stage.to_previous[0], SHUT_RDWR);
    lone_expect_failure(&stage.member, &stage.batch, HVD_ERR_RANK_LOST, 1,
                        "batch 7 the connection of this rank with the previous was closed");
    stage_close(&stage);
}
END_TEST

/* Rank 1 of 3 has nothing to send yet, but will have. */
START_TEST(tells_a_next_rank_that_left_before_its_part)
{
    struct stage stage;
    stage_open(&stage, 1, 1, 3, COLL_ALLREDUCE, 1500);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    shutdown(stage.from_next[0], SHUT_RDWR);
    lone_expect_failure(&stage.member, &stage.batch, HVD_ERR_RANK_LOST, 2,
                        "batch 7 the connection of this rank with the next was closed");
    stage_close(&stage);
}
END_TEST

/* Rank 0 of 2 has sent all it had to; that the next rank leaves then is no loss. */
START_TEST(lets_a_next_rank_leave_after_its_part)
{
    struct stage stage;
    struct {
        struct fragment_header header;
        int32_t values[2];
    } message = {{FRAGMENT_MAGIC, CHAIN_RESULT, 7, 0, 8}, {5, -6}};
    stage_open(&stage, 1, 0, 2, COLL_ALLREDUCE, 2);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    drain(stage.from_next[0]);
    shutdown(stage.from_next[0], SHUT_RDWR);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    put(stage.to_previous[0], &message, sizeof(message));
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    ck_assert_mem_eq(stage.batch.output, message.values, 8);
    stage_close(&stage);
}
END_TEST

START_TEST(refuses_bytes_against_the_direction)
{
    struct stage stage;
    stage_open(&stage, 1, 1, 3, COLL_ALLREDUCE, 1500);
    put(stage.from_next[0], "x", 1);
    lone_expect_failure(&stage.member, &stage.batch, HVD_ERR_MISMATCH, 2, "");
    stage_close(&stage);
}
END_TEST

/* Are those descriptors open that rank 0 of two has, or any? */
static bool all_open(const struct pairs *pairs)
{
    bool all = true;
    for (int lane = 0; lane < pairs->lanes; lane++)
        all =
            all && fcntl(pairs->fds[0][lane][0], F_GETFD) >= 0 && fcntl(pairs->fds[1][lane][1], F_GETFD) >= 0;
    return all;
}

static bool any_open(const struct pairs *pairs)
{
    bool any = false;
    for (int lane = 0; lane < pairs->lanes; lane++)
        any =
            any || fcntl(pairs->fds[0][lane][0], F_GETFD) >= 0 || fcntl(pairs->fds[1][lane][1], F_GETFD) >= 0;
    return any;
}

START_TEST(closes_its_descriptors)
{
    struct pairs pairs;
    pairs_open(&pairs, 2, 2);
    struct tcp_chain *tcp_chain = tcp_chain_at(&pairs, 0, 2, CHUNK, -1);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        tcp_chain_after_fork(tcp_chain);
        _exit(any_open(&pairs));
    }
    ck_assert_int_eq(wait_for(pid), 0);
    ck_assert(all_open(&pairs));
    tcp_chain_close(tcp_chain);
    ck_assert(!any_open(&pairs));
    tcp_chain_close(NULL);
}
END_TEST

/* ---- Several lanes --------------------------------------------------------------------------- */

/* A chunk of int32 that are all [number] + 1. */
struct chunk {
    struct fragment_header header;
    int32_t values[CHUNK / 4];
};

static void put_chunk(const struct stage *stage, int lane, uint64_t sequence, uint64_t number)
{
    struct chunk chunk = {.header = {FRAGMENT_MAGIC, CHAIN_RESULT, sequence, number, CHUNK}};
    for (int i = 0; i < CHUNK / 4; i++)
        chunk.values[i] = (int32_t)number + 1;
    put(stage->to_previous[lane], &chunk, sizeof(chunk));
}

/* Chunks [0, count) of the output are as they were put, the next one is as it was. */
static bool has_chunks(const struct stage *stage, int count)
{
    const int32_t *values = stage->batch.output;
    for (int i = 0; i < count * CHUNK / 4; i++)
        if (values[i] != i / (CHUNK / 4) + 1)
            return false;
    return count * CHUNK / 4 == stage->batch.count || values[count * CHUNK / 4] == 0;
}

/* What lies on other lanes waits for its turn, and what follows the batch waits for the next. */
START_TEST(takes_what_comes_on_lanes_in_turn)
{
    struct stage stage;
    stage_open(&stage, 3, 1, 2, COLL_BROADCAST, 5 * CHUNK / 4);
    put_chunk(&stage, 2, 7, 2);
    put_chunk(&stage, 1, 7, 1);
    put_chunk(&stage, 1, 7, 4);
    put_chunk(&stage, 1, 9, 1);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    ck_assert(has_chunks(&stage, 0));
    put_chunk(&stage, 0, 7, 0);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    ck_assert(has_chunks(&stage, 3));
    put_chunk(&stage, 0, 7, 3);
    put_chunk(&stage, 0, 9, 0);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    ck_assert(has_chunks(&stage, 5));
    stage.batch.sequence = 9;
    stage.batch.count = 2 * CHUNK / 4;
    memset(stage.batch.output, 0, (size_t)stage.batch.count * 4);
    ck_assert_int_eq(tcp_chain_start(stage.member.self, &stage.batch, &stage.member.err), HVD_OK);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    ck_assert(has_chunks(&stage, 2));
    stage_close(&stage);
}
END_TEST

/* Bytes that the rank has not taken yet. */
static int waiting_bytes(const struct stage *stage, int lane)
{
    int bytes = -1;
    ck_assert_int_eq(ioctl(stage->to_previous[lane], SIOCOUTQ, &bytes), 0);
    return bytes;
}

/* Partials have a slot on each lane: they come in while one before them is still on its way. */
START_TEST(takes_a_chunk_on_each_lane)
{
    enum { LANES = 3 };
    struct stage stage;
    struct chunk chunk = {.header = {FRAGMENT_MAGIC, CHAIN_PARTIAL, 7, 0, CHUNK}};
    stage_open(&stage, LANES, 1, 2, COLL_ALLREDUCE, LANES * CHUNK / 4);
    put(stage.to_previous[0], &chunk, sizeof(chunk) - 1);
    for (int lane = 1; lane < LANES; lane++) {
        chunk.header.chunk = (uint64_t)lane;
        put(stage.to_previous[lane], &chunk, sizeof(chunk));
        ck_assert_int_gt(waiting_bytes(&stage, lane), 0);
    }
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    for (int lane = 0; lane < LANES; lane++)
        ck_assert_int_eq(waiting_bytes(&stage, lane), 0);
    put(stage.to_previous[0], "", 1);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    stage_close(&stage);
}
END_TEST

START_TEST(sends_on_lanes_in_turn)
{
    enum { LANES = 3, CHUNKS = 8 };
    struct stage stage;
    struct chunk heard;
    stage_open(&stage, LANES, 0, 2, COLL_BROADCAST, CHUNKS * CHUNK / 4);
    int32_t *values = stage.batch.output;
    for (int i = 0; i < CHUNKS * CHUNK / 4; i++)
        values[i] = i / (CHUNK / 4);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_OK);
    for (int i = 0; i < CHUNKS; i++) {
        ck_assert_int_eq(recv(stage.from_next[i % LANES], &heard, sizeof(heard), 0), sizeof(heard));
        ck_assert_uint_eq(heard.header.chunk, (uint64_t)i);
        ck_assert_int_eq(heard.values[0], i);
        ck_assert_int_eq(heard.values[CHUNK / 4 - 1], i);
    }
    for (int lane = 0; lane < LANES; lane++)
        ck_assert_int_lt(recv(stage.from_next[lane], &heard, sizeof(heard), 0), 0);
    stage_close(&stage);
}
END_TEST

/* Frames on the second of two lanes of a broadcast of two chunks; chunk 0 is on the first. */
static const struct {
    struct fragment_header header;
    const char *words;
} hostile_lanes[] = {
    {{0, CHAIN_RESULT, 7, 1, CHUNK}, "header mark"},
    {{FRAGMENT_MAGIC, CHAIN_RESULT, 9, 1, CHUNK}, "batch 9 where 7"},
    {{FRAGMENT_MAGIC, CHAIN_RESULT, 7, 0, CHUNK}, "chunk 0 where 1"},
    {{FRAGMENT_MAGIC, CHAIN_RESULT, 7, 2, CHUNK}, "chunk 2 where 1"},
    {{FRAGMENT_MAGIC, CHAIN_RESULT, 7, 1, CHUNK - 1}, "length 4095"},
    {{FRAGMENT_MAGIC, CHAIN_PARTIAL, 7, 1, CHUNK}, "kind 0"},
};

START_TEST(refuses_a_frame_that_is_not_due_on_its_lane)
{
    struct stage stage;
    struct chunk chunk = {.header = hostile_lanes[_i].header};
    memset(chunk.values, 0x77, sizeof(chunk.values));
    stage_open(&stage, 2, 1, 2, COLL_BROADCAST, 2 * CHUNK / 4);
    put(stage.to_previous[1], &chunk, sizeof(chunk));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    put_chunk(&stage, 0, 7, 0);
    lone_expect_failure(&stage.member, &stage.batch, HVD_ERR_MISMATCH, 0, hostile_lanes[_i].words);
    ck_assert_int_eq(((int32_t *)stage.batch.output)[CHUNK / 4], 0);
    stage_close(&stage);
}
END_TEST

START_TEST(tells_a_lane_that_was_cut)
{
    struct stage stage;
    int lane = _i % 3;
    bool from_previous = _i < 3;
    stage_open(&stage, 3, 1, 3, COLL_ALLREDUCE, 5 * CHUNK / 4);
    ck_assert_int_eq(lone_settle(&stage.member), HVD_IN_PROGRESS);
    shutdown(from_previous ? stage.to_previous[lane] : stage.from_next[lane], SHUT_RDWR);
    lone_expect_failure(&stage.member, &stage.batch, HVD_ERR_RANK_LOST, from_previous ? 0 : 2, "");
    stage_close(&stage);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("tcp_chain");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, carries_all_kinds_of_batches, 2, RANKS + 1);
    tcase_add_loop_test(tcase, a_stopped_member_is_waited_for, 2, RANKS + 1);
    tcase_add_loop_test(tcase, wakes_sleeping_processes, 2, RANKS + 1);
    tcase_add_loop_test(tcase, tells_a_killed_neighbour, 1, 5);
    tcase_add_loop_test(tcase, refuses_a_frame_that_is_not_due, 0, sizeof(hostile) / sizeof(hostile[0]));
    tcase_add_test(tcase, takes_bytes_one_by_one_and_leaves_the_next_batch);
    tcase_add_loop_test(tcase, lets_partials_wait_for_slots, 1, 5);
    tcase_add_test(tcase, tells_a_previous_rank_that_left_amid_a_chunk);
    tcase_add_test(tcase, tells_a_next_rank_that_left_before_its_part);
    tcase_add_test(tcase, lets_a_next_rank_leave_after_its_part);
    tcase_add_test(tcase, refuses_bytes_against_the_direction);
    tcase_add_test(tcase, closes_its_descriptors);
    tcase_add_test(tcase, takes_what_comes_on_lanes_in_turn);
    tcase_add_test(tcase, takes_a_chunk_on_each_lane);
    tcase_add_test(tcase, sends_on_lanes_in_turn);
    tcase_add_loop_test(tcase, refuses_a_frame_that_is_not_due_on_its_lane, 0,
                        sizeof(hostile_lanes) / sizeof(hostile_lanes[0]));
    tcase_add_loop_test(tcase, tells_a_lane_that_was_cut, 0, 6);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("tcp_chain", fill);
}
