/* srun_watch.c: in srun: take the nodes' reports while the step runs, and act on them. */
#include "config.h"
#include "spank/srun_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/stack.h"
#include "spank/srun_controller.h"
#include "spank/srun_port.h"

#define READ_US     INT64_C(300000)  /* how long reports that are on their way are waited for */
#define SILENT_US   INT64_C(2000000) /* after the last node was heard of: what is missing then is told */
#define SPEAK_US    INT64_C(700000)  /* from the first failure to SIGTERM: others may fail too, and say why */
#define KILL_US     INT64_C(2000000) /* from SIGTERM to SIGKILL */
#define NAMES_BYTES 512

/* Global, because SPANK passes no data of a plug-in from one call to the next. */
static struct {
    int fd; /* -1: srun does not listen */
    char token[FAILURE_TOKEN_BYTES];
    struct step_reports reports; /* of the thread while it runs */
    struct watched_step step;
    pthread_t thread;
    int hold[2];        /* the thread ends when the second is closed; -1: it does not run */
    bool told_of_nodes; /* that are not like the others: the user was */
    bool looked;        /* the controller was asked, as a task was killed by SIGKILL */
    bool asked;         /* the step got SIGTERM */
    int64_t end_us;     /* when it gets that, or SIGKILL; INT64_MAX: no task failed early, or it got both */
    int64_t vain_us;    /* when it has waited too long for a task that never called hvd_init; INT64_MAX: it
                           does not */
    int64_t explain_us; /* when the user is told why srun still waits; INT64_MAX: never, or it was */
    struct failure_report told; /* explain_us: of a rank that had lost another one */
} watch = {.fd = -1, .hold = {-1, -1}, .end_us = INT64_MAX, .vain_us = INT64_MAX, .explain_us = INT64_MAX};

void srun_watch_listen(void)
{
    char variable[FAILURE_VARIABLE_BYTES];
    int port = 0;
    unsetenv(FAILURE_REPORT_VARIABLE); /* of an outer step */
    if (random_hex_draw(watch.token) < 0)
        return;
    watch.fd = srun_port_listen(&port);
    if (watch.fd < 0)
        return;
    snprintf(variable, sizeof(variable), "%d:%s", port, watch.token);
    setenv(FAILURE_REPORT_VARIABLE, variable, 1);
}

int srun_watch_fd(void)
{
    return watch.fd;
}

/* ---- The thread ------------------------------------------------------------------------------------- */

/* The first such end tells: a task that is killed while job and step run has failed. */
static void look_at_job(const struct failure_report *report)
{
    if (watch.looked || watch.asked || !verdict_is_sigkill(report->end.wait_status))
        return;
    watch.looked = true;
    srun_controller_ask_ended(&watch.step.id);
}

static void note_end(const struct failure_report *report, void *arg)
{
    (void)arg;
    look_at_job(report);
    if (report->end.told && watch.told.size == 0) {
        watch.told = *report;
        watch.explain_us = clock_us() + watch.step.explain_us;
    }
    if (watch.step.ends && report->end.wait_status != 0 && !report->end.joined && !report->end.told)
        watch.end_us = watch.end_us == INT64_MAX && !watch.asked ? clock_us() + SPEAK_US : watch.end_us;
}

/* The other ranks would wait in hvd_init, or for a rank of another library, until some time-out. */
static void end_step_if_due(void)
{
    if (clock_us() < watch.end_us)
        return;
    srun_controller_end_step(&watch.step.id, watch.asked);
    watch.end_us = watch.asked ? INT64_MAX : clock_us() + KILL_US;
    watch.asked = true;
}

/* A node may just be about to say that it no longer waits. */
static void end_wait_in_vain(void)
{
    bool ends = watch.step.ends && !watch.asked && watch.end_us == INT64_MAX;
    if (!ends || !step_reports_wait_in_vain(&watch.reports))
        watch.vain_us = INT64_MAX;
    else if (watch.vain_us == INT64_MAX)
        watch.vain_us = clock_us() + SPEAK_US;
    if (clock_us() < watch.vain_us)
        return;
    step_reports_blame_absent(&watch.reports);
    watch.end_us = clock_us();
}

/* When the user is told of nodes: once all have said that the step starts there, or the rest is given up. */
static int64_t nodes_due_us(void)
{
    const struct step_reports *reports = &watch.reports;
    if (watch.told_of_nodes || reports->begun_count == 0)
        return INT64_MAX;
    return reports->begun_count < reports->node_count ? reports->begun_us + SILENT_US : 0;
}

static void tell_of_silent(void)
{
    char names[NAMES_BYTES];
    int silent = step_reports_nodes(&watch.reports, NODE_SILENT, names, sizeof(names));
    if (silent == 0)
        return;
    slurm_spank_log(
        "hvd: %s %s not said that the plug-in is there, 2 s after %d of %d nodes have: a node that does not "
        "say itself that it cannot reach srun lacks spank_hvd.so or has an older one, or its plugstack.conf "
        "does not name it",
        names, silent == 1 ? "has" : "have", watch.reports.begun_count, watch.reports.node_count);
}

static void tell_of_other_version(void)
{
    char names[NAMES_BYTES];
    if (step_reports_nodes(&watch.reports, NODE_OTHER_VERSION, names, sizeof(names)) == 0)
        return;
    slurm_spank_log("hvd: the plug-in of %s has another version than srun's, which reads how a task ends "
                    "there, but not why: install the same hvd on all nodes",
                    names);
}

static void tell_of_nodes_if_due(void)
{
    if (clock_us() < nodes_due_us())
        return;
    watch.told_of_nodes = true;
    tell_of_other_version();
    tell_of_silent();
}

/* Slurm says nothing while it waits for a node that does not answer. */
static void explain_if_due(void)
{
    if (clock_us() < watch.explain_us)
        return;
    watch.explain_us = INT64_MAX;
    slurm_spank_log(
        "hvd: rank %d (%s) had lost another rank and ended, and srun still waits: for tasks that go "
        "on, or until Slurm gives up a node that does not answer (SlurmdTimeout); scancel %u.%u ends "
        "the step",
        watch.told.rank, watch.told.node, watch.step.id.job, watch.step.id.number);
}

/* Returns how long poll may sleep, in ms; -1: without a limit. */
static int sleep_ms(void)
{
    int64_t wake_us = nodes_due_us();
    wake_us = watch.vain_us < wake_us ? watch.vain_us : wake_us;
    wake_us = watch.explain_us < wake_us ? watch.explain_us : wake_us;
    wake_us = watch.end_us < wake_us ? watch.end_us : wake_us;
    return wake_us == INT64_MAX ? -1 : clock_ms_until(wake_us);
}

static void *take_reports(void *arg)
{
    (void)arg;
    struct pollfd wakers[] = {{.fd = watch.fd, .events = POLLIN}, {.fd = watch.hold[0], .events = POLLIN}};
    while (wakers[1].revents == 0) {
        poll(wakers, sizeof(wakers) / sizeof(wakers[0]), sleep_ms());
        if (wakers[0].revents != 0)
            step_reports_take(&watch.reports, watch.fd, watch.token, clock_us() + READ_US);
        tell_of_nodes_if_due();
        end_wait_in_vain();
        end_step_if_due();
        explain_if_due();
    }
    return NULL;
}

void srun_watch_begin(const struct watched_step *step)
{
    if (watch.fd < 0 || watch.hold[0] >= 0)
        return;
    watch.step = *step;
    watch.reports.node_count = step->node_count;
    watch.reports.on_end = note_end;
    if (pipe2(watch.hold, O_CLOEXEC) < 0)
        return;
    if (stack_create_thread(&watch.thread, take_reports, NULL) == 0)
        return;
    descriptors_close(&watch.hold[0]);
    descriptors_close(&watch.hold[1]);
}

/* ---- The end ---------------------------------------------------------------------------------------- */

const struct step_reports *srun_watch_end(void)
{
    if (watch.fd < 0)
        return NULL;
    if (watch.hold[1] >= 0) {
        descriptors_close(&watch.hold[1]);
        pthread_join(watch.thread, NULL);
        descriptors_close(&watch.hold[0]);
    }
    while (step_reports_take(&watch.reports, watch.fd, watch.token, clock_us() + READ_US))
        continue; /* a slow srun has not read all within that time */
    if (!watch.told_of_nodes)
        tell_of_other_version();
    descriptors_close(&watch.fd);
    watch.reports.job_ended = srun_controller_has_ended();
    return &watch.reports;
}

void srun_watch_free(void)
{
    step_reports_free(&watch.reports);
}
