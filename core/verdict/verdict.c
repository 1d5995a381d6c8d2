/* verdict.c: record what happened to each rank, and find the first failure. */
#include "verdict/verdict.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "trace/sentence.h"
#include "verdict/signal_name.h"

#define ERROR_BYTES    41   /* what is left of an exception in any case */
#define SHORTEST_FIRST 80   /* what the other ranks did leaves at least so much room for the first failure */
#define REASON_BYTES   33   /* of the reason of a failure, to find it again in an exception */
#define FAILED         ": " /* before that reason */

enum cause {
    CAUSE_NONE,
    CAUSE_ENDED,
    CAUSE_ABORTED,
    CAUSE_NOT_JOINED,
    CAUSE_LEFT_OTHERS,
    CAUSE_NOT_FINALIZED,
    CAUSE_NOT_STARTED,
    CAUSE_INTERRUPTED,
    CAUSE_LACKS,
    CAUSE_BROKEN
};

struct rank_state {
    const char *host;
    pid_t pid;
    bool started, connected, finalized, ended;
    bool before;   /* it ended before anything had failed */
    bool survived; /* it failed, and the job went on */
    bool left;     /* it was told to end, and the job went on */
    int64_t started_us;
    struct verdict_end end;
};

struct verdict {
    int size;
    enum cause cause; /* the first failure */
    int rank;         /* the rank that failed first, or -1 */
    int waiting_rank; /* NOT_JOINED, LEFT_OTHERS: a rank that waits for [rank] */
    bool rest_ended;  /* what has not ended was killed at once */
    bool any_order;   /* ends are not recorded in the order in which they happened */
    bool rest_unknown;
    int unknown_ended; /* rest_unknown: others that ended after the first failure */
    int number;        /* ABORTED: status; NOT_STARTED: errno; INTERRUPTED: signal */
    char text[512];    /* ABORTED: message; NOT_STARTED: command; LACKS, BROKEN: sentence */
    struct rank_state rank_states[];
};

struct verdict *verdict_create(int size)
{
    struct verdict *verdict = calloc(1, sizeof(*verdict) + (size_t)size * sizeof(verdict->rank_states[0]));
    if (verdict == NULL)
        return NULL;
    verdict->size = size;
    verdict->rank = -1;
    return verdict;
}

void verdict_destroy(struct verdict *verdict)
{
    free(verdict);
}

/* Only the first failure counts. */
static void blame(struct verdict *verdict, enum cause cause, int rank, int number, const char *text)
{
    if (verdict->cause != CAUSE_NONE)
        return;
    verdict->cause = cause;
    verdict->rank = rank;
    verdict->number = number;
    snprintf(verdict->text, sizeof(verdict->text), "%s", text);
}

static bool left_without_joining(const struct rank_state *state)
{
    return state->ended && !state->connected && state->end.wait_status == 0;
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

/* Does a process still start, or end with the job, in place of the one that failed first? What is known of
 * the latter stays. */
static bool is_too_late(const struct verdict *verdict, int rank)
{
    return verdict->cause == CAUSE_ENDED && verdict->rank == rank && verdict->rank_states[rank].ended;
}

void verdict_started(struct verdict *verdict, int rank, const char *host, pid_t pid, int64_t at_us)
{
    struct rank_state *state = &verdict->rank_states[rank];
    if (is_too_late(verdict, rank))
        return;
    if (state->ended) /* it is started again */
        *state = (struct rank_state){.ended = false};
    state->host = host;
    state->started_us = at_us;
    state->pid = pid;
    state->started = true;
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

/* Did a rank exit with 0 while others may have waited for it, and not because it had lost one itself? */
static bool deserts(const struct verdict_end *end)
{
    return end->wait_status == 0 && end->stayed && !end->told;
}

/* Did a rank end of its own will, if only by abort once it had been told of a loss? */
static bool ended_itself(const struct verdict_end *end)
{
    bool aborted = WIFSIGNALED(end->wait_status) && WTERMSIG(end->wait_status) == SIGABRT;
    return WIFEXITED(end->wait_status) || (aborted && end->told);
}

/* [rank] failed. Did it do so because an earlier rank had exited with 0 while this one waited for it? */
static bool blame_deserter(struct verdict *verdict, int rank)
{
    const struct verdict_end *end = &verdict->rank_states[rank].end;
    int first = -1;
    if (verdict->cause != CAUSE_NONE || end->lost[0] == 0 || !ended_itself(end))
        return false;
    for (int other = 0; other < verdict->size; other++) {
        const struct rank_state *state = &verdict->rank_states[other];
        bool deserted = state->ended && deserts(&state->end);
        if (deserted && (first < 0 || state->end.at_us < verdict->rank_states[first].end.at_us))
            first = other;
    }
    if (first < 0)
        return false;
    blame(verdict, CAUSE_LEFT_OTHERS, first, 0, "");
    verdict->waiting_rank = rank;
    return true;
}

/* Of ranks that ended at the same time, how likely did this one fail by itself? */
static int likelihood_of_cause(const struct verdict_end *end)
{
    if (WIFSIGNALED(end->wait_status))
        return 2;
    return end->told ? 0 : 1;
}

static bool outdoes_first(const struct verdict *verdict, const struct verdict_end *end)
{
    if (verdict->cause != CAUSE_ENDED)
        return false;
    const struct verdict_end *first = &verdict->rank_states[verdict->rank].end;
    return first->sweep == end->sweep && likelihood_of_cause(end) > likelihood_of_cause(first);
}

/* Is the rank of [end] to blame instead of the first? It is where the first had been told of a loss and this
 * one had not: others see a rank's loss before hvdrun reaps it. A rank that hvdrun has asked to end proves
 * nothing. */
static bool precedes_first(const struct verdict *verdict, const struct verdict_end *end)
{
    return (verdict->any_order || end->stage == VERDICT_RUNNING) && verdict->cause == CAUSE_ENDED &&
           !end->told && verdict->rank_states[verdict->rank].end.told;
}

/* Did a rank exit with 0 while others may have waited for it in PMIx? */
static bool vanishes(const struct rank_state *state)
{
    return state->end.wait_status == 0 && state->connected && !state->finalized && !state->end.joined;
}

/* Other ranks may hear of it, fail and be reaped before it is. One that hvdrun has asked to end proves
 * nothing.
 */
static void blame_vanished(struct verdict *verdict, int rank)
{
    bool first_exited =
        verdict->cause == CAUSE_ENDED && WIFEXITED(verdict->rank_states[verdict->rank].end.wait_status);
    if (first_exited && verdict->rank_states[rank].end.stage == VERDICT_RUNNING)
        verdict->cause = CAUSE_NONE;
    blame(verdict, CAUSE_NOT_FINALIZED, rank, 0, "");
}

static void blame_late_deserter(struct verdict *verdict, int rank)
{
    int waiting = verdict->rank;
    verdict->cause = CAUSE_NONE;
    blame(verdict, CAUSE_LEFT_OTHERS, rank, 0, "");
    verdict->waiting_rank = waiting;
}

void verdict_ended(struct verdict *verdict, int rank, const struct verdict_end *end)
{
    struct rank_state *state = &verdict->rank_states[rank];
    if (end->stage != VERDICT_RUNNING && is_too_late(verdict, rank))
        return;
    state->ended = true;
    state->before = verdict->cause == CAUSE_NONE;
    state->end = *end;
    if (end->wait_status == 0) {
        if (vanishes(state))
            blame_vanished(verdict, rank);
        if (deserts(end) && precedes_first(verdict, end))
            blame_late_deserter(verdict, rank);
        blame_absent_rank(verdict);
        return;
    }
    if (outdoes_first(verdict, end) || precedes_first(verdict, end))
        verdict->cause = CAUSE_NONE;
    if (!blame_deserter(verdict, rank))
        blame(verdict, CAUSE_ENDED, rank, 0, "");
}

void verdict_survived(struct verdict *verdict, int rank, const struct verdict_end *end)
{
    struct rank_state *state = &verdict->rank_states[rank];
    state->ended = state->survived = true;
    state->end = *end;
}

void verdict_left(struct verdict *verdict, int rank)
{
    verdict->rank_states[rank].ended = verdict->rank_states[rank].left = true;
}

/* The failure that the job survived first; -1: none. */
static int first_survived(const struct verdict *verdict)
{
    int first = -1;
    for (int rank = 0; rank < verdict->size; rank++) {
        const struct rank_state *state = &verdict->rank_states[rank];
        if (state->survived && (first < 0 || state->end.at_us < verdict->rank_states[first].end.at_us))
            first = rank;
    }
    return first;
}

void verdict_gave_up(struct verdict *verdict)
{
    for (int rank = first_survived(verdict); rank >= 0; rank = first_survived(verdict)) {
        const struct verdict_end end = verdict->rank_states[rank].end;
        verdict->rank_states[rank].survived = false;
        verdict_ended(verdict, rank, &end);
    }
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

void verdict_lacks(struct verdict *verdict, const char *sentence)
{
    blame(verdict, CAUSE_LACKS, -1, 0, sentence);
}

void verdict_rest_ended(struct verdict *verdict)
{
    verdict->rest_ended = true;
}

void verdict_hears_in_any_order(struct verdict *verdict)
{
    verdict->any_order = true;
}

void verdict_rest_unknown(struct verdict *verdict, int ended)
{
    verdict->rest_unknown = true;
    verdict->unknown_ended = ended;
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

int verdict_rank(const struct verdict *verdict)
{
    return verdict->rank;
}

int verdict_wait_status(const struct verdict *verdict)
{
    return verdict->cause == CAUSE_ENDED ? verdict->rank_states[verdict->rank].end.wait_status : 0;
}

int verdict_exit_status(const struct verdict *verdict)
{
    int wait_status = verdict_wait_status(verdict);
    switch (verdict->cause) {
    case CAUSE_NONE:
        return 0;
    case CAUSE_ENDED:
        return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    case CAUSE_ABORTED:
        /* an exit status keeps only 8 bits, and 256 must not look like success */
        return verdict->number != 0 && (verdict->number & 0xff) == 0 ? 1 : verdict->number & 0xff;
    case CAUSE_NOT_STARTED:
        return verdict->number == ENOENT ? 127 : 126;
    case CAUSE_INTERRUPTED:
        return 128 + verdict->number;
    case CAUSE_LACKS:
        return VERDICT_EXIT_LACKS;
    case CAUSE_NOT_JOINED:
    case CAUSE_LEFT_OTHERS:
    case CAUSE_NOT_FINALIZED:
    case CAUSE_BROKEN:
        break;
    }
    return 1;
}

static void add_duration(struct sentence *line, int64_t duration_us)
{
    if (duration_us < 1000000)
        sentence_add(line, "%d ms", (int)(duration_us / 1000));
    else
        sentence_add(line, "%.1f s", (double)duration_us / 1e6);
}

/* Let [text] end in "..." where it has [bytes] or more: before a whole character of UTF-8. */
static void cut(char *text, size_t bytes)
{
    size_t end = bytes - 4;
    if (strlen(text) < bytes)
        return;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, "...", 4);
}

/* What ended it, if that was a signal that no program raises by mistake; NULL: it was none. */
static const char *ended_by(const struct verdict_end *end)
{
    static const char outside[] = "from outside: cancelled, interrupted, or over a time limit";
    switch (WIFSIGNALED(end->wait_status) ? WTERMSIG(end->wait_status) : 0) {
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
        return outside;
    case SIGKILL:
        return end->job_ended ? outside : NULL;
    case SIGPIPE:
        return "the reader of its output has gone, such as head";
    default:
        return NULL;
    }
}

static void add_exit(struct sentence *line, const struct verdict_end *end, const struct verdict_facts *facts)
{
    char name[SIGNAL_NAME_BYTES];
    int wait_status = end->wait_status;
    if (WIFEXITED(wait_status)) {
        if (facts->error[0] != 0)
            sentence_add(line, "%s, ", facts->error);
        sentence_add(line, "exited with status %d", WEXITSTATUS(wait_status));
        return;
    }
    sentence_add(line, "killed by %s", signal_name(WTERMSIG(wait_status), name));
    if (facts->memory[0] != 0)
        sentence_add(line, " (%s)", facts->memory);
    if (ended_by(end) != NULL)
        sentence_add(line, " (%s)", ended_by(end));
    if (WCOREDUMP(wait_status))
        sentence_add(line, " (core dumped%s%s)", facts->core[0] != 0 ? ": " : "", facts->core);
}

static void add_end(struct sentence *line, const struct verdict_end *end, const struct verdict_facts *facts)
{
    if (end->host_lost)
        sentence_add(line, "was lost with its host");
    else
        add_exit(line, end, facts);
}

void verdict_describe_end(const struct verdict_end *end, char *text, size_t text_bytes)
{
    static const struct verdict_facts none;
    struct sentence line = {text, 0, text_bytes};
    if (end->wait_status != 0)
        add_end(&line, end, &none);
    else
        sentence_add(&line, "exited without leaving the job");
}

/* Had it left the job in order, so that its status is for who started the job? */
static bool left_in_order(const struct verdict *verdict)
{
    return verdict->cause == CAUSE_ENDED && verdict->rank_states[verdict->rank].end.left;
}

/* Where an exception has the reason for which the operation failed, that is not said twice. */
static void drop_repeated_reason(struct verdict_facts *facts)
{
    char reason[REASON_BYTES];
    char *failed = strstr(facts->doing, FAILED);
    if (failed == NULL)
        return;
    snprintf(reason, sizeof(reason), "%s", failed + strlen(FAILED));
    if (reason[0] != 0 && strstr(facts->error, reason) != NULL)
        *failed = 0;
}

static void add_doing(struct sentence *line, const struct verdict *verdict, const struct verdict_facts *facts)
{
    if (left_in_order(verdict))
        sentence_add(line, ", after hvd_shutdown");
    else if (facts->doing[0] != 0 && verdict->cause != CAUSE_LEFT_OTHERS)
        sentence_add(line, ", %s", facts->doing);
}

static void add_what_failed(struct sentence *line, const struct verdict *verdict,
                            const struct verdict_facts *facts)
{
    const struct rank_state *state = &verdict->rank_states[verdict->rank];
    switch (verdict->cause) {
    case CAUSE_ABORTED:
        sentence_add(line, "aborted the job with status %d", verdict->number);
        if (verdict->text[0] != 0)
            sentence_add(line, ": %s", verdict->text);
        break;
    case CAUSE_NOT_JOINED:
        sentence_add(line, "exited with status 0 before it joined the job, which rank %d waited for",
                     verdict->waiting_rank);
        break;
    case CAUSE_LEFT_OTHERS:
        sentence_add(line, "exited with status 0 while others waited for %s",
                     verdict->rank_states[verdict->waiting_rank].end.lost);
        break;
    case CAUSE_NOT_FINALIZED:
        sentence_add(
            line,
            "exited with status 0 without MPI_Finalize, which a rank must call that has called MPI_Init");
        break;
    default:
        add_end(line, &state->end, facts);
        break;
    }
    if (state->ended) {
        sentence_add(line, ", ");
        add_duration(line, state->end.at_us - state->started_us);
        sentence_add(line, " after start");
    }
    add_doing(line, verdict, facts);
}

static const char *manner_of_end(const struct verdict *verdict, const struct verdict_facts *facts)
{
    int wait_status = verdict_wait_status(verdict);
    if (wait_status != 0 && ended_by(&verdict->rank_states[verdict->rank].end) != NULL)
        return "was ended";
    bool as_meant = left_in_order(verdict) && WIFEXITED(wait_status) && facts->error[0] == 0;
    return as_meant ? "ended" : "failed";
}

static void add_first(struct sentence *line, const struct verdict *verdict, const struct verdict_facts *facts)
{
    char name[SIGNAL_NAME_BYTES];
    const struct rank_state *first = &verdict->rank_states[verdict->rank < 0 ? 0 : verdict->rank];
    switch (verdict->cause) {
    case CAUSE_NOT_STARTED:
        sentence_add(line, "hvdrun: rank %d could not be started: %s: %s", verdict->rank, verdict->text,
                     strerror(verdict->number));
        break;
    case CAUSE_INTERRUPTED:
        sentence_add(line, "hvdrun: interrupted by %s", signal_name(verdict->number, name));
        break;
    case CAUSE_LACKS:
    case CAUSE_BROKEN:
        sentence_add(line, "hvdrun: %s", verdict->text);
        break;
    default:
        sentence_add(line, "hvd: rank %d (%s, pid %d%s%s) %s first: ", verdict->rank, first->host,
                     (int)first->pid, facts->gpu[0] != 0 ? ", " : "", facts->gpu,
                     manner_of_end(verdict, facts));
        add_what_failed(line, verdict, facts);
        break;
    }
}

/* What the ranks other than the first failure did. */
struct others {
    int count;   /* that were started */
    int lost;    /* failed before it, and the job went on */
    int before;  /* finished before it */
    int after;   /* ended after it: on their own, or as they were told to */
    int killed;  /* by SIGKILL, after the grace period */
    int rest;    /* killed at once */
    int running; /* still running: they could not be killed */
    int64_t grace_us;
};

static bool was_killed(const struct verdict_end *end)
{
    return end->stage == VERDICT_KILL_SENT && verdict_is_sigkill(end->wait_status);
}

static struct others count_others(const struct verdict *verdict)
{
    struct others others = {0};
    if (verdict->rest_unknown && verdict->unknown_ended > 0)
        return (struct others){.count = verdict->size - 1, .after = verdict->unknown_ended};
    if (verdict->rest_unknown)
        return others;
    for (int rank = 0; rank < verdict->size; rank++) {
        const struct rank_state *state = &verdict->rank_states[rank];
        if (rank == verdict->rank || !state->started || state->left)
            continue;
        others.count++;
        if (!state->ended && verdict->rest_ended) {
            others.rest++;
        } else if (!state->ended) {
            others.running++;
        } else if (state->survived) {
            others.lost++;
        } else if (was_killed(&state->end)) {
            others.killed++;
            others.grace_us = state->end.grace_us;
        } else if (state->before && state->end.wait_status == 0) {
            others.before++;
        } else {
            others.after++;
        }
    }
    return others;
}

static void add_others(struct sentence *line, const struct verdict *verdict)
{
    char within[48] = "";
    struct sentence grace = {within, 0, sizeof(within)};
    struct others others = count_others(verdict);
    sentence_add(&grace, ", not having ended within ");
    add_duration(&grace, others.grace_us);
    const struct {
        int count;
        const char *did, *did_one;
        const char *more;
    } parts[] = {{others.lost, "had been lost before", "had been lost before", ""},
                 {others.before, "had finished before it", "had finished before it", ""},
                 {others.after, "ended after it", "ended after it", ""},
                 {others.killed, "were killed", "was killed", within},
                 {others.rest, "were killed", "was killed", ""},
                 {others.running, "cannot be ended", "cannot be ended", ""}};
    const char *other = verdict->rank < 0 ? "" : "other ";
    const char *between = "";
    if (others.count == 0)
        return;
    sentence_add(line, "; ");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *did = parts[i].count == 1 ? parts[i].did_one : parts[i].did;
        if (parts[i].count == 0)
            continue;
        if (parts[i].count == others.count)
            sentence_add(line, "%d %srank%s", others.count, other, others.count == 1 ? "" : "s");
        else if (between[0] == 0)
            sentence_add(line, "of %d %sranks %d", others.count, other, parts[i].count);
        else
            sentence_add(line, "%s%d", between, parts[i].count);
        sentence_add(line, " %s%s", did, parts[i].more);
        between = ", ";
    }
}

/* Let the exception be so short that the status after it is still in the line, and the "..." that is put for
 * the rest. */
static void cut_exception(const struct verdict *verdict, struct verdict_facts *facts, size_t room)
{
    char without[1024];
    struct verdict_facts rest = *facts;
    struct sentence line = {without, 0, sizeof(without)};
    rest.doing[0] = 0;
    if (facts->error[0] == 0)
        return;
    add_first(&line, verdict, &rest);
    size_t length = strlen(facts->error), over = line.used + 3 < room ? 0 : line.used + 4 - room;
    cut(facts->error, over + ERROR_BYTES > length + 1 ? ERROR_BYTES : length + 1 - over);
}

void verdict_sentence(const struct verdict *verdict, const struct verdict_facts *facts,
                      char text[VERDICT_LINE_BYTES])
{
    struct verdict_facts known = {.gpu = ""};
    char whole[2048], rest[VERDICT_LINE_BYTES - SHORTEST_FIRST] = "";
    struct sentence others = {rest, 0, sizeof(rest)};
    text[0] = 0;
    if (verdict->cause == CAUSE_NONE)
        return;
    if (facts != NULL)
        known = *facts;
    add_others(&others, verdict);
    size_t room = VERDICT_LINE_BYTES - others.used;
    drop_repeated_reason(&known);
    cut_exception(verdict, &known, room);
    add_first(&(struct sentence){whole, 0, sizeof(whole)}, verdict, &known);
    cut(whole, room);
    snprintf(text, VERDICT_LINE_BYTES, "%.*s%s", (int)room - 1, whole, rest);
}
