/* reaper_process.h: what the keeper does in its own process, and how hvdrun asks for it. */
#ifndef TOOLS_HVDRUN_REAPER_PROCESS_H
#define TOOLS_HVDRUN_REAPER_PROCESS_H

#include "tools/hvdrun/reaper.h"

/* One datagram from hvdrun. START: strings of the environment follow, each with its final 0, and the datagram
 * carries stdout, stderr and, where has_stdin says so, stdin; where is_bound says so, cpus and mems are set.
 */
struct keeper_request {
    enum { KEEPER_DO_START, KEEPER_DO_SIGNAL, KEEPER_DO_END, KEEPER_DO_KILL } kind;
    int rank;
    int number; /* SIGNAL, END: the signal */
    int has_stdin;
    int is_bound;
    struct bitset cpus, mems;
};

#define KEEPER_REQUEST_BYTES 65536 /* longest, with its strings */

/* Serve [fd] until hvdrun is gone or lets go, end everything, and do not return. */
_Noreturn void keeper_process_run(const struct keeper_plan *plan, int fd);

#endif
