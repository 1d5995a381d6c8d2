/* set_meeting.c: the ranks that add a process set by themselves meet before they do so.
 *
 * Each sends its list to the first of them, which answers all when it has heard from all. They are messages
 * of two ranks: so a member that does not come, that stops or is lost, is timed and named as for any other
 * message, and no rank that is not a member hears of it. Only then do the members ask for the set, which the
 * negotiation does not time out: whoever waits there knows that all others come. */
#include "api/set_meeting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/operation.h"
#include "base/hash.h"
#include "base/rank_list.h"
#include "flow/message.h"

/* Messages of meetings are in a set of their own, so that no receive of the program takes them. */
#define SET_OF_MEETINGS INT32_MAX

enum { TAG_LIST, TAG_ANSWER };

/* What a rank calls the new set. */
struct list {
    int32_t rank; /* whose it is; in an answer: -1 if all have the same */
    char text[SET_MEETING_TEXT_BYTES];
};

struct set_meeting {
    struct context *context;
    const int *ranks;
    int count;
    const char *what;
    struct list own;
};

const char *set_meeting_text(const int *ranks, int count, char text[SET_MEETING_TEXT_BYTES])
{
    char list[RANK_LIST_TEXT_BYTES];
    rank_list_text(ranks, count, list, sizeof(list));
    if (strstr(list, "...") == NULL)
        snprintf(text, SET_MEETING_TEXT_BYTES, "%s", list);
    else
        snprintf(text, SET_MEETING_TEXT_BYTES, "%s (list %" PRIx64 ")", list,
                 hash_bytes(ranks, (size_t)count * sizeof(*ranks)));
    return text;
}

/* Send [list] to [rank], or receive it from there. */
static int transfer(const struct set_meeting *meeting, enum p2p_direction direction, int rank, int tag,
                    struct list *list)
{
    bool sends = direction == P2P_SEND;
    int own_rank = meeting->own.rank;
    struct desc *desc = operation_internal_desc(sends ? DESC_SEND : DESC_RECV, HVD_ALL_RANKS, "");
    if (desc == NULL)
        return HVD_ERR_NO_MEMORY;
    desc->tensors[0] = (struct desc_tensor){.dtype = HVD_UINT8, .ndim = 1, .shape = {sizeof(*list)}};
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "%s rank %d for %s of ranks %s",
             sends ? "to" : "from", rank, meeting->what, meeting->own.text);
    struct request *request = operation_request(meeting->context, desc);
    if (request == NULL)
        return HVD_ERR_NO_MEMORY;
    request->messages = calloc(1, sizeof(*request->messages));
    if (request->messages == NULL) {
        request_free(request);
        return error_set(context_error(), HVD_ERR_NO_MEMORY, "%s: no memory for a message", meeting->what);
    }
    request->tensors[0].bytes = sizeof(*list);
    request->messages[0].op =
        (struct p2p_op){.direction = direction,
                        .envelope = {.set = SET_OF_MEETINGS, .source = sends ? own_rank : rank, .tag = tag},
                        .to = sends ? rank : own_rank,
                        .dtype = HVD_UINT8,
                        .memory = (char *)list,
                        .bytes = sizeof(*list)};
    int rc = operation_run(meeting->context, request);
    list->text[sizeof(list->text) - 1] = '\0';
    return rc;
}

/* Hear from all others. *oddp becomes the first list that differs. */
static int hear_all(const struct set_meeting *meeting, struct list *oddp)
{
    int rc = HVD_OK;
    for (int i = 1; i < meeting->count && rc == HVD_OK; i++) {
        struct list list;
        rc = transfer(meeting, P2P_RECEIVE, meeting->ranks[i], TAG_LIST, &list);
        if (rc == HVD_OK && oddp->rank < 0 && strcmp(list.text, meeting->own.text) != 0) {
            *oddp = list;
            oddp->rank = meeting->ranks[i];
        }
    }
    return rc;
}

/* Everyone is told of a list that is not its own. */
static int answer_all(const struct set_meeting *meeting, const struct list *odd)
{
    int rc = HVD_OK;
    for (int i = 1; i < meeting->count && rc == HVD_OK; i++) {
        struct list answer = meeting->ranks[i] == odd->rank ? meeting->own : *odd;
        rc = transfer(meeting, P2P_SEND, meeting->ranks[i], TAG_ANSWER, &answer);
    }
    return rc;
}

int set_meeting_hold(struct context *context, const int *ranks, int count, hvd_set existing, const char *what)
{
    struct set_meeting meeting = {.context = context, .ranks = ranks, .count = count, .what = what};
    struct list odd = {.rank = -1};
    int rank = context->bootstrap.job.rank;
    meeting.own.rank = rank;
    set_meeting_text(ranks, count, meeting.own.text);
    if (existing >= 0) {
        size_t used = strlen(meeting.own.text);
        snprintf(meeting.own.text + used, sizeof(meeting.own.text) - used, " as set %d", existing);
    }
    int rc;
    if (rank == ranks[0]) {
        rc = hear_all(&meeting, &odd);
        if (rc == HVD_OK)
            rc = answer_all(&meeting, &odd);
    } else {
        struct list own = meeting.own;
        rc = transfer(&meeting, P2P_SEND, ranks[0], TAG_LIST, &own);
        if (rc == HVD_OK)
            rc = transfer(&meeting, P2P_RECEIVE, ranks[0], TAG_ANSWER, &odd);
    }
    if (rc != HVD_OK || odd.rank < 0)
        return rc;
    return error_set(context_error(), HVD_ERR_MISMATCH,
                     "%s: rank %d has the ranks %s, rank %d has %s; give all members the same, and let them "
                     "add their sets in the same order",
                     what, rank, meeting.own.text, odd.rank, odd.text);
}
