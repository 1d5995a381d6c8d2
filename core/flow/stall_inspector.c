/* stall_inspector.c: tells the user which ranks an operation has waited too long for. */
#include "flow/stall_inspector.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "options/parse.h"
#include "negotiate/stall_report.h"
#include "net/peer_table.h"

/* Text that grows until its memory is full. */
struct stall_message {
    char *text;
    size_t used, capacity; /* capacity counts the final 0, used does not */
};

static void append(struct stall_message *message, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Once the text is full it ends in "..." and stays as it is. */
static void append(struct stall_message *message, const char *format, ...)
{
    size_t left = message->capacity - message->used;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(message->text + message->used, left, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= left) {
        memcpy(message->text + message->capacity - 4, "...", 4);
        message->used = message->capacity - 1;
        return;
    }
    message->used += (size_t)length;
}

/* Append what [rank] does. [runs]: the operation was decided and runs; else it waits to be submitted. */
static void append_rank(struct stall_message *message, const struct peer_table *peer_table,
                        const struct stall_rank *rank, bool runs)
{
    char name[300];
    peer_table_rank_name(peer_table, rank->rank, name, sizeof(name));
    append(message, "%s ", name);
    switch (rank->state) {
    case STALL_ELSEWHERE:
        append(message, "last submitted %s", rank->last);
        break;
    case STALL_NOTHING:
        append(message, "has submitted nothing yet");
        break;
    case STALL_SILENT:
        append(message, "does not answer%s",
               runs ? "" : ", so the ranks below it in the control tree cannot be asked");
        break;
    case STALL_BEHIND:
        append(message, "is still at %s", rank->last);
        if (rank->waits_for < 0)
            break;
        peer_table_rank_name(peer_table, rank->waits_for, name, sizeof(name));
        append(message, ", where it waits for %s", name);
        break;
    case STALL_NOT_BEGUN:
        append(message, "has not begun it");
        break;
    case STALL_QUEUED:
        append(message, "has not begun it: its GPU is at work on what its program put before it");
        break;
    }
}

static void append_title(struct stall_message *message, const struct desc *desc, const char *verb,
                         int64_t waited_us)
{
    char title[DESC_TITLE_BYTES];
    char waited[32];
    desc_title(desc, title, sizeof(title));
    format_time(waited_us / 1000000 * 1000000, waited, sizeof(waited));
    append(message, "%s %s %s", title, verb, waited);
}

static void append_ranks(struct stall_message *message, const struct peer_table *peer_table,
                         const struct stall_report *stall, bool runs)
{
    for (int i = 0; i < stall->named; i++) {
        append(message, "%s", i == 0 ? "" : "; ");
        append_rank(message, peer_table, &stall->ranks[i], runs);
    }
    if (stall->missing > stall->named)
        append(message, "; and %d more", stall->missing - stall->named);
}

/* `rank 0 (n1) waits for rank 1 (n2)`. */
static void append_wait(struct stall_message *message, const struct peer_table *peer_table, int rank,
                        int waits_for)
{
    char name[300];
    peer_table_rank_name(peer_table, rank, name, sizeof(name));
    append(message, "%s waits", name);
    if (waits_for < 0)
        return;
    peer_table_rank_name(peer_table, waits_for, name, sizeof(name));
    append(message, " for %s", name);
}

/* All members that are not done with it wait in it: none of them can be blamed, but perhaps what is between
 * two of them. */
static void append_circle(struct stall_message *message, const struct peer_table *peer_table,
                          const struct decision *decision)
{
    append_wait(message, peer_table, decision->rank, decision->other_rank);
    append(message, "%s",
           decision->other_rank < 0 ? ", its backend cannot tell for whom, and all ranks answer"
                                    : ", and all ranks answer: see whether their connection still works");
}

/* The names that the Python package makes up end in this and the number of the operation: all ranks count
 * those without a name, from 0. */
#define UNNAMED ".noname."

/* Find a made-up name in [text]. Returns the length of what stands before its number, from *namep on; 0:
 * there is none. */
static size_t find_unnamed(const char *text, const char **namep, unsigned long *numberp)
{
    const char *end = strstr(text, UNNAMED);
    const char *begin = end;
    if (end == NULL || !isdigit((unsigned char)end[strlen(UNNAMED)]))
        return 0;
    while (begin > text && begin[-1] != '"')
        begin--;
    *namep = begin;
    *numberp = strtoul(end + strlen(UNNAMED), NULL, 10);
    return (size_t)(end - begin);
}

static const char *ordinal_ending(unsigned long number)
{
    static const char *const endings[] = {"th", "st", "nd", "rd"};
    bool teens = number / 10 % 10 == 1;
    return number % 10 > 3 || teens ? "th" : endings[number % 10];
}

/* Ranks that have counted differently wait for each other in operations of one kind. */
static void append_unnamed(struct stall_message *message, const struct decision *decision)
{
    const struct stall_report *stall = decision->stall;
    const char *name = NULL;
    const char *last = NULL;
    unsigned long number = 0;
    unsigned long other = 0;
    size_t length = find_unnamed(desc_name(decision->desc), &name, &number);
    for (int i = 0; length > 0 && i < stall->named; i++) {
        if (stall->ranks[i].state != STALL_ELSEWHERE ||
            find_unnamed(stall->ranks[i].last, &last, &other) != length || strncmp(name, last, length) != 0 ||
            number == other)
            continue;
        append(message,
               "; rank %d waits in its %lu%s unnamed %.*s, rank %d in its %lu%s: give names, or call join",
               decision->rank, number + 1, ordinal_ending(number + 1), (int)length, name,
               stall->ranks[i].rank, other + 1, ordinal_ending(other + 1));
        return;
    }
}

void stall_inspector_format(const struct peer_table *peer_table, const struct decision *decision, char *text,
                            size_t text_bytes)
{
    struct stall_message message = {.text = text, .capacity = text_bytes};
    const struct stall_report *stall = decision->stall;
    append_title(&message, decision->desc, decision->batch > 0 ? "has not moved for" : "has waited",
                 decision->waited_us);
    if (decision->batch == 0)
        append(&message, " for %d %s", stall->missing, stall->missing == 1 ? "rank" : "ranks");
    append(&message, ": ");
    if (stall->missing == 0)
        append_circle(&message, peer_table, decision);
    else
        append_ranks(&message, peer_table, stall, decision->batch > 0);
    if (decision->others > 0)
        append(&message, "; %d other %s of that process set %s too", decision->others,
               decision->others == 1 ? "operation" : "operations", decision->others == 1 ? "waits" : "wait");
    if (decision->batch == 0)
        append_unnamed(&message, decision);
}

/* The rank to blame: the one that others wait for, if it does not just wait as they do. */
static int culprit_of(const struct decision *decision)
{
    const struct stall_report *stall = decision->stall;
    if (decision->batch > 0 && stall->missing == 0)
        return decision->other_rank >= 0 ? decision->other_rank : decision->rank;
    for (int i = 0; decision->batch > 0 && i < stall->named; i++) {
        if (stall->ranks[i].rank == decision->other_rank)
            return decision->other_rank;
    }
    return stall->ranks[0].rank;
}

static void report(struct failure *failure, const char *text, int64_t waited_us, bool must_abort, int rank)
{
    int64_t abort_us = failure->env->config->stall_abort_us;
    struct hvd_error sentence;
    if (!must_abort) {
        log_write(failure->env->log, LOG_WARN, "stall", "%s", text);
        return;
    }
    error_set(&sentence, HVD_ERR_TIMEOUT, "%s: %s",
              abort_us > 0 && waited_us >= abort_us ? "stall-abort" : "hang-abort", text);
    failure_announce(failure, HVD_ERR_TIMEOUT, rank, sentence.text);
}

/* The root's children all notice that it is silent. The first of its own node says so, or else rank 1, which
 * is then another child of it. */
static bool says_for_siblings(const struct failure *failure)
{
    const struct peer_table *peer_table = failure->env->peer_table;
    int first = 1;
    while (first < peer_table->size && peer_table->node_of_rank[first] != 0)
        first++;
    return peer_table->rank == (first < peer_table->size ? first : 1);
}

static bool is_of_siblings(const struct failure *failure, const struct decision *decision)
{
    const struct stall_report *stall = decision->stall;
    return decision->set == HVD_ALL_RANKS && failure->control->parent == 0 && stall->missing == 1 &&
           stall->ranks[0].rank == 0 && stall->ranks[0].state == STALL_SILENT;
}

void stall_inspector_report(struct failure *failure, const struct decision *decision)
{
    char text[STALL_TEXT_BYTES];
    if (!decision->must_abort && is_of_siblings(failure, decision) && !says_for_siblings(failure))
        return;
    stall_inspector_format(failure->env->peer_table, decision, text, sizeof(text));
    report(failure, text, decision->waited_us, decision->must_abort, culprit_of(decision));
}

void stall_inspector_report_own(struct failure *failure, const struct stalled_batch *stalled_batch,
                                bool must_abort)
{
    char text[STALL_TEXT_BYTES];
    struct stall_message message = {.text = text, .capacity = sizeof(text)};
    int rank = failure->control->rank;
    append_title(&message, stalled_batch->desc, "has not moved for", stalled_batch->waited_us);
    append(&message, ": ");
    append_wait(&message, failure->env->peer_table, rank, stalled_batch->waits_for);
    report(failure, text, stalled_batch->waited_us, must_abort,
           stalled_batch->waits_for >= 0 ? stalled_batch->waits_for : rank);
}

/* `recv of float32[100] from rank 1 with tag 5 in process set 3`. */
static void append_message(struct stall_message *message, const struct desc *desc, int index,
                           const struct p2p_op *op)
{
    append(message, "%s of %s[%" PRId64 "] %s", op->direction == P2P_SEND ? "send" : "recv",
           dtype_name(op->dtype), op->bytes / (int64_t)dtype_bytes(op->dtype), desc->tensors[index].name);
    if (desc->set != HVD_ALL_RANKS)
        append(message, " in process set %d", desc->set);
}

/* The step that is missing at the other end, as a clause. */
static const char *missing_part(const struct p2p_stalled *stalled)
{
    bool sends = stalled->op->direction == P2P_SEND;
    switch (stalled->wait) {
    case P2P_WAIT_CONNECTION:
        return ", which has not accepted its connection";
    case P2P_WAIT_BYTES:
        return ", and both have begun it: see whether that rank and the connection still work";
    case P2P_WAIT_PROGRAM:
        break;
    }
    if (!sends && stalled->rank < 0)
        return ": no rank has sent it";
    return sends ? ", which has not received it" : ", which has not sent it";
}

void stall_inspector_report_message(struct failure *failure, const struct desc *desc, int index,
                                    const struct p2p_stalled *stalled)
{
    char text[STALL_TEXT_BYTES], waited[32];
    struct stall_message message = {.text = text, .capacity = sizeof(text)};
    int rank = failure->control->rank;
    append_message(&message, desc, index, stalled->op);
    format_time(stalled->waited_us / 1000000 * 1000000, waited, sizeof(waited));
    append(&message, " %s %s: ", stalled->wait == P2P_WAIT_BYTES ? "has not moved for" : "has waited",
           waited);
    append_wait(&message, failure->env->peer_table, rank, stalled->rank);
    append(&message, "%s", missing_part(stalled));
    if (stalled->others > 0)
        append(&message, "; %d other %s too", stalled->others,
               stalled->others == 1 ? "message of this rank waits" : "messages of this rank wait");
    report(failure, text, stalled->waited_us, stalled->must_abort, stalled->rank >= 0 ? stalled->rank : rank);
}
