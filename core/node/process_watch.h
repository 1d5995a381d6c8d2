/* process_watch.h: which processes have ended, by pidfds. */
#ifndef NODE_PROCESS_WATCH_H
#define NODE_PROCESS_WATCH_H

#include "base/status.h"

struct process_watch {
    int fd; /* an epoll descriptor: readable until all ends have been fetched. -1: nobody is watched */
    int count;
    struct watched_process {
        int rank;
        int pidfd; /* -1: its end has been fetched */
    } * entries;
};

/* An empty watch. */
void process_watch_init(struct process_watch *watch);

/* Watch [rank] by [pidfd], which it takes over on success. */
int process_watch_add(struct process_watch *watch, int rank, int pidfd, struct hvd_error *err);

/* Fetch a rank whose process has ended, each once; -1 if there is none. */
int process_watch_next(struct process_watch *watch);

/* In a forked child: close the descriptors. */
void process_watch_after_fork(struct process_watch *watch);

void process_watch_fini(struct process_watch *watch);

#endif
