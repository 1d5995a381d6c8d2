/* nodes.c: run hvdinfo on all nodes of a Slurm job by srun, and collect what it writes. Which nodes these are
 * squeue says. */
#include "config.h"
#include "tools/hvdinfo/ps/nodes.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/env.h"
#include "options/node_list.h"
#include "options/slurm_step.h"
#include "tools/common/ask.h"
#include "tools/hvdinfo/ps/frames.h"

#define WAIT_US (INT64_C(1000000) * NODES_WAIT_S)

extern char **environ;

bool nodes_is_job(const char *job)
{
    size_t digits = strspn(job, "0123456789");
    const char *step = job + digits;
    return digits > 0 && (step[0] == 0 || (step[0] == '.' && isdigit((unsigned char)step[1]) &&
                                           step[1 + strspn(step + 1, "0123456789")] == 0));
}

/* ---- A command of Slurm's ------------------------------------------------------------------------ */

/* Without the variables of a job that this process is in, which are options of srun's; and without hvd's
 * plug-in, which is for ranks. The caller frees the list. */
static char **make_environment(void)
{
    static char plugin[] = SLURM_HANDED_DOWN "hvd=off";
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    char **environment = calloc(count + 2, sizeof(*environment));
    size_t kept = 0;
    for (size_t i = 0; environment != NULL && i < count; i++) {
        bool of_job = strncmp(environ[i], "SLURM_", 6) == 0 && strncmp(environ[i], "SLURM_CONF", 10) != 0 &&
                      strncmp(environ[i], "SLURM_JWT=", 10) != 0;
        if (!of_job)
            environment[kept++] = environ[i];
    }
    if (environment != NULL)
        environment[kept] = plugin;
    return environment;
}

/* Its first line. */
static const char *first_complaint(struct program_answer *answer)
{
    char *text = answer->complaints;
    if (text[0] == 0)
        return "no message";
    text[strcspn(text, "\n")] = 0;
    for (char *at = text; *at != 0; at++)
        *at = is_printable_byte((unsigned char)*at) ? *at : '?';
    return text;
}

/* Always free the answer. */
static int ask(const char *const *words, int64_t limit_us, struct program_answer *answer,
               struct hvd_error *err)
{
    char **environment = make_environment();
    int rc = environment == NULL ? error_set(err, HVD_ERR_NO_MEMORY, "no memory to start %s", words[0])
                                 : ask_program(words, environment, limit_us, answer, err);
    free(environment);
    return rc;
}

/* ---- The two commands ---------------------------------------------------------------------------- */

/* Which nodes has the job? The caller frees *nodesp. */
static int find_nodes(const char *job, char **nodesp, struct hvd_error *err)
{
    char number[64];
    snprintf(number, sizeof(number), "--jobs=%.*s", (int)strcspn(job, "."), job);
    const char *const words[] = {"squeue", "--noheader", "--states=RUNNING", "--format=%N", number, NULL};
    struct program_answer answer = {NULL, NULL};
    int rc = ask(words, WAIT_US, &answer, err);
    if (rc == HVD_OK) {
        answer.output[strcspn(answer.output, "\n")] = 0;
        if (node_list_count(answer.output) == 0)
            rc =
                error_set(err, HVD_ERR_STATE,
                          "no rank of the job %.100s runs on this node, or none that you may look at; squeue "
                          "finds no such Slurm job that runs: %.200s",
                          job, first_complaint(&answer));
    }
    if (rc == HVD_OK) {
        *nodesp = answer.output;
        answer.output = NULL;
    }
    program_answer_free(&answer);
    return rc;
}

/* One task on each of [nodes], beside the ranks, which does not wait for others: this program with
 * [arguments]. */
static int run_there(const char *job, const char *nodes, const char *const *arguments, int64_t limit_us,
                     struct program_answer *answer, struct hvd_error *err)
{
    char program[PATH_MAX] = "";
    char number[64], count[32];
    char *list = NULL;
    snprintf(number, sizeof(number), "--jobid=%.*s", (int)strcspn(job, "."), job);
    snprintf(count, sizeof(count), "--nodes=%ld", node_list_count(nodes));
    if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
        return error_set_errno(err, "the name of this program cannot be read in /proc");
    if (asprintf(&list, "--nodelist=%s", nodes) < 0)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to start srun");
    const char *words[32] = {"srun",
                             number,
                             count,
                             list,
                             "--ntasks-per-node=1",
                             "--mpi=none",
                             "--overlap",
                             "--cpu-bind=none",
                             "--export=ALL",
                             "--no-kill",
                             "--wait=0",
                             "--input=none",
                             "--kill-on-bad-exit=0",
                             program};
    int length = 0;
    while (words[length] != NULL)
        length++;
    for (int i = 0; arguments[i] != NULL; i++)
        words[length++] = arguments[i];
    int rc = ask(words, limit_us, answer, err);
    free(list);
    return rc;
}

/* The names of [nodes] from [first] to [end] - 1, each [step]th. The caller frees it; NULL: no memory. */
static char *pick_nodes(const char *nodes, long first, long end, long step)
{
    char name[256], *list = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&list, &bytes);
    if (to == NULL)
        return NULL;
    for (long i = first; i < end && node_list_at(nodes, i, name, sizeof(name)); i += step)
        fprintf(to, "%s%s", i > first ? "," : "", name);
    if (fclose(to) == 0)
        return list;
    free(list);
    return NULL;
}

/* [nodes]: NULL where no memory was left for their names. [look]: "--node", or which others these nodes ask.
 */
static int read_nodes(const struct nodes_question *question, const char *nodes, const char *look,
                      struct ranks *ranks, struct records *records, struct hvd_error *err)
{
    if (nodes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the names of nodes");
    struct program_answer answer = {NULL, NULL};
    const char *const arguments[] = {"ps", look, "--encoded", question->job, question->each ? "--all" : NULL,
                                     NULL};
    int rc = run_there(question->job, nodes, arguments, INT64_C(1000000) * question->wait_s, &answer, err);
    if (rc == HVD_OK) {
        rc = records_read(answer.output, nodes, clock_us(), ranks, records);
        if (rc == HVD_ERR_INVALID)
            error_set(err, rc, "a node of the job %.100s has another version of hvdinfo", question->job);
        else if (rc != HVD_OK)
            error_set(err, rc, "no memory for the ranks of the job %.100s", question->job);
        else if (records->answered == 0)
            rc = error_set(err, HVD_ERR_STATE, "no node of the job %.100s answers: %.300s", question->job,
                           first_complaint(&answer));
    }
    program_answer_free(&answer);
    return rc;
}

int nodes_ask(const struct nodes_question *question, struct ranks *ranks, struct records *records,
              struct hvd_error *err)
{
    char fan_out[48];
    char *nodes = NULL, *some = NULL;
    int rc = find_nodes(question->job, &nodes, err);
    long count = rc == HVD_OK ? node_list_count(nodes) : 0;
    bool many = count > question->fan_out;
    snprintf(fan_out, sizeof(fan_out), "--fan-out=%" PRId64, question->fan_out);
    if (many)
        some = pick_nodes(nodes, 0, count, (long)question->fan_out);
    if (rc == HVD_OK)
        rc = read_nodes(question, many ? some : nodes, many ? fan_out : "--node", ranks, records, err);
    records->asked = count;
    free(some);
    free(nodes);
    return rc;
}

int nodes_ask_on(const struct nodes_question *question, struct ranks *ranks, struct records *records,
                 struct hvd_error *err)
{
    const char *own = environment_value(NULL, "SLURMD_NODENAME");
    char name[256] = "";
    char *nodes = NULL, *asked = NULL;
    long at = 0;
    int rc = find_nodes(question->job, &nodes, err);
    while (rc == HVD_OK && own != NULL && node_list_at(nodes, at, name, sizeof(name)) &&
           strcmp(name, own) != 0)
        at++;
    if (rc == HVD_OK && (own == NULL || strcmp(name, own) != 0))
        rc = error_set(err, HVD_ERR_STATE, "SLURMD_NODENAME=%.100s: expected a node of the job %.100s",
                       own == NULL ? "" : own, question->job);
    if (rc == HVD_OK) {
        asked = pick_nodes(nodes, at, at + (long)question->fan_out, 1);
        rc = read_nodes(question, asked, "--node", ranks, records, err);
    }
    free(asked);
    free(nodes);
    return rc;
}

int nodes_write_frames(FILE *to, const char *job, const struct rank *rank, bool native, struct hvd_error *err)
{
    struct program_answer answer = {NULL, NULL};
    char process[32], number[32];
    const char *const arguments[] = {
        "stack", "--node", "--encoded", process, number, native ? "--native" : NULL, NULL};
    snprintf(process, sizeof(process), "%d", (int)rank->pid);
    snprintf(number, sizeof(number), "%d", rank->rank);
    int rc = run_there(job, rank->node, arguments, WAIT_US + INT64_C(1000000) * FRAMES_WAIT_S, &answer, err);
    if (rc == HVD_OK)
        fputs(answer.output, to);
    if (rc == HVD_OK && strstr(answer.output, FRAMES_TITLE) == NULL)
        rc = error_set(err, HVD_ERR_STATE, "on %s: %.300s", rank->node, first_complaint(&answer));
    program_answer_free(&answer);
    return rc;
}
