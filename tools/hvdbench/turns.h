/* turns.h: measure several ways of doing the same work in turn, A B A B, so that their ratios are reliable on
 * a machine whose speed drifts. */
#ifndef TOOLS_HVDBENCH_TURNS_H
#define TOOLS_HVDBENCH_TURNS_H

#include "tools/hvdbench/job.h"
#include "tools/hvdbench/stats.h"

/* One way of doing the work. [prepare], [check] and [finish] are not timed. */
struct way {
    const char *name;  /* "mpi-one" */
    const char *title; /* "one MPI_Allreduce for all tensors" */
    const char *key;   /* "mpi_one_us" in JSON */
    void *arg;
    int (*prepare)(void *arg, struct hvd_error *err); /* called before each turn, or NULL */
    int (*run)(void *arg, struct hvd_error *err);
    int (*check)(void *arg, struct hvd_error *err);  /* checks the result of one run, or NULL */
    int (*finish)(void *arg, struct hvd_error *err); /* called after each turn, or NULL */
    struct stats us;                                 /* out */
    double cpu_us; /* out: processor time of a run, of all threads of all ranks */
};

struct turns {
    int64_t warmup, rounds;
    int64_t repeats; /* runs in each turn */
};

/* How often a tensor of [bytes] is repeated in a turn, because the clock is read between any two turns: until
 * [turn_bytes] are reached, but at most [most] times. */
int64_t turns_repeats(int64_t bytes, int64_t turn_bytes, int64_t most);

/* Fill [ways] with the [count] ones of [table], all with [arg]. */
void turns_bind(struct way *ways, const struct way *table, int count, void *arg);

/* Collective. Check the result of each way, then measure [warmup] rounds that do not count and [rounds] that
 * do. All ranks begin a turn together. With one run per turn, the time of a round is that of the slowest
 * rank. With more, each rank times each run, and [us] of a way is that of the slowest rank. The results are
 * equal on all ranks. */
int turns_measure(struct bench *bench, const struct turns *turns, struct way *ways, int count,
                  struct hvd_error *err);

#endif
