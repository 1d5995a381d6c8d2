/* direct.c: the words by which two ranks agree that the bytes of a message go from GPU to GPU. The caller of
 * p2p moves these bytes. */
#include <string.h>

#include "p2p/p2p_state.h"

/* ---- Steps ---- */

int direct_supply(struct p2p *p2p, struct p2p_op *receive, struct hvd_error *err)
{
    int rc = receive->direct ? p2p->params.direct->supply(p2p->params.arg, receive, err) : HVD_OK;
    if (rc != HVD_OK)
        p2p_end_op(p2p, receive, rc, err->text);
    return rc;
}

int direct_tell(struct p2p *p2p, struct channel *channel, struct p2p_op *op, enum p2p_step step,
                struct hvd_error *err)
{
    op->via = channel;
    return p2p->params.direct->step(p2p->params.arg, op, channel->rank, step, err);
}

int p2p_take(struct p2p *p2p, struct p2p_op *receive, bool direct, struct hvd_error *err)
{
    struct channel *channel = receive->via;
    int rc = direct ? HVD_OK : direct_supply(p2p, receive, err);
    if (!direct)
        receive->via = NULL;
    return rc == HVD_OK ? arrivals_request(channel, receive, err) : rc;
}

int p2p_start(struct p2p_op *send, bool direct, struct hvd_error *err)
{
    const struct p2p_frame frame = {.type = P2P_DATA, .id = send->id, .bytes = send->bytes, .direct = direct};
    if (direct)
        return channel_queue_frame(send->via, &frame, err);
    send->out.op = send;
    channel_queue(send->via, &send->out, &frame, send->memory, (size_t)send->bytes);
    return HVD_OK;
}

void p2p_end(struct p2p *p2p, struct p2p_op *op, int status, const char *reason)
{
    if (status == HVD_OK && op->sourcep != NULL)
        *op->sourcep = op->via->rank;
    p2p_end_op(p2p, op, status, reason);
}

/* ---- Cards ---- */

int p2p_send_card(struct p2p *p2p, int rank, bool sends, const char card[P2P_CARD_BYTES],
                  struct hvd_error *err)
{
    const struct p2p_frame frame = {.type = P2P_CARD};
    struct channel *channel = LIST_FIRST(&p2p->channels);
    while (channel != NULL && (channel->rank != rank || channel->outgoing != sends))
        channel = LIST_NEXT(channel, link);
    if (channel == NULL)
        return error_set(err, HVD_ERR_STATE, "there is no connection for the card to rank %d", rank);
    memcpy(channel->own_card, card, P2P_CARD_BYTES);
    channel_queue(channel, &channel->card, &frame, channel->own_card, P2P_CARD_BYTES);
    return HVD_OK;
}

int direct_expect_card(struct p2p *p2p, struct channel *channel, struct hvd_error *err)
{
    if (p2p->params.direct == NULL)
        return error_set(err, HVD_ERR_SYSTEM, "a card where none must come");
    channel->payload =
        (struct payload){.active = true, .is_card = true, .to = channel->peer_card, .left = P2P_CARD_BYTES};
    return HVD_OK;
}

int direct_take_card(struct p2p *p2p, const struct channel *channel, struct hvd_error *err)
{
    return p2p->params.direct->card(p2p->params.arg, channel->rank, channel->outgoing, channel->peer_card,
                                    err);
}
