/* bar.h: what hvd is to reach, and whether it does. */
#ifndef TOOLS_HVDBENCH_BARS_BAR_H
#define TOOLS_HVDBENCH_BARS_BAR_H

#include <math.h>
#include <stdbool.h>

#include "tools/hvdbench/bars/record.h"

/* ---- What is measured ----------------------------------------------------------------------------- */

enum bar_runner {
    RUNNER_NONE,      /* behind the last command */
    RUNNER_HVDRUN,    /* hvdbench as the ranks of a job on this node, by hvdrun */
    RUNNER_SINGLE,    /* hvdbench in a process of its own */
    RUNNER_TWO_NODES, /* hvdbench as ranks on each of two nodes, by two-nodes */
    RUNNER_MPIRUN     /* MPI without hvd: hvdbench_plain, by mpirun */
};

struct bar_command {
    enum bar_runner place;
    int ranks;             /* of the job, or of each of the nodes */
    const char *backends;  /* HVD_BACKENDS on the nodes */
    const char *arguments; /* the program's arguments, with spaces between them */
};

/* ---- What it is to be ----------------------------------------------------------------------------- */

enum limit_kind {
    LIMIT_VALUE, /* the field, of the command with the most */
    LIMIT_BY,    /* divided by the field [of] */
    LIMIT_ABOVE, /* less the field [of] */
    LIMIT_SPREAD /* the greatest of all commands divided by the least, each by the first one of its turn */
};

enum limit_unit { UNIT_COUNT, UNIT_US, UNIT_TIMES };

/* What a number may be at most that is shown, and not judged. */
#define NO_BAR INFINITY

struct limit {
    const char *title; /* "x mpi-best" */
    enum limit_kind kind;
    enum limit_unit unit;
    const char *field, *of;
    double most;    /* met: at most this; or NO_BAR */
    double stretch; /* and better still: at most this; 0 where there is none */
};

#define BAR_COMMANDS  4
#define BAR_LIMITS    4
#define BAR_TURNS_MAX 15

struct bar {
    const char *name;  /* "resnet50", as in --only; NULL behind the last bar */
    const char *title; /* "ResNet-50, 161 tensors, 97.5 MiB, 2 ranks" */
    int turns; /* how often its commands are run in turn, for the medians: 1 to BAR_TURNS_MAX; 0 is 1 */
    struct bar_command commands[BAR_COMMANDS];
    struct limit limits[BAR_LIMITS]; /* up to one without a title; the first is judged */
};

extern const struct bar bar_table[];

static inline bool limit_is_judged(const struct limit *limit)
{
    return limit->most < NO_BAR;
}

int bar_commands(const struct bar *bar);
int bar_turns(const struct bar *bar);

/* Is the bar among [only], such as "small,latency"? NULL: all are. */
bool bar_is_chosen(const struct bar *bar, const char *only);

/* HVD_ERR_INVALID where [only] names what is no bar. */
int bar_check_names(const char *only, struct hvd_error *err);

/* ---- The verdict: pure ---------------------------------------------------------------------------- */

/* From good to bad: of several the last counts. Where there is no bar, there is none. */
enum bar_result { BAR_NONE, BAR_STRETCH, BAR_MET, BAR_NOT_RUN, BAR_MISSED, BAR_RESULT_COUNT };

/* What one run has come to: [turns] times the records of the bar's commands, of which each counts by its
 * median. HVD_ERR_UNSUPPORTED with the reason where a field is not there. */
int limit_measure(const struct limit *limit, const struct bar *bar, const struct record *records,
                  double *seenp, struct hvd_error *why);

/* Of all runs, of which there is at least one. */
enum bar_result limit_judge(const struct limit *limit, const double *seen, int runs);

/* Of a run that has come to nothing: [status] is why. */
enum bar_result limit_judge_failed(const struct limit *limit, int status);

/* "yes", "stretch", "no", "not run", "-" */
const char *bar_result_name(enum bar_result verdict);

#endif
