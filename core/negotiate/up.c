/* up.c: what is ready in this rank's subtree: heard from the children, merged, said to the parent.
 */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

#define ALL_BACKENDS ((1u << BACKEND_COUNT) - 1)

/* ---- Merging -------------------------------------------------------------------------------- */

static void set_proposal(struct wire_proposal *proposal, const struct desc *desc, int rank, uint32_t backends)
{
    const struct desc *old = proposal->desc;
    *proposal = (struct wire_proposal){desc_hold(desc), rank, backends};
    desc_release(old);
}

/* Take what [rank] says of an entry; no desc: what the entry's number stands for. */
static void merge(struct cache_entry *entry, const struct wire_proposal *proposal)
{
    bool first = entry->ready == 0;
    const struct desc *desc = proposal->desc != NULL ? proposal->desc : entry->agreed.desc;
    uint32_t backends = proposal->desc != NULL ? proposal->backends : entry->agreed.backends;
    if (proposal->desc == NULL && (first || entry->proposal.desc == NULL)) {
        if (first || proposal->rank < entry->proposal.rank)
            entry->proposal.rank = proposal->rank;
        return;
    }
    if (first) {
        set_proposal(&entry->proposal, desc, proposal->rank, backends);
        return;
    }
    if (entry->proposal.desc == NULL) /* the first word that is more than the number */
        set_proposal(&entry->proposal, entry->agreed.desc, entry->proposal.rank, entry->agreed.backends);
    uint32_t common = entry->proposal.backends & backends;
    if (!desc_equal(entry->proposal.desc, desc) ||
        (common == 0 && (entry->proposal.backends | backends) != 0)) {
        if (!entry->mismatch || (desc_equal(entry->other.desc, desc) && proposal->rank < entry->other.rank))
            set_proposal(&entry->other, desc, proposal->rank, backends);
        entry->mismatch = true;
        return;
    }
    entry->proposal.backends = common;
    if (proposal->rank < entry->proposal.rank)
        entry->proposal.rank = proposal->rank;
}

bool subtree_set_covers(const struct subtree_set *subtree_set, const struct cache_entry *entry)
{
    if (entry == NULL)
        return subtree_set->joined == subtree_set->member_parts;
    uint64_t waived = entry->needs_all ? 0 : subtree_set->joined;
    return (entry->ready | waived) == subtree_set->member_parts;
}

/* Put an entry that is ready in the whole subtree on its ready_list. */
static int put_on_ready_list(struct negotiate *negotiate, struct subtree_set *subtree_set,
                             struct cache_entry *entry, struct hvd_error *err)
{
    struct ready_list *ready_list = subtree_set->decides ? &negotiate->to_decide : &negotiate->to_report;
    if (!negotiate_grow(&ready_list->at, &ready_list->capacity, ready_list->count, sizeof(ready_list->at[0])))
        return negotiate_no_memory(err);
    ready_list->at[ready_list->count++] = (struct ready_item){subtree_set, entry};
    TAILQ_REMOVE(&subtree_set->response_cache.open, entry, pending_link);
    entry->state = ENTRY_READY;
    return HVD_OK;
}

/* [bit]'s part of the subtree is ready for [entry]. */
static int mark_ready(struct negotiate *negotiate, struct subtree_set *subtree_set, struct cache_entry *entry,
                      int bit, const struct wire_proposal *proposal, struct hvd_error *err)
{
    if ((entry->ready >> bit & 1) != 0)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d says twice that it is ready for \"%s\"",
                         proposal->rank, entry->name);
    if ((subtree_set->joined >> bit & 1) != 0 && !entry->needs_all)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d has joined, but says that it is ready for \"%s\"",
                         proposal->rank, entry->name);
    merge(entry, proposal);
    if (entry->ready == 0)
        TAILQ_INSERT_TAIL(&subtree_set->response_cache.open, entry, pending_link);
    entry->ready |= UINT64_C(1) << bit;
    return entry->state == ENTRY_PENDING && subtree_set_covers(subtree_set, entry)
               ? put_on_ready_list(negotiate, subtree_set, entry, err)
               : HVD_OK;
}

/* All of [bit]'s part have joined: that makes ready what only they were missing for. */
static int mark_joined(struct negotiate *negotiate, struct subtree_set *subtree_set, int bit,
                       const struct joined_part *part, struct hvd_error *err)
{
    struct cache_entry *entry = TAILQ_FIRST(&subtree_set->response_cache.open);
    struct cache_entry *next = NULL;
    int rc = HVD_OK;
    subtree_set->joined |= UINT64_C(1) << bit;
    subtree_set->part[bit] = *part;
    subtree_set->last_joined = part->rank;
    for (; entry != NULL && rc == HVD_OK; entry = next) {
        next = TAILQ_NEXT(entry, pending_link);
        if (subtree_set_covers(subtree_set, entry))
            rc = put_on_ready_list(negotiate, subtree_set, entry, err);
    }
    if (subtree_set->joined == subtree_set->member_parts && subtree_set->decides)
        negotiate->join_to_decide = true;
    else if (subtree_set->joined == subtree_set->member_parts)
        negotiate->join_to_report = true;
    return rc;
}

static int set_member_count(struct cache_entry *entry, int bit, int members, struct hvd_error *err)
{
    if (entry->member_counts == NULL)
        entry->member_counts = calloc(1, sizeof(*entry->member_counts));
    if (entry->member_counts == NULL)
        return negotiate_no_memory(err);
    entry->member_counts->counts[bit] = members;
    return HVD_OK;
}

/* ---- This rank ------------------------------------------------------------------------------ */

/* After its join a rank takes part in the set again when the join is over. */
static int defer(struct subtree_set *subtree_set, const struct submission *submission, struct hvd_error *err)
{
    struct deferred *deferred = calloc(1, sizeof(*deferred));
    if (deferred == NULL)
        return negotiate_no_memory(err);
    deferred->submission = *submission;
    desc_hold(submission->desc);
    *subtree_set->deferred_tail = deferred;
    subtree_set->deferred_tail = &deferred->next;
    return HVD_OK;
}

static int submit_join(struct negotiate *negotiate, struct subtree_set *subtree_set,
                       const struct submission *submission, struct hvd_error *err)
{
    struct joined_part self = {negotiate->params.rank,
                               submission->backends != 0 ? submission->backends : ALL_BACKENDS};
    subtree_set->join = desc_hold(submission->desc);
    subtree_set->join_user = submission->user;
    return mark_joined(negotiate, subtree_set, SELF_BIT, &self, err);
}

/* The entry whose number was given back with the last decision on this very description; or NULL. */
static struct cache_entry *find_cached(const struct subtree_set *subtree_set,
                                       const struct submission *submission)
{
    struct cache_entry *entry = response_cache_by_id(&subtree_set->response_cache, submission->number);
    return entry != NULL && entry->agreed.desc == submission->desc ? entry : NULL;
}

/* Does the number of [entry] say what is submitted? Then this rank's own description is the one that is kept,
 * which is found to be equal at the first look from now on. */
static bool matches_cached(const struct subtree_set *subtree_set, struct cache_entry *entry,
                           const struct submission *submission)
{
    if (entry->number == WIRE_NO_ID || subtree_set->response_cache.slots[entry->number].retiring)
        return false;
    bool carried = entry->backend < 0 || (submission->backends >> entry->backend & 1) != 0;
    const struct desc *agreed = entry->agreed.desc;
    if (!carried || !desc_equal(agreed, submission->desc))
        return false;
    if (agreed != submission->desc) {
        entry->agreed.desc = desc_hold(submission->desc);
        desc_release(agreed);
    }
    return true;
}

int up_submit(struct negotiate *negotiate, const struct submission *submission, struct hvd_error *err)
{
    const struct desc *desc = submission->desc;
    struct subtree_set *subtree_set = subtree_set_find(negotiate, desc->set);
    if (subtree_set == NULL || (subtree_set->member_parts >> SELF_BIT & 1) == 0)
        return error_set(err, HVD_ERR_SET, "rank %d is no member of process set %d", negotiate->params.rank,
                         desc->set);
    if (!submission->more) {
        desc_release(negotiate->last);
        negotiate->last = desc_hold(desc);
    }
    if ((subtree_set->joined >> SELF_BIT & 1) != 0 && desc->kind != DESC_SHUTDOWN)
        return defer(subtree_set, submission, err);
    if (desc->kind == DESC_JOIN)
        return submit_join(negotiate, subtree_set, submission, err);
    struct cache_entry *entry = find_cached(subtree_set, submission);
    if (entry == NULL)
        entry = response_cache_find_or_add(&subtree_set->response_cache, desc_name(desc));
    if (entry == NULL)
        return negotiate_no_memory(err);
    int rc = HVD_OK;
    struct wire_proposal proposal = {desc, negotiate->params.rank, submission->backends};
    if (matches_cached(subtree_set, entry, submission))
        proposal.desc = NULL;
    if (desc->kind == DESC_SET_ADD) {
        rc = set_member_count(entry, SELF_BIT, submission->member, err);
        if (rc == HVD_OK)
            entry->member_counts->set_size = submission->set_size;
    }
    if (rc == HVD_OK)
        rc = mark_ready(negotiate, subtree_set, entry, SELF_BIT, &proposal, err);
    if (rc == HVD_OK)
        entry->user = submission->user;
    else
        response_cache_drop_unused(&subtree_set->response_cache, entry);
    return rc;
}

/* ---- Children ------------------------------------------------------------------------------- */

/* The set that a child's record is about. *subtree_setp is NULL where it was removed: the child did not know.
 */
static int set_of_child(const struct negotiate *negotiate, int child, hvd_set set,
                        struct subtree_set **subtree_setp, struct hvd_error *err)
{
    *subtree_setp = subtree_set_find(negotiate, set);
    if (*subtree_setp == NULL && set <= negotiate->last_set)
        return HVD_OK;
    if (*subtree_setp == NULL || ((*subtree_setp)->member_parts >> (child + 1) & 1) == 0)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d speaks of process set %d, which it is not in",
                         negotiate->params.child_ranks[child], set);
    return HVD_OK;
}

static int receive_ids(struct negotiate *negotiate, struct subtree_set *subtree_set, int child,
                       const struct wire_record *record, struct hvd_error *err)
{
    struct wire_proposal proposal = {NULL, negotiate->params.child_ranks[child], 0};
    for (uint32_t i = 0; i < record->id_span; i++) {
        if (!wire_has_id(record, i))
            continue;
        struct cache_entry *entry = response_cache_by_id(&subtree_set->response_cache, record->first_id + i);
        if (entry == NULL)
            return error_set(err, HVD_ERR_SYSTEM, "operation number %u was never agreed",
                             record->first_id + i);
        int rc = mark_ready(negotiate, subtree_set, entry, child + 1, &proposal, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

int up_release_id(struct negotiate *negotiate, struct subtree_set *subtree_set, uint32_t number,
                  struct hvd_error *err)
{
    uint64_t below = subtree_set->member_parts & ~(UINT64_C(1) << SELF_BIT);
    if ((subtree_set->response_cache.slots[number].acknowledged & below) != below)
        return HVD_OK;
    if (!subtree_set->decides) {
        struct id_list *retired_ids = &negotiate->retired_ids;
        if (!negotiate_grow(&retired_ids->at, &retired_ids->capacity, retired_ids->count, sizeof(uint64_t)))
            return negotiate_no_memory(err);
        retired_ids->at[retired_ids->count++] = (uint64_t)subtree_set->set << 32 | number;
    }
    response_cache_release_id(&subtree_set->response_cache, number);
    return HVD_OK;
}

static int receive_retired(struct negotiate *negotiate, struct subtree_set *subtree_set, int child,
                           const struct wire_record *record, struct hvd_error *err)
{
    for (uint32_t i = 0; i < record->id_span; i++) {
        if (!wire_has_id(record, i))
            continue;
        uint32_t number = record->first_id + i;
        struct cache_slot *slot = number < subtree_set->response_cache.slot_count
                                      ? &subtree_set->response_cache.slots[number]
                                      : NULL;
        if (slot == NULL || !slot->retiring || (slot->acknowledged >> (child + 1) & 1) != 0)
            return error_set(err, HVD_ERR_SYSTEM, "operation number %u is not to be given up by rank %d",
                             number, negotiate->params.child_ranks[child]);
        slot->acknowledged |= UINT64_C(1) << (child + 1);
        int rc = up_release_id(negotiate, subtree_set, number, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

static int receive_joined(struct negotiate *negotiate, struct subtree_set *subtree_set, int child,
                          const struct wire_record *record, struct hvd_error *err)
{
    struct joined_part part = {record->rank, record->backends};
    if ((subtree_set->joined >> (child + 1) & 1) != 0)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d says twice that it has joined process set %d",
                         record->rank, subtree_set->set);
    return mark_joined(negotiate, subtree_set, child + 1, &part, err);
}

static int receive_proposal(struct negotiate *negotiate, struct subtree_set *subtree_set, int child,
                            const struct wire_record *record, struct hvd_error *err)
{
    struct cache_entry *entry =
        response_cache_find_or_add(&subtree_set->response_cache, desc_name(record->proposal.desc));
    if (entry == NULL)
        return negotiate_no_memory(err);
    int rc = HVD_OK;
    if (record->proposal.desc->kind == DESC_SET_ADD && record->type == WIRE_NEW)
        rc = set_member_count(entry, child + 1, record->members, err);
    if (rc == HVD_OK)
        rc = mark_ready(negotiate, subtree_set, entry, child + 1, &record->proposal, err);
    if (rc != HVD_OK) {
        response_cache_drop_unused(&subtree_set->response_cache, entry);
        return rc;
    }
    if (entry->absent < 0 && record->type == WIRE_NEW)
        entry->absent = record->absent;
    if (record->type == WIRE_MISMATCH && !entry->mismatch) {
        /* this rank agrees with one of the two, so the child's pair is the disagreement here too */
        entry->mismatch = true;
        set_proposal(&entry->other, record->other.desc, record->other.rank, record->other.backends);
    }
    return HVD_OK;
}

int up_receive(struct negotiate *negotiate, int child, const struct wire_record *record,
               struct hvd_error *err)
{
    struct subtree_set *subtree_set = NULL;
    hvd_set set = record->proposal.desc != NULL ? record->proposal.desc->set : record->set;
    if (record->type == WIRE_LEAVING) {
        if (negotiate->leaving_rank < 0)
            negotiate->leaving_rank = record->rank;
        return HVD_OK;
    }
    int rc = set_of_child(negotiate, child, set, &subtree_set, err);
    if (rc != HVD_OK || subtree_set == NULL)
        return rc;
    switch (record->type) {
    case WIRE_IDS:
        return receive_ids(negotiate, subtree_set, child, record, err);
    case WIRE_RETIRE:
        return receive_retired(negotiate, subtree_set, child, record, err);
    case WIRE_NEW:
    case WIRE_MISMATCH:
        return receive_proposal(negotiate, subtree_set, child, record, err);
    case WIRE_JOINED:
        return receive_joined(negotiate, subtree_set, child, record, err);
    case WIRE_STALL_NOTICE:
        return stall_handle_notice(negotiate, subtree_set, record, err);
    case WIRE_STALL_REPLY:
        return stall_handle_reply(negotiate, subtree_set, child, record, err);
    case WIRE_LEAVING:
    case WIRE_UNIT:
    case WIRE_STALL_QUERY:
    case WIRE_TUNE:
        break;
    }
    return error_set(err, HVD_ERR_SYSTEM, "rank %d sends a record of type %d, which only parents do",
                     negotiate->params.child_ranks[child], (int)record->type);
}

/* ---- Saying --------------------------------------------------------------------------------- */

/* A joined rank takes part with zeros, where that can be, over a backend that it has: else it is missed. */
static void merge_joined(const struct subtree_set *subtree_set, const struct cache_entry *entry,
                         struct wire_record *record)
{
    uint64_t missing = subtree_set->member_parts & ~entry->ready;
    for (int bit = 0; missing >> bit != 0 && bit < 64; bit++) {
        const struct joined_part *part = &subtree_set->part[bit];
        if ((missing >> bit & 1) == 0)
            continue;
        uint32_t backends = record->proposal.backends;
        if (!desc_allows_joined(record->proposal.desc) || (backends != 0 && (backends & part->backends) == 0))
            record->absent = part->rank;
        else
            record->proposal.backends &= part->backends;
    }
}

bool up_describe(const struct subtree_set *subtree_set, const struct cache_entry *entry,
                 struct wire_record *record)
{
    memset(record, 0, sizeof(*record));
    record->type = entry->mismatch ? WIRE_MISMATCH : WIRE_NEW;
    record->proposal = entry->proposal;
    record->id = WIRE_NO_ID;
    record->backend = -1;
    record->absent = entry->absent;
    if (entry->proposal.desc == NULL) {
        record->proposal.desc = entry->agreed.desc;
        record->proposal.backends = entry->agreed.backends;
    }
    if (entry->mismatch)
        record->other = entry->other;
    else if (entry->ready != subtree_set->member_parts)
        merge_joined(subtree_set, entry, record);
    for (int bit = 0; entry->member_counts != NULL && bit < 64; bit++)
        record->members += entry->member_counts->counts[bit];
    bool carried = entry->backend < 0 || (record->proposal.backends >> entry->backend & 1) != 0;
    return entry->proposal.desc != NULL || record->absent >= 0 || !carried ||
           subtree_set->response_cache.slots[entry->number].retiring;
}

/* Is [entry] what its number stands for, on every rank below? Only a part of what up_describe says, but of
 * most entries of most rounds, and soon said. */
static bool is_cached(const struct subtree_set *subtree_set, const struct cache_entry *entry)
{
    return entry->proposal.desc == NULL && entry->ready == subtree_set->member_parts && entry->absent < 0 &&
           !subtree_set->response_cache.slots[entry->number].retiring;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

int up_write_ids(struct negotiate *negotiate, enum wire_type type, struct id_list *numbers,
                 struct wire_writer *writer, struct hvd_error *err)
{
    size_t count = 0;
    size_t ascending = 1; /* as they are where ranks submit in the order in which they first did */
    while (ascending < numbers->count && numbers->at[ascending - 1] < numbers->at[ascending])
        ascending++;
    if (ascending < numbers->count)
        qsort(numbers->at, numbers->count, sizeof(uint64_t), compare_ids);
    for (size_t i = 0; i < numbers->count; i++) {
        if (!negotiate_grow(&negotiate->ids, &negotiate->id_capacity, count, sizeof(uint32_t)))
            return negotiate_no_memory(err);
        negotiate->ids[count++] = (uint32_t)numbers->at[i];
        if (i + 1 == numbers->count || numbers->at[i] >> 32 != numbers->at[i + 1] >> 32) {
            wire_put_ids(writer, type, (hvd_set)(numbers->at[i] >> 32), negotiate->ids, count);
            count = 0;
        }
    }
    numbers->count = 0;
    return HVD_OK;
}

int up_write_cached(struct negotiate *negotiate, struct ready_list *ready_list, struct wire_writer *writer,
                    struct hvd_error *err)
{
    struct id_list *numbers = &negotiate->numbers;
    struct wire_record record;
    size_t kept = 0;
    for (size_t i = 0; i < ready_list->count; i++) {
        struct ready_item item = ready_list->at[i];
        if (item.entry == NULL)
            continue;
        if (!is_cached(item.subtree_set, item.entry) && up_describe(item.subtree_set, item.entry, &record)) {
            ready_list->at[kept++] = item;
            continue;
        }
        if (!negotiate_grow(&numbers->at, &numbers->capacity, numbers->count, sizeof(uint64_t)))
            return negotiate_no_memory(err);
        numbers->at[numbers->count++] = (uint64_t)item.subtree_set->set << 32 | item.entry->number;
        item.entry->state = ENTRY_REPORTED;
    }
    ready_list->count = kept;
    return up_write_ids(negotiate, WIRE_IDS, numbers, writer, err);
}

static void report_joins(struct negotiate *negotiate)
{
    for (size_t i = 0; i < negotiate->subtree_set_count; i++) {
        struct subtree_set *subtree_set = negotiate->subtree_sets[i];
        if (subtree_set->decides || subtree_set->joined_reported ||
            subtree_set->joined != subtree_set->member_parts)
            continue;
        struct wire_record record = {.type = WIRE_JOINED,
                                     .set = subtree_set->set,
                                     .rank = subtree_set->last_joined,
                                     .backends = ALL_BACKENDS};
        for (int bit = 0; bit < 64 && subtree_set->member_parts >> bit != 0; bit++) {
            if ((subtree_set->member_parts >> bit & 1) != 0)
                record.backends &= subtree_set->part[bit].backends;
        }
        wire_put(&negotiate->up, &record);
        subtree_set->joined_reported = true;
    }
    negotiate->join_to_report = false;
}

int up_write_message(struct negotiate *negotiate, struct hvd_error *err)
{
    struct ready_list *to_report = &negotiate->to_report;
    struct wire_record record;
    bool leaving_is_new = negotiate->leaving_rank >= 0 && !negotiate->leaving_reported;
    wire_reset(&negotiate->up);
    if (to_report->count == 0 && !negotiate->join_to_report && !leaving_is_new &&
        negotiate->notes.length == 0)
        return HVD_OK; /* numbers that were given up can wait until there is more to say */
    wire_put_bytes(&negotiate->up, negotiate->notes.bytes, negotiate->notes.length);
    negotiate->up.failed = negotiate->up.failed || negotiate->notes.failed;
    wire_reset(&negotiate->notes);
    int rc = up_write_ids(negotiate, WIRE_RETIRE, &negotiate->retired_ids, &negotiate->up, err);
    if (rc == HVD_OK)
        rc = up_write_cached(negotiate, to_report, &negotiate->up, err);
    if (rc != HVD_OK)
        return rc;
    for (size_t i = 0; i < to_report->count; i++) {
        up_describe(to_report->at[i].subtree_set, to_report->at[i].entry, &record);
        to_report->at[i].entry->state = ENTRY_REPORTED;
        wire_put(&negotiate->up, &record);
    }
    to_report->count = 0;
    if (negotiate->join_to_report)
        report_joins(negotiate);
    if (leaving_is_new) {
        record = (struct wire_record){.type = WIRE_LEAVING, .rank = negotiate->leaving_rank};
        wire_put(&negotiate->up, &record);
        negotiate->leaving_reported = true;
    }
    return negotiate->up.failed ? negotiate_no_memory(err) : HVD_OK;
}
