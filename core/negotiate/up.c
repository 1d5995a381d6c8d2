/* up.c: what is ready in this rank's subtree: heard from the children, merged, said to the parent.
 */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

#define ALL_PLANES ((1u << PLANE_COUNT) - 1)

/* ---- Merging -------------------------------------------------------------------------------- */

static void set_offer(struct wire_offer *offer, const struct desc *desc, int rank, uint32_t planes)
{
    const struct desc *old = offer->desc;
    *offer = (struct wire_offer){desc_hold(desc), rank, planes};
    desc_release(old);
}

/* Take what [rank] says of an entry; no desc: what the entry's number stands for. */
static void merge(struct entry *entry, const struct wire_offer *saying)
{
    bool first = entry->ready == 0;
    const struct desc *desc = saying->desc != NULL ? saying->desc : entry->agreed.desc;
    uint32_t planes = saying->desc != NULL ? saying->planes : entry->agreed.planes;
    if (saying->desc == NULL && (first || entry->offer.desc == NULL)) {
        if (first || saying->rank < entry->offer.rank)
            entry->offer.rank = saying->rank;
        return;
    }
    if (first) {
        set_offer(&entry->offer, desc, saying->rank, planes);
        return;
    }
    if (entry->offer.desc == NULL) /* the first word that is more than the number */
        set_offer(&entry->offer, entry->agreed.desc, entry->offer.rank, entry->agreed.planes);
    uint32_t common = entry->offer.planes & planes;
    if (!desc_equal(entry->offer.desc, desc) || (common == 0 && (entry->offer.planes | planes) != 0)) {
        if (!entry->mismatch || (desc_equal(entry->other.desc, desc) && saying->rank < entry->other.rank))
            set_offer(&entry->other, desc, saying->rank, planes);
        entry->mismatch = true;
        return;
    }
    entry->offer.planes = common;
    if (saying->rank < entry->offer.rank)
        entry->offer.rank = saying->rank;
}

bool crew_covers(const struct crew *crew, const struct entry *entry)
{
    if (entry == NULL)
        return crew->joined == crew->full;
    uint64_t waived = entry->needs_all ? 0 : crew->joined;
    return (entry->ready | waived) == crew->full;
}

/* Put an entry that is ready in the whole subtree on its agenda. */
static int complete(struct negotiate *negotiate, struct crew *crew, struct entry *entry,
                    struct hvd_error *err)
{
    struct agenda *agenda = crew->decides ? &negotiate->decidable : &negotiate->sayable;
    if (!negotiate_grow(&agenda->at, &agenda->capacity, agenda->count, sizeof(agenda->at[0])))
        return negotiate_no_memory(err);
    agenda->at[agenda->count++] = (struct agenda_item){crew, entry};
    TAILQ_REMOVE(&crew->ledger.open, entry, of_open);
    entry->phase = ENTRY_COMPLETE;
    return HVD_OK;
}

/* [bit]'s part of the subtree is ready for [entry]. */
static int become_ready(struct negotiate *negotiate, struct crew *crew, struct entry *entry, int bit,
                        const struct wire_offer *offer, struct hvd_error *err)
{
    if ((entry->ready >> bit & 1) != 0)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d says twice that it is ready for \"%s\"", offer->rank,
                         entry->name);
    if ((crew->joined >> bit & 1) != 0 && !entry->needs_all)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d has joined, but says that it is ready for \"%s\"",
                         offer->rank, entry->name);
    merge(entry, offer);
    if (entry->ready == 0)
        TAILQ_INSERT_TAIL(&crew->ledger.open, entry, of_open);
    entry->ready |= UINT64_C(1) << bit;
    return entry->phase == ENTRY_OPEN && crew_covers(crew, entry) ? complete(negotiate, crew, entry, err)
                                                                  : HVD_OK;
}

/* All of [bit]'s part have joined: that makes ready what only they were missing for. */
static int become_joined(struct negotiate *negotiate, struct crew *crew, int bit, const struct joined *part,
                         struct hvd_error *err)
{
    struct entry *entry = TAILQ_FIRST(&crew->ledger.open);
    struct entry *next = NULL;
    int rc = HVD_OK;
    crew->joined |= UINT64_C(1) << bit;
    crew->part[bit] = *part;
    crew->last_joined = part->rank;
    for (; entry != NULL && rc == HVD_OK; entry = next) {
        next = TAILQ_NEXT(entry, of_open);
        if (crew_covers(crew, entry))
            rc = complete(negotiate, crew, entry, err);
    }
    if (crew->joined == crew->full && crew->decides)
        negotiate->join_to_decide = true;
    else if (crew->joined == crew->full)
        negotiate->join_to_say = true;
    return rc;
}

static int count_members(struct entry *entry, int bit, int members, struct hvd_error *err)
{
    if (entry->census == NULL)
        entry->census = calloc(1, sizeof(*entry->census));
    if (entry->census == NULL)
        return negotiate_no_memory(err);
    entry->census->counts[bit] = members;
    return HVD_OK;
}

/* ---- This rank ------------------------------------------------------------------------------ */

/* After its join a rank takes part in the set again when the join is over. */
static int put_off(struct crew *crew, const struct submission *submission, struct hvd_error *err)
{
    struct later *later = calloc(1, sizeof(*later));
    if (later == NULL)
        return negotiate_no_memory(err);
    later->submission = *submission;
    desc_hold(submission->desc);
    *crew->later_tail = later;
    crew->later_tail = &later->next;
    return HVD_OK;
}

static int submit_join(struct negotiate *negotiate, struct crew *crew, const struct submission *submission,
                       struct hvd_error *err)
{
    struct joined self = {negotiate->place.rank, submission->planes != 0 ? submission->planes : ALL_PLANES};
    crew->join = desc_hold(submission->desc);
    crew->join_user = submission->user;
    return become_joined(negotiate, crew, SELF, &self, err);
}

/* The entry whose number was given back with the last decision on this very description; or NULL. */
static struct entry *find_numbered(const struct crew *crew, const struct submission *submission)
{
    struct entry *entry = ledger_numbered(&crew->ledger, submission->number);
    return entry != NULL && entry->agreed.desc == submission->desc ? entry : NULL;
}

/* Does the number of [entry] say what is submitted? Then this rank's own description is the one that is kept,
 * which is found to be equal at the first look from now on. */
static bool is_known(const struct crew *crew, struct entry *entry, const struct submission *submission)
{
    if (entry->number == WIRE_NO_ID || crew->ledger.slots[entry->number].retiring)
        return false;
    bool carried = entry->plane < 0 || (submission->planes >> entry->plane & 1) != 0;
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
    struct crew *crew = crew_find(negotiate, desc->set);
    if (crew == NULL || (crew->full >> SELF & 1) == 0)
        return error_set(err, HVD_ERR_SET, "rank %d is no member of process set %d", negotiate->place.rank,
                         desc->set);
    if (!submission->more) {
        desc_release(negotiate->last);
        negotiate->last = desc_hold(desc);
    }
    if ((crew->joined >> SELF & 1) != 0 && desc->kind != DESC_SHUTDOWN)
        return put_off(crew, submission, err);
    if (desc->kind == DESC_JOIN)
        return submit_join(negotiate, crew, submission, err);
    struct entry *entry = find_numbered(crew, submission);
    if (entry == NULL)
        entry = ledger_get(&crew->ledger, desc_name(desc));
    if (entry == NULL)
        return negotiate_no_memory(err);
    int rc = HVD_OK;
    struct wire_offer offer = {desc, negotiate->place.rank, submission->planes};
    if (is_known(crew, entry, submission))
        offer.desc = NULL;
    if (desc->kind == DESC_SET_ADD) {
        rc = count_members(entry, SELF, submission->member, err);
        if (rc == HVD_OK)
            entry->census->set_size = submission->set_size;
    }
    if (rc == HVD_OK)
        rc = become_ready(negotiate, crew, entry, SELF, &offer, err);
    if (rc == HVD_OK)
        entry->user = submission->user;
    else
        ledger_tidy(&crew->ledger, entry);
    return rc;
}

/* ---- Children ------------------------------------------------------------------------------- */

/* The set that a child's record is about. *crewp is NULL where it was removed: the child did not know. */
static int crew_of_child(const struct negotiate *negotiate, int child, hvd_set set, struct crew **crewp,
                         struct hvd_error *err)
{
    *crewp = crew_find(negotiate, set);
    if (*crewp == NULL && set <= negotiate->last_set)
        return HVD_OK;
    if (*crewp == NULL || ((*crewp)->full >> (child + 1) & 1) == 0)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d speaks of process set %d, which it is not in",
                         negotiate->place.child_ranks[child], set);
    return HVD_OK;
}

static int take_ids(struct negotiate *negotiate, struct crew *crew, int child,
                    const struct wire_record *record, struct hvd_error *err)
{
    struct wire_offer offer = {NULL, negotiate->place.child_ranks[child], 0};
    for (uint32_t i = 0; i < record->id_span; i++) {
        if (!wire_has_id(record, i))
            continue;
        struct entry *entry = ledger_numbered(&crew->ledger, record->first_id + i);
        if (entry == NULL)
            return error_set(err, HVD_ERR_SYSTEM, "operation number %u was never agreed",
                             record->first_id + i);
        int rc = become_ready(negotiate, crew, entry, child + 1, &offer, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

int up_retired(struct negotiate *negotiate, struct crew *crew, uint32_t number, struct hvd_error *err)
{
    uint64_t below = crew->full & ~(UINT64_C(1) << SELF);
    if ((crew->ledger.slots[number].knowing & below) != below)
        return HVD_OK;
    if (!crew->decides) {
        struct numbers *retired = &negotiate->retired;
        if (!negotiate_grow(&retired->at, &retired->capacity, retired->count, sizeof(uint64_t)))
            return negotiate_no_memory(err);
        retired->at[retired->count++] = (uint64_t)crew->set << 32 | number;
    }
    ledger_free(&crew->ledger, number);
    return HVD_OK;
}

static int take_retired(struct negotiate *negotiate, struct crew *crew, int child,
                        const struct wire_record *record, struct hvd_error *err)
{
    for (uint32_t i = 0; i < record->id_span; i++) {
        if (!wire_has_id(record, i))
            continue;
        uint32_t number = record->first_id + i;
        struct slot *slot = number < crew->ledger.slot_count ? &crew->ledger.slots[number] : NULL;
        if (slot == NULL || !slot->retiring || (slot->knowing >> (child + 1) & 1) != 0)
            return error_set(err, HVD_ERR_SYSTEM, "operation number %u is not to be given up by rank %d",
                             number, negotiate->place.child_ranks[child]);
        slot->knowing |= UINT64_C(1) << (child + 1);
        int rc = up_retired(negotiate, crew, number, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

static int take_joined(struct negotiate *negotiate, struct crew *crew, int child,
                       const struct wire_record *record, struct hvd_error *err)
{
    struct joined part = {record->rank, record->planes};
    if ((crew->joined >> (child + 1) & 1) != 0)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d says twice that it has joined process set %d",
                         record->rank, crew->set);
    return become_joined(negotiate, crew, child + 1, &part, err);
}

static int take_offer(struct negotiate *negotiate, struct crew *crew, int child,
                      const struct wire_record *record, struct hvd_error *err)
{
    struct entry *entry = ledger_get(&crew->ledger, desc_name(record->offer.desc));
    if (entry == NULL)
        return negotiate_no_memory(err);
    int rc = HVD_OK;
    if (record->offer.desc->kind == DESC_SET_ADD && record->type == WIRE_NEW)
        rc = count_members(entry, child + 1, record->members, err);
    if (rc == HVD_OK)
        rc = become_ready(negotiate, crew, entry, child + 1, &record->offer, err);
    if (rc != HVD_OK) {
        ledger_tidy(&crew->ledger, entry);
        return rc;
    }
    if (entry->absent < 0 && record->type == WIRE_NEW)
        entry->absent = record->absent;
    if (record->type == WIRE_MISMATCH && !entry->mismatch) {
        /* this rank agrees with one of the two, so the child's pair is the disagreement here too */
        entry->mismatch = true;
        set_offer(&entry->other, record->other.desc, record->other.rank, record->other.planes);
    }
    return HVD_OK;
}

int up_take(struct negotiate *negotiate, int child, const struct wire_record *record, struct hvd_error *err)
{
    struct crew *crew = NULL;
    hvd_set set = record->offer.desc != NULL ? record->offer.desc->set : record->set;
    if (record->type == WIRE_LEAVING) {
        if (negotiate->leaving_rank < 0)
            negotiate->leaving_rank = record->rank;
        return HVD_OK;
    }
    int rc = crew_of_child(negotiate, child, set, &crew, err);
    if (rc != HVD_OK || crew == NULL)
        return rc;
    switch (record->type) {
    case WIRE_IDS:
        return take_ids(negotiate, crew, child, record, err);
    case WIRE_RETIRE:
        return take_retired(negotiate, crew, child, record, err);
    case WIRE_NEW:
    case WIRE_MISMATCH:
        return take_offer(negotiate, crew, child, record, err);
    case WIRE_JOINED:
        return take_joined(negotiate, crew, child, record, err);
    case WIRE_WAITING:
        return stall_take_waiting(negotiate, crew, record, err);
    case WIRE_ANSWER:
        return stall_take_answer(negotiate, crew, child, record, err);
    case WIRE_LEAVING:
    case WIRE_UNIT:
    case WIRE_ASK:
    case WIRE_TUNE:
        break;
    }
    return error_set(err, HVD_ERR_SYSTEM, "rank %d sends a record of type %d, which only parents do",
                     negotiate->place.child_ranks[child], (int)record->type);
}

/* ---- Saying --------------------------------------------------------------------------------- */

/* A joined rank takes part with zeros, where that can be, over a plane that it has: else it is missed. */
static void count_in_joined(const struct crew *crew, const struct entry *entry, struct wire_record *record)
{
    uint64_t missing = crew->full & ~entry->ready;
    for (int bit = 0; missing >> bit != 0 && bit < 64; bit++) {
        const struct joined *part = &crew->part[bit];
        if ((missing >> bit & 1) == 0)
            continue;
        uint32_t planes = record->offer.planes;
        if (!desc_joins(record->offer.desc) || (planes != 0 && (planes & part->planes) == 0))
            record->absent = part->rank;
        else
            record->offer.planes &= part->planes;
    }
}

bool up_describe(const struct crew *crew, const struct entry *entry, struct wire_record *record)
{
    memset(record, 0, sizeof(*record));
    record->type = entry->mismatch ? WIRE_MISMATCH : WIRE_NEW;
    record->offer = entry->offer;
    record->id = WIRE_NO_ID;
    record->plane = -1;
    record->absent = entry->absent;
    if (entry->offer.desc == NULL) {
        record->offer.desc = entry->agreed.desc;
        record->offer.planes = entry->agreed.planes;
    }
    if (entry->mismatch)
        record->other = entry->other;
    else if (entry->ready != crew->full)
        count_in_joined(crew, entry, record);
    for (int bit = 0; entry->census != NULL && bit < 64; bit++)
        record->members += entry->census->counts[bit];
    bool carried = entry->plane < 0 || (record->offer.planes >> entry->plane & 1) != 0;
    return entry->offer.desc != NULL || record->absent >= 0 || !carried ||
           crew->ledger.slots[entry->number].retiring;
}

/* Is [entry] what its number stands for, on every rank below? Only a part of what up_describe says, but of
 * most entries of most rounds, and soon said. */
static bool is_as_agreed(const struct crew *crew, const struct entry *entry)
{
    return entry->offer.desc == NULL && entry->ready == crew->full && entry->absent < 0 &&
           !crew->ledger.slots[entry->number].retiring;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

int up_put_list(struct negotiate *negotiate, enum wire_type type, struct numbers *numbers,
                struct wire_writer *writer, struct hvd_error *err)
{
    size_t count = 0;
    size_t ascending = 1; /* as they are where ranks submit in the order in which they first did */
    while (ascending < numbers->count && numbers->at[ascending - 1] < numbers->at[ascending])
        ascending++;
    if (ascending < numbers->count)
        qsort(numbers->at, numbers->count, sizeof(uint64_t), compare_numbers);
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

int up_put_numbers(struct negotiate *negotiate, struct agenda *agenda, struct wire_writer *writer,
                   struct hvd_error *err)
{
    struct numbers *numbers = &negotiate->numbers;
    struct wire_record record;
    size_t kept = 0;
    for (size_t i = 0; i < agenda->count; i++) {
        struct agenda_item item = agenda->at[i];
        if (item.entry == NULL)
            continue;
        if (!is_as_agreed(item.crew, item.entry) && up_describe(item.crew, item.entry, &record)) {
            agenda->at[kept++] = item;
            continue;
        }
        if (!negotiate_grow(&numbers->at, &numbers->capacity, numbers->count, sizeof(uint64_t)))
            return negotiate_no_memory(err);
        numbers->at[numbers->count++] = (uint64_t)item.crew->set << 32 | item.entry->number;
        item.entry->phase = ENTRY_SAID;
    }
    agenda->count = kept;
    return up_put_list(negotiate, WIRE_IDS, numbers, writer, err);
}

static void say_joins(struct negotiate *negotiate)
{
    for (size_t i = 0; i < negotiate->crew_count; i++) {
        struct crew *crew = negotiate->crews[i];
        if (crew->decides || crew->joined_said || crew->joined != crew->full)
            continue;
        struct wire_record record = {
            .type = WIRE_JOINED, .set = crew->set, .rank = crew->last_joined, .planes = ALL_PLANES};
        for (int bit = 0; bit < 64 && crew->full >> bit != 0; bit++) {
            if ((crew->full >> bit & 1) != 0)
                record.planes &= crew->part[bit].planes;
        }
        wire_put(&negotiate->up, &record);
        crew->joined_said = true;
    }
    negotiate->join_to_say = false;
}

int up_say(struct negotiate *negotiate, struct hvd_error *err)
{
    struct agenda *sayable = &negotiate->sayable;
    struct wire_record record;
    bool leaving_news = negotiate->leaving_rank >= 0 && !negotiate->leaving_said;
    wire_reset(&negotiate->up);
    if (sayable->count == 0 && !negotiate->join_to_say && !leaving_news && negotiate->notes.length == 0)
        return HVD_OK; /* numbers that were given up can wait until there is more to say */
    wire_put_bytes(&negotiate->up, negotiate->notes.bytes, negotiate->notes.length);
    negotiate->up.failed = negotiate->up.failed || negotiate->notes.failed;
    wire_reset(&negotiate->notes);
    int rc = up_put_list(negotiate, WIRE_RETIRE, &negotiate->retired, &negotiate->up, err);
    if (rc == HVD_OK)
        rc = up_put_numbers(negotiate, sayable, &negotiate->up, err);
    if (rc != HVD_OK)
        return rc;
    for (size_t i = 0; i < sayable->count; i++) {
        up_describe(sayable->at[i].crew, sayable->at[i].entry, &record);
        sayable->at[i].entry->phase = ENTRY_SAID;
        wire_put(&negotiate->up, &record);
    }
    sayable->count = 0;
    if (negotiate->join_to_say)
        say_joins(negotiate);
    if (leaving_news) {
        record = (struct wire_record){.type = WIRE_LEAVING, .rank = negotiate->leaving_rank};
        wire_put(&negotiate->up, &record);
        negotiate->leaving_said = true;
    }
    return negotiate->up.failed ? negotiate_no_memory(err) : HVD_OK;
}
