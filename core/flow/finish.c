/* finish.c: the end of an operation: its status, its sentence, its callback. */
#include "flow/finish.h"

#include "base/clock.h"

/* The results of a success are the caller's; what an error leaves goes with the request. */
static void hand_over(struct request *request)
{
    for (int i = 0; i < request->piece_count; i++) {
        struct piece *piece = &request->pieces[i];
        if (piece->result == NULL)
            continue;
        piece->result->data = piece->output;
        piece->result->row_count = piece->result_rows;
        piece->owned = false;
    }
}

static void conclude(struct queue *queue, struct trace *trace, struct request *request, int status,
                     const char *sentence, int64_t now_us)
{
    if (status == HVD_OK)
        hand_over(request);
    trace_done(trace, &request->trace, status, now_us);
    if (request->done != NULL)
        request->done((enum hvd_status)status, request->arg);
    queue_finish(queue, request, status, sentence);
}

static int64_t now_for(const struct trace *trace)
{
    return trace == NULL ? 0 : clock_us();
}

/* The sentence about a request, or NULL where all is well. */
static const char *reason_of(const struct request *request, int status, const char *reason,
                             struct hvd_error *sentence)
{
    char title[DESC_TITLE_BYTES];
    if (status == HVD_OK)
        return NULL;
    desc_title(request->desc, title, sizeof(title));
    error_set(sentence, status, "%s: %s", title, reason == NULL ? status_text(status) : reason);
    return sentence->text;
}

void finish_request(struct queue *queue, struct trace *trace, struct request *request, int status,
                    const char *reason, int64_t now_us)
{
    struct hvd_error sentence;
    queue_withdraw(request);
    conclude(queue, trace, request, status, reason_of(request, status, reason, &sentence), now_us);
}

/* `allreduce "w": rank 5 (n2) has this, rank 0 (n1) has that`. */
static void tell_mismatch(const struct roster *roster, const struct decision *decision,
                          struct hvd_error *sentence)
{
    struct desc_difference difference;
    char rank_name[300];
    char other_name[300];
    decision_compare(decision, &difference);
    roster_name(roster, decision->rank, rank_name, sizeof(rank_name));
    roster_name(roster, decision->other_rank, other_name, sizeof(other_name));
    error_set(sentence, HVD_ERR_MISMATCH, "%s: %s has %s, %s has %s; give all ranks the same",
              difference.what, other_name, difference.b, rank_name, difference.a);
}

static void tell_joined(const struct roster *roster, const struct decision *decision,
                        struct hvd_error *sentence)
{
    char title[DESC_TITLE_BYTES];
    char name[300];
    desc_title(decision->desc, title, sizeof(title));
    roster_name(roster, decision->rank, name, sizeof(name));
    error_set(sentence, HVD_ERR_MISMATCH,
              "%s: %s has joined, and this cannot be done without it; only sums, averages and Adasum of "
              "allreduce and barriers can, do others before any rank calls hvd_join",
              title, name);
}

void finish_disagreement(struct queue *queue, struct trace *trace, const struct roster *roster,
                         const struct decision *decision)
{
    struct request *request = decision->user;
    struct hvd_error sentence;
    if (request == NULL)
        return;
    if (decision->kind == DECISION_MISMATCH)
        tell_mismatch(roster, decision, &sentence);
    else
        tell_joined(roster, decision, &sentence);
    queue_withdraw(request);
    conclude(queue, trace, request, HVD_ERR_MISMATCH, sentence.text, now_for(trace));
}

void finish_undecided(struct queue *queue, struct trace *trace, hvd_set set, int status, const char *reason)
{
    struct hvd_error sentence;
    struct request *next = NULL;
    for (struct request *request = queue_withdraw_undecided(queue, set); request != NULL; request = next) {
        next = request->next;
        conclude(queue, trace, request, status, reason_of(request, status, reason, &sentence),
                 now_for(trace));
    }
}
