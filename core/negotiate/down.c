/* down.c: what was decided: done here, and forwarded to the children it is for. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

/* ---- For this rank -------------------------------------------------------------------------- */

int down_push(struct negotiate *negotiate, const struct decision *decision, struct hvd_error *err)
{
    if (negotiate->decision_at == negotiate->decision_count)
        negotiate->decision_at = negotiate->decision_count = 0;
    if (!negotiate_grow(&negotiate->decisions, &negotiate->decision_capacity, negotiate->decision_count,
                        sizeof(*decision)))
        return negotiate_no_memory(err);
    struct stall *stall = decision->stall != NULL ? malloc(sizeof(*stall)) : NULL;
    if (decision->stall != NULL && stall == NULL)
        return negotiate_no_memory(err);
    if (stall != NULL)
        *stall = *decision->stall;
    if (decision->desc != NULL)
        desc_hold(decision->desc);
    if (decision->other != NULL)
        desc_hold(decision->other);
    negotiate->decisions[negotiate->decision_count] = *decision;
    negotiate->decisions[negotiate->decision_count++].stall = stall;
    negotiate->unit_decided = true;
    return HVD_OK;
}

/* The same where this rank is a member; [entry] may be NULL. */
static int push_for_member(struct negotiate *negotiate, const struct crew *crew, const struct entry *entry,
                           struct decision *decision, struct hvd_error *err)
{
    if ((crew->full >> SELF & 1) == 0)
        return HVD_OK;
    decision->user = entry != NULL ? entry->user : NULL;
    return down_push(negotiate, decision, err);
}

/* ---- Doing what a record says ----------------------------------------------------------------- */

/* The set that a decision is about, which only who decides for it may have made. */
static int crew_of_decision(const struct negotiate *negotiate, hvd_set set, bool own, struct crew **crewp,
                            struct hvd_error *err)
{
    *crewp = crew_find(negotiate, set);
    if (*crewp == NULL || (*crewp)->decides != own)
        return error_set(err, HVD_ERR_SYSTEM, "the parent decided for process set %d, which it does not",
                         set);
    return HVD_OK;
}

static int expect_agreed(const struct crew *crew, const struct entry *entry, struct hvd_error *err)
{
    if (crew_covers(crew, entry) && (entry == NULL || entry->ready == 0 || entry->phase == ENTRY_SAID))
        return HVD_OK;
    return error_set(err, HVD_ERR_SYSTEM, "the parent decided on \"%s\", which is not ready here",
                     entry != NULL ? entry->name : "an unknown operation");
}

static int run_ids(struct negotiate *negotiate, struct crew *crew, const struct wire_record *record,
                   struct hvd_error *err)
{
    for (uint32_t i = 0; i < record->id_span; i++) {
        if (!wire_has_id(record, i))
            continue;
        uint32_t number = record->first_id + i;
        struct entry *entry = ledger_numbered(&crew->ledger, number);
        if (entry == NULL || crew->ledger.slots[number].retiring)
            return error_set(err, HVD_ERR_SYSTEM, "the parent decided on number %u, which is not agreed",
                             number);
        struct decision decision = {.kind = DECISION_RUN,
                                    .desc = entry->agreed.desc,
                                    .set = crew->set,
                                    .number = number,
                                    .plane = entry->plane};
        int rc = expect_agreed(crew, entry, err);
        if (rc == HVD_OK)
            rc = push_for_member(negotiate, crew, entry, &decision, err);
        if (rc != HVD_OK)
            return rc;
        ledger_touch(&crew->ledger, entry);
        ledger_reset(&crew->ledger, entry);
    }
    return HVD_OK;
}

static int retire_ids(struct negotiate *negotiate, struct crew *crew, const struct wire_record *record,
                      struct hvd_error *err)
{
    for (uint32_t i = 0; i < record->id_span; i++) {
        if (!wire_has_id(record, i))
            continue;
        uint32_t number = record->first_id + i;
        if (ledger_numbered(&crew->ledger, number) == NULL || crew->ledger.slots[number].retiring)
            return error_set(err, HVD_ERR_SYSTEM, "the parent gives number %u away, which is not in use",
                             number);
        ledger_retire(&crew->ledger, number);
        int rc = up_retired(negotiate, crew, number, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

/* All have joined, and that is over: the set goes on. */
static int end_join(struct negotiate *negotiate, struct crew *crew, const struct wire_record *record,
                    struct hvd_error *err)
{
    struct decision decision = {.kind = DECISION_RUN,
                                .desc = crew->join,
                                .user = crew->join_user,
                                .set = crew->set,
                                .number = WIRE_NO_ID,
                                .plane = -1,
                                .rank = record->rank};
    if (crew->joined != crew->full)
        return error_set(err, HVD_ERR_SYSTEM,
                         "the parent decided that all have joined process set %d, which is not so",
                         crew->set);
    int rc = crew->join != NULL ? down_push(negotiate, &decision, err) : HVD_OK;
    desc_release(crew->join);
    crew->join = NULL;
    crew->joined = 0;
    crew->joined_said = false;
    struct later *next = NULL;
    struct later *later = crew->later;
    crew->later = NULL;
    crew->later_tail = &crew->later;
    for (; later != NULL; later = next) {
        next = later->next;
        if (rc == HVD_OK)
            rc = up_submit(negotiate, &later->submission, err);
        desc_release(later->submission.desc);
        free(later);
    }
    return rc;
}

/* A description becomes what its number stands for: from now on the number is enough. */
static int adopt_number(struct crew *crew, struct entry *entry, const struct wire_record *record,
                        struct hvd_error *err)
{
    struct ledger *ledger = &crew->ledger;
    bool known = entry->number != WIRE_NO_ID;
    bool next = record->id == ledger->slot_count;
    bool vacant = record->id < ledger->slot_count && ledger->slots[record->id].entry == NULL;
    if (known ? record->id != entry->number || ledger->slots[record->id].retiring : !next && !vacant)
        return error_set(err, HVD_ERR_SYSTEM, "the parent numbered \"%s\" %u, which is not its turn",
                         entry->name, record->id);
    if (!known && !ledger_number(ledger, entry, record->id))
        return negotiate_no_memory(err);
    const struct desc *old = entry->agreed.desc;
    entry->agreed = record->offer;
    desc_hold(entry->agreed.desc);
    desc_release(old);
    entry->plane = record->plane;
    ledger_touch(ledger, entry);
    return HVD_OK;
}

static int run_new(struct negotiate *negotiate, struct crew *crew, struct entry *entry,
                   const struct wire_record *record, struct hvd_error *err)
{
    struct decision decision = {.kind = DECISION_RUN,
                                .desc = record->offer.desc,
                                .set = crew->set,
                                .number = record->id,
                                .plane = record->plane};
    if (entry == NULL)
        entry = ledger_get(&crew->ledger, desc_name(record->offer.desc));
    if (entry == NULL)
        return negotiate_no_memory(err);
    int rc = push_for_member(negotiate, crew, entry, &decision, err);
    if (rc == HVD_OK && record->id != WIRE_NO_ID)
        rc = adopt_number(crew, entry, record, err);
    ledger_reset(&crew->ledger, entry);
    return rc;
}

/* Some rank that the operation needs has joined. */
static int run_absent(struct negotiate *negotiate, struct crew *crew, struct entry *entry,
                      const struct wire_record *record, struct hvd_error *err)
{
    struct decision decision = {.kind = DECISION_JOINED,
                                .desc = record->offer.desc,
                                .set = crew->set,
                                .number = WIRE_NO_ID,
                                .plane = -1,
                                .rank = record->absent};
    int rc = push_for_member(negotiate, crew, entry, &decision, err);
    if (entry != NULL)
        ledger_reset(&crew->ledger, entry);
    return rc;
}

static int run_mismatch(struct negotiate *negotiate, struct crew *crew, struct entry *entry,
                        const struct wire_record *record, struct hvd_error *err)
{
    /* lower rank first, as a reader expects */
    bool swap = record->other.rank < record->offer.rank;
    const struct wire_offer *offer = swap ? &record->other : &record->offer;
    const struct wire_offer *other = swap ? &record->offer : &record->other;
    struct decision decision = {.kind = DECISION_MISMATCH,
                                .desc = offer->desc,
                                .set = crew->set,
                                .number = WIRE_NO_ID,
                                .plane = -1,
                                .rank = offer->rank,
                                .planes = offer->planes,
                                .other = other->desc,
                                .other_rank = other->rank,
                                .other_planes = other->planes};
    int rc = push_for_member(negotiate, crew, entry, &decision, err);
    if (entry != NULL)
        ledger_reset(&crew->ledger, entry);
    return rc;
}

/* Find out from the census who has members below, and keep what that takes. */
static int make_crew(struct negotiate *negotiate, const struct census *census, hvd_set set,
                     struct hvd_error *err)
{
    uint64_t full = 0;
    int total = 0;
    bool below = false; /* one child has them all, and decides */
    for (int bit = 0; bit <= negotiate->place.child_count; bit++) {
        if (census->counts[bit] > 0)
            full |= UINT64_C(1) << bit;
        total += census->counts[bit];
        below = below || (bit != SELF && census->counts[bit] == census->set_size);
    }
    if (total > census->set_size || (negotiate->place.root && total != census->set_size))
        return error_set(err, HVD_ERR_SYSTEM,
                         "process set %d is to have %d ranks, but %d said that they are in", set,
                         census->set_size, total);
    if (total == 0 || below)
        return HVD_OK;
    return crew_add(negotiate, set, full, total == census->set_size, err);
}

static int run_set_add(struct negotiate *negotiate, struct crew *crew, struct entry *entry,
                       const struct wire_record *record, struct hvd_error *err)
{
    struct decision decision = {.kind = DECISION_SET_ADDED,
                                .desc = record->offer.desc,
                                .set = (hvd_set)record->id,
                                .number = WIRE_NO_ID,
                                .plane = -1,
                                .planes = record->offer.planes};
    if (entry == NULL || entry->census == NULL || negotiate->last_set == INT32_MAX ||
        record->id != (uint32_t)negotiate->last_set + 1)
        return error_set(err, HVD_ERR_SYSTEM, "the parent made process set %u, which is not its turn",
                         record->id);
    negotiate->last_set++;
    int rc = make_crew(negotiate, entry->census, negotiate->last_set, err);
    if (rc == HVD_OK)
        rc = push_for_member(negotiate, crew, entry, &decision, err);
    ledger_reset(&crew->ledger, entry);
    return rc;
}

static int run_set_remove(struct negotiate *negotiate, struct crew *crew, struct entry *entry,
                          const struct wire_record *record, struct hvd_error *err)
{
    struct decision decision = {
        .kind = DECISION_SET_REMOVED, .set = record->offer.desc->root, .number = WIRE_NO_ID, .plane = -1};
    if (entry == NULL || decision.set > negotiate->last_set)
        return error_set(err, HVD_ERR_SYSTEM, "the parent removed process set %d, which was never made",
                         decision.set);
    int rc = push_for_member(negotiate, crew, entry, &decision, err);
    ledger_reset(&crew->ledger, entry);
    struct crew *removed = crew_find(negotiate, decision.set);
    if (removed != NULL)
        crew_remove(negotiate, removed);
    return rc;
}

static int run_offer(struct negotiate *negotiate, struct crew *crew, const struct wire_record *record,
                     struct hvd_error *err)
{
    struct entry *entry = ledger_find(&crew->ledger, desc_name(record->offer.desc));
    int rc = expect_agreed(crew, entry, err);
    if (rc != HVD_OK)
        return rc;
    if (record->type == WIRE_MISMATCH)
        return run_mismatch(negotiate, crew, entry, record, err);
    if (record->absent >= 0)
        return run_absent(negotiate, crew, entry, record, err);
    if (record->offer.desc->kind == DESC_SET_ADD)
        return run_set_add(negotiate, crew, entry, record, err);
    if (record->offer.desc->kind == DESC_SET_REMOVE)
        return run_set_remove(negotiate, crew, entry, record, err);
    return run_new(negotiate, crew, entry, record, err);
}

static int run_leaving(struct negotiate *negotiate, int rank, struct hvd_error *err)
{
    struct decision decision = {.kind = DECISION_LEAVING, .rank = rank, .number = WIRE_NO_ID, .plane = -1};
    negotiate->leaving_rank = rank;
    negotiate->leaving_said = true;
    negotiate->leaving_decided = true;
    return down_push(negotiate, &decision, err);
}

static int run_tune(struct negotiate *negotiate, const struct tune_settings *settings, struct hvd_error *err)
{
    struct decision decision = {
        .kind = DECISION_TUNED, .settings = *settings, .number = WIRE_NO_ID, .plane = -1};
    return down_push(negotiate, &decision, err);
}

/* ---- Forwarding ------------------------------------------------------------------------------- */

struct wire_writer *down_writer(struct negotiate *negotiate, int child)
{
    struct outbox *outbox = &negotiate->outboxes[child];
    if (outbox->taken)
        wire_reset(&outbox->writer);
    outbox->taken = false;
    return &outbox->writer;
}

static void forward(struct negotiate *negotiate, uint64_t full, const unsigned char *bytes, size_t length)
{
    for (int child = 0; child < negotiate->place.child_count; child++) {
        if ((full >> (child + 1) & 1) == 0)
            continue;
        wire_put_bytes(down_writer(negotiate, child), bytes, length);
        negotiate->outboxes[child].in_unit = true;
    }
}

/* The end of a unit is for those who had something of it. */
static void forward_end(struct negotiate *negotiate, const unsigned char *bytes, size_t length)
{
    for (int child = 0; child < negotiate->place.child_count; child++) {
        if (negotiate->outboxes[child].in_unit)
            wire_put_bytes(down_writer(negotiate, child), bytes, length);
        negotiate->outboxes[child].in_unit = false;
    }
}

static void end_unit(struct negotiate *negotiate)
{
    if (negotiate->unit_decided)
        negotiate->decisions[negotiate->decision_count - 1].last = true;
    negotiate->unit_decided = false;
    negotiate->in_unit = false;
}

/* Where a record is from: of whom, and in which bytes. */
struct origin {
    enum down_source source;
    const unsigned char *bytes;
    size_t length;
};

/* To those below who have one of the parts in [full]. */
static void forward_record(struct negotiate *negotiate, uint64_t full, const struct origin *origin)
{
    if (origin->source != DOWN_OWN_TOLD)
        forward(negotiate, full, origin->bytes, origin->length);
}

static int take_record(struct negotiate *negotiate, const struct wire_record *record,
                       const struct origin *origin, struct hvd_error *err)
{
    struct crew *crew = NULL;
    if (record->type == WIRE_UNIT) {
        if (origin->source != DOWN_OWN_TOLD)
            forward_end(negotiate, origin->bytes, origin->length);
        end_unit(negotiate);
        return HVD_OK;
    }
    if (record->type == WIRE_ASK)
        return stall_take_ask(negotiate, record, err);
    negotiate->in_unit = true;
    if (record->type == WIRE_LEAVING) {
        forward_record(negotiate, ~UINT64_C(0), origin);
        return run_leaving(negotiate, record->rank, err);
    }
    if (record->type == WIRE_TUNE) {
        forward_record(negotiate, ~UINT64_C(0), origin);
        return run_tune(negotiate, &record->settings, err);
    }
    hvd_set set = record->offer.desc != NULL ? record->offer.desc->set : record->set;
    int rc = crew_of_decision(negotiate, set, origin->source != DOWN_OF_PARENT, &crew, err);
    if (rc != HVD_OK)
        return rc;
    forward_record(negotiate, crew->full, origin);
    switch (record->type) {
    case WIRE_IDS:
        return run_ids(negotiate, crew, record, err);
    case WIRE_RETIRE:
        return retire_ids(negotiate, crew, record, err);
    case WIRE_JOINED:
        return end_join(negotiate, crew, record, err);
    case WIRE_NEW:
    case WIRE_MISMATCH:
        return run_offer(negotiate, crew, record, err);
    default:
        break;
    }
    return error_set(err, HVD_ERR_SYSTEM, "the parent sends a record of type %d, which only children do",
                     (int)record->type);
}

/* What the children are told before this rank does the same. */
static int tell_record(struct negotiate *negotiate, const struct wire_record *record,
                       const struct origin *origin, struct hvd_error *err)
{
    (void)err;
    if (record->type == WIRE_UNIT)
        forward_end(negotiate, origin->bytes, origin->length);
    else
        forward(negotiate, crew_find(negotiate, record->set)->full, origin->bytes, origin->length);
    return HVD_OK;
}

typedef int record_visit(struct negotiate *negotiate, const struct wire_record *record,
                         const struct origin *origin, struct hvd_error *err);

static int visit_records(struct negotiate *negotiate, const void *bytes, size_t length,
                         enum down_source source, record_visit *visit, struct hvd_error *err)
{
    struct wire_reader reader = {bytes, length, negotiate->place.size};
    struct wire_record record;
    const unsigned char *begin = reader.at;
    int rc = wire_get(&reader, &record, err);
    while (rc == HVD_OK) {
        struct origin origin = {source, begin, (size_t)(reader.at - begin)};
        rc = visit(negotiate, &record, &origin, err);
        wire_clear(&record);
        begin = reader.at;
        if (rc == HVD_OK)
            rc = wire_get(&reader, &record, err);
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

int down_take(struct negotiate *negotiate, const void *bytes, size_t length, enum down_source source,
              struct hvd_error *err)
{
    return visit_records(negotiate, bytes, length, source, take_record, err);
}

int down_tell(struct negotiate *negotiate, struct hvd_error *err)
{
    int rc =
        visit_records(negotiate, negotiate->issue.bytes, negotiate->issue.length, DOWN_OWN, tell_record, err);
    negotiate->owed = rc == HVD_OK;
    return rc;
}

int down_settle(struct negotiate *negotiate, struct hvd_error *err)
{
    if (!negotiate->owed)
        return HVD_OK;
    negotiate->owed = false;
    return down_take(negotiate, negotiate->issue.bytes, negotiate->issue.length, DOWN_OWN_TOLD, err);
}
