/* control.h: messages between a rank, its parent and its children in the control tree.
 *
 * control/ promises to flow/ that messages of a link arrive complete and in order, that no call blocks, and
 * that every rank hears of an abort or a lost rank once. A transport implements control_ops: tree.c joins the
 * processes of a job, with a link.c for each neighbour (rings in shared memory inside a node, sockets between
 * nodes), and tree_end.c ends that; mailbox.c joins simulated ranks of one process. */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/tree_shape.h"

/* What was received. Its memory is control's, and valid until the next receive. */
struct control_event {
    enum { CONTROL_MESSAGE, CONTROL_ABORT } kind;
    int link;          /* MESSAGE: which link it came over */
    const void *bytes; /* MESSAGE */
    size_t length;
    int status;           /* ABORT: HVD_ERR_RANK_LOST, or the status that was passed to abort */
    int rank;             /* ABORT: the rank it is about */
    const char *sentence; /* ABORT */
    bool first; /* ABORT: as far as this rank knows, no other raised it earlier: so this rank logs it */
};

struct control;

/* A transport. No call blocks. Only the progress driver makes them, except kick. */
struct control_ops {
    const char *name;
    /* Mandatory. Copy a message for [link] and begin to send it. What does not fit is kept and sent in later
     * calls of receive. */
    int (*send)(struct control *control, int link, const void *bytes, size_t length, struct hvd_error *err);
    /* Mandatory. HVD_OK with the next event, or HVD_IN_PROGRESS if there is none. Also sends what was kept.
     */
    int (*receive)(struct control *control, struct control_event *event, struct hvd_error *err);
    /* Mandatory. Tell all ranks that the job cannot go on. Each rank, this one too, receives one ABORT event:
     * the first that reaches it. */
    void (*abort)(struct control *control, int status, int rank, const char *sentence);
    /* Mandatory. From here on ranks may leave: neither the end of a connection nor of a process is a loss. */
    void (*farewell)(struct control *control);
    /* Mandatory. Has everything that was sent left this process? */
    bool (*flushed)(struct control *control);
    /* Optional. Add the descriptors that wake the driver to [epoll_fd]: edge-triggered, except the one for
     * the ends of processes. The data of their events is not looked at. */
    int (*watch)(struct control *control, int epoll_fd, struct hvd_error *err);
    /* Optional. Armed: from now on arrivals and kicks make a watched descriptor readable. After arming the
     * driver must call receive once more before it sleeps. Disarmed: they need not, but still may. */
    void (*arm)(struct control *control, bool armed);
    /* Optional. The driver may not call receive for a while: what it has sent must wake the others now, and
     * so must what it sends until it has armed and disarmed again. */
    void (*ring)(struct control *control);
    /* Optional. A watched descriptor was readable. If nobody has rung since the driver armed, the next
     * receive looks for what else may have made it so, which else it does now and then. */
    void (*look)(struct control *control);
    /* Optional. Has a message woken another rank of this node since the last call? */
    bool (*has_woken)(struct control *control);
    /* Optional. Make a watched descriptor readable if armed. Any thread may call it. */
    void (*kick)(struct control *control);
    /* Optional. In a forked child: close descriptors, and touch nothing that is shared. */
    void (*after_fork)(struct control *control);
    /* Mandatory. Free everything. */
    void (*close)(struct control *control);
};

/* Who knows the launcher's verdict. */
struct control_verdict {
    int (*first_failed)(const void *arg); /* the rank that failed first, or -1; NULL: nobody knows */
    const void *arg;
};

/* First member of each transport's own struct. */
struct control {
    const struct control_ops *ops;
    int rank, size;
    int parent; /* its rank, or -1 at the root */
    int child_count;
    int child_ranks[TREE_MAX_LINKS - 1]; /* ascending; child i is link i + 1 */
    struct control_verdict verdict;      /* asked before a rank is named as lost */
    int silent_rank; /* the first rank of another node, which this rank has found silent; -1: none */
};

/* To be called before a step that takes longer than some polls. */
static inline void control_ring(struct control *control)
{
    if (control->ops->ring != NULL)
        control->ops->ring(control);
}

/* The rank at the other end of [link]. */
static inline int control_link_rank(const struct control *control, int link)
{
    return link == TREE_PARENT ? control->parent : control->child_ranks[link - 1];
}

#endif
