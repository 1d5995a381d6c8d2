/* finish.c: the end of an operation: its status, its sentence, its callback. */
#include "flow/finish.h"

static void conclude(struct queue *queue, struct request *request, int status, const char *sentence)
{
    if (request->done != NULL)
        request->done((enum hvd_status)status, request->arg);
    queue_finish(queue, request, status, sentence);
}

/* The sentence about a request, or NULL where all is well. */
static const char *reason_of(const struct request *request, const char *reason, struct hvd_error *sentence)
{
    char title[HVD_MAX_NAME + 32];
    if (reason == NULL)
        return NULL;
    desc_title(&request->desc, title, sizeof(title));
    error_set(sentence, HVD_OK, "%s: %s", title, reason);
    return sentence->text;
}

void finish_request(struct queue *queue, struct request *request, int status, const char *reason)
{
    struct hvd_error sentence;
    queue_withdraw(queue, request);
    conclude(queue, request, status, reason_of(request, reason, &sentence));
}

void finish_mismatch(struct queue *queue, const struct roster *roster, const struct decision *decision)
{
    struct request *request = decision->user;
    struct desc_difference difference;
    struct hvd_error sentence;
    char rank_name[300];
    char other_name[300];
    desc_compare(decision->desc, decision->other, &difference);
    roster_name(roster, decision->rank, rank_name, sizeof(rank_name));
    roster_name(roster, decision->other_rank, other_name, sizeof(other_name));
    error_set(&sentence, HVD_OK, "%s: %s has %s, %s has %s; give all ranks the same", difference.what,
              other_name, difference.b, rank_name, difference.a);
    queue_withdraw(queue, request);
    conclude(queue, request, HVD_ERR_MISMATCH, sentence.text);
}

void finish_undecided(struct queue *queue, int status, const char *reason)
{
    struct hvd_error sentence;
    struct request *next = NULL;
    for (struct request *request = queue_withdraw_undecided(queue); request != NULL; request = next) {
        next = request->next;
        conclude(queue, request, status, reason_of(request, reason, &sentence));
    }
}
