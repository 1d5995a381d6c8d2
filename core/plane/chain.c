/* chain.c: which chunk of a batch goes where, and when, along the ring of ranks. */
#include "plane/chain.h"

#include <stdlib.h>
#include <string.h>

bool chain_can(const struct plane_need *need)
{
    return dtype_bytes(need->dtype) != 0 && (need->kind == PLANE_BROADCAST || op_name(need->op) != NULL);
}

int chain_init(struct chain *chain, int rank, int size, int64_t chunk_bytes, int slots, struct hvd_error *err)
{
    *chain = (struct chain){.rank = rank, .size = size, .chunk_bytes = chunk_bytes, .slots = slots};
    size_t scratch_bytes = (size_t)chunk_bytes * (size_t)slots;
    chain->scratch = aligned_alloc(64, scratch_bytes);
    if (chain->scratch == NULL)
        return error_set_errno(err, "no memory for %zu bytes of partial sums", scratch_bytes);
    return HVD_OK;
}

void chain_fini(struct chain *chain)
{
    free(chain->scratch);
    chain->scratch = NULL;
}

static void start_allreduce(struct chain *chain, int64_t chunks)
{
    int rank = chain->rank;
    int last = chain->size - 1;
    chain->in[CHAIN_PARTIAL].total = rank > 0 ? chunks : 0;
    chain->out[CHAIN_PARTIAL].total = rank < last ? chunks : 0;
    chain->in[CHAIN_RESULT].total = rank < last ? chunks : 0;
    chain->out[CHAIN_RESULT].total = rank != last - 1 ? chunks : 0;
}

/* Steps along the ring from the root to this rank. */
static int root_distance(const struct chain *chain)
{
    return (chain->rank - chain->batch.root + chain->size) % chain->size;
}

static void start_broadcast(struct chain *chain, int64_t chunks)
{
    int distance = root_distance(chain);
    chain->in[CHAIN_RESULT].total = distance > 0 ? chunks : 0;
    chain->out[CHAIN_RESULT].total = distance < chain->size - 1 ? chunks : 0;
}

void chain_start(struct chain *chain, const struct plane_batch *batch)
{
    memset(chain->in, 0, sizeof(chain->in));
    memset(chain->out, 0, sizeof(chain->out));
    chain->batch = *batch;
    chain->element_bytes = dtype_bytes(batch->need.dtype);
    chain->bytes = batch->count * (int64_t)chain->element_bytes;
    int64_t chunks = (chain->bytes + chain->chunk_bytes - 1) / chain->chunk_bytes;
    if (batch->need.kind == PLANE_ALLREDUCE)
        start_allreduce(chain, chunks);
    else
        start_broadcast(chain, chunks);
}

static struct chain_piece piece_at(const struct chain *chain, int64_t chunk)
{
    int64_t left = chain->bytes - chunk * chain->chunk_bytes;
    return (struct chain_piece){chunk, (size_t)(left < chain->chunk_bytes ? left : chain->chunk_bytes)};
}

static const char *input_at(const struct chain *chain, int64_t chunk)
{
    return (const char *)chain->batch.input + chunk * chain->chunk_bytes;
}

static char *output_at(const struct chain *chain, int64_t chunk)
{
    return (char *)chain->batch.output + chunk * chain->chunk_bytes;
}

static char *slot_at(const struct chain *chain, int64_t chunk)
{
    return chain->scratch + chunk % chain->slots * chain->chunk_bytes;
}

/* The rank at which chunks of [kind] begin: it has them without having received any. */
static bool is_source(const struct chain *chain, enum chain_kind kind)
{
    if (chain->batch.need.kind == PLANE_BROADCAST)
        return root_distance(chain) == 0;
    return kind == CHAIN_PARTIAL && chain->rank == 0;
}

/* Chunks of [kind] that are ready to go out. */
static int64_t ready_to_send(const struct chain *chain, enum chain_kind kind)
{
    if (is_source(chain, kind))
        return chain->out[kind].total;
    bool finishes = chain->batch.need.kind == PLANE_ALLREDUCE && chain->rank == chain->size - 1;
    return chain->in[finishes ? CHAIN_PARTIAL : kind].done;
}

bool chain_can_send(const struct chain *chain, enum chain_kind kind)
{
    const struct chain_flow *flow = &chain->out[kind];
    return flow->begun < flow->total && flow->begun < ready_to_send(chain, kind);
}

const void *chain_send(struct chain *chain, enum chain_kind kind, struct chain_piece *piece)
{
    *piece = piece_at(chain, chain->out[kind].begun++);
    return is_source(chain, kind) ? input_at(chain, piece->chunk) : output_at(chain, piece->chunk);
}

void chain_sent(struct chain *chain, enum chain_kind kind)
{
    struct chain_piece piece = piece_at(chain, chain->out[kind].done++);
    /* The root's own copy, chunk by chunk, so that no call takes long. */
    bool copies = chain->batch.need.kind == PLANE_BROADCAST && is_source(chain, kind);
    if (copies && chain->batch.input != chain->batch.output)
        memcpy(output_at(chain, piece.chunk), input_at(chain, piece.chunk), piece.length);
}

bool chain_can_receive(const struct chain *chain, enum chain_kind kind)
{
    const struct chain_flow *flow = &chain->in[kind];
    if (flow->begun == flow->total)
        return false;
    if (kind == CHAIN_PARTIAL)
        return flow->begun - flow->done < chain->slots;
    /* A result may only overwrite a partial sum that has left. */
    return chain->batch.need.kind == PLANE_BROADCAST || flow->begun < chain->out[CHAIN_PARTIAL].done;
}

void *chain_receive(struct chain *chain, enum chain_kind kind, struct chain_piece *piece)
{
    *piece = piece_at(chain, chain->in[kind].begun++);
    return kind == CHAIN_PARTIAL ? slot_at(chain, piece->chunk) : output_at(chain, piece->chunk);
}

void chain_received(struct chain *chain, enum chain_kind kind)
{
    struct chain_piece piece = piece_at(chain, chain->in[kind].done++);
    if (kind == CHAIN_RESULT)
        return;
    const struct plane_need *need = &chain->batch.need;
    int64_t count = (int64_t)(piece.length / chain->element_bytes);
    char *output = output_at(chain, piece.chunk);
    reduce_add(need->dtype, output, slot_at(chain, piece.chunk), input_at(chain, piece.chunk), count);
    if (need->op == HVD_AVERAGE && chain->rank == chain->size - 1)
        reduce_divide(need->dtype, output, count, chain->size);
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
