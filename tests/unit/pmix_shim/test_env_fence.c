/* test_env_fence.c: both ends of the environment's fence: what rank 0 sends as jobs grow, what it answers,
 * and where this process has no descriptor left. */
#include "config.h"
#include "unit.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/listener.h"
#include "forked_job.h"
#include "base/clock.h"
#include "base/codec.h"
#include "pmix_shim/env_fence.h"
#include "sleeping_thread.h"

#define NODE_SIZE  4
#define BLOB_BYTES 3000
#define WAIT_US    INT64_C(30000000)

static struct env_job job = {.size = 2, .master_host = "127.0.0.1", .master_port = "1"};

/* Returns the limit, all of which is used. */
static int use_up_descriptors(void)
{
    struct rlimit limit;
    int lowest = dup(0);
    close(lowest);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)lowest;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return lowest;
}

/* A leak checker needs some at the end. */
static void give_back_descriptors(void)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void expect_sentence(const struct hvd_error *err, const char *what, int limit)
{
    char sentence[200];
    snprintf(sentence, sizeof(sentence), "%s: all %d descriptors that this process may have are open", what,
             limit);
    ck_assert_msg(strstr(err->text, sentence) != NULL, "%s", err->text);
    ck_assert_msg(strstr(err->text, "ulimit -n") != NULL, "%s", err->text);
}

START_TEST(rank_0_cannot_listen)
{
    struct hvd_error err = {""};
    struct fence_server *fence_server = NULL;
    int limit = use_up_descriptors();
    ck_assert_int_eq(fence_server_open(&fence_server, &job, NULL, &err), HVD_ERR_NO_MEMORY);
    expect_sentence(&err, "rank 0 cannot listen for the other ranks", limit);
    give_back_descriptors();
}
END_TEST

/* At once, though its time is not over. */
START_TEST(another_rank_cannot_connect)
{
    struct hvd_error err = {""};
    struct fence_client *fence_client = NULL;
    struct store *store = store_create(2);
    int64_t deadline_us = clock_us() + 60000000;
    job.rank = 1;
    ck_assert_int_eq(fence_client_open(&fence_client, &job, deadline_us, &err), HVD_OK);
    int limit = use_up_descriptors();
    ck_assert_int_eq(fence_client_fence(fence_client, store, deadline_us, &err), HVD_ERR_NO_MEMORY);
    ck_assert_int_gt(deadline_us - clock_us(), 40000000);
    expect_sentence(&err, "cannot connect to rank 0", limit);
    give_back_descriptors();
    fence_client_close(fence_client);
    store_destroy(store);
}
END_TEST

/* Another program has rank 0's port, and says nothing. */
START_TEST(a_silent_listener_is_not_waited_for)
{
    struct env_job of_slurm = {.rank = 1, .size = 2, .master_host = "127.0.0.1", .runs = true};
    struct hvd_error err = {""};
    struct fence_client *fence_client = NULL;
    struct store *store = store_create(2);
    int listener = listener_open(0);
    int64_t began_us = clock_us();
    snprintf(of_slurm.master_port, sizeof(of_slurm.master_port), "%u", listener_port(listener));
    ck_assert_int_eq(fence_client_open(&fence_client, &of_slurm, began_us + WAIT_US, &err), HVD_OK);
    ck_assert_int_eq(fence_client_fence(fence_client, store, began_us + WAIT_US, &err), HVD_ERR_TIMEOUT);
    ck_assert_int_lt(clock_us() - began_us, WAIT_US);
    ck_assert_msg(strstr(err.text, "accepted the connection, but did not answer as hvd within 10 s") != NULL,
                  "%s", err.text);
    fence_client_close(fence_client);
    store_destroy(store);
    close(listener);
}
END_TEST

/* ---- A job whose ranks are threads of this process ------------------------------------------------ */

#define MOST_RANKS 64

static struct thread_rank {
    struct env_job job;
    pthread_t thread;
    struct store *store;
    struct fence_client *fence_client;
    int node_first, node_count;
} ranks[MOST_RANKS];

/* Put the identity of a node of NODE_SIZE ranks, and a blob. */
static void put_own(struct store *store, int rank)
{
    unsigned char node[8];
    char blob[BLOB_BYTES];
    struct encoder encoder = {node, sizeof(node), false};
    encode_number(&encoder, (uint64_t)(rank / NODE_SIZE) + 7, 8);
    memset(blob, 'a' + rank % 26, sizeof(blob));
    ck_assert_int_eq(store_put(store, "env.node", node, sizeof(node), NULL), HVD_OK);
    ck_assert_int_eq(store_put(store, "blob", blob, sizeof(blob), NULL), HVD_OK);
}

static void get_blob(struct thread_rank *rank, int of)
{
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error err = {""};
    int rc = fence_client_get(rank->fence_client, of, "blob", clock_us() + WAIT_US, &blob, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    ck_assert_uint_eq(blob.length, BLOB_BYTES);
    ck_assert_int_eq(((char *)blob.bytes)[BLOB_BYTES - 1], 'a' + of % 26);
    free(blob.bytes);
}

/* Join, and get a blob of rank 0, and one of the first rank of the node, while rank 0 does nothing. */
static void *run_rank(void *arg)
{
    struct thread_rank *rank = arg;
    int64_t deadline_us = clock_us() + WAIT_US;
    struct hvd_error err = {""};
    struct wireup_blob blob = {NULL, 0};
    int *node = NULL;
    put_own(rank->store, rank->job.rank);
    int rc = fence_client_open(&rank->fence_client, &rank->job, deadline_us, &err);
    if (rc == HVD_OK)
        rc = fence_client_fence(rank->fence_client, rank->store, deadline_us, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    ck_assert_int_eq(fence_client_node_ranks(rank->fence_client, &node, &rank->node_count, &err), HVD_OK);
    rank->node_first = node[0];
    free(node);
    get_blob(rank, 0);
    get_blob(rank, rank->node_first);
    ck_assert_int_eq(fence_client_get(rank->fence_client, 0, "none", deadline_us, &blob, &err),
                     HVD_ERR_MISMATCH);
    ck_assert_str_eq(err.text, "rank 0 has put nothing under 'none'; do all ranks run the same hvd?");
    return NULL;
}

/* The bytes that this process has received on connections to [port]. */
static uint64_t received_bytes(const char *port)
{
    const long number = strtol(port, NULL, 10);
    uint64_t bytes = 0;
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in6 peer = {0};
        socklen_t length = sizeof(peer);
        struct tcp_info info = {0};
        socklen_t info_length = sizeof(info);
        if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && ntohs(peer.sin6_port) == number &&
            getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_length) == 0)
            bytes += info.tcpi_bytes_received;
    }
    return bytes;
}

/* Start a job of that size at a port that is reserved, or at a [listener] unless that is NULL. All its ranks
 * but 0 run [run]. Pass its first fence, and return rank 0's end. */
static struct fence_server *start_job(int size, const char *port, int *listener, void *(*run)(void *))
{
    struct fence_server *fence_server = NULL;
    struct hvd_error err = {""};
    for (int rank = 0; rank < size; rank++) {
        ranks[rank] = (struct thread_rank){.job = {.rank = rank, .size = size, .master_host = "127.0.0.1"},
                                           .store = store_create(size)};
        snprintf(ranks[rank].job.master_port, sizeof(ranks[rank].job.master_port), "%s", port);
    }
    put_own(ranks[0].store, 0);
    ranks[0].job.listener = listener;
    int rc = fence_server_open(&fence_server, &ranks[0].job, ranks[0].store, &err);
    for (int rank = 1; rank < size; rank++)
        ck_assert_int_eq(pthread_create(&ranks[rank].thread, NULL, run, &ranks[rank]), 0);
    if (rc == HVD_OK)
        rc = fence_server_fence(fence_server, clock_us() + WAIT_US, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    return fence_server;
}

/* How much rank 0 sends to each rank of a job of that size. */
static double bytes_of_a_rank(int size)
{
    char port[8];
    int reserved = job_reserve_port(port);
    struct fence_server *fence_server = start_job(size, port, NULL, run_rank);
    for (int rank = 1; rank < size; rank++)
        pthread_join(ranks[rank].thread, NULL);
    uint64_t bytes = received_bytes(port);
    for (int rank = 1; rank < size; rank++) {
        ck_assert_int_eq(ranks[rank].node_first, rank / NODE_SIZE * NODE_SIZE);
        ck_assert_int_eq(ranks[rank].node_count, NODE_SIZE);
        fence_client_close(ranks[rank].fence_client);
        store_destroy(ranks[rank].store);
    }
    fence_server_close(fence_server);
    store_destroy(ranks[0].store);
    close(reserved);
    return (double)bytes / (size - 1);
}

/* Before, it sent all that all ranks put to every rank. */
START_TEST(rank_0_sends_what_ranks_ask_for)
{
    double small = bytes_of_a_rank(8);
    double large = bytes_of_a_rank(MOST_RANKS);
    printf("# rank 0 sends %.0f bytes to each of 8 ranks, %.0f to each of %d\n", small, large, MOST_RANKS);
    ck_assert_double_gt(large, 2 * BLOB_BYTES);
    ck_assert_double_lt(large, 2 * BLOB_BYTES + 1000);
    ck_assert_double_lt(large, small * 1.02);
}
END_TEST

static _Atomic int rank_0;

/* Join, and ask when rank 0 has begun to leave. */
static void *ask_late(void *arg)
{
    struct thread_rank *rank = arg;
    struct hvd_error err = {""};
    int64_t deadline_us = clock_us() + WAIT_US;
    put_own(rank->store, rank->job.rank);
    int rc = fence_client_open(&rank->fence_client, &rank->job, deadline_us, &err);
    if (rc == HVD_OK)
        rc = fence_client_fence(rank->fence_client, rank->store, deadline_us, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    thread_await_sleep(&rank_0);
    get_blob(rank, 0);
    fence_client_close(rank->fence_client);
    return NULL;
}

/* As it does where the start has failed: the others have yet to read why. */
START_TEST(rank_0_serves_the_others_until_they_leave)
{
    char port[8];
    int reserved = job_reserve_port(port);
    struct fence_server *fence_server = start_job(2, port, NULL, ask_late);
    thread_note(&rank_0);
    fence_server_close(fence_server);
    pthread_join(ranks[1].thread, NULL);
    for (int rank = 0; rank < 2; rank++)
        store_destroy(ranks[rank].store);
    close(reserved);
}
END_TEST

/* A fence at a rank 0 that listens and does not come, of which news say that it is lost. */
START_TEST(news_end_the_wait)
{
    int news[2];
    struct hvd_error err = {""};
    struct fence_client *fence_client = NULL;
    struct store *store = store_create(2);
    int listener = listener_open(0);
    int64_t deadline_us = clock_us() + WAIT_US;
    struct env_job met = {.rank = 1, .size = 2, .master_host = "127.0.0.1", .news = &news[0]};
    ck_assert_int_eq(pipe(news), 0);
    snprintf(met.master_port, sizeof(met.master_port), "%u", listener_port(listener));
    ck_assert_int_eq(fence_client_open(&fence_client, &met, deadline_us, &err), HVD_OK);
    ck_assert_int_eq(write(news[1], "", 1), 1);
    ck_assert_int_eq(fence_client_fence(fence_client, store, deadline_us, &err), HVD_ERR_RANK_LOST);
    ck_assert_int_lt(clock_us(), deadline_us);
    fence_client_close(fence_client);
    store_destroy(store);
    close(listener);
    close(news[0]);
    close(news[1]);
}
END_TEST

static void join_once(struct thread_rank *rank)
{
    struct hvd_error err = {""};
    struct store *store = store_create(rank->job.size);
    int64_t deadline_us = clock_us() + WAIT_US;
    put_own(store, rank->job.rank);
    int rc = fence_client_open(&rank->fence_client, &rank->job, deadline_us, &err);
    if (rc == HVD_OK)
        rc = fence_client_fence(rank->fence_client, store, deadline_us, &err);
    ck_assert_msg(rc == HVD_OK, "rank %d: %s", rank->job.rank, err.text);
    store_destroy(store);
}

/* Rank 1 comes to two starts, one right after the other; rank 2 to one. */
static void *run_hasty(void *arg)
{
    struct thread_rank *rank = arg;
    join_once(rank);
    if (rank->job.rank == 1) {
        fence_client_close(rank->fence_client);
        join_once(rank);
    }
    return NULL;
}

static void end_ranks(int size, struct fence_server *fence_server)
{
    for (int rank = 1; rank < size; rank++) {
        pthread_join(ranks[rank].thread, NULL);
        fence_client_close(ranks[rank].fence_client);
    }
    fence_server_close(fence_server);
    for (int rank = 0; rank < size; rank++)
        store_destroy(ranks[rank].store);
}

/* As in jobs of parts of the ranks, whose ranks do not wait for rank 0 if that is in another part. */
START_TEST(a_rank_may_come_to_the_next_start_before_rank_0_has_ended_this_one)
{
    char port[8];
    struct sockaddr_in6 address;
    socklen_t length = sizeof(address);
    struct hvd_error err = {""};
    int listener = listener_open(0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    snprintf(port, sizeof(port), "%u", ntohs(address.sin6_port));
    struct fence_server *fence_server = start_job(3, port, &listener, run_hasty);
    pthread_join(ranks[2].thread, NULL);
    struct pollfd next = {.fd = listener, .events = POLLIN};
    ck_assert_int_eq(poll(&next, 1, WAIT_US / 1000), 1);
    get_blob(&ranks[2], 0); /* rank 0 looks at all its connections */
    get_blob(&ranks[2], 0);
    ck_assert_int_eq(poll(&next, 1, 0), 1); /* and leaves this one where it is */
    fence_client_close(ranks[2].fence_client);
    fence_server_close(fence_server);
    store_destroy(ranks[0].store);
    ranks[0].store = store_create(3);
    put_own(ranks[0].store, 0);
    int rc = fence_server_open(&fence_server, &ranks[0].job, ranks[0].store, &err);
    ck_assert_int_eq(pthread_create(&ranks[2].thread, NULL, run_hasty, &ranks[2]), 0);
    if (rc == HVD_OK)
        rc = fence_server_fence(fence_server, clock_us() + WAIT_US, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    end_ranks(3, fence_server);
    close(listener);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *job_case = tcase_create("job");
    tcase_set_timeout(job_case, 60);
    tcase_add_test(job_case, a_silent_listener_is_not_waited_for);
    tcase_add_test(job_case, rank_0_sends_what_ranks_ask_for);
    tcase_add_test(job_case, rank_0_serves_the_others_until_they_leave);
    tcase_add_test(job_case, news_end_the_wait);
    tcase_add_test(job_case, a_rank_may_come_to_the_next_start_before_rank_0_has_ended_this_one);
    suite_add_tcase(suite, job_case);
    TCase *tcase = tcase_create("descriptors");
    tcase_add_test(tcase, rank_0_cannot_listen);
    tcase_add_test(tcase, another_rank_cannot_connect);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    if (sodium_init() < 0)
        return EXIT_FAILURE;
    return unit_run("env_fence", fill);
}
