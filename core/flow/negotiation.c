/* negotiation.c: requests go to the other ranks; what all ranks agreed on becomes batches. */
#include "flow/negotiation.h"

#include <stdlib.h>
#include <string.h>

#include "flow/batch/direct.h"
#include "flow/stall_inspector.h"

int negotiation_init(struct negotiation *negotiation, const struct hvd_config *config,
                     const int backend_order[BACKEND_COUNT], struct hvd_error *err)
{
    const struct control *control = negotiation->control;
    struct negotiate_params params = {.rank = control->rank,
                                      .size = control->size,
                                      .root = control->parent < 0,
                                      .parent = control->parent,
                                      .child_count = control->child_count,
                                      .child_ranks = control->child_ranks,
                                      .stall_warn_us = config->stall_warn_us,
                                      .stall_abort_us = config->stall_abort_us,
                                      .hang_limit_us = config_hang_limit(config),
                                      .standing = stall_watch_standing,
                                      .standing_arg = &negotiation->stall_watch,
                                      .cache_limit = config->cache_limit};
    memcpy(params.backend_order, backend_order, sizeof(params.backend_order));
    negotiation->stall_watch = (struct stall_watch){.batch_queue = negotiation->batch_queue,
                                                    .set_registry = negotiation->set_registry,
                                                    .failure = negotiation->failure,
                                                    .warn_us = config->stall_warn_us,
                                                    .abort_us = params.hang_limit_us};
    negotiation->stall_check_at_us = INT64_MAX;
    negotiation->settings =
        (struct tuned_settings){config->fusion_bytes, config->chunk_bytes, config->inflight};
    return negotiate_create(&negotiation->negotiate, &params, err);
}

void negotiation_fini(struct negotiation *negotiation)
{
    struct decided_unit *decided = &negotiation->decided;
    free(decided->items);
    free(decided->tensors);
    *decided = (struct decided_unit){0};
    negotiate_destroy(negotiation->negotiate);
    negotiation->negotiate = NULL;
}

/* ---- Requests -> the other ranks --------------------------------------------------------------- */

int negotiation_leave(struct negotiation *negotiation, struct hvd_error *err)
{
    struct desc *desc = desc_create(1);
    if (desc == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left to say that this rank leaves");
    desc->kind = DESC_SHUTDOWN;
    memcpy(desc->tensors[0].name, DESC_SHUTDOWN_NAME, sizeof(DESC_SHUTDOWN_NAME));
    struct submission submission = {.desc = desc};
    negotiation->leaving = true;
    negotiate_leave(negotiation->negotiate);
    int rc = negotiate_submit(negotiation->negotiate, &submission, err);
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

static int submit_request(struct negotiation *negotiation, struct request *request, bool more,
                          struct hvd_error *err)
{
    const struct desc *desc = request->desc;
    struct submission submission = {.desc = desc,
                                    .id = request->id,
                                    .more = more,
                                    .backends = request->backends,
                                    .offsets = request->offsets,
                                    .user = request};
    if (desc->kind == DESC_SET_ADD) {
        submission.member = contains_rank(request, negotiation->control->rank);
        submission.set_size = (int)desc->tensors[0].shape[0];
    }
    int rc = HVD_ERR_SET;
    if (set_registry_get(negotiation->set_registry, desc->set) != NULL)
        rc = negotiate_submit(negotiation->negotiate, &submission, err);
    if (rc != HVD_ERR_SET)
        return rc;
    struct hvd_error reason;
    error_set(&reason, HVD_ERR_SET, "process set %d was removed meanwhile", desc->set);
    finish_read_clock(negotiation->finish);
    finish_request(negotiation->finish, request, HVD_ERR_SET, reason.text);
    return HVD_OK;
}

int negotiation_submit(struct negotiation *negotiation, struct request *requests, struct hvd_error *err)
{
    struct request *next = NULL;
    int rc = HVD_OK;
    for (struct request *request = requests; request != NULL && rc == HVD_OK; request = next) {
        next = request->next;
        rc = submit_request(negotiation, request, next != NULL, err);
    }
    return rc;
}

int negotiation_receive(struct negotiation *negotiation, const struct control_event *event,
                        struct hvd_error *err)
{
    struct negotiate *negotiate = negotiation->negotiate;
    if (event->link != TREE_PARENT)
        return negotiate_from_child(negotiate, event->link - 1, event->bytes, event->length, err);
    return negotiate_from_parent(negotiate, event->bytes, event->length, err);
}

static int send_messages(struct negotiation *negotiation, bool *movedp, struct hvd_error *err)
{
    struct control *control = negotiation->control;
    int first_link = control->parent < 0 ? TREE_PARENT + 1 : TREE_PARENT;
    for (int link = first_link; link <= control->child_count; link++) {
        const void *bytes = NULL;
        size_t length = 0;
        int rc = negotiate_get_message(negotiation->negotiate, link, &bytes, &length, err);
        if (rc == HVD_OK && length > 0) {
            rc = control->ops->send(control, link, bytes, length, err);
            *movedp = true;
        }
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

/* ---- Decisions -> batches ---------------------------------------------------------------------- */

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

/* The request of zeros that this rank, which has joined, runs for an operation that it did not submit. */
static int make_placeholder(const struct desc *desc, struct request **requestp, struct hvd_error *err)
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
static int add_fuse_items(struct negotiation *negotiation, const struct decision *decision,
                          struct hvd_error *err)
{
    struct decided_unit *decided = &negotiation->decided;
    struct request *request = decision->user;
    if (!reserve_items(decided, decision->desc->tensor_count))
        return no_memory(err);
    if (decision->offsets != 0 && (request == NULL || decision->offsets != request->offsets))
        return error_set(err, HVD_ERR_SYSTEM,
                         "the ranks agreed on offsets in memory of hvd_alloc_on that this rank did not name");
    int rc = request == NULL ? make_placeholder(decision->desc, &request, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    request->decided = true;
    request->same_offsets = decision->offsets != 0;
    request->id = decision->id;
    for (int i = 0; i < request->tensor_count; i++) {
        struct fuse_item *item = &decided->items[decided->count];
        *item = (struct fuse_item){
            .desc = request->desc, .index = i, .backend = decision->backend, .nccl = decision->nccl};
        item->bytes = batch_tensor_bytes(&request->tensors[i]);
        decided->tensors[decided->count++] = &request->tensors[i];
    }
    return HVD_OK;
}

static bool is_on_device(const struct desc *desc)
{
    for (int i = 0; i < desc->tensor_count; i++)
        if (!desc->tensors[i].on_device)
            return false;
    return true;
}

/* Can it be repeated without the host? What NCCL carries can; and the only member of a set needs no NCCL. */
static bool may_persist(const struct negotiation *negotiation, const struct decision *decision)
{
    const struct desc *desc = decision->desc;
    bool alone = set_registry_size(negotiation->set_registry, desc->set) == 1;
    return decision->nccl || (alone && is_on_device(desc) && desc->op != HVD_ADASUM);
}

static const char *why_not_persistent(const struct desc *desc)
{
    if (!is_on_device(desc))
        return "a tensor is in host memory; a persistent operation is of tensors on GPUs";
    return "NCCL does not carry it, which a persistent operation needs: it does not have this type and "
           "reduction, "
           "or a rank has no NCCL (see hvdinfo doctor)";
}

static int handle_run(struct negotiation *negotiation, const struct decision *decision, struct hvd_error *err)
{
    struct request *request = decision->user;
    struct finish *finish = negotiation->finish;
    uint64_t agreed = set_registry_count_operation(negotiation->set_registry, decision->set);
    const struct tuned_settings *tuned = trials_decided(negotiation->trials, decision);
    if (tuned != NULL)
        negotiate_tune(negotiation->negotiate, tuned);
    if (request != NULL)
        trace_decided(finish->trace, &request->trace, agreed, finish->now_us);
    switch (decision->desc->kind) {
    case DESC_SHUTDOWN:
        negotiation->all_left = true;
        return HVD_OK;
    case DESC_JOIN:
        if (request != NULL && request->last_rankp != NULL)
            *request->last_rankp = decision->rank;
        break;
    case DESC_BARRIER:
        break;
    default:
        if (!decision->desc->persistent || may_persist(negotiation, decision))
            return add_fuse_items(negotiation, decision, err);
        finish_request(finish, request, HVD_ERR_UNSUPPORTED, why_not_persistent(decision->desc));
        return HVD_OK;
    }
    if (request != NULL)
        finish_request(finish, request, HVD_OK, NULL);
    return HVD_OK;
}

/* The batch of item [i]; the first item of a batch creates it. */
static struct batch *batch_of_item(struct negotiation *negotiation, struct batch **made, int i)
{
    const struct fuse_item *item = &negotiation->decided.items[i];
    struct batch **batchp = &made[item->batch];
    if (*batchp != NULL)
        return *batchp;
    *batchp = batch_create(set_registry_get(negotiation->set_registry, item->desc->set), item->backend,
                           item->desc, item->index);
    if (*batchp == NULL)
        return NULL;
    (*batchp)->fusion_bytes = negotiation->settings.fusion_bytes;
    (*batchp)->transfer.chunk_bytes = negotiation->settings.chunk_bytes;
    return *batchp;
}

/* Add a tensor to a batch. The batch of tensors on the GPU gets their GPU, except on a rank that has joined:
 * its zeros are in host memory unless NCCL carries them. It is cut as on the other ranks (staging.h). */
static void add_tensor(struct negotiation *negotiation, struct batch *batch, struct request_tensor *tensor,
                       bool nccl)
{
    const struct request *request = tensor->request;
    batch_add(batch, tensor);
    batch->persistent = request->persistent;
    batch->alone = request->persistent != NULL && !nccl;
    nccl |= batch->alone;
    if (!nccl && !request->desc->tensors[tensor->index].on_device)
        return;
    batch->direct = nccl;
    batch->same_offsets &= request->same_offsets;
    batch->stage = nccl ? BATCH_CONNECT : BATCH_FETCH;
    if (nccl || !request->placeholder)
        batch->gpu = negotiation->batch_queue->gpu;
}

static int place_batches(struct batch **made, int count, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int i = 0; i < count && rc == HVD_OK; i++)
        if (made[i] != NULL)
            rc = direct_find_memory(made[i], err);
    return rc;
}

/* Queue the batches of a unit, in the order of their numbers. Small ones of a set that NCCL carries join the
 * one before them. As with tensors that share a batch, what comes between belongs to other sets, and all
 * members of both see it in the same order. */
static void queue_batches(struct negotiation *negotiation, struct batch **made, int count)
{
    for (int i = 0; i < count && made[i] != NULL; i++) {
        int leader = i - 1;
        while (leader >= 0 && (made[leader] == NULL || made[leader]->team != made[i]->team))
            leader--;
        if (leader >= 0 && batch_join(made[leader], made[i])) {
            made[i] = made[leader]; /* later ones find it here */
            made[leader] = NULL;
        } else {
            batch_queue_append(negotiation->batch_queue, made[i]);
        }
    }
}

/* Cut what one unit decided into batches. Where memory runs out, tensors that are in no batch stay decided.
 */
static int fuse_unit(struct negotiation *negotiation, struct hvd_error *err)
{
    struct decided_unit *decided = &negotiation->decided;
    int done = 0;
    if (decided->count == 0)
        return HVD_OK;
    int count = fuse_plan(decided->items, decided->count, negotiation->settings.fusion_bytes);
    struct batch **made = calloc((size_t)count, sizeof(struct batch *));
    while (made != NULL && done < decided->count) {
        struct batch *batch = batch_of_item(negotiation, made, done);
        if (batch == NULL)
            break;
        add_tensor(negotiation, batch, decided->tensors[done], decided->items[done].nccl);
        batch->group_bytes += decided->items[done].bytes;
        done++;
    }
    int rc = made != NULL ? place_batches(made, count, err) : HVD_OK;
    if (made != NULL)
        queue_batches(negotiation, made, count);
    decided->count -= done;
    memmove(decided->tensors, decided->tensors + done, (size_t)decided->count * sizeof(decided->tensors[0]));
    free(made);
    if (rc != HVD_OK)
        return rc;
    return decided->count == 0 ? HVD_OK : no_memory(err);
}

/* A process set comes or goes after everything that was decided before. */
static int handle_set_change(struct negotiation *negotiation, const struct decision *decision,
                             struct hvd_error *err)
{
    struct request *request = decision->user;
    struct finish *finish = negotiation->finish;
    bool removed = decision->kind == DECISION_SET_REMOVED;
    int rc = fuse_unit(negotiation, err);
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
    trace_decided(finish->trace, &request->trace,
                  set_registry_count_operation(negotiation->set_registry, HVD_ALL_RANKS), finish->now_us);
    if (removed) {
        struct hvd_error reason;
        error_set(&reason, HVD_ERR_SET, "process set %d was removed", decision->set);
        batch->team = set_registry_remove(negotiation->set_registry, decision->set);
        finish_undecided(finish, decision->set, HVD_ERR_SET, reason.text);
    }
    batch_queue_append(negotiation->batch_queue, batch);
    return HVD_OK;
}

static void handle_leaving(struct negotiation *negotiation, const struct decision *decision)
{
    char name[300];
    struct hvd_error reason;
    peer_table_rank_name(negotiation->failure->env->peer_table, decision->rank, name, sizeof(name));
    error_set(&reason, HVD_ERR_SHUTDOWN, "%s has called hvd_shutdown", name);
    tensor_queue_refuse(negotiation->finish->queue, HVD_ERR_SHUTDOWN, reason.text);
    finish_undecided(negotiation->finish, TENSOR_QUEUE_ALL_SETS, HVD_ERR_SHUTDOWN, reason.text);
}

static int handle_decision(struct negotiation *negotiation, const struct decision *decision,
                           struct hvd_error *err)
{
    const struct peer_table *peer_table = negotiation->failure->env->peer_table;
    switch (decision->kind) {
    case DECISION_RUN:
        return handle_run(negotiation, decision, err);
    case DECISION_MISMATCH:
    case DECISION_JOINED:
        finish_disagreement(negotiation->finish, peer_table, decision);
        return HVD_OK;
    case DECISION_SET_ADDED:
    case DECISION_SET_REMOVED:
        return handle_set_change(negotiation, decision, err);
    case DECISION_LEAVING:
        handle_leaving(negotiation, decision);
        return HVD_OK;
    case DECISION_TUNED:
        negotiation->settings = decision->settings;
        return HVD_OK;
    case DECISION_STALLED:
        stall_inspector_report(negotiation->failure, decision);
        return HVD_OK;
    }
    return HVD_OK;
}

static int take_decisions(struct negotiation *negotiation, struct hvd_error *err)
{
    const struct decision *decision = NULL;
    int rc = negotiate_next(negotiation->negotiate, &decision, err);
    if (rc == HVD_OK)
        finish_read_clock(negotiation->finish);
    while (rc == HVD_OK) {
        rc = handle_decision(negotiation, decision, err);
        if (rc == HVD_OK && decision->last)
            rc = fuse_unit(negotiation, err);
        if (rc == HVD_OK)
            rc = negotiate_next(negotiation->negotiate, &decision, err);
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* Decisions are taken after they were sent, so that the other ranks work on them at the same time. */
int negotiation_advance(struct negotiation *negotiation, bool *movedp, struct hvd_error *err)
{
    int rc = HVD_OK;
    if (negotiation->batch_queue->count < negotiation->settings.inflight)
        rc = negotiate_decide(negotiation->negotiate, err);
    if (rc == HVD_OK)
        rc = send_messages(negotiation, movedp, err);
    if (rc == HVD_OK)
        rc = take_decisions(negotiation, err);
    return rc;
}

void negotiation_abandon(struct negotiation *negotiation, int status, const char *reason)
{
    struct decided_unit *decided = &negotiation->decided;
    finish_read_clock(negotiation->finish);
    for (int i = 0; i < decided->count; i++)
        finish_tensor(negotiation->finish, decided->tensors[i], status, reason);
    decided->count = 0;
}

/* ---- Operations that wait too long ------------------------------------------------------------- */

/* A rank that looks this much later than it had planned was stopped itself, perhaps with the whole job. So it
 * cannot tell how long others have done nothing. The delay counts from the plan, not from a time that had
 * passed when it was made: a query that waited for a silent rank may have made that late. */
#define STOPPED_US INT64_C(1500000)

/* Every round compares that time with the coarse clock, which is cheap and this late at most. */
#define COARSE_TICK_US 10000

int64_t negotiation_deadline(struct negotiation *negotiation)
{
    int64_t now_us = clock_us();
    int64_t undecided_us = negotiate_deadline(negotiation->negotiate, now_us);
    int64_t running_us = stall_watch_deadline(&negotiation->stall_watch, now_us);
    negotiation->stall_check_at_us = undecided_us < running_us ? undecided_us : running_us;
    negotiation->stall_check_set_us = now_us;
    return negotiation->stall_check_at_us == INT64_MAX ? INT64_MAX
                                                       : negotiation->stall_check_at_us + COARSE_TICK_US;
}

int negotiation_check_stalls(struct negotiation *negotiation, bool *movedp, struct hvd_error *err)
{
    int64_t stall_check_at_us = negotiation->stall_check_at_us;
    if (stall_check_at_us == INT64_MAX || clock_coarse_us() < stall_check_at_us)
        return HVD_OK;
    int64_t now_us = clock_us();
    negotiation->stall_check_at_us = INT64_MAX;
    *movedp = true;
    int64_t set_us = negotiation->stall_check_set_us;
    if (now_us - (stall_check_at_us > set_us ? stall_check_at_us : set_us) > STOPPED_US) {
        stall_watch_restart(&negotiation->stall_watch);
        negotiate_restart_times(negotiation->negotiate);
        return HVD_OK;
    }
    /* what runs was decided before what waits, and may be why that waits */
    int rc = stall_watch_check(&negotiation->stall_watch, negotiation->negotiate, now_us, err);
    return rc == HVD_OK ? negotiate_check_stalls(negotiation->negotiate, now_us, err) : rc;
}
