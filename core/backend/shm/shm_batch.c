/* shm_batch.c: a batch of backend shm: in place if it may go that way, otherwise through the pipeline. */
#include <string.h>

#include "backend/shm/shm_team.h"
#include "base/dtype.h"

static struct reduce_plan steps_of(const struct backend_batch *batch)
{
    const struct reduction reduction = {batch->need.dtype, batch->need.partial, batch->need.op,
                                        batch->prescale,   batch->postscale,    batch->need.ranks};
    return coll_reduces(batch->need.kind) ? reduce_plan_of(&reduction) : (struct reduce_plan){0};
}

void shm_batch_begin(struct shm_team *team, const struct backend_batch *batch)
{
    team->batch = *batch;
    team->steps = steps_of(batch);
    team->element_bytes = (int64_t)dtype_bytes(batch->need.dtype);
    team->begin = team->end;
    if (!shm_direct_begin(team))
        shm_pipeline_begin(team);
}

int shm_batch_progress(struct shm_team *team, bool *movedp, struct hvd_error *err)
{
    return team->direct.phase != DIRECT_OFF ? shm_direct_progress(team, movedp, err)
                                            : shm_pipeline_progress(team, movedp, err);
}

void shm_batch_awaited(struct shm_team *team, uint64_t awaited[SLOTS_COUNTERS])
{
    memset(awaited, 0, SLOTS_COUNTERS * sizeof(awaited[0]));
    if (team->direct.phase != DIRECT_OFF)
        shm_direct_awaited(team, awaited);
    else
        shm_pipeline_awaited(team, awaited);
}
