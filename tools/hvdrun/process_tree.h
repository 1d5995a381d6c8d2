/* process_tree.h: the processes below this one, however far, and whatever session or group they went to. */
#ifndef TOOLS_HVDRUN_PROCESS_TREE_H
#define TOOLS_HVDRUN_PROCESS_TREE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Who was signalled already. A zeroed struct is nobody. */
struct signalled_processes {
    pid_t *pids;
    size_t count, room;
};

/* Send a signal to every process below the caller that is not a zombie; with [told] only to those that are
 * not in it, and put them there. Returns how many there are in all, or -1 where /proc cannot be read.
 * Processes that are born meanwhile are missed: repeat until none is left. */
int process_tree_signal(int signal_number, struct signalled_processes *told);

/* SIGKILL them and wait for all that are or become children of the caller, which must be a subreaper, until
 * none is left or [deadline_us]. Returns 0, or -1 where something could not be ended. */
int process_tree_kill(int64_t deadline_us);

#endif
