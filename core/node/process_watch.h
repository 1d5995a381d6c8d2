/* process_watch.h: which processes have ended, by pidfds. */
#ifndef NODE_PROCESS_WATCH_H
#define NODE_PROCESS_WATCH_H

#include "base/status.h"

struct watch {
    int fd; /* an epoll descriptor: readable while an end has not been fetched. -1: nobody is watched */
    int count;
    struct watched {
        int rank;
        int pidfd; /* -1: its end was fetched */
    } * entries;
};

/* A watch that watches nobody. */
void watch_init(struct watch *watch);

/* Watch [rank] by [pidfd], which is taken on success. */
int watch_add(struct watch *watch, int rank, int pidfd, struct hvd_error *err);

/* A rank whose process has ended, once for each; -1 where there is none. */
int watch_next(struct watch *watch);

/* In a forked child. */
void watch_after_fork(struct watch *watch);

void watch_fini(struct watch *watch);

#endif
