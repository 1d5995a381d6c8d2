/* state.h: the stages of the negotiation on one rank, what each owns, and the calls between them. Included by
 * the files of negotiate only.
 *
 *   submit     owns the process sets, their response caches, and the lists of what is complete
 *   delivery   owns the decisions for this rank and the messages for its children
 *   stall      owns the notes for the parent about operations that wait long; asks who is missing, and
 *              whether the parent answers
 *   up         receives from the children; owns the message for the parent
 *   down       carries out decisions here and forwards them to the children; owns the records being issued
 *   decide     makes the decisions of the sets that this rank decides for
 *
 * Each stage has its own struct and pointers to the stages that it calls, all of them above it in this list.
 * No stage sees struct negotiate (stages.h), which joins them for the calls of negotiate.h. */
#ifndef NEGOTIATE_STATE_H
#define NEGOTIATE_STATE_H

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/tree_shape.h"
#include "negotiate/response_cache.h"
#include "negotiate/negotiate.h"

#define SELF_BIT     0 /* the bit of this rank; child i has bit i + 1 */
#define ALL_BACKENDS ((1u << BACKEND_COUNT) - 1)

/* A part of the subtree (this rank, or a child's subtree) in which all ranks have joined. */
struct joined_part {
    int rank;          /* the last to join */
    uint32_t backends; /* that all of its ranks have */
};

/* A submission made after this rank's join, kept until the join is decided. */
struct deferred {
    struct deferred *next;
    struct submission submission;
};

/* The stall that was reported last: of which operation, as a hash, and which ranks it waited for. */
struct stall_told {
    uint64_t operation, ranks;
    struct repeat repeat;
};

/* A process set with members in this subtree. This rank may be no member itself: then it merges and forwards
 * for those below it. */
struct subtree_set {
    hvd_set set;
    uint64_t member_parts; /* which parts of the subtree have members; bits as entry.ready */
    bool decides;          /* this rank decides: its subtree has all members, but no child's subtree has */
    struct response_cache response_cache;
    uint64_t uncached;       /* operations decided without an id since ids were last retired */
    uint64_t joined;         /* parts in which all members have joined */
    int last_joined;         /* rank */
    bool joined_reported;    /* the parent knows that all members below have joined */
    const struct desc *join; /* this rank's join, or NULL */
    void *join_user;
    int64_t join_since_us; /* 0: set at the next call that passes the time */
    struct deferred *deferred, **deferred_tail;
    struct stall_query *stall_query; /* or NULL */
    uint32_t query_count;            /* queries begun here so far */
    bool muted;                      /* a stall was asked for: none is for some time */
    struct stall_told told;          /* what the user was told last */
    int64_t abort_reported_us;       /* since_us of the operation last reported as must_abort */
    int64_t hang_asked_us;           /* when ranks were last asked because of hang_limit_us */
    int64_t muted_until_us;          /* 0: set at the next call that passes the time */
    struct joined_part part[];       /* by bit of joined */
};

/* A query for the ranks that an operation waits for. A set has one query in flight at a time. */
struct stall_query {
    uint32_t id;
    char name[HVD_MAX_NAME + 1];
    uint64_t unanswered;       /* parts whose reply is missing */
    int64_t timeout_us;        /* replies that take longer are not waited for */
    int64_t deadline_us;       /* that as a time; 0: set at the next call that passes the time */
    struct stall_report stall; /* the replies so far, merged */
    uint64_t batch;            /* as in wire_record */
    /* on the rank that began the query */
    const struct desc *desc;
    int64_t waited_us;
    int rank, waits_for; /* of a batch: who reported it, and whom it waits for there, or -1 */
    bool again;          /* its members are asked for the second time */
};

struct ready_item {
    struct subtree_set *subtree_set;
    struct cache_entry *entry; /* NULL: its set was removed meanwhile */
};

struct ready_list {
    struct ready_item *at;
    size_t count, capacity;
};

/* Ids of several sets, as set << 32 | id, so that they can be sorted. */
struct id_list {
    uint64_t *at;
    size_t count, capacity;
};

/* ---- Memory ---- */

/* Grow an array to hold one more than [count] elements; false if memory is out. */
static inline bool negotiate_grow(void *arrayp, size_t *capacityp, size_t count, size_t element_bytes)
{
    void *array = NULL;
    if (count < *capacityp)
        return true;
    memcpy(&array, arrayp, sizeof(array));
    size_t capacity = 2 * *capacityp + 16;
    void *larger = reallocarray(array, capacity, element_bytes);
    if (larger == NULL)
        return false;
    memcpy(arrayp, &larger, sizeof(larger));
    *capacityp = capacity;
    return true; /* cppcheck-suppress memleak ; the array is the caller's */
}

static inline int negotiate_no_memory(struct hvd_error *err)
{
    return error_set(err, HVD_ERR_NO_MEMORY, "no memory left for the negotiation");
}

/* ---- subtree_sets.c: the process sets with members in this subtree ---- */

struct subtree_sets {
    struct subtree_set **at; /* ascending by set */
    size_t count, capacity;
    size_t part_count; /* of the subtree: this rank and its children */
    hvd_set last_set;  /* the highest that was ever made */
};

/* NULL if the set has no members in this subtree, or was removed. */
struct subtree_set *subtree_set_find(const struct subtree_sets *sets, hvd_set set);

/* Add [set], which is above all others. */
int subtree_set_add(struct subtree_sets *sets, hvd_set set, uint64_t member_parts, bool decides,
                    struct hvd_error *err);
void subtree_set_remove(struct subtree_sets *sets, struct subtree_set *subtree_set);
void stall_query_end(struct subtree_set *subtree_set); /* free its query, if it has one */
void subtree_sets_fini(struct subtree_sets *sets);

/* ---- submit.c ---- */

/* Room to sort and write ids. */
struct id_room {
    struct id_list message; /* of one message */
    uint32_t *at;           /* of one record */
    size_t capacity;
};

struct submit_stage {
    const struct negotiate_params *params;
    struct subtree_sets sets;
    struct ready_list to_report; /* complete, to be sent to the parent in this order */
    struct ready_list to_decide; /* complete, to be decided here */
    bool join_to_report;         /* all members below have joined in some set that is decided above */
    bool join_to_decide;         /* the same for a set that is decided here */
    struct id_list retired_ids;  /* no longer used in this subtree, which the parent does not know yet */
    struct id_room ids;
    const struct desc *last; /* this rank's last submission, or NULL */
    int leaving_rank;        /* the first rank that left, as far as is known here, or -1 */
    bool leaving_reported;   /* the parent knows that a rank leaves */
    bool leaving_decided;    /* from then on only the common shutdown is decided */
};

/* Is every part ready for [entry] (NULL: one that nobody has submitted), or has joined? */
bool subtree_set_covers(const struct subtree_set *subtree_set, const struct cache_entry *entry);

/* This rank's own submission. */
int submit_own(struct submit_stage *submit, const struct submission *submission, struct hvd_error *err);

/* What a child reports: the part [bit] is ready for [entry]; has joined; has [members] members of the set
 * that the entry adds. */
int submit_mark_ready(struct submit_stage *submit, struct subtree_set *subtree_set, struct cache_entry *entry,
                      int bit, const struct wire_proposal *proposal, struct hvd_error *err);
int submit_mark_joined(struct submit_stage *submit, struct subtree_set *subtree_set, int bit,
                       const struct joined_part *part, struct hvd_error *err);
int submit_set_member_count(struct cache_entry *entry, int bit, int members, struct hvd_error *err);

/* [proposal] becomes a copy of [from], with a reference to its description. */
void submit_set_proposal(struct wire_proposal *proposal, const struct wire_proposal *from);

/* Free the retiring id [id] if all parts below have acknowledged that. */
int submit_release_id(struct submit_stage *submit, struct subtree_set *subtree_set, uint32_t id,
                      struct hvd_error *err);

/* The record of a complete entry; it holds no reference to the descriptions. False: the entry's id says as
 * much. */
bool submit_describe(const struct subtree_set *subtree_set, const struct cache_entry *entry,
                     struct wire_record *record);

/* Write [message] as records, one set after the other, ascending; empties the list. */
int submit_write_ids(struct submit_stage *submit, enum wire_type type, struct id_list *message,
                     struct wire_writer *writer, struct hvd_error *err);

/* Write the entries of [ready_list] that their ids describe, and keep the others. */
int submit_write_cached(struct submit_stage *submit, struct ready_list *ready_list,
                        struct wire_writer *writer, struct hvd_error *err);

/* Remove the set, and its entries from all lists. */
void submit_remove_set(struct submit_stage *submit, struct subtree_set *subtree_set);
void submit_fini(struct submit_stage *submit);

/* ---- delivery.c ---- */

/* The message for a child. */
struct outbox {
    struct wire_writer writer;
    bool taken;   /* the message was sent: the next record begins a new one */
    bool in_unit; /* it holds records of the present unit */
};

struct delivery {
    int child_count;
    struct outbox *outboxes;    /* [child_count] */
    struct decision *decisions; /* queue; owns what they point to */
    size_t decision_at, decision_count, decision_capacity;
    bool first_returned; /* the caller reads the first of them until its next call */
    bool unit_decided;   /* the present unit has a decision for this rank */
};

/* Queue a decision for this rank; holds what it points to. */
int delivery_push(struct delivery *delivery, const struct decision *decision, struct hvd_error *err);
int delivery_next(struct delivery *delivery, const struct decision **decisionp);
void delivery_release_returned(struct delivery *delivery);
void delivery_end_unit(struct delivery *delivery);

/* The writer of the message for [child]. */
struct wire_writer *delivery_writer(struct delivery *delivery, int child);

/* Send the bytes of a record to the children whose parts are in [member_parts]; the end of a unit to those
 * that got a record of it. */
void delivery_forward(struct delivery *delivery, uint64_t member_parts, const unsigned char *bytes,
                      size_t length);
void delivery_forward_end(struct delivery *delivery, const unsigned char *bytes, size_t length);
int delivery_take_message(struct delivery *delivery, int child, const void **bytesp, size_t *lengthp,
                          struct hvd_error *err);
void delivery_fini(struct delivery *delivery);

/* ---- parent_watch.c ---- */

/* Whether the parent answers, on which this rank waits. */
struct parent_watch {
    bool heard;              /* a message of it has come since the last look */
    int64_t since_us;        /* since when this rank waits for it; 0: it does not */
    int64_t ping_at_us;      /* when to ping it, if nothing comes */
    int64_t pong_until_us;   /* when a pong is overdue; 0: none is awaited */
    const struct desc *desc; /* of a batch that waits, which the parent was told of; NULL: none. Held */
    uint64_t batch;
    int waits_for;
    int64_t waited_us; /* how long it had waited at since_us */
};

struct stall_stage;

/* As stall_deadline and stall_check. */
int64_t parent_watch_deadline(struct stall_stage *stall, int64_t now_us);
int parent_watch_check(struct stall_stage *stall, int64_t now_us, struct hvd_error *err);

/* The parent was told of a batch that waits: its answer is due. */
void parent_watch_told(struct stall_stage *stall, const struct stalled_batch *stalled_batch);

/* ---- stall_query.c ---- */

/* How long the deciding rank waits for replies. Each rank gives its children an eighth less than it has. */
#define STALL_QUERY_US INT64_C(1000000)
#define HANG_QUERY_US  INT64_C(10000000) /* the same where a rank that does not reply ends the job */

/* How long to wait for replies about an operation that has waited for [waited_us]: a rank that is slow for a
 * second must not end a job that stalls for another reason. */
static inline int64_t stall_query_timeout(const struct negotiate_params *params, int64_t waited_us)
{
    bool any = params->stall_abort_us > 0 && waited_us >= params->stall_abort_us;
    if (any || params->hang_limit_us == 0 || waited_us < params->hang_limit_us ||
        params->hang_limit_us / 2 < STALL_QUERY_US)
        return STALL_QUERY_US;
    return params->hang_limit_us / 2 < HANG_QUERY_US ? params->hang_limit_us / 2 : HANG_QUERY_US;
}

struct stall_stage {
    struct submit_stage *submit;
    struct delivery *delivery;
    struct wire_writer notes; /* records for the next message to the parent */
    struct parent_watch parent;
};

int stall_report_batch(struct stall_stage *stall, const struct stalled_batch *stalled_batch,
                       struct hvd_error *err);

int stall_handle_notice(struct stall_stage *stall, struct subtree_set *subtree_set,
                        const struct wire_record *record, struct hvd_error *err);
int stall_handle_query(struct stall_stage *stall, const struct wire_record *record, struct hvd_error *err);
int stall_handle_reply(struct stall_stage *stall, struct subtree_set *subtree_set, int child,
                       const struct wire_record *record, struct hvd_error *err);
int64_t stall_deadline(struct stall_stage *stall, int64_t now_us);
int stall_check(struct stall_stage *stall, int64_t now_us, struct hvd_error *err);
void stall_restart_times(struct stall_stage *stall);

/* ---- up.c ---- */

struct up_stage {
    struct submit_stage *submit;
    struct stall_stage *stall;
    struct wire_writer message; /* for the parent */
};

int up_receive(struct up_stage *up, int child, const void *bytes, size_t length, struct hvd_error *err);

/* *lengthp is unchanged if there is nothing to report. */
int up_write_message(struct up_stage *up, const void **bytesp, size_t *lengthp, struct hvd_error *err);

/* ---- down.c ---- */

struct down_stage {
    struct submit_stage *submit;
    struct delivery *delivery;
    struct stall_stage *stall;
    struct wire_writer issue; /* a record decided here; with [apply_pending] a unit of ids */
    bool apply_pending;       /* the children have [issue], and this rank has yet to apply it */
    bool in_unit;             /* the last record did not end its unit */
};

/* Who made the decisions, and whether the children have them already. */
enum down_source { DOWN_FROM_PARENT, DOWN_OWN, DOWN_OWN_FORWARDED };

/* Apply the records in [bytes], and forward them unless the children have them. */
int down_apply(struct down_stage *down, const void *bytes, size_t length, enum down_source source,
               struct hvd_error *err);

/* Forward the ids in [issue] and the end of their unit, and let this rank apply them later, while the
 * children work. */
int down_forward(struct down_stage *down, struct hvd_error *err);

/* Apply [issue] if that is pending; to be called before anything else changes what submit keeps. */
int down_apply_pending(struct down_stage *down, struct hvd_error *err);

/* A message of the parent. */
int down_receive(struct down_stage *down, const void *bytes, size_t length, struct hvd_error *err);

/* ---- decide.c ---- */

struct decide_stage {
    struct submit_stage *submit;
    struct down_stage *down;
    bool to_tune; /* [settings] go out with the next unit */
    struct tuned_settings settings;
};

int decide_all(struct decide_stage *decide, struct hvd_error *err);
void decide_tune(struct decide_stage *decide, const struct tuned_settings *settings);

#endif
