/* hvdepochs.c: the driver of an elastic step's epochs, beside srun, whose plug-in starts it as the user and
 * waits for its verdict:
 *
 *     hvdepochs SLOTS FEWEST SPARES JOB.STEP
 *
 * Its descriptors are what spank/srun_epochs.h says. The end of standard input says that the step has ended.
 */
#include "config.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/secret.h"
#include "options/parse.h"
#include "pmix_shim/epoch_server.h"
#include "pmix_shim/provider.h"
#include "spank/srun.h"
#include "spank/srun_epochs.h"
#include "spank/step_reports.h"

/* How long the last reports of a step are waited for. */
#define READ_US INT64_C(300000)

/* How long the ends of lost tasks are waited for, once all others have ended: word of them may come late. */
#define LOST_US INT64_C(2000000)

extern char **environ;

struct step {
    int slots, fewest, spares;
    char *id;                        /* of Slurm */
    bool *ended;                     /* [slots]: srun has heard so from the task's node */
    int64_t left_us;                 /* since when only lost tasks have not ended; 0: others have not */
    char token[FAILURE_TOKEN_BYTES]; /* of the reports */
    struct epoch_server *server;
    uint32_t epoch; /* the last that was told of */
    struct step_reports reports;
    struct hvd_log log;
};

static bool read_number(const char *text, int least, int most, int *numberp)
{
    int64_t number = parse_count_or(text, -1);
    *numberp = (int)number;
    return number >= least && number <= most;
}

static int read_arguments(struct step *step, int argc, char **argv, struct hvd_error *err)
{
    const char *reports = getenv(FAILURE_REPORT_VARIABLE);
    int port = 0;
    if (argc != 5 || !read_number(argv[1], 1, FAILURE_MAX_SIZE, &step->slots) ||
        !read_number(argv[2], 1, step->slots, &step->fewest) ||
        !read_number(argv[3], 0, step->slots - step->fewest, &step->spares))
        return error_set(err, HVD_ERR_INVALID,
                         "expected SLOTS FEWEST SPARES JOB.STEP; srun starts this program for --hvd-min");
    if (reports == NULL || !failure_report_parse_variable(reports, &port, step->token))
        return error_set(err, HVD_ERR_INVALID, "%s is not as srun sets it", FAILURE_REPORT_VARIABLE);
    step->id = argv[4];
    step->ended = calloc((size_t)step->slots, sizeof(*step->ended));
    return step->ended != NULL ? HVD_OK
                               : error_set(err, HVD_ERR_NO_MEMORY, "no memory for %d ranks", step->slots);
}

/* As slurmstepd hands it to the tasks. */
static const char *secret_of_step(void)
{
    const char *own = getenv(SECRET_VARIABLE);
    return own != NULL && !secret_is_drawn(own) ? own : getenv(SRUN_SECRET_VARIABLE);
}

static int open_server(struct step *step, struct hvd_error *err)
{
    static const int listener = EPOCHS_LISTENER_FD;
    static char name[] = "srun";
    uint32_t start = 0;
    step->log = (struct hvd_log){LOG_WARN, log_to_stderr, name};
    const char *secret = secret_of_step();
    int rc = secret != NULL ? provider_read_epoch(NULL, &start, err)
                            : error_set(err, HVD_ERR_INVALID, "%s is not set", SRUN_SECRET_VARIABLE);
    const struct elastic_job job = {.slots = step->slots,
                                    .members = step->slots,
                                    .fewest = step->fewest,
                                    .spares = step->spares,
                                    .start = start,
                                    .secret = secret,
                                    .sees_no_ends = true,
                                    .all_ask = true,
                                    .listener = &listener,
                                    .log = &step->log};
    return rc == HVD_OK ? epoch_server_open(&step->server, &job, err) : rc;
}

/* ---- While the step runs --------------------------------------------------------------------------- */

/* The ranks that are lost, "3, 7 and 11 others" if there are many. */
static void list_lost(const struct step *step, char *text, size_t text_bytes)
{
    int shown = 0, others = 0;
    size_t used = 0;
    text[0] = 0;
    for (int slot = 0; slot < step->slots; slot++) {
        if (epoch_server_has(step->server, slot))
            continue;
        if (shown == 8)
            others++;
        else
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%d", shown++ == 0 ? "" : ", ", slot);
    }
    if (others > 0)
        snprintf(text + used, text_bytes - used, " and %d others", others);
}

static void tell_of_epoch(struct step *step)
{
    char lost[160], spare[40] = "";
    int size = epoch_server_members(step->server);
    int lost_count = step->slots - epoch_server_left(step->server);
    uint32_t epoch = epoch_server_epoch(step->server);
    if (epoch == step->epoch)
        return;
    step->epoch = epoch;
    list_lost(step, lost, sizeof(lost));
    if (step->spares > 0)
        snprintf(spare, sizeof(spare), "; spares left: %d", epoch_server_left(step->server) - size);
    if (lost_count > 0)
        fprintf(stderr, "hvd: %d of %d ranks go on as epoch %u, without rank%s %s%s\n", size, step->slots,
                epoch, lost_count == 1 ? "" : "s", lost, spare);
}

/* Its connection says so too, if it has one: a task may end before it asks for the first epoch. */
static void lose(const struct failure_report *report, void *arg)
{
    struct step *step = arg;
    if (report->rank >= step->slots)
        return;
    step->ended[report->rank] = true;
    epoch_server_lose(step->server, report->rank);
}

/* The processes of a node that is stopped as a whole keep their connections. */
static void lose_silent(const struct step *step)
{
    for (int slot = 0; slot >= 0;) {
        slot = epoch_server_take_silent(step->server);
        if (slot >= 0)
            epoch_server_lose(step->server, slot);
    }
}

/* ---- Tasks of which Slurm does not hear ------------------------------------------------------------- */

/* Have all tasks ended but some that are lost, whose node has vanished? */
static bool only_lost_are_left(const struct step *step)
{
    int lost = 0;
    for (int slot = 0; slot < step->slots; slot++) {
        if (!step->ended[slot] && epoch_server_has(step->server, slot))
            return false;
        lost += !step->ended[slot];
    }
    return lost > 0 && step->epoch > 0;
}

/* srun would wait until slurmctld gives the node up, five minutes and more. */
static void end_step(const struct step *step)
{
    char name[] = "scancel";
    char *const argv[] = {name, step->id, NULL};
    pid_t pid = -1;
    int status = posix_spawnp(&pid, name, NULL, NULL, argv, environ);
    if (status == 0)
        waitpid(pid, &status, 0);
    fprintf(stderr, "hvd: the ranks of epoch %u have ended, and nothing is heard of the others: %s %s%s\n",
            step->epoch, name, step->id,
            status == 0 ? " ends the step, for which Slurm takes its KillWait"
                        : ", which failed here, ends the step");
}

/* Returns when it will be due; INT64_MAX: nobody knows. */
static int64_t end_step_if_due(struct step *step)
{
    int64_t now_us = clock_us();
    if (step->left_us == INT64_MAX)
        return INT64_MAX; /* it was due */
    if (!only_lost_are_left(step))
        step->left_us = 0;
    else if (step->left_us == 0)
        step->left_us = now_us;
    if (step->left_us == 0)
        return INT64_MAX;
    if (now_us < step->left_us + LOST_US)
        return step->left_us + LOST_US;
    step->left_us = INT64_MAX;
    end_step(step);
    return INT64_MAX;
}

/* ---- The loop --------------------------------------------------------------------------------------- */

static void serve(struct step *step)
{
    struct pollfd wakers[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                              {.fd = epoch_server_fd(step->server), .events = POLLIN},
                              {.fd = EPOCHS_REPORTS_FD, .events = POLLIN}};
    step->reports.on_end = lose;
    step->reports.arg = step;
    while (wakers[0].revents == 0) {
        lose_silent(step);
        epoch_server_work(step->server);
        tell_of_epoch(step);
        int64_t due_us = end_step_if_due(step);
        int64_t silent_us = epoch_server_silent_us(step->server);
        due_us = silent_us < due_us ? silent_us : due_us;
        poll(wakers, sizeof(wakers) / sizeof(wakers[0]), due_us == INT64_MAX ? -1 : clock_ms_until(due_us));
        if (wakers[2].revents != 0)
            step_reports_take(&step->reports, EPOCHS_REPORTS_FD, step->token, clock_us() + READ_US);
    }
    while (step_reports_take(&step->reports, EPOCHS_REPORTS_FD, step->token, clock_us() + READ_US))
        continue;
}

/* ---- When it has ended ----------------------------------------------------------------------------- */

/* Was the slot lost before the last epoch, which did the work? */
static bool went_on_without(int slot, const void *arg)
{
    const struct step *step = arg;
    return step->epoch > 0 && !epoch_server_has_refused(step->server) &&
           !epoch_server_is_member(step->server, slot);
}

static void print(const char *line)
{
    fprintf(stderr, "%s\n", line);
}

/* Have all ranks of the last epoch exited with 0? */
static bool all_succeeded(const struct step *step)
{
    for (int slot = 0; slot < step->slots; slot++)
        if (!went_on_without(slot, step) && (slot >= step->reports.size || !step->reports.succeeded[slot]))
            return false;
    return true;
}

/* No report says so of the ranks of a node that has vanished: the last epoch has failed with them. */
static void lose_unheard(struct step *step)
{
    for (int slot = 0; slot < step->slots; slot++)
        if (!step->ended[slot] && !epoch_server_has(step->server, slot))
            step_reports_lose(&step->reports, slot, step->slots);
}

static int judge(struct step *step)
{
    const struct step_judge judge = {.went_on_without = went_on_without, .arg = step, .print = print};
    int status = step_reports_judge(&step->reports, &judge);
    if (status == 0 && step->left_us == INT64_MAX) {
        lose_unheard(step);
        status = step_reports_judge(&step->reports, &judge);
    }
    return status != 0 ? status : all_succeeded(step) ? 0 : EPOCHS_UNKNOWN;
}

int main(int argc, char **argv)
{
    struct step step = {.slots = 0};
    struct hvd_error err = {""};
    signal(SIGPIPE, SIG_IGN);
    descriptors_raise();
    int rc = read_arguments(&step, argc, argv, &err);
    if (rc == HVD_OK)
        rc = open_server(&step, &err);
    if (rc != HVD_OK) {
        fprintf(stderr, "hvdepochs: %s\n", err.text);
        return EPOCHS_UNKNOWN;
    }
    serve(&step);
    int status = judge(&step);
    step_reports_free(&step.reports);
    epoch_server_close(step.server);
    free(step.ended);
    return status;
}
