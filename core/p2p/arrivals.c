/* arrivals.c: what comes over the connections for messages: messages, offers of messages, and answers to this
 * rank's own. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "p2p/p2p_state.h"

/* How long one round may read the sender's memory: the sender, which looks for the next one, must not have
 * gone to sleep. How many bytes that are differs between machines; a round reads at least and at most: */
#define READ_US          40
#define LEAST_READ_BYTES (INT64_C(64) << 10)
#define MOST_READ_BYTES  (INT64_C(1) << 20)

static struct contents contents_of(const struct p2p_frame *frame)
{
    return (struct contents){frame->dtype, frame->bytes};
}

/* ---- Room for eager messages ---- */

/* The sender of an eager message may use its room again. It is told when that is a good part of the window.
 */
static void return_room(struct channel *channel, int64_t bytes)
{
    channel->credit_bytes += p2p_room_of(bytes);
    if (channel->credit_bytes < P2P_WINDOW_BYTES / 4 || channel->credit.queued || channel->fd < 0)
        return;
    const struct p2p_frame frame = {.type = P2P_CREDIT, .bytes = channel->credit_bytes};
    channel->room_bytes += channel->credit_bytes;
    channel->credit_bytes = 0;
    channel_queue(channel, &channel->credit, &frame, NULL, 0);
}

/* An eager message takes room, which its sender must have left. */
static int take_room(struct channel *channel, const struct p2p_frame *frame, struct hvd_error *err)
{
    int64_t bytes = p2p_room_of(frame->bytes);
    if (bytes > channel->room_bytes)
        return error_set(err, HVD_ERR_SYSTEM, "a message of %" PRId64 " bytes, for which there is no room",
                         frame->bytes);
    channel->room_bytes -= bytes;
    return HVD_OK;
}

static int receive_credit(struct channel *channel, const struct p2p_frame *frame, struct hvd_error *err)
{
    if (frame->bytes > P2P_WINDOW_BYTES - channel->credit_bytes)
        return error_set(err, HVD_ERR_SYSTEM,
                         "word of %" PRId64 " bytes of room, which is more than there is", frame->bytes);
    channel->credit_bytes += frame->bytes;
    return HVD_OK;
}

/* ---- Matched ---- */

/* The receive and the message differ: both ends learn it. */
static int refuse(struct p2p *p2p, struct channel *channel, const struct p2p_frame *message,
                  struct p2p_op *receive, const char *why, struct hvd_error *err)
{
    struct p2p_frame frame = *message;
    frame.type = P2P_REFUSAL;
    frame.other_dtype = receive->dtype;
    frame.other_bytes = receive->bytes;
    p2p_end_op(p2p, receive, HVD_ERR_MISMATCH, why);
    return channel_queue_frame(channel, &frame, err);
}

int arrivals_request(struct channel *channel, struct p2p_op *receive, struct hvd_error *err)
{
    const struct p2p_frame frame = {.type = P2P_TAKE, .id = receive->id, .direct = receive->via != NULL};
    TAILQ_INSERT_TAIL(&channel->offers, receive, link);
    return channel_queue_frame(channel, &frame, err);
}

static int take_offer(struct p2p *p2p, struct channel *channel, const struct p2p_frame *offer,
                      struct p2p_op *receive, struct hvd_error *err)
{
    receive->id = offer->id;
    if (offer->direct && receive->direct)
        return direct_tell(p2p, channel, receive, P2P_STEP_MATCHED, err);
    int rc = direct_supply(p2p, receive, err);
    if (rc != HVD_OK)
        return rc;
    if (offer->address == 0 || channel->pair.source.pid == 0)
        return arrivals_request(channel, receive, err);
    receive->address = offer->address;
    receive->read_bytes = 0;
    TAILQ_INSERT_TAIL(&channel->reads, receive, link);
    return HVD_OK;
}

static void finish_receive(struct p2p *p2p, struct p2p_op *receive, int source)
{
    if (receive->sourcep != NULL)
        *receive->sourcep = source;
    p2p_end_op(p2p, receive, HVD_OK, NULL);
}

static void copy(struct p2p_op *receive, const char *data, int64_t bytes)
{
    if (bytes > 0)
        memcpy(receive->memory, data, (size_t)bytes);
}

static void give_local(struct p2p *p2p, struct p2p_arrival *arrival, struct p2p_op *receive, int status,
                       const char *why)
{
    struct p2p_op *send = arrival->send;
    if (status == HVD_OK) {
        copy(receive, send->memory, send->bytes);
        finish_receive(p2p, receive, arrival->envelope.source);
    } else {
        p2p_end_op(p2p, receive, status, why);
    }
    p2p_end_op(p2p, send, status, status == HVD_OK ? NULL : why);
    free(arrival);
}

/* All of the bytes are here, and nobody needs the arrival any more. */
static void give_bytes(struct p2p *p2p, struct p2p_arrival *arrival, struct p2p_op *receive)
{
    copy(receive, arrival->data, arrival->contents.bytes);
    return_room(arrival->via, arrival->contents.bytes);
    finish_receive(p2p, receive, arrival->envelope.source);
    free(arrival);
}

/* Its bytes are dropped, those too that are still coming. */
static void drop_bytes(struct p2p_arrival *arrival)
{
    struct payload *payload = &arrival->via->payload;
    if (payload->active && payload->arrival == arrival) {
        payload->arrival = NULL;
        payload->to = NULL;
    }
    return_room(arrival->via, arrival->contents.bytes);
    free(arrival);
}

int arrivals_give(struct p2p *p2p, struct p2p_arrival *arrival, struct p2p_op *receive, struct hvd_error *err)
{
    struct hvd_error why;
    int status = p2p_check(p2p, receive, arrival->envelope.source, arrival->contents, &why);
    if (arrival->kind == ARRIVAL_LOCAL) {
        if (status == HVD_OK && receive->direct)
            status = p2p->params.direct->supply(p2p->params.arg, receive, &why);
        give_local(p2p, arrival, receive, status, why.text);
        return HVD_OK;
    }
    struct channel *channel = arrival->via;
    const struct p2p_frame message = {.set = arrival->envelope.set,
                                      .tag = arrival->envelope.tag,
                                      .dtype = arrival->contents.dtype,
                                      .bytes = arrival->contents.bytes,
                                      .id = arrival->id,
                                      .address = arrival->address,
                                      .direct = arrival->direct};
    int rc = HVD_OK;
    if (status == HVD_OK && arrival->kind == ARRIVAL_EAGER) {
        arrival->taker = receive;
        if (arrival->complete)
            give_bytes(p2p, arrival, receive);
        return HVD_OK;
    }
    if (arrival->kind == ARRIVAL_EAGER)
        drop_bytes(arrival);
    else
        free(arrival);
    if (status == HVD_OK)
        rc = take_offer(p2p, channel, &message, receive, err);
    else
        rc = refuse(p2p, channel, &message, receive, why.text, err);
    return rc;
}

void arrivals_drop(struct p2p_arrival *arrival)
{
    if (arrival->kind == ARRIVAL_EAGER)
        drop_bytes(arrival);
    else
        free(arrival);
}

static int decline(struct channel *channel, uint64_t id, struct hvd_error *err)
{
    const struct p2p_frame frame = {.type = P2P_DEPARTURE, .id = id};
    return channel_queue_frame(channel, &frame, err);
}

/* Without memory the sender hears of it when all have left. */
void arrivals_decline(struct p2p *p2p)
{
    struct envelope *envelope = matching_remove_arrival(&p2p->matching, MATCHING_ANY_SET);
    while (envelope != NULL) {
        struct p2p_arrival *arrival = arrival_of(envelope);
        struct p2p_op *send = arrival->send;
        if (arrival->kind == ARRIVAL_OFFER)
            decline(arrival->via, arrival->id, NULL);
        arrivals_drop(arrival);
        if (send != NULL)
            p2p_end_by_departure(p2p, send, send->to);
        envelope = matching_remove_arrival(&p2p->matching, MATCHING_ANY_SET);
    }
}

/* ---- Messages ---- */

static struct p2p_arrival *create_arrival(const struct channel *channel, const struct p2p_frame *frame,
                                          enum arrival_kind kind)
{
    size_t bytes = kind == ARRIVAL_EAGER ? (size_t)frame->bytes : 0;
    struct p2p_arrival *arrival = malloc(sizeof(*arrival) + bytes);
    if (arrival != NULL)
        *arrival = (struct p2p_arrival){
            .envelope = {.set = frame->set, .source = channel->rank, .tag = frame->tag},
            .kind = kind,
            .contents = contents_of(frame),
            .id = frame->id,
            .address = frame->address,
            .direct = frame->direct,
        };
    return arrival;
}

static int keep_message(struct p2p *p2p, struct channel *channel, const struct p2p_frame *frame,
                        struct hvd_error *err)
{
    bool eager = frame->type == P2P_EAGER;
    struct p2p_arrival *arrival = create_arrival(channel, frame, eager ? ARRIVAL_EAGER : ARRIVAL_OFFER);
    if (arrival == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a message that nobody receives yet");
    arrival->via = channel;
    matching_add_arrival(&p2p->matching, &arrival->envelope);
    if (eager)
        channel->payload = (struct payload){
            .active = true, .to = arrival->data, .left = arrival->contents.bytes, .arrival = arrival};
    return HVD_OK;
}

/* The bytes of an eager message follow, for [receive]; NULL: for nobody. */
static void expect_bytes(struct channel *channel, const struct p2p_frame *frame, struct p2p_op *receive)
{
    channel->payload = (struct payload){.active = true, .left = frame->bytes, .op = receive};
    channel->payload.to = receive != NULL ? receive->memory : NULL;
    return_room(channel, frame->bytes);
}

/* It was sent before its sender knew that the process set is no more, which ends an offer there as well; or
 * that this rank leaves. */
static int drop_message(struct channel *channel, const struct p2p_frame *frame, bool leaving,
                        struct hvd_error *err)
{
    if (frame->type == P2P_EAGER)
        expect_bytes(channel, frame, NULL);
    else if (leaving)
        return decline(channel, frame->id, err);
    return HVD_OK;
}

/* A message or an offer: whose is it? */
static int receive_message(struct p2p *p2p, struct channel *channel, const struct p2p_frame *frame,
                           struct hvd_error *err)
{
    const struct envelope envelope = {.set = frame->set, .source = channel->rank, .tag = frame->tag};
    struct hvd_error why;
    int rc = frame->type == P2P_EAGER ? take_room(channel, frame, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    struct envelope *found = matching_take_receive(&p2p->matching, &envelope);
    if (found == NULL && (p2p->leaving || p2p->params.set_is_over(p2p->params.arg, frame->set)))
        return drop_message(channel, frame, p2p->leaving, err);
    if (found == NULL)
        return keep_message(p2p, channel, frame, err);
    struct p2p_op *receive = op_of(found);
    int status = p2p_check(p2p, receive, channel->rank, contents_of(frame), &why);
    if (frame->type == P2P_OFFER && status == HVD_OK)
        return take_offer(p2p, channel, frame, receive, err);
    if (frame->type == P2P_EAGER)
        expect_bytes(channel, frame, status == HVD_OK ? receive : NULL);
    return status == HVD_OK ? HVD_OK : refuse(p2p, channel, frame, receive, why.text, err);
}

/* The op that waits for an answer about offer [id]; NULL: none. */
static struct p2p_op *find_op(const struct channel *channel, uint64_t id)
{
    struct p2p_op *op = TAILQ_FIRST(&channel->offers);
    while (op != NULL && op->id != id)
        op = TAILQ_NEXT(op, link);
    return op;
}

/* The same, and it waits no more. */
static struct p2p_op *take_op(struct channel *channel, uint64_t id)
{
    struct p2p_op *op = find_op(channel, id);
    if (op != NULL)
        TAILQ_REMOVE(&channel->offers, op, link);
    return op;
}

static int refuse_frame(const char *what, const struct p2p_frame *frame, struct hvd_error *err)
{
    return error_set(err, HVD_ERR_SYSTEM, "%s %" PRIu64 ", which is not under way", what, frame->id);
}

static int receive_data(struct p2p *p2p, struct channel *channel, const struct p2p_frame *frame,
                        struct hvd_error *err)
{
    struct p2p_op *receive = find_op(channel, frame->id);
    if (receive == NULL || receive->bytes != frame->bytes || frame->direct != (receive->via != NULL))
        return refuse_frame("the data of message", frame, err);
    TAILQ_REMOVE(&channel->offers, receive, link);
    if (frame->direct)
        return direct_tell(p2p, channel, receive, P2P_STEP_STARTED, err);
    channel->payload =
        (struct payload){.active = true, .to = receive->memory, .left = receive->bytes, .op = receive};
    return HVD_OK;
}

static int receive_withdrawal(struct p2p *p2p, struct channel *channel, const struct p2p_frame *frame,
                              struct hvd_error *err)
{
    struct p2p_op *receive = take_op(channel, frame->id);
    if (receive == NULL)
        return refuse_frame("the withdrawal of message", frame, err);
    p2p_end_op(p2p, receive, HVD_ERR_SET, "the process set was removed meanwhile");
    return HVD_OK;
}

/* ---- Answers ---- */

/* An offer that has ended meanwhile is withdrawn. */
static int receive_take(struct p2p *p2p, struct channel *channel, const struct p2p_frame *frame,
                        struct hvd_error *err)
{
    struct p2p_op *send = find_op(channel, frame->id);
    const struct p2p_frame withdrawal = {.type = P2P_WITHDRAWAL, .id = frame->id};
    if (frame->id > channel->last_id || (send != NULL && frame->direct && !send->direct))
        return refuse_frame("the receiver of message", frame, err);
    if (send == NULL)
        return channel_queue_frame(channel, &withdrawal, err);
    TAILQ_REMOVE(&channel->offers, send, link);
    if (send->direct)
        return direct_tell(p2p, channel, send, frame->direct ? P2P_STEP_TAKEN : P2P_STEP_WANTED, err);
    send->via = channel;
    return p2p_start(send, false, err);
}

static int receive_taken(struct p2p *p2p, struct channel *channel, const struct p2p_frame *frame,
                         struct hvd_error *err)
{
    struct p2p_op *send = take_op(channel, frame->id);
    if (frame->id > channel->last_id)
        return refuse_frame("the receiver of message", frame, err);
    if (send != NULL)
        p2p_end_op(p2p, send, HVD_OK, NULL);
    return HVD_OK;
}

static int receive_departure(struct p2p *p2p, struct channel *channel, const struct p2p_frame *frame,
                             struct hvd_error *err)
{
    struct p2p_op *send = take_op(channel, frame->id);
    if (frame->id > channel->last_id)
        return refuse_frame("the refusal of message", frame, err);
    if (send != NULL)
        p2p_end_by_departure(p2p, send, channel->rank);
    return HVD_OK;
}

/* An eager message that is refused is done for the program, so that the log has to say it. */
static void receive_refusal(struct p2p *p2p, struct channel *channel, const struct p2p_frame *frame)
{
    const struct contents wanted = {.dtype = frame->other_dtype, .bytes = frame->other_bytes};
    struct p2p_op *send = frame->id > 0 ? take_op(channel, frame->id) : NULL;
    struct hvd_error why;
    p2p_explain(p2p, p2p->params.peer_table->rank, contents_of(frame), channel->rank, wanted, &why);
    if (send != NULL)
        p2p_end_op(p2p, send, HVD_ERR_MISMATCH, why.text);
    else if (frame->id == 0)
        log_write(p2p->params.log, LOG_ERROR, "messages", "send with tag %d: %s", frame->tag, why.text);
}

/* It is the first frame, and the last one on the socket. */
static int join_rings(struct p2p *p2p, struct channel *channel, const struct p2p_frame *frame,
                      struct hvd_error *err)
{
    if (channel_has_rings(channel) || channel->begin != channel->end)
        return error_set(err, HVD_ERR_SYSTEM, "rings where they must not come");
    int rc = ring_pair_join(&p2p->ring_pairs, frame->address, &channel->pair, err);
    if (rc == HVD_OK)
        p2p_arm_rings(p2p);
    return rc;
}

static int handle_frame(struct p2p *p2p, struct channel *channel, const struct p2p_frame *frame,
                        struct hvd_error *err)
{
    switch (frame->type) {
    case P2P_EAGER:
    case P2P_OFFER:
        return receive_message(p2p, channel, frame, err);
    case P2P_DATA:
        return receive_data(p2p, channel, frame, err);
    case P2P_WITHDRAWAL:
        return receive_withdrawal(p2p, channel, frame, err);
    case P2P_FAREWELL:
        channel->farewell = true;
        p2p_left(p2p, channel->rank);
        return HVD_OK;
    case P2P_RINGS:
        return join_rings(p2p, channel, frame, err);
    case P2P_TAKE:
        return receive_take(p2p, channel, frame, err);
    case P2P_TAKEN:
        return receive_taken(p2p, channel, frame, err);
    case P2P_DEPARTURE:
        return receive_departure(p2p, channel, frame, err);
    case P2P_CREDIT:
        return receive_credit(channel, frame, err);
    case P2P_REFUSAL:
        receive_refusal(p2p, channel, frame);
        return HVD_OK;
    case P2P_CARD:
        return direct_expect_card(p2p, channel, err);
    case P2P_FRAME_TYPES:
        break;
    }
    return HVD_OK;
}

/* ---- The sender's memory ---- */

/* The bytes are valid unless the sender has withdrawn the offer meanwhile. */
static int end_read(struct p2p *p2p, struct channel *channel, struct p2p_op *receive, struct hvd_error *err)
{
    const struct p2p_frame frame = {.type = P2P_TAKEN, .id = receive->id};
    if (ring_pair_withdrawn(&channel->pair, receive->id))
        return arrivals_request(channel, receive, err);
    finish_receive(p2p, receive, channel->rank);
    return channel_queue_frame(channel, &frame, err);
}

/* Read [count] bytes, and learn how many the next round should. */
static bool read_some(struct channel *channel, const struct p2p_op *receive, int64_t count)
{
    int64_t begun_us = clock_us();
    bool done = ring_pair_read(&channel->pair, receive->memory + receive->read_bytes,
                               receive->address + (uint64_t)receive->read_bytes, count);
    int64_t took_us = clock_us() - begun_us;
    if (took_us > READ_US && channel->read_bytes > LEAST_READ_BYTES)
        channel->read_bytes /= 2;
    else if (count == channel->read_bytes && took_us <= READ_US / 2 && count < MOST_READ_BYTES)
        channel->read_bytes *= 2;
    return done;
}

int arrivals_read(struct p2p *p2p, struct channel *channel, bool *movedp, struct hvd_error *err)
{
    struct p2p_op *receive = TAILQ_FIRST(&channel->reads);
    if (receive == NULL || !channel_has_rings(channel))
        return HVD_OK;
    int64_t left = receive->bytes - receive->read_bytes;
    if (channel->read_bytes == 0)
        channel->read_bytes = LEAST_READ_BYTES;
    int64_t count = left < channel->read_bytes ? left : channel->read_bytes;
    *movedp = true;
    if (!read_some(channel, receive, count)) {
        TAILQ_REMOVE(&channel->reads, receive, link);
        return arrivals_request(channel, receive, err);
    }
    receive->read_bytes += count;
    if (receive->read_bytes < receive->bytes)
        return HVD_OK;
    TAILQ_REMOVE(&channel->reads, receive, link);
    return end_read(p2p, channel, receive, err);
}

/* ---- The stream ---- */

static int end_payload(struct p2p *p2p, struct channel *channel, struct hvd_error *err)
{
    struct payload payload = channel->payload;
    channel->payload = (struct payload){0};
    if (payload.op != NULL)
        finish_receive(p2p, payload.op, channel->rank);
    if (payload.arrival != NULL) {
        payload.arrival->complete = true;
        if (payload.arrival->taker != NULL)
            give_bytes(p2p, payload.arrival, payload.arrival->taker);
    }
    return payload.is_card ? direct_take_card(p2p, channel, err) : HVD_OK;
}

int arrivals_handle(struct p2p *p2p, struct channel *channel, struct hvd_error *err)
{
    unsigned allowed = channel->outgoing ? P2P_FROM_RECEIVER : P2P_FROM_SENDER;
    while (true) {
        struct p2p_frame frame;
        int rc = HVD_OK;
        if (channel->payload.active) {
            if (!channel_fill_payload(channel))
                return HVD_OK;
            rc = end_payload(p2p, channel, err);
            if (rc != HVD_OK)
                return rc;
        }
        const unsigned char *header = channel_next_header(channel);
        if (header == NULL)
            return HVD_OK;
        rc = p2p_frame_decode(header, allowed, &frame, err);
        if (rc == HVD_OK)
            rc = handle_frame(p2p, channel, &frame, err);
        if (rc != HVD_OK)
            return rc;
    }
}
