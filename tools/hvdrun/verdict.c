/* verdict.c: record what happened to each rank, and find the first failure. */
#include "config.h"

#include "tools/hvdrun/verdict.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "options/parse.h"

enum cause {
    CAUSE_NONE,
    CAUSE_ENDED,
    CAUSE_ABORTED,
    CAUSE_NOT_JOINED,
    CAUSE_NOT_STARTED,
    CAUSE_INTERRUPTED,
    CAUSE_BROKEN
};

struct rank_state {
    pid_t pid;
    bool started, connected, finalized, ended;
    int wait_status;
    enum verdict_stage stage; /* when it ended */
};

struct verdict {
    int size;
    char host[256];
    int64_t grace_us;
    enum cause cause; /* the first failure */
    int rank;         /* the rank that failed first, or -1 */
    int waiting_rank; /* NOT_JOINED: a rank that waits for [rank] */
    bool rest_ended;  /* what has not ended was killed at once */
    uint64_t sweep;   /* ENDED: the reaper's pass that found it */
    int number;       /* ABORTED: status; NOT_STARTED: errno; INTERRUPTED: signal */
    char text[512];   /* ABORTED: message; NOT_STARTED: command; BROKEN: sentence */
    struct rank_state rank_states[];
};

struct verdict *verdict_create(int size, const char *host, int64_t grace_us)
{
    struct verdict *verdict = calloc(1, sizeof(*verdict) + (size_t)size * sizeof(verdict->rank_states[0]));
    if (verdict == NULL)
        return NULL;
    verdict->size = size;
    verdict->grace_us = grace_us;
    verdict->rank = -1;
    snprintf(verdict->host, sizeof(verdict->host), "%s", host);
    return verdict;
}

void verdict_destroy(struct verdict *verdict)
{
    free(verdict);
}

/* Only the first failure counts. */
static bool blame(struct verdict *verdict, enum cause cause, int rank, int number, const char *text)
{
    if (verdict->cause != CAUSE_NONE)
        return false;
    verdict->cause = cause;
    verdict->rank = rank;
    verdict->number = number;
    snprintf(verdict->text, sizeof(verdict->text), "%s", text);
    return true;
}

static bool left_without_joining(const struct rank_state *state)
{
    return state->ended && !state->connected && WIFEXITED(state->wait_status) &&
           WEXITSTATUS(state->wait_status) == 0;
}

/* A connected rank waits for all ranks of the job sooner or later. A rank that exited without joining never
 * joins. */
static void blame_absent_rank(struct verdict *verdict)
{
    int absent = -1;
    int waiting = -1;
    if (verdict->cause != CAUSE_NONE)
        return;
    for (int rank = verdict->size - 1; rank >= 0; rank--) {
        const struct rank_state *state = &verdict->rank_states[rank];
        if (left_without_joining(state))
            absent = rank;
        if (state->connected && !state->finalized && !state->ended)
            waiting = rank;
    }
    if (absent < 0 || waiting < 0)
        return;
    blame(verdict, CAUSE_NOT_JOINED, absent, 0, "");
    verdict->waiting_rank = waiting;
}

void verdict_started(struct verdict *verdict, int rank, pid_t pid)
{
    verdict->rank_states[rank].pid = pid;
    verdict->rank_states[rank].started = true;
}

void verdict_connected(struct verdict *verdict, int rank)
{
    verdict->rank_states[rank].connected = true;
    verdict->rank_states[rank].finalized = false;
    blame_absent_rank(verdict);
}

void verdict_finalized(struct verdict *verdict, int rank)
{
    verdict->rank_states[rank].finalized = true;
}

int verdict_deserter_count(const struct verdict *verdict)
{
    int count = 0;
    for (int rank = 0; rank < verdict->size; rank++) {
        const struct rank_state *state = &verdict->rank_states[rank];
        count += state->connected && !state->finalized && state->ended;
    }
    return count;
}

void verdict_ended(struct verdict *verdict, int rank, int wait_status, enum verdict_stage stage,
                   uint64_t sweep)
{
    struct rank_state *state = &verdict->rank_states[rank];
    state->ended = true;
    state->wait_status = wait_status;
    state->stage = stage;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
        blame_absent_rank(verdict);
        return;
    }
    bool same_look = verdict->cause == CAUSE_ENDED && verdict->sweep == sweep;
    if (same_look && WIFSIGNALED(wait_status) && WIFEXITED(verdict->rank_states[verdict->rank].wait_status))
        verdict->cause = CAUSE_NONE;
    if (blame(verdict, CAUSE_ENDED, rank, 0, ""))
        verdict->sweep = sweep;
}

void verdict_aborted(struct verdict *verdict, int rank, int status, const char *text)
{
    blame(verdict, CAUSE_ABORTED, rank, status, text);
}

void verdict_not_started(struct verdict *verdict, int rank, const char *command, int error_number)
{
    verdict->rank_states[rank].ended = true;
    blame(verdict, CAUSE_NOT_STARTED, rank, error_number, command);
}

void verdict_interrupted(struct verdict *verdict, int signal_number)
{
    blame(verdict, CAUSE_INTERRUPTED, -1, signal_number, "");
}

void verdict_broken(struct verdict *verdict, const char *sentence)
{
    blame(verdict, CAUSE_BROKEN, -1, 0, sentence);
}

void verdict_rest_ended(struct verdict *verdict)
{
    verdict->rest_ended = true;
}

bool verdict_is_failure(const struct verdict *verdict)
{
    return verdict->cause != CAUSE_NONE;
}

bool verdict_may_restart(const struct verdict *verdict)
{
    return verdict->cause != CAUSE_NONE && verdict->cause != CAUSE_NOT_STARTED &&
           verdict->cause != CAUSE_INTERRUPTED;
}

int verdict_exit_status(const struct verdict *verdict)
{
    int wait_status = 0;
    switch (verdict->cause) {
    case CAUSE_NONE:
        return 0;
    case CAUSE_ENDED:
        wait_status = verdict->rank_states[verdict->rank].wait_status;
        return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    case CAUSE_ABORTED:
        /* an exit status keeps only 8 bits, and 256 must not look like success */
        return verdict->number != 0 && (verdict->number & 0xff) == 0 ? 1 : verdict->number & 0xff;
    case CAUSE_NOT_STARTED:
        return verdict->number == ENOENT ? 127 : 126;
    case CAUSE_INTERRUPTED:
        return 128 + verdict->number;
    case CAUSE_NOT_JOINED:
    case CAUSE_BROKEN:
        break;
    }
    return 1;
}

/* A text of limited size that is appended to. */
struct verdict_line {
    char *text;
    size_t used, bytes;
};

static void add(struct verdict_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct verdict_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int added = vsnprintf(line->text + line->used, line->bytes - line->used, format, arguments);
    va_end(arguments);
    if (added > 0)
        line->used += (size_t)added < line->bytes - line->used ? (size_t)added : line->bytes - line->used - 1;
}

static void add_signal(struct verdict_line *line, int number)
{
    add(line, "signal %d (%s)", number, strsignal(number));
}

static void add_rank(struct verdict_line *line, const struct verdict *verdict, int rank)
{
    add(line, "rank %d (%s, pid %d)", rank, verdict->host, (int)verdict->rank_states[rank].pid);
}

static void add_first(struct verdict_line *line, const struct verdict *verdict)
{
    int wait_status = 0;
    switch (verdict->cause) {
    case CAUSE_NONE:
        break;
    case CAUSE_ENDED:
        wait_status = verdict->rank_states[verdict->rank].wait_status;
        add_rank(line, verdict, verdict->rank);
        if (WIFSIGNALED(wait_status)) {
            add(line, " was killed by ");
            add_signal(line, WTERMSIG(wait_status));
            add(line, "%s", WCOREDUMP(wait_status) ? " and dumped core" : "");
        } else {
            add(line, " exited with status %d", WEXITSTATUS(wait_status));
        }
        break;
    case CAUSE_ABORTED:
        add_rank(line, verdict, verdict->rank);
        add(line, " aborted the job with status %d", verdict->number);
        if (verdict->text[0] != 0)
            add(line, ": %s", verdict->text);
        break;
    case CAUSE_NOT_JOINED:
        add_rank(line, verdict, verdict->rank);
        add(line, " exited with status 0 before it joined the job, and rank %d would wait for it for ever",
            verdict->waiting_rank);
        break;
    case CAUSE_NOT_STARTED:
        add(line, "rank %d could not be started: %s: %s", verdict->rank, verdict->text,
            strerror(verdict->number));
        break;
    case CAUSE_INTERRUPTED:
        add(line, "interrupted by ");
        add_signal(line, verdict->number);
        break;
    case CAUSE_BROKEN:
        add(line, "%s", verdict->text);
        break;
    }
}

/* What the ranks other than the first failure did. */
struct others {
    int count;      /* that were started */
    int finished;   /* on their own, with status 0 */
    int failed;     /* on their own, with another status or by a signal */
    int terminated; /* after SIGTERM */
    int killed;     /* by SIGKILL, after the grace period */
    int rest;       /* killed at once */
    int running;    /* still running: they could not be killed */
};

static struct others count_others(const struct verdict *verdict)
{
    struct others others = {0};
    for (int rank = 0; rank < verdict->size; rank++) {
        const struct rank_state *state = &verdict->rank_states[rank];
        if (rank == verdict->rank || !state->started)
            continue;
        others.count++;
        if (!state->ended && verdict->rest_ended)
            others.rest++;
        else if (!state->ended)
            others.running++;
        else if (state->stage == VERDICT_KILL_SENT && WIFSIGNALED(state->wait_status) &&
                 WTERMSIG(state->wait_status) == 9)
            others.killed++;
        else if (state->stage != VERDICT_RUNNING)
            others.terminated++;
        else if (state->wait_status == 0)
            others.finished++;
        else
            others.failed++;
    }
    return others;
}

struct rank_outcome {
    int count;
    const char *did; /* after "the other rank" or "2" */
    const char *why;
};

static void add_others(struct verdict_line *line, const struct verdict *verdict)
{
    char grace[32];
    char why_killed[96];
    struct others others = count_others(verdict);
    format_time(verdict->grace_us, grace, sizeof(grace));
    snprintf(why_killed, sizeof(why_killed), " by SIGKILL, not having ended within %s", grace);
    const struct rank_outcome parts[] = {
        {others.finished, "finished", ""},
        {others.failed, "failed as well", ""},
        {others.terminated, others.terminated == 1 ? "was terminated" : "were terminated", ""},
        {others.killed, others.killed == 1 ? "was ended" : "were ended", why_killed},
        {others.rest, others.rest == 1 ? "was killed" : "were killed", ""},
        {others.running, "cannot be ended", ""}};
    const char *other = verdict->rank < 0 ? "" : "other ";
    const char *between = "";
    if (others.count == 0)
        return;
    add(line, "; ");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const struct rank_outcome *part = &parts[i];
        if (part->count == 0)
            continue;
        if (part->count == others.count && part->count == 1)
            add(line, "the %srank %s%s", other, part->did, part->why);
        else if (part->count == others.count)
            add(line, "the %s%d ranks %s%s", other, part->count, part->did, part->why);
        else
            add(line, "%s%d %s%s", between[0] == 0 ? "of the others " : between, part->count, part->did,
                part->why);
        between = ", ";
    }
}

void verdict_sentence(const struct verdict *verdict, char *text, size_t text_bytes)
{
    struct verdict_line line = {text, 0, text_bytes};
    text[0] = 0;
    if (verdict->cause == CAUSE_NONE)
        return;
    add_first(&line, verdict);
    add_others(&line, verdict);
}
