/* starter.h: what starts, signals and ends the ranks of a job, and reports what became of them: the reaper of
 * this machine (local_starter.c), or an agent on each of several nodes (agent/agents.c). */
#ifndef TOOLS_HVDRUN_STARTER_H
#define TOOLS_HVDRUN_STARTER_H

#include "tools/hvdrun/reaper.h"
#include "verdict/rank_traces.h"

/* A rank that is to be started. */
struct starter_rank {
    int rank, size;
    int restarts;     /* how often it has been started again */
    bool is_newcomer; /* it is in no epoch so far */
};

/* What happened to a rank. The kinds that say that one has not been started have [why] where that is not
 * known from the report. */
struct starter_report {
    struct reaper_report event;
    const char *host;       /* STARTED: the name of its machine, valid as long as the starter */
    struct verdict_end end; /* ENDED, with what the rank left behind */
    struct hvd_error why;   /* NOT_BOUND */
};

/* All of them but [look] are mandatory. [state] is the starter's own. */
struct starter_ops {
    /* A failure ends the job. What cannot be started for another reason is reported. */
    int (*start)(void *state, const struct starter_rank *rank, struct hvd_error *err);
    void (*signal)(void *state, int signal_number); /* to all ranks */
    void (*signal_rank)(void *state, int rank, int signal_number);
    /* As reaper_end and reaper_kill. [first] failed first, -1: none did. */
    void (*end)(void *state, int signal_number, int first);
    void (*end_now)(void *state);
    /* Look which hosts there are, and let the job use their slots. Returns how many they have. NULL: there is
     * this machine only. */
    int (*look)(void *state);
    int (*fd)(const void *state); /* readable if [next] may have a report */
    /* As reaper_next. */
    int (*next)(void *state, struct starter_report *report);
    /* It is gone: end what is left. Returns HVD_OK, or HVD_ERR_TIMEOUT if processes are left. */
    int (*clean)(void *state);
    /* What is known of a rank that has ended with [wait_status]. [crash] gets where a fatal signal came, or
     * "".
     */
    void (*explain)(void *state, int rank, int wait_status, struct verdict_facts *facts,
                    char crash[CRASH_TEXT_BYTES]);
};

struct starter {
    const struct starter_ops *ops;
    void *state;
};

#endif
