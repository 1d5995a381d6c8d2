/* supervisor.h: a job from its first rank to the last: hear what happens, and decide. */
#ifndef TOOLS_HVDRUN_SUPERVISOR_H
#define TOOLS_HVDRUN_SUPERVISOR_H

#include "pmix_shim/server.h"
#include "tools/hvdrun/input.h"
#include "tools/hvdrun/reaper.h"
#include "tools/hvdrun/output.h"
#include "tools/hvdrun/rank_places.h"
#include "tools/hvdrun/verdict.h"

/* The parts, borrowed. */
struct supervisor {
    const struct reaper_plan *plan;
    struct reaper *reaper;
    const struct rank_places *places;
    struct server *server;
    struct output *output;
    struct verdict *verdict;
    int signal_fd;
    /* its own */
    struct input input;
    int gone_count;        /* ranks that ended or could not be started */
    char server_lost[256]; /* how the PMIx server died, or "" */
    int64_t server_lost_us;
    bool ending;         /* the reaper was asked to end everything */
    int interrupt_count; /* signals that asked for the end; the second does not wait */
    bool empty;          /* nothing of the job is left */
};

/* Start all ranks, return when nothing of them is left and their output is out. */
void supervisor_run(struct supervisor *supervisor);

#endif
