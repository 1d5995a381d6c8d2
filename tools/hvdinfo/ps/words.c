/* words.c: a rank's state as a sentence, in the words of trace/state_words.h. */
#include "tools/hvdinfo/ps/words.h"

#include <stdio.h>
#include <string.h>

#include "base/rank_list.h"
#include "trace/state_words.h"

const char *words_of_size(int64_t bytes, char text[WORDS_SIZE_BYTES])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = (double)bytes;
    int unit = 0;
    for (; size >= 1024 && unit < 6; unit++)
        size /= 1024;
    snprintf(text, WORDS_SIZE_BYTES, "%.3g %s", size, units[unit]);
    return text;
}

/* A rank that is put into words. */
struct wording {
    const struct rank *rank;
    int64_t now_us;
    struct sentence sentence;
};

static int64_t age_us(const struct wording *wording, int64_t since_us)
{
    if (wording->now_us == WORDS_NO_TIME)
        return -1;
    int64_t us = wording->now_us - since_us;
    return us > 0 ? us : 0;
}

/* NULL for none. */
static const char *title_of(const struct flight_operation *operation, char title[FLIGHT_TITLE_BYTES])
{
    return operation == NULL ? NULL : flight_title(operation, title);
}

/* For whom it waits; NULL: it does not. */
#define AWAITED_BYTES 256
static const char *awaited_of(const struct rank *rank, char text[AWAITED_BYTES])
{
    char list[RANK_LIST_TEXT_BYTES];
    const struct rank *awaited = rank->awaited;
    const struct awaited_list *all = rank->waits_for;
    if (rank->state == RANK_SPARE)
        return "a place in the next epoch";
    if (all == NULL)
        return rank->waits_for_unseen ? "a rank that is not listed here" : NULL;
    if (awaited == NULL)
        snprintf(text, AWAITED_BYTES, "ranks %s",
                 rank_runs_text(all->runs, all->run_count, list, sizeof(list)));
    else
        snprintf(text, AWAITED_BYTES, "rank %d%s%s%s%s", awaited->rank, rank->spans_nodes ? " (" : "",
                 rank->spans_nodes ? awaited->node : "", rank->spans_nodes ? ")" : "",
                 awaited->state == RANK_STOPPED ? ", which is stopped" : "");
    return text;
}

static void add_in(struct wording *wording, const char *operation, const char *detail)
{
    char awaited[AWAITED_BYTES];
    state_words_add(&wording->sentence,
                    &(struct state_words){.verb = STATE_IN,
                                          .operation = operation,
                                          .detail = detail,
                                          .waits_for = awaited_of(wording->rank, awaited),
                                          .for_us = age_us(wording, wording->rank->since_us)});
}

/* `in allreduce "x" (24 MiB) for 4.2 s` */
static void add_operation(struct wording *wording)
{
    static const char *const doing[TRACE_STEP_COUNT] = {[TRACE_DECIDED] = ", which it queues",
                                                        [TRACE_PACKING] = ", which it packs",
                                                        [TRACE_TRANSFERRING] = ", which it transfers",
                                                        [TRACE_UNPACKING] = ", which it unpacks"};
    const struct flight_operation *pending = wording->rank->pending;
    char title[FLIGHT_TITLE_BYTES], size[WORDS_SIZE_BYTES], detail[80];
    bool sized = pending->bytes > 0, runs = pending->agreed != 0 && doing[pending->step] != NULL;
    snprintf(detail, sizeof(detail), "%s%s%s%s", sized ? " (" : "",
             sized ? words_of_size(pending->bytes, size) : "", sized ? ")" : "",
             runs ? doing[pending->step] : "");
    add_in(wording, flight_title(pending, title), detail);
}

static void add_last(struct wording *wording)
{
    char title[FLIGHT_TITLE_BYTES];
    const struct flight_operation *last = wording->rank->submitted_last;
    state_words_add_last(&wording->sentence, title_of(last, title),
                         last == NULL ? -1 : age_us(wording, last->submitted_us));
}

/* What its first thread does tells a long computation from a lock that nobody opens. */
static void add_process(struct sentence *sentence, const struct rank *rank)
{
    bool known = rank->sleeps_in[0] != 0;
    if (rank->process == 'R')
        sentence_add(sentence, "; its program runs");
    else if (rank->process == 'D')
        sentence_add(sentence, "; its program waits for a disk or a file server%s%s%s", known ? " (" : "",
                     rank->sleeps_in, known ? ")" : "");
    else if (rank->process == 'S')
        sentence_add(sentence, "; its program sleeps%s%s%s", known ? " (" : "", rank->sleeps_in,
                     known ? ")" : "");
}

static void add_missed(struct wording *wording)
{
    char title[FLIGHT_TITLE_BYTES];
    sentence_add(&wording->sentence, "; has not submitted %s", flight_title(wording->rank->missed, title));
}

static void add_computing(struct wording *wording)
{
    const struct rank *rank = wording->rank;
    char pending[FLIGHT_TITLE_BYTES], last[FLIGHT_TITLE_BYTES], others[48] = "";
    if (rank->pending_count > 1)
        snprintf(others, sizeof(others), " and %d other %s", rank->pending_count - 1,
                 rank->pending_count == 2 ? "operation" : "operations");
    state_words_add(&wording->sentence, &(struct state_words){.verb = STATE_COMPUTES,
                                                              .operation = title_of(rank->pending, pending),
                                                              .detail = others,
                                                              .last = title_of(rank->submitted_last, last),
                                                              .for_us = age_us(wording, rank->since_us)});
}

static void add_late(struct wording *wording)
{
    const struct flight_operation *last_one = wording->rank->submitted_last;
    char missed[FLIGHT_TITLE_BYTES], last[FLIGHT_TITLE_BYTES];
    state_words_add(
        &wording->sentence,
        &(struct state_words){.verb = STATE_MISSES,
                              .operation = flight_title(wording->rank->missed, missed),
                              .last = title_of(last_one, last),
                              .last_us = last_one == NULL ? -1 : age_us(wording, last_one->submitted_us)});
    add_process(&wording->sentence, wording->rank);
}

static void add_stopped(struct wording *wording)
{
    const struct rank *rank = wording->rank;
    sentence_add(&wording->sentence,
                 rank->process == 't' ? "stopped by a debugger" : "stopped by a signal (SIGSTOP)");
    if (rank->phase != FLIGHT_WORKS)
        return;
    sentence_add(&wording->sentence, "; ");
    if (rank->pending != NULL && rank->waits)
        add_operation(wording);
    else if (rank->missed != NULL)
        add_late(wording);
    else
        add_last(wording);
}

static void add_state(struct wording *wording)
{
    const struct rank *rank = wording->rank;
    struct sentence *sentence = &wording->sentence;
    switch (rank->state) {
    case RANK_NOT_BEGUN:
        sentence_add(sentence, "has not called hvd_init");
        if (wording->now_us != WORDS_NO_TIME) {
            sentence_add(sentence, ", ");
            sentence_add_time(sentence, age_us(wording, rank->since_us));
            sentence_add(sentence, " after its start");
        }
        add_process(sentence, rank);
        break;
    case RANK_SPARE:
        add_in(wording, "hvd_init as a spare", NULL);
        break;
    case RANK_STARTS:
        add_in(wording, "hvd_init", NULL);
        break;
    case RANK_COMPUTES:
        add_computing(wording);
        break;
    case RANK_LATE:
        add_late(wording);
        break;
    case RANK_WAITS:
    case RANK_MOVES:
        add_operation(wording);
        if (rank->missed != NULL)
            add_missed(wording);
        break;
    case RANK_STOPPED:
        add_stopped(wording);
        break;
    case RANK_ENDED:
        sentence_add(sentence, "has ended, which its parent has not noticed");
        break;
    case RANK_LEAVES:
        add_in(wording, "hvd_shutdown", NULL);
        break;
    case RANK_LEFT:
        sentence_add(sentence, "has left the job");
        break;
    }
}

const char *words_of_rank(const struct rank *rank, int64_t now_us, char text[WORDS_BYTES])
{
    struct wording wording = {rank, now_us, {.text = text, .capacity = WORDS_BYTES}};
    text[0] = 0;
    add_state(&wording);
    if (rank->unreached[0] != 0)
        sentence_add(&wording.sentence, "; nothing gets through to %s", rank->unreached);
    return text;
}

const char *words_of_state(enum rank_doing state)
{
    static const char *const words[] = {
        [RANK_NOT_BEGUN] = "not-begun", [RANK_SPARE] = "spare",     [RANK_STARTS] = "starting",
        [RANK_COMPUTES] = "computing",  [RANK_LATE] = "late",       [RANK_WAITS] = "waiting",
        [RANK_MOVES] = "moving",        [RANK_STOPPED] = "stopped", [RANK_ENDED] = "ended",
        [RANK_LEAVES] = "leaving",      [RANK_LEFT] = "left"};
    return words[state];
}
