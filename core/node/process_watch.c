/* process_watch.c: which processes have ended, by pidfds. */
#include "config.h"
#include "node/process_watch.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

void process_watch_init(struct process_watch *watch)
{
    *watch = (struct process_watch){.fd = -1};
}

int process_watch_add(struct process_watch *watch, int rank, int pidfd, struct hvd_error *err)
{
    if (watch->fd < 0) {
        watch->fd = epoll_create1(EPOLL_CLOEXEC);
        if (watch->fd < 0)
            return error_set_errno(err, "cannot watch the ranks of this node (epoll_create1)");
    }
    struct watched_process *entries = realloc(watch->entries, ((size_t)watch->count + 1) * sizeof(*entries));
    if (entries == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory for watching rank %d", rank);
    watch->entries = entries;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)watch->count};
    if (epoll_ctl(watch->fd, EPOLL_CTL_ADD, pidfd, &event) != 0)
        return error_set_errno(err, "cannot watch rank %d (epoll_ctl)", rank);
    entries[watch->count++] = (struct watched_process){.rank = rank, .pidfd = pidfd};
    return HVD_OK;
}

int process_watch_next(struct process_watch *watch)
{
    struct epoll_event event;
    if (watch->fd < 0 || epoll_wait(watch->fd, &event, 1, 0) != 1)
        return -1;
    struct watched_process *entry = &watch->entries[event.data.u32];
    /* Closing it is not enough: while a forked child holds a copy of the pidfd it stays in the epoll set. */
    int pidfd = entry->pidfd;
    entry->pidfd = -1;
    epoll_ctl(watch->fd, EPOLL_CTL_DEL, pidfd, NULL);
    close(pidfd);
    return entry->rank;
}

void process_watch_after_fork(struct process_watch *watch)
{
    for (int i = 0; i < watch->count; i++) {
        if (watch->entries[i].pidfd >= 0)
            close(watch->entries[i].pidfd);
        watch->entries[i].pidfd = -1;
    }
    if (watch->fd >= 0)
        close(watch->fd);
    watch->fd = -1;
}

void process_watch_fini(struct process_watch *watch)
{
    process_watch_after_fork(watch);
    free(watch->entries);
    process_watch_init(watch);
}
