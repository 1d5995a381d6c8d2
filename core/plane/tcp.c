/* tcp.c: the plane between any ranks that reach each other by TCP: a ring of connections. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plane/stream.h"

/* Large enough that a call into the kernel is cheap beside it, small enough to stay in the second-level cache
 * between receiving, adding and sending. */
#define CHUNK_BYTES ((int64_t)256 * 1024)

static bool tcp_available(const struct plane_env *env, const char **whyp)
{
    *whyp = "the job has one rank";
    return env->job->size > 1;
}

/* The endpoint gives connections a user time-out. On the one that we send on it would mean the wrong thing:
 * it also fires when the other end answers but reads nothing for that long, and a rank that is stopped or
 * deep in a callback is not lost. A cut link shows at its other end, where nothing is ever in flight and
 * keepalive asks; a dead node shows in the control tree. */
static int let_it_wait(int fd, struct hvd_error *err)
{
    unsigned int never = 0;
    if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof(never)) < 0)
        return error_set_errno(err, "plane tcp: TCP_USER_TIMEOUT");
    return HVD_OK;
}

/* Early, at hvd_init: two connections a rank cost little, everybody is there, and what is wrong with the
 * network is said before the program has begun to work. */
static int tcp_open(const struct plane_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    int rank = env->job->rank;
    int size = env->job->size;
    struct stream *stream = NULL;
    struct endpoint_want wants[2] = {
        {.rank = (rank + 1) % size, .purpose = ENDPOINT_RING, .connect = true, .fd = -1},
        {.rank = (rank + size - 1) % size, .purpose = ENDPOINT_RING, .connect = false, .fd = -1},
    };
    int status = endpoint_establish(env->endpoint, env->roster, wants, 2, deadline_us, err);
    if (status < 0)
        return status;
    struct stream_seat seat = {
        .rank = rank,
        .size = size,
        .chunk_bytes = CHUNK_BYTES,
        .next = {.rank = wants[0].rank, .fd = wants[0].fd},
        .previous = {.rank = wants[1].rank, .fd = wants[1].fd},
        .epoll_fd = env->epoll_fd,
    };
    roster_name(env->roster, seat.next.rank, seat.next.name, sizeof(seat.next.name));
    roster_name(env->roster, seat.previous.rank, seat.previous.name, sizeof(seat.previous.name));
    status = stream_open(&stream, &seat, err);
    if (status < 0)
        return status;
    status = let_it_wait(seat.next.fd, err);
    if (status < 0) {
        stream_close(stream);
        return status;
    }
    *statep = stream;
    return HVD_OK;
}

static int tcp_start(void *state, const struct plane_batch *batch, struct hvd_error *err)
{
    return stream_start(state, batch, err);
}

static int tcp_test(void *state, bool *movedp, int *rankp, struct hvd_error *err)
{
    return stream_test(state, movedp, rankp, err);
}

static void tcp_after_fork(void *state)
{
    stream_after_fork(state);
}

static void tcp_close(void *state)
{
    stream_close(state);
}

const struct plane_ops plane_tcp = {
    .id = PLANE_TCP,
    .available = tcp_available,
    .open = tcp_open,
    .opens_early = true,
    .polled = false,
    .can = chain_can,
    .start = tcp_start,
    .test = tcp_test,
    .after_fork = tcp_after_fork,
    .close = tcp_close,
};
