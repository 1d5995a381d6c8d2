/* wire.c: records of the negotiation to and from bytes. Pure; the reader takes hostile bytes. */
#include "flow/wire.h"

#include <stdlib.h>
#include <string.h>

#include "plane/plane.h"

/* A new IDS record costs 9 bytes; a gap longer than that many bits of bitmap is cheaper skipped. */
#define IDS_GAP 72

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

static void put_desc(struct wire_writer *writer, const struct desc *desc)
{
    size_t name_length = strlen(desc->name);
    put_number(writer, desc->kind, 1);
    put_number(writer, desc->dtype, 1);
    put_number(writer, desc->op, 1);
    put_number(writer, (uint64_t)desc->root, 4);
    put_number(writer, desc->planes, 4);
    put_number(writer, (uint64_t)desc->ndim, 1);
    for (int i = 0; i < desc->ndim; i++)
        put_number(writer, (uint64_t)desc->shape[i], 8);
    put_number(writer, name_length, 1);
    unsigned char *at = reserve(writer, name_length);
    if (at != NULL)
        memcpy(at, desc->name, name_length);
}

void wire_put(struct wire_writer *writer, const struct wire_record *record)
{
    put_number(writer, record->type, 1);
    switch (record->type) {
    case WIRE_IDS: {
        size_t byte_count = ((size_t)record->id_span + 7) / 8;
        put_number(writer, record->first_id, 4);
        put_number(writer, record->id_span, 4);
        unsigned char *at = reserve(writer, byte_count);
        if (at != NULL)
            memcpy(at, record->bits, byte_count);
        break;
    }
    case WIRE_NEW:
        put_number(writer, (uint64_t)record->rank, 4);
        put_number(writer, record->id, 4);
        put_number(writer, (uint64_t)(record->plane + 1), 1);
        put_desc(writer, &record->desc);
        break;
    case WIRE_MISMATCH:
        put_number(writer, (uint64_t)record->rank, 4);
        put_desc(writer, &record->desc);
        put_number(writer, (uint64_t)record->other_rank, 4);
        put_desc(writer, &record->other);
        break;
    case WIRE_LEAVING:
        put_number(writer, (uint64_t)record->rank, 4);
        break;
    }
}

void wire_put_ids(struct wire_writer *writer, const uint32_t *ids, size_t count)
{
    size_t begin = 0;
    while (begin < count) {
        size_t end = begin + 1;
        while (end < count && ids[end] - ids[end - 1] <= IDS_GAP)
            end++;
        uint32_t span = ids[end - 1] - ids[begin] + 1;
        put_number(writer, WIRE_IDS, 1);
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

void wire_reset(struct wire_writer *writer)
{
    writer->length = 0;
    writer->failed = false;
}

void wire_free(struct wire_writer *writer)
{
    free(writer->bytes);
    memset(writer, 0, sizeof(*writer));
}

static bool get_number(struct wire_reader *reader, size_t byte_count, uint64_t *valuep)
{
    if (reader->left < byte_count)
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < byte_count; i++)
        value |= (uint64_t)reader->at[i] << (8 * i);
    reader->at += byte_count;
    reader->left -= byte_count;
    *valuep = value;
    return true;
}

/* A number below [limit]. */
static bool get_below(struct wire_reader *reader, size_t byte_count, uint64_t limit, uint64_t *valuep)
{
    return get_number(reader, byte_count, valuep) && *valuep < limit;
}

static bool get_rank(struct wire_reader *reader, int *rankp)
{
    uint64_t rank = 0;
    if (!get_below(reader, 4, (uint64_t)reader->rank_count, &rank))
        return false;
    *rankp = (int)rank;
    return true;
}

static bool get_name(struct wire_reader *reader, char *name)
{
    uint64_t length = 0;
    if (!get_number(reader, 1, &length) || length == 0 || length > HVD_MAX_NAME || reader->left < length)
        return false;
    if (memchr(reader->at, 0, length) != NULL)
        return false;
    memcpy(name, reader->at, length);
    name[length] = 0;
    reader->at += length;
    reader->left -= length;
    return true;
}

static bool get_desc(struct wire_reader *reader, struct desc *desc)
{
    uint64_t kind = 0;
    uint64_t dtype = 0;
    uint64_t op = 0;
    uint64_t planes = 0;
    uint64_t ndim = 0;
    memset(desc, 0, sizeof(*desc));
    if (!get_below(reader, 1, DESC_KIND_COUNT, &kind) || !get_number(reader, 1, &dtype) ||
        !get_number(reader, 1, &op) || !get_rank(reader, &desc->root) ||
        !get_below(reader, 4, UINT64_C(1) << PLANE_COUNT, &planes) ||
        !get_below(reader, 1, HVD_MAX_DIMS + 1, &ndim))
        return false;
    if (dtype_name((enum hvd_dtype)dtype) == NULL || op_name((enum hvd_op)op) == NULL)
        return false;
    desc->kind = (enum desc_kind)kind;
    desc->dtype = (enum hvd_dtype)dtype;
    desc->op = (enum hvd_op)op;
    desc->planes = (uint32_t)planes;
    desc->ndim = (int)ndim;
    for (int i = 0; i < desc->ndim; i++) {
        uint64_t extent = 0;
        if (!get_below(reader, 8, UINT64_C(1) << 63, &extent))
            return false;
        desc->shape[i] = (int64_t)extent;
    }
    return get_name(reader, desc->name) && desc_count(desc) >= 0;
}

static bool get_ids(struct wire_reader *reader, struct wire_record *record)
{
    uint64_t first = 0;
    uint64_t span = 0;
    if (!get_number(reader, 4, &first) || !get_number(reader, 4, &span))
        return false;
    size_t byte_count = ((size_t)span + 7) / 8;
    if (span == 0 || first + span > (uint64_t)WIRE_MAX_ID + 1 || reader->left < byte_count)
        return false;
    if (span % 8 != 0 && reader->at[byte_count - 1] >> span % 8 != 0)
        return false;
    record->first_id = (uint32_t)first;
    record->id_span = (uint32_t)span;
    record->bits = reader->at;
    reader->at += byte_count;
    reader->left -= byte_count;
    return true;
}

static bool get_new(struct wire_reader *reader, struct wire_record *record)
{
    uint64_t id = 0;
    uint64_t plane = 0;
    if (!get_rank(reader, &record->rank) || !get_below(reader, 4, (uint64_t)WIRE_MAX_ID + 1, &id) ||
        !get_below(reader, 1, PLANE_COUNT + 1, &plane))
        return false;
    record->id = (uint32_t)id;
    record->plane = (int)plane - 1;
    return get_desc(reader, &record->desc);
}

static bool get_body(struct wire_reader *reader, struct wire_record *record)
{
    switch (record->type) {
    case WIRE_IDS:
        return get_ids(reader, record);
    case WIRE_NEW:
        return get_new(reader, record);
    case WIRE_MISMATCH:
        return get_rank(reader, &record->rank) && get_desc(reader, &record->desc) &&
               get_rank(reader, &record->other_rank) && get_desc(reader, &record->other) &&
               strcmp(record->desc.name, record->other.name) == 0;
    case WIRE_LEAVING:
        return get_rank(reader, &record->rank);
    }
    return false;
}

int wire_get(struct wire_reader *reader, struct wire_record *record, struct hvd_error *err)
{
    if (reader->left == 0)
        return HVD_IN_PROGRESS;
    uint64_t type = 0;
    size_t left = reader->left;
    get_number(reader, 1, &type);
    record->type = (enum wire_type)type;
    if (!get_body(reader, record))
        return error_set(err, HVD_ERR_SYSTEM,
                         "a record of type %d, %zu bytes before the end of its message, is malformed",
                         (int)type, left);
    return HVD_OK;
}
