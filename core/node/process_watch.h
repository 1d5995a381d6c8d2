/* process_watch.h: which processes have ended, by pidfds. */
#ifndef NODE_PROCESS_WATCH_H
#define NODE_PROCESS_WATCH_H

#include "base/status.h"

struct process_watch {
    int fd; /* an epoll descriptor: readable while an end has not been fetched. -1: nobody is watched */
    int count;
    struct watched_process {
        int rank;
        int pidfd; /* -1: its end was fetched */
    } * entries;
};

/* A watch that watches nobody. */
void process_watch_init(struct process_watch *watch);

/* Watch [rank] by [pidfd], which is taken on success. */
int process_watch_add(struct process_watch *watch, int rank, int pidfd, struct hvd_error *err);

/* A rank whose process has ended, once for each; -1 where there is none. */
int process_watch_next(struct process_watch *watch);

/* In a forked child. */
void process_watch_after_fork(struct process_watch *watch);

void process_watch_fini(struct process_watch *watch);

#endif
