/* tcp_watch.h: the connections by which a team of backend tcp carries one kind of batch: who is at their
 * ends, and whether the other ends still answer while a batch waits for them. */
#ifndef BACKEND_TCP_TCP_WATCH_H
#define BACKEND_TCP_TCP_WATCH_H

#include "net/connection.h"
#include "net/establishment.h"
#include "net/seal.h"

struct tcp_watched {
    int fd;
    struct connection_ends ends;
    struct connection_silence silence;
    struct seal *seal; /* through which it sends and receives; NULL: plainly. Owned */
};

struct tcp_watch {
    const struct peer_table *peer_table;
    struct tcp_watched *connections;
    int count;
    bool sealed;         /* all of them are, or none */
    int64_t check_at_us; /* INT64_MAX: nothing is on its way; 0: something may be */
};

/* Note the [count] connections, whose descriptors stay the caller's, and take over their seals. HVD_OK or
 * HVD_ERR_NO_MEMORY. */
int tcp_watch_open(struct tcp_watch *watch, const struct peer_table *peer_table,
                   struct endpoint_connection *connections, int count);

/* A zeroed watch is fine. */
void tcp_watch_close(struct tcp_watch *watch);

/* A batch is not complete; [moved]: something was sent or received. Looks at the connections ten times in a
 * lease, while anything is on its way. HVD_IN_PROGRESS; or HVD_ERR_RANK_LOST where the other end of a
 * connection, *rankp, has not answered for the lease. */
int tcp_watch_check(struct tcp_watch *watch, uint64_t sequence, bool moved, int *rankp,
                    struct hvd_error *err);

/* When the next look is due: clock_us time, or INT64_MAX. */
int64_t tcp_watch_deadline(const struct tcp_watch *watch);

/* The seal of the connection with descriptor [fd]; NULL: it is not sealed. [watch] may be NULL. */
struct seal *tcp_watch_seal(const struct tcp_watch *watch, int fd);

/* The connection with descriptor [fd] in a sentence: "rank 0 (n1) at 10.0.0.1 with rank 3 (n2) at 10.0.0.2".
 */
void tcp_watch_ends_text(const struct tcp_watch *watch, int fd, char text[CONNECTION_ENDS_BYTES]);

#endif
