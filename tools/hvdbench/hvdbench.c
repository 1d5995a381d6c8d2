/* hvdbench.c: measure hvd, MPI and plain memory copies in turn, in one job. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/common/outer_tasks.h"
#include "tools/hvdbench/cases/cases.h"

static const struct {
    int (*run)(struct bench *bench, struct hvd_error *err);
    bool is_job;    /* runs as the ranks of a job */
    bool wants_mpi; /* measures MPI too, in the same process */
} cases[BENCH_CASES] = {
    [BENCH_ALLREDUCE] = {case_allreduce, true, true}, [BENCH_SMALL] = {case_small, true, true},
    [BENCH_LATENCY] = {case_latency, true, true},     [BENCH_SWEEP] = {case_sweep, true, true},
    [BENCH_IDLE] = {case_idle, true, false},          [BENCH_TRACE] = {case_trace, true, false},
    [BENCH_LAUNCH] = {case_launch, false, false},     [BENCH_NEGOTIATE] = {case_negotiate, false, false},
    [BENCH_KERNELS] = {case_kernels, false, false},   [BENCH_PACK] = {case_pack, false, false},
    [BENCH_OVERHEAD] = {case_overhead, true, false},  [BENCH_BARS] = {case_bars, false, false},
};

/* If all ranks know of the failure, only one prints it. It does so before any rank exits, because the
 * launcher ends the job after the first rank that exits with a failure. */
static void say(const struct bench *bench, const struct hvd_error *err)
{
    if (!bench->agreed || bench->rank == 0)
        fprintf(stderr, "hvdbench: %s\n", err->text);
    if (bench->agreed)
        hvd_shutdown();
}

/* Two processes that measure at the same time slow each other down, and nobody would see it. */
static int check_once(enum bench_case chosen, struct hvd_error *err)
{
    struct outer_tasks tasks = outer_tasks_read(environ);
    if (tasks.count <= 1)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID,
                     "hvdbench %s measures in one process, but %s started %" PRId64
                     " of them, which slow each other down; start one",
                     bench_case_name(chosen), tasks.launcher, tasks.count);
}

static int run(struct bench *bench)
{
    struct hvd_error err = {""};
    enum bench_case chosen = bench->options->chosen;
    int status =
        cases[chosen].is_job ? bench_join(bench, cases[chosen].wants_mpi, &err) : check_once(chosen, &err);
    if (status == HVD_OK)
        status = cases[chosen].run(bench, &err);
    if (status == HVD_OK && cases[chosen].is_job)
        status = bench_leave(bench, &err);
    if (status != HVD_OK)
        say(bench, &err);
    return status;
}

int main(int argc, char **argv)
{
    struct bench_options options = {.action = BENCH_RUN};
    struct bench bench = {.options = &options, .size = 1};
    struct hvd_error err = {""};
    (void)argc;
    if (bench_options_parse(&options, argv, &err) != HVD_OK) {
        fprintf(stderr, "hvdbench: %s\n", err.text);
        return 2;
    }
    if (options.action == BENCH_HELP)
        bench_options_help(stdout);
    else if (options.action == BENCH_VERSION)
        printf("hvdbench %s\n", PACKAGE_VERSION);
    else if (run(&bench) != HVD_OK)
        return EXIT_FAILURE;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("hvdbench: standard output");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
