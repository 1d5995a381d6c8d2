/* test_ring_pair.c: messages through rings in shared memory: what a rank does with the contents of rings that
 * another one writes, which may be hostile, and when it is woken. The other end is this test. */
#include "config.h"
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "p2p/p2p_state.h"

#define ARENA_BYTES ((size_t)16 << 20)
#define LONG        100000 /* bytes, more than an eager message and than a ring */
#define WAIT_US     INT64_C(5000000)

static struct peer peers[2] = {{.host = "n1"}, {.host = "n1"}};
static int nodes[2];
static const struct peer_table peer_table = {.rank = 0, .size = 2, .peers = peers, .node_of_rank = nodes};
static struct arena arena;
static struct p2p *p2p;
static struct ring_pairs pairs; /* of the other end, rank 1 */
static struct ring_pair pair;
static uint64_t at; /* where it lies */
static int other;   /* the other end's socket */
static char memory[LONG], theirs[LONG];
static int ended, last_status;

static void note_end(void *arg, struct p2p_op *op, int status, const char *reason)
{
    (void)arg;
    (void)op;
    (void)reason;
    ended++;
    last_status = status;
}

static bool no_set_is_over(void *arg, hvd_set set)
{
    (void)arg;
    (void)set;
    return false;
}

static void open_arena(void)
{
    arena.bytes = ARENA_BYTES;
    arena.base = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(arena.base, MAP_FAILED);
    ring_pairs_init(&pairs, &arena, -1);
}

static void close_arena(void)
{
    ring_pairs_close(&pairs);
    munmap(arena.base, arena.bytes);
}

static void say_on_socket(const struct p2p_frame *frame)
{
    unsigned char header[P2P_FRAME_BYTES];
    p2p_frame_encode(header, frame);
    ck_assert_int_eq(write(other, header, sizeof(header)), sizeof(header));
}

/* Rank 0 accepts a connection of rank 1, which has made a pair and says that it lies at [place]. */
static void open_p2p(uint64_t place)
{
    int ends[2];
    const struct p2p_params params = {.peer_table = &peer_table,
                                      .arena = arena,
                                      .epoll_fd = -1,
                                      .ended = note_end,
                                      .set_is_over = no_set_is_over};
    struct channel *channel = channel_create(1, false);
    ck_assert_int_eq(p2p_create(&p2p, &params, NULL), HVD_OK);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    other = ends[1];
    channel->fd = ends[0];
    channel->ends.rank = 1;
    channel->room_bytes = P2P_WINDOW_BYTES;
    channel->readable = channel->writable = true;
    LIST_INSERT_HEAD(&p2p->channels, channel, link);
    say_on_socket(&(struct p2p_frame){.type = P2P_RINGS, .address = place});
    for (int i = 0; i < LONG; i++)
        theirs[i] = (char)(i % 251);
    memset(memory, 0, sizeof(memory));
    ended = 0;
}

static void begin(void)
{
    open_arena();
    ck_assert_int_eq(ring_pair_make(&pairs, 1, &pair, &at, NULL), HVD_OK);
    open_p2p(at);
}

static void end(void)
{
    p2p_abandon(p2p, HVD_ERR_SHUTDOWN, "the test is over");
    p2p_destroy(p2p);
    close(other);
    close_arena();
}

static int advance(struct hvd_error *err)
{
    bool moved = false;
    int rank = -1;
    return p2p_advance(p2p, &moved, &rank, err);
}

/* Write into the ring; rank 0 advances while it is full. */
static void say(const struct p2p_frame *frame, const char *bytes, size_t length)
{
    unsigned char header[P2P_FRAME_BYTES];
    struct iovec part = {header, sizeof(header)};
    int64_t begun_us = clock_us();
    p2p_frame_encode(header, frame);
    ck_assert_int_eq(ring_pair_send(&pair, &part, 1), sizeof(header));
    for (size_t done = 0; done < length;) {
        part = (struct iovec){(void *)(uintptr_t)(bytes + done), length - done};
        ssize_t sent = ring_pair_send(&pair, &part, 1);
        done += sent > 0 ? (size_t)sent : 0;
        ck_assert_int_eq(advance(NULL), HVD_OK);
        ck_assert_int_lt(clock_us() - begun_us, WAIT_US);
    }
}

/* The next frame of rank 0. */
static struct p2p_frame hear(void)
{
    struct p2p_frame frame = {0};
    unsigned char header[P2P_FRAME_BYTES];
    const struct iovec part = {header, sizeof(header)};
    int64_t begun_us = clock_us();
    while (ring_pair_receive(&pair, &part, 1) < (ssize_t)sizeof(header)) {
        ck_assert_int_eq(advance(NULL), HVD_OK);
        ck_assert_int_lt(clock_us() - begun_us, WAIT_US);
    }
    ck_assert_int_eq(p2p_frame_decode(header, P2P_FROM_RECEIVER, &frame, NULL), HVD_OK);
    return frame;
}

static struct p2p_op receive_of(int64_t bytes)
{
    return (struct p2p_op){.direction = P2P_RECEIVE,
                           .envelope = {.source = 1, .tag = 1},
                           .dtype = HVD_INT8,
                           .memory = memory,
                           .bytes = bytes};
}

static struct p2p_frame frame_of(enum p2p_frame_type type, int64_t bytes)
{
    return (struct p2p_frame){.type = type, .tag = 1, .dtype = HVD_INT8, .bytes = bytes, .id = 1};
}

/* ---- What arrives ---- */

START_TEST(small_messages_go_round_the_ring)
{
    enum { ROUNDS = 200, BYTES = 1000 };
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        struct p2p_op receive = receive_of(BYTES);
        const struct p2p_frame frame = frame_of(P2P_EAGER, BYTES);
        ck_assert_int_eq(p2p_begin(p2p, &receive, NULL), HVD_OK);
        say(&frame, theirs + i, BYTES);
        ck_assert_int_eq(advance(NULL), HVD_OK);
        ck_assert_int_eq(ended, i + 1);
        ck_assert_mem_eq(memory, theirs + i, BYTES);
    }
    end();
}
END_TEST

/* Receive a long message whose offer names [address]. The receiver reads it from there, or asks for its
 * bytes. */
static void take_long(uint64_t address, bool is_read)
{
    struct p2p_op receive = receive_of(LONG);
    struct p2p_frame frame = frame_of(P2P_OFFER, LONG);
    frame.address = address;
    ck_assert_int_eq(p2p_begin(p2p, &receive, NULL), HVD_OK);
    say(&frame, NULL, 0);
    ck_assert_int_eq(hear().type, is_read ? P2P_TAKEN : P2P_TAKE);
    ck_assert_int_eq(ended, is_read ? 1 : 0);
    frame = frame_of(P2P_DATA, LONG);
    if (!is_read)
        say(&frame, theirs, LONG);
    ck_assert_int_eq(advance(NULL), HVD_OK);
    ck_assert_int_eq(ended, 1);
    ck_assert_int_eq(last_status, HVD_OK);
    ck_assert_mem_eq(memory, theirs, LONG);
}

START_TEST(a_long_message_is_read_where_it_lies)
{
    char byte;
    const struct iovec part = {&byte, 1};
    if (process_vm_readv(getpid(), &part, 1, &(struct iovec){theirs, 1}, 1, 0) < 0)
        return; /* this kernel allows no such reading; the next test has the other way */
    begin();
    take_long((uintptr_t)theirs, true);
    ck_assert(ring_pair_was_read(&pair));
    ck_assert(!ring_pair_was_read(&pair));
    end();
}
END_TEST

/* 0: the sender gives no address; 1: it is another process; 2: it has none such; 3: it gave up the offer, and
 * made another, before it was read */
START_TEST(a_long_message_that_cannot_be_read_comes_through_the_ring)
{
    open_arena();
    ck_assert_int_eq(ring_pair_make(&pairs, 1, &pair, &at, NULL), HVD_OK);
    pair.memory->source.token[0] ^= _i == 1;
    pair.memory->source.pid = _i == 2 ? -1 : pair.memory->source.pid;
    if (_i == 3)
        ring_pair_withdraw(&pair, 1);
    open_p2p(at);
    take_long(_i == 0 ? 0 : (uintptr_t)theirs, false);
    end();
}
END_TEST

START_TEST(memory_that_is_not_there_is_not_read)
{
    begin();
    take_long(8, false);
    end();
}
END_TEST

/* ---- Hostile contents ---- */

static const uint64_t bad_places[] = {
    1, 32, ARENA_BYTES, ARENA_BYTES - 64, UINT64_MAX - 63, UINT64_C(1) << 63};

START_TEST(rings_lie_inside_the_arena)
{
    struct hvd_error err;
    open_arena();
    open_p2p(bad_places[_i]);
    ck_assert_int_eq(advance(&err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "rank 1 (n1) sent a place for rings where none can be") != NULL, "%s",
                  err.text);
    end();
}
END_TEST

/* 0: positions of the ring that cannot be; 1: rings once more; 2: a frame that must not come; 3: bytes on the
 * socket */
START_TEST(hostile_contents_end_the_job_and_nothing_else)
{
    struct hvd_error err;
    const struct p2p_frame again = {.type = P2P_RINGS, .address = at}, take = frame_of(P2P_TAKE, 0);
    struct byte_ring *ring;
    begin();
    ck_assert_int_eq(advance(&err), HVD_OK);
    ring = &pair.memory->rings[RING_SENDER];
    if (_i == 0)
        for (int i = 0; i < BYTE_RING_ENTRIES; i++)
            atomic_store(&ring->entries[i].stamp, UINT64_MAX);
    else if (_i == 3)
        say_on_socket(&again);
    else
        say(_i == 2 ? &take : &again, NULL, 0);
    if (_i == 3)
        LIST_FIRST(&p2p->channels)->readable = true;
    ck_assert_int_eq(advance(&err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "rank 1 (n1)") != NULL, "%s", err.text);
    end();
}
END_TEST

START_TEST(a_sender_that_is_gone_is_a_lost_rank)
{
    struct p2p_op receive = receive_of(100);
    const struct p2p_frame frame = frame_of(P2P_EAGER, 100);
    struct hvd_error err;
    begin();
    ck_assert_int_eq(advance(&err), HVD_OK);
    say(&frame, theirs, 100);
    shutdown(other, SHUT_RDWR);
    LIST_FIRST(&p2p->channels)->readable = true;
    ck_assert_int_eq(p2p_begin(p2p, &receive, NULL), HVD_OK);
    ck_assert_int_eq(advance(&err), HVD_ERR_RANK_LOST);
    ck_assert_int_eq(ended, 1); /* what it had written before has come */
    ck_assert_int_eq(last_status, HVD_OK);
    end();
}
END_TEST

/* ---- Waking ---- */

static bool is_rung(void)
{
    struct pollfd rings = {p2p->ring_pairs.doorbell.fd, POLLIN, 0};
    return poll(&rings, 1, 0) == 1;
}

START_TEST(a_rank_that_sleeps_is_woken_for_what_it_waits_for_and_for_room)
{
    struct p2p_op receive = receive_of(100);
    const struct p2p_frame frame = frame_of(P2P_EAGER, 0);
    struct iovec part = {theirs, LONG};
    begin();
    ck_assert_int_eq(advance(NULL), HVD_OK);
    p2p_arm(p2p, true);
    say(&frame, NULL, 0);
    ck_assert(!is_rung()); /* it waits for nothing */
    ck_assert_int_gt(ring_pair_send(&pair, &part, 1), 0);
    ck_assert(!is_rung());
    ck_assert_int_eq(ring_pair_send(&pair, &part, 1), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert(is_rung()); /* the ring is full */
    end();
    begin();
    ck_assert_int_eq(advance(NULL), HVD_OK);
    p2p_arm(p2p, true);
    ck_assert_int_eq(p2p_begin(p2p, &receive, NULL), HVD_OK);
    say(&frame, NULL, 0);
    ck_assert(is_rung());
    end();
}
END_TEST

START_TEST(a_rank_makes_pairs_until_there_is_no_room)
{
    struct ring_pair many;
    struct hvd_error err;
    uint64_t place = 0, last = 0;
    int made = 0, rc = HVD_OK;
    open_arena();
    for (; rc == HVD_OK; made += rc == HVD_OK) {
        rc = ring_pair_make(&pairs, 1, &many, &place, &err);
        ck_assert(rc != HVD_OK || place >= last + (made > 0 ? sizeof(struct ring_pair_memory) : 1));
        ck_assert_int_le(place + sizeof(struct ring_pair_memory), ARENA_BYTES);
        last = place;
    }
    ck_assert_int_eq(rc, HVD_ERR_UNSUPPORTED);
    ck_assert_int_eq(made, 64);
    close_arena();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("ring_pair");
    tcase_add_test(tcase, small_messages_go_round_the_ring);
    tcase_add_test(tcase, a_long_message_is_read_where_it_lies);
    tcase_add_loop_test(tcase, a_long_message_that_cannot_be_read_comes_through_the_ring, 0, 4);
    tcase_add_test(tcase, memory_that_is_not_there_is_not_read);
    tcase_add_loop_test(tcase, rings_lie_inside_the_arena, 0, sizeof(bad_places) / sizeof(bad_places[0]));
    tcase_add_loop_test(tcase, hostile_contents_end_the_job_and_nothing_else, 0, 4);
    tcase_add_test(tcase, a_sender_that_is_gone_is_a_lost_rank);
    tcase_add_test(tcase, a_rank_that_sleeps_is_woken_for_what_it_waits_for_and_for_room);
    tcase_add_test(tcase, a_rank_makes_pairs_until_there_is_no_room);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("ring_pair", fill);
}
