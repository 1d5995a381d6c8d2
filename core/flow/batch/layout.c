/* layout.c: where the tensors of a batch lie for its transfer, and their way into the buffer and out of it.
 */
#include "flow/batch/layout.h"

#include <stdlib.h>
#include <string.h>

#include "backend/arith/reduce.h"
#include "backend/nccl/nccl.h"
#include "base/dtype.h"

/* What moving a part costs beside its bytes, as bytes: a portion of many tiny parts must not take too long.
 */
#define PART_COST_BYTES 64

/* ---- Factors ---- */

bool layout_scales(const struct batch *batch)
{
    const struct backend_batch *transfer = &batch->transfer;
    const struct batch_direct *direct = batch_direct(batch);
    if (direct != NULL && direct->alone)
        return coll_reduces(transfer->need.kind) && (transfer->prescale != 1 || transfer->postscale != 1);
    return direct != NULL && !nccl_scales(&transfer->need, transfer->prescale, transfer->postscale);
}

/* Is that done in the result, so that a single tensor needs no buffer? Only joined ranks, which have no
 * memory of their own for it, need one. The same on all members. */
static bool scales_in_place(const struct batch *batch)
{
    return layout_scales(batch) && batch->tensor_count == 1 && batch->transfer.need.kind == COLL_ALLREDUCE &&
           batch->dtype == batch->transfer.need.dtype;
}

bool layout_shares_in_place(const struct batch *batch)
{
    const struct request_tensor *tensor = batch->tensors;
    return batch_direct(batch) != NULL && batch->transfer.need.kind == COLL_REDUCESCATTER &&
           tensor->input == tensor->output;
}

/* ---- Where it lies ---- */

/* [member]'s share of a tensor that is reduced. */
static int64_t share_elements(const struct batch *batch, const struct request_tensor *tensor, int member)
{
    const int64_t *splits = tensor->request->splits;
    const struct desc *desc = tensor->request->desc;
    if (desc->kind == DESC_REDUCE)
        return member == batch->transfer.root ? tensor->count : 0;
    int64_t rows = desc->tensors[tensor->index].shape[0];
    int64_t share = splits != NULL ? splits[member] : hvd_share_rows(rows, member, batch->set->members.size);
    return share * tensor->row_elements;
}

int64_t layout_part_elements(const struct batch *batch, const struct request_tensor *tensor, int part)
{
    switch (batch->transfer.need.kind) {
    case COLL_ALLGATHER:
        return tensor->member_rows[part] * tensor->row_elements;
    case COLL_REDUCESCATTER:
        return share_elements(batch, tensor, part);
    default:
        return tensor->count;
    }
}

/* Count the elements of each member's part, and of all. */
static void count_parts(struct batch *batch)
{
    int members = batch->set->members.size;
    batch->transfer.count = 0;
    memset(batch->counts.sent, 0, (size_t)members * sizeof(*batch->counts.sent));
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next) {
        for (int part = 0; part < members; part++) {
            int64_t elements = layout_part_elements(batch, tensor, part);
            batch->counts.sent[part] += elements;
            batch->transfer.count += elements;
        }
    }
    batch->transfer.counts = batch->counts.sent;
}

/* Count the elements to and from each member. transfer.count is what this rank receives. */
static void count_alltoall(struct batch *batch)
{
    const struct request_tensor *tensor = batch->tensors;
    const int64_t *splits = tensor->request->splits;
    batch->transfer.count = 0;
    for (int member = 0; member < batch->set->members.size; member++) {
        batch->counts.sent[member] = splits[member] * tensor->row_elements;
        batch->counts.received[member] = tensor->member_rows[member] * tensor->row_elements;
        batch->transfer.count += batch->counts.received[member];
    }
    batch->transfer.counts = batch->counts.sent;
    batch->transfer.receive_counts = batch->counts.received;
}

/* Nothing is transferred, and every member knows. In an alltoall a member without rows does not know about
 * the rows of the others, so that only rows without elements count. */
static bool is_empty(const struct batch *batch)
{
    if (batch->transfer.need.kind == COLL_ALLTOALL)
        return batch->tensors->row_elements == 0;
    return batch->transfer.count == 0;
}

static int64_t spans_from(const struct batch *batch)
{
    return backend_table[batch->backend]->spans_from;
}

/* Can the backend read and write the tensors in place, without packing? */
static bool takes_tensors(const struct batch *batch)
{
    return batch->transfer.need.kind == COLL_ALLREDUCE && batch->tensor_count > 1 && batch->all_local &&
           batch_direct(batch) == NULL && batch->backend >= 0 && spans_from(batch) > 0 &&
           batch->layout.bytes >= spans_from(batch) && batch->dtype == batch->transfer.need.dtype;
}

static bool make_spans(struct batch *batch)
{
    int64_t begin = 0;
    int count = 0;
    batch->layout.spans = malloc((size_t)batch->tensor_count * sizeof(*batch->layout.spans));
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL && batch->layout.spans != NULL;
         tensor = tensor->next) {
        batch->layout.spans[count++] =
            (struct backend_span){tensor->input, tensor->output, begin, tensor->count};
        begin += tensor->count;
    }
    batch->transfer.spans = batch->layout.spans;
    batch->transfer.span_count = count;
    return batch->layout.spans != NULL;
}

/* Decide whether input and output go through the buffer. */
static void plan_packing(struct batch *batch)
{
    bool fused = batch_is_fused(batch);
    bool converted = batch->dtype != batch->transfer.need.dtype || layout_scales(batch);
    bool in_place = scales_in_place(batch);
    batch->layout.all_buffered = (fused || converted) && !in_place;
    batch->layout.in_place = in_place && !batch->tensors->request->placeholder;
    switch (batch->transfer.need.kind) {
    case COLL_ALLREDUCE:
        batch->layout.packed = batch->layout.unpacked =
            (fused && batch->layout.spans == NULL) || converted || batch->tensors->request->placeholder;
        if (batch->layout.in_place)
            batch->layout.packed = batch->transfer.prescale != 1;
        break;
    case COLL_BROADCAST:
        batch->layout.packed = fused && batch->at_root;
        batch->layout.unpacked = fused;
        break;
    case COLL_REDUCESCATTER:
        batch->layout.packed = fused || converted;
        batch->layout.unpacked =
            batch->layout.packed || batch_direct(batch) == NULL || layout_shares_in_place(batch);
        break;
    case COLL_ALLGATHER:
        batch->layout.packed = fused;
        batch->layout.unpacked = fused || batch->tensors->output == NULL;
        break;
    case COLL_ALLTOALL:
        batch->layout.unpacked = batch->tensors->output == NULL;
        break;
    }
}

int layout_plan(struct batch *batch, struct hvd_error *err)
{
    enum backend_kind kind = batch->transfer.need.kind;
    if (kind == COLL_ALLTOALL)
        count_alltoall(batch);
    else if (batch_has_parts(batch))
        count_parts(batch);
    batch->layout.bytes = batch->transfer.count * (int64_t)dtype_bytes(batch->transfer.need.dtype);
    if (takes_tensors(batch) && !make_spans(batch))
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d tensors", batch->tensor_count);
    plan_packing(batch);
    batch->layout.buffer_bytes =
        !batch->layout.in_place && (batch->layout.packed || batch->layout.unpacked) ? batch->layout.bytes : 0;
    return HVD_OK;
}

int64_t layout_own_offset(const struct batch *batch)
{
    int64_t at = 0;
    for (int member = 0; member < batch->set->members.rank; member++)
        at += batch->counts.sent[member];
    return at;
}

static char *buffer_at_element(const struct batch *batch, int64_t at)
{
    return (char *)batch->layout.buffer + at * (int64_t)dtype_bytes(batch->transfer.need.dtype);
}

void layout_rewind(struct batch *batch, int first_part, int last_part, int64_t buffer_at)
{
    batch->layout.cursor = (struct batch_cursor){
        .tensor = batch->tensors, .part = first_part, .last_part = last_part, .buffer_at = buffer_at};
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next)
        tensor->moved = 0;
}

void layout_place(struct batch *batch, void *buffer)
{
    const struct team *members = &batch->set->members;
    enum backend_kind kind = batch->transfer.need.kind;
    batch->layout.buffer = buffer;
    batch->stage = BATCH_DONE;
    if (is_empty(batch))
        return;
    int64_t at = kind == COLL_ALLGATHER ? layout_own_offset(batch) : 0;
    bool in_place = batch->layout.packed || (batch->layout.unpacked && kind == COLL_BROADCAST);
    batch->transfer.input = in_place ? buffer_at_element(batch, at) : batch->tensors->input;
    batch->transfer.output = batch->layout.unpacked ? buffer : batch->tensors->output;
    batch->transfer.on_gpu = batch_host(batch) != NULL && batch_host(batch)->handed;
    if (batch->layout.spans != NULL)
        batch->transfer.input = batch->transfer.output = NULL;
    batch->stage = batch->layout.packed ? BATCH_PACK : BATCH_START;
    if (batch->layout.packed && kind == COLL_ALLGATHER)
        layout_rewind(batch, members->rank, members->rank, at);
    else if (batch->layout.packed)
        layout_rewind(batch, 0, kind == COLL_REDUCESCATTER ? members->size - 1 : 0, 0);
}

void layout_transferred(struct batch *batch)
{
    const struct team *members = &batch->set->members;
    batch->stage = batch->layout.unpacked ? BATCH_UNPACK : BATCH_DONE;
    if (!batch->layout.unpacked)
        return;
    if (batch->transfer.need.kind == COLL_REDUCESCATTER)
        layout_rewind(batch, members->rank, members->rank, layout_own_offset(batch));
    else
        layout_rewind(batch, 0, batch->transfer.need.kind == COLL_ALLGATHER ? members->size - 1 : 0, 0);
}

/* ---- In and out of the buffer ---- */

/* Copy the next [count] elements of [tensor] into the buffer. */
static void pack_tensor(const struct batch *batch, const struct request_tensor *tensor, int64_t count)
{
    char *to = buffer_at_element(batch, batch->layout.cursor.buffer_at);
    if (tensor->request->placeholder) {
        memset(to, 0, (size_t)count * dtype_bytes(batch->transfer.need.dtype));
        return;
    }
    const char *from = (const char *)tensor->input + tensor->moved * (int64_t)dtype_bytes(batch->dtype);
    if (batch->dtype != batch->transfer.need.dtype)
        reduce_convert(batch->transfer.need.dtype, to, batch->dtype, from, count);
    else
        memcpy(to, from, (size_t)count * dtype_bytes(batch->dtype));
}

/* Copy them out of it. */
static void unpack_tensor(const struct batch *batch, const struct request_tensor *tensor, int64_t count)
{
    const char *from = buffer_at_element(batch, batch->layout.cursor.buffer_at);
    if (tensor->output == NULL || (batch->at_root && tensor->output == tensor->input))
        return;
    char *to = (char *)tensor->output + tensor->moved * (int64_t)dtype_bytes(batch->dtype);
    if (batch->dtype != batch->transfer.need.dtype)
        reduce_convert(batch->dtype, to, batch->transfer.need.dtype, from, count);
    else
        memcpy(to, from, (size_t)count * dtype_bytes(batch->dtype));
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Go to the next tensor, or to the next part. */
static void advance(struct batch *batch)
{
    struct batch_cursor *cursor = &batch->layout.cursor;
    cursor->inside = 0;
    cursor->tensor = cursor->tensor->next;
    if (cursor->tensor == NULL && cursor->part < cursor->last_part) {
        cursor->part++;
        cursor->tensor = batch->tensors;
    }
}

/* Move one portion; true where it was the last. */
static bool move_portion(struct batch *batch,
                         void (*move)(const struct batch *batch, const struct request_tensor *tensor,
                                      int64_t count))
{
    struct batch_cursor *cursor = &batch->layout.cursor;
    int64_t element_bytes = (int64_t)dtype_bytes(batch->dtype);
    int64_t left_bytes = LAYOUT_PORTION_BYTES;
    while (cursor->tensor != NULL && left_bytes > 0) {
        struct request_tensor *tensor = cursor->tensor;
        int64_t part = layout_part_elements(batch, tensor, cursor->part);
        int64_t count = smaller(part - cursor->inside, (left_bytes + element_bytes - 1) / element_bytes);
        if (count > 0)
            move(batch, tensor, count);
        cursor->inside += count;
        cursor->buffer_at += count;
        tensor->moved += count;
        left_bytes -= count * element_bytes + PART_COST_BYTES;
        if (cursor->inside == part)
            advance(batch);
    }
    return cursor->tensor == NULL;
}

void layout_pack(struct batch *batch)
{
    if (move_portion(batch, pack_tensor))
        batch->stage = BATCH_START;
}

void layout_unpack(struct batch *batch)
{
    if (move_portion(batch, unpack_tensor))
        batch->stage = BATCH_DONE;
}
