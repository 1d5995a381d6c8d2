/* supervisor.h: supervise a job from the start of its first rank to the end of its last process. */
#ifndef TOOLS_HVDRUN_SUPERVISOR_H
#define TOOLS_HVDRUN_SUPERVISOR_H

#include "pmix_shim/server.h"
#include "tools/hvdrun/capacity.h"
#include "tools/hvdrun/events/events.h"
#include "tools/hvdrun/input.h"
#include "tools/hvdrun/output.h"
#include "tools/hvdrun/rank_places.h"
#include "tools/hvdrun/starter.h"
#include "tools/hvdrun/survivors.h"
#include "verdict/verdict.h"

/* The parts that the supervisor works with; the caller owns them. */
struct supervisor {
    int size; /* ranks at the start, of those that [plan] has room for */
    const struct reaper_plan *plan;
    struct starter starter;
    const struct rank_places *places; /* NULL: they start in their order */
    struct server *server;
    struct output *output;
    struct verdict *verdict;
    struct survivors *survivors;
    struct capacity *capacity;    /* NULL: nothing says how many slots there are */
    struct launch_events *events; /* NULL: nobody is told */
    int signal_fd;
    struct input *input;
    /* owned by the supervisor */
    int start_count;       /* slots that were looked at for ranks to start */
    int gone_count;        /* ranks that ended or could not be started, less those that were started later */
    bool server_answered;  /* since it was asked whether it is alive */
    char server_lost[256]; /* how the PMIx server died; "": it has not */
    int64_t server_lost_us;
    bool server_excused; /* it crashed when it had lost a rank */
    bool ending;         /* the reaper was asked to end the job */
    int interrupt_count; /* signals that ask hvdrun to end; the second one skips the grace period */
    bool empty;          /* no process of the job is left */
};

/* Start all ranks, and return when no process of the job is left and all output was written. */
void supervisor_run(struct supervisor *supervisor);

#endif
