/* tree_state.h: the control object of a rank, as tree.c and tree_end.c share it; only for them. */
#ifndef CONTROL_TREE_STATE_H
#define CONTROL_TREE_STATE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "control/link.h"
#include "control/tree.h"
#include "net/connection.h"
#include "net/frame.h"
#include "node/attach.h"

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
    const char *dead[TREE_MAX_LINKS]; /* how the process at its other end was lost; NULL: it was not */
    int next;                         /* the link to poll first, so that none starves */
    int frame_link;                   /* the link whose frame the caller is using, or -1 */
    struct process_watch watch;
    struct doorbell_eventfd doorbell; /* this rank's own */
    _Atomic uint32_t own_armed;       /* its armed word, if there is no node */
    bool armed;                       /* the driver wants to be woken */
    bool unrung;                      /* it was armed, and nobody rang before it was disarmed */
    bool must_check;    /* for ended processes and due beats, as one may have woken the driver */
    int64_t checked_us; /* when it last checked for ended processes and due beats */
    unsigned polls;
    int beat_fd;                    /* a timer: when the next beats are due; -1: this rank sends none */
    int unanswered[TREE_MAX_LINKS]; /* beats since the other end was heard */
    bool farewelled;
    bool aborted, abort_delivered; /* an abort is known; the driver has received it */
    bool abort_first; /* no other rank of the node knew of it, nor has it come from a neighbour */
    struct frame_abort abort;
};

static inline struct tree *tree_of(struct control *control)
{
    return (struct tree *)control;
}

/* ---- tree_end.c: aborts, lost ranks and farewells ---- */

/* The eventfd of a neighbour, or of the leader; -1 if it was not passed when this rank attached. */
int tree_event_fd(const struct tree *tree, int rank);

/* Keep the first abort for the driver, and tell the node and all neighbours. [own]: it begins at this rank.
 */
void tree_raise_abort(struct tree *tree, const struct frame_abort *abort, bool own);

/* On the leader: a rank of the node may have published an abort that does not come up the tree. */
void tree_look_for_abort(struct tree *tree);

/* HVD_OK with the abort as an event, once; otherwise HVD_IN_PROGRESS. */
int tree_deliver_abort(struct tree *tree, struct control_event *event);

/* Close a link from which nothing more comes. Its rank is lost unless it said farewell. */
void tree_end_link(struct tree *tree, int index);

/* The bytes on this link are not what a rank of this job would send. */
void tree_link_corrupt(struct tree *tree, int index, const char *what);

/* [rank] is lost; [how] says what was seen. */
void tree_rank_lost(struct tree *tree, int rank, const char *how);

/* Is it time for the two checks below? They cost a system call each. */
bool tree_must_check(struct tree *tree);

/* Check for processes of this node that have ended. True if one was at the other end of a link, whose last
 * messages are still to be read. */
bool tree_check_processes(struct tree *tree);

/* Say in shared memory that this rank has left, once everything that it sent is in the rings: those outlive
 * the process, which may end from then on. */
void tree_mark_left(struct tree *tree);

/* ---- tree_beat.c: beats, by which leaders see that the processes of other nodes run ---- */

/* Begin to send them, if this job has beats and this rank has links to other nodes. */
int tree_open_beats(struct tree *tree, struct hvd_error *err);

/* Send those that are due. A leader that has not answered several is lost. */
void tree_check_beats(struct tree *tree);

/* ---- Calls of control_ops, in tree_end.c ---- */

void tree_abort(struct control *control, int status, int rank, const char *sentence);
void tree_farewell(struct control *control);
bool tree_flushed(struct control *control);

#endif
