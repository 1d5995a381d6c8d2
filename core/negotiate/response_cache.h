/* response_cache.h: the operations of one process set, by name and by number, and who is ready for them. */
#ifndef NEGOTIATE_RESPONSE_CACHE_H
#define NEGOTIATE_RESPONSE_CACHE_H

#include <sys/queue.h>

#include "base/name_table.h"
#include "negotiate/wire.h"

enum entry_state {
    ENTRY_PENDING, /* some of this rank and its children are not ready for it */
    ENTRY_READY,   /* all are: it waits to be said upwards, or to be decided here */
    ENTRY_REPORTED /* it waits for the decision */
};

/* How many of the ranks that make a process set each part of the subtree has. */
struct member_counts {
    int set_size;   /* how many it will have */
    int counts[64]; /* by bit of entry.ready */
};

/* One name. There is an entry while it has a number or somebody is ready for it. */
struct cache_entry {
    struct name_link link;                 /* by name */
    TAILQ_ENTRY(cache_entry) pending_link; /* while somebody is ready, but not all */
    TAILQ_ENTRY(cache_entry) lru_link;     /* while it has a number, and that is not retiring */
    /* what its number stands for */
    uint32_t number;             /* or WIRE_NO_ID; then there is no agreement */
    int backend;                 /* that was chosen */
    struct wire_proposal agreed; /* the rank is not used */
    /* until the next decision */
    enum entry_state state;
    bool needs_all;                /* that a rank has joined does not make it ready */
    bool mismatch;                 /* [proposal] and [other] differ */
    uint64_t ready;                /* bit 0: this rank; bit i + 1: child i's subtree */
    struct wire_proposal proposal; /* what they say; no desc: its number */
    struct wire_proposal other;    /* mismatch: the first other thing that was said */
    int64_t since_us;              /* when it was first seen on the open list; 0: not looked at yet */
    int absent;                    /* a rank that joined without submitting it, as children tell; or -1 */
    struct member_counts *member_counts; /* SET_ADD */
    void *user;                          /* of this rank's submission */
    char name[];
};

TAILQ_HEAD(entry_list, cache_entry);

/* A number. It is free (no entry), in use, or retiring: then it still stands for its entry, but nobody says
 * it any more that knows; it is free once all below know. */
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
    struct entry_list open;   /* in the order in which the first was ready */
    struct entry_list recent; /* least recently decided first */
};

bool response_cache_init(struct response_cache *response_cache); /* false where memory is out */
void response_cache_fini(struct response_cache *response_cache); /* a zeroed one is fine */

/* The entry of that name; NULL where there is none. */
struct cache_entry *response_cache_find(const struct response_cache *response_cache, const char *name);

/* The same, made where there is none; NULL where memory is out. */
struct cache_entry *response_cache_find_or_add(struct response_cache *response_cache, const char *name);

/* The entry that [number] stands for, or NULL. */
struct cache_entry *response_cache_by_id(const struct response_cache *response_cache, uint32_t number);

/* The number that a new name would get: the lowest free one, or the next; at most [limit] of them (0: any
 * number), otherwise WIRE_NO_ID. */
uint32_t response_cache_free_id(const struct response_cache *response_cache, uint64_t limit);

/* [entry], which has none, gets [number], which response_cache_free_id may give. False where memory is out.
 */
bool response_cache_assign_id(struct response_cache *response_cache, struct cache_entry *entry,
                              uint32_t number);

/* [entry] was decided just now. */
void response_cache_touch(struct response_cache *response_cache, struct cache_entry *entry);

/* Begin to take a number in use from its entry, and end it. */
void response_cache_retire(struct response_cache *response_cache, uint32_t number);
void response_cache_release_id(struct response_cache *response_cache, uint32_t number);

/* Nobody is ready for [entry] any more. It is freed where it has no number. */
void response_cache_reset_entry(struct response_cache *response_cache, struct cache_entry *entry);

/* Free an entry that was made in vain. One with a number or readiness stays. */
void response_cache_drop_unused(struct response_cache *response_cache, struct cache_entry *entry);

#endif
