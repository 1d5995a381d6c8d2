/* mailbox.c: control by mailboxes in memory, between ranks of one process. */
#include "control/mailbox.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/descriptors.h"
#include "base/tree_shape.h"
#include "net/frame.h"

struct mail {
    struct mail *next;
    int link; /* of the receiver */
    size_t length;
    unsigned char bytes[];
};

struct mailbox_rank {
    struct control control; /* first: ops get this address */
    struct mailbox_world *world;
    struct mail *first, *last;
    struct mail *last_received; /* what the last receive returned */
    struct mailbox_counts counts;
    bool abort_delivered;
    bool left; /* it has said farewell */
    bool closed;
    int event_fd; /* -1 until watched */
    /* Accessed by read-modify-write only: whichever of arm and kick comes second sees what the other's thread
     * did before its own, so no kick is lost. */
    atomic_int armed;
};

struct mailbox_world {
    int open_count;
    bool aborted;
    int status, lost_rank;
    char sentence[sizeof(((struct hvd_error *)NULL)->text)];
    struct mailbox_rank ranks[];
};

static struct mailbox_rank *mailbox_of(struct control *control)
{
    return (struct mailbox_rank *)control;
}

/* The link of [control] that leads to rank [from]; -1 if they are no neighbours. */
static int link_of(const struct control *control, int from)
{
    if (control->parent == from)
        return TREE_PARENT;
    for (int i = 0; i < control->child_count; i++)
        if (control->child_ranks[i] == from)
            return i + 1;
    return -1;
}

static void mailbox_kick(struct control *control)
{
    struct mailbox_rank *self = mailbox_of(control);
    if (atomic_fetch_or(&self->armed, 0) != 0)
        descriptors_ring(self->event_fd);
}

static int mailbox_send(struct control *control, int link, const void *bytes, size_t length,
                        struct hvd_error *err)
{
    struct mailbox_rank *self = mailbox_of(control);
    if (link < 0 || link > control->child_count || control_link_rank(control, link) < 0)
        return error_set(err, HVD_ERR_INVALID, "rank %d has no link %d", control->rank, link);
    if (length > FRAME_MESSAGE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "a control message of %zu bytes is longer than %lld", length,
                         (long long)FRAME_MESSAGE_BYTES);
    struct mailbox_rank *peer = &self->world->ranks[control_link_rank(control, link)];
    if (peer->closed)
        return HVD_OK;
    struct mail *message = malloc(sizeof(*message) + length);
    if (message == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a control message of %zu bytes", length);
    *message = (struct mail){.link = link_of(&peer->control, control->rank), .length = length};
    if (length > 0)
        memcpy(message->bytes, bytes, length);
    if (peer->first == NULL)
        peer->first = message;
    else
        peer->last->next = message;
    peer->last = message;
    self->counts.sent++;
    self->counts.sent_bytes += length;
    mailbox_kick(&peer->control);
    return HVD_OK;
}

static int mailbox_receive(struct control *control, struct control_event *event, struct hvd_error *err)
{
    struct mailbox_rank *self = mailbox_of(control);
    (void)err;
    free(self->last_received);
    self->last_received = NULL;
    if (self->world->aborted && !self->abort_delivered) {
        self->abort_delivered = true;
        *event = (struct control_event){.kind = CONTROL_ABORT,
                                        .status = self->world->status,
                                        .rank = self->world->lost_rank,
                                        .sentence = self->world->sentence,
                                        .first = true};
        return HVD_OK;
    }
    struct mail *message = self->first;
    if (message == NULL)
        return HVD_IN_PROGRESS;
    self->first = message->next;
    self->last_received = message;
    self->counts.received++;
    self->counts.received_bytes += message->length;
    *event = (struct control_event){
        .kind = CONTROL_MESSAGE, .link = message->link, .bytes = message->bytes, .length = message->length};
    return HVD_OK;
}

static void world_abort(struct mailbox_world *world, int size, int status, int rank, const char *sentence)
{
    if (world->aborted)
        return;
    world->aborted = true;
    world->status = status;
    world->lost_rank = rank;
    snprintf(world->sentence, sizeof(world->sentence), "%s", sentence);
    for (int i = 0; i < size; i++)
        if (!world->ranks[i].closed)
            mailbox_kick(&world->ranks[i].control);
}

static void mailbox_abort(struct control *control, int status, int rank, const char *sentence)
{
    world_abort(mailbox_of(control)->world, control->size, status, rank, sentence);
}

static void mailbox_farewell(struct control *control)
{
    mailbox_of(control)->left = true;
}

static bool mailbox_flushed(struct control *control)
{
    (void)control;
    return true; /* a message is in the receiver's mailbox when send returns */
}

static int mailbox_watch(struct control *control, int epoll_fd, struct hvd_error *err)
{
    struct mailbox_rank *self = mailbox_of(control);
    if (self->event_fd < 0)
        self->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (self->event_fd < 0)
        return error_set_errno(err, "rank %d cannot make an eventfd", control->rank);
    struct epoll_event want = {.events = EPOLLIN | EPOLLET, .data.fd = self->event_fd};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, self->event_fd, &want) < 0)
        return error_set_errno(err, "rank %d cannot watch its eventfd", control->rank);
    return HVD_OK;
}

static void mailbox_arm(struct control *control, bool armed)
{
    struct mailbox_rank *self = mailbox_of(control);
    atomic_exchange(&self->armed, armed && self->event_fd >= 0);
}

static void mailbox_after_fork(struct control *control)
{
    struct mailbox_rank *self = mailbox_of(control);
    atomic_exchange(&self->armed, 0);
    descriptors_close(&self->event_fd);
}

static void mailbox_close(struct control *control)
{
    struct mailbox_rank *self = mailbox_of(control);
    struct mailbox_world *world = self->world;
    mailbox_after_fork(control);
    while (self->first != NULL) {
        struct mail *message = self->first;
        self->first = message->next;
        free(message);
    }
    free(self->last_received);
    self->last_received = NULL;
    self->closed = true;
    world->open_count--;
    if (!self->left && world->open_count > 0) {
        char sentence[80];
        snprintf(sentence, sizeof(sentence), "rank %d left without a farewell", control->rank);
        world_abort(world, control->size, HVD_ERR_RANK_LOST, control->rank, sentence);
    }
    if (world->open_count == 0)
        free(world);
}

static const struct control_ops mailbox_ops = {.name = "local",
                                               .send = mailbox_send,
                                               .receive = mailbox_receive,
                                               .abort = mailbox_abort,
                                               .farewell = mailbox_farewell,
                                               .flushed = mailbox_flushed,
                                               .watch = mailbox_watch,
                                               .arm = mailbox_arm,
                                               .kick = mailbox_kick,
                                               .after_fork = mailbox_after_fork,
                                               .close = mailbox_close};

static int rank_open(struct mailbox_world *world, const int *node_of_rank, int size, int rank,
                     struct hvd_error *err)
{
    struct mailbox_rank *self = &world->ranks[rank];
    struct tree_shape shape;
    int rc = tree_shape_of_rank(node_of_rank, size, rank, &shape, err);
    if (rc != HVD_OK)
        return rc;
    self->world = world;
    self->event_fd = -1;
    atomic_init(&self->armed, 0);
    self->control = (struct control){.ops = &mailbox_ops,
                                     .silent_rank = -1,
                                     .rank = rank,
                                     .size = size,
                                     .parent = shape.parent,
                                     .child_count = shape.child_count};
    memcpy(self->control.child_ranks, shape.child_ranks, sizeof(shape.child_ranks));
    return HVD_OK;
}

int mailbox_world_open(struct mailbox_world **worldp, const int *node_of_rank, int size,
                       struct hvd_error *err)
{
    if (size < 1)
        return error_set(err, HVD_ERR_INVALID, "a job of %d ranks: expected at least 1", size);
    struct mailbox_world *world = calloc(1, sizeof(*world) + (size_t)size * sizeof(world->ranks[0]));
    if (world == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the mailboxes of %d ranks", size);
    world->open_count = size;
    for (int rank = 0; rank < size; rank++) {
        int rc = rank_open(world, node_of_rank, size, rank, err);
        if (rc != HVD_OK) {
            free(world);
            return rc;
        }
    }
    *worldp = world;
    return HVD_OK;
}

struct control *mailbox_world_rank(struct mailbox_world *world, int rank)
{
    return &world->ranks[rank].control;
}

struct mailbox_counts mailbox_world_counts(const struct mailbox_world *world, int rank)
{
    return world->ranks[rank].counts;
}

void mailbox_world_close(struct mailbox_world *world)
{
    if (world == NULL)
        return;
    int open_count = world->open_count; /* the last close frees the world */
    for (int rank = 0; open_count > 0; rank++) {
        if (world->ranks[rank].closed)
            continue;
        open_count--;
        mailbox_close(&world->ranks[rank].control);
    }
}
