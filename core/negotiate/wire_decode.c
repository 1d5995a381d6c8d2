/* wire_decode.c: records of the negotiation from bytes, which are hostile. Pure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "negotiate/wire.h"
#include "base/backend_id.h"
#include "base/dtype.h"

/* The least that a tensor takes: type, dimensions, length of the name, one byte of it. */
#define TENSOR_LEAST_BYTES 4

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

/* The number of a process set, or a root: what else is asked of it depends on the kind. */
static bool get_count(struct wire_reader *reader, int *valuep)
{
    uint64_t value = 0;
    if (!get_below(reader, 4, UINT64_C(1) << 31, &value))
        return false;
    *valuep = (int)value;
    return true;
}

static bool get_backends(struct wire_reader *reader, uint32_t *backendsp)
{
    uint64_t backends = 0;
    if (!get_below(reader, 4, UINT64_C(1) << BACKEND_COUNT, &backends))
        return false;
    *backendsp = (uint32_t)backends;
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

/* A factor of 0, or one that is no number, is refused where it is given, so no peer has one. */
static bool get_factor(struct wire_reader *reader, double *factorp)
{
    uint64_t bits = 0;
    if (!get_number(reader, 8, &bits))
        return false;
    memcpy(factorp, &bits, sizeof(bits));
    return isfinite(*factorp) && *factorp != 0;
}

static bool get_tensor(struct wire_reader *reader, struct desc_tensor *tensor)
{
    uint64_t dtype = 0;
    uint64_t ndim = 0;
    if (!get_number(reader, 1, &dtype) || dtype_name((enum hvd_dtype)dtype) == NULL ||
        !get_below(reader, 1, HVD_MAX_DIMS + 1, &ndim))
        return false;
    tensor->dtype = (enum hvd_dtype)dtype;
    tensor->ndim = (int)ndim;
    for (int i = 0; i < tensor->ndim; i++) {
        uint64_t extent = 0;
        if (!get_below(reader, 8, UINT64_C(1) << 63, &extent))
            return false;
        tensor->shape[i] = (int64_t)extent;
    }
    return get_name(reader, tensor->name);
}

/* Are the tensors of a size that can be in memory, all together too? */
static bool has_sane_size(const struct desc *desc)
{
    int64_t total = 0;
    for (int i = 0; i < desc->tensor_count; i++) {
        int64_t count = desc_count(&desc->tensors[i]);
        int64_t bytes = count < 0 ? 0 : count * (int64_t)dtype_bytes(desc->tensors[i].dtype);
        if (count < 0 || __builtin_add_overflow(total, bytes, &total))
            return false;
    }
    return true;
}

/* What only some kinds may be. */
static bool is_sane(const struct desc *desc, int rank_count)
{
    const struct desc_tensor *first = &desc->tensors[0];
    switch (desc->kind) {
    case DESC_ALLREDUCE:
    case DESC_REDUCESCATTER:
    case DESC_ALLGATHER:
        return has_sane_size(desc);
    case DESC_BROADCAST:
        return !desc->grouped && desc->root < rank_count && has_sane_size(desc);
    case DESC_ALLTOALL:
        return !desc->grouped && has_sane_size(desc);
    case DESC_BARRIER:
        return !desc->grouped;
    case DESC_SET_ADD:
        return !desc->grouped && desc->set == HVD_ALL_RANKS && first->ndim == 2 && first->shape[0] >= 1 &&
               first->shape[0] <= rank_count;
    case DESC_SET_REMOVE:
        return !desc->grouped && desc->set == HVD_ALL_RANKS && desc->root >= 1 &&
               strcmp(first->name, DESC_SET_REMOVE_NAME) == 0;
    case DESC_SHUTDOWN:
        return !desc->grouped && desc->set == HVD_ALL_RANKS && strcmp(first->name, DESC_SHUTDOWN_NAME) == 0;
    case DESC_JOIN: /* has records of its own */
    case DESC_KIND_COUNT:
        break;
    }
    return false;
}

static bool get_desc_header(struct wire_reader *reader, struct desc *desc, uint64_t *tensor_countp)
{
    uint64_t kind = 0;
    uint64_t op = 0;
    uint64_t wire = 0;
    uint64_t grouped = 0;
    if (!get_below(reader, 1, DESC_KIND_COUNT, &kind) || !get_count(reader, &desc->set) ||
        !get_number(reader, 1, &op) || !get_number(reader, 1, &wire) ||
        !get_factor(reader, &desc->prescale) || !get_factor(reader, &desc->postscale) ||
        !get_count(reader, &desc->root) || !get_below(reader, 1, 2, &grouped) ||
        !get_below(reader, 2, HVD_MAX_GROUP + 1, tensor_countp))
        return false;
    if (op_name((enum hvd_op)op) == NULL || wire_name((enum hvd_wire)wire) == NULL)
        return false;
    desc->kind = (enum desc_kind)kind;
    desc->op = (enum hvd_op)op;
    desc->wire = (enum hvd_wire)wire;
    desc->grouped = grouped == 1;
    return *tensor_countp >= 1 && (desc->grouped || *tensor_countp == 1) &&
           *tensor_countp * TENSOR_LEAST_BYTES <= reader->left;
}

static int get_proposal(struct wire_reader *reader, struct wire_proposal *proposal)
{
    struct desc header = {.tensor_count = 0};
    uint64_t tensor_count = 0;
    if (!get_rank(reader, &proposal->rank) || !get_backends(reader, &proposal->backends) ||
        !get_desc_header(reader, &header, &tensor_count))
        return HVD_ERR_SYSTEM;
    struct desc *desc = desc_create((int)tensor_count);
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
    desc->grouped = header.grouped;
    for (int i = 0; i < desc->tensor_count; i++) {
        if (!get_tensor(reader, &desc->tensors[i]))
            return HVD_ERR_SYSTEM;
    }
    return is_sane(desc, reader->rank_count) ? HVD_OK : HVD_ERR_SYSTEM;
}

static int get_bitmap(struct wire_reader *reader, struct wire_record *record)
{
    uint64_t first = 0;
    uint64_t span = 0;
    if (!get_count(reader, &record->set) || !get_number(reader, 4, &first) || !get_number(reader, 4, &span))
        return HVD_ERR_SYSTEM;
    size_t byte_count = ((size_t)span + 7) / 8;
    if (span == 0 || first + span > (uint64_t)WIRE_MAX_ID + 1 || reader->left < byte_count)
        return HVD_ERR_SYSTEM;
    if (span % 8 != 0 && reader->at[byte_count - 1] >> span % 8 != 0)
        return HVD_ERR_SYSTEM;
    record->first_id = (uint32_t)first;
    record->id_span = (uint32_t)span;
    record->bits = reader->at;
    reader->at += byte_count;
    reader->left -= byte_count;
    return HVD_OK;
}

static int get_new(struct wire_reader *reader, struct wire_record *record)
{
    uint64_t id = 0;
    uint64_t backend = 0;
    uint64_t absent = 0;
    uint64_t members = 0;
    if (!get_number(reader, 4, &id) || !get_below(reader, 1, BACKEND_COUNT + 1, &backend) ||
        !get_below(reader, 4, (uint64_t)reader->rank_count + 1, &absent) ||
        !get_below(reader, 4, (uint64_t)reader->rank_count + 1, &members))
        return HVD_ERR_SYSTEM;
    record->id = (uint32_t)id;
    record->backend = (int)backend - 1;
    record->absent = (int)absent - 1;
    record->members = (int)members;
    return get_proposal(reader, &record->proposal);
}

static int get_mismatch(struct wire_reader *reader, struct wire_record *record)
{
    int rc = get_proposal(reader, &record->proposal);
    if (rc == HVD_OK)
        rc = get_proposal(reader, &record->other);
    if (rc == HVD_OK && (record->proposal.desc->set != record->other.desc->set ||
                         strcmp(desc_name(record->proposal.desc), desc_name(record->other.desc)) != 0))
        rc = HVD_ERR_SYSTEM;
    return rc;
}

static int get_time(struct wire_reader *reader, int64_t *time_usp)
{
    uint64_t time_us = 0;
    if (!get_below(reader, 8, UINT64_C(1) << 62, &time_us))
        return HVD_ERR_SYSTEM;
    *time_usp = (int64_t)time_us;
    return HVD_OK;
}

static bool get_stall_rank(struct wire_reader *reader, struct stall_rank *rank)
{
    uint64_t state = 0;
    uint64_t length = 0;
    if (!get_rank(reader, &rank->rank) || !get_below(reader, 1, STALL_SILENT + 1, &state) ||
        !get_below(reader, 2, sizeof(rank->last), &length) || reader->left < length ||
        memchr(reader->at, 0, length) != NULL)
        return false;
    rank->state = (enum stall_state)state;
    memcpy(rank->last, reader->at, length);
    reader->at += length;
    reader->left -= length;
    return true;
}

static int get_stall_reply(struct wire_reader *reader, struct wire_record *record)
{
    uint64_t id = 0;
    uint64_t missing = 0;
    uint64_t named = 0;
    if (!get_count(reader, &record->set) || !get_number(reader, 4, &id) ||
        !get_below(reader, 4, (uint64_t)reader->rank_count + 1, &missing) ||
        !get_below(reader, 1, STALL_MAX_RANKS + 1, &named) || named > missing)
        return HVD_ERR_SYSTEM;
    record->id = (uint32_t)id;
    record->stall = calloc(1, sizeof(*record->stall));
    if (record->stall == NULL)
        return HVD_ERR_NO_MEMORY;
    record->stall->missing = (int)missing;
    record->stall->named = (int)named;
    for (int i = 0; i < record->stall->named; i++) {
        if (!get_stall_rank(reader, &record->stall->ranks[i]))
            return HVD_ERR_SYSTEM;
    }
    return HVD_OK;
}

static int get_stall_query(struct wire_reader *reader, struct wire_record *record)
{
    uint64_t id = 0;
    if (!get_count(reader, &record->set) || !get_number(reader, 4, &id))
        return HVD_ERR_SYSTEM;
    record->id = (uint32_t)id;
    int rc = get_time(reader, &record->time_us);
    return rc == HVD_OK && !get_name(reader, record->name) ? HVD_ERR_SYSTEM : rc;
}

static int get_stall_notice(struct wire_reader *reader, struct wire_record *record)
{
    int rc = get_time(reader, &record->time_us);
    return rc == HVD_OK ? get_proposal(reader, &record->proposal) : rc;
}

static bool get_settings(struct wire_reader *reader, struct tuned_settings *settings)
{
    uint64_t fusion = 0;
    uint64_t chunk = 0;
    uint64_t inflight = 0;
    if (!get_below(reader, 8, (uint64_t)INT64_MAX + 1, &fusion) ||
        !get_below(reader, 8, (uint64_t)INT64_MAX + 1, &chunk) ||
        !get_below(reader, 8, (uint64_t)INT64_MAX + 1, &inflight))
        return false;
    *settings = (struct tuned_settings){(int64_t)fusion, (int64_t)chunk, (int64_t)inflight};
    return tuned_settings_valid(settings);
}

static int get_body(struct wire_reader *reader, struct wire_record *record)
{
    bool good = false;
    switch (record->type) {
    case WIRE_IDS:
    case WIRE_RETIRE:
        return get_bitmap(reader, record);
    case WIRE_NEW:
        return get_new(reader, record);
    case WIRE_MISMATCH:
        return get_mismatch(reader, record);
    case WIRE_JOINED:
        good = get_count(reader, &record->set) && get_rank(reader, &record->rank) &&
               get_backends(reader, &record->backends);
        break;
    case WIRE_LEAVING:
        good = get_rank(reader, &record->rank);
        break;
    case WIRE_UNIT:
        good = true;
        break;
    case WIRE_STALL_NOTICE:
        return get_stall_notice(reader, record);
    case WIRE_STALL_QUERY:
        return get_stall_query(reader, record);
    case WIRE_STALL_REPLY:
        return get_stall_reply(reader, record);
    case WIRE_TUNE:
        good = get_settings(reader, &record->settings);
        break;
    }
    return good ? HVD_OK : HVD_ERR_SYSTEM;
}

int wire_get(struct wire_reader *reader, struct wire_record *record, struct hvd_error *err)
{
    if (reader->left == 0)
        return HVD_IN_PROGRESS;
    uint64_t type = 0;
    size_t left = reader->left;
    get_number(reader, 1, &type);
    memset(record, 0, sizeof(*record));
    record->type = (enum wire_type)type;
    int rc = get_body(reader, record);
    if (rc == HVD_OK)
        return HVD_OK;
    wire_clear(record);
    if (rc == HVD_ERR_NO_MEMORY)
        return error_set(err, rc, "no memory for what another rank has submitted");
    return error_set(err, rc, "a record of type %d, %zu bytes before the end of its message, is malformed",
                     (int)type, left);
}
