/* stall_query.c: finds operations that wait too long, and the ranks that they wait for. A rank that sees one
 * sends a notice to the rank that decides for the set; that rank queries its subtree for the missing ranks,
 * and reports the replies that come in time.
 *
 * An operation that is undecided waits for the ranks that have not submitted it. One that runs waits for the
 * members of its batch that do not wait in it themselves, nor are past it: those that do not reply, or that
 * have not begun it. The callers time it, as they alone know whether it moves. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "negotiate/state.h"

/* What is reported as waiting: [batch] as in wire_record. */
struct stalled {
    const struct desc *desc;
    int64_t waited_us;
    uint64_t batch;
    int rank, waits_for;
    bool again; /* all members of the batch have replied that they wait in it */
};

/* Once a rank has left, the others may take all their time to do so, as long as they answer. */
static bool must_abort(const struct stall_stage *stall, int64_t waited_us, bool it_hangs)
{
    const struct negotiate_params *params = stall->submit->params;
    int64_t abort_us = it_hangs ? params->hang_limit_us : params->stall_abort_us;
    return abort_us > 0 && waited_us >= abort_us && (it_hangs || !stall->submit->leaving_decided);
}

static bool any_is(const struct stall_report *report, enum stall_state state)
{
    for (int i = 0; i < report->named; i++) {
        if (report->ranks[i].state == state)
            return true;
    }
    return false;
}

/* Does the operation hang? Not where it just waits for a rank that computes: hvd's own thread answers for
 * such a rank, which has not submitted the operation, or whose GPU has not begun it. */
static bool hangs(const struct stall_query *stall_query)
{
    return any_is(&stall_query->stall, STALL_SILENT) ||
           (stall_query->batch != 0 && !any_is(&stall_query->stall, STALL_QUEUED));
}

static void mute(struct subtree_set *subtree_set)
{
    subtree_set->muted = true;
    subtree_set->muted_until_us = 0;
}

/* ---- Replies ---------------------------------------------------------------------------------- */

static void describe_self(const struct stall_stage *stall, struct stall_rank *self)
{
    *self = (struct stall_rank){.rank = stall->submit->params->rank, .state = STALL_NOTHING, .waits_for = -1};
    if (stall->submit->last == NULL)
        return;
    self->state = STALL_ELSEWHERE;
    desc_title(stall->submit->last, self->last, sizeof(self->last));
}

static void add_self(const struct stall_stage *stall, struct stall_query *stall_query)
{
    struct stall_rank self;
    describe_self(stall, &self);
    stall_report_add(&stall_query->stall, &self);
}

/* The same for a batch. Call it when the replies have come: since the query this rank may have moved. */
static void add_own_standing(const struct stall_stage *stall, hvd_set set, struct stall_query *stall_query)
{
    const struct negotiate_params *params = stall->submit->params;
    struct stall_rank self = {.rank = params->rank, .state = STALL_NOT_BEGUN, .waits_for = -1};
    enum stall_standing standing = STANDING_WAITS;
    if (params->standing != NULL)
        standing = params->standing(params->standing_arg, set, stall_query->batch, &self);
    if (standing == STANDING_KEEPS_OTHERS)
        stall_report_add(&stall_query->stall, &self);
    stall_query->stall.waiting += standing == STANDING_WAITS;
    stall_query->stall.moving += standing == STANDING_MOVES;
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

static uint64_t hash_of_ranks(const struct stall_report *report)
{
    uint64_t hash = hash_mix(0, (uint64_t)report->missing);
    for (int i = 0; i < report->named; i++)
        hash = hash_mix(hash, (uint64_t)report->ranks[i].rank << 8 | report->ranks[i].state);
    return hash;
}

/* Must the user be told? Of the same ranks that keep the same operation waiting, after twice as long each
 * time. They are asked about once every stall-warn, more or less; what is asked about sooner waits anew. */
static bool is_news(const struct stall_stage *stall, struct subtree_set *subtree_set)
{
    const struct stall_query *stall_query = subtree_set->stall_query;
    struct stall_told *told = &subtree_set->told;
    int64_t slack_us = stall->submit->params->stall_warn_us / 2, waited_us = stall_query->waited_us;
    uint64_t operation =
        hash_mix(hash_bytes(stall_query->name, strlen(stall_query->name)), stall_query->batch);
    uint64_t ranks = hash_of_ranks(&stall_query->stall);
    bool same = told->operation == operation && told->ranks == ranks;
    if (same && waited_us >= told->repeat.told_us + slack_us &&
        waited_us + slack_us < repeat_due_us(&told->repeat, 0))
        return false;
    *told = (struct stall_told){operation, ranks, {waited_us}};
    return true;
}

static int push_stalled(struct stall_stage *stall, struct subtree_set *subtree_set, struct hvd_error *err)
{
    const struct stall_query *stall_query = subtree_set->stall_query;
    bool aborts = must_abort(stall, stall_query->waited_us, hangs(stall_query));
    if (!aborts && (stall->submit->params->stall_warn_us == 0 || !is_news(stall, subtree_set)))
        return HVD_OK;
    const struct cache_entry *entry = response_cache_find(&subtree_set->response_cache, stall_query->name);
    struct decision decision = {
        .kind = DECISION_STALLED,
        .desc = stall_query->desc,
        .set = subtree_set->set,
        .id = WIRE_NO_ID,
        .backend = -1,
        .batch = stall_query->batch,
        .rank = stall_query->rank,
        .other_rank = stall_query->waits_for,
        .last = true,
        .stall = &stall_query->stall,
        .waited_us = stall_query->waited_us,
        .others = stall_query->batch == 0 ? count_pending(subtree_set) - is_pending(entry) : 0,
        .must_abort = aborts};
    int rc = delivery_push(stall->delivery, &decision, err);
    stall->delivery->unit_decided = false; /* it belongs to no unit */
    return rc;
}

static int question(struct stall_stage *stall, struct subtree_set *subtree_set, const struct stalled *stalled,
                    struct hvd_error *err);

/* Where all members wait, or are past it, one of them may just have been continued, and move only after it
 * has replied: they are asked once more. */
static int finish_batch_query(struct stall_stage *stall, struct subtree_set *subtree_set,
                              struct hvd_error *err)
{
    struct stall_query *stall_query = subtree_set->stall_query;
    const struct stalled again = {.desc = desc_hold(stall_query->desc),
                                  .waited_us = stall_query->waited_us,
                                  .batch = stall_query->batch,
                                  .rank = stall_query->rank,
                                  .waits_for = stall_query->waits_for,
                                  .again = true};
    const struct stall_report *replies = &stall_query->stall;
    bool stalls = replies->waiting > 0 && replies->moving == 0;
    bool asks = stalls && replies->missing == 0 && !stall_query->again;
    int rc = stalls && !asks ? push_stalled(stall, subtree_set, err) : HVD_OK;
    stall_query_end(subtree_set);
    if (asks)
        rc = question(stall, subtree_set, &again, err);
    desc_release(again.desc);
    return rc;
}

/* Only ranks that do not reply are of interest once a rank has left or joined: the others follow when they
 * want to. So it is for a set that its members alone ask for: they do so once they have met, and no rank
 * knows which others are members. */
static void keep_silent_ranks(struct stall_report *report)
{
    int kept = 0;
    for (int i = 0; i < report->named; i++)
        if (report->ranks[i].state == STALL_SILENT)
            report->ranks[kept++] = report->ranks[i];
    report->missing = report->named = kept;
    report->waiting = report->moving = 0;
}

/* The time of a join counts from when all ranks answered last. That all answered is no reason to mute it. */
static void restart_join(struct subtree_set *subtree_set)
{
    subtree_set->join_since_us = 0;
    subtree_set->muted = false;
}

/* Stop waiting for replies. */
static int finish_query(struct stall_stage *stall, struct subtree_set *subtree_set, struct hvd_error *err)
{
    struct stall_query *stall_query = subtree_set->stall_query;
    int rc = HVD_OK;
    if (stall_query->batch != 0 && (subtree_set->member_parts >> SELF_BIT & 1) != 0)
        add_own_standing(stall, subtree_set->set, stall_query);
    if (stall_query->desc == NULL) {
        struct wire_record answer = {.type = WIRE_STALL_REPLY,
                                     .set = subtree_set->set,
                                     .id = stall_query->id,
                                     .stall = &stall_query->stall};
        wire_put(&stall->notes, &answer);
    } else if (stall_query->batch != 0) {
        return finish_batch_query(stall, subtree_set, err);
    } else {
        if (stall->submit->leaving_decided || stall_query->desc->kind == DESC_JOIN ||
            stall_query->desc->by_members)
            keep_silent_ranks(&stall_query->stall);
        if (stall_query->desc->kind == DESC_JOIN && stall_query->stall.missing == 0)
            restart_join(subtree_set);
        rc = stall_query->stall.missing > 0 ? push_stalled(stall, subtree_set, err) : HVD_OK;
    }
    stall_query_end(subtree_set);
    return rc;
}

/* The children that have not replied in time are reported as silent. */
static int time_out(struct stall_stage *stall, struct subtree_set *subtree_set, struct hvd_error *err)
{
    struct stall_query *stall_query = subtree_set->stall_query;
    for (int child = 0; child < stall->submit->params->child_count; child++) {
        struct stall_rank silent = {
            .rank = stall->submit->params->child_ranks[child], .state = STALL_SILENT, .waits_for = -1};
        if ((stall_query->unanswered >> (child + 1) & 1) != 0)
            stall_report_add(&stall_query->stall, &silent);
    }
    return finish_query(stall, subtree_set, err);
}

static int count_replies(const struct stall_report *report)
{
    return report->missing + report->waiting + report->moving;
}

int stall_handle_reply(struct stall_stage *stall, struct subtree_set *subtree_set, int child,
                       const struct wire_record *record, struct hvd_error *err)
{
    struct stall_query *stall_query = subtree_set->stall_query;
    if (stall_query == NULL || stall_query->id != record->id ||
        (stall_query->unanswered >> (child + 1) & 1) == 0)
        return HVD_OK; /* the reply came too late */
    int told = count_replies(record->stall);
    if (told > stall->submit->params->size - count_replies(&stall_query->stall))
        return error_set(err, HVD_ERR_SYSTEM,
                         "rank %d speaks of %d ranks that an operation waits for, more than there are",
                         stall->submit->params->child_ranks[child], told);
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
    stall_query->batch = question->batch;
    memcpy(stall_query->name, question->name, sizeof(stall_query->name));
    stall_query->unanswered = subtree_set->member_parts;
    if (question->batch == 0)
        stall_query->unanswered &= ~((entry != NULL ? entry->ready : 0) | subtree_set->joined);
    bool self = (stall_query->unanswered >> SELF_BIT & 1) != 0;
    stall_query->unanswered &= ~(UINT64_C(1) << SELF_BIT);
    if (self && question->batch == 0)
        add_self(stall, stall_query);
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

static int question(struct stall_stage *stall, struct subtree_set *subtree_set, const struct stalled *stalled,
                    struct hvd_error *err)
{
    struct wire_record record = {.type = WIRE_STALL_QUERY,
                                 .set = subtree_set->set,
                                 .id = ++subtree_set->query_count,
                                 .time_us = stall_query_timeout(stall->submit->params, stalled->waited_us),
                                 .batch = stalled->batch};
    struct stall_query own = {.desc = stalled->desc,
                              .waited_us = stalled->waited_us,
                              .rank = stalled->rank,
                              .waits_for = stalled->waits_for,
                              .again = stalled->again};
    const char *name = desc_name(stalled->desc);
    memcpy(record.name, name, strlen(name) + 1);
    mute(subtree_set);
    return query_children(stall, subtree_set, &record, &own, err);
}

/* ---- Pending operations ------------------------------------------------------------------------ */

/* Report what waits: to the parent, or by a query if this rank decides. */
static int notify(struct stall_stage *stall, struct subtree_set *subtree_set, const struct stalled *stalled,
                  struct hvd_error *err)
{
    if (subtree_set->decides)
        return question(stall, subtree_set, stalled, err);
    struct wire_record record = {.type = WIRE_STALL_NOTICE,
                                 .time_us = stalled->waited_us,
                                 .batch = stalled->batch,
                                 .waits_for = stalled->waits_for,
                                 .proposal = {.desc = stalled->desc, .rank = stalled->rank}};
    wire_put(&stall->notes, &record);
    mute(subtree_set);
    return HVD_OK;
}

/* Report it, unless a stall was reported a short while ago, or the answers to that are still on their way. */
static int notify_unless_muted(struct stall_stage *stall, struct subtree_set *subtree_set,
                               const struct stalled *stalled, struct hvd_error *err)
{
    const struct stall_query *stall_query = subtree_set->stall_query;
    bool runs = stalled->batch != 0;
    bool told = must_abort(stall, stalled->waited_us, runs)
                    ? stall_query != NULL && must_abort(stall, stall_query->waited_us, runs)
                    : stall_query != NULL || subtree_set->muted;
    return told ? HVD_OK : notify(stall, subtree_set, stalled, err);
}

int stall_handle_notice(struct stall_stage *stall, struct subtree_set *subtree_set,
                        const struct wire_record *record, struct hvd_error *err)
{
    const struct wire_proposal *proposal = &record->proposal;
    const struct stalled stalled = {.desc = proposal->desc,
                                    .waited_us = record->time_us,
                                    .batch = record->batch,
                                    .rank = proposal->rank,
                                    .waits_for = record->waits_for};
    if (record->batch == 0 &&
        is_pending(response_cache_find(&subtree_set->response_cache, desc_name(proposal->desc))))
        return HVD_OK; /* it is pending here as well, and this rank reports it when its time has come */
    return notify_unless_muted(stall, subtree_set, &stalled, err);
}

int stall_report_batch(struct stall_stage *stall, const struct stalled_batch *stalled_batch,
                       struct hvd_error *err)
{
    struct subtree_set *subtree_set = subtree_set_find(&stall->submit->sets, stalled_batch->desc->set);
    const struct stalled stalled = {.desc = stalled_batch->desc,
                                    .waited_us = stalled_batch->waited_us,
                                    .batch = stalled_batch->number,
                                    .rank = stall->submit->params->rank,
                                    .waits_for = stalled_batch->waits_for};
    if (subtree_set == NULL)
        return HVD_ERR_SET;
    if (!subtree_set->decides)
        parent_watch_told(stall, stalled_batch);
    return notify_unless_muted(stall, subtree_set, &stalled, err);
}

/* The operation that has waited longest on this rank for ranks of the subtree, or NULL. Once a rank has left
 * that is the common shutdown. */
static const struct cache_entry *oldest_pending(const struct stall_stage *stall,
                                                const struct subtree_set *subtree_set)
{
    const struct cache_entry *shutdown = NULL;
    if (!stall->submit->leaving_decided)
        return TAILQ_FIRST(&subtree_set->response_cache.pending);
    if (subtree_set->set == HVD_ALL_RANKS)
        shutdown = response_cache_find(&subtree_set->response_cache, DESC_SHUTDOWN_NAME);
    return is_pending(shutdown) ? shutdown : NULL;
}

/* What has waited longest, and since when; desc is NULL where nothing waits. */
struct waiting {
    const struct desc *desc;
    int64_t since_us;
};

/* Where no operation is pending, that is a join which the rank that decides has submitted as well. */
static struct waiting oldest_waiting(const struct stall_stage *stall, const struct subtree_set *subtree_set)
{
    const struct cache_entry *entry = oldest_pending(stall, subtree_set);
    if (entry != NULL)
        return (struct waiting){entry->proposal.desc != NULL ? entry->proposal.desc : entry->agreed.desc,
                                entry->since_us};
    if (subtree_set->decides && !stall->submit->leaving_decided)
        return (struct waiting){subtree_set->join, subtree_set->join_since_us};
    return (struct waiting){NULL, 0};
}

/* Set the times of operations that are new since the last call. */
static void update_times(const struct stall_stage *stall, struct subtree_set *subtree_set, int64_t now_us)
{
    struct cache_entry *entry = TAILQ_LAST(&subtree_set->response_cache.pending, entry_list);
    for (; entry != NULL && entry->since_us == 0; entry = TAILQ_PREV(entry, entry_list, pending_link))
        entry->since_us = now_us;
    if (subtree_set->join != NULL && subtree_set->join_since_us == 0)
        subtree_set->join_since_us = now_us;
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
    const struct waiting waiting = oldest_waiting(stall, subtree_set);
    int64_t deadline_us = INT64_MAX;
    if (subtree_set->stall_query != NULL)
        return subtree_set->stall_query->deadline_us;
    if (waiting.desc != NULL && params->stall_warn_us > 0) {
        deadline_us = waiting.since_us + params->stall_warn_us;
        if (subtree_set->muted && subtree_set->muted_until_us > deadline_us)
            deadline_us = subtree_set->muted_until_us;
    }
    if (waiting.desc != NULL && params->stall_abort_us > 0 && !stall->submit->leaving_decided &&
        subtree_set->abort_reported_us != waiting.since_us &&
        waiting.since_us + params->stall_abort_us < deadline_us)
        deadline_us = waiting.since_us + params->stall_abort_us;
    if (waiting.desc != NULL && params->hang_limit_us > 0) {
        int64_t from_us =
            subtree_set->hang_asked_us > waiting.since_us ? subtree_set->hang_asked_us : waiting.since_us;
        if (from_us + params->hang_limit_us < deadline_us)
            deadline_us = from_us + params->hang_limit_us;
    }
    return deadline_us;
}

int64_t stall_deadline(struct stall_stage *stall, int64_t now_us)
{
    int64_t deadline_us = parent_watch_deadline(stall, now_us);
    for (size_t i = 0; i < stall->submit->sets.count; i++) {
        struct subtree_set *subtree_set = stall->submit->sets.at[i];
        if (TAILQ_EMPTY(&subtree_set->response_cache.pending) && subtree_set->join == NULL &&
            subtree_set->stall_query == NULL && !subtree_set->muted)
            continue;
        update_times(stall, subtree_set, now_us);
        int64_t due_us = deadline_of(stall, subtree_set);
        deadline_us = due_us < deadline_us ? due_us : deadline_us;
    }
    return deadline_us;
}

void stall_restart_times(struct stall_stage *stall)
{
    stall->parent.since_us = 0;
    for (size_t i = 0; i < stall->submit->sets.count; i++) {
        struct subtree_set *subtree_set = stall->submit->sets.at[i];
        struct cache_entry *entry = NULL;
        subtree_set->join_since_us = 0;
        TAILQ_FOREACH(entry, &subtree_set->response_cache.pending, pending_link)
        {
            entry->since_us = 0;
        }
        if (subtree_set->stall_query != NULL)
            subtree_set->stall_query->deadline_us = 0;
    }
}

static int notify_of(struct stall_stage *stall, struct subtree_set *subtree_set,
                     const struct waiting *waiting, int64_t now_us, struct hvd_error *err)
{
    const struct stalled stalled = {.desc = waiting->desc,
                                    .waited_us = now_us - waiting->since_us,
                                    .rank = stall->submit->params->rank,
                                    .waits_for = -1};
    if (must_abort(stall, stalled.waited_us, false))
        subtree_set->abort_reported_us = waiting->since_us;
    if (must_abort(stall, stalled.waited_us, true))
        subtree_set->hang_asked_us = now_us;
    return notify(stall, subtree_set, &stalled, err);
}

int stall_check(struct stall_stage *stall, int64_t now_us, struct hvd_error *err)
{
    int rc = parent_watch_check(stall, now_us, err);
    for (size_t i = 0; i < stall->submit->sets.count && rc == HVD_OK; i++) {
        struct subtree_set *subtree_set = stall->submit->sets.at[i];
        if (deadline_of(stall, subtree_set) > now_us)
            continue;
        const struct waiting waiting = oldest_waiting(stall, subtree_set);
        rc = subtree_set->stall_query != NULL ? time_out(stall, subtree_set, err)
                                              : notify_of(stall, subtree_set, &waiting, now_us, err);
        update_times(stall, subtree_set, now_us);
    }
    return rc;
}
