/* p2p.c: sends and receives of this rank, and the sockets that carry them. */
#include "p2p/p2p.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "p2p/p2p_state.h"

#define EVENTS_AT_ONCE  64
#define CALLS_AT_ONCE   8  /* of one direction of one socket in one round */
#define ROUNDS_PER_LOOK 64 /* while no op waits for the sockets */
#define LOOKS_IN_LEASE  10

/* ---- Beginning ---- */

static int watch_sockets(struct p2p *p2p, struct hvd_error *err)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    p2p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (p2p->epoll_fd < 0 || (p2p->params.epoll_fd >= 0 &&
                              epoll_ctl(p2p->params.epoll_fd, EPOLL_CTL_ADD, p2p->epoll_fd, &event) < 0))
        return error_set_errno(err, "cannot wait for messages of other ranks");
    return p2p->params.endpoint == NULL ? HVD_OK : connect_listen(p2p, err);
}

int p2p_create(struct p2p **p2pp, const struct p2p_params *params, struct hvd_error *err)
{
    size_t size = (size_t)params->peer_table->size;
    struct p2p *p2p = calloc(1, sizeof(*p2p));
    if (p2p == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for messages");
    p2p->params = *params;
    p2p->epoll_fd = -1;
    p2p->watch_at_us = p2p->look_at_us = INT64_MAX;
    TAILQ_INIT(&p2p->begun);
    matching_init(&p2p->matching);
    ring_pairs_init(&p2p->ring_pairs, &params->arena, params->epoll_fd);
    LIST_INIT(&p2p->channels);
    p2p->outgoing = calloc(size, sizeof(struct channel *));
    p2p->left = calloc(size, sizeof(*p2p->left));
    int rc = p2p->outgoing == NULL || p2p->left == NULL
                 ? error_set(err, HVD_ERR_NO_MEMORY, "no memory for messages of %zu ranks", size)
                 : watch_sockets(p2p, err);
    if (rc != HVD_OK) {
        p2p_destroy(p2p);
        return rc;
    }
    *p2pp = p2p;
    return HVD_OK;
}

void p2p_end_op(struct p2p *p2p, struct p2p_op *op, int status, const char *reason)
{
    p2p->ops--;
    op->held = false;
    op_watch_end(p2p, op);
    p2p->params.ended(p2p->params.arg, op, status, reason);
}

/* While no op waits, what comes can wait too, unless the rings are full, or this rank leaves and must say so.
 */
void p2p_arm_rings(struct p2p *p2p)
{
    enum ring_wish wish = p2p->armed && (p2p->ops > 0 || p2p->leaving) ? RING_NEWS : RING_ROOM;
    struct channel *channel;
    if (p2p->armed)
        ring_pairs_clear(&p2p->ring_pairs);
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link))
        if (channel_has_rings(channel))
            ring_pair_arm(&channel->pair, wish);
}

/* ---- What must be equal at both ends ---- */

static void contents_text(struct contents contents, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s[%" PRId64 "]", dtype_name(contents.dtype),
             contents.bytes / (int64_t)dtype_bytes(contents.dtype));
}

void p2p_explain(const struct p2p *p2p, int source, struct contents sent, int receiver,
                 struct contents wanted, struct hvd_error *why)
{
    char names[2][300], texts[2][60];
    peer_table_rank_name(p2p->params.peer_table, source, names[0], sizeof(names[0]));
    peer_table_rank_name(p2p->params.peer_table, receiver, names[1], sizeof(names[1]));
    contents_text(sent, texts[0], sizeof(texts[0]));
    contents_text(wanted, texts[1], sizeof(texts[1]));
    error_set(why, HVD_ERR_MISMATCH, "%s sends %s, %s receives %s; give both the same", names[0], texts[0],
              names[1], texts[1]);
}

int p2p_check(const struct p2p *p2p, const struct p2p_op *receive, int source, struct contents contents,
              struct hvd_error *why)
{
    const struct contents wanted = {receive->dtype, receive->bytes};
    if (wanted.dtype == contents.dtype && wanted.bytes == contents.bytes)
        return HVD_OK;
    p2p_explain(p2p, source, contents, p2p->params.peer_table->rank, wanted, why);
    return HVD_ERR_MISMATCH;
}

/* ---- Sends ---- */

static int send_to_self(struct p2p *p2p, struct p2p_op *op, struct hvd_error *err)
{
    struct p2p_arrival *arrival = calloc(1, sizeof(*arrival));
    if (arrival == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a message");
    *arrival = (struct p2p_arrival){
        .envelope = op->envelope, .kind = ARRIVAL_LOCAL, .contents = {op->dtype, op->bytes}, .send = op};
    struct envelope *receive = matching_take_receive(&p2p->matching, &op->envelope);
    if (receive != NULL)
        return arrivals_give(p2p, arrival, op_of(receive), err);
    matching_add_arrival(&p2p->matching, &arrival->envelope);
    return HVD_OK;
}

static bool has_room(const struct channel *channel, int64_t bytes)
{
    return bytes <= P2P_EAGER_BYTES && channel->credit_bytes >= p2p_room_of(bytes);
}

static int begin_send(struct p2p *p2p, struct p2p_op *op, struct hvd_error *err)
{
    struct channel *channel = NULL;
    bool sent = false;
    if (op->to == p2p->params.peer_table->rank)
        return send_to_self(p2p, op, err);
    int rc = connect_channel(p2p, op->to, &channel, err);
    if (rc != HVD_OK)
        return rc;
    struct p2p_frame frame = {.type = P2P_EAGER,
                              .set = op->envelope.set,
                              .tag = op->envelope.tag,
                              .dtype = op->dtype,
                              .bytes = op->bytes,
                              .direct = op->direct};
    if (has_room(channel, op->bytes)) {
        channel->credit_bytes -= p2p_room_of(op->bytes);
        op->out.op = op;
        channel_queue(channel, &op->out, &frame, op->memory, (size_t)op->bytes);
    } else {
        frame.type = P2P_OFFER;
        frame.id = op->id = channel->last_id + 1;
        frame.address = channel_has_rings(channel) ? (uintptr_t)op->memory : 0;
        rc = channel_queue_frame(channel, &frame, err);
        if (rc != HVD_OK)
            return rc;
        channel->last_id++;
        TAILQ_INSERT_TAIL(&channel->offers, op, link);
    }
    if (channel_has_rings(
            channel)) /* before the other stages of this round; p2p_advance sees what came of it */
        channel_send(channel, &sent);
    return HVD_OK;
}

/* ---- Receives ---- */

/* The rank sends no more, and all that it has sent was received. */
static bool has_left(const struct p2p *p2p, int rank)
{
    const struct channel *channel;
    if (rank == HVD_ANY_SOURCE || !p2p->left[rank])
        return false;
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link))
        if (channel->rank == rank && !channel->outgoing && !channel->farewell)
            return false;
    return true;
}

void p2p_end_by_departure(struct p2p *p2p, struct p2p_op *op, int rank)
{
    char name[300];
    struct hvd_error reason;
    peer_table_rank_name(p2p->params.peer_table, rank, name, sizeof(name));
    error_set(&reason, HVD_ERR_SHUTDOWN, "%s has called hvd_shutdown", name);
    p2p_end_op(p2p, op, HVD_ERR_SHUTDOWN, reason.text);
}

void p2p_left(struct p2p *p2p, int rank)
{
    p2p->left[rank] = true;
    while (has_left(p2p, rank)) {
        struct envelope *receive = matching_remove_receive(&p2p->matching, MATCHING_ANY_SET, rank);
        if (receive == NULL)
            return;
        p2p_end_by_departure(p2p, op_of(receive), rank);
    }
}

static int begin_receive(struct p2p *p2p, struct p2p_op *op, struct hvd_error *err)
{
    struct envelope *found = matching_take_arrival(&p2p->matching, &op->envelope);
    if (found != NULL)
        return arrivals_give(p2p, arrival_of(found), op, err);
    if (has_left(p2p, op->envelope.source))
        p2p_end_by_departure(p2p, op, op->envelope.source);
    else
        matching_add_receive(&p2p->matching, &op->envelope);
    return HVD_OK;
}

void p2p_hold(struct p2p *p2p, struct p2p_op *send)
{
    send->held = true;
    op_watch_begin(p2p, send);
}

void p2p_drop(struct p2p *p2p, struct p2p_op *send)
{
    send->held = false;
    op_watch_end(p2p, send);
}

int p2p_begin(struct p2p *p2p, struct p2p_op *op, struct hvd_error *err)
{
    struct hvd_error why;
    if (op->held)
        p2p_drop(p2p, op);
    op->out = (struct p2p_out){0};
    op->id = 0;
    op->via = NULL;
    op->read_bytes = 0;
    if (p2p->ops++ == 0 && p2p->armed)
        p2p_arm_rings(p2p);
    op_watch_begin(p2p, op);
    if (op->direction == P2P_RECEIVE)
        return begin_receive(p2p, op, err);
    int rc = begin_send(p2p, op, &why);
    if (rc != HVD_OK)
        p2p_end_op(p2p, op, rc, why.text);
    return HVD_OK;
}

/* ---- Sockets ---- */

/* The connection has failed; errno says why. */
static int report_lost(struct p2p *p2p, struct channel *channel, int *rankp, struct hvd_error *err)
{
    int error = errno;
    char ends[CONNECTION_ENDS_BYTES], cause[CONNECTION_CAUSE_BYTES];
    channel_close(channel, p2p->epoll_fd);
    if (connection_is_loss(error) && (p2p->leaving || channel->farewell || p2p->left[channel->rank]))
        return HVD_OK;
    *rankp = channel->rank;
    connection_ends_text(&channel->ends, p2p->params.peer_table, ends);
    connection_cause_text(error, p2p->params.peer_table->lease_us, cause);
    return error_set(err, connection_is_loss(error) ? HVD_ERR_RANK_LOST : HVD_ERR_SYSTEM,
                     "messages: the connection of %s %s", ends, cause);
}

static int refuse_stream(struct p2p *p2p, const struct channel *channel, int status, struct hvd_error *err)
{
    char name[300];
    const struct hvd_error why = *err;
    peer_table_rank_name(p2p->params.peer_table, channel->rank, name, sizeof(name));
    return error_set(err, status, "messages: %s sent %s; do all ranks run the same hvd?", name, why.text);
}

static int receive_all(struct p2p *p2p, struct channel *channel, bool *movedp, int *rankp,
                       struct hvd_error *err)
{
    bool moved = channel_has_rings(channel);
    for (int calls = 0; (channel->readable || moved) && calls < CALLS_AT_ONCE; calls++) {
        moved = false;
        if (channel_receive(channel, &moved) < 0)
            return report_lost(p2p, channel, rankp, err);
        *movedp |= moved;
        moved &= channel_has_rings(channel);
        int rc = arrivals_handle(p2p, channel, err);
        if (rc != HVD_OK)
            return rc == HVD_ERR_SYSTEM ? refuse_stream(p2p, channel, rc, err) : rc;
    }
    return HVD_OK;
}

static int send_all(struct p2p *p2p, struct channel *channel, bool *movedp, int *rankp, struct hvd_error *err)
{
    channel->writable |= channel_has_rings(channel);
    for (int calls = 0; channel->writable && !STAILQ_EMPTY(&channel->outs) && calls < CALLS_AT_ONCE;
         calls++) {
        if (channel_send(channel, movedp) < 0)
            return report_lost(p2p, channel, rankp, err);
        for (struct p2p_op *op = channel_sent(channel); op != NULL; op = channel_sent(channel))
            p2p_end_op(p2p, op, HVD_OK, NULL);
    }
    return HVD_OK;
}

/* Take the events of the sockets. True: some connection is being made that can go on. */
static bool take_events(struct p2p *p2p)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    bool connects = false;
    int count = epoll_wait(p2p->epoll_fd, events, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < count; i++) {
        struct channel *channel = events[i].data.ptr;
        if (channel == NULL || channel->fd < 0) {
            connects = true;
            continue;
        }
        channel->readable |= (events[i].events & ~(uint32_t)EPOLLOUT) != 0;
        channel->writable |= (events[i].events & ~(uint32_t)EPOLLIN) != 0;
    }
    p2p->look = count == EVENTS_AT_ONCE;
    return connects;
}

/* A connection on which something is under way to an end that does not answer is dead. */
static int watch_connections(struct p2p *p2p, int *rankp, struct hvd_error *err)
{
    int64_t lease_us = p2p->params.peer_table->lease_us, now_us = clock_us();
    struct channel *channel;
    bool asking = false;
    if (now_us < p2p->watch_at_us)
        return HVD_OK;
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link)) {
        if (channel->fd < 0)
            continue;
        if (connection_is_dead(&channel->silence, channel->fd, lease_us, now_us)) {
            errno = ETIMEDOUT;
            return report_lost(p2p, channel, rankp, err);
        }
        asking |= connection_is_asking(&channel->silence) ||
                  (!channel_has_rings(channel) && !STAILQ_EMPTY(&channel->outs));
    }
    p2p->watch_at_us = asking ? now_us + lease_us / LOOKS_IN_LEASE : INT64_MAX;
    return HVD_OK;
}

/* Something was sent: see whether it arrives. */
static void watch_later(struct p2p *p2p)
{
    int64_t lease_us = p2p->params.peer_table->lease_us;
    if (p2p->watch_at_us == INT64_MAX && lease_us > 0)
        p2p->watch_at_us = clock_us() + lease_us / LOOKS_IN_LEASE;
}

/* As in most rounds, which must be short. */
static bool is_idle(const struct channel *channel)
{
    return channel_has_rings(channel) && !channel->readable && STAILQ_EMPTY(&channel->outs) &&
           TAILQ_EMPTY(&channel->reads) && !ring_pair_has_news(&channel->pair);
}

static int advance_channel(struct p2p *p2p, struct channel *channel, bool *movedp, int *rankp,
                           struct hvd_error *err)
{
    bool sent = false, with_rings = channel_has_rings(channel);
    if (is_idle(channel))
        return HVD_OK;
    int rc = channel->readable || with_rings ? receive_all(p2p, channel, movedp, rankp, err) : HVD_OK;
    if (rc == HVD_OK)
        rc = arrivals_read(p2p, channel, movedp, err);
    if (channel_has_rings(channel) && channel->outgoing)
        *movedp |= ring_pair_was_read(&channel->pair);
    if (rc == HVD_OK)
        rc = send_all(p2p, channel, &sent, rankp, err);
    if (sent && !with_rings)
        watch_later(p2p);
    *movedp |= sent;
    return rc;
}

static int advance_channels(struct p2p *p2p, bool *movedp, int *rankp, struct hvd_error *err)
{
    struct channel *channel;
    bool over_sockets = false;
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link)) {
        int rc = advance_channel(p2p, channel, movedp, rankp, err);
        if (rc != HVD_OK)
            return rc;
        over_sockets |= channel->fd >= 0 && !channel_has_rings(channel);
    }
    p2p->over_sockets = over_sockets;
    return HVD_OK;
}

static int look_at_sockets(struct p2p *p2p, bool *movedp, int *rankp, struct hvd_error *err)
{
    int64_t connect_us = connect_deadline(p2p);
    bool due = take_events(p2p) || (connect_us != INT64_MAX && clock_us() >= connect_us);
    return due ? connect_advance(p2p, movedp, rankp, err) : HVD_OK;
}

int p2p_advance(struct p2p *p2p, bool *movedp, int *rankp, struct hvd_error *err)
{
    bool looks = (p2p->over_sockets && p2p->ops > 0) || p2p->dials > 0 || p2p->look ||
                 ++p2p->rounds % ROUNDS_PER_LOOK == 0;
    int rc = p2p->epoll_fd >= 0 && looks ? look_at_sockets(p2p, movedp, rankp, err) : HVD_OK;
    if (rc == HVD_OK)
        rc = advance_channels(p2p, movedp, rankp, err);
    return rc == HVD_OK && p2p->watch_at_us != INT64_MAX ? watch_connections(p2p, rankp, err) : rc;
}

void p2p_arm(struct p2p *p2p, bool armed)
{
    p2p->armed = armed;
    p2p_arm_rings(p2p);
}

void p2p_look(struct p2p *p2p)
{
    p2p->look = true;
}

int64_t p2p_deadline(const struct p2p *p2p)
{
    int64_t connect_us = connect_deadline(p2p);
    int64_t look_us = op_watch_deadline(p2p);
    int64_t watch_us = p2p->watch_at_us < look_us ? p2p->watch_at_us : look_us;
    return connect_us < watch_us ? connect_us : watch_us;
}

bool p2p_has_sockets(const struct p2p *p2p)
{
    return p2p->over_sockets || p2p->dials > 0;
}

bool p2p_has_woken(struct p2p *p2p)
{
    bool has_rung = p2p->ring_pairs.has_rung;
    p2p->ring_pairs.has_rung = false;
    return has_rung;
}

bool p2p_is_connecting(const struct p2p *p2p)
{
    return p2p->dials > 0;
}

bool p2p_is_busy(const struct p2p *p2p)
{
    const struct channel *channel;
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link))
        if (channel->fd >= 0 && (channel->payload.active || !STAILQ_EMPTY(&channel->outs)))
            return true;
    return false;
}

/* ---- The end ---- */

/* Drop messages that nobody will receive. */
static void drop_arrivals(struct p2p *p2p, hvd_set set, int status, const char *reason)
{
    struct envelope *envelope = matching_remove_arrival(&p2p->matching, set);
    while (envelope != NULL) {
        struct p2p_arrival *arrival = arrival_of(envelope);
        struct p2p_op *send = arrival->send;
        arrivals_drop(arrival);
        if (send != NULL)
            p2p_end_op(p2p, send, status, reason);
        envelope = matching_remove_arrival(&p2p->matching, set);
    }
}

static void end_receives(struct p2p *p2p, hvd_set set, int status, const char *reason)
{
    struct envelope *envelope = matching_remove_receive(&p2p->matching, set, HVD_ANY_SOURCE);
    while (envelope != NULL) {
        p2p_end_op(p2p, op_of(envelope), status, reason);
        envelope = matching_remove_receive(&p2p->matching, set, HVD_ANY_SOURCE);
    }
}

/* The other end may be reading the memory of an offer. */
static void end_offers(struct p2p *p2p, struct channel *channel, hvd_set set, int status, const char *reason)
{
    struct p2p_ops ended = TAILQ_HEAD_INITIALIZER(ended);
    struct p2p_op *op = TAILQ_FIRST(&channel->offers);
    while (op != NULL) {
        struct p2p_op *next = TAILQ_NEXT(op, link);
        if (set == MATCHING_ANY_SET || op->envelope.set == set) {
            TAILQ_REMOVE(&channel->offers, op, link);
            TAILQ_INSERT_TAIL(&ended, op, link);
            if (channel->outgoing)
                ring_pair_withdraw(&channel->pair, op->id);
        }
        op = next;
    }
    while (!TAILQ_EMPTY(&ended)) {
        op = TAILQ_FIRST(&ended);
        TAILQ_REMOVE(&ended, op, link);
        p2p_end_op(p2p, op, status, reason);
    }
}

void p2p_end_set(struct p2p *p2p, hvd_set set, int status, const char *reason)
{
    struct channel *channel;
    end_receives(p2p, set, status, reason);
    drop_arrivals(p2p, set, status, reason);
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link))
        if (channel->outgoing)
            end_offers(p2p, channel, set, status, reason);
}

/* The ops whose bytes were on their way, in or out. */
static void end_transfers(struct p2p *p2p, struct channel *channel, int status, const char *reason)
{
    struct payload payload = channel->payload;
    struct p2p_op *receive = payload.op;
    channel->payload = (struct payload){0};
    if (payload.arrival != NULL && payload.arrival->taker != NULL) {
        receive = payload.arrival->taker;
        free(payload.arrival);
    }
    if (receive != NULL)
        p2p_end_op(p2p, receive, status, reason);
    for (struct p2p_op *op = channel_drop(channel); op != NULL; op = channel_drop(channel))
        p2p_end_op(p2p, op, status, reason);
    TAILQ_CONCAT(&channel->offers, &channel->reads, link);
    end_offers(p2p, channel, MATCHING_ANY_SET, status, reason);
    channel_close(channel, p2p->epoll_fd);
}

void p2p_abandon(struct p2p *p2p, int status, const char *reason)
{
    struct channel *channel;
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link))
        end_transfers(p2p, channel, status, reason);
    end_receives(p2p, MATCHING_ANY_SET, status, reason);
    drop_arrivals(p2p, MATCHING_ANY_SET, status, reason);
}

void p2p_leave(struct p2p *p2p)
{
    const struct p2p_frame frame = {.type = P2P_FAREWELL};
    struct channel *channel;
    if (p2p->leaving)
        return;
    p2p->leaving = true;
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link))
        if (channel->outgoing) /* without memory the receiver hears of it when all have left */
            channel_queue_frame(channel, &frame, NULL);
    arrivals_decline(p2p);
    p2p_arm_rings(p2p);
}

void p2p_after_fork(struct p2p *p2p)
{
    struct channel *channel;
    if (p2p->acceptor != NULL)
        establishment_after_fork(p2p->acceptor);
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link)) {
        if (channel->establishment != NULL)
            establishment_after_fork(channel->establishment);
        if (channel->fd >= 0)
            close(channel->fd);
    }
    ring_pairs_close(&p2p->ring_pairs);
    close(p2p->epoll_fd);
}

void p2p_destroy(struct p2p *p2p)
{
    if (p2p == NULL)
        return;
    establishment_end(p2p->acceptor);
    while (!LIST_EMPTY(&p2p->channels)) {
        struct channel *channel = LIST_FIRST(&p2p->channels);
        LIST_REMOVE(channel, link);
        channel_close(channel, p2p->epoll_fd);
        channel_drop(channel);
        channel_free(channel);
    }
    drop_arrivals(p2p, MATCHING_ANY_SET, HVD_ERR_SHUTDOWN, NULL);
    ring_pairs_close(&p2p->ring_pairs);
    if (p2p->epoll_fd >= 0)
        close(p2p->epoll_fd);
    free(p2p->outgoing);
    free(p2p->left);
    free(p2p);
}
