/* batch.c: tensors that are transferred together. */
#include "flow/batch/batch.h"

#include <stdlib.h>
#include <string.h>

#include "backend/arith/reduce.h"
#include "base/dtype.h"

static bool is_adasum(const struct desc *desc)
{
    return desc->kind == DESC_ALLREDUCE && desc->op == HVD_ADASUM;
}

/* The type as which elements of [dtype] are transferred. */
static enum hvd_dtype transfer_dtype(const struct desc *desc, enum hvd_dtype dtype)
{
    if (is_adasum(desc))
        return reduce_partial(dtype);
    if (dtype != HVD_FLOAT32 || desc->wire == HVD_WIRE_EXACT || !desc_reduces(desc->kind))
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
    case DESC_GATHER:
    case DESC_SCATTER:
        return COLL_ALLTOALL;
    case DESC_REDUCESCATTER:
    case DESC_REDUCE: /* in which all is the root's share */
        return COLL_REDUCESCATTER;
    default:
        return is_adasum(desc) ? COLL_ALLTOALL : COLL_ALLREDUCE;
    }
}

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
    if (desc_reduces(desc->kind) && !is_adasum(desc)) {
        need.op = desc->op;
        if (transferred == dtype)
            need.partial = reduce_partial(dtype);
    }
    return need;
}

/* Elements in a row of tensor [index]: the product of all dimensions but the first. -1 where it is more
 * than BYTES_MAX. */
static int64_t row_elements_of(const struct desc *desc, int index)
{
    const struct desc_tensor *tensor = &desc->tensors[index];
    return tensor->ndim == 0 ? 1 : desc_elements(HVD_UINT8, tensor->shape + 1, tensor->ndim - 1);
}

int64_t batch_tensor_bytes(const struct request_tensor *tensor)
{
    const struct desc *desc = tensor->request->desc;
    enum hvd_dtype transferred = transfer_dtype(desc, desc->tensors[tensor->index].dtype);
    int64_t elements = desc_is_sized_later(desc->kind) ? row_elements_of(desc, tensor->index) : tensor->count;
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

static bool allocate_counts(struct batch *batch)
{
    size_t members = (size_t)batch->set->members.size;
    enum backend_kind kind = batch->transfer.need.kind;
    if (is_per_member(kind))
        batch->counts.sent = calloc(members, sizeof(*batch->counts.sent));
    if (kind == COLL_ALLTOALL)
        batch->counts.received = calloc(members, sizeof(*batch->counts.received));
    return (!is_per_member(kind) || batch->counts.sent != NULL) &&
           (kind != COLL_ALLTOALL || batch->counts.received != NULL);
}

/* ---- Its route, and the part that belongs to that ---- */

struct batch_host *batch_host(const struct batch *batch)
{
    bool has_it = batch->route == ROUTE_HOST || batch->route == ROUTE_ADASUM;
    return has_it ? (struct batch_host *)&batch->part.host : NULL;
}

struct batch_adasum *batch_adasum(const struct batch *batch)
{
    return batch->route == ROUTE_ADASUM ? (struct batch_adasum *)&batch->part.adasum : NULL;
}

struct batch_direct *batch_direct(const struct batch *batch)
{
    return batch->route == ROUTE_DIRECT ? (struct batch_direct *)&batch->part.direct : NULL;
}

struct batch_start *batch_start(const struct batch *batch)
{
    return batch->route == ROUTE_START ? (struct batch_start *)&batch->part.start : NULL;
}

struct batch_set_change *batch_set_change(const struct batch *batch)
{
    return batch->route == ROUTE_SET_CHANGE ? (struct batch_set_change *)&batch->part.set_change : NULL;
}

/* A new part for [route]. */
static void take_route(struct batch *batch, enum batch_route route)
{
    batch->route = route;
    memset(&batch->part, 0, sizeof(batch->part));
}

/* The part of a batch that was cut off from [batch]: only what all members agreed on is the same. */
static void take_route_of(struct batch *rest, const struct batch *batch)
{
    const struct batch_direct *direct = batch_direct(batch);
    take_route(rest, batch->route);
    if (direct != NULL)
        rest->part.direct =
            (struct batch_direct){.alone = direct->alone, .same_offsets = direct->same_offsets};
}

static void free_direct(const struct batch *batch, struct batch_direct *direct)
{
    gpu_plan_put(direct->pack_plan);
    gpu_plan_put(direct->unpack_plan);
    gpu_buffer_destroy(batch->gpu, direct->own_memory);
    free(direct->exchange);
}

static void free_part(struct batch *batch)
{
    if (batch_direct(batch) != NULL)
        free_direct(batch, batch_direct(batch));
    if (batch_start(batch) != NULL)
        gpu_event_release(batch_start(batch)->ready);
    if (batch_set_change(batch) != NULL)
        desc_release(batch_set_change(batch)->desc);
}

void batch_go_direct(struct batch *batch, struct gpu *gpu, bool alone)
{
    take_route(batch, ROUTE_DIRECT);
    batch->part.direct = (struct batch_direct){.alone = alone, .same_offsets = true};
    batch->gpu = gpu;
    batch->stage = BATCH_CONNECT;
}

/* On a rank that has joined the zeros are in host memory. */
void batch_go_through_host(struct batch *batch)
{
    bool joined = true;
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next)
        joined &= tensor->request->placeholder;
    free_part(batch);
    take_route(batch, ROUTE_HOST);
    if (joined)
        batch->gpu = NULL;
    batch->stage = BATCH_FETCH;
}

bool batch_uses_nccl(const struct batch *batch)
{
    const struct batch_direct *direct = batch_direct(batch);
    const struct batch_start *start = batch_start(batch);
    return (direct != NULL && !direct->alone) || (start != NULL && !start->alone);
}

struct batch *batch_companions(const struct batch *batch)
{
    const struct batch_direct *direct = batch_direct(batch);
    return direct != NULL ? direct->companions : NULL;
}

struct batch *batch_take_companions(struct batch *batch)
{
    struct batch *companions = batch_companions(batch);
    if (companions != NULL)
        batch_direct(batch)->companions = NULL;
    return companions;
}

/* ---- Made, and freed ---- */

struct batch *batch_create(struct process_set *set, int backend, const struct desc *desc, int index)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return NULL;
    const struct team *members = &set->members;
    batch->set = set;
    batch->backend = backend;
    batch->tail = &batch->tensors;
    batch->dtype = desc->tensors[index].dtype;
    batch->transfer.need = batch_need(desc, index, members->size);
    batch->transfer.prescale = desc->prescale;
    batch->transfer.postscale = desc->postscale;
    if (desc_has_root(desc->kind))
        batch->transfer.root = member_of_rank(members, desc->root);
    batch->at_root = desc->kind == DESC_BROADCAST && batch->transfer.root == members->rank;
    take_route(batch, is_adasum(desc) ? ROUTE_ADASUM : ROUTE_HOST);
    batch->stage = batch_is_sized_later(batch) ? BATCH_ROW_COUNTS : BATCH_LAY_OUT;
    batch->all_local = true;
    if (!allocate_counts(batch)) {
        batch_free(batch);
        return NULL;
    }
    return batch;
}

/* NULL without memory. */
static struct batch *create_without_tensors(enum batch_route route, enum batch_stage stage)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return NULL;
    take_route(batch, route);
    batch->tail = &batch->tensors;
    batch->stage = stage;
    batch->backend = -1;
    return batch;
}

struct batch *batch_create_start(const struct batch *first, struct persistent *persistent,
                                 const struct desc *desc)
{
    struct batch *batch = create_without_tensors(ROUTE_START, BATCH_DONE);
    if (batch == NULL)
        return NULL;
    batch->set = first->set;
    batch->gpu = first->gpu;
    batch->persistent = persistent;
    batch->part.start = (struct batch_start){.desc = desc, .alone = !batch_uses_nccl(first)};
    return batch;
}

struct batch *batch_create_set_change(enum batch_stage stage, hvd_set number, const struct desc *desc,
                                      struct request *request)
{
    struct batch *batch = create_without_tensors(ROUTE_SET_CHANGE, stage);
    if (batch != NULL)
        batch->part.set_change =
            (struct batch_set_change){.request = request, .desc = desc_hold(desc), .number = number};
    return batch;
}

void batch_free(struct batch *batch)
{
    if (batch == NULL)
        return;
    free(batch->counts.sizes);
    free(batch->counts.sent);
    free(batch->counts.received);
    free(batch->layout.spans);
    gpu_event_release(batch->event);
    free_part(batch);
    free(batch);
}

/* ---- Its tensors ---- */

bool batch_is_sized_later(const struct batch *batch)
{
    enum backend_kind kind = batch->transfer.need.kind;
    return batch->route != ROUTE_ADASUM && (kind == COLL_ALLGATHER || kind == COLL_ALLTOALL);
}

bool batch_has_row_counts(const struct batch *batch)
{
    return !batch_is_sized_later(batch) || batch->tensors->member_rows != NULL;
}

bool batch_has_parts(const struct batch *batch)
{
    return is_per_member(batch->transfer.need.kind);
}

bool batch_is_fused(const struct batch *batch)
{
    const struct batch_direct *direct = batch_direct(batch);
    return batch->tensor_count > 1 && (direct == NULL || direct->memory == NULL);
}

void batch_add(struct batch *batch, struct request_tensor *tensor)
{
    struct batch_direct *direct = batch_direct(batch);
    tensor->next = NULL;
    if (batch_has_parts(batch))
        tensor->row_elements = row_elements_of(tensor->request->desc, tensor->index);
    else
        batch->transfer.count += tensor->count;
    if (direct != NULL) {
        direct->same_offsets &= tensor->request->same_offsets;
        direct->group_bytes = bytes_add(direct->group_bytes, batch_tensor_bytes(tensor));
    }
    batch->all_local &= !tensor->request->placeholder && tensor->count > 0;
    *batch->tail = tensor;
    batch->tail = &tensor->next;
    batch->tensor_count++;
}

/* What the members agreed on, without where it lies. */
static struct backend_batch terms_of(const struct backend_batch *transfer)
{
    return (struct backend_batch){.need = transfer->need,
                                  .root = transfer->root,
                                  .chunk_bytes = transfer->chunk_bytes,
                                  .prescale = transfer->prescale,
                                  .postscale = transfer->postscale};
}

/* A batch of the same kind as [batch], which has no tensors, owns nothing, and is laid out anew. Whatever is
 * not named here stays the same: nobody has to remember a new field. */
static struct batch *create_like(const struct batch *batch)
{
    struct batch *rest = malloc(sizeof(*rest));
    if (rest == NULL)
        return NULL;
    *rest = *batch;
    rest->next = NULL;
    rest->tensors = NULL;
    rest->tail = &rest->tensors;
    rest->event = NULL;
    rest->transfer = terms_of(&batch->transfer);
    rest->counts = (struct batch_counts){.sent = NULL};
    rest->layout = (struct batch_layout){.bytes = 0};
    take_route_of(rest, batch);
    if (allocate_counts(rest))
        return rest;
    batch_free(rest);
    return NULL;
}

int batch_split(struct batch *batch, struct request_tensor **end, int kept, struct batch **restp,
                struct hvd_error *err)
{
    struct batch *rest = create_like(batch);
    *restp = rest;
    if (rest == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left to plan the next operations");
    if (*end != NULL)
        rest->tail = batch->tail;
    rest->tensors = *end;
    rest->tensor_count = batch->tensor_count - kept;
    batch->tensor_count = kept;
    batch->tail = end;
    *end = NULL;
    return HVD_OK;
}

/* Is its size known, so that NCCL can be given it at once? */
static bool is_launched_at_once(const struct batch *batch)
{
    enum backend_kind kind = batch->transfer.need.kind;
    return kind == COLL_ALLREDUCE || kind == COLL_BROADCAST || kind == COLL_REDUCESCATTER;
}

bool batch_join(struct batch *leader, struct batch *batch)
{
    struct batch_direct *first = batch_direct(leader);
    const struct batch_direct *added = batch_direct(batch);
    if (first == NULL || added == NULL || leader->set != batch->set ||
        leader->persistent != batch->persistent || !is_launched_at_once(leader) ||
        !is_launched_at_once(batch) || added->group_bytes > leader->fusion_bytes - first->group_bytes)
        return false;
    struct batch **last = &first->companions;
    while (*last != NULL)
        last = &(*last)->next;
    batch->next = NULL;
    *last = batch;
    first->group_bytes += added->group_bytes;
    return true;
}

uint64_t batch_number(const struct batch *batch)
{
    if (batch->number > 0)
        return batch->number;
    if (batch->set == NULL || batch->stage > BATCH_RUN)
        return 0;
    return batch->set->sequence + (batch->stage < BATCH_RUN);
}

const struct desc *batch_desc(const struct batch *batch)
{
    if (batch_start(batch) != NULL)
        return batch_start(batch)->desc;
    if (batch_set_change(batch) != NULL)
        return batch_set_change(batch)->desc;
    return batch->tensors->request->desc;
}

/* Have the streams of its tensors, or that of a start, come to it? */
static bool is_ready(const struct batch *batch)
{
    const struct batch_start *start = batch_start(batch);
    bool waits = start != NULL && start->ready != NULL;
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next) {
        const struct gpu_event *ready = tensor->request->ready;
        if (ready != NULL && gpu_event_status(ready, NULL) == HVD_IN_PROGRESS)
            return false;
    }
    return !waits || gpu_event_status(start->ready, NULL) != HVD_IN_PROGRESS;
}

bool batch_waits_for_program(const struct batch *batch)
{
    return (batch->stage == BATCH_FETCHING || batch->stage == BATCH_DONE) && !is_ready(batch);
}

bool batch_is_in_nccl(const struct batch *batch)
{
    const struct batch_set_change *change = batch_set_change(batch);
    bool splits = change != NULL && change->splitting;
    return batch->stage == BATCH_CONNECTING || batch->stage == BATCH_LAUNCHING || splits;
}

/* A set that is being removed has a communicator too, which may know any memory. */
bool batches_use(const struct batch *batches, const struct gpu_memory *memory)
{
    bool found = false;
    for (const struct batch *batch = batches; batch != NULL && !found; batch = batch->next) {
        const struct batch_direct *direct = batch_direct(batch);
        found = batch->stage == BATCH_SET_REMOVE ||
                (direct != NULL && (direct->memory == memory || batches_use(direct->companions, memory)));
    }
    return found;
}
