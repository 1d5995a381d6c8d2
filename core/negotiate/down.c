/* down.c: carries out decisions here, and forwards them to the children that they concern. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

/* ---- Decisions for this rank --------------------------------------------------------------------- */

/* The same if this rank is a member; [entry] may be NULL. */
static int push_for_member(struct down_stage *down, const struct subtree_set *subtree_set,
                           const struct cache_entry *entry, struct decision *decision, struct hvd_error *err)
{
    if ((subtree_set->member_parts >> SELF_BIT & 1) == 0)
        return HVD_OK;
    decision->user = entry != NULL ? entry->user : NULL;
    return delivery_push(down->delivery, decision, err);
}

/* ---- Carrying out records ------------------------------------------------------------------------ */

/* Find the set of a decision. Only the rank that decides for the set may have made it. */
static int set_of_decision(const struct down_stage *down, hvd_set set, bool own,
                           struct subtree_set **subtree_setp, struct hvd_error *err)
{
    *subtree_setp = subtree_set_find(&down->submit->sets, set);
    if (*subtree_setp == NULL || (*subtree_setp)->decides != own)
        return error_set(err, HVD_ERR_SYSTEM, "the parent decided for process set %d, which it does not",
                         set);
    return HVD_OK;
}

static int check_ready(const struct subtree_set *subtree_set, const struct cache_entry *entry,
                       struct hvd_error *err)
{
    if (subtree_set_covers(subtree_set, entry) &&
        (entry == NULL || entry->ready == 0 || entry->state == ENTRY_REPORTED))
        return HVD_OK;
    return error_set(err, HVD_ERR_SYSTEM, "the parent decided on \"%s\", which is not ready here",
                     entry != NULL ? entry->name : "an unknown operation");
}

static int apply_id(struct down_stage *down, struct subtree_set *subtree_set, uint32_t id,
                    const struct eager_inputs *inputs, struct hvd_error *err)
{
    struct cache_entry *entry = response_cache_by_id(&subtree_set->response_cache, id);
    if (entry == NULL || subtree_set->response_cache.slots[id].retiring)
        return error_set(err, HVD_ERR_SYSTEM, "the parent decided on id %u, which is not agreed", id);
    struct decision decision = {.kind = DECISION_RUN,
                                .desc = entry->agreed.desc,
                                .set = subtree_set->set,
                                .id = id,
                                .backend = entry->backend,
                                .nccl = entry->nccl,
                                .offsets = entry->agreed.offsets,
                                .inputs = *inputs};
    int rc = check_ready(subtree_set, entry, err);
    if (rc == HVD_OK)
        rc = push_for_member(down, subtree_set, entry, &decision, err);
    if (rc != HVD_OK)
        return rc;
    response_cache_touch(&subtree_set->response_cache, entry);
    entry->unequal += entry->agreed.offsets == 0;
    response_cache_reset_entry(&subtree_set->response_cache, entry);
    return HVD_OK;
}

static int apply_ids(struct down_stage *down, struct subtree_set *subtree_set,
                     const struct wire_record *record, struct hvd_error *err)
{
    static const struct eager_inputs none = {0};
    int rc = HVD_OK;
    for (uint32_t i = 0; i < record->id_span && rc == HVD_OK; i++) {
        if (wire_has_id(record, i))
            rc = apply_id(down, subtree_set, record->first_id + i, &none, err);
    }
    return rc;
}

static int apply_retire(struct down_stage *down, struct subtree_set *subtree_set,
                        const struct wire_record *record, struct hvd_error *err)
{
    for (uint32_t i = 0; i < record->id_span; i++) {
        if (!wire_has_id(record, i))
            continue;
        uint32_t id = record->first_id + i;
        if (response_cache_by_id(&subtree_set->response_cache, id) == NULL ||
            subtree_set->response_cache.slots[id].retiring)
            return error_set(err, HVD_ERR_SYSTEM, "the parent gives id %u away, which is not in use", id);
        response_cache_retire(&subtree_set->response_cache, id);
        int rc = submit_release_id(down->submit, subtree_set, id, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

/* All members have joined, and the join is over: the set continues. */
static int apply_joined(struct down_stage *down, struct subtree_set *subtree_set,
                        const struct wire_record *record, struct hvd_error *err)
{
    struct decision decision = {.kind = DECISION_RUN,
                                .desc = subtree_set->join,
                                .user = subtree_set->join_user,
                                .set = subtree_set->set,
                                .id = WIRE_NO_ID,
                                .backend = -1,
                                .rank = record->rank};
    if (subtree_set->joined != subtree_set->member_parts)
        return error_set(err, HVD_ERR_SYSTEM,
                         "the parent decided that all have joined process set %d, which is not so",
                         subtree_set->set);
    int rc = subtree_set->join != NULL ? delivery_push(down->delivery, &decision, err) : HVD_OK;
    if (subtree_set->stall_query != NULL && subtree_set->stall_query->desc == subtree_set->join)
        stall_query_end(subtree_set);
    desc_release(subtree_set->join);
    subtree_set->join = NULL;
    subtree_set->joined = 0;
    subtree_set->joined_reported = false;
    struct deferred *next = NULL;
    struct deferred *deferred = subtree_set->deferred;
    subtree_set->deferred = NULL;
    subtree_set->deferred_tail = &subtree_set->deferred;
    for (; deferred != NULL; deferred = next) {
        next = deferred->next;
        if (rc == HVD_OK)
            rc = submit_own(down->submit, &deferred->submission, err);
        desc_release(deferred->submission.desc);
        free(deferred);
    }
    return rc;
}

/* From now on the id stands for the description, and is enough to name it. */
static int adopt_id(struct subtree_set *subtree_set, struct cache_entry *entry,
                    const struct wire_record *record, struct hvd_error *err)
{
    struct response_cache *response_cache = &subtree_set->response_cache;
    const struct cache_slot *slot = response_cache_slot(response_cache, record->id);
    bool known = entry->id != WIRE_NO_ID;
    bool vacant = slot != NULL ? slot->entry == NULL : record->id == response_cache->slot_count;
    if (known ? record->id != entry->id || slot->retiring : !vacant)
        return error_set(err, HVD_ERR_SYSTEM, "the parent numbered \"%s\" %u, which is not its turn",
                         entry->name, record->id);
    if (!known && !response_cache_assign_id(response_cache, entry, record->id))
        return negotiate_no_memory(err);
    const struct desc *old = entry->agreed.desc;
    entry->agreed = record->proposal;
    desc_hold(entry->agreed.desc);
    desc_release(old);
    entry->backend = record->backend;
    entry->nccl = record->nccl;
    entry->declined = entry->offsets != entry->agreed.offsets ? entry->offsets : 0;
    entry->unequal = entry->agreed.offsets == 0 ? entry->unequal + 1 : 0;
    response_cache_touch(response_cache, entry);
    return HVD_OK;
}

static int apply_new(struct down_stage *down, struct subtree_set *subtree_set, struct cache_entry *entry,
                     const struct wire_record *record, struct hvd_error *err)
{
    struct decision decision = {.kind = DECISION_RUN,
                                .desc = record->proposal.desc,
                                .set = subtree_set->set,
                                .id = record->id,
                                .backend = record->backend,
                                .nccl = record->nccl,
                                .offsets = record->proposal.offsets};
    if (entry == NULL)
        entry = response_cache_find_or_add(&subtree_set->response_cache, desc_name(record->proposal.desc));
    if (entry == NULL)
        return negotiate_no_memory(err);
    int rc = push_for_member(down, subtree_set, entry, &decision, err);
    if (rc == HVD_OK && record->id != WIRE_NO_ID)
        rc = adopt_id(subtree_set, entry, record, err);
    response_cache_reset_entry(&subtree_set->response_cache, entry);
    return rc;
}

/* A rank that has joined did not submit an operation that needs it. */
static int apply_absent(struct down_stage *down, struct subtree_set *subtree_set, struct cache_entry *entry,
                        const struct wire_record *record, struct hvd_error *err)
{
    struct decision decision = {.kind = DECISION_JOINED,
                                .desc = record->proposal.desc,
                                .set = subtree_set->set,
                                .id = WIRE_NO_ID,
                                .backend = -1,
                                .rank = record->absent};
    int rc = push_for_member(down, subtree_set, entry, &decision, err);
    if (entry != NULL)
        response_cache_reset_entry(&subtree_set->response_cache, entry);
    return rc;
}

static int apply_mismatch(struct down_stage *down, struct subtree_set *subtree_set, struct cache_entry *entry,
                          const struct wire_record *record, struct hvd_error *err)
{
    /* lower rank first, as a user expects */
    bool swap = record->other.rank < record->proposal.rank;
    const struct wire_proposal *proposal = swap ? &record->other : &record->proposal;
    const struct wire_proposal *other = swap ? &record->proposal : &record->other;
    struct decision decision = {.kind = DECISION_MISMATCH,
                                .desc = proposal->desc,
                                .set = subtree_set->set,
                                .id = WIRE_NO_ID,
                                .backend = -1,
                                .rank = proposal->rank,
                                .backends = proposal->backends,
                                .other = other->desc,
                                .other_rank = other->rank,
                                .other_backends = other->backends};
    int rc = push_for_member(down, subtree_set, entry, &decision, err);
    if (entry != NULL)
        response_cache_reset_entry(&subtree_set->response_cache, entry);
    return rc;
}

/* Keep the new set [set] of [set_size] ranks if it has members in this subtree, which member_counts says. */
static int make_subtree_set(struct down_stage *down, const struct member_counts *member_counts, hvd_set set,
                            int set_size, struct hvd_error *err)
{
    uint64_t member_parts = 0;
    int total = 0;
    bool below = false; /* one child's subtree has all members, so that child decides */
    for (int bit = 0; bit <= down->submit->params->child_count; bit++) {
        if (member_counts->counts[bit] > 0)
            member_parts |= UINT64_C(1) << bit;
        total += member_counts->counts[bit];
        below = below || (bit != SELF_BIT && member_counts->counts[bit] == set_size);
    }
    if (total > set_size || (down->submit->params->root && total != set_size))
        return error_set(err, HVD_ERR_SYSTEM,
                         "process set %d is to have %d ranks, but %d said that they are in", set, set_size,
                         total);
    if (total == 0 || below)
        return HVD_OK;
    return subtree_set_add(&down->submit->sets, set, member_parts, total == set_size, err);
}

/* The counts of [entry], which is NULL where no rank below asked for the set. NULL where some had to. */
static const struct member_counts *counts_of(const struct cache_entry *entry, const struct desc *desc)
{
    static const struct member_counts nobody;
    if (entry == NULL)
        return desc->by_members ? &nobody : NULL;
    return entry->member_counts;
}

static int apply_set_add(struct down_stage *down, struct subtree_set *subtree_set, struct cache_entry *entry,
                         const struct wire_record *record, struct hvd_error *err)
{
    struct decision decision = {.kind = DECISION_SET_ADDED,
                                .desc = record->proposal.desc,
                                .set = (hvd_set)record->id,
                                .id = WIRE_NO_ID,
                                .backend = -1,
                                .backends = record->proposal.backends};
    const struct member_counts *member_counts = counts_of(entry, decision.desc);
    if (member_counts == NULL || down->submit->sets.last_set == INT32_MAX ||
        record->id != (uint32_t)down->submit->sets.last_set + 1)
        return error_set(err, HVD_ERR_SYSTEM, "the parent made process set %u, which is not its turn",
                         record->id);
    down->submit->sets.last_set++;
    int rc =
        make_subtree_set(down, member_counts, decision.set, (int)decision.desc->tensors[0].shape[0], err);
    if (rc == HVD_OK)
        rc = push_for_member(down, subtree_set, entry, &decision, err);
    if (entry != NULL)
        response_cache_reset_entry(&subtree_set->response_cache, entry);
    return rc;
}

static int apply_set_remove(struct down_stage *down, struct subtree_set *subtree_set,
                            struct cache_entry *entry, const struct wire_record *record,
                            struct hvd_error *err)
{
    struct decision decision = {
        .kind = DECISION_SET_REMOVED, .set = record->proposal.desc->root, .id = WIRE_NO_ID, .backend = -1};
    if (entry == NULL || decision.set > down->submit->sets.last_set)
        return error_set(err, HVD_ERR_SYSTEM, "the parent removed process set %d, which was never made",
                         decision.set);
    int rc = push_for_member(down, subtree_set, entry, &decision, err);
    response_cache_reset_entry(&subtree_set->response_cache, entry);
    struct subtree_set *removed = subtree_set_find(&down->submit->sets, decision.set);
    if (removed != NULL)
        submit_remove_set(down->submit, removed);
    return rc;
}

static int apply_proposal(struct down_stage *down, struct subtree_set *subtree_set,
                          const struct wire_record *record, struct hvd_error *err)
{
    struct cache_entry *entry =
        response_cache_find(&subtree_set->response_cache, desc_name(record->proposal.desc));
    bool asked_by_nobody = entry == NULL && record->proposal.desc->by_members;
    int rc = asked_by_nobody ? HVD_OK : check_ready(subtree_set, entry, err);
    if (rc != HVD_OK)
        return rc;
    if (record->type == WIRE_MISMATCH)
        return apply_mismatch(down, subtree_set, entry, record, err);
    if (record->absent >= 0)
        return apply_absent(down, subtree_set, entry, record, err);
    if (record->proposal.desc->kind == DESC_SET_ADD)
        return apply_set_add(down, subtree_set, entry, record, err);
    if (record->proposal.desc->kind == DESC_SET_REMOVE)
        return apply_set_remove(down, subtree_set, entry, record, err);
    return apply_new(down, subtree_set, entry, record, err);
}

static int apply_leaving(struct down_stage *down, int rank, struct hvd_error *err)
{
    struct decision decision = {.kind = DECISION_LEAVING, .rank = rank, .id = WIRE_NO_ID, .backend = -1};
    down->submit->leaving_rank = rank;
    down->submit->leaving_reported = true;
    down->submit->leaving_decided = true;
    return delivery_push(down->delivery, &decision, err);
}

static int apply_tune(struct down_stage *down, const struct tuned_settings *settings, struct hvd_error *err)
{
    struct decision decision = {
        .kind = DECISION_TUNED, .settings = *settings, .id = WIRE_NO_ID, .backend = -1};
    return delivery_push(down->delivery, &decision, err);
}

/* ---- One record -------------------------------------------------------------------------------- */

/* Who made a record, and its bytes. */
struct record_origin {
    enum down_source source;
    const unsigned char *bytes;
    size_t length;
};

/* Forward a record to the children whose parts are in [member_parts]. */
static void forward_record(struct down_stage *down, uint64_t member_parts,
                           const struct record_origin *record_origin)
{
    if (record_origin->source != DOWN_OWN_FORWARDED)
        delivery_forward(down->delivery, member_parts, record_origin->bytes, record_origin->length);
}

static int apply_record(struct down_stage *down, const struct wire_record *record,
                        const struct record_origin *record_origin, struct hvd_error *err)
{
    struct subtree_set *subtree_set = NULL;
    if (record->type == WIRE_UNIT) {
        if (record_origin->source != DOWN_OWN_FORWARDED)
            delivery_forward_end(down->delivery, record_origin->bytes, record_origin->length);
        delivery_end_unit(down->delivery);
        down->in_unit = false;
        return HVD_OK;
    }
    if (record->type == WIRE_STALL_PONG)
        return HVD_OK; /* negotiate_from_parent has noted that the parent was heard */
    if (record->type == WIRE_STALL_QUERY)
        return stall_handle_query(down->stall, record, err);
    down->in_unit = true;
    if (record->type == WIRE_LEAVING) {
        forward_record(down, ~UINT64_C(0), record_origin);
        return apply_leaving(down, record->rank, err);
    }
    if (record->type == WIRE_TUNE) {
        forward_record(down, ~UINT64_C(0), record_origin);
        return apply_tune(down, &record->settings, err);
    }
    hvd_set set = record->proposal.desc != NULL ? record->proposal.desc->set : record->set;
    int rc = set_of_decision(down, set, record_origin->source != DOWN_FROM_PARENT, &subtree_set, err);
    if (rc != HVD_OK)
        return rc;
    forward_record(down, subtree_set->member_parts, record_origin);
    switch (record->type) {
    case WIRE_IDS:
        return apply_ids(down, subtree_set, record, err);
    case WIRE_EAGER:
        return apply_id(down, subtree_set, record->id, &record->inputs, err);
    case WIRE_RETIRE:
        return apply_retire(down, subtree_set, record, err);
    case WIRE_JOINED:
        return apply_joined(down, subtree_set, record, err);
    case WIRE_NEW:
    case WIRE_MISMATCH:
        return apply_proposal(down, subtree_set, record, err);
    default:
        break;
    }
    return error_set(err, HVD_ERR_SYSTEM, "the parent sends a record of type %d, which only children do",
                     (int)record->type);
}

/* Forward a record to the children, without carrying it out here yet. */
static int forward_only(struct down_stage *down, const struct wire_record *record,
                        const struct record_origin *record_origin, struct hvd_error *err)
{
    (void)err;
    if (record->type == WIRE_UNIT)
        delivery_forward_end(down->delivery, record_origin->bytes, record_origin->length);
    else
        delivery_forward(down->delivery, subtree_set_find(&down->submit->sets, record->set)->member_parts,
                         record_origin->bytes, record_origin->length);
    return HVD_OK;
}

typedef int record_handler(struct down_stage *down, const struct wire_record *record,
                           const struct record_origin *record_origin, struct hvd_error *err);

static int for_each_record(struct down_stage *down, const void *bytes, size_t length, enum down_source source,
                           record_handler *handler, struct hvd_error *err)
{
    struct wire_reader reader = {{bytes, length, false}, down->submit->params->size};
    struct wire_record record;
    const unsigned char *begin = reader.decoder.at;
    int rc = wire_get(&reader, &record, err);
    while (rc == HVD_OK) {
        struct record_origin record_origin = {source, begin, (size_t)(reader.decoder.at - begin)};
        rc = handler(down, &record, &record_origin, err);
        wire_clear(&record);
        begin = reader.decoder.at;
        if (rc == HVD_OK)
            rc = wire_get(&reader, &record, err);
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

int down_apply(struct down_stage *down, const void *bytes, size_t length, enum down_source source,
               struct hvd_error *err)
{
    return for_each_record(down, bytes, length, source, apply_record, err);
}

int down_forward(struct down_stage *down, struct hvd_error *err)
{
    int rc = for_each_record(down, down->issue.bytes, down->issue.length, DOWN_OWN, forward_only, err);
    down->apply_pending = rc == HVD_OK;
    return rc;
}

int down_apply_pending(struct down_stage *down, struct hvd_error *err)
{
    if (!down->apply_pending)
        return HVD_OK;
    down->apply_pending = false;
    return down_apply(down, down->issue.bytes, down->issue.length, DOWN_OWN_FORWARDED, err);
}

int down_receive(struct down_stage *down, const void *bytes, size_t length, struct hvd_error *err)
{
    int rc = down_apply(down, bytes, length, DOWN_FROM_PARENT, err);
    if (rc == HVD_OK && down->in_unit)
        rc = error_set(err, HVD_ERR_SYSTEM, "a message of the parent ends within a unit of decisions");
    return rc;
}
