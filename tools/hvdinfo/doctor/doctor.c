/* doctor.c: hvdinfo doctor: look at this node, join the job where there is one, and report what all ranks
 * found. */
#include "config.h"
#include "tools/hvdinfo/doctor/doctor.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hvd.h"
#include "tools/hvdinfo/doctor/checks.h"
#include "tools/hvdinfo/doctor/job.h"
#include "tools/hvdinfo/doctor/outer.h"
#include "tools/hvdinfo/doctor/report.h"

#define NODE_SECONDS 30 /* for the checks of a node; the start of a job has its own limit */

/* A library or a file system may never answer, and then nothing but a signal ends the wait. */
static void end_late(int number)
{
    static const char line[] =
        "fail time: a check did not end in time: a file system or a library does not answer\n";
    (void)number;
    ssize_t ignored = write(STDOUT_FILENO, line, sizeof(line) - 1);
    (void)ignored;
    _exit(EXIT_FAILURE);
}

static void limit_time(unsigned int seconds)
{
    struct sigaction action = {.sa_handler = end_late};
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}

/* ---- This node ---------------------------------------------------------------------------------- */

static void set_answer(struct answer *answer, int check, int rank)
{
    answer->check = check;
    answer->rank = rank;
    if (gethostname(answer->host, sizeof(answer->host) - 1) < 0)
        answer->host[0] = 0;
}

/* Returns the number of answers. */
static int examine_node(const struct patient *patient, int rank, struct answer *answers)
{
    for (int i = 0; i < node_check_count; i++) {
        set_answer(&answers[i], i, rank);
        node_checks[i].run(patient, &answers[i].finding);
    }
    return node_check_count;
}

/* ---- The job ------------------------------------------------------------------------------------ */

/* What a check found of a version: the words up to a semicolon. */
static void take_version(const struct answer *answers,
                         void (*check)(const struct patient *patient, struct finding *finding),
                         char version[VERSION_BYTES])
{
    for (int i = 0; i < node_check_count; i++)
        if (node_checks[i].run == check)
            snprintf(version, VERSION_BYTES, "%.*s", (int)strcspn(answers[i].finding.what, ";"),
                     answers[i].finding.what);
}

static void gather_facts(const struct patient *patient, const struct answer *answers, struct facts *facts)
{
    char path[600];
    const char *gpus = getenv("HVD_GPU_PCI");
    snprintf(facts->version, sizeof(facts->version), "%s", PACKAGE_VERSION);
    take_version(answers, check_pmix, facts->pmix);
    take_version(answers, check_nccl, facts->nccl);
    snprintf(facts->host, sizeof(facts->host), "%s", answers[0].host);
    snprintf(facts->gpus, sizeof(facts->gpus), "%s", gpus == NULL ? "" : gpus);
    plugin_path(patient, path, sizeof(path));
    facts->plugin = path[0] == 0 ? 0 : plugin_print(path);
    facts->claimed = job_claimed(patient->environment);
    for (int i = 0; i < CLOCK_ROUNDS; i++) {
        struct timespec now = {0, 0};
        hvd_barrier(HVD_ALL_RANKS);
        clock_gettime(CLOCK_REALTIME, &now);
        facts->clock_us[i] = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    }
}

/* The rows of all ranks, in their order, in memory that the caller frees; *countp: how many there are. */
static void *gather(const char *name, const void *rows, int count, size_t row_bytes, int *countp)
{
    struct hvd_tensor tensor = {
        .name = name, .input = rows, .dtype = HVD_UINT8, .ndim = 2, .shape = {count, (int64_t)row_bytes}};
    struct hvd_result result = {.data = NULL};
    if (hvd_allgather(&tensor, &result, NULL) != HVD_OK) {
        fprintf(stderr, "hvdinfo doctor: %s\n", hvd_error_text());
        return NULL;
    }
    *countp = (int)result.row_count;
    return result.data;
}

/* What rank 0 is told of: all of the first rank of each node, and what is wrong on the others. Without a job
 * no rank is the first. */
static int select_told(struct answer *answers, int count)
{
    int told = 0;
    for (int i = 0; i < count; i++)
        if (hvd_local_rank() == 0 || answers[i].finding.result != CHECK_OK)
            answers[told++] = answers[i];
    return told;
}

/* Rank 0 reports for all. */
static bool report_job(struct answer *answers, int count, const struct facts *facts, int ranks, bool json)
{
    int all = count + job_check_count;
    struct answer *both = realloc(answers, (size_t)all * sizeof(*both));
    if (both == NULL) {
        free(answers);
        fputs("hvdinfo doctor: no memory for the answers of all ranks\n", stderr);
        return false;
    }
    for (int i = 0; i < job_check_count; i++) {
        both[count + i] = (struct answer){.check = 0};
        set_answer(&both[count + i], node_check_count + i, -1);
        job_checks[i].run(facts, ranks, &both[count + i].finding);
    }
    bool good = report_answers(both, all, json ? REPORT_JSON : REPORT_LINES);
    free(both);
    return good;
}

/* Examine the node and the job, which the caller has joined. */
static bool examine_job(struct patient *patient, bool json)
{
    struct answer own[64] = {{.check = 0}};
    struct facts facts = {.version = ""};
    int ranks = 0, count = 0;
    _Static_assert(sizeof(own) / sizeof(own[0]) > 32, "there is room for all checks");
    patient->ranks = hvd_size();
    int own_count = examine_node(patient, hvd_rank(), own);
    gather_facts(patient, own, &facts);
    own_count = select_told(own, own_count);
    struct facts *all_facts = gather("facts", &facts, 1, sizeof(facts), &ranks);
    struct answer *answers = gather("answers", own, own_count, sizeof(own[0]), &count);
    bool good = all_facts != NULL && answers != NULL;
    if (good && hvd_rank() == 0) {
        good = report_job(answers, count, all_facts, ranks, json);
        answers = NULL;
    }
    free(answers);
    free(all_facts);
    return good;
}

/* How this process reports for itself. */
static enum report_form form_alone(const struct patient *patient, bool json)
{
    return json ? REPORT_JSON : job_claimed(patient->environment) > 1 ? REPORT_ONE_OF_MANY : REPORT_LINES;
}

/* The job cannot start: say why, and what is not well here. Every rank says it, so nothing else. */
static bool report_no_job(const struct patient *patient, const char *why, bool json)
{
    struct answer own[64] = {{.check = 0}};
    int count = select_told(own, examine_node(patient, 0, own));
    set_answer(&own[count], node_check_count + job_check_count, 0);
    find(&own[count].finding, CHECK_FAIL,
         "see hvd(7), How a job starts; the lines above say what is not well here", "%.199s", why);
    return report_answers(own, count + 1, form_alone(patient, json));
}

/* ---- The subcommand ----------------------------------------------------------------------------- */

static bool examine(struct patient *patient, bool node_only, bool json)
{
    struct answer own[64] = {{.check = 0}};
    if (node_only)
        return report_answers(own, examine_node(patient, 0, own), form_alone(patient, json));
    if (hvd_init() != HVD_OK) {
        char why[200];
        snprintf(why, sizeof(why), "%s", hvd_error_text());
        return report_no_job(patient, why, json);
    }
    bool good = examine_job(patient, json);
    return hvd_shutdown() == HVD_OK && good;
}

int hvdinfo_doctor(char *const *arguments)
{
    static struct hvd_config config;
    static char *const nothing[] = {NULL};
    struct hvd_error err = {""};
    bool node_only = false, json = false;
    for (; *arguments != NULL; arguments++) {
        if (strcmp(*arguments, "--node") != 0 && strcmp(*arguments, "--json") != 0) {
            fprintf(stderr, "hvdinfo doctor: %s: expected --node, --json, or nothing\n", *arguments);
            return EXIT_FAILURE;
        }
        node_only = node_only || strcmp(*arguments, "--node") == 0;
        json = json || strcmp(*arguments, "--json") == 0;
    }
    if (config_load(&config, environ, NULL, &err) != HVD_OK)
        config_load(&config, nothing, NULL, NULL);
    limit_time(NODE_SECONDS + (node_only ? 0 : (unsigned int)(config.start_timeout_us / 1000000)));
    char **outer = outer_environment(environ);
    struct patient patient = {.outer = outer,
                              .root = "",
                              .python_folder = PYTHON_FOLDER,
                              .config = &config,
                              .config_error = err.text,
                              .ranks = 1};
    bool good = examine(&patient, node_only, json);
    free(outer);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
