/* bar.h: a bar is a performance goal of hvd: commands that measure it, and limits on what they report. */
#ifndef TOOLS_HVDBENCH_BARS_BAR_H
#define TOOLS_HVDBENCH_BARS_BAR_H

#include <math.h>
#include <stdbool.h>

#include "tools/hvdbench/bars/record.h"

/* ---- What is measured ----------------------------------------------------------------------------- */

enum bar_runner {
    RUNNER_NONE,      /* ends the list of commands */
    RUNNER_HVDRUN,    /* hvdrun starts hvdbench as the ranks of a job on this node */
    RUNNER_SINGLE,    /* hvdbench runs in one process, without a job */
    RUNNER_TWO_NODES, /* two-nodes starts hvdbench as ranks on each of two simulated nodes */
    RUNNER_MPIRUN     /* mpirun starts hvdbench_plain: MPI without hvd */
};

struct bar_command {
    enum bar_runner place;
    int ranks;             /* of the job, or of each node */
    const char *backends;  /* HVD_BACKENDS of the ranks of two nodes */
    const char *arguments; /* the program's arguments, with spaces between them */
};

/* ---- Limits --------------------------------------------------------------------------------------- */

enum limit_kind {
    LIMIT_VALUE, /* the field; the largest of all commands counts */
    LIMIT_BY,    /* the field divided by the field [of] */
    LIMIT_ABOVE, /* the field minus the field [of] */
    LIMIT_SPREAD /* the largest of all commands divided by the smallest, each relative to the first command of
                    its turn */
};

enum limit_unit { UNIT_COUNT, UNIT_US, UNIT_TIMES };

/* The limit of a number that is shown but not judged. */
#define NO_BAR INFINITY

struct limit {
    const char *title; /* "time / best MPI" */
    enum limit_kind kind;
    enum limit_unit unit;
    const char *field, *of;
    double most;    /* the bar is met up to this value; or NO_BAR */
    double stretch; /* the stretch goal is met up to this value; 0: there is none */
};

#define BAR_COMMANDS  4
#define BAR_LIMITS    4
#define BAR_TURNS_MAX 15

struct bar {
    const char *name;  /* "resnet50", as in --only; NULL ends the table */
    const char *title; /* "ResNet-50, 161 tensors, 97.5 MiB, 2 ranks" */
    int turns; /* how often the commands are run in turn, for medians: up to BAR_TURNS_MAX; 0 means 1 */
    struct bar_command commands[BAR_COMMANDS];
    struct limit limits[BAR_LIMITS]; /* a limit without a title ends the list; the first is always judged */
};

extern const struct bar bar_table[];

static inline bool limit_is_judged(const struct limit *limit)
{
    return limit->most < NO_BAR;
}

int bar_commands(const struct bar *bar);
int bar_turns(const struct bar *bar);

/* Whether the bar is in the list [only], such as "small,latency". NULL chooses all. */
bool bar_is_chosen(const struct bar *bar, const char *only);

/* Returns HVD_ERR_INVALID if [only] has a name that is not a bar's. */
int bar_check_names(const char *only, struct hvd_error *err);

/* ---- Results; these functions do no I/O ------------------------------------------------------------ */

/* From best to worst; the worst of several counts. BAR_NONE: the limit is not judged. */
enum bar_result { BAR_NONE, BAR_STRETCH, BAR_MET, BAR_NOT_RUN, BAR_MISSED, BAR_RESULT_COUNT };

/* Compute the number of a limit from one run. [records] holds the records of all the bar's commands, turn by
 * turn; the median over the turns counts. Returns HVD_ERR_UNSUPPORTED with the reason if a field is missing.
 */
int limit_measure(const struct limit *limit, const struct bar *bar, const struct record *records,
                  double *seenp, struct hvd_error *why);

/* The result on [runs] >= 1 runs. */
enum bar_result limit_judge(const struct limit *limit, const double *seen, int runs);

/* The result on a run that failed with [status]. */
enum bar_result limit_judge_failed(const struct limit *limit, int status);

/* "yes", "stretch", "no", "not run", "-" */
const char *bar_result_name(enum bar_result result);

#endif
