/* test_p2p.c: what a rank does with the frames of another one, which may be hostile, and when it says that a
 * message waits. The other end is this test, over a connection of loopback. */
#include "config.h"
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "p2p/p2p_state.h"

#define WAIT_US INT64_C(5000000)
#define GONE    7 /* a process set that was removed */

static struct peer peers[2] = {{.host = "n1"}, {.host = "n2"}};
static const struct peer_table peer_table = {.rank = 0, .size = 2, .peers = peers};
static struct p2p *p2p;
static int other = -1; /* the other end's socket */
static char memory[4 * P2P_EAGER_BYTES];
static int ended, last_status;
static char last_reason[300];

static void note_end(void *arg, struct p2p_op *op, int status, const char *reason)
{
    (void)arg;
    (void)op;
    ended++;
    last_status = status;
    snprintf(last_reason, sizeof(last_reason), "%s", reason == NULL ? "" : reason);
}

static bool set_is_over(void *arg, hvd_set set)
{
    (void)arg;
    return set == GONE;
}

/* What the caller of p2p was told of direct ops. */
static int steps;
static enum p2p_step last_step;
static int card_from = -1;

static int note_step(void *arg, struct p2p_op *op, int rank, enum p2p_step step, struct hvd_error *err)
{
    (void)arg;
    (void)op;
    (void)err;
    ck_assert_int_eq(rank, 1);
    steps++;
    last_step = step;
    return HVD_OK;
}

static int note_card(void *arg, int rank, bool sends, const char *card, struct hvd_error *err)
{
    (void)arg;
    (void)err;
    ck_assert(sends);
    ck_assert_int_eq(card[P2P_CARD_BYTES - 1], 'x');
    card_from = rank;
    return HVD_OK;
}

static int give_memory(void *arg, struct p2p_op *receive, struct hvd_error *err)
{
    (void)arg;
    (void)err;
    receive->memory = memory;
    return HVD_OK;
}

static const struct p2p_direct direct = {.step = note_step, .card = note_card, .supply = give_memory};

static void open_p2p(struct p2p_limits limits)
{
    const struct p2p_params params = {.peer_table = &peer_table,
                                      .epoll_fd = -1,
                                      .ended = note_end,
                                      .set_is_over = set_is_over,
                                      .limits = limits};
    ck_assert_int_eq(p2p_create(&p2p, &params, NULL), HVD_OK);
    ended = 0;
}

/* A connection with rank 1, which [outgoing] says who has made. */
static struct channel *connect_other(bool outgoing)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    struct channel *channel = channel_create(1, outgoing);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(other, (struct sockaddr *)&address, length), 0);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    close(listener);
    ck_assert_int_eq(channel_connect(channel, fd, NULL, p2p->epoll_fd, NULL), HVD_OK);
    channel->credit_bytes = outgoing ? P2P_WINDOW_BYTES : 0;
    channel->room_bytes = P2P_WINDOW_BYTES;
    LIST_INSERT_HEAD(&p2p->channels, channel, link);
    p2p->outgoing[1] = outgoing ? channel : NULL;
    return channel;
}

static void close_p2p(void)
{
    p2p_abandon(p2p, HVD_ERR_SHUTDOWN, "the test is over");
    p2p_destroy(p2p);
    p2p = NULL;
    if (other >= 0)
        close(other);
    other = -1;
}

static void say(const struct p2p_frame *frame, int64_t bytes)
{
    unsigned char header[P2P_FRAME_BYTES];
    p2p_frame_encode(header, frame);
    ck_assert_int_eq(write(other, header, sizeof(header)), sizeof(header));
    ck_assert_int_eq(write(other, memory, (size_t)bytes), bytes);
}

/* Wait for a frame of this rank. */
static struct p2p_frame hear(unsigned allowed)
{
    struct p2p_frame frame = {0};
    unsigned char header[P2P_FRAME_BYTES];
    struct hvd_error err;
    int64_t begun_us = clock_us();
    while (recv(other, header, sizeof(header), MSG_PEEK | MSG_DONTWAIT) < (ssize_t)sizeof(header)) {
        int rank = -1;
        bool moved = false;
        p2p_look(p2p);
        ck_assert_int_eq(p2p_advance(p2p, &moved, &rank, &err), HVD_OK);
        ck_assert_int_lt(clock_us() - begun_us, WAIT_US);
    }
    ck_assert_int_eq(recv(other, header, sizeof(header), 0), sizeof(header));
    ck_assert_int_eq(p2p_frame_decode(header, allowed, &frame, NULL), HVD_OK);
    return frame;
}

static bool has_arrivals(void)
{
    for (int i = 0; i < MATCHING_BUCKETS; i++)
        if (!TAILQ_EMPTY(&p2p->matching.arrivals[i]))
            return true;
    return false;
}

static void await_arrival(void)
{
    int rank = -1;
    for (int64_t begun_us = clock_us(); !has_arrivals();) {
        bool moved = false;
        p2p_look(p2p);
        ck_assert_int_eq(p2p_advance(p2p, &moved, &rank, NULL), HVD_OK);
        ck_assert_int_lt(clock_us() - begun_us, WAIT_US);
    }
}

/* Advance until [count] ops have ended or there is an error. */
static int advance_until(int count, struct hvd_error *err)
{
    int rc = HVD_OK, rank = -1;
    for (int64_t begun_us = clock_us(); rc == HVD_OK && ended < count && clock_us() - begun_us < WAIT_US;) {
        bool moved = false;
        p2p_look(p2p);
        rc = p2p_advance(p2p, &moved, &rank, err);
    }
    return rc;
}

static struct p2p_op operation(enum p2p_direction direction, int tag, int64_t bytes)
{
    return (struct p2p_op){.direction = direction,
                           .envelope = {.source = direction == P2P_SEND ? 0 : 1, .tag = tag},
                           .to = 1,
                           .dtype = HVD_INT8,
                           .memory = memory,
                           .bytes = bytes};
}

static struct p2p_frame frame_of(enum p2p_frame_type type, int tag, int64_t bytes)
{
    return (struct p2p_frame){.type = type, .tag = tag, .dtype = HVD_INT8, .bytes = bytes, .id = 1};
}

/* ---- What arrives ---- */

START_TEST(a_message_reaches_the_receive_that_waits_and_the_one_that_comes)
{
    struct p2p_op early = operation(P2P_RECEIVE, 1, 100), late = operation(P2P_RECEIVE, 2, 50);
    const struct p2p_frame first = frame_of(P2P_EAGER, 1, 100), second = frame_of(P2P_EAGER, 2, 50);
    struct hvd_error err;
    open_p2p((struct p2p_limits){0});
    connect_other(false);
    ck_assert_int_eq(p2p_begin(p2p, &early, &err), HVD_OK);
    say(&second, 50);
    say(&first, 100);
    ck_assert_int_eq(advance_until(1, &err), HVD_OK);
    ck_assert_int_eq(ended, 1);
    ck_assert_int_eq(p2p_begin(p2p, &late, &err), HVD_OK);
    ck_assert_int_eq(ended, 2);
    ck_assert_int_eq(last_status, HVD_OK);
    close_p2p();
}
END_TEST

/* Its room is told of again, as that of any message. */
START_TEST(a_message_in_a_set_that_is_gone_is_dropped)
{
    struct p2p_op receive = operation(P2P_RECEIVE, 1, P2P_EAGER_BYTES);
    struct p2p_frame stray = frame_of(P2P_EAGER, 1, P2P_EAGER_BYTES);
    const struct p2p_frame good = frame_of(P2P_EAGER, 1, P2P_EAGER_BYTES);
    struct hvd_error err;
    open_p2p((struct p2p_limits){0});
    connect_other(false);
    ck_assert_int_eq(p2p_begin(p2p, &receive, &err), HVD_OK);
    stray.set = GONE;
    for (int i = 0; i < 3; i++)
        say(&stray, P2P_EAGER_BYTES);
    stray.type = P2P_OFFER;
    say(&stray, 0);
    say(&good, P2P_EAGER_BYTES);
    ck_assert_int_eq(advance_until(1, &err), HVD_OK);
    ck_assert_int_eq(last_status, HVD_OK);
    ck_assert_int_eq(hear(P2P_FROM_RECEIVER).bytes, 4 * P2P_EAGER_BYTES);
    for (int set = 0; set < 8; set++)
        ck_assert_ptr_null(matching_remove_arrival(&p2p->matching, set));
    close_p2p();
}
END_TEST

/* Both an offer that waits when this rank leaves, and one that comes afterwards; but not one that is
 * received. */
START_TEST(a_rank_that_leaves_declines_what_it_will_not_receive)
{
    struct p2p_op receive = operation(P2P_RECEIVE, 2, 100000);
    struct p2p_frame offer = frame_of(P2P_OFFER, 1, 100000);
    struct hvd_error err;
    open_p2p((struct p2p_limits){0});
    connect_other(false);
    ck_assert_int_eq(p2p_begin(p2p, &receive, &err), HVD_OK);
    say(&offer, 0);
    await_arrival();
    p2p_leave(p2p);
    ck_assert_int_eq(hear(P2P_FROM_RECEIVER).type, P2P_DEPARTURE);
    offer.id = 2;
    say(&offer, 0);
    const struct p2p_frame answer = hear(P2P_FROM_RECEIVER);
    ck_assert_int_eq(answer.type, P2P_DEPARTURE);
    ck_assert_uint_eq(answer.id, 2);
    offer.id = 3;
    offer.tag = 2;
    say(&offer, 0);
    ck_assert_int_eq(hear(P2P_FROM_RECEIVER).type, P2P_TAKE);
    close_p2p();
}
END_TEST

START_TEST(a_send_ends_when_its_receiver_has_left)
{
    struct p2p_op send = operation(P2P_SEND, 1, sizeof(memory));
    struct p2p_frame frame = frame_of(P2P_DEPARTURE, 0, 0);
    struct hvd_error err;
    open_p2p((struct p2p_limits){0});
    connect_other(true);
    ck_assert_int_eq(p2p_begin(p2p, &send, &err), HVD_OK);
    frame.id = hear(P2P_FROM_SENDER).id;
    say(&frame, 0);
    ck_assert_int_eq(advance_until(1, &err), HVD_OK);
    ck_assert_int_eq(last_status, HVD_ERR_SHUTDOWN);
    ck_assert_str_eq(last_reason, "rank 1 (n2) has called hvd_shutdown");
    close_p2p();
}
END_TEST

/* ---- From GPU to GPU ---- */

#define DIRECT_BYTES (P2P_EAGER_BYTES + 1000)

static void open_direct(bool outgoing)
{
    open_p2p((struct p2p_limits){0});
    p2p->params.direct = &direct;
    steps = 0;
    connect_other(outgoing);
}

static void await_step_or_card(void)
{
    int rank = -1;
    for (int64_t begun_us = clock_us(); steps == 0 && card_from < 0;) {
        bool moved = false;
        p2p_look(p2p);
        ck_assert_int_eq(p2p_advance(p2p, &moved, &rank, NULL), HVD_OK);
        ck_assert_int_lt(clock_us() - begun_us, WAIT_US);
    }
}

static void await_step(enum p2p_step step)
{
    await_step_or_card();
    ck_assert_int_eq(steps, 1);
    ck_assert_int_eq(last_step, step);
    steps = 0;
}

static struct p2p_op direct_operation(enum p2p_direction direction)
{
    struct p2p_op op = operation(direction, 1, DIRECT_BYTES);
    op.direct = true;
    op.memory = NULL;
    return op;
}

static struct p2p_frame direct_frame(enum p2p_frame_type type)
{
    struct p2p_frame frame = frame_of(type, 1, DIRECT_BYTES);
    frame.direct = true;
    return frame;
}

/* Begin [receive], and take the offer that comes for it. */
static void take_direct(struct p2p_op *receive, bool as_direct)
{
    const struct p2p_frame offer = direct_frame(P2P_OFFER);
    ck_assert_int_eq(p2p_begin(p2p, receive, NULL), HVD_OK);
    say(&offer, 0);
    await_step(P2P_STEP_MATCHED);
    ck_assert_int_eq(p2p_take(p2p, receive, as_direct, NULL), HVD_OK);
    const struct p2p_frame take = hear(P2P_FROM_RECEIVER);
    ck_assert_int_eq(take.type, P2P_TAKE);
    ck_assert(take.direct == as_direct);
}

START_TEST(a_receive_from_gpu_to_gpu_begins_when_its_sender_has)
{
    struct p2p_op receive = direct_operation(P2P_RECEIVE);
    const struct p2p_frame data = direct_frame(P2P_DATA);
    int source = -1;
    open_direct(false);
    receive.sourcep = &source;
    take_direct(&receive, true);
    say(&data, 0);
    await_step(P2P_STEP_STARTED);
    ck_assert_int_eq(ended, 0);
    p2p_end(p2p, &receive, HVD_OK, NULL);
    ck_assert_int_eq(ended, 1);
    ck_assert_int_eq(source, 1);
    close_p2p();
}
END_TEST

/* Its bytes come through host memory after all. */
START_TEST(a_receive_may_take_a_direct_message_from_the_host)
{
    struct p2p_op receive = direct_operation(P2P_RECEIVE);
    struct p2p_frame data = direct_frame(P2P_DATA);
    open_direct(false);
    take_direct(&receive, false);
    data.direct = false;
    say(&data, DIRECT_BYTES);
    ck_assert_int_eq(advance_until(1, NULL), HVD_OK);
    ck_assert_int_eq(last_status, HVD_OK);
    ck_assert_ptr_eq(receive.memory, memory);
    close_p2p();
}
END_TEST

/* As its receiver takes it. */
START_TEST(a_send_goes_from_gpu_to_gpu_or_from_the_host)
{
    struct p2p_op send = direct_operation(P2P_SEND);
    struct p2p_frame take = direct_frame(P2P_TAKE);
    take.direct = _i == 1;
    open_direct(true);
    ck_assert_int_eq(p2p_begin(p2p, &send, NULL), HVD_OK);
    ck_assert(hear(P2P_FROM_SENDER).direct);
    say(&take, 0);
    await_step(take.direct ? P2P_STEP_TAKEN : P2P_STEP_WANTED);
    send.memory = take.direct ? NULL : memory;
    ck_assert_int_eq(p2p_start(&send, take.direct, NULL), HVD_OK);
    const struct p2p_frame data = hear(P2P_FROM_SENDER);
    ck_assert_int_eq(data.type, P2P_DATA);
    ck_assert(data.direct == take.direct);
    if (take.direct)
        p2p_end(p2p, &send, HVD_OK, NULL);
    ck_assert_int_eq(advance_until(1, NULL), HVD_OK);
    ck_assert_int_eq(ended, 1);
    ck_assert_int_eq(last_status, HVD_OK);
    close_p2p();
}
END_TEST

START_TEST(cards_go_both_ways)
{
    const struct p2p_frame frame = {.type = P2P_CARD};
    char card[P2P_CARD_BYTES] = "mine";
    open_direct(true);
    memory[P2P_CARD_BYTES - 1] = 'x';
    say(&frame, P2P_CARD_BYTES);
    ck_assert_int_eq(p2p_send_card(p2p, 1, true, card, NULL), HVD_OK);
    ck_assert_int_eq(hear(P2P_FROM_SENDER).type, P2P_CARD);
    await_step_or_card();
    ck_assert_int_eq(card_from, 1);
    ck_assert_int_eq(recv(other, card, sizeof(card), MSG_WAITALL), P2P_CARD_BYTES);
    ck_assert_str_eq(card, "mine");
    close_p2p();
}
END_TEST

START_TEST(a_direct_message_whose_set_is_gone_is_withdrawn)
{
    struct p2p_op send = direct_operation(P2P_SEND);
    struct p2p_op receive = direct_operation(P2P_RECEIVE);
    const struct p2p_frame take = direct_frame(P2P_TAKE);
    const struct p2p_frame withdrawal = frame_of(P2P_WITHDRAWAL, 1, 0);
    open_direct(true);
    ck_assert_int_eq(p2p_begin(p2p, &send, NULL), HVD_OK);
    hear(P2P_FROM_SENDER);
    p2p_end_set(p2p, 0, HVD_ERR_SET, "gone");
    say(&take, 0);
    ck_assert_int_eq(hear(P2P_FROM_SENDER).type, P2P_WITHDRAWAL);
    ck_assert_int_eq(steps, 0);
    close_p2p();
    open_direct(false);
    take_direct(&receive, true);
    say(&withdrawal, 0);
    ck_assert_int_eq(advance_until(1, NULL), HVD_OK);
    ck_assert_int_eq(last_status, HVD_ERR_SET);
    close_p2p();
}
END_TEST

/* One end goes on as the two have not agreed. */
START_TEST(a_message_that_is_direct_at_one_end_only_is_an_error)
{
    struct p2p_op op = direct_operation(_i == 0 ? P2P_SEND : P2P_RECEIVE);
    struct p2p_frame frame = direct_frame(_i == 0 ? P2P_TAKE : P2P_DATA);
    struct hvd_error err;
    open_direct(_i == 0);
    if (_i == 0) {
        op = operation(P2P_SEND, 1, DIRECT_BYTES);
        ck_assert_int_eq(p2p_begin(p2p, &op, NULL), HVD_OK);
        hear(P2P_FROM_SENDER);
    } else {
        take_direct(&op, _i == 1);
        frame.direct = _i == 2;
    }
    say(&frame, 0);
    ck_assert_int_eq(advance_until(1, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "of message 1, which is not under way"));
    close_p2p();
}
END_TEST

/* ---- Hostile frames ---- */

static const struct {
    bool outgoing;
    struct p2p_frame frame;
    const char *why;
} bad[] = {
    {false, {.type = P2P_TAKE, .id = 1}, "which must not come there"},
    {false, {.type = P2P_DATA, .id = 1, .bytes = 8}, "the data of message 1, which is not under way"},
    {false, {.type = P2P_WITHDRAWAL, .id = 3}, "the withdrawal of message 3, which is not under way"},
    {false, {.type = P2P_CARD}, "a card where none must come"},
    {true, {.type = P2P_EAGER}, "which must not come there"},
    {true, {.type = P2P_TAKE, .id = 1}, "the receiver of message 1, which is not under way"},
    {true, {.type = P2P_TAKEN, .id = 1}, "the receiver of message 1, which is not under way"},
    {true, {.type = P2P_DEPARTURE, .id = 1}, "the refusal of message 1, which is not under way"},
    {true, {.type = P2P_CREDIT, .bytes = 1}, "more than there is"},
    {true, {.type = P2P_CREDIT, .bytes = INT64_C(1) << 46}, "more than there is"},
};

START_TEST(a_frame_that_breaks_the_protocol_is_an_error)
{
    struct hvd_error err;
    open_p2p((struct p2p_limits){0});
    connect_other(bad[_i].outgoing);
    say(&bad[_i].frame, 0);
    ck_assert_int_eq(advance_until(1, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, bad[_i].why) != NULL, "%s", err.text);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 1 (n2)"));
    close_p2p();
}
END_TEST

START_TEST(who_sends_more_than_there_is_room_for_is_stopped)
{
    const struct p2p_frame frame = frame_of(P2P_EAGER, 1, 0);
    struct hvd_error err;
    open_p2p((struct p2p_limits){0});
    connect_other(false);
    for (int64_t i = 0; i <= P2P_WINDOW_BYTES / P2P_LEAST_BYTES; i++)
        say(&frame, 0);
    ck_assert_int_eq(advance_until(1, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "for which there is no room"));
    close_p2p();
}
END_TEST

START_TEST(data_of_another_size_are_an_error)
{
    struct p2p_op receive = operation(P2P_RECEIVE, 1, 100000);
    const struct p2p_frame offer = frame_of(P2P_OFFER, 1, 100000), data = frame_of(P2P_DATA, 1, 100001);
    struct hvd_error err;
    open_p2p((struct p2p_limits){0});
    connect_other(false);
    ck_assert_int_eq(p2p_begin(p2p, &receive, &err), HVD_OK);
    say(&offer, 0);
    ck_assert_int_eq(hear(P2P_FROM_RECEIVER).type, P2P_TAKE);
    say(&data, 0);
    ck_assert_int_eq(advance_until(1, &err), HVD_ERR_SYSTEM);
    close_p2p();
    ck_assert_int_eq(last_status, HVD_ERR_SHUTDOWN);
}
END_TEST

/* The other end closes before it has sent all. */
START_TEST(a_connection_that_ends_is_a_lost_rank)
{
    struct p2p_op receive = operation(P2P_RECEIVE, 1, 100);
    const struct p2p_frame frame = frame_of(P2P_EAGER, 1, 100);
    struct hvd_error err;
    open_p2p((struct p2p_limits){0});
    connect_other(false);
    ck_assert_int_eq(p2p_begin(p2p, &receive, &err), HVD_OK);
    say(&frame, 99);
    close(other);
    other = -1;
    ck_assert_int_eq(advance_until(1, &err), HVD_ERR_RANK_LOST);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 1 (n2)"));
    close_p2p();
}
END_TEST

/* ---- What waits ---- */

static void await_stall(struct p2p_stalled *stalled)
{
    for (int64_t begun_us = clock_us(); !p2p_find_stalled(p2p, stalled);) {
        const struct timespec pause = {0, 1000000};
        ck_assert_int_lt(clock_us() - begun_us, WAIT_US);
        nanosleep(&pause, NULL);
    }
}

START_TEST(a_message_that_waits_is_found)
{
    struct p2p_op receives[2] = {operation(P2P_RECEIVE, 1, 100), operation(P2P_RECEIVE, 2, 100)};
    struct p2p_stalled stalled;
    open_p2p((struct p2p_limits){.warn_us = 50000});
    ck_assert_int_eq(p2p_deadline(p2p), INT64_MAX);
    ck_assert_int_eq(p2p_begin(p2p, &receives[0], NULL), HVD_OK);
    ck_assert_int_eq(p2p_begin(p2p, &receives[1], NULL), HVD_OK);
    ck_assert_int_le(p2p_deadline(p2p), clock_us() + 100000);
    ck_assert(!p2p_find_stalled(p2p, &stalled));
    await_stall(&stalled);
    ck_assert_ptr_eq(stalled.op, &receives[0]);
    ck_assert_int_eq(stalled.rank, 1);
    ck_assert_int_eq(stalled.wait, P2P_WAIT_PROGRAM);
    ck_assert_int_ge(stalled.waited_us, 50000);
    ck_assert(!stalled.must_abort);
    ck_assert(!p2p_find_stalled(p2p, &stalled));
    await_stall(&stalled); /* and again after as long */
    close_p2p();
    ck_assert_int_eq(ended, 2);
}
END_TEST

/* The hang limit is for what both ends have begun, the abort limit for all. */
START_TEST(what_ends_the_job_depends_on_what_it_waits_for)
{
    struct p2p_op receive = operation(P2P_RECEIVE, 1, 100000);
    struct p2p_stalled stalled;
    bool aborts = _i == 1, begun = _i == 2;
    open_p2p((struct p2p_limits){
        .warn_us = _i == 0 ? 150000 : 0, .abort_us = aborts ? 50000 : 0, .hang_us = aborts ? 0 : 50000});
    struct channel *channel = connect_other(false);
    ck_assert_int_eq(p2p_begin(p2p, &receive, NULL), HVD_OK);
    if (begun) { /* as if it had taken an offer */
        matching_remove_receive(&p2p->matching, MATCHING_ANY_SET, 1);
        TAILQ_INSERT_TAIL(&channel->offers, &receive, link);
    }
    await_stall(&stalled);
    ck_assert_int_eq(stalled.must_abort, _i > 0);
    ck_assert_int_eq(stalled.wait, begun ? P2P_WAIT_BYTES : P2P_WAIT_PROGRAM);
    close_p2p();
    ck_assert_int_eq(ended, 1);
}
END_TEST

/* Its program's stream has not come so far: no hang, which would be the other end's, or the connection's. */
START_TEST(a_send_that_is_held_is_found_until_it_begins)
{
    struct p2p_op send = operation(P2P_SEND, 1, 100000);
    struct p2p_stalled stalled;
    open_p2p((struct p2p_limits){.warn_us = 100000, .hang_us = 50000, .abort_us = _i == 0 ? 0 : 50000});
    connect_other(true);
    p2p_hold(p2p, &send);
    ck_assert(!p2p_find_stalled(p2p, &stalled));
    await_stall(&stalled);
    ck_assert_ptr_eq(stalled.op, &send);
    ck_assert_int_eq(stalled.rank, 0);
    ck_assert_int_eq(stalled.wait, P2P_WAIT_STREAM);
    ck_assert_int_eq(stalled.must_abort, _i == 1);
    ck_assert_int_eq(p2p_begin(p2p, &send, NULL), HVD_OK);
    await_stall(&stalled);
    ck_assert_int_eq(stalled.rank, 1);
    ck_assert_int_ne(stalled.wait, P2P_WAIT_STREAM);
    close_p2p();
    ck_assert_int_eq(ended, 1);
    open_p2p((struct p2p_limits){.warn_us = 100000});
    p2p_hold(p2p, &send);
    p2p_drop(p2p, &send);
    ck_assert_int_eq(p2p_deadline(p2p), INT64_MAX);
    close_p2p();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("p2p");
    tcase_add_test(tcase, a_message_reaches_the_receive_that_waits_and_the_one_that_comes);
    tcase_add_test(tcase, a_message_in_a_set_that_is_gone_is_dropped);
    tcase_add_test(tcase, a_rank_that_leaves_declines_what_it_will_not_receive);
    tcase_add_test(tcase, a_send_ends_when_its_receiver_has_left);
    tcase_add_test(tcase, a_receive_from_gpu_to_gpu_begins_when_its_sender_has);
    tcase_add_test(tcase, a_receive_may_take_a_direct_message_from_the_host);
    tcase_add_loop_test(tcase, a_send_goes_from_gpu_to_gpu_or_from_the_host, 0, 2);
    tcase_add_test(tcase, cards_go_both_ways);
    tcase_add_test(tcase, a_direct_message_whose_set_is_gone_is_withdrawn);
    tcase_add_loop_test(tcase, a_message_that_is_direct_at_one_end_only_is_an_error, 0, 3);
    tcase_add_loop_test(tcase, a_frame_that_breaks_the_protocol_is_an_error, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tcase, who_sends_more_than_there_is_room_for_is_stopped);
    tcase_add_test(tcase, data_of_another_size_are_an_error);
    tcase_add_test(tcase, a_connection_that_ends_is_a_lost_rank);
    tcase_add_test(tcase, a_message_that_waits_is_found);
    tcase_add_loop_test(tcase, a_send_that_is_held_is_found_until_it_begins, 0, 2);
    tcase_add_loop_test(tcase, what_ends_the_job_depends_on_what_it_waits_for, 0, 3);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("p2p", fill);
}
