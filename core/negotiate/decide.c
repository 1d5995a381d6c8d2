/* decide.c: what this rank decides for the sets it covers: numbers, backends, and who must wait. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

/* Of a limited number of names, this part at most is given up at a time. */
#define RETIRING_SHARE 4

/* Do what stands in negotiate->issue, here and below, as if a parent had said it. */
static int apply_issued(struct negotiate *negotiate, struct hvd_error *err)
{
    const struct wire_writer *issue = &negotiate->issue;
    return issue->failed ? negotiate_no_memory(err)
                         : down_apply(negotiate, issue->bytes, issue->length, DOWN_OWN, err);
}

static int issue(struct negotiate *negotiate, const struct wire_record *record, struct hvd_error *err)
{
    wire_reset(&negotiate->issue);
    wire_put(&negotiate->issue, record);
    return apply_issued(negotiate, err);
}

/* Which backend: the first in the job's order of preference that all ranks have. */
static int choose_backend(const struct negotiate *negotiate, uint32_t backends)
{
    for (int i = 0; i < BACKEND_COUNT; i++) {
        int backend = negotiate->params.backend_order[i];
        if (backend >= 0 && (backends >> backend & 1) != 0)
            return backend;
    }
    return -1;
}

/* A new description gets its number and its backend. */
static void assign_id_and_backend(struct negotiate *negotiate, struct subtree_set *subtree_set,
                                  const struct cache_entry *entry, struct wire_record *record)
{
    switch (record->proposal.desc->kind) {
    case DESC_SET_ADD:
        record->id = (uint32_t)negotiate->last_set + 1;
        return;
    case DESC_SET_REMOVE:
    case DESC_SHUTDOWN:
        return; /* once a job: not worth a number */
    default:
        break;
    }
    record->backend = choose_backend(negotiate, record->proposal.backends);
    if (entry->number == WIRE_NO_ID) {
        record->id =
            response_cache_free_id(&subtree_set->response_cache, (uint64_t)negotiate->params.cache_limit);
        if (record->id == WIRE_NO_ID)
            subtree_set->uncached++;
    } else if (!subtree_set->response_cache.slots[entry->number].retiring) {
        record->id = entry->number;
    }
}

static int issue_proposals(struct negotiate *negotiate, struct hvd_error *err)
{
    struct ready_list *ready_list = &negotiate->to_decide;
    struct wire_record record;
    int rc = HVD_OK;
    for (size_t i = 0; rc == HVD_OK && i < ready_list->count; i++) {
        struct ready_item item = ready_list->at[i];
        if (item.entry == NULL)
            continue;
        up_describe(item.subtree_set, item.entry, &record);
        if (record.type == WIRE_NEW && record.absent < 0)
            assign_id_and_backend(negotiate, item.subtree_set, item.entry, &record);
        item.entry->state = ENTRY_REPORTED;
        rc = issue(negotiate, &record, err);
    }
    ready_list->count = 0;
    return rc;
}

/* Where names went without a number, take as many from those that were not decided for longest. */
static int issue_retiring(struct negotiate *negotiate, struct subtree_set *subtree_set, struct hvd_error *err)
{
    uint64_t most = (uint64_t)negotiate->params.cache_limit / RETIRING_SHARE + 1;
    struct id_list *numbers = &negotiate->numbers;
    struct cache_entry *entry = NULL;
    TAILQ_FOREACH(entry, &subtree_set->response_cache.recent, lru_link)
    {
        if (numbers->count == subtree_set->uncached || numbers->count +
                                                               subtree_set->response_cache.retiring_count +
                                                               subtree_set->response_cache.free_count >=
                                                           most)
            break;
        if (entry->ready != 0)
            continue;
        if (!negotiate_grow(&numbers->at, &numbers->capacity, numbers->count, sizeof(uint64_t)))
            return negotiate_no_memory(err);
        numbers->at[numbers->count++] = (uint64_t)subtree_set->set << 32 | entry->number;
    }
    subtree_set->uncached = 0;
    wire_reset(&negotiate->issue);
    int rc = up_write_ids(negotiate, WIRE_RETIRE, numbers, &negotiate->issue, err);
    return rc == HVD_OK ? apply_issued(negotiate, err) : rc;
}

static int issue_joins(struct negotiate *negotiate, struct hvd_error *err)
{
    negotiate->join_to_decide = false;
    for (size_t i = 0; i < negotiate->subtree_set_count; i++) {
        struct subtree_set *subtree_set = negotiate->subtree_sets[i];
        if (!subtree_set->decides || subtree_set->joined != subtree_set->member_parts)
            continue;
        struct wire_record record = {
            .type = WIRE_JOINED, .set = subtree_set->set, .rank = subtree_set->last_joined};
        int rc = issue(negotiate, &record, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

/* After somebody left nothing is decided but that all have left. */
static void drop_undecidable(struct negotiate *negotiate)
{
    struct ready_list *ready_list = &negotiate->to_decide;
    size_t kept = 0;
    for (size_t i = 0; i < ready_list->count; i++) {
        if (ready_list->at[i].entry != NULL && ready_list->at[i].entry->needs_all)
            ready_list->at[kept++] = ready_list->at[i];
    }
    ready_list->count = kept;
    negotiate->join_to_decide = false;
}

void negotiate_tune(struct negotiate *negotiate, const struct tuned_settings *settings)
{
    negotiate->to_tune = true;
    negotiate->settings = *settings;
}

static int issue_settings(struct negotiate *negotiate, struct hvd_error *err)
{
    struct wire_record record = {.type = WIRE_TUNE, .settings = negotiate->settings};
    negotiate->to_tune = false;
    return issue(negotiate, &record, err);
}

static const struct wire_record end_of_unit = {.type = WIRE_UNIT};

/* What a unit has besides numbers, and its end. */
static int issue_others(struct negotiate *negotiate, bool leaving_is_new, struct hvd_error *err)
{
    struct wire_record leaving = {.type = WIRE_LEAVING, .rank = negotiate->leaving_rank};
    int rc = issue_proposals(negotiate, err);
    for (size_t i = 0; rc == HVD_OK && i < negotiate->subtree_set_count; i++) {
        if (negotiate->subtree_sets[i]->uncached > 0)
            rc = issue_retiring(negotiate, negotiate->subtree_sets[i], err);
    }
    if (rc == HVD_OK && negotiate->join_to_decide)
        rc = issue_joins(negotiate, err);
    if (rc == HVD_OK && leaving_is_new)
        rc = issue(negotiate, &leaving, err);
    return rc == HVD_OK ? issue(negotiate, &end_of_unit, err) : rc;
}

static int decide_unit(struct negotiate *negotiate, bool leaving_is_new, struct hvd_error *err)
{
    int rc = negotiate->to_tune ? issue_settings(negotiate, err) : HVD_OK;
    wire_reset(&negotiate->issue);
    if (rc == HVD_OK)
        rc = up_write_cached(negotiate, &negotiate->to_decide, &negotiate->issue, err);
    if (rc != HVD_OK)
        return rc;
    bool numbers_only = negotiate->to_decide.count == 0 && !negotiate->join_to_decide && !leaving_is_new;
    if (!numbers_only) {
        rc = apply_issued(negotiate, err);
        return rc == HVD_OK ? issue_others(negotiate, leaving_is_new, err) : rc;
    }
    wire_put(&negotiate->issue, &end_of_unit);
    return negotiate->issue.failed ? negotiate_no_memory(err) : down_forward(negotiate, err);
}

int negotiate_decide(struct negotiate *negotiate, struct hvd_error *err)
{
    int rc = down_apply_pending(negotiate, err);
    while (rc == HVD_OK) { /* what waited for the end of a join may be ready at once */
        bool leaving_is_new =
            negotiate->params.root && negotiate->leaving_rank >= 0 && !negotiate->leaving_decided;
        if (negotiate->leaving_decided)
            drop_undecidable(negotiate);
        if (negotiate->to_decide.count == 0 && !negotiate->join_to_decide && !leaving_is_new)
            break;
        rc = decide_unit(negotiate, leaving_is_new, err);
    }
    return rc;
}
