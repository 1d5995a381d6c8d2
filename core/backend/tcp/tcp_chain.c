/* tcp_chain.c: batches over sockets to the next member of a team's ring and from the previous one. */
#include "backend/tcp/tcp_chain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "backend/tcp/tcp_failure.h"

/* The chunks of the running batch in one direction, of both kinds: [0, done) are complete, [done, begun) are
 * on their way, each on its lane. */
struct tcp_chain_side {
    int64_t begun, done;
};

struct tcp_chain {
    struct tcp_chain_peer next, previous;
    int lanes;
    int epoll_fd;
    const struct tcp_watch *watch;
    struct chain chain;
    struct tcp_chain_side out, in;
    struct fragment_out outs[TCP_CHAIN_MAX_LANES];
    struct fragment_in ins[TCP_CHAIN_MAX_LANES];
    enum chain_kind kinds[TCP_CHAIN_MAX_LANES]; /* of the chunks being received */
    int turn;                                   /* the lane to run next */
    struct tcp_failure failure;
};

static void close_fds(const struct tcp_chain_peer *peer, int lanes)
{
    for (int lane = 0; lane < lanes; lane++)
        close(peer->fds[lane]);
}

static int watch(const struct tcp_chain *self, struct hvd_error *err)
{
    int status = HVD_OK;
    for (int lane = 0; lane < self->lanes && status == HVD_OK; lane++) {
        status = fragment_watch(self->epoll_fd, self->next.fds[lane], EPOLLOUT, err);
        if (status == HVD_OK)
            status = fragment_watch(self->epoll_fd, self->previous.fds[lane], EPOLLIN, err);
    }
    return status;
}

int tcp_chain_open(struct tcp_chain **chainp, const struct tcp_chain_params *params, struct hvd_error *err)
{
    int status = HVD_ERR_NO_MEMORY;
    struct tcp_chain *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        error_set_errno(err, "backend tcp: no memory for %zu bytes", sizeof(*self));
        close_fds(&params->next, params->lanes);
        close_fds(&params->previous, params->lanes);
        return status;
    }
    self->next = params->next;
    self->previous = params->previous;
    self->lanes = params->lanes;
    self->epoll_fd = params->epoll_fd;
    self->watch = params->watch;
    status = chain_init(&self->chain, params->rank, params->size, params->chunk_bytes, params->lanes, err);
    if (status == HVD_OK)
        status = watch(self, err);
    if (status != HVD_OK) {
        tcp_chain_close(self);
        return status;
    }
    *chainp = self;
    return HVD_OK;
}

static struct fragment_context context_of(const struct tcp_chain *self, const struct tcp_chain_peer *peer)
{
    return (struct fragment_context){peer->name, self->chain.batch.sequence, self->watch};
}

static int chain_lost(const struct tcp_chain *self, const struct tcp_chain_peer *peer, int lane,
                      struct hvd_error *err)
{
    struct fragment_context context = context_of(self, peer);
    return fragment_lost(&context, peer->fds[lane], err);
}

static int lane_of(const struct tcp_chain *self, int64_t chunk)
{
    return (int)(chunk % self->lanes);
}

/* ---- Sending -------------------------------------------------------------------------------- */

/* Begin to send the next chunk if it is ready and goes over this lane. */
static void start_next(struct tcp_chain *self, int lane)
{
    struct chain *chain = &self->chain;
    struct chain_chunk chunk;
    bool all_busy = self->out.begun - self->out.done == self->lanes;
    if (all_busy || lane_of(self, self->out.begun) != lane)
        return;
    enum chain_kind kind = chain_can_send(chain, CHAIN_RESULT) ? CHAIN_RESULT : CHAIN_PARTIAL;
    if (!chain_can_send(chain, kind))
        return;
    const void *bytes = chain_send(chain, kind, &chunk);
    fragment_pack(&self->outs[lane], kind, chain->batch.sequence, (uint64_t)chunk.chunk, bytes, chunk.length);
    self->out.begun++;
}

static int send_some(struct tcp_chain *self, int lane, bool *movedp, struct hvd_error *err)
{
    struct tcp_chain_side *side = &self->out;
    struct fragment_out *out = &self->outs[lane];
    if (!out->active)
        start_next(self, lane);
    if (!out->active)
        return HVD_OK;
    int fd = self->next.fds[lane];
    if (fragment_send(out, fd, tcp_watch_seal(self->watch, fd), movedp) < 0)
        return chain_lost(self, &self->next, lane, err);
    for (; side->done < side->begun && !self->outs[lane_of(self, side->done)].active; side->done++)
        chain_sent(&self->chain, (enum chain_kind)self->outs[lane_of(self, side->done)].header.kind);
    return HVD_OK;
}

/* The next member never sends over this connection. While it must still receive something from us it cannot
 * have left the job, so an end of the stream means that it is lost. After that it may close before us. */
static int check_next(const struct tcp_chain *self, int lane, struct hvd_error *err)
{
    char byte;
    ssize_t got = recv(self->next.fds[lane], &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return HVD_OK;
    if (got > 0)
        return error_set(err, HVD_ERR_MISMATCH,
                         "backend tcp: %s sent bytes against the ring's direction in batch %" PRIu64,
                         self->next.name, self->chain.batch.sequence);
    errno = got == 0 ? 0 : errno;
    return chain_lost(self, &self->next, lane, err);
}

/* ---- Receiving ------------------------------------------------------------------------------ */

/* Check the complete header against the running batch, and only then ask for the chunk's place. A partial
 * result may have to wait until one of ours has left. */
static int chain_place(struct tcp_chain *self, int lane, struct hvd_error *err)
{
    const struct fragment_header *header = &self->ins[lane].header;
    struct fragment_context context = context_of(self, &self->previous);
    struct chain *chain = &self->chain;
    struct chain_chunk due;
    int status = fragment_check_batch(header, &context, err);
    if (status < 0)
        return status;
    if (header->kind == CHAIN_PARTIAL && chain_must_wait(chain))
        return HVD_OK;
    if (header->kind >= CHAIN_KINDS || !chain_can_receive(chain, (enum chain_kind)header->kind))
        return fragment_refuse_kind(header, &context, err);
    void *bytes = chain_receive(chain, (enum chain_kind)header->kind, &due);
    status = fragment_check_chunk(header, (uint64_t)due.chunk, due.length, &context, err);
    if (status < 0)
        return status;
    self->kinds[lane] = (enum chain_kind)header->kind;
    fragment_set_memory(&self->ins[lane], bytes, due.length);
    self->in.begun++;
    return HVD_OK;
}

/* Give places to the chunks whose headers are complete, in order. */
static int place_in_turn(struct tcp_chain *self, bool *movedp, struct hvd_error *err)
{
    int status = HVD_OK;
    while (status == HVD_OK && self->in.begun - self->in.done < self->lanes) {
        int64_t begun = self->in.begun;
        int lane = lane_of(self, begun);
        if (!fragment_has_header(&self->ins[lane]))
            break;
        status = chain_place(self, lane, err);
        if (self->in.begun == begun)
            break;
        *movedp = true;
    }
    return status;
}

/* Does another chunk follow on this lane, after the one that is being received? */
static bool expects_header(const struct tcp_chain *self, int lane)
{
    const struct chain *chain = &self->chain;
    int64_t total = chain->in[CHAIN_PARTIAL].total + chain->in[CHAIN_RESULT].total;
    int64_t begun = self->in.begun;
    int ahead = lane - lane_of(self, begun);
    return begun + (ahead < 0 ? ahead + self->lanes : ahead) < total;
}

static int receive_some(struct tcp_chain *self, int lane, bool *movedp, struct hvd_error *err)
{
    struct tcp_chain_side *side = &self->in;
    struct fragment_in *in = &self->ins[lane];
    bool another = expects_header(self, lane);
    bool waits = in->placed ? in->left == 0 : fragment_has_header(in) || !another;
    if (waits)
        return HVD_OK;
    int fd = self->previous.fds[lane];
    if (fragment_receive(in, fd, tcp_watch_seal(self->watch, fd), another, movedp) < 0)
        return chain_lost(self, &self->previous, lane, err);
    for (; side->done < side->begun && fragment_arrived(&self->ins[lane_of(self, side->done)]); side->done++)
        chain_received(&self->chain, self->kinds[lane_of(self, side->done)]);
    return HVD_OK;
}

/* ---- Batches -------------------------------------------------------------------------------- */

int tcp_chain_start(struct tcp_chain *self, const struct backend_batch *batch, struct hvd_error *err)
{
    if (self->failure.status != HVD_OK)
        return tcp_failure_repeat(&self->failure, NULL, err);
    self->out = self->in = (struct tcp_chain_side){0, 0};
    self->turn = 0;
    return chain_start(&self->chain, batch, err);
}

/* One lane in both directions. */
static int run_lane(struct tcp_chain *self, int lane, bool *movedp, int *rankp)
{
    *rankp = self->previous.rank;
    int status = receive_some(self, lane, movedp, &self->failure.err);
    if (status == HVD_OK)
        status = place_in_turn(self, movedp, &self->failure.err);
    if (status < 0)
        return status;
    *rankp = self->next.rank;
    return send_some(self, lane, movedp, &self->failure.err);
}

/* Run the lanes in turn until none has moved in its last turn, the batch is complete or the time slice is
 * over. */
static int chain_progress(struct tcp_chain *self, bool *movedp, int *rankp)
{
    int64_t end_us = clock_us() + FRAGMENT_SLICE_US;
    int idle = 0;
    while (idle < self->lanes) {
        bool moved = false;
        int status = run_lane(self, self->turn, &moved, rankp);
        if (status < 0)
            return status;
        if (!chain_sends_left(&self->chain) && !chain_receives_left(&self->chain))
            return HVD_OK;
        self->turn = (self->turn + 1) % self->lanes;
        idle = moved ? 0 : idle + 1;
        *movedp = *movedp || moved;
        if (moved && clock_us() >= end_us)
            break;
    }
    for (int lane = 0; !*movedp && lane < self->lanes && chain_sends_left(&self->chain); lane++) {
        int status = check_next(self, lane, &self->failure.err);
        if (status < 0)
            return status;
    }
    return HVD_IN_PROGRESS;
}

int tcp_chain_test(struct tcp_chain *self, bool *movedp, int *rankp, struct hvd_error *err)
{
    int rank = -1;
    *movedp = false;
    if (self->failure.status != HVD_OK)
        return tcp_failure_repeat(&self->failure, rankp, err);
    int status = chain_progress(self, movedp, &rank);
    return tcp_failure_check(&self->failure, status, rank, rankp, err);
}

/* A chunk that does not leave waits for the next member alone. */
int tcp_chain_waits_for(const struct tcp_chain *self)
{
    if (self->out.done < self->out.begun)
        return self->next.rank;
    return chain_waits_for_input(&self->chain) ? self->previous.rank : -1;
}

void tcp_chain_after_fork(struct tcp_chain *self)
{
    if (self == NULL)
        return;
    close_fds(&self->next, self->lanes);
    close_fds(&self->previous, self->lanes);
}

void tcp_chain_close(struct tcp_chain *self)
{
    if (self == NULL)
        return;
    for (int lane = 0; lane < self->lanes; lane++) {
        fragment_unwatch(self->epoll_fd, self->next.fds[lane]);
        fragment_unwatch(self->epoll_fd, self->previous.fds[lane]);
    }
    close_fds(&self->next, self->lanes);
    close_fds(&self->previous, self->lanes);
    chain_fini(&self->chain);
    free(self);
}
