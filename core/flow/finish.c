/* finish.c: the end of an operation: its status, its sentence, its callback. */
#include "flow/finish.h"

/* Results of a successful operation become the caller's. Those of a failed one are freed with the request. */
static void deliver_results(struct request *request)
{
    for (int i = 0; i < request->tensor_count; i++) {
        struct request_tensor *tensor = &request->tensors[i];
        if (tensor->result == NULL)
            continue;
        tensor->result->data = tensor->output;
        tensor->result->row_count = tensor->result_rows;
        tensor->owned = false;
    }
}

static _Atomic int *counter_of(struct finish *finish, const struct request *request)
{
    return request->desc->kind == DESC_JOIN ? &finish->joins : &finish->unlaunched;
}

/* NCCL makes a communicator, or may, for a persistent operation, and for a process set that all ranks add. */
void finish_count(struct finish *finish, struct request *request)
{
    enum desc_kind kind = request->desc->kind;
    bool splits = kind == DESC_SET_ADD && !request->desc->by_members;
    request->is_counted = kind == DESC_JOIN || splits || request->persistent != NULL ||
                          (request->ready != NULL && !desc_is_message(kind));
    if (request->is_counted)
        atomic_fetch_add(counter_of(finish, request), 1);
}

void finish_uncount(struct finish *finish, struct request *request)
{
    if (request->is_counted)
        atomic_fetch_sub(counter_of(finish, request), 1);
    request->is_counted = false;
}

static void complete_request(struct finish *finish, struct request *request, int status, const char *sentence,
                             int64_t now_us)
{
    finish->any_finished = true;
    finish_uncount(finish, request);
    if (status == HVD_OK && !atomic_load_explicit(&request->launched, memory_order_relaxed))
        deliver_results(request);
    trace_done(finish->trace, &request->trace, status, now_us);
    if (request->done != NULL) {
        control_ring(finish->control);
        request->done((enum hvd_status)status, request->arg);
    }
    tensor_queue_finish(finish->queue, request, status, sentence);
}

/* Whoever waits for the launch may use the result from then on. */
void finish_launch(struct finish *finish, struct request *request, struct gpu_event *end)
{
    tensor_queue_withdraw(request);
    deliver_results(request);
    finish_uncount(finish, request);
    tensor_queue_launch(finish->queue, request, end);
    finish->any_finished = true;
}

/* The error sentence of a request; NULL for HVD_OK. */
static const char *format_reason(const struct request *request, int status, const char *reason,
                                 struct hvd_error *sentence)
{
    char title[DESC_TITLE_BYTES];
    if (status == HVD_OK)
        return NULL;
    desc_title(request->desc, title, sizeof(title));
    error_set(sentence, status, "%s: %s", title, reason == NULL ? status_text(status) : reason);
    return sentence->text;
}

void finish_request(struct finish *finish, struct request *request, int status, const char *reason)
{
    struct hvd_error sentence;
    tensor_queue_withdraw(request);
    complete_request(finish, request, status, format_reason(request, status, reason, &sentence),
                     finish->now_us);
}

void finish_tensor(struct finish *finish, struct request_tensor *tensor, int status, const char *reason)
{
    if (status != HVD_OK)
        request_fail(tensor->request, status, reason);
    struct request *request = request_tensor_over(tensor);
    if (request->tensors_left > 0)
        return;
    if (request->placeholder)
        request_free(request);
    else
        finish_request(finish, request, request->first_error, request->reason);
}

/* `allreduce "w": rank 5 (n2) has A, rank 0 (n1) has B; ...`. */
static void format_mismatch(const struct peer_table *peer_table, const struct decision *decision,
                            struct hvd_error *sentence)
{
    struct desc_difference difference;
    char rank_name[300];
    char other_name[300];
    decision_compare(decision, &difference);
    peer_table_rank_name(peer_table, decision->rank, rank_name, sizeof(rank_name));
    peer_table_rank_name(peer_table, decision->other_rank, other_name, sizeof(other_name));
    error_set(sentence, HVD_ERR_MISMATCH, "%s: %s has %s, %s has %s; give all ranks the same",
              difference.what, other_name, difference.b, rank_name, difference.a);
}

static void format_joined(const struct peer_table *peer_table, const struct decision *decision,
                          struct hvd_error *sentence)
{
    char title[DESC_TITLE_BYTES];
    char name[300];
    desc_title(decision->desc, title, sizeof(title));
    peer_table_rank_name(peer_table, decision->rank, name, sizeof(name));
    error_set(sentence, HVD_ERR_MISMATCH,
              "%s: %s has joined, and this cannot be done without it; only sums, averages and Adasum of "
              "allreduce and barriers can, do others before any rank calls hvd_join",
              title, name);
}

static int64_t trace_now_us(const struct trace *trace)
{
    return trace == NULL ? 0 : clock_us();
}

void finish_disagreement(struct finish *finish, const struct peer_table *peer_table,
                         const struct decision *decision)
{
    struct request *request = decision->user;
    struct hvd_error sentence;
    if (request == NULL)
        return;
    if (decision->kind == DECISION_MISMATCH)
        format_mismatch(peer_table, decision, &sentence);
    else
        format_joined(peer_table, decision, &sentence);
    tensor_queue_withdraw(request);
    complete_request(finish, request, HVD_ERR_MISMATCH, sentence.text, trace_now_us(finish->trace));
}

void finish_undecided(struct finish *finish, hvd_set set, int status, const char *reason)
{
    struct hvd_error sentence;
    struct request *next = NULL;
    for (struct request *request = tensor_queue_withdraw_undecided(finish->queue, set); request != NULL;
         request = next) {
        next = request->next;
        complete_request(finish, request, status, format_reason(request, status, reason, &sentence),
                         trace_now_us(finish->trace));
    }
}
