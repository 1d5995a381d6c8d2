/* establishment.h: connections to other ranks that are made at the same time, whose both ends have proved
 * that they hold the job key. */
#ifndef NET_ESTABLISHMENT_H
#define NET_ESTABLISHMENT_H

#include "net/endpoint.h"
#include "net/peer_table.h"

struct seal;

/* What a connection is for. A peer that offers anything else is refused. */
enum endpoint_purpose {
    ENDPOINT_CONTROL = 1,
    ENDPOINT_CHAIN = 2,
    ENDPOINT_PAIRWISE = 3,
    ENDPOINT_BRUCK = 4,
    ENDPOINT_SLICE_CHAIN = 5,
    ENDPOINT_SLICE_PAIRWISE = 6,
    ENDPOINT_MESSAGES = 7, /* on a socket of its own, see struct peer */
    ENDPOINT_PROBE = 8
};

#define ENDPOINT_ANY_RANK (-1)

/* Takes over a connection with [rank]: its descriptor, and its seal, which is NULL where there is none. */
typedef void (*endpoint_accepted_f)(void *arg, int rank, int fd, struct seal *seal);

struct endpoint_connection {
    int rank; /* the other end. ENDPOINT_ANY_RANK: connections of all ranks are accepted again and again, each
                 is handed to [accepted], and the request is never met */
    endpoint_accepted_f accepted;
    void *arg;
    enum endpoint_purpose purpose;
    uint32_t tag; /* both ends request the same one; with the purpose it identifies the connection */
    bool connect; /* this rank connects to it; else it connects to this rank */
    int lane; /* of several connections to the same rank, from 0: each lane tries another near address first,
                 and so uses another NIC if there are several */
    const struct in6_addr *address; /* to connect to this one only; NULL: to any address in the peer table */
    const char *why;   /* result of endpoint_try_establish: why the last attempt to connect failed, or NULL */
    int fd;            /* result: connected, non-blocking, close-on-exec; -1 until then */
    struct seal *seal; /* result: through which to send and receive; NULL: plainly */
};

/* Make all requested connections at the same time. Tries each address of a peer in turn, and does the
 * handshake of auth/handshake.h on every connection; its claim holds epoch, purpose, tag and both ranks. A
 * foreign process is dropped with a warning, a rank that connects too early without one (it connects again).
 * Sets TCP_NODELAY, keepalive and TCP_USER_TIMEOUT from the lease. HVD_ERR_RANK_LOST when news come. On
 * failure no socket is left open. */
int endpoint_establish(struct endpoint *endpoint, const struct peer_table *peer_table,
                       struct endpoint_connection *requests, int request_count, int64_t deadline_us,
                       struct hvd_error *err);

/* The same without waiting, for as long as it takes while control is watched. Begin; then advance whenever
 * establishment_fd, an epoll descriptor, is readable or establishment_deadline has passed, until the result
 * is not HVD_IN_PROGRESS; then end. Where this rank accepts none of the connections, those that come to the
 * endpoint are left alone. [requests] must stay until the end, which leaves alone those that are
 * met. HVD_ERR_RANK_LOST: rank *rankp has not accepted a connection for two leases. A rank that accepts
 * connections is busy and comes later: it is waited for without a limit. */
struct establishment;
int establishment_begin(struct establishment **establishmentp, struct endpoint *endpoint,
                        const struct peer_table *peer_table, struct endpoint_connection *requests,
                        int request_count, struct hvd_error *err);
int establishment_advance(struct establishment *establishment, int *rankp, struct hvd_error *err);
int64_t establishment_deadline(const struct establishment *establishment);
int establishment_fd(const struct establishment *establishment);

/* The rank of the first request that is not met; -1: none. */
int establishment_waits_for(const struct establishment *establishment);

/* In a forked child: close the sockets of handshakes under way, touch nothing else. */
void establishment_after_fork(struct establishment *establishment);

/* NULL is fine. */
void establishment_end(struct establishment *establishment);

/* How long to try: until [deadline_us], but no longer than [grace_us] after all requests of one lane are met.
 */
struct endpoint_timeout {
    int64_t deadline_us, grace_us;
};

/* The same, but a request that is not met in time is no failure: its fd stays -1, and [why] says why. */
int endpoint_try_establish(struct endpoint *endpoint, const struct peer_table *peer_table,
                           struct endpoint_connection *requests, int request_count,
                           struct endpoint_timeout timeout, struct hvd_error *err);

#endif
