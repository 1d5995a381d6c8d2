/* test_tcp.c: what backend tcp asks of the endpoint and does with the connections. The endpoint is a fake:
 * its peers are the test's own ends of TCP connections on loopback. */
#include "config.h"
#include "unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "batches.h"
#include "own_network.h"
#include "backend/tcp/tcp_bruck.h"
#include "backend/tcp/tcp_pairwise.h"
#include "backend/tcp/fragment.h"
#include "backend/tcp/tcp_chain.h"
#include "backend/backend_env.h"

#define LEASE_MS    5000
#define WANTS       36
#define DEADLINE_US 4711
#define SET         3

struct establishment {
    struct endpoint_connection *wants;
    int want_count;
    int late; /* calls in which the peers have not come yet */
    int fd;
};

static struct {
    struct endpoint_connection wants[WANTS]; /* as they were met, one call after the other */
    int want_count;
    struct establishment establishment;
    int ended; /* establishments */
    int late;
    int lost;         /* a rank that does not answer, or -1 */
    int fail;         /* the status to fail with, or HVD_OK */
    int fds[WANTS];   /* what it gave */
    int peers[WANTS]; /* the other ends */
} fake = {.lost = -1};

static void connect_pair(int *fdp, int *peerp)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    unsigned int lease_ms = LEASE_MS;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    *fdp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(*fdp, (struct sockaddr *)&address, length), 0);
    *peerp = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(*peerp, 0);
    close(listener);
    ck_assert_int_eq(fcntl(*fdp, F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_eq(setsockopt(*fdp, IPPROTO_TCP, TCP_USER_TIMEOUT, &lease_ms, sizeof(lease_ms)), 0);
}

int establishment_begin(struct establishment **establishmentp, struct endpoint *endpoint,
                        const struct peer_table *peer_table, struct endpoint_connection *wants,
                        int want_count, struct hvd_error *err)
{
    (void)endpoint;
    (void)peer_table;
    if (fake.fail != HVD_OK)
        return error_set(err, fake.fail, "nobody came");
    fake.establishment = (struct establishment){wants, want_count, fake.late, eventfd(0, EFD_CLOEXEC)};
    *establishmentp = &fake.establishment;
    return HVD_OK;
}

int establishment_advance(struct establishment *establishment, int *rankp, struct hvd_error *err)
{
    if (fake.lost >= 0) {
        *rankp = fake.lost;
        return error_set(err, HVD_ERR_RANK_LOST, "it does not answer");
    }
    if (establishment->late-- > 0)
        return HVD_IN_PROGRESS;
    for (int i = 0; i < establishment->want_count; i++) {
        int at = fake.want_count++;
        fake.wants[at] = establishment->wants[i];
        connect_pair(&fake.fds[at], &fake.peers[at]);
        establishment->wants[i].fd = fake.fds[at];
    }
    return HVD_OK;
}

int64_t establishment_deadline(const struct establishment *establishment)
{
    return establishment->late > 0 ? DEADLINE_US : INT64_MAX;
}

int establishment_fd(const struct establishment *establishment)
{
    return establishment->fd;
}

int establishment_waits_for(const struct establishment *establishment)
{
    return establishment->wants[0].rank;
}

void establishment_after_fork(struct establishment *establishment)
{
    close(establishment->fd);
}

void establishment_end(struct establishment *establishment)
{
    if (establishment == NULL)
        return;
    close(establishment->fd);
    fake.ended++;
}

void peer_table_rank_name(const struct peer_table *peer_table, int rank, char *text, size_t text_bytes)
{
    (void)peer_table;
    snprintf(text, text_bytes, "rank %d (n%d)", rank, rank / 2);
}

static unsigned int user_timeout_ms(int fd)
{
    unsigned int ms = 0;
    socklen_t length = sizeof(ms);
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &length), 0);
    return ms;
}

static struct hvd_config config = {.lease_us = 1000000, .start_timeout_us = 7000000, .tcp_streams = 1};
static struct hvd_job job = {.size = 9};
static int node_of_rank[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
static struct peer_table peer_table = {.size = 9, .node_of_rank = node_of_rank};
static struct backend_env env = {.config = &config, .job = &job, .peer_table = &peer_table, .epoll_fd = -1};

/* A team of every other rank of the job, from 1 on. */
static const int ranks[] = {1, 3, 5, 7};
static struct team members = {.set = SET, .ranks = ranks};
static void *state, *team;

static void open_team(int rank, int size)
{
    members.rank = rank;
    members.size = size;
    ck_assert_int_eq(backend_tcp.open(&env, 12345, &state, NULL), HVD_OK);
    ck_assert_int_eq(backend_tcp.add_team(state, &members, 12345, &team, NULL), HVD_OK);
}

static void close_all(void)
{
    backend_tcp.remove_team(state, team);
    backend_tcp.close(state);
    for (int i = 0; i < fake.want_count; i++) {
        ck_assert_int_lt(fcntl(fake.fds[i], F_GETFD), 0);
        if (fake.peers[i] >= 0)
            close(fake.peers[i]);
    }
}

static struct backend_batch batch_of(float *data, uint64_t sequence, int64_t count)
{
    return (struct backend_batch){.need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, members.size},
                                  .sequence = sequence,
                                  .input = data,
                                  .output = data,
                                  .prescale = 1,
                                  .postscale = 1,
                                  .count = count};
}

/* More than what goes by chords between two members: a whole chunk, and another. */
#define LARGE 40000
#define FIRST ((int64_t)BACKEND_SENDS_BYTES(2) / (int64_t)sizeof(float))

static float large[LARGE];

/* Begin a batch, and connect for it. Returns what test returned last. */
static int start_connected(const struct backend_batch *batch)
{
    int lost = -1;
    bool moved = false;
    struct hvd_error err;
    ck_assert_int_eq(backend_tcp.start(state, team, batch, &err), HVD_OK);
    return backend_tcp.test(state, team, &moved, &lost, &err);
}

START_TEST(connects_to_the_next_and_from_the_previous)
{
    static const int rows[][5] = {{0, 2, 3, 3, 1},
                                  {1, 2, 1, 1, 2},
                                  {0, 4, 3, 7, 3},
                                  {3, 4, 1, 5, 1},
                                  {2, 4, 7, 3, TCP_CHAIN_MAX_LANES}};
    const int *row = rows[_i];
    int lanes = row[4];
    config.tcp_streams = lanes;
    open_team(row[0], row[1]);
    struct backend_batch batch = batch_of(large, 1, LARGE);
    ck_assert_int_eq(fake.want_count, 0);
    ck_assert_int_eq(start_connected(&batch), HVD_IN_PROGRESS);
    ck_assert_int_eq(fake.want_count, 2 * lanes);
    for (int i = 0; i < 2 * lanes; i++) {
        const struct endpoint_connection *want = &fake.wants[i];
        ck_assert_int_eq(want->rank, i < lanes ? row[2] : row[3]);
        ck_assert(want->connect == (i < lanes));
        ck_assert_int_eq(want->purpose, ENDPOINT_CHAIN);
        ck_assert_uint_eq(want->tag, SET * TCP_CHAIN_MAX_LANES + (unsigned)(i % lanes));
        ck_assert_int_eq(want->lane, i % lanes);
    }
    ck_assert_int_eq(fake.ended, 1);
    close_all();
}
END_TEST

/* As many as there may be of them are as many as there may be lanes. */
START_TEST(the_option_and_the_stream_agree)
{
    ck_assert_int_eq(OPTION_OF(tcp_streams)->max, TCP_CHAIN_MAX_LANES);
}
END_TEST

/* A ring of some of a set's members is another one than that of all, between the same ranks; so is a mesh. */
START_TEST(connects_a_slice_by_itself)
{
    const int64_t none[2] = {0};
    struct backend_batch batch = {.need = {COLL_ALLTOALL, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 2},
                                  .counts = none,
                                  .receive_counts = none};
    members.slice = 2;
    open_team(0, 2);
    struct backend_batch first = batch_of(large, 1, LARGE);
    ck_assert_int_eq(start_connected(&first), HVD_IN_PROGRESS);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(fake.wants[i].purpose, ENDPOINT_SLICE_CHAIN);
        ck_assert_uint_eq(fake.wants[i].tag, SET * TCP_CHAIN_MAX_LANES);
    }
    ck_assert_int_eq(start_connected(&batch), HVD_OK);
    ck_assert_int_eq(fake.want_count, 3);
    ck_assert_int_eq(fake.wants[2].purpose, ENDPOINT_SLICE_PAIRWISE);
    ck_assert_uint_eq(fake.wants[2].tag, SET);
    close_all();
}
END_TEST

START_TEST(fails_as_the_endpoint_does)
{
    struct hvd_error err;
    open_team(0, 2);
    struct backend_batch batch = batch_of(large, 1, LARGE);
    fake.fail = HVD_ERR_NO_MEMORY;
    ck_assert_int_eq(backend_tcp.start(state, team, &batch, &err), HVD_ERR_NO_MEMORY);
    ck_assert_str_eq(err.text, "nobody came");
    close_all();
}
END_TEST

/* While members connect, the calls return, and say whom they wait for and when to come back. */
START_TEST(connects_while_the_loop_goes_on)
{
    int lost = -1;
    bool moved = true;
    float data = 1;
    struct hvd_error err;
    fake.late = 2;
    open_team(0, 2);
    struct backend_batch batches[] = {
        batch_of(large, 1, LARGE),
        batch_of(&data, 1, 1),
        {.need = {COLL_ALLTOALL, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 2}},
    };
    ck_assert_int_eq(backend_tcp.start(state, team, &batches[_i], &err), HVD_OK);
    for (int i = 0; i < 2; i++) {
        moved = true;
        ck_assert_int_eq(backend_tcp.test(state, team, &moved, &lost, &err), HVD_IN_PROGRESS);
        ck_assert(!moved);
        ck_assert_int_eq(fake.want_count, 0);
        if (i == 0)
            ck_assert_int_eq(backend_tcp.deadline(state, team), DEADLINE_US);
    }
    backend_tcp.remove_team(state, team);
    ck_assert_int_eq(fake.ended, 1);
    backend_tcp.close(state);
}
END_TEST

START_TEST(a_rank_that_cannot_be_reached_is_lost)
{
    int lost = -1;
    bool moved = false;
    struct hvd_error err;
    open_team(0, 2);
    struct backend_batch batch = batch_of(large, 1, LARGE);
    ck_assert_int_eq(backend_tcp.start(state, team, &batch, &err), HVD_OK);
    fake.lost = 3;
    ck_assert_int_eq(backend_tcp.test(state, team, &moved, &lost, &err), HVD_ERR_RANK_LOST);
    ck_assert_int_eq(lost, 3);
    close_all();
    ck_assert_int_eq(fake.ended, 1);
}
END_TEST

/* The first alltoall connects each with each, the lower one of two beginning; the second has all it needs. */
START_TEST(connects_all_for_the_first_alltoall)
{
    int64_t none[4] = {0};
    struct backend_batch batch = {.need = {COLL_ALLTOALL, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 4},
                                  .sequence = 1,
                                  .counts = none,
                                  .receive_counts = none};
    open_team(2, 4);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(start_connected(&batch), HVD_OK);
        ck_assert_int_eq(fake.want_count, 3);
    }
    static const int others[] = {1, 3, 7};
    for (int i = 0; i < 3; i++) {
        const struct endpoint_connection *want = &fake.wants[i];
        ck_assert_int_eq(want->rank, others[i]);
        ck_assert(want->connect == (others[i] == 7));
        ck_assert_int_eq(want->purpose, ENDPOINT_PAIRWISE);
        ck_assert_uint_eq(want->tag, SET);
        ck_assert_uint_eq(user_timeout_ms(fake.fds[i]), 0);
    }
    close_all();
}
END_TEST

/* A message with a chunk of so many floats, and how much of it has gone. */
struct message {
    struct fragment_header frame;
    float values[LARGE];
    size_t through;
};

static struct message heard, said;

/* Let the backend send, until all of a message that long has come to our end. */
static void hear(int fd, size_t length)
{
    int lost = -1;
    bool moved;
    struct hvd_error err;
    for (heard.through = 0; heard.through < length;) {
        ck_assert_int_eq(backend_tcp.test(state, team, &moved, &lost, &err), HVD_IN_PROGRESS);
        ssize_t got = recv(fd, (char *)&heard + heard.through, length - heard.through, MSG_DONTWAIT);
        heard.through += got > 0 ? (size_t)got : 0;
    }
}

/* Whether the descriptor of a sleeper says that there is something to do. */
static void await_event(void)
{
    struct epoll_event event;
    ck_assert_int_eq(epoll_wait(env.epoll_fd, &event, 1, 10000), 1);
}

static void drain_events(void)
{
    struct epoll_event event;
    while (epoll_wait(env.epoll_fd, &event, 1, 0) > 0)
        continue; /* that a socket can be written to, and such */
}

/* Send a message from our end; the backend's sleeper is woken for what it takes. Returns its last answer. */
static int say(int fd, size_t length)
{
    int lost = -1;
    int status = HVD_IN_PROGRESS;
    bool moved;
    struct hvd_error err;
    drain_events();
    for (said.through = 0; said.through < length;) {
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        ck_assert_int_eq(poll(&room, 1, 10000), 1);
        ssize_t sent = send(fd, (char *)&said + said.through, length - said.through, MSG_DONTWAIT);
        ck_assert_int_gt(sent, 0);
        said.through += (size_t)sent;
        await_event();
        do
            status = backend_tcp.test(state, team, &moved, &lost, &err);
        while (status == HVD_IN_PROGRESS && moved);
    }
    return status;
}

/* Member 0 of 2 sends its part, gets the result, and is woken for it by the descriptor that it was given. */
START_TEST(carries_a_large_batch_round_the_ring)
{
    struct backend_batch batch = batch_of(large, 1, LARGE);
    const size_t first_bytes = FIRST * sizeof(float);
    const size_t rest_bytes = sizeof(large) - first_bytes;
    env.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    open_team(0, 2);
    batch.need.ranks = 2;
    large[LARGE - 1] = 1.5f;
    ck_assert(backend_tcp.supports(&batch.need));
    ck_assert_int_eq(start_connected(&batch), HVD_IN_PROGRESS);
    ck_assert_int_eq(fake.want_count, 2);
    hear(fake.peers[0], sizeof(heard.frame) + first_bytes);
    hear(fake.peers[0], sizeof(heard.frame) + rest_bytes);
    ck_assert_int_eq(heard.frame.kind, CHAIN_PARTIAL);
    ck_assert(heard.values[LARGE - FIRST - 1] == 1.5f);
    said.frame = (struct fragment_header){FRAGMENT_MAGIC, CHAIN_RESULT, 1, 0, first_bytes};
    ck_assert_int_eq(say(fake.peers[1], sizeof(said.frame) + first_bytes), HVD_IN_PROGRESS);
    said.frame = (struct fragment_header){FRAGMENT_MAGIC, CHAIN_RESULT, 1, 1, rest_bytes};
    said.values[LARGE - FIRST - 1] = 5.5f;
    ck_assert_int_eq(say(fake.peers[1], sizeof(said.frame) + rest_bytes), HVD_OK);
    ck_assert(large[LARGE - 1] == 5.5f);
    close_all();
    close(env.epoll_fd);
}
END_TEST

/* The first small batch connects members that are powers of two apart; the second has all it needs. */
START_TEST(connects_chords_for_the_first_small_batch)
{
    static const int sizes[] = {2, 3, 4};
    static const int nexts[][2] = {{1, 0}, {5, 1}, {7, 1}}, previous[][2] = {{1, 0}, {1, 5}, {3, 1}};
    int steps = _i == 0 ? 1 : 2;
    float data = 1;
    open_team(_i == 2 ? 2 : 1, sizes[_i]);
    struct backend_batch batch = batch_of(&data, 1, 1);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(start_connected(&batch), HVD_IN_PROGRESS);
        ck_assert_int_eq(fake.want_count, 2 * steps);
    }
    for (int step = 0; step < steps; step++) {
        const struct endpoint_connection *to = &fake.wants[step], *from = &fake.wants[steps + step];
        ck_assert_int_eq(to->rank, nexts[_i][step]);
        ck_assert(to->connect);
        ck_assert_int_eq(from->rank, previous[_i][step]);
        ck_assert(!from->connect);
        ck_assert_int_eq(to->purpose, ENDPOINT_BRUCK);
        ck_assert_int_eq(from->purpose, ENDPOINT_BRUCK);
        ck_assert_uint_eq(to->tag, SET);
        ck_assert_uint_eq(from->tag, SET);
        ck_assert_uint_eq(user_timeout_ms(fake.fds[step]), 0);
        ck_assert_uint_eq(user_timeout_ms(fake.fds[steps + step]), LEASE_MS);
    }
    close_all();
}
END_TEST

/* Both of two members send their part, and each adds them up. */
START_TEST(carries_a_small_batch_by_chords)
{
    float data = 1.5f;
    size_t length = sizeof(heard.frame) + sizeof(data);
    env.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    open_team(0, 2);
    struct backend_batch batch = batch_of(&data, 1, 1);
    ck_assert_int_eq(start_connected(&batch), HVD_IN_PROGRESS);
    hear(fake.peers[0], length);
    ck_assert_int_eq(heard.frame.kind, FRAGMENT_BRUCK);
    ck_assert(heard.values[0] == 1.5f);
    said.frame = (struct fragment_header){FRAGMENT_MAGIC, FRAGMENT_BRUCK, 1, 0, sizeof(data)};
    said.values[0] = 4;
    ck_assert_int_eq(say(fake.peers[1], length), HVD_OK);
    ck_assert(data == 5.5f);
    close_all();
    close(env.epoll_fd);
}
END_TEST

/* Member 0 of 3 speaks to the one behind it first; where two are on one node, to the last one only. */
START_TEST(spares_messages_where_members_share_nodes)
{
    char byte;
    float data = 1;
    node_of_rank[5] = _i == 0 ? 5 : 3;
    open_team(0, 3);
    struct backend_batch batch = batch_of(&data, 1, 1);
    ck_assert_int_eq(start_connected(&batch), HVD_IN_PROGRESS);
    ck_assert_int_eq(fake.wants[_i].rank, _i == 0 ? 3 : 5);
    ck_assert_int_eq(recv(fake.peers[_i], &byte, 1, 0), 1);
    ck_assert_int_lt(recv(fake.peers[1 - _i], &byte, 1, MSG_DONTWAIT), 0);
    close_all();
}
END_TEST

/* A reset is the loss of the rank at that end, by its name: of the next and the previous one on the ring, and
 * of the one that is heard first by a chord. */
START_TEST(names_the_rank_that_reset)
{
    static const int losts[] = {7, 3, 3};
    char words[160];
    snprintf(
        words, sizeof(words),
        "in batch 3 the connection of rank 5 (n2) at 127.0.0.1 with rank %d (n%d) at 127.0.0.1 was reset",
        losts[_i], losts[_i] / 2);
    peer_table.rank = 5;
    int lost = -1;
    bool moved = false;
    struct hvd_error err;
    const struct linger abort = {.l_onoff = 1, .l_linger = 0};
    int end = _i == 2 ? 2 : _i;
    open_team(2, 4);
    struct backend_batch batch = batch_of(large, 3, _i == 2 ? 1 : LARGE);
    ck_assert_int_eq(start_connected(&batch), HVD_IN_PROGRESS);
    setsockopt(fake.peers[end], SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    close(fake.peers[end]);
    fake.peers[end] = -1;
    ck_assert_int_eq(backend_tcp.test(state, team, &moved, &lost, &err), HVD_ERR_RANK_LOST);
    ck_assert_int_eq(lost, losts[_i]);
    ck_assert_msg(strstr(err.text, words) != NULL, "%s", err.text);
    close_all();
}
END_TEST

/* The link dies while this rank waits for the others: it wakes to look at its connections, and names both
 * ends. */
START_TEST(notices_a_dead_link_while_a_batch_waits)
{
    int lost = -1, status = HVD_IN_PROGRESS, wakes = 0;
    bool moved = false;
    struct hvd_error err = {""};
    if (!own_network())
        return;
    peer_table.rank = 1;
    peer_table.lease_us = 400000;
    open_team(0, 2);
    struct backend_batch batch = batch_of(large, 1, LARGE);
    ck_assert_int_eq(start_connected(&batch), HVD_IN_PROGRESS);
    set_loopback(false);
    int64_t begun_us = clock_us();
    for (; status == HVD_IN_PROGRESS && clock_us() - begun_us < 20 * peer_table.lease_us; wakes++) {
        status = backend_tcp.test(state, team, &moved, &lost, &err);
        int64_t due_us = backend_tcp.deadline(state, team);
        ck_assert(status != HVD_IN_PROGRESS || moved || due_us < INT64_MAX);
        if (status == HVD_IN_PROGRESS && !moved)
            poll(NULL, 0, clock_ms_until(due_us));
    }
    ck_assert_int_eq(status, HVD_ERR_RANK_LOST);
    ck_assert_int_eq(lost, 3);
    ck_assert_int_ge(clock_us() - begun_us, peer_table.lease_us * 9 / 10);
    ck_assert_int_lt(wakes, 300);
    ck_assert_msg(strstr(err.text,
                         "rank 1 (n0) at 127.0.0.1 with rank 3 (n1) at 127.0.0.1 is dead: nothing was "
                         "heard over it for 0.4 s (--hvd-lease)") != NULL,
                  "%s", err.text);
    close_all();
}
END_TEST

/* A rank that is alive but does not read for longer than the lease keeps its connection; where nothing is
 * sent the time-out stays, as it bounds keepalive. */
START_TEST(waits_for_a_rank_that_does_not_read)
{
    config.tcp_streams = 3;
    open_team(0, 2);
    struct backend_batch batch = batch_of(large, 1, LARGE);
    ck_assert_int_eq(start_connected(&batch), HVD_IN_PROGRESS);
    for (int lane = 0; lane < 3; lane++) {
        ck_assert_uint_eq(user_timeout_ms(fake.fds[lane]), 0);
        ck_assert_uint_eq(user_timeout_ms(fake.fds[3 + lane]), LEASE_MS);
    }
    close_all();
}
END_TEST

/* A forked child has closed what is its teams' before it does anything else. */
START_TEST(closes_all_in_a_forked_child)
{
    int status = -1;
    int64_t none[4] = {0};
    struct backend_batch batch = {.need = {COLL_ALLTOALL, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 4},
                                  .counts = none,
                                  .receive_counts = none};
    open_team(2, 4);
    struct backend_batch small = batch_of(large, 1, 1);
    struct backend_batch ring = batch_of(large, 2, LARGE);
    ck_assert_int_eq(start_connected(&batch), HVD_OK);
    ck_assert_int_eq(start_connected(&small), HVD_IN_PROGRESS);
    ck_assert_int_eq(start_connected(&ring), HVD_IN_PROGRESS);
    ck_assert_int_eq(fake.want_count, 9);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        backend_tcp.after_fork(state);
        for (int i = 0; i < 9; i++)
            if (fcntl(fake.fds[i], F_GETFD) >= 0)
                _exit(1);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    close_all();
}
END_TEST

START_TEST(is_for_more_than_one_rank)
{
    const char *why = NULL;
    struct backend_need need = {COLL_ALLTOALL, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 1};
    job.size = 1;
    ck_assert(!backend_tcp.available(&env, &why));
    ck_assert_str_eq(why, "the job has one rank");
    job.size = 2;
    ck_assert(backend_tcp.available(&env, &why));
    for (int kind = COLL_ALLREDUCE; kind <= COLL_REDUCESCATTER; kind++) {
        need.kind = (enum backend_kind)kind;
        need.ranks = 1;
        ck_assert(!backend_tcp.supports(&need));
        need.ranks = 2;
        ck_assert(backend_tcp.supports(&need));
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("tcp");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, connects_to_the_next_and_from_the_previous, 0, 5);
    tcase_add_test(tcase, the_option_and_the_stream_agree);
    tcase_add_test(tcase, connects_a_slice_by_itself);
    tcase_add_loop_test(tcase, connects_while_the_loop_goes_on, 0, 3);
    tcase_add_test(tcase, a_rank_that_cannot_be_reached_is_lost);
    tcase_add_test(tcase, fails_as_the_endpoint_does);
    tcase_add_test(tcase, connects_all_for_the_first_alltoall);
    tcase_add_test(tcase, carries_a_large_batch_round_the_ring);
    tcase_add_loop_test(tcase, connects_chords_for_the_first_small_batch, 0, 3);
    tcase_add_test(tcase, carries_a_small_batch_by_chords);
    tcase_add_loop_test(tcase, spares_messages_where_members_share_nodes, 0, 2);
    tcase_add_loop_test(tcase, names_the_rank_that_reset, 0, 3);
    tcase_add_test(tcase, notices_a_dead_link_while_a_batch_waits);
    tcase_add_test(tcase, waits_for_a_rank_that_does_not_read);
    tcase_add_test(tcase, closes_all_in_a_forked_child);
    tcase_add_test(tcase, is_for_more_than_one_rank);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("tcp", fill);
}
