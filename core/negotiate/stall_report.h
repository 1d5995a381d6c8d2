/* stall_report.h: the ranks that an operation waits for, and what each of them submitted last.
 * stall_query.c finds this out, and flow's stall inspector tells the user. */
#ifndef NEGOTIATE_STALL_REPORT_H
#define NEGOTIATE_STALL_REPORT_H

#include <string.h>

#include "negotiate/desc.h"

#define STALL_MAX_RANKS 16 /* ranks that are named; the others are only counted */

enum stall_state {
    STALL_ELSEWHERE, /* it replies, and last submitted something else */
    STALL_NOTHING,   /* it replies, and has submitted nothing yet */
    STALL_SILENT,    /* it, or a rank below it in the control tree, does not reply */
    /* where the operation is decided, and runs */
    STALL_BEHIND,    /* it runs another operation that comes first, and waits there */
    STALL_NOT_BEGUN, /* it runs nothing, and has not begun this one */
    STALL_QUEUED /* its GPU is at work on what the program put before this one, or before one that comes first
                  */
};

/* How a rank stands with a batch that another rank waits in. */
enum stall_standing {
    STANDING_KEEPS_OTHERS, /* it has not begun the batch: STALL_BEHIND, NOT_BEGUN or QUEUED */
    STANDING_WAITS,        /* it waits in the same batch */
    STANDING_MOVES,        /* it makes progress, in this batch or in one that comes first */
    STANDING_PAST          /* it is done with the batch */
};

struct stall_rank {
    int rank;
    enum stall_state state;
    int waits_for;               /* BEHIND: the rank that it waits for, or -1 */
    char last[DESC_TITLE_BYTES]; /* ELSEWHERE: title of what it submitted last; BEHIND: of what it runs */
};

/* The lowest missing ranks, ascending. */
struct stall_report {
    int missing; /* how many ranks are missing; each silent rank counts as one */
    int named;
    /* where the operation runs: how many ranks wait in it, and how many make progress, so that it is just
     * slow */
    int waiting, moving;
    struct stall_rank ranks[STALL_MAX_RANKS];
};

/* Add [rank]. If there is no room, the highest ranks are only counted. */
static inline void stall_report_add(struct stall_report *stall, const struct stall_rank *rank)
{
    int at = stall->named;
    while (at > 0 && stall->ranks[at - 1].rank > rank->rank)
        at--;
    stall->missing++;
    if (at == STALL_MAX_RANKS)
        return;
    int kept = stall->named < STALL_MAX_RANKS ? stall->named : STALL_MAX_RANKS - 1;
    memmove(&stall->ranks[at + 1], &stall->ranks[at], (size_t)(kept - at) * sizeof(stall->ranks[0]));
    stall->ranks[at] = *rank;
    stall->named = kept + 1;
}

/* Add all ranks of [from]. */
static inline void stall_report_merge(struct stall_report *stall, const struct stall_report *from)
{
    for (int i = 0; i < from->named; i++)
        stall_report_add(stall, &from->ranks[i]);
    stall->missing += from->missing - from->named;
    stall->waiting += from->waiting;
    stall->moving += from->moving;
}

#endif
