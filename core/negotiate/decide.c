/* decide.c: makes the decisions of the sets that this rank decides for: message, backends, and which
 * operations are ready. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

/* If the number of names is limited, at most about one in this many of them retires at a time. */
#define RETIRING_SHARE 4

/* Carry out the records in decide->down->issue, here and below, as if the parent had sent them. */
static int apply_issued(struct decide_stage *decide, struct hvd_error *err)
{
    const struct wire_writer *issue = &decide->down->issue;
    return issue->failed ? negotiate_no_memory(err)
                         : down_apply(decide->down, issue->bytes, issue->length, DOWN_OWN, err);
}

static int issue(struct decide_stage *decide, const struct wire_record *record, struct hvd_error *err)
{
    wire_reset(&decide->down->issue);
    wire_put(&decide->down->issue, record);
    return apply_issued(decide, err);
}

/* Choose the backend for memory of the host: the first in the job's order of preference that all ranks have.
 */
static int choose_backend(const struct decide_stage *decide, uint32_t backends)
{
    for (int i = 0; i < BACKEND_COUNT; i++) {
        int backend = decide->submit->params->backend_order[i];
        if (backend >= 0 && backend != BACKEND_NCCL && (backends >> backend & 1) != 0)
            return backend;
    }
    return -1;
}

/* Assign an id and a backend to a new description. */
static void assign_id_and_backend(struct decide_stage *decide, struct subtree_set *subtree_set,
                                  const struct cache_entry *entry, struct wire_record *record)
{
    switch (record->proposal.desc->kind) {
    case DESC_SET_ADD:
        record->id = (uint32_t)decide->submit->sets.last_set + 1;
        return;
    case DESC_SET_REMOVE:
    case DESC_SHUTDOWN:
        return; /* it runs once a job, so it needs no id */
    default:
        break;
    }
    record->backend = choose_backend(decide, record->proposal.backends);
    record->nccl = record->backend >= 0 && (record->proposal.backends >> BACKEND_NCCL & 1) != 0;
    if (entry->id == WIRE_NO_ID) {
        record->id = response_cache_free_id(&subtree_set->response_cache,
                                            (uint64_t)decide->submit->params->cache_limit);
        if (record->id == WIRE_NO_ID)
            subtree_set->uncached++;
    } else if (!subtree_set->response_cache.slots[entry->id].retiring) {
        record->id = entry->id;
    }
}

static int issue_proposals(struct decide_stage *decide, struct hvd_error *err)
{
    struct ready_list *ready_list = &decide->submit->to_decide;
    struct wire_record record;
    int rc = HVD_OK;
    for (size_t i = 0; rc == HVD_OK && i < ready_list->count; i++) {
        struct ready_item item = ready_list->at[i];
        if (item.entry == NULL)
            continue;
        submit_describe(item.subtree_set, item.entry, &record);
        if (record.type == WIRE_NEW && record.absent < 0)
            assign_id_and_backend(decide, item.subtree_set, item.entry, &record);
        response_cache_mark_reported(&item.subtree_set->response_cache, item.entry);
        rc = issue(decide, &record, err);
    }
    ready_list->count = 0;
    return rc;
}

/* If operations had to run without an id, retire as many names, those decided least recently. */
static int issue_retiring(struct decide_stage *decide, struct subtree_set *subtree_set, struct hvd_error *err)
{
    uint64_t most = (uint64_t)decide->submit->params->cache_limit / RETIRING_SHARE + 1;
    struct id_list *message = &decide->submit->ids.message;
    struct cache_entry *entry = NULL;
    TAILQ_FOREACH(entry, &subtree_set->response_cache.lru, lru_link)
    {
        if (message->count == subtree_set->uncached || message->count +
                                                               subtree_set->response_cache.retiring_count +
                                                               subtree_set->response_cache.free_count >=
                                                           most)
            break;
        if (entry->ready != 0)
            continue;
        if (!negotiate_grow(&message->at, &message->capacity, message->count, sizeof(uint64_t)))
            return negotiate_no_memory(err);
        message->at[message->count++] = (uint64_t)subtree_set->set << 32 | entry->id;
    }
    subtree_set->uncached = 0;
    wire_reset(&decide->down->issue);
    int rc = submit_write_ids(decide->submit, WIRE_RETIRE, message, &decide->down->issue, err);
    return rc == HVD_OK ? apply_issued(decide, err) : rc;
}

static int issue_joins(struct decide_stage *decide, struct hvd_error *err)
{
    decide->submit->join_to_decide = false;
    for (size_t i = 0; i < decide->submit->sets.count; i++) {
        struct subtree_set *subtree_set = decide->submit->sets.at[i];
        if (!subtree_set->decides || subtree_set->joined != subtree_set->member_parts)
            continue;
        struct wire_record record = {
            .type = WIRE_JOINED, .set = subtree_set->set, .rank = subtree_set->last_joined};
        int rc = issue(decide, &record, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

/* After a rank has left, only the common shutdown is decided: drop the rest. */
static void drop_undecidable(struct decide_stage *decide)
{
    struct ready_list *ready_list = &decide->submit->to_decide;
    size_t kept = 0;
    for (size_t i = 0; i < ready_list->count; i++) {
        if (ready_list->at[i].entry != NULL && ready_list->at[i].entry->needs_all)
            ready_list->at[kept++] = ready_list->at[i];
    }
    ready_list->count = kept;
    decide->submit->join_to_decide = false;
}

void decide_tune(struct decide_stage *decide, const struct tuned_settings *settings)
{
    decide->to_tune = true;
    decide->settings = *settings;
}

static int issue_settings(struct decide_stage *decide, struct hvd_error *err)
{
    struct wire_record record = {.type = WIRE_TUNE, .settings = decide->settings};
    decide->to_tune = false;
    return issue(decide, &record, err);
}

static const struct wire_record end_of_unit = {.type = WIRE_UNIT};

/* Write the records of a unit other than message, and its end. */
static int issue_others(struct decide_stage *decide, bool leaving_is_new, struct hvd_error *err)
{
    struct wire_record leaving = {.type = WIRE_LEAVING, .rank = decide->submit->leaving_rank};
    int rc = issue_proposals(decide, err);
    for (size_t i = 0; rc == HVD_OK && i < decide->submit->sets.count; i++) {
        if (decide->submit->sets.at[i]->uncached > 0)
            rc = issue_retiring(decide, decide->submit->sets.at[i], err);
    }
    if (rc == HVD_OK && decide->submit->join_to_decide)
        rc = issue_joins(decide, err);
    if (rc == HVD_OK && leaving_is_new)
        rc = issue(decide, &leaving, err);
    return rc == HVD_OK ? issue(decide, &end_of_unit, err) : rc;
}

static int decide_unit(struct decide_stage *decide, bool leaving_is_new, struct hvd_error *err)
{
    int rc = decide->to_tune ? issue_settings(decide, err) : HVD_OK;
    wire_reset(&decide->down->issue);
    if (rc == HVD_OK)
        rc = submit_write_cached(decide->submit, &decide->submit->to_decide, &decide->down->issue, err);
    if (rc != HVD_OK)
        return rc;
    bool ids_only =
        decide->submit->to_decide.count == 0 && !decide->submit->join_to_decide && !leaving_is_new;
    if (!ids_only) {
        rc = apply_issued(decide, err);
        return rc == HVD_OK ? issue_others(decide, leaving_is_new, err) : rc;
    }
    wire_put(&decide->down->issue, &end_of_unit);
    return decide->down->issue.failed ? negotiate_no_memory(err) : down_forward(decide->down, err);
}

int decide_all(struct decide_stage *decide, struct hvd_error *err)
{
    int rc = down_apply_pending(decide->down, err);
    while (rc == HVD_OK) { /* operations that waited for the end of a join may be ready at once */
        bool leaving_is_new = decide->submit->params->root && decide->submit->leaving_rank >= 0 &&
                              !decide->submit->leaving_decided;
        if (decide->submit->leaving_decided)
            drop_undecidable(decide);
        if (decide->submit->to_decide.count == 0 && !decide->submit->join_to_decide && !leaving_is_new)
            break;
        rc = decide_unit(decide, leaving_is_new, err);
    }
    return rc;
}
