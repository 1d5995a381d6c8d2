/* tcp_bruck.c: small batches over the sockets of bruck.h's schedule. */
#include "backend/tcp/tcp_bruck.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "backend/tcp/tcp_failure.h"
#include "backend/tcp/fragment.h"

struct tcp_bruck {
    int epoll_fd;
    const struct tcp_watch *watch;
    int step_count;
    struct tcp_bruck_peer to[BRUCK_MAX_STEPS], from[BRUCK_MAX_STEPS]; /* by step */
    struct bruck bruck;
    struct fragment_out out;
    struct fragment_expected in;
    bool expecting; /* [in] is set up for the next message */
    struct tcp_failure failure;
};

static void close_all(const struct tcp_bruck_peer *self, int count)
{
    for (int i = 0; i < count; i++)
        close(self[i].fd);
}

int tcp_bruck_open(struct tcp_bruck **bruckp, const struct tcp_bruck_params *params, struct hvd_error *err)
{
    int step_count = bruck_step_count(params->size);
    struct tcp_bruck *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        int status = error_set_errno(err, "backend tcp: no memory for %zu bytes", sizeof(*self));
        close_all(params->to, step_count);
        close_all(params->from, step_count);
        return status;
    }
    self->epoll_fd = params->epoll_fd;
    self->watch = params->watch;
    self->step_count = step_count;
    memcpy(self->to, params->to, (size_t)step_count * sizeof(*params->to));
    memcpy(self->from, params->from, (size_t)step_count * sizeof(*params->from));
    int status = bruck_init(&self->bruck, params->rank, params->size, params->shares_nodes, err);
    for (int step = 0; step < step_count && status == HVD_OK; step++) {
        status = fragment_watch(params->epoll_fd, self->to[step].fd, EPOLLOUT, err);
        if (status == HVD_OK)
            status = fragment_watch(params->epoll_fd, self->from[step].fd, EPOLLIN, err);
    }
    if (status != HVD_OK) {
        tcp_bruck_close(self);
        return status;
    }
    *bruckp = self;
    return HVD_OK;
}

/* ---- One step ------------------------------------------------------------------------------- */

static struct fragment_context context_of(const struct tcp_bruck *self, const struct tcp_bruck_peer *peer)
{
    return (struct fragment_context){peer->name, self->bruck.batch.sequence, self->watch};
}

static int bruck_lost(const struct tcp_bruck *self, const struct tcp_bruck_peer *peer, struct hvd_error *err)
{
    struct fragment_context context = context_of(self, peer);
    return fragment_lost(&context, peer->fd, err);
}

/* Send what is ready. An error is about *rankp. */
static int send_some(struct tcp_bruck *self, bool *movedp, int *rankp, struct hvd_error *err)
{
    struct fragment_out *out = &self->out;
    struct bruck_message message;
    while (bruck_next(&self->bruck, BRUCK_SEND, &message)) {
        const struct tcp_bruck_peer *to = &self->to[message.step];
        *rankp = to->rank;
        if (!out->active)
            fragment_pack(out, FRAGMENT_BRUCK, self->bruck.batch.sequence, (uint64_t)message.step,
                          message.bytes, message.length);
        if (fragment_send(out, to->fd, tcp_watch_seal(self->watch, to->fd), movedp) < 0)
            return bruck_lost(self, to, err);
        if (out->active)
            break;
        bruck_message_done(&self->bruck, BRUCK_SEND);
    }
    return HVD_OK;
}

static int check_message(const struct tcp_bruck *self, const struct bruck_message *due, struct hvd_error *err)
{
    struct fragment_context context = context_of(self, &self->from[due->step]);
    return fragment_check(&self->in.header, FRAGMENT_BRUCK, (uint64_t)due->step, due->length, &context, err);
}

/* Receive what is due next. An error is about *rankp. */
static int receive_some(struct tcp_bruck *self, bool *movedp, int *rankp, struct hvd_error *err)
{
    struct fragment_expected *in = &self->in;
    struct bruck_message due;
    int status = HVD_OK;
    if (!bruck_next(&self->bruck, BRUCK_RECEIVE, &due))
        return HVD_OK;
    const struct tcp_bruck_peer *from = &self->from[due.step];
    *rankp = from->rank;
    if (!self->expecting)
        fragment_expect(in, due.bytes, due.length);
    self->expecting = true;
    if (fragment_receive_expected(in, from->fd, tcp_watch_seal(self->watch, from->fd), movedp) < 0)
        return bruck_lost(self, from, err);
    if (fragment_expected_has_header(in))
        status = check_message(self, &due, err);
    if (status < 0 || !fragment_expected_arrived(in))
        return status;
    self->expecting = false;
    bruck_message_done(&self->bruck, BRUCK_RECEIVE);
    return HVD_OK;
}

/* ---- Batches -------------------------------------------------------------------------------- */

int tcp_bruck_start(struct tcp_bruck *self, const struct backend_batch *batch, struct hvd_error *err)
{
    if (self->failure.status != HVD_OK)
        return tcp_failure_repeat(&self->failure, NULL, err);
    bruck_start(&self->bruck, batch);
    return HVD_OK;
}

/* Go on as long as something arrives: only that makes more messages ready to send. */
static int bruck_progress(struct tcp_bruck *self, bool *movedp, int *rankp)
{
    int64_t end_us = clock_us() + FRAGMENT_SLICE_US;
    bool received;
    do {
        received = false;
        int status = send_some(self, movedp, rankp, &self->failure.err);
        if (status == HVD_OK)
            status = receive_some(self, &received, rankp, &self->failure.err);
        if (status < 0)
            return status;
        *movedp = *movedp || received;
    } while (received && bruck_left(&self->bruck) && clock_us() < end_us);
    return bruck_left(&self->bruck) ? HVD_IN_PROGRESS : HVD_OK;
}

int tcp_bruck_test(struct tcp_bruck *self, bool *movedp, int *rankp, struct hvd_error *err)
{
    int rank = -1;
    *movedp = false;
    if (self->failure.status != HVD_OK)
        return tcp_failure_repeat(&self->failure, rankp, err);
    int status = bruck_progress(self, movedp, &rank);
    return tcp_failure_check(&self->failure, status, rank, rankp, err);
}

int tcp_bruck_waits_for(const struct tcp_bruck *self)
{
    struct bruck_message message;
    if (self->out.active && bruck_next(&self->bruck, BRUCK_SEND, &message))
        return self->to[message.step].rank;
    return bruck_next(&self->bruck, BRUCK_RECEIVE, &message) ? self->from[message.step].rank : -1;
}

void tcp_bruck_after_fork(struct tcp_bruck *self)
{
    if (self == NULL)
        return;
    close_all(self->to, self->step_count);
    close_all(self->from, self->step_count);
}

void tcp_bruck_close(struct tcp_bruck *self)
{
    if (self == NULL)
        return;
    for (int step = 0; step < self->step_count; step++) {
        fragment_unwatch(self->epoll_fd, self->to[step].fd);
        fragment_unwatch(self->epoll_fd, self->from[step].fd);
    }
    tcp_bruck_after_fork(self);
    bruck_fini(&self->bruck);
    free(self);
}
