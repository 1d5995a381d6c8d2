/* stall_watch.c: times the batches at work on this rank by their progress, and says how the rank stands with
 * a batch that others wait in. A batch that is slow moves; only one that does not move at all stalls. */
#include "flow/stall_watch.h"

#include "base/clock.h"
#include "flow/stall_inspector.h"

/* When to report a batch that has waited since [since_us], after [now_us]. */
static int64_t next_report(const struct stall_watch *stall_watch, int64_t since_us, int64_t now_us)
{
    int64_t warn_us = stall_watch->warn_us > 0 ? now_us + stall_watch->warn_us : INT64_MAX;
    int64_t abort_us = stall_watch->abort_us > 0 ? since_us + stall_watch->abort_us : INT64_MAX;
    if (abort_us <= now_us) /* the ranks were asked, and one had moved: ask again after as long */
        abort_us = now_us + stall_watch->abort_us;
    return warn_us < abort_us ? warn_us : abort_us;
}

static void restart(const struct stall_watch *stall_watch, struct stall_timer *timer, int64_t now_us)
{
    timer->since_us = now_us;
    timer->repeat = (struct repeat){0};
    timer->due_us = next_report(stall_watch, now_us, now_us);
}

/* Has the batch at the head moved since the last look, or does another one run? */
static void look_at(const struct stall_watch *stall_watch, struct stall_timer *timer, struct batch_head head,
                    int64_t now_us)
{
    bool runs = head.batch != NULL;
    if (runs && timer->runs && timer->moves == head.moves)
        return;
    timer->runs = runs;
    timer->moves = head.moves;
    restart(stall_watch, timer, now_us);
}

static void look(struct stall_watch *stall_watch, int64_t now_us)
{
    const struct batch_queue *batch_queue = stall_watch->batch_queue;
    look_at(stall_watch, &stall_watch->first, batch_queue_first(batch_queue), now_us);
    look_at(stall_watch, &stall_watch->launched, batch_queue_first_launched(batch_queue), now_us);
}

static int64_t due(const struct stall_timer *timer)
{
    return timer->runs ? timer->due_us : INT64_MAX;
}

int64_t stall_watch_deadline(struct stall_watch *stall_watch, int64_t now_us)
{
    look(stall_watch, now_us);
    int64_t first_us = due(&stall_watch->first);
    int64_t launched_us = due(&stall_watch->launched);
    return first_us < launched_us ? first_us : launched_us;
}

void stall_watch_restart(struct stall_watch *stall_watch)
{
    stall_watch->first.runs = stall_watch->launched.runs = false;
}

/* Report [batch], which [timer] times, if it has not moved for too long. */
static int watch_batch(struct stall_watch *stall_watch, struct stall_timer *timer, const struct batch *batch,
                       struct negotiate *negotiate, int64_t now_us, struct hvd_error *err)
{
    if (now_us < due(timer))
        return HVD_OK;
    if (batch_waits_for_program(batch)) {
        restart(stall_watch, timer, now_us);
        return HVD_OK;
    }
    const struct stalled_batch stalled = {.desc = batch_desc(batch),
                                          .number = batch_number(batch),
                                          .waits_for = run_waits_for(stall_watch->run, batch),
                                          .waited_us = now_us - timer->since_us};
    timer->due_us = next_report(stall_watch, timer->since_us, now_us);
    int rc = stalled.number > 0 ? negotiate_report_stall(negotiate, &stalled, err) : HVD_ERR_SET;
    if (rc != HVD_ERR_SET)
        return rc;
    bool aborts = stall_watch->abort_us > 0 && stalled.waited_us >= stall_watch->abort_us;
    bool due = repeat_tell(&timer->repeat, 0, stalled.waited_us);
    if (aborts || due)
        stall_inspector_report_own(stall_watch->failure, &stalled, aborts);
    return HVD_OK;
}

int stall_watch_check(struct stall_watch *stall_watch, struct negotiate *negotiate, int64_t now_us,
                      struct hvd_error *err)
{
    const struct batch *first = batch_queue_first(stall_watch->batch_queue).batch;
    const struct batch *launched = batch_queue_first_launched(stall_watch->batch_queue).batch;
    look(stall_watch, now_us);
    int rc = watch_batch(stall_watch, &stall_watch->launched, launched, negotiate, now_us, err);
    return rc == HVD_OK ? watch_batch(stall_watch, &stall_watch->first, first, negotiate, now_us, err) : rc;
}

/* ---- How this rank stands ---------------------------------------------------------------------- */

/* A rank that has moved not long ago is no cause of a stall that lasts for stall-warn or stall-abort. */
static bool moves(const struct stall_watch *stall_watch, const struct stall_timer *timer)
{
    int64_t limit_us = stall_watch->warn_us > 0 ? stall_watch->warn_us : stall_watch->abort_us;
    return timer->runs && clock_us() - timer->since_us < limit_us / 2;
}

/* With a batch that comes after [head], of which it has not moved for a while. */
static enum stall_standing standing_behind(const struct stall_watch *stall_watch, const struct batch *head,
                                           struct stall_rank *self)
{
    self->state = STALL_BEHIND;
    self->waits_for = run_waits_for(stall_watch->run, head);
    desc_title(batch_desc(head), self->last, sizeof(self->last));
    return STANDING_KEEPS_OTHERS;
}

static enum stall_standing standing_queued(struct stall_rank *self)
{
    self->state = STALL_QUEUED;
    return STANDING_KEEPS_OTHERS;
}

/* With a batch that is in the GPU's queue. */
static enum stall_standing standing_launched(const struct stall_watch *stall_watch, uint64_t batch,
                                             struct stall_rank *self)
{
    const struct batch *head = batch_queue_first_launched(stall_watch->batch_queue).batch;
    if (batch_waits_for_program(head))
        return standing_queued(self);
    if (moves(stall_watch, &stall_watch->launched))
        return STANDING_MOVES;
    return batch_number(head) == batch ? STANDING_WAITS : standing_behind(stall_watch, head, self);
}

enum stall_standing stall_watch_standing(void *arg, hvd_set set, uint64_t batch, struct stall_rank *self)
{
    struct stall_watch *stall_watch = arg;
    const struct batch *first = batch_queue_first(stall_watch->batch_queue).batch;
    const struct process_set *known = set_registry_get(stall_watch->set_registry, set);
    look(stall_watch, clock_us());
    if (batch_queue_is_launched(stall_watch->batch_queue, set, batch))
        return standing_launched(stall_watch, batch, self);
    uint64_t running = 0;
    if (first != NULL && first->set != NULL && first->set->members.set == set) {
        known = first->set;
        running = batch_number(first);
    }
    if (known == NULL || (running != batch && known->sequence >= batch))
        return STANDING_PAST;
    if (first != NULL && batch_waits_for_program(first))
        return standing_queued(self);
    if (moves(stall_watch, &stall_watch->first))
        return STANDING_MOVES;
    if (running == batch)
        return STANDING_WAITS;
    return first != NULL ? standing_behind(stall_watch, first, self) : STANDING_KEEPS_OTHERS;
}
