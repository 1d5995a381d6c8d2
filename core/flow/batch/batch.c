/* batch.c: tensors that are transferred together, and their way into the fusion buffer and out of it. */
#include "flow/batch/batch.h"

#include <stdlib.h>
#include <string.h>

#include "flow/batch/adasum.h"
#include "flow/batch/direct.h"
#include "flow/batch/persistent.h"
#include "flow/batch/row_counts.h"
#include "flow/batch/staging.h"
#include "backend/arith/reduce.h"
#include "base/dtype.h"

/* What moving a part costs beside its bytes, as bytes: a portion of many tiny parts must not take too long.
 */
#define PART_COST_BYTES 64

/* ---- What it is ---- */

static bool is_adasum(const struct desc *desc)
{
    return desc->kind == DESC_ALLREDUCE && desc->op == HVD_ADASUM;
}

static bool reduces(const struct desc *desc)
{
    return desc->kind == DESC_ALLREDUCE || desc->kind == DESC_REDUCESCATTER;
}

/* The type as which elements of [dtype] are transferred. */
static enum hvd_dtype transfer_dtype(const struct desc *desc, enum hvd_dtype dtype)
{
    if (is_adasum(desc))
        return reduce_partial(dtype);
    if (dtype != HVD_FLOAT32 || desc->wire == HVD_WIRE_EXACT || !reduces(desc))
        return dtype;
    return desc->wire == HVD_WIRE_FLOAT16 ? HVD_FLOAT16 : HVD_BFLOAT16;
}

static enum backend_kind transfer_kind(const struct desc *desc)
{
    switch (desc->kind) {
    case DESC_BROADCAST:
        return COLL_BROADCAST;
    case DESC_ALLGATHER:
        return COLL_ALLGATHER;
    case DESC_ALLTOALL:
        return COLL_ALLTOALL;
    case DESC_REDUCESCATTER:
        return COLL_REDUCESCATTER;
    default:
        return is_adasum(desc) ? COLL_ALLTOALL : COLL_ALLREDUCE;
    }
}

/* Does each member have a part of its own? Parts may differ in size. */
static bool is_per_member(enum backend_kind kind)
{
    return kind == COLL_ALLGATHER || kind == COLL_REDUCESCATTER || kind == COLL_ALLTOALL;
}

struct backend_need batch_need(const struct desc *desc, int index, int ranks)
{
    enum hvd_dtype dtype = desc->tensors[index].dtype;
    enum hvd_dtype transferred = transfer_dtype(desc, dtype);
    struct backend_need need = {
        .kind = transfer_kind(desc), .dtype = transferred, .partial = transferred, .ranks = ranks};
    if (reduces(desc) && !is_adasum(desc)) {
        need.op = desc->op;
        if (transferred == dtype)
            need.partial = reduce_partial(dtype);
    }
    return need;
}

/* Elements in a row of tensor [index]: the product of all dimensions but the first. -1 where it is 2^63 or
 * more. */
static int64_t row_elements_of(const struct desc *desc, int index)
{
    const struct desc_tensor *tensor = &desc->tensors[index];
    return tensor->ndim == 0 ? 1 : desc_elements(HVD_UINT8, tensor->shape + 1, tensor->ndim - 1);
}

int64_t batch_tensor_bytes(const struct request_tensor *tensor)
{
    const struct desc *desc = tensor->request->desc;
    enum hvd_dtype transferred = transfer_dtype(desc, desc->tensors[tensor->index].dtype);
    bool sized_later = desc->kind == DESC_ALLGATHER || desc->kind == DESC_ALLTOALL;
    int64_t elements = sized_later ? row_elements_of(desc, tensor->index) : tensor->count;
    int64_t bytes = 0;
    if (elements < 0 || __builtin_mul_overflow(elements, (int64_t)dtype_bytes(transferred), &bytes))
        return INT64_MAX;
    return bytes;
}

static int member_of_rank(const struct team *members, int rank)
{
    int member = members->size - 1;
    while (member > 0 && members->ranks[member] != rank)
        member--;
    return member;
}

struct batch *batch_create(struct process_set *team, int backend, const struct desc *desc, int index)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return NULL;
    const struct team *members = &team->members;
    batch->team = team;
    batch->backend = backend;
    batch->tail = &batch->tensors;
    batch->dtype = desc->tensors[index].dtype;
    batch->adasum = is_adasum(desc);
    batch->transfer.need = batch_need(desc, index, members->size);
    batch->transfer.prescale = desc->prescale;
    batch->transfer.postscale = desc->postscale;
    if (desc->kind == DESC_BROADCAST) {
        batch->transfer.root = member_of_rank(members, desc->root);
        batch->at_root = batch->transfer.root == members->rank;
    }
    bool sized_later = desc->kind == DESC_ALLGATHER || desc->kind == DESC_ALLTOALL;
    batch->stage = sized_later ? BATCH_ROW_COUNTS : BATCH_LAY_OUT;
    batch->all_local = true;
    batch->same_offsets = true;
    enum backend_kind kind = batch->transfer.need.kind;
    if (is_per_member(kind))
        batch->sent = calloc((size_t)members->size, sizeof(*batch->sent));
    if (kind == COLL_ALLTOALL)
        batch->received = calloc((size_t)members->size, sizeof(*batch->received));
    if ((is_per_member(kind) && batch->sent == NULL) || (kind == COLL_ALLTOALL && batch->received == NULL)) {
        batch_free(batch);
        return NULL;
    }
    return batch;
}

void batch_free(struct batch *batch)
{
    if (batch == NULL)
        return;
    free(batch->sizes);
    free(batch->sent);
    free(batch->received);
    free(batch->spans);
    gpu_event_release(batch->event);
    gpu_event_release(batch->ready);
    gpu_plan_put(batch->pack_plan);
    gpu_plan_put(batch->unpack_plan);
    gpu_buffer_destroy(batch->gpu, batch->own_memory);
    free(batch->exchange);
    free(batch);
}

bool batch_has_row_counts(const struct batch *batch)
{
    enum backend_kind kind = batch->transfer.need.kind;
    bool sized_later = !batch->adasum && (kind == COLL_ALLGATHER || kind == COLL_ALLTOALL);
    return !sized_later || batch->tensors->member_rows != NULL;
}

bool batch_is_fused(const struct batch *batch)
{
    return batch->tensor_count > 1 && batch->memory == NULL;
}

void batch_add(struct batch *batch, struct request_tensor *tensor)
{
    tensor->next = NULL;
    if (is_per_member(batch->transfer.need.kind))
        tensor->row_elements = row_elements_of(tensor->request->desc, tensor->index);
    else
        batch->transfer.count += tensor->count;
    batch->all_local &= !tensor->request->placeholder && tensor->count > 0;
    *batch->tail = tensor;
    batch->tail = &tensor->next;
    batch->tensor_count++;
}

int batch_split(struct batch *batch, struct request_tensor **end, int kept, struct batch **restp,
                struct hvd_error *err)
{
    struct request_tensor *tensor = *end;
    struct batch *rest = batch_create(batch->team, batch->backend, tensor->request->desc, tensor->index);
    *restp = rest;
    if (rest == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left to plan the next operations");
    rest->gpu = batch->gpu;
    rest->direct = batch->direct;
    rest->persistent = batch->persistent;
    rest->all_local = batch->all_local;
    rest->fusion_bytes = batch->fusion_bytes;
    rest->transfer.chunk_bytes = batch->transfer.chunk_bytes;
    rest->tensors = tensor;
    rest->tail = batch->tail;
    rest->tensor_count = batch->tensor_count - kept;
    batch->tensor_count = kept;
    batch->tail = end;
    *end = NULL;
    return HVD_OK;
}

/* Does NCCL carry it, and is its size known, so that it can be launched at once? */
static bool is_launched_at_once(const struct batch *batch)
{
    enum backend_kind kind = batch->transfer.need.kind;
    return batch->direct && (kind == COLL_ALLREDUCE || kind == COLL_BROADCAST || kind == COLL_REDUCESCATTER);
}

bool batch_join(struct batch *leader, struct batch *batch)
{
    struct batch **last = &leader->companions;
    if (leader->team != batch->team || leader->persistent != batch->persistent ||
        !is_launched_at_once(leader) || !is_launched_at_once(batch) ||
        batch->group_bytes > leader->fusion_bytes - leader->group_bytes)
        return false;
    while (*last != NULL)
        last = &(*last)->next;
    batch->next = NULL;
    *last = batch;
    leader->group_bytes += batch->group_bytes;
    return true;
}

uint64_t batch_number(const struct batch *batch)
{
    if (batch->number > 0)
        return batch->number;
    if (batch->team == NULL || batch->stage > BATCH_RUN)
        return 0;
    return batch->team->sequence + (batch->stage < BATCH_RUN);
}

const struct desc *batch_desc(const struct batch *batch)
{
    if (batch->starts)
        return persistent_desc(batch->persistent);
    return batch->tensors != NULL ? batch->tensors->request->desc : batch->request->desc;
}

bool batch_is_ready(const struct batch *batch)
{
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next) {
        const struct gpu_event *ready = tensor->request->ready;
        if (ready != NULL && gpu_event_status(ready, NULL) == HVD_IN_PROGRESS)
            return false;
    }
    return batch->ready == NULL || gpu_event_status(batch->ready, NULL) != HVD_IN_PROGRESS;
}

/* ---- Where it lies ---- */

int64_t batch_part_elements(const struct batch *batch, const struct request_tensor *tensor, int part)
{
    int64_t rows = 0;
    switch (batch->transfer.need.kind) {
    case COLL_ALLGATHER:
        return tensor->member_rows[part] * tensor->row_elements;
    case COLL_REDUCESCATTER:
        rows = tensor->request->desc->tensors[tensor->index].shape[0];
        return hvd_share_rows(rows, part, batch->team->members.size) * tensor->row_elements;
    default:
        return tensor->count;
    }
}

/* Count the elements of each member's part, and of all. */
static void count_parts(struct batch *batch)
{
    int members = batch->team->members.size;
    batch->transfer.count = 0;
    memset(batch->sent, 0, (size_t)members * sizeof(*batch->sent));
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next) {
        for (int part = 0; part < members; part++) {
            int64_t elements = batch_part_elements(batch, tensor, part);
            batch->sent[part] += elements;
            batch->transfer.count += elements;
        }
    }
    batch->transfer.counts = batch->sent;
}

/* Count the elements to and from each member. transfer.count is what this rank receives. */
static void count_alltoall(struct batch *batch)
{
    const struct request_tensor *tensor = batch->tensors;
    const int64_t *splits = tensor->request->splits;
    batch->transfer.count = 0;
    for (int member = 0; member < batch->team->members.size; member++) {
        batch->sent[member] = splits[member] * tensor->row_elements;
        batch->received[member] = tensor->member_rows[member] * tensor->row_elements;
        batch->transfer.count += batch->received[member];
    }
    batch->transfer.counts = batch->sent;
    batch->transfer.receive_counts = batch->received;
}

/* Nothing is transferred, and every member knows. In an alltoall a member without rows does not know about
 * the rows of the others, so that only rows without elements count. */
static bool is_empty(const struct batch *batch)
{
    if (batch->transfer.need.kind == COLL_ALLTOALL)
        return batch->tensors->row_elements == 0;
    return batch->transfer.count == 0;
}

/* Can the backend read and write the tensors in place, without packing? */
static bool takes_tensors(const struct batch *batch)
{
    return batch->transfer.need.kind == COLL_ALLREDUCE && batch->tensor_count > 1 && batch->all_local &&
           !batch->direct && batch->backend >= 0 && backend_table[batch->backend]->spans &&
           batch->dtype == batch->transfer.need.dtype;
}

static bool make_spans(struct batch *batch)
{
    int64_t begin = 0;
    int count = 0;
    batch->spans = malloc((size_t)batch->tensor_count * sizeof(*batch->spans));
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL && batch->spans != NULL;
         tensor = tensor->next) {
        batch->spans[count++] = (struct backend_span){tensor->input, tensor->output, begin, tensor->count};
        begin += tensor->count;
    }
    batch->transfer.spans = batch->spans;
    batch->transfer.span_count = count;
    return batch->spans != NULL;
}

/* Decide whether input and output go through the buffer. */
static void plan_packing(struct batch *batch)
{
    bool fused = batch_is_fused(batch);
    bool converted = batch->dtype != batch->transfer.need.dtype || direct_scales(batch);
    bool in_place = direct_scales_in_place(batch);
    batch->all_buffered = (fused || converted) && !in_place;
    batch->in_place = in_place && !batch->tensors->request->placeholder;
    switch (batch->transfer.need.kind) {
    case COLL_ALLREDUCE:
        batch->packed = batch->unpacked =
            (fused && batch->spans == NULL) || converted || batch->tensors->request->placeholder;
        if (batch->in_place)
            batch->packed = batch->transfer.prescale != 1;
        break;
    case COLL_BROADCAST:
        batch->packed = fused && batch->at_root;
        batch->unpacked = fused;
        break;
    case COLL_REDUCESCATTER:
        batch->packed = fused || converted;
        batch->unpacked = batch->packed || !batch->direct || direct_shares_in_place(batch);
        break;
    case COLL_ALLGATHER:
        batch->packed = fused;
        batch->unpacked = fused || batch->tensors->output == NULL;
        break;
    case COLL_ALLTOALL:
        batch->unpacked = batch->tensors->output == NULL;
        break;
    }
}

int batch_plan(struct batch *batch, struct hvd_error *err)
{
    enum backend_kind kind = batch->transfer.need.kind;
    if (batch->adasum)
        return adasum_plan(batch, err);
    if (kind == COLL_ALLGATHER || kind == COLL_ALLTOALL) {
        row_counts_allocate(batch);
        int rc =
            batch->gpu == NULL || batch->direct || batch->handed ? HVD_OK : staging_place_results(batch, err);
        if (rc != HVD_OK)
            return rc;
    }
    if (kind == COLL_ALLTOALL)
        count_alltoall(batch);
    else if (is_per_member(kind))
        count_parts(batch);
    batch->bytes = batch->transfer.count * (int64_t)dtype_bytes(batch->transfer.need.dtype);
    if (takes_tensors(batch) && !make_spans(batch))
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d tensors", batch->tensor_count);
    plan_packing(batch);
    batch->buffer_bytes = !batch->in_place && (batch->packed || batch->unpacked) ? batch->bytes : 0;
    return HVD_OK;
}

int64_t batch_own_offset(const struct batch *batch)
{
    int64_t at = 0;
    for (int member = 0; member < batch->team->members.rank; member++)
        at += batch->sent[member];
    return at;
}

static char *buffer_at_element(const struct batch *batch, int64_t at)
{
    return (char *)batch->buffer + at * (int64_t)dtype_bytes(batch->transfer.need.dtype);
}

void batch_rewind(struct batch *batch, int first_part, int last_part, int64_t buffer_at)
{
    batch->cursor = (struct batch_cursor){
        .tensor = batch->tensors, .part = first_part, .last_part = last_part, .buffer_at = buffer_at};
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next)
        tensor->moved = 0;
}

void batch_lay_out(struct batch *batch, void *buffer)
{
    const struct team *members = &batch->team->members;
    enum backend_kind kind = batch->transfer.need.kind;
    batch->buffer = buffer;
    batch->stage = BATCH_DONE;
    if (batch->adasum) {
        adasum_lay_out(batch);
        return;
    }
    if (is_empty(batch))
        return;
    int64_t at = kind == COLL_ALLGATHER ? batch_own_offset(batch) : 0;
    bool in_place = batch->packed || (batch->unpacked && kind == COLL_BROADCAST);
    batch->transfer.input = in_place ? buffer_at_element(batch, at) : batch->tensors->input;
    batch->transfer.output = batch->unpacked ? buffer : batch->tensors->output;
    batch->transfer.on_gpu = batch->handed;
    if (batch->spans != NULL)
        batch->transfer.input = batch->transfer.output = NULL;
    batch->stage = batch->packed ? BATCH_PACK : BATCH_START;
    if (batch->packed && kind == COLL_ALLGATHER)
        batch_rewind(batch, members->rank, members->rank, at);
    else if (batch->packed)
        batch_rewind(batch, 0, kind == COLL_REDUCESCATTER ? members->size - 1 : 0, 0);
}

void batch_transfer_done(struct batch *batch)
{
    const struct team *members = &batch->team->members;
    if (batch->adasum) {
        adasum_transfer_done(batch);
        return;
    }
    batch->stage = batch->unpacked ? BATCH_UNPACK : BATCH_DONE;
    if (!batch->unpacked)
        return;
    if (batch->transfer.need.kind == COLL_REDUCESCATTER)
        batch_rewind(batch, members->rank, members->rank, batch_own_offset(batch));
    else
        batch_rewind(batch, 0, batch->transfer.need.kind == COLL_ALLGATHER ? members->size - 1 : 0, 0);
}

/* ---- In and out of the buffer ---- */

/* Copy the next [count] elements of [tensor] into the buffer. */
static void pack(const struct batch *batch, const struct request_tensor *tensor, int64_t count)
{
    char *to = buffer_at_element(batch, batch->cursor.buffer_at);
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
static void unpack(const struct batch *batch, const struct request_tensor *tensor, int64_t count)
{
    const char *from = buffer_at_element(batch, batch->cursor.buffer_at);
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
    struct batch_cursor *cursor = &batch->cursor;
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
    struct batch_cursor *cursor = &batch->cursor;
    int64_t element_bytes = (int64_t)dtype_bytes(batch->dtype);
    int64_t left_bytes = BATCH_PORTION_BYTES;
    while (cursor->tensor != NULL && left_bytes > 0) {
        struct request_tensor *tensor = cursor->tensor;
        int64_t part = batch_part_elements(batch, tensor, cursor->part);
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

void batch_pack(struct batch *batch)
{
    if (batch->adasum)
        adasum_pack(batch);
    else if (move_portion(batch, pack))
        batch->stage = BATCH_START;
}

void batch_unpack(struct batch *batch)
{
    if (batch->adasum)
        adasum_unpack(batch);
    else if (move_portion(batch, unpack))
        batch->stage = BATCH_DONE;
}
