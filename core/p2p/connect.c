/* connect.c: makes the connections for messages: one for each sender and receiver, when it is first needed.
 */
#include <stddef.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/seal.h"
#include "p2p/p2p_state.h"

/* ---- Accepting ---- */

static void keep_error(struct p2p *p2p, int status)
{
    if (p2p->accept_status == HVD_OK)
        p2p->accept_status = status;
}

static void take_connection(void *arg, int rank, int fd, struct seal *seal)
{
    struct p2p *p2p = arg;
    struct channel *channel = channel_create(rank, false);
    if (channel == NULL) {
        close(fd);
        seal_free(seal);
        keep_error(p2p, error_set(&p2p->accept_err, HVD_ERR_NO_MEMORY, "no memory for another connection"));
        return;
    }
    channel->room_bytes = P2P_WINDOW_BYTES;
    LIST_INSERT_HEAD(&p2p->channels, channel, link);
    keep_error(p2p, channel_connect(channel, fd, seal, p2p->epoll_fd, &p2p->accept_err));
}

static int watch(const struct p2p *p2p, int fd, void *what, struct hvd_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    return epoll_ctl(p2p->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0
               ? HVD_OK
               : error_set_errno(err, "messages: epoll_ctl on connections that are being made");
}

int connect_listen(struct p2p *p2p, struct hvd_error *err)
{
    p2p->acceptor_want = (struct endpoint_connection){.rank = ENDPOINT_ANY_RANK,
                                                      .accepted = take_connection,
                                                      .arg = p2p,
                                                      .purpose = ENDPOINT_MESSAGES,
                                                      .fd = -1};
    int rc = establishment_begin(&p2p->acceptor, p2p->params.endpoint, p2p->params.peer_table,
                                 &p2p->acceptor_want, 1, err);
    return rc == HVD_OK ? watch(p2p, establishment_fd(p2p->acceptor), NULL, err) : rc;
}

/* ---- Connecting ---- */

static int begin_to_connect(struct p2p *p2p, struct channel *channel, struct hvd_error *err)
{
    channel->want = (struct endpoint_connection){
        .rank = channel->rank, .purpose = ENDPOINT_MESSAGES, .connect = true, .fd = -1};
    int rc = establishment_begin(&channel->establishment, p2p->params.endpoint, p2p->params.peer_table,
                                 &channel->want, 1, err);
    return rc == HVD_OK ? watch(p2p, establishment_fd(channel->establishment), channel, err) : rc;
}

int connect_channel(struct p2p *p2p, int rank, struct channel **channelp, struct hvd_error *err)
{
    struct channel *channel = p2p->outgoing[rank];
    if (channel == NULL) {
        channel = channel_create(rank, true);
        int rc = channel == NULL ? error_set(err, HVD_ERR_NO_MEMORY, "no memory for another connection")
                                 : begin_to_connect(p2p, channel, err);
        if (rc != HVD_OK) {
            channel_free(channel);
            return rc;
        }
        channel->credit_bytes = P2P_WINDOW_BYTES;
        LIST_INSERT_HEAD(&p2p->channels, channel, link);
        p2p->outgoing[rank] = channel;
        p2p->dials++;
    }
    *channelp = channel;
    return HVD_OK;
}

/* Go on in rings where the other rank is on this node. Whatever is sent comes after this frame, which the
 * empty socket takes whole. */
static int offer_rings(struct p2p *p2p, struct channel *channel, struct hvd_error *err)
{
    const int *node_of_rank = p2p->params.peer_table->node_of_rank;
    struct p2p_frame frame = {.type = P2P_RINGS};
    unsigned char header[P2P_FRAME_BYTES];
    const struct iovec part = {header, sizeof(header)};
    struct ring_pair pair;
    struct hvd_error why;
    int rank = p2p->params.peer_table->rank;
    if (p2p->ring_pairs.arena.base == NULL || node_of_rank[channel->rank] != node_of_rank[rank])
        return HVD_OK;
    int rc = ring_pair_make(&p2p->ring_pairs, rank, &pair, &frame.address, &why);
    if (rc != HVD_OK) {
        log_write(p2p->params.log, LOG_DEBUG, "messages", "those to rank %d go over TCP: %s", channel->rank,
                  why.text);
        return HVD_OK;
    }
    p2p_frame_encode(header, &frame);
    ssize_t sent = seal_send(channel->seal, channel->fd, &part, 1);
    if (sent < 0) /* as the next look at the connection will say */
        return HVD_OK;
    if (sent != (ssize_t)sizeof(header))
        return error_set(err, HVD_ERR_SYSTEM, "messages: a new connection takes %zd bytes of %zu", sent,
                         sizeof(header));
    channel->pair = pair;
    p2p_arm_rings(p2p);
    log_write(p2p->params.log, LOG_DEBUG, "messages", "those to rank %d go through shared memory",
              channel->rank);
    return HVD_OK;
}

static int advance_dial(struct p2p *p2p, struct channel *channel, int *rankp, struct hvd_error *err)
{
    int rc = establishment_advance(channel->establishment, rankp, err);
    if (rc != HVD_OK)
        return rc;
    epoll_ctl(p2p->epoll_fd, EPOLL_CTL_DEL, establishment_fd(channel->establishment), NULL);
    establishment_end(channel->establishment);
    channel->establishment = NULL;
    p2p->dials--;
    rc = channel_connect(channel, channel->want.fd, channel->want.seal, p2p->epoll_fd, err);
    return rc == HVD_OK ? offer_rings(p2p, channel, err) : rc;
}

int connect_advance(struct p2p *p2p, bool *movedp, int *rankp, struct hvd_error *err)
{
    int rc = HVD_OK, lost = -1;
    if (p2p->acceptor != NULL)
        rc = establishment_advance(p2p->acceptor, &lost, err);
    if (rc != HVD_OK && rc != HVD_IN_PROGRESS)
        return rc;
    if (p2p->accept_status != HVD_OK)
        return error_set(err, p2p->accept_status, "%s", p2p->accept_err.text);
    struct channel *channel;
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link)) {
        if (channel->establishment == NULL)
            continue;
        rc = advance_dial(p2p, channel, rankp, err);
        *movedp |= rc == HVD_OK;
        if (rc != HVD_OK && rc != HVD_IN_PROGRESS)
            return rc;
    }
    return HVD_OK;
}

int64_t connect_deadline(const struct p2p *p2p)
{
    int64_t deadline_us = p2p->acceptor == NULL ? INT64_MAX : establishment_deadline(p2p->acceptor);
    const struct channel *channel;
    if (p2p->dials == 0)
        return deadline_us;
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link)) {
        int64_t due_us =
            channel->establishment == NULL ? INT64_MAX : establishment_deadline(channel->establishment);
        deadline_us = due_us < deadline_us ? due_us : deadline_us;
    }
    return deadline_us;
}
