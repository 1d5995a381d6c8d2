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

struct chords {
    int epoll_fd;
    int step_count;
    struct chord to[DOUBLING_MAX_STEPS], from[DOUBLING_MAX_STEPS]; /* by step */
    struct doubling doubling;
    struct parcel_out out;
    struct parcel_due in;
    bool listens; /* [in] has been told what comes next */
    int failed;   /* the status of the error that ended it, or HVD_OK */
    int failed_rank;
    struct hvd_error failure;
};

static void close_all(const struct chord *chords, int count)
{
    for (int i = 0; i < count; i++)
        close(chords[i].fd);
}

int chords_open(struct chords **chordsp, const struct chords_seat *seat, struct hvd_error *err)
{
    int step_count = doubling_steps(seat->size);
    struct chords *chords = calloc(1, sizeof(*chords));
    if (chords == NULL) {
        int status = error_set_errno(err, "plane tcp: no memory for %zu bytes", sizeof(*chords));
        close_all(seat->to, step_count);
        close_all(seat->from, step_count);
        return status;
    }
    chords->epoll_fd = seat->epoll_fd;
    chords->step_count = step_count;
    memcpy(chords->to, seat->to, (size_t)step_count * sizeof(*seat->to));
    memcpy(chords->from, seat->from, (size_t)step_count * sizeof(*seat->from));
    int status = doubling_init(&chords->doubling, seat->rank, seat->size, seat->crowded, err);
    for (int step = 0; step < step_count && status == HVD_OK; step++) {
        status = parcel_watch(seat->epoll_fd, chords->to[step].fd, EPOLLOUT, err);
        if (status == HVD_OK)
            status = parcel_watch(seat->epoll_fd, chords->from[step].fd, EPOLLIN, err);
    }
    if (status != HVD_OK) {
        chords_close(chords);
        return status;
    }
    *chordsp = chords;
    return HVD_OK;
}

/* ---- One step ------------------------------------------------------------------------------- */

static struct parcel_context context_of(const struct chords *chords, const struct chord *chord)
{
    return (struct parcel_context){chord->name, chords->doubling.batch.sequence};
}

static int lost(const struct chords *chords, const struct chord *chord, struct hvd_error *err)
{
    struct parcel_context context = context_of(chords, chord);
    return parcel_lost(&context, err);
}

/* Send what may go. An error is about *rankp. */
static int send_some(struct chords *chords, bool *movedp, int *rankp, struct hvd_error *err)
{
    struct parcel_out *out = &chords->out;
    struct doubling_piece piece;
    while (doubling_piece(&chords->doubling, DOUBLING_OUT, &piece)) {
        const struct chord *to = &chords->to[piece.step];
        *rankp = to->rank;
        if (!out->active)
            parcel_pack(out, PARCEL_DOUBLING, chords->doubling.batch.sequence, (uint64_t)piece.step,
                        piece.bytes, piece.length);
        if (parcel_send(out, to->fd, movedp) < 0)
            return lost(chords, to, err);
        if (out->active)
            break;
        doubling_through(&chords->doubling, DOUBLING_OUT);
    }
    return HVD_OK;
}

static int check(const struct chords *chords, const struct doubling_piece *due, struct hvd_error *err)
{
    const struct parcel_frame *frame = &chords->in.frame;
    struct parcel_context context = context_of(chords, &chords->from[due->step]);
    int status = parcel_check_batch(frame, &context, err);
    if (status < 0)
        return status;
    if (frame->kind != PARCEL_DOUBLING)
        return parcel_refuse_kind(frame, &context, err);
    return parcel_check_chunk(frame, (uint64_t)due->step, due->length, &context, err);
}

/* Receive what is due next. An error is about *rankp. */
static int receive_some(struct chords *chords, bool *movedp, int *rankp, struct hvd_error *err)
{
    struct parcel_due *in = &chords->in;
    struct doubling_piece due;
    int status = HVD_OK;
    if (!doubling_piece(&chords->doubling, DOUBLING_IN, &due))
        return HVD_OK;
    const struct chord *from = &chords->from[due.step];
    *rankp = from->rank;
    if (!chords->listens)
        parcel_expect(in, due.bytes, due.length);
    chords->listens = true;
    if (parcel_receive_due(in, from->fd, movedp) < 0)
        return lost(chords, from, err);
    if (parcel_due_framed(in))
        status = check(chords, &due, err);
    if (status < 0 || !parcel_due_arrived(in))
        return status;
    chords->listens = false;
    doubling_through(&chords->doubling, DOUBLING_IN);
    return HVD_OK;
}

/* ---- Batches -------------------------------------------------------------------------------- */

static int repeat_failure(const struct chords *chords, struct hvd_error *err)
{
    return error_set(err, chords->failed, "%s", chords->failure.text);
}

int chords_start(struct chords *chords, const struct plane_batch *batch, struct hvd_error *err)
{
    if (chords->failed != HVD_OK)
        return repeat_failure(chords, err);
    doubling_start(&chords->doubling, batch);
    return HVD_OK;
}

/* As long as something comes; what comes is what lets more go. */
static int progress(struct chords *chords, bool *movedp, int *rankp)
{
    int64_t end_us = clock_us() + PARCEL_SLICE_US;
    bool received;
    do {
        received = false;
        int status = send_some(chords, movedp, rankp, &chords->failure);
        if (status == HVD_OK)
            status = receive_some(chords, &received, rankp, &chords->failure);
        if (status < 0)
            return status;
        *movedp = *movedp || received;
    } while (received && doubling_left(&chords->doubling) && clock_us() < end_us);
    return doubling_left(&chords->doubling) ? HVD_IN_PROGRESS : HVD_OK;
}

int chords_test(struct chords *chords, bool *movedp, int *rankp, struct hvd_error *err)
{
    int rank = -1;
    *movedp = false;
    if (chords->failed == HVD_OK) {
        int status = progress(chords, movedp, &rank);
        if (status >= 0)
            return status;
        chords->failed = status;
        chords->failed_rank = rank;
    }
    *rankp = chords->failed_rank;
    return repeat_failure(chords, err);
}

void chords_after_fork(struct chords *chords)
{
    if (chords == NULL)
        return;
    close_all(chords->to, chords->step_count);
    close_all(chords->from, chords->step_count);
}

void chords_close(struct chords *chords)
{
    if (chords == NULL)
        return;
    for (int step = 0; step < chords->step_count; step++) {
        parcel_unwatch(chords->epoll_fd, chords->to[step].fd);
        parcel_unwatch(chords->epoll_fd, chords->from[step].fd);
    }
    chords_after_fork(chords);
    doubling_fini(&chords->doubling);
    free(chords);
}
