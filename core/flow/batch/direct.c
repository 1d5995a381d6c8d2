/* direct.c: tensors on the GPU that NCCL carries, without the host. */
#include "flow/batch/direct.h"

#include <stdlib.h>

#include "backend/nccl/nccl.h"
#include "base/dtype.h"
#include "net/peer_table.h"

/* The exchange of cards, which takes the place of the batch's own transfer meanwhile. */
struct nccl_cards {
    struct backend_batch transfer; /* the batch's own */
    int64_t *received;             /* all cards; behind it the lengths of each. Part of words */
    int64_t words[];
};

/* ---- The communicator -------------------------------------------------------------------------- */

static void through_the_host(struct batch *batch)
{
    batch->direct = false;
    batch->stage = BATCH_FETCH;
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next)
        if (!tensor->request->placeholder)
            return;
    batch->gpu = NULL; /* this rank has joined: zeros are in host memory */
    batch->stage = BATCH_LAY_OUT;
}

static void next_stage(struct batch *batch)
{
    batch->stage = batch_has_row_counts(batch) ? BATCH_LAY_OUT : BATCH_ROW_COUNTS;
}

static struct nccl_cards *create_exchange(const struct batch *batch)
{
    int size = batch->team->members.size;
    size_t words = NCCL_CARD_WORDS * ((size_t)size + 1) + (size_t)size;
    struct nccl_cards *cards = calloc(1, sizeof(*cards) + words * sizeof(cards->words[0]));
    if (cards == NULL)
        return NULL;
    cards->received = cards->words + NCCL_CARD_WORDS;
    cards->transfer = batch->transfer;
    return cards;
}

static void begin_exchange(struct batch *batch)
{
    const struct team *members = &batch->team->members;
    struct nccl_cards *cards = batch->cards;
    int64_t *counts = cards->received + (int64_t)NCCL_CARD_WORDS * members->size;
    for (int member = 0; member < members->size; member++)
        counts[member] = NCCL_CARD_WORDS;
    batch->transfer = (struct backend_batch){
        .need = {.kind = COLL_ALLGATHER, .dtype = HVD_INT64, .partial = HVD_INT64, .ranks = members->size},
        .chunk_bytes = cards->transfer.chunk_bytes,
        .input = cards->words,
        .output = cards->received,
        .prescale = 1,
        .postscale = 1,
        .count = (int64_t)NCCL_CARD_WORDS * members->size,
        .counts = counts};
    batch->stage = BATCH_START;
}

int direct_connect(const struct backends *backends, struct batch *batch, struct hvd_error *err)
{
    struct process_set *set = batch->team;
    const struct backend_env *env = &backends->env;
    if (set->nccl_refused) {
        through_the_host(batch);
        return HVD_OK;
    }
    if (set->nccl != NULL) {
        next_stage(batch);
        return HVD_OK;
    }
    int node = env->peer_table->node_of_rank[env->job->rank];
    batch->cards = create_exchange(batch);
    if (batch->cards == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the cards of %d members", set->members.size);
    int rc =
        nccl_team_create(gpu_nccl(batch->gpu), gpu_device(batch->gpu), &set->members, node, &set->nccl, err);
    if (rc == HVD_OK)
        rc = nccl_team_write_card(set->nccl, batch->cards->words, err);
    if (rc == HVD_OK)
        begin_exchange(batch);
    return rc;
}

/* All members find the same. */
static void refuse(struct batch *batch, const struct hvd_error *why)
{
    struct process_set *set = batch->team;
    if (set->members.rank == 0)
        gpu_warn(batch->gpu, why->text);
    nccl_team_destroy(set->nccl);
    set->nccl = NULL;
    set->nccl_refused = true;
    through_the_host(batch);
}

int direct_take_cards(struct batch *batch, struct hvd_error *err)
{
    struct nccl_cards *cards = batch->cards;
    struct hvd_error why = {""};
    batch->transfer = cards->transfer;
    batch->cards = NULL;
    int rc = nccl_team_connect(batch->team->nccl, cards->received, &why);
    free(cards);
    batch->stage = BATCH_CONNECTING;
    if (rc == HVD_ERR_UNSUPPORTED)
        refuse(batch, &why);
    else if (rc != HVD_OK)
        return error_set(err, rc, "%s", why.text);
    return HVD_OK;
}

int direct_test_connected(struct batch *batch, bool *movedp, struct hvd_error *err)
{
    int rc = nccl_team_test(batch->team->nccl, err);
    *movedp = rc == HVD_OK;
    if (rc == HVD_OK)
        next_stage(batch);
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* ---- Where it lies ----------------------------------------------------------------------------- */

bool direct_scales(const struct batch *batch)
{
    return batch->direct &&
           !nccl_scales(&batch->transfer.need, batch->transfer.prescale, batch->transfer.postscale);
}

int direct_lay_out(struct batch *batch, struct hvd_error *err)
{
    void *buffer = NULL;
    int rc = batch_plan(batch, err);
    if (rc == HVD_OK && batch->buffer_bytes > 0)
        rc = gpu_device_block(batch->gpu, batch->buffer_bytes, &buffer, err);
    if (rc != HVD_OK)
        return rc;
    batch_lay_out(batch, buffer);
    if (batch->stage != BATCH_DONE)
        batch->stage = BATCH_LAUNCH;
    return HVD_OK;
}

/* ---- Packing ----------------------------------------------------------------------------------- */

/* The parts of the buffer from [first] to [last], of which [first] begins at element [at]. */
struct part_range {
    int first, last;
    int64_t at;
};

static struct part_range own_part(const struct batch *batch)
{
    int rank = batch->team->members.rank;
    return (struct part_range){rank, rank, batch_own_offset(batch)};
}

static struct part_range all_parts(const struct batch *batch)
{
    return (struct part_range){0, batch->team->members.size - 1, 0};
}

static struct part_range packed_parts(const struct batch *batch)
{
    switch (batch->transfer.need.kind) {
    case COLL_ALLGATHER:
        return own_part(batch);
    case COLL_REDUCESCATTER:
        return all_parts(batch);
    default:
        return (struct part_range){0, 0, 0};
    }
}

static struct part_range unpacked_parts(const struct batch *batch)
{
    switch (batch->transfer.need.kind) {
    case COLL_ALLGATHER:
        return all_parts(batch);
    case COLL_REDUCESCATTER:
        return own_part(batch);
    default:
        return (struct part_range){0, 0, 0};
    }
}

/* The memory that a piece is packed from or unpacked to; NULL: zeros are packed, and nothing is unpacked. */
static char *memory_of(const struct batch *batch, const struct request_tensor *tensor, bool unpack)
{
    if (tensor->request->placeholder || (unpack && batch->at_root && tensor->output == tensor->input))
        return NULL;
    return unpack ? tensor->output : (char *)(uintptr_t)tensor->input;
}

/* Returns how many pieces there are: those that nothing is unpacked to are left out. */
static int write_pieces(const struct batch *batch, struct part_range parts, bool unpack,
                        struct pack_piece *pieces)
{
    int64_t element_bytes = (int64_t)dtype_bytes(batch->dtype);
    int64_t at = parts.at;
    int written = 0;
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next)
        tensor->moved = 0;
    for (int part = parts.first; part <= parts.last; part++) {
        for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next) {
            char *memory = memory_of(batch, tensor, unpack);
            int64_t count = batch_part_elements(batch, tensor, part);
            struct pack_piece piece = {.count = count, .buffer_at = at, .dtype = batch->dtype};
            if (memory != NULL)
                piece.tensor = memory + tensor->moved * element_bytes;
            if (memory != NULL || !unpack)
                pieces[written++] = piece;
            tensor->moved += count;
            at += count;
        }
    }
    return written;
}

static int make_plan(const struct batch *batch, struct part_range parts, bool unpack,
                     struct pack_plan **planp, struct hvd_error *err)
{
    int count = batch->tensor_count * (parts.last - parts.first + 1);
    struct pack_list list = {.buffer_dtype = batch->transfer.need.dtype};
    struct pack_piece *pieces = malloc((size_t)count * sizeof(*pieces));
    if (pieces == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d tensors", count);
    list.count = write_pieces(batch, parts, unpack, pieces);
    list.pieces = pieces;
    int rc = gpu_plan(batch->gpu, &list, planp, err);
    free(pieces);
    return rc;
}

/* Are the factors of a reduction applied by packing and unpacking? All members must do the same: one that has
 * joined packs zeros for a tensor that the others do not pack. */
static bool packing_scales(const struct batch *batch)
{
    return coll_reduces(batch->transfer.need.kind) &&
           (batch->tensor_count > 1 || batch->dtype != batch->transfer.need.dtype || direct_scales(batch));
}

static int pack(struct batch *batch, struct hvd_error *err)
{
    double scale = packing_scales(batch) ? batch->transfer.prescale : 1;
    int rc = make_plan(batch, packed_parts(batch), false, &batch->pack_plan, err);
    return rc == HVD_OK ? gpu_pack(batch->gpu, batch->pack_plan, batch->buffer, scale, err) : rc;
}

static int unpack(struct batch *batch, struct hvd_error *err)
{
    const struct backend_batch *transfer = &batch->transfer;
    double ranks = transfer->need.op == HVD_AVERAGE ? transfer->need.ranks : 1;
    double scale = packing_scales(batch) ? transfer->postscale / ranks : 1;
    int rc = make_plan(batch, unpacked_parts(batch), true, &batch->unpack_plan, err);
    return rc == HVD_OK ? gpu_unpack(batch->gpu, batch->unpack_plan, batch->buffer, scale, err) : rc;
}

/* ---- Launching --------------------------------------------------------------------------------- */

static int await_tensors(const struct batch *batch, struct hvd_error *err)
{
    const struct request *previous = NULL;
    int rc = HVD_OK;
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL && rc == HVD_OK;
         tensor = tensor->next) {
        const struct request *request = tensor->request;
        if (request != previous && request->ready != NULL)
            rc = gpu_await(batch->gpu, request->ready, err);
        previous = request;
    }
    return rc;
}

/* What NCCL gets: factors that packing applies are none of its. */
static struct backend_batch nccl_batch(const struct batch *batch)
{
    struct backend_batch transfer = batch->transfer;
    if (packing_scales(batch)) {
        transfer.prescale = transfer.postscale = 1;
        if (transfer.need.op == HVD_AVERAGE)
            transfer.need.op = HVD_SUM;
    }
    if (batch->unpacked && transfer.need.kind == COLL_REDUCESCATTER)
        transfer.output =
            (char *)batch->buffer + batch_own_offset(batch) * (int64_t)dtype_bytes(transfer.need.dtype);
    return transfer;
}

int direct_launch(struct batch *batch, struct hvd_error *err)
{
    const struct backend_batch transfer = nccl_batch(batch);
    int rc = await_tensors(batch, err);
    if (rc == HVD_OK && batch->packed)
        rc = pack(batch, err);
    if (rc == HVD_OK)
        rc = nccl_team_start(batch->team->nccl, &transfer, gpu_stream(batch->gpu), err);
    batch->stage = BATCH_LAUNCHING;
    return rc;
}

int direct_test_launched(struct batch *batch, bool *movedp, struct hvd_error *err)
{
    int rc = nccl_team_test(batch->team->nccl, err);
    *movedp = rc == HVD_OK;
    if (rc == HVD_OK && batch->unpacked)
        rc = unpack(batch, err);
    if (rc == HVD_OK)
        batch->stage = BATCH_DONE;
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

int direct_watch(const struct batch *batch, struct hvd_error *err)
{
    int rc = nccl_team_test(batch->team->nccl, err);
    return rc == HVD_OK ? HVD_IN_PROGRESS : rc;
}

void direct_abandon(const struct batch *batch)
{
    if (batch->direct)
        nccl_team_abort(batch->team->nccl);
}
