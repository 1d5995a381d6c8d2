/* stall_query.c: what waits too long, and for whom. A rank that sees an operation wait tells the one that
 * decides; that one asks down for who is missing, and hands on what is answered in time. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

/* How long the deciding rank waits for answers. Each rank below leaves the one above it an eighth of its
 * time. */
#define PATIENCE_US INT64_C(1000000)

void inquiry_end(struct crew *crew)
{
    if (crew->inquiry == NULL)
        return;
    desc_release(crew->inquiry->desc);
    free(crew->inquiry);
    crew->inquiry = NULL;
}

static void be_quiet(struct crew *crew)
{
    crew->quiet = true;
    crew->quiet_until_us = 0;
}

/* ---- Answers ---------------------------------------------------------------------------------- */

static void describe_self(const struct negotiate *negotiate, struct stall_rank *self)
{
    *self = (struct stall_rank){.rank = negotiate->place.rank, .state = STALL_NOTHING};
    if (negotiate->last == NULL)
        return;
    self->state = STALL_ELSEWHERE;
    desc_title(negotiate->last, self->last, sizeof(self->last));
}

static bool is_open(const struct entry *entry)
{
    return entry != NULL && entry->ready != 0 && entry->phase == ENTRY_OPEN;
}

static int count_open(const struct crew *crew)
{
    const struct entry *entry = NULL;
    int count = 0;
    TAILQ_FOREACH(entry, &crew->ledger.open, of_open)
    count++;
    return count;
}

static int report(struct negotiate *negotiate, struct crew *crew, struct hvd_error *err)
{
    const struct inquiry *inquiry = crew->inquiry;
    const struct entry *entry = ledger_find(&crew->ledger, inquiry->name);
    int64_t abort_us = negotiate->place.stall_abort_us;
    struct decision decision = {.kind = DECISION_STALLED,
                                .desc = inquiry->desc,
                                .set = crew->set,
                                .number = WIRE_NO_ID,
                                .plane = -1,
                                .last = true,
                                .stall = &inquiry->stall,
                                .waited_us = inquiry->waited_us,
                                .others = count_open(crew) - is_open(entry),
                                .hopeless = abort_us > 0 && inquiry->waited_us >= abort_us};
    int rc = down_push(negotiate, &decision, err);
    negotiate->unit_decided = false; /* it is of no unit */
    return rc;
}

/* All have answered that will. */
static int conclude(struct negotiate *negotiate, struct crew *crew, struct hvd_error *err)
{
    struct inquiry *inquiry = crew->inquiry;
    int rc = HVD_OK;
    if (inquiry->desc == NULL) {
        struct wire_record answer = {
            .type = WIRE_ANSWER, .set = crew->set, .id = inquiry->id, .stall = &inquiry->stall};
        wire_put(&negotiate->notes, &answer);
    } else if (inquiry->stall.missing > 0 && !negotiate->leaving_decided) {
        rc = report(negotiate, crew, err);
    }
    inquiry_end(crew);
    return rc;
}

/* Those that have not answered in time are what there is to tell. */
static int give_up(struct negotiate *negotiate, struct crew *crew, struct hvd_error *err)
{
    struct inquiry *inquiry = crew->inquiry;
    for (int child = 0; child < negotiate->place.child_count; child++) {
        struct stall_rank silent = {.rank = negotiate->place.child_ranks[child], .state = STALL_SILENT};
        if ((inquiry->asked >> (child + 1) & 1) != 0)
            stall_name(&inquiry->stall, &silent);
    }
    return conclude(negotiate, crew, err);
}

int stall_take_answer(struct negotiate *negotiate, struct crew *crew, int child,
                      const struct wire_record *record, struct hvd_error *err)
{
    struct inquiry *inquiry = crew->inquiry;
    if (inquiry == NULL || inquiry->id != record->id || (inquiry->asked >> (child + 1) & 1) == 0)
        return HVD_OK; /* it came too late */
    if (record->stall->missing > negotiate->place.size - inquiry->stall.missing)
        return error_set(err, HVD_ERR_SYSTEM, "rank %d says that %d ranks are missing, more than there are",
                         negotiate->place.child_ranks[child], record->stall->missing);
    stall_merge(&inquiry->stall, record->stall);
    inquiry->asked &= ~(UINT64_C(1) << (child + 1));
    return inquiry->asked == 0 ? conclude(negotiate, crew, err) : HVD_OK;
}

/* ---- Questions -------------------------------------------------------------------------------- */

/* Ask those below that are missing; this rank answers for itself. */
static int ask_below(struct negotiate *negotiate, struct crew *crew, const struct wire_record *ask,
                     const struct inquiry *own, struct hvd_error *err)
{
    const struct entry *entry = ledger_find(&crew->ledger, ask->name);
    struct inquiry *inquiry = calloc(1, sizeof(*inquiry));
    struct wire_record below = *ask;
    if (inquiry == NULL)
        return negotiate_no_memory(err);
    inquiry_end(crew); /* who asks anew does not wait for older answers */
    crew->inquiry = inquiry;
    if (own != NULL) {
        *inquiry = *own;
        desc_hold(own->desc);
    }
    inquiry->id = ask->id;
    inquiry->patience_us = ask->time_us;
    memcpy(inquiry->name, ask->name, sizeof(inquiry->name));
    inquiry->asked = crew->full & ~(entry != NULL ? entry->ready : 0) & ~crew->joined;
    if ((inquiry->asked >> SELF & 1) != 0) {
        struct stall_rank self;
        describe_self(negotiate, &self);
        stall_name(&inquiry->stall, &self);
        inquiry->asked &= ~(UINT64_C(1) << SELF);
    }
    below.time_us -= below.time_us / 8;
    for (int child = 0; child < negotiate->place.child_count; child++) {
        if ((inquiry->asked >> (child + 1) & 1) != 0)
            wire_put(down_writer(negotiate, child), &below);
    }
    return inquiry->asked == 0 ? conclude(negotiate, crew, err) : HVD_OK;
}

int stall_take_ask(struct negotiate *negotiate, const struct wire_record *record, struct hvd_error *err)
{
    struct crew *crew = crew_find(negotiate, record->set);
    if (crew == NULL || crew->decides)
        return error_set(err, HVD_ERR_SYSTEM, "the parent asks about process set %d, which is not its own",
                         record->set);
    return ask_below(negotiate, crew, record, NULL, err);
}

static int ask(struct negotiate *negotiate, struct crew *crew, const struct desc *desc, int64_t waited_us,
               struct hvd_error *err)
{
    struct wire_record record = {
        .type = WIRE_ASK, .set = crew->set, .id = ++crew->inquiries, .time_us = PATIENCE_US};
    struct inquiry own = {.desc = desc, .waited_us = waited_us};
    memcpy(record.name, desc_name(desc), strlen(desc_name(desc)) + 1);
    be_quiet(crew);
    return ask_below(negotiate, crew, &record, &own, err);
}

/* ---- What waits ------------------------------------------------------------------------------- */

/* Say that [desc] waits. */
static int tell(struct negotiate *negotiate, struct crew *crew, const struct desc *desc, int64_t waited_us,
                struct hvd_error *err)
{
    if (crew->decides)
        return ask(negotiate, crew, desc, waited_us, err);
    struct wire_record record = {
        .type = WIRE_WAITING, .time_us = waited_us, .offer = {desc, negotiate->place.rank, 0}};
    wire_put(&negotiate->notes, &record);
    be_quiet(crew);
    return HVD_OK;
}

int stall_take_waiting(struct negotiate *negotiate, struct crew *crew, const struct wire_record *record,
                       struct hvd_error *err)
{
    int64_t abort_us = negotiate->place.stall_abort_us;
    bool hopeless = abort_us > 0 && record->time_us >= abort_us;
    if (is_open(ledger_find(&crew->ledger, desc_name(record->offer.desc))))
        return HVD_OK; /* it waits here as well, and is told of when it is time */
    if (!hopeless && (crew->inquiry != NULL || crew->quiet))
        return HVD_OK;
    return tell(negotiate, crew, record->offer.desc, record->time_us, err);
}

/* The operation that has waited longest here for some below, or NULL. */
static const struct entry *oldest(const struct crew *crew)
{
    return TAILQ_FIRST(&crew->ledger.open);
}

/* Give what came since the last time its times. */
static void tell_time(const struct negotiate *negotiate, struct crew *crew, int64_t now_us)
{
    struct entry *entry = TAILQ_LAST(&crew->ledger.open, entry_list);
    for (; entry != NULL && entry->since_us == 0; entry = TAILQ_PREV(entry, entry_list, of_open))
        entry->since_us = now_us;
    if (crew->inquiry != NULL && crew->inquiry->deadline_us == 0)
        crew->inquiry->deadline_us = now_us + crew->inquiry->patience_us;
    if (crew->quiet && crew->quiet_until_us == 0)
        crew->quiet_until_us = now_us + negotiate->place.stall_warn_us;
    else if (crew->quiet && crew->quiet_until_us <= now_us)
        crew->quiet = false;
}

/* When there is something to do about [crew]. */
static int64_t deadline_of(const struct negotiate *negotiate, const struct crew *crew)
{
    const struct negotiate_place *place = &negotiate->place;
    const struct entry *entry = oldest(crew);
    int64_t deadline_us = INT64_MAX;
    if (crew->inquiry != NULL)
        return crew->inquiry->deadline_us;
    if (entry != NULL && place->stall_warn_us > 0) {
        deadline_us = entry->since_us + place->stall_warn_us;
        if (crew->quiet && crew->quiet_until_us > deadline_us)
            deadline_us = crew->quiet_until_us;
    }
    if (entry != NULL && place->stall_abort_us > 0 && crew->hopeless_us != entry->since_us &&
        entry->since_us + place->stall_abort_us < deadline_us)
        deadline_us = entry->since_us + place->stall_abort_us;
    return deadline_us;
}

int64_t negotiate_deadline(struct negotiate *negotiate, int64_t now_us)
{
    int64_t deadline_us = INT64_MAX;
    for (size_t i = 0; i < negotiate->crew_count && !negotiate->leaving_decided; i++) {
        struct crew *crew = negotiate->crews[i];
        if (TAILQ_EMPTY(&crew->ledger.open) && crew->inquiry == NULL && !crew->quiet)
            continue;
        tell_time(negotiate, crew, now_us);
        int64_t due_us = deadline_of(negotiate, crew);
        deadline_us = due_us < deadline_us ? due_us : deadline_us;
    }
    return deadline_us;
}

static int tell_of(struct negotiate *negotiate, struct crew *crew, const struct entry *entry, int64_t now_us,
                   struct hvd_error *err)
{
    const struct desc *desc = entry->offer.desc != NULL ? entry->offer.desc : entry->agreed.desc;
    int64_t waited_us = now_us - entry->since_us;
    if (negotiate->place.stall_abort_us > 0 && waited_us >= negotiate->place.stall_abort_us)
        crew->hopeless_us = entry->since_us;
    return tell(negotiate, crew, desc, waited_us, err);
}

int negotiate_watch(struct negotiate *negotiate, int64_t now_us, struct hvd_error *err)
{
    if (negotiate_deadline(negotiate, now_us) > now_us)
        return HVD_OK;
    int rc = down_settle(negotiate, err);
    for (size_t i = 0; i < negotiate->crew_count && rc == HVD_OK; i++) {
        struct crew *crew = negotiate->crews[i];
        if (deadline_of(negotiate, crew) > now_us)
            continue;
        rc = crew->inquiry != NULL ? give_up(negotiate, crew, err)
                                   : tell_of(negotiate, crew, oldest(crew), now_us, err);
        tell_time(negotiate, crew, now_us);
    }
    return rc;
}
