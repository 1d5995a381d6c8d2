/* process_end.h: the only place where hvd ends its own process: by SIGTERM, which lets the program clean up,
 * and by SIGKILL where it stays. */
#ifndef BASE_PROCESS_END_H
#define BASE_PROCESS_END_H

#include <stdint.h>

#include "base/log.h"

struct process_end {
    int64_t at_us; /* when to send the next signal; INT64_MAX: never */
    int signal_number;
};

/* The process goes on until [at_us] is set. */
void process_end_init(struct process_end *end);

/* Send the signal whose time has come; [why] goes into the log with it. */
void process_end_check(struct process_end *end, const struct hvd_log *log, const char *why);

#endif
