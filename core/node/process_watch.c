/* process_watch.c: which processes have ended, by descriptors that show it. */
#include "config.h"
#include "node/process_watch.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/process_stat.h"
#include "node/node_memory.h"

#define ASK_AGAIN_NS 400000000
#define TIMER_EVENT  UINT32_MAX

/* Which descriptor of an entry an event is about. */
enum { OF_PROCESS, OF_LIFE, OF_BOTH };

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
    uint32_t number = (uint32_t)watch->count * OF_BOTH;
    if (add_event(watch, process->fd, number + OF_PROCESS) != 0 ||
        (process->life_fd >= 0 && add_event(watch, process->life_fd, number + OF_LIFE) != 0))
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

/* Closing it is not enough: while a forked child holds a copy of the descriptor it stays in the epoll set. */
static void unwatch(const struct process_watch *watch, int *fdp)
{
    if (*fdp < 0)
        return;
    epoll_ctl(watch->fd, EPOLL_CTL_DEL, *fdp, NULL);
    close(*fdp);
    *fdp = -1;
}

/* The life pipe has ended. Does the process live on? One that ends closes its files shortly before its end
 * shows, and by then its first thread exits. */
static bool lives_on(const struct watched_process *entry, enum process_loss *lossp)
{
    struct process_stat stat;
    if (!process_stat_read(entry->pid, &stat) || stat.exits)
        return false;
    *lossp = process_maps(entry->pid, NODE_MEMORY_NAME) ? PROCESS_CLOSED : PROCESS_REPLACED;
    return true;
}

/* The next process that was lost, or NULL. The timer stays readable until /proc tells of no other. */
static struct watched_process *find_lost(struct process_watch *watch, enum process_loss *lossp)
{
    struct epoll_event event;
    uint64_t ticks = 0;
    *lossp = PROCESS_ENDED;
    while (watch->fd >= 0 && epoll_wait(watch->fd, &event, 1, 0) == 1) {
        bool is_timer = event.data.u32 == TIMER_EVENT;
        struct watched_process *entry =
            is_timer ? ask_proc(watch) : &watch->entries[event.data.u32 / OF_BOTH];
        if (is_timer && entry == NULL && read(watch->timer_fd, &ticks, sizeof(ticks)) < 0)
            return NULL;
        if (entry == NULL)
            continue;
        if (is_timer || event.data.u32 % OF_BOTH == OF_PROCESS)
            return entry;
        unwatch(watch, &entry->life_fd);
        if (lives_on(entry, lossp))
            return entry;
    }
    return NULL;
}

int process_watch_next(struct process_watch *watch, enum process_loss *lossp)
{
    struct watched_process *entry = find_lost(watch, lossp);
    if (entry == NULL)
        return -1;
    unwatch(watch, &entry->life_fd);
    if (*lossp == PROCESS_ENDED)
        unwatch(watch, &entry->fd);
    return entry->rank;
}

void process_watch_after_fork(struct process_watch *watch)
{
    for (int i = 0; i < watch->count; i++) {
        descriptors_close(&watch->entries[i].fd);
        descriptors_close(&watch->entries[i].life_fd);
    }
    descriptors_close(&watch->timer_fd);
    descriptors_close(&watch->fd);
}

void process_watch_fini(struct process_watch *watch)
{
    process_watch_after_fork(watch);
    free(watch->entries);
    process_watch_init(watch);
}
