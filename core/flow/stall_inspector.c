/* stall_inspector.c: format_report of an operation that waits too long for some ranks. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "flow/stages.h"
#include "negotiate/stall_report.h"

/* A text that grows, and ends in "..." where there is no more room. */
struct stall_message {
    char text[900];
    size_t used;
};

static void append(struct stall_message *message, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(struct stall_message *message, const char *format, ...)
{
    size_t room = sizeof(message->text) - message->used;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(message->text + message->used, room, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= room) {
        memcpy(message->text + sizeof(message->text) - 4, "...", 4);
        message->used = sizeof(message->text) - 1;
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
        append(message, "does not answer, nor do the ranks that it speaks for");
        break;
    }
}

/* `allreduce "w" has waited 60s for 2 ranks: rank 5 (n2) last submitted allreduce "v"; ...` */
static void format_report(const struct peer_table *peer_table, const struct decision *decision,
                          struct stall_message *message)
{
    const struct stall_report *stall = decision->stall;
    char title[DESC_TITLE_BYTES];
    char waited[32];
    desc_title(decision->desc, title, sizeof(title));
    format_time(decision->waited_us / 1000000 * 1000000, waited, sizeof(waited));
    append(message, "%s has waited %s for %d %s: ", title, waited, stall->missing,
           stall->missing == 1 ? "rank" : "ranks");
    for (int i = 0; i < stall->named; i++) {
        append(message, "%s", i == 0 ? "" : "; ");
        append_rank(message, peer_table, &stall->ranks[i]);
    }
    if (stall->missing > stall->named)
        append(message, "; and %d more", stall->missing - stall->named);
    if (decision->others > 0)
        append(message, "; %d other %s of that process set %s too", decision->others,
               decision->others == 1 ? "operation" : "operations", decision->others == 1 ? "waits" : "wait");
}

void stall_inspector_report(struct loop *loop, const struct decision *decision)
{
    const struct backend_env *env = &loop->backends.env;
    struct stall_message message = {.used = 0};
    format_report(env->peer_table, decision, &message);
    if (!decision->must_abort) {
        log_write(env->log, LOG_WARN, "stall", "%s", message.text);
        return;
    }
    struct hvd_error sentence;
    error_set(&sentence, HVD_ERR_TIMEOUT, "stall-abort: %s", message.text);
    fail_job(loop, HVD_ERR_TIMEOUT, decision->stall->ranks[0].rank, sentence.text);
}
