/* hvdbench.c: measure hvd, MPI and plain memory copies in turn, in one job. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/common/outer_tasks.h"
#include "tools/hvdbench/cases/cases.h"

/* How many processes a case runs in. */
enum case_processes {
    IN_JOB,  /* the ranks of a job */
    ALONE,   /* one process, which must not run several times at once */
    STARTING /* one process, which starts ranks of its own, and is those ranks as well */
};

static const struct {
    int (*run)(struct bench *bench, struct hvd_error *err);
    enum case_processes processes;
    bool wants_mpi; /* measures MPI too, in the same process */
} cases[BENCH_CASES] = {
    [BENCH_ALLREDUCE] = {case_allreduce, IN_JOB, true}, [BENCH_SMALL] = {case_small, IN_JOB, true},
    [BENCH_LATENCY] = {case_latency, IN_JOB, true},     [BENCH_SWEEP] = {case_sweep, IN_JOB, true},
    [BENCH_IDLE] = {case_idle, IN_JOB, false},          [BENCH_TRACE] = {case_trace, IN_JOB, false},
    [BENCH_LAUNCH] = {case_launch, STARTING, false},    [BENCH_NEGOTIATE] = {case_negotiate, ALONE, false},
    [BENCH_KERNELS] = {case_kernels, ALONE, false},     [BENCH_PACK] = {case_pack, ALONE, false},
    [BENCH_OVERHEAD] = {case_overhead, IN_JOB, false},  [BENCH_BARS] = {case_bars, ALONE, false},
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
    int status = HVD_OK;
    if (cases[chosen].processes == IN_JOB)
        status = bench_join(bench, cases[chosen].wants_mpi, &err);
    else if (cases[chosen].processes == ALONE)
        status = check_once(chosen, &err);
    if (status == HVD_OK)
        status = cases[chosen].run(bench, &err);
    if (status == HVD_OK && cases[chosen].processes == IN_JOB)
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
