/* reaper.h: a small process that starts the ranks, and ends all that they started when hvdrun ends, however
 * that ends. */
#ifndef TOOLS_HVDRUN_REAPER_H
#define TOOLS_HVDRUN_REAPER_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bitmap.h"
#include "base/status.h"

/* What the reaper must know before it is forked. Everything is borrowed until reaper_close. */
struct reaper_plan {
    int size;                    /* ranks */
    const char *path;            /* the program */
    char *const *arguments;      /* its argv */
    char *const *environment;    /* what all ranks have in common */
    const char *scratches[2];    /* folders to make now and remove at the end; "": none */
    int64_t grace_us;            /* from SIGTERM to SIGKILL */
    const sigset_t *signal_mask; /* of the ranks */
};

/* hvdrun's end. */
struct reaper {
    pid_t pid; /* of the reaper, 0 when there is none */
    int fd;    /* readable while there are reports; -1 when the reaper is gone */
};

/* What one rank has that the others do not. Borrowed for the call. */
struct reaper_rank {
    int rank;
    char *const *environment[2]; /* NULL-terminated strings each, or NULL; they replace what is in common */
    const struct bitmap *cpus;   /* to run on; NULL: as the reaper */
    const struct bitmap *mems;   /* to have memory from first; only where there are cpus */
    int stdio_fds[3];            /* that of stdin may be -1: rank 0 has hvdrun's then, others /dev/null */
};

/* The ranks' progress, in the order in which it happened. */
struct reaper_report {
    enum {
        REAPER_READY,
        REAPER_STARTED,
        REAPER_NOT_STARTED,
        REAPER_NOT_BOUND, /* and so not started */
        REAPER_ENDED,
        REAPER_EMPTY
    } kind;
    int rank;
    pid_t pid;      /* STARTED */
    int number;     /* READY: 0, or errno; NOT_STARTED, NOT_BOUND: errno; ENDED: as waitpid gives it; EMPTY:
                       0, or -1: something could not be ended */
    int stage;      /* ENDED: enum verdict_stage */
    uint64_t sweep; /* ENDED: equal for ranks that were found at one look */
};

/* Fork the reaper. Call it before there is any thread and with all signals blocked that hvdrun waits for. */
int reaper_fork(struct reaper *reaper, const struct reaper_plan *plan, struct hvd_error *err);

/* Start a rank. The descriptors stay the caller's. After a failed start no more are started. */
int reaper_start(const struct reaper *reaper, const struct reaper_rank *rank, struct hvd_error *err);

/* Send a signal to the process groups of the ranks that run. */
void reaper_signal(const struct reaper *reaper, int signal_number);

/* End everything: [signal_number] now (SIGTERM: to all processes, another: to the groups of the ranks),
 * SIGKILL after the grace. EMPTY is reported when nothing is left. */
void reaper_end(const struct reaper *reaper, int signal_number);

/* SIGKILL now. */
void reaper_kill(const struct reaper *reaper);

/* The next report into [report]: 1; 0 where there is none yet; -1 where the reaper is gone, fd is -1 then. */
int reaper_next(struct reaper *reaper, struct reaper_report *report);

/* Let go of the reaper: it ends what is left, removes the scratch folder and leaves; wait for that. Where it
 * was killed, do its work. A zeroed pid is fine. */
void reaper_close(struct reaper *reaper, const struct reaper_plan *plan);

#endif
