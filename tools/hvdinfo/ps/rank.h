/* rank.h: what hvdinfo ps knows of one rank.
 *
 * hvdinfo ps asks no rank anything: find.c finds the ranks of this node in /proc, and copies the flight
 * record that each keeps anyway; nodes.c lets the hvdinfo of other nodes do so, and records.c is what they
 * write; pace.c says how fast a rank works; judge.c compares the records of a job, and awaited.c finds who
 * waits for whom; words.c says it in a sentence, and show.c prints it; frames.c has other tools say in which
 * calls a rank is. ps.c has the commands. */
#ifndef TOOLS_HVDINFO_PS_RANK_H
#define TOOLS_HVDINFO_PS_RANK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/rank_list.h"
#include "trace/flight.h"

#define RANK_KEY_BYTES     320
#define RANK_JOB_BYTES     64
#define RANK_CORES_BYTES   128
#define RANK_NODE_BYTES    65
#define RANK_ADDRESS_BYTES 48

/* How keys of Slurm's steps begin. */
#define RANK_STEP_KEY "slurm "

enum rank_doing {
    RANK_NOT_BEGUN, /* a launcher started it, and it has not called hvd_init */
    RANK_SPARE,     /* it waits for a place in the next epoch */
    RANK_STARTS,
    RANK_COMPUTES,
    RANK_LATE,  /* it computes, and others wait for it */
    RANK_WAITS, /* for others that have not submitted its operation */
    RANK_MOVES, /* its operation was decided, and runs */
    RANK_STOPPED,
    RANK_ENDED, /* and its parent has not noticed */
    RANK_LEAVES,
    RANK_LEFT
};

/* Of the last seconds, negative: not known. */
struct pace {
    double operations, bytes; /* a second */
    double waiting, moving;   /* shares of the time: some operation moves; or none does, and some waits */
    double steps;             /* a second: how often what the program repeats comes again */
    double long_steps;        /* likewise, over five minutes */
    double batch_tensors;     /* in a batch, on the average */
    double cached;            /* share of operations that were decided by the id of an earlier decision */
    double backend_bytes[BACKEND_COUNT]; /* a second */
};

/* Ranks that others wait for: one list for all that wait for the same. */
struct awaited_list {
    struct awaited_list *next; /* the list that was found before */
    int number;                /* how many were found before */
    int count, run_count;
    struct rank_run runs[]; /* ascending */
};

struct rank {
    /* of its processes and their environment */
    char key[RANK_KEY_BYTES]; /* equal for all ranks of a launcher's job; not for people, who might show it */
    char job[RANK_JOB_BYTES]; /* its name for people: the job's step or a process id */
    char node[RANK_NODE_BYTES]; /* where it was found */
    pid_t pid;
    char process;       /* its state, as in /proc: 'R', 'S', 'T' ... */
    char sleeps_in[64]; /* the kernel's function that its first thread sleeps in; "": unknown */
    char cores[RANK_CORES_BYTES];
    char unreached[RANK_ADDRESS_BYTES]; /* nothing gets through to there; "": not known */
    bool is_newcomer;                   /* of an elastic job */
    int restarts; /* how often the job, or in an elastic job the rank, has been started again */
    /* of its record */
    enum flight_phase phase;
    bool left;
    bool waits; /* a thread of the program waits for an operation */
    int rank, size, first;
    uint32_t epoch;
    char host[FLIGHT_HOST_BYTES + 1];
    uint64_t sets[FLIGHT_SET_WORDS]; /* bits: its process sets */
    int64_t phase_us, read_us;       /* when its phase began, and when it was read; or it was started */
    uint64_t submitted;              /* how many operations */
    struct pace pace;
    struct flight_totals totals;         /* since it joined */
    struct flight_operation *operations; /* the last ones, oldest first */
    int operation_count;
    /* as judge.c finds; operations point into those of some rank */
    enum rank_doing state;
    const struct flight_operation *pending; /* the oldest one that is not done */
    int pending_count;
    const struct flight_operation *submitted_last; /* NULL: none */
    const struct flight_operation *missed;         /* others wait for this one, which it has not submitted */
    int64_t since_us;                              /* since when the state holds */
    const struct awaited_list *waits_for;          /* NULL: none; never itself */
    const struct rank *awaited;                    /* the only one that it waits for */
    bool waits_for_unseen; /* none of those that were seen keeps it waiting, and others were not seen */
    bool stands_still;
    bool spans_nodes; /* its job was seen on several nodes */
};

struct ranks {
    struct rank *list;
    int count, capacity;
    struct awaited_list *awaited; /* all lists of the ranks */
    int64_t now_us;               /* when all had been read */
    char reason[512]; /* why they wrote their records, if these are read after the end; "": they run */
};

/* A zeroed one to enter; NULL where memory ran out. */
struct rank *ranks_add(struct ranks *ranks);
void ranks_free(struct ranks *ranks);

#endif
