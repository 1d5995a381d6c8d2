/* turns.h: measure several ways of doing the same in turn, A B A B, so that ratios hold on a machine
 * whose speed drifts. */
#ifndef TOOLS_HVDBENCH_TURNS_H
#define TOOLS_HVDBENCH_TURNS_H

#include "tools/hvdbench/job.h"
#include "tools/hvdbench/stats.h"

/* One way of doing the work. [prepare], [check] and [finish] are not timed. */
struct way {
    const char *name; /* "mpi-one" */
    const char *key;  /* "mpi_one_us" in JSON */
    void *arg;
    int (*prepare)(void *arg, struct hvd_error *err); /* before each turn; or NULL */
    int (*run)(void *arg, struct hvd_error *err);
    int (*check)(void *arg, struct hvd_error *err);  /* is the result right, after one run? Or NULL */
    int (*finish)(void *arg, struct hvd_error *err); /* after each turn; or NULL */
    struct stats us;                                 /* out */
};

struct turns {
    int64_t warmup, rounds;
    int64_t repeats; /* runs in each turn */
};

/* Collective. Check each way's result, then measure: [warmup] rounds that do not count and [rounds] that do.
 * All ranks begin a turn together. With one run in a turn a round's time is that of the slowest rank; with
 * more, each rank measures each run, and the ways' [us] are those of the slowest rank. Equal on all ranks. */
int turns_measure(struct bench *bench, const struct turns *turns, struct way *ways, int count,
                  struct hvd_error *err);

#endif
