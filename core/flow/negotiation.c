/* negotiation.c: from what was submitted to what is agreed, and from there into batches. */
#include <stdlib.h>
#include <string.h>

#include "flow/adasum.h"
#include "flow/stages.h"

/* ---- 1 queue -> 2 negotiate ------------------------------------------------------------------ */

static int submit_shutdown(struct loop *loop, struct hvd_error *err)
{
    struct desc *desc = desc_create(1);
    if (desc == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left to say that this rank leaves");
    desc->kind = DESC_SHUTDOWN;
    memcpy(desc->tensors[0].name, DESC_SHUTDOWN_NAME, sizeof(DESC_SHUTDOWN_NAME));
    struct submission submission = {.desc = desc};
    loop->leave_submitted = true;
    negotiate_leave(loop->negotiate);
    int rc = negotiate_submit(loop->negotiate, &submission, err);
    desc_release(desc);
    return rc;
}

static bool contains_rank(const struct request *request, int rank)
{
    int count = (int)request->desc->tensors[0].shape[0];
    for (int i = 0; i < count; i++) {
        if (request->ranks[i] == rank)
            return true;
    }
    return false;
}

static int submit_request(struct loop *loop, struct request *request, bool more, struct hvd_error *err)
{
    const struct desc *desc = request->desc;
    struct submission submission = {.desc = desc,
                                    .number = request->number,
                                    .more = more,
                                    .backends = request->backends,
                                    .user = request};
    if (desc->kind == DESC_SET_ADD) {
        submission.member = contains_rank(request, loop->control->rank);
        submission.set_size = (int)desc->tensors[0].shape[0];
    }
    int rc = HVD_ERR_SET;
    if (set_registry_get(loop->set_registry, desc->set) != NULL)
        rc = negotiate_submit(loop->negotiate, &submission, err);
    if (rc != HVD_ERR_SET)
        return rc;
    struct hvd_error reason;
    error_set(&reason, HVD_ERR_SET, "process set %d was removed meanwhile", desc->set);
    stage_begin(loop);
    end_request(loop, request, HVD_ERR_SET, reason.text);
    return HVD_OK;
}

bool negotiation_submit(struct loop *loop, struct hvd_error *err, int *rcp)
{
    struct request *request = tensor_queue_take(loop->queue);
    struct request *next = NULL;
    bool moved = request != NULL;
    for (; request != NULL && *rcp == HVD_OK; request = next) {
        next = request->next;
        *rcp = submit_request(loop, request, next != NULL, err);
    }
    if (*rcp == HVD_OK && !loop->leave_submitted &&
        atomic_load_explicit(&loop->leave_requested, memory_order_acquire)) {
        *rcp = submit_shutdown(loop, err);
        moved = true;
    }
    return moved;
}

/* ---- 2 negotiate -> 3 batches ---------------------------------------------------------------- */

static bool reserve_items(struct decided_unit *decided, int more)
{
    if (decided->count + more <= decided->capacity)
        return true;
    int capacity = 2 * decided->capacity + more + 64;
    struct fuse_item *items = reallocarray(decided->items, (size_t)capacity, sizeof(*items));
    if (items != NULL)
        decided->items = items;
    struct request_tensor **tensors =
        reallocarray(decided->tensors, (size_t)capacity, sizeof(struct request_tensor *));
    if (tensors != NULL)
        decided->tensors = tensors;
    if (items == NULL || tensors == NULL)
        return false;
    decided->capacity = capacity;
    return true;
}

static int no_memory(struct hvd_error *err)
{
    return error_set(err, HVD_ERR_NO_MEMORY, "no memory left to plan the next operations");
}

/* What this rank, which has joined, runs in place of what it did not submit. */
static int placeholder(const struct desc *desc, struct request **requestp, struct hvd_error *err)
{
    char title[DESC_TITLE_BYTES];
    desc_title(desc, title, sizeof(title));
    if (desc->kind != DESC_ALLREDUCE || !desc_allows_joined(desc))
        return error_set(err, HVD_ERR_SYSTEM, "the ranks agreed on %s, which this rank did not submit",
                         title);
    struct request *request = request_create(desc);
    if (request == NULL)
        return no_memory(err);
    request->placeholder = true;
    for (int i = 0; i < request->tensor_count; i++) {
        request->tensors[i].count = desc_count(&desc->tensors[i]);
        if (request->tensors[i].count < 0) {
            request_free(request);
            return error_set(err, HVD_ERR_SYSTEM, "the ranks agreed on %s, which is too large", title);
        }
    }
    *requestp = request;
    return HVD_OK;
}

/* All tensors of an operation that all ranks agreed to run. */
static int add_fuse_items(struct loop *loop, const struct decision *decision, struct hvd_error *err)
{
    struct decided_unit *decided = &loop->decided;
    struct request *request = decision->user;
    if (!reserve_items(decided, decision->desc->tensor_count))
        return no_memory(err);
    int rc = request == NULL ? placeholder(decision->desc, &request, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    request->decided = true;
    request->number = decision->number;
    for (int i = 0; i < request->tensor_count; i++) {
        struct fuse_item *item = &decided->items[decided->count];
        *item = (struct fuse_item){.desc = request->desc, .index = i, .backend = decision->backend};
        item->bytes = batch_tensor_bytes(&request->tensors[i]);
        decided->tensors[decided->count++] = &request->tensors[i];
    }
    return HVD_OK;
}

static int handle_run(struct loop *loop, const struct decision *decision, struct hvd_error *err)
{
    struct request *request = decision->user;
    uint64_t agreed = set_registry_count_operation(loop->set_registry, decision->set);
    trials_decided(loop, decision);
    if (request != NULL)
        trace_decided(loop->trace, &request->trace, agreed, loop->now_us);
    switch (decision->desc->kind) {
    case DESC_SHUTDOWN:
        loop->all_left = true;
        return HVD_OK;
    case DESC_JOIN:
        if (request != NULL && request->last_rankp != NULL)
            *request->last_rankp = decision->rank;
        break;
    case DESC_BARRIER:
        break;
    default:
        return add_fuse_items(loop, decision, err);
    }
    if (request != NULL)
        end_request(loop, request, HVD_OK, NULL);
    return HVD_OK;
}

static void append_batch(struct loop *loop, struct batch *batch)
{
    batch->next = NULL;
    *loop->batch_tail = batch;
    loop->batch_tail = &batch->next;
    loop->batch_count++;
    trials_busy(loop);
}

/* The batch of the [i]th item, made where the item is its first. */
static struct batch *batch_of_item(struct loop *loop, struct batch **made, int i)
{
    const struct fuse_item *item = &loop->decided.items[i];
    struct batch **batchp = &made[item->batch];
    if (*batchp != NULL)
        return *batchp;
    *batchp = batch_create(set_registry_get(loop->set_registry, item->desc->set), item->backend, item->desc,
                           item->index);
    if (*batchp == NULL)
        return NULL;
    (*batchp)->fusion_bytes = loop->settings.fusion_bytes;
    (*batchp)->transfer.chunk_bytes = loop->settings.chunk_bytes;
    append_batch(loop, *batchp);
    return *batchp;
}

/* Cut what one unit decided into batches. Without memory the items that are in none stay where they are. */
static int fuse_unit(struct loop *loop, struct hvd_error *err)
{
    struct decided_unit *decided = &loop->decided;
    int done = 0;
    if (decided->count == 0)
        return HVD_OK;
    int count = fuse_plan(decided->items, decided->count, loop->settings.fusion_bytes);
    struct batch **made = calloc((size_t)count, sizeof(struct batch *));
    while (made != NULL && done < decided->count) {
        struct batch *batch = batch_of_item(loop, made, done);
        if (batch == NULL)
            break;
        batch_add(batch, decided->tensors[done++]);
    }
    decided->count -= done;
    memmove(decided->tensors, decided->tensors + done, (size_t)decided->count * sizeof(decided->tensors[0]));
    free(made);
    return decided->count == 0 ? HVD_OK : no_memory(err);
}

/* A set comes or goes behind what was decided before it. */
static int handle_set_change(struct loop *loop, const struct decision *decision, struct hvd_error *err)
{
    struct request *request = decision->user;
    bool removed = decision->kind == DECISION_SET_REMOVED;
    int rc = fuse_unit(loop, err);
    if (rc != HVD_OK)
        return rc;
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return no_memory(err);
    batch->stage = removed ? BATCH_SET_REMOVE : BATCH_SET_ADD;
    batch->backend = -1;
    batch->set = decision->set;
    batch->backends = decision->backends;
    batch->request = request;
    request->decided = true;
    trace_decided(loop->trace, &request->trace,
                  set_registry_count_operation(loop->set_registry, HVD_ALL_RANKS), loop->now_us);
    if (removed) {
        struct hvd_error reason;
        error_set(&reason, HVD_ERR_SET, "process set %d was removed", decision->set);
        batch->team = set_registry_remove(loop->set_registry, decision->set);
        end_undecided(loop, decision->set, HVD_ERR_SET, reason.text);
    }
    append_batch(loop, batch);
    return HVD_OK;
}

static void handle_leaving(struct loop *loop, const struct decision *decision)
{
    char name[300];
    struct hvd_error reason;
    peer_table_rank_name(loop->backends.env.peer_table, decision->rank, name, sizeof(name));
    error_set(&reason, HVD_ERR_SHUTDOWN, "%s has called hvd_shutdown", name);
    tensor_queue_refuse(loop->queue, HVD_ERR_SHUTDOWN, reason.text);
    end_undecided(loop, TENSOR_QUEUE_ALL_SETS, HVD_ERR_SHUTDOWN, reason.text);
}

static int handle_decision(struct loop *loop, const struct decision *decision, struct hvd_error *err)
{
    const struct peer_table *peer_table = loop->backends.env.peer_table;
    switch (decision->kind) {
    case DECISION_RUN:
        return handle_run(loop, decision, err);
    case DECISION_MISMATCH:
    case DECISION_JOINED:
        loop->any_finished = true;
        finish_disagreement(loop->queue, loop->trace, peer_table, decision);
        return HVD_OK;
    case DECISION_SET_ADDED:
    case DECISION_SET_REMOVED:
        return handle_set_change(loop, decision, err);
    case DECISION_LEAVING:
        handle_leaving(loop, decision);
        return HVD_OK;
    case DECISION_TUNED:
        loop->settings = decision->settings;
        return HVD_OK;
    case DECISION_STALLED:
        stall_inspector_report(loop, decision);
        return HVD_OK;
    }
    return HVD_OK;
}

int negotiation_take_decisions(struct loop *loop, struct hvd_error *err)
{
    const struct decision *decision = NULL;
    bool first = true;
    int rc = negotiate_next(loop->negotiate, &decision, err);
    while (rc == HVD_OK) {
        if (first)
            stage_begin(loop);
        first = false;
        rc = handle_decision(loop, decision, err);
        if (rc == HVD_OK && decision->last)
            rc = fuse_unit(loop, err);
        if (rc == HVD_OK)
            rc = negotiate_next(loop->negotiate, &decision, err);
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

void negotiation_abandon(struct loop *loop, int status, const char *reason)
{
    stage_begin(loop);
    for (int i = 0; i < loop->decided.count; i++)
        end_tensor(loop, loop->decided.tensors[i], status, reason);
    loop->decided.count = 0;
}
