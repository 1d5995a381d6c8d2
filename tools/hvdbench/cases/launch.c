/* launch.c: the time from the start of a launcher until all its ranks are initialised. */
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/hvdbench/cases/cases.h"
#include "tools/hvdbench/report.h"
#include "tools/hvdbench/spawn.h"

#define LIMIT_US 60000000 /* a launch that takes longer is considered to hang */
#define STAMP    "hvdbench-stamp "

enum launch_id { LAUNCH_HVD, LAUNCH_MPI, LAUNCH_HVDRUN, LAUNCH_MPIRUN, LAUNCH_COUNT };

/* One kind of launch. It is timed until all ranks have printed their stamp, or until the launcher has ended.
 */
struct launch {
    const char *argv[16];
    bool stamped;
    bool left_out;
    double *samples; /* us */
    struct stats us;
};

/* What hvdbench starts: itself, and a program of the same installation or build tree. */
struct programs {
    char hvdbench[PATH_MAX];
    char hvdrun[PATH_MAX]; /* only the name, to be found in PATH, if it is not next to hvdbench */
};

struct launches {
    struct programs programs;
    char ranks[16];
    struct launch each[LAUNCH_COUNT];
    struct spawned spawned;
    char mpi_why[600];
};

static const char *const titles[LAUNCH_COUNT] = {
    [LAUNCH_HVD] = "hvdrun, until hvd_init is done",
    [LAUNCH_MPI] = "mpirun, until MPI_Init is done",
    [LAUNCH_HVDRUN] = "hvdrun true, to its end",
    [LAUNCH_MPIRUN] = "mpirun true, to its end",
};

static const char *const keys[LAUNCH_COUNT] = {
    [LAUNCH_HVD] = "hvd_us",
    [LAUNCH_MPI] = "mpi_us",
    [LAUNCH_HVDRUN] = "hvdrun_exit_us",
    [LAUNCH_MPIRUN] = "mpirun_exit_us",
};

/* ---- A rank --------------------------------------------------------------------------------------- */

static int stamp(const char *of, struct hvd_error *err)
{
    const struct bench_mpi *mpi = NULL;
    bool is_hvd = strcmp(of, "hvd") == 0;
    int status = HVD_OK;
    if (is_hvd) {
        status = hvd_init();
        if (status != HVD_OK)
            return bench_hvd_error(status, "hvd_init", err);
    } else {
        mpi = bench_open_mpi(err);
        if (mpi == NULL)
            return HVD_ERR_UNSUPPORTED;
    }
    printf(STAMP "%lld\n", (long long)clock_ns());
    fflush(stdout);
    if (!is_hvd) {
        mpi->close();
        return HVD_OK;
    }
    status = hvd_shutdown();
    return status == HVD_OK ? HVD_OK : bench_hvd_error(status, "hvd_shutdown", err);
}

/* ---- The commands --------------------------------------------------------------------------------- */

static void add_words(struct launch *launch, const char *const *words)
{
    size_t used = 0;
    while (launch->argv[used] != NULL)
        used++;
    while (*words != NULL)
        launch->argv[used++] = *words++;
}

static int find_programs(struct programs *programs, struct hvd_error *err)
{
    char copy[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", programs->hvdbench, sizeof(programs->hvdbench) - 1);
    if (length < 0)
        return error_set_errno(err, "cannot read /proc/self/exe");
    programs->hvdbench[length] = 0;
    memcpy(copy, programs->hvdbench, sizeof(copy));
    char *folder = dirname(copy);
    size_t end = strlen(folder);
    if (end > 6 && strcmp(folder + end - 6, "/.libs") == 0)
        folder[end - 6] = 0;
    int used = snprintf(programs->hvdrun, sizeof(programs->hvdrun), "%s/hvdrun", folder);
    if (used >= (int)sizeof(programs->hvdrun) || access(programs->hvdrun, X_OK) != 0)
        snprintf(programs->hvdrun, sizeof(programs->hvdrun), "hvdrun");
    return HVD_OK;
}

static int describe(struct launches *launches, const struct bench_options *options, struct hvd_error *err)
{
    struct launch *each = launches->each;
    const char *ranks = launches->ranks;
    const char *program = launches->programs.hvdbench;
    int status = find_programs(&launches->programs, err);
    if (status != HVD_OK)
        return status;
    snprintf(launches->ranks, sizeof(launches->ranks), "%lld", (long long)options->ranks);
    const char *const hvdrun[] = {
        launches->programs.hvdrun, "--launcher=local", "--no-prefix", "-n", ranks, NULL};
    const char *const mpirun[] = {"mpirun", "--oversubscribe", "-np", ranks, NULL};
    const char *const as_root[] = {"--allow-run-as-root", NULL};
    for (int id = 0; id < LAUNCH_COUNT; id++) {
        bool is_mpi = id == LAUNCH_MPI || id == LAUNCH_MPIRUN;
        add_words(&each[id], is_mpi ? mpirun : hvdrun);
        if (is_mpi && geteuid() == 0)
            add_words(&each[id], as_root);
        each[id].left_out = is_mpi && options->no_mpi;
    }
    add_words(&each[LAUNCH_HVD], (const char *const[]){program, "launch", "--stamp=hvd", NULL});
    add_words(&each[LAUNCH_MPI], (const char *const[]){program, "launch", "--stamp=mpi", NULL});
    add_words(&each[LAUNCH_HVDRUN], (const char *const[]){"true", NULL});
    add_words(&each[LAUNCH_MPIRUN], (const char *const[]){"true", NULL});
    each[LAUNCH_HVD].stamped = true;
    each[LAUNCH_MPI].stamped = true;
    if (options->no_mpi)
        snprintf(launches->mpi_why, sizeof(launches->mpi_why), "left out by --no-mpi");
    return HVD_OK;
}

/* ---- Launching ------------------------------------------------------------------------------------ */

/* Returns the latest stamp in the output, and in *countp the number of stamps. */
static int64_t last_stamp(const char *output, int64_t *countp)
{
    int64_t last = 0;
    *countp = 0;
    for (const char *at = strstr(output, STAMP); at != NULL; at = strstr(at + 1, STAMP)) {
        int64_t ns = strtoll(at + strlen(STAMP), NULL, 10);
        last = ns > last ? ns : last;
        ++*countp;
    }
    return last;
}

static int launch_once(struct launches *launches, const struct launch *launch, int64_t ranks, double *us,
                       struct hvd_error *err)
{
    struct spawned *spawned = &launches->spawned;
    int64_t stamps = 0;
    int status = spawn(spawned, launch->argv, LIMIT_US, err);
    if (status != HVD_OK)
        return status;
    if (spawned->exit_status == 127)
        return error_set(err, HVD_ERR_SYSTEM, "%s was not found in PATH", launch->argv[0]);
    if (spawned->exit_status != 0)
        return error_set(err, HVD_ERR_SYSTEM, "%s exited with status %d", launch->argv[0],
                         spawned->exit_status);
    int64_t end_ns = spawned->end_ns;
    if (launch->stamped) {
        end_ns = last_stamp(spawned->output, &stamps);
        if (stamps != ranks)
            return error_set(err, HVD_ERR_SYSTEM, "of %lld ranks of %s, %lld said when they were initialised",
                             (long long)ranks, launch->argv[0], (long long)stamps);
    }
    *us = (double)(end_ns - spawned->begin_ns) / 1000;
    return HVD_OK;
}

/* mpirun is only there for comparison: if it fails, it is left out and the rest is measured. */
static int measure_launches(struct launches *launches, const struct bench_options *options,
                            struct hvd_error *err)
{
    for (int64_t round = -options->warmup; round < options->rounds; round++) {
        for (int id = 0; id < LAUNCH_COUNT; id++) {
            struct launch *launch = &launches->each[id];
            bool is_mpi = id == LAUNCH_MPI || id == LAUNCH_MPIRUN;
            struct hvd_error why = {""};
            if (launch->left_out)
                continue;
            int status =
                launch_once(launches, launch, options->ranks, &launch->samples[round < 0 ? 0 : round], &why);
            if (status == HVD_OK)
                continue;
            if (!is_mpi) {
                *err = why;
                return status;
            }
            launch->left_out = true;
            snprintf(launches->mpi_why, sizeof(launches->mpi_why), "%s", why.text);
        }
    }
    for (int id = 0; id < LAUNCH_COUNT; id++)
        if (!launches->each[id].left_out)
            launches->each[id].us = stats_of(launches->each[id].samples, (int)options->rounds);
    return HVD_OK;
}

static void print_launches_json(const struct launches *launches, const struct bench_options *options)
{
    const struct launch *each = launches->each;
    struct json json = json_open(stdout);
    json_text(&json, "case", options->chosen->name);
    json_count(&json, "ranks", options->ranks);
    json_text(&json, "version", hvd_version());
    json_count(&json, "rounds", options->rounds);
    for (int id = 0; id < LAUNCH_COUNT; id++)
        if (!each[id].left_out)
            json_number(&json, keys[id], each[id].us.median);
    json_number(&json, "p99_us", each[LAUNCH_HVD].us.p99);
    if (!each[LAUNCH_MPI].left_out)
        json_number(&json, "hvd_per_mpi", each[LAUNCH_HVD].us.median / each[LAUNCH_MPI].us.median);
    if (launches->mpi_why[0] != 0)
        json_text(&json, "no_mpi", launches->mpi_why);
    json_close_line(&json);
}

static void print_launches(const struct launches *launches, const struct bench_options *options)
{
    printf("launch: %lld rank%s, %lld round%s\n  %-32s %12s  %12s\n", (long long)options->ranks,
           report_s(options->ranks), (long long)options->rounds, report_s(options->rounds), "", "median",
           "p99");
    for (int id = 0; id < LAUNCH_COUNT; id++) {
        char median[REPORT_TEXT_BYTES];
        char p99[REPORT_TEXT_BYTES];
        const struct stats *us = &launches->each[id].us;
        if (!launches->each[id].left_out)
            printf("  %-32s %12s  %12s\n", titles[id], report_time(us->median, median),
                   report_time(us->p99, p99));
    }
    if (launches->mpi_why[0] != 0)
        printf("  MPI is left out: %s\n", launches->mpi_why);
}

static int launch_all(const struct bench_options *options, struct hvd_error *err)
{
    struct launches *launches = calloc(1, sizeof(*launches));
    double *samples = calloc(LAUNCH_COUNT * (size_t)options->rounds, sizeof(samples[0]));
    int status =
        launches == NULL || samples == NULL
            ? error_set(err, HVD_ERR_NO_MEMORY, "no memory for %lld launches", (long long)options->rounds)
            : describe(launches, options, err);
    if (status == HVD_OK) {
        for (int id = 0; id < LAUNCH_COUNT; id++)
            launches->each[id].samples = samples + id * options->rounds;
        status = measure_launches(launches, options, err);
    }
    if (status == HVD_OK && options->json)
        print_launches_json(launches, options);
    else if (status == HVD_OK)
        print_launches(launches, options);
    free(samples);
    free(launches);
    return status;
}

/* The case starts ranks itself, and cannot run in one. */
static int check_alone(const char *title, struct hvd_error *err)
{
    static const char *const marks[] = {"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (getenv(marks[i]) != NULL)
            return error_set(
                err, HVD_ERR_INVALID,
                "hvdbench %s starts ranks itself, but is one (%s is set); run it without hvdrun, "
                "srun or mpirun",
                title, marks[i]);
    return HVD_OK;
}

int case_launch(struct bench *bench, struct hvd_error *err)
{
    if (bench->options->stamp != NULL)
        return stamp(bench->options->stamp, err);
    int status = check_alone(bench->options->chosen->name, err);
    return status == HVD_OK ? launch_all(bench->options, err) : status;
}
