/* batch.c: operations that travel together: packing into one buffer, and out of it, in slices. */
#include "flow/batch.h"

#include <stdlib.h>
#include <string.h>

#include "flow/adasum.h"
#include "flow/row_counts.h"
#include "backend/arith/reduce.h"

/* What a part costs, however small it is: a slice ends in time also where parts are tiny. */
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

/* As what elements of [dtype] travel. */
static enum hvd_dtype travel_dtype(const struct desc *desc, enum hvd_dtype dtype)
{
    if (is_adasum(desc))
        return reduce_partial(dtype);
    if (dtype != HVD_FLOAT32 || desc->wire == HVD_WIRE_EXACT || !reduces(desc))
        return dtype;
    return desc->wire == HVD_WIRE_FLOAT16 ? HVD_FLOAT16 : HVD_BFLOAT16;
}

static enum plane_kind travel_kind(const struct desc *desc)
{
    switch (desc->kind) {
    case DESC_BROADCAST:
        return PLANE_BROADCAST;
    case DESC_ALLGATHER:
        return PLANE_ALLGATHER;
    case DESC_ALLTOALL:
        return PLANE_ALLTOALL;
    case DESC_REDUCESCATTER:
        return PLANE_REDUCESCATTER;
    default:
        return is_adasum(desc) ? PLANE_ALLTOALL : PLANE_ALLREDUCE;
    }
}

/* Does each member have a part of its own, which need not be as large as the others'? */
static bool has_parts(enum plane_kind kind)
{
    return kind == PLANE_ALLGATHER || kind == PLANE_REDUCESCATTER || kind == PLANE_ALLTOALL;
}

struct plane_need batch_need(const struct desc *desc, int index, int ranks)
{
    enum hvd_dtype dtype = desc->tensors[index].dtype;
    enum hvd_dtype travels = travel_dtype(desc, dtype);
    struct plane_need need = {
        .kind = travel_kind(desc), .dtype = travels, .partial = travels, .ranks = ranks};
    if (reduces(desc) && !is_adasum(desc)) {
        need.op = desc->op;
        if (travels == dtype)
            need.partial = reduce_partial(dtype);
    }
    return need;
}

int64_t batch_row_elements(const struct desc *desc, int index)
{
    const struct desc_tensor *tensor = &desc->tensors[index];
    return tensor->ndim == 0 ? 1 : desc_elements(HVD_UINT8, tensor->shape + 1, tensor->ndim - 1);
}

int64_t batch_item_bytes(const struct piece *piece)
{
    const struct desc *desc = piece->request->desc;
    enum hvd_dtype travels = travel_dtype(desc, desc->tensors[piece->index].dtype);
    bool sized_later = desc->kind == DESC_ALLGATHER || desc->kind == DESC_ALLTOALL;
    int64_t elements = sized_later ? batch_row_elements(desc, piece->index) : piece->count;
    int64_t bytes = 0;
    if (elements < 0 || __builtin_mul_overflow(elements, (int64_t)dtype_bytes(travels), &bytes))
        return INT64_MAX;
    return bytes;
}

static int member_of_rank(const struct plane_team *members, int rank)
{
    int member = members->size - 1;
    while (member > 0 && members->ranks[member] != rank)
        member--;
    return member;
}

struct batch *batch_create(struct team *team, int plane, const struct desc *desc, int index)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return NULL;
    const struct plane_team *members = &team->members;
    batch->team = team;
    batch->plane = plane;
    batch->tail = &batch->pieces;
    batch->dtype = desc->tensors[index].dtype;
    batch->adasum = is_adasum(desc);
    batch->travel.need = batch_need(desc, index, members->size);
    batch->travel.prescale = desc->prescale;
    batch->travel.postscale = desc->postscale;
    if (desc->kind == DESC_BROADCAST) {
        batch->travel.root = member_of_rank(members, desc->root);
        batch->at_root = batch->travel.root == members->rank;
    }
    bool sized_later = desc->kind == DESC_ALLGATHER || desc->kind == DESC_ALLTOALL;
    batch->stage = sized_later ? BATCH_SIZES : BATCH_LAY_OUT;
    batch->at_hand = true;
    enum plane_kind kind = batch->travel.need.kind;
    if (has_parts(kind))
        batch->sent = calloc((size_t)members->size, sizeof(*batch->sent));
    if (kind == PLANE_ALLTOALL)
        batch->received = calloc((size_t)members->size, sizeof(*batch->received));
    if ((has_parts(kind) && batch->sent == NULL) || (kind == PLANE_ALLTOALL && batch->received == NULL)) {
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
    free(batch);
}

void batch_add(struct batch *batch, struct piece *piece)
{
    piece->next = NULL;
    if (has_parts(batch->travel.need.kind))
        piece->row_elements = batch_row_elements(piece->request->desc, piece->index);
    else
        batch->travel.count += piece->count;
    batch->at_hand &= !piece->request->stand_in && piece->count > 0;
    *batch->tail = piece;
    batch->tail = &piece->next;
    batch->piece_count++;
}

/* ---- Where it lies ---- */

/* Elements of [piece] that are of [part]. */
static int64_t part_elements(const struct batch *batch, const struct piece *piece, int part)
{
    int64_t rows = 0;
    switch (batch->travel.need.kind) {
    case PLANE_ALLGATHER:
        return piece->member_rows[part] * piece->row_elements;
    case PLANE_REDUCESCATTER:
        rows = piece->request->desc->tensors[piece->index].shape[0];
        return hvd_share_rows(rows, part, batch->team->members.size) * piece->row_elements;
    default:
        return piece->count;
    }
}

/* Elements for, or of, each member, and of all. */
static void count_parts(struct batch *batch)
{
    int members = batch->team->members.size;
    batch->travel.count = 0;
    memset(batch->sent, 0, (size_t)members * sizeof(*batch->sent));
    for (const struct piece *piece = batch->pieces; piece != NULL; piece = piece->next) {
        for (int part = 0; part < members; part++) {
            int64_t elements = part_elements(batch, piece, part);
            batch->sent[part] += elements;
            batch->travel.count += elements;
        }
    }
    batch->travel.counts = batch->sent;
}

/* Elements to each member and from each. [count] is what comes. */
static void count_exchange(struct batch *batch)
{
    const struct piece *piece = batch->pieces;
    const int64_t *splits = piece->request->splits;
    batch->travel.count = 0;
    for (int member = 0; member < batch->team->members.size; member++) {
        batch->sent[member] = splits[member] * piece->row_elements;
        batch->received[member] = piece->member_rows[member] * piece->row_elements;
        batch->travel.count += batch->received[member];
    }
    batch->travel.counts = batch->sent;
    batch->travel.receive_counts = batch->received;
}

/* Nothing travels, as everybody knows. Who has no row for anybody cannot know what the others have. */
static bool is_empty(const struct batch *batch)
{
    if (batch->travel.need.kind == PLANE_ALLTOALL)
        return batch->pieces->row_elements == 0;
    return batch->travel.count == 0;
}

/* Can the plane take the pieces where they lie? */
static bool takes_pieces(const struct batch *batch)
{
    return batch->travel.need.kind == PLANE_ALLREDUCE && batch->piece_count > 1 && batch->at_hand &&
           batch->plane >= 0 && plane_table[batch->plane]->spans && batch->dtype == batch->travel.need.dtype;
}

static bool make_spans(struct batch *batch)
{
    int64_t begin = 0;
    int count = 0;
    batch->spans = malloc((size_t)batch->piece_count * sizeof(*batch->spans));
    for (const struct piece *piece = batch->pieces; piece != NULL && batch->spans != NULL;
         piece = piece->next) {
        batch->spans[count++] = (struct plane_span){piece->input, piece->output, begin, piece->count};
        begin += piece->count;
    }
    batch->travel.spans = batch->spans;
    batch->travel.span_count = count;
    return batch->spans != NULL;
}

/* What goes through the buffer. */
static void plan_passage(struct batch *batch)
{
    bool fused = batch->piece_count > 1;
    bool converted = batch->dtype != batch->travel.need.dtype;
    switch (batch->travel.need.kind) {
    case PLANE_ALLREDUCE:
        batch->packed = batch->unpacked =
            (fused && batch->spans == NULL) || converted || batch->pieces->request->stand_in;
        break;
    case PLANE_BROADCAST:
        batch->packed = fused && batch->at_root;
        batch->unpacked = fused;
        break;
    case PLANE_REDUCESCATTER:
        batch->packed = fused || converted;
        batch->unpacked = true;
        break;
    case PLANE_ALLGATHER:
        batch->packed = fused;
        batch->unpacked = fused || batch->pieces->output == NULL;
        break;
    case PLANE_ALLTOALL:
        batch->unpacked = batch->pieces->output == NULL;
        break;
    }
}

int batch_plan(struct batch *batch, struct hvd_error *err)
{
    enum plane_kind kind = batch->travel.need.kind;
    if (batch->adasum)
        return adasum_plan(batch, err);
    if (kind == PLANE_ALLGATHER || kind == PLANE_ALLTOALL)
        sizes_allocate(batch);
    if (kind == PLANE_ALLTOALL)
        count_exchange(batch);
    else if (has_parts(kind))
        count_parts(batch);
    batch->bytes = batch->travel.count * (int64_t)dtype_bytes(batch->travel.need.dtype);
    if (takes_pieces(batch) && !make_spans(batch))
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d tensors", batch->piece_count);
    plan_passage(batch);
    batch->buffer_bytes = batch->packed || batch->unpacked ? batch->bytes : 0;
    return HVD_OK;
}

/* In elements. */
static int64_t own_place(const struct batch *batch)
{
    int64_t at = 0;
    for (int member = 0; member < batch->team->members.rank; member++)
        at += batch->sent[member];
    return at;
}

static char *in_buffer(const struct batch *batch, int64_t at)
{
    return (char *)batch->buffer + at * (int64_t)dtype_bytes(batch->travel.need.dtype);
}

void batch_rewind(struct batch *batch, int first_part, int last_part, int64_t buffer_at)
{
    batch->cursor = (struct batch_cursor){
        .piece = batch->pieces, .part = first_part, .last_part = last_part, .buffer_at = buffer_at};
    for (struct piece *piece = batch->pieces; piece != NULL; piece = piece->next)
        piece->moved = 0;
}

void batch_lay_out(struct batch *batch, void *buffer)
{
    const struct plane_team *members = &batch->team->members;
    enum plane_kind kind = batch->travel.need.kind;
    batch->buffer = buffer;
    batch->stage = BATCH_DONE;
    if (batch->adasum) {
        adasum_lay_out(batch);
        return;
    }
    if (is_empty(batch))
        return;
    int64_t at = kind == PLANE_ALLGATHER ? own_place(batch) : 0;
    bool in_place = batch->packed || (batch->unpacked && kind == PLANE_BROADCAST);
    batch->travel.input = in_place ? in_buffer(batch, at) : batch->pieces->input;
    batch->travel.output = batch->unpacked ? buffer : batch->pieces->output;
    if (batch->spans != NULL)
        batch->travel.input = batch->travel.output = NULL;
    batch->stage = batch->packed ? BATCH_PACK : BATCH_START;
    if (batch->packed && kind == PLANE_ALLGATHER)
        batch_rewind(batch, members->rank, members->rank, at);
    else if (batch->packed)
        batch_rewind(batch, 0, kind == PLANE_REDUCESCATTER ? members->size - 1 : 0, 0);
}

void batch_arrived(struct batch *batch)
{
    const struct plane_team *members = &batch->team->members;
    if (batch->adasum) {
        adasum_arrived(batch);
        return;
    }
    batch->stage = batch->unpacked ? BATCH_UNPACK : BATCH_DONE;
    if (!batch->unpacked)
        return;
    if (batch->travel.need.kind == PLANE_REDUCESCATTER)
        batch_rewind(batch, members->rank, members->rank, own_place(batch));
    else
        batch_rewind(batch, 0, batch->travel.need.kind == PLANE_ALLGATHER ? members->size - 1 : 0, 0);
}

/* ---- In and out of the buffer ---- */

/* The next [count] elements of [piece] into the buffer. */
static void pack(const struct batch *batch, const struct piece *piece, int64_t count)
{
    char *to = in_buffer(batch, batch->cursor.buffer_at);
    if (piece->request->stand_in) {
        memset(to, 0, (size_t)count * dtype_bytes(batch->travel.need.dtype));
        return;
    }
    const char *from = (const char *)piece->input + piece->moved * (int64_t)dtype_bytes(batch->dtype);
    if (batch->dtype != batch->travel.need.dtype)
        reduce_convert(batch->travel.need.dtype, to, batch->dtype, from, count);
    else
        memcpy(to, from, (size_t)count * dtype_bytes(batch->dtype));
}

/* And out of it. */
static void unpack(const struct batch *batch, const struct piece *piece, int64_t count)
{
    const char *from = in_buffer(batch, batch->cursor.buffer_at);
    if (piece->output == NULL || (batch->at_root && piece->output == piece->input))
        return;
    char *to = (char *)piece->output + piece->moved * (int64_t)dtype_bytes(batch->dtype);
    if (batch->dtype != batch->travel.need.dtype)
        reduce_convert(batch->dtype, to, batch->travel.need.dtype, from, count);
    else
        memcpy(to, from, (size_t)count * dtype_bytes(batch->dtype));
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The next piece, or the next part. */
static void advance(struct batch *batch)
{
    struct batch_cursor *cursor = &batch->cursor;
    cursor->inside = 0;
    cursor->piece = cursor->piece->next;
    if (cursor->piece == NULL && cursor->part < cursor->last_part) {
        cursor->part++;
        cursor->piece = batch->pieces;
    }
}

/* Move one slice; true when that was the last. */
static bool move_slice(struct batch *batch,
                       void (*move)(const struct batch *batch, const struct piece *piece, int64_t count))
{
    struct batch_cursor *cursor = &batch->cursor;
    int64_t element_bytes = (int64_t)dtype_bytes(batch->dtype);
    int64_t left_bytes = BATCH_SLICE_BYTES;
    while (cursor->piece != NULL && left_bytes > 0) {
        struct piece *piece = cursor->piece;
        int64_t part = part_elements(batch, piece, cursor->part);
        int64_t count = least(part - cursor->inside, (left_bytes + element_bytes - 1) / element_bytes);
        if (count > 0)
            move(batch, piece, count);
        cursor->inside += count;
        cursor->buffer_at += count;
        piece->moved += count;
        left_bytes -= count * element_bytes + PART_COST_BYTES;
        if (cursor->inside == part)
            advance(batch);
    }
    return cursor->piece == NULL;
}

void batch_pack(struct batch *batch)
{
    if (batch->adasum)
        adasum_pack(batch);
    else if (move_slice(batch, pack))
        batch->stage = BATCH_START;
}

void batch_unpack(struct batch *batch)
{
    if (batch->adasum)
        adasum_unpack(batch);
    else if (move_slice(batch, unpack))
        batch->stage = BATCH_DONE;
}
