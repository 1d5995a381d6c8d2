/* tcp_pairwise.c: alltoalls over one socket to each other member of a team. */
#include "backend/tcp/tcp_pairwise.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "backend/tcp/tcp_failure.h"
#include "backend/tcp/fragment.h"
#include "net/peer_table.h"

struct tcp_pairwise {
    const struct team *team;
    const struct peer_table *peer_table;
    int epoll_fd;
    const struct tcp_watch *watch;
    int *fds; /* by member */
    struct pairwise pairwise;
    struct fragment_out outs[PAIRWISE_LANES];
    struct fragment_in ins[PAIRWISE_LANES];
    unsigned turn; /* the busy lane to begin a round with, so that none starves */
    struct tcp_failure failure;
};

int tcp_pairwise_open(struct tcp_pairwise **pairwisep, const struct tcp_pairwise_params *params,
                      const int *fds, struct hvd_error *err)
{
    int status = HVD_OK;
    int size = params->team->size;
    struct tcp_pairwise *self = calloc(1, sizeof(*self));
    int *copy = calloc((size_t)size, sizeof(*copy));
    if (self == NULL || copy == NULL) {
        status = error_set_errno(err, "backend tcp: no memory for the connections of %d ranks", size);
        for (int i = 0; i < size; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        free(self);
        free(copy);
        return status;
    }
    memcpy(copy, fds, (size_t)size * sizeof(*copy));
    self->team = params->team;
    self->peer_table = params->peer_table;
    self->epoll_fd = params->epoll_fd;
    self->watch = params->watch;
    self->fds = copy;
    pairwise_init(&self->pairwise, params->team->rank, size, params->chunk_bytes);
    for (int i = 0; i < size && status == HVD_OK; i++)
        if (fds[i] >= 0)
            status = fragment_watch(params->epoll_fd, fds[i], EPOLLIN | EPOLLOUT, err);
    if (status != HVD_OK) {
        tcp_pairwise_close(self);
        return status;
    }
    *pairwisep = self;
    return HVD_OK;
}

/* ---- One lane ------------------------------------------------------------------------------- */

/* The member at the other end of a lane, for error sentences. */
struct peer_context {
    char name[288];
    struct fragment_context context;
};

static void peer_context_of(const struct tcp_pairwise *self, int member, struct peer_context *about)
{
    peer_table_rank_name(self->peer_table, self->team->ranks[member], about->name, sizeof(about->name));
    about->context = (struct fragment_context){about->name, self->pairwise.batch.sequence, self->watch};
}

static int pairwise_lost(const struct tcp_pairwise *self, int member, struct hvd_error *err)
{
    int cause = errno;
    struct peer_context about;
    peer_context_of(self, member, &about);
    errno = cause;
    return fragment_lost(&about.context, self->fds[member], err);
}

static int send_some(struct tcp_pairwise *self, int lane, bool *movedp, struct hvd_error *err)
{
    struct fragment_out *out = &self->outs[lane];
    struct pairwise_chunk chunk;
    if (!pairwise_next(&self->pairwise, PAIRWISE_SEND, lane, &chunk))
        return HVD_OK;
    if (!out->active)
        fragment_pack(out, FRAGMENT_PAIRWISE, self->pairwise.batch.sequence, (uint64_t)chunk.chunk,
                      chunk.bytes, chunk.length);
    int fd = self->fds[chunk.member];
    if (fragment_send(out, fd, tcp_watch_seal(self->watch, fd), movedp) < 0)
        return pairwise_lost(self, chunk.member, err);
    if (!out->active)
        pairwise_chunk_done(&self->pairwise, PAIRWISE_SEND, lane);
    return HVD_OK;
}

/* Check the complete header against the chunk that is due in this lane, and give that its place. */
static int pairwise_place(struct tcp_pairwise *self, int lane, struct hvd_error *err)
{
    struct fragment_in *in = &self->ins[lane];
    struct pairwise_chunk due;
    struct peer_context about;
    pairwise_next(&self->pairwise, PAIRWISE_RECEIVE, lane, &due);
    peer_context_of(self, due.member, &about);
    int status =
        fragment_check(&in->header, FRAGMENT_PAIRWISE, (uint64_t)due.chunk, due.length, &about.context, err);
    if (status < 0)
        return status;
    fragment_set_memory(in, due.bytes, due.length);
    return HVD_OK;
}

/* A lane that changes to another pair holds no bytes of the previous one: nothing is read behind a pair's
 * last chunk. */
static int receive_some(struct tcp_pairwise *self, int lane, bool *movedp, struct hvd_error *err)
{
    struct fragment_in *in = &self->ins[lane];
    struct pairwise_chunk chunk;
    if (!pairwise_next(&self->pairwise, PAIRWISE_RECEIVE, lane, &chunk))
        return HVD_OK;
    bool another = !pairwise_is_last(&self->pairwise, PAIRWISE_RECEIVE, lane);
    int fd = self->fds[chunk.member];
    if (fragment_receive(in, fd, tcp_watch_seal(self->watch, fd), another, movedp) < 0)
        return pairwise_lost(self, chunk.member, err);
    if (fragment_arrived(in))
        pairwise_chunk_done(&self->pairwise, PAIRWISE_RECEIVE, lane);
    return fragment_has_header(in) ? pairwise_place(self, lane, err) : HVD_OK;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* The busy lanes of a round, and whether their sockets are ready. */
struct poll_round {
    int count;
    struct pollfd polls[2 * PAIRWISE_LANES];
    int lanes[2 * PAIRWISE_LANES];
    enum pairwise_direction directions[2 * PAIRWISE_LANES];
};

static void round_add(const struct tcp_pairwise *self, struct poll_round *round,
                      enum pairwise_direction direction, int lane)
{
    struct pairwise_chunk chunk;
    if (!pairwise_next(&self->pairwise, direction, lane, &chunk))
        return;
    round->polls[round->count] = (struct pollfd){.fd = self->fds[chunk.member],
                                                 .events = direction == PAIRWISE_SEND ? POLLOUT : POLLIN};
    round->lanes[round->count] = lane;
    round->directions[round->count++] = direction;
}

/* Find the sockets that are ready; none is where a signal came first. Returns 0, or -1 with errno. */
static int round_poll(struct poll_round *round)
{
    if (round->count == 0 || poll(round->polls, (nfds_t)round->count, 0) >= 0)
        return 0;
    for (int i = 0; i < round->count; i++)
        round->polls[i].revents = 0;
    return errno == EINTR ? 0 : -1;
}

static int run_lane(struct tcp_pairwise *self, enum pairwise_direction direction, int lane, bool *movedp,
                    struct hvd_error *err)
{
    return direction == PAIRWISE_RECEIVE ? receive_some(self, lane, movedp, err)
                                         : send_some(self, lane, movedp, err);
}

/* Run each busy lane whose socket is ready, once, until the time slice is over. Each round begins with
 * another lane. An error is about member *memberp. */
static int run_round(struct tcp_pairwise *self, int64_t end_us, bool *movedp, int *memberp)
{
    struct poll_round round = {.count = 0};
    for (int lane = 0; lane < PAIRWISE_LANES; lane++) {
        round_add(self, &round, PAIRWISE_RECEIVE, lane);
        round_add(self, &round, PAIRWISE_SEND, lane);
    }
    if (round_poll(&round) < 0)
        return error_set_errno(&self->failure.err, "backend tcp: poll of %d connections", round.count);
    self->turn++;
    for (int i = 0; i < round.count; i++) {
        int at = (int)((self->turn + (unsigned)i) % (unsigned)round.count);
        bool opened = round.directions[at] == PAIRWISE_RECEIVE &&
                      seal_has_bytes(tcp_watch_seal(self->watch, round.polls[at].fd));
        if (round.polls[at].revents == 0 && !opened)
            continue;
        *memberp = self->pairwise.sides[round.directions[at]].lanes[round.lanes[at]].member;
        int status = run_lane(self, round.directions[at], round.lanes[at], movedp, &self->failure.err);
        if (status < 0 || clock_us() >= end_us)
            return status;
    }
    return HVD_OK;
}

static int pairwise_progress(struct tcp_pairwise *self, bool *movedp, int *memberp)
{
    int64_t end_us = clock_us() + FRAGMENT_SLICE_US;
    bool moved;
    do {
        moved = pairwise_copy_own(&self->pairwise);
        int status = run_round(self, end_us, &moved, memberp);
        if (status < 0)
            return status;
        *movedp = *movedp || moved;
        if (!pairwise_left(&self->pairwise))
            return HVD_OK;
    } while (moved && clock_us() < end_us);
    return HVD_IN_PROGRESS;
}

int tcp_pairwise_start(struct tcp_pairwise *self, const struct backend_batch *batch, struct hvd_error *err)
{
    if (self->failure.status != HVD_OK)
        return tcp_failure_repeat(&self->failure, NULL, err);
    pairwise_start(&self->pairwise, batch);
    return HVD_OK;
}

int tcp_pairwise_test(struct tcp_pairwise *self, bool *movedp, int *rankp, struct hvd_error *err)
{
    int member = 0;
    *movedp = false;
    if (self->failure.status != HVD_OK)
        return tcp_failure_repeat(&self->failure, rankp, err);
    int status = pairwise_progress(self, movedp, &member);
    return tcp_failure_check(&self->failure, status, self->team->ranks[member], rankp, err);
}

/* A lane that is free to receive waits for its member alone. */
int tcp_pairwise_waits_for(const struct tcp_pairwise *self)
{
    struct pairwise_chunk chunk;
    for (int direction = PAIRWISE_DIRECTIONS - 1; direction >= 0; direction--) {
        for (int lane = 0; lane < PAIRWISE_LANES; lane++) {
            if (pairwise_next(&self->pairwise, (enum pairwise_direction)direction, lane, &chunk))
                return self->team->ranks[chunk.member];
        }
    }
    return -1;
}

void tcp_pairwise_after_fork(struct tcp_pairwise *self)
{
    for (int i = 0; self != NULL && i < self->team->size; i++)
        if (self->fds[i] >= 0)
            close(self->fds[i]);
}

void tcp_pairwise_close(struct tcp_pairwise *self)
{
    if (self == NULL)
        return;
    for (int i = 0; i < self->team->size; i++) {
        if (self->fds[i] < 0)
            continue;
        fragment_unwatch(self->epoll_fd, self->fds[i]);
        close(self->fds[i]);
    }
    free(self->fds);
    free(self);
}
