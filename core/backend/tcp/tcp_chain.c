/* tcp_chain.c: batches over tcp_chain sockets, some to the next member of a team's ring and as many from the
 * previous. */
#include "backend/tcp/tcp_chain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

/* Chunks of the batch that runs, of both kinds, as they go one way: [0, done) are through, [done, begun) are
 * on their way, each on its lane. */
struct tcp_chain_side {
    int64_t begun, done;
};

struct tcp_chain {
    struct tcp_chain_peer next, previous;
    int lanes;
    int epoll_fd;
    struct chain chain;
    struct tcp_chain_side out, in;
    struct fragment_out outs[TCP_CHAIN_MAX_LANES];
    struct fragment_in ins[TCP_CHAIN_MAX_LANES];
    enum chain_kind kinds[TCP_CHAIN_MAX_LANES]; /* of the chunks that come in */
    int turn;                                   /* the lane that comes first */
    int failed;                                 /* the status of the error that ended it, or HVD_OK */
    int failed_rank;
    struct hvd_error failure;
};

static void close_fds(const struct tcp_chain_peer *link, int lanes)
{
    for (int lane = 0; lane < lanes; lane++)
        close(link->fds[lane]);
}

static int watch(const struct tcp_chain *tcp_chain, struct hvd_error *err)
{
    int status = HVD_OK;
    for (int lane = 0; lane < tcp_chain->lanes && status == HVD_OK; lane++) {
        status = fragment_watch(tcp_chain->epoll_fd, tcp_chain->next.fds[lane], EPOLLOUT, err);
        if (status == HVD_OK)
            status = fragment_watch(tcp_chain->epoll_fd, tcp_chain->previous.fds[lane], EPOLLIN, err);
    }
    return status;
}

int tcp_chain_open(struct tcp_chain **streamp, const struct tcp_chain_params *params, struct hvd_error *err)
{
    int status = HVD_ERR_NO_MEMORY;
    struct tcp_chain *tcp_chain = calloc(1, sizeof(*tcp_chain));
    if (tcp_chain == NULL) {
        error_set_errno(err, "backend tcp: no memory for %zu bytes", sizeof(*tcp_chain));
        close_fds(&params->next, params->lanes);
        close_fds(&params->previous, params->lanes);
        return status;
    }
    tcp_chain->next = params->next;
    tcp_chain->previous = params->previous;
    tcp_chain->lanes = params->lanes;
    tcp_chain->epoll_fd = params->epoll_fd;
    status =
        chain_init(&tcp_chain->chain, params->rank, params->size, params->chunk_bytes, params->lanes, err);
    if (status == HVD_OK)
        status = watch(tcp_chain, err);
    if (status != HVD_OK) {
        tcp_chain_close(tcp_chain);
        return status;
    }
    *streamp = tcp_chain;
    return HVD_OK;
}

static struct fragment_context context_of(const struct tcp_chain *tcp_chain,
                                          const struct tcp_chain_peer *link)
{
    return (struct fragment_context){link->name, tcp_chain->chain.batch.sequence};
}

static int lost(const struct tcp_chain *tcp_chain, const struct tcp_chain_peer *link, struct hvd_error *err)
{
    struct fragment_context context = context_of(tcp_chain, link);
    return fragment_lost(&context, err);
}

static int lane_of(const struct tcp_chain *tcp_chain, int64_t chunk)
{
    return (int)(chunk % tcp_chain->lanes);
}

/* ---- Sending -------------------------------------------------------------------------------- */

/* Take the next chunk that may go out, where its lane is this one. */
static void start_next(struct tcp_chain *tcp_chain, int lane)
{
    struct chain *chain = &tcp_chain->chain;
    struct chain_chunk piece;
    bool taken = tcp_chain->out.begun - tcp_chain->out.done == tcp_chain->lanes;
    if (taken || lane_of(tcp_chain, tcp_chain->out.begun) != lane)
        return;
    enum chain_kind kind = chain_can_send(chain, CHAIN_RESULT) ? CHAIN_RESULT : CHAIN_PARTIAL;
    if (!chain_can_send(chain, kind))
        return;
    const void *bytes = chain_send(chain, kind, &piece);
    fragment_pack(&tcp_chain->outs[lane], kind, chain->batch.sequence, (uint64_t)piece.chunk, bytes,
                  piece.length);
    tcp_chain->out.begun++;
}

static int send_some(struct tcp_chain *tcp_chain, int lane, bool *movedp, struct hvd_error *err)
{
    struct tcp_chain_side *side = &tcp_chain->out;
    struct fragment_out *out = &tcp_chain->outs[lane];
    if (!out->active)
        start_next(tcp_chain, lane);
    if (!out->active)
        return HVD_OK;
    if (fragment_send(out, tcp_chain->next.fds[lane], movedp) < 0)
        return lost(tcp_chain, &tcp_chain->next, err);
    for (; side->done < side->begun && !tcp_chain->outs[lane_of(tcp_chain, side->done)].active; side->done++)
        chain_sent(&tcp_chain->chain,
                   (enum chain_kind)tcp_chain->outs[lane_of(tcp_chain, side->done)].header.kind);
    return HVD_OK;
}

/* Nothing ever comes from the next member. While it must still take something from us it cannot have left in
 * peace, so an end of a tcp_chain to it is the loss of it; later it may close before us. */
static int check_next(const struct tcp_chain *tcp_chain, int lane, struct hvd_error *err)
{
    char byte;
    ssize_t got = recv(tcp_chain->next.fds[lane], &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return HVD_OK;
    if (got > 0)
        return error_set(err, HVD_ERR_MISMATCH,
                         "backend tcp: %s sent bytes against the ring's direction in batch %" PRIu64,
                         tcp_chain->next.name, tcp_chain->chain.batch.sequence);
    errno = got == 0 ? 0 : errno;
    return lost(tcp_chain, &tcp_chain->next, err);
}

/* ---- Receiving ------------------------------------------------------------------------------ */

/* Check the header that is complete against the batch that runs; only then ask where its chunk goes. A
 * partial may have to wait until one of ours has left. */
static int place(struct tcp_chain *tcp_chain, int lane, struct hvd_error *err)
{
    const struct fragment_header *header = &tcp_chain->ins[lane].header;
    struct fragment_context context = context_of(tcp_chain, &tcp_chain->previous);
    struct chain *chain = &tcp_chain->chain;
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
    tcp_chain->kinds[lane] = (enum chain_kind)header->kind;
    fragment_set_memory(&tcp_chain->ins[lane], bytes, due.length);
    tcp_chain->in.begun++;
    return HVD_OK;
}

/* Place what has its turn. */
static int place_in_turn(struct tcp_chain *tcp_chain, bool *movedp, struct hvd_error *err)
{
    int status = HVD_OK;
    while (status == HVD_OK && tcp_chain->in.begun - tcp_chain->in.done < tcp_chain->lanes) {
        int64_t begun = tcp_chain->in.begun;
        int lane = lane_of(tcp_chain, begun);
        if (!fragment_has_header(&tcp_chain->ins[lane]))
            break;
        status = place(tcp_chain, lane, err);
        if (tcp_chain->in.begun == begun)
            break;
        *movedp = true;
    }
    return status;
}

/* Is there a header due on this lane that is not complete yet, behind the chunk that is coming in? */
static bool expects_header(const struct tcp_chain *tcp_chain, int lane)
{
    const struct chain *chain = &tcp_chain->chain;
    int64_t total = chain->in[CHAIN_PARTIAL].total + chain->in[CHAIN_RESULT].total;
    int64_t begun = tcp_chain->in.begun;
    int ahead = lane - lane_of(tcp_chain, begun);
    return begun + (ahead < 0 ? ahead + tcp_chain->lanes : ahead) < total;
}

static int receive_some(struct tcp_chain *tcp_chain, int lane, bool *movedp, struct hvd_error *err)
{
    struct tcp_chain_side *side = &tcp_chain->in;
    struct fragment_in *in = &tcp_chain->ins[lane];
    bool another = expects_header(tcp_chain, lane);
    bool waits = in->placed ? in->left == 0 : fragment_has_header(in) || !another;
    if (waits)
        return HVD_OK;
    if (fragment_receive(in, tcp_chain->previous.fds[lane], another, movedp) < 0)
        return lost(tcp_chain, &tcp_chain->previous, err);
    for (; side->done < side->begun && fragment_arrived(&tcp_chain->ins[lane_of(tcp_chain, side->done)]);
         side->done++)
        chain_received(&tcp_chain->chain, tcp_chain->kinds[lane_of(tcp_chain, side->done)]);
    return HVD_OK;
}

/* ---- Batches -------------------------------------------------------------------------------- */

static int repeat_failure(const struct tcp_chain *tcp_chain, struct hvd_error *err)
{
    return error_set(err, tcp_chain->failed, "%s", tcp_chain->failure.text);
}

int tcp_chain_start(struct tcp_chain *tcp_chain, const struct backend_batch *batch, struct hvd_error *err)
{
    if (tcp_chain->failed != HVD_OK)
        return repeat_failure(tcp_chain, err);
    tcp_chain->out = tcp_chain->in = (struct tcp_chain_side){0, 0};
    tcp_chain->turn = 0;
    chain_start(&tcp_chain->chain, batch);
    return HVD_OK;
}

/* One lane, both ways. */
static int run_lane(struct tcp_chain *tcp_chain, int lane, bool *movedp, int *rankp)
{
    *rankp = tcp_chain->previous.rank;
    int status = receive_some(tcp_chain, lane, movedp, &tcp_chain->failure);
    if (status == HVD_OK)
        status = place_in_turn(tcp_chain, movedp, &tcp_chain->failure);
    if (status < 0)
        return status;
    *rankp = tcp_chain->next.rank;
    return send_some(tcp_chain, lane, movedp, &tcp_chain->failure);
}

/* Lanes take turns until none has moved in its last, the batch is done or the slice is over. */
static int progress(struct tcp_chain *tcp_chain, bool *movedp, int *rankp)
{
    int64_t end_us = clock_us() + FRAGMENT_SLICE_US;
    int idle = 0;
    while (idle < tcp_chain->lanes) {
        bool moved = false;
        int status = run_lane(tcp_chain, tcp_chain->turn, &moved, rankp);
        if (status < 0)
            return status;
        if (!chain_sends_left(&tcp_chain->chain) && !chain_receives_left(&tcp_chain->chain))
            return HVD_OK;
        tcp_chain->turn = (tcp_chain->turn + 1) % tcp_chain->lanes;
        idle = moved ? 0 : idle + 1;
        *movedp = *movedp || moved;
        if (moved && clock_us() >= end_us)
            break;
    }
    for (int lane = 0; !*movedp && lane < tcp_chain->lanes && chain_sends_left(&tcp_chain->chain); lane++) {
        int status = check_next(tcp_chain, lane, &tcp_chain->failure);
        if (status < 0)
            return status;
    }
    return HVD_IN_PROGRESS;
}

int tcp_chain_test(struct tcp_chain *tcp_chain, bool *movedp, int *rankp, struct hvd_error *err)
{
    int rank = -1;
    *movedp = false;
    if (tcp_chain->failed == HVD_OK) {
        int status = progress(tcp_chain, movedp, &rank);
        if (status >= 0)
            return status;
        tcp_chain->failed = status;
        tcp_chain->failed_rank = rank;
    }
    *rankp = tcp_chain->failed_rank;
    return repeat_failure(tcp_chain, err);
}

void tcp_chain_after_fork(struct tcp_chain *tcp_chain)
{
    close_fds(&tcp_chain->next, tcp_chain->lanes);
    close_fds(&tcp_chain->previous, tcp_chain->lanes);
}

void tcp_chain_close(struct tcp_chain *tcp_chain)
{
    if (tcp_chain == NULL)
        return;
    for (int lane = 0; lane < tcp_chain->lanes; lane++) {
        fragment_unwatch(tcp_chain->epoll_fd, tcp_chain->next.fds[lane]);
        fragment_unwatch(tcp_chain->epoll_fd, tcp_chain->previous.fds[lane]);
    }
    close_fds(&tcp_chain->next, tcp_chain->lanes);
    close_fds(&tcp_chain->previous, tcp_chain->lanes);
    chain_fini(&tcp_chain->chain);
    free(tcp_chain);
}
