/* parent_watch.c: notices that the parent in the control tree does not answer while this rank waits for a
 * decision of it, or has told it of a batch that does not move. Whoever decides reports the ranks below it
 * that are silent; nobody but its children can report that it is silent itself. So where nothing has come
 * from the parent for long, this rank pings it. */
#include <string.h>

#include "negotiate/state.h"

/* The earlier of two times after [from_us] that is set. */
static int64_t next_time(int64_t from_us, int64_t warn_us, int64_t abort_us)
{
    int64_t next_us = warn_us > 0 ? from_us + warn_us : INT64_MAX;
    return abort_us > 0 && from_us + abort_us < next_us ? from_us + abort_us : next_us;
}

/* A set that the parent, or a rank above it, decides for, and in which this rank waits; or NULL. */
static const struct subtree_set *waiting_set(const struct stall_stage *stall)
{
    for (size_t i = 0; i < stall->submit->sets.count; i++) {
        const struct subtree_set *subtree_set = stall->submit->sets.at[i];
        if (!subtree_set->decides &&
            (subtree_set->response_cache.reported_count > 0 || subtree_set->joined_reported))
            return subtree_set;
    }
    return NULL;
}

static void forget_batch(struct parent_watch *parent)
{
    desc_release(parent->desc);
    parent->desc = NULL;
    parent->batch = 0;
    parent->waits_for = -1;
    parent->waited_us = 0;
}

void parent_watch_told(struct stall_stage *stall, const struct stalled_batch *stalled_batch)
{
    struct parent_watch *parent = &stall->parent;
    if (parent->pong_until_us > 0 && !parent->heard && parent->batch == stalled_batch->number)
        return; /* a ping is on its way */
    forget_batch(parent);
    parent->desc = desc_hold(stalled_batch->desc);
    parent->batch = stalled_batch->number;
    parent->waits_for = stalled_batch->waits_for;
    parent->waited_us = stalled_batch->waited_us;
    parent->since_us = 0;
    parent->heard = false;
}

int64_t parent_watch_deadline(struct stall_stage *stall, int64_t now_us)
{
    const struct negotiate_params *params = stall->submit->params;
    struct parent_watch *parent = &stall->parent;
    bool waits = !params->root && (parent->desc != NULL || waiting_set(stall) != NULL);
    if (!waits || parent->heard || parent->since_us == 0) {
        if (parent->heard)
            forget_batch(parent);
        parent->heard = false;
        parent->since_us = waits ? now_us : 0;
        parent->pong_until_us = 0;
        parent->ping_at_us =
            parent->desc != NULL ? now_us : next_time(now_us, params->stall_warn_us, params->hang_limit_us);
    }
    if (!waits)
        return INT64_MAX;
    return parent->pong_until_us > 0 ? parent->pong_until_us : parent->ping_at_us;
}

/* An operation that waits for the parent, or NULL where this rank knows only of others'. *othersp: how many
 * more there are. */
static const struct desc *waiting_desc(const struct stall_stage *stall, int *othersp)
{
    const struct subtree_set *subtree_set = waiting_set(stall);
    const struct cache_entry *entry = NULL;
    *othersp = 0;
    if (stall->parent.desc != NULL)
        return stall->parent.desc;
    if (subtree_set != NULL)
        entry = response_cache_any_reported(&subtree_set->response_cache);
    if (entry == NULL)
        return subtree_set != NULL ? subtree_set->join : NULL;
    *othersp = (int)subtree_set->response_cache.reported_count - 1;
    return entry->proposal.desc != NULL ? entry->proposal.desc : entry->agreed.desc;
}

/* Do the ranks above the parent notice as well that it is silent, and report it? */
static bool is_known_above(const struct stall_stage *stall, const struct desc *desc)
{
    return stall->submit->params->parent != 0 && desc->set == HVD_ALL_RANKS;
}

/* The ranks above end the job for the silent parent, though their word cannot reach this rank. It ends later
 * than they do, by this time: otherwise its own end would be taken for the cause. */
static int64_t hold_back_us(const struct negotiate_params *params, int64_t waited_us)
{
    return stall_query_timeout(params, waited_us) * 3 / 2;
}

static int report_silence(struct stall_stage *stall, int64_t now_us, struct hvd_error *err)
{
    const struct negotiate_params *params = stall->submit->params;
    struct parent_watch *parent = &stall->parent;
    struct stall_report silence = {.missing = 0};
    const struct stall_rank silent = {.rank = params->parent, .state = STALL_SILENT, .waits_for = -1};
    int others = 0;
    const struct desc *desc = waiting_desc(stall, &others);
    int64_t waited_us = parent->waited_us + now_us - parent->since_us;
    bool known_above = desc != NULL && is_known_above(stall, desc);
    int64_t abort_us = params->hang_limit_us;
    int64_t held_back_us = hold_back_us(params, waited_us);
    bool must_abort = abort_us > 0 && waited_us >= abort_us;
    if (known_above && must_abort && waited_us < abort_us + held_back_us) {
        parent->pong_until_us = now_us + abort_us + held_back_us - waited_us;
        return HVD_OK;
    }
    stall_report_add(&silence, &silent);
    parent->pong_until_us = 0;
    parent->ping_at_us =
        must_abort ? INT64_MAX
                   : next_time(now_us, params->stall_warn_us, abort_us > 0 ? abort_us - waited_us : 0);
    if (desc == NULL || (!must_abort && (known_above || params->stall_warn_us == 0)))
        return HVD_OK;
    const struct decision decision = {.kind = DECISION_STALLED,
                                      .desc = desc,
                                      .set = desc->set,
                                      .id = WIRE_NO_ID,
                                      .backend = -1,
                                      .rank = params->rank,
                                      .batch = parent->batch,
                                      .other_rank = parent->waits_for,
                                      .last = true,
                                      .stall = &silence,
                                      .waited_us = waited_us,
                                      .others = others,
                                      .must_abort = must_abort};
    int rc = delivery_push(stall->delivery, &decision, err);
    stall->delivery->unit_decided = false; /* it belongs to no unit */
    return rc;
}

int parent_watch_check(struct stall_stage *stall, int64_t now_us, struct hvd_error *err)
{
    struct parent_watch *parent = &stall->parent;
    if (parent->since_us == 0 || parent->heard)
        return HVD_OK;
    if (parent->pong_until_us > 0)
        return now_us >= parent->pong_until_us ? report_silence(stall, now_us, err) : HVD_OK;
    if (now_us < parent->ping_at_us)
        return HVD_OK;
    const struct wire_record ping = {.type = WIRE_STALL_PING};
    wire_put(&stall->notes, &ping);
    parent->pong_until_us =
        now_us + stall_query_timeout(stall->submit->params, parent->waited_us + now_us - parent->since_us);
    return HVD_OK;
}
