/* up.c: receives the messages of the children and writes the message for the parent. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

/* ---- Children ------------------------------------------------------------------------------- */

/* Find the set of a child's record. *subtree_setp is NULL if the set was removed and the child did not
 * know yet. */
static int set_of_child(const struct up_stage *up, int child, hvd_set set, struct subtree_set **subtree_setp,
                        struct hvd_error *err)
{
    *subtree_setp = subtree_set_find(&up->submit->sets, set);
    if (*subtree_setp == NULL && set <= up->submit->sets.last_set)
        return HVD_OK;
    if (*subtree_setp == NULL || ((*subtree_setp)->member_parts >> (child + 1) & 1) == 0)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d speaks of process set %d, which it is not in",
                         up->submit->params->child_ranks[child], set);
    return HVD_OK;
}

static int receive_id(struct up_stage *up, struct subtree_set *subtree_set, int child, uint32_t id,
                      struct cache_entry **entryp, struct hvd_error *err)
{
    struct wire_proposal proposal = {.rank = up->submit->params->child_ranks[child]};
    *entryp = response_cache_by_id(&subtree_set->response_cache, id);
    if (*entryp == NULL)
        return error_set(err, HVD_ERR_SYSTEM, "operation id %u was never agreed", id);
    return submit_mark_ready(up->submit, subtree_set, *entryp, child + 1, &proposal, err);
}

static int receive_ids(struct up_stage *up, struct subtree_set *subtree_set, int child,
                       const struct wire_record *record, struct hvd_error *err)
{
    struct cache_entry *entry = NULL;
    int rc = HVD_OK;
    for (uint32_t i = 0; i < record->id_span && rc == HVD_OK; i++) {
        if (wire_has_id(record, i))
            rc = receive_id(up, subtree_set, child, record->first_id + i, &entry, err);
    }
    return rc;
}

static int receive_eager(struct up_stage *up, struct subtree_set *subtree_set, int child,
                         const struct wire_record *record, struct hvd_error *err)
{
    struct cache_entry *entry = NULL;
    int rc = receive_id(up, subtree_set, child, record->id, &entry, err);
    return rc == HVD_OK ? eager_add(&entry->eager, child + 1, &record->inputs, err) : rc;
}

static int receive_retired(struct up_stage *up, struct subtree_set *subtree_set, int child,
                           const struct wire_record *record, struct hvd_error *err)
{
    for (uint32_t i = 0; i < record->id_span; i++) {
        if (!wire_has_id(record, i))
            continue;
        uint32_t id = record->first_id + i;
        struct cache_slot *slot = response_cache_slot(&subtree_set->response_cache, id);
        if (slot == NULL || !slot->retiring || (slot->acknowledged >> (child + 1) & 1) != 0)
            return error_set(err, HVD_ERR_SYSTEM, "operation id %u is not to be given up by rank %d", id,
                             up->submit->params->child_ranks[child]);
        slot->acknowledged |= UINT64_C(1) << (child + 1);
        int rc = submit_release_id(up->submit, subtree_set, id, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

static int receive_joined(struct up_stage *up, struct subtree_set *subtree_set, int child,
                          const struct wire_record *record, struct hvd_error *err)
{
    struct joined_part part = {record->rank, record->backends};
    if ((subtree_set->joined >> (child + 1) & 1) != 0)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d says twice that it has joined process set %d",
                         record->rank, subtree_set->set);
    return submit_mark_joined(up->submit, subtree_set, child + 1, &part, err);
}

static int receive_proposal(struct up_stage *up, struct subtree_set *subtree_set, int child,
                            const struct wire_record *record, struct hvd_error *err)
{
    struct cache_entry *entry =
        response_cache_find_or_add(&subtree_set->response_cache, desc_name(record->proposal.desc));
    if (entry == NULL)
        return negotiate_no_memory(err);
    int rc = HVD_OK;
    if (record->proposal.desc->kind == DESC_SET_ADD && record->type == WIRE_NEW)
        rc = submit_set_member_count(entry, child + 1, record->members, err);
    if (rc == HVD_OK)
        rc = submit_mark_ready(up->submit, subtree_set, entry, child + 1, &record->proposal, err);
    if (rc != HVD_OK) {
        response_cache_drop_unused(&subtree_set->response_cache, entry);
        return rc;
    }
    if (entry->absent < 0 && record->type == WIRE_NEW)
        entry->absent = record->absent;
    if (record->type == WIRE_MISMATCH && !entry->mismatch) {
        /* this rank agrees with one of the two, so the child's two descriptions are the mismatch here too */
        entry->mismatch = true;
        submit_set_proposal(&entry->other, &record->other);
    }
    return HVD_OK;
}

static int receive_record(struct up_stage *up, int child, const struct wire_record *record,
                          struct hvd_error *err)
{
    struct subtree_set *subtree_set = NULL;
    hvd_set set = record->proposal.desc != NULL ? record->proposal.desc->set : record->set;
    if (record->type == WIRE_LEAVING) {
        if (up->submit->leaving_rank < 0)
            up->submit->leaving_rank = record->rank;
        return HVD_OK;
    }
    if (record->type == WIRE_STALL_PING) {
        struct wire_record pong = {.type = WIRE_STALL_PONG};
        wire_put(delivery_writer(up->stall->delivery, child), &pong);
        return HVD_OK;
    }
    int rc = set_of_child(up, child, set, &subtree_set, err);
    if (rc != HVD_OK || subtree_set == NULL)
        return rc;
    switch (record->type) {
    case WIRE_IDS:
        return receive_ids(up, subtree_set, child, record, err);
    case WIRE_EAGER:
        return receive_eager(up, subtree_set, child, record, err);
    case WIRE_RETIRE:
        return receive_retired(up, subtree_set, child, record, err);
    case WIRE_NEW:
    case WIRE_MISMATCH:
        return receive_proposal(up, subtree_set, child, record, err);
    case WIRE_JOINED:
        return receive_joined(up, subtree_set, child, record, err);
    case WIRE_STALL_NOTICE:
        return stall_handle_notice(up->stall, subtree_set, record, err);
    case WIRE_STALL_REPLY:
        return stall_handle_reply(up->stall, subtree_set, child, record, err);
    case WIRE_LEAVING:
    case WIRE_UNIT:
    case WIRE_STALL_QUERY:
    case WIRE_TUNE:
    case WIRE_STALL_PING:
    case WIRE_STALL_PONG:
        break;
    }
    return error_set(err, HVD_ERR_SYSTEM, "rank %d sends a record of type %d, which only parents do",
                     up->submit->params->child_ranks[child], (int)record->type);
}

int up_receive(struct up_stage *up, int child, const void *bytes, size_t length, struct hvd_error *err)
{
    struct wire_reader reader = {{bytes, length, false}, up->submit->params->size};
    struct wire_record record;
    int rc = wire_get(&reader, &record, err);
    while (rc == HVD_OK) {
        rc = receive_record(up, child, &record, err);
        wire_clear(&record);
        if (rc == HVD_OK)
            rc = wire_get(&reader, &record, err);
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* ---- The parent --------------------------------------------------------------------------------- */

static void report_joins(struct up_stage *up)
{
    for (size_t i = 0; i < up->submit->sets.count; i++) {
        struct subtree_set *subtree_set = up->submit->sets.at[i];
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
        wire_put(&up->message, &record);
        subtree_set->joined_reported = true;
    }
    up->submit->join_to_report = false;
}

static int write_message(struct up_stage *up, struct hvd_error *err)
{
    struct ready_list *to_report = &up->submit->to_report;
    struct wire_record record;
    bool leaving_is_new = up->submit->leaving_rank >= 0 && !up->submit->leaving_reported;
    wire_reset(&up->message);
    if (to_report->count == 0 && !up->submit->join_to_report && !leaving_is_new &&
        up->stall->notes.length == 0)
        return HVD_OK; /* acknowledgements of retired ids can wait for the next message */
    wire_put_bytes(&up->message, up->stall->notes.bytes, up->stall->notes.length);
    up->message.failed = up->message.failed || up->stall->notes.failed;
    wire_reset(&up->stall->notes);
    int rc = submit_write_ids(up->submit, WIRE_RETIRE, &up->submit->retired_ids, &up->message, err);
    if (rc == HVD_OK)
        rc = submit_write_cached(up->submit, to_report, &up->message, err);
    if (rc != HVD_OK)
        return rc;
    for (size_t i = 0; i < to_report->count; i++) {
        submit_describe(to_report->at[i].subtree_set, to_report->at[i].entry, &record);
        response_cache_mark_reported(&to_report->at[i].subtree_set->response_cache, to_report->at[i].entry);
        wire_put(&up->message, &record);
    }
    to_report->count = 0;
    if (up->submit->join_to_report)
        report_joins(up);
    if (leaving_is_new) {
        record = (struct wire_record){.type = WIRE_LEAVING, .rank = up->submit->leaving_rank};
        wire_put(&up->message, &record);
        up->submit->leaving_reported = true;
    }
    return up->message.failed ? negotiate_no_memory(err) : HVD_OK;
}

int up_write_message(struct up_stage *up, const void **bytesp, size_t *lengthp, struct hvd_error *err)
{
    int rc = write_message(up, err);
    if (rc == HVD_OK && up->message.length > 0) {
        *bytesp = up->message.bytes;
        *lengthp = up->message.length;
    }
    return rc;
}
