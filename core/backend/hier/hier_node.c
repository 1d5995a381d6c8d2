/* hier_node.c: the part of a hierarchical collective inside a node: it brings the members' inputs to those
 * that carry slices to other nodes, chunk by chunk, and distributes the results.
 *
 * Slots and counters are as counters.h says. A slot holds a chunk of each slice, and so does a result slot:
 * position p has chunk p of every slice that is long enough. The steps of a member are:
 *
 *   published  it has written its inputs of p into its slot
 *   reduced    it carries a slice, and has read what it needs from all members' slots of p
 *   returned   it has written the results of p of its slice into their slot
 *   collected  it has copied the results of p out
 * What each step waits for:
 *   publish p  all have reduced p - SLOTS
 *   reduce p   all have published p; the backend between nodes calls for it
 *   return p   the result is there, and all have collected p - SLOTS
 *   collect p  all have returned p
 * Inputs and results are numbered separately, as in some collectives a node gets more or less than it sends.
 *
 * There is no deadlock. Only return and collect wait for results, and only the end of the batch waits for
 * them: the place of a result, in the output or in memory set aside, is free from the start. A partial result
 * may wait for inputs, and these for earlier positions to be reduced on all slices. Take the earliest
 * position that some slice has yet to reduce on some node: all its inputs can be published on all nodes, and
 * no partial result of a later position is ahead of it.
 *
 * A member that overwrites the shared memory can spoil results, or keep the others waiting until they learn
 * that it failed. It cannot make them read or write elsewhere: each computes for itself where a chunk lies.
 */
#include "backend/hier/hier_node.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "backend/sched/blocks.h"
#include "backend/spans.h"
#include "backend/arith/reduce.h"
#include "base/dtype.h"
#include "base/round_up.h"

enum hier_counter { PUBLISHED, REDUCED, RETURNED, COLLECTED, COUNTERS };

/* One member's counters; it alone writes them. */
struct hier_line {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t counts[COUNTERS];
};

struct hier_node {
    struct hier_params params;
    int first, size; /* this node's members of the team */
    int self;        /* this member's place among them, from 0 */
    int slice;       /* the slice that it carries, or -1 */
    void *own;       /* the lines, if this is the only member of its node; NULL: they are in the arena */
    struct hier_line *lines; /* [size] */
    char *slots;             /* [size + 1][SLOTS][slices] of chunk_bytes; the last member's are the results */
    int64_t chunk_bytes;
    struct counters all[COUNTERS];           /* the members' counters */
    uint64_t reached[COUNTERS];              /* this member's */
    uint64_t begin[COUNTERS], end[COUNTERS]; /* positions of the batch that runs */
    struct backend_batch batch;
    struct span_cursor spans; /* over the batch */
    struct reduction reduction;
    int64_t element_bytes;
    struct hier_split split;
    int64_t *begins;                                       /* [nodes + 1]: the memory of split.begins */
    struct hier_cursor *publish_cursors, *collect_cursors; /* [slices] */
    /* this member's slice */
    struct backend_batch carried;
    struct backend_source source;
    int64_t *counts, *starts; /* [nodes]: its elements in each block, and before each block */
    struct hier_cursor fold_cursor, return_cursor;
    int64_t fold_total, return_total; /* chunks */
    int64_t own_pieces; /* without a reduction: results that are inputs of this node; they come first */
    int64_t folded, arrived;
    char *aside; /* its results, if they are spread over several spans */
    int64_t aside_bytes;
};

/* ---- Counting ------------------------------------------------------------------------------- */

/* Have all members reached [position] in [count]? */
static bool all_reached(struct hier_node *hier_node, enum hier_counter count, uint64_t position)
{
    return counters_all_reached(&hier_node->all[count], position);
}

static void advance_to(struct hier_node *hier_node, enum hier_counter count, uint64_t position)
{
    hier_node->reached[count] = position;
    counter_advance(&hier_node->lines[hier_node->self].counts[count], position);
}

/* This member has done [done] of its [total] chunks. After the last one it also skips the positions at which
 * only longer slices have a chunk. */
static void advance_by(struct hier_node *hier_node, enum hier_counter count, int64_t done, int64_t total)
{
    advance_to(hier_node, count,
               done >= total ? hier_node->end[count] : hier_node->begin[count] + (uint64_t)done);
}

/* How many results of this member's slice are in their place. */
static int64_t results_there(const struct hier_node *hier_node)
{
    return hier_node->folded < hier_node->own_pieces ? hier_node->folded
                                                     : hier_node->own_pieces + hier_node->arrived;
}

static bool may_advance(struct hier_node *hier_node, enum hier_counter count)
{
    uint64_t at = hier_node->reached[count];
    if (at >= hier_node->end[count])
        return false;
    switch (count) {
    case PUBLISHED:
        return all_reached(hier_node, REDUCED, counters_reusable_at(at));
    case RETURNED:
        return (int64_t)(at - hier_node->begin[RETURNED]) < results_there(hier_node) &&
               all_reached(hier_node, COLLECTED, counters_reusable_at(at));
    case COLLECTED:
        return all_reached(hier_node, RETURNED, at + 1);
    default:
        return false;
    }
}

/* ---- Layout --------------------------------------------------------------------------------- */

static char *slot_of(const struct hier_node *hier_node, int member, uint64_t position, int slice)
{
    int64_t turn = (int64_t)member * SLOTS + (int64_t)(position % SLOTS);
    return hier_node->slots + (turn * hier_node->params.nodes->slices + slice) * hier_node->chunk_bytes;
}

static char *result_slot(const struct hier_node *hier_node, uint64_t position, int slice)
{
    return slot_of(hier_node, hier_node->size, position, slice);
}

/* The part of the batch that belongs to [member] of this node: in reducescatter its share, in allgather its
 * input. */
static struct range part_of_member(const struct hier_node *hier_node, int member)
{
    const int64_t *counts = hier_node->batch.counts + hier_node->first;
    struct range part = {hier_node->split.begins[hier_node->params.nodes->node], counts[member]};
    for (int i = 0; i < member; i++)
        part.begin += counts[i];
    return part;
}

/* The part of a chunk to which [member] of this node contributes. */
static struct range input_in(const struct hier_node *hier_node, int member, struct range piece)
{
    bool is_root = hier_node->first + member == hier_node->batch.root;
    if (hier_node->split.kind == COLL_ALLGATHER)
        return range_overlap(piece, part_of_member(hier_node, member));
    if (hier_node->split.kind == COLL_BROADCAST && !is_root)
        return (struct range){piece.begin, 0};
    return piece;
}

/* The part of a chunk whose result this member needs. */
static struct range output_in(const struct hier_node *hier_node, struct range piece)
{
    bool is_root = hier_node->first + hier_node->self == hier_node->batch.root;
    if (hier_node->split.kind == COLL_REDUCESCATTER)
        return range_overlap(piece, part_of_member(hier_node, hier_node->self));
    if (hier_node->split.kind == COLL_BROADCAST && is_root &&
        hier_node->batch.input == hier_node->batch.output)
        return (struct range){piece.begin, 0};
    return piece;
}

/* The index of an element of the batch in this member's input. */
static int64_t input_element(const struct hier_node *hier_node, int64_t element)
{
    bool gathers = hier_node->split.kind == COLL_ALLGATHER;
    return gathers ? element - part_of_member(hier_node, hier_node->self).begin : element;
}

/* Where the result of a chunk of this member's slice lies: in the output, or aside if the chunk covers
 * several spans of it. */
static char *result_at(struct hier_node *hier_node, struct range piece)
{
    struct contig place = spans_at(&hier_node->spans, piece.begin, piece.count);
    if (place.count == piece.count)
        return place.output;
    int64_t begin = hier_slice_range(&hier_node->split, 0, hier_node->slice).begin;
    return hier_node->aside + (piece.begin - begin) * hier_node->element_bytes;
}

/* ---- Publishing, returning, collecting ---------------------------------------------------------------- */

static void publish(struct hier_node *hier_node, uint64_t position)
{
    struct range piece;
    for (int slice = 0; slice < hier_node->params.nodes->slices; slice++) {
        if (slice == hier_node->slice ||
            !hier_cursor_next(&hier_node->split, slice, &hier_node->publish_cursors[slice], &piece))
            continue;
        struct range mine = input_in(hier_node, hier_node->self, piece);
        char *slot = slot_of(hier_node, hier_node->self, position, slice);
        spans_read(&hier_node->spans, slot + (mine.begin - piece.begin) * hier_node->element_bytes,
                   input_element(hier_node, mine.begin), mine.count);
    }
    advance_to(hier_node, PUBLISHED, position + 1);
}

static void return_results(struct hier_node *hier_node, uint64_t position)
{
    struct range piece;
    if (hier_cursor_next(&hier_node->split, hier_node->slice, &hier_node->return_cursor, &piece)) {
        const char *result = result_at(hier_node, piece);
        if (hier_node->size > 1)
            memcpy(result_slot(hier_node, position, hier_node->slice), result,
                   (size_t)(piece.count * hier_node->element_bytes));
        if (hier_node->batch.spans != NULL)
            spans_write(&hier_node->spans, piece.begin, result, piece.count);
    }
    advance_by(hier_node, RETURNED, (int64_t)(position + 1 - hier_node->begin[RETURNED]),
               hier_node->return_total);
}

static void collect(struct hier_node *hier_node, uint64_t position)
{
    struct range piece;
    for (int slice = 0; slice < hier_node->params.nodes->slices; slice++) {
        if (slice == hier_node->slice ||
            !hier_cursor_next(&hier_node->split, slice, &hier_node->collect_cursors[slice], &piece))
            continue;
        struct range mine = output_in(hier_node, piece);
        const char *slot = result_slot(hier_node, position, slice);
        spans_write(&hier_node->spans, mine.begin,
                    slot + (mine.begin - piece.begin) * hier_node->element_bytes, mine.count);
    }
    advance_to(hier_node, COLLECTED, position + 1);
}

/* ---- Reducing: what the backend between nodes calls ----------------------------------------- */

/* out = left op the members' inputs. The others' inputs are in their slots, [at] elements into the chunk;
 * this member's input is [mine]. */
static void fold_range(struct hier_node *hier_node, uint64_t position, int64_t at, struct contig mine,
                       void *out, void *left)
{
    const struct reduction *reduction = &hier_node->reduction;
    void *sum = left != NULL ? left : out; /* out may be this member's input, which is still to be read */
    const void *so_far = left;
    for (int i = 0; i < hier_node->size; i++) {
        const char *slot = slot_of(hier_node, i, position, hier_node->slice) + at * hier_node->element_bytes;
        const char *input = i == hier_node->self ? mine.input : slot;
        void *to = i == hier_node->size - 1 ? out : sum;
        if (so_far == NULL && hier_node->size > 1 && reduce_input_is_partial(reduction)) {
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

static void fold_inputs(struct hier_node *hier_node, uint64_t position, struct range piece, char *out,
                        char *left)
{
    int64_t partial_bytes = (int64_t)dtype_bytes(hier_node->reduction.partial);
    int64_t at = 0;
    while (at < piece.count) {
        struct contig mine = spans_at(&hier_node->spans, piece.begin + at, piece.count - at);
        fold_range(hier_node, position, at, mine, out + at * partial_bytes,
                   left == NULL ? NULL : left + at * partial_bytes);
        at += mine.count;
    }
}

static void gather_inputs(struct hier_node *hier_node, uint64_t position, struct range piece, char *out)
{
    for (int i = 0; i < hier_node->size; i++) {
        struct range input = input_in(hier_node, i, piece);
        int64_t shift = (input.begin - piece.begin) * hier_node->element_bytes;
        size_t bytes = (size_t)(input.count * hier_node->element_bytes);
        if (i == hier_node->self)
            spans_read(&hier_node->spans, out + shift, input_element(hier_node, input.begin), input.count);
        else if (bytes > 0)
            memcpy(out + shift, slot_of(hier_node, i, position, hier_node->slice) + shift, bytes);
    }
}

static bool source_ready(void *arg, int64_t number)
{
    struct hier_node *hier_node = arg;
    return all_reached(hier_node, PUBLISHED, hier_node->begin[PUBLISHED] + (uint64_t)number + 1);
}

static void source_fold(void *arg, void *out, void *left)
{
    struct hier_node *hier_node = arg;
    struct range piece = {0, 0};
    uint64_t position = hier_node->begin[REDUCED] + (uint64_t)hier_node->folded;
    hier_cursor_next(&hier_node->split, hier_node->slice, &hier_node->fold_cursor, &piece);
    if (coll_reduces(hier_node->split.kind))
        fold_inputs(hier_node, position, piece, out, left);
    else
        gather_inputs(hier_node, position, piece, out);
    advance_by(hier_node, REDUCED, ++hier_node->folded, hier_node->fold_total);
}

static void *source_place(void *arg, const struct block_segment *span)
{
    struct hier_node *hier_node = arg;
    int64_t begin = hier_slice_range(&hier_node->split, span->block, hier_node->slice).begin;
    return result_at(hier_node,
                     (struct range){begin + span->offset - hier_node->starts[span->block], span->count});
}

static void source_arrived(void *arg)
{
    struct hier_node *hier_node = arg;
    hier_node->arrived++;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* Make room for results that cannot go directly to the output. */
static int reserve_aside(struct hier_node *hier_node, struct hvd_error *err)
{
    int64_t bytes = hier_slice_range(&hier_node->split, 0, hier_node->slice).count * hier_node->element_bytes;
    if (bytes <= hier_node->aside_bytes)
        return HVD_OK;
    free(hier_node->aside);
    hier_node->aside_bytes = 0;
    hier_node->aside = aligned_alloc(CACHE_LINE_BYTES, (size_t)round_up(bytes, CACHE_LINE_BYTES));
    if (hier_node->aside == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %lld bytes of results; lower --hvd-fusion",
                         (long long)bytes);
    hier_node->aside_bytes = bytes;
    return HVD_OK;
}

/* Describe this member's slice as a batch for the team of those that carry it; false if it is empty. */
static bool carry_slice(struct hier_node *hier_node)
{
    const struct backend_batch *batch = &hier_node->batch;
    int64_t count = 0;
    for (int block = 0; block < hier_node->split.blocks; block++) {
        hier_node->starts[block] = count;
        hier_node->counts[block] = hier_slice_range(&hier_node->split, block, hier_node->slice).count;
        count += hier_node->counts[block];
    }
    hier_node->source.longest = hier_node->split.longest;
    hier_node->carried = (struct backend_batch){.need = batch->need,
                                                .root = hier_node->split.root_node,
                                                .sequence = batch->sequence,
                                                .prescale = batch->prescale,
                                                .postscale = batch->postscale,
                                                .count = count,
                                                .counts = hier_node->counts,
                                                .source = &hier_node->source};
    return count > 0;
}

/* A step in which this member has no part counts as done from the start. */
static void plan_counters(struct hier_node *hier_node)
{
    struct hier_cursor published = hier_input_cursor(&hier_node->split);
    struct hier_cursor collected = hier_output_cursor(&hier_node->split);
    bool alone = hier_node->size == 1;
    bool publishes = hier_node->split.kind != COLL_BROADCAST ||
                     hier_node->batch.root == hier_node->first + hier_node->self;
    bool returns = hier_node->slice >= 0 && (!alone || hier_node->batch.spans != NULL);
    for (int count = 0; count < COUNTERS; count++) {
        const struct hier_cursor *way = count <= REDUCED ? &published : &collected;
        hier_node->begin[count] = hier_node->end[count];
        hier_node->end[count] += (uint64_t)hier_chunk_count(&hier_node->split, 0, *way);
    }
    for (int slice = 0; slice < hier_node->params.nodes->slices; slice++) {
        hier_node->publish_cursors[slice] = published;
        hier_node->collect_cursors[slice] = collected;
    }
    hier_node->fold_cursor = published;
    hier_node->return_cursor = collected;
    hier_node->folded = hier_node->arrived = 0;
    hier_node->fold_total =
        hier_node->slice >= 0 ? hier_chunk_count(&hier_node->split, hier_node->slice, published) : 0;
    hier_node->return_total = returns ? hier_chunk_count(&hier_node->split, hier_node->slice, collected) : 0;
    hier_node->own_pieces = coll_reduces(hier_node->split.kind) ? 0 : hier_node->fold_total;
    advance_by(hier_node, REDUCED, 0, hier_node->fold_total);
    advance_by(hier_node, RETURNED, 0, hier_node->return_total);
    if (alone || !publishes)
        advance_to(hier_node, PUBLISHED, hier_node->end[PUBLISHED]);
    if (alone)
        advance_to(hier_node, COLLECTED, hier_node->end[COLLECTED]);
}

int hier_node_start(struct hier_node *hier_node, const struct backend_batch *batch,
                    const struct backend_batch **slicep, struct hvd_error *err)
{
    const struct backend_need *need = &batch->need;
    enum hvd_dtype partial = coll_reduces(need->kind) ? need->partial : need->dtype;
    size_t larger =
        dtype_bytes(partial) > dtype_bytes(need->dtype) ? dtype_bytes(partial) : dtype_bytes(need->dtype);
    hier_node->batch = *batch;
    hier_node->reduction =
        (struct reduction){need->dtype, partial, need->op, batch->prescale, batch->postscale, need->ranks};
    hier_node->element_bytes = (int64_t)dtype_bytes(need->dtype);
    hier_node->spans = (struct span_cursor){&hier_node->batch, hier_node->element_bytes, 0};
    hier_split_batch(&hier_node->split, hier_node->params.nodes, batch,
                     hier_node->chunk_bytes / (int64_t)larger, hier_node->begins);
    int rc = hier_node->slice >= 0 && batch->spans != NULL ? reserve_aside(hier_node, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    plan_counters(hier_node);
    *slicep = hier_node->slice >= 0 && carry_slice(hier_node) ? &hier_node->carried : NULL;
    return HVD_OK;
}

/* The last step goes first, because other members wait for it. */
bool hier_node_progress(struct hier_node *hier_node)
{
    static void (*const steps[COUNTERS])(struct hier_node * hier_node, uint64_t position) = {
        [PUBLISHED] = publish, [RETURNED] = return_results, [COLLECTED] = collect};
    for (int count = COLLECTED; count >= PUBLISHED; count--) {
        if (!may_advance(hier_node, (enum hier_counter)count))
            continue;
        steps[count](hier_node, hier_node->reached[count]);
        return true;
    }
    return false;
}

/* The member of the team, on this node, that has not reached [position]; -1: all have. */
static int member_behind(const struct hier_node *hier_node, enum hier_counter count, uint64_t position)
{
    int member = counters_behind(&hier_node->all[count], hier_node->self, position);
    return member < 0 ? -1 : hier_node->first + member;
}

int hier_node_waits_for_input(const struct hier_node *hier_node)
{
    if (hier_node->folded == hier_node->fold_total)
        return -1;
    return member_behind(hier_node, PUBLISHED, hier_node->begin[PUBLISHED] + (uint64_t)hier_node->folded + 1);
}

int hier_node_waits_for(const struct hier_node *hier_node)
{
    const uint64_t *reached = hier_node->reached, *end = hier_node->end;
    bool returns = reached[RETURNED] < end[RETURNED] &&
                   (int64_t)(reached[RETURNED] - hier_node->begin[RETURNED]) < results_there(hier_node);
    int member = -1;
    if (reached[PUBLISHED] < end[PUBLISHED])
        member = member_behind(hier_node, REDUCED, counters_reusable_at(reached[PUBLISHED]));
    if (member < 0 && returns)
        member = member_behind(hier_node, COLLECTED, counters_reusable_at(reached[RETURNED]));
    if (member < 0 && reached[COLLECTED] < end[COLLECTED])
        member = member_behind(hier_node, RETURNED, reached[COLLECTED] + 1);
    return member;
}

bool hier_node_is_done(const struct hier_node *hier_node)
{
    bool done = true;
    for (int count = 0; count < COUNTERS; count++)
        done = done && hier_node->reached[count] == hier_node->end[count];
    return done;
}

/* ---- Opening and closing -------------------------------------------------------------------- */

int hier_node_slice(const struct hier_node *hier_node)
{
    return hier_node->slice;
}

void hier_node_set_chunk(struct hier_node *hier_node, int64_t bytes)
{
    hier_node->chunk_bytes = bytes;
}

static int64_t chunk_bytes_of(int slices)
{
    int64_t bytes = HIER_ROUND_BYTES / slices / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    return bytes < CACHE_LINE_BYTES ? CACHE_LINE_BYTES : bytes < HIER_CHUNK_BYTES ? bytes : HIER_CHUNK_BYTES;
}

static size_t lines_bytes_of(int size)
{
    return (size_t)size * sizeof(struct hier_line);
}

/* How many bytes of their arena [size] members of this node acquire. */
static size_t region_bytes_of(const struct hier_nodes *nodes, int size)
{
    int64_t slots = ((int64_t)size + 1) * SLOTS * nodes->slices;
    return lines_bytes_of(size) + (size_t)(slots * chunk_bytes_of(nodes->slices));
}

/* The only member of a node shares no memory, so it allocates its counters. */
static int enter(struct hier_node *hier_node, int64_t deadline_us, struct hvd_error *err)
{
    const struct hier_nodes *nodes = hier_node->params.nodes;
    size_t lines_bytes = lines_bytes_of(hier_node->size);
    const struct arena_request request = {.set = hier_node->params.claim,
                                          .users = hier_node->size,
                                          .bytes = region_bytes_of(nodes, hier_node->size),
                                          .zeroed = lines_bytes};
    void *region = NULL;
    if (hier_node->size == 1) {
        hier_node->own = region = aligned_alloc(CACHE_LINE_BYTES, lines_bytes);
        if (region == NULL)
            return error_set_errno(err, "no memory for %zu bytes", lines_bytes);
        memset(region, 0, lines_bytes);
    } else {
        int rc = arena_acquire(hier_node->params.arena, &request, deadline_us, &region, err);
        if (rc != HVD_OK)
            return rc;
    }
    hier_node->lines = region;
    for (int count = 0; count < COUNTERS; count++)
        hier_node->all[count] = (struct counters){.first = &hier_node->lines[0].counts[count],
                                                  .stride = sizeof(struct hier_line),
                                                  .count = hier_node->size};
    hier_node->slots = (char *)region + lines_bytes;
    return HVD_OK;
}

static bool allocate_lists(struct hier_node *hier_node)
{
    size_t nodes = (size_t)hier_node->params.nodes->count;
    size_t slices = (size_t)hier_node->params.nodes->slices;
    hier_node->begins = calloc(nodes + 1, sizeof(*hier_node->begins));
    hier_node->counts = calloc(nodes, sizeof(*hier_node->counts));
    hier_node->starts = calloc(nodes, sizeof(*hier_node->starts));
    hier_node->publish_cursors = calloc(slices, sizeof(*hier_node->publish_cursors));
    hier_node->collect_cursors = calloc(slices, sizeof(*hier_node->collect_cursors));
    return hier_node->begins != NULL && hier_node->counts != NULL && hier_node->starts != NULL &&
           hier_node->publish_cursors != NULL && hier_node->collect_cursors != NULL;
}

int hier_node_open(struct hier_node **hier_nodep, const struct hier_params *params, int64_t deadline_us,
                   struct hvd_error *err)
{
    const struct hier_nodes *nodes = params->nodes;
    struct hier_node *hier_node = calloc(1, sizeof(*hier_node));
    int rc = HVD_OK;
    if (hier_node == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*hier_node));
    hier_node->params = *params;
    hier_node->first = nodes->firsts[nodes->node];
    hier_node->size = nodes->firsts[nodes->node + 1] - hier_node->first;
    hier_node->self = params->team->rank - hier_node->first;
    hier_node->slice = hier_node->self < nodes->slices ? hier_node->self : -1;
    hier_node->chunk_bytes = chunk_bytes_of(nodes->slices);
    hier_node->source = (struct backend_source){.arg = hier_node,
                                                .ready = source_ready,
                                                .fold = source_fold,
                                                .place = source_place,
                                                .arrived = source_arrived};
    if (!allocate_lists(hier_node))
        rc = error_set_errno(err, "no memory for a process set on %d nodes", nodes->count);
    if (rc == HVD_OK)
        rc = enter(hier_node, deadline_us, err);
    if (rc != HVD_OK) {
        hier_node_close(hier_node);
        return rc;
    }
    *hier_nodep = hier_node;
    return HVD_OK;
}

void hier_node_close(struct hier_node *hier_node)
{
    if (hier_node == NULL)
        return;
    if (hier_node->lines != NULL && hier_node->own == NULL)
        arena_release(hier_node->params.arena, hier_node->params.claim);
    free(hier_node->own);
    free(hier_node->begins);
    free(hier_node->counts);
    free(hier_node->starts);
    free(hier_node->publish_cursors);
    free(hier_node->collect_cursors);
    free(hier_node->aside);
    free(hier_node);
}
