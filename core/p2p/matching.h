/* matching.h: which receive gets which message: the oldest whose process set, tag and sender fit, as in MPI.
 * Pure. */
#ifndef P2P_MATCHING_H
#define P2P_MATCHING_H

#include <stdbool.h>
#include <sys/queue.h>

#include "hvd.h"

#define MATCHING_BUCKETS 256

/* What a message and a receive have in common. Part of both. */
struct envelope {
    hvd_set set;
    int source; /* rank of the job; HVD_ANY_SOURCE, of a receive: whichever */
    int tag;
    TAILQ_ENTRY(envelope) link;
};

TAILQ_HEAD(envelope_list, envelope);

/* Receives that wait for their message, and messages that came before their receive, oldest first. One set
 * and tag lead to one bucket. */
struct p2p_matching {
    struct envelope_list receives[MATCHING_BUCKETS];
    struct envelope_list arrivals[MATCHING_BUCKETS];
};

void matching_init(struct p2p_matching *matching);

void matching_add_receive(struct p2p_matching *matching, struct envelope *receive);
void matching_add_arrival(struct p2p_matching *matching, struct envelope *arrival);

/* Take the oldest receive for a message that has come, or the oldest message for a receive. NULL: none. */
struct envelope *matching_take_receive(struct p2p_matching *matching, const struct envelope *arrival);
struct envelope *matching_take_arrival(struct p2p_matching *matching, const struct envelope *receive);

/* Take any receive, or any arrival, of [set] from [source]; HVD_ANY_SOURCE: from whomever, and
 * MATCHING_ANY_SET: of all sets. NULL: there is none left. */
#define MATCHING_ANY_SET (-1)
struct envelope *matching_remove_receive(struct p2p_matching *matching, hvd_set set, int source);
struct envelope *matching_remove_arrival(struct p2p_matching *matching, hvd_set set);

#endif
