/* control.h: how records travel between a rank, its parent and its children in the control tree. */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/tree_shape.h"

#define CONTROL_MESSAGE_BYTES (INT64_C(1) << 30) /* longest message */

/* What came in. Memory is control's and valid until the next receive. */
struct control_event {
    enum { CONTROL_MESSAGE, CONTROL_ABORT } kind;
    int link;          /* MESSAGE: where from */
    const void *bytes; /* MESSAGE */
    size_t length;
    int status;           /* ABORT: HVD_ERR_RANK_LOST, or what control_abort was given */
    int rank;             /* ABORT: the rank it is about */
    const char *sentence; /* ABORT */
};

struct control;

/* A way of travel. None of these calls blocks. All but kick are called by the holder of the progress only. */
struct control_ops {
    const char *name;
    /* Mandatory. Copy a message for [link] and begin to send it; what does not fit waits here and goes out
     * in later calls of progress. */
    int (*send)(struct control *control, int link, const void *bytes, size_t length, struct hvd_error *err);
    /* Mandatory. The next event, HVD_OK; or HVD_IN_PROGRESS where there is none. Progresses sends also. */
    int (*receive)(struct control *control, struct control_event *event, struct hvd_error *err);
    /* Mandatory. Tell all ranks that the job cannot go on: each, this one too, receives one ABORT event. Only
     * the first abort that reaches a rank is delivered there. */
    void (*abort)(struct control *control, int status, int rank, const char *sentence);
    /* Mandatory. From here on ranks may leave: neither EOF nor death is a loss. */
    void (*farewell)(struct control *control);
    /* Mandatory. True when everything sent has left this process. */
    bool (*flushed)(struct control *control);
    /* Optional. Add what wakes a sleeper to [epoll_fd] (edge-triggered, but for the end of
     * a process; data is not looked at). */
    int (*watch)(struct control *control, int epoll_fd, struct hvd_error *err);
    /* Optional. armed: from now on arrivals and kicks make a watched descriptor readable (they always may).
     * After arming the caller must look for arrivals once more before it sleeps. disarmed: they need not. */
    void (*arm)(struct control *control, bool armed);
    /* Optional. Make a watched descriptor readable if armed. Any thread. */
    void (*kick)(struct control *control);
    /* Optional. In a forked child: close descriptors, touch nothing that is shared. */
    void (*after_fork)(struct control *control);
    /* Mandatory. Free everything. */
    void (*close)(struct control *control);
};

/* First member of each way's own struct. */
struct control {
    const struct control_ops *ops;
    int rank, size;
    int parent; /* its rank, or -1 at the root */
    int child_count;
    int child_ranks[TREE_MAX_LINKS - 1]; /* ascending; child i is link i + 1 */
};

/* The rank at the other end of [link]. */
static inline int control_link_rank(const struct control *control, int link)
{
    return link == TREE_PARENT ? control->parent : control->child_ranks[link - 1];
}

#endif
