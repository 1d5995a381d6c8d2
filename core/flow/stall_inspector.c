/* stall_inspector.c: tell of an operation that waits too long for some ranks. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "flow/stages.h"
#include "negotiate/stall_report.h"

/* A text that grows, and ends in "..." where there is no more room. */
struct words {
    char text[900];
    size_t used;
};

static void add(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct words *words, const char *format, ...)
{
    size_t room = sizeof(words->text) - words->used;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(words->text + words->used, room, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= room) {
        memcpy(words->text + sizeof(words->text) - 4, "...", 4);
        words->used = sizeof(words->text) - 1;
        return;
    }
    words->used += (size_t)length;
}

static void add_rank(struct words *words, const struct roster *roster, const struct stall_rank *rank)
{
    char name[300];
    roster_name(roster, rank->rank, name, sizeof(name));
    add(words, "%s ", name);
    switch (rank->state) {
    case STALL_ELSEWHERE:
        add(words, "last submitted %s", rank->last);
        break;
    case STALL_NOTHING:
        add(words, "has submitted nothing yet");
        break;
    case STALL_SILENT:
        add(words, "does not answer, nor do the ranks that it speaks for");
        break;
    }
}

/* `allreduce "w" has waited 60s for 2 ranks: rank 5 (n2) last submitted allreduce "v"; ...` */
static void tell(const struct roster *roster, const struct decision *decision, struct words *words)
{
    const struct stall *stall = decision->stall;
    char title[DESC_TITLE_BYTES];
    char waited[32];
    desc_title(decision->desc, title, sizeof(title));
    format_time(decision->waited_us / 1000000 * 1000000, waited, sizeof(waited));
    add(words, "%s has waited %s for %d %s: ", title, waited, stall->missing,
        stall->missing == 1 ? "rank" : "ranks");
    for (int i = 0; i < stall->named; i++) {
        add(words, "%s", i == 0 ? "" : "; ");
        add_rank(words, roster, &stall->ranks[i]);
    }
    if (stall->missing > stall->named)
        add(words, "; and %d more", stall->missing - stall->named);
    if (decision->others > 0)
        add(words, "; %d other %s of that process set %s too", decision->others,
            decision->others == 1 ? "operation" : "operations", decision->others == 1 ? "waits" : "wait");
}

void stalled(struct loop *loop, const struct decision *decision)
{
    const struct plane_env *env = &loop->planes.env;
    struct words words = {.used = 0};
    tell(env->roster, decision, &words);
    if (!decision->hopeless) {
        log_write(env->log, LOG_WARN, "stall", "%s", words.text);
        return;
    }
    struct hvd_error sentence;
    error_set(&sentence, HVD_ERR_TIMEOUT, "stall-abort: %s", words.text);
    fail_job(loop, HVD_ERR_TIMEOUT, decision->stall->ranks[0].rank, sentence.text);
}
