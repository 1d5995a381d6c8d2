/* negotiate.h: what is ready on every rank, in one agreed order. A pure state machine: messages in, messages
 * and decisions out; it knows nothing of transport, memory or threads.
 *
 * Each rank of the control tree says upwards what is ready in its whole subtree, so that identical
 * descriptions merge on the way and the root reads as many records as it has children, however many ranks
 * there are. The root decides and its message goes down unchanged: all ranks see the same decisions in the
 * same order, cut into the same messages. */
#ifndef FLOW_NEGOTIATE_H
#define FLOW_NEGOTIATE_H

#include "base/planes.h"
#include "flow/wire.h"

struct negotiate;

/* [child_ranks]: those of the control tree, borrowed. [root]: this rank has no parent. */
struct negotiate_place {
    int rank, size;
    bool root;
    int child_count;
    const int *child_ranks;
    int plane_order[PLANE_COUNT]; /* enum plane_id, best first; -1 where there are no more. Equal on all ranks
                                   */
};

/* What all ranks are to do now. */
struct decision {
    enum { DECISION_RUN, DECISION_MISMATCH, DECISION_LEAVING } kind;
    void *user;               /* RUN, MISMATCH: of this rank's submission */
    const struct desc *desc;  /* RUN, MISMATCH; valid until the next call of negotiate */
    int plane;                /* RUN: enum plane_id, -1 where none is needed */
    int rank;                 /* MISMATCH: whose desc it is; LEAVING: who called hvd_shutdown first */
    int other_rank;           /* MISMATCH */
    const struct desc *other; /* MISMATCH */
    bool last;                /* the last one of its message: what is decided together may be fused */
};

int negotiate_create(struct negotiate **negotiatep, const struct negotiate_place *place,
                     struct hvd_error *err);
void negotiate_destroy(struct negotiate *negotiate); /* NULL is fine */

/* This rank is ready for [desc] (copied); [user] comes back in the decision. One of that name must not be
 * undecided. */
int negotiate_submit(struct negotiate *negotiate, const struct desc *desc, void *user, struct hvd_error *err);

/* This rank leaves: what is not decided when the others learn of it never will be. */
void negotiate_leave(struct negotiate *negotiate);

/* A message of a child. HVD_ERR_SYSTEM where it breaks the protocol: the job cannot go on. */
int negotiate_from_child(struct negotiate *negotiate, int child, const void *bytes, size_t length,
                         struct hvd_error *err);

/* A message of the parent (the caller sends it on to the children as it is). */
int negotiate_from_parent(struct negotiate *negotiate, const void *bytes, size_t length,
                          struct hvd_error *err);

/* What there is to say since the last call: for the parent, or, at the root, the decisions for all children,
 * which become this rank's own too. *bytesp is valid until the next call; *lengthp is 0 where there is
 * nothing. */
int negotiate_say(struct negotiate *negotiate, const void **bytesp, size_t *lengthp, struct hvd_error *err);

/* The next decision, or false. */
bool negotiate_next(struct negotiate *negotiate, struct decision *decision);

#endif
