/* process.h: what /proc says of a process that may be a rank. Everything in there is the program's, which may
 * write what it likes. */
#ifndef TOOLS_HVDINFO_PS_PROCESS_H
#define TOOLS_HVDINFO_PS_PROCESS_H

#include "tools/hvdinfo/ps/rank.h"

struct ps_process {
    pid_t pid, parent;
    char **environment; /* as it was at its start */
};

/* False where this user may not look at it, or it is gone. */
bool process_open(struct ps_process *process, pid_t pid);
void process_close(struct ps_process *process);

/* Its variable, or NULL. */
const char *process_variable(const struct ps_process *process, const char *name);

/* Where its launcher put its flight record, as a text that is equal in all processes of the rank; "": there
 * is none. Returns [mark]. */
#define PROCESS_MARK_BYTES 512
const char *process_mark(const struct ps_process *process, char mark[PROCESS_MARK_BYTES]);

/* A copy of the flight record that it writes, the caller frees it; NULL: none. */
struct flight *process_read_flight(const struct ps_process *process);

/* Enter its state, cores and what it sleeps in. */
void process_describe(const struct ps_process *process, struct rank *rank);

/* When it was started, by clock_us. */
int64_t process_start_us(const struct ps_process *process);

#endif
