/* handshake_table.h: handshakes that are under way at the same time, and the epoll descriptor that wakes for
 * their sockets and for the listening socket. */
#ifndef NET_HANDSHAKE_TABLE_H
#define NET_HANDSHAKE_TABLE_H

#include <stdbool.h>

#include "auth/handshake.h"
#include "base/status.h"

struct handshake_table {
    struct handshake *entries; /* [count]; fd is -1 where there is none */
    uint32_t *watched;         /* [count]: the events that it waits for */
    int count;
    int epoll_fd; /* -1: not open */
    int listener_fd;
};

/* Make room for [count] handshakes, and wait for connections at the socket [listener_fd], unless that is -1.
 * After a failure
 * call handshake_table_close. */
int handshake_table_open(struct handshake_table *table, int count, int listener_fd, struct hvd_error *err);

/* Wait for what the handshake at [index] needs next. A failure shows as its time-out. */
void handshake_table_watch(struct handshake_table *table, int index);

/* Wait for the socket [fd] too, as if it were the handshake behind the listening socket. */
int handshake_table_watch_news(struct handshake_table *table, int fd, struct hvd_error *err);

/* Stop or begin again to wait for connections at the listening socket. */
void handshake_table_listen(struct handshake_table *table, bool listens);

/* Sleep until [wake_us] for the first events. Fills [ready] with at most [room] indexes of handshakes, or
 * [count] for the listening socket, or the number after it for news; returns how many, or an error. */
int handshake_table_wait(struct handshake_table *table, int *ready, int room, int64_t wake_us,
                         struct hvd_error *err);

/* When the first handshake is late: clock_us time, or INT64_MAX. */
int64_t handshake_table_deadline(const struct handshake_table *table);

/* The handshake at [index] is done, and its entry free: returns its socket. */
int handshake_table_take(struct handshake_table *table, int index);

/* Close the socket of the handshake at [index], if there is one. */
void handshake_table_drop(struct handshake_table *table, int index);

/* In a forked child: close the sockets of handshakes, touch nothing else. */
void handshake_table_after_fork(struct handshake_table *table);

/* Drops all handshakes. A table with no entries and epoll_fd -1 is fine. */
void handshake_table_close(struct handshake_table *table);

#endif
