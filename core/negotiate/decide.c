/* decide.c: what this rank decides for the sets it covers: numbers, planes, and who must wait. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

/* Of a limited number of names, this part at most is given up at a time. */
#define RETIRING_SHARE 4

/* Do what stands in negotiate->issue, here and below, as if a parent had said it. */
static int do_issue(struct negotiate *negotiate, struct hvd_error *err)
{
    const struct wire_writer *issue = &negotiate->issue;
    return issue->failed ? negotiate_no_memory(err)
                         : down_take(negotiate, issue->bytes, issue->length, DOWN_OWN, err);
}

static int issue(struct negotiate *negotiate, const struct wire_record *record, struct hvd_error *err)
{
    wire_reset(&negotiate->issue);
    wire_put(&negotiate->issue, record);
    return do_issue(negotiate, err);
}

/* Which plane: the first in the job's order of preference that all ranks have. */
static int choose_plane(const struct negotiate *negotiate, uint32_t planes)
{
    for (int i = 0; i < PLANE_COUNT; i++) {
        int plane = negotiate->place.plane_order[i];
        if (plane >= 0 && (planes >> plane & 1) != 0)
            return plane;
    }
    return -1;
}

/* A new description gets its number and its plane. */
static void number_record(struct negotiate *negotiate, struct crew *crew, const struct entry *entry,
                          struct wire_record *record)
{
    switch (record->offer.desc->kind) {
    case DESC_SET_ADD:
        record->id = (uint32_t)negotiate->last_set + 1;
        return;
    case DESC_SET_REMOVE:
    case DESC_SHUTDOWN:
        return; /* once a job: not worth a number */
    default:
        break;
    }
    record->plane = choose_plane(negotiate, record->offer.planes);
    if (entry->number == WIRE_NO_ID) {
        record->id = ledger_free_number(&crew->ledger, (uint64_t)negotiate->place.cache_limit);
        if (record->id == WIRE_NO_ID)
            crew->unnumbered++;
    } else if (!crew->ledger.slots[entry->number].retiring) {
        record->id = entry->number;
    }
}

static int issue_offers(struct negotiate *negotiate, struct hvd_error *err)
{
    struct agenda *agenda = &negotiate->decidable;
    struct wire_record record;
    int rc = HVD_OK;
    for (size_t i = 0; rc == HVD_OK && i < agenda->count; i++) {
        struct agenda_item item = agenda->at[i];
        if (item.entry == NULL)
            continue;
        up_describe(item.crew, item.entry, &record);
        if (record.type == WIRE_NEW && record.absent < 0)
            number_record(negotiate, item.crew, item.entry, &record);
        item.entry->phase = ENTRY_SAID;
        rc = issue(negotiate, &record, err);
    }
    agenda->count = 0;
    return rc;
}

/* Where names went without a number, take as many from those that were not decided for longest. */
static int issue_retiring(struct negotiate *negotiate, struct crew *crew, struct hvd_error *err)
{
    uint64_t most = (uint64_t)negotiate->place.cache_limit / RETIRING_SHARE + 1;
    struct numbers *numbers = &negotiate->numbers;
    struct entry *entry = NULL;
    TAILQ_FOREACH(entry, &crew->ledger.recent, of_recent)
    {
        if (numbers->count == crew->unnumbered ||
            numbers->count + crew->ledger.retiring_count + crew->ledger.free_count >= most)
            break;
        if (entry->ready != 0)
            continue;
        if (!negotiate_grow(&numbers->at, &numbers->capacity, numbers->count, sizeof(uint64_t)))
            return negotiate_no_memory(err);
        numbers->at[numbers->count++] = (uint64_t)crew->set << 32 | entry->number;
    }
    crew->unnumbered = 0;
    wire_reset(&negotiate->issue);
    int rc = up_put_list(negotiate, WIRE_RETIRE, numbers, &negotiate->issue, err);
    return rc == HVD_OK ? do_issue(negotiate, err) : rc;
}

static int issue_joins(struct negotiate *negotiate, struct hvd_error *err)
{
    negotiate->join_to_decide = false;
    for (size_t i = 0; i < negotiate->crew_count; i++) {
        struct crew *crew = negotiate->crews[i];
        if (!crew->decides || crew->joined != crew->full)
            continue;
        struct wire_record record = {.type = WIRE_JOINED, .set = crew->set, .rank = crew->last_joined};
        int rc = issue(negotiate, &record, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

/* After somebody left nothing is decided but that all have left. */
static void drop_undecidable(struct negotiate *negotiate)
{
    struct agenda *agenda = &negotiate->decidable;
    size_t kept = 0;
    for (size_t i = 0; i < agenda->count; i++) {
        if (agenda->at[i].entry != NULL && agenda->at[i].entry->needs_all)
            agenda->at[kept++] = agenda->at[i];
    }
    agenda->count = kept;
    negotiate->join_to_decide = false;
}

void negotiate_tune(struct negotiate *negotiate, const struct tune_settings *settings)
{
    negotiate->to_tune = true;
    negotiate->settings = *settings;
}

static int issue_settings(struct negotiate *negotiate, struct hvd_error *err)
{
    struct wire_record record = {.type = WIRE_TUNE, .settings = negotiate->settings};
    negotiate->to_tune = false;
    return issue(negotiate, &record, err);
}

static const struct wire_record end_of_unit = {.type = WIRE_UNIT};

/* What a unit has besides numbers, and its end. */
static int issue_others(struct negotiate *negotiate, bool leaving_news, struct hvd_error *err)
{
    struct wire_record leaving = {.type = WIRE_LEAVING, .rank = negotiate->leaving_rank};
    int rc = issue_offers(negotiate, err);
    for (size_t i = 0; rc == HVD_OK && i < negotiate->crew_count; i++) {
        if (negotiate->crews[i]->unnumbered > 0)
            rc = issue_retiring(negotiate, negotiate->crews[i], err);
    }
    if (rc == HVD_OK && negotiate->join_to_decide)
        rc = issue_joins(negotiate, err);
    if (rc == HVD_OK && leaving_news)
        rc = issue(negotiate, &leaving, err);
    return rc == HVD_OK ? issue(negotiate, &end_of_unit, err) : rc;
}

static int decide_unit(struct negotiate *negotiate, bool leaving_news, struct hvd_error *err)
{
    int rc = negotiate->to_tune ? issue_settings(negotiate, err) : HVD_OK;
    wire_reset(&negotiate->issue);
    if (rc == HVD_OK)
        rc = up_put_numbers(negotiate, &negotiate->decidable, &negotiate->issue, err);
    if (rc != HVD_OK)
        return rc;
    bool numbers_only = negotiate->decidable.count == 0 && !negotiate->join_to_decide && !leaving_news;
    if (!numbers_only) {
        rc = do_issue(negotiate, err);
        return rc == HVD_OK ? issue_others(negotiate, leaving_news, err) : rc;
    }
    wire_put(&negotiate->issue, &end_of_unit);
    return negotiate->issue.failed ? negotiate_no_memory(err) : down_tell(negotiate, err);
}

int negotiate_decide(struct negotiate *negotiate, struct hvd_error *err)
{
    int rc = down_settle(negotiate, err);
    while (rc == HVD_OK) { /* what waited for the end of a join may be ready at once */
        bool leaving_news =
            negotiate->place.root && negotiate->leaving_rank >= 0 && !negotiate->leaving_decided;
        if (negotiate->leaving_decided)
            drop_undecidable(negotiate);
        if (negotiate->decidable.count == 0 && !negotiate->join_to_decide && !leaving_news)
            break;
        rc = decide_unit(negotiate, leaving_news, err);
    }
    return rc;
}
