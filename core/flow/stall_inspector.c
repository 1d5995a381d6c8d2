/* stall_inspector.c: tells the user which ranks an operation has waited too long for. */
#include "flow/stall_inspector.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "negotiate/stall_report.h"
#include "net/peer_table.h"
#include "trace/state_words.h"

/* Append what [rank] does. [runs]: the operation was decided and runs; else it waits to be submitted. */
static void append_rank(struct sentence *sentence, const struct peer_table *peer_table,
                        const struct stall_rank *rank, bool runs)
{
    char name[300];
    peer_table_rank_name(peer_table, rank->rank, name, sizeof(name));
    sentence_add(sentence, "%s ", name);
    switch (rank->state) {
    case STALL_ELSEWHERE:
    case STALL_NOTHING:
        state_words_add_last(sentence, rank->state == STALL_ELSEWHERE ? rank->last : NULL, -1);
        break;
    case STALL_SILENT:
        sentence_add(sentence, "does not answer%s",
                     runs ? "" : ", so the ranks below it in the control tree cannot be asked");
        break;
    case STALL_BEHIND:
        sentence_add(sentence, "is still at %s", rank->last);
        if (rank->waits_for < 0)
            break;
        peer_table_rank_name(peer_table, rank->waits_for, name, sizeof(name));
        sentence_add(sentence, ", where it waits for %s", name);
        break;
    case STALL_NOT_BEGUN:
        sentence_add(sentence, "has not begun it");
        break;
    case STALL_QUEUED:
        sentence_add(sentence, "has not begun it: its GPU is at work on what its program put before it");
        break;
    }
}

/* `in allreduce "w" for 60 s, waits for 2 ranks: `, as a rank in it says of itself. [begun]: all ranks have
 * submitted it, and it does not move. */
static void append_title(struct sentence *sentence, const char *title, bool begun, int64_t waited_us,
                         const char *waits_for)
{
    state_words_add(sentence, &(struct state_words){.verb = STATE_IN,
                                                    .operation = title,
                                                    .detail = begun ? ", which has not moved" : NULL,
                                                    .for_us = waited_us,
                                                    .waits_for = waits_for});
    sentence_add(sentence, ": ");
}

static void append_ranks(struct sentence *sentence, const struct peer_table *peer_table,
                         const struct stall_report *stall, bool runs)
{
    for (int i = 0; i < stall->named; i++) {
        sentence_add(sentence, "%s", i == 0 ? "" : "; ");
        append_rank(sentence, peer_table, &stall->ranks[i], runs);
    }
    if (stall->missing > stall->named)
        sentence_add(sentence, "; and %d more", stall->missing - stall->named);
}

/* `rank 0 (n1) waits for rank 1 (n2)`. */
static void append_wait(struct sentence *sentence, const struct peer_table *peer_table, int rank,
                        int waits_for)
{
    char name[300];
    peer_table_rank_name(peer_table, rank, name, sizeof(name));
    sentence_add(sentence, "%s waits", name);
    if (waits_for < 0)
        return;
    peer_table_rank_name(peer_table, waits_for, name, sizeof(name));
    sentence_add(sentence, " for %s", name);
}

/* All members that are not done with it wait in it: none of them can be blamed, but perhaps what is between
 * two of them. */
static void append_circle(struct sentence *sentence, const struct peer_table *peer_table,
                          const struct decision *decision)
{
    append_wait(sentence, peer_table, decision->rank, decision->other_rank);
    sentence_add(sentence, "%s",
                 decision->other_rank < 0
                     ? ", its backend cannot tell for whom, and all ranks answer"
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
static void append_unnamed(struct sentence *sentence, const struct decision *decision)
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
        sentence_add(
            sentence,
            "; rank %d waits in its %lu%s unnamed %.*s, rank %d in its %lu%s: give names, or call join",
            decision->rank, number + 1, ordinal_ending(number + 1), (int)length, name, stall->ranks[i].rank,
            other + 1, ordinal_ending(other + 1));
        return;
    }
}

void stall_inspector_format(const struct peer_table *peer_table, const struct decision *decision, char *text,
                            size_t text_bytes)
{
    struct sentence sentence = {.text = text, .capacity = text_bytes};
    const struct stall_report *stall = decision->stall;
    char title[DESC_TITLE_BYTES];
    char ranks[32];
    desc_title(decision->desc, title, sizeof(title));
    snprintf(ranks, sizeof(ranks), "%d %s", stall->missing, stall->missing == 1 ? "rank" : "ranks");
    append_title(&sentence, title, decision->batch > 0, decision->waited_us,
                 decision->batch > 0 ? NULL : ranks);
    if (stall->missing == 0)
        append_circle(&sentence, peer_table, decision);
    else
        append_ranks(&sentence, peer_table, stall, decision->batch > 0);
    if (decision->others > 0)
        sentence_add(&sentence, "; %d other %s of that process set %s too", decision->others,
                     decision->others == 1 ? "operation" : "operations",
                     decision->others == 1 ? "waits" : "wait");
    if (decision->batch == 0)
        append_unnamed(&sentence, decision);
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
    char text[STALL_TEXT_BYTES], title[DESC_TITLE_BYTES];
    struct sentence sentence = {.text = text, .capacity = sizeof(text)};
    int rank = failure->control->rank;
    desc_title(stalled_batch->desc, title, sizeof(title));
    append_title(&sentence, title, true, stalled_batch->waited_us, NULL);
    append_wait(&sentence, failure->env->peer_table, rank, stalled_batch->waits_for);
    report(failure, text, stalled_batch->waited_us, must_abort,
           stalled_batch->waits_for >= 0 ? stalled_batch->waits_for : rank);
}

/* `recv of float32[100] from rank 1 with tag 5 in process set 3`. */
static void append_message(struct sentence *sentence, const struct desc *desc, int index,
                           const struct p2p_op *op)
{
    sentence_add(sentence, "%s of %s[%" PRId64 "] %s", op->direction == P2P_SEND ? "send" : "recv",
                 dtype_name(op->dtype), op->bytes / (int64_t)dtype_bytes(op->dtype),
                 desc->tensors[index].name);
    if (desc->set != HVD_ALL_RANKS)
        sentence_add(sentence, " in process set %d", desc->set);
}

/* The step that is missing at the other end, as a clause. */
static const char *missing_part(const struct p2p_stalled *stalled)
{
    bool sends = stalled->op->direction == P2P_SEND;
    switch (stalled->wait) {
    case P2P_WAIT_STREAM:
        return " for its own GPU: the stream of the call has not come so far";
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
    char text[STALL_TEXT_BYTES], title[DESC_TITLE_BYTES];
    struct sentence sentence = {.text = text, .capacity = sizeof(text)};
    int rank = failure->control->rank;
    append_message(&(struct sentence){title, 0, sizeof(title)}, desc, index, stalled->op);
    append_title(&sentence, title, stalled->wait == P2P_WAIT_BYTES, stalled->waited_us, NULL);
    append_wait(&sentence, failure->env->peer_table, rank, stalled->rank == rank ? -1 : stalled->rank);
    sentence_add(&sentence, "%s", missing_part(stalled));
    if (stalled->others > 0)
        sentence_add(&sentence, "; %d other %s too", stalled->others,
                     stalled->others == 1 ? "message of this rank waits" : "messages of this rank wait");
    report(failure, text, stalled->waited_us, stalled->must_abort, stalled->rank >= 0 ? stalled->rank : rank);
}
