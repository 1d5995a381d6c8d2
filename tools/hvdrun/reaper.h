/* reaper.h: the reaper is a small process, a subreaper, that starts the ranks. When hvdrun ends, for whatever
 * reason, it ends the ranks and all processes that they started. */
#ifndef TOOLS_HVDRUN_REAPER_H
#define TOOLS_HVDRUN_REAPER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "topo/bitmap.h"
#include "base/status.h"

/* One program of the job. Its ranks are those below [end] that no program before it has. */
struct reaper_app {
    char *path;
    char **arguments; /* its argv */
    int end;
};

/* What the reaper must know before it is forked. The pointers must stay valid until reaper_close. */
struct reaper_plan {
    int size; /* ranks */
    const struct reaper_app *apps;
    int app_count;
    char *const *environment;    /* shared by all ranks */
    const char *scratches[2];    /* folders that the reaper creates and removes at the end; "": none */
    int64_t grace_us;            /* from SIGTERM to SIGKILL */
    const sigset_t *signal_mask; /* of the ranks */
    int64_t beat_us;  /* hvdrun calls reaper_beat so often, and is killed if it is stopped; 0: it does not */
    const char *host; /* with beat_us: of which it is the agent */
};

/* hvdrun's handle of the reaper. */
struct reaper {
    pid_t pid; /* 0: there is no reaper */
    int fd;    /* readable if there are reports; -1 once the reaper is gone */
};

/* What differs from rank to rank. The pointers need only be valid during the call. */
struct reaper_rank {
    int rank;
    bool again;                  /* in place of a process that has ended */
    char *const *environment[4]; /* lists of NULL-terminated strings, each may be NULL; they override the
                                    shared environment */
    const struct bitmap *cpus;   /* to bind to; NULL: those of the reaper */
    const struct bitmap *mems;   /* preferred NUMA nodes; used only if there are cpus */
    int stdio_fds[3]; /* stdin may be -1: rank 0 then inherits hvdrun's, the others and those that are started
                         again get /dev/null */
};

/* What happened to a rank. Reports come in the order of the events. */
struct reaper_report {
    enum {
        REAPER_READY,
        REAPER_STARTED,
        REAPER_NOT_STARTED,
        REAPER_NOT_BOUND, /* binding failed, so it was not started */
        REAPER_ENDED,
        REAPER_EMPTY
    } kind;
    int rank;
    pid_t pid;  /* STARTED */
    int number; /* READY: 0 or errno; NOT_STARTED, NOT_BOUND: errno; ENDED: waitpid's status; EMPTY: 0, or -1
                   if a process could not be killed */
    int stage;  /* ENDED: enum verdict_stage */
    uint64_t sweep;   /* ENDED: ranks that were reaped in one pass have the same number */
    int64_t at_us;    /* clock_us */
    int64_t grace_us; /* ENDED: from the request to end the job to SIGKILL; 0: it has not come to that */
};

/* The program that [rank] runs. */
const struct reaper_app *reaper_app_of(const struct reaper_plan *plan, int rank);

/* Fork the reaper. Call it before any thread is created, and with all signals blocked that hvdrun waits for.
 */
int reaper_fork(struct reaper *reaper, const struct reaper_plan *plan, struct hvd_error *err);

/* Start a rank. The caller keeps the descriptors and closes them. After one rank could not be started, the
 * reaper ignores further requests to start; not so after one that should be started again. */
int reaper_start(const struct reaper *reaper, const struct reaper_rank *rank, struct hvd_error *err);

/* Send a signal to the process groups of all running ranks. */
void reaper_signal(const struct reaper *reaper, int signal_number);

/* The same to that of one rank, which then handles the signal also if it is stopped. */
void reaper_signal_rank(const struct reaper *reaper, int rank, int signal_number);

/* hvdrun, which the reaper watches, is not stopped. */
void reaper_beat(const struct reaper *reaper);

/* End the job: send [signal_number] now (SIGTERM to all processes, any other signal to the ranks' process
 * groups), and SIGKILL after the grace period. REAPER_EMPTY is reported when no process is left. */
void reaper_end(const struct reaper *reaper, int signal_number);

/* Send SIGKILL now, without waiting for the end of the grace period. */
void reaper_kill(const struct reaper *reaper);

/* Store the next report in [report]. Returns 1, 0 if there is none yet, or -1 if the reaper is gone; fd is -1
 * then. */
int reaper_next(struct reaper *reaper, struct reaper_report *report);

/* Close the connection and wait until the reaper has ended the remaining processes, removed the scratch
 * folders and exited. If the reaper was killed, do its work here, where the ranks are killed at once. Does
 * nothing if pid is 0. Returns HVD_OK, or HVD_ERR_TIMEOUT if processes are left that cannot be killed. */
int reaper_close(struct reaper *reaper, const struct reaper_plan *plan);

#endif
