/* process_watch.h: which processes have ended, by descriptors that show it. */
#ifndef NODE_PROCESS_WATCH_H
#define NODE_PROCESS_WATCH_H

#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* A process to watch. [fd] is its pidfd. Where the kernel has none, or may not give one, it is the read end
 * of the process's life pipe, whose write end the process alone holds. A child that was made behind the C
 * library's back may hold the write end too, so that /proc is asked as well now and then.
 *
 * The life pipe is watched in any case: it ends also if the process lives on but can never answer again,
 * because it has started another program in its place, or closed descriptors that it did not open. */
struct watched_process {
    int rank;
    int fd;      /* -1: its end has been fetched */
    int life_fd; /* the read end of its life pipe; -1: none, or the end of the pipe has been fetched */
    pid_t pid;
    uint64_t start; /* as process_stat's; 0: /proc is not asked */
};

/* How a process was lost. */
enum process_loss {
    PROCESS_ENDED,
    PROCESS_REPLACED, /* it runs another program */
    PROCESS_CLOSED    /* it has closed hvd's descriptors */
};

struct process_watch {
    int fd;       /* an epoll descriptor: readable until all ends have been fetched. -1: nobody is watched */
    int timer_fd; /* readable when /proc is to be asked; -1: never */
    int count;
    struct watched_process *entries;
};

/* An empty watch. */
void process_watch_init(struct process_watch *watch);

/* Watch [process], whose descriptors it takes over on success. */
int process_watch_add(struct process_watch *watch, const struct watched_process *process,
                      struct hvd_error *err);

/* Fetch a rank whose process was lost, and how; -1 if there is none. Each is fetched once; one that was lost
 * alive, once more when it ends. */
int process_watch_next(struct process_watch *watch, enum process_loss *lossp);

/* In a forked child: close the descriptors. */
void process_watch_after_fork(struct process_watch *watch);

void process_watch_fini(struct process_watch *watch);

#endif
