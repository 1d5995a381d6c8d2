/* env_fence_client.c: the end of the env provider's fence on ranks other than 0: connect, send the page,
 * receive everyone's. */
#include "config.h"
#include "pmix_shim/env_fence.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

/* Rank 0 may not have started to listen: ask again this often, for one address this long. */
#define RETRY_US   INT64_C(50000)
#define ADDRESS_US INT64_C(3000000)

struct spoke {
    const struct env_job *job;
    struct addrinfo *addresses;
    struct channel channel; /* fd is -1 until it is connected and welcome */
    uint32_t fence;
};

int spoke_open(struct spoke **spokep, const struct env_job *job, struct hvd_error *err)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct spoke *spoke = calloc(1, sizeof(*spoke));
    if (spoke == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    spoke->job = job;
    spoke->channel.fd = -1;
    int rc = getaddrinfo(job->master_host, job->master_port, &hints, &spoke->addresses);
    if (rc != 0) {
        error_set(err, HVD_ERR_INVALID, "MASTER_ADDR=%s: %s; give the name or address of rank 0's node",
                  job->master_host, gai_strerror(rc));
        spoke_close(spoke);
        return HVD_ERR_INVALID;
    }
    *spokep = spoke;
    return HVD_OK;
}

void spoke_close(struct spoke *spoke)
{
    if (spoke == NULL)
        return;
    channel_fini(&spoke->channel);
    if (spoke->addresses != NULL)
        freeaddrinfo(spoke->addresses);
    free(spoke);
}

/* ---- Connect ---------------------------------------------------------------------------------- */

/* On loopback a connection to a port where nobody listens can meet itself. */
static bool met_itself(int fd)
{
    struct sockaddr_storage own = {0};
    struct sockaddr_storage peer = {0};
    socklen_t own_length = sizeof(own);
    socklen_t peer_length = sizeof(peer);
    return getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 && own_length == peer_length &&
           memcmp(&own, &peer, own_length) == 0;
}

/* A connected socket, or -1 with errno. */
static int try_connect(const struct addrinfo *address, int64_t deadline_us)
{
    const int on = 1;
    int problem = 0;
    socklen_t length = sizeof(problem);
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, address->ai_addr, address->ai_addrlen) < 0) {
        problem = errno;
        if (problem == EINPROGRESS) {
            struct pollfd poller = {.fd = fd, .events = POLLOUT};
            problem = ETIMEDOUT;
            if (poll(&poller, 1, clock_ms_until(deadline_us)) == 1)
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
        }
    }
    if (problem == 0 && met_itself(fd))
        problem = ECONNREFUSED;
    if (problem == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return fd;
    }
    close(fd);
    errno = problem;
    return -1;
}

/* Say hello on [fd] and wait for the welcome: rank 0 gives it once it is in its fence itself. */
static int shake_hands(struct spoke *spoke, int fd, int64_t deadline_us, struct hvd_error *why)
{
    const struct env_job *job = spoke->job;
    const struct channel_id id = {job->epoch, (uint32_t)job->size, (uint32_t)job->rank};
    channel_init(&spoke->channel, fd, job->key);
    int rc = channel_hello(&spoke->channel, &id, why);
    if (rc == HVD_OK)
        rc = channel_await_welcome(&spoke->channel, why);
    while (rc == HVD_IN_PROGRESS && clock_us() < deadline_us) {
        wait_for(fd, (short)(spoke->channel.out.length > 0 ? POLLIN | POLLOUT : POLLIN), deadline_us);
        rc = channel_await_welcome(&spoke->channel, why);
    }
    return rc;
}

static int connect_to_hub(struct spoke *spoke, int64_t deadline_us, struct hvd_error *err)
{
    const struct env_job *job = spoke->job;
    struct hvd_error why = {""};
    int problem = 0;
    while (clock_us() < deadline_us) {
        for (const struct addrinfo *address = spoke->addresses; address != NULL; address = address->ai_next) {
            int64_t limit_us = clock_us() + ADDRESS_US;
            int fd = try_connect(address, limit_us < deadline_us ? limit_us : deadline_us);
            if (fd < 0) {
                problem = errno;
                continue;
            }
            int rc = shake_hands(spoke, fd, deadline_us, &why);
            if (rc == HVD_OK)
                return rc;
            channel_fini(&spoke->channel);
            if (rc == HVD_IN_PROGRESS)
                return error_set(
                    err, HVD_ERR_TIMEOUT,
                    "rank 0 at %s port %s did not answer in time; has it started, and is the port its own? "
                    "--hvd-start-timeout waits longer",
                    job->master_host, job->master_port);
            if (rc != HVD_ERR_SYSTEM) /* else the connection broke: rank 0 of an earlier start was leaving */
                return error_set(
                    err, HVD_ERR_INVALID,
                    "rank 0 at %s port %s refused this rank (%s): HVD_JOB_KEY, HVD_EPOCH, MASTER_ADDR and "
                    "MASTER_PORT must be the same on all ranks",
                    job->master_host, job->master_port, why.text);
            problem = ECONNRESET;
        }
        int64_t again_us = clock_us() + RETRY_US;
        wait_for(-1, 0, again_us < deadline_us ? again_us : deadline_us);
    }
    return error_set(
        err, HVD_ERR_TIMEOUT,
        "rank 0 cannot be reached at %s port %s: %s; has it started? --hvd-start-timeout waits longer",
        job->master_host, job->master_port, strerror(problem));
}

/* ---- Fence ------------------------------------------------------------------------------------ */

/* The sentence by which rank 0 gives up. */
static int pass_on_failure(const struct message *message, struct hvd_error *err)
{
    int status =
        message->number >= 1 && message->number <= -HVD_ERR_SYSTEM ? -(int)message->number : HVD_ERR_SYSTEM;
    char text[400];
    size_t length = message->length < sizeof(text) - 1 ? message->length : sizeof(text) - 1;
    memcpy(text, message->bytes, length);
    text[length] = 0;
    return error_set(err, status, "rank 0 gave up: %s", text);
}

/* The pages of all ranks, in their order. */
static int receive_pages(struct spoke *spoke, struct store *store, int64_t deadline_us, struct hvd_error *err)
{
    struct channel *channel = &spoke->channel;
    struct message message;
    struct hvd_error why = {""};
    for (uint32_t rank = 0; rank < (uint32_t)spoke->job->size;) {
        int rc = channel_flush(channel, &why);
        if (rc >= 0)
            rc = message_receive(channel, &message, &why);
        if (rc == HVD_IN_PROGRESS && clock_us() < deadline_us) {
            wait_for(channel->fd, (short)(channel->out.length > 0 ? POLLIN | POLLOUT : POLLIN), deadline_us);
            continue;
        }
        if (rc == HVD_IN_PROGRESS)
            return error_set(err, HVD_ERR_TIMEOUT,
                             "rank 0 did not answer in time, as not all ranks have joined; "
                             "--hvd-start-timeout waits longer");
        if (rc == HVD_OK && message.kind == MESSAGE_FAIL)
            return pass_on_failure(&message, err);
        if (rc == HVD_OK &&
            (message.kind != MESSAGE_PAGE || message.number != spoke->fence || message.rank != rank))
            rc = error_set(&why, HVD_ERR_MISMATCH,
                           "it sent the page of rank %u in fence %u; expected rank %u in fence %u",
                           message.rank, message.number, rank, spoke->fence);
        if (rc == HVD_OK)
            rc = store_merge(store, (int)rank, message.bytes, message.length, &why);
        if (rc != HVD_OK)
            return error_set(err, rc == HVD_ERR_SYSTEM ? HVD_ERR_RANK_LOST : rc, "rank 0 at %s port %s: %s",
                             spoke->job->master_host, spoke->job->master_port, why.text);
        rank++;
    }
    return HVD_OK;
}

int spoke_fence(struct spoke *spoke, struct store *store, int64_t deadline_us, struct hvd_error *err)
{
    size_t length = 0;
    const void *page = store_page(store, &length);
    struct message message = {MESSAGE_PAGE, ++spoke->fence, (uint32_t)spoke->job->rank, page, length};
    int rc = spoke->channel.fd < 0 ? connect_to_hub(spoke, deadline_us, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    struct hvd_error why = {""};
    rc = message_send(&spoke->channel, &message, &why);
    if (rc != HVD_OK)
        return error_set(err, rc == HVD_ERR_SYSTEM ? HVD_ERR_RANK_LOST : rc, "rank 0 at %s port %s: %s",
                         spoke->job->master_host, spoke->job->master_port, why.text);
    rc = receive_pages(spoke, store, deadline_us, err);
    if (rc == HVD_OK)
        store_forget_page(store);
    return rc;
}
