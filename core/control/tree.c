/* tree.c: the control object of a rank: messages over its links to parent and children. */
#include "config.h"
#include "control/tree_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "node/deputy.h"

/* ---- Messages ---- */

static int tree_send(struct control *control, int index, const void *bytes, size_t length,
                     struct hvd_error *err)
{
    struct tree *tree = tree_of(control);
    if (length > (size_t)FRAME_MESSAGE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "a control message of %zu bytes, expected at most %" PRId64,
                         length, FRAME_MESSAGE_BYTES);
    return link_send(&tree->links[index], FRAME_MESSAGE, tree->peer_table->epoch, bytes, length, err);
}

static void tree_release_frame(struct tree *tree)
{
    if (tree->frame_link >= 0)
        link_release(&tree->links[tree->frame_link]);
    tree->frame_link = -1;
}

/* HVD_OK if the frame is an event, otherwise HVD_IN_PROGRESS. */
static int tree_handle_frame(struct tree *tree, int index, const struct frame *frame,
                             struct control_event *event)
{
    struct frame_abort abort;
    struct hvd_error why;
    if (frame->epoch != tree->peer_table->epoch) {
        log_write(tree->log, LOG_DEBUG, "control",
                  "dropped a frame of epoch %" PRIu32 " from rank %d, this is %" PRIu32, frame->epoch,
                  tree->links[index].rank, tree->peer_table->epoch);
        return HVD_IN_PROGRESS;
    }
    switch (frame->type) {
    case FRAME_MESSAGE:
        *event = (struct control_event){
            .kind = CONTROL_MESSAGE, .link = index, .bytes = frame->payload, .length = frame->length};
        return HVD_OK;
    case FRAME_FAREWELL:
        tree->peer_left[index] = true;
        break;
    case FRAME_BEAT: /* tree_poll_link has noted that the other end was heard */
        break;
    case FRAME_ABORT:
        if (frame_abort_decode(frame->payload, frame->length, tree->control.size, &abort, &why) == HVD_OK)
            tree_raise_abort(tree, &abort, false);
        else
            tree_link_corrupt(tree, index, why.text);
        break;
    }
    return HVD_IN_PROGRESS;
}

/* Poll one link until it has an event or nothing more. */
static int tree_poll_link(struct tree *tree, int index, struct control_event *event, struct hvd_error *err)
{
    struct link *link = &tree->links[index];
    unsigned allowed = FRAME_ALLOW(FRAME_MESSAGE) | FRAME_ALLOW(FRAME_ABORT);
    if (link->fd >= 0)
        allowed |= FRAME_ALLOW(FRAME_FAREWELL) | FRAME_ALLOW(FRAME_BEAT);
    while (link->open) {
        struct frame frame;
        struct hvd_error why;
        switch (link_next(link, allowed, &frame, &why)) {
        case LINK_FRAME:
            tree->unanswered[index] = 0;
            prefetch_to_write((const char *)tree->doorbell.armed); /* the sender has looked at it */
            if (tree_handle_frame(tree, index, &frame, event) == HVD_OK) {
                tree->frame_link = index;
                return HVD_OK;
            }
            if (link->open)
                link_release(link);
            break;
        case LINK_NOTHING:
            if (tree->dead[index] == NULL || link->fd >= 0)
                return HVD_IN_PROGRESS;
            tree_end_link(tree, index);
            break;
        case LINK_ENDED:
            tree_end_link(tree, index);
            break;
        case LINK_CORRUPT:
            tree_link_corrupt(tree, index, why.text);
            break;
        case LINK_FAILED:
            return error_set(err, HVD_ERR_NO_MEMORY, "%s", why.text);
        }
    }
    return HVD_IN_PROGRESS;
}

/* Poll every link, beginning behind the one that had the last event. */
static int tree_poll_links(struct tree *tree, struct control_event *event, struct hvd_error *err)
{
    int first = tree->next;
    for (int i = 0; i < tree->link_count; i++) {
        int index = (first + i) % tree->link_count;
        int status = tree_poll_link(tree, index, event, err);
        if (status == HVD_IN_PROGRESS)
            continue;
        tree->next = (index + 1) % tree->link_count;
        return status;
    }
    return HVD_IN_PROGRESS;
}

/* Somebody took the armed word back and rang, and nobody else will ring until it is set again. What it rang
 * for may be in a place that the driver looked at before it called receive, so ring the own doorbell once
 * more. The eventfd is never read: only its edges wake the driver. */
static void tree_rearm(struct tree *tree)
{
    if (!tree->armed || atomic_load(tree->doorbell.armed) != 0)
        return;
    atomic_exchange(tree->doorbell.armed, 1);
    doorbell_ring_eventfd(&tree->doorbell);
}

static void tree_flush(struct tree *tree)
{
    for (int i = 0; i < tree->link_count; i++) {
        link_flush(&tree->links[i]);
        link_poll_ring(&tree->links[i]);
    }
    tree_mark_left(tree);
}

static int tree_receive(struct control *control, struct control_event *event, struct hvd_error *err)
{
    struct tree *tree = tree_of(control);
    tree_release_frame(tree);
    tree_rearm(tree);
    tree_flush(tree);
    tree_look_for_abort(tree);
    int status = tree_deliver_abort(tree, event);
    if (status == HVD_IN_PROGRESS)
        status = tree_poll_links(tree, event, err);
    if (status == HVD_IN_PROGRESS && tree_must_check(tree)) {
        tree_check_beats(tree);
        if (tree_check_processes(tree))
            status = tree_poll_links(tree, event, err);
    }
    if (status == HVD_IN_PROGRESS)
        status = tree_deliver_abort(tree, event);
    return status;
}

/* ---- Sleep ---- */

static int epoll_add_fd(int epoll_fd, int fd, uint32_t events, struct hvd_error *err)
{
    struct epoll_event event = {.events = events};
    if (fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return error_set_errno(err, "cannot wait for control messages (epoll_ctl)");
    return HVD_OK;
}

static int tree_watch(struct control *control, int epoll_fd, struct hvd_error *err)
{
    struct tree *tree = tree_of(control);
    int status = epoll_add_fd(epoll_fd, tree->doorbell.fd, EPOLLIN | EPOLLET, err);
    /* level-triggered: an ended process that was not fetched yet, or a due beat, keeps the driver awake */
    if (status == HVD_OK)
        status = epoll_add_fd(epoll_fd, tree->watch.fd, EPOLLIN, err);
    if (status == HVD_OK)
        status = epoll_add_fd(epoll_fd, tree->beat_fd, EPOLLIN, err);
    for (int i = 0; i < tree->link_count && status == HVD_OK; i++)
        status = epoll_add_fd(epoll_fd, tree->links[i].fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, err);
    return status;
}

static void tree_defer_rings(struct tree *tree, bool defers)
{
    for (int i = 0; i < tree->link_count; i++)
        link_defer_rings(&tree->links[i], defers);
}

static void tree_ring(struct control *control)
{
    tree_defer_rings(tree_of(control), false);
}

static bool tree_has_woken(struct control *control)
{
    struct tree *tree = tree_of(control);
    bool has_woken = false;
    for (int i = 0; i < tree->link_count; i++)
        has_woken |= link_has_rung(&tree->links[i]);
    return has_woken;
}

static void tree_arm(struct control *control, bool armed)
{
    struct tree *tree = tree_of(control);
    tree_defer_rings(tree, !armed);
    tree->armed = armed;
    tree->unrung = atomic_exchange(tree->doorbell.armed, armed ? 1 : 0) != 0;
}

static void tree_look(struct control *control)
{
    struct tree *tree = tree_of(control);
    tree->must_check |= tree->armed ? atomic_load(tree->doorbell.armed) != 0 : tree->unrung;
    tree->unrung = false;
}

static void tree_kick(struct control *control)
{
    const struct doorbell_eventfd *doorbell = &tree_of(control)->doorbell;
    /* Not doorbell_take: an exchange always orders what the caller did before it with what the driver looks
     * at after it has armed. */
    if (atomic_exchange(doorbell->armed, 0) != 0)
        doorbell_ring_eventfd(doorbell);
}

/* ---- Open and close ---- */

static void tree_after_fork(struct control *control)
{
    struct tree *tree = tree_of(control);
    for (int i = 0; i < tree->link_count; i++)
        link_after_fork(&tree->links[i]);
    process_watch_after_fork(&tree->watch);
    descriptors_close(&tree->beat_fd);
    if (tree->node != NULL) {
        tree->slot = NULL;
        node_after_fork(tree->node);
    } else if (tree->doorbell.fd >= 0) {
        close(tree->doorbell.fd);
    }
    tree->doorbell = (struct doorbell_eventfd){&tree->own_armed, -1};
    tree->farewelled = true;
}

static void tree_close(struct control *control)
{
    struct tree *tree = tree_of(control);
    tree_flush(tree);
    for (int i = 0; i < tree->link_count; i++)
        link_close(&tree->links[i]);
    process_watch_fini(&tree->watch);
    descriptors_close(&tree->beat_fd);
    if (tree->node == NULL && tree->doorbell.fd >= 0)
        close(tree->doorbell.fd);
    node_close(tree->node);
    free(tree);
}

static const struct control_ops tree_ops = {
    .name = "tree",
    .send = tree_send,
    .receive = tree_receive,
    .abort = tree_abort,
    .farewell = tree_farewell,
    .flushed = tree_flushed,
    .watch = tree_watch,
    .arm = tree_arm,
    .ring = tree_ring,
    .look = tree_look,
    .has_woken = tree_has_woken,
    .kick = tree_kick,
    .after_fork = tree_after_fork,
    .close = tree_close,
};

/* Open link [index] over rings. */
static int tree_open_rings(struct tree *tree, int index, struct hvd_error *err)
{
    int rank = control_link_rank(&tree->control, index);
    int event_fd = tree_event_fd(tree, rank);
    if (event_fd < 0)
        return error_set(err, HVD_ERR_SYSTEM,
                         "rank %d should share memory with rank %d, but they did not attach as parent and "
                         "child: the ranks disagree on which ranks are on this node",
                         tree->control.rank, rank);
    struct node_member *slot = node_member_of(tree->node, rank);
    struct node_member *lower = index == TREE_PARENT ? tree->slot : slot;
    struct byte_ring *out = index == TREE_PARENT ? &lower->up : &lower->down;
    struct byte_ring *in = index == TREE_PARENT ? &lower->down : &lower->up;
    link_open_rings(&tree->links[index], rank, out, in, (struct doorbell_eventfd){&slot->armed, event_fd});
    return HVD_OK;
}

/* Open link [index] over a socket; takes over *fdp. */
static int tree_open_socket(struct tree *tree, int index, int *fdp, struct hvd_error *err)
{
    int rank = control_link_rank(&tree->control, index);
    int flags = fcntl(*fdp, F_GETFL);
    if (flags < 0 || fcntl(*fdp, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(*fdp, F_SETFD, FD_CLOEXEC) != 0)
        return error_set_errno(err, "cannot use descriptor %d, the connection with rank %d", *fdp, rank);
    connection_ends_of(&tree->ends[index], rank, *fdp);
    link_open_socket(&tree->links[index], rank, *fdp);
    *fdp = -1;
    return HVD_OK;
}

/* Watch those processes that attached and that are, as agreed since, on this node. */
static int tree_open_watch(struct tree *tree, const struct tree_shape *shape, struct hvd_error *err)
{
    struct node *node = tree->node;
    int status = HVD_OK;
    for (int i = 0; node != NULL && i < node->watched_count && status == HVD_OK; i++) {
        struct watched_process *watched = &node->watched[i];
        if (tree->peer_table->node_of_rank[watched->rank] != shape->leader)
            continue;
        status = process_watch_add(&tree->watch, watched, err);
        if (status == HVD_OK)
            watched->fd = watched->life_fd = -1;
    }
    return status;
}

static int tree_open_doorbell(struct tree *tree, struct hvd_error *err)
{
    if (tree->node != NULL) {
        tree->slot = node_member_of(tree->node, tree->control.rank);
        tree->doorbell = (struct doorbell_eventfd){&tree->slot->armed, tree->node->doorbell};
        return HVD_OK;
    }
    tree->doorbell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return tree->doorbell.fd >= 0 ? HVD_OK
                                  : error_set_errno(err, "cannot create an eventfd for waking this rank");
}

void control_seal(struct control *control, struct seal *const *seals)
{
    struct tree *tree = tree_of(control);
    for (int i = 0; i < tree->link_count; i++)
        tree->links[i].seal = seals[i];
}

int control_open(struct control **controlp, const struct peer_table *peer_table,
                 const struct tree_shape *shape, struct node *node, const int *link_fds,
                 struct hvd_error *err)
{
    int status = HVD_OK;
    int fds[TREE_MAX_LINKS];
    int link_count = shape->child_count + 1;
    memcpy(fds, link_fds, (size_t)link_count * sizeof(fds[0]));
    struct tree *tree = calloc(1, sizeof(*tree));
    if (tree == NULL) {
        status = error_set(err, HVD_ERR_NO_MEMORY, "out of memory for the control tree");
        goto done;
    }
    tree->control = (struct control){
        .ops = &tree_ops, .rank = peer_table->rank, .size = peer_table->size, .silent_rank = -1};
    tree->control.parent = shape->parent;
    tree->control.child_count = shape->child_count;
    memcpy(tree->control.child_ranks, shape->child_ranks, sizeof(tree->control.child_ranks));
    tree->peer_table = peer_table;
    tree->log = peer_table->log;
    tree->node = node;
    tree->link_count = link_count;
    tree->frame_link = tree->beat_fd = -1;
    tree->doorbell = (struct doorbell_eventfd){&tree->own_armed, -1};
    process_watch_init(&tree->watch);
    for (int i = 0; i < link_count; i++)
        link_init(&tree->links[i]);
    status = tree_open_doorbell(tree, err);
    for (int i = shape->parent < 0 ? 1 : 0; i < link_count && status == HVD_OK; i++)
        status = fds[i] >= 0 ? tree_open_socket(tree, i, &fds[i], err) : tree_open_rings(tree, i, err);
    if (status == HVD_OK && node_leads(node))
        deputy_entrust(node->deputy_fd, link_fds, link_count);
    if (status == HVD_OK)
        status = tree_open_watch(tree, shape, err);
    if (status == HVD_OK)
        status = tree_open_beats(tree, err);
    if (status == HVD_OK) {
        *controlp = &tree->control;
        goto done;
    }
    if (node != NULL) { /* it stays the caller's */
        tree->node = NULL;
        tree->slot = NULL;
        tree->doorbell.fd = -1;
    }
    tree_close(&tree->control);

done:
    for (int i = 0; i < link_count; i++) {
        descriptors_close(&fds[i]);
    }
    return status;
}
