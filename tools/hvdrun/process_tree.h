/* process_tree.h: all descendants of this process, in whatever session or process group they are. */
#ifndef TOOLS_HVDRUN_PROCESS_TREE_H
#define TOOLS_HVDRUN_PROCESS_TREE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The processes that were already signalled. A zeroed struct is the empty set. */
struct signalled_processes {
    pid_t *pids;
    size_t count, room;
};

/* Send a signal to every descendant of the caller that is not a zombie. With [signalled], signal only those
 * that are not in it, and add them. Returns the number of descendants, signalled or not, or -1 where /proc
 * cannot be read: then only children were signalled. Processes that are created meanwhile are missed: repeat
 * until none is left. */
int process_tree_signal(int signal_number, struct signalled_processes *signalled);

/* Kill all descendants with SIGKILL, and reap them. The caller must be a subreaper, so that orphans become
 * its children. Returns 0 when none is left, or -1 if some are left at [deadline_us]. */
int process_tree_kill(int64_t deadline_us);

#endif
