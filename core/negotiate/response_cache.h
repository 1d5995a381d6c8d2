/* response_cache.h: the operations of one process set, by name and by id, and which parts of the subtree are
 * ready for each. An id stands for a description that all ranks agreed on, so that later rounds send one bit
 * for it. */
#ifndef NEGOTIATE_RESPONSE_CACHE_H
#define NEGOTIATE_RESPONSE_CACHE_H

#include <sys/queue.h>

#include "negotiate/name_table.h"
#include "negotiate/wire.h"

enum entry_state {
    ENTRY_PENDING, /* some part of the subtree is not ready */
    ENTRY_READY,   /* all parts are; to be reported to the parent, or decided here */
    ENTRY_REPORTED /* reported; waits for the decision */
};

/* How many members of a new process set each part of the subtree has; by_members: those that have asked for
 * it so far. */
struct member_counts {
    int counts[64]; /* by bit of entry.ready */
};

/* One name. Its entry lives while it has an id or some part is ready for it. */
struct cache_entry {
    struct name_link link;                 /* by name */
    TAILQ_ENTRY(cache_entry) pending_link; /* while some parts are ready, but not all */
    TAILQ_ENTRY(cache_entry) lru_link;     /* while it has an id that is not retiring */
    /* what its id stands for */
    uint32_t id;                 /* WIRE_NO_ID: none was assigned, and nothing is agreed */
    int backend;                 /* that carries it */
    bool nccl;                   /* on GPUs NCCL carries it instead */
    struct wire_proposal agreed; /* its rank is not used */
    uint64_t declined;           /* the offsets that this rank named when others named others, or none */
    uint32_t unequal;            /* decisions since one that agreed on offsets */
    /* until the next decision */
    enum entry_state state;
    bool needs_all;                      /* a rank that has joined must submit it too */
    bool mismatch;                       /* [proposal] and [other] differ */
    uint64_t ready;                      /* bit 0: this rank; bit i + 1: child i's subtree */
    struct wire_proposal proposal;       /* of the ready parts, merged; no desc: what its id stands for */
    struct wire_proposal other;          /* mismatch: the first proposal that differs */
    int64_t since_us;                    /* since when it is pending; 0: set at the next look for stalls */
    int absent;                          /* a rank that has joined without submitting it, or -1 */
    struct member_counts *member_counts; /* SET_ADD */
    void *user;                          /* of this rank's submission */
    uint64_t offsets;                    /* the same */
    struct eager_merge *eager; /* inputs of the ready parts; NULL: none yet. Kept for the next time */
    char name[];
};

TAILQ_HEAD(entry_list, cache_entry);

/* The state of an id: free (no entry), in use, or retiring. A retiring id still stands for its entry, as
 * ranks that do not know yet may send it; it is free once all parts below have acknowledged. */
struct cache_slot {
    struct cache_entry *entry;
    bool retiring;
    uint64_t acknowledged; /* bits as entry.ready */
};

struct response_cache {
    struct name_table names;
    struct cache_slot *slots;
    size_t slot_count, slot_capacity;
    size_t free_count, retiring_count;
    size_t in_use;             /* ids below it are in use or retiring */
    size_t reported_count;     /* entries that were reported, and wait for the decision */
    struct entry_list pending; /* in the order in which a first part was ready */
    struct entry_list lru;     /* least recently decided first */
};

bool response_cache_init(struct response_cache *response_cache); /* false if memory is out */
void response_cache_fini(struct response_cache *response_cache); /* a zeroed one is fine */

/* The entry of that name, or NULL. */
struct cache_entry *response_cache_find(const struct response_cache *response_cache, const char *name);

/* The same; makes it if it is not there. NULL if memory is out. */
struct cache_entry *response_cache_find_or_add(struct response_cache *response_cache, const char *name);

/* The slot of an id that was assigned, and perhaps freed again; NULL: it never was. */
struct cache_slot *response_cache_slot(const struct response_cache *response_cache, uint32_t id);

/* The entry whose id is [id], or NULL. */
struct cache_entry *response_cache_by_id(const struct response_cache *response_cache, uint32_t id);

/* The id for a new name: the lowest free one, or the next. WIRE_NO_ID if [limit] ids exist (0: no limit). */
uint32_t response_cache_free_id(const struct response_cache *response_cache, uint64_t limit);

/* Assign [id], which response_cache_free_id returned, to [entry], which has no id. False if memory is
 * out. */
bool response_cache_assign_id(struct response_cache *response_cache, struct cache_entry *entry, uint32_t id);

/* [entry] was decided just now: it is the last to retire. */
void response_cache_touch(struct response_cache *response_cache, struct cache_entry *entry);

/* Begin to retire an id that is in use; free a retiring one, once all have acknowledged. */
void response_cache_retire(struct response_cache *response_cache, uint32_t id);
void response_cache_release_id(struct response_cache *response_cache, uint32_t id);

/* [entry], of which some part is ready, is to be reported, or decided. */
void response_cache_mark_ready(struct response_cache *response_cache, struct cache_entry *entry);

/* [entry], which is ready, was reported or is being decided. */
void response_cache_mark_reported(struct response_cache *response_cache, struct cache_entry *entry);

/* An entry that was reported, or NULL. Takes long. */
const struct cache_entry *response_cache_any_reported(const struct response_cache *response_cache);

/* No part is ready for [entry] any more. It is freed if it has no id. */
void response_cache_reset_entry(struct response_cache *response_cache, struct cache_entry *entry);

/* Free [entry] if it has no id and no part is ready for it. */
void response_cache_drop_unused(struct response_cache *response_cache, struct cache_entry *entry);

#endif
