/* connection.h: a connection between two ranks: who is at its ends, why it broke, and whether the other end
 * still answers. */
#ifndef NET_CONNECTION_H
#define NET_CONNECTION_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer_table;

/* Noted while the socket is connected: the kernel forgets the addresses of a connection that broke. */
struct connection_ends {
    int rank; /* the other end */
    struct in6_addr own, peer;
};

void connection_ends_of(struct connection_ends *ends, int rank, int fd);

/* "rank 0 (n1) at 10.0.0.1 with rank 3 (n2) at 10.0.0.2" */
#define CONNECTION_ENDS_BYTES 700
void connection_ends_text(const struct connection_ends *ends, const struct peer_table *peer_table,
                          char text[CONNECTION_ENDS_BYTES]);

/* A phrase that follows "the connection of A with B": [error] is the errno of what ended it, 0: the other end
 * closed it. [lease_us] is named where it may have run out. */
#define CONNECTION_CAUSE_BYTES 160
void connection_cause_text(int error, int64_t lease_us, char text[CONNECTION_CAUSE_BYTES]);

/* Does this errno say that the other end is gone, and not that this process is in trouble? 0: the end of the
 * stream. */
bool connection_is_loss(int error);

/* Set up a socket that has just been connected. A cut link must be noticed within the lease: TCP_USER_TIMEOUT
 * notices unanswered data, keepalive an idle connection. A lossy one should not look like it, so what was
 * lost is sent again several times in the lease. The job runs without these options too, so a failure to set
 * one is ignored. */
void connection_set_options(int fd, int64_t lease_us);

/* Let the socket wait without a limit for an end that acknowledges but reads nothing: a rank that is stopped,
 * or deep in a callback, is not lost. False, with errno, if it cannot. */
bool connection_wait_for_reader(int fd);

/* What one end saw of the other. Zeroed at first. */
struct connection_silence {
    int64_t since_us;  /* something has been on its way to the other end since then, and nothing came back; 0:
                          nothing is on its way */
    int64_t looked_us; /* the last look */
    uint32_t heard;    /* segments that had come by since_us */
    uint32_t resent;   /* segments that had been sent again by since_us */
};

/* Look at TCP connection [fd] now; several times in a lease, as nobody knows what was on its way between two
 * looks that are far apart. True: for [lease_us] something has been on its way, which the other end's
 * kernel must acknowledge, it was sent again, and nothing at all came back: the link or the other node is
 * dead. A process that is stopped, or reads nothing, is not: its kernel answers, window probes too. */
bool connection_is_dead(struct connection_silence *silence, int fd, int64_t lease_us, int64_t now_us);

/* Was something on its way at the last look? Otherwise nothing needs to be looked at until more is sent. */
static inline bool connection_is_asking(const struct connection_silence *silence)
{
    return silence->since_us != 0;
}

#endif
