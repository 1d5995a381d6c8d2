/* wire_decode.c: decodes the records of the negotiation; their bytes may be hostile. Pure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "negotiate/wire.h"
#include "base/backend_id.h"
#include "base/dtype.h"

/* A tensor takes at least its type, its number of dimensions, and a name of one byte with its length. */
#define TENSOR_LEAST_BYTES 5

/* Decode a process set's number, or a root; the caller checks the rules of the kind. */
static int get_count(struct decoder *decoder)
{
    return (int)decode_at_most(decoder, 4, INT32_MAX);
}

static int get_rank(struct wire_reader *reader)
{
    return (int)decode_at_most(&reader->decoder, 4, (uint64_t)reader->rank_count - 1);
}

/* A rank, or -1. */
static int get_rank_or_none(struct wire_reader *reader)
{
    return (int)decode_at_most(&reader->decoder, 4, (uint64_t)reader->rank_count) - 1;
}

static uint32_t get_backends(struct decoder *decoder)
{
    return (uint32_t)decode_at_most(decoder, 4, (UINT64_C(1) << BACKEND_COUNT) - 1);
}

static void get_name(struct decoder *decoder, char name[HVD_MAX_NAME + 1])
{
    size_t length = (size_t)decode_at_most(decoder, 1, HVD_MAX_NAME);
    decode_check(decoder, length > 0);
    decode_chars(decoder, name, length);
}

/* hvd's calls refuse a factor that is 0 or not a number, so no peer sends one. */
static double get_factor(struct decoder *decoder)
{
    double factor = decode_double(decoder);
    decode_check(decoder, isfinite(factor) && factor != 0);
    return factor;
}

static void get_tensor(struct decoder *decoder, struct desc_tensor *tensor)
{
    tensor->dtype = (enum hvd_dtype)decode_number(decoder, 1);
    decode_check(decoder, dtype_name(tensor->dtype) != NULL);
    tensor->on_device = decode_at_most(decoder, 1, 1) == 1;
    tensor->ndim = (int)decode_at_most(decoder, 1, HVD_MAX_DIMS);
    for (int i = 0; i < tensor->ndim; i++)
        tensor->shape[i] = (int64_t)decode_at_most(decoder, 8, INT64_MAX);
    get_name(decoder, tensor->name);
}

/* Has each tensor at most BYTES_MAX bytes? Then the bytes of all of them can be added up. */
static bool has_sane_size(const struct desc *desc)
{
    for (int i = 0; i < desc->tensor_count; i++)
        if (desc_count(&desc->tensors[i]) < 0)
            return false;
    return true;
}

/* Check the rules that depend on the kind of operation. */
static bool is_sane(const struct desc *desc, int rank_count)
{
    const struct desc_tensor *first = &desc->tensors[0];
    if (desc->persistent && (desc->kind == DESC_ALLTOALL || desc->kind > DESC_REDUCESCATTER))
        return false;
    if (desc->by_members && (desc->kind != DESC_SET_ADD || first->name[0] != '\001'))
        return false;
    if (desc->splits != 0 && (desc->kind != DESC_REDUCESCATTER || desc->persistent))
        return false;
    switch (desc->kind) {
    case DESC_ALLREDUCE:
    case DESC_REDUCESCATTER:
    case DESC_ALLGATHER:
        return has_sane_size(desc);
    case DESC_ALLTOALL:
        return !desc->grouped && has_sane_size(desc);
    case DESC_BROADCAST:
    case DESC_REDUCE:
    case DESC_GATHER:
    case DESC_SCATTER:
        return !desc->grouped && desc->root < rank_count && has_sane_size(desc);
    case DESC_BARRIER:
        return !desc->grouped;
    case DESC_SET_ADD:
        return !desc->grouped && desc->set == HVD_ALL_RANKS && first->ndim == 2 && first->shape[0] >= 1 &&
               first->shape[0] <= rank_count;
    case DESC_SET_REMOVE:
        return !desc->grouped && (desc->set == HVD_ALL_RANKS || desc->set == desc->root) && desc->root >= 1 &&
               strcmp(first->name, DESC_SET_REMOVE_NAME) == 0;
    case DESC_SHUTDOWN:
        return !desc->grouped && desc->set == HVD_ALL_RANKS && strcmp(first->name, DESC_SHUTDOWN_NAME) == 0;
    case DESC_JOIN: /* sent as WIRE_JOINED */
    case DESC_SEND: /* agreed on with nobody */
    case DESC_RECV:
    case DESC_EXCHANGE:
    case DESC_KIND_COUNT:
        break;
    }
    return false;
}

/* Returns how many tensors follow; none of them is read yet. */
static int get_desc_header(struct decoder *decoder, struct desc *desc)
{
    desc->kind = (enum desc_kind)decode_at_most(decoder, 1, DESC_AGREED_COUNT - 1);
    desc->set = get_count(decoder);
    desc->op = (enum hvd_op)decode_number(decoder, 1);
    desc->wire = (enum hvd_wire)decode_number(decoder, 1);
    desc->prescale = get_factor(decoder);
    desc->postscale = get_factor(decoder);
    desc->root = get_count(decoder);
    uint64_t flags = decode_at_most(decoder, 1, 15);
    desc->grouped = (flags & 1) != 0;
    desc->persistent = (flags & 2) != 0;
    desc->by_members = (flags & 8) != 0;
    uint64_t tensor_count = decode_at_most(decoder, 2, HVD_MAX_GROUP);
    bool has_splits = (flags & 4) != 0;
    desc->splits = has_splits ? decode_number(decoder, 8) : 0;
    decode_check(decoder, has_splits == (desc->splits != 0));
    decode_check(decoder, op_name(desc->op) != NULL && wire_name(desc->wire) != NULL);
    decode_check(decoder, tensor_count == 1 || (desc->grouped && tensor_count > 1));
    decode_check(decoder, tensor_count * TENSOR_LEAST_BYTES <= decoder->left);
    return (int)tensor_count;
}

static uint64_t get_offsets(struct decoder *decoder)
{
    if (decode_at_most(decoder, 1, 1) == 0)
        return 0;
    uint64_t offsets = decode_number(decoder, 8);
    decode_check(decoder, offsets != 0);
    return offsets;
}

/* Are all tensors on GPUs? Only these have offsets. */
/* HVD_OK, even if the decoder has failed, or HVD_ERR_NO_MEMORY. The same holds for the functions below
 * that return a status. */
static int get_proposal(struct wire_reader *reader, struct wire_proposal *proposal)
{
    struct decoder *decoder = &reader->decoder;
    struct desc header = {.tensor_count = 0};
    proposal->rank = get_rank(reader);
    proposal->backends = get_backends(decoder);
    int tensor_count = get_desc_header(decoder, &header);
    if (decoder->failed)
        return HVD_OK;
    struct desc *desc = desc_create(tensor_count);
    if (desc == NULL)
        return HVD_ERR_NO_MEMORY;
    proposal->desc = desc;
    desc->kind = header.kind;
    desc->set = header.set;
    desc->op = header.op;
    desc->wire = header.wire;
    desc->prescale = header.prescale;
    desc->postscale = header.postscale;
    desc->root = header.root;
    desc->splits = header.splits;
    desc->grouped = header.grouped;
    desc->persistent = header.persistent;
    desc->by_members = header.by_members;
    for (int i = 0; i < desc->tensor_count && !decoder->failed; i++)
        get_tensor(decoder, &desc->tensors[i]);
    decode_check(decoder, !decoder->failed && is_sane(desc, reader->rank_count));
    proposal->offsets = get_offsets(decoder);
    decode_check(decoder, proposal->offsets == 0 || desc_is_on_device(desc));
    return HVD_OK;
}

static void get_bitmap(struct decoder *decoder, struct wire_record *record)
{
    record->set = get_count(decoder);
    record->first_id = (uint32_t)decode_number(decoder, 4);
    record->id_span = (uint32_t)decode_number(decoder, 4);
    decode_check(decoder, record->id_span > 0 &&
                              (uint64_t)record->first_id + record->id_span <= (uint64_t)WIRE_MAX_ID + 1);
    size_t bitmap_bytes = ((size_t)record->id_span + 7) / 8;
    record->bits = decode_view(decoder, bitmap_bytes);
    if (record->bits != NULL && record->id_span % 8 != 0) /* no bits beyond the span */
        decode_check(decoder, record->bits[bitmap_bytes - 1] >> record->id_span % 8 == 0);
}

/* Blocks ascend by rank. */
static void get_inputs(struct wire_reader *reader, struct eager_inputs *inputs)
{
    struct decoder *decoder = &reader->decoder;
    int64_t before = -1;
    inputs->count = (int)decode_at_most(decoder, 2, EAGER_MAX_BYTES);
    inputs->input_bytes = (int)decode_at_most(decoder, 2, EAGER_MAX_BYTES);
    decode_check(decoder,
                 inputs->count > 0 && inputs->input_bytes > 0 && eager_bytes(inputs) <= EAGER_MAX_BYTES);
    inputs->blocks = decode_view(decoder, eager_bytes(inputs));
    for (int i = 0; i < inputs->count && !decoder->failed; i++) {
        int64_t rank = eager_rank(inputs, i);
        decode_check(decoder, rank > before && rank < reader->rank_count);
        before = rank;
    }
}

static int get_new(struct wire_reader *reader, struct wire_record *record)
{
    struct decoder *decoder = &reader->decoder;
    record->id = (uint32_t)decode_number(decoder, 4);
    record->backend = (int)decode_at_most(decoder, 1, BACKEND_COUNT) - 1;
    record->nccl = decode_at_most(decoder, 1, 1) == 1;
    record->absent = get_rank_or_none(reader);
    record->members = (int)decode_at_most(decoder, 4, (uint64_t)reader->rank_count);
    return get_proposal(reader, &record->proposal);
}

static int get_mismatch(struct wire_reader *reader, struct wire_record *record)
{
    int rc = get_proposal(reader, &record->proposal);
    if (rc == HVD_OK)
        rc = get_proposal(reader, &record->other);
    if (rc != HVD_OK || reader->decoder.failed)
        return rc;
    const struct desc *desc = record->proposal.desc, *other = record->other.desc;
    decode_check(&reader->decoder, desc->set == other->set && strcmp(desc_name(desc), desc_name(other)) == 0);
    return HVD_OK;
}

static int64_t get_time(struct decoder *decoder)
{
    return (int64_t)decode_at_most(decoder, 8, (UINT64_C(1) << 62) - 1);
}

static int get_stall_reply(struct wire_reader *reader, struct wire_record *record)
{
    struct decoder *decoder = &reader->decoder;
    record->set = get_count(decoder);
    record->id = (uint32_t)decode_number(decoder, 4);
    int missing = (int)decode_at_most(decoder, 4, (uint64_t)reader->rank_count);
    int waiting = (int)decode_at_most(decoder, 4, (uint64_t)reader->rank_count);
    int moving = (int)decode_at_most(decoder, 4, (uint64_t)reader->rank_count);
    int named = (int)decode_at_most(decoder, 1, STALL_MAX_RANKS);
    decode_check(decoder, named <= missing);
    if (decoder->failed)
        return HVD_OK;
    record->stall = calloc(1, sizeof(*record->stall));
    if (record->stall == NULL)
        return HVD_ERR_NO_MEMORY;
    record->stall->missing = missing;
    record->stall->waiting = waiting;
    record->stall->moving = moving;
    record->stall->named = named;
    for (int i = 0; i < named; i++) {
        struct stall_rank *rank = &record->stall->ranks[i];
        rank->rank = get_rank(reader);
        rank->state = (enum stall_state)decode_at_most(decoder, 1, STALL_QUEUED);
        rank->waits_for = get_rank_or_none(reader);
        decode_text(decoder, rank->last, sizeof(rank->last));
    }
    return HVD_OK;
}

static void get_settings(struct decoder *decoder, struct tuned_settings *settings)
{
    settings->fusion_bytes = (int64_t)decode_at_most(decoder, 8, INT64_MAX);
    settings->chunk_bytes = (int64_t)decode_at_most(decoder, 8, INT64_MAX);
    settings->inflight = (int64_t)decode_at_most(decoder, 8, INT64_MAX);
    decode_check(decoder, tuned_settings_valid(settings));
}

static int get_record(struct wire_reader *reader, struct wire_record *record)
{
    struct decoder *decoder = &reader->decoder;
    uint64_t type = decode_number(decoder, 1);
    record->type = (enum wire_type)type;
    switch (record->type) {
    case WIRE_IDS:
    case WIRE_RETIRE:
        get_bitmap(decoder, record);
        return HVD_OK;
    case WIRE_EAGER:
        record->set = get_count(decoder);
        record->id = (uint32_t)decode_number(decoder, 4);
        get_inputs(reader, &record->inputs);
        return HVD_OK;
    case WIRE_NEW:
        return get_new(reader, record);
    case WIRE_MISMATCH:
        return get_mismatch(reader, record);
    case WIRE_JOINED:
        record->set = get_count(decoder);
        record->rank = get_rank(reader);
        record->backends = get_backends(decoder);
        return HVD_OK;
    case WIRE_LEAVING:
        record->rank = get_rank(reader);
        return HVD_OK;
    case WIRE_UNIT:
    case WIRE_STALL_PING:
    case WIRE_STALL_PONG:
        return HVD_OK;
    case WIRE_STALL_NOTICE:
        record->time_us = get_time(decoder);
        record->batch = decode_number(decoder, 8);
        record->waits_for = get_rank_or_none(reader);
        return get_proposal(reader, &record->proposal);
    case WIRE_STALL_QUERY:
        record->set = get_count(decoder);
        record->id = (uint32_t)decode_number(decoder, 4);
        record->time_us = get_time(decoder);
        record->batch = decode_number(decoder, 8);
        get_name(decoder, record->name);
        return HVD_OK;
    case WIRE_STALL_REPLY:
        return get_stall_reply(reader, record);
    case WIRE_TUNE:
        get_settings(decoder, &record->settings);
        return HVD_OK;
    }
    decode_check(decoder, false);
    return HVD_OK;
}

int wire_get(struct wire_reader *reader, struct wire_record *record, struct hvd_error *err)
{
    size_t left = reader->decoder.left;
    if (left == 0)
        return HVD_IN_PROGRESS;
    memset(record, 0, sizeof(*record));
    int rc = get_record(reader, record);
    if (rc == HVD_OK && !reader->decoder.failed)
        return HVD_OK;
    wire_clear(record);
    if (rc == HVD_ERR_NO_MEMORY)
        return error_set(err, rc, "no memory for an operation that another rank has submitted");
    return error_set(err, HVD_ERR_SYSTEM,
                     "a record of type %d, %zu bytes before the end of its message, is malformed",
                     (int)record->type, left);
}
