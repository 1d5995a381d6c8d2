/* stall_query.c: finds operations that wait too long, and the ranks that they wait for. A rank that sees one
 * sends a notice to the rank that decides for the set; that rank queries its subtree for the missing ranks,
 * and reports the replies that come in time. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

/* How long the deciding rank waits for replies. Each rank gives its children an eighth less than it has. */
#define QUERY_TIMEOUT_US INT64_C(1000000)

static void mute(struct subtree_set *subtree_set)
{
    subtree_set->muted = true;
    subtree_set->muted_until_us = 0;
}

/* ---- Replies ---------------------------------------------------------------------------------- */

static void describe_self(const struct stall_stage *stall, struct stall_rank *self)
{
    *self = (struct stall_rank){.rank = stall->submit->params->rank, .state = STALL_NOTHING};
    if (stall->submit->last == NULL)
        return;
    self->state = STALL_ELSEWHERE;
    desc_title(stall->submit->last, self->last, sizeof(self->last));
}

static bool is_pending(const struct cache_entry *entry)
{
    return entry != NULL && entry->ready != 0 && entry->state == ENTRY_PENDING;
}

static int count_pending(const struct subtree_set *subtree_set)
{
    const struct cache_entry *entry = NULL;
    int count = 0;
    TAILQ_FOREACH(entry, &subtree_set->response_cache.pending, pending_link)
    count++;
    return count;
}

static int push_stalled(struct stall_stage *stall, struct subtree_set *subtree_set, struct hvd_error *err)
{
    const struct stall_query *stall_query = subtree_set->stall_query;
    const struct cache_entry *entry = response_cache_find(&subtree_set->response_cache, stall_query->name);
    int64_t abort_us = stall->submit->params->stall_abort_us;
    struct decision decision = {.kind = DECISION_STALLED,
                                .desc = stall_query->desc,
                                .set = subtree_set->set,
                                .number = WIRE_NO_ID,
                                .backend = -1,
                                .last = true,
                                .stall = &stall_query->stall,
                                .waited_us = stall_query->waited_us,
                                .others = count_pending(subtree_set) - is_pending(entry),
                                .must_abort = abort_us > 0 && stall_query->waited_us >= abort_us};
    int rc = delivery_push(stall->delivery, &decision, err);
    stall->delivery->unit_decided = false; /* it belongs to no unit */
    return rc;
}

/* Stop waiting for replies. */
static int finish_query(struct stall_stage *stall, struct subtree_set *subtree_set, struct hvd_error *err)
{
    struct stall_query *stall_query = subtree_set->stall_query;
    int rc = HVD_OK;
    if (stall_query->desc == NULL) {
        struct wire_record answer = {.type = WIRE_STALL_REPLY,
                                     .set = subtree_set->set,
                                     .id = stall_query->id,
                                     .stall = &stall_query->stall};
        wire_put(&stall->notes, &answer);
    } else if (stall_query->stall.missing > 0 && !stall->submit->leaving_decided) {
        rc = push_stalled(stall, subtree_set, err);
    }
    stall_query_end(subtree_set);
    return rc;
}

/* The children that have not replied in time are reported as silent. */
static int time_out(struct stall_stage *stall, struct subtree_set *subtree_set, struct hvd_error *err)
{
    struct stall_query *stall_query = subtree_set->stall_query;
    for (int child = 0; child < stall->submit->params->child_count; child++) {
        struct stall_rank silent = {.rank = stall->submit->params->child_ranks[child], .state = STALL_SILENT};
        if ((stall_query->unanswered >> (child + 1) & 1) != 0)
            stall_report_add(&stall_query->stall, &silent);
    }
    return finish_query(stall, subtree_set, err);
}

int stall_handle_reply(struct stall_stage *stall, struct subtree_set *subtree_set, int child,
                       const struct wire_record *record, struct hvd_error *err)
{
    struct stall_query *stall_query = subtree_set->stall_query;
    if (stall_query == NULL || stall_query->id != record->id ||
        (stall_query->unanswered >> (child + 1) & 1) == 0)
        return HVD_OK; /* the reply came too late */
    if (record->stall->missing > stall->submit->params->size - stall_query->stall.missing)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d says that %d ranks are missing, more than there are",
                         stall->submit->params->child_ranks[child], record->stall->missing);
    stall_report_merge(&stall_query->stall, record->stall);
    stall_query->unanswered &= ~(UINT64_C(1) << (child + 1));
    return stall_query->unanswered == 0 ? finish_query(stall, subtree_set, err) : HVD_OK;
}

/* ---- Queries ----------------------------------------------------------------------------------- */

/* Query the children whose parts are missing; this rank adds itself if it is missing. */
static int query_children(struct stall_stage *stall, struct subtree_set *subtree_set,
                          const struct wire_record *question, const struct stall_query *own,
                          struct hvd_error *err)
{
    const struct cache_entry *entry = response_cache_find(&subtree_set->response_cache, question->name);
    struct stall_query *stall_query = calloc(1, sizeof(*stall_query));
    struct wire_record below = *question;
    if (stall_query == NULL)
        return negotiate_no_memory(err);
    stall_query_end(subtree_set); /* a new query ends the older one */
    subtree_set->stall_query = stall_query;
    if (own != NULL) {
        *stall_query = *own;
        desc_hold(own->desc);
    }
    stall_query->id = question->id;
    stall_query->timeout_us = question->time_us;
    memcpy(stall_query->name, question->name, sizeof(stall_query->name));
    stall_query->unanswered =
        subtree_set->member_parts & ~(entry != NULL ? entry->ready : 0) & ~subtree_set->joined;
    if ((stall_query->unanswered >> SELF_BIT & 1) != 0) {
        struct stall_rank self;
        describe_self(stall, &self);
        stall_report_add(&stall_query->stall, &self);
        stall_query->unanswered &= ~(UINT64_C(1) << SELF_BIT);
    }
    below.time_us -= below.time_us / 8;
    for (int child = 0; child < stall->submit->params->child_count; child++) {
        if ((stall_query->unanswered >> (child + 1) & 1) != 0)
            wire_put(delivery_writer(stall->delivery, child), &below);
    }
    return stall_query->unanswered == 0 ? finish_query(stall, subtree_set, err) : HVD_OK;
}

int stall_handle_query(struct stall_stage *stall, const struct wire_record *record, struct hvd_error *err)
{
    struct subtree_set *subtree_set = subtree_set_find(&stall->submit->sets, record->set);
    if (subtree_set == NULL || subtree_set->decides)
        return error_set(err, HVD_ERR_SYSTEM,
                         "the parent queries process set %d, for which it does not decide", record->set);
    return query_children(stall, subtree_set, record, NULL, err);
}

static int question(struct stall_stage *stall, struct subtree_set *subtree_set, const struct desc *desc,
                    int64_t waited_us, struct hvd_error *err)
{
    struct wire_record record = {.type = WIRE_STALL_QUERY,
                                 .set = subtree_set->set,
                                 .id = ++subtree_set->query_count,
                                 .time_us = QUERY_TIMEOUT_US};
    struct stall_query own = {.desc = desc, .waited_us = waited_us};
    memcpy(record.name, desc_name(desc), strlen(desc_name(desc)) + 1);
    mute(subtree_set);
    return query_children(stall, subtree_set, &record, &own, err);
}

/* ---- Pending operations ------------------------------------------------------------------------ */

/* Report that [desc] waits: to the parent, or by a query if this rank decides. */
static int notify(struct stall_stage *stall, struct subtree_set *subtree_set, const struct desc *desc,
                  int64_t waited_us, struct hvd_error *err)
{
    if (subtree_set->decides)
        return question(stall, subtree_set, desc, waited_us, err);
    struct wire_record record = {
        .type = WIRE_STALL_NOTICE, .time_us = waited_us, .proposal = {desc, stall->submit->params->rank, 0}};
    wire_put(&stall->notes, &record);
    mute(subtree_set);
    return HVD_OK;
}

int stall_handle_notice(struct stall_stage *stall, struct subtree_set *subtree_set,
                        const struct wire_record *record, struct hvd_error *err)
{
    int64_t abort_us = stall->submit->params->stall_abort_us;
    bool must_abort = abort_us > 0 && record->time_us >= abort_us;
    if (is_pending(response_cache_find(&subtree_set->response_cache, desc_name(record->proposal.desc))))
        return HVD_OK; /* it is pending here as well, and this rank reports it when its time has come */
    if (!must_abort && (subtree_set->stall_query != NULL || subtree_set->muted))
        return HVD_OK;
    return notify(stall, subtree_set, record->proposal.desc, record->time_us, err);
}

/* The operation that has waited longest on this rank for ranks of the subtree, or NULL. */
static const struct cache_entry *oldest_pending(const struct subtree_set *subtree_set)
{
    return TAILQ_FIRST(&subtree_set->response_cache.pending);
}

/* Set the times of operations that are new since the last call. */
static void update_times(const struct stall_stage *stall, struct subtree_set *subtree_set, int64_t now_us)
{
    struct cache_entry *entry = TAILQ_LAST(&subtree_set->response_cache.pending, entry_list);
    for (; entry != NULL && entry->since_us == 0; entry = TAILQ_PREV(entry, entry_list, pending_link))
        entry->since_us = now_us;
    if (subtree_set->stall_query != NULL && subtree_set->stall_query->deadline_us == 0)
        subtree_set->stall_query->deadline_us = now_us + subtree_set->stall_query->timeout_us;
    if (subtree_set->muted && subtree_set->muted_until_us == 0)
        subtree_set->muted_until_us = now_us + stall->submit->params->stall_warn_us;
    else if (subtree_set->muted && subtree_set->muted_until_us <= now_us)
        subtree_set->muted = false;
}

/* The time at which [subtree_set] needs stall_check. */
static int64_t deadline_of(const struct stall_stage *stall, const struct subtree_set *subtree_set)
{
    const struct negotiate_params *params = (stall->submit->params);
    const struct cache_entry *entry = oldest_pending(subtree_set);
    int64_t deadline_us = INT64_MAX;
    if (subtree_set->stall_query != NULL)
        return subtree_set->stall_query->deadline_us;
    if (entry != NULL && params->stall_warn_us > 0) {
        deadline_us = entry->since_us + params->stall_warn_us;
        if (subtree_set->muted && subtree_set->muted_until_us > deadline_us)
            deadline_us = subtree_set->muted_until_us;
    }
    if (entry != NULL && params->stall_abort_us > 0 && subtree_set->abort_reported_us != entry->since_us &&
        entry->since_us + params->stall_abort_us < deadline_us)
        deadline_us = entry->since_us + params->stall_abort_us;
    return deadline_us;
}

int64_t stall_deadline(struct stall_stage *stall, int64_t now_us)
{
    int64_t deadline_us = INT64_MAX;
    for (size_t i = 0; i < stall->submit->sets.count && !stall->submit->leaving_decided; i++) {
        struct subtree_set *subtree_set = stall->submit->sets.at[i];
        if (TAILQ_EMPTY(&subtree_set->response_cache.pending) && subtree_set->stall_query == NULL &&
            !subtree_set->muted)
            continue;
        update_times(stall, subtree_set, now_us);
        int64_t due_us = deadline_of(stall, subtree_set);
        deadline_us = due_us < deadline_us ? due_us : deadline_us;
    }
    return deadline_us;
}

static int notify_of(struct stall_stage *stall, struct subtree_set *subtree_set,
                     const struct cache_entry *entry, int64_t now_us, struct hvd_error *err)
{
    const struct desc *desc = entry->proposal.desc != NULL ? entry->proposal.desc : entry->agreed.desc;
    int64_t waited_us = now_us - entry->since_us;
    if (stall->submit->params->stall_abort_us > 0 && waited_us >= stall->submit->params->stall_abort_us)
        subtree_set->abort_reported_us = entry->since_us;
    return notify(stall, subtree_set, desc, waited_us, err);
}

int stall_check(struct stall_stage *stall, int64_t now_us, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (size_t i = 0; i < stall->submit->sets.count && rc == HVD_OK; i++) {
        struct subtree_set *subtree_set = stall->submit->sets.at[i];
        if (deadline_of(stall, subtree_set) > now_us)
            continue;
        rc = subtree_set->stall_query != NULL
                 ? time_out(stall, subtree_set, err)
                 : notify_of(stall, subtree_set, oldest_pending(subtree_set), now_us, err);
        update_times(stall, subtree_set, now_us);
    }
    return rc;
}
