/* show.c: print the ranks that were found, job by job: those that do the same in one line. */
#include "tools/hvdinfo/ps/show.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "tools/common/json.h"
#include "tools/hvdinfo/ps/judge.h"
#include "tools/hvdinfo/ps/words.h"

#define JSON_VERSION     2
#define RUN_TEXT_BYTES   24 /* of one of ranks, with a comma */
#define SHOWN_OPERATIONS 10 /* of a rank that is selected */

/* ---- The head of a job --------------------------------------------------------------------------- */

/* To three digits or more, and no power of ten. Returns [text]. */
#define NUMBER_BYTES 32
static const char *number_text(double number, char text[NUMBER_BYTES])
{
    snprintf(text, NUMBER_BYTES, number < 100 ? "%.3g" : "%.0f", number);
    return text;
}

static void show_speed(FILE *to, const struct rank *rank)
{
    char text[NUMBER_BYTES];
    if (rank->phase != FLIGHT_WORKS)
        return;
    fprintf(to, "; rank %d has submitted %" PRIu64 " operations", rank->rank, rank->submitted);
    if (rank->pace.operations >= 0)
        fprintf(to, ", %s a second in the last seconds", number_text(rank->pace.operations, text));
    if (rank->pace.steps >= 0)
        fprintf(to, ", %s steps a second", number_text(rank->pace.steps, text));
    if (rank->pace.steps >= 0 && rank->pace.long_steps >= 0)
        fprintf(to, " (%s over 5 minutes)", number_text(rank->pace.long_steps, text));
}

/* How the ranks spend their time, and who waits least: that one is late most often. */
static void show_shares(FILE *to, const struct rank *job, int count)
{
    const struct rank *least = NULL, *most = NULL;
    double waiting = 0, moving = 0, bytes = 0;
    char size[WORDS_SIZE_BYTES];
    int known = 0;
    for (int i = 0; i < count; i++) {
        const struct pace *pace = &job[i].pace;
        if (pace->waiting < 0)
            continue;
        known++;
        waiting += pace->waiting;
        moving += pace->moving;
        bytes += pace->bytes;
        least = least == NULL || pace->waiting < least->pace.waiting ? &job[i] : least;
        most = most == NULL || pace->waiting > most->pace.waiting ? &job[i] : most;
    }
    if (known == 0)
        return;
    fprintf(to,
            "  of the last seconds: %.0f %% computing, %.0f %% waiting, %.0f %% moving, %s a second and rank",
            100 * (1 - (waiting + moving) / known), 100 * waiting / known, 100 * moving / known,
            words_of_size((int64_t)(bytes / known), size));
    if (known > 1)
        fprintf(to, "; rank %d waits least (%.0f %%), rank %d most (%.0f %%)", least->rank,
                100 * least->pace.waiting, most->rank, 100 * most->pace.waiting);
    putc('\n', to);
}

/* What goes at once, what need not be agreed anew, and by which backends, of the average rank. */
static void show_batches(FILE *to, const struct rank *job, int count)
{
    double tensors = 0, cached = 0, bytes[BACKEND_COUNT] = {0};
    char text[NUMBER_BYTES];
    char size[WORDS_SIZE_BYTES];
    int known = 0;
    for (int i = 0; i < count; i++) {
        const struct pace *pace = &job[i].pace;
        if (pace->batch_tensors < 0 || pace->cached < 0)
            continue;
        known++;
        tensors += pace->batch_tensors;
        cached += pace->cached;
        for (int k = 0; k < BACKEND_COUNT; k++)
            bytes[k] += pace->backend_bytes[k];
    }
    if (known == 0)
        return;
    fprintf(to, "  %s tensors a batch, %.0f %% of operations by the response cache",
            number_text(tensors / known, text), 100 * cached / known);
    for (int k = 0; k < BACKEND_COUNT; k++)
        if (bytes[k] > 0)
            fprintf(to, ", %s a second by %s", words_of_size((int64_t)(bytes[k] / known), size),
                    backend_names[k]);
    putc('\n', to);
}

/* How often the job was started again, and how old its last commit is. */
static void show_past(FILE *to, const struct rank *job, int count, int64_t now_us)
{
    const struct rank *last = job;
    int restarts = 0;
    for (int i = 0; i < count; i++) {
        restarts = job[i].restarts > restarts ? job[i].restarts : restarts;
        last = job[i].totals.commits > last->totals.commits ? &job[i] : last;
    }
    if (restarts > 0)
        fprintf(to, "  started again %d %s\n", restarts, restarts == 1 ? "time" : "times");
    if (last->totals.commits > 0)
        fprintf(to, "  last commit %.3g s ago\n",
                (double)(now_us > last->totals.committed_us ? now_us - last->totals.committed_us : 0) / 1e6);
}

static void show_head(FILE *to, const struct rank *job, int count, int64_t now_us)
{
    const struct rank *first = job;
    int size = 0;
    for (int i = 0; i < count; i++) {
        size = job[i].size > size ? job[i].size : size;
        if (first->phase != FLIGHT_WORKS && job[i].phase == FLIGHT_WORKS)
            first = &job[i];
    }
    fprintf(to, "job %s: %d %s", job->job, size, size == 1 ? "rank" : "ranks");
    if (count < size)
        fprintf(to, ", %d of them", count);
    fprintf(to, " on %s", job->spans_nodes ? "several nodes" : job->node);
    if (first->epoch > 0)
        fprintf(to, ", epoch %" PRIu32, first->epoch);
    show_speed(to, first);
    putc('\n', to);
    show_shares(to, job, count);
    show_batches(to, job, count);
    show_past(to, job, count, now_us);
}

/* ---- Its ranks ----------------------------------------------------------------------------------- */

void show_rank(FILE *to, const struct rank *rank, int64_t now_us)
{
    char words[WORDS_BYTES], pid[16] = "unknown";
    if (rank->pid > 0)
        snprintf(pid, sizeof(pid), "%d", (int)rank->pid);
    fprintf(to, "  rank %d (%s%spid %s, cores %s): %s\n", rank->rank, rank->spans_nodes ? rank->node : "",
            rank->spans_nodes ? ", " : "", pid, rank->cores[0] != 0 ? rank->cores : "unknown",
            words_of_rank(rank, now_us, words));
}

static void show_group(FILE *to, const struct rank *longest, const int *numbers, int count, int64_t now_us)
{
    char words[WORDS_BYTES];
    char list[RANK_LIST_TEXT_BYTES];
    fprintf(to, "  ranks %s (%d): %s\n", rank_list_text(numbers, count, list, sizeof(list)), count,
            words_of_rank(longest, now_us, words));
}

struct job_lines {
    const struct rank *ranks;
    int count;
    int64_t now_us;
};

/* What a rank does, without its times. */
struct doing {
    const struct rank *rank;
    const struct rank *first; /* of those that do the same */
    char *words;
};

static int by_words(const void *left, const void *right)
{
    const struct doing *a = left;
    const struct doing *b = right;
    int order = a->rank->state == b->rank->state ? strcmp(a->words, b->words)
                                                 : (int)a->rank->state - (int)b->rank->state;
    return order != 0 ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

static int by_first(const void *left, const void *right)
{
    const struct doing *a = left;
    const struct doing *b = right;
    int order = (a->first > b->first) - (a->first < b->first);
    return order != 0 ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

static bool do_the_same(const struct doing *a, const struct doing *b)
{
    return a->rank->state == b->rank->state && strcmp(a->words, b->words) == 0;
}

static void free_doings(struct doing *doings, int count)
{
    for (int i = 0; doings != NULL && i < count; i++)
        free(doings[i].words);
    free(doings);
}

/* Those of all ranks: those that do the same stand together, where the first of them would. NULL: no memory.
 */
static struct doing *list_doings(const struct job_lines *job)
{
    struct doing *doings = calloc((size_t)job->count, sizeof(*doings));
    char words[WORDS_BYTES];
    bool good = doings != NULL;
    for (int i = 0; good && i < job->count; i++) {
        const struct rank *rank = &job->ranks[i];
        doings[i] = (struct doing){rank, rank, strdup(words_of_rank(rank, WORDS_NO_TIME, words))};
        good = doings[i].words != NULL;
    }
    if (!good) {
        free_doings(doings, job->count);
        return NULL;
    }
    qsort(doings, (size_t)job->count, sizeof(*doings), by_words);
    for (int i = 1; i < job->count; i++) {
        if (do_the_same(&doings[i - 1], &doings[i]))
            doings[i].first = doings[i - 1].first;
    }
    qsort(doings, (size_t)job->count, sizeof(*doings), by_first);
    return doings;
}

/* Print the [count] ranks, which do the same. Of their times the longest is told. [numbers]: room for theirs.
 */
static void show_same(FILE *to, const struct doing *doings, int count, int *numbers, int64_t now_us)
{
    const struct rank *longest = doings->rank;
    for (int i = 0; i < count; i++) {
        numbers[i] = doings[i].rank->rank;
        longest = doings[i].rank->since_us < longest->since_us ? doings[i].rank : longest;
    }
    if (count == 1)
        show_rank(to, longest, now_us);
    else
        show_group(to, longest, numbers, count, now_us);
}

static int by_time(const void *left, const void *right)
{
    const struct rank *const *a = left;
    const struct rank *const *b = right;
    int64_t difference_us = (*a)->since_us - (*b)->since_us;
    return difference_us != 0 ? (difference_us > 0) - (difference_us < 0) : (*a)->rank - (*b)->rank;
}

static int by_waiting(const void *left, const void *right)
{
    const struct rank *const *a = left;
    const struct rank *const *b = right;
    double difference = (*b)->pace.waiting - (*a)->pace.waiting;
    return difference != 0 ? (difference > 0) - (difference < 0) : (*a)->rank - (*b)->rank;
}

static int show_each(FILE *to, const struct job_lines *job, enum show_order order)
{
    const struct rank **sorted = calloc((size_t)job->count, sizeof(*sorted));
    if (sorted == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int i = 0; i < job->count; i++)
        sorted[i] = &job->ranks[i];
    if (order != SHOW_BY_RANK)
        qsort(sorted, (size_t)job->count, sizeof(*sorted), order == SHOW_BY_TIME ? by_time : by_waiting);
    for (int i = 0; i < job->count; i++)
        show_rank(to, sorted[i], job->now_us);
    free(sorted);
    return HVD_OK;
}

/* The last operations of one rank, newest first. */
static void show_operations(FILE *to, const struct rank *rank, int64_t now_us)
{
    static const char *const steps[TRACE_STEP_COUNT] = {"submitted", "decided",   "packing",
                                                        "transfers", "unpacking", "done"};
    char title[FLIGHT_TITLE_BYTES], size[WORDS_SIZE_BYTES];
    show_rank(to, rank, now_us);
    for (int i = rank->operation_count - 1; i >= 0 && i >= rank->operation_count - SHOWN_OPERATIONS; i--) {
        const struct flight_operation *operation = &rank->operations[i];
        int64_t age_us = now_us - flight_step_us(operation);
        fprintf(to, "    %s (%s), %s since %.3g s\n", flight_title(operation, title),
                words_of_size(operation->bytes, size), steps[operation->step],
                (double)(age_us > 0 ? age_us : 0) / 1e6);
    }
}

static int show_job(FILE *to, const struct job_lines *job, const struct show_view *view)
{
    if (view->each) {
        show_head(to, job->ranks, job->count, job->now_us);
        return show_each(to, job, view->order);
    }
    struct doing *doings = list_doings(job);
    int *numbers = calloc((size_t)job->count, sizeof(*numbers));
    bool good = doings != NULL && numbers != NULL;
    if (good)
        show_head(to, job->ranks, job->count, job->now_us);
    for (int i = 0, end = 0; good && i < job->count; i = end) {
        for (end = i + 1; end < job->count && doings[end].first == doings[i].first;)
            end++;
        show_same(to, doings + i, end - i, numbers, job->now_us);
    }
    free_doings(doings, job->count);
    free(numbers);
    return good ? HVD_OK : HVD_ERR_NO_MEMORY;
}

int show_text(FILE *to, const struct ranks *ranks, const struct show_view *view)
{
    int rc = HVD_OK;
    for (int i = 0, end = 0; rc == HVD_OK && i < ranks->count; i = end) {
        for (end = i + 1; end < ranks->count && judge_same_job(&ranks->list[i], &ranks->list[end]);)
            end++;
        struct job_lines job = {.ranks = &ranks->list[i], .count = end - i, .now_us = ranks->now_us};
        rc = show_job(to, &job, view);
    }
    if (view->selected >= 0 && view->selected < ranks->count)
        show_operations(to, &ranks->list[view->selected], ranks->now_us);
    if (ranks->reason[0] != 0)
        fprintf(to, "  written because of: %s\n", ranks->reason);
    return rc;
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static void show_operation(struct json *json, const char *key, const struct flight_operation *operation)
{
    char title[FLIGHT_TITLE_BYTES] = "";
    json_text(json, key, operation == NULL ? "" : flight_title(operation, title));
}

static double known(double value)
{
    return value < 0 ? NAN : value;
}

static void show_more(struct json *json, const struct rank *rank, int64_t now_us)
{
    int64_t committed_us = rank->totals.committed_us;
    json_number(json, "steps_per_second", known(rank->pace.steps));
    json_number(json, "steps_per_second_5min", known(rank->pace.long_steps));
    json_number(json, "tensors_per_batch", known(rank->pace.batch_tensors));
    json_number(json, "cached_share", known(rank->pace.cached));
    for (int i = 0; i < BACKEND_COUNT; i++) {
        char key[64];
        snprintf(key, sizeof(key), "bytes_per_second_%s", backend_names[i]);
        json_number(json, key, rank->pace.backend_bytes[i]);
    }
    json_count(json, "restarts", rank->restarts);
    json_count(json, "commits", rank->totals.commits);
    json_number(json, "seconds_since_commit",
                rank->totals.commits == 0 ? NAN
                : now_us > committed_us   ? (double)(now_us - committed_us) / 1e6
                                          : 0);
}

/* [last]: the list of ranks that is shown first. */
static void show_object(FILE *to, const struct rank *rank, const struct awaited_list *last, int64_t now_us)
{
    char words[WORDS_BYTES];
    const struct flight_operation *pending = rank->pending;
    struct json json = json_open(to);
    json_text(&json, "job", rank->job);
    json_count(&json, "rank", rank->rank);
    json_count(&json, "size", rank->size);
    json_count(&json, "epoch", rank->epoch);
    json_text(&json, "host", rank->host);
    json_text(&json, "node", rank->node);
    json_count(&json, "pid", rank->pid);
    json_text(&json, "cores", rank->cores);
    json_text(&json, "unreached", rank->unreached);
    json_text(&json, "state", words_of_state(rank->state));
    json_seconds(&json, "seconds", rank->since_us < now_us ? now_us - rank->since_us : 0);
    json_flag(&json, "stands_still", rank->stands_still);
    json_count(&json, "operations", (int64_t)rank->submitted);
    json_number(&json, "operations_per_second", known(rank->pace.operations));
    json_number(&json, "bytes_per_second", known(rank->pace.bytes));
    json_number(&json, "waiting_share", known(rank->pace.waiting));
    json_number(&json, "moving_share", known(rank->pace.moving));
    show_more(&json, rank, now_us);
    show_operation(&json, "pending", pending);
    json_count(&json, "bytes", pending == NULL ? 0 : pending->bytes);
    json_count(&json, "set", pending == NULL ? HVD_ALL_RANKS : pending->set);
    show_operation(&json, "last", rank->submitted_last);
    show_operation(&json, "missed", rank->missed);
    json_number(&json, "waits_for",
                rank->waits_for == NULL ? NAN : (double)(last->number - rank->waits_for->number));
    json_text(&json, "sentence", words_of_rank(rank, now_us, words));
    json_close(&json);
}

/* Many ranks wait for the same ones: each list is shown once. */
static int show_awaited(struct json *json, const struct awaited_list *last)
{
    int rc = HVD_OK, index = 0;
    json_open_array(json, "awaited");
    for (const struct awaited_list *list = last; rc == HVD_OK && list != NULL; list = list->next) {
        size_t bytes = (size_t)list->run_count * RUN_TEXT_BYTES;
        char *text = malloc(bytes);
        if (text == NULL)
            rc = HVD_ERR_NO_MEMORY;
        else
            json_add_text(json, index++, rank_runs_text(list->runs, list->run_count, text, bytes));
        free(text);
    }
    json_close_array(json);
    return rc;
}

int show_json(FILE *to, const struct ranks *ranks)
{
    struct json json = json_open(to);
    json_count(&json, "version", JSON_VERSION);
    int rc = show_awaited(&json, ranks->awaited);
    json_open_array(&json, "ranks");
    for (int i = 0; i < ranks->count; i++) {
        fputs(i > 0 ? ",\n " : "\n ", to);
        show_object(to, &ranks->list[i], ranks->awaited, ranks->now_us);
    }
    json_close_array(&json);
    json_close_line(&json);
    return rc;
}
