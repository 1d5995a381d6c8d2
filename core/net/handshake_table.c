/* handshake_table.c: handshakes that are under way at the same time, and the epoll descriptor that wakes for
 * their sockets and for the listening socket. */
#include "net/handshake_table.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"

#define EVENTS_AT_ONCE 64 /* taken from epoll in one call */

/* The events of the listening socket have the number behind those of the handshakes. */
static int watch_listener(struct handshake_table *table, int operation, bool listens)
{
    struct epoll_event event = {.events = listens ? EPOLLIN : 0, .data.u32 = (uint32_t)table->count};
    return table->listener_fd < 0 ? 0 : epoll_ctl(table->epoll_fd, operation, table->listener_fd, &event);
}

int handshake_table_open(struct handshake_table *table, int count, int listener_fd, struct hvd_error *err)
{
    *table = (struct handshake_table){.epoll_fd = -1, .listener_fd = listener_fd};
    table->entries = calloc((size_t)count, sizeof(*table->entries));
    table->watched = calloc((size_t)count, sizeof(*table->watched));
    if (table->entries == NULL || table->watched == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %d handshakes with other ranks", count);
    table->count = count;
    for (int i = 0; i < count; i++)
        table->entries[i].fd = -1;
    table->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (table->epoll_fd < 0 || watch_listener(table, EPOLL_CTL_ADD, true) < 0)
        return error_set_errno(err, "cannot wait for connections of the other ranks");
    return HVD_OK;
}

int handshake_table_watch_news(struct handshake_table *table, int fd, struct hvd_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)table->count + 1};
    return epoll_ctl(table->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0
               ? HVD_OK
               : error_set_errno(err, "cannot wait for news of the launcher");
}

void handshake_table_watch(struct handshake_table *table, int index)
{
    const struct handshake *handshake = &table->entries[index];
    short wanted = handshake_poll_events(handshake);
    uint32_t events = (wanted & POLLIN ? (uint32_t)EPOLLIN : 0) | (wanted & POLLOUT ? (uint32_t)EPOLLOUT : 0);
    struct epoll_event event = {.events = events, .data.u32 = (uint32_t)index};
    if (handshake->fd < 0 || table->watched[index] == events)
        return;
    epoll_ctl(table->epoll_fd, table->watched[index] == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, handshake->fd,
              &event);
    table->watched[index] = events;
}

/* Before its socket is closed or handed over: a forked child's copy would keep it in the epoll set. */
static void unwatch(struct handshake_table *table, int index)
{
    if (table->watched[index] != 0)
        epoll_ctl(table->epoll_fd, EPOLL_CTL_DEL, table->entries[index].fd, NULL);
    table->watched[index] = 0;
}

void handshake_table_listen(struct handshake_table *table, bool listens)
{
    watch_listener(table, EPOLL_CTL_MOD, listens);
}

int handshake_table_wait(struct handshake_table *table, int *ready, int room, int64_t wake_us,
                         struct hvd_error *err)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(table->epoll_fd, events, room < EVENTS_AT_ONCE ? room : EVENTS_AT_ONCE,
                           clock_ms_until(wake_us));
    if (count < 0 && errno != EINTR)
        return error_set_errno(err, "cannot wait for the other ranks");
    for (int i = 0; i < count; i++)
        ready[i] = (int)events[i].data.u32;
    return count < 0 ? 0 : count;
}

int64_t handshake_table_deadline(const struct handshake_table *table)
{
    int64_t deadline_us = INT64_MAX;
    for (int i = 0; i < table->count; i++)
        if (table->entries[i].fd >= 0 && table->entries[i].deadline_us < deadline_us)
            deadline_us = table->entries[i].deadline_us;
    return deadline_us;
}

int handshake_table_take(struct handshake_table *table, int index)
{
    int fd = table->entries[index].fd;
    unwatch(table, index);
    table->entries[index].fd = -1;
    return fd;
}

void handshake_table_drop(struct handshake_table *table, int index)
{
    unwatch(table, index);
    handshake_close(&table->entries[index]);
}

void handshake_table_after_fork(struct handshake_table *table)
{
    for (int i = 0; i < table->count; i++)
        descriptors_close(&table->entries[i].fd);
    close(table->epoll_fd);
}

void handshake_table_close(struct handshake_table *table)
{
    for (int i = 0; i < table->count; i++)
        handshake_table_drop(table, i);
    descriptors_close(&table->epoll_fd);
    free(table->entries);
    free(table->watched);
}
