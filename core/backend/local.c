/* local.c: the backend of teams of one rank, where every result is the input; and what backend.h asks of a
 * backend, in its smallest form.
 *
 * The life of a backend: available (on every rank, at hvd_init) -> open -> for each team that it may carry
 * batches for: add_team -> for each batch: can, start, test until it says something else than
 * HVD_IN_PROGRESS -> remove_team -> close. All of it is called by the holder of the progress, one call at a
 * time, so a backend needs no lock. What a backend knows lives behind [state], and what it knows of a team
 * behind [team]; nothing is global.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "backend/spans.h"
#include "backend/arith/reduce.h"

/* Elements that one call of test moves: this takes about 100 us, and then control gets its turn. */
#define SLICE_COUNT ((int64_t)64 * 1024)

/* Partial results of a slice, where they have a type of their own. */
struct local {
    _Alignas(CACHE_LINE_BYTES) char partials[SLICE_COUNT * sizeof(double)];
};

struct local_team {
    struct backend_batch batch; /* the one that runs. Its memory is borrowed, and its counts: until test has
                                 said that it is done */
    struct span_cursor spans;   /* where its elements lie: in one piece, or as the tensors do */
    int64_t count, done;
};

/* A question about this process and its job, without side effects: nothing is opened, loaded or kept. A
 * backend is used only where all ranks say yes, so it is no harm when only some of them can tell. Where it
 * says no *whyp is a phrase that follows "backend local: ". */
static bool local_available(const struct backend_env *env, const char **whyp)
{
    (void)env;
    *whyp = NULL;
    return true;
}

/* A question about a batch. Its answer depends on [need] only, which is equal on all ranks: so they agree on
 * it without talking. Everything that hvd.h offers is fine here; what it does not is refused, as types to
 * come will be. */
static bool local_supports(const struct backend_need *need)
{
    return need->ranks == 1 && dtype_bytes(need->dtype) != 0 &&
           (!coll_reduces(need->kind) || reduce_can(need->op, need->dtype));
}

/* Get ready. May block, but not beyond [deadline_us]. *statep is set on success only. */
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

/* Get ready for batches of these ranks: other backends connect to them here, and may block for that. *teamp
 * is set on success only. */
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

/* Give up what runs; nothing of its memory is touched any more. */
static void local_remove_team(void *state, void *team)
{
    (void)state;
    free(team);
}

/* Take the batch on. The struct is copied (the caller's may be gone after this call), the memory that it
 * points to is not. Nothing has to have happened when this returns. */
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

/* Is the output what the input is? A reduction may scale it, and makes any true value the same. */
static bool is_copy(const struct backend_batch *batch)
{
    return !coll_reduces(batch->need.kind) ||
           (batch->prescale == 1 && batch->postscale == 1 && batch->need.dtype != HVD_BOOL);
}

/* The reduction of one input is that input times both factors; as float32 in between where it is of a half
 * type, so that it is rounded once. */
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

/* Do a slice of the work. What comes from all ranks, or from the root, comes from the only one there is.
 * Where input is output there is nothing to copy; otherwise they do not overlap. */
static int local_test(void *state, void *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)rankp; /* nobody can be lost */
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
 * too, so that a child that lives on does not keep a connection open which the parent has closed. It frees
 * nothing: another thread may have been inside malloc when the process forked. */
static void local_after_fork(void *state)
{
    (void)state;
}

/* Free everything; the teams are gone already. */
static void local_close(void *state)
{
    free(state);
}

const struct backend_ops backend_local = {
    .id = BACKEND_LOCAL,
    .available = local_available,
    .open = local_open,
    .opens_early = true, /* it cannot fail later than at hvd_init, where an error is easiest to understand */
    .polled = false,     /* while it is not done test always moves something, so nobody sleeps on it */
    .spans = true,
    .can = local_supports,
    .add_team = local_add_team,
    .remove_team = local_remove_team,
    .start = local_start,
    .test = local_test,
    .after_fork = local_after_fork,
    .close = local_close,
};
