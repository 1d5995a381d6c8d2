/* reaper_process.h: the main function of the reaper process, and the requests that hvdrun sends to it. */
#ifndef TOOLS_HVDRUN_REAPER_PROCESS_H
#define TOOLS_HVDRUN_REAPER_PROCESS_H

#include "tools/hvdrun/reaper.h"

/* One datagram from hvdrun. START: environment strings follow, each terminated by a 0 byte. The datagram
 * carries the descriptors of stdout, stderr and, if has_stdin, stdin. If is_bound, cpus and mems are set. */
struct reaper_request {
    enum {
        REAPER_DO_START,
        REAPER_DO_SIGNAL,
        REAPER_DO_SIGNAL_RANK,
        REAPER_DO_END,
        REAPER_DO_KILL,
        REAPER_DO_BEAT
    } kind;
    int rank;
    int number; /* SIGNAL, SIGNAL_RANK, END: the signal */
    int again;
    int has_stdin;
    int is_bound;
    struct bitmap cpus, mems;
};

#define REAPER_REQUEST_BYTES 65536 /* the longest request, with its strings */

/* Serve requests on [fd] until hvdrun closes it or dies, then end all processes and exit. Does not return. */
_Noreturn void reaper_process_run(const struct reaper_plan *plan, int fd);

#endif
