/* endpoint_threads.h: ranks that are threads of a test, with endpoints on loopback, one key, and what was
 * logged. */
#ifndef TESTS_UNIT_ENDPOINT_THREADS_H
#define TESTS_UNIT_ENDPOINT_THREADS_H

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/establishment.h"
#include "open_descriptors.h"
#include "unit.h"

#define MAX_RANKS 8
#define SECOND    INT64_C(1000000)
#ifndef LEASE_US /* a test may choose its own */
#define LEASE_US (5 * SECOND)
#endif

/* One rank, and the result of its endpoint_establish. */
struct endpoint_thread {
    struct endpoint *endpoint;
    struct peer_table peer_table;
    struct peer peers[MAX_RANKS];
    struct endpoint_connection wants[MAX_RANKS];
    int want_count;
    int64_t limit_us;
    pthread_t thread;
    int rc;
    struct hvd_error err;
};

static struct endpoint_thread members[MAX_RANKS];
static int size;

/* The lines that were logged, and the condition to wait for them. */
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t lines_grew = PTHREAD_COND_INITIALIZER;
static char lines[16384];

static inline void record_line(void *arg, enum log_level level, const char *component, const char *line)
{
    (void)arg;
    pthread_mutex_lock(&lines_lock);
    size_t used = strlen(lines);
    snprintf(lines + used, sizeof(lines) - used, "%d %s: %s\n", (int)level, component, line);
    pthread_cond_broadcast(&lines_grew);
    pthread_mutex_unlock(&lines_lock);
}

static const struct hvd_log log_all = {LOG_DEBUG, record_line, NULL};

static inline void await_line(const char *part)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 10;
    pthread_mutex_lock(&lines_lock);
    int rc = 0;
    while (strstr(lines, part) == NULL && rc == 0)
        rc = pthread_cond_timedwait(&lines_grew, &lines_lock, &limit);
    pthread_mutex_unlock(&lines_lock);
    ck_assert_msg(rc == 0, "no line with \"%s\" in:\n%s", part, lines);
}

/* Open [count] ranks on loopback that know each other's addresses and share a key. */
static inline void open_ranks(int count)
{
    unsigned char key[JOB_KEY_BYTES];
    size = count;
    for (int rank = 0; rank < size; rank++)
        ck_assert_int_eq(endpoint_open(&members[rank].endpoint, LEASE_US, &log_all, NULL), HVD_OK);
    randombytes_buf(key, sizeof(key));
    for (int rank = 0; rank < size; rank++) {
        struct endpoint_thread *member = &members[rank];
        member->peer_table =
            (struct peer_table){.rank = rank, .size = size, .epoch = 3, .peers = member->peers};
        memcpy(member->peer_table.key, key, sizeof(key));
        member->limit_us = 10 * SECOND;
        member->want_count = 0;
        for (int i = 0; i < size; i++) {
            struct peer *peer = &member->peers[i];
            snprintf(peer->host, sizeof(peer->host), "n%d", i);
            peer->port = peer->message_port = endpoint_port(members[i].endpoint);
            peer->address_count = 1;
            inet_pton(AF_INET6, "::ffff:127.0.0.1", &peer->addresses[0]);
        }
    }
}

static inline void close_ranks(void)
{
    for (int rank = 0; rank < size; rank++) {
        for (int i = 0; i < members[rank].want_count; i++)
            if (members[rank].wants[i].fd >= 0)
                close(members[rank].wants[i].fd);
        endpoint_close(members[rank].endpoint);
    }
}

static inline void want(int rank, int peer, enum endpoint_purpose purpose, bool connect)
{
    struct endpoint_thread *member = &members[rank];
    member->wants[member->want_count++] =
        (struct endpoint_connection){.rank = peer, .purpose = purpose, .connect = connect, .fd = 99};
}

static inline void *establish(void *arg)
{
    struct endpoint_thread *member = arg;
    member->rc = endpoint_establish(member->endpoint, &member->peer_table, member->wants, member->want_count,
                                    clock_us() + member->limit_us, &member->err);
    return NULL;
}

static inline void start(int rank)
{
    ck_assert_int_eq(pthread_create(&members[rank].thread, NULL, establish, &members[rank]), 0);
}

static inline void finish(int rank)
{
    ck_assert_int_eq(pthread_join(members[rank].thread, NULL), 0);
}

static inline void expect_done(int rank)
{
    ck_assert_msg(members[rank].rc == HVD_OK, "rank %d: %s", rank, members[rank].err.text);
}

static inline void expect_timeout(int rank, const char *sentence)
{
    ck_assert_int_eq(members[rank].rc, HVD_ERR_TIMEOUT);
    ck_assert_msg(strstr(members[rank].err.text, sentence) != NULL, "%s", members[rank].err.text);
    for (int i = 0; i < members[rank].want_count; i++)
        ck_assert_int_eq(members[rank].wants[i].fd, -1);
}

/* Check that each of the two reads exactly what the other writes. */
static inline void check_pair(int a, int b)
{
    char byte = 'x', heard[2] = "";
    struct pollfd pollfd = {.fd = b, .events = POLLIN};
    ck_assert_int_eq(send(a, &byte, 1, MSG_NOSIGNAL), 1);
    ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
    ck_assert_int_eq(recv(b, heard, sizeof(heard), 0), 1);
    ck_assert_int_eq(heard[0], byte);
}

static inline void want_tagged(int rank, int peer, uint32_t tag, bool connect)
{
    want(rank, peer, ENDPOINT_CHAIN, connect);
    members[rank].wants[members[rank].want_count - 1].tag = tag;
}

/* The address that a rank connected to. */
static inline void expect_address(int fd, const char *text)
{
    char found[INET_ADDRSTRLEN];
    struct sockaddr_in address;
    socklen_t length = sizeof(address);
    ck_assert_int_eq(getpeername(fd, (struct sockaddr *)&address, &length), 0);
    ck_assert_ptr_nonnull(inet_ntop(AF_INET, &address.sin_addr, found, sizeof(found)));
    ck_assert_str_eq(found, text);
}

#endif
