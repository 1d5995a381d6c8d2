/* tree.c: the control object of a rank: its links to parent and children, aborts, and lost ranks. */
#include "config.h"
#include "control/tree.h"
#include "control/link.h"
#include "net/connection.h"
#include "node/attach.h"
#include "node/deputy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

/* A rank that never sleeps checks for ended processes at this interval, and looks at the clock for that only
 * in one of PROCESS_CHECK_POLLS polls. */
#define PROCESS_CHECK_US    10000
#define PROCESS_CHECK_POLLS 8

struct tree {
    struct control control; /* first */
    const struct peer_table *peer_table;
    const struct hvd_log *log;
    struct node *node;        /* NULL: alone on its node */
    struct node_member *slot; /* this rank's in the node's memory */
    int link_count;
    struct link links[TREE_MAX_LINKS];
    struct connection_ends ends[TREE_MAX_LINKS]; /* of those that use sockets */
    bool peer_left[TREE_MAX_LINKS];              /* it said farewell: the end of this link is no loss */
    bool dead[TREE_MAX_LINKS];                   /* the process at its other end has ended */
    int next;                                    /* the link to poll first, so that none starves */
    int frame_link;                              /* the link whose frame the caller is using, or -1 */
    struct process_watch watch;
    struct doorbell_eventfd doorbell; /* this rank's own */
    _Atomic uint32_t own_armed;       /* its armed word, if there is no node */
    bool armed;                       /* the driver wants to be woken */
    int64_t checked_us;               /* when it last checked for ended processes */
    unsigned polls;
    bool farewelled;
    bool aborted, abort_delivered; /* an abort is known; the driver has received it */
    bool abort_first; /* no other rank of the node knew of it, nor has it come from a neighbour */
    struct frame_abort abort;
};

static struct tree *tree_of(struct control *control)
{
    return (struct tree *)control;
}

/* "rank 3 (n2, pid 4711)" */
static void rank_text(const struct tree *tree, int rank, char *text, size_t text_bytes)
{
    const struct peer *peer = &tree->peer_table->peers[rank];
    snprintf(text, text_bytes, "rank %d (%s, pid %d)", rank, peer->host, (int)peer->pid);
}

/* ---- Leaving ---- */

static bool tree_flushed(struct control *control)
{
    struct tree *tree = tree_of(control);
    for (int i = 0; i < tree->link_count; i++) {
        if (!link_flushed(&tree->links[i]))
            return false;
    }
    return true;
}

/* Say in shared memory that this rank has left, once everything that it sent is in the rings: those outlive
 * the process, which may end from then on. */
static void tree_mark_left(struct tree *tree)
{
    if (!tree->farewelled || tree->slot == NULL || atomic_load(&tree->slot->left) != 0)
        return;
    for (int i = 0; i < tree->link_count; i++) {
        if (tree->links[i].fd < 0 && !link_flushed(&tree->links[i]))
            return;
    }
    atomic_store(&tree->slot->left, 1);
}

static void tree_farewell(struct control *control)
{
    struct tree *tree = tree_of(control);
    tree->farewelled = true;
    for (int i = 0; i < tree->link_count; i++) {
        struct link *link = &tree->links[i];
        /* 24 bytes; if there is no memory for them the other end reports a loss, and rightly so */
        if (link->fd >= 0)
            link_send(link, FRAME_FAREWELL, tree->peer_table->epoch, NULL, 0, NULL);
    }
    tree_mark_left(tree);
}

/* ---- Aborts and losses ---- */

/* A neighbour's eventfd, or the leader's; -1 if it was not passed when this rank attached. */
static int neighbour_event_fd(const struct node *node, int rank)
{
    for (int i = 0; node != NULL && i < node->doorbell_count; i++) {
        if (node->doorbells[i].rank == rank)
            return node->doorbells[i].fd;
    }
    return -1;
}

/* The abort may go up the tree through ranks that stand still, so tell the leader itself to look at it. */
static void tree_wake_leader(const struct tree *tree)
{
    int leader = tree->node->members[0];
    struct node_member *slot = node_member_of(tree->node, leader);
    int event_fd = neighbour_event_fd(tree->node, leader);
    if (event_fd >= 0 && slot != NULL)
        doorbell_ring_if_armed(&(struct doorbell_eventfd){&slot->armed, event_fd});
}

/* Keep the first abort for the driver, and tell the node and all neighbours. [own]: it begins at this rank.
 */
static void tree_raise_abort(struct tree *tree, const struct frame_abort *abort, bool own)
{
    if (tree->aborted)
        return;
    unsigned char payload[FRAME_ABORT_BYTES];
    size_t length = frame_abort_encode(payload, abort);
    tree->aborted = true;
    tree->abort = *abort;
    bool first_here = tree->node == NULL || node_memory_publish_abort(tree->node->memory, abort);
    tree->abort_first = own && first_here;
    if (tree->node != NULL)
        tree_wake_leader(tree);
    for (int i = 0; i < tree->link_count; i++)
        link_send(&tree->links[i], FRAME_ABORT, tree->peer_table->epoch, payload, length, NULL);
}

static void tree_abort(struct control *control, int status, int rank, const char *sentence)
{
    struct frame_abort abort;
    frame_abort_set(&abort, status, rank >= 0 && rank < control->size ? rank : control->rank, sentence);
    tree_raise_abort(tree_of(control), &abort, true);
}

/* [rank] is lost; [how] says what was seen. If it left because of an abort that has not reached us yet, raise
 * that abort. */
static void tree_rank_lost(struct tree *tree, int rank, const char *how)
{
    struct frame_abort abort;
    char name[320], sentence[FRAME_SENTENCE_BYTES + 1];
    if (tree->farewelled || tree->aborted)
        return;
    if (tree->node == NULL || !node_memory_published_abort(tree->node->memory, tree->control.size, &abort)) {
        rank_text(tree, rank, name, sizeof(name));
        snprintf(sentence, sizeof(sentence), "%s was lost: %s", name, how);
        frame_abort_set(&abort, HVD_ERR_RANK_LOST, rank, sentence);
    }
    tree_raise_abort(tree, &abort, true);
}

/* On the leader: a rank of the node may have published an abort that does not come up the tree. */
static void tree_look_for_abort(struct tree *tree)
{
    struct frame_abort abort;
    if (tree->node == NULL || tree->farewelled || tree->aborted || !node_leads(tree->node))
        return;
    if (node_memory_published_abort(tree->node->memory, tree->control.size, &abort))
        tree_raise_abort(tree, &abort, false);
}

/* Has this rank of the node said farewell? */
static bool rank_left(const struct tree *tree, int rank)
{
    const struct node_member *slot = node_member_of(tree->node, rank);
    return slot != NULL && atomic_load(&slot->left) != 0;
}

/* "the connection of rank 0 (n1) at 10.0.0.1 with rank 3 (n2) at 10.0.0.2 was reset: ..." */
static void break_text(const struct tree *tree, int index, char *text, size_t text_bytes)
{
    char ends[CONNECTION_ENDS_BYTES], cause[CONNECTION_CAUSE_BYTES];
    connection_ends_text(&tree->ends[index], tree->peer_table, ends);
    connection_cause_text(tree->links[index].cause, tree->peer_table->lease_us, cause);
    snprintf(text, text_bytes, "the connection of %s %s", ends, cause);
}

/* Close a link from which nothing more comes. */
static void tree_end_link(struct tree *tree, int index)
{
    struct link *link = &tree->links[index];
    bool peer_left = link->fd >= 0 ? tree->peer_left[index] : rank_left(tree, link->rank);
    char how[CONNECTION_ENDS_BYTES + CONNECTION_CAUSE_BYTES + 32];
    if (link->fd < 0 && tree->dead[index])
        snprintf(how, sizeof(how), "its process ended without hvd_shutdown");
    else if (link->cause != 0)
        break_text(tree, index, how, sizeof(how));
    else
        snprintf(how, sizeof(how), "its connection ended without hvd_shutdown%s",
                 link_has_partial_frame(link) ? ", in the middle of a message" : "");
    int rank = link->rank;
    link_close(link);
    if (!peer_left)
        tree_rank_lost(tree, rank, how);
}

/* The bytes on this link are not what a rank of this job would send. */
static void tree_link_corrupt(struct tree *tree, int index, const char *what)
{
    int rank = tree->links[index].rank;
    char name[320], sentence[FRAME_SENTENCE_BYTES + 1];
    struct frame_abort abort;
    rank_text(tree, rank, name, sizeof(name));
    snprintf(sentence, sizeof(sentence), "%s sent %s", name, what);
    frame_abort_set(&abort, HVD_ERR_SYSTEM, rank, sentence);
    tree_raise_abort(tree, &abort, true);
    link_close(&tree->links[index]);
}

/* Check for processes of this node that have ended. True if one was at the other end of a link, whose last
 * messages are still to be read. */
static bool tree_check_processes(struct tree *tree)
{
    bool found = false;
    if (tree->watch.fd < 0 || tree->polls++ % PROCESS_CHECK_POLLS != 0)
        return false;
    int64_t now_us = clock_us();
    if (now_us - tree->checked_us < PROCESS_CHECK_US)
        return false;
    tree->checked_us = now_us;
    for (int rank = process_watch_next(&tree->watch); rank >= 0; rank = process_watch_next(&tree->watch)) {
        int index = 0;
        if (tree->node != NULL && rank == tree->node->members[0] && !rank_left(tree, rank))
            deputy_end_connections(tree->node->deputy_fd);
        while (index < tree->link_count && (!tree->links[index].open || tree->links[index].rank != rank))
            index++;
        if (index < tree->link_count)
            found = tree->dead[index] = true;
        else if (!rank_left(tree, rank))
            tree_rank_lost(tree, rank, "its process ended without hvd_shutdown");
    }
    return found;
}

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
        allowed |= FRAME_ALLOW(FRAME_FAREWELL);
    while (link->open) {
        struct frame frame;
        struct hvd_error why;
        switch (link_next(link, allowed, &frame, &why)) {
        case LINK_FRAME:
            if (tree_handle_frame(tree, index, &frame, event) == HVD_OK) {
                tree->frame_link = index;
                return HVD_OK;
            }
            if (link->open)
                link_release(link);
            break;
        case LINK_NOTHING:
            if (!tree->dead[index] || link->fd >= 0)
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
    for (int i = 0; i < tree->link_count; i++)
        link_flush(&tree->links[i]);
    tree_mark_left(tree);
}

/* Deliver the abort, once. */
static int tree_deliver_abort(struct tree *tree, struct control_event *event)
{
    if (!tree->aborted || tree->abort_delivered)
        return HVD_IN_PROGRESS;
    tree->abort_delivered = true;
    *event = (struct control_event){.kind = CONTROL_ABORT,
                                    .status = tree->abort.status,
                                    .rank = tree->abort.rank,
                                    .sentence = tree->abort.sentence,
                                    .first = tree->abort_first};
    return HVD_OK;
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
    if (status == HVD_IN_PROGRESS && tree_check_processes(tree))
        status = tree_poll_links(tree, event, err);
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
    /* level-triggered: an ended process that was not fetched yet keeps the driver awake until it is */
    if (status == HVD_OK)
        status = epoll_add_fd(epoll_fd, tree->watch.fd, EPOLLIN, err);
    for (int i = 0; i < tree->link_count && status == HVD_OK; i++)
        status = epoll_add_fd(epoll_fd, tree->links[i].fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, err);
    return status;
}

static void tree_arm(struct control *control, bool armed)
{
    struct tree *tree = tree_of(control);
    tree->armed = armed;
    atomic_exchange(tree->doorbell.armed, armed ? 1 : 0);
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
    .kick = tree_kick,
    .after_fork = tree_after_fork,
    .close = tree_close,
};

/* Open link [index] over rings. */
static int tree_open_rings(struct tree *tree, int index, struct hvd_error *err)
{
    int rank = control_link_rank(&tree->control, index);
    int event_fd = neighbour_event_fd(tree->node, rank);
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
            watched->fd = -1;
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
    tree->control = (struct control){.ops = &tree_ops, .rank = peer_table->rank, .size = peer_table->size};
    tree->control.parent = shape->parent;
    tree->control.child_count = shape->child_count;
    memcpy(tree->control.child_ranks, shape->child_ranks, sizeof(tree->control.child_ranks));
    tree->peer_table = peer_table;
    tree->log = peer_table->log;
    tree->node = node;
    tree->link_count = link_count;
    tree->frame_link = -1;
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
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return status;
}
