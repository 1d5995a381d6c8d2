/* process_watch.c: which processes have ended, by descriptors that show it. */
#include "config.h"
#include "node/process_watch.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/process_stat.h"

#define ASK_AGAIN_NS 400000000
#define TIMER_EVENT  UINT32_MAX

void process_watch_init(struct process_watch *watch)
{
    *watch = (struct process_watch){.fd = -1, .timer_fd = -1};
}

static int add_event(const struct process_watch *watch, int fd, uint32_t number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    return epoll_ctl(watch->fd, EPOLL_CTL_ADD, fd, &event);
}

static int start_timer(struct process_watch *watch, struct hvd_error *err)
{
    const struct itimerspec times = {.it_value = {.tv_nsec = ASK_AGAIN_NS},
                                     .it_interval = {.tv_nsec = ASK_AGAIN_NS}};
    if (watch->timer_fd >= 0)
        return HVD_OK;
    watch->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (watch->timer_fd < 0 || timerfd_settime(watch->timer_fd, 0, &times, NULL) != 0 ||
        add_event(watch, watch->timer_fd, TIMER_EVENT) != 0)
        return error_set_errno(err, "cannot watch the ranks of this node (timerfd)");
    return HVD_OK;
}

int process_watch_add(struct process_watch *watch, const struct watched_process *process,
                      struct hvd_error *err)
{
    if (watch->fd < 0) {
        watch->fd = epoll_create1(EPOLL_CLOEXEC);
        if (watch->fd < 0)
            return error_set_errno(err, "cannot watch the ranks of this node (epoll_create1)");
    }
    int status = process->start != 0 ? start_timer(watch, err) : HVD_OK;
    if (status != HVD_OK)
        return status;
    struct watched_process *entries = realloc(watch->entries, ((size_t)watch->count + 1) * sizeof(*entries));
    if (entries == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory for watching rank %d", process->rank);
    watch->entries = entries;
    if (add_event(watch, process->fd, (uint32_t)watch->count) != 0)
        return error_set_errno(err, "cannot watch rank %d (epoll_ctl)", process->rank);
    entries[watch->count++] = *process;
    return HVD_OK;
}

/* A process of which /proc says that it has ended, or NULL. */
static struct watched_process *ask_proc(struct process_watch *watch)
{
    for (int i = 0; i < watch->count; i++) {
        struct watched_process *entry = &watch->entries[i];
        if (entry->fd >= 0 && entry->start != 0 && process_has_ended(entry->pid, entry->start))
            return entry;
    }
    return NULL;
}

/* The next process that has ended, or NULL. The timer stays readable until /proc tells of no other. */
static struct watched_process *find_ended(struct process_watch *watch)
{
    struct epoll_event event;
    uint64_t ticks = 0;
    while (watch->fd >= 0 && epoll_wait(watch->fd, &event, 1, 0) == 1) {
        if (event.data.u32 != TIMER_EVENT)
            return &watch->entries[event.data.u32];
        struct watched_process *entry = ask_proc(watch);
        if (entry != NULL)
            return entry;
        if (read(watch->timer_fd, &ticks, sizeof(ticks)) < 0)
            return NULL;
    }
    return NULL;
}

int process_watch_next(struct process_watch *watch)
{
    struct watched_process *entry = find_ended(watch);
    if (entry == NULL)
        return -1;
    /* Closing it is not enough: while a forked child holds a copy of the descriptor it stays in the epoll
     * set. */
    int fd = entry->fd;
    entry->fd = -1;
    epoll_ctl(watch->fd, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
    return entry->rank;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void process_watch_after_fork(struct process_watch *watch)
{
    for (int i = 0; i < watch->count; i++)
        close_fd(&watch->entries[i].fd);
    close_fd(&watch->timer_fd);
    close_fd(&watch->fd);
}

void process_watch_fini(struct process_watch *watch)
{
    process_watch_after_fork(watch);
    free(watch->entries);
    process_watch_init(watch);
}
