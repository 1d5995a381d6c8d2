/* wire.c: records of the negotiation to bytes. Pure. */
#include "negotiate/wire.h"

#include <stdlib.h>
#include <string.h>

/* A new IDS record costs 13 bytes; a gap longer than that many bits of bitmap is cheaper skipped. */
#define IDS_GAP 104

/* Memory that an empty message keeps for the next. Those with descriptions are long, but rare: on each link
 * one of a first round would be kept for ever. */
#define KEPT_BYTES 4096

static unsigned char *reserve(struct wire_writer *writer, size_t more)
{
    if (writer->failed)
        return NULL;
    if (writer->capacity - writer->length < more) {
        size_t capacity = 2 * writer->capacity + more + 256;
        unsigned char *bytes = realloc(writer->bytes, capacity);
        if (bytes == NULL) {
            writer->failed = true;
            return NULL;
        }
        writer->bytes = bytes;
        writer->capacity = capacity;
    }
    unsigned char *at = writer->bytes + writer->length;
    writer->length += more;
    return at;
}

static void put_number(struct wire_writer *writer, uint64_t value, size_t byte_count)
{
    unsigned char *at = reserve(writer, byte_count);
    for (size_t i = 0; at != NULL && i < byte_count; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

void wire_put_bytes(struct wire_writer *writer, const void *bytes, size_t length)
{
    unsigned char *at = length > 0 ? reserve(writer, length) : NULL;
    if (at != NULL)
        memcpy(at, bytes, length);
}

static void put_factor(struct wire_writer *writer, double factor)
{
    uint64_t bits = 0;
    memcpy(&bits, &factor, sizeof(bits));
    put_number(writer, bits, 8);
}

static void put_tensor(struct wire_writer *writer, const struct desc_tensor *tensor)
{
    size_t name_length = strlen(tensor->name);
    put_number(writer, tensor->dtype, 1);
    put_number(writer, (uint64_t)tensor->ndim, 1);
    for (int i = 0; i < tensor->ndim; i++)
        put_number(writer, (uint64_t)tensor->shape[i], 8);
    put_number(writer, name_length, 1);
    wire_put_bytes(writer, tensor->name, name_length);
}

static void put_proposal(struct wire_writer *writer, const struct wire_proposal *proposal)
{
    const struct desc *desc = proposal->desc;
    put_number(writer, (uint64_t)proposal->rank, 4);
    put_number(writer, proposal->backends, 4);
    put_number(writer, desc->kind, 1);
    put_number(writer, (uint64_t)desc->set, 4);
    put_number(writer, desc->op, 1);
    put_number(writer, desc->wire, 1);
    put_factor(writer, desc->prescale);
    put_factor(writer, desc->postscale);
    put_number(writer, (uint64_t)desc->root, 4);
    put_number(writer, desc->grouped, 1);
    put_number(writer, (uint64_t)desc->tensor_count, 2);
    for (int i = 0; i < desc->tensor_count; i++)
        put_tensor(writer, &desc->tensors[i]);
}

static void put_bitmap(struct wire_writer *writer, const struct wire_record *record)
{
    put_number(writer, (uint64_t)record->set, 4);
    put_number(writer, record->first_id, 4);
    put_number(writer, record->id_span, 4);
    wire_put_bytes(writer, record->bits, ((size_t)record->id_span + 7) / 8);
}

static void put_stall_reply(struct wire_writer *writer, const struct wire_record *record)
{
    const struct stall_report *stall = record->stall;
    put_number(writer, (uint64_t)record->set, 4);
    put_number(writer, record->id, 4);
    put_number(writer, (uint64_t)stall->missing, 4);
    put_number(writer, (uint64_t)stall->named, 1);
    for (int i = 0; i < stall->named; i++) {
        size_t length = strlen(stall->ranks[i].last);
        put_number(writer, (uint64_t)stall->ranks[i].rank, 4);
        put_number(writer, stall->ranks[i].state, 1);
        put_number(writer, length, 2);
        wire_put_bytes(writer, stall->ranks[i].last, length);
    }
}

static void put_stall_query(struct wire_writer *writer, const struct wire_record *record)
{
    size_t length = strlen(record->name);
    put_number(writer, (uint64_t)record->set, 4);
    put_number(writer, record->id, 4);
    put_number(writer, (uint64_t)record->time_us, 8);
    put_number(writer, length, 1);
    wire_put_bytes(writer, record->name, length);
}

static void put_settings(struct wire_writer *writer, const struct tuned_settings *settings)
{
    put_number(writer, (uint64_t)settings->fusion_bytes, 8);
    put_number(writer, (uint64_t)settings->chunk_bytes, 8);
    put_number(writer, (uint64_t)settings->inflight, 8);
}

void wire_put(struct wire_writer *writer, const struct wire_record *record)
{
    put_number(writer, record->type, 1);
    switch (record->type) {
    case WIRE_IDS:
    case WIRE_RETIRE:
        put_bitmap(writer, record);
        break;
    case WIRE_NEW:
        put_number(writer, record->id, 4);
        put_number(writer, (uint64_t)(record->backend + 1), 1);
        put_number(writer, (uint64_t)(record->absent + 1), 4);
        put_number(writer, (uint64_t)record->members, 4);
        put_proposal(writer, &record->proposal);
        break;
    case WIRE_MISMATCH:
        put_proposal(writer, &record->proposal);
        put_proposal(writer, &record->other);
        break;
    case WIRE_JOINED:
        put_number(writer, (uint64_t)record->set, 4);
        put_number(writer, (uint64_t)record->rank, 4);
        put_number(writer, record->backends, 4);
        break;
    case WIRE_LEAVING:
        put_number(writer, (uint64_t)record->rank, 4);
        break;
    case WIRE_UNIT:
        break;
    case WIRE_STALL_NOTICE:
        put_number(writer, (uint64_t)record->time_us, 8);
        put_proposal(writer, &record->proposal);
        break;
    case WIRE_STALL_QUERY:
        put_stall_query(writer, record);
        break;
    case WIRE_STALL_REPLY:
        put_stall_reply(writer, record);
        break;
    case WIRE_TUNE:
        put_settings(writer, &record->settings);
        break;
    }
}

void wire_put_ids(struct wire_writer *writer, enum wire_type type, hvd_set set, const uint32_t *ids,
                  size_t count)
{
    size_t begin = 0;
    while (begin < count) {
        size_t end = begin + 1;
        while (end < count && ids[end] - ids[end - 1] <= IDS_GAP)
            end++;
        uint32_t span = ids[end - 1] - ids[begin] + 1;
        put_number(writer, type, 1);
        put_number(writer, (uint64_t)set, 4);
        put_number(writer, ids[begin], 4);
        put_number(writer, span, 4);
        unsigned char *bits = reserve(writer, ((size_t)span + 7) / 8);
        if (bits == NULL)
            return;
        memset(bits, 0, ((size_t)span + 7) / 8);
        for (size_t i = begin; i < end; i++) {
            uint32_t bit = ids[i] - ids[begin];
            bits[bit / 8] = (unsigned char)(bits[bit / 8] | 1u << bit % 8);
        }
        begin = end;
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
