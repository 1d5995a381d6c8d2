/* tcp_watch.c: the connections by which a team of backend tcp carries one kind of batch: who is at their
 * ends, and whether the other ends still answer while a batch waits for them. */
#include "backend/tcp/tcp_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"

#define CHECKS_IN_LEASE 10

/* A test reads the coarse clock, since it may be one of many in a microsecond. It is late by a tick of the
 * kernel at most, and the driver wakes that much later. */
#define TICK_US 10000

int tcp_watch_open(struct tcp_watch *watch, const struct peer_table *peer_table,
                   struct endpoint_connection *connections, int count)
{
    *watch = (struct tcp_watch){.peer_table = peer_table, .count = count};
    watch->connections = calloc((size_t)count, sizeof(*watch->connections));
    if (watch->connections == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int i = 0; i < count; i++) {
        watch->connections[i].fd = connections[i].fd;
        connection_ends_of(&watch->connections[i].ends, connections[i].rank, connections[i].fd);
        watch->connections[i].seal = connections[i].seal;
        watch->sealed = watch->sealed || connections[i].seal != NULL;
        connections[i].seal = NULL;
    }
    return HVD_OK;
}

void tcp_watch_close(struct tcp_watch *watch)
{
    for (int i = 0; i < watch->count && watch->connections != NULL; i++)
        seal_free(watch->connections[i].seal);
    free(watch->connections);
    *watch = (struct tcp_watch){0};
}

static int report_dead(const struct tcp_watch *watch, const struct tcp_watched *dead, uint64_t sequence,
                       struct hvd_error *err)
{
    char ends[CONNECTION_ENDS_BYTES], cause[CONNECTION_CAUSE_BYTES];
    connection_ends_text(&dead->ends, watch->peer_table, ends);
    connection_cause_text(ETIMEDOUT, watch->peer_table->lease_us, cause);
    return error_set(err, HVD_ERR_RANK_LOST, "backend tcp: in batch %" PRIu64 " the connection of %s %s",
                     sequence, ends, cause);
}

int tcp_watch_check(struct tcp_watch *watch, uint64_t sequence, bool moved, int *rankp, struct hvd_error *err)
{
    int64_t lease_us = watch->peer_table->lease_us;
    if (moved && watch->check_at_us == INT64_MAX)
        watch->check_at_us = 0;
    if (watch->check_at_us == INT64_MAX || lease_us <= 0)
        return HVD_IN_PROGRESS;
    int64_t now_us = clock_coarse_us();
    bool due = now_us >= watch->check_at_us && watch->check_at_us != 0;
    if (watch->check_at_us == 0)
        watch->check_at_us = now_us + lease_us / CHECKS_IN_LEASE;
    if (!due)
        return HVD_IN_PROGRESS;
    watch->check_at_us = INT64_MAX;
    for (int i = 0; i < watch->count; i++) {
        struct tcp_watched *watched = &watch->connections[i];
        if (connection_is_dead(&watched->silence, watched->fd, lease_us, now_us)) {
            *rankp = watched->ends.rank;
            return report_dead(watch, watched, sequence, err);
        }
        if (connection_is_asking(&watched->silence))
            watch->check_at_us = now_us + lease_us / CHECKS_IN_LEASE;
    }
    return HVD_IN_PROGRESS;
}

int64_t tcp_watch_deadline(const struct tcp_watch *watch)
{
    bool waits = watch->check_at_us != 0 && watch->check_at_us != INT64_MAX;
    return waits ? watch->check_at_us + TICK_US : INT64_MAX;
}

static const struct tcp_watched *find_watched(const struct tcp_watch *watch, int fd)
{
    int at = 0;
    while (watch->connections[at].fd != fd)
        at++;
    return &watch->connections[at];
}

struct seal *tcp_watch_seal(const struct tcp_watch *watch, int fd)
{
    return watch != NULL && watch->sealed ? find_watched(watch, fd)->seal : NULL;
}

void tcp_watch_ends_text(const struct tcp_watch *watch, int fd, char text[CONNECTION_ENDS_BYTES])
{
    connection_ends_text(&find_watched(watch, fd)->ends, watch->peer_table, text);
}
