/* negotiate.h: finds the operations that are ready on every rank and gives them one order that all ranks
 * agree on. A pure state machine: messages in, messages and decisions out; it knows nothing of transport,
 * memory or threads. Its stages are in state.h.
 *
 * Each rank of the control tree reports to its parent what is ready in its whole subtree. Equal descriptions
 * merge on the way, so a rank reads one record for each child and operation, whatever the number of ranks.
 * The rank that decides an operation of a process set is the deepest one of the tree whose subtree holds the
 * whole set; ranks above it never hear of the operation. Each rank sends each child one ordered stream: the
 * records of its parent's stream that concern the child's subtree, and its own decisions between them.
 * Therefore any two ranks see the operations that both take part in in the same order, and no cycle of
 * waiting ranks can arise.
 *
 * Decisions come in units, and what is in one unit may be fused. On the way down a unit is never split or
 * joined with another; a child only gets those of its records that concern the child's subtree. */
#ifndef NEGOTIATE_NEGOTIATE_H
#define NEGOTIATE_NEGOTIATE_H

#include "base/backend_id.h"
#include "negotiate/wire.h"

struct negotiate;

/* [child_ranks]: those of the control tree, borrowed. [root]: this rank has no parent. */
struct negotiate_params {
    int rank, size;
    bool root;
    int child_count;
    const int *child_ranks;
    int backend_order[BACKEND_COUNT]; /* enum backend_id, best first; -1 where there are no more. Equal on all
                                       * ranks
                                       */
    int64_t stall_warn_us;  /* tell of what has waited for some ranks as long, and again; 0: never */
    int64_t stall_abort_us; /* it is must_abort when it has waited as long; 0: never. Equal on all ranks */
    int64_t cache_limit; /* names that have a number at a time, in each set; 0: any number. Equal on all ranks
                          */
};

/* An operation that this rank submits. */
struct submission {
    const struct desc *desc; /* held from then on; its set exists and this rank is a member */
    uint32_t number;         /* decision.number of its last run, which saves a look by its name; any other
                                number does no harm */
    bool more;         /* more submissions follow at once: this is not the last that stall reports name */
    uint32_t backends; /* bit 1 << enum backend_id: those that this rank has for it. Merged by AND. 0: it
                        needs none. JOIN: those that it has at all; 0: all */
    bool member;       /* SET_ADD: this rank will be in the set */
    int set_size;      /* SET_ADD: ranks that will be in it */
    void *user;        /* comes back in the decision */
};

enum decision_kind {
    DECISION_RUN,         /* [desc] is ready on all members; JOIN: all have joined, [rank] last */
    DECISION_MISMATCH,    /* two ranks' descriptions differ */
    DECISION_JOINED,      /* [rank] has joined, and [desc] cannot do without it */
    DECISION_SET_ADDED,   /* [desc] made the set [set] */
    DECISION_SET_REMOVED, /* [set] is no more; what was undecided in it never will be decided */
    DECISION_LEAVING,     /* [rank] has called hvd_shutdown; nothing more will be decided */
    DECISION_TUNED,       /* [settings] are for what is decided from here on */
    DECISION_STALLED /* on the rank that decides for the set only: [desc] has waited for [stall]'s ranks */
};

/* What this rank must do next. */
struct decision {
    enum decision_kind kind;
    void
        *user; /* of this rank's submission; NULL where it did not submit: it has joined, or (SET_*: never) */
    const struct desc
        *desc;         /* all but SET_REMOVED and LEAVING; valid until the next call of negotiate_next */
    hvd_set set;       /* of the operation; SET_ADDED, SET_REMOVED: the one that comes or goes */
    uint32_t number;   /* RUN: what the operation is known by in its set from now on; WIRE_NO_ID: nothing */
    int backend;       /* RUN: enum backend_id, -1 where none is needed */
    int rank;          /* MISMATCH: whose desc it is; JOINED, LEAVING: who, RUN of a JOIN: who came last */
    uint32_t backends; /* SET_ADDED: those that all ranks of the job have; MISMATCH: those of [rank] */
    int other_rank;    /* MISMATCH: above [rank] */
    uint32_t other_backends;  /* MISMATCH */
    const struct desc *other; /* MISMATCH */
    bool last;                /* of its unit */
    /* STALLED */
    const struct stall_report *stall; /* valid as desc */
    int64_t waited_us;
    int others;                     /* operations of the set that wait for some ranks as well */
    bool must_abort;                /* for stall_abort_us: the job should end */
    struct tuned_settings settings; /* TUNED */
};

/* What two ranks disagree on; [a] is [rank]'s. */
void decision_compare(const struct decision *decision, struct desc_difference *difference);

int negotiate_create(struct negotiate **negotiatep, const struct negotiate_params *params,
                     struct hvd_error *err);
void negotiate_destroy(struct negotiate *negotiate); /* NULL is fine */

/* This rank is ready for it. One of that name must not be undecided in that set. What a rank submits between
 * its join and the decision on that waits until then. HVD_ERR_SET where the set is not (no longer) there or
 * this rank is no member: nothing has changed. */
int negotiate_submit(struct negotiate *negotiate, const struct submission *submission, struct hvd_error *err);

/* This rank leaves: what is not decided when the others learn of it never will be. */
void negotiate_leave(struct negotiate *negotiate);

/* A message of a child. HVD_ERR_SYSTEM where it breaks the protocol: the job cannot go on. */
int negotiate_from_child(struct negotiate *negotiate, int child, const void *bytes, size_t length,
                         struct hvd_error *err);

/* A message of the parent. */
int negotiate_from_parent(struct negotiate *negotiate, const void *bytes, size_t length,
                          struct hvd_error *err);

/* Decide what this rank can decide, as one unit. The caller may put it off while it has much to do: what
 * becomes ready meanwhile is then decided together. */
int negotiate_decide(struct negotiate *negotiate, struct hvd_error *err);

/* Have all ranks use [settings], from the next unit that is decided on. Root only. */
void negotiate_tune(struct negotiate *negotiate, const struct tuned_settings *settings);

/* What there is to say on [link] (as control.h counts them) since the last call for it. *bytesp is valid
 * until the next call of negotiate; *lengthp is 0 where there is nothing. */
int negotiate_get_message(struct negotiate *negotiate, int link, const void **bytesp, size_t *lengthp,
                          struct hvd_error *err);

/* When to call negotiate_check_stalls: INT64_MAX if nothing waits for other ranks. Times are
 * clock_us's; those of what was submitted since the last call begin with this one. To be called before each
 * sleep. */
int64_t negotiate_deadline(struct negotiate *negotiate, int64_t now_us);

/* Report and query operations that wait too long; this may write messages and queue decisions. */
int negotiate_check_stalls(struct negotiate *negotiate, int64_t now_us, struct hvd_error *err);

/* The next decision, valid until the next call of negotiate; HVD_IN_PROGRESS and NULL where there is none. To
 * be called after negotiate_get_message: what this rank has decided itself it does here, while those that it
 * told are at it, too. */
int negotiate_next(struct negotiate *negotiate, const struct decision **decisionp, struct hvd_error *err);

#endif
