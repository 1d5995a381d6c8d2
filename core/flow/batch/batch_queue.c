/* batch_queue.c: the batches of this rank in the agreed order, and how each of them ends. */
#include "flow/batch/batch_queue.h"

void batch_queue_init(struct batch_queue *batch_queue)
{
    batch_queue->tail = &batch_queue->first;
    batch_queue->launched_tail = &batch_queue->launched;
}

void batch_queue_arm(struct batch_queue *batch_queue, bool armed)
{
    batch_queue->armed = armed;
}

/* ---- Order ------------------------------------------------------------------------------------- */

void batch_queue_append(struct batch_queue *batch_queue, struct batch *batch)
{
    batch->next = NULL;
    *batch_queue->tail = batch;
    batch_queue->tail = &batch->next;
    batch_queue->count++;
    trials_batch_queued(batch_queue->trials);
    for (const struct batch *at = batch_companions(batch); at != NULL; at = at->next)
        trials_batch_queued(batch_queue->trials);
}

void batch_queue_insert_behind(struct batch_queue *batch_queue, struct batch *batch, struct batch *rest)
{
    rest->next = batch->next;
    batch->next = rest;
    if (rest->next == NULL)
        batch_queue->tail = &rest->next;
    batch_queue->count++;
}

void batch_queue_part_companions(struct batch_queue *batch_queue, struct batch *batch)
{
    struct batch *companions = batch_take_companions(batch);
    struct batch *last = companions;
    if (last == NULL)
        return;
    for (batch_queue->count++; last->next != NULL; last = last->next)
        batch_queue->count++;
    last->next = batch->next;
    if (last->next == NULL)
        batch_queue->tail = &last->next;
    batch->next = companions;
}

struct batch *batch_queue_remove_first(struct batch_queue *batch_queue)
{
    struct batch *batch = batch_queue->first;
    batch_queue->first = batch->next;
    if (batch_queue->first == NULL)
        batch_queue->tail = &batch_queue->first;
    batch_queue->count--;
    return batch;
}

/* Callers that wait for the launch of their operation need not wait for the GPU. */
static void launch_tensors(struct batch_queue *batch_queue, struct batch *batch)
{
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next)
        if (--tensor->request->tensors_to_launch == 0 && !tensor->request->placeholder &&
            tensor->request->first_error == HVD_OK)
            finish_launch(batch_queue->finish, tensor->request, batch->event);
}

void batch_queue_launch_first(struct batch_queue *batch_queue)
{
    struct batch *batch = batch_queue_remove_first(batch_queue);
    batch->stage = BATCH_DONE;
    batch_queue_append_launched(batch_queue, batch);
    launch_tensors(batch_queue, batch);
}

void batch_queue_append_launched(struct batch_queue *batch_queue, struct batch *batch)
{
    batch->next = NULL;
    *batch_queue->launched_tail = batch;
    batch_queue->launched_tail = &batch->next;
}

struct batch *batch_queue_remove_launched(struct batch_queue *batch_queue)
{
    struct batch *batch = batch_queue->launched;
    batch_queue->launched = batch->next;
    if (batch_queue->launched == NULL)
        batch_queue->launched_tail = &batch_queue->launched;
    batch_queue->moves++;
    batch_queue->ends++;
    return batch;
}

/* ---- Ends -------------------------------------------------------------------------------------- */

static void end_tensors(struct batch_queue *batch_queue, struct batch *batch, int status, const char *reason)
{
    struct request_tensor *next = NULL;
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = next) {
        next = tensor->next;
        finish_tensor(batch_queue->finish, tensor, status, reason);
    }
    batch->tensors = NULL;
    batch->tail = &batch->tensors;
}

static void count_batch(const struct finish *finish, const struct batch *batch)
{
    int backend = batch_uses_nccl(batch) ? (int)BACKEND_NCCL : batch->backend;
    if (backend >= 0 && batch->tensor_count > 0)
        trace_count_batch(finish->trace, (enum backend_id)backend, batch->tensor_count, batch->layout.bytes,
                          finish->now_us);
}

void batch_queue_end(struct batch_queue *batch_queue, struct batch *batch, int status, const char *reason)
{
    finish_read_clock(batch_queue->finish);
    trials_batch_done(batch_queue->trials, batch->layout.bytes, batch_queue->first != NULL);
    count_batch(batch_queue->finish, batch);
    end_tensors(batch_queue, batch, status, reason);
    if (batch_set_change(batch) != NULL && batch_set_change(batch)->request != NULL)
        finish_request(batch_queue->finish, batch_set_change(batch)->request, status, reason);
    batch_free(batch);
}

struct batch *batch_queue_keep_first(struct batch_queue *batch_queue)
{
    struct batch *leader = batch_queue_remove_first(batch_queue);
    finish_read_clock(batch_queue->finish);
    trials_batch_done(batch_queue->trials, 0, batch_queue->first != NULL);
    for (struct batch *batch = batch_companions(leader); batch != NULL; batch = batch->next)
        end_tensors(batch_queue, batch, HVD_OK, NULL);
    end_tensors(batch_queue, leader, HVD_OK, NULL);
    return leader;
}

int batch_queue_test_event(const struct batch_queue *batch_queue, const struct batch *batch,
                           struct hvd_error *err)
{
    int rc = gpu_event_status(batch->event, err);
    if (rc != HVD_IN_PROGRESS || !batch_queue->armed)
        return rc;
    rc = gpu_notify(batch->gpu, batch->event, err);
    return rc == HVD_OK ? HVD_IN_PROGRESS : rc;
}

void batch_queue_trace(struct batch_queue *batch_queue, const struct batch *batch, enum trace_step step)
{
    struct finish *finish = batch_queue->finish;
    finish_read_clock(finish);
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL && finish->trace != NULL;
         tensor = tensor->next)
        trace_step(finish->trace, &tensor->request->trace, step, finish->now_us);
}

/* ---- Questions --------------------------------------------------------------------------------- */

bool batch_queue_is_empty(const struct batch_queue *batch_queue)
{
    return batch_queue->first == NULL && batch_queue->launched == NULL;
}

int batch_queue_count(const struct batch_queue *batch_queue)
{
    return batch_queue->count;
}

bool batch_queue_has_launched(const struct batch_queue *batch_queue)
{
    return batch_queue->launched != NULL;
}

bool batch_queue_is_in_nccl(const struct batch_queue *batch_queue)
{
    return batch_queue->first != NULL && batch_is_in_nccl(batch_queue->first);
}

struct batch_head batch_queue_first(const struct batch_queue *batch_queue)
{
    return (struct batch_head){batch_queue->first, batch_queue->moves};
}

struct batch_head batch_queue_first_launched(const struct batch_queue *batch_queue)
{
    return (struct batch_head){batch_queue->launched, batch_queue->ends};
}

bool batch_queue_is_launched(const struct batch_queue *batch_queue, hvd_set set, uint64_t number)
{
    const struct batch *batch = batch_queue->launched;
    while (batch != NULL && (batch->number != number || batch->set->members.set != set))
        batch = batch->next;
    return batch != NULL;
}
