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

struct mesh {
    const struct plane_team *team;
    const struct roster *roster;
    int epoll_fd;
    int *fds; /* by member */
    struct exchange exchange;
    struct parcel_out outs[EXCHANGE_LANES];
    struct parcel_in ins[EXCHANGE_LANES];
    unsigned turn; /* of the lane that comes first */
    int failed;    /* the status of the error that ended it, or HVD_OK */
    int failed_rank;
    struct hvd_error failure;
};

int mesh_open(struct mesh **meshp, const struct mesh_seat *seat, const int *fds, struct hvd_error *err)
{
    int status = HVD_OK;
    int size = seat->team->size;
    struct mesh *mesh = calloc(1, sizeof(*mesh));
    int *copy = calloc((size_t)size, sizeof(*copy));
    if (mesh == NULL || copy == NULL) {
        status = error_set_errno(err, "plane tcp: no memory for the connections of %d ranks", size);
        for (int i = 0; i < size; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        free(mesh);
        free(copy);
        return status;
    }
    memcpy(copy, fds, (size_t)size * sizeof(*copy));
    mesh->team = seat->team;
    mesh->roster = seat->roster;
    mesh->epoll_fd = seat->epoll_fd;
    mesh->fds = copy;
    exchange_init(&mesh->exchange, seat->team->rank, size, seat->chunk_bytes);
    for (int i = 0; i < size && status == HVD_OK; i++)
        if (fds[i] >= 0)
            status = parcel_watch(seat->epoll_fd, fds[i], EPOLLIN | EPOLLOUT, err);
    if (status != HVD_OK) {
        mesh_close(mesh);
        return status;
    }
    *meshp = mesh;
    return HVD_OK;
}

/* ---- One lane ------------------------------------------------------------------------------- */

/* What is said of the member at the other end of a lane. */
struct about {
    char name[288];
    struct parcel_context context;
};

static void about_member(const struct mesh *mesh, int member, struct about *about)
{
    roster_name(mesh->roster, mesh->team->ranks[member], about->name, sizeof(about->name));
    about->context = (struct parcel_context){about->name, mesh->exchange.batch.sequence};
}

static int lost(const struct mesh *mesh, int member, struct hvd_error *err)
{
    int cause = errno;
    struct about about;
    about_member(mesh, member, &about);
    errno = cause;
    return parcel_lost(&about.context, err);
}

static int send_some(struct mesh *mesh, int lane, bool *movedp, struct hvd_error *err)
{
    struct parcel_out *out = &mesh->outs[lane];
    struct exchange_piece piece;
    if (!exchange_piece(&mesh->exchange, EXCHANGE_OUT, lane, &piece))
        return HVD_OK;
    if (!out->active)
        parcel_pack(out, PARCEL_EXCHANGE, mesh->exchange.batch.sequence, (uint64_t)piece.chunk, piece.bytes,
                    piece.length);
    if (parcel_send(out, mesh->fds[piece.member], movedp) < 0)
        return lost(mesh, piece.member, err);
    if (!out->active)
        exchange_through(&mesh->exchange, EXCHANGE_OUT, lane);
    return HVD_OK;
}

/* Check the frame that is complete against what is due in this lane. */
static int place(struct mesh *mesh, int lane, struct hvd_error *err)
{
    struct parcel_in *in = &mesh->ins[lane];
    const struct parcel_frame *frame = &in->frame;
    struct exchange_piece due;
    struct about about;
    exchange_piece(&mesh->exchange, EXCHANGE_IN, lane, &due);
    about_member(mesh, due.member, &about);
    int status = parcel_check_batch(frame, &about.context, err);
    if (status < 0)
        return status;
    if (frame->kind != PARCEL_EXCHANGE)
        return parcel_refuse_kind(frame, &about.context, err);
    status = parcel_check_chunk(frame, (uint64_t)due.chunk, due.length, &about.context, err);
    if (status < 0)
        return status;
    parcel_place(in, due.bytes, due.length);
    return HVD_OK;
}

/* A lane that goes over to another pair has nothing left of the one before: behind a pair's last chunk
 * nothing is read. */
static int receive_some(struct mesh *mesh, int lane, bool *movedp, struct hvd_error *err)
{
    struct parcel_in *in = &mesh->ins[lane];
    struct exchange_piece piece;
    if (!exchange_piece(&mesh->exchange, EXCHANGE_IN, lane, &piece))
        return HVD_OK;
    bool another = !exchange_is_last(&mesh->exchange, EXCHANGE_IN, lane);
    if (parcel_receive(in, mesh->fds[piece.member], another, movedp) < 0)
        return lost(mesh, piece.member, err);
    if (parcel_arrived(in))
        exchange_through(&mesh->exchange, EXCHANGE_IN, lane);
    return parcel_is_framed(in) ? place(mesh, lane, err) : HVD_OK;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* What a round may have to do: lanes that are busy, and whether their sockets are ready. */
struct round {
    int count;
    struct pollfd polls[2 * EXCHANGE_LANES];
    int lanes[2 * EXCHANGE_LANES];
    enum exchange_way ways[2 * EXCHANGE_LANES];
};

static void round_add(const struct mesh *mesh, struct round *round, enum exchange_way way, int lane)
{
    struct exchange_piece piece;
    if (!exchange_piece(&mesh->exchange, way, lane, &piece))
        return;
    round->polls[round->count] =
        (struct pollfd){.fd = mesh->fds[piece.member], .events = way == EXCHANGE_OUT ? POLLOUT : POLLIN};
    round->lanes[round->count] = lane;
    round->ways[round->count++] = way;
}

static int run_lane(struct mesh *mesh, enum exchange_way way, int lane, bool *movedp, struct hvd_error *err)
{
    return way == EXCHANGE_IN ? receive_some(mesh, lane, movedp, err) : send_some(mesh, lane, movedp, err);
}

/* Each busy lane whose socket is ready, once, until the slice is over; another begins each time. An error is
 * about member *memberp. */
static int run_round(struct mesh *mesh, int64_t end_us, bool *movedp, int *memberp)
{
    struct round round = {.count = 0};
    for (int lane = 0; lane < EXCHANGE_LANES; lane++) {
        round_add(mesh, &round, EXCHANGE_IN, lane);
        round_add(mesh, &round, EXCHANGE_OUT, lane);
    }
    if (round.count > 0 && poll(round.polls, (nfds_t)round.count, 0) < 0)
        return error_set_errno(&mesh->failure, "plane tcp: poll of %d connections", round.count);
    mesh->turn++;
    for (int i = 0; i < round.count; i++) {
        int at = (int)((mesh->turn + (unsigned)i) % (unsigned)round.count);
        if (round.polls[at].revents == 0)
            continue;
        *memberp = mesh->exchange.sides[round.ways[at]].lanes[round.lanes[at]].member;
        int status = run_lane(mesh, round.ways[at], round.lanes[at], movedp, &mesh->failure);
        if (status < 0 || clock_us() >= end_us)
            return status;
    }
    return HVD_OK;
}

static int progress(struct mesh *mesh, bool *movedp, int *memberp)
{
    int64_t end_us = clock_us() + PARCEL_SLICE_US;
    bool moved;
    do {
        moved = exchange_copy(&mesh->exchange);
        int status = run_round(mesh, end_us, &moved, memberp);
        if (status < 0)
            return status;
        *movedp = *movedp || moved;
        if (!exchange_left(&mesh->exchange))
            return HVD_OK;
    } while (moved && clock_us() < end_us);
    return HVD_IN_PROGRESS;
}

static int repeat_failure(const struct mesh *mesh, struct hvd_error *err)
{
    return error_set(err, mesh->failed, "%s", mesh->failure.text);
}

int mesh_start(struct mesh *mesh, const struct plane_batch *batch, struct hvd_error *err)
{
    if (mesh->failed != HVD_OK)
        return repeat_failure(mesh, err);
    exchange_start(&mesh->exchange, batch);
    return HVD_OK;
}

int mesh_test(struct mesh *mesh, bool *movedp, int *rankp, struct hvd_error *err)
{
    int member = 0;
    *movedp = false;
    if (mesh->failed == HVD_OK) {
        int status = progress(mesh, movedp, &member);
        if (status >= 0)
            return status;
        mesh->failed = status;
        mesh->failed_rank = mesh->team->ranks[member];
    }
    *rankp = mesh->failed_rank;
    return repeat_failure(mesh, err);
}

void mesh_after_fork(struct mesh *mesh)
{
    for (int i = 0; mesh != NULL && i < mesh->team->size; i++)
        if (mesh->fds[i] >= 0)
            close(mesh->fds[i]);
}

void mesh_close(struct mesh *mesh)
{
    if (mesh == NULL)
        return;
    for (int i = 0; i < mesh->team->size; i++) {
        if (mesh->fds[i] < 0)
            continue;
        parcel_unwatch(mesh->epoll_fd, mesh->fds[i]);
        close(mesh->fds[i]);
    }
    free(mesh->fds);
    free(mesh);
}
