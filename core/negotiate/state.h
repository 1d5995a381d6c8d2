/* state.h: what the parts of the negotiation share: what a rank keeps, and what they proposal each
 * other. Included by negotiate*.c only. */
#ifndef NEGOTIATE_STATE_H
#define NEGOTIATE_STATE_H

#include "base/tree_shape.h"
#include "negotiate/response_cache.h"
#include "negotiate/negotiate.h"

#define SELF_BIT 0 /* the bit of this rank; child i has bit i + 1 */

/* A part of the subtree all of whose ranks have joined. */
struct joined_part {
    int rank;          /* who came last */
    uint32_t backends; /* that all of them have */
};

/* A submission that waits until this rank's join is over. */
struct deferred {
    struct deferred *next;
    struct submission submission;
};

/* A process set with members in this subtree. A rank that is none of them merges and forwards for those
 * below.
 */
struct subtree_set {
    hvd_set set;
    uint64_t member_parts; /* the parts of the subtree that have members: bits as entry.ready */
    bool decides;          /* all members are in this subtree, and not all in one child's */
    struct response_cache response_cache;
    uint64_t uncached;       /* operations decided without a number since the last look for some to retire */
    uint64_t joined;         /* the parts all of whose members have joined */
    int last_joined;         /* rank */
    bool joined_reported;    /* upwards, that all have */
    const struct desc *join; /* of this rank, or NULL */
    void *join_user;
    struct deferred *deferred, **deferred_tail;
    struct stall_query *stall_query; /* or NULL */
    uint32_t query_count;            /* made here so far */
    bool muted;                      /* it was said that something waits: not again for the time being */
    int64_t abort_reported_us;       /* since when had waited what it was said of that it is must_abort */
    int64_t muted_until_us;          /* 0: no time was told yet */
    struct joined_part part[];       /* by bit of joined */
};

/* Who is missing for an operation of a set? One question at a time is on its way in a set. */
struct stall_query {
    uint32_t id;
    char name[HVD_MAX_NAME + 1];
    uint64_t unanswered;       /* the parts that have not answered yet */
    int64_t timeout_us;        /* until when an answer is of use */
    int64_t deadline_us;       /* the same as a time; 0: no time was told yet */
    struct stall_report stall; /* the answers so far */
    /* where it is this rank that wants to know */
    const struct desc *desc;
    int64_t waited_us;
};

struct ready_item {
    struct subtree_set *subtree_set;
    struct cache_entry *entry; /* NULL: its set was removed */
};

struct ready_list {
    struct ready_item *at;
    size_t count, capacity;
};

/* Numbers of several sets, as set << 32 | number, so that they can be sorted. */
struct id_list {
    uint64_t *at;
    size_t count, capacity;
};

/* What a child is to be sent. */
struct outbox {
    struct wire_writer writer;
    bool taken;   /* what stands in it was sent */
    bool in_unit; /* something of the present unit stands in it */
};

struct negotiate {
    struct negotiate_params params;
    struct subtree_set **subtree_sets; /* ascending by set */
    size_t subtree_set_count, subtree_set_capacity;
    hvd_set last_set;            /* that was made; deferred ones never were */
    struct ready_list to_report; /* complete, not yet said upwards, in this order */
    struct ready_list to_decide; /* complete, to be decided here */
    bool join_to_report;         /* some set that is decided above has all joined */
    bool join_to_decide;         /* the same, decided here */
    struct id_list retired_ids;  /* nobody below uses them any more, which is to be said upwards */
    struct id_list numbers;      /* of one message, for sorting */
    uint32_t *ids;               /* of one record */
    size_t id_capacity;
    int leaving_rank;      /* -1, or who left first, as far as is known here */
    bool leaving_reported; /* upwards */
    bool to_tune;          /* [settings] are to be said with the next unit */
    struct tuned_settings settings;
    bool leaving_decided;       /* nothing but that all have left is decided any more */
    struct wire_writer up;      /* the message for the parent */
    struct wire_writer issue;   /* a record decided here; where it is [apply_pending] a unit of them */
    bool apply_pending;         /* the children were told of it, and it is still to be done here */
    struct wire_writer notes;   /* records about what waits, for the next message to the parent */
    const struct desc *last;    /* what this rank submitted last, or NULL */
    struct outbox *outboxes;    /* by child */
    bool in_unit;               /* the last record from above did not end its unit */
    bool unit_decided;          /* it had something for this rank */
    struct decision *decisions; /* queue */
    size_t decision_at, decision_count, decision_capacity;
    bool first_returned; /* the first of them: it is held until the next is unanswered for */
};

/* Grow an array to hold one more than [count] elements; false where memory is out. */
bool negotiate_grow(void *arrayp, size_t *capacityp, size_t count, size_t element_bytes);
int negotiate_no_memory(struct hvd_error *err);

/* ---- negotiate_sets.c ---- */

/* The set, or NULL where it has no members in this subtree (any more). */
struct subtree_set *subtree_set_find(const struct negotiate *negotiate, hvd_set set);

/* Make the set of that number, which is above all others. */
int subtree_set_add(struct negotiate *negotiate, hvd_set set, uint64_t member_parts, bool decides,
                    struct hvd_error *err);

/* It is no more, nor is what stands on the agendas of it. */
void subtree_set_remove(struct negotiate *negotiate, struct subtree_set *subtree_set);
void subtree_set_destroy(struct subtree_set *subtree_set); /* NULL is fine */

/* ---- negotiate_up.c ---- */

/* Is everybody below ready for [entry] (NULL: for one that nobody has submitted), or has joined? */
bool subtree_set_covers(const struct subtree_set *subtree_set, const struct cache_entry *entry);

int up_submit(struct negotiate *negotiate, const struct submission *submission, struct hvd_error *err);
int up_receive(struct negotiate *negotiate, int child, const struct wire_record *record,
               struct hvd_error *err);

/* Nobody below uses that number any more, where that is so. */
int up_release_id(struct negotiate *negotiate, struct subtree_set *subtree_set, uint32_t number,
                  struct hvd_error *err);

/* What is to be said of a complete entry; its descriptions are borrowed. False: its number says it all. */
bool up_describe(const struct subtree_set *subtree_set, const struct cache_entry *entry,
                 struct wire_record *record);

/* Write records of [numbers], a set after the other, each ascending. The list is empty then. */
int up_write_ids(struct negotiate *negotiate, enum wire_type type, struct id_list *numbers,
                 struct wire_writer *writer, struct hvd_error *err);

/* Put the numbers among [ready_list]'s entries into records of [writer], and keep the others. */
int up_write_cached(struct negotiate *negotiate, struct ready_list *ready_list, struct wire_writer *writer,
                    struct hvd_error *err);

/* Write the message for the parent into negotiate->up, which stays empty where there is nothing to say. */
int up_write_message(struct negotiate *negotiate, struct hvd_error *err);

/* ---- negotiate_down.c ---- */

/* Whose decisions they are, and whether those below know of them. */
enum down_source { DOWN_FROM_PARENT, DOWN_OWN, DOWN_OWN_FORWARDED };

/* Do what the records in [bytes] say, and forward them unless they were told. */
int down_apply(struct negotiate *negotiate, const void *bytes, size_t length, enum down_source source,
               struct hvd_error *err);

/* Forward numbers that were decided here, and the end of their unit, and do what they say deferred: the
 * children are at it meanwhile. They stand in negotiate->issue. */
int down_forward(struct negotiate *negotiate, struct hvd_error *err);

/* Do what is apply_pending. Before anything else that is said to this rank or decided on it. */
int down_apply_pending(struct negotiate *negotiate, struct hvd_error *err);

/* A decision for this rank; what it points to is held. */
int down_push_decision(struct negotiate *negotiate, const struct decision *decision, struct hvd_error *err);

/* Where more for that child is written. */
struct wire_writer *down_writer(struct negotiate *negotiate, int child);

/* ---- negotiate_stall.c, and negotiate_check_stalls and negotiate_deadline ---- */

int stall_handle_notice(struct negotiate *negotiate, struct subtree_set *subtree_set,
                        const struct wire_record *record, struct hvd_error *err);
int stall_handle_query(struct negotiate *negotiate, const struct wire_record *record, struct hvd_error *err);
int stall_handle_reply(struct negotiate *negotiate, struct subtree_set *subtree_set, int child,
                       const struct wire_record *record, struct hvd_error *err);
void stall_query_end(struct subtree_set *subtree_set); /* forget it, where there is one */

/* ---- negotiate_decide.c: negotiate_decide ---- */

#endif
