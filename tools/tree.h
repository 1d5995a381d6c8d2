/* tree.h: the processes below this one, however far, and whatever session or group they went to. */
#ifndef TOOLS_TREE_H
#define TOOLS_TREE_H

#include <stdint.h>

/* Send a signal to every process below the caller that is not a zombie. Returns how many there were, or -1
 * with errno where /proc cannot be read. Processes that are born meanwhile are missed: repeat until none is
 * left. */
int tree_signal(int signal_number);

/* SIGKILL them and wait for all that are or become children of the caller, which must be a subreaper, until
 * none is left or [deadline_us]. Returns 0, or -1 where something could not be ended. */
int tree_kill(int64_t deadline_us);

#endif
