/* verdict.h: which rank of a job failed first, the launcher's exit status, and its last line. Does no I/O.
 *
 * verdict/ promises launchers, which are hvdrun and the plug-in in srun, one judgement and one sentence of
 * the first failure, whoever reaped the ranks, and finds out what a rank that has ended left behind: its
 * flight record, crash, error file and core, and the kernel's word on memory. */
#ifndef VERDICT_VERDICT_H
#define VERDICT_VERDICT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "base/status.h"

/* What hvdrun had done to end the job when a rank ended. */
enum verdict_stage { VERDICT_RUNNING, VERDICT_TERM_SENT, VERDICT_KILL_SENT };

struct verdict;

static inline bool verdict_is_sigkill(int wait_status)
{
    return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
}

/* How a rank ended. */
struct verdict_end {
    int wait_status; /* of waitpid */
    enum verdict_stage stage;
    uint64_t sweep;   /* ranks that were reaped in one pass have the same one */
    int64_t at_us;    /* clock_us */
    int64_t grace_us; /* KILL_SENT: how long before SIGKILL it was asked to end */
    bool joined;      /* it had joined hvd's job, which says more of it than its connection with PMIx */
    bool stayed;      /* it had joined hvd's job, and not left it */
    bool left;        /* it had left hvd's job, in which nothing had failed */
    bool told;        /* hvd had told it that another rank was lost */
    bool job_ended;   /* Slurm was ending the job or the step, so that SIGKILL is no failure of the rank */
    bool host_lost;   /* nothing is heard of its host any more; wait_status is that of SIGKILL */
    char lost[320]; /* the operation that it waited for, or that failed as another rank was lost; "": none */
};

/* What the last line adds about the rank that failed first; "" each where it is not known. */
struct verdict_facts {
    char gpu[64];    /* "GPU 0000:17:00.0" */
    char doing[860]; /* `while waiting for allreduce "x"` */
    char error[300]; /* of Python: "ValueError: no more data (train.py:31)" */
    char memory[96]; /* why it was killed by SIGKILL: "out of memory: limit 4000 MiB" */
    char core[300];  /* where the core file went */
};

/* Returns NULL if memory ran out. */
struct verdict *verdict_create(int size);
void verdict_destroy(struct verdict *verdict);

/* Record events, in the order in which they happened. [host] is borrowed until verdict_destroy. A rank may be
 * started again: what its process before did is forgotten. */
void verdict_started(struct verdict *verdict, int rank, const char *host, pid_t pid, int64_t at_us);
void verdict_connected(struct verdict *verdict, int rank);
void verdict_finalized(struct verdict *verdict, int rank);
/* How many ranks have joined and ended without having left. */
int verdict_deserter_count(const struct verdict *verdict);
/* Among ranks of one sweep, one that was killed by a signal is blamed before one that exited, because an exit
 * is more often the consequence; and one that exited by itself before one that was told of another's loss,
 * also where that one was reaped before. A rank that exited with 0 and [stayed] is blamed when another one
 * fails as it waited for it; and at once where it had connected, not finalized and not [joined]. */
void verdict_ended(struct verdict *verdict, int rank, const struct verdict_end *end);
/* The same, but the job goes on without the rank: nothing has failed so far. */
void verdict_survived(struct verdict *verdict, int rank, const struct verdict_end *end);
/* The rank was told to end as there is no room for it any more: whatever its status, it has not failed. */
void verdict_left(struct verdict *verdict, int rank);
/* The job cannot go on any more: what it has survived counts, in the order of the ends. */
void verdict_gave_up(struct verdict *verdict);
void verdict_aborted(struct verdict *verdict, int rank, int status, const char *text);
void verdict_not_started(struct verdict *verdict, int rank, const char *command, int error_number);
void verdict_interrupted(struct verdict *verdict, int signal_number);
/* hvdrun itself cannot go on, for the reason in [sentence]. */
void verdict_broken(struct verdict *verdict, const char *sentence);
/* The job has waited in vain for what it lacks, as [sentence] says; later it may be there. */
void verdict_lacks(struct verdict *verdict, const char *sentence);
/* hvdrun has killed every rank that was still running, without asking it to end first. */
void verdict_rest_ended(struct verdict *verdict);

/* The launcher hears of ranks on several nodes, so their order says less: a rank that was told of a loss
 * gives way to one that failed, or left the others, by itself and is heard of later. */
void verdict_hears_in_any_order(struct verdict *verdict);

/* The launcher knows the ends of some ranks only: [ended] others have ended after the first failure, and
 * nothing is known of the rest. */
void verdict_rest_unknown(struct verdict *verdict, int ended);

/* Whether something failed, so that the remaining ranks must be ended. */
bool verdict_is_failure(const struct verdict *verdict);
/* Has the job failed in a way that another attempt may not: not by a signal to hvdrun, nor because its
 * program cannot be started? */
bool verdict_may_restart(const struct verdict *verdict);
/* hvdrun's exit status when the job lacked what it needs, which is EX_TEMPFAIL of sysexits.h. */
#define VERDICT_EXIT_LACKS 75

/* hvdrun's exit status. */
int verdict_exit_status(const struct verdict *verdict);
/* The rank that failed first, or -1. */
int verdict_rank(const struct verdict *verdict);
/* How that rank ended, as waitpid says it; 0 where the job has not failed by a rank's end. */
int verdict_wait_status(const struct verdict *verdict);
/* How a rank ended: "killed by SIGKILL". */
void verdict_describe_end(const struct verdict_end *end, char *text, size_t text_bytes);
/* The last line, with what became of the other ranks; "" after success. [facts] may be NULL. Of what is too
 * long the end is left out, and "..." says so. */
#define VERDICT_LINE_BYTES 301
void verdict_sentence(const struct verdict *verdict, const struct verdict_facts *facts,
                      char text[VERDICT_LINE_BYTES]);

#endif
