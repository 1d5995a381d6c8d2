/* tcp_bruck.c: small batches over stream sockets, from each member of a team to those 1, 2, 4, 8 and so on
 * behind it on the ring. */
#include "backend/tcp/tcp_bruck.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "backend/tcp/fragment.h"

struct tcp_bruck {
    int epoll_fd;
    int step_count;
    struct tcp_bruck_peer to[BRUCK_MAX_STEPS], from[BRUCK_MAX_STEPS]; /* by step */
    struct bruck bruck;
    struct fragment_out out;
    struct fragment_expected in;
    bool listens; /* [in] has been told what comes next */
    int failed;   /* the status of the error that ended it, or HVD_OK */
    int failed_rank;
    struct hvd_error failure;
};

static void close_all(const struct tcp_bruck_peer *tcp_bruck, int count)
{
    for (int i = 0; i < count; i++)
        close(tcp_bruck[i].fd);
}

int tcp_bruck_open(struct tcp_bruck **chordsp, const struct tcp_bruck_params *params, struct hvd_error *err)
{
    int step_count = bruck_step_count(params->size);
    struct tcp_bruck *tcp_bruck = calloc(1, sizeof(*tcp_bruck));
    if (tcp_bruck == NULL) {
        int status = error_set_errno(err, "backend tcp: no memory for %zu bytes", sizeof(*tcp_bruck));
        close_all(params->to, step_count);
        close_all(params->from, step_count);
        return status;
    }
    tcp_bruck->epoll_fd = params->epoll_fd;
    tcp_bruck->step_count = step_count;
    memcpy(tcp_bruck->to, params->to, (size_t)step_count * sizeof(*params->to));
    memcpy(tcp_bruck->from, params->from, (size_t)step_count * sizeof(*params->from));
    int status = bruck_init(&tcp_bruck->bruck, params->rank, params->size, params->crowded, err);
    for (int step = 0; step < step_count && status == HVD_OK; step++) {
        status = fragment_watch(params->epoll_fd, tcp_bruck->to[step].fd, EPOLLOUT, err);
        if (status == HVD_OK)
            status = fragment_watch(params->epoll_fd, tcp_bruck->from[step].fd, EPOLLIN, err);
    }
    if (status != HVD_OK) {
        tcp_bruck_close(tcp_bruck);
        return status;
    }
    *chordsp = tcp_bruck;
    return HVD_OK;
}

/* ---- One step ------------------------------------------------------------------------------- */

static struct fragment_context context_of(const struct tcp_bruck *tcp_bruck,
                                          const struct tcp_bruck_peer *peer)
{
    return (struct fragment_context){peer->name, tcp_bruck->bruck.batch.sequence};
}

static int lost(const struct tcp_bruck *tcp_bruck, const struct tcp_bruck_peer *peer, struct hvd_error *err)
{
    struct fragment_context context = context_of(tcp_bruck, peer);
    return fragment_lost(&context, err);
}

/* Send what may go. An error is about *rankp. */
static int send_some(struct tcp_bruck *tcp_bruck, bool *movedp, int *rankp, struct hvd_error *err)
{
    struct fragment_out *out = &tcp_bruck->out;
    struct bruck_message piece;
    while (bruck_next(&tcp_bruck->bruck, BRUCK_SEND, &piece)) {
        const struct tcp_bruck_peer *to = &tcp_bruck->to[piece.step];
        *rankp = to->rank;
        if (!out->active)
            fragment_pack(out, FRAGMENT_BRUCK, tcp_bruck->bruck.batch.sequence, (uint64_t)piece.step,
                          piece.bytes, piece.length);
        if (fragment_send(out, to->fd, movedp) < 0)
            return lost(tcp_bruck, to, err);
        if (out->active)
            break;
        bruck_message_done(&tcp_bruck->bruck, BRUCK_SEND);
    }
    return HVD_OK;
}

static int check(const struct tcp_bruck *tcp_bruck, const struct bruck_message *due, struct hvd_error *err)
{
    const struct fragment_header *header = &tcp_bruck->in.header;
    struct fragment_context context = context_of(tcp_bruck, &tcp_bruck->from[due->step]);
    int status = fragment_check_batch(header, &context, err);
    if (status < 0)
        return status;
    if (header->kind != FRAGMENT_BRUCK)
        return fragment_refuse_kind(header, &context, err);
    return fragment_check_chunk(header, (uint64_t)due->step, due->length, &context, err);
}

/* Receive what is due next. An error is about *rankp. */
static int receive_some(struct tcp_bruck *tcp_bruck, bool *movedp, int *rankp, struct hvd_error *err)
{
    struct fragment_expected *in = &tcp_bruck->in;
    struct bruck_message due;
    int status = HVD_OK;
    if (!bruck_next(&tcp_bruck->bruck, BRUCK_RECEIVE, &due))
        return HVD_OK;
    const struct tcp_bruck_peer *from = &tcp_bruck->from[due.step];
    *rankp = from->rank;
    if (!tcp_bruck->listens)
        fragment_expect(in, due.bytes, due.length);
    tcp_bruck->listens = true;
    if (fragment_receive_expected(in, from->fd, movedp) < 0)
        return lost(tcp_bruck, from, err);
    if (fragment_expected_has_header(in))
        status = check(tcp_bruck, &due, err);
    if (status < 0 || !fragment_expected_arrived(in))
        return status;
    tcp_bruck->listens = false;
    bruck_message_done(&tcp_bruck->bruck, BRUCK_RECEIVE);
    return HVD_OK;
}

/* ---- Batches -------------------------------------------------------------------------------- */

static int repeat_failure(const struct tcp_bruck *tcp_bruck, struct hvd_error *err)
{
    return error_set(err, tcp_bruck->failed, "%s", tcp_bruck->failure.text);
}

int tcp_bruck_start(struct tcp_bruck *tcp_bruck, const struct backend_batch *batch, struct hvd_error *err)
{
    if (tcp_bruck->failed != HVD_OK)
        return repeat_failure(tcp_bruck, err);
    bruck_start(&tcp_bruck->bruck, batch);
    return HVD_OK;
}

/* As long as something comes; what comes is what lets more go. */
static int progress(struct tcp_bruck *tcp_bruck, bool *movedp, int *rankp)
{
    int64_t end_us = clock_us() + FRAGMENT_SLICE_US;
    bool received;
    do {
        received = false;
        int status = send_some(tcp_bruck, movedp, rankp, &tcp_bruck->failure);
        if (status == HVD_OK)
            status = receive_some(tcp_bruck, &received, rankp, &tcp_bruck->failure);
        if (status < 0)
            return status;
        *movedp = *movedp || received;
    } while (received && bruck_left(&tcp_bruck->bruck) && clock_us() < end_us);
    return bruck_left(&tcp_bruck->bruck) ? HVD_IN_PROGRESS : HVD_OK;
}

int tcp_bruck_test(struct tcp_bruck *tcp_bruck, bool *movedp, int *rankp, struct hvd_error *err)
{
    int rank = -1;
    *movedp = false;
    if (tcp_bruck->failed == HVD_OK) {
        int status = progress(tcp_bruck, movedp, &rank);
        if (status >= 0)
            return status;
        tcp_bruck->failed = status;
        tcp_bruck->failed_rank = rank;
    }
    *rankp = tcp_bruck->failed_rank;
    return repeat_failure(tcp_bruck, err);
}

void tcp_bruck_after_fork(struct tcp_bruck *tcp_bruck)
{
    if (tcp_bruck == NULL)
        return;
    close_all(tcp_bruck->to, tcp_bruck->step_count);
    close_all(tcp_bruck->from, tcp_bruck->step_count);
}

void tcp_bruck_close(struct tcp_bruck *tcp_bruck)
{
    if (tcp_bruck == NULL)
        return;
    for (int step = 0; step < tcp_bruck->step_count; step++) {
        fragment_unwatch(tcp_bruck->epoll_fd, tcp_bruck->to[step].fd);
        fragment_unwatch(tcp_bruck->epoll_fd, tcp_bruck->from[step].fd);
    }
    tcp_bruck_after_fork(tcp_bruck);
    bruck_fini(&tcp_bruck->bruck);
    free(tcp_bruck);
}
