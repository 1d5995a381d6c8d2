/* words.c: a rank's state as a sentence, in the words of the stall inspector where both say the same. */
#include "tools/hvdinfo/ps/words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/rank_list.h"

struct sentence {
    char *text;
    size_t used;
    int64_t now_us;
};

static void add(struct sentence *sentence, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text that does not fit is cut. */
static void add(struct sentence *sentence, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(sentence->text + sentence->used, WORDS_BYTES - sentence->used, format, args);
    va_end(args);
    if (length > 0)
        sentence->used += (size_t)length;
    if (sentence->used >= WORDS_BYTES)
        sentence->used = WORDS_BYTES - 1;
}

const char *words_of_time(int64_t us, char text[32])
{
    double seconds = us < 0 ? 0 : (double)us / 1e6;
    snprintf(text, 32, seconds < 0.995 ? "%.2f s" : seconds < 99.95 ? "%.1f s" : "%.0f s", seconds);
    return text;
}

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

/* [before] 4.2 s[after] */
static void add_time(struct sentence *sentence, const char *before, int64_t since_us, const char *after)
{
    char text[32];
    if (sentence->now_us != WORDS_NO_TIME)
        add(sentence, "%s%s%s", before, words_of_time(sentence->now_us - since_us, text), after);
}

static void add_title(struct sentence *sentence, const struct flight_operation *operation)
{
    char title[FLIGHT_TITLE_BYTES];
    add(sentence, "%s", flight_title(operation, title));
}

static void add_waits_for(struct sentence *sentence, const struct rank *rank)
{
    char list[RANK_LIST_TEXT_BYTES];
    const struct rank *awaited = rank->awaited;
    if (awaited != NULL)
        add(sentence, ", waits for rank %d%s%s%s%s", awaited->rank, rank->spans_nodes ? " (" : "",
            rank->spans_nodes ? awaited->node : "", rank->spans_nodes ? ")" : "",
            awaited->state == RANK_STOPPED ? ", which is stopped" : "");
    else if (rank->waits_for_count > 0)
        add(sentence, ", waits for ranks %s",
            rank_list_text(rank->waits_for, rank->waits_for_count, list, sizeof(list)));
    else if (rank->waits_for_unseen)
        add(sentence, ", waits for a rank that is not listed here");
}

/* `in allreduce "x" (24 MiB) for 4.2 s` */
static void add_operation(struct sentence *sentence, const struct rank *rank)
{
    static const char *const doing[TRACE_STEP_COUNT] = {[TRACE_DECIDED] = "queues",
                                                        [TRACE_PACKING] = "packs",
                                                        [TRACE_TRANSFERRING] = "transfers",
                                                        [TRACE_UNPACKING] = "unpacks"};
    const struct flight_operation *pending = rank->pending;
    char size[WORDS_SIZE_BYTES];
    add(sentence, "in ");
    add_title(sentence, pending);
    if (pending->bytes > 0)
        add(sentence, " (%s)", words_of_size(pending->bytes, size));
    if (pending->set != HVD_ALL_RANKS)
        add(sentence, " of process set %d", pending->set);
    if (pending->agreed != 0 && doing[pending->step] != NULL)
        add(sentence, ", which it %s", doing[pending->step]);
    add_time(sentence, " for ", rank->since_us, "");
    add_waits_for(sentence, rank);
}

static void add_last(struct sentence *sentence, const struct rank *rank)
{
    if (rank->submitted_last == NULL) {
        add(sentence, "has submitted nothing yet");
        return;
    }
    add(sentence, "last submitted ");
    add_title(sentence, rank->submitted_last);
    add_time(sentence, ", ", rank->submitted_last->submitted_us, " ago");
}

/* What its first thread does tells a long computation from a lock that nobody opens. */
static void add_process(struct sentence *sentence, const struct rank *rank)
{
    bool known = rank->sleeps_in[0] != 0;
    if (rank->process == 'R')
        add(sentence, "; its program runs");
    else if (rank->process == 'D')
        add(sentence, "; its program waits for a disk or a file server%s%s%s", known ? " (" : "",
            rank->sleeps_in, known ? ")" : "");
    else if (rank->process == 'S')
        add(sentence, "; its program sleeps%s%s%s", known ? " (" : "", rank->sleeps_in, known ? ")" : "");
}

static void add_missed(struct sentence *sentence, const struct rank *rank)
{
    add(sentence, "has not submitted ");
    add_title(sentence, rank->missed);
}

static void add_computing(struct sentence *sentence, const struct rank *rank)
{
    add(sentence, "computing");
    add_time(sentence, " for ", rank->since_us, "");
    if (rank->pending != NULL) {
        add(sentence, ", with ");
        add_title(sentence, rank->pending);
        if (rank->pending_count > 1)
            add(sentence, " and %d other %s", rank->pending_count - 1,
                rank->pending_count == 2 ? "operation" : "operations");
        add(sentence, " in flight");
    } else if (rank->submitted_last != NULL) {
        add(sentence, " since ");
        add_title(sentence, rank->submitted_last);
    } else {
        add(sentence, " since hvd_init");
    }
}

static void add_late(struct sentence *sentence, const struct rank *rank)
{
    add_missed(sentence, rank);
    add(sentence, "; ");
    add_last(sentence, rank);
    add_process(sentence, rank);
}

static void add_stopped(struct sentence *sentence, const struct rank *rank)
{
    add(sentence, rank->process == 't' ? "stopped by a debugger" : "stopped by a signal (SIGSTOP)");
    if (rank->phase != FLIGHT_WORKS)
        return;
    add(sentence, "; ");
    if (rank->pending != NULL && rank->waits)
        add_operation(sentence, rank);
    else if (rank->missed != NULL)
        add_late(sentence, rank);
    else
        add_last(sentence, rank);
}

static void add_phase(struct sentence *sentence, const struct rank *rank, const char *what)
{
    add(sentence, "%s", what);
    add_time(sentence, " for ", rank->since_us, "");
    add_waits_for(sentence, rank);
}

static void add_state(struct sentence *sentence, const struct rank *rank)
{
    switch (rank->state) {
    case RANK_NOT_BEGUN:
        add(sentence, "has not called hvd_init");
        add_time(sentence, ", ", rank->since_us, " after its start");
        add_process(sentence, rank);
        break;
    case RANK_SPARE:
        add_phase(sentence, rank, "spare: waits for a place in the next epoch");
        break;
    case RANK_STARTS:
        add_phase(sentence, rank, "in hvd_init");
        break;
    case RANK_COMPUTES:
        add_computing(sentence, rank);
        break;
    case RANK_LATE:
        add_late(sentence, rank);
        break;
    case RANK_WAITS:
    case RANK_MOVES:
        add_operation(sentence, rank);
        if (rank->missed != NULL) {
            add(sentence, "; ");
            add_missed(sentence, rank);
        }
        break;
    case RANK_STOPPED:
        add_stopped(sentence, rank);
        break;
    case RANK_ENDED:
        add(sentence, "has ended, which its parent has not noticed");
        break;
    case RANK_LEAVES:
        add_phase(sentence, rank, "in hvd_shutdown");
        break;
    case RANK_LEFT:
        add(sentence, "has left the job");
        break;
    }
}

const char *words_of_rank(const struct rank *rank, int64_t now_us, char text[WORDS_BYTES])
{
    struct sentence sentence = {.text = text, .now_us = now_us};
    text[0] = 0;
    add_state(&sentence, rank);
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
