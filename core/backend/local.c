/* local.c: the backend of teams of one rank, where every result is the input; it shows in the smallest form
 * what backend.h asks of a backend.
 *
 * The life of a backend: available (on every rank, at hvd_init) -> open -> for each team that it may carry
 * for: add_team -> for each batch: supports, start, test until that returns something else than
 * HVD_IN_PROGRESS -> remove_team -> close. The progress driver makes all calls, one at a time, so a backend
 * needs no lock. A backend keeps its own state behind [state] and that of a team behind [team]; nothing is
 * global.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "backend/spans.h"
#include "backend/arith/reduce.h"
#include "base/dtype.h"

/* Elements that one call of test moves. This takes about 100 us; then control messages get their turn. */
#define SLICE_COUNT ((int64_t)64 * 1024)

/* Partial results of a slice, where they have a type of their own. */
struct local {
    _Alignas(CACHE_LINE_BYTES) char partials[SLICE_COUNT * sizeof(double)];
};

struct local_team {
    struct backend_batch batch; /* the one that runs. Its memory and its counts stay the caller's, and valid
                                 until test has returned that it is complete */
    struct span_cursor spans;   /* where its elements lie: in one buffer or in the tensors */
    int64_t count, done;
};

/* A question about this process and its job, without side effects: nothing is opened, loaded or kept. A
 * backend is used only if all ranks say yes, so it does not matter if only some of them can tell that it is
 * not available. Then *whyp is a phrase that follows "backend local: ". */
static bool local_available(const struct backend_env *env, const char **whyp)
{
    (void)env;
    *whyp = NULL;
    return true;
}

/* A question about a batch. The answer depends on [need] only, which is equal on all ranks, so they agree on
 * it without communication. All types and operations of hvd.h are supported; any other number is refused,
 * such as a type that a later version adds. */
static bool local_supports(const struct backend_need *need)
{
    return need->ranks == 1 && dtype_bytes(need->dtype) != 0 &&
           (!coll_reduces(need->kind) || reduce_can(need->op, need->dtype));
}

/* May block, but not beyond [deadline_us]. *statep is set on success only. */
static int local_open(const struct backend_env *env, int64_t deadline_us, void **statep,
                      struct hvd_error *err)
{
    (void)env;
    (void)deadline_us;
    struct local *local = aligned_alloc(CACHE_LINE_BYTES, sizeof(*local));
    if (local == NULL)
        return error_set_errno(err, "backend local: no memory for %zu bytes", sizeof(*local));
    *statep = local;
    return HVD_OK;
}

/* Prepare for batches of these ranks: other backends connect to them here, and may block for that. *teamp is
 * set on success only. */
static int local_add_team(void *state, const struct team *team, int64_t deadline_us, void **teamp,
                          struct hvd_error *err)
{
    (void)state;
    (void)team;
    (void)deadline_us;
    struct local_team *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return error_set_errno(err, "backend local: no memory for %zu bytes", sizeof(*self));
    *teamp = self;
    return HVD_OK;
}

/* Give up a batch that runs; its memory is not touched any more. */
static void local_remove_team(void *state, void *team)
{
    (void)state;
    free(team);
}

/* Begin a batch. The struct is copied, as the caller's may be gone after this call; the memory that it points
 * to is not. No work has to be done yet when this returns. */
static int local_start(void *state, void *team, const struct backend_batch *batch, struct hvd_error *err)
{
    (void)state;
    (void)err;
    struct local_team *self = team;
    self->batch = *batch;
    self->spans = (struct span_cursor){&self->batch, (int64_t)dtype_bytes(batch->need.dtype), 0};
    self->count = batch->need.kind == COLL_ALLTOALL ? batch->counts[0] : batch->count;
    self->done = 0;
    return HVD_OK;
}

/* Is the output a copy of the input? A reduction may scale, and makes every true value 1. */
static bool is_copy(const struct backend_batch *batch)
{
    return !coll_reduces(batch->need.kind) ||
           (batch->prescale == 1 && batch->postscale == 1 && batch->need.dtype != HVD_BOOL);
}

/* The reduction of one input is that input times both factors. A narrow type becomes float32 in between, so
 * that the result is rounded once. */
static void reduce_slice(struct local *local, const struct backend_batch *batch, void *output,
                         const void *input, int64_t count)
{
    const struct reduction reduction = {
        .dtype = batch->need.dtype,
        .partial = batch->need.partial,
        .op = batch->need.op,
        .prescale = batch->prescale,
        .postscale = batch->postscale,
        .ranks = 1,
    };
    if (reduce_input_is_partial(&reduction)) {
        reduce_finish(&reduction, output, input, count);
        return;
    }
    reduce_begin(&reduction, local->partials, input, count);
    reduce_finish(&reduction, output, local->partials, count);
}

/* Do a slice of the work. The only rank is also the root. Where input is output there is nothing to copy;
 * otherwise they do not overlap. */
static int local_test(void *state, void *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)rankp; /* no other rank can be lost */
    (void)err;
    struct local_team *self = team;
    int64_t left = self->count - self->done;
    int64_t end = self->done + (left < SLICE_COUNT ? left : SLICE_COUNT);
    *movedp = true;
    while (self->done < end) {
        struct contig place = spans_at(&self->spans, self->done, end - self->done);
        if (!is_copy(&self->batch))
            reduce_slice(state, &self->batch, place.output, place.input, place.count);
        else if (place.output != place.input)
            memcpy(place.output, place.input, (size_t)(place.count * self->spans.bytes));
        self->done += place.count;
    }
    return self->done < self->count ? HVD_IN_PROGRESS : HVD_OK;
}

/* In the child of a fork: a backend that holds descriptors closes the child's copies here, those of its teams
 * too, so that the child does not keep a connection open that the parent has closed. It frees nothing:
 * another thread may have been inside malloc when the process forked. */
static void local_after_fork(void *state)
{
    (void)state;
}

/* Free everything; all teams have been removed. */
static void local_close(void *state)
{
    free(state);
}

const struct backend_ops backend_local = {
    .id = BACKEND_LOCAL,
    .available = local_available,
    .open = local_open,
    .opens_early = true, /* an error is easiest to understand at hvd_init */
    .polled = false, /* until it is complete each test moves something, so the driver never sleeps on it */
    .spans_from = 1,
    .supports = local_supports,
    .add_team = local_add_team,
    .remove_team = local_remove_team,
    .start = local_start,
    .test = local_test,
    .after_fork = local_after_fork,
    .close = local_close,
};
