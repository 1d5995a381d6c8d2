/* local.c: the plane of a job of one rank, where every result is the input; and what plane.h asks of a plane,
 * in its smallest form.
 *
 * The life of a plane: available (on every rank, at hvd_init) -> open -> for each batch: can, start, test
 * until it says something else than HVD_IN_PROGRESS -> close. All of it is called by the holder of the baton,
 * one call at a time, so a plane needs no lock. What a plane knows lives behind [state]; nothing is global.
 */
#include <stdlib.h>
#include <string.h>

#include "plane/plane.h"

/* Bytes that one call of test moves: a copy of this size takes about 100 us, and then control gets its turn.
 */
#define SLICE_BYTES ((int64_t)512 * 1024)

struct local {
    struct plane_batch
        batch; /* the one that runs. Its memory is borrowed: until test has said that it is done */
    int64_t bytes, done_bytes;
};

/* A question about this process and its job, without side effects: nothing is opened, loaded or kept. A plane
 * is used only where all ranks say yes, so it is no harm when only some of them can tell. The phrase follows
 * "plane local: ". */
static bool local_available(const struct plane_env *env, const char **whyp)
{
    *whyp = "it carries nothing between ranks, and the job has more than one";
    return env->job->size == 1;
}

/* A question about a batch. Its answer depends on [need] only, which is equal on all ranks: so they agree on
 * it without talking. Everything that hvd.h offers is fine here; what it does not is refused, as types to
 * come will be. */
static bool local_can(const struct plane_need *need)
{
    return dtype_bytes(need->dtype) != 0 && (need->kind == PLANE_BROADCAST || op_name(need->op) != NULL);
}

/* Get ready. The only call that may block, and then not beyond [deadline_us]. *statep is set on success only.
 */
static int local_open(const struct plane_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    (void)env;
    (void)deadline_us;
    struct local *local = calloc(1, sizeof(*local));
    if (local == NULL)
        return error_set_errno(err, "plane local: no memory for %zu bytes", sizeof(*local));
    *statep = local;
    return HVD_OK;
}

/* Take the batch on. The struct is copied (the caller's may be gone after this call), the memory that it
 * points to is not. Nothing has to have happened when this returns. */
static int local_start(void *state, const struct plane_batch *batch, struct hvd_error *err)
{
    (void)err;
    struct local *local = state;
    local->batch = *batch;
    local->bytes = batch->count * (int64_t)dtype_bytes(batch->need.dtype);
    local->done_bytes = batch->input == batch->output ? local->bytes : 0;
    return HVD_OK;
}

/* Do a slice of the work. The sum over one rank is its input, and so is the average; a broadcast comes from
 * the only rank there is. Where input is output there is nothing to do at all; otherwise they do not overlap.
 */
static int local_test(void *state, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)rankp; /* nobody can be lost */
    (void)err;
    struct local *local = state;
    int64_t left = local->bytes - local->done_bytes;
    int64_t slice = left < SLICE_BYTES ? left : SLICE_BYTES;
    *movedp = true;
    if (slice > 0)
        memcpy((char *)local->batch.output + local->done_bytes,
               (const char *)local->batch.input + local->done_bytes, (size_t)slice);
    local->done_bytes += slice;
    return local->done_bytes < local->bytes ? HVD_IN_PROGRESS : HVD_OK;
}

/* In the child of a fork: a plane that holds descriptors closes the child's copies here, so that a child that
 * lives on does not keep a connection open which the parent has closed. It frees nothing: another thread may
 * have been inside malloc when the process forked. */
static void local_after_fork(void *state)
{
    (void)state;
}

/* Give up what runs, free everything. */
static void local_close(void *state)
{
    free(state);
}

const struct plane_ops plane_local = {
    .id = PLANE_LOCAL,
    .available = local_available,
    .open = local_open,
    .opens_early = true, /* it cannot fail later than at hvd_init, where an error is easiest to understand */
    .polled = false,     /* while it is not done test always moves something, so nobody sleeps on it */
    .can = local_can,
    .start = local_start,
    .test = local_test,
    .after_fork = local_after_fork,
    .close = local_close,
};
