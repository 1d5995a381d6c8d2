/* run.c: run the case that a command line chooses, and report its failure. */
#include "config.h"
#include "tools/hvdbench/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/outer_tasks.h"
#include "tools/hvdbench/job.h"

/* If all ranks know of the failure, only one prints it. It does so before any rank exits, because the
 * launcher ends the job after the first rank that exits with a failure. */
static void print_failure(const struct bench *bench, const struct hvd_error *err)
{
    if (!bench->agreed || bench->rank == 0)
        fprintf(stderr, "%s: %s\n", bench->program->name, err->text);
    if (bench->agreed)
        hvd_shutdown();
}

/* Two processes that measure at the same time slow each other down, and nobody would see it. */
static int check_once(const struct bench *bench, struct hvd_error *err)
{
    struct outer_tasks tasks = outer_tasks_read(environ);
    if (tasks.count <= 1)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID,
                     "%s %s measures in one process, but %s started %" PRId64
                     " of them, which slow each other down; start one",
                     bench->program->name, bench->options->chosen->name, tasks.launcher, tasks.count);
}

static int run_case(struct bench *bench)
{
    struct hvd_error err = {""};
    const struct bench_case *chosen = bench->options->chosen;
    int status = HVD_OK;
    if (chosen->processes == IN_JOB)
        status = bench_join(bench, chosen->wants_mpi, &err);
    else if (chosen->processes == ALONE)
        status = check_once(bench, &err);
    if (status == HVD_OK)
        status = chosen->run(bench, &err);
    if (status == HVD_OK && chosen->processes == IN_JOB)
        status = bench_leave(bench, &err);
    if (status != HVD_OK)
        print_failure(bench, &err);
    return status;
}

int bench_run(const struct bench_program *program, char *const *argv)
{
    struct bench_options options = {.action = BENCH_RUN};
    struct bench bench = {.program = program, .options = &options, .size = 1};
    struct hvd_error err = {""};
    if (bench_options_parse(&options, program, argv, &err) != HVD_OK) {
        fprintf(stderr, "%s: %s\n", program->name, err.text);
        return 2;
    }
    if (options.action == BENCH_HELP)
        bench_options_help(stdout, program);
    else if (options.action == BENCH_VERSION)
        printf("%s %s\n", program->name, PACKAGE_VERSION);
    else if (run_case(&bench) != HVD_OK)
        return EXIT_FAILURE;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "%s: standard output: %s\n", program->name, strerror(errno));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
