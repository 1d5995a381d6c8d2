/* wire.c: encodes the records of the negotiation. Pure. */
#include "negotiate/wire.h"

#include <stdlib.h>
#include <string.h>

/* A new IDS record costs 13 bytes, which is as much as a gap of 104 bits in a bitmap. */
#define IDS_GAP 104

/* Memory that an empty message keeps for the next one. The messages of a first round hold descriptions and
 * are long; keeping that much memory for each link would not pay. */
#define KEPT_BYTES 4096

/* The most bytes that each part of a record can take. */
#define FIXED_BYTES      32 /* everything but proposals, bitmaps, names and ranks */
#define PROPOSAL_BYTES   48 /* without its tensors and their offsets */
#define PLACE_BYTES      9
#define TENSOR_BYTES     (3 + 8 * HVD_MAX_DIMS + 1 + HVD_MAX_NAME)
#define STALL_RANK_BYTES (4 + 1 + 4 + 2 + DESC_TITLE_BYTES)

/* Begin a part of at most [most] bytes at the end of the message. The encoder is valid until the next
 * call. */
static struct encoder begin_part(struct wire_writer *writer, size_t most)
{
    if (!writer->failed && writer->capacity - writer->length < most) {
        size_t capacity = 2 * writer->capacity + most + 256;
        unsigned char *bytes = realloc(writer->bytes, capacity);
        if (bytes == NULL) {
            writer->failed = true;
        } else {
            writer->bytes = bytes;
            writer->capacity = capacity;
        }
    }
    if (writer->failed)
        return (struct encoder){.failed = true};
    return (struct encoder){.at = writer->bytes + writer->length, .left = most};
}

static void end(struct wire_writer *writer, const struct encoder *encoder)
{
    if (encoder->failed)
        writer->failed = true;
    else
        writer->length = (size_t)(encoder->at - writer->bytes);
}

void wire_put_bytes(struct wire_writer *writer, const void *bytes, size_t length)
{
    if (length == 0)
        return;
    struct encoder encoder = begin_part(writer, length);
    encode_raw(&encoder, bytes, length);
    end(writer, &encoder);
}

static void encode_name(struct encoder *encoder, const char *name)
{
    size_t length = strnlen(name, HVD_MAX_NAME);
    encode_number(encoder, length, 1);
    encode_raw(encoder, name, length);
}

static void put_tensor(struct wire_writer *writer, const struct desc_tensor *tensor)
{
    struct encoder encoder = begin_part(writer, TENSOR_BYTES);
    encode_number(&encoder, tensor->dtype, 1);
    encode_number(&encoder, tensor->on_device, 1);
    encode_number(&encoder, (uint64_t)tensor->ndim, 1);
    for (int i = 0; i < tensor->ndim; i++)
        encode_number(&encoder, (uint64_t)tensor->shape[i], 8);
    encode_name(&encoder, tensor->name);
    end(writer, &encoder);
}

/* Most operations have none, and take one byte for it. */
static void put_offsets(struct wire_writer *writer, uint64_t offsets)
{
    struct encoder encoder = begin_part(writer, PLACE_BYTES);
    encode_number(&encoder, offsets != 0, 1);
    if (offsets != 0)
        encode_number(&encoder, offsets, 8);
    end(writer, &encoder);
}

static void put_proposal(struct wire_writer *writer, const struct wire_proposal *proposal)
{
    const struct desc *desc = proposal->desc;
    struct encoder encoder = begin_part(writer, PROPOSAL_BYTES);
    encode_number(&encoder, (uint64_t)proposal->rank, 4);
    encode_number(&encoder, proposal->backends, 4);
    encode_number(&encoder, desc->kind, 1);
    encode_number(&encoder, (uint64_t)desc->set, 4);
    encode_number(&encoder, desc->op, 1);
    encode_number(&encoder, desc->wire, 1);
    encode_double(&encoder, desc->prescale);
    encode_double(&encoder, desc->postscale);
    encode_number(&encoder, (uint64_t)desc->root, 4);
    encode_number(&encoder,
                  (uint64_t)desc->grouped | (uint64_t)desc->persistent << 1 |
                      (uint64_t)(desc->splits != 0) << 2 | (uint64_t)desc->by_members << 3,
                  1);
    encode_number(&encoder, (uint64_t)desc->tensor_count, 2);
    if (desc->splits != 0)
        encode_number(&encoder, desc->splits, 8);
    end(writer, &encoder);
    for (int i = 0; i < desc->tensor_count; i++)
        put_tensor(writer, &desc->tensors[i]);
    put_offsets(writer, proposal->offsets);
}

static void put_stall_ranks(struct wire_writer *writer, const struct stall_report *stall)
{
    struct encoder encoder = begin_part(writer, STALL_MAX_RANKS * STALL_RANK_BYTES);
    for (int i = 0; i < stall->named; i++) {
        encode_number(&encoder, (uint64_t)stall->ranks[i].rank, 4);
        encode_number(&encoder, stall->ranks[i].state, 1);
        encode_number(&encoder, (uint64_t)(stall->ranks[i].waits_for + 1), 4);
        encode_text(&encoder, stall->ranks[i].last, sizeof(stall->ranks[i].last));
    }
    end(writer, &encoder);
}

/* Encode what comes before a record's bitmap, proposals or ranks. */
static void encode_fixed(struct encoder *encoder, const struct wire_record *record)
{
    encode_number(encoder, record->type, 1);
    switch (record->type) {
    case WIRE_IDS:
    case WIRE_RETIRE:
        encode_number(encoder, (uint64_t)record->set, 4);
        encode_number(encoder, record->first_id, 4);
        encode_number(encoder, record->id_span, 4);
        break;
    case WIRE_EAGER:
        encode_number(encoder, (uint64_t)record->set, 4);
        encode_number(encoder, record->id, 4);
        encode_number(encoder, (uint64_t)record->inputs.count, 2);
        encode_number(encoder, (uint64_t)record->inputs.input_bytes, 2);
        break;
    case WIRE_NEW:
        encode_number(encoder, record->id, 4);
        encode_number(encoder, (uint64_t)(record->backend + 1), 1);
        encode_number(encoder, record->nccl, 1);
        encode_number(encoder, (uint64_t)(record->absent + 1), 4);
        encode_number(encoder, (uint64_t)record->members, 4);
        break;
    case WIRE_JOINED:
        encode_number(encoder, (uint64_t)record->set, 4);
        encode_number(encoder, (uint64_t)record->rank, 4);
        encode_number(encoder, record->backends, 4);
        break;
    case WIRE_LEAVING:
        encode_number(encoder, (uint64_t)record->rank, 4);
        break;
    case WIRE_STALL_NOTICE:
        encode_number(encoder, (uint64_t)record->time_us, 8);
        encode_number(encoder, record->batch, 8);
        encode_number(encoder, (uint64_t)(record->waits_for + 1), 4);
        break;
    case WIRE_STALL_QUERY:
        encode_number(encoder, (uint64_t)record->set, 4);
        encode_number(encoder, record->id, 4);
        encode_number(encoder, (uint64_t)record->time_us, 8);
        encode_number(encoder, record->batch, 8);
        encode_name(encoder, record->name);
        break;
    case WIRE_STALL_REPLY:
        encode_number(encoder, (uint64_t)record->set, 4);
        encode_number(encoder, record->id, 4);
        encode_number(encoder, (uint64_t)record->stall->missing, 4);
        encode_number(encoder, (uint64_t)record->stall->waiting, 4);
        encode_number(encoder, (uint64_t)record->stall->moving, 4);
        encode_number(encoder, (uint64_t)record->stall->named, 1);
        break;
    case WIRE_TUNE:
        encode_number(encoder, (uint64_t)record->settings.fusion_bytes, 8);
        encode_number(encoder, (uint64_t)record->settings.chunk_bytes, 8);
        encode_number(encoder, (uint64_t)record->settings.inflight, 8);
        break;
    case WIRE_MISMATCH:
    case WIRE_UNIT:
    case WIRE_STALL_PING:
    case WIRE_STALL_PONG:
        break;
    }
}

void wire_put(struct wire_writer *writer, const struct wire_record *record)
{
    size_t name_bytes = record->type == WIRE_STALL_QUERY ? HVD_MAX_NAME : 0;
    struct encoder encoder = begin_part(writer, FIXED_BYTES + name_bytes);
    encode_fixed(&encoder, record);
    end(writer, &encoder);
    if (record->type == WIRE_IDS || record->type == WIRE_RETIRE)
        wire_put_bytes(writer, record->bits, ((size_t)record->id_span + 7) / 8);
    if (record->type == WIRE_EAGER)
        wire_put_bytes(writer, record->inputs.blocks, eager_bytes(&record->inputs));
    if (record->type == WIRE_NEW || record->type == WIRE_MISMATCH || record->type == WIRE_STALL_NOTICE)
        put_proposal(writer, &record->proposal);
    if (record->type == WIRE_MISMATCH)
        put_proposal(writer, &record->other);
    if (record->type == WIRE_STALL_REPLY)
        put_stall_ranks(writer, record->stall);
}

void wire_put_ids(struct wire_writer *writer, enum wire_type type, hvd_set set, const uint32_t *ids,
                  size_t count)
{
    size_t first = 0;
    while (first < count) {
        size_t behind = first + 1;
        while (behind < count && ids[behind] - ids[behind - 1] <= IDS_GAP)
            behind++;
        struct wire_record record = {
            .type = type, .set = set, .first_id = ids[first], .id_span = ids[behind - 1] - ids[first] + 1};
        size_t bitmap_bytes = ((size_t)record.id_span + 7) / 8;
        struct encoder encoder = begin_part(writer, FIXED_BYTES + bitmap_bytes);
        encode_fixed(&encoder, &record);
        if (encoder.failed) {
            writer->failed = true;
            return;
        }
        memset(encoder.at, 0, bitmap_bytes);
        for (size_t i = first; i < behind; i++) {
            uint32_t bit = ids[i] - ids[first];
            encoder.at[bit / 8] = (unsigned char)(encoder.at[bit / 8] | 1u << bit % 8);
        }
        encoder.at += bitmap_bytes;
        end(writer, &encoder);
        first = behind;
    }
}

void wire_free(struct wire_writer *writer)
{
    free(writer->bytes);
    memset(writer, 0, sizeof(*writer));
}

void wire_reset(struct wire_writer *writer)
{
    if (writer->capacity > KEPT_BYTES)
        wire_free(writer);
    writer->length = 0;
    writer->failed = false;
}

void wire_clear(struct wire_record *record)
{
    desc_release(record->proposal.desc);
    desc_release(record->other.desc);
    free(record->stall);
    record->proposal.desc = NULL;
    record->other.desc = NULL;
    record->stall = NULL;
}
