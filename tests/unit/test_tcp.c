/* test_tcp.c: what plane tcp asks of the endpoint and does with the connections. The endpoint is a fake: its
 * peers are the test's own ends of TCP connections on loopback. */
#include "config.h"
#include "unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plane/stream.h"
#include "sums.h"

#define LEASE_MS 5000

static struct {
    struct endpoint_want wants[2]; /* as they were asked */
    int want_count;
    int64_t deadline_us;
    int fail;     /* the status to fail with, or HVD_OK */
    int fds[2];   /* what it gave */
    int peers[2]; /* the other ends */
} fake;

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

int endpoint_establish(struct endpoint *endpoint, const struct roster *roster, struct endpoint_want *wants,
                       int want_count, int64_t deadline_us, struct hvd_error *err)
{
    (void)endpoint;
    (void)roster;
    memcpy(fake.wants, wants, sizeof(fake.wants));
    fake.want_count = want_count;
    fake.deadline_us = deadline_us;
    if (fake.fail != HVD_OK)
        return error_set(err, fake.fail, "nobody came");
    for (int i = 0; i < want_count; i++) {
        connect_pair(&fake.fds[i], &fake.peers[i]);
        wants[i].fd = fake.fds[i];
    }
    return HVD_OK;
}

void roster_name(const struct roster *roster, int rank, char *text, size_t text_bytes)
{
    (void)roster;
    snprintf(text, text_bytes, "rank %d (n%d)", rank, rank / 2);
}

static unsigned int user_timeout_ms(int fd)
{
    unsigned int ms = 0;
    socklen_t length = sizeof(ms);
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &length), 0);
    return ms;
}

static const struct hvd_config config = {.lease_us = 1000000};

static void *open_plane(int rank, int size, int epoll_fd)
{
    void *state = NULL;
    struct hvd_job job = {.rank = rank, .size = size};
    struct plane_env env = {.config = &config, .job = &job, .epoll_fd = epoll_fd};
    ck_assert_int_eq(plane_tcp.open(&env, 12345, &state, NULL), HVD_OK);
    return state;
}

static void close_all(void *state)
{
    plane_tcp.close(state);
    close(fake.peers[0]);
    close(fake.peers[1]);
}

START_TEST(connects_to_the_next_and_from_the_previous)
{
    static const int ranks[][4] = {{0, 2, 1, 1}, {1, 2, 0, 0}, {0, 5, 1, 4}, {4, 5, 0, 3}, {2, 5, 3, 1}};
    const int *row = ranks[_i];
    void *state = open_plane(row[0], row[1], -1);
    ck_assert_int_eq(fake.want_count, 2);
    ck_assert_int_eq(fake.wants[0].rank, row[2]);
    ck_assert(fake.wants[0].connect);
    ck_assert_int_eq(fake.wants[1].rank, row[3]);
    ck_assert(!fake.wants[1].connect);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(fake.wants[i].purpose, ENDPOINT_RING);
    ck_assert_int_eq(fake.deadline_us, 12345);
    close_all(state);
}
END_TEST

START_TEST(fails_as_the_endpoint_does)
{
    void *state = NULL;
    struct hvd_job job = {.rank = 0, .size = 2};
    struct plane_env env = {.config = &config, .job = &job, .epoll_fd = -1};
    struct hvd_error err;
    fake.fail = HVD_ERR_TIMEOUT;
    ck_assert_int_eq(plane_tcp.open(&env, 0, &state, &err), HVD_ERR_TIMEOUT);
    ck_assert_str_eq(err.text, "nobody came");
    ck_assert_ptr_null(state);
}
END_TEST

/* Rank 0 of 2 sends its part, gets the result, and is woken for it by the descriptor that it was given. */
START_TEST(carries_a_batch)
{
    int lost = -1;
    bool moved = false;
    struct hvd_error err;
    struct epoll_event event;
    struct __attribute__((packed)) {
        struct stream_frame frame;
        float value;
    } partial, result = {{STREAM_MAGIC, CHAIN_RESULT, 1, 0, sizeof(float)}, 5.5f};
    float data = 1.5f;
    struct plane_batch batch = {{PLANE_ALLREDUCE, HVD_FLOAT32, HVD_SUM}, 0, 1, &data, &data, 1};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    void *state = open_plane(0, 2, epoll_fd);
    ck_assert(plane_tcp.can(&batch.need));
    ck_assert_int_eq(plane_tcp.start(state, &batch, &err), HVD_OK);
    ck_assert_int_eq(plane_tcp.test(state, &moved, &lost, &err), HVD_IN_PROGRESS);
    ck_assert(moved);
    ck_assert_int_eq(recv(fake.peers[0], &partial, sizeof(partial), MSG_WAITALL), sizeof(partial));
    ck_assert_int_eq(partial.frame.kind, CHAIN_PARTIAL);
    ck_assert(partial.value == 1.5f);
    ck_assert_int_eq(plane_tcp.test(state, &moved, &lost, &err), HVD_IN_PROGRESS);
    ck_assert(!moved);
    while (epoll_wait(epoll_fd, &event, 1, 0) > 0)
        continue; /* that the socket can be written to, and such */
    ck_assert_int_eq(send(fake.peers[1], &result, sizeof(result), 0), sizeof(result));
    ck_assert_int_eq(epoll_wait(epoll_fd, &event, 1, 10000), 1);
    ck_assert_int_eq(plane_tcp.test(state, &moved, &lost, &err), HVD_OK);
    ck_assert(data == 5.5f);
    close_all(state);
    close(epoll_fd);
}
END_TEST

/* A reset is the loss of the rank at that end, by its name. */
START_TEST(names_the_rank_that_reset)
{
    int lost = -1;
    bool moved = false;
    struct hvd_error err;
    const struct linger abort = {.l_onoff = 1, .l_linger = 0};
    float data = 1.5f;
    struct plane_batch batch = {{PLANE_ALLREDUCE, HVD_FLOAT32, HVD_SUM}, 0, 3, &data, &data, 1};
    void *state = open_plane(2, 5, -1);
    int end = _i;
    ck_assert_int_eq(plane_tcp.start(state, &batch, &err), HVD_OK);
    setsockopt(fake.peers[end], SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    close(fake.peers[end]);
    fake.peers[end] = -1;
    ck_assert_int_eq(plane_tcp.test(state, &moved, &lost, &err), HVD_ERR_RANK_LOST);
    ck_assert_int_eq(lost, end == 0 ? 3 : 1);
    ck_assert_ptr_nonnull(
        strstr(err.text, end == 0 ? "rank 3 (n1) broke in batch 3" : "rank 1 (n0) broke in batch 3"));
    close_all(state);
}
END_TEST

/* A rank that is alive but does not read for longer than the lease keeps its connection; where nothing is
 * sent the time-out stays, as it bounds keepalive. */
START_TEST(waits_for_a_rank_that_does_not_read)
{
    void *state = open_plane(0, 2, -1);
    ck_assert_uint_eq(user_timeout_ms(fake.fds[0]), 0);
    ck_assert_uint_eq(user_timeout_ms(fake.fds[1]), LEASE_MS);
    close_all(state);
}
END_TEST

START_TEST(is_for_more_than_one_rank)
{
    const char *why = NULL;
    struct hvd_job job = {.rank = 0, .size = 1};
    struct plane_env env = {.job = &job, .epoll_fd = -1};
    ck_assert(!plane_tcp.available(&env, &why));
    ck_assert_str_eq(why, "the job has one rank");
    job.size = 2;
    ck_assert(plane_tcp.available(&env, &why));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("tcp");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, connects_to_the_next_and_from_the_previous, 0, 5);
    tcase_add_test(tcase, fails_as_the_endpoint_does);
    tcase_add_test(tcase, carries_a_batch);
    tcase_add_loop_test(tcase, names_the_rank_that_reset, 0, 2);
    tcase_add_test(tcase, waits_for_a_rank_that_does_not_read);
    tcase_add_test(tcase, is_for_more_than_one_rank);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("tcp", fill);
}
