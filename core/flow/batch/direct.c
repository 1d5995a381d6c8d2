/* direct.c: tensors on the GPU that NCCL carries, without the host. */
#include "flow/batch/direct.h"

#include <stdlib.h>

#include "backend/nccl/nccl.h"
#include "base/dtype.h"
#include "base/round_up.h"
#include "flow/batch/layout.h"
#include "flow/batch/row_counts.h"
#include "flow/gpu_memory.h"

/* In a buffer each batch of a group begins at a multiple of this. */
#define BUFFER_ALIGNMENT 256

/* The batch that follows [batch] in the group that [leader] is launched with; NULL behind the last. */
static struct batch *companion_of(const struct batch *leader, const struct batch *batch)
{
    return batch == leader ? batch_companions(leader) : batch->next;
}

/* ---- The memory of a batch --------------------------------------------------------------------------- */

/* Do the tensors lie end to end, in the order of the batch? */
static bool is_contiguous(const struct batch *batch)
{
    int64_t element_bytes = (int64_t)dtype_bytes(batch->dtype);
    for (const struct request_tensor *tensor = batch->tensors; tensor->next != NULL; tensor = tensor->next) {
        int64_t bytes = tensor->count * element_bytes;
        if (tensor->next->input != (const char *)tensor->input + bytes ||
            tensor->next->output != (char *)tensor->output + bytes)
            return false;
    }
    return true;
}

/* Can NCCL carry tensors that lie end to end as if they were one? */
static bool can_run_together(const struct batch *batch)
{
    enum backend_kind kind = batch->transfer.need.kind;
    return (kind == COLL_ALLREDUCE || kind == COLL_BROADCAST) && !layout_scales(batch);
}

/* The offsets of all members are equal, and so are the answers here: all members get the same. */
int direct_find_memory(struct batch *batch, struct hvd_error *err)
{
    struct batch_direct *direct = batch_direct(batch);
    if (direct == NULL || !direct->same_offsets || batch->dtype != batch->transfer.need.dtype ||
        layout_shares_in_place(batch))
        return HVD_OK;
    const struct gpu_memory *memory = gpu_memory_find(batch->gpu, batch->tensors->input);
    bool together = batch->tensor_count == 1 || (can_run_together(batch) && is_contiguous(batch));
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next) {
        const struct gpu_memory *own = gpu_memory_find(batch->gpu, tensor->input);
        if (own == NULL)
            return error_set(err, HVD_ERR_INVALID,
                             "memory of hvd_alloc_on was freed while \"%.100s\" uses it; free it when its "
                             "operations are done",
                             request_name(tensor));
        together &= own == memory;
    }
    direct->memory = together ? memory : NULL;
    return HVD_OK;
}

/* Memory that NCCL knows of, the fusion buffer too, may only be used by all members, or by none. One that has
 * joined, has no memory for its result, or has its tensor in such memory where others do not, uses a buffer
 * where the others use their tensors. */
struct buffers {
    char *registered, *other;
    int64_t registered_bytes, other_bytes; /* that the batches of a group need */
};

/* Can NCCL register the tensor's memory later, for another operation? */
static bool may_be_registered(const struct batch *batch, const struct request_tensor *tensor)
{
    return gpu_memory_find(batch->gpu, tensor->input) != NULL ||
           gpu_memory_find(batch->gpu, tensor->output) != NULL;
}

/* Has NCCL registered the tensor's memory here, but perhaps not on all members? */
static bool must_detour(const struct batch *batch)
{
    const struct request_tensor *tensor = batch->tensors;
    const struct nccl_team *team = batch->set->nccl;
    const struct batch_direct *direct = batch_direct(batch);
    if (direct->alone || direct->memory != NULL || batch->tensor_count > 1 || batch->layout.all_buffered)
        return false;
    bool reached = nccl_team_reaches(team, tensor->input) || nccl_team_reaches(team, tensor->output);
    return reached || (batch->persistent != NULL && may_be_registered(batch, tensor));
}

/* How much NCCL reads of this member's memory, and how much it writes there. */
static int64_t read_bytes(const struct batch *batch)
{
    const struct backend_batch *transfer = &batch->transfer;
    const struct team *members = &batch->set->members;
    int64_t elements = transfer->count;
    if (transfer->need.kind == COLL_ALLGATHER)
        elements = transfer->counts[members->rank];
    if (transfer->need.kind == COLL_ALLTOALL)
        elements = 0;
    for (int i = 0; transfer->need.kind == COLL_ALLTOALL && i < members->size; i++)
        elements += transfer->counts[i];
    return elements * (int64_t)dtype_bytes(transfer->need.dtype);
}

static int64_t written_bytes(const struct batch *batch)
{
    const struct backend_batch *transfer = &batch->transfer;
    bool shares = transfer->need.kind == COLL_REDUCESCATTER;
    int64_t elements = shares ? transfer->counts[batch->set->members.rank] : transfer->count;
    return elements * (int64_t)dtype_bytes(transfer->need.dtype);
}

static int64_t detour_bytes(const struct batch *batch)
{
    return must_detour(batch) ? round_up(read_bytes(batch), BUFFER_ALIGNMENT) +
                                    round_up(written_bytes(batch), BUFFER_ALIGNMENT)
                              : 0;
}

static int plan_group(struct batch *leader, struct buffers *buffers, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (struct batch *batch = leader; batch != NULL && rc == HVD_OK; batch = companion_of(leader, batch)) {
        if (batch_is_sized_later(batch))
            row_counts_allocate(batch);
        rc = layout_plan(batch, err);
        int64_t *bytes = batch->layout.all_buffered ? &buffers->registered_bytes : &buffers->other_bytes;
        *bytes += round_up(batch->layout.buffer_bytes, BUFFER_ALIGNMENT);
        buffers->other_bytes += rc == HVD_OK ? detour_bytes(batch) : 0;
    }
    return rc;
}

/* A persistent operation keeps a buffer of its own, since a graph may run it at any time. */
static int find_own_buffers(struct batch *leader, struct buffers *buffers, struct hvd_error *err)
{
    int64_t bytes = buffers->registered_bytes + buffers->other_bytes;
    int rc =
        bytes > 0 ? gpu_buffer_create(leader->gpu, bytes, &batch_direct(leader)->own_memory, err) : HVD_OK;
    buffers->other = batch_direct(leader)->own_memory;
    return rc;
}

static int find_buffers(struct batch *leader, struct buffers *buffers, struct hvd_error *err)
{
    void *memory = NULL;
    if (leader->persistent != NULL)
        return find_own_buffers(leader, buffers, err);
    if (buffers->registered_bytes > leader->set->nccl_registered_bytes)
        buffers->other_bytes += buffers->registered_bytes;
    else if (buffers->registered_bytes > 0)
        buffers->registered = gpu_fusion_block(leader->gpu, leader->fusion_bytes, NULL);
    int rc = HVD_OK;
    if (buffers->other_bytes > 0)
        rc = gpu_device_block(leader->gpu, buffers->other_bytes, leader->fusion_bytes, &memory, err);
    buffers->other = memory;
    return rc;
}

int direct_lay_out(struct batch *leader, struct hvd_error *err)
{
    struct buffers buffers = {0};
    bool is_empty = true;
    int rc = plan_group(leader, &buffers, err);
    if (rc == HVD_OK)
        rc = find_buffers(leader, &buffers, err);
    if (rc != HVD_OK)
        return rc;
    for (struct batch *batch = leader; batch != NULL; batch = companion_of(leader, batch)) {
        struct batch_direct *direct = batch_direct(batch);
        char **at =
            batch->layout.all_buffered && buffers.registered != NULL ? &buffers.registered : &buffers.other;
        layout_place(batch, batch->layout.in_place ? batch->tensors->output : *at);
        if (batch->layout.buffer_bytes > 0)
            *at += round_up(batch->layout.buffer_bytes, BUFFER_ALIGNMENT);
        if (must_detour(batch)) {
            direct->detour_input = buffers.other;
            direct->detour_output = buffers.other + round_up(read_bytes(batch), BUFFER_ALIGNMENT);
            buffers.other += detour_bytes(batch);
        }
        direct->has_elements = batch->stage != BATCH_DONE;
        is_empty &= !direct->has_elements;
    }
    if (leader->persistent != NULL)
        leader->stage = BATCH_KEEP;
    else
        leader->stage = is_empty ? BATCH_DONE : BATCH_LAUNCH;
    return HVD_OK;
}

/* ---- Packing ----------------------------------------------------------------------------------- */

/* Parts [first] to [last] of the buffer; [first] begins at element [at]. */
struct part_range {
    int first, last;
    int64_t at;
};

static struct part_range own_part(const struct batch *batch)
{
    int rank = batch->set->members.rank;
    return (struct part_range){rank, rank, layout_own_offset(batch)};
}

static struct part_range all_parts(const struct batch *batch)
{
    return (struct part_range){0, batch->set->members.size - 1, 0};
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

/* The memory that a piece is packed from or unpacked to. NULL: zeros are packed, and nothing is unpacked. */
static char *memory_of(const struct batch *batch, const struct request_tensor *tensor, bool unpack)
{
    if (tensor->request->placeholder || (unpack && batch->at_root && tensor->output == tensor->input))
        return NULL;
    return unpack ? tensor->output : (char *)(uintptr_t)tensor->input;
}

/* Returns how many pieces it wrote: it leaves out tensors that nothing is unpacked to. */
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
            int64_t count = layout_part_elements(batch, tensor, part);
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
           (batch_is_fused(batch) || batch->dtype != batch->transfer.need.dtype || layout_scales(batch));
}

static int plan_pack(struct batch *batch, struct hvd_error *err)
{
    struct batch_direct *direct = batch_direct(batch);
    return direct->pack_plan != NULL ? HVD_OK
                                     : make_plan(batch, packed_parts(batch), false, &direct->pack_plan, err);
}

static int plan_unpack(struct batch *batch, struct hvd_error *err)
{
    struct batch_direct *direct = batch_direct(batch);
    return direct->unpack_plan != NULL
               ? HVD_OK
               : make_plan(batch, unpacked_parts(batch), true, &direct->unpack_plan, err);
}

static int pack_on_gpu(struct batch *batch, struct hvd_error *err)
{
    const struct batch_direct *direct = batch_direct(batch);
    int rc = plan_pack(batch, err);
    const struct gpu_packing packing = {.plan = direct->pack_plan,
                                        .buffer = batch->layout.buffer,
                                        .scale = packing_scales(batch) ? batch->transfer.prescale : 1,
                                        .stream = direct->stream};
    return rc == HVD_OK ? gpu_pack(batch->gpu, &packing, err) : rc;
}

static int unpack_on_gpu(struct batch *batch, struct hvd_error *err)
{
    const struct batch_direct *direct = batch_direct(batch);
    const struct backend_batch *transfer = &batch->transfer;
    double ranks = transfer->need.op == HVD_AVERAGE ? transfer->need.ranks : 1;
    int rc = plan_unpack(batch, err);
    const struct gpu_packing packing = {.plan = direct->unpack_plan,
                                        .buffer = batch->layout.buffer,
                                        .scale = packing_scales(batch) ? transfer->postscale / ranks : 1,
                                        .stream = direct->stream};
    return rc == HVD_OK ? gpu_unpack(batch->gpu, &packing, err) : rc;
}

int direct_prepare(struct batch *leader, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (struct batch *batch = leader; batch != NULL && rc == HVD_OK; batch = companion_of(leader, batch)) {
        bool has_elements = batch_direct(batch)->has_elements;
        if (has_elements && batch->layout.packed)
            rc = plan_pack(batch, err);
        if (rc == HVD_OK && has_elements && batch->layout.unpacked)
            rc = plan_unpack(batch, err);
    }
    return rc;
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

/* The transfer as NCCL gets it, without the factors that packing applies. */
static struct backend_batch nccl_batch(const struct batch *batch)
{
    struct backend_batch transfer = batch->transfer;
    if (packing_scales(batch)) {
        transfer.prescale = transfer.postscale = 1;
        if (transfer.need.op == HVD_AVERAGE)
            transfer.need.op = HVD_SUM;
    }
    if (batch->layout.unpacked && transfer.need.kind == COLL_REDUCESCATTER)
        transfer.output = (char *)batch->layout.buffer +
                          layout_own_offset(batch) * (int64_t)dtype_bytes(transfer.need.dtype);
    return transfer;
}

/* Give NCCL a copy in place of a tensor that it must not get, and copy the result back. */
static int detour(const struct batch *batch, struct backend_batch *transfer, struct hvd_error *err)
{
    const struct batch_direct *direct = batch_direct(batch);
    if (direct->detour_input == NULL)
        return HVD_OK;
    int rc =
        gpu_copy(batch->gpu, direct->stream, direct->detour_input, transfer->input, read_bytes(batch), err);
    transfer->input = direct->detour_input;
    transfer->output = direct->detour_output;
    return rc;
}

static int return_from_detour(const struct batch *batch, struct hvd_error *err)
{
    const struct batch_direct *direct = batch_direct(batch);
    if (direct->detour_output == NULL)
        return HVD_OK;
    return gpu_copy(batch->gpu, direct->stream, nccl_batch(batch).output, direct->detour_output,
                    written_bytes(batch), err);
}

/* The only member of a set sends to itself. */
static int copy_alone(const struct batch *batch, const struct backend_batch *transfer, struct hvd_error *err)
{
    if (transfer->input == transfer->output)
        return HVD_OK;
    return gpu_copy(batch->gpu, batch_direct(batch)->stream, transfer->output, transfer->input,
                    written_bytes(batch), err);
}

/* Put all batches of the group into [stream] that have anything to transfer. */
static int launch_group(struct batch *leader, struct CUstream_st *stream, struct backend_batch *transfers,
                        struct hvd_error *err)
{
    int count = 0;
    int rc = HVD_OK;
    for (struct batch *batch = leader; batch != NULL && rc == HVD_OK; batch = companion_of(leader, batch)) {
        struct batch_direct *direct = batch_direct(batch);
        direct->stream = stream;
        if (leader->persistent == NULL)
            batch->number = ++leader->set->sequence;
        if (!direct->has_elements)
            continue;
        rc = await_tensors(batch, err);
        if (rc == HVD_OK && batch->layout.packed)
            rc = pack_on_gpu(batch, err);
        transfers[count] = nccl_batch(batch);
        if (rc == HVD_OK)
            rc = detour(batch, &transfers[count], err);
        if (rc == HVD_OK && direct->alone)
            rc = copy_alone(batch, &transfers[count], err);
        count += !direct->alone;
    }
    return rc == HVD_OK && count > 0 ? nccl_team_start(leader->set->nccl, transfers, count, stream, err) : rc;
}

int direct_launch(struct batch *leader, struct CUstream_st *stream, struct hvd_error *err)
{
    int count = 1;
    for (const struct batch *batch = batch_companions(leader); batch != NULL; batch = batch->next)
        count++;
    struct backend_batch *transfers = calloc((size_t)count, sizeof(*transfers));
    if (transfers == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d batches", count);
    int rc = launch_group(leader, stream, transfers, err);
    free(transfers);
    leader->stage = BATCH_LAUNCHING;
    return rc;
}

int direct_test_launched(struct batch *leader, bool *movedp, struct hvd_error *err)
{
    int rc = !batch_uses_nccl(leader) ? HVD_OK : nccl_team_test(leader->set->nccl, err);
    *movedp = rc == HVD_OK;
    for (struct batch *batch = leader; batch != NULL && rc == HVD_OK; batch = companion_of(leader, batch)) {
        bool has_elements = batch_direct(batch)->has_elements;
        if (has_elements)
            rc = return_from_detour(batch, err);
        if (rc == HVD_OK && has_elements && batch->layout.unpacked)
            rc = unpack_on_gpu(batch, err);
        batch->stage = BATCH_DONE;
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

int direct_watch(const struct batch *batch, struct hvd_error *err)
{
    int rc = !batch_uses_nccl(batch) ? HVD_OK : nccl_team_test(batch->set->nccl, err);
    return rc == HVD_OK ? HVD_IN_PROGRESS : rc;
}

void direct_abandon(const struct batch *batch)
{
    if (batch_uses_nccl(batch))
        nccl_team_abort(batch->set->nccl);
}
