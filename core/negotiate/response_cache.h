/* response_cache.h: the operations of one process set, by name and by number, and who is ready for them. */
#ifndef NEGOTIATE_RESPONSE_CACHE_H
#define NEGOTIATE_RESPONSE_CACHE_H

#include <sys/queue.h>

#include "negotiate/wire.h"

enum entry_phase {
    ENTRY_OPEN,     /* some of this rank and its children are not ready for it */
    ENTRY_COMPLETE, /* all are: it waits to be said upwards, or to be decided here */
    ENTRY_SAID      /* it waits for the decision */
};

/* How many of the ranks that make a process set each part of the subtree has. */
struct census {
    int set_size;   /* how many it will have */
    int counts[64]; /* by bit of entry.ready */
};

/* One name. There is an entry while it has a number or somebody is ready for it. */
struct entry {
    struct entry *next_of_bucket;
    TAILQ_ENTRY(entry) of_open;   /* while somebody is ready, but not all */
    TAILQ_ENTRY(entry) of_recent; /* while it has a number, and that is not retiring */
    uint64_t hash;
    /* what its number stands for */
    uint32_t number;          /* or WIRE_NO_ID; then there is no agreement */
    int plane;                /* that was chosen */
    struct wire_offer agreed; /* the rank is not used */
    /* until the next decision */
    enum entry_phase phase;
    bool needs_all;          /* that a rank has joined does not make it ready */
    bool mismatch;           /* [offer] and [other] differ */
    uint64_t ready;          /* bit 0: this rank; bit i + 1: child i's subtree */
    struct wire_offer offer; /* what they say; no desc: its number */
    struct wire_offer other; /* mismatch: the first other thing that was said */
    int64_t since_us;        /* when it was first seen on the open list; 0: not looked at yet */
    int absent;              /* a rank that joined without submitting it, as children tell; or -1 */
    struct census *census;   /* SET_ADD */
    void *user;              /* of this rank's submission */
    char name[];
};

TAILQ_HEAD(entry_list, entry);

/* A number. It is free (no entry), in use, or retiring: then it still stands for its entry, but nobody says
 * it any more that knows; it is free once all below know. */
struct slot {
    struct entry *entry;
    bool retiring;
    uint64_t knowing; /* bits as entry.ready */
};

struct ledger {
    struct entry **buckets;
    size_t bucket_count, entry_count;
    struct slot *slots;
    size_t slot_count, slot_capacity;
    size_t free_count, retiring_count;
    struct entry_list open;   /* in the order in which the first was ready */
    struct entry_list recent; /* least recently decided first */
};

bool ledger_init(struct ledger *ledger); /* false where memory is out */
void ledger_fini(struct ledger *ledger); /* a zeroed one is fine */

/* The entry of that name; NULL where there is none. */
struct entry *ledger_find(const struct ledger *ledger, const char *name);

/* The same, made where there is none; NULL where memory is out. */
struct entry *ledger_get(struct ledger *ledger, const char *name);

/* The entry that [number] stands for, or NULL. */
struct entry *ledger_numbered(const struct ledger *ledger, uint32_t number);

/* The number that a new name would get: the lowest free one, or the next; at most [limit] of them (0: any
 * number), otherwise WIRE_NO_ID. */
uint32_t ledger_free_number(const struct ledger *ledger, uint64_t limit);

/* [entry], which has none, gets [number], which ledger_free_number may give. False where memory is out. */
bool ledger_number(struct ledger *ledger, struct entry *entry, uint32_t number);

/* [entry] was decided just now. */
void ledger_touch(struct ledger *ledger, struct entry *entry);

/* Begin to take a number in use from its entry, and end it. */
void ledger_retire(struct ledger *ledger, uint32_t number);
void ledger_free(struct ledger *ledger, uint32_t number);

/* Nobody is ready for [entry] any more. It is freed where it has no number. */
void ledger_reset(struct ledger *ledger, struct entry *entry);

/* Free an entry that was made in vain. One with a number or readiness stays. */
void ledger_tidy(struct ledger *ledger, struct entry *entry);

#endif
