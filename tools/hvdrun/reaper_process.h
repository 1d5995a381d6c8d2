/* reaper_process.h: what the reaper does in its own process, and how hvdrun asks for it. */
#ifndef TOOLS_HVDRUN_REAPER_PROCESS_H
#define TOOLS_HVDRUN_REAPER_PROCESS_H

#include "tools/hvdrun/reaper.h"

/* One datagram from hvdrun. START: strings of the environment follow, each with its final 0, and the datagram
 * carries stdout, stderr and, where has_stdin says so, stdin; where is_bound says so, cpus and mems are set.
 */
struct reaper_request {
    enum { REAPER_DO_START, REAPER_DO_SIGNAL, REAPER_DO_END, REAPER_DO_KILL } kind;
    int rank;
    int number; /* SIGNAL, END: the signal */
    int has_stdin;
    int is_bound;
    struct bitmap cpus, mems;
};

#define REAPER_REQUEST_BYTES 65536 /* longest, with its strings */

/* Serve [fd] until hvdrun is gone or lets go, end everything, and do not return. */
_Noreturn void reaper_process_run(const struct reaper_plan *plan, int fd);

#endif
