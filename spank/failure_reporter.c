/* failure_reporter.c: report to srun that the step begins, and tasks that fail. */
#include "config.h"
#include "spank/failure_reporter.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/process_stat.h"
#include "spank/failure_child.h"
#include "spank/srun_epochs.h"
#include "spank/placement.h"
#include "spank/task_traces.h"
#include "trace/flight_memory.h"
#include "spank/step.h"

#define WAIT_US   INT64_C(2000000)
#define SPREAD_US INT64_C(4000) /* in which slurmstepd kills all tasks of a node */

/* How many tasks of a node are looked at, one by one as they fail, until one is found that failed by itself
 * and not because another rank was lost. */
#define MOST_LOOKS 4

/* Global, because SPANK passes no data of a plug-in from one call to the next. */
static struct {
    int task_count; /* of this node */
    pid_t *pids;    /* [task_count]: of the tasks that run, otherwise 0; NULL: not known */
    int64_t start_us;
    struct step_user user;
    char host[INET6_ADDRSTRLEN]; /* srun's address */
    int port;                    /* 0: srun does not listen, or cannot be reached */
    char token[FAILURE_TOKEN_BYTES];
    int ended, looks;
    int uncounted;   /* failures that srun has not been told of */
    int first_index; /* of the task of this node that failed first; -1: none has */
    struct failure_report first;
    bool node_killed;   /* that one was killed, and all others with it */
    bool told;          /* srun knows a task of this node that failed by itself */
    bool deserter_told; /* it knows one that left others */
    bool absent_told;   /* it knows one that ended well before hvd_init */
    bool named;         /* a task was named on the terminal */
    bool elastic;       /* srun must know how each task ended */
} reporter = {.first_index = -1};

/* srun knows by this which nodes have the plug-in, and the user which do not reach srun. The child ends
 * within FAILURE_SEND_US; slurmstepd reaps it when it waits for its tasks. */
static void tell_of_begin(spank_t spank)
{
    uint32_t index = 0;
    struct failure_task task = {
        .report = {.kind = FAILURE_BEGINS, .size = 1}, .host = reporter.host, .port = reporter.port};
    struct user_child child = {.user = reporter.user,
                               .keep = {STDERR_FILENO},
                               .keep_count = 1,
                               .work = failure_child_begin,
                               .arg = &task};
    if (spank_get_item(spank, S_JOB_NODEID, &index) != ESPANK_SUCCESS || index >= FAILURE_MAX_SIZE)
        return;
    const char *nodes = environment_value(step_environment(spank), "SLURM_STEP_NODELIST");
    if (nodes != NULL && strlen(nodes) < sizeof(task.report.nodes))
        memcpy(task.report.nodes, nodes, strlen(nodes) + 1);
    task.report.node_index = (int)index;
    memcpy(task.token, reporter.token, sizeof(task.token));
    user_child_fork(&child);
}

void failure_reporter_begin(spank_t spank)
{
    struct hvd_error err;
    uint32_t count = 0;
    char *const *environment = step_environment(spank);
    const char *listener = environment_value(environment, FAILURE_REPORT_VARIABLE);
    reporter.start_us = clock_us();
    const char *host = environment_value(environment, "SLURM_SRUN_COMM_HOST");
    if (host == NULL || listener == NULL ||
        spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &count) != ESPANK_SUCCESS ||
        step_user_find(spank, &reporter.user, &err) != HVD_OK ||
        !failure_report_parse_variable(listener, &reporter.port, reporter.token))
        return;
    snprintf(reporter.host, sizeof(reporter.host), "%s", host);
    reporter.task_count = (int)count;
    reporter.pids = calloc(count, sizeof(*reporter.pids));
    reporter.elastic = environment_value(environment, EPOCHS_PORT_VARIABLE) != NULL;
    task_traces_make(reporter.task_count);
    tell_of_begin(spank);
}

void failure_reporter_task_begins(int index, pid_t pid)
{
    if (reporter.pids != NULL && index >= 0 && index < reporter.task_count)
        reporter.pids[index] = pid;
}

bool failure_reporter_ask(char answer[FAILURE_ANSWER_BYTES])
{
    struct failure_task task = {
        .report = {.kind = FAILURE_ASKS, .size = 1}, .host = reporter.host, .port = reporter.port};
    struct user_child child = {.user = reporter.user, .work = failure_child_ask, .arg = &task};
    int told = FAILURE_NOT_TOLD;
    if (reporter.port == 0)
        return false;
    void *shared =
        mmap(NULL, FAILURE_ANSWER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return false;
    task.answer = shared;
    memcpy(task.token, reporter.token, sizeof(task.token));
    pid_t pid = user_child_fork(&child);
    if (pid > 0 && !user_child_wait(pid, clock_us() + FAILURE_ASK_US + WAIT_US, &told))
        told = FAILURE_NOT_TOLD;
    memcpy(answer, shared, FAILURE_ANSWER_BYTES);
    answer[FAILURE_ANSWER_BYTES - 1] = 0;
    munmap(shared, FAILURE_ANSWER_BYTES);
    return told == FAILURE_TOLD;
}

/* ---- The child -------------------------------------------------------------------------------------- */

static void fill_report(spank_t spank, const struct task_end *end, struct failure_report *report)
{
    pid_t pid = 0;
    spank_get_item(spank, S_TASK_PID, &pid);
    *report = (struct failure_report){.rank = end->rank,
                                      .size = end->size > end->rank ? end->size : end->rank + 1,
                                      .pid = pid,
                                      .after_us = clock_us() - reporter.start_us,
                                      .end.wait_status = end->wait_status};
    snprintf(report->node, sizeof(report->node), "%s", end->node);
    placement_gpu_text(end->index, report->facts.gpu, sizeof(report->facts.gpu));
}

static enum failure_told run_child(int index, const struct failure_report *report, bool always)
{
    struct task_traces traces = task_traces_of(index);
    struct failure_task task = {.report = *report,
                                .has_flight = traces.flight >= 0,
                                .has_error = traces.error >= 0,
                                .always = always,
                                .host = reporter.host,
                                .port = reporter.port};
    struct user_child child = {.user = reporter.user, .work = failure_child_main, .arg = &task};
    int told = FAILURE_NOT_TOLD;
    memcpy(task.token, reporter.token, sizeof(task.token));
    task.report.failed_count = reporter.uncounted;
    task.report.follows = index != reporter.first_index;
    task.report.node_killed = reporter.node_killed;
    if (task.has_flight)
        child.keep[child.keep_count++] = traces.flight;
    if (task.has_error)
        child.keep[child.keep_count++] = traces.error;
    pid_t pid = user_child_fork(&child);
    if (pid < 0 || !user_child_wait(pid, clock_us() + WAIT_US, &told))
        told = FAILURE_NOT_TOLD;
    if (told == FAILURE_TOLD)
        reporter.uncounted = 0;
    if (told == FAILURE_NOT_TOLD)
        reporter.port = 0; /* do not wait again for each task */
    return (enum failure_told)told;
}

/* ---- Which tasks are looked at ---------------------------------------------------------------------- */

static void name_on_terminal(const struct failure_report *report)
{
    int number = WTERMSIG(report->end.wait_status);
    if (reporter.named || !WIFSIGNALED(report->end.wait_status))
        return;
    reporter.named = true;
    slurm_spank_log("hvd: rank %d (%s) was killed by signal %d (%s)", report->rank, report->node, number,
                    strsignal(number));
}

/* Are all tasks killed that have not been waited for? False: there are none. */
static bool others_are_killed(void)
{
    bool any = false;
    for (int i = 0; reporter.pids != NULL && i < reporter.task_count; i++) {
        struct process_stat stat;
        if (reporter.pids[i] == 0)
            continue;
        if (!process_stat_read(reporter.pids[i], &stat) || !verdict_is_sigkill(stat.wait_status))
            return false;
        any = true;
    }
    return any;
}

/* scancel of a step, or SIGTERM to srun, is SIGKILL for its tasks, and slurmstepd sends it to one after the
 * other. The others do not end for the sake of this one: srun has not been told of its end yet. */
static bool is_killed_with_others(int wait_status)
{
    if (!verdict_is_sigkill(wait_status))
        return false;
    int64_t deadline_us = clock_us() + SPREAD_US;
    bool all = others_are_killed();
    while (!all && clock_us() < deadline_us) {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        all = others_are_killed();
    }
    return all;
}

/* It exited with 0: do others wait for it, or will they in hvd_init? Only the first such task is reported. */
static void note_success(int index, const struct failure_report *report)
{
    struct task_traces traces = task_traces_of(index);
    bool joined = traces.flight >= 0 && flight_memory_joined(traces.flight);
    bool *toldp = joined ? &reporter.deserter_told : &reporter.absent_told;
    bool absent = traces.flight >= 0 && !joined && reporter.first_index < 0;
    bool keeps_others = absent || (joined && flight_memory_stays(traces.flight));
    if (reporter.port != 0 && ((keeps_others && !*toldp) || reporter.elastic))
        *toldp = run_child(index, report, true) == FAILURE_TOLD;
}

static void note_failure(int index, const struct failure_report *report)
{
    reporter.uncounted++;
    if (reporter.first_index < 0) {
        /* an elastic step goes on without a node whose tasks are killed */
        reporter.node_killed = !reporter.elastic && is_killed_with_others(report->end.wait_status);
        reporter.first_index = index;
        reporter.first = *report;
    }
    bool look = reporter.elastic || (!reporter.told && reporter.looks++ < MOST_LOOKS);
    if (look && reporter.port != 0 && run_child(index, report, reporter.elastic) == FAILURE_TOLD)
        reporter.told = true;
    if (reporter.port == 0)
        name_on_terminal(report);
}

void failure_reporter_task_ended(spank_t spank, const struct task_end *end)
{
    struct failure_report report;
    bool last = ++reporter.ended == reporter.task_count;
    failure_reporter_task_begins(end->index, 0);
    fill_report(spank, end, &report);
    if (end->wait_status != 0)
        note_failure(end->index, &report);
    else
        note_success(end->index, &report);
    /* how many have failed; and if all did because another rank was lost, perhaps no other node knows why */
    bool untold = reporter.first_index >= 0 && (reporter.uncounted > 0 || !reporter.told);
    if (last && untold && reporter.port != 0)
        run_child(reporter.first_index, &reporter.first, true);
}
