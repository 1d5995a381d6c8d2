/* establishment_state.h: what the stages of an establishment share: dial.c has the connections that this rank
 * begins, accept.c those that others begin, and establishment.c runs both. */
#ifndef NET_ESTABLISHMENT_STATE_H
#define NET_ESTABLISHMENT_STATE_H

#include "net/establishment.h"
#include "net/handshake_table.h"

/* A connection that this rank begins: the addresses of the peer, and how far it got. Owned by dial.c. */
struct dial {
    struct in6_addr addresses[PEER_MAX_ADDRESSES]; /* best first */
    int address_count, next;
    int64_t not_before_us, pause_us;
    int64_t answered_us; /* when an address last accepted a connection; at first, when the dial began */
    bool busy;           /* its handshake is under way */
    const char *why;     /* why the last attempt failed */
};

/* Whether descriptors are left for more connections. Owned by accept.c. */
struct accept_room {
    bool was_full;     /* once no descriptor was left */
    int full_errno;    /* no descriptor is left, and no connection can give way: the errno; else 0 */
    int64_t resume_us; /* nothing is accepted until then, so that handshakes can be finished; else 0 */
};

/* The requests of one call, and the connections on their way. The first [request_count] handshakes are those
 * that this rank begins, one for each request; the others belong to connections that it accepted. */
struct establishment {
    struct endpoint *endpoint;
    const struct peer_table *peer_table;
    struct endpoint_connection *requests;
    int request_count, missing;
    struct dial *dials; /* [request_count] */
    struct handshake_table handshakes;
    struct accept_room room;
    int64_t wake_us;  /* when something is due though no socket is ready */
    bool best_effort; /* a request that is not met in time is no failure, */
    int64_t grace_us; /* and waiting ends this long after all requests of one lane are met */
};

#endif
