/* chain.c: the pipelined chain along the ring of a team's members. */
#include "backend/sched/chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/dtype.h"

bool chain_supports(const struct backend_need *need)
{
    if (need->ranks < 2 || dtype_bytes(need->dtype) == 0)
        return false;
    if (need->kind == COLL_BROADCAST || need->kind == COLL_ALLGATHER)
        return true;
    return coll_reduces(need->kind) && reduce_can(need->op, need->dtype) &&
           (need->partial == need->dtype || need->partial == reduce_partial(need->dtype));
}

static int slot_count(const struct chain *chain)
{
    return chain->in_slots ? 2 * chain->depth : chain->depth;
}

int chain_init(struct chain *chain, int rank, int size, int64_t chunk_bytes, int depth, struct hvd_error *err)
{
    *chain = (struct chain){.rank = rank, .size = size, .chunk_bytes = chunk_bytes, .depth = depth};
    size_t scratch_bytes = (size_t)chunk_bytes * 2 * (size_t)depth;
    chain->scratch = aligned_alloc(CACHE_LINE_BYTES, scratch_bytes);
    if (chain->scratch == NULL)
        return error_set_errno(err, "no memory for %zu bytes of partial results", scratch_bytes);
    return HVD_OK;
}

void chain_fini(struct chain *chain)
{
    free(chain->scratch);
    free(chain->aside);
    chain->scratch = chain->aside = NULL;
    chain->aside_bytes = 0;
}

/* ---- Beginning a batch ---------------------------------------------------------------------- */

static int64_t chunks_of(const struct chain *chain, int first, int end)
{
    return blocks_chunks(&chain->blocks, first, end, chain->chunk_count);
}

static void flow_begin(const struct chain *chain, struct chain_flow *flow, int64_t total, int block, int step)
{
    flow->total = total;
    if (total > 0)
        flow->next = flow->oldest = block_cursor_begin(&chain->blocks, block, step);
}

static void start_partials(struct chain *chain)
{
    int64_t chunks = chunks_of(chain, 0, chain->blocks.count);
    flow_begin(chain, &chain->in[CHAIN_PARTIAL], chain->rank > 0 ? chunks : 0, 0, 1);
    flow_begin(chain, &chain->out[CHAIN_PARTIAL], chain->rank < chain->size - 1 ? chunks : 0, 0, 1);
}

static void start_allreduce(struct chain *chain)
{
    int last = chain->size - 1;
    int64_t chunks = chunks_of(chain, 0, 1);
    start_partials(chain);
    flow_begin(chain, &chain->in[CHAIN_RESULT], chain->rank < last ? chunks : 0, 0, 1);
    flow_begin(chain, &chain->out[CHAIN_RESULT], chain->rank != last - 1 ? chunks : 0, 0, 1);
}

/* Shares are in the order of members, so the results that a member sends on are those behind its own share.
 */
static void start_reducescatter(struct chain *chain)
{
    int rank = chain->rank;
    int last = chain->size - 1;
    start_partials(chain);
    if (rank == last) {
        flow_begin(chain, &chain->out[CHAIN_RESULT], chunks_of(chain, 0, last), 0, 1);
        return;
    }
    chain->before = chunks_of(chain, 0, rank);
    chain->lead = -chunks_of(chain, rank, rank + 1);
    flow_begin(chain, &chain->in[CHAIN_RESULT], chunks_of(chain, rank, last), rank, 1);
    flow_begin(chain, &chain->out[CHAIN_RESULT], chunks_of(chain, rank + 1, last), rank + 1, 1);
}

/* How far this member is behind the root on the ring. */
static int root_distance(const struct chain *chain)
{
    return (chain->rank - chain->batch.root + chain->size) % chain->size;
}

static void start_broadcast(struct chain *chain)
{
    int distance = root_distance(chain);
    int64_t chunks = chunks_of(chain, 0, 1);
    chain->lead = distance == 0 ? chunks : 0;
    flow_begin(chain, &chain->in[CHAIN_RESULT], distance > 0 ? chunks : 0, 0, 1);
    flow_begin(chain, &chain->out[CHAIN_RESULT], distance < chain->size - 1 ? chunks : 0, 0, 1);
}

static void start_allgather(struct chain *chain)
{
    int previous = (chain->rank + chain->size - 1) % chain->size;
    int next = (chain->rank + 1) % chain->size;
    int64_t chunks = chunks_of(chain, 0, chain->size);
    chain->lead = chunks_of(chain, chain->rank, chain->rank + 1);
    flow_begin(chain, &chain->in[CHAIN_RESULT], chunks - chain->lead, previous, -1);
    flow_begin(chain, &chain->out[CHAIN_RESULT], chunks - chunks_of(chain, next, next + 1), chain->rank, -1);
    chain->own_offset = chain->out[CHAIN_RESULT].next.start;
}

static void choose_types(struct chain *chain)
{
    const struct backend_batch *batch = &chain->batch;
    const struct backend_need *need = &batch->need;
    enum hvd_dtype partial = coll_reduces(need->kind) ? need->partial : need->dtype;
    chain->reduction = (struct reduction){
        .dtype = need->dtype,
        .partial = partial,
        .op = need->op,
        .prescale = batch->prescale,
        .postscale = batch->postscale,
        .ranks = need->ranks,
    };
    chain->element_bytes = dtype_bytes(need->dtype);
    chain->partial_bytes = dtype_bytes(partial);
    chain->in_slots = partial != need->dtype || batch->source != NULL;
    size_t larger = chain->partial_bytes > chain->element_bytes ? chain->partial_bytes : chain->element_bytes;
    chain->chunk_count =
        batch->source != NULL ? batch->source->longest : chain->chunk_bytes / (int64_t)larger;
}

/* Make room for the chunks that lie in several spans. Pages are taken for those alone. */
static int reserve_aside(struct chain *chain, struct hvd_error *err)
{
    int64_t bytes = chain->batch.count * (int64_t)chain->element_bytes;
    if (chain->batch.spans == NULL || bytes <= chain->aside_bytes)
        return HVD_OK;
    free(chain->aside);
    chain->aside = malloc((size_t)bytes);
    chain->aside_bytes = chain->aside != NULL ? bytes : 0;
    return chain->aside != NULL
               ? HVD_OK
               : error_set_errno(err, "no memory for the %lld bytes of a batch", (long long)bytes);
}

int chain_start(struct chain *chain, const struct backend_batch *batch, struct hvd_error *err)
{
    memset(chain->in, 0, sizeof(chain->in));
    memset(chain->out, 0, sizeof(chain->out));
    chain->lead = chain->before = chain->own_offset = 0;
    chain->batch = *batch;
    choose_types(chain);
    chain->places = (struct span_cursor){&chain->batch, (int64_t)chain->element_bytes, 0};
    bool shared = batch->need.kind == COLL_REDUCESCATTER || batch->need.kind == COLL_ALLGATHER;
    chain->blocks = shared ? blocks_of(batch->counts, chain->size) : blocks_of(&chain->batch.count, 1);
    if (batch->need.kind == COLL_ALLREDUCE)
        start_allreduce(chain);
    else if (batch->need.kind == COLL_REDUCESCATTER)
        start_reducescatter(chain);
    else if (batch->need.kind == COLL_BROADCAST)
        start_broadcast(chain);
    else
        start_allgather(chain);
    return reserve_aside(chain, err);
}

/* ---- Where chunks lie ----------------------------------------------------------------------- */

static struct block_segment flow_next(const struct chain *chain, struct chain_flow *flow)
{
    flow->begun++;
    return block_cursor_next(&chain->blocks, &flow->next, chain->chunk_count);
}

static struct block_segment flow_finish_oldest(const struct chain *chain, struct chain_flow *flow)
{
    flow->done++;
    return block_cursor_next(&chain->blocks, &flow->oldest, chain->chunk_count);
}

static struct chain_chunk chunk_for(const struct chain *chain, enum chain_kind kind, int64_t chunk,
                                    const struct block_segment *segment)
{
    size_t bytes = kind == CHAIN_PARTIAL ? chain->partial_bytes : chain->element_bytes;
    return (struct chain_chunk){chunk, (size_t)segment->count * bytes};
}

static const char *input_at(const struct chain *chain, int64_t offset)
{
    return (const char *)chain->batch.input + offset * (int64_t)chain->element_bytes;
}

/* The place of a result, and of a partial result that is not in a slot: aside if it lies in several spans. */
static char *result_at(struct chain *chain, const struct block_segment *segment)
{
    const struct backend_source *source = chain->batch.source;
    if (source != NULL)
        return source->place(source->arg, segment);
    struct contig place = spans_at(&chain->places, segment->offset, segment->count);
    if (place.count == segment->count)
        return place.output;
    return chain->aside + segment->offset * (int64_t)chain->element_bytes;
}

static char *slot_at(const struct chain *chain, int64_t chunk)
{
    return chain->scratch + chunk % slot_count(chain) * chain->chunk_bytes;
}

/* The input that is sent as a result, at the member where the chunk begins; otherwise NULL. */
static const char *own_result_at(const struct chain *chain, const struct block_segment *segment,
                                 int64_t chunk)
{
    if (chunk >= chain->lead || chain->batch.source != NULL)
        return NULL;
    return input_at(chain, segment->offset - chain->own_offset);
}

/* ---- Inputs --------------------------------------------------------------------------------- */

/* Are the inputs of a chunk available? This member's own always are. */
static bool inputs_ready(const struct chain *chain, int64_t chunk)
{
    const struct backend_source *source = chain->batch.source;
    return source == NULL || source->ready(source->arg, chunk);
}

/* Does a chunk of this kind begin at this member? */
static bool begins_here(const struct chain *chain, enum chain_kind kind, int64_t chunk)
{
    return kind == CHAIN_PARTIAL ? chain->rank == 0 : chunk < chain->lead;
}

/* out = left op this member's input, or the result of that if it is the last one. */
static void fold_input(struct chain *chain, const struct block_segment *segment, char *out, char *left,
                       bool ends)
{
    const struct reduction *reduction = &chain->reduction;
    int64_t out_bytes = (int64_t)(ends ? chain->element_bytes : chain->partial_bytes);
    struct contig mine;
    for (int64_t at = 0; at < segment->count; at += mine.count) {
        char *to = out + at * out_bytes;
        char *from = left == NULL ? NULL : left + at * (int64_t)chain->partial_bytes;
        mine = spans_at(&chain->places, segment->offset + at, segment->count - at);
        if (ends)
            reduce_end(reduction, to, from, mine.input, mine.count);
        else if (left != NULL)
            reduce_fold(reduction, to, from, mine.input, mine.count);
        else
            reduce_begin(reduction, to, mine.input, mine.count);
    }
}

/* out = left op the inputs of the next chunk; left NULL: the inputs begin it. */
static void fold_inputs(struct chain *chain, const struct block_segment *segment, void *out, void *left)
{
    const struct backend_source *source = chain->batch.source;
    if (source != NULL)
        source->fold(source->arg, out, left);
    else
        fold_input(chain, segment, out, left, false);
}

/* The result of a chunk is in its place, or aside. [stays]: it belongs to this member's output. */
static void settle_result(struct chain *chain, const struct block_segment *segment, bool stays)
{
    const struct backend_source *source = chain->batch.source;
    if (source != NULL && stays)
        source->arrived(source->arg);
    else if (chain->batch.spans != NULL)
        spans_write(&chain->places, segment->offset, result_at(chain, segment), segment->count);
}

/* ---- Sending -------------------------------------------------------------------------------- */

/* Chunks of [kind] that may be sent, as far as what was received decides. */
static int64_t ready_to_send(const struct chain *chain, enum chain_kind kind)
{
    bool reduces = coll_reduces(chain->batch.need.kind);
    if (kind == CHAIN_PARTIAL && chain->rank == 0)
        return chain->out[kind].total;
    if (kind == CHAIN_PARTIAL || (reduces && chain->rank == chain->size - 1))
        return chain->in[CHAIN_PARTIAL].done;
    return chain->in[CHAIN_RESULT].done + chain->lead;
}

/* Can member 0 send its inputs as partial results? Otherwise it makes partial results of them in slots. */
static bool sends_inputs(const struct chain *chain)
{
    return chain->batch.source == NULL && reduce_input_is_partial(&chain->reduction);
}

bool chain_can_send(const struct chain *chain, enum chain_kind kind)
{
    const struct chain_flow *flow = &chain->out[kind];
    if (flow->begun >= flow->total || flow->begun >= ready_to_send(chain, kind))
        return false;
    if (begins_here(chain, kind, flow->begun) && !inputs_ready(chain, flow->begun))
        return false;
    bool takes_slot = kind == CHAIN_PARTIAL && chain->rank == 0 && !sends_inputs(chain);
    return !takes_slot || flow->begun - flow->done < slot_count(chain);
}

/* The input of a chunk, aside if it lies in several spans: there is no result of it yet. */
static const char *contiguous_input(struct chain *chain, const struct block_segment *segment)
{
    struct contig place = spans_at(&chain->places, segment->offset, segment->count);
    if (place.count == segment->count)
        return place.input;
    char *aside = result_at(chain, segment);
    spans_read(&chain->places, aside, segment->offset, segment->count);
    return aside;
}

static const void *send_partial(struct chain *chain, int64_t chunk, const struct block_segment *segment)
{
    if (chain->rank > 0)
        return chain->in_slots ? slot_at(chain, chunk) : result_at(chain, segment);
    if (sends_inputs(chain))
        return contiguous_input(chain, segment);
    fold_inputs(chain, segment, slot_at(chain, chunk), NULL);
    return slot_at(chain, chunk);
}

static const void *send_result(struct chain *chain, int64_t chunk, const struct block_segment *segment)
{
    const char *own = own_result_at(chain, segment, chunk);
    if (own != NULL)
        return own;
    char *place = result_at(chain, segment);
    if (begins_here(chain, CHAIN_RESULT, chunk))
        fold_inputs(chain, segment, place, NULL);
    return place;
}

const void *chain_send(struct chain *chain, enum chain_kind kind, struct chain_chunk *next)
{
    struct chain_flow *flow = &chain->out[kind];
    int64_t chunk = flow->begun;
    struct block_segment segment = flow_next(chain, flow);
    *next = chunk_for(chain, kind, chunk, &segment);
    return kind == CHAIN_PARTIAL ? send_partial(chain, chunk, &segment) : send_result(chain, chunk, &segment);
}

void chain_sent(struct chain *chain, enum chain_kind kind)
{
    struct chain_flow *flow = &chain->out[kind];
    int64_t chunk = flow->done;
    struct block_segment segment = flow_finish_oldest(chain, flow);
    if (kind == CHAIN_PARTIAL)
        return;
    /* Copy the own block to output chunk by chunk, so that no call takes long. */
    const char *own = own_result_at(chain, &segment, chunk);
    if (own != NULL && own != result_at(chain, &segment) && !chain->batch.on_gpu)
        memcpy(result_at(chain, &segment), own, (size_t)segment.count * chain->element_bytes);
}

/* ---- Receiving ------------------------------------------------------------------------------ */

/* Slots that hold a partial result or are about to receive one. */
static int64_t slots_taken(const struct chain *chain)
{
    bool keeps = chain->in_slots && chain->rank < chain->size - 1;
    return chain->in[CHAIN_PARTIAL].begun -
           (keeps ? chain->out[CHAIN_PARTIAL].done : chain->in[CHAIN_PARTIAL].done);
}

/* Is there a slot for the next partial result, and the inputs to fold it with? */
static bool can_take_partial(const struct chain *chain)
{
    return slots_taken(chain) < slot_count(chain) && inputs_ready(chain, chain->in[CHAIN_PARTIAL].begun);
}

bool chain_must_wait(const struct chain *chain)
{
    const struct chain_flow *flow = &chain->in[CHAIN_PARTIAL];
    return flow->begun < flow->total && !can_take_partial(chain);
}

bool chain_can_receive(const struct chain *chain, enum chain_kind kind)
{
    const struct chain_flow *flow = &chain->in[kind];
    if (flow->begun == flow->total)
        return false;
    if (kind == CHAIN_PARTIAL)
        return can_take_partial(chain);
    /* A result may overwrite a partial result or an input only after that has left. */
    return !coll_reduces(chain->batch.need.kind) ||
           chain->before + flow->begun < chain->out[CHAIN_PARTIAL].done;
}

void *chain_receive(struct chain *chain, enum chain_kind kind, struct chain_chunk *next)
{
    struct chain_flow *flow = &chain->in[kind];
    int64_t chunk = flow->begun;
    struct block_segment segment = flow_next(chain, flow);
    *next = chunk_for(chain, kind, chunk, &segment);
    return kind == CHAIN_PARTIAL ? slot_at(chain, chunk) : result_at(chain, &segment);
}

/* Does a received chunk of a reduction belong to this member's share? */
static bool is_of_share(const struct chain *chain, enum chain_kind kind, int64_t chunk)
{
    if (chain->batch.need.kind != COLL_REDUCESCATTER)
        return true;
    return kind == CHAIN_PARTIAL ? chunk >= chain->out[CHAIN_RESULT].total : chunk < -chain->lead;
}

/* Fold this member's input to it. The last member makes it a result. */
static void receive_partial(struct chain *chain, int64_t chunk, const struct block_segment *segment)
{
    bool is_last = chain->rank == chain->size - 1;
    bool is_wide = chain->reduction.partial != chain->reduction.dtype;
    char *slot = slot_at(chain, chunk);
    if (is_last && chain->batch.source == NULL) {
        fold_input(chain, segment, result_at(chain, segment), slot, true);
        settle_result(chain, segment, true);
        return;
    }
    char *sum = chain->in_slots && (is_wide || !is_last) ? slot : result_at(chain, segment);
    fold_inputs(chain, segment, sum, slot);
    if (!is_last)
        return;
    reduce_finish(&chain->reduction, result_at(chain, segment), sum, segment->count);
    settle_result(chain, segment, is_of_share(chain, CHAIN_PARTIAL, chunk));
}

void chain_received(struct chain *chain, enum chain_kind kind)
{
    struct chain_flow *flow = &chain->in[kind];
    int64_t chunk = flow->done;
    struct block_segment segment = flow_finish_oldest(chain, flow);
    if (kind == CHAIN_PARTIAL)
        receive_partial(chain, chunk, &segment);
    else
        settle_result(chain, &segment, is_of_share(chain, CHAIN_RESULT, chunk));
}

bool chain_waits_for_input(const struct chain *chain)
{
    bool waits = false;
    for (int kind = 0; kind < CHAIN_KINDS; kind++)
        waits = waits || chain->in[kind].done < chain->in[kind].begun ||
                chain_can_receive(chain, (enum chain_kind)kind);
    return waits;
}

static bool flows_left(const struct chain_flow flows[CHAIN_KINDS])
{
    return flows[CHAIN_PARTIAL].done < flows[CHAIN_PARTIAL].total ||
           flows[CHAIN_RESULT].done < flows[CHAIN_RESULT].total;
}

bool chain_sends_left(const struct chain *chain)
{
    return flows_left(chain->out);
}

bool chain_receives_left(const struct chain *chain)
{
    return flows_left(chain->in);
}
