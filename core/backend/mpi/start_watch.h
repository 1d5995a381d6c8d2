/* start_watch.h: watches the start of MPI, which returns when all ranks have come, or never. The loop waits
 * in it, so neither the stall inspector nor control can tell which rank stands still: a thread does, by what
 * /proc says of the ranks of this node. */
#ifndef BACKEND_MPI_START_WATCH_H
#define BACKEND_MPI_START_WATCH_H

#include "backend/backend_env.h"

struct start_watch;

/* From now on stall-warn names the ranks of this node that are stopped, and hang-abort, or a shorter
 * stall-abort, ends this process, unless kill-wait is 0. NULL where none of them is on or there is no thread
 * for it. [env] outlives it. */
struct start_watch *start_watch_begin(const struct backend_env *env);

/* The start has returned. NULL is fine. */
void start_watch_end(struct start_watch *start_watch);

#endif
