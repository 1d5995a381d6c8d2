/* local_starter.c: starts ranks on this machine, by the reaper. */
#include "config.h"
#include "tools/hvdrun/local_starter.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/hvdrun/place_variables.h"

static void close_all(int fds[3])
{
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

static void fill_place(const struct local_starter *starter, const struct starter_rank *rank,
                       const struct launch_place *place, struct place_variables *variables)
{
    const struct place_of_epochs epochs = {.host = starter->epochs_host,
                                           .port = starter->epochs_port,
                                           .slots = starter->plan->size,
                                           .is_newcomer = rank->is_newcomer,
                                           .restarts = rank->restarts};
    place_variables_fill(variables, place, &epochs);
}

/* A rank that is started later has no place in the job of the PMIx server. */
int local_starter_start(struct local_starter *starter, const struct starter_rank *rank,
                        const struct launch_place *place, struct hvd_error *err)
{
    char **extra = NULL;
    struct place_variables variables;
    struct post_mortem_variables traces;
    struct reaper_rank start = {.rank = rank->rank, .again = rank->is_newcomer, .stdio_fds = {-1, -1, -1}};
    bool served = starter->server != NULL && !rank->is_newcomer;
    int status = served ? server_environment(starter->server, rank->rank, &extra, err) : HVD_OK;
    if (status == HVD_OK)
        status = starter->open_stdio(starter->arg, rank, start.stdio_fds, err);
    if (rank->is_newcomer)
        post_mortem_forget(starter->post_mortem, rank->rank);
    const struct plan_task *task = rank_places_task(starter->places, place->local_rank);
    start.environment[0] = extra;
    start.environment[1] = rank_places_environment(starter->places, place->local_rank);
    fill_place(starter, rank, place, &variables);
    start.environment[2] = variables.strings;
    post_mortem_fill(starter->post_mortem, rank->rank, &traces);
    start.environment[3] = traces.strings;
    start.cpus = task != NULL ? &task->cpus : NULL;
    start.mems = task != NULL ? &task->mems : NULL;
    if (status == HVD_OK)
        status = reaper_start(starter->reaper, &start, err);
    close_all(start.stdio_fds);
    server_environment_free(extra);
    return status;
}

static int start(void *state, const struct starter_rank *rank, struct hvd_error *err)
{
    const struct launch_place place = {rank->rank, rank->size, rank->rank, rank->size, 0, 1};
    return local_starter_start(state, rank, &place, err);
}

/* ---- Requests ------------------------------------------------------------------------------------- */

static void signal_all(void *state, int signal_number)
{
    const struct local_starter *starter = state;
    reaper_signal(starter->reaper, signal_number);
}

static void signal_rank(void *state, int rank, int signal_number)
{
    const struct local_starter *starter = state;
    reaper_signal_rank(starter->reaper, rank, signal_number);
}

static void end(void *state, int signal_number, int first)
{
    const struct local_starter *starter = state;
    post_mortem_tell_first(starter->post_mortem, first, starter->plan->size);
    reaper_end(starter->reaper, signal_number);
}

static void kill_all(void *state)
{
    const struct local_starter *starter = state;
    reaper_kill(starter->reaper);
}

static int clean(void *state)
{
    const struct local_starter *starter = state;
    return reaper_close(starter->reaper, starter->plan);
}

/* ---- Reports -------------------------------------------------------------------------------------- */

static int fd(const void *state)
{
    const struct local_starter *starter = state;
    return starter->reaper->fd;
}

static void describe_not_bound(const struct local_starter *starter, struct starter_report *report)
{
    char list[128];
    int rank = report->event.rank;
    const struct bitmap *cpus = &rank_places_task(starter->places, rank)->cpus;
    errno = report->event.number;
    error_set_errno(&report->why, "rank %d cannot be bound to CPUs %s", rank,
                    bitmap_text(cpus, list, sizeof(list)));
}

static void describe_end(const struct local_starter *starter, struct starter_report *report)
{
    const struct reaper_report *event = &report->event;
    report->end = (struct verdict_end){.wait_status = event->number,
                                       .stage = (enum verdict_stage)event->stage,
                                       .sweep = event->sweep,
                                       .at_us = event->at_us,
                                       .grace_us = event->grace_us};
    post_mortem_read_end(starter->post_mortem, event->rank, &report->end);
}

static int next(void *state, struct starter_report *report)
{
    const struct local_starter *starter = state;
    int rc = reaper_next(starter->reaper, &report->event);
    report->host = starter->host;
    if (rc > 0 && report->event.kind == REAPER_NOT_BOUND)
        describe_not_bound(starter, report);
    else if (rc > 0 && report->event.kind == REAPER_ENDED)
        describe_end(starter, report);
    return rc;
}

void local_starter_explain(const struct local_starter *starter, int rank, int place, int wait_status,
                           struct verdict_facts *facts, char crash[CRASH_TEXT_BYTES])
{
    const struct plan_task *task = rank < 0 ? NULL : rank_places_task(starter->places, place);
    if (task != NULL && task->gpu_count > 0)
        snprintf(facts->gpu, sizeof(facts->gpu), "GPU %s", task->gpu_ids[0]);
    post_mortem_read(starter->post_mortem, rank, wait_status, facts, crash);
}

static void explain(void *state, int rank, int wait_status, struct verdict_facts *facts,
                    char crash[CRASH_TEXT_BYTES])
{
    const struct local_starter *starter = state;
    local_starter_explain(starter, rank, rank, wait_status, facts, crash);
}

const struct starter_ops local_starter_ops = {.start = start,
                                              .signal = signal_all,
                                              .signal_rank = signal_rank,
                                              .end = end,
                                              .end_now = kill_all,
                                              .fd = fd,
                                              .next = next,
                                              .clean = clean,
                                              .explain = explain};
