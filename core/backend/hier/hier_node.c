/* hier_node.c: what a team on two levels does inside a node: the inputs of its members come together piece
 * by piece for those that carry slices to other nodes, and results go back to all.
 *
 * As in shm.c each member has slots for what it gives to the others, and counts how far it has come; here a
 * slot holds a piece of each slice, and the slots of results one of each too. Pieces of all batches are
 * numbered on and on, turn by turn: turn p has piece p of every slice that has so many. Each member only ever
 * adds to its counts:
 *
 *   given    it has put its inputs of turn p into its slot
 *   mixed    it has read what it needs of all members' slots of turn p: it carries a slice
 *   shared   it has put results of turn p, of its slice, into their slot
 *   taken    it has copied the results of turn p out
 * From that follows who may do what, and that no slot is overwritten while somebody still needs it:
 *   give p   when all have mixed p - SLOTS
 *   mix p    when all have given p; the plane between nodes asks for it, in its time
 *   share p  when the result is there, and all have taken p - SLOTS
 *   take p   when all have shared p
 * Inputs and results are numbered each on their own, as in some kinds a node gets more or less than it gives.
 *
 * Only sharing and taking wait for results, and nothing but the end waits for them: a result lies in the
 * output of the member that carries it, or in memory set aside where it is of several spans, and that place
 * is free from the start. A partial result may have to wait for inputs, and these for earlier turns to be
 * mixed, on all slices. That is no circle: of the earliest turn that some slice has yet to mix on some node
 * all inputs can be given on all nodes, and no partial result of a later one is before it on its way.
 *
 * A member that writes nonsense into the shared memory spoils results, or keeps the others waiting until they
 * are told that it failed. It does not make them read or write elsewhere: where a piece lies each knows
 * itself.
 */
#include "backend/hier/hier_node.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache_line.h"
#include "base/clock.h"
#include "backend/sched/blocks.h"
#include "backend/spans.h"
#include "backend/arith/reduce.h"

#define SLOTS    HIER_SLOTS
#define ENTER_US INT64_C(5000000) /* for a place in the arena, where a rank died over its table */

enum count { GIVEN, MIXED, SHARED, TAKEN, COUNTS };

/* What one member tells the others; written by it alone. */
struct line {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t counts[COUNTS];
};

struct hier_stage {
    struct hier_seat seat;
    int first, size;    /* this node's members of the team */
    int self;           /* of these, from 0 */
    int slice;          /* that it carries, or -1 */
    void *own;          /* the lines of a node's only member; NULL: they are in the arena */
    struct line *lines; /* [size] */
    char *slots;        /* [size + 1][SLOTS][slices] of chunk_bytes; the last member's are the results */
    int64_t chunk_bytes;
    uint64_t seen[COUNTS];               /* all members have come this far, as last looked */
    uint64_t at[COUNTS];                 /* how far this one has */
    uint64_t begin[COUNTS], end[COUNTS]; /* of the batch that runs */
    struct plane_batch batch;
    struct places places; /* of it */
    struct reduction reduction;
    int64_t element_bytes;
    struct hier_cut cut;
    int64_t *begins;                 /* [nodes + 1], the cut's */
    struct hier_walk *gives, *takes; /* [slices] */
    /* this member's slice */
    struct plane_batch carried;
    struct plane_source source;
    int64_t *counts, *starts; /* [nodes]: of it in each block, and before it */
    struct hier_walk folds, shares;
    int64_t fold_total, share_total; /* pieces */
    int64_t own_pieces;              /* results that are its node's inputs as they are: the first ones */
    int64_t folded, arrived;
    char *aside; /* its results, where they are of several spans */
    int64_t aside_bytes;
};

/* ---- Counting ------------------------------------------------------------------------------- */

/* Have all members come to [position] in [count]? */
static bool all_have(struct hier_stage *stage, enum count count, uint64_t position)
{
    if (stage->seen[count] >= position)
        return true;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < stage->size && least >= position; i++) {
        uint64_t value = atomic_load_explicit(&stage->lines[i].counts[count], memory_order_acquire);
        least = value < least ? value : least;
    }
    if (least < position)
        return false;
    stage->seen[count] = least;
    return true;
}

static void come_to(struct hier_stage *stage, enum count count, uint64_t position)
{
    stage->at[count] = position;
    atomic_store_explicit(&stage->lines[stage->self].counts[count], position, memory_order_release);
}

/* [done] of its [total] pieces are behind it: where it has no more, it is through with all turns. */
static void come_on(struct hier_stage *stage, enum count count, int64_t done, int64_t total)
{
    come_to(stage, count, done >= total ? stage->end[count] : stage->begin[count] + (uint64_t)done);
}

static uint64_t before(uint64_t position)
{
    return position < SLOTS ? 0 : position - SLOTS + 1;
}

/* Results of this member's slice that are in their place. */
static int64_t results_there(const struct hier_stage *stage)
{
    return stage->folded < stage->own_pieces ? stage->folded : stage->own_pieces + stage->arrived;
}

static bool may_go(struct hier_stage *stage, enum count count)
{
    uint64_t at = stage->at[count];
    if (at >= stage->end[count])
        return false;
    switch (count) {
    case GIVEN:
        return all_have(stage, MIXED, before(at));
    case SHARED:
        return (int64_t)(at - stage->begin[SHARED]) < results_there(stage) &&
               all_have(stage, TAKEN, before(at));
    case TAKEN:
        return all_have(stage, SHARED, at + 1);
    default:
        return false;
    }
}

/* ---- Where things are ----------------------------------------------------------------------- */

static bool reduces(const struct hier_stage *stage)
{
    return stage->cut.kind == PLANE_ALLREDUCE || stage->cut.kind == PLANE_REDUCESCATTER;
}

static char *slot_of(const struct hier_stage *stage, int member, uint64_t position, int slice)
{
    int64_t turn = (int64_t)member * SLOTS + (int64_t)(position % SLOTS);
    return stage->slots + (turn * stage->seat.nodes->slices + slice) * stage->chunk_bytes;
}

static char *result_slot(const struct hier_stage *stage, uint64_t position, int slice)
{
    return slot_of(stage, stage->size, position, slice);
}

/* What belongs to a member of this node, of a batch with parts: the share of it, or its input. */
static struct run part_of_member(const struct hier_stage *stage, int member)
{
    const int64_t *counts = stage->batch.counts + stage->first;
    struct run part = {stage->cut.begins[stage->seat.nodes->node], counts[member]};
    for (int i = 0; i < member; i++)
        part.begin += counts[i];
    return part;
}

/* What of a piece [member] of this node gives to it. */
static struct run input_in(const struct hier_stage *stage, int member, struct run piece)
{
    bool is_root = stage->first + member == stage->batch.root;
    if (stage->cut.kind == PLANE_ALLGATHER)
        return run_overlap(piece, part_of_member(stage, member));
    if (stage->cut.kind == PLANE_BROADCAST && !is_root)
        return (struct run){piece.begin, 0};
    return piece;
}

/* What of a piece this member gets. */
static struct run output_in(const struct hier_stage *stage, struct run piece)
{
    bool is_root = stage->first + stage->self == stage->batch.root;
    if (stage->cut.kind == PLANE_REDUCESCATTER)
        return run_overlap(piece, part_of_member(stage, stage->self));
    if (stage->cut.kind == PLANE_BROADCAST && is_root && stage->batch.input == stage->batch.output)
        return (struct run){piece.begin, 0};
    return piece;
}

/* Where in its input a member has an element of the batch. */
static int64_t input_element(const struct hier_stage *stage, int64_t element)
{
    bool gathers = stage->cut.kind == PLANE_ALLGATHER;
    return gathers ? element - part_of_member(stage, stage->self).begin : element;
}

/* Where the results of a piece of this member's slice lie: in the output, or aside where they are of several
 * spans of it. */
static char *place_of_result(struct hier_stage *stage, struct run piece)
{
    struct place place = place_at(&stage->places, piece.begin, piece.count);
    if (place.count == piece.count)
        return place.output;
    int64_t begin = hier_part(&stage->cut, 0, stage->slice).begin;
    return stage->aside + (piece.begin - begin) * stage->element_bytes;
}

/* ---- Giving, sharing, taking ---------------------------------------------------------------- */

static void give(struct hier_stage *stage, uint64_t position)
{
    struct run piece;
    for (int slice = 0; slice < stage->seat.nodes->slices; slice++) {
        if (slice == stage->slice || !hier_walk_on(&stage->cut, slice, &stage->gives[slice], &piece))
            continue;
        struct run mine = input_in(stage, stage->self, piece);
        char *slot = slot_of(stage, stage->self, position, slice);
        places_read(&stage->places, slot + (mine.begin - piece.begin) * stage->element_bytes,
                    input_element(stage, mine.begin), mine.count);
    }
    come_to(stage, GIVEN, position + 1);
}

static void share(struct hier_stage *stage, uint64_t position)
{
    struct run piece;
    if (hier_walk_on(&stage->cut, stage->slice, &stage->shares, &piece)) {
        const char *result = place_of_result(stage, piece);
        if (stage->size > 1)
            memcpy(result_slot(stage, position, stage->slice), result,
                   (size_t)(piece.count * stage->element_bytes));
        if (stage->batch.spans != NULL)
            places_write(&stage->places, piece.begin, result, piece.count);
    }
    come_on(stage, SHARED, (int64_t)(position + 1 - stage->begin[SHARED]), stage->share_total);
}

static void take(struct hier_stage *stage, uint64_t position)
{
    struct run piece;
    for (int slice = 0; slice < stage->seat.nodes->slices; slice++) {
        if (slice == stage->slice || !hier_walk_on(&stage->cut, slice, &stage->takes[slice], &piece))
            continue;
        struct run mine = output_in(stage, piece);
        const char *slot = result_slot(stage, position, slice);
        places_write(&stage->places, mine.begin, slot + (mine.begin - piece.begin) * stage->element_bytes,
                     mine.count);
    }
    come_to(stage, TAKEN, position + 1);
}

/* ---- Mixing: what the plane between nodes asks for ------------------------------------------ */

/* out = left op the members' inputs; theirs [at] elements into the piece in their slots, ours at [mine]. */
static void fold_run(struct hier_stage *stage, uint64_t position, int64_t at, struct place mine, void *out,
                     void *left)
{
    const struct reduction *reduction = &stage->reduction;
    void *sum = left != NULL ? left : out; /* out may be ours, which is still to be read */
    const void *so_far = left;
    for (int i = 0; i < stage->size; i++) {
        const char *slot = slot_of(stage, i, position, stage->slice) + at * stage->element_bytes;
        const char *input = i == stage->self ? mine.input : slot;
        void *to = i == stage->size - 1 ? out : sum;
        if (so_far == NULL && stage->size > 1 && reduce_is_plain(reduction)) {
            so_far = input;
            continue;
        }
        if (so_far == NULL)
            reduce_begin(reduction, to, input, mine.count);
        else
            reduce_fold(reduction, to, so_far, input, mine.count);
        so_far = to;
    }
}

static void fold_inputs(struct hier_stage *stage, uint64_t position, struct run piece, char *out, char *left)
{
    int64_t partial_bytes = (int64_t)dtype_bytes(stage->reduction.partial);
    int64_t at = 0;
    while (at < piece.count) {
        struct place mine = place_at(&stage->places, piece.begin + at, piece.count - at);
        fold_run(stage, position, at, mine, out + at * partial_bytes,
                 left == NULL ? NULL : left + at * partial_bytes);
        at += mine.count;
    }
}

static void gather_inputs(struct hier_stage *stage, uint64_t position, struct run piece, char *out)
{
    for (int i = 0; i < stage->size; i++) {
        struct run input = input_in(stage, i, piece);
        int64_t shift = (input.begin - piece.begin) * stage->element_bytes;
        size_t bytes = (size_t)(input.count * stage->element_bytes);
        if (i == stage->self)
            places_read(&stage->places, out + shift, input_element(stage, input.begin), input.count);
        else if (bytes > 0)
            memcpy(out + shift, slot_of(stage, i, position, stage->slice) + shift, bytes);
    }
}

static bool source_ready(void *arg, int64_t number)
{
    struct hier_stage *stage = arg;
    return all_have(stage, GIVEN, stage->begin[GIVEN] + (uint64_t)number + 1);
}

static void source_fold(void *arg, void *out, void *left)
{
    struct hier_stage *stage = arg;
    struct run piece = {0, 0};
    uint64_t position = stage->begin[MIXED] + (uint64_t)stage->folded;
    hier_walk_on(&stage->cut, stage->slice, &stage->folds, &piece);
    if (reduces(stage))
        fold_inputs(stage, position, piece, out, left);
    else
        gather_inputs(stage, position, piece, out);
    come_on(stage, MIXED, ++stage->folded, stage->fold_total);
}

static void *source_place(void *arg, const struct span *span)
{
    struct hier_stage *stage = arg;
    int64_t begin = hier_part(&stage->cut, span->block, stage->slice).begin;
    return place_of_result(stage,
                           (struct run){begin + span->offset - stage->starts[span->block], span->count});
}

static void source_arrived(void *arg)
{
    struct hier_stage *stage = arg;
    stage->arrived++;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* Room for this member's results beside the output. */
static int set_aside(struct hier_stage *stage, struct hvd_error *err)
{
    int64_t bytes = hier_part(&stage->cut, 0, stage->slice).count * stage->element_bytes;
    if (bytes <= stage->aside_bytes)
        return HVD_OK;
    free(stage->aside);
    stage->aside_bytes = 0;
    stage->aside = aligned_alloc(
        CACHE_LINE_BYTES, (size_t)((bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES));
    if (stage->aside == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %lld bytes of results; lower --hvd-fusion",
                         (long long)bytes);
    stage->aside_bytes = bytes;
    return HVD_OK;
}

/* The batch of those that carry this member's slice; false where there is nothing in it. */
static bool carry_slice(struct hier_stage *stage)
{
    const struct plane_batch *batch = &stage->batch;
    int64_t count = 0;
    for (int block = 0; block < stage->cut.blocks; block++) {
        stage->starts[block] = count;
        stage->counts[block] = hier_part(&stage->cut, block, stage->slice).count;
        count += stage->counts[block];
    }
    stage->source.longest = stage->cut.longest;
    stage->carried = (struct plane_batch){.need = batch->need,
                                          .root = stage->cut.root_node,
                                          .sequence = batch->sequence,
                                          .prescale = batch->prescale,
                                          .postscale = batch->postscale,
                                          .count = count,
                                          .counts = stage->counts,
                                          .source = &stage->source};
    return count > 0;
}

/* What this member has no part in it has done. */
static void plan_counts(struct hier_stage *stage)
{
    struct hier_walk given = hier_given(&stage->cut);
    struct hier_walk gotten = hier_gotten(&stage->cut);
    bool alone = stage->size == 1;
    bool gives = stage->cut.kind != PLANE_BROADCAST || stage->batch.root == stage->first + stage->self;
    bool shares = stage->slice >= 0 && (!alone || stage->batch.spans != NULL);
    for (int count = 0; count < COUNTS; count++) {
        const struct hier_walk *way = count <= MIXED ? &given : &gotten;
        stage->begin[count] = stage->end[count];
        stage->end[count] += (uint64_t)hier_pieces(&stage->cut, 0, *way);
    }
    for (int slice = 0; slice < stage->seat.nodes->slices; slice++) {
        stage->gives[slice] = given;
        stage->takes[slice] = gotten;
    }
    stage->folds = given;
    stage->shares = gotten;
    stage->folded = stage->arrived = 0;
    stage->fold_total = stage->slice >= 0 ? hier_pieces(&stage->cut, stage->slice, given) : 0;
    stage->share_total = shares ? hier_pieces(&stage->cut, stage->slice, gotten) : 0;
    stage->own_pieces = reduces(stage) ? 0 : stage->fold_total;
    come_on(stage, MIXED, 0, stage->fold_total);
    come_on(stage, SHARED, 0, stage->share_total);
    if (alone || !gives)
        come_to(stage, GIVEN, stage->end[GIVEN]);
    if (alone)
        come_to(stage, TAKEN, stage->end[TAKEN]);
}

int hier_stage_start(struct hier_stage *stage, const struct plane_batch *batch,
                     const struct plane_batch **slicep, struct hvd_error *err)
{
    const struct plane_need *need = &batch->need;
    bool reducing = need->kind == PLANE_ALLREDUCE || need->kind == PLANE_REDUCESCATTER;
    enum hvd_dtype partial = reducing ? need->partial : need->dtype;
    size_t larger =
        dtype_bytes(partial) > dtype_bytes(need->dtype) ? dtype_bytes(partial) : dtype_bytes(need->dtype);
    stage->batch = *batch;
    stage->reduction =
        (struct reduction){need->dtype, partial, need->op, batch->prescale, batch->postscale, need->ranks};
    stage->element_bytes = (int64_t)dtype_bytes(need->dtype);
    stage->places = (struct places){&stage->batch, stage->element_bytes, 0};
    hier_cut_batch(&stage->cut, stage->seat.nodes, batch, stage->chunk_bytes / (int64_t)larger,
                   stage->begins);
    int rc = stage->slice >= 0 && batch->spans != NULL ? set_aside(stage, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    plan_counts(stage);
    *slicep = stage->slice >= 0 && carry_slice(stage) ? &stage->carried : NULL;
    return HVD_OK;
}

/* The last first, as others wait for it. */
bool hier_stage_go_on(struct hier_stage *stage)
{
    static void (*const steps[COUNTS])(struct hier_stage * stage, uint64_t position) = {
        [GIVEN] = give, [SHARED] = share, [TAKEN] = take};
    for (int count = TAKEN; count >= GIVEN; count--) {
        if (!may_go(stage, (enum count)count))
            continue;
        steps[count](stage, stage->at[count]);
        return true;
    }
    return false;
}

bool hier_stage_is_done(const struct hier_stage *stage)
{
    bool done = true;
    for (int count = 0; count < COUNTS; count++)
        done = done && stage->at[count] == stage->end[count];
    return done;
}

/* ---- Beginning and end ---------------------------------------------------------------------- */

int hier_stage_slice(const struct hier_stage *stage)
{
    return stage->slice;
}

void hier_stage_set_chunk(struct hier_stage *stage, int64_t bytes)
{
    stage->chunk_bytes = bytes;
}

static int64_t chunk_bytes_of(int slices)
{
    int64_t bytes = HIER_TURN_BYTES / slices / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    return bytes < CACHE_LINE_BYTES ? CACHE_LINE_BYTES : bytes < HIER_CHUNK_BYTES ? bytes : HIER_CHUNK_BYTES;
}

static size_t lines_bytes_of(int size)
{
    return (size_t)size * sizeof(struct line);
}

size_t hier_stage_bytes(const struct hier_nodes *nodes, int node)
{
    int size = nodes->firsts[node + 1] - nodes->firsts[node];
    int64_t slots = ((int64_t)size + 1) * SLOTS * nodes->slices;
    return lines_bytes_of(size) + (size_t)(slots * chunk_bytes_of(nodes->slices));
}

/* The only member of a node shares nothing with anybody. */
static int enter(struct hier_stage *stage, int64_t deadline_us, struct hvd_error *err)
{
    const struct hier_nodes *nodes = stage->seat.nodes;
    size_t lines_bytes = lines_bytes_of(stage->size);
    const struct arena_claim claim = {.set = stage->seat.claim,
                                      .users = stage->size,
                                      .bytes = hier_stage_bytes(nodes, nodes->node),
                                      .zeroed = lines_bytes};
    int64_t enough_us = clock_us() + ENTER_US;
    void *region = NULL;
    if (stage->size == 1) {
        stage->own = region = aligned_alloc(CACHE_LINE_BYTES, lines_bytes);
        if (region == NULL)
            return error_set_errno(err, "no memory for %zu bytes", lines_bytes);
        memset(region, 0, lines_bytes);
    } else {
        int rc = arena_enter(stage->seat.arena, &claim, deadline_us < enough_us ? deadline_us : enough_us,
                             &region, err);
        if (rc != HVD_OK)
            return rc;
    }
    stage->lines = region;
    stage->slots = (char *)region + lines_bytes;
    return HVD_OK;
}

static bool allocate(struct hier_stage *stage)
{
    size_t nodes = (size_t)stage->seat.nodes->count;
    size_t slices = (size_t)stage->seat.nodes->slices;
    stage->begins = calloc(nodes + 1, sizeof(*stage->begins));
    stage->counts = calloc(nodes, sizeof(*stage->counts));
    stage->starts = calloc(nodes, sizeof(*stage->starts));
    stage->gives = calloc(slices, sizeof(*stage->gives));
    stage->takes = calloc(slices, sizeof(*stage->takes));
    return stage->begins != NULL && stage->counts != NULL && stage->starts != NULL && stage->gives != NULL &&
           stage->takes != NULL;
}

int hier_stage_open(struct hier_stage **stagep, const struct hier_seat *seat, int64_t deadline_us,
                    struct hvd_error *err)
{
    const struct hier_nodes *nodes = seat->nodes;
    struct hier_stage *stage = calloc(1, sizeof(*stage));
    int rc = HVD_OK;
    if (stage == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*stage));
    stage->seat = *seat;
    stage->first = nodes->firsts[nodes->node];
    stage->size = nodes->firsts[nodes->node + 1] - stage->first;
    stage->self = seat->team->rank - stage->first;
    stage->slice = stage->self < nodes->slices ? stage->self : -1;
    stage->chunk_bytes = chunk_bytes_of(nodes->slices);
    stage->source = (struct plane_source){.arg = stage,
                                          .ready = source_ready,
                                          .fold = source_fold,
                                          .place = source_place,
                                          .arrived = source_arrived};
    if (!allocate(stage))
        rc = error_set_errno(err, "no memory for a process set on %d nodes", nodes->count);
    if (rc == HVD_OK)
        rc = enter(stage, deadline_us, err);
    if (rc != HVD_OK) {
        hier_stage_close(stage);
        return rc;
    }
    *stagep = stage;
    return HVD_OK;
}

void hier_stage_close(struct hier_stage *stage)
{
    if (stage == NULL)
        return;
    if (stage->lines != NULL && stage->own == NULL)
        arena_leave(stage->seat.arena, stage->seat.claim);
    free(stage->own);
    free(stage->begins);
    free(stage->counts);
    free(stage->starts);
    free(stage->gives);
    free(stage->takes);
    free(stage->aside);
    free(stage);
}
