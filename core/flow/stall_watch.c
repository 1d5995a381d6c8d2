/* stall_watch.c: times the batch that runs on this rank by its progress, and says how the rank stands with a
 * batch that others wait in. A batch that is slow moves; only one that does not move at all stalls. */
#include "flow/stall_watch.h"

#include "base/clock.h"
#include "flow/stall_inspector.h"

/* When to report a batch that has waited since [since_us], after [now_us]. */
static int64_t next_report(const struct stall_watch *stall_watch, int64_t now_us)
{
    int64_t warn_us = stall_watch->warn_us > 0 ? now_us + stall_watch->warn_us : INT64_MAX;
    int64_t abort_us = stall_watch->abort_us > 0 ? stall_watch->since_us + stall_watch->abort_us : INT64_MAX;
    if (abort_us <= now_us) /* again: what was asked for it may have found a rank that moved */
        abort_us = now_us + stall_watch->abort_us;
    return warn_us < abort_us ? warn_us : abort_us;
}

/* Has the first batch moved since the last look, or does another one run? */
static void look(struct stall_watch *stall_watch, int64_t now_us)
{
    const struct batch_queue *batch_queue = stall_watch->batch_queue;
    bool runs = batch_queue->first != NULL;
    if (runs && stall_watch->runs && stall_watch->moves == batch_queue->moves)
        return;
    stall_watch->runs = runs;
    stall_watch->moves = batch_queue->moves;
    stall_watch->since_us = now_us;
    stall_watch->due_us = runs ? next_report(stall_watch, now_us) : INT64_MAX;
}

int64_t stall_watch_deadline(struct stall_watch *stall_watch, int64_t now_us)
{
    look(stall_watch, now_us);
    return stall_watch->due_us;
}

void stall_watch_restart(struct stall_watch *stall_watch)
{
    stall_watch->runs = false;
}

int stall_watch_check(struct stall_watch *stall_watch, struct negotiate *negotiate, int64_t now_us,
                      struct hvd_error *err)
{
    const struct batch_queue *batch_queue = stall_watch->batch_queue;
    look(stall_watch, now_us);
    if (now_us < stall_watch->due_us)
        return HVD_OK;
    const struct stalled_batch stalled = {.desc = batch_queue_desc(batch_queue),
                                          .number = batch_queue_number(batch_queue),
                                          .waits_for = batch_queue_waits_for(batch_queue),
                                          .waited_us = now_us - stall_watch->since_us};
    stall_watch->due_us = next_report(stall_watch, now_us);
    int rc = stalled.number > 0 ? negotiate_report_stall(negotiate, &stalled, err) : HVD_ERR_SET;
    if (rc != HVD_ERR_SET)
        return rc;
    stall_inspector_report_own(stall_watch->failure, &stalled,
                               stall_watch->abort_us > 0 && stalled.waited_us >= stall_watch->abort_us);
    return HVD_OK;
}

/* How this rank stands with its own first batch. A rank that has moved not long ago is no cause of a stall
 * that lasts for stall-warn or stall-abort. */
static bool moves(struct stall_watch *stall_watch)
{
    int64_t now_us = clock_us();
    int64_t limit_us = stall_watch->warn_us > 0 ? stall_watch->warn_us : stall_watch->abort_us;
    look(stall_watch, now_us);
    return now_us - stall_watch->since_us < limit_us / 2;
}

enum stall_standing stall_watch_standing(void *arg, hvd_set set, uint64_t batch, struct stall_rank *self)
{
    struct stall_watch *stall_watch = arg;
    const struct batch_queue *batch_queue = stall_watch->batch_queue;
    const struct batch *first = batch_queue->first;
    const struct process_set *team = set_registry_get(stall_watch->set_registry, set);
    bool in_set = first != NULL && first->team != NULL && first->team->members.set == set;
    if (in_set)
        team = first->team;
    uint64_t running = in_set ? batch_queue_number(batch_queue) : 0;
    if (team == NULL || (running != batch && team->sequence >= batch))
        return STANDING_PAST;
    if (first != NULL && moves(stall_watch))
        return STANDING_MOVES;
    if (running == batch)
        return STANDING_WAITS;
    if (first != NULL) {
        self->state = STALL_BEHIND;
        self->waits_for = batch_queue_waits_for(batch_queue);
        desc_title(batch_queue_desc(batch_queue), self->last, sizeof(self->last));
    }
    return STANDING_KEEPS_OTHERS;
}
