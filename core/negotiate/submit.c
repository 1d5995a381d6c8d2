/* submit.c: finds the operations that are ready in this rank's whole subtree. It merges the submissions of
 * this rank and the reports of its children, and lists complete operations for the parent, or for the
 * decision here. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

void submit_set_proposal(struct wire_proposal *proposal, const struct wire_proposal *from)
{
    const struct desc *old = proposal->desc;
    *proposal = *from;
    desc_hold(from->desc);
    desc_release(old);
}

/* Merge a proposal into an entry. A proposal without a desc means what the entry's id stands for. */
static void merge(struct cache_entry *entry, const struct wire_proposal *proposal)
{
    bool first = entry->ready == 0;
    if (proposal->desc == NULL && (first || entry->proposal.desc == NULL)) {
        if (first || proposal->rank < entry->proposal.rank)
            entry->proposal.rank = proposal->rank;
        return;
    }
    struct wire_proposal full = proposal->desc != NULL ? *proposal : entry->agreed;
    full.rank = proposal->rank;
    if (first) {
        submit_set_proposal(&entry->proposal, &full);
        return;
    }
    if (entry->proposal.desc == NULL) {
        /* the first proposal with a description; those before it had only the id */
        int rank = entry->proposal.rank;
        submit_set_proposal(&entry->proposal, &entry->agreed);
        entry->proposal.rank = rank;
    }
    uint32_t common = entry->proposal.backends & full.backends;
    bool needs_common = !full.desc->by_members && (entry->proposal.backends | full.backends) != 0;
    if (!desc_equal(entry->proposal.desc, full.desc) || ((common & BACKENDS_OF_HOST) == 0 && needs_common)) {
        if (!entry->mismatch || (desc_equal(entry->other.desc, full.desc) && full.rank < entry->other.rank))
            submit_set_proposal(&entry->other, &full);
        entry->mismatch = true;
        return;
    }
    entry->proposal.backends = common;
    if (entry->proposal.offsets != full.offsets)
        entry->proposal.offsets = 0;
    if (full.rank < entry->proposal.rank)
        entry->proposal.rank = full.rank;
}

/* Do the members of a new set alone ask for it? */
static bool is_by_members(const struct cache_entry *entry)
{
    return entry->proposal.desc != NULL && entry->proposal.desc->by_members;
}

static int count_members(const struct cache_entry *entry)
{
    int members = 0;
    for (int bit = 0; entry->member_counts != NULL && bit < 64; bit++)
        members += entry->member_counts->counts[bit];
    return members;
}

bool subtree_set_covers(const struct subtree_set *subtree_set, const struct cache_entry *entry)
{
    if (entry == NULL)
        return subtree_set->joined == subtree_set->member_parts;
    if (is_by_members(entry))
        return !subtree_set->decides || count_members(entry) >= entry->proposal.desc->tensors[0].shape[0];
    uint64_t waived = entry->needs_all ? 0 : subtree_set->joined;
    return (entry->ready | waived) == subtree_set->member_parts;
}

/* Put an entry for which the whole subtree is ready on the list to report or to decide. */
static int put_on_ready_list(struct submit_stage *submit, struct subtree_set *subtree_set,
                             struct cache_entry *entry, struct hvd_error *err)
{
    struct ready_list *ready_list = subtree_set->decides ? &submit->to_decide : &submit->to_report;
    if (!negotiate_grow(&ready_list->at, &ready_list->capacity, ready_list->count, sizeof(ready_list->at[0])))
        return negotiate_no_memory(err);
    ready_list->at[ready_list->count++] = (struct ready_item){subtree_set, entry};
    response_cache_mark_ready(&subtree_set->response_cache, entry);
    return HVD_OK;
}

/* The part [bit] of the subtree is ready for [entry]. */
int submit_mark_ready(struct submit_stage *submit, struct subtree_set *subtree_set, struct cache_entry *entry,
                      int bit, const struct wire_proposal *proposal, struct hvd_error *err)
{
    bool by_members = proposal->desc != NULL && proposal->desc->by_members;
    if ((entry->ready >> bit & 1) != 0 && !by_members)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d says twice that it is ready for \"%s\"",
                         proposal->rank, entry->name);
    if ((subtree_set->joined >> bit & 1) != 0 && !entry->needs_all)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d has joined, but says that it is ready for \"%s\"",
                         proposal->rank, entry->name);
    merge(entry, proposal);
    if (entry->ready == 0)
        TAILQ_INSERT_TAIL(&subtree_set->response_cache.pending, entry, pending_link);
    entry->ready |= UINT64_C(1) << bit;
    bool is_new = entry->state == ENTRY_PENDING || (by_members && entry->state == ENTRY_REPORTED);
    return is_new && subtree_set_covers(subtree_set, entry)
               ? put_on_ready_list(submit, subtree_set, entry, err)
               : HVD_OK;
}

/* All members in the part [bit] have joined. Entries that lacked only this part become ready. */
int submit_mark_joined(struct submit_stage *submit, struct subtree_set *subtree_set, int bit,
                       const struct joined_part *part, struct hvd_error *err)
{
    struct cache_entry *entry = TAILQ_FIRST(&subtree_set->response_cache.pending);
    struct cache_entry *next = NULL;
    int rc = HVD_OK;
    subtree_set->joined |= UINT64_C(1) << bit;
    subtree_set->part[bit] = *part;
    subtree_set->last_joined = part->rank;
    for (; entry != NULL && rc == HVD_OK; entry = next) {
        next = TAILQ_NEXT(entry, pending_link);
        if (subtree_set_covers(subtree_set, entry))
            rc = put_on_ready_list(submit, subtree_set, entry, err);
    }
    if (subtree_set->joined == subtree_set->member_parts && subtree_set->decides)
        submit->join_to_decide = true;
    else if (subtree_set->joined == subtree_set->member_parts)
        submit->join_to_report = true;
    return rc;
}

int submit_set_member_count(struct cache_entry *entry, int bit, int members, struct hvd_error *err)
{
    if (entry->member_counts == NULL)
        entry->member_counts = calloc(1, sizeof(*entry->member_counts));
    if (entry->member_counts == NULL)
        return negotiate_no_memory(err);
    entry->member_counts->counts[bit] = members;
    return HVD_OK;
}

/* Keep a submission that this rank made after its join: the rank takes part in the set again when the join
 * is over. */
static int defer(struct subtree_set *subtree_set, const struct submission *submission, struct hvd_error *err)
{
    struct deferred *deferred = calloc(1, sizeof(*deferred));
    if (deferred == NULL)
        return negotiate_no_memory(err);
    deferred->submission = *submission;
    deferred->submission.input = NULL; /* not valid any more when it is submitted again */
    desc_hold(submission->desc);
    *subtree_set->deferred_tail = deferred;
    subtree_set->deferred_tail = &deferred->next;
    return HVD_OK;
}

static int submit_join(struct submit_stage *submit, struct subtree_set *subtree_set,
                       const struct submission *submission, struct hvd_error *err)
{
    struct joined_part self = {submit->params->rank,
                               submission->backends != 0 ? submission->backends : ALL_BACKENDS};
    subtree_set->join = desc_hold(submission->desc);
    subtree_set->join_user = submission->user;
    subtree_set->join_since_us = 0;
    return submit_mark_joined(submit, subtree_set, SELF_BIT, &self, err);
}

/* The entry whose id the caller got with the last decision on this very description; or NULL. */
static struct cache_entry *find_cached(const struct subtree_set *subtree_set,
                                       const struct submission *submission)
{
    struct cache_entry *entry = response_cache_by_id(&subtree_set->response_cache, submission->id);
    return entry != NULL && entry->agreed.desc == submission->desc ? entry : NULL;
}

/* Are the backends that were agreed for [entry] among [backends]? */
static bool is_carried(const struct cache_entry *entry, uint32_t backends)
{
    return entry->backend < 0 ||
           ((backends >> entry->backend & 1) != 0 && (!entry->nccl || (backends >> BACKEND_NCCL & 1) != 0));
}

/* Does the id say as much as [offsets], which this rank names? Those that were declined are named again after
 * 1, 2, 4, 8 decisions, on all ranks alike: they may have come to agree, as when a join is over. */
static bool has_agreed_offsets(const struct cache_entry *entry, uint64_t offsets)
{
    bool declined = entry->agreed.offsets == 0 && offsets == entry->declined;
    bool is_power_of_two = (entry->unequal & (entry->unequal - 1)) == 0;
    return offsets == entry->agreed.offsets || (declined && !is_power_of_two);
}

/* Does the id of [entry] stand for what is submitted? Then the entry keeps this rank's own
 * description, so that from now on comparing pointers shows that they are equal. */
static bool matches_cached(const struct subtree_set *subtree_set, struct cache_entry *entry,
                           const struct submission *submission)
{
    if (entry->id == WIRE_NO_ID || subtree_set->response_cache.slots[entry->id].retiring)
        return false;
    const struct desc *agreed = entry->agreed.desc;
    if (!is_carried(entry, submission->backends) || !has_agreed_offsets(entry, submission->offsets) ||
        !desc_equal(agreed, submission->desc))
        return false;
    if (agreed != submission->desc) {
        entry->agreed.desc = desc_hold(submission->desc);
        desc_release(agreed);
    }
    return true;
}

static int add_input(const struct submit_stage *submit, struct cache_entry *entry,
                     const struct submission *submission, struct hvd_error *err)
{
    unsigned char block[EAGER_MAX_BYTES];
    struct eager_inputs inputs = {1, submission->input_bytes, block};
    if (eager_bytes(&inputs) > sizeof(block))
        return HVD_OK;
    eager_make_block(block, submit->params->rank, submission->input, submission->input_bytes);
    return eager_add(&entry->eager, SELF_BIT, &inputs, err);
}

int submit_own(struct submit_stage *submit, const struct submission *submission, struct hvd_error *err)
{
    const struct desc *desc = submission->desc;
    struct subtree_set *subtree_set = subtree_set_find(&submit->sets, desc->set);
    if (subtree_set == NULL || (subtree_set->member_parts >> SELF_BIT & 1) == 0)
        return error_set(err, HVD_ERR_SET, "rank %d is no member of process set %d", submit->params->rank,
                         desc->set);
    if (!submission->more) {
        desc_release(submit->last);
        submit->last = desc_hold(desc);
    }
    if ((subtree_set->joined >> SELF_BIT & 1) != 0 && desc->kind != DESC_SHUTDOWN)
        return defer(subtree_set, submission, err);
    if (desc->kind == DESC_JOIN)
        return submit_join(submit, subtree_set, submission, err);
    struct cache_entry *entry = find_cached(subtree_set, submission);
    if (entry == NULL)
        entry = response_cache_find_or_add(&subtree_set->response_cache, desc_name(desc));
    if (entry == NULL)
        return negotiate_no_memory(err);
    int rc = HVD_OK;
    struct wire_proposal proposal = {desc, submit->params->rank, submission->backends, submission->offsets};
    if (matches_cached(subtree_set, entry, submission))
        proposal.desc = NULL;
    if (desc->kind == DESC_SET_ADD)
        rc = submit_set_member_count(entry, SELF_BIT, submission->member, err);
    if (rc == HVD_OK)
        rc = submit_mark_ready(submit, subtree_set, entry, SELF_BIT, &proposal, err);
    if (rc == HVD_OK && submission->input != NULL && proposal.desc == NULL)
        rc = add_input(submit, entry, submission, err);
    if (rc != HVD_OK) {
        response_cache_drop_unused(&subtree_set->response_cache, entry);
        return rc;
    }
    entry->user = submission->user;
    entry->offsets = submission->offsets;
    return HVD_OK;
}

int submit_release_id(struct submit_stage *submit, struct subtree_set *subtree_set, uint32_t id,
                      struct hvd_error *err)
{
    uint64_t below = subtree_set->member_parts & ~(UINT64_C(1) << SELF_BIT);
    if ((subtree_set->response_cache.slots[id].acknowledged & below) != below)
        return HVD_OK;
    if (!subtree_set->decides) {
        struct id_list *retired_ids = &submit->retired_ids;
        if (!negotiate_grow(&retired_ids->at, &retired_ids->capacity, retired_ids->count, sizeof(uint64_t)))
            return negotiate_no_memory(err);
        retired_ids->at[retired_ids->count++] = (uint64_t)subtree_set->set << 32 | id;
    }
    response_cache_release_id(&subtree_set->response_cache, id);
    return HVD_OK;
}

/* A rank that has joined takes part with zeros, if the operation allows that and the rank has a common
 * backend; else the operation lacks it. */
static void merge_joined(const struct subtree_set *subtree_set, const struct cache_entry *entry,
                         struct wire_record *record)
{
    uint64_t missing = subtree_set->member_parts & ~entry->ready;
    for (int bit = 0; bit < 64 && missing >> bit != 0; bit++) {
        const struct joined_part *part = &subtree_set->part[bit];
        if ((missing >> bit & 1) == 0)
            continue;
        uint32_t backends = record->proposal.backends;
        if (!desc_allows_joined(record->proposal.desc) ||
            (backends != 0 && (backends & part->backends & BACKENDS_OF_HOST) == 0))
            record->absent = part->rank;
        else
            record->proposal.backends &= part->backends;
        record->proposal.offsets = 0; /* zeros are nowhere */
    }
}

bool submit_describe(const struct subtree_set *subtree_set, const struct cache_entry *entry,
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
        record->proposal.offsets = entry->agreed.offsets;
    }
    if (entry->mismatch)
        record->other = entry->other;
    else if (entry->ready != subtree_set->member_parts && !is_by_members(entry))
        merge_joined(subtree_set, entry, record);
    record->members = count_members(entry);
    return entry->proposal.desc != NULL || record->absent >= 0 ||
           !is_carried(entry, record->proposal.backends) ||
           record->proposal.offsets != entry->agreed.offsets ||
           subtree_set->response_cache.slots[entry->id].retiring;
}

/* Is [entry] what its id stands for on every rank of the subtree? This checks only a part of what
 * submit_describe checks, but it is cheap, and enough for most entries of most rounds. */
static bool is_cached(const struct subtree_set *subtree_set, const struct cache_entry *entry)
{
    return entry->proposal.desc == NULL && entry->ready == subtree_set->member_parts && entry->absent < 0 &&
           !subtree_set->response_cache.slots[entry->id].retiring;
}

/* The inputs of all members in the subtree, if they came with the readiness for what the id stands for. */
static const struct eager_inputs *all_inputs(const struct subtree_set *subtree_set,
                                             const struct cache_entry *entry)
{
    bool all = entry->eager != NULL && entry->eager->parts == subtree_set->member_parts &&
               is_cached(subtree_set, entry);
    return all ? &entry->eager->inputs : NULL;
}

static void write_eager(const struct ready_item *item, const struct eager_inputs *inputs,
                        struct wire_writer *writer)
{
    struct wire_record record = {
        .type = WIRE_EAGER, .set = item->subtree_set->set, .id = item->entry->id, .inputs = *inputs};
    wire_put(writer, &record);
    response_cache_mark_reported(&item->subtree_set->response_cache, item->entry);
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

int submit_write_ids(struct submit_stage *submit, enum wire_type type, struct id_list *message,
                     struct wire_writer *writer, struct hvd_error *err)
{
    size_t count = 0;
    size_t ascending = 1; /* they already ascend if ranks submit in the order of their first submissions */
    while (ascending < message->count && message->at[ascending - 1] < message->at[ascending])
        ascending++;
    if (ascending < message->count)
        qsort(message->at, message->count, sizeof(uint64_t), compare_ids);
    for (size_t i = 0; i < message->count; i++) {
        if (!negotiate_grow(&submit->ids.at, &submit->ids.capacity, count, sizeof(uint32_t)))
            return negotiate_no_memory(err);
        submit->ids.at[count++] = (uint32_t)message->at[i];
        if (i + 1 == message->count || message->at[i] >> 32 != message->at[i + 1] >> 32) {
            wire_put_ids(writer, type, (hvd_set)(message->at[i] >> 32), submit->ids.at, count);
            count = 0;
        }
    }
    message->count = 0;
    return HVD_OK;
}

int submit_write_cached(struct submit_stage *submit, struct ready_list *ready_list,
                        struct wire_writer *writer, struct hvd_error *err)
{
    struct id_list *message = &submit->ids.message;
    struct wire_record record;
    size_t kept = 0;
    for (size_t i = 0; i < ready_list->count; i++) {
        struct ready_item item = ready_list->at[i];
        if (item.entry == NULL)
            continue;
        const struct eager_inputs *inputs = all_inputs(item.subtree_set, item.entry);
        if (inputs != NULL) {
            write_eager(&item, inputs, writer);
            continue;
        }
        if (!is_cached(item.subtree_set, item.entry) &&
            submit_describe(item.subtree_set, item.entry, &record)) {
            ready_list->at[kept++] = item;
            continue;
        }
        if (!negotiate_grow(&message->at, &message->capacity, message->count, sizeof(uint64_t)))
            return negotiate_no_memory(err);
        message->at[message->count++] = (uint64_t)item.subtree_set->set << 32 | item.entry->id;
        response_cache_mark_reported(&item.subtree_set->response_cache, item.entry);
    }
    ready_list->count = kept;
    return submit_write_ids(submit, WIRE_IDS, message, writer, err);
}

static void remove_from_list(struct ready_list *ready_list, const struct subtree_set *subtree_set)
{
    for (size_t i = 0; i < ready_list->count; i++) {
        if (ready_list->at[i].subtree_set == subtree_set)
            ready_list->at[i] = (struct ready_item){NULL, NULL};
    }
}

void submit_remove_set(struct submit_stage *submit, struct subtree_set *subtree_set)
{
    size_t kept = 0;
    remove_from_list(&submit->to_report, subtree_set);
    remove_from_list(&submit->to_decide, subtree_set);
    for (size_t i = 0; i < submit->retired_ids.count; i++) {
        if ((hvd_set)(submit->retired_ids.at[i] >> 32) != subtree_set->set)
            submit->retired_ids.at[kept++] = submit->retired_ids.at[i];
    }
    submit->retired_ids.count = kept;
    subtree_set_remove(&submit->sets, subtree_set);
}

void submit_fini(struct submit_stage *submit)
{
    subtree_sets_fini(&submit->sets);
    desc_release(submit->last);
    free(submit->to_report.at);
    free(submit->to_decide.at);
    free(submit->retired_ids.at);
    free(submit->ids.message.at);
    free(submit->ids.at);
}
