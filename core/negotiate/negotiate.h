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
 * A process set that its members alone ask for is made by the root, when as many ranks have asked as it is to
 * have. No rank knows who of its subtree will ask: so each reports how many have, again whenever there are
 * more, and these counts are what every rank of the tree needs to know where the members are. All ranks see
 * the decision, because it takes the next number for a set; those that are no members have nothing to do.
 *
 * Decisions come in units, and what is in one unit may be fused. On the way down a unit is never split or
 * joined with another; a child only gets those of its records that concern the child's subtree. */
#ifndef NEGOTIATE_NEGOTIATE_H
#define NEGOTIATE_NEGOTIATE_H

#include "base/backend_id.h"
#include "negotiate/wire.h"

struct negotiate;

/* [child_ranks]: this rank's children in the control tree; must outlive the negotiation. [root]: this rank
 * has no parent. */
struct negotiate_params {
    int rank, size;
    bool root;
    int parent; /* its rank; not used at the root */
    int child_count;
    const int *child_ranks;
    int backend_order[BACKEND_COUNT]; /* enum backend_id, best first, then -1. Equal on all ranks */
    int64_t stall_warn_us;  /* report operations that have waited for some ranks this long, and again after as
                               long; 0: never */
    int64_t stall_abort_us; /* a stalled operation that has waited this long is must_abort; 0: never. Equal on
                               all ranks */
    int64_t hang_limit_us;  /* the same where a rank does not answer, or the operation is decided; not above
                               stall_abort_us */
    /* How does this rank stand with [batch] of [set], in which another one waits? [self] is filled for
     * STANDING_KEEPS_OTHERS. No calls of negotiate in it. Optional: then no batch is asked about. */
    enum stall_standing (*standing)(void *arg, hvd_set set, uint64_t batch, struct stall_rank *self);
    void *standing_arg;
    int64_t cache_limit; /* the most names with an id at a time, in each set; 0: no limit. Equal on all
                            ranks */
};

/* An operation that this rank submits. */
struct submission {
    const struct desc *desc; /* a reference is taken; its set exists and this rank is a member */
    uint32_t id;             /* decision.id of its last run, which saves the lookup by name; a wrong id is
                                    harmless */
    bool more; /* more submissions follow at once: a stall report does not name this one as the last */
    uint32_t backends; /* bits 1 << enum backend_id: those that this rank has for it; combined by AND over all
                          ranks. 0: it needs none. JOIN: those that the rank has at all; 0: all */
    uint64_t offsets;  /* of tensors on GPUs: where they are in memory that all ranks number alike; 0: nowhere
                          there. Ranks may differ in it */
    bool member;       /* SET_ADD: this rank will be in the set */
    const void *input; /* of a small operation, to travel with its readiness; only read during the call. NULL:
                          it is exchanged once it is decided. Ranks may differ in it */
    int input_bytes;   /* of it; all members have as many. Too many: it does not travel */
    void *user;        /* returned in the decision */
};

enum decision_kind {
    DECISION_RUN,         /* [desc] is ready on all members; JOIN: all have joined, [rank] last */
    DECISION_MISMATCH,    /* two ranks' descriptions differ */
    DECISION_JOINED,      /* [rank] has joined, but [desc] needs it */
    DECISION_SET_ADDED,   /* [desc] made the set [set] */
    DECISION_SET_REMOVED, /* [set] is removed; operations of it that are undecided never will be decided */
    DECISION_LEAVING,     /* [rank] has called hvd_shutdown; nothing more will be decided */
    DECISION_TUNED,       /* [settings] hold for all decisions from here on */
    DECISION_STALLED      /* only on the rank that decides for the set, or whose parent is silent: [desc] has
                             waited      for the ranks in [stall] */
};

/* What this rank must do next. */
struct decision {
    enum decision_kind kind;
    void *user; /* of this rank's submission; NULL if it has joined and did not submit, or is no member of a
                   set that its members alone ask for */
    const struct desc
        *desc;   /* of all kinds but SET_REMOVED and LEAVING; valid until the next call of negotiate_next */
    hvd_set set; /* of the operation; SET_ADDED, SET_REMOVED: the set that is added or removed */
    uint32_t id; /* RUN: the operation's id in its set from now on, or WIRE_NO_ID */
    int backend; /* RUN: enum backend_id, or -1 if none is needed; not BACKEND_NCCL */
    bool nccl;   /* RUN: NCCL carries the tensors, which are on GPUs, and [backend] what else it needs */
    uint64_t offsets; /* RUN: those of every member's submission; 0: they differ, or a member has none */
    struct eager_inputs inputs; /* RUN: of all members, if all submitted one; otherwise count is 0. Hostile
                                   until checked: a rank may have sent for another, and of any length */
    int rank; /* MISMATCH: the rank that submitted desc; JOINED: who joined; LEAVING: who leaves; RUN of a
                 JOIN: the last to join */
    uint32_t backends; /* SET_ADDED: the backends that all ranks of the job have; MISMATCH: those of [rank] */
    int other_rank;    /* MISMATCH: a rank above [rank] */
    uint32_t other_backends;  /* MISMATCH */
    const struct desc *other; /* MISMATCH */
    bool last;                /* the last decision of its unit */
    /* STALLED */
    const struct stall_report *stall; /* valid as long as desc */
    int64_t waited_us;
    uint64_t batch;  /* it runs, as this batch of its set, and has not moved for waited_us: then
                        [rank] waits in it for [other_rank], or for one that it cannot name: -1 */
    int others;      /* how many other operations of the set wait for some ranks */
    bool must_abort; /* it has waited for stall_abort_us or hang_limit_us: the job should end */
    struct tuned_settings settings; /* TUNED */
};

/* Describe what two ranks disagree on; text [a] is that of [rank]. */
void decision_compare(const struct decision *decision, struct desc_difference *difference);

int negotiate_create(struct negotiate **negotiatep, const struct negotiate_params *params,
                     struct hvd_error *err);
void negotiate_destroy(struct negotiate *negotiate); /* NULL is fine */

/* Submit an operation: this rank is ready for it. No undecided operation of the set may have its name.
 * Submissions between this rank's join and the decision on the join are kept until then. HVD_ERR_SET if
 * the set does not exist (any more) or this rank is no member: nothing has changed. */
int negotiate_submit(struct negotiate *negotiate, const struct submission *submission, struct hvd_error *err);

/* This rank leaves. Operations that are undecided when the other ranks learn of it never will be decided. */
void negotiate_leave(struct negotiate *negotiate);

/* Process a message of a child. HVD_ERR_SYSTEM if it breaks the protocol: then the job cannot continue. */
int negotiate_from_child(struct negotiate *negotiate, int child, const void *bytes, size_t length,
                         struct hvd_error *err);

/* Process a message of the parent. */
int negotiate_from_parent(struct negotiate *negotiate, const void *bytes, size_t length,
                          struct hvd_error *err);

/* Decide everything that this rank can decide, as one unit. A busy caller may delay this; operations that
 * become ready meanwhile are then decided together. */
int negotiate_decide(struct negotiate *negotiate, struct hvd_error *err);

/* Let all ranks use [settings], from the next unit on. Root only. */
void negotiate_tune(struct negotiate *negotiate, const struct tuned_settings *settings);

/* Get the message for [link] (numbered as in control.h), with all records since the last call for that
 * link. *bytesp is valid until the next call of negotiate; *lengthp is 0 if there is nothing to send. */
int negotiate_get_message(struct negotiate *negotiate, int link, const void **bytesp, size_t *lengthp,
                          struct hvd_error *err);

/* The time at which to call negotiate_check_stalls; INT64_MAX if nothing waits for other ranks. Times are
 * those of clock_us; the waiting time of operations submitted since the last call begins with this call.
 * Call it before each sleep. */
int64_t negotiate_deadline(struct negotiate *negotiate, int64_t now_us);

/* This process did nothing for a while, as it was stopped: what waits is timed anew. */
void negotiate_restart_times(struct negotiate *negotiate);

/* Report and query operations that wait too long; this may write messages and queue decisions. */
int negotiate_check_stalls(struct negotiate *negotiate, int64_t now_us, struct hvd_error *err);

/* A batch of which this rank is a member, and which does not move. */
struct stalled_batch {
    const struct desc *desc; /* of one of its operations */
    uint64_t number;         /* in its set, from 1; the same on all members */
    int waits_for;           /* the rank that it waits for here, or -1 */
    int64_t waited_us;
};

/* Find out which ranks the batch waits for: a DECISION_STALLED follows on the rank that decides for the set,
 * unless some member makes progress. Wherever several members report it, one of them suffices. HVD_ERR_SET if
 * the set was removed meanwhile, so that nobody can be asked. */
int negotiate_report_stall(struct negotiate *negotiate, const struct stalled_batch *stalled_batch,
                           struct hvd_error *err);

/* The next decision, valid until the next call of negotiate; HVD_IN_PROGRESS and NULL if there is none.
 * Call it after negotiate_get_message and sending: this rank then carries out its own decisions here while
 * its children, which have them already, do the same. */
int negotiate_next(struct negotiate *negotiate, const struct decision **decisionp, struct hvd_error *err);

#endif
