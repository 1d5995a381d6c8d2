/* negotiation.c: requests go to the other ranks; what all ranks agreed on comes back. */
#include "flow/negotiation.h"

#include <stdlib.h>
#include <string.h>

#include "flow/batch/eager_sum.h"
#include "flow/messages.h"
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
    negotiation->stall_watch = (struct stall_watch){.run = negotiation->run,
                                                    .batch_queue = negotiation->batch_queue,
                                                    .set_registry = negotiation->set_registry,
                                                    .failure = negotiation->failure,
                                                    .warn_us = config->stall_warn_us,
                                                    .abort_us = params.hang_limit_us};
    negotiation->stall_check_at_us = INT64_MAX;
    negotiation->settings = tuned_settings_at_start(config);
    return negotiate_create(&negotiation->negotiate, &params, err);
}

void negotiation_fini(struct negotiation *negotiation)
{
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

/* The input of one that is submitted [alone] may travel with it. Those of several would be longer than what
 * is saved, and could not be fused. */
static void attach_input(struct submission *submission, const struct request *request,
                         const struct process_set *set, bool alone)
{
    submission->input_bytes = alone ? eager_sum_bytes(request, set->members.size) : 0;
    if (submission->input_bytes > 0)
        submission->input = request->tensors[0].input;
}

static int submit_request(struct negotiation *negotiation, struct request *request, bool alone,
                          struct hvd_error *err)
{
    const struct desc *desc = request->desc;
    struct submission submission = {.desc = desc,
                                    .id = request->id,
                                    .more = request->next != NULL,
                                    .backends = request->backends,
                                    .offsets = request->offsets,
                                    .user = request};
    if (desc->kind == DESC_SET_ADD)
        submission.member = contains_rank(request, negotiation->control->rank);
    int rc = HVD_ERR_SET;
    const struct process_set *set = set_registry_get(negotiation->set_registry, desc->set);
    if (set != NULL) {
        attach_input(&submission, request, set, alone);
        rc = negotiate_submit(negotiation->negotiate, &submission, err);
    }
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
    bool alone = requests->next == NULL;
    int rc = HVD_OK;
    for (struct request *request = requests; request != NULL && rc == HVD_OK; request = next) {
        next = request->next;
        rc = submit_request(negotiation, request, alone, err);
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

/* ---- The other ranks -> decisions -------------------------------------------------------------- */

static int run_tensors(struct negotiation *negotiation, const struct decision *decision,
                       struct hvd_error *err)
{
    const struct process_set *set = set_registry_get(negotiation->set_registry, decision->set);
    return decision->inputs.count > 0 && set != NULL
               ? eager_sum_run(negotiation->finish, &set->members, decision, err)
               : form_add(negotiation->form, decision, err);
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
        messages_end(negotiation->messages, TENSOR_QUEUE_ALL_SETS, HVD_ERR_SHUTDOWN,
                     "all ranks have called hvd_shutdown");
        return HVD_OK;
    case DESC_JOIN:
        if (request != NULL && request->last_rankp != NULL)
            *request->last_rankp = decision->rank;
        break;
    case DESC_BARRIER:
        break;
    default:
        return run_tensors(negotiation, decision, err);
    }
    if (request != NULL)
        finish_request(finish, request, HVD_OK, NULL);
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
    p2p_left(negotiation->messages->p2p, decision->rank);
}

static int change_sets(struct negotiation *negotiation, const struct decision *decision,
                       struct hvd_error *err)
{
    struct hvd_error reason;
    int rc = form_set_change(negotiation->form, decision, err);
    error_set(&reason, HVD_ERR_SET, "process set %d was removed", decision->set);
    if (rc == HVD_OK && decision->kind == DECISION_SET_REMOVED)
        messages_end(negotiation->messages, decision->set, HVD_ERR_SET, reason.text);
    return rc;
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
        return change_sets(negotiation, decision, err);
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

int negotiation_take(struct negotiation *negotiation, struct hvd_error *err)
{
    const struct decision *decision = NULL;
    int rc = negotiate_next(negotiation->negotiate, &decision, err);
    if (rc == HVD_OK)
        finish_read_clock(negotiation->finish);
    while (rc == HVD_OK) {
        rc = handle_decision(negotiation, decision, err);
        if (rc == HVD_OK && decision->last)
            rc = form_unit(negotiation->form, err);
        if (rc == HVD_OK)
            rc = negotiate_next(negotiation->negotiate, &decision, err);
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* Decisions are taken after they were sent, so that the other ranks work on them at the same time. */
int negotiation_advance(struct negotiation *negotiation, bool *movedp, struct hvd_error *err)
{
    int rc = HVD_OK;
    if (batch_queue_count(negotiation->batch_queue) < negotiation->settings.inflight)
        rc = negotiate_decide(negotiation->negotiate, err);
    if (rc == HVD_OK)
        rc = send_messages(negotiation, movedp, err);
    if (rc == HVD_OK)
        rc = negotiation_take(negotiation, err);
    return rc;
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
