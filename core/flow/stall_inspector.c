/* stall_inspector.c: tells the user which ranks an operation has waited too long for. */
#include "flow/stall_inspector.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

static void append_rank(struct stall_message *message, const struct peer_table *peer_table,
                        const struct stall_rank *rank)
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
        append(message, "does not answer, so the ranks below it in the control tree cannot be asked");
        break;
    }
}

void stall_inspector_format(const struct peer_table *peer_table, const struct decision *decision, char *text,
                            size_t text_bytes)
{
    struct stall_message message = {.text = text, .capacity = text_bytes};
    const struct stall_report *stall = decision->stall;
    char title[DESC_TITLE_BYTES];
    char waited[32];
    desc_title(decision->desc, title, sizeof(title));
    format_time(decision->waited_us / 1000000 * 1000000, waited, sizeof(waited));
    append(&message, "%s has waited %s for %d %s: ", title, waited, stall->missing,
           stall->missing == 1 ? "rank" : "ranks");
    for (int i = 0; i < stall->named; i++) {
        append(&message, "%s", i == 0 ? "" : "; ");
        append_rank(&message, peer_table, &stall->ranks[i]);
    }
    if (stall->missing > stall->named)
        append(&message, "; and %d more", stall->missing - stall->named);
    if (decision->others > 0)
        append(&message, "; %d other %s of that process set %s too", decision->others,
               decision->others == 1 ? "operation" : "operations", decision->others == 1 ? "waits" : "wait");
}

void stall_inspector_report(struct failure *failure, const struct decision *decision)
{
    char text[STALL_TEXT_BYTES];
    stall_inspector_format(failure->env->peer_table, decision, text, sizeof(text));
    if (!decision->must_abort) {
        log_write(failure->env->log, LOG_WARN, "stall", "%s", text);
        return;
    }
    struct hvd_error sentence;
    error_set(&sentence, HVD_ERR_TIMEOUT, "stall-abort: %s", text);
    failure_announce(failure, HVD_ERR_TIMEOUT, decision->stall->ranks[0].rank, sentence.text);
}
