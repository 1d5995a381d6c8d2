/* nodes.c: run hvdinfo on all nodes of a Slurm job by srun, and collect what it writes. Which nodes these are
 * squeue says. */
#include "config.h"
#include "tools/hvdinfo/ps/nodes.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/descriptors.h"
#include "base/process_signal.h"
#include "options/node_list.h"
#include "options/slurm_step.h"

#define WAIT_US       (INT64_C(1000000) * NODES_WAIT_S)
#define END_US        INT64_C(2000000) /* for a command to end, and again when it has been told to */
#define LOOK_MS       20
#define ANSWERS_BYTES ((size_t)1 << 30) /* of all nodes, at most */

extern char **environ;

/* What comes out of a pipe. */
struct command_output {
    int fd; /* -1: it has ended */
    char *text;
    size_t length, capacity;
};

/* A command of Slurm's. */
struct call {
    pid_t pid; /* 0: it has ended */
    struct command_output answers, complaints;
};

bool nodes_is_job(const char *job)
{
    size_t digits = strspn(job, "0123456789");
    const char *step = job + digits;
    return digits > 0 && (step[0] == 0 || (step[0] == '.' && isdigit((unsigned char)step[1]) &&
                                           step[1 + strspn(step + 1, "0123456789")] == 0));
}

/* ---- Start --------------------------------------------------------------------------------------- */

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

static int spawn(const char *const *words, char **environment, const int *fds, pid_t *pidp)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = posix_spawn_file_actions_adddup2(&actions, fds[i], STDOUT_FILENO + i);
    if (rc == 0)
        rc = posix_spawnp(pidp, words[0], &actions, NULL, (char *const *)words, environment);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static int start(struct call *call, const char *const *words, struct hvd_error *err)
{
    int answers[2] = {-1, -1};
    int complaints[2] = {-1, -1};
    char **environment = make_environment();
    int problem = environment == NULL ? ENOMEM : 0;
    if (problem == 0 && (pipe2(answers, O_CLOEXEC) < 0 || pipe2(complaints, O_CLOEXEC) < 0))
        problem = errno;
    if (problem == 0)
        problem = spawn(words, environment, (const int[]){answers[1], complaints[1]}, &call->pid);
    free(environment);
    descriptors_close(&answers[1]);
    descriptors_close(&complaints[1]);
    call->answers.fd = answers[0];
    call->complaints.fd = complaints[0];
    errno = problem;
    return problem == 0 ? HVD_OK : error_set_errno(err, "%s cannot be started", words[0]);
}

/* ---- While it runs ------------------------------------------------------------------------------- */

/* Always one byte more than is filled, for a final 0. */
static int make_room(struct command_output *output)
{
    if (output->length + 1 < output->capacity)
        return HVD_OK;
    size_t capacity = output->capacity == 0 ? 65536 : 2 * output->capacity;
    char *text = capacity > ANSWERS_BYTES ? NULL : realloc(output->text, capacity);
    if (text == NULL)
        return HVD_ERR_NO_MEMORY;
    output->text = text;
    output->capacity = capacity;
    return HVD_OK;
}

static int read_output(struct command_output *output)
{
    int rc = make_room(output);
    if (rc != HVD_OK)
        return rc;
    ssize_t got = read(output->fd, output->text + output->length, output->capacity - output->length - 1);
    if (got > 0)
        output->length += (size_t)got;
    else if (got == 0 || errno != EINTR)
        descriptors_close(&output->fd);
    output->text[output->length] = 0;
    return HVD_OK;
}

static int collect(struct call *call)
{
    int64_t deadline_us = clock_us() + WAIT_US;
    int rc = HVD_OK;
    while (rc == HVD_OK && (call->answers.fd >= 0 || call->complaints.fd >= 0) && clock_us() < deadline_us) {
        struct pollfd polled[] = {{.fd = call->answers.fd, .events = POLLIN},
                                  {.fd = call->complaints.fd, .events = POLLIN}};
        if (poll(polled, 2, clock_ms_until(deadline_us)) <= 0)
            continue;
        if (polled[0].revents != 0)
            rc = read_output(&call->answers);
        if (rc == HVD_OK && polled[1].revents != 0)
            rc = read_output(&call->complaints);
    }
    return rc;
}

static void await_end(struct call *call)
{
    int64_t deadline_us = clock_us() + END_US;
    while (call->pid > 0 && clock_us() < deadline_us) {
        if (waitpid(call->pid, NULL, WNOHANG) != 0)
            call->pid = 0;
        else
            poll(NULL, 0, LOOK_MS);
    }
}

/* srun may wait for a node that has vanished, until Slurm gives the node up. */
static void end(struct call *call)
{
    static const int signals[] = {0, SIGTERM, SIGKILL};
    for (size_t i = 0; call->pid > 0 && i < sizeof(signals) / sizeof(signals[0]); i++) {
        if (signals[i] != 0)
            process_signal(call->pid, signals[i]);
        await_end(call);
    }
    descriptors_close(&call->answers.fd);
    descriptors_close(&call->complaints.fd);
}

/* Its first line. */
static const char *first_complaint(struct call *call)
{
    char *text = call->complaints.text;
    if (text == NULL || text[0] == 0)
        return "no message";
    text[strcspn(text, "\n")] = 0;
    for (char *at = text; *at != 0; at++)
        *at = is_printable_byte((unsigned char)*at) ? *at : '?';
    return text;
}

static void call_free(struct call *call)
{
    free(call->answers.text);
    free(call->complaints.text);
}

/* Run it until it ends or its time is over. Always free it. */
static int call_run(struct call *call, const char *const *words, struct hvd_error *err)
{
    *call = (struct call){.answers = {.fd = -1}, .complaints = {.fd = -1}};
    int rc = start(call, words, err);
    if (rc == HVD_OK && (collect(call) != HVD_OK || make_room(&call->answers) != HVD_OK))
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for what %s says", words[0]);
    end(call);
    if (rc == HVD_OK)
        call->answers.text[call->answers.length] = 0;
    return rc;
}

/* ---- The two commands ---------------------------------------------------------------------------- */

/* Which nodes has the job? The caller frees *nodesp. */
static int find_nodes(const char *job, char **nodesp, struct hvd_error *err)
{
    char number[64];
    snprintf(number, sizeof(number), "--jobs=%.*s", (int)strcspn(job, "."), job);
    const char *const words[] = {"squeue", "--noheader", "--states=RUNNING", "--format=%N", number, NULL};
    struct call call;
    int rc = call_run(&call, words, err);
    if (rc == HVD_OK) {
        call.answers.text[strcspn(call.answers.text, "\n")] = 0;
        if (node_list_count(call.answers.text) == 0)
            rc =
                error_set(err, HVD_ERR_STATE,
                          "no rank of the job %.100s runs on this node, or none that you may look at; squeue "
                          "finds no such Slurm job that runs: %.200s",
                          job, first_complaint(&call));
    }
    if (rc == HVD_OK) {
        *nodesp = call.answers.text;
        call.answers.text = NULL;
    }
    call_free(&call);
    return rc;
}

/* One task a node, beside the ranks, which does not wait for others. */
static int run_on_nodes(struct call *call, const char *job, const char *nodes, struct hvd_error *err)
{
    char program[PATH_MAX] = "";
    char number[64], count[32];
    snprintf(number, sizeof(number), "--jobid=%.*s", (int)strcspn(job, "."), job);
    snprintf(count, sizeof(count), "--nodes=%ld", node_list_count(nodes));
    const char *const words[] = {"srun",
                                 number,
                                 count,
                                 "--ntasks-per-node=1",
                                 "--mpi=none",
                                 "--overlap",
                                 "--cpu-bind=none",
                                 "--export=ALL",
                                 "--no-kill",
                                 "--wait=0",
                                 "--input=none",
                                 "--kill-on-bad-exit=0",
                                 program,
                                 "ps",
                                 "--node",
                                 "--encoded",
                                 job,
                                 NULL};
    if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
        return error_set_errno(err, "the name of this program cannot be read in /proc");
    return call_run(call, words, err);
}

int nodes_ask(const char *job, struct ranks *ranks, struct records *records, struct hvd_error *err)
{
    struct call call = {.pid = 0};
    char *nodes = NULL;
    int rc = find_nodes(job, &nodes, err);
    if (rc == HVD_OK)
        rc = run_on_nodes(&call, job, nodes, err);
    if (rc == HVD_OK) {
        rc = records_read(call.answers.text, nodes, clock_us(), ranks, records);
        if (rc == HVD_ERR_INVALID)
            error_set(err, rc, "a node of the job %.100s has another version of hvdinfo", job);
        else if (rc != HVD_OK)
            error_set(err, rc, "no memory for the ranks of the job %.100s", job);
        else if (records->answered == 0)
            rc = error_set(err, HVD_ERR_STATE, "no node of the job %.100s answers: %.300s", job,
                           first_complaint(&call));
    }
    call_free(&call);
    free(nodes);
    return rc;
}
