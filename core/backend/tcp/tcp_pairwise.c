/* tcp_pairwise.c: alltoalls over stream sockets, one to each other member of a team. */
#include "backend/tcp/tcp_pairwise.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "backend/tcp/fragment.h"
#include "net/peer_table.h"

struct tcp_pairwise {
    const struct team *team;
    const struct peer_table *peer_table;
    int epoll_fd;
    int *fds; /* by member */
    struct pairwise pairwise;
    struct fragment_out outs[PAIRWISE_LANES];
    struct fragment_in ins[PAIRWISE_LANES];
    unsigned turn; /* of the lane that comes first */
    int failed;    /* the status of the error that ended it, or HVD_OK */
    int failed_rank;
    struct hvd_error failure;
};

int tcp_pairwise_open(struct tcp_pairwise **meshp, const struct tcp_pairwise_params *params, const int *fds,
                      struct hvd_error *err)
{
    int status = HVD_OK;
    int size = params->team->size;
    struct tcp_pairwise *tcp_pairwise = calloc(1, sizeof(*tcp_pairwise));
    int *copy = calloc((size_t)size, sizeof(*copy));
    if (tcp_pairwise == NULL || copy == NULL) {
        status = error_set_errno(err, "backend tcp: no memory for the connections of %d ranks", size);
        for (int i = 0; i < size; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        free(tcp_pairwise);
        free(copy);
        return status;
    }
    memcpy(copy, fds, (size_t)size * sizeof(*copy));
    tcp_pairwise->team = params->team;
    tcp_pairwise->peer_table = params->peer_table;
    tcp_pairwise->epoll_fd = params->epoll_fd;
    tcp_pairwise->fds = copy;
    pairwise_init(&tcp_pairwise->pairwise, params->team->rank, size, params->chunk_bytes);
    for (int i = 0; i < size && status == HVD_OK; i++)
        if (fds[i] >= 0)
            status = fragment_watch(params->epoll_fd, fds[i], EPOLLIN | EPOLLOUT, err);
    if (status != HVD_OK) {
        tcp_pairwise_close(tcp_pairwise);
        return status;
    }
    *meshp = tcp_pairwise;
    return HVD_OK;
}

/* ---- One lane ------------------------------------------------------------------------------- */

/* What is said of the member at the other end of a lane. */
struct peer_context {
    char name[288];
    struct fragment_context context;
};

static void peer_context_of(const struct tcp_pairwise *tcp_pairwise, int member, struct peer_context *about)
{
    peer_table_rank_name(tcp_pairwise->peer_table, tcp_pairwise->team->ranks[member], about->name,
                         sizeof(about->name));
    about->context = (struct fragment_context){about->name, tcp_pairwise->pairwise.batch.sequence};
}

static int lost(const struct tcp_pairwise *tcp_pairwise, int member, struct hvd_error *err)
{
    int cause = errno;
    struct peer_context about;
    peer_context_of(tcp_pairwise, member, &about);
    errno = cause;
    return fragment_lost(&about.context, err);
}

static int send_some(struct tcp_pairwise *tcp_pairwise, int lane, bool *movedp, struct hvd_error *err)
{
    struct fragment_out *out = &tcp_pairwise->outs[lane];
    struct pairwise_chunk piece;
    if (!pairwise_next(&tcp_pairwise->pairwise, PAIRWISE_SEND, lane, &piece))
        return HVD_OK;
    if (!out->active)
        fragment_pack(out, FRAGMENT_PAIRWISE, tcp_pairwise->pairwise.batch.sequence, (uint64_t)piece.chunk,
                      piece.bytes, piece.length);
    if (fragment_send(out, tcp_pairwise->fds[piece.member], movedp) < 0)
        return lost(tcp_pairwise, piece.member, err);
    if (!out->active)
        pairwise_chunk_done(&tcp_pairwise->pairwise, PAIRWISE_SEND, lane);
    return HVD_OK;
}

/* Check the header that is complete against what is due in this lane. */
static int place(struct tcp_pairwise *tcp_pairwise, int lane, struct hvd_error *err)
{
    struct fragment_in *in = &tcp_pairwise->ins[lane];
    const struct fragment_header *header = &in->header;
    struct pairwise_chunk due;
    struct peer_context about;
    pairwise_next(&tcp_pairwise->pairwise, PAIRWISE_RECEIVE, lane, &due);
    peer_context_of(tcp_pairwise, due.member, &about);
    int status = fragment_check_batch(header, &about.context, err);
    if (status < 0)
        return status;
    if (header->kind != FRAGMENT_PAIRWISE)
        return fragment_refuse_kind(header, &about.context, err);
    status = fragment_check_chunk(header, (uint64_t)due.chunk, due.length, &about.context, err);
    if (status < 0)
        return status;
    fragment_set_memory(in, due.bytes, due.length);
    return HVD_OK;
}

/* A lane that goes over to another pair has nothing left of the one before: behind a pair's last chunk
 * nothing is read. */
static int receive_some(struct tcp_pairwise *tcp_pairwise, int lane, bool *movedp, struct hvd_error *err)
{
    struct fragment_in *in = &tcp_pairwise->ins[lane];
    struct pairwise_chunk piece;
    if (!pairwise_next(&tcp_pairwise->pairwise, PAIRWISE_RECEIVE, lane, &piece))
        return HVD_OK;
    bool another = !pairwise_is_last(&tcp_pairwise->pairwise, PAIRWISE_RECEIVE, lane);
    if (fragment_receive(in, tcp_pairwise->fds[piece.member], another, movedp) < 0)
        return lost(tcp_pairwise, piece.member, err);
    if (fragment_arrived(in))
        pairwise_chunk_done(&tcp_pairwise->pairwise, PAIRWISE_RECEIVE, lane);
    return fragment_has_header(in) ? place(tcp_pairwise, lane, err) : HVD_OK;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* What a round may have to do: lanes that are busy, and whether their sockets are ready. */
struct poll_round {
    int count;
    struct pollfd polls[2 * PAIRWISE_LANES];
    int lanes[2 * PAIRWISE_LANES];
    enum pairwise_direction ways[2 * PAIRWISE_LANES];
};

static void round_add(const struct tcp_pairwise *tcp_pairwise, struct poll_round *round,
                      enum pairwise_direction way, int lane)
{
    struct pairwise_chunk piece;
    if (!pairwise_next(&tcp_pairwise->pairwise, way, lane, &piece))
        return;
    round->polls[round->count] = (struct pollfd){.fd = tcp_pairwise->fds[piece.member],
                                                 .events = way == PAIRWISE_SEND ? POLLOUT : POLLIN};
    round->lanes[round->count] = lane;
    round->ways[round->count++] = way;
}

static int run_lane(struct tcp_pairwise *tcp_pairwise, enum pairwise_direction way, int lane, bool *movedp,
                    struct hvd_error *err)
{
    return way == PAIRWISE_RECEIVE ? receive_some(tcp_pairwise, lane, movedp, err)
                                   : send_some(tcp_pairwise, lane, movedp, err);
}

/* Each busy lane whose socket is ready, once, until the slice is over; another begins each time. An error is
 * about member *memberp. */
static int run_round(struct tcp_pairwise *tcp_pairwise, int64_t end_us, bool *movedp, int *memberp)
{
    struct poll_round round = {.count = 0};
    for (int lane = 0; lane < PAIRWISE_LANES; lane++) {
        round_add(tcp_pairwise, &round, PAIRWISE_RECEIVE, lane);
        round_add(tcp_pairwise, &round, PAIRWISE_SEND, lane);
    }
    if (round.count > 0 && poll(round.polls, (nfds_t)round.count, 0) < 0)
        return error_set_errno(&tcp_pairwise->failure, "backend tcp: poll of %d connections", round.count);
    tcp_pairwise->turn++;
    for (int i = 0; i < round.count; i++) {
        int at = (int)((tcp_pairwise->turn + (unsigned)i) % (unsigned)round.count);
        if (round.polls[at].revents == 0)
            continue;
        *memberp = tcp_pairwise->pairwise.sides[round.ways[at]].lanes[round.lanes[at]].member;
        int status = run_lane(tcp_pairwise, round.ways[at], round.lanes[at], movedp, &tcp_pairwise->failure);
        if (status < 0 || clock_us() >= end_us)
            return status;
    }
    return HVD_OK;
}

static int progress(struct tcp_pairwise *tcp_pairwise, bool *movedp, int *memberp)
{
    int64_t end_us = clock_us() + FRAGMENT_SLICE_US;
    bool moved;
    do {
        moved = pairwise_copy_own(&tcp_pairwise->pairwise);
        int status = run_round(tcp_pairwise, end_us, &moved, memberp);
        if (status < 0)
            return status;
        *movedp = *movedp || moved;
        if (!pairwise_left(&tcp_pairwise->pairwise))
            return HVD_OK;
    } while (moved && clock_us() < end_us);
    return HVD_IN_PROGRESS;
}

static int repeat_failure(const struct tcp_pairwise *tcp_pairwise, struct hvd_error *err)
{
    return error_set(err, tcp_pairwise->failed, "%s", tcp_pairwise->failure.text);
}

int tcp_pairwise_start(struct tcp_pairwise *tcp_pairwise, const struct backend_batch *batch,
                       struct hvd_error *err)
{
    if (tcp_pairwise->failed != HVD_OK)
        return repeat_failure(tcp_pairwise, err);
    pairwise_start(&tcp_pairwise->pairwise, batch);
    return HVD_OK;
}

int tcp_pairwise_test(struct tcp_pairwise *tcp_pairwise, bool *movedp, int *rankp, struct hvd_error *err)
{
    int member = 0;
    *movedp = false;
    if (tcp_pairwise->failed == HVD_OK) {
        int status = progress(tcp_pairwise, movedp, &member);
        if (status >= 0)
            return status;
        tcp_pairwise->failed = status;
        tcp_pairwise->failed_rank = tcp_pairwise->team->ranks[member];
    }
    *rankp = tcp_pairwise->failed_rank;
    return repeat_failure(tcp_pairwise, err);
}

void tcp_pairwise_after_fork(struct tcp_pairwise *tcp_pairwise)
{
    for (int i = 0; tcp_pairwise != NULL && i < tcp_pairwise->team->size; i++)
        if (tcp_pairwise->fds[i] >= 0)
            close(tcp_pairwise->fds[i]);
}

void tcp_pairwise_close(struct tcp_pairwise *tcp_pairwise)
{
    if (tcp_pairwise == NULL)
        return;
    for (int i = 0; i < tcp_pairwise->team->size; i++) {
        if (tcp_pairwise->fds[i] < 0)
            continue;
        fragment_unwatch(tcp_pairwise->epoll_fd, tcp_pairwise->fds[i]);
        close(tcp_pairwise->fds[i]);
    }
    free(tcp_pairwise->fds);
    free(tcp_pairwise);
}
